//! Runs policies from outside the registry.

use std::collections::HashMap;
use std::sync::Arc;

use ebbpool_lab::{Pricing, TraceSummary};
use ebbpool_sim::{DeviceAtStart, GuestCell, Progress, SimOptions, SweepRow, simulate_guests};

use super::cell_group::CellGroup;
use super::plan::{Cell, CellPolicy, NamedGuest};
use super::runner::{CellResult, Runner, references};
use crate::error::ExperimentError;

impl Runner<'_> {
    /// Runs a policy from outside the registry, whose results are not stored.
    pub(crate) fn run_guest(
        &self,
        group: &CellGroup,
        guest: &NamedGuest,
        time_lines: bool,
        measured: &mut HashMap<Cell, CellResult>,
    ) -> Result<(), ExperimentError> {
        let config = &group.config;
        let source = self.traces.source(&config.trace)?;
        let pricings = group.pricings(&source)?;
        let Some(first) = pricings.first() else {
            return Ok(());
        };
        let resolved = self.resolved(group, &source)?;
        let options = SimOptions {
            warmup: resolved.warmup,
            ..self.options(config)
        };
        let (at, simulated) = guest_cells(guest, &resolved.frames, &pricings);
        let device = first.device.as_ref().map(DeviceAtStart::make).transpose()?;
        let report = |share: f64| self.clock.advance(share);
        let progress = Progress {
            report: &report,
            stop: self.events.stop(),
        };
        self.clock
            .begin(group.kind(), group.work(references(&source)?));
        let (outcome, extras) =
            simulate_guests(&source, &simulated, device.as_ref(), &options, &progress)?;
        self.clock.end(0.0);
        self.computed.set(self.computed.get() + at.len() as u64);
        let of_trace = TraceSummary {
            label: source.label(),
            metadata: &resolved.metadata,
            facts: outcome.facts,
            warmup: resolved.warmup,
            at_end: options.at_end,
            checkpoints: None,
        };
        let results = at.into_iter().zip(outcome.counts).zip(extras);
        for (((size, price), counts), (line, device)) in results {
            let row = SweepRow {
                policy: 0,
                size,
                asymmetry: price,
                frames: resolved.frames[size],
                counts,
                time_line: time_lines.then(|| Arc::new(line)),
                device,
            };
            let name = guest.0.name().to_string();
            let result = self.measured(&of_trace, name, &pricings[price], &row);
            let cell = Cell {
                config: config.clone(),
                policy: CellPolicy::Guest(guest.clone()),
                frames: group.frames[size].clone(),
                asymmetry: group.asymmetries[price].clone(),
            };
            measured.insert(cell, result);
        }
        Ok(())
    }
}

/// A cell of the guest for each size and price, and the indexes of both.
fn guest_cells(
    guest: &NamedGuest,
    frames: &[u64],
    pricings: &[Pricing],
) -> (Vec<(usize, usize)>, Vec<GuestCell>) {
    let sizes = frames.iter().enumerate();
    let cells = sizes.flat_map(|(size, &frames)| {
        let prices = pricings.iter().enumerate();
        prices.map(move |(price, pricing)| {
            let cell = GuestCell {
                policy: Arc::clone(&guest.0),
                frames,
                asymmetry: pricing.asymmetry.ratio(),
            };
            ((size, price), cell)
        })
    });
    cells.unzip()
}
