//! The search for prices under which the bound is high.
//!
//! Three stages, each from the best prices of the one before: one price for the whole trace; a few
//! subgradient steps, which change the price of a frame at each position in proportion to the
//! excess of pages that request one there; then accelerated gradient steps on the rounded bound
//! over grids that grow finer, where isotonic regression keeps the summed prices from decreasing.
//! The last stage moves the sums and not the prices: each sum affects two intervals only, so that
//! long intervals do not slow the steps, and the coarse grids do the moves of long segments, at
//! which the steps are slow.

use super::grid::{Grid, make_monotone};
use super::problem::Problem;

/// Subgradient steps.
const SUBGRADIENT_STEPS: usize = 60;

/// Gradient steps on a grid, on the finest grid, and the largest factor by which they are
/// multiplied where the trace is shorter than [`LONG`].
const STEPS: usize = 20;
const FINEST_STEPS: usize = 40;
const MOST_REPEATS: usize = 32;

/// The references of a trace that takes seconds.
const LONG: usize = 1 << 20;

/// The least number of knots of the coarsest grid.
const FEWEST_KNOTS: usize = 16;

/// Each grid has this many times the knots of the one before.
const REFINEMENT: usize = 4;

/// Half the width of the corners that are rounded off, in page reads, first and last.
const WIDEST: f64 = 0.5;
const NARROWEST: f64 = 0.03;

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
    /// Called with the share of the work done; returns true if the search should stop.
    stop: &'a dyn Fn(f64) -> bool,
    prices: Vec<f64>,
    bound: f64,
    iterations: u64,
}

/// The result of a search.
pub(super) struct SearchResult {
    /// `prices[u]` is the price of a frame at all positions before u.
    pub(super) prices: Vec<f64>,
    /// The number of passes over the trace.
    pub(super) iterations: u64,
}

impl<'a> Search<'a> {
    /// Searches until the bound is within `tolerance` of `target`, the bill of a schedule, or the
    /// steps are done.
    pub(super) fn run(
        problem: &'a Problem,
        target: impl FnOnce(&[f64]) -> f64,
        tolerance: f64,
        stop: &'a dyn Fn(f64) -> bool,
    ) -> SearchResult {
        let prices = vec![0.0; problem.length + 1];
        if problem.length == 0 {
            return SearchResult {
                prices,
                iterations: 0,
            };
        }
        let mut search = Search {
            bound: problem.bound(&prices),
            problem,
            stop,
            prices,
            iterations: 1,
        };
        search.one_price();
        let target = target(&search.prices);
        let enough = target * (1.0 - tolerance);
        search.subgradient(target, enough);
        search.refine(enough);
        SearchResult {
            prices: search.prices,
            iterations: search.iterations,
        }
    }

    fn consider(&mut self, prices: &[f64], bound: f64) {
        if bound > self.bound {
            self.bound = bound;
            self.prices.copy_from_slice(prices);
        }
    }

    /// Doubles the price of every position for as long as that helps, then tries nearby prices.
    fn one_price(&mut self) {
        let length = self.problem.length;
        let mut prices = vec![0.0; length + 1];
        let mut best = (self.bound, 0.0);
        let mut try_price = |search: &mut Self, price: f64| {
            for (position, sum) in prices.iter_mut().enumerate() {
                *sum = price * position as f64;
            }
            let bound = search.problem.bound(&prices);
            search.iterations += 1;
            search.consider(&prices, bound);
            let better = bound > best.0;
            if better {
                best = (bound, price);
            }
            better
        };
        let mut price = 1.0 / length as f64;
        while try_price(self, price) {
            price *= 2.0;
        }
        let center = price / 2.0;
        for factor in [0.7, 0.84, 1.19, 1.41] {
            try_price(self, center * factor);
        }
    }

    /// Polyak's steps towards `target`.
    fn subgradient(&mut self, target: f64, enough: f64) {
        let length = self.problem.length;
        let mut sums = self.prices.clone();
        let mut prices: Vec<f64> = sums.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut excess = vec![0.0; length];
        let mut marks = vec![0; length + 1];
        for step in 0..SUBGRADIENT_STEPS {
            if self.bound >= enough || (self.stop)(0.2 * step as f64 / SUBGRADIENT_STEPS as f64) {
                return;
            }
            let bound = self
                .problem
                .bound_and_excess(&sums, &mut marks, &mut excess);
            self.iterations += 1;
            self.consider(&sums, bound);
            let mut square = 0.0;
            for (excess, &price) in excess.iter_mut().zip(&prices) {
                if price == 0.0 && *excess < 0.0 {
                    *excess = 0.0;
                }
                square += *excess * *excess;
            }
            if square == 0.0 {
                return;
            }
            let length = (target - bound) / square;
            let mut sum = 0.0;
            for ((price, excess), next) in prices.iter_mut().zip(&excess).zip(&mut sums[1..]) {
                *price = (*price + length * excess).max(0.0);
                sum += *price;
                *next = sum;
            }
        }
    }

