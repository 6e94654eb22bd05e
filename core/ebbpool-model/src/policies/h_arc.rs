//! h-arc (Fan, Du and Voigt 2014), as the `how` of its entry in the registry describes it.

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// The clean or the dirty half of the buffer.
#[derive(Default)]
struct Side {
    /// Pages referenced once.
    once: List<()>,
    /// Pages referenced more often.
    often: List<()>,
    /// Numbers of pages evicted from `once` and `often`, the oldest first.
    once_ghosts: Vec<u64>,
    often_ghosts: Vec<u64>,
    /// The target share of `once` in the side.
    once_share: f64,
}

impl Side {
    fn resident(&self) -> usize {
        self.once.len() + self.often.len()
    }

    fn ghosts(&self) -> usize {
        self.once_ghosts.len() + self.often_ghosts.len()
    }

    fn all(&self) -> usize {
        self.resident() + self.ghosts()
    }

    fn contains(&self, page: u64) -> bool {
        self.once.contains(page) || self.often.contains(page)
    }

    fn take(&mut self, page: u64) {
        if self.once.contains(page) {
            self.once.take(page);
        } else {
            self.often.take(page);
        }
    }

    fn remembers(&self, page: u64) -> bool {
        self.once_ghosts.contains(&page) || self.often_ghosts.contains(&page)
    }

    /// Forgets the ghost that was missed, and moves the share by the step over the side's size.
    fn adapt(&mut self, page: u64, size: usize) {
        let (once, often) = (self.once_ghosts.len(), self.often_ghosts.len());
        let size = size as f64;
        if self.once_ghosts.contains(&page) {
            let step = if once >= often { 1 } else { often / once };
            self.once_share = (self.once_share + step as f64 / size).min(1.0);
        } else {
            let step = if often >= once { 1 } else { once / often };
            self.once_share = (self.once_share - step as f64 / size).max(0.0);
        }
        self.once_ghosts.retain(|ghost| *ghost != page);
        self.often_ghosts.retain(|ghost| *ghost != page);
    }

    fn forget_oldest(&mut self) {
        if !self.once_ghosts.is_empty() {
            self.once_ghosts.remove(0);
        } else if !self.often_ghosts.is_empty() {
            self.often_ghosts.remove(0);
        }
    }

    fn victim(&self, size: usize, pinned: &BTreeSet<u64>) -> Option<u64> {
        let target = (self.once_share * size as f64).floor() as usize;
        let (once, often) = (self.once.lru(pinned), self.often.lru(pinned));
        if self.once.len() >= target { once.or(often) } else { often.or(once) }
    }
}

/// Whether the page missed last is remembered.
#[derive(Clone, Copy, PartialEq)]
enum MissedPage {
    New,
    CleanGhost,
    DirtyGhost,
}

pub(crate) struct HArc {
    m: usize,
    clean: Side,
    dirty: Side,
    /// The target number of clean pages.
    target: usize,
    missed: MissedPage,
}

impl HArc {
    pub(crate) fn new(m: usize) -> HArc {
        HArc { m, clean: Side::default(), dirty: Side::default(), target: 0, missed: MissedPage::New }
    }

    fn trim(&mut self) {
        while self.clean.all() > self.m {
            self.clean.forget_oldest();
        }
    }
}

impl Policy for HArc {
    fn hit(&mut self, page: u64, write: bool) {
        let dirty = write || self.dirty.contains(page);
        if self.clean.contains(page) {
            self.clean.take(page);
        } else {
            self.dirty.take(page);
        }
        if dirty {
            self.dirty.often.push(page, ());
        } else {
            self.clean.often.push(page, ());
        }
    }

