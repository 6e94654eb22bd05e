//! The search for prices under which the bound is high.
//!
//! Three stages, each from the best prices of the one before: one price for the whole trace; a few
//! subgradient steps, which change the price of a frame at each position in proportion to the
//! excess of pages that request one there; then accelerated gradient steps on the rounded bound
//! over grids that grow finer, where isotonic regression keeps the summed prices from decreasing.
//! The last stage moves the sums and not the prices: each sum affects two intervals only, so that
//! long intervals do not slow the steps, and the coarse grids do the moves of long segments, at
//! which the steps are slow. Now and then the intervals are divided into those that the prices have
//! decided and those that the steps look at.

use super::grid::{Grid, make_monotone};
use super::open::{OpenIntervals, Reach};
use super::problem::Problem;
use super::scale::Scale;

/// Subgradient steps, and how often the intervals are divided again for them.
const SUBGRADIENT_STEPS: usize = 20;
const SUBGRADIENT_ROUNDS: usize = 3;

/// The most gradient steps on a grid, the steps on the finest grid, and the largest factor by which
/// the latter are multiplied where the trace is shorter than [`LONG`].
const MOST_STEPS: usize = 200;
const FINEST_STEPS: usize = 40;
const MOST_REPEATS: usize = 32;

/// A grid is done when this many steps have raised the bound by less than this share.
const PATIENCE: usize = 10;
const LEAST_GAIN: f64 = 1e-5;

/// The references of a trace that takes seconds.
const LONG: usize = 1 << 20;

/// Up to this many references each step looks at all intervals.
pub(super) const SHORT: usize = 1 << 17;

/// The least number of knots of the coarsest grid.
const FEWEST_KNOTS: usize = 16;

/// Each grid has this many times the knots of the one before.
const REFINEMENT: usize = 4;

/// The slots from one knot to the next, on all but the finest grids.
const SLOTS_PER_BLOCK: usize = 16;

/// Half the width of the corners that are rounded off, in page reads, first and last.
const WIDEST: f64 = 0.5;
const NARROWEST: f64 = 0.03;

/// The factors by which the price of an interval may change before the intervals are divided again:
/// of any interval on the coarsest grid, and of long intervals from this level on.
const FARTHEST: f64 = 100.0;
const NEAREST: f64 = 1.25;
const SETTLING_LEVELS: f64 = 2.0;

/// A factor on the length of steps: the stiffness alone yields steps that are too short, since few
/// corners are reached.
const STRETCH: f64 = 1.4;

/// Steps between two computations of the stiffness.
const STIFFNESS_STEPS: usize = 5;

/// The least stiffness of a knot.
const LEAST_STIFFNESS: f64 = 0.3;

/// The best prices found so far.
pub(super) struct Search<'a> {
    problem: &'a Problem,
    scale: Scale,
    /// Called with the share of the work done; returns true if the search should stop.
    stop: &'a dyn Fn(f64) -> bool,
    /// The prices of the scale's slots.
    prices: Vec<f64>,
    bound: f64,
    iterations: u64,
}

/// The result of a search.
pub(super) struct SearchResult {
    /// `prices[u]` is the price of a frame at all positions before u.
    pub(super) prices: Vec<f64>,
    /// The number of steps.
    pub(super) iterations: u64,
}

/// Moves `prices` by `distance`, the bound's from its target, along `excess`, their gradient in the sums; then
/// `sums` are their sums. Returns false if there is nowhere to go.
fn polyak_step(distance: f64, excess: &mut [f64], prices: &mut [f64], sums: &mut [f64]) -> bool {
    // A price is part of all later sums.
    let mut later = 0.0;
    let mut square = 0.0;
    for (gradient, &price) in excess[1..].iter_mut().zip(prices.iter()).rev() {
        later += *gradient;
        *gradient = match price == 0.0 && later < 0.0 {
            true => 0.0,
            false => later,
        };
        square += *gradient * *gradient;
    }
    if square == 0.0 {
        return false;
    }
    let length = distance / square;
    let mut sum = 0.0;
    for ((price, excess), next) in prices.iter_mut().zip(&excess[1..]).zip(&mut sums[1..]) {
        *price = (*price + length * excess).max(0.0);
        sum += *price;
        *next = sum;
    }
    true
}

