//! Which policy to take: the one rule of sentences, tables, reports and Python.
//!
//! 1. The *cells* that are compared are those of [`cells`]: each trace with each of its sizes and prices. Two sizes of as many
//!    frames are one, as are two equal prices, and a trace with the references of an earlier one does not count.
//! 2. A policy that knows the future is compared with the others, which are not compared with it: the *rivals* are the online
//!    policies with a bill in every cell, and the others only where there is no such policy.
//! 3. A bill of 0 cannot be part of a geometric mean, and is infinitely better than any other. So the best is the rival that
//!    pays in the fewest of the cells in which the least bill of the rivals is 0.
//! 4. Of those that pay in as few, it is the one whose bills in the other cells have the least geometric mean, in which each
//!    trace counts as much as any other, and within a trace each seed, and within a seed each cell.
//! 5. Of equal ones, it is the one with the least sum of bills where the least is 0, and then the first.

use std::collections::HashMap;

use crate::compare::Comparison;
use crate::run_result::RunResult;
use crate::trace_set::TraceGroup;

/// The bills of a trace with a memory size at a price.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BillCell {
    /// The index of the group of traces that differ in their seeds.
    pub group: usize,
    /// The index of the trace.
    pub trace: usize,
    /// The index of the price.
    pub pricing: usize,
    /// The index of the size.
    pub size: usize,
    /// For each policy, its bill; `None` where there is no result, or its device has failed.
    pub bills: Vec<Option<f64>>,
}

impl BillCell {
    /// A cell of a trace that has no seeds.
    pub fn new([trace, pricing, size]: [usize; 3], bills: Vec<Option<f64>>) -> Self {
        BillCell { group: trace, trace, pricing, size, bills }
    }

    fn bill(&self, policy: usize) -> f64 {
        self.bills[policy].unwrap_or(f64::INFINITY)
    }
}

/// The cells of these comparisons: rule 1, except that traces which repeat an earlier one are there. Cells without a finished
/// run are left out.
pub fn cells(comparisons: &[Comparison], groups: &[TraceGroup]) -> Vec<BillCell> {
    let traces = groups.iter().enumerate().flat_map(|(group, members)| {
        let traces = members.members.clone();
        traces.map(move |trace| (group, trace))
    });
    let finished = traces.filter_map(|(group, trace)| {
        let comparison = comparisons.get(trace)?;
        Some(cells_of_one_trace(comparison).into_iter().map(move |cell| BillCell { group, trace, ..cell }))
    });
    finished.flatten().collect()
}

/// The cells of a comparison, as those of a single trace.
pub fn cells_of_one_trace(comparison: &Comparison) -> Vec<BillCell> {
    let sizes = distinct_sizes(comparison);
    let prices = distinct_prices(comparison).into_iter();
    let places = prices.flat_map(|pricing| sizes.iter().map(move |&size| [pricing, size]));
    let cells = places.filter_map(|place| cell_at(comparison, place));
    cells.collect()
}

/// The cell at these indices of a price and a size; `None` without a finished run.
pub(crate) fn cell_at(comparison: &Comparison, [pricing, size]: [usize; 2]) -> Option<BillCell> {
    let policies = 0..comparison.policies.len();
    let results = policies.map(|policy| comparison.result([pricing, policy, size]));
    let results: Vec<Option<&RunResult>> = results.collect();
    if results.iter().all(Option::is_none) {
        return None;
    }
    let whole = results.iter().map(|result| result.filter(|result| result.failed.is_none()));
    let bills = whole.map(|result| result.map(|result| result.cost));
    Some(BillCell::new([0, pricing, size], bills.collect()))
}

/// Leaves out the traces that repeat an earlier one of these cells.
pub fn without_repeats(cells: Vec<BillCell>, groups: &[TraceGroup]) -> Vec<BillCell> {
    let is_there = |group: usize| cells.iter().any(|cell| cell.group == group);
    let repeats = groups.iter().map(|group| group.repeats.is_some_and(is_there));
    let repeats: Vec<bool> = repeats.collect();
    let own = cells.into_iter().filter(|cell| !repeats[cell.group]);
    own.collect()
}

