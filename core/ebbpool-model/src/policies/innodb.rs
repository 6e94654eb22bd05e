//! innodb, from buf0lru.cc, buf0buf.ic and buf0flu.cc.

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::spec::Spec;

const SECOND_US: u64 = 1_000_000;

pub(crate) struct Parameters {
    percent: u64,
    time_ms: u64,
    least: usize,
    dirty_percent: u64,
    depth: usize,
    rate: u64,
}

impl Parameters {
    pub(crate) fn from_spec(spec: &mut Spec) -> Parameters {
        Parameters {
            percent: spec.number("old_blocks_pct", 37),
            time_ms: spec.number("old_blocks_time", 1000),
            least: spec.number("old_blocks_min", 512) as usize,
            dirty_percent: spec.number("max_dirty_pages_pct", 90),
            depth: spec.number("lru_scan_depth", 1024) as usize,
            rate: spec.number("rate", 0),
        }
    }
}

struct Block {
    page: u64,
    /// `freed_page_clock`.
    freed_page_clock: u64,
    access_time: u64,
}

/// The LRU list from its head, of which the last `old` blocks are old.
pub(crate) struct Innodb {
    m: usize,
    lru: Vec<Block>,
    old: usize,
    /// The dirty pages, the one with the oldest modification first.
    flush_list: Vec<u64>,
    freed_page_clock: u64,
    ratio: u64,
    time_us: u64,
    least: usize,
    tolerance: usize,
    non_old: usize,
    most_dirty: usize,
    depth: usize,
    rate: u64,
    references: u64,
    start: Option<u64>,
    now: u64,
    timed: bool,
    next_round: u64,
    woken: bool,
    /// Something was written since the last round, and before it since the one before.
    active: bool,
    was_active: bool,
    /// `lru_scan_itr` and `single_scan_itr`: the pages at which they go on.
    scan: Option<u64>,
    single_scan: Option<u64>,
    to_free: usize,
}

impl Innodb {
    pub(crate) fn new(m: usize, parameters: &Parameters) -> Innodb {
        let least = parameters.least;
        Innodb {
            m,
            lru: Vec::new(),
            old: 0,
            flush_list: Vec::new(),
            freed_page_clock: 0,
            ratio: (parameters.percent * 1024 / 100).max(51),
            time_us: parameters.time_ms * 1000,
            least,
            // The constants of the server are 20, 5 and 512.
            tolerance: least * 20 / 512,
            non_old: least * 5 / 512,
            most_dirty: (m as u64 * parameters.dirty_percent / 100) as usize,
            depth: parameters.depth,
            rate: parameters.rate,
            references: 0,
            start: None,
            now: 0,
            timed: parameters.rate > 0,
            next_round: SECOND_US,
            woken: false,
            active: false,
            was_active: false,
            scan: None,
            single_scan: None,
            to_free: 0,
        }
    }

    fn served(&mut self) {
        self.references += 1;
        let by_rate = (self.references * SECOND_US).checked_div(self.rate);
        self.now = by_rate.unwrap_or(self.now);
    }

    fn position(&self, page: u64) -> usize {
        let found = self.lru.iter().position(|block| block.page == page);
        found.expect("the page is resident")
    }

    /// The position of `LRU_old`.
    fn lru_old(&self) -> usize {
        self.lru.len() - self.old
    }

    fn adjust_len(&mut self) {
        let len = self.lru.len();
        let young = self.tolerance + self.non_old;
        let new_len = (len * self.ratio as usize / 1024).min(len.saturating_sub(young));
        while self.old + self.tolerance < new_len && self.old < len {
            self.old += 1;
        }
        while self.old > new_len + self.tolerance {
            self.old -= 1;
        }
    }

    fn add_block(&mut self, mut block: Block, old: bool) {
        let len = self.lru.len();
        if !old || len < self.least {
            block.freed_page_clock = self.freed_page_clock;
            self.lru.insert(0, block);
        } else {
            let behind = (self.lru_old() + 1).min(len);
            self.lru.insert(behind, block);
            self.old += 1;
        }
        if self.lru.len() == self.least {
            self.old = self.least;
        }
        if self.lru.len() >= self.least {
            self.adjust_len();
        }
    }

