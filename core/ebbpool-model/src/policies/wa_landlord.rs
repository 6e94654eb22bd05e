//! wa-landlord (Beckmann, Gibbons, Haeupler and McGuffey 2020), as the `how` of its entry in the
//! registry describes it.

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// The operations that a page has credit for.
#[derive(Clone, Copy, PartialEq)]
enum Credit {
    Read,
    ReadAndWrite,
}

#[derive(Clone, Copy)]
struct State {
    dirty: bool,
    grant: Credit,
    /// The amount drained from all pages when the credit was granted.
    drained: f64,
}

/// The pages in the order in which they were granted their credit.
pub(crate) struct WaLandlord {
    list: List<State>,
    /// The amount drained from all pages so far.
    drained: f64,
    asymmetry: f64,
}

impl WaLandlord {
    pub(crate) fn new() -> WaLandlord {
        WaLandlord { list: List::new(), drained: 0.0, asymmetry: 1.0 }
    }

    /// The amount drained from all pages at which the page's credit is used up.
    fn used_up_at(&self, state: &State) -> f64 {
        match state.grant {
            Credit::Read => state.drained + 1.0,
            Credit::ReadAndWrite => state.drained + (1.0 + self.asymmetry),
        }
    }

    fn grant(&mut self, page: u64, grant: Credit, dirty: bool) {
        let drained = self.drained;
        self.list.push(page, State { dirty, grant, drained });
    }
}

impl Policy for WaLandlord {
    fn hit(&mut self, page: u64, write: bool) {
        let state = *self.list.state(page);
        if write {
            self.list.take(page);
            self.grant(page, Credit::ReadAndWrite, true);
        } else if state.grant == Credit::Read || self.used_up_at(&state) < self.drained + 1.0 {
            self.list.take(page);
            self.grant(page, Credit::Read, state.dirty);
        }
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        // The least credit; among equals a page without credit for a write, then the oldest grant.
        let mut best: Option<(f64, bool, u64)> = None;
        for (page, state) in &self.list.items {
            let rank = (self.used_up_at(state), state.grant == Credit::ReadAndWrite);
            let less = best.is_none_or(|(least, write, _)| rank.0 < least || (rank.0 == least && !rank.1 && write));
            if !pinned.contains(page) && less {
                best = Some((rank.0, rank.1, *page));
            }
        }
        best.expect("an unpinned page").2
    }

    fn admit(&mut self, page: u64, write: bool) {
        let grant = if write { Credit::ReadAndWrite } else { Credit::Read };
        self.grant(page, grant, write);
    }

    fn evict(&mut self, page: u64) {
        let state = self.list.take(page);
        self.drained = self.drained.max(self.used_up_at(&state));
    }

    fn clean(&mut self, page: u64) {
        let state = *self.list.state(page);
        self.list.state(page).dirty = false;
        if state.grant == Credit::ReadAndWrite {
            self.list.take(page);
            self.grant(page, Credit::Read, false);
        }
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::tests::Player;
    use crate::{model, workload};

    #[test]
    fn credits() {
        let mut player = Player::new(model("wa-landlord", 2), "");
        player.model.costs(2.0);
        // Credits: 1 has 3, 2 has 1.
        assert!(player.play("W1 R2").is_empty());
        // 2 is evicted and all pages pay 1: 1 has 2, 3 has 1; then 1 has 1, 4 has 1.
        assert_eq!(player.play("R3 R4"), [2, 3]);
        // A tie: 4 has no credit for a write. 1 has 0 then, and is evicted next.
        assert_eq!(player.play("R5 R6"), [4, 1]);
    }

    #[test]
    fn hits_grant_anew_but_never_take() {
        let mut player = Player::new(model("wa-landlord", 3), "");
        player.model.costs(4.0);
        // 1 has 5; a read leaves that. 2 and 3 have 1; 3 was granted later.
        assert!(player.play("W1 R2 R3 R1 R2").is_empty());
        assert_eq!(player.play("R4"), [3]);
        // 1 has 4, 2 has 0, 4 has 1: 2 is evicted and no page pays. A hit gives 4 its 1 again.
        assert_eq!(player.play("R5 R4"), [2]);
        // 5 has 1 and is the older grant.
        assert_eq!(player.play("R6"), [5]);
    }

    #[test]
    fn written_back_a_page_has_credit_for_a_read() {
        let mut player = Player::new(model("wa-landlord", 2), "");
        player.model.costs(9.0);
        assert_eq!(player.play("W1 C1 R2 R3"), [1]);
        // A write costs nothing: 2 and 3 have the same credit, 3 none of it for a write.
        player.model.costs(0.0);
        assert_eq!(player.play("W2 R4"), [3]);
    }

    #[test]
    fn without_writes_it_is_lru() {
        let none = BTreeSet::new();
        for (seed, frames) in (0..).zip([1, 2, 7, 30]) {
            let mut landlord = model("wa-landlord", frames);
            let mut lru = model("lru", frames);
            for (page, _) in workload::workload(seed, 1500, frames as u64 * 3) {
                assert_eq!(
                    landlord.reference(page, false, None, &none),
                    lru.reference(page, false, None, &none),
                    "seed {seed}"
                );
            }
        }
    }
}
