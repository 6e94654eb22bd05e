//! The errors of Two-Stack's estimates of miss ratios against measured ones, window by window
//! (FD-Buffer CIKM, table 4; TC, table 5).

use std::sync::atomic::Ordering;

use ebbpool_lab::{Lab, Observer, RunRequest, Sample, SimError, Warmup};
use ebbpool_policy::{Access, PoolEstimator};
use ebbpool_sim::ResultStore;
use ebbpool_trace::{Batch, Source};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use super::cell_values::MeasuredCell;
use super::format::ESTIMATORS;
use super::metric::{Metric, Values};
use super::plan::ExperimentCell;
use super::runner::{Runner, constant, counted_of, pricing_of, references};
use super::work::WorkKind;
use crate::error::ExperimentError;

/// References of a window. This is FD-Buffer's `interval` in the papers, and a multiple of the distance of
/// samples.
const WINDOW: u64 = 5000;

/// References from one sample to the next.
const SAMPLED: u64 = 1000;

/// The errors over a run, as a store has them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct EstimateErrors {
    /// Frames of the buffer.
    frames: u64,
    /// Mean errors in per cent of Pc, Pd and Pdw, for each of [`ESTIMATORS`].
    errors: [[f64; 3]; 2],
}

/// The counts of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// The clean pool's target during the window.
    target: u32,
    misses: u64,
    clean_hits: u64,
    /// The number of pages that became dirty.
    dirtied: u64,
}

/// Observes a run and records the counts of each window.
#[derive(Debug, Default)]
struct WindowObserver {
    all: Vec<Window>,
    target: u32,
    previous: WindowTotals,
}

#[derive(Clone, Copy, Debug, Default)]
struct WindowTotals {
    misses: u64,
    clean_hits: u64,
    /// Pages written back, plus those still dirty.
    dirtied: u64,
}

impl Observer for WindowObserver {
    const LISTENS: bool = true;

    fn counting(&mut self) {}

    fn write(&mut self, _page: u64) {}

    fn evict(&mut self, _page: u64) {}

    fn sample(&mut self, sample: &Sample) {
        if sample.references.is_multiple_of(WINDOW) {
            let now =
                WindowTotals { misses: sample.reads, clean_hits: sample.clean_hits, dirtied: sample.writes + sample.dirty };
            self.all.push(Window {
                target: self.target,
                misses: now.misses - self.previous.misses,
                clean_hits: now.clean_hits - self.previous.clean_hits,
                dirtied: now.dirtied - self.previous.dirtied,
            });
            self.previous = now;
        } else if sample.references % WINDOW == WINDOW - SAMPLED {
            // At the end of the window the advisor has already set the target of the next one.
            self.target = sample.gauges.target.map_or(0, |target| target as u32);
        }
    }
}

impl Window {
    /// The measured Pc, Pd and Pdw; `None` for a window without writes.
    fn measured(&self, writes: u64) -> Option<[f64; 3]> {
        let references = WINDOW as f64;
        let clean_misses = WINDOW - self.clean_hits;
        // A reference hits at most one pool.
        let dirty_misses = self.misses + self.clean_hits;
        (writes > 0)
            .then(|| [clean_misses as f64 / references, dirty_misses as f64 / references, self.dirtied as f64 / writes as f64])
    }
}

/// Sums of errors, and their numbers.
#[derive(Clone, Copy, Debug, Default)]
struct ErrorSums {
    sum: [f64; 3],
    count: [u64; 3],
}

impl ErrorSums {
    fn add(&mut self, measured: [f64; 3], estimated: [f64; 3]) {
        for at in 0..3 {
            if measured[at] > 0.0 {
                self.sum[at] += (measured[at] - estimated[at]).abs() / measured[at];
                self.count[at] += 1;
            }
        }
    }

    fn per_cent(&self) -> [f64; 3] {
        [0, 1, 2].map(|at| 100.0 * self.sum[at] / self.count[at] as f64)
    }
}