    /// The page before this one, one step towards the head.
    fn previous(&self, page: u64) -> Option<u64> {
        let before = self.position(page).checked_sub(1)?;
        Some(self.lru[before].page)
    }

    /// `LRUItr::start`: the page itself unless it is old, or else the last one.
    fn start(&self, at: Option<u64>) -> Option<u64> {
        at.filter(|&page| self.position(page) < self.lru_old()).or_else(|| self.oldest_first().next())
    }

    /// `LRUHp::adjust`.
    fn adjusted(&self, at: Option<u64>, removed: u64) -> Option<u64> {
        if at == Some(removed) { self.previous(removed) } else { at }
    }

    /// `buf_LRU_free_from_common_LRU_list`.
    fn scan_for_clean(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        self.scan = self.start(self.scan);
        for _ in 0..100 {
            let page = self.scan?;
            self.scan = self.previous(page);
            if !self.flush_list.contains(&page) && !pinned.contains(&page) {
                return Some(page);
            }
        }
        None
    }

    /// `buf_flush_single_page_from_LRU`.
    fn scan_for_any(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        self.single_scan = self.start(self.single_scan);
        while let Some(page) = self.single_scan {
            self.single_scan = self.previous(page);
            if !pinned.contains(&page) {
                return Some(page);
            }
        }
        None
    }

    fn remove_block(&mut self, page: u64) -> Block {
        self.scan = self.adjusted(self.scan, page);
        self.single_scan = self.adjusted(self.single_scan, page);
        let position = self.position(page);
        if self.old > 0 && position == self.lru_old() && position > 0 {
            self.old += 1;
        }
        if position >= self.lru_old() {
            self.old -= 1;
        }
        let block = self.lru.remove(position);
        if self.lru.len() < self.least {
            self.old = 0;
        } else {
            self.adjust_len();
        }
        block
    }

    fn is_too_old(&self, page: u64) -> bool {
        let position = self.position(page);
        let block = &self.lru[position];
        if self.freed_page_clock == 0 {
            false
        } else if self.time_us > 0 && position >= self.lru_old() {
            !self.timed || self.now - block.access_time >= self.time_us
        } else {
            let young = self.m as u64 * (1024 - self.ratio) / (1024 * 4);
            self.freed_page_clock >= block.freed_page_clock + young
        }
    }

    fn make_young_if_needed(&mut self, page: u64) {
        if self.is_too_old(page) {
            let block = self.remove_block(page);
            self.add_block(block, false);
        }
    }

    fn set_dirty(&mut self, page: u64) {
        self.active = true;
        if !self.flush_list.contains(&page) {
            self.flush_list.push(page);
        }
    }

    fn oldest_first(&self) -> impl Iterator<Item = u64> {
        self.lru.iter().rev().map(|block| block.page)
    }
}

impl Policy for Innodb {
    fn request(&mut self, time_us: u64, _bypass: u32) {
        self.timed |= time_us > 0;
        let start = *self.start.get_or_insert(time_us);
        if self.rate == 0 {
            self.now = self.now.max(time_us.saturating_sub(start));
        }
    }

    fn background(&mut self) -> Vec<(u64, bool)> {
        let over = self.flush_list.len().saturating_sub(self.most_dirty);
        let oldest = self.flush_list.drain(..over);
        oldest.map(|page| (page, false)).collect()
    }

    fn hit(&mut self, page: u64, write: bool) {
        self.served();
        if write {
            self.set_dirty(page);
        }
        self.make_young_if_needed(page);
    }

    fn miss(&mut self, _page: u64, _write: bool) {
        if self.woken || self.now >= self.next_round {
            if self.woken {
                self.next_round = self.now;
            }
            self.woken = false;
            while self.next_round <= self.now {
                self.next_round += SECOND_US;
            }
            let free = self.m - self.lru.len();
            let evictable = self.lru.len().saturating_sub(self.least / 2);
            if self.active || self.was_active {
                self.to_free = self.depth.saturating_sub(free).min(evictable);
            }
            self.was_active = std::mem::take(&mut self.active);
        }
        self.served();
    }

