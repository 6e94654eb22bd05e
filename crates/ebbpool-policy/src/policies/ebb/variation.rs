//! How much groups of pages differ beyond chance.

use super::ages::BUCKETS;

/// The variation of the numbers of events of groups about the usual ones. Where groups differ by chance only, the square
/// of a difference is as large as the usual number on the average, as for Poisson's distribution. What it is larger
/// by measures true differences (the moments that Robbins 1956 estimates a prior from).
#[derive(Clone, Copy, Default)]
pub(super) struct Variation {
    /// The squares of differences beyond chance, each divided by the usual number.
    excess: f64,
    usual: f64,
    buckets: f64,
}

/// A bucket counts if at least that many events are usual in it.
const LEAST_USUAL: f64 = 0.5;
/// The excess that chance alone explains, in standard deviations; that of one bucket is the root of 2.
const DEVIATIONS: f64 = 3.0;
/// The weight of the usual where groups do not differ.
pub(super) const MOST_WEIGHT: f64 = 100_000.0;

impl Variation {
    /// Adds a group: its events, the pages that were observed, and the usual events per page, for each bucket of ages. A
    /// group that differs from the usual by one factor at all ages does not vary.
    pub(super) fn add(
        &mut self,
        events: &[f64; BUCKETS],
        at_risk: &[f64; BUCKETS],
        usual: &[f64; BUCKETS],
    ) {
        let (mut all_events, mut all_usual) = (0.0, 0.0);
        for bucket in 0..BUCKETS {
            all_events += events[bucket];
            all_usual += at_risk[bucket] * usual[bucket];
        }
        let factor = (all_events + 1.0) / (all_usual + 1.0);
        for bucket in 0..BUCKETS {
            let usual = factor * at_risk[bucket] * usual[bucket];
            if usual > LEAST_USUAL {
                let difference = events[bucket] - usual;
                self.excess += (difference * difference - events[bucket]) / usual;
                self.usual += usual;
                self.buckets += 1.0;
            }
        }
    }

    /// The number of usual events that weigh as much as a group's observations: few where groups differ much.
    pub(super) fn weight(self) -> f64 {
        let chance = DEVIATIONS * (2.0 * self.buckets).sqrt();
        if self.excess > chance {
            (self.usual / (self.excess - chance)).min(MOST_WEIGHT)
        } else {
            MOST_WEIGHT
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(groups: &[[f64; 2]]) -> f64 {
        let mut variation = Variation::default();
        for group in groups {
            let (mut events, mut at_risk) = ([0.0; BUCKETS], [0.0; BUCKETS]);
            events[..2].copy_from_slice(group);
            at_risk[..2].fill(1000.0);
            variation.add(&events, &at_risk, &[0.1; BUCKETS]);
        }
        variation.weight()
    }

    #[test]
    fn the_usual_weighs_little_where_groups_differ() {
        assert_eq!(weight(&[]), MOST_WEIGHT);
        assert_eq!(weight(&[[100.0, 100.0], [105.0, 95.0]]), MOST_WEIGHT);
        // Differences of half the usual number: a quarter of the number, squared, less the number itself.
        let differing = weight(&[[150.0, 50.0], [50.0, 150.0]]);
        assert!((4.0..5.0).contains(&differing), "{differing}");
        // As large as the number itself in a few buckets only may be chance.
        assert_eq!(weight(&[[115.0, 85.0], [85.0, 115.0]]), MOST_WEIGHT);
    }
}
