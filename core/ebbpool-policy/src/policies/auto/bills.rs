//! The bills that each expert would have had recently, and the decision whether to switch.

use crate::policy::Costs;

/// Page reads and writes that fade with time.
#[derive(Clone, Copy, Debug, Default)]
struct FadedTraffic {
    reads: f64,
    writes: f64,
}

impl FadedTraffic {
    fn add(&mut self, fading: f64, reads: f64, writes: f64) {
        self.reads = self.reads * fading + reads;
        self.writes = self.writes * fading + writes;
    }

    fn bill(self, costs: Costs) -> f64 {
        self.reads * costs.read + self.writes * costs.write
    }
}

/// Page reads and writes of one miniature.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// In this round.
    pub(super) reads: u64,
    /// In this round.
    pub(super) writes: u64,
    /// The reads and writes by which the active expert exceeded this one.
    lead: FadedTraffic,
}

/// When to switch.
pub(super) struct SwitchRule {
    /// Misses of the active expert's miniature in a round.
    pub(super) round: u32,
    /// Rounds in which traffic fades to 1/e.
    pub(super) window: f64,
    /// A rival must have saved the bill of this many rounds.
    pub(super) lead: f64,
    /// Rounds at the beginning and after a switch without another switch.
    pub(super) patience: u32,
}

/// The traffic of all miniatures.
///
/// It stores reads and writes and not bills, so that current costs apply to past traffic too. A
/// rival that falls behind starts again from 0: past losses are no reason to reject it now (Page's
/// test).
pub(super) struct Bills {
    traffic: Vec<Traffic>,
    rule: SwitchRule,
    fading: f64,
    /// Misses of this round.
    misses: u32,
    /// Rounds since the beginning or the last switch.
    waited: u32,
    /// The traffic of the active experts.
    paid: FadedTraffic,
    /// The rounds in `paid`, faded likewise.
    rounds: f64,
}

impl Bills {
    pub(super) fn new(experts: usize, rule: SwitchRule) -> Self {
        Bills {
            traffic: vec![Traffic::default(); experts],
            fading: 1.0 - 1.0 / rule.window,
            rule,
            misses: 0,
            waited: 0,
            paid: FadedTraffic::default(),
            rounds: 0.0,
        }
    }

    #[inline]
    pub(super) fn of(&mut self, expert: usize) -> &mut Traffic {
        &mut self.traffic[expert]
    }

    #[inline]
    pub(super) fn reads(&self, expert: usize) -> u64 {
        self.traffic[expert].reads
    }

    /// The active expert's miniature has missed. At the end of a round returns the expert that
    /// should become active instead, if there is one and `may_switch`.
    pub(super) fn missed(&mut self, active: usize, may_switch: bool, costs: Costs) -> Option<usize> {
        self.misses += 1;
        if self.misses < self.rule.round {
            return None;
        }
        self.misses = 0;
        self.end_round(active, costs);
        self.waited = self.waited.saturating_add(1);
        if self.waited <= self.rule.patience {
            return None;
        }
        let better = self.better(costs).filter(|_| may_switch);
        if better.is_some() {
            self.waited = 0;
            self.forget_leads();
        }
        better
    }

    fn end_round(&mut self, active: usize, costs: Costs) {
        let Traffic { reads, writes, .. } = self.traffic[active];
        self.paid.add(self.fading, reads as f64, writes as f64);
        self.rounds = self.rounds * self.fading + 1.0;
        for rival in &mut self.traffic {
            let more_reads = reads as f64 - rival.reads as f64;
            let more_writes = writes as f64 - rival.writes as f64;
            rival.lead.add(self.fading, more_reads, more_writes);
            if rival.lead.bill(costs) < 0.0 {
                rival.lead = FadedTraffic::default();
            }
            (rival.reads, rival.writes) = (0, 0);
        }
    }

    fn forget_leads(&mut self) {
        for rival in &mut self.traffic {
            rival.lead = FadedTraffic::default();
        }
    }

    /// The rival that has saved most, if it has saved enough.
    fn better(&self, costs: Costs) -> Option<usize> {
        let lead = |expert: usize| self.traffic[expert].lead.bill(costs);
        let first = (0..self.traffic.len()).reduce(|most, expert| if lead(expert) > lead(most) { expert } else { most })?;
        let enough = self.rule.lead * (self.paid.bill(costs) / self.rounds);
        (lead(first) > enough).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bills(window: f64, lead: f64, patience: u32) -> Bills {
        let rule = SwitchRule { round: 10, window, lead, patience };
        Bills::new(2, rule)
    }

    /// A round in which expert 0 is active, with the reads and writes of both.
    fn round(bills: &mut Bills, of: [(u64, u64); 2], costs: Costs) -> Option<usize> {
        for (expert, (reads, writes)) in of.into_iter().enumerate() {
            bills.of(expert).reads += reads;
            bills.of(expert).writes += writes;
        }
        (0..10).filter_map(|_| bills.missed(0, true, costs)).last()
    }

    #[test]
    fn a_lead_has_to_be_long_enough() {
        let even = Costs::asymmetric(1.0);
        let mut bills = bills(1e9, 0.5, 0);
        // The rival saves 4 of 20 per round, so that after three rounds it has saved more than 10.
        let better = [(10, 10), (8, 8)];
        assert_eq!(round(&mut bills, better, even), None);
        assert_eq!(round(&mut bills, better, even), None);
        assert_eq!(round(&mut bills, better, even), Some(1));
        assert_eq!(round(&mut bills, better, even), None);
    }

    #[test]
    fn a_rival_that_falls_behind_starts_from_zero() {
        let even = Costs::asymmetric(1.0);
        let mut bills = bills(1e9, 0.5, 0);
        for _ in 0..100 {
            assert_eq!(round(&mut bills, [(10, 10), (10, 90)], even), None);
        }
        assert_eq!(round(&mut bills, [(10, 10), (0, 0)], even), Some(1));
    }

    #[test]
    fn savings_are_priced_at_current_costs() {
        let mut bills = bills(1e9, 0.5, 0);
        // The rival reads more and writes less.
        assert_eq!(round(&mut bills, [(10, 1), (11, 0)], Costs::asymmetric(2.0)), None);
        let dear = Costs::asymmetric(64.0);
        assert_eq!(round(&mut bills, [(10, 1), (10, 1)], dear), Some(1));
    }

    #[test]
    fn no_switch_during_the_patience_although_leads_count() {
        let even = Costs::asymmetric(1.0);
        let mut bills = bills(1e9, 0.5, 2);
        // The rival saves 4 of 20 per round, and 10 are enough.
        let better = [(10, 10), (8, 8)];
        assert_eq!(round(&mut bills, better, even), None);
        assert_eq!(round(&mut bills, better, even), None);
        assert_eq!(round(&mut bills, better, even), Some(1));
        // The same after the switch, and the lead that caused it is forgotten.
        let much_better = [(10, 10), (0, 0)];
        assert_eq!(round(&mut bills, [(10, 10), (10, 10)], even), None);
        assert_eq!(round(&mut bills, much_better, even), None);
        assert_eq!(round(&mut bills, [(10, 10), (10, 10)], even), Some(1));
    }
}