    fn early_victim(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        let mut tail = self.oldest_first();
        tail.find(|page| !pinned.contains(page)).filter(|_| self.to_free > 0)
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let last = self.oldest_first().find(|page| !pinned.contains(page));
        if self.to_free > 0 {
            return last.expect("an unpinned page");
        }
        if let Some(page) = self.scan_for_clean(pinned) {
            return page;
        }
        self.woken = true;
        let any = self.scan_for_any(pinned);
        any.or(last).expect("an unpinned page")
    }

    fn evicted_with(&self, victim: u64) -> Vec<u64> {
        let others = self.oldest_first().filter(|page| *page != victim);
        others.take(self.to_free.saturating_sub(1)).collect()
    }

    fn admit(&mut self, page: u64, write: bool) {
        self.to_free = 0;
        let block = Block { page, freed_page_clock: 0, access_time: self.now };
        self.add_block(block, true);
        if write {
            self.set_dirty(page);
        }
        if self.time_us == 0 {
            self.make_young_if_needed(page);
        }
    }

    fn evict(&mut self, page: u64) {
        self.flush_list.retain(|other| *other != page);
        self.remove_block(page);
        self.freed_page_clock += 1;
    }

    fn clean(&mut self, page: u64) {
        self.flush_list.retain(|other| *other != page);
    }
}

#[cfg(test)]
mod tests {
    use crate::model;
    use crate::tests::Player;

    /// A list whose constants are those of 512 pages, divided by 128: it has an old part from four pages on.
    const SMALL: &str = "innodb:old_blocks_min=4,old_blocks_pct=50";

    #[test]
    fn an_old_page_becomes_young_a_second_after_its_first_access() {
        let play = |then: u64| {
            let mut player = Player::new(model(&format!("{SMALL},lru_scan_depth=0"), 6), "");
            player.model.request(7, 0);
            player.play("R1 R2 R3 R4 R5 R6");
            player.model.request(1_000_007, 0);
            // 4 3 2 | 5 7 6
            player.play("R7");
            player.model.request(then, 0);
            player.play("R7 R8 R9 R10")
        };
        // 7 stays old: 4 3 2 | 5 7 6, then 8 for 6: 5 8 7, 9 for 7: 5 9 8, 10 for 8.
        assert_eq!(play(2_000_006), [6, 7, 8]);
        // 7 4 3 | 2 5 6, then 8 for 6: 2 8 5, 9 for 5: 2 9 8.
        assert_eq!(play(2_000_007), [6, 5, 8]);
    }

    #[test]
    fn the_oldest_changes_are_written_above_the_limit() {
        let mut player = Player::new(model("innodb:max_dirty_pages_pct=50", 4), "");
        player.play("W1 W2 W1");
        assert_eq!(player.model.background(), []);
        player.play("W3");
        assert_eq!(player.model.background(), [(1, false)]);
        player.play("W1");
        assert_eq!(player.model.background(), [(2, false)]);
    }

    #[test]
    fn the_page_cleaner_frees_frames_once_a_second() {
        let mut player = Player::new(model("innodb:old_blocks_min=2,lru_scan_depth=3", 6), "");
        player.model.request(0, 0);
        player.play("W1 R2 R3 R4 R5");
        // One frame is empty, and three are to be: 1 and 2 are evicted for 6.
        player.model.request(1_000_000, 0);
        let evicted = player.play("R6");
        assert_eq!(evicted.len(), 2);
        assert_eq!(player.model.resident().len(), 4);
        assert_eq!(player.play("R7 R8"), []);
        assert_eq!(player.play("R9").len(), 1);
        // A second later the server is still active, and two seconds later it is idle.
        player.model.request(2_000_000, 0);
        assert_eq!(player.play("R10").len(), 3);
        assert_eq!(player.play("R11 R12"), []);
        player.model.request(3_000_000, 0);
        assert_eq!(player.play("R13").len(), 1);
    }

    #[test]
    fn a_thread_that_finds_no_clean_page_wakes_the_page_cleaner() {
        let mut player = Player::new(model("innodb:old_blocks_min=2,lru_scan_depth=2", 4), "");
        player.play("W1 W2 W3 W4");
        assert_eq!(player.play("R5").len(), 1);
        // The page cleaner frees two frames, of which 6 takes one and 7 the other.
        assert_eq!(player.play("R6").len(), 2);
        assert_eq!(player.play("R7"), []);
    }
}
