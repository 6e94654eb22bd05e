//! The bound that prices yield, in the form that the search for prices uses.

use super::problem::Problem;

/// Marks of a reference's position: a held interval begins or ends there.
const BEGINS: u8 = 1;
const ENDS: u8 = 2;

/// A parabola in place of the corner of max(0, gain), from -width to width, and its slope.
#[inline]
fn rounded(gain: f64, width: f64) -> (f64, f64) {
    if gain >= width {
        (gain, 1.0)
    } else if gain <= -width {
        (0.0, 0.0)
    } else {
        let above = gain + width;
        (above * above / (4.0 * width), above / (2.0 * width))
    }
}

impl Problem {
    /// The lower bound under these prices.
    pub(super) fn bound(&self, prices: &[f64]) -> f64 {
        self.bound_with(prices, |_, _| {})
    }

    /// The lower bound under these prices, and in `excess` the number of frames that the pages
    /// request at each position, less the number that there are.
    pub(super) fn bound_and_excess(
        &self,
        prices: &[f64],
        marks: &mut [u8],
        excess: &mut [f64],
    ) -> f64 {
        marks.fill(0);
        let bound = self.bound_with(prices, |start, end| {
            marks[start as usize] |= BEGINS;
            marks[end as usize] |= ENDS;
        });
        let mut held = -self.spare_frames;
        for (excess, mark) in excess.iter_mut().zip(marks.iter()) {
            held -= f64::from((mark & ENDS) >> 1);
            *excess = held;
            held += f64::from(mark & BEGINS);
        }
        bound
    }

    /// The lower bound; calls `held` with the intervals whose saving exceeds their price.
    #[inline]
    fn bound_with(&self, prices: &[f64], mut held: impl FnMut(u32, u32)) -> f64 {
        let mut gains = 0.0;
        self.for_each_run(|starts, ends, saves_write| {
            let (mut throughout, mut where_profitable) = (self.asymmetry, 0.0);
            for (&start, &end) in starts.iter().zip(ends) {
                let gain = self.gain(start, end, prices);
                throughout += gain;
                where_profitable += gain.max(0.0);
            }
            let stays = saves_write && throughout > where_profitable;
            gains += match stays {
                true => throughout,
                false => where_profitable,
            };
            for (&start, &end) in starts.iter().zip(ends) {
                if stays || self.gain(start, end, prices) > 0.0 {
                    held(start, end);
                }
            }
        });
        self.dearest() - self.spare_frames * prices[self.length] - gains
    }

    /// The gradient of the rounded bound with respect to `prices`, one entry for each position and
    /// the end.
    pub(super) fn gradient(&self, prices: &[f64], width: f64, gradient: &mut [f64]) {
        gradient.fill(0.0);
        let mut slopes: Vec<f64> = Vec::new();
        self.for_each_run(|starts, ends, saves_write| {
            slopes.clear();
            let mut surplus = self.asymmetry;
            for (&start, &end) in starts.iter().zip(ends) {
                let gain = self.gain(start, end, prices);
                let (value, slope) = rounded(gain, width);
                surplus += gain - value;
                slopes.push(slope);
            }
            let stays = match saves_write {
                true => rounded(surplus, width).1,
                false => 0.0,
            };
            for ((&start, &end), slope) in starts.iter().zip(ends).zip(&slopes) {
                let held = stays + (1.0 - stays) * slope;
                gradient[end as usize] += held;
                gradient[start as usize + 1] -= held;
            }
        });
        gradient[self.length] -= self.spare_frames;
    }