/// The indices of the sizes, each number of frames once.
pub(crate) fn distinct_sizes(comparison: &Comparison) -> Vec<usize> {
    let frames = &comparison.frames;
    let is_first = |&size: &usize| !frames[..size].contains(&frames[size]);
    (0..frames.len()).filter(is_first).collect()
}

/// The indices of the prices, each once.
pub(crate) fn distinct_prices(comparison: &Comparison) -> Vec<usize> {
    let pricings = &comparison.pricings;
    let of = |at: usize| (&pricings[at].changing, pricings[at].asymmetry.ratio());
    let is_first = |&at: &usize| !(0..at).any(|earlier| of(earlier) == of(at));
    (0..pricings.len()).filter(is_first).collect()
}

/// The policy to take.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BestPolicy {
    /// Its index.
    pub policy: usize,
    /// The geometric mean of its bills over the cells in which the least bill is not 0; 0 if there is none.
    pub mean_bill: f64,
    /// Its bill over the least bill of the rivals, in each of these cells.
    pub above_least: Vec<f64>,
    /// The cells in which the least bill of the rivals is 0.
    pub free: usize,
    /// Those of them in which its own bill is not.
    pub above_free: usize,
}

impl BestPolicy {
    /// The largest of its bills over the least bill of the same cell: at least 1, and infinite if the least is 0 and it pays.
    pub fn worst(&self) -> f64 {
        match self.above_free {
            0 => self.above_least.iter().copied().fold(1.0, f64::max),
            _ => f64::INFINITY,
        }
    }
}

/// How good a policy is: the lesser the better.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    above_free: usize,
    mean_log: f64,
    paid_where_free: f64,
}

impl Standing {
    pub(crate) fn is_at_most(&self, other: &Self) -> bool {
        self.total_cmp(other).is_le()
    }

    pub(crate) fn total_cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.above_free.cmp(&other.above_free))
            .then(self.mean_log.total_cmp(&other.mean_log))
            .then(self.paid_where_free.total_cmp(&other.paid_where_free))
    }
}

/// Bills of several policies, and of which of the policies know nothing of the future.
#[derive(Clone, Copy, Debug)]
pub struct Bills<'a> {
    /// For each policy, whether it knows nothing of the future.
    pub online: &'a [bool],
    /// The cells, each with as many bills as there are policies.
    pub cells: &'a [BillCell],
}

impl<'a> Bills<'a> {
    /// The policies that are compared with each other: rule 2.
    pub fn rivals(&self) -> Vec<usize> {
        let complete: Vec<usize> = (0..self.online.len()).filter(|&policy| self.is_complete(policy)).collect();
        let online = complete.iter().copied();
        let online: Vec<usize> = online.filter(|&policy| self.online[policy]).collect();
        match online.is_empty() {
            true => complete,
            false => online,
        }
    }

    /// True if the policy has a bill in every cell.
    pub(crate) fn is_complete(&self, policy: usize) -> bool {
        self.cells.iter().all(|cell| cell.bills[policy].is_some())
    }

    /// The policy to take: rules 3 to 5. `None` if there is no cell, or no policy has a bill in every cell.
    pub fn best(&self) -> Option<BestPolicy> {
        self.judged().best()
    }

    /// These bills with the least of each cell.
    pub(crate) fn judged(self) -> JudgedBills<'a> {
        let rivals = self.rivals();
        let least = |cell: &BillCell| {
            let bills = rivals.iter().map(|&rival| cell.bill(rival));
            bills.fold(f64::INFINITY, f64::min)
        };
        let least = |cell: &'a BillCell| (cell, least(cell));
        let (paid, free): (Vec<_>, Vec<_>) = self.cells.iter().map(least).partition(|&(_, it)| it > 0.0);
        JudgedBills { weights: weights(&paid), free: free.into_iter().map(|(cell, _)| cell).collect(), paid, rivals }
    }
}

