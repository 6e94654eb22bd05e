//! Who would have paid what lately, and whether that is a reason to switch.

use crate::policy::Costs;

/// Page reads and writes, and what they would cost today.
#[derive(Clone, Copy, Debug, Default)]
struct Faded {
    reads: f64,
    writes: f64,
}

impl Faded {
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
    /// By how much the one in charge has read and written more.
    lead: Faded,
}

/// When to switch.
pub(super) struct Manner {
    /// Misses of the one in charge that make a round.
    pub(super) round: u32,
    /// Rounds after which all is forgotten.
    pub(super) window: f64,
    /// A rival must have saved the bill of so many rounds.
    pub(super) lead: f64,
    /// Rounds at the beginning and after a switch in which nobody takes over.
    pub(super) patience: u32,
}

/// The traffic of all miniatures.
///
/// Kept are reads and writes and not bills, so that the costs of today are what counts, also for the
/// traffic of yesterday. A rival that falls behind starts again from nothing: what it was worse at
/// once is no reason to do without it now (Page's test).
pub(super) struct Bills {
    traffic: Vec<Traffic>,
    manner: Manner,
    fading: f64,
    /// Misses of this round.
    misses: u32,
    /// Rounds since the beginning or the last switch.
    waited: u32,
    /// Of those in charge.
    paid: Faded,
    /// Rounds in which they paid.
    rounds: f64,
}

impl Bills {
    pub(super) fn new(experts: usize, manner: Manner) -> Self {
        Bills {
            traffic: vec![Traffic::default(); experts],
            fading: 1.0 - 1.0 / manner.window,
            manner,
            misses: 0,
            waited: 0,
            paid: Faded::default(),
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

    /// The one in charge has missed. At the end of a round answers who should be in charge instead,
    /// if somebody should and `may_switch`.
    pub(super) fn missed(
        &mut self,
        in_charge: usize,
        may_switch: bool,
        costs: Costs,
    ) -> Option<usize> {
        self.misses += 1;
        if self.misses < self.manner.round {
            return None;
        }
        self.misses = 0;
        self.end_round(in_charge, costs);
        self.waited = self.waited.saturating_add(1);
        if self.waited <= self.manner.patience {
            return None;
        }
        let better = self.better(costs).filter(|_| may_switch);
        if better.is_some() {
            self.waited = 0;
            self.forget_leads();
        }
        better
    }

    fn end_round(&mut self, in_charge: usize, costs: Costs) {
        let Traffic { reads, writes, .. } = self.traffic[in_charge];
        self.paid.add(self.fading, reads as f64, writes as f64);
        self.rounds = self.rounds * self.fading + 1.0;
        for rival in &mut self.traffic {
            let more_reads = reads as f64 - rival.reads as f64;
            let more_writes = writes as f64 - rival.writes as f64;
            rival.lead.add(self.fading, more_reads, more_writes);
            if rival.lead.bill(costs) < 0.0 {
                rival.lead = Faded::default();
            }
            (rival.reads, rival.writes) = (0, 0);
        }
    }

    fn forget_leads(&mut self) {
        for rival in &mut self.traffic {
            rival.lead = Faded::default();
        }
    }

    /// The rival that has saved most, if that is enough.
    fn better(&self, costs: Costs) -> Option<usize> {
        let lead = |expert: usize| self.traffic[expert].lead.bill(costs);
        let first = (0..self.traffic.len()).reduce(|most, expert| {
            if lead(expert) > lead(most) {
                expert
            } else {
                most
            }
        })?;
        let enough = self.manner.lead * (self.paid.bill(costs) / self.rounds);
        (lead(first) > enough).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bills(window: f64, lead: f64, patience: u32) -> Bills {
        let manner = Manner {
            round: 10,
            window,
            lead,
            patience,
        };
        Bills::new(2, manner)
    }

    /// A round in which 0 is in charge; the reads and writes of both.
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
        // Of 20 a round the rival saves 4, so that after three rounds it has saved more than 10.
        let better = [(10, 10), (8, 8)];
        assert_eq!(round(&mut bills, better, even), None);
        assert_eq!(round(&mut bills, better, even), None);
        assert_eq!(round(&mut bills, better, even), Some(1));
        assert_eq!(round(&mut bills, better, even), None);
    }

    #[test]
    fn who_falls_behind_starts_from_nothing() {
        let even = Costs::asymmetric(1.0);
        let mut bills = bills(1e9, 0.5, 0);
        for _ in 0..100 {
            assert_eq!(round(&mut bills, [(10, 10), (10, 90)], even), None);
        }
        assert_eq!(round(&mut bills, [(10, 10), (0, 0)], even), Some(1));
    }

    #[test]
    fn what_was_saved_is_worth_what_it_costs_today() {
        let mut bills = bills(1e9, 0.5, 0);
        // The rival reads more and writes less.
        assert_eq!(
            round(&mut bills, [(10, 1), (11, 0)], Costs::asymmetric(2.0)),
            None
        );
        let dear = Costs::asymmetric(64.0);
        assert_eq!(round(&mut bills, [(10, 1), (10, 1)], dear), Some(1));
    }

    #[test]
    fn nobody_takes_over_at_the_beginning_and_leads_count() {
        let even = Costs::asymmetric(1.0);
        let mut bills = bills(1e9, 0.5, 2);
        // The rival saves 4 of 20 a round, and 10 are enough.
        let better = [(10, 10), (8, 8)];
        assert_eq!(round(&mut bills, better, even), None);
        assert_eq!(round(&mut bills, better, even), None);
        assert_eq!(round(&mut bills, better, even), Some(1));
        // After the switch too, and what led to it is forgotten.
        let much_better = [(10, 10), (0, 0)];
        assert_eq!(round(&mut bills, [(10, 10), (10, 10)], even), None);
        assert_eq!(round(&mut bills, much_better, even), None);
        assert_eq!(round(&mut bills, [(10, 10), (10, 10)], even), Some(1));
    }
}