    /// The number of intervals near their corner that begin or end at each position, which is how
    /// much the gradient changes with the prices there. Intervals much shorter than `block` hardly
    /// count, since the prices of a block move together.
    pub(super) fn stiffness(&self, prices: &[f64], width: f64, block: usize, stiff: &mut [f64]) {
        /// Corners farther away than this, in widths, are not reached in a few steps.
        const NEAR: f64 = 1.5;
        /// The weight of an interval that is far from its corner.
        const FAR: f64 = 0.01;
        stiff.fill(0.0);
        self.for_each_run(|starts, ends, saves_write| {
            let mut surplus = self.asymmetry;
            if saves_write {
                for (&start, &end) in starts.iter().zip(ends) {
                    let gain = self.gain(start, end, prices);
                    surplus += gain - rounded(gain, width).0;
                }
            }
            let stays = saves_write && surplus > width;
            let at_corner = saves_write && surplus.abs() < NEAR * width;
            for (&start, &end) in starts.iter().zip(ends) {
                let gain = self.gain(start, end, prices);
                let near = gain.abs() < NEAR * width || at_corner && gain < width;
                let blocks = (end - start - 1) as f64 / block as f64;
                let weight = match near && !stays {
                    true => 1.0,
                    false => FAR,
                };
                let weight = weight * blocks.min(1.0).powi(2);
                stiff[end as usize] += weight;
                stiff[start as usize + 1] += weight;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use ebbpool_model::workload::{RandomWorkload, workload};

    use super::*;
    use crate::bound::{RecordedTrace, UNITS, certificate, fixed};
    use crate::engine::AtEnd;

    fn prices(random: &mut RandomWorkload, length: usize) -> Vec<f64> {
        let mut sum = 0.0;
        let mut prices = vec![0.0];
        for _ in 0..length {
            sum += random.below(1000) as f64 / 8192.0;
            prices.push(sum);
        }
        prices
    }

    fn cases(mut check: impl FnMut(&Problem, &[f64], &[u32], usize, u64, f64, AtEnd)) {
        for seed in 0..24 {
            let mut random = RandomWorkload::new(seed);
            let trace: RecordedTrace = workload(seed, 600, 40).into_iter().collect();
            let (references, pages) = (trace.references, trace.pages.len());
            let frames = 1 + seed % 12;
            let asymmetry = [0.0, 0.5, 1.0, 8.0, 32.0][seed as usize % 5];
            for at_end in [AtEnd::Free, AtEnd::Flush] {
                let problem = Problem::new(&references, pages, frames, asymmetry, at_end);
                let prices = prices(&mut random, references.len());
                check(
                    &problem,
                    &prices,
                    &references,
                    pages,
                    frames,
                    asymmetry,
                    at_end,
                );
            }
        }
    }

    #[test]
    fn the_search_and_the_check_agree() {
        cases(
            |problem, prices, references, pages, frames, asymmetry, at_end| {
                let units = fixed(prices);
                let certified =
                    certificate::certify(references, pages, frames, asymmetry, at_end, &units);
                let certified = certified.expect("proper prices") as f64 / UNITS as f64;
                let bound = problem.bound(prices);
                assert!((bound - certified).abs() < 0.01, "{bound} {certified}");
            },
        );
    }

    #[test]
    fn excess_is_the_slope_of_the_bound_in_a_price() {
        cases(|problem, prices, _, _, _, _, _| {
            let length = problem.length;
            let mut marks = vec![0; length + 1];
            let mut excess = vec![0.0; length];
            let bound = problem.bound_and_excess(prices, &mut marks, &mut excess);
            assert_eq!(bound, problem.bound(prices));
            for position in (0..length).step_by(37) {
                let mut raised = prices.to_vec();
                raised[position + 1..]
                    .iter_mut()
                    .for_each(|price| *price += 0.25);
                let linear = bound + 0.25 * excess[position];
                assert!(problem.bound(&raised) <= linear + 1e-9, "at {position}");
            }
        });
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_rounded_bound() {
        let rounded_bound = |problem: &Problem, prices: &[f64], width: f64| {
            let mut gains = 0.0;
            problem.for_each_run(|starts, ends, saves_write| {
                let intervals = starts.iter().zip(ends);
                let of = |(&start, &end): (&u32, &u32)| problem.gain(start, end, prices);
                let all: Vec<f64> = intervals.map(of).collect();
                let paying: f64 = all.iter().map(|&gain| rounded(gain, width).0).sum();
                let surplus = problem.asymmetry + all.iter().sum::<f64>() - paying;
                gains += paying;
                if saves_write {
                    gains += rounded(surplus, width).0;
                }
            });
            problem.dearest() - problem.spare_frames * prices[problem.length] - gains
        };
        cases(|problem, prices, _, _, _, _, _| {
            let width = 0.3;
            let mut gradient = vec![0.0; problem.length + 1];
            problem.gradient(prices, width, &mut gradient);
            for position in (1..=problem.length).step_by(41) {
                let step = 1e-5;
                let mut near = prices.to_vec();
                near[position] += step;
                let above = rounded_bound(problem, &near, width);
                near[position] -= 2.0 * step;
                let below = rounded_bound(problem, &near, width);
                let slope = (above - below) / (2.0 * step);
                assert!((slope - gradient[position]).abs() < 1e-4, "at {position}");
            }
        });
    }
}