impl Runner<'_> {
    /// The errors over the run of this cell, with one result for each of [`ESTIMATORS`].
    pub(crate) fn estimates(&self, cell: &ExperimentCell) -> Result<Vec<MeasuredCell>, ExperimentError> {
        let config = &cell.config;
        let source = self.traces.source(&config.trace)?;
        let metadata = source.open()?.metadata().clone();
        let pricing = pricing_of(config, cell.asymmetry.as_ref(), &metadata)?;
        let simulated = cell.policy.supported(&pricing.capabilities)?;
        let suitable = simulated.registered().filter(|spec| {
            let interval = spec.spelled("interval");
            spec.entry().name == "fd-buffer" && interval.as_deref() == Some("5000")
        });
        let Some(spec) = suitable else {
            return Err(ExperimentError::Invalid(format!(
                "estimates need the policy fd-buffer with interval=5000, and this policy is {simulated}"
            )));
        };
        let size = cell.frames.get().clone();
        let asymmetry = pricing.asymmetry.ratio();
        let key = format!("estimates of {spec} memory={size} R={asymmetry:?} warmup={:?}", config.warmup.get());
        let results = self.settings.results.as_ref();
        let store = results.and_then(|results| results.for_trace(&source));
        let stored = store.as_ref().and_then(|store| store.get(&key));
        let stored = stored.and_then(|json| serde_json::from_slice(&json).ok());
        let EstimateErrors { frames, errors } = match stored {
            Some(errors) => {
                self.count(1, 0);
                errors
            }
            None => {
                let request = RunRequest::new(spec.clone(), size, constant(asymmetry)?);
                let errors = self.compute(&source, &request, config.warmup.get())?;
                if let (Some(store), Ok(value)) = (&store, serde_json::to_vec(&errors)) {
                    store.put(&key, &value);
                }
                errors
            }
        };
        let result = |errors: [f64; 3]| {
            let metrics = [Metric::PcError, Metric::PdError, Metric::PdwError];
            MeasuredCell {
                values: Values::from_iter(metrics.into_iter().zip(errors)),
                spec: spec.to_string(),
                frames,
                ..MeasuredCell::default()
            }
        };
        debug_assert_eq!(ESTIMATORS.len(), errors.len());
        Ok(errors.map(result).into())
    }

    fn compute(&self, source: &Source, request: &RunRequest, warmup: &Warmup) -> Result<EstimateErrors, ExperimentError> {
        // The run is one half of the work, and the estimators are the other one.
        let half = (WorkKind::Estimates, references(source)? / 2.0);
        let observer = WindowObserver::default();
        let ran = |lab: &Lab| lab.run_observed(source, request, observer);
        let (outcome, windows) = self.ask(half, |_| 1, ran)?;
        let (references, frames) = (outcome.result.references, outcome.result.frames);
        let warmup = warmup.to_references(references);
        counted_of(source, references, warmup)?;
        let mut summed = [ErrorSums::default(); 2];
        let mut estimators = Estimators::new(frames);
        let mut reader = source.open()?;
        let mut batch = Batch::new();
        self.clock.begin(half.0, half.1);
        for (at, window) in (0..).zip(&windows.all) {
            if self.events.stop().load(Ordering::Relaxed) {
                return Err(SimError::Interrupted.into());
            }
            if !reader.next_batch(&mut batch, WINDOW as usize)? {
                break;
            }
            let (estimated, writes) = estimators.window(&batch, window.target);
            let counts = at * WINDOW >= warmup && window.target > 0;
            let measured = window.measured(writes).filter(|_| counts);
            for (summed, estimated) in summed.iter_mut().zip(estimated) {
                if let Some((measured, estimated)) = measured.zip(estimated) {
                    summed.add(measured, estimated);
                }
            }
            let done = (at + 1) * WINDOW;
            self.clock.advance(done as f64 / references as f64);
        }
        self.clock.end(0.0);
        Ok(EstimateErrors { frames, errors: summed.map(|summed| summed.per_cent()) })
    }
}

/// Two-Stack's estimators with and without present conditions.
struct Estimators {
    both: [PoolEstimator; 2],
    numbers: HashMap<u64, u32>,
}

impl Estimators {
    fn new(frames: u64) -> Self {
        let frames = u32::try_from(frames).unwrap_or(u32::MAX);
        Estimators { both: [true, false].map(|conditions| PoolEstimator::new(frames, conditions)), numbers: HashMap::new() }
    }

    /// The estimates for a clean pool of `target` frames over a window, and the number of writes of the window.
    fn window(&mut self, batch: &Batch, target: u32) -> ([Option<[f64; 3]>; 2], u64) {
        let mut writes = 0;
        for (page, write) in batch.iter() {
            let next = self.numbers.len() as u32;
            let number = *self.numbers.entry(page).or_insert(next);
            writes += u64::from(write);
            for estimator in &mut self.both {
                estimator.reference(number, Access::from_write(write));
            }
        }
        (self.both.each_mut().map(|one| one.estimates(target)), writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_measures_the_miss_ratios_of_both_pools() {
        let window = Window { target: 3, misses: 1000, clean_hits: 3000, dirtied: 100 };
        // The dirty pool has 1000 hits.
        assert_eq!(window.measured(400), Some([0.4, 0.8, 0.25]));
        assert_eq!(window.measured(0), None);
    }

    #[test]
    fn errors_are_means_of_relative_errors() {
        let mut summed = ErrorSums::default();
        summed.add([0.5, 0.5, 0.0], [0.25, 1.0, 1.0]);
        summed.add([0.5, 0.5, 0.5], [0.5, 0.5, 0.25]);
        assert_eq!(summed.per_cent(), [25.0, 50.0, 50.0]);
    }
}
