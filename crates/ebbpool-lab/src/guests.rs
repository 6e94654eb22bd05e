//! Policies from outside the registry in a comparison.

use std::sync::Arc;

use ebbpool_sim::{
    DeviceAtStart, GuestCell, Progress, SimError, SimOptions, Store, Sweep, SweepResult, SweepRow,
    TraceFacts, simulate_guests,
};
use ebbpool_trace::Source;

use crate::compare::{CompareRequest, parts};
use crate::lab::Lab;
use crate::pricing::Pricing;

/// A cell of a guest, and the rows that it yields: of one guest, one size and some prices.
struct PlannedGuest {
    cell: GuestCell,
    policy: usize,
    size: usize,
    pricings: Vec<usize>,
}

impl Lab<'_> {
    /// A sweep without policies of the registry, to which the guests are added. It does not read the trace twice.
    pub(crate) fn without_policies(
        &self,
        sweep: &Sweep,
        source: &Source,
        store: &dyn Store,
    ) -> Result<SweepResult, SimError> {
        let resolved = self.with_progress(source.label(), |progress| {
            sweep.resolved(source, store, progress)
        })?;
        Ok(SweepResult {
            rows: Vec::new(),
            resolved,
            facts: TraceFacts::default(),
            from_store: 0,
            interrupted: false,
        })
    }

    /// Runs the guests of a request, and adds their rows behind those of the sweep, which has resolved the sizes and
    /// the warm-up. If the caller stops, the rows lack the unfinished results.
    ///
    /// # Errors
    ///
    /// As [`simulate_guests`]; [`SimError::Interrupted`] only if there is no result at all.
    pub(crate) fn add_guests(
        &self,
        request: &CompareRequest,
        sweep: &Sweep,
        pricings: &[Pricing],
        source: &Source,
        swept: &mut SweepResult,
    ) -> Result<(), SimError> {
        let parts = parts(pricings);
        for (done, part) in parts.iter().enumerate() {
            let report = |share: f64| {
                let share = (done as f64 + share) / parts.len() as f64;
                self.events.progress(source.label(), share.min(0.999));
            };
            let progress = Progress {
                report: &report,
                stop: self.events.stop(),
            };
            let planned = plan(request, sweep.policies.len(), pricings, part, swept);
            let cells: Vec<GuestCell> = planned.iter().map(|one| one.cell.clone()).collect();
            let device = part.first().and_then(|&at| pricings[at].device.as_ref());
            let device = device.map(DeviceAtStart::make).transpose()?;
            let options = SimOptions {
                warmup: swept.resolved.warmup,
                ..sweep.options.clone()
            };
            let passed = simulate_guests(source, &cells, device.as_ref(), &options, &progress);
            let (outcome, extras) = match passed {
                // Without any result there is no comparison.
                Err(SimError::Interrupted) if !swept.rows.is_empty() => {
                    swept.interrupted = true;
                    break;
                }
                passed => passed?,
            };
            swept.facts = outcome.facts;
            let results = planned.into_iter().zip(outcome.counts).zip(extras);
            for ((planned, counts), (line, device)) in results {
                let line = Arc::new(line);
                let row = |asymmetry| SweepRow {
                    policy: planned.policy,
                    size: planned.size,
                    asymmetry,
                    frames: planned.cell.frames,
                    counts,
                    time_line: Some(Arc::clone(&line)),
                    device: device.clone(),
                };
                swept.rows.extend(planned.pricings.iter().copied().map(row));
            }
        }
        self.events.progress(source.label(), 1.0);
        swept
            .rows
            .sort_by_key(|row| (row.asymmetry, row.policy, row.size));
        Ok(())
    }
}

/// The cells of all guests at some prices. A guest that ignores costs has one cell per size.
fn plan(
    request: &CompareRequest,
    registered: usize,
    pricings: &[Pricing],
    part: &[usize],
    swept: &SweepResult,
) -> Vec<PlannedGuest> {
    let mut planned = Vec::new();
    for (at, guest) in request.guests.iter().enumerate() {
        for (size, &frames) in swept.resolved.frames.iter().enumerate() {
            let groups: Vec<&[usize]> = match guest.looks_at_costs() {
                true => part.chunks(1).collect(),
                false => vec![part],
            };
            planned.extend(groups.into_iter().map(|group| PlannedGuest {
                cell: GuestCell {
                    policy: Arc::clone(guest),
                    frames,
                    asymmetry: pricings[group[0]].asymmetry.ratio(),
                },
                policy: registered + at,
                size,
                pricings: group.to_vec(),
            }));
        }
    }
    planned
}
