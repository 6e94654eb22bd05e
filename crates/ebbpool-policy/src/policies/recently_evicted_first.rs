//! Recently-evicted-first.

use std::hash::BuildHasher;
use std::hint::black_box;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::regions::{Regions, WINDOW as IN_WINDOW};
use crate::heap::IndexedHeap;
use crate::policy::{Access, Frame, Page, Policy};
use crate::registry::Build;
use crate::spec::{Entry, Kind, MAX_PAGES, Param, PolicySpec, WINDOW};

const NONE: u32 = u32::MAX;

/// Evicts the pages of a few erase blocks together, those with most pages in the window at the
/// LRU end, so that the device's log blocks are shared by few blocks.
pub struct Ref {
    regions: Regions,
    block_size: u64,
    by_number: HashTable<u32>,
    hasher: DefaultHashBuilder,
    blocks: Vec<Block>,
    free: Vec<u32>,
    /// Blocks with pages in the window that are not victim blocks: most pages first, then the
    /// block whose least recent page entered the window first. A block that has lost pages may
    /// stand too far ahead until it comes to the front.
    candidates: IndexedHeap<(u32, u64)>,
    victims: Vec<u32>,
    most_victims: usize,
    nodes: Vec<Node>,
    /// Counts pages entering the window: order of entry is order of recency.
    entries: u64,
}

struct Block {
    number: u64,
    /// Its pages in the buffer.
    resident: u32,
    /// Its pages in the window, least recent first.
    first: u32,
    last: u32,
    pages: u32,
    victim: bool,
}

#[derive(Clone, Copy)]
struct Node {
    entry: u64,
    block: u32,
    lruward: u32,
    mruward: u32,
}

impl Build for Ref {
    const ENTRY: Entry = Entry {
        name: "ref",
        aliases: &[],
        params: &[
            WINDOW,
            Param {
                name: "block",
                kind: Kind::Whole {
                    min: 1,
                    max: MAX_PAGES,
                    or: None,
                },
                default: "64",
                about: "pages per erase block (PPE: 16)",
            },
            Param {
                name: "victims",
                kind: Kind::Whole {
                    min: 1,
                    max: 1024,
                    or: None,
                },
                default: "4",
                about: "the most victim blocks at a time",
            },
        ],
        summary: "LRU that evicts from a few victim blocks, those with most pages in a window at the LRU end.",
        how: "One LRU list, whose window is the share nearest the LRU end, at least one page. The erase blocks with most pages in the window, a few of them, are the victim blocks; among their pages in the window the one nearest the LRU end goes. Only when no victim block has a page in the window any more is the set chosen anew. Clean and dirty pages count alike.",
        when: "Meant for devices that map by blocks and keep log blocks, where writes that share few erase blocks save merges; the plain cost model has no merges, so here it shows only what that costs. On the samples at R = 32 and 3 % it costs 2.6 % (pg-tpcc) and 7.5 % (pg-tatp) more than lru and saves 2.2 % on pg-tpcb. PPE (figure 3) finds more faults and more flushes than with lru as well.",
        bytes_per_frame: 109,
        source: "Seo and Shin 2008; PPE",
        online: true,
        looks_at_costs: false,
        asks_erase_counts: false,
    };

    fn build(spec: &PolicySpec, frames: u32) -> Self {
        let most_victims = spec.whole("victims").unwrap_or(1) as usize;
        // Victim blocks are kept even when they are empty.
        let most_blocks = frames as usize + most_victims;
        Ref {
            regions: Regions::new(frames, spec.share_of("window", frames).max(1)),
            block_size: spec.whole("block").unwrap_or(1),
            by_number: HashTable::with_capacity(frames as usize),
            hasher: DefaultHashBuilder::default(),
            blocks: Vec::with_capacity(most_blocks),
            free: Vec::with_capacity(most_blocks),
            candidates: IndexedHeap::new(frames.saturating_add(1024)),
            victims: Vec::with_capacity(most_victims),
            most_victims,
            nodes: vec![
                Node {
                    entry: 0,
                    block: NONE,
                    lruward: NONE,
                    mruward: NONE,
                };
                frames as usize
            ],
            entries: 0,
        }
    }
}

impl Ref {
    #[inline]
    fn enter_window(&mut self, frame: Frame) {
        self.entries += 1;
        let slot = self.nodes[frame as usize].block;
        let block = &mut self.blocks[slot as usize];
        let last = std::mem::replace(&mut block.last, frame);
        block.pages += 1;
        if last == NONE {
            block.first = frame;
        } else {
            self.nodes[last as usize].mruward = frame;
        }
        let node = &mut self.nodes[frame as usize];
        node.entry = self.entries;
        node.lruward = last;
        node.mruward = NONE;
        if !self.blocks[slot as usize].victim {
            self.advance(slot);
        }
    }

    /// To be called while `frame` is still in the window.
    #[inline]
    fn leave_window(&mut self, frame: Frame) {
        let Node {
            block: slot,
            lruward,
            mruward,
            ..
        } = self.nodes[frame as usize];
        let block = &mut self.blocks[slot as usize];
        block.pages -= 1;
        match lruward {
            NONE => block.first = mruward,
            _ => self.nodes[lruward as usize].mruward = mruward,
        }
        match mruward {
            NONE => block.last = lruward,
            _ => self.nodes[mruward as usize].lruward = lruward,
        }
    }