    fn miss(&mut self, page: u64, _write: bool) {
        if self.clean.remembers(page) {
            self.missed = MissedPage::CleanGhost;
            self.target = (self.target + 1).min(self.m);
            self.clean.adapt(page, self.target);
        } else if self.dirty.remembers(page) {
            self.missed = MissedPage::DirtyGhost;
            let (clean, dirty) = (self.clean.ghosts(), self.dirty.ghosts());
            let step = if dirty >= clean { 2 } else { 2 * clean / dirty };
            self.target = self.target.saturating_sub(step);
            self.dirty.adapt(page, self.m - self.target);
        } else {
            self.missed = MissedPage::New;
            if self.clean.all() == self.m {
                self.clean.forget_oldest();
            } else if self.clean.all() + self.dirty.all() == 2 * self.m {
                self.dirty.forget_oldest();
            }
        }
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let resident = self.clean.resident();
        if self.missed == MissedPage::New && resident == self.m {
            let once = self.clean.once.lru(pinned);
            let often = self.clean.often.lru(pinned);
            return once.or(often).expect("an unpinned page");
        }
        let clean = self.clean.victim(self.target, pinned);
        let dirty = self.dirty.victim(self.m - self.target, pinned);
        let from_clean = resident > self.target || (self.missed == MissedPage::DirtyGhost && resident == self.target);
        let first = if from_clean { clean.or(dirty) } else { dirty.or(clean) };
        first.expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, write: bool) {
        let side = if write { &mut self.dirty } else { &mut self.clean };
        if self.missed == MissedPage::New {
            side.once.push(page, ());
        } else {
            side.often.push(page, ());
        }
        self.missed = MissedPage::New;
        self.trim();
    }

    fn evict(&mut self, page: u64) {
        let forgotten = self.missed == MissedPage::New && self.clean.resident() == self.m;
        let side = if self.clean.contains(page) { &mut self.clean } else { &mut self.dirty };
        if !forgotten {
            if side.once.contains(page) {
                side.once_ghosts.push(page);
            } else {
                side.often_ghosts.push(page);
            }
        }
        side.take(page);
    }

    fn end(&mut self, page: u64) {
        let side = if self.clean.contains(page) { &mut self.clean } else { &mut self.dirty };
        side.take(page);
    }

    fn clean(&mut self, page: u64) {
        if self.dirty.once.contains(page) {
            self.dirty.once.take(page);
            self.clean.once.push(page, ());
        } else {
            self.dirty.often.take(page);
            self.clean.often.push(page, ());
        }
        self.trim();
    }

    fn target(&self) -> Option<f64> {
        Some(self.target as f64)
    }
}

#[cfg(test)]
mod tests {
    use crate::model;
    use crate::tests::Player;

    #[test]
    fn the_target_follows_ghosts() {
        let mut player = Player::new(model("h-arc", 3), "");
        let mut step = |text: &str, victims: &[u64], target: f64| {
            assert_eq!(player.play(text), victims, "{text}");
            assert_eq!(player.model.target(), Some(target), "{text}");
        };
        // Two clean pages are more than the target of none.
        step("R1 R2 W3 W4", &[1], 0.0);
        // C = 2, D = 3 4, clean ghost 1: read again it raises the target, and its share of that
        // one page is all; it enters the list of pages seen more often. |C| = 1 is not more than
        // 1: D's, 3.
        step("R1", &[3], 1.0);
        // C = 2 | 1, D = 4, dirty ghost 3: the target falls by 2, to none. 2 is evicted.
        step("W3", &[2], 0.0);
        // C = | 1, D = 4 | 3. A new page: 1 is evicted, since the target is none.
        step("W5", &[1], 0.0);
        // C is empty; D = 4 5 | 3: the page seen once is evicted, 4, whatever the share.
        step("R6", &[4], 0.0);
    }

    #[test]
    fn a_clean_buffer_forgets() {
        // All three frames are clean: 1 leaves without a ghost, and is new again.
        let mut player = Player::new(model("h-arc", 3), "");
        player.play("R1 R2 R3 R4 R1");
        assert_eq!(player.model.target(), Some(0.0));
    }
}
