//! Where the pages of the sample are in each miniature.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::lists::Lists;
use crate::policy::{Frame, Ghost, MOST_GHOSTS, Page};

/// Pages that no miniature holds, by when the last one gave them up.
const LOOSE: usize = 0;
/// Numbers without a page.
const FREE: usize = 1;

/// The number of a page of the sample, its own while it is known here.
pub(super) type Sampled = u32;

/// Where a page is in a miniature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is resident.
    In(Frame),
    /// It left, or was never there.
    Out(Option<Ghost>),
}

/// A page table for all miniatures, of a fixed number of pages: all that are resident somewhere, and
/// of the others those given up last.
pub(super) struct SampledPages {
    index: HashTable<Sampled>,
    hasher: DefaultHashBuilder,
    pages: Vec<Page>,
    /// By page, for one miniature after the other.
    places: Vec<u32>,
    miniatures: usize,
    /// How many miniatures hold the page.
    holders: Vec<u8>,
    unheld: Lists<2>,
}

const NOWHERE: u32 = u32::MAX;

impl SampledPages {
    /// Room for as many pages as so many miniatures of `frames` frames can hold, and as many again.
    pub(super) fn new(miniatures: usize, frames: u32) -> Self {
        let most = u64::from(frames) * 2 * miniatures as u64;
        let most = u32::try_from(most).unwrap_or(u32::MAX).min(MOST_GHOSTS);
        let mut unheld = Lists::new(most);
        (0..most).for_each(|page| unheld.push_mru(FREE, page));
        SampledPages {
            // With twice the room the table never needs more, whatever comes and goes.
            index: HashTable::with_capacity(2 * most as usize),
            hasher: DefaultHashBuilder::default(),
            pages: vec![0; most as usize],
            places: vec![NOWHERE; most as usize * miniatures],
            miniatures,
            holders: vec![0; most as usize],
            unheld,
        }
    }

    /// True if `sampled` is still the number of `page`, whose it once was.
    #[inline]
    pub(super) fn is(&self, sampled: Sampled, page: Page) -> bool {
        self.pages[sampled as usize] == page
    }

    /// The page's number, if it is known.
    pub(super) fn find(&self, page: Page) -> Option<Sampled> {
        let is_its = |&sampled: &Sampled| self.pages[sampled as usize] == page;
        self.index.find(self.hasher.hash_one(page), is_its).copied()
    }

    /// The page's number; if it has none, that of the page that has been unheld longest.
    pub(super) fn find_or_add(&mut self, page: Page) -> Option<Sampled> {
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
        self.places[at * self.miniatures..(at + 1) * self.miniatures].fill(NOWHERE);
        let (pages, hasher) = (&self.pages, &self.hasher);
        let hash_of = |&sampled: &Sampled| hasher.hash_one(pages[sampled as usize]);
        self.index
            .insert_unique(hasher.hash_one(page), sampled, hash_of);
        Some(sampled)
    }

    fn forget(&mut self, sampled: Sampled) {
        let hash = self.hasher.hash_one(self.pages[sampled as usize]);
        if let Ok(entry) = self.index.find_entry(hash, |&known| known == sampled) {
            entry.remove();
        }
    }

    #[inline]
    fn at(&self, sampled: Sampled, miniature: usize) -> usize {
        sampled as usize * self.miniatures + miniature
    }

    #[inline]
    pub(super) fn page(&self, sampled: Sampled) -> Page {
        self.pages[sampled as usize]
    }

    #[inline]
    pub(super) fn place(&self, sampled: Sampled, miniature: usize) -> Place {
        match self.places[self.at(sampled, miniature)] {
            NOWHERE => Place::Out(None),
            place if place < MOST_GHOSTS => Place::In(place),
            place => Place::Out(Some(place - MOST_GHOSTS)),
        }
    }

    /// The miniature holds the page from now on.
    #[inline]
    pub(super) fn enters(&mut self, sampled: Sampled, miniature: usize, frame: Frame) {
        let at = self.at(sampled, miniature);
        self.places[at] = frame;
        let holders = &mut self.holders[sampled as usize];
        *holders += 1;
        if *holders == 1 {
            self.unheld.remove(LOOSE, sampled);
        }
    }

    /// The miniature holds the page no more.
    #[inline]
    pub(super) fn leaves(&mut self, sampled: Sampled, miniature: usize, ghost: Option<Ghost>) {
        let at = self.at(sampled, miniature);
        self.places[at] = ghost.map_or(NOWHERE, |ghost| MOST_GHOSTS | ghost);
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
        let mut pages = SampledPages::new(2, 1);
        let known: Vec<Sampled> = (10..14)
            .filter_map(|page| pages.find_or_add(page))
            .collect();
        assert_eq!(known.len(), 4);
        for &sampled in &known {
            pages.enters(sampled, 0, 0);
        }
        // All are held by somebody, so there is no room.
        assert_eq!(pages.find_or_add(14), None);
        pages.enters(known[2], 1, 0);
        for &sampled in &known[1..] {
            pages.leaves(sampled, 0, Some(5));
        }
        assert_eq!(pages.place(known[1], 0), Place::Out(Some(5)));
        assert_eq!(pages.place(known[2], 1), Place::In(0));

        let newcomer = pages.find_or_add(14);
        assert_eq!(newcomer, Some(known[1]));
        assert_eq!(pages.place(known[1], 0), Place::Out(None));
        assert!(!pages.is(known[1], 11) && pages.is(known[1], 14));
        assert_eq!((pages.find(11), pages.find(14)), (None, newcomer));
        // The newcomer was added last.
        assert_eq!(pages.find_or_add(15), Some(known[3]));
        assert_eq!(pages.find(12), Some(known[2]));
    }
}
