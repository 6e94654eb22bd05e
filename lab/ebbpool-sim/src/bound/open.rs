//! The intervals whose price is near their saving, which the next steps of the search look at.
//!
//! Most intervals are so short that they stay worth their price, or so long that they never are,
//! while prices move a little. The former contribute to the bound in proportion to the prices, the
//! latter nothing, and so a step needs to visit only the others: some per cent of all.

use super::problem::{Interval, Problem};
use super::scale::Scale;

/// A parabola in place of the corner of max(0, gain), from -width to width, and its slope.
#[inline]
pub(super) fn rounded(gain: f64, width: f64) -> (f64, f64) {
    if gain >= width {
        (gain, 1.0)
    } else if gain <= -width {
        (0.0, 0.0)
    } else {
        let above = gain + width;
        (above * above / (4.0 * width), above / (2.0 * width))
    }
}

/// What an interval costs at least where prices are compared: a price of zero, too, may rise.
const LEAST_PRICE: f64 = 1e-5;

/// How far the price of an interval may move before the intervals are divided again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// The factor by which the price of a long interval changes at most.
    pub(super) factor: f64,
    /// The factor for an interval not longer than `block`; in between the factor falls with the length, since
    /// a price that moves within a block does not change what the whole block costs.
    pub(super) short_factor: f64,
    /// The positions of a block.
    pub(super) block: f64,
    /// Half the width of the rounded corners.
    pub(super) width: f64,
}

/// An interval in slots.
#[derive(Clone, Copy, Debug)]
struct OpenInterval {
    start: u32,
    end: u32,
    /// The reads that holding it saves.
    saved: f32,
}

/// The intervals that are neither certainly worth their price nor certainly not, over the slots of
/// a scale, and the sum of the others.
pub(super) struct OpenIntervals {
    /// The coefficient of each slot's price in the part of the bound that is linear.
    linear: Vec<f64>,
    /// Intervals that save a read only.
    alone: Vec<OpenInterval>,
    /// Intervals of runs that may save a write.
    in_runs: Vec<OpenInterval>,
    /// The first interval after each of these runs.
    run_ends: Vec<u32>,
    asymmetry: f64,
}

/// What is certain of a run within the reach of the prices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Saved,
    NotSaved,
    Open,
}

/// An interval between two references of a page.
#[derive(Clone, Copy)]
struct PricedInterval {
    /// The reads that holding it saves.
    saved: f64,
    price: f64,
    /// The factor by which the price may change.
    factor: f64,
}

impl PricedInterval {
    fn gain(self) -> f64 {
        self.saved - self.price
    }

    fn least_gain(self) -> f64 {
        self.saved - self.factor * (self.price + LEAST_PRICE)
    }

    fn most_gain(self) -> f64 {
        self.saved - self.price / self.factor
    }
}

impl Reach {
    /// One factor for intervals of any length; with `f64::MAX` all are open.
    pub(super) fn new(factor: f64, width: f64) -> Self {
        Reach { factor, short_factor: factor, block: 1.0, width }
    }

    fn factor_of(self, positions: u32) -> f64 {
        let blocks = f64::from(positions) / self.block;
        self.factor + (self.short_factor - self.factor) / blocks.max(1.0)
    }

    /// Whether a run saves its write.
    fn write(self, asymmetry: f64, intervals: &[PricedInterval]) -> Write {
        // Never falls as the gain rises, and is below min(0, gain) at the rounded corner.
        let loss = |gain| gain - rounded(gain, self.width).0;
        let (mut least, mut most) = (asymmetry, asymmetry);
        for interval in intervals {
            least += loss(interval.least_gain());
            most += loss(interval.most_gain());
        }
        match (least >= self.width, most <= -self.width) {
            (true, _) => Write::Saved,
            (_, true) => Write::NotSaved,
            _ => Write::Open,
        }
    }
}

