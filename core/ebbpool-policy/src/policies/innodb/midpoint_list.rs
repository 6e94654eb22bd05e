//! InnoDB's LRU list with a midpoint (`buf0lru.cc`).

use crate::lists::FrameLists;
use crate::policy::Frame;

const YOUNG: usize = 0;
const OLD: usize = 1;

/// The denominator of the old part's share (`BUF_LRU_OLD_RATIO_DIV`).
pub(super) const RATIO: u64 = 1024;

/// The list of the server for which the constants of the source are made (`BUF_LRU_OLD_MIN_LEN`).
const SERVERS_LEAST: u64 = 512;

/// The least share of the old part (`BUF_LRU_OLD_RATIO_MIN`).
const LEAST_RATIO: u64 = 51;

/// A search from the tail to the head. It goes on where the last one stopped if that page is young (`LRUItr::start`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TailSearch {
    /// For a clean page (`lru_scan_itr`).
    Clean,
    /// For a page to be written and evicted by the thread that needs a frame (`single_scan_itr`).
    Written,
}

/// The frames in order of use, with an old part behind a midpoint, at which pages enter.
pub(super) struct MidpointList {
    /// The young part, and the old part, which is empty while the list is short.
    lists: FrameLists<2>,
    is_old: Vec<bool>,
    /// The old part's share, in 1024ths.
    ratio: u64,
    /// The length from which the list has an old part.
    least: u64,
    /// How far the old part's length may be off (`BUF_LRU_OLD_TOLERANCE`).
    tolerance: u64,
    /// The fewest young pages (`BUF_LRU_NON_OLD_MIN_LEN`).
    fewest_young: u64,
    /// Where each search goes on.
    searches: [Option<Frame>; 2],
}

impl MidpointList {
    /// An empty list whose old part has `percent` of it once it has `least` frames.
    pub(super) fn new(percent: u64, least: u64, frames: u32) -> Self {
        MidpointList {
            lists: FrameLists::new(frames),
            is_old: vec![false; frames as usize],
            ratio: (percent * RATIO / 100).max(LEAST_RATIO),
            least,
            tolerance: least * 20 / SERVERS_LEAST,
            fewest_young: least * 5 / SERVERS_LEAST,
            searches: [None; 2],
        }
    }

    /// The old part's share, in 1024ths.
    pub(super) fn ratio(&self) -> u64 {
        self.ratio
    }

    pub(super) fn len(&self) -> u64 {
        u64::from(self.lists.len(YOUNG)) + u64::from(self.lists.len(OLD))
    }

    #[inline]
    pub(super) fn is_old(&self, frame: Frame) -> bool {
        self.is_old[frame as usize]
    }

    /// The frames from the tail on.
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = Frame> {
        self.lists.frames(OLD).chain(self.lists.frames(YOUNG))
    }

    /// The frame next to this one, one step towards the head.
    fn headward(&self, frame: Frame) -> Option<Frame> {
        let next = self.lists.mruward(frame);
        match self.is_old(frame) {
            true => next.or_else(|| self.lists.lru(YOUNG)),
            false => next,
        }
    }

    /// The first of at most `most` frames that satisfies `condition`: from where the search stopped, or from the tail if
    /// that frame is old.
    pub(super) fn search(&mut self, search: TailSearch, most: usize, condition: impl Fn(Frame) -> bool) -> Option<Frame> {
        let start = self.searches[search as usize].filter(|&frame| !self.is_old(frame));
        let mut at = start.or_else(|| self.oldest_first().next());
        let mut found = None;
        for _ in 0..most {
            let Some(frame) = at else { break };
            at = self.headward(frame);
            if condition(frame) {
                found = Some(frame);
                break;
            }
        }
        self.searches[search as usize] = at;
        found
    }

    /// Puts the frame to the head.
    pub(super) fn push_young(&mut self, frame: Frame) {
        let before = self.len();
        self.is_old[frame as usize] = false;
        self.lists.push_mru(YOUNG, frame);
        if before + 1 == self.least {
            self.begin_old_part();
        } else if before + 1 > self.least {
            self.adjust();
        }
    }

    /// Puts the frame to the midpoint, behind the first old page; to the head of a short list. True if it is old.
    pub(super) fn push_at_midpoint(&mut self, frame: Frame) -> bool {
        if self.len() < self.least {
            self.push_young(frame);
            return false;
        }
        self.is_old[frame as usize] = true;
        match self.lists.mru(OLD) {
            Some(first_old) => self.lists.push_lruward_of(OLD, first_old, frame),
            None => self.lists.push_mru(OLD, frame),
        }
        self.adjust();
        true
    }

    /// Takes the frame out.
    pub(super) fn remove(&mut self, frame: Frame) {
        for search in 0..self.searches.len() {
            if self.searches[search] == Some(frame) {
                self.searches[search] = self.headward(frame);
            }
        }
        if self.lists.mru(OLD) == Some(frame) {
            self.make_last_young_old();
        }
        let part = if self.is_old(frame) { OLD } else { YOUNG };
        self.lists.remove(part, frame);
        self.is_old[frame as usize] = false;
        if self.len() < self.least {
            while self.make_first_old_young() {}
        } else {
            self.adjust();
        }
    }