/// A number between `first` and `last` in a geometric progression.
fn between(first: f64, last: f64, share: f64) -> f64 {
    first * (last / first).powf(share)
}

impl<'a> Search<'a> {
    /// Searches until the bound is within `tolerance` of `target`, the bill of a schedule, or the
    /// steps are done. `target` may ask for the prices of the first stage.
    pub(super) fn run(
        problem: &'a Problem,
        target: impl FnOnce(&dyn Fn() -> Vec<f64>) -> f64,
        tolerance: f64,
        stop: &'a dyn Fn(f64) -> bool,
    ) -> SearchResult {
        if problem.length == 0 {
            return SearchResult { prices: vec![0.0], iterations: 0 };
        }
        let mut search = Search {
            bound: problem.bound(|_| 0.0),
            problem,
            scale: Scale::new(problem.length, 0),
            stop,
            prices: Vec::new(),
            iterations: 1,
        };
        search.one_price();
        let target = target(&|| search.scale.spread(&search.prices));
        let enough = target * (1.0 - tolerance);
        search.subgradient(target, enough);
        search.refine(enough);
        SearchResult { prices: search.scale.spread(&search.prices), iterations: search.iterations }
    }

    fn consider(&mut self, scale: Scale, prices: &[f64], bound: f64) {
        if bound > self.bound {
            self.bound = bound;
            self.scale = scale;
            self.prices.clear();
            self.prices.extend_from_slice(prices);
        }
    }

    /// Doubles the price of every position for as long as that helps, then tries nearby prices. Chooses the scale
    /// that suits the best of them.
    fn one_price(&mut self) {
        let mut best = (self.bound, 0.0);
        let mut try_price = |price: f64| {
            let bound = self.problem.bound(|at| price * f64::from(at));
            self.iterations += 1;
            let better = bound > best.0;
            if better {
                best = (bound, price);
            }
            better
        };
        let mut price = 1.0 / self.problem.length as f64;
        while try_price(price) {
            price *= 2.0;
        }
        let center = price / 2.0;
        for factor in [0.7, 0.84, 1.19, 1.41] {
            try_price(center * factor);
        }
        let (bound, price) = best;
        self.bound = bound;
        self.scale = Scale::suiting(self.problem.length, 1.0 / price);
        let slots = 0..=self.scale.end();
        self.prices = slots.map(|slot| price * self.scale.place(slot) as f64).collect();
    }

    /// Polyak's steps towards `target`. Each changes the price of a frame at every slot in proportion to the
    /// excess of intervals that are worth their price there.
    fn subgradient(&mut self, target: f64, enough: f64) {
        let scale = self.scale;
        let mut sums = self.prices.clone();
        let mut prices: Vec<f64> = sums.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut excess = vec![0.0; sums.len()];
        let mut best = sums.clone();
        for round in 0..SUBGRADIENT_ROUNDS {
            let (bound, open) = self.divide(scale, &sums, Reach::new(FARTHEST, 0.0));
            // The steps know the bound but for a constant.
            let constant = bound - open.gradient(&sums, 0.0, &mut excess);
            let mut highest = bound;
            for step in 0..SUBGRADIENT_STEPS {
                let share = (step as f64 / SUBGRADIENT_STEPS as f64 + round as f64) / SUBGRADIENT_ROUNDS as f64;
                if self.bound >= enough || (self.stop)(0.2 * share) {
                    return;
                }
                let bound = constant + open.gradient(&sums, 0.0, &mut excess);
                self.iterations += 1;
                if bound > highest {
                    highest = bound;
                    best.copy_from_slice(&sums);
                }
                if !polyak_step(target - bound, &mut excess, &mut prices, &mut sums) {
                    break;
                }
            }
            if highest > bound {
                let bound = self.problem.bound(|at| scale.price(&best, at));
                self.consider(scale, &best, bound);
            }
        }
    }