    /// The block's place among the candidates, if it has pages in the window.
    #[inline]
    fn key(&self, slot: u32) -> Option<(u32, u64)> {
        let block = &self.blocks[slot as usize];
        let first = self.nodes.get(block.first as usize)?;
        Some((u32::MAX - block.pages, first.entry))
    }

    /// Moves the block ahead among the candidates if it stands too far back.
    #[inline]
    fn advance(&mut self, slot: u32) {
        if let Some(key) = self.key(slot)
            && self.candidates.key(slot).is_none_or(|stands| key < stands)
        {
            self.candidates.set(slot, key);
        }
    }

    /// True if the candidate stands where it belongs; else moves it there.
    fn settle(&mut self, slot: u32) -> bool {
        match self.key(slot) {
            key if key == self.candidates.key(slot) => return true,
            Some(key) => self.candidates.set(slot, key),
            None => self.candidates.remove(slot),
        }
        false
    }

    /// The block of a page that has become resident.
    fn join(&mut self, number: u64) -> u32 {
        let hash = self.hasher.hash_one(number);
        let blocks = &mut self.blocks;
        let found = self
            .by_number
            .find(hash, |&slot| blocks[slot as usize].number == number);
        if let Some(&slot) = found {
            blocks[slot as usize].resident += 1;
            return slot;
        }
        let block = Block {
            number,
            resident: 1,
            first: NONE,
            last: NONE,
            pages: 0,
            victim: false,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                blocks[slot as usize] = block;
                slot
            }
            None => {
                blocks.push(block);
                blocks.len() as u32 - 1
            }
        };
        let (blocks, hasher) = (&self.blocks, &self.hasher);
        self.by_number.insert_unique(hash, slot, |&slot| {
            hasher.hash_one(blocks[slot as usize].number)
        });
        slot
    }

    /// Forgets the block if it has no page in the buffer. A victim block stays one, even empty,
    /// until the set is chosen anew.
    #[inline]
    fn forget_if_empty(&mut self, slot: u32) {
        let block = &self.blocks[slot as usize];
        if block.resident > 0 || block.victim {
            return;
        }
        let number = block.number;
        let hash = self.hasher.hash_one(number);
        if let Ok(entry) = self.by_number.find_entry(hash, |&known| known == slot) {
            entry.remove();
        }
        self.candidates.remove(slot);
        self.free.push(slot);
    }

    /// The block's least recent page in the window that may go.
    fn first(&self, slot: u32, may_go: impl Fn(Frame) -> bool) -> Option<Frame> {
        let mut frame = self.blocks[slot as usize].first;
        while frame != NONE && !may_go(frame) {
            frame = self.nodes[frame as usize].mruward;
        }
        (frame != NONE).then_some(frame)
    }

    fn first_of_victims(&self, may_go: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.victims
            .iter()
            .filter_map(|&slot| self.first(slot, &may_go))
            .min_by_key(|&frame| self.nodes[frame as usize].entry)
    }

    fn choose_victims(&mut self, may_go: impl Fn(Frame) -> bool) {
        while let Some(slot) = self.victims.pop() {
            self.blocks[slot as usize].victim = false;
            self.advance(slot);
            self.forget_if_empty(slot);
        }
        while self.victims.len() < self.most_victims {
            while let Some((_, slot)) = self.candidates.least()
                && !self.settle(slot)
            {}
            let chosen = loop {
                let wanted = |slot| self.first(slot, &may_go).is_some();
                match self.candidates.least_where(wanted) {
                    Some(slot) if !self.settle(slot) => {}
                    chosen => break chosen,
                }
            };
            let Some(slot) = chosen else {
                return;
            };
            self.candidates.remove(slot);
            self.blocks[slot as usize].victim = true;
            self.victims.push(slot);
        }
    }

    #[inline]
    fn enter(&mut self, frame: Frame) {
        if let Some(demoted) = self.regions.enter(frame) {
            self.enter_window(demoted);
        }
    }

    #[inline]
    fn leave(&mut self, frame: Frame) {
        if self.regions.in_window(frame) {
            self.leave_window(frame);
        }
        self.regions.leave(frame);
    }
}

impl Policy for Ref {
    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        if self.regions.in_window(frame) {
            self.leave(frame);
            self.enter(frame);
        } else {
            self.regions.touch(frame);
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        let block = self.nodes[frame as usize].block;
        black_box(self.blocks.get(block as usize).map(|block| block.first));
        self.regions.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        _incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        if let Some(frame) = self.first_of_victims(&may_go) {
            return Some(frame);
        }
        if self
            .regions
            .lists
            .find_from_lru(IN_WINDOW, &may_go)
            .is_none()
        {
            return self.regions.working_lru(may_go);
        }
        self.choose_victims(&may_go);
        self.first_of_victims(may_go)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        self.nodes[frame as usize].block = self.join(page / self.block_size);
        self.enter(frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.leave(frame);
        let slot = self.nodes[frame as usize].block;
        self.blocks[slot as usize].resident -= 1;
        self.forget_if_empty(slot);
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
