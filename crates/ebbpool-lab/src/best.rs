//! Which policy to take: the one rule of sentences, tables, reports and Python.
//!
//! 1. A policy that knows the future is compared with the others, which are not compared with it: the *rivals* are the online
//!    policies with a bill in every cell, and the others only where there is no such policy.
//! 2. The best is the rival whose bills have the least geometric mean, and of equal ones the first. Cells in which a rival's
//!    bill is 0 have no part in the mean; where all have such a bill, the least sum decides.

/// The policy to take.
#[derive(Clone, Debug, PartialEq)]
pub struct BestPolicy {
    /// Its index.
    pub policy: usize,
    /// The geometric mean of its bills over the cells that have a part in it; 0 if there is none.
    pub mean_bill: f64,
    /// Its bill over the least bill of the rivals, in each of these cells.
    pub above_least: Vec<f64>,
}

/// Bills of several policies at several sizes and prices, and of which of the policies know nothing of the future.
#[derive(Clone, Copy, Debug)]
pub struct Bills<'a> {
    /// For each policy, whether it knows nothing of the future.
    pub online: &'a [bool],
    /// For each cell, a bill for each policy; `None` where there is no result, or its device has failed.
    pub cells: &'a [Vec<Option<f64>>],
}

impl Bills<'_> {
    /// The policies that are compared with each other: rule 1.
    pub fn rivals(&self) -> Vec<usize> {
        let is_complete = |&policy: &usize| self.cells.iter().all(|cell| cell[policy].is_some());
        let complete: Vec<usize> = (0..self.online.len()).filter(is_complete).collect();
        let online = complete.iter().copied();
        let online: Vec<usize> = online.filter(|&policy| self.online[policy]).collect();
        match online.is_empty() {
            true => complete,
            false => online,
        }
    }

    /// The policy to take: rule 2. `None` if there is no cell, or no policy has a bill in every cell.
    pub fn best(&self) -> Option<BestPolicy> {
        let rivals = self.rivals();
        if self.cells.is_empty() {
            return None;
        }
        let bill = |cell: &[Option<f64>], policy: usize| cell[policy].unwrap_or(f64::INFINITY);
        let compared: Vec<&[Option<f64>]> = self
            .cells
            .iter()
            .map(Vec::as_slice)
            .filter(|cell| rivals.iter().all(|&policy| bill(cell, policy) > 0.0))
            .collect();
        let mean_log = |policy: usize| {
            let logs = compared.iter().map(|cell| bill(cell, policy).ln());
            logs.sum::<f64>() / compared.len() as f64
        };
        let sum = |policy: usize| {
            self.cells
                .iter()
                .map(|cell| bill(cell, policy))
                .sum::<f64>()
        };
        let is_by_sum = compared.is_empty();
        let measure = |policy: usize| {
            if is_by_sum {
                sum(policy)
            } else {
                mean_log(policy)
            }
        };
        let first_least = |a: &usize, b: &usize| measure(*a).total_cmp(&measure(*b));
        let policy = rivals.iter().copied().min_by(first_least)?;
        let above = |cell: &&[Option<f64>]| {
            let bills = rivals.iter().map(|&rival| bill(cell, rival));
            bill(cell, policy) / bills.fold(f64::INFINITY, f64::min)
        };
        Some(BestPolicy {
            policy,
            mean_bill: if is_by_sum {
                0.0
            } else {
                mean_log(policy).exp()
            },
            above_least: compared.iter().map(above).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(online: &[bool], cells: &[&[f64]]) -> Option<BestPolicy> {
        let bill = |&bill: &f64| (!bill.is_nan()).then_some(bill);
        let cells: Vec<Vec<_>> = cells
            .iter()
            .map(|cell| cell.iter().map(bill).collect())
            .collect();
        let cells = &cells;
        Bills { online, cells }.best()
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

    #[test]
    fn bills_of_nothing_have_no_part_in_the_mean() {
        let one = best(&[true, true], &[&[0.0, 1.0], &[4.0, 2.0]]).expect("a policy");
        assert_eq!((one.policy, one.above_least), (1, vec![1.0]));
        let all = best(&[true, true], &[&[0.0, 0.0], &[3.0, 0.0]]).expect("a policy");
        assert_eq!((all.policy, all.mean_bill), (1, 0.0));
    }
}
