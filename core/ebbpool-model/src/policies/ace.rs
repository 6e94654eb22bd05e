//! ace (Papon and Athanassoulis 2023), as the `how` of its entry in the registry describes it.

use std::collections::{BTreeMap, BTreeSet};

use crate::FutureUse;
use crate::buffer::{Policy, Resident};

/// A policy, and the pages written together with its victim.
pub(crate) struct Ace {
    policy: Resident,
    batch: usize,
    written: Vec<u64>,
}

impl Ace {
    pub(crate) fn new(policy: Box<dyn Policy>, batch: usize) -> Ace {
        Ace { policy: Resident::new(policy), batch, written: Vec::new() }
    }
}

impl Policy for Ace {
    fn next_use(&mut self, next_use: Option<u64>) {
        self.policy.next_use(next_use);
    }

    fn foresee(&mut self, future: FutureUse) {
        self.policy.foresee(future);
    }

    fn prices(&mut self, prices: &[f64]) {
        self.policy.prices(prices);
    }

    fn probabilities(&mut self, probabilities: &BTreeMap<u64, (f64, f64)>) {
        self.policy.probabilities(probabilities);
    }

    fn hit(&mut self, page: u64, write: bool) {
        self.policy.hit(page, write);
    }

    fn miss(&mut self, page: u64, write: bool) {
        self.policy.miss(page, write);
    }

    fn victim(&mut self, write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let victim = self.policy.victim(write, pinned);
        let mut batch = vec![victim];
        let (dirty, clean): (Vec<_>, Vec<_>) = self.policy.pages().iter().partition(|resident_page| *resident_page.1);
        let may_be_named = |page: &u64| !pinned.contains(page) && *page != victim;
        let (mut candidates, others): (BTreeSet<u64>, BTreeSet<u64>) =
            dirty.iter().map(|resident_page| *resident_page.0).partition(may_be_named);
        if others.contains(&victim) && self.policy.padded_block().is_none() {
            let mut excluded = others;
            excluded.extend(clean.iter().map(|resident_page| *resident_page.0));
            while batch.len() < self.batch && !candidates.is_empty() {
                let next = self.policy.victim(write, &excluded);
                assert!(candidates.remove(&next), "page {next} was excluded");
                excluded.insert(next);
                batch.push(next);
            }
        }
        self.written = batch.split_off(1);
        victim
    }

    fn written_with(&self, victim: u64) -> Vec<u64> {
        if self.written.is_empty() {
            return self.policy.written_with(victim);
        }
        self.written.clone()
    }

    fn evicted_with(&self, victim: u64) -> Vec<u64> {
        self.policy.evicted_with(victim)
    }

    fn padded_block(&self) -> Option<u64> {
        self.policy.padded_block()
    }

    fn erases(&mut self, page: u64, erases: u32) {
        self.policy.erases(page, erases);
    }

    fn class(&mut self, class: u32) {
        self.policy.class(class);
    }

    fn admit(&mut self, page: u64, write: bool) {
        self.policy.admit(page, write);
    }

    fn evict(&mut self, page: u64) {
        self.policy.evict(page);
    }

    fn end(&mut self, page: u64) {
        self.policy.end(page);
    }

    fn clean(&mut self, page: u64) {
        self.policy.clean(page);
    }

    fn costs(&mut self, asymmetry: f64) {
        self.policy.costs(asymmetry);
    }

    fn target(&self) -> Option<f64> {
        self.policy.target()
    }

    fn estimates(&self) -> Option<[f64; 3]> {
        self.policy.estimates()
    }
}

#[cfg(test)]
mod tests {
    use crate::ModelEvent::{Evict, Read, Write};
    use crate::tests::events;

    #[test]
    fn dirty_pages_in_their_order_of_eviction() {
        // LRU order 1d 2 3d 4d: a batch of two is 1 and 3. Then 2 and 3 are evicted, clean; then 4 with 7.
        let trace = "W1 R2 W3 W4 R5 R6 W7 R8";
        assert_eq!(
            events("ace:batch=2", 4, trace)[4..],
            [
                Write(1),
                Write(3),
                Evict(1),
                Read(5),
                Evict(2),
                Read(6),
                Evict(3),
                Read(7),
                Write(4),
                Write(7),
                Evict(4),
                Read(8)
            ]
        );
        // There are no more than three.
        assert_eq!(
            events("ace:policy=lru,batch=8", 4, "W1 R2 W3 W4 R5")[4..],
            [Write(1), Write(3), Write(4), Evict(1), Read(5)]
        );
        // 3 is pinned.
        assert_eq!(events("ace:batch=2", 4, "W1 R2 W3 W4 +3 R5")[4..], [Write(1), Write(4), Evict(1), Read(5)]);
        // A clean victim is evicted alone.
        assert_eq!(events("ace:batch=8", 2, "R1 W2 R3")[2..], [Evict(1), Read(3)]);
    }

    #[test]
    fn the_wrapped_policy_names_the_batch() {
        // lru-wsr: 1 and 2 become cold and move behind 3; 3 is clean and is evicted. Then 1 is cold and is
        // evicted, with 2, which is cold too.
        assert_eq!(
            events("ace:policy=lru-wsr,batch=2", 3, "W1 W2 R3 R4 R5")[3..],
            [Evict(3), Read(4), Write(1), Write(2), Evict(1), Read(5)]
        );
        // clean-first: 2 is evicted first, although 1 is older; then 1 with 3.
        assert_eq!(
            events("ace:policy=(cflru:window=1),batch=8", 3, "W1 R2 W3 W4 R5")[3..],
            [Evict(2), Read(4), Write(1), Write(3), Write(4), Evict(1), Read(5)]
        );
    }
}