/// Bills with the least of each cell.
#[derive(Debug)]
pub(crate) struct JudgedBills<'a> {
    pub(crate) rivals: Vec<usize>,
    /// The cells whose least bill is not 0, with that bill.
    pub(crate) paid: Vec<(&'a BillCell, f64)>,
    /// Of each of these, its weight in a mean; together 1.
    weights: Vec<f64>,
    /// The cells whose least bill is 0.
    pub(crate) free: Vec<&'a BillCell>,
}

impl JudgedBills<'_> {
    pub(crate) fn best(&self) -> Option<BestPolicy> {
        if self.paid.is_empty() && self.free.is_empty() {
            return None;
        }
        let rivals = self.rivals.iter().copied();
        let rivals = rivals.map(|policy| (policy, self.standing(policy)));
        let (policy, standing) = rivals.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let paid = self.paid.iter();
        Some(BestPolicy {
            policy,
            mean_bill: match self.paid.is_empty() {
                true => 0.0,
                false => standing.mean_log.exp(),
            },
            above_least: paid.map(|(cell, least)| cell.bill(policy) / least).collect(),
            free: self.free.len(),
            above_free: standing.above_free,
        })
    }

    pub(crate) fn standing(&self, policy: usize) -> Standing {
        let where_free = || self.free.iter().map(|cell| cell.bill(policy));
        Standing {
            above_free: where_free().filter(|&bill| bill > 0.0).count(),
            mean_log: self.mean(|cell| cell.bill(policy).ln()),
            paid_where_free: where_free().sum(),
        }
    }

    /// The geometric mean of a policy's bills over those of another where the least bill is not 0; `None` if there is no such
    /// cell, or one of the bills is missing.
    pub(crate) fn mean_ratio(&self, policy: usize, other: usize) -> Option<f64> {
        let has_both = |cell: &BillCell| cell.bills[policy].is_some() && cell.bills[other].is_some();
        let all = self.paid.iter().map(|&(cell, _)| cell);
        let all_have_both = all.chain(self.free.iter().copied()).all(has_both);
        if self.paid.is_empty() || !all_have_both {
            return None;
        }
        let ratio = |cell: &BillCell| (cell.bill(policy) / cell.bill(other)).ln();
        Some(self.mean(ratio).exp())
    }

    fn mean(&self, figure: impl Fn(&BillCell) -> f64) -> f64 {
        let cells = self.paid.iter().zip(&self.weights);
        cells.map(|((cell, _), weight)| weight * figure(cell)).sum::<f64>()
    }
}

