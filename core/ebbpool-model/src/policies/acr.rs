//! acr (Tang and Meng 2010), as the `how` of its entry in the registry describes it.

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;
use crate::spec::Fraction;

/// The clean or the dirty list: new pages enter at the recent end of the bottom, pages hit again at
/// the recent end of the top.
#[derive(Default)]
struct AcrList {
    top: List<()>,
    bottom: List<()>,
    cost: f64,
}

impl AcrList {
    fn len(&self) -> usize {
        self.top.len() + self.bottom.len()
    }

    fn contains(&self, page: u64) -> bool {
        self.top.contains(page) || self.bottom.contains(page)
    }

    fn take(&mut self, page: u64) {
        if self.top.contains(page) {
            self.top.take(page);
        } else {
            self.bottom.take(page);
        }
    }

    fn enter_top(&mut self, page: u64, share: Fraction) {
        self.top.push(page, ());
        while self.top.len() > share.of(self.len()) {
            let (oldest, ()) = self.top.items.remove(0);
            self.bottom.push(oldest, ());
        }
    }

    fn lru(&self, pinned: &BTreeSet<u64>) -> Option<u64> {
        self.bottom.lru(pinned).or(self.top.lru(pinned))
    }
}

pub(crate) struct Acr {
    m: usize,
    clean: AcrList,
    dirty: AcrList,
    share: Fraction,
    counts_logical: bool,
    counts_physical: bool,
    asymmetry: f64,
    references: usize,
}

impl Acr {
    pub(crate) fn new(m: usize, share: Fraction, cost: &str) -> Acr {
        let (counts_logical, counts_physical) = match cost {
            "logical" => (true, false),
            "physical" => (false, true),
            "both" => (true, true),
            other => panic!("`cost={other}` is neither `logical` nor `physical` nor `both`"),
        };
        Acr {
            m,
            clean: AcrList::default(),
            dirty: AcrList::default(),
            share,
            counts_logical,
            counts_physical,
            asymmetry: 1.0,
            references: 0,
        }
    }

    /// A reference to a page that is dirty or clean from now on.
    fn count(&mut self, write: bool, dirty: bool, missed: bool) {
        if self.references == 8 * self.m {
            self.clean.cost /= 2.0;
            self.dirty.cost /= 2.0;
            self.references = 0;
        }
        self.references += 1;
        let list = if dirty { &mut self.dirty } else { &mut self.clean };
        if self.counts_logical {
            list.cost += if write { self.asymmetry } else { 1.0 };
        }
        if self.counts_physical && missed {
            list.cost += 1.0;
        }
    }

    fn written(&mut self) {
        if self.counts_physical {
            self.dirty.cost += self.asymmetry;
        }
    }

    fn target(&self) -> f64 {
        let m = self.m as f64;
        let all = self.clean.cost + self.dirty.cost;
        if all > 0.0 { m * (self.clean.cost / all) } else { m / 2.0 }
    }
}

impl Policy for Acr {
    fn hit(&mut self, page: u64, write: bool) {
        let dirty = write || self.dirty.contains(page);
        self.count(write, dirty, false);
        if self.clean.contains(page) {
            self.clean.take(page);
        } else {
            self.dirty.take(page);
        }
        if dirty {
            self.dirty.enter_top(page, self.share);
        } else {
            self.clean.enter_top(page, self.share);
        }
    }

    fn miss(&mut self, _page: u64, write: bool) {
        self.count(write, write, true);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let (clean, dirty) = (self.clean.lru(pinned), self.dirty.lru(pinned));
        let first = if self.clean.len() as f64 > self.target() { clean.or(dirty) } else { dirty.or(clean) };
        first.expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, write: bool) {
        if write {
            self.dirty.bottom.push(page, ());
        } else {
            self.clean.bottom.push(page, ());
        }
    }

    fn evict(&mut self, page: u64) {
        if self.dirty.contains(page) {
            self.written();
            self.dirty.take(page);
        } else {
            self.clean.take(page);
        }
    }

    fn clean(&mut self, page: u64) {
        self.written();
        if self.dirty.top.contains(page) {
            self.dirty.top.take(page);
            self.clean.enter_top(page, self.share);
        } else {
            self.dirty.bottom.take(page);
            self.clean.bottom.push(page, ());
        }
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
    }

    fn target(&self) -> Option<f64> {
        Some(self.target())
    }
}

#[cfg(test)]
mod tests {
    use crate::model;
    use crate::tests::Player;

    #[test]
    fn the_lists_share_the_frames_in_proportion_to_their_costs() {
        let target = |cost: &str, text: &str| {
            let mut player = Player::new(model(&format!("acr:cost={cost}"), 4), "");
            player.model.costs(3.0);
            assert_eq!(player.model.target(), Some(2.0));
            player.play(text);
            player.model.target()
        };
        // Clean: two reads. Dirty: two writes and a read.
        assert_eq!(target("logical", "R1 R1 W2 W2 R2"), Some(4.0 * (2.0 / 9.0)));
        // One read for each list, and no write-back yet; with one, the dirty list has cost 4.
        assert_eq!(target("physical", "R1 R1 W2 W2 R2"), Some(2.0));
        assert_eq!(target("physical", "R1 R1 W2 C2"), Some(4.0 * (1.0 / 5.0)));
        assert_eq!(target("both", "R1 R1 W2 C2"), Some(4.0 * (3.0 / 10.0)));
    }

    #[test]
    fn costs_age() {
        let mut player = Player::new(model("acr:cost=logical", 1), "");
        player.model.costs(8.0);
        player.play("W1 W1 W1 W1 W1 W1 W1 W1");
        // They are halved before the ninth reference.
        player.play("R2");
        assert_eq!(player.model.target(), Some(1.0 / 33.0));
    }
}