    /// The bound under the prices of slots, which it considers, and the intervals that are open within reach; on
    /// short traces all are.
    fn divide(&mut self, scale: Scale, prices: &[f64], reach: Reach) -> (f64, OpenIntervals) {
        let reach = match self.problem.length <= SHORT {
            true => Reach::new(f64::MAX, reach.width),
            false => reach,
        };
        let (bound, open) = OpenIntervals::divide(self.problem, scale, prices, reach);
        self.consider(scale, prices, bound);
        (bound, open)
    }

    /// Gradient steps on grids that grow finer. A coarse grid has a coarser scale.
    fn refine(&mut self, enough: f64) {
        let finest = self.scale;
        let mut blocks = vec![finest.step()];
        while let Some(&block) = blocks.last()
            && self.problem.length / (block * REFINEMENT) >= FEWEST_KNOTS
        {
            blocks.push(block * REFINEMENT);
        }
        let levels = blocks.len();
        let repeats = (LONG / self.problem.length).clamp(1, MOST_REPEATS);
        let mut last = (self.scale, self.prices.clone());
        for (level, &block) in blocks.iter().rev().enumerate() {
            let share = level as f64 / levels as f64;
            let width = between(WIDEST, NARROWEST, share);
            let (steps, last_width) = match level + 1 == levels {
                // The error of rounding shrinks with the width, and so do the steps.
                true => (repeats * FINEST_STEPS, NARROWEST / (repeats as f64).sqrt()),
                false => (repeats.isqrt() * MOST_STEPS, width),
            };
            let settled = (level as f64 / SETTLING_LEVELS).min(1.0);
            let reach = Reach {
                factor: between(FARTHEST, NEAREST, settled),
                short_factor: FARTHEST,
                block: (block * REFINEMENT) as f64,
                width,
            };
            let scale = finest.at_least((block / SLOTS_PER_BLOCK).max(1));
            let mut prices = last.0.resample(&last.1, scale);
            let (bound, mut open) = self.divide(scale, &prices, reach);
            // On short traces the many steps of the finest grid do better from where the last grid ended.
            if bound < self.bound && self.problem.length > SHORT {
                prices = self.scale.resample(&self.prices, scale);
                open = self.divide(scale, &prices, reach).1;
            }
            let stop = |share: f64| (self.stop)(0.2 + 0.8 * (level as f64 + share) / levels as f64);
            if self.bound >= enough || stop(0.0) {
                return;
            }
            let stage = Stage { steps, widths: (width, last_width), least_gain: LEAST_GAIN * self.bound };
            let descent = Descent::new(&open, block / scale.step(), &prices);
            let (taken, prices) = descent.run(&stage, &stop);
            self.iterations += taken;
            last = (scale, prices);
        }
        let bound = self.problem.bound(|at| last.0.price(&last.1, at));
        self.consider(last.0, &last.1, bound);
    }
}

/// The steps on one grid.
struct Stage {
    /// The most steps.
    steps: usize,
    /// Half the width of the rounded corners, first and last.
    widths: (f64, f64),
    /// Less than this in [`PATIENCE`] steps of the same width, and the grid is done.
    least_gain: f64,
}

/// Accelerated projected gradient steps (FISTA) over the knots of a grid, restarted whenever a step
/// turns back.
struct Descent<'a> {
    open: &'a OpenIntervals,
    block: usize,
    grid: Grid,
    knots: Vec<f64>,
    /// The start of the next step: beyond `knots`, in the direction of the last step.
    ahead: Vec<f64>,
    momentum: f64,
    stiffness: Vec<f64>,
    gradient: Vec<f64>,
    /// Scratch space: a value for each slot, and for each knot.
    slots: Vec<f64>,
    slopes: Vec<f64>,
    next: Vec<f64>,
    blocks: Vec<(f64, f64, usize)>,
}

