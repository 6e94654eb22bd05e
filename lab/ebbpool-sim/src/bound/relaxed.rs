//! The bound that prices yield, in the form that the search for prices uses.

use super::problem::Problem;

impl Problem {
    /// The lower bound under these prices: `price(u)` is that of a frame at all positions before u.
    pub(super) fn bound(&self, price: impl Fn(u32) -> f64) -> f64 {
        let mut gains = 0.0;
        self.for_each_run(|intervals, saves_write| {
            let (mut throughout, mut where_profitable) = (self.asymmetry, 0.0);
            for interval in intervals.iter() {
                let gain = interval.gain(&price);
                throughout += gain;
                where_profitable += gain.max(0.0);
            }
            gains += match saves_write {
                true => where_profitable.max(throughout),
                false => where_profitable,
            };
        });
        self.dearest() - self.spare_frames * price(self.length as u32) - gains
    }
}

#[cfg(test)]
pub(super) mod tests {
    use ebbpool_model::workload::{RandomWorkload, workload};

    use super::*;
    use crate::bound::{RecordedTrace, UNITS, certificate, fixed};
    use crate::engine::AtEnd;
    use ebbpool_trace::Ids;

    fn prices(random: &mut RandomWorkload, length: usize) -> Vec<f64> {
        let mut sum = 0.0;
        let mut prices = vec![0.0];
        for _ in 0..length {
            sum += random.below(1000) as f64 / 8192.0;
            prices.push(sum);
        }
        prices
    }

    /// A trace whose pages end now and then, and whose writes replace some of them.
    fn trace(random: &mut RandomWorkload, seed: u64) -> RecordedTrace {
        let mut ids = Ids::default();
        let mut trace = RecordedTrace::default();
        for (page, write) in workload(seed, 600, 40) {
            let position = trace.references.len();
            if random.below(8) == 0 && !seed.is_multiple_of(3) {
                let first = random.below(40);
                ids.within(first, first + random.below(4), |id| trace.ends.push((position, id)));
            }
            let id = ids.id(page, |page| trace.pages.push(page));
            trace.references.push(id << 1 | u32::from(write));
            trace.whole.push(write && seed % 2 == 1 && random.below(2) == 0);
        }
        trace
    }

    pub(in crate::bound) fn cases(mut check: impl FnMut(&Problem, &[f64], &RecordedTrace, u64, f64, AtEnd)) {
        for seed in 0..24 {
            let mut random = RandomWorkload::new(seed);
            let trace = trace(&mut random, seed);
            let frames = 1 + seed % 12;
            let asymmetry = [0.0, 0.5, 1.0, 8.0, 32.0][seed as usize % 5];
            for at_end in [AtEnd::Free, AtEnd::Flush] {
                let problem = Problem::new(&trace, frames, asymmetry, at_end);
                let prices = prices(&mut random, trace.references.len());
                check(&problem, &prices, &trace, frames, asymmetry, at_end);
            }
        }
    }

    #[test]
    fn the_search_and_the_check_agree() {
        cases(|problem, prices, trace, frames, asymmetry, at_end| {
            let units = fixed(prices);
            let certified = certificate::certify(trace, frames, asymmetry, at_end, &units);
            let certified = certified.expect("proper prices") as f64 / UNITS as f64;
            let bound = problem.bound(|at| prices[at as usize]);
            assert!((bound - certified).abs() < 0.01, "{bound} {certified}");
        });
    }
}
