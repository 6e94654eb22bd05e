//! How much the treatment of the pages that are dirty at the end of a trace decides.

use ebbpool_sim::AtEnd;

use crate::numbers::{less_or_more, rounded};

/// A change of a bill, as a share of it, that the output states.
const NOTABLE: f64 = 0.02;

/// A bill, and what it would be with the other treatment.
pub(crate) struct BillEitherWay<'a> {
    pub(crate) policy: &'a str,
    /// The policy knows nothing of the future.
    pub(crate) online: bool,
    /// The price and the memory size in words; bills with the same ones are compared.
    pub(crate) at: String,
    pub(crate) cost: f64,
    pub(crate) otherwise: f64,
    /// `otherwise` is an estimate.
    pub(crate) estimated: bool,
}

impl BillEitherWay<'_> {
    fn change(&self) -> f64 {
        match (self.cost > 0.0, self.otherwise > 0.0) {
            (true, _) => (self.otherwise / self.cost - 1.0).abs(),
            (false, true) => f64::INFINITY,
            (false, false) => 0.0,
        }
    }

    /// The other bill beside this one.
    fn beside(&self) -> String {
        let about = if self.estimated { "about " } else { "" };
        match self.cost > 0.0 {
            true => format!("{about}{}", less_or_more(self.otherwise, self.cost)),
            false => format!("{about}{} instead of 0", rounded(self.otherwise)),
        }
    }
}

/// A difference of two bills, as a share of them, that is a rounding error.
const ROUNDING: f64 = 1e-9;

/// True if none of the policies with the least bill has the least one with the other treatment, too.
fn best_changes(bills: &[&BillEitherWay]) -> bool {
    let least = |figure: fn(&BillEitherWay) -> f64| {
        let least = bills.iter().map(|bill| figure(bill));
        least.fold(f64::INFINITY, f64::min) * (1.0 + ROUNDING)
    };
    let (cost, otherwise) = (least(|bill| bill.cost), least(|bill| bill.otherwise));
    let best_in_both = |bill: &&BillEitherWay| bill.cost <= cost && bill.otherwise <= otherwise;
    !bills.iter().any(best_in_both)
}

/// The page writes that the other treatment would count more.
pub(crate) fn owed(at_end: Option<&str>, end_writes: u64, dirty_left: u64, dirty_before: u64) -> f64 {
    match at_end == Some(AtEnd::Flush.name()) {
        true => dirty_before as f64 - end_writes as f64,
        false => dirty_left as f64 - dirty_before as f64,
    }
}

/// What the other treatment would change, in a sentence: the largest change of a bill, and in how many places another online
/// policy would be the best. `None` where no bill would change by more than 2 %, and no best policy.
pub(crate) fn sentence(at_end: &str, bills: &[BillEitherWay]) -> Option<String> {
    let other = match at_end == AtEnd::Flush.name() {
        true => AtEnd::Free,
        false => AtEnd::Flush,
    };
    let online: Vec<&BillEitherWay> = bills.iter().filter(|bill| bill.online).collect();
    let largest = online.iter().max_by(|a, b| a.change().total_cmp(&b.change()))?;
    let mut places: Vec<&str> = online.iter().map(|bill| bill.at.as_str()).collect();
    places.sort_unstable();
    places.dedup();
    let changes = |at: &&&str| {
        let here = online.iter().filter(|bill| bill.at == **at);
        best_changes(&here.copied().collect::<Vec<_>>())
    };
    let changed = places.iter().filter(changes).count();
    if largest.change() <= NOTABLE && changed == 0 {
        return None;
    }
    let what = match other {
        AtEnd::Free => "leaves out the pages that are dirty at the end",
        AtEnd::Flush => "counts the pages that are dirty at the end",
    };
    let best = match (changed, places.len()) {
        (0, _) => String::new(),
        (_, 1) => ", and another policy would be the cheapest".into(),
        (changed, all) => {
            format!(", and another policy would be the cheapest in {changed} of {all} places")
        }
    };
    Some(format!(
        "with --at-end {}, which {what}, {}'s bill would be {} (at {}){best}",
        other.name(),
        largest.policy,
        largest.beside(),
        largest.at
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bill<'a>(policy: &'a str, at: &str, cost: f64, otherwise: f64) -> BillEitherWay<'a> {
        BillEitherWay { policy, online: !policy.ends_with("belady"), at: at.into(), cost, otherwise, estimated: false }
    }

    /// Two policies that share the first place before share it with another one afterwards.
    #[test]
    fn a_best_policy_that_stays_among_the_best_is_no_change() {
        let stays = [bill("lru", "a", 1.0, 0.9), bill("casa", "a", 1.0, 0.8), bill("cflru", "a", 1.5, 0.8 * (1.0 + 1e-15))];
        let stated = sentence("flush", &stays).expect("the bills change by 47 %");
        assert!(!stated.contains("another policy"), "{stated}");
        let mut changes = stays;
        changes[1].otherwise = 0.81;
        let stated = sentence("flush", &changes).expect("the bills change by 47 %");
        assert!(stated.ends_with(", and another policy would be the cheapest"), "{stated}");
    }

    #[test]
    fn a_bill_that_was_zero_is_stated() {
        let stated = sentence("free", &[bill("lru", "20 frames", 0.0, 32.0)]);
        assert_eq!(
            stated.as_deref(),
            Some(
                "with --at-end flush, which counts the pages that are dirty at the end, lru's bill would be 32 instead of 0 (at \
                 20 frames)"
            )
        );
        assert_eq!(sentence("free", &[bill("lru", "a", 0.0, 0.0)]), None);
        let estimated = BillEitherWay { estimated: true, ..bill("lru", "a", 1.0, 2.0) };
        let stated = sentence("free", &[estimated]).expect("a notable change");
        assert!(stated.contains("about 100 % more"), "{stated}");
    }

    #[test]
    fn small_changes_are_not_stated() {
        let bills = [bill("lru", "a", 1.0, 0.99), bill("casa", "a", 2.0, 1.97)];
        assert_eq!(sentence("flush", &bills), None);
    }

    #[test]
    fn the_largest_change_and_other_winners_are_stated() {
        let bills = [
            bill("lru", "a", 1.0, 0.9),
            bill("casa", "a", 1.1, 0.5),
            bill("lru", "b", 1.0, 1.0),
            bill("casa", "b", 1.1, 1.1),
            // It knows how the trace ends.
            bill("cost-belady", "a", 0.5, 0.1),
        ];
        assert_eq!(
            sentence("flush", &bills).as_deref(),
            Some(
                "with --at-end free, which leaves out the pages that are dirty at the end, casa's bill would be 55 % less (at \
                 a), and another policy would be the cheapest in 1 of 2 places"
            )
        );
        assert_eq!(
            sentence("free", &bills[..1]).as_deref(),
            Some("with --at-end flush, which counts the pages that are dirty at the end, lru's bill would be 10 % less (at a)")
        );
    }
}