    /// Gradient steps on grids that grow finer.
    fn refine(&mut self, enough: f64) {
        let mut blocks = vec![1];
        while let Some(&block) = blocks.last()
            && self.problem.length / (block * REFINEMENT) >= FEWEST_KNOTS
        {
            blocks.push(block * REFINEMENT);
        }
        let levels = blocks.len();
        let repeats = (LONG / self.problem.length).clamp(1, MOST_REPEATS);
        let mut prices = self.prices.clone();
        for (level, &block) in blocks.iter().rev().enumerate() {
            let share = level as f64 / levels as f64;
            let width = WIDEST * (NARROWEST / WIDEST).powf(share);
            let mut descent = Descent::new(self.problem, block, &prices);
            let (steps, last_width) = match block {
                // The error of rounding shrinks with the width, and so do the steps.
                1 => (repeats * FINEST_STEPS, NARROWEST / (repeats as f64).sqrt()),
                _ => (repeats.isqrt() * STEPS, width),
            };
            for step in 0..steps {
                let done = (level as f64 + step as f64 / steps as f64) / levels as f64;
                if self.bound >= enough || (self.stop)(0.2 + 0.8 * done) {
                    return;
                }
                let width = width * (last_width / width).powf(step as f64 / steps as f64);
                if step % STIFFNESS_STEPS == 0 {
                    descent.update_stiffness(width);
                }
                descent.step(width);
                self.iterations += 1;
            }
            prices = descent.into_prices();
            let bound = self.problem.bound(&prices);
            self.consider(&prices, bound);
        }
    }
}

/// Accelerated projected gradient steps (FISTA) over the knots of a grid, restarted whenever a step
/// turns back.
struct Descent<'a> {
    problem: &'a Problem,
    block: usize,
    grid: Grid,
    knots: Vec<f64>,
    /// The start of the next step: beyond `knots`, in the direction of the last step.
    ahead: Vec<f64>,
    momentum: f64,
    stiffness: Vec<f64>,
    gradient: Vec<f64>,
    /// Scratch space: a value for each position, and for each knot.
    positions: Vec<f64>,
    slopes: Vec<f64>,
    next: Vec<f64>,
    blocks: Vec<(f64, f64, usize)>,
}

impl<'a> Descent<'a> {
    fn new(problem: &'a Problem, block: usize, prices: &[f64]) -> Self {
        let grid = Grid::new(block, problem.length);
        let knots = grid.sample(prices);
        let count = knots.len();
        Descent {
            problem,
            block,
            ahead: knots.clone(),
            next: knots.clone(),
            knots,
            momentum: 1.0,
            stiffness: vec![LEAST_STIFFNESS; count],
            gradient: vec![0.0; count],
            positions: vec![0.0; problem.length + 1],
            slopes: vec![0.0; problem.length + 1],
            blocks: Vec::new(),
            grid,
        }
    }

    fn update_stiffness(&mut self, width: f64) {
        /// Prices are counted from the beginning, whose knot does not move.
        const FIXED: f64 = 1e15;
        self.grid.spread(&self.ahead, &mut self.positions);
        self.problem
            .stiffness(&self.positions, width, self.block, &mut self.slopes);
        self.grid.gather(&self.slopes, &mut self.stiffness);
        for stiffness in &mut self.stiffness {
            *stiffness = stiffness.max(LEAST_STIFFNESS);
        }
        self.stiffness[0] = FIXED;
    }

    fn step(&mut self, width: f64) {
        self.grid.spread(&self.ahead, &mut self.positions);
        self.problem
            .gradient(&self.positions, width, &mut self.slopes);
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
    }

    /// The prices at all positions.
    fn into_prices(mut self) -> Vec<f64> {
        self.grid.spread(&self.knots, &mut self.positions);
        self.positions
    }
}
