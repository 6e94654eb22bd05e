//! Checkpoints that the simulator makes for every policy.

use std::num::NonZeroU64;

use ebbpool_trace::Batch;

use crate::error::SimError;

/// When there is a checkpoint, which writes all dirty pages at once: as soon as one of the intervals has passed since the
/// last one, or since the trace began. Without any there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointIntervals {
    /// References.
    pub references: Option<NonZeroU64>,
    /// References that write.
    pub writes: Option<NonZeroU64>,
    /// µs by the times of the trace.
    pub micros: Option<NonZeroU64>,
}

impl CheckpointIntervals {
    /// True if the times of the references decide.
    pub(crate) fn asks_times(&self) -> bool {
        self.micros.is_some()
    }

    /// A key that distinguishes intervals.
    pub(crate) fn key(&self) -> String {
        let CheckpointIntervals { references, writes, micros } = self;
        format!("references={references:?} writes={writes:?} us={micros:?}")
    }
}

/// Finds the positions of the checkpoints in a trace, which are the same for every policy.
pub(crate) struct CheckpointClock {
    intervals: CheckpointIntervals,
    /// References, and those of them that wrote, since the last checkpoint.
    references: u64,
    writes: u64,
    /// When the last checkpoint began, or the trace; `None` before the first reference.
    begun_us: Option<u64>,
    /// The latest time so far.
    now_us: u64,
}

impl CheckpointClock {
    pub(crate) fn new(intervals: CheckpointIntervals) -> Self {
        CheckpointClock { intervals, references: 0, writes: 0, begun_us: None, now_us: 0 }
    }

    /// The positions in the trace of those references of the batch before which there is a checkpoint. `start` is the position
    /// of its first reference, and `trace` names the trace in an error.
    ///
    /// # Errors
    ///
    /// [`SimError::NoTimes`] if an interval is a time, and the batch has none.
    pub(crate) fn positions(&mut self, batch: &Batch, start: usize, trace: &str) -> Result<Vec<usize>, SimError> {
        if self.intervals.asks_times() && batch.requests.len() < batch.len() {
            return Err(SimError::NoTimes { trace: trace.into() });
        }
        let mut positions = Vec::new();
        for (at, &write) in batch.writes.iter().enumerate() {
            let time_us = batch.requests.get(at).map(|request| request.time_us);
            if self.is_due(time_us) {
                positions.push(start + at);
            }
            self.references += 1;
            self.writes += u64::from(write);
        }
        Ok(positions)
    }

    /// True if there is a checkpoint before a reference at this time, which is then taken to be the last one.
    fn is_due(&mut self, time_us: Option<u64>) -> bool {
        if let Some(time_us) = time_us {
            self.now_us = self.now_us.max(time_us);
        }
        let begun_us = *self.begun_us.get_or_insert(self.now_us);
        let elapsed = self.now_us - begun_us;
        let has_passed = |interval: Option<NonZeroU64>, count: u64| interval.is_some_and(|interval| count >= interval.get());
        let CheckpointIntervals { references, writes, micros } = self.intervals;
        let due = has_passed(references, self.references) || has_passed(writes, self.writes) || has_passed(micros, elapsed);
        if due {
            // Intervals of time are those of the server's clock, whenever a reference shows it.
            let late = micros.map_or(0, |interval| elapsed % interval);
            let late = if has_passed(micros, elapsed) { late } else { 0 };
            self.begun_us = Some(self.now_us - late);
            self.references = 0;
            self.writes = 0;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use ebbpool_trace::RequestDetail;

    use super::*;

    fn positions(intervals: CheckpointIntervals, trace: &[(bool, u64)]) -> Vec<usize> {
        let mut clock = CheckpointClock::new(intervals);
        let mut found = Vec::new();
        // The batches end anywhere.
        for (number, part) in trace.chunks(3).enumerate() {
            let mut batch: Batch = part.iter().map(|&(write, _)| (1, write)).collect();
            let request = |&(_, time_us): &(bool, u64)| RequestDetail { time_us, bypass: 0 };
            batch.requests = part.iter().map(request).collect();
            let positions = clock.positions(&batch, 3 * number, "t").expect("times");
            found.extend(positions);
        }
        found
    }

    fn every(interval: u64) -> Option<NonZeroU64> {
        NonZeroU64::new(interval)
    }

    #[test]
    fn a_checkpoint_follows_the_interval() {
        let none = CheckpointIntervals::default();
        let trace: Vec<(bool, u64)> = (0..8).map(|at| (at % 2 == 0, 10 + 5 * at)).collect();
        assert_eq!(positions(none, &trace), Vec::<usize>::new());
        let references = CheckpointIntervals { references: every(3), ..none };
        assert_eq!(positions(references, &trace), [3, 6]);
        // The references 0, 2, 4 and 6 write.
        let writes = CheckpointIntervals { writes: every(2), ..none };
        assert_eq!(positions(writes, &trace), [3, 7]);
        // The trace begins at 10.
        let micros = CheckpointIntervals { micros: every(10), ..none };
        assert_eq!(positions(micros, &trace), [2, 4, 6]);
    }

    #[test]
    fn the_clock_does_not_wait_for_references_and_any_interval_begins_all_anew() {
        let none = CheckpointIntervals::default();
        let micros = CheckpointIntervals { micros: every(10), ..none };
        // At 25 the checkpoint of 20 is made, late; the next one is at 30.
        let trace = [0, 9, 25, 29, 30, 31].map(|time_us| (true, time_us));
        assert_eq!(positions(micros, &trace), [2, 4]);
        // That after 3 references is at 4, so that the next by time is at 14.
        let both = CheckpointIntervals { references: every(3), ..micros };
        let trace = [0, 1, 2, 4, 11, 14, 15].map(|time_us| (true, time_us));
        assert_eq!(positions(both, &trace), [3, 5]);
    }

    #[test]
    fn times_must_be_known() {
        let micros = CheckpointIntervals { micros: every(10), ..CheckpointIntervals::default() };
        let batch: Batch = [(1, true)].into_iter().collect();
        let found = CheckpointClock::new(micros).positions(&batch, 0, "t");
        assert!(matches!(found, Err(SimError::NoTimes { trace }) if trace == "t"));
    }
}