impl OpenIntervals {
    /// The lower bound under the prices of the slots, and the intervals that are open within their
    /// reach.
    pub(super) fn divide(problem: &Problem, scale: Scale, prices: &[f64], reach: Reach) -> (f64, Self) {
        let mut open = OpenIntervals {
            linear: vec![0.0; scale.end() + 1],
            alone: Vec::new(),
            in_runs: Vec::new(),
            run_ends: Vec::new(),
            asymmetry: problem.asymmetry,
        };
        open.linear[scale.end()] -= problem.spare_frames;
        let mut gains = 0.0;
        let mut intervals: Vec<PricedInterval> = Vec::new();
        let price = |position| scale.price(prices, position);
        problem.for_each_run(|of_run, saves_write| {
            intervals.clear();
            let (mut throughout, mut where_profitable) = (problem.asymmetry, 0.0);
            for it in of_run.iter() {
                let interval =
                    PricedInterval { saved: it.saved, price: it.price(&price), factor: reach.factor_of(it.end - it.start) };
                throughout += interval.gain();
                where_profitable += interval.gain().max(0.0);
                intervals.push(interval);
            }
            let write = match saves_write {
                true => reach.write(problem.asymmetry, &intervals),
                false => Write::NotSaved,
            };
            gains += match saves_write {
                true => where_profitable.max(throughout),
                false => where_profitable,
            };
            for (Interval { start, end, saved }, priced) in of_run.iter().zip(&intervals) {
                if write == Write::Saved || priced.least_gain() >= reach.width {
                    scale.add(&mut open.linear, end, 1.0);
                    scale.add(&mut open.linear, start + 1, -1.0);
                    continue;
                }
                let (start, end) = (scale.nearest(start + 1), scale.nearest(end));
                let interval = OpenInterval { start, end, saved: saved as f32 };
                if write == Write::Open {
                    open.in_runs.push(interval);
                } else if (saves_write || priced.saved > 0.0) && priced.most_gain() > -reach.width {
                    open.alone.push(interval);
                }
            }
            if write == Write::Open {
                open.run_ends.push(open.in_runs.len() as u32);
            }
        });
        let sold = problem.spare_frames * prices[scale.end()];
        (problem.dearest() - sold - gains, open)
    }

    /// Calls `each` with the open intervals of every run that may save a write.
    #[inline]
    fn for_each_run(&self, mut each: impl FnMut(&[OpenInterval])) {
        let mut start = 0;
        for &end in &self.run_ends {
            each(&self.in_runs[start..end as usize]);
            start = end as usize;
        }
    }

    /// The saving of holding the interval, less its price.
    #[inline]
    fn gain(&self, interval: OpenInterval, prices: &[f64]) -> f64 {
        let (start, end) = (interval.start as usize, interval.end as usize);
        f64::from(interval.saved) - (prices[end] - prices[start])
    }

    /// The gradient of the rounded bound with respect to the prices of the slots. Returns the rounded bound less a
    /// constant.
    pub(super) fn gradient(&self, prices: &[f64], width: f64, gradient: &mut [f64]) -> f64 {
        gradient.copy_from_slice(&self.linear);
        let linear = self.linear.iter().zip(prices);
        let mut bound: f64 = linear.map(|(linear, price)| linear * price).sum();
        for &interval in &self.alone {
            let (value, held) = rounded(self.gain(interval, prices), width);
            bound -= value;
            gradient[interval.end as usize] += held;
            gradient[interval.start as usize] -= held;
        }
        let mut slopes: Vec<f64> = Vec::new();
        self.for_each_run(|intervals| {
            slopes.clear();
            let mut surplus = self.asymmetry;
            for &interval in intervals {
                let gain = self.gain(interval, prices);
                let (value, slope) = rounded(gain, width);
                surplus += gain - value;
                bound -= value;
                slopes.push(slope);
            }
            let (saved, stays) = rounded(surplus, width);
            bound -= saved;
            for (interval, slope) in intervals.iter().zip(&slopes) {
                let held = stays + (1.0 - stays) * slope;
                gradient[interval.end as usize] += held;
                gradient[interval.start as usize] -= held;
            }
        });
        bound
    }

