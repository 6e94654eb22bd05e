//! The counts of a simulation over the trace, in a bounded number of points.

use serde::{Deserialize, Serialize};

use crate::observer::{Observer, SAMPLE_EVERY, Sample};

/// A time line has fewer points than this, whatever the length of the trace.
pub const MOST_POINTS: usize = 200;

/// The counts of a simulation and the state of its buffer at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// References served since the trace began, warm-up included.
    pub references: u64,
    /// Page reads since counting began.
    pub reads: u64,
    /// Page writes since counting began.
    pub writes: u64,
    /// The device's bill since counting began, in its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bill: Option<f64>,
    /// Clean pages in the buffer.
    pub clean: u64,
    /// Dirty pages in the buffer.
    pub dirty: u64,
    /// The target number of clean pages, rounded, of a policy that has one.
    pub target: Option<u64>,
}

/// Moments at even distances of references, from the end of the warm-up on.
///
/// The distance doubles whenever there are too many moments. Counts are totals, so that a moment
/// may be dropped without changing its neighbours. The last sample of the trace always stays.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimeLine {
    counting: bool,
    every: u64,
    moments: Vec<Moment>,
    latest: Option<Moment>,
}

impl Default for TimeLine {
    fn default() -> Self {
        TimeLine { counting: false, every: SAMPLE_EVERY, moments: Vec::new(), latest: None }
    }
}

impl TimeLine {
    /// The moments in order, at most [`MOST_POINTS`].
    pub fn moments(&self) -> impl Iterator<Item = &Moment> {
        let unevenly = |moment: &&Moment| !moment.references.is_multiple_of(self.every);
        self.moments.iter().chain(self.latest.iter().filter(unevenly))
    }
}

impl Observer for TimeLine {
    const LISTENS: bool = true;

    fn counting(&mut self) {
        self.counting = true;
    }

    fn write(&mut self, _page: u64) {}

    fn evict(&mut self, _page: u64) {}

    fn sample(&mut self, sample: &Sample) {
        if !self.counting {
            return;
        }
        let moment = Moment {
            references: sample.references,
            reads: sample.reads,
            writes: sample.writes,
            bill: sample.bill,
            clean: sample.clean,
            dirty: sample.dirty,
            target: sample.gauges.target.map(|target| target.round() as u64),
        };
        self.latest = Some(moment);
        if !moment.references.is_multiple_of(self.every) {
            return;
        }
        self.moments.push(moment);
        if self.moments.len() == MOST_POINTS {
            self.every *= 2;
            let every = self.every;
            self.moments.retain(|moment| moment.references.is_multiple_of(every));
        }
    }
}

#[cfg(test)]
mod tests {
    use ebbpool_policy::Gauges;

    use super::*;

    fn sample(references: u64, since: u64) -> Sample {
        Sample {
            references,
            reads: 3 * (references - since),
            writes: references - since,
            bill: None,
            clean: references % 7,
            dirty: 7 - references % 7,
            clean_hits: 0,
            asymmetry: 8.0,
            gauges: Gauges { target: Some(references as f64 + 0.6), ..Gauges::default() },
        }
    }

    #[test]
    fn a_long_trace_has_few_moments_at_even_distances() {
        for samples in [1, 2, 198, 199, 200, 201, 399, 400, 5_000, 123_457] {
            let mut line = TimeLine::default();
            line.counting();
            for at in 1..=samples {
                line.sample(&sample(at * SAMPLE_EVERY, 0));
            }
            let moments: Vec<Moment> = line.moments().copied().collect();
            assert!(moments.len() <= MOST_POINTS, "{samples}");
            assert!(moments.len() as u64 >= samples.min(99), "{samples}");
            let every = moments[0].references;
            for (index, moment) in (1..).zip(&moments[..moments.len() - 1]) {
                assert_eq!(moment.references, index * every, "{samples}");
                assert_eq!(moment.reads, 3 * moment.references);
                assert_eq!(moment.target, Some(moment.references + 1));
            }
            let last = moments[moments.len() - 1].references;
            assert_eq!(last, samples * SAMPLE_EVERY, "the last sample stays");
        }
    }

    #[test]
    fn the_warm_up_is_left_out() {
        let mut line = TimeLine::default();
        line.sample(&sample(1000, 0));
        line.sample(&sample(2000, 0));
        assert_eq!(line.moments().count(), 0);
        line.counting();
        line.sample(&sample(3000, 2500));
        let first = line.moments().next().map(|m| (m.references, m.writes));
        assert_eq!(first, Some((3000, 500)));
    }
}