/// The weights of these cells: each group has the same, and in it each trace, and in it each cell.
fn weights(cells: &[(&BillCell, f64)]) -> Vec<f64> {
    let mut of_traces: HashMap<(usize, usize), f64> = HashMap::new();
    for (cell, _) in cells {
        *of_traces.entry((cell.group, cell.trace)).or_default() += 1.0;
    }
    let mut of_groups: HashMap<usize, f64> = HashMap::new();
    for (group, _) in of_traces.keys() {
        *of_groups.entry(*group).or_default() += 1.0;
    }
    let groups = of_groups.len() as f64;
    let weight = |(cell, _): &(&BillCell, f64)| 1.0 / (groups * of_groups[&cell.group] * of_traces[&(cell.group, cell.trace)]);
    cells.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_traces(online: &[bool], cells: &[(usize, &[f64])]) -> Option<BestPolicy> {
        let bill = |&bill: &f64| (!bill.is_nan()).then_some(bill);
        let cells = cells.iter().enumerate();
        let cells: Vec<BillCell> =
            cells.map(|(at, (trace, cell))| BillCell::new([*trace, 0, at], cell.iter().map(bill).collect())).collect();
        let cells = &cells;
        Bills { online, cells }.best()
    }

    fn best(online: &[bool], cells: &[&[f64]]) -> Option<BestPolicy> {
        let cells: Vec<(usize, &[f64])> = cells.iter().map(|cell| (0, *cell)).collect();
        in_traces(online, &cells)
    }

    #[test]
    fn the_least_geometric_mean_wins() {
        let best = best(&[true, true], &[&[1.0, 2.0], &[8.0, 2.0]]).expect("a policy");
        assert_eq!(best.policy, 1);
        assert!((best.mean_bill - 2.0).abs() < 1e-12);
        assert_eq!(best.above_least, [2.0, 1.0]);
    }

    #[test]
    fn a_policy_that_knows_the_future_wins_only_among_its_like() {
        let cell: &[f64] = &[1.0, 3.0, 2.0];
        let one = best(&[false, true, true], &[cell]).expect("a policy");
        assert_eq!((one.policy, one.above_least), (2, vec![1.0]));
        assert_eq!(best(&[false; 3], &[cell]).map(|best| best.policy), Some(0));
    }

    #[test]
    fn a_policy_without_a_bill_in_some_cell_is_no_rival() {
        let cells: [&[f64]; 2] = [&[1.0, 5.0, 9.0], &[f64::NAN, 5.0, 9.0]];
        let one = best(&[true, true, false], &cells).expect("a policy");
        assert_eq!((one.policy, one.above_least), (1, vec![1.0, 1.0]));
        let none: [&[f64]; 2] = [&[1.0, f64::NAN], &[f64::NAN, 1.0]];
        assert_eq!(best(&[true, true], &none), None);
        assert_eq!(best(&[true], &[]), None);
    }

    /// Nothing is as good as a bill of 0, whatever the mean of the others.
    #[test]
    fn cells_with_a_bill_of_0_are_decided_first() {
        let one = best(&[true, true], &[&[0.0, 1.0], &[4.0, 2.0]]).expect("a policy");
        assert_eq!((one.policy, one.above_least.as_slice()), (0, &[2.0][..]));
        assert_eq!((one.free, one.above_free, one.worst()), (1, 0, 2.0));
        // The policy that is nowhere above the first, and free where the first is not.
        let cells: [&[f64]; 2] = [&[0.1071, 0.1250, 0.0], &[0.8214, 0.8036, 0.8214]];
        let free = best(&[true; 3], &cells).expect("a policy");
        assert_eq!((free.policy, free.above_free), (2, 0));
        assert_eq!(free.mean_bill, 0.8214);
        // Of those that pay in as few of these cells the mean of the others decides, and then the sum.
        let both = best(&[true, true], &[&[0.0, 1.0], &[1.0, 0.0], &[3.0, 2.0]]);
        let both = both.expect("a policy");
        assert_eq!((both.policy, both.above_free), (1, 1));
        assert_eq!(both.worst(), f64::INFINITY);
        let all = best(&[true, true], &[&[0.0, 2.0], &[3.0, 0.0]]).expect("a policy");
        assert_eq!((all.policy, all.mean_bill), (1, 0.0));
    }

    /// The second trace has one cell, and counts as much as the three of the first.
    #[test]
    fn each_trace_counts_as_much_as_any_other() {
        let first: &[f64] = &[2.0, 3.0];
        let second: &[f64] = &[8.0, 4.0];
        let cells = [(0, first), (0, first), (0, first)];
        let both = [cells[0], cells[1], cells[2], (1, second)];
        assert_eq!(in_traces(&[true, true], &both).map(|best| best.policy), Some(1));
        let mean = in_traces(&[true], &[(0, &[2.0]), (0, &[2.0]), (1, &[8.0])]);
        assert!((mean.expect("a policy").mean_bill - 4.0).abs() < 1e-12);
    }
}
