//! sqlite, from pcache.c and pcache1.c.

use std::collections::BTreeSet;

use crate::buffer::Policy;

/// The clean pages that are not in use, and the dirty pages, each from the one used longest ago.
pub(crate) struct Sqlite {
    /// `nMax` of the cache.
    most: usize,
    commit: u64,
    since_commit: u64,
    recyclable: Vec<u64>,
    dirty: Vec<u64>,
    /// The dirty page that makes room and stays.
    spilled: Option<u64>,
}

impl Sqlite {
    pub(crate) fn new(m: usize, commit: u64) -> Sqlite {
        Sqlite { most: m, commit, since_commit: 0, recyclable: Vec::new(), dirty: Vec::new(), spilled: None }
    }

    /// True if a page has to be written before a new one gets room: `nPinned >= n90pct` with dirty pages.
    fn is_under_stress(&self) -> bool {
        !self.dirty.is_empty() && self.dirty.len() >= self.most * 9 / 10
    }

    /// The page that the cache recycles.
    fn recycled(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        let unpinned = |pages: &[u64]| pages.iter().find(|page| !pinned.contains(page)).copied();
        let spilled = unpinned(&self.dirty).filter(|_| self.is_under_stress());
        match unpinned(&self.recyclable) {
            Some(page) => {
                self.spilled = spilled;
                Some(page)
            }
            // The spilled page is the only one that can be recycled.
            None => {
                self.spilled = None;
                spilled
            }
        }
    }

    fn forget(&mut self, page: u64) {
        self.recyclable.retain(|other| *other != page);
        self.dirty.retain(|other| *other != page);
    }
}

impl Policy for Sqlite {
    fn background(&mut self) -> Vec<(u64, bool)> {
        if self.commit == 0 || self.since_commit < self.commit {
            return Vec::new();
        }
        self.since_commit = 0;
        let mut written: Vec<(u64, bool)> = self.dirty.iter().map(|page| (*page, true)).collect();
        written.sort_unstable();
        // sqlite3PcacheCleanAll takes the newest dirty page first, so that the oldest becomes the newest clean one.
        while let Some(page) = self.dirty.pop() {
            self.recyclable.push(page);
        }
        written
    }

    fn hit(&mut self, page: u64, write: bool) {
        self.since_commit += 1;
        let dirty = write || self.dirty.contains(&page);
        self.forget(page);
        match dirty {
            true => self.dirty.push(page),
            false => self.recyclable.push(page),
        }
    }

    fn miss(&mut self, _page: u64, _write: bool) {
        self.since_commit += 1;
    }

    fn early_victim(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        // nPage + 1 >= nMax
        let pages = self.recyclable.len() + self.dirty.len();
        if pages + 1 < self.most {
            return None;
        }
        self.recycled(pinned)
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let oldest_dirty = self.dirty.iter().find(|page| !pinned.contains(page));
        let oldest_dirty = oldest_dirty.copied();
        self.recycled(pinned).or(oldest_dirty).expect("an unpinned page")
    }

    fn written_with(&self, _victim: u64) -> Vec<u64> {
        self.spilled.into_iter().collect()
    }

    fn admit(&mut self, page: u64, write: bool) {
        match write {
            true => self.dirty.push(page),
            false => self.recyclable.push(page),
        }
    }

    fn evict(&mut self, page: u64) {
        self.forget(page);
    }

    fn clean(&mut self, page: u64) {
        self.forget(page);
        self.recyclable.push(page);
    }
}

#[cfg(test)]
mod tests {
    use crate::ModelEvent::{Evict, Read, Write};
    use crate::model;
    use crate::tests::Player;

    #[test]
    fn nine_tenths_dirty_pages_spill_one_at_each_miss() {
        // Five frames hold four pages, and 5 * 9 / 10 = 4 are too many dirty ones.
        let mut player = Player::new(model("sqlite", 5), "");
        player.play("W1 W2 W3 W4");
        player.events.clear();
        // All are dirty: 1 is written, and is the only clean page.
        player.play("R5");
        assert_eq!(player.events, [Write(1), Evict(1), Read(5)]);
        player.events.clear();
        // Three are dirty: 5 is evicted without a write.
        player.play("W6");
        assert_eq!(player.events, [Evict(5), Read(6)]);
        player.events.clear();
        // 2 was used last: 3 is written.
        player.play("R2 R7");
        assert_eq!(player.events, [Write(3), Evict(3), Read(7)]);
    }

    #[test]
    fn a_spilled_page_becomes_the_newest_clean_one() {
        // Eleven frames hold ten pages, and 11 * 9 / 10 = 9 are too many dirty ones.
        let mut player = Player::new(model("sqlite", 11), "");
        player.play("R1 W2 W3 W4 W5 W6 W7 W8 W9 W10");
        player.events.clear();
        player.play("R11 R12");
        assert_eq!(player.events, [Write(2), Evict(1), Read(11), Evict(2), Read(12)]);
    }

    #[test]
    fn a_commit_writes_all_dirty_pages() {
        let mut player = Player::new(model("sqlite:commit=5", 9), "");
        player.play("W3 R4 W1 R3");
        assert_eq!(player.model.background(), []);
        player.play("W2");
        assert_eq!(player.model.background(), [(1, true), (2, true), (3, true)]);
        assert_eq!(player.model.background(), []);
        // 4 was clean; of the others the newest, 2, became clean first.
        assert_eq!(player.play("R5 R6 R7 R8 R9"), [4]);
        assert_eq!(player.play("R10 R11 R12"), [2, 3, 1]);
    }
}