    /// The list is now long enough: all pages are old, and the midpoint moves to its position.
    fn begin_old_part(&mut self) {
        let length = (self.desired() + self.tolerance).min(self.len());
        while u64::from(self.lists.len(OLD)) < length && self.make_last_young_old() {}
        self.adjust();
    }

    /// The desired length of the old part.
    fn desired(&self) -> u64 {
        let length = self.len();
        let most = length.saturating_sub(self.tolerance + self.fewest_young);
        (length * self.ratio / RATIO).min(most)
    }

    /// Moves the midpoint if the old part's length is off by more than the tolerance.
    fn adjust(&mut self) {
        let desired = self.desired();
        loop {
            let old = u64::from(self.lists.len(OLD));
            let moved = if old + self.tolerance < desired {
                self.make_last_young_old()
            } else if old > desired + self.tolerance {
                self.make_first_old_young()
            } else {
                false
            };
            if !moved {
                return;
            }
        }
    }

    /// Moves the midpoint by a frame towards the head; false if no page is young.
    fn make_last_young_old(&mut self) -> bool {
        let Some(frame) = self.lists.lru(YOUNG) else {
            return false;
        };
        self.lists.remove(YOUNG, frame);
        self.lists.push_mru(OLD, frame);
        self.is_old[frame as usize] = true;
        true
    }

    /// Moves the midpoint by a frame towards the tail; false if no page is old.
    fn make_first_old_young(&mut self) -> bool {
        let Some(frame) = self.lists.mru(OLD) else {
            return false;
        };
        self.lists.remove(OLD, frame);
        self.lists.push_lru(YOUNG, frame);
        self.is_old[frame as usize] = false;
        true
    }

    #[inline]
    pub(super) fn prefetch(&self, frame: Frame) {
        self.lists.prefetch(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(percent: u64, frames: u32) -> MidpointList {
        let mut list = MidpointList::new(percent, 512, 2000);
        for frame in 0..frames {
            list.push_at_midpoint(frame);
        }
        list
    }

    fn old(list: &MidpointList) -> usize {
        list.oldest_first().filter(|&frame| list.is_old(frame)).count()
    }

    #[test]
    fn the_old_part_begins_at_512_frames() {
        let list = filled(37, 511);
        assert_eq!(old(&list), 0);
        // All 512 are old, and the midpoint moves until the old part is at the upper end of its tolerance:
        // 512 x 378 / 1024 = 189, and 20.
        let mut list = filled(37, 512);
        assert_eq!(old(&list), 209);
        // The oldest are the first that entered.
        assert!(list.oldest_first().take(209).eq(0..209));
        // The next page enters behind the first old one, which is frame 208. The old part may have 210 - 1.
        assert!(list.push_at_midpoint(600));
        assert_eq!(old(&list), 209);
        let around: Vec<Frame> = list.oldest_first().skip(207).take(3).collect();
        assert_eq!(around, [207, 600, 208]);
        assert!(!list.is_old(208));
        // Below 512 frames all are young again.
        list.remove(0);
        assert_eq!(old(&list), 208);
        list.remove(1);
        assert_eq!(old(&list), 0);
    }

    #[test]
    fn searches_go_on_in_the_young_part_only() {
        let mut list = filled(37, 300);
        let clean = |list: &mut MidpointList, most| list.search(TailSearch::Clean, most, |frame| frame > 2);
        // All are young, with frames 0, 1 and 2 at the tail.
        assert_eq!(clean(&mut list, 3), None);
        assert_eq!(clean(&mut list, 3), Some(3));
        assert_eq!(clean(&mut list, 3), Some(4));
        assert_eq!(list.search(TailSearch::Written, 1, |_| true), Some(0));
        // A frame that is removed hands the search on.
        list.remove(5);
        assert_eq!(clean(&mut list, 3), Some(6));
        // The head is the end, from which a search begins again.
        assert_eq!(list.search(TailSearch::Clean, 400, |_| false), None);
        assert_eq!(clean(&mut list, 4), Some(3));
        // Among old pages each search begins at the tail.
        let mut list = filled(37, 1000);
        assert_eq!(clean(&mut list, 3), None);
        assert_eq!(clean(&mut list, 4), Some(3));
        assert_eq!(clean(&mut list, 4), Some(3));
    }

    #[test]
    fn some_pages_are_always_young() {
        // 95 % of 1024ths is 972. The old part has at most 25 pages less than the list, and 20 of tolerance.
        let list = filled(95, 512);
        assert_eq!(old(&list), 506);
        let list = filled(100, 512);
        assert_eq!(old(&list), 507);
    }

    #[test]
    fn the_first_old_page_hands_its_position_on() {
        let mut list = filled(37, 1000);
        assert_eq!(old(&list), 389);
        let first_old = list.lists.mru(OLD).expect("an old page");
        list.remove(first_old);
        list.push_young(first_old);
        // The last young page became old, and young again with 999 pages, of which 368 and 20 may be old.
        assert_eq!(old(&list), 388);
        assert_eq!(list.lists.mru(YOUNG), Some(first_old));
        assert_eq!(list.len(), 1000);
    }
}