impl<'a> Descent<'a> {
    /// From the prices of slots.
    fn new(open: &'a OpenIntervals, block: usize, prices: &[f64]) -> Self {
        let slots = prices.len();
        let grid = Grid::new(block, slots - 1);
        let knots = grid.sample(prices);
        let count = knots.len();
        Descent {
            open,
            block,
            ahead: knots.clone(),
            next: knots.clone(),
            knots,
            momentum: 1.0,
            stiffness: vec![LEAST_STIFFNESS; count],
            gradient: vec![0.0; count],
            slots: vec![0.0; slots],
            slopes: vec![0.0; slots],
            blocks: Vec::new(),
            grid,
        }
    }

    fn update_stiffness(&mut self, width: f64) {
        /// Prices are counted from the beginning, whose knot does not move.
        const FIXED: f64 = 1e15;
        self.grid.spread(&self.ahead, &mut self.slots);
        self.open.stiffness(&self.slots, width, self.block, &mut self.slopes);
        self.grid.gather(&self.slopes, &mut self.stiffness);
        for stiffness in &mut self.stiffness {
            *stiffness = stiffness.max(LEAST_STIFFNESS);
        }
        self.stiffness[0] = FIXED;
    }

    /// One step; returns the rounded bound before it, less a constant.
    fn step(&mut self, width: f64) -> f64 {
        self.grid.spread(&self.ahead, &mut self.slots);
        let bound = self.open.gradient(&self.slots, width, &mut self.slopes);
        self.grid.gather(&self.slopes, &mut self.gradient);
        let length = STRETCH * width;
        let from = self.ahead.iter().zip(&self.gradient).zip(&self.stiffness);
        for (next, ((ahead, gradient), stiffness)) in self.next.iter_mut().zip(from) {
            *next = ahead + length * gradient / stiffness;
        }
        self.next[0] = 0.0;
        make_monotone(&mut self.next, &self.stiffness, &mut self.blocks);
        let moves = self.next.iter().zip(&self.knots).zip(&self.ahead);
        let back: f64 = moves
            .zip(&self.stiffness)
            .skip(1)
            .map(|(((next, knot), ahead), stiffness)| (ahead - next) * (next - knot) * stiffness)
            .sum();
        let momentum = match back > 0.0 {
            true => {
                self.momentum = 1.0;
                1.0
            }
            false => (1.0 + (1.0 + 4.0 * self.momentum * self.momentum).sqrt()) / 2.0,
        };
        let share = (self.momentum - 1.0) / momentum;
        self.momentum = momentum;
        for ((ahead, next), knot) in self.ahead.iter_mut().zip(&self.next).zip(&self.knots) {
            *ahead = next + share * (next - knot);
        }
        std::mem::swap(&mut self.knots, &mut self.next);
        bound
    }

    /// Takes the steps of a stage until `stop`, which receives the share of them that is done. Returns their
    /// number, and the prices of all slots.
    fn run(mut self, stage: &Stage, stop: &dyn Fn(f64) -> bool) -> (u64, Vec<f64>) {
        let (first, last) = stage.widths;
        let mut earlier = f64::NEG_INFINITY;
        let mut taken = 0;
        for step in 0..stage.steps {
            let share = step as f64 / stage.steps as f64;
            if stop(share) {
                break;
            }
            let width = between(first, last, share);
            if step % STIFFNESS_STEPS == 0 {
                self.update_stiffness(width);
            }
            let bound = self.step(width);
            taken += 1;
            if first == last && (step + 1) % PATIENCE == 0 {
                if bound - earlier < stage.least_gain {
                    break;
                }
                earlier = bound;
            }
        }
        (taken, self.into_prices())
    }

    /// The prices of all slots.
    fn into_prices(mut self) -> Vec<f64> {
        self.grid.spread(&self.knots, &mut self.slots);
        self.slots
    }
}
