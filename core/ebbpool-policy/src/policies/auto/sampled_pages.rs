//! The locations of the sample's pages in each miniature.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::lists::FrameLists;
use crate::policy::{Frame, Ghost, MOST_GHOSTS, Page, PageClass, UNKNOWN_CLASS};

/// The list of pages that no miniature holds, in the order in which the last one evicted them.
const LOOSE: usize = 0;
/// The list of numbers without a page.
const FREE: usize = 1;

/// The number of a page of the sample, valid while the table holds the page.
pub(super) type SampleNumber = u32;

/// The location of a page in a miniature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageLocation {
    /// It is resident.
    In(Frame),
    /// It is not resident.
    Out(Option<Ghost>),
}

/// A page table for all miniatures, of a fixed number of pages: all that are resident somewhere,
/// and of the others those evicted last.
pub(super) struct SampledPages {
    index: HashTable<SampleNumber>,
    hasher: DefaultHashBuilder,
    pages: Vec<Page>,
    /// By page, its class; empty if no policy asks for classes.
    classes: Vec<PageClass>,
    /// By page, one entry per miniature.
    locations: Vec<u32>,
    miniatures: usize,
    /// The number of miniatures that hold the page.
    holders: Vec<u8>,
    unheld: FrameLists<2>,
}

const NOWHERE: u32 = u32::MAX;

impl SampledPages {
    /// Room for twice as many pages as `miniatures` miniatures of `frames` frames can hold, and for their classes if
    /// `has_classes`.
    pub(super) fn new(miniatures: usize, frames: u32, has_classes: bool) -> Self {
        let most = u64::from(frames) * 2 * miniatures as u64;
        let most = u32::try_from(most).unwrap_or(u32::MAX).min(MOST_GHOSTS);
        let mut unheld = FrameLists::new(most);
        (0..most).for_each(|page| unheld.push_mru(FREE, page));
        SampledPages {
            // With twice the room the table never grows, whatever is inserted and removed.
            index: HashTable::with_capacity(2 * most as usize),
            hasher: DefaultHashBuilder::default(),
            pages: vec![0; most as usize],
            classes: match has_classes {
                true => vec![UNKNOWN_CLASS; most as usize],
                false => Vec::new(),
            },
            locations: vec![NOWHERE; most as usize * miniatures],
            miniatures,
            holders: vec![0; most as usize],
            unheld,
        }
    }

    /// True if `sampled` is still the number of `page`, as it was before.
    #[inline]
    pub(super) fn holds(&self, sampled: SampleNumber, page: Page) -> bool {
        self.pages[sampled as usize] == page
    }

    /// The page's number, if the table holds the page.
    pub(super) fn find(&self, page: Page) -> Option<SampleNumber> {
        let is_its = |&sampled: &SampleNumber| self.pages[sampled as usize] == page;
        self.index.find(self.hasher.hash_one(page), is_its).copied()
    }

    /// The page's number; if it has none, it takes that of the page that has been held by no
    /// miniature longest.
    pub(super) fn find_or_add(&mut self, page: Page) -> Option<SampleNumber> {
        if let Some(sampled) = self.find(page) {
            return Some(sampled);
        }
        let sampled = match self.unheld.lru(FREE) {
            Some(free) => {
                self.unheld.remove(FREE, free);
                self.unheld.push_mru(LOOSE, free);
                free
            }
            None => {
                let oldest = self.unheld.lru(LOOSE)?;
                self.forget(oldest);
                self.unheld.move_to_mru(LOOSE, oldest);
                oldest
            }
        };
        let at = sampled as usize;
        self.pages[at] = page;
        self.locations[at * self.miniatures..(at + 1) * self.miniatures].fill(NOWHERE);
        let (pages, hasher) = (&self.pages, &self.hasher);
        let hash_of = |&sampled: &SampleNumber| hasher.hash_one(pages[sampled as usize]);
        self.index.insert_unique(hasher.hash_one(page), sampled, hash_of);
        Some(sampled)
    }

    fn forget(&mut self, sampled: SampleNumber) {
        let hash = self.hasher.hash_one(self.pages[sampled as usize]);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == sampled) {
            entry.remove();
        }
    }

    #[inline]
    fn at(&self, sampled: SampleNumber, miniature: usize) -> usize {
        sampled as usize * self.miniatures + miniature
    }

    #[inline]
    pub(super) fn page(&self, sampled: SampleNumber) -> Page {
        self.pages[sampled as usize]
    }

    /// The class of the page; `None` if no policy asks for classes.
    #[inline]
    pub(super) fn class(&self, sampled: SampleNumber) -> Option<PageClass> {
        self.classes.get(sampled as usize).copied()
    }

    /// Notes the class of the page, if some policy asks for classes.
    #[inline]
    pub(super) fn set_class(&mut self, sampled: SampleNumber, class: PageClass) {
        if let Some(of_page) = self.classes.get_mut(sampled as usize) {
            *of_page = class;
        }
    }

    #[inline]
    pub(super) fn location(&self, sampled: SampleNumber, miniature: usize) -> PageLocation {
        match self.locations[self.at(sampled, miniature)] {
            NOWHERE => PageLocation::Out(None),
            location if location < MOST_GHOSTS => PageLocation::In(location),
            location => PageLocation::Out(Some(location - MOST_GHOSTS)),
        }
    }

    /// The miniature has admitted the page.
    #[inline]
    pub(super) fn admitted(&mut self, sampled: SampleNumber, miniature: usize, frame: Frame) {
        let at = self.at(sampled, miniature);
        self.locations[at] = frame;
        let holders = &mut self.holders[sampled as usize];
        *holders += 1;
        if *holders == 1 {
            self.unheld.remove(LOOSE, sampled);
        }
    }

    /// The miniature has evicted the page.
    #[inline]
    pub(super) fn evicted(&mut self, sampled: SampleNumber, miniature: usize, ghost: Option<Ghost>) {
        let at = self.at(sampled, miniature);
        self.locations[at] = ghost.map_or(NOWHERE, |ghost| MOST_GHOSTS | ghost);
        let holders = &mut self.holders[sampled as usize];
        *holders -= 1;
        if *holders == 0 {
            self.unheld.push_mru(LOOSE, sampled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_unheld_longest_makes_room() {
        let mut pages = SampledPages::new(2, 1, false);
        let numbers: Vec<SampleNumber> = (10..14).filter_map(|page| pages.find_or_add(page)).collect();
        assert_eq!(numbers.len(), 4);
        for &sampled in &numbers {
            pages.admitted(sampled, 0, 0);
        }
        // A miniature holds each of them, so there is no room.
        assert_eq!(pages.find_or_add(14), None);
        pages.admitted(numbers[2], 1, 0);
        for &sampled in &numbers[1..] {
            pages.evicted(sampled, 0, Some(5));
        }
        assert_eq!(pages.location(numbers[1], 0), PageLocation::Out(Some(5)));
        assert_eq!(pages.location(numbers[2], 1), PageLocation::In(0));

        let newcomer = pages.find_or_add(14);
        assert_eq!(newcomer, Some(numbers[1]));
        assert_eq!(pages.location(numbers[1], 0), PageLocation::Out(None));
        assert!(!pages.holds(numbers[1], 11) && pages.holds(numbers[1], 14));
        assert_eq!((pages.find(11), pages.find(14)), (None, newcomer));
        // The newcomer was added last.
        assert_eq!(pages.find_or_add(15), Some(numbers[3]));
        assert_eq!(pages.find(12), Some(numbers[2]));
    }
}