    /// The number of intervals near their corner that begin or end at each slot, which is how much
    /// the gradient changes with the prices there. Intervals much shorter than `block` slots hardly
    /// count, since the prices of a block move together.
    pub(super) fn stiffness(&self, prices: &[f64], width: f64, block: usize, stiff: &mut [f64]) {
        /// Corners farther away than this, in widths, are not reached in a few steps.
        const NEAR: f64 = 1.5;
        /// The weight of an interval that is far from its corner.
        const FAR: f64 = 0.01;
        stiff.fill(0.0);
        let mut add = |interval: OpenInterval, near: bool| {
            let blocks = f64::from(interval.end - interval.start) / block as f64;
            let weight = match near {
                true => 1.0,
                false => FAR,
            };
            let weight = weight * blocks.min(1.0).powi(2);
            stiff[interval.end as usize] += weight;
            stiff[interval.start as usize] += weight;
        };
        for &interval in &self.alone {
            add(interval, self.gain(interval, prices).abs() < NEAR * width);
        }
        self.for_each_run(|intervals| {
            let mut surplus = self.asymmetry;
            for &interval in intervals {
                let gain = self.gain(interval, prices);
                surplus += gain - rounded(gain, width).0;
            }
            let stays = surplus > width;
            let at_corner = surplus.abs() < NEAR * width;
            for &interval in intervals {
                let gain = self.gain(interval, prices);
                let near = gain.abs() < NEAR * width || at_corner && gain < width;
                add(interval, near && !stays);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::relaxed::tests::cases;

    /// The rounded bound without a constant, of all intervals at all positions.
    fn rounded_bound(problem: &Problem, prices: &[f64], width: f64) -> f64 {
        let mut gains = 0.0;
        let price = |at: u32| prices[at as usize];
        problem.for_each_run(|intervals, saves_write| {
            let all: Vec<f64> = intervals.iter().map(|interval| interval.gain(&price)).collect();
            let paying: f64 = all.iter().map(|&gain| rounded(gain, width).0).sum();
            let surplus = problem.asymmetry + all.iter().sum::<f64>() - paying;
            gains += paying;
            if saves_write {
                gains += rounded(surplus, width).0;
            }
        });
        -problem.spare_frames * prices[problem.length] - gains
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_rounded_bound() {
        cases(|problem, prices, _, _, _, _| {
            let width = 0.3;
            let scale = Scale::new(problem.length, 0);
            let (_, open) = OpenIntervals::divide(problem, scale, prices, Reach::new(f64::MAX, width));
            let mut gradient = vec![0.0; problem.length + 1];
            open.gradient(prices, width, &mut gradient);
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

    #[test]
    fn without_rounding_the_gradient_is_that_of_the_bound() {
        cases(|problem, prices, _, _, _, _| {
            let scale = Scale::new(problem.length, 0);
            let reach = Reach::new(f64::MAX, 0.0);
            let (bound, open) = OpenIntervals::divide(problem, scale, prices, reach);
            let mut gradient = vec![0.0; problem.length + 1];
            open.gradient(prices, 0.0, &mut gradient);
            for position in (0..problem.length).step_by(37) {
                let excess: f64 = gradient[position + 1..].iter().sum();
                let raised = |at: u32| match at as usize > position {
                    true => prices[at as usize] + 0.25,
                    false => prices[at as usize],
                };
                let linear = bound + 0.25 * excess;
                assert!(problem.bound(raised) <= linear + 1e-9, "at {position}");
            }
        });
    }

    #[test]
    fn within_reach_the_open_intervals_have_the_gradient_of_all() {
        cases(|problem, prices, _, _, _, _| {
            let width = 0.2;
            let scale = Scale::new(problem.length, 0);
            let reach = Reach { factor: 1.5, short_factor: 3.0, block: 4.0, width };
            let (bound, some) = OpenIntervals::divide(problem, scale, prices, reach);
            let (same, all) = OpenIntervals::divide(problem, scale, prices, Reach::new(f64::MAX, width));
            assert_eq!(bound, same);
            assert!((bound - problem.bound(|at| prices[at as usize])).abs() < 1e-6);
            assert!(some.alone.len() + some.in_runs.len() <= all.alone.len() + all.in_runs.len());
            // All prices change by the factor of long intervals, and by less.
            for factor in [1.0, 1.5, 1.0 / 1.5, 1.2] {
                let moved: Vec<f64> = prices.iter().map(|price| factor * price).collect();
                let [mut one, mut other] = [(); 2].map(|()| vec![0.0; prices.len()]);
                let change = |open: &OpenIntervals, gradient: &mut [f64]| {
                    let before = open.gradient(prices, width, gradient);
                    open.gradient(&moved, width, gradient) - before
                };
                let changes = (change(&some, &mut one), change(&all, &mut other));
                assert!((changes.0 - changes.1).abs() < 1e-6, "{changes:?}");
                for (one, other) in one.iter().zip(&other) {
                    assert!((one - other).abs() < 1e-9, "{one} {other}");
                }
            }
        });
    }

    #[test]
    fn on_a_coarser_scale_the_bound_is_that_of_the_interpolated_prices() {
        cases(|problem, prices, _, _, _, _| {
            let scale = Scale::new(problem.length, 3);
            let mut of_slots: Vec<f64> = prices.iter().step_by(8).copied().collect();
            of_slots.resize(scale.end() + 1, prices[problem.length]);
            let spread = scale.spread(&of_slots);
            let reach = Reach::new(f64::MAX, 0.1);
            let (bound, _) = OpenIntervals::divide(problem, scale, &of_slots, reach);
            let same = problem.bound(|at| spread[at as usize]);
            assert!((bound - same).abs() < 1e-6, "{bound} {same}");
        });
    }
}
