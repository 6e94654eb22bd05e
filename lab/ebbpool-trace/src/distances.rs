//! Exact LRU stack distances of a stream of references.

use std::collections::BTreeSet;

use prefetch_index::prefetch_index;

const WORD: usize = 64;
/// Words of bits that are counted at a reference: one line of the processor's cache.
const BLOCK_WORDS: usize = 8;
const BLOCK: usize = BLOCK_WORDS * WORD;
/// Counts that have one sum in the level above: one line of the cache too.
const FANOUT: usize = 16;
/// Slots of the time axis at the start, and its minimum.
const FEWEST_SLOTS: usize = 1 << 12;
/// Slots for each page after a compaction of the axis. More slots make compactions
/// rarer.
const SLOTS_PER_PAGE: usize = 4;
const NOWHERE: u32 = u32::MAX;

/// Computes, for each reference, how many distinct pages were referenced since the last
/// reference to the same page, including that page. LRU with at least this many frames
/// has the page in memory.
///
/// Every reference takes the next slot of a time axis, and a bit says whether it is
/// its page's last. The distance is the number of bits from that slot on, which a tree of
/// sums over blocks of bits counts: sixteen counts at a time without a branch that a processor
/// could predict wrongly. When the axis is full, a compaction moves the bits to its beginning.
/// Takes about 25 bytes per page.
#[derive(Debug, Clone)]
pub struct StackDistances {
    /// The slot of each page's last reference.
    slots: Vec<u32>,
    /// The page of each slot, valid where the slot's bit is set.
    pages: Vec<u32>,
    bits: Vec<u64>,
    /// Slots of pages that have ended, whose bits stay set: in LRU with that many frames a frame is empty there.
    holes: BTreeSet<u32>,
    /// The bits set in each block, then the sums of 16 entries of the level before; the last level is one group.
    levels: Vec<Vec<[u32; FANOUT]>>,
    top: usize,
    live: u32,
}

impl Default for StackDistances {
    fn default() -> Self {
        StackDistances::new()
    }
}

impl StackDistances {
    /// The largest number of pages: the time axis has four slots for each, numbered with 32
    /// bits.
    pub const MOST_PAGES: u64 = 1 << 30;

    /// A computation before the first reference.
    pub fn new() -> StackDistances {
        let bits = vec![0; FEWEST_SLOTS / WORD];
        StackDistances {
            slots: Vec::new(),
            pages: vec![0; FEWEST_SLOTS],
            levels: levels_over(&bits),
            bits,
            holes: BTreeSet::new(),
            top: 0,
            live: 0,
        }
    }

    /// Calls `found` with the distance of each of the next references to a page that had one before.
    pub fn reference_all(&mut self, pages: &[u32], mut found: impl FnMut(u32)) {
        /// References whose slots are fetched from memory together, and then whatever their distances are to change there.
        const TOGETHER: usize = 64;
        let mut distances = [0; TOGETHER];
        for chunk in pages.chunks(TOGETHER) {
            let slots = chunk.iter().filter_map(|page| self.slots.get(*page as usize));
            slots.for_each(|slot| prefetch_index(&self.bits, *slot as usize / WORD));
            let known = chunk.iter().filter_map(|page| self.reference(*page)).zip(&mut distances);
            let count = known.map(|(distance, to)| *to = distance).count();
            distances[..count].iter().copied().for_each(&mut found);
        }
    }

    /// The distance of the next reference, from 1 (the same page as before); `None` for the
    /// first reference to a page. Pages are numbered densely, below [`Self::MOST_PAGES`].
    pub fn reference(&mut self, page: u32) -> Option<u32> {
        if self.top == self.pages.len() {
            self.compact();
        }
        let at = page as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, NOWHERE);
        }
        let before = std::mem::replace(&mut self.slots[at], self.top as u32);
        let fills_hole = !self.holes.is_empty() && self.fill_hole(before);
        let distance = (before != NOWHERE).then(|| {
            let distance = self.live - self.before(before as usize);
            if !fills_hole {
                self.free(before as usize);
            }
            distance
        });
        if fills_hole {
            self.take_hole(before);
        }
        self.pages[self.top] = page;
        self.bits[self.top / WORD] |= 1 << (self.top % WORD);
        self.change(self.top, 1);
        self.top += 1;
        self.live += 1;
        distance
    }

    /// Ends a page: its frame is empty in all buffers that have it, and the next reference to it has no distance.
    pub fn remove(&mut self, page: u32) {
        let slot = self.slots.get_mut(page as usize).map(|slot| std::mem::replace(slot, NOWHERE));
        if let Some(slot) = slot.filter(|slot| *slot != NOWHERE) {
            self.leave_hole(slot);
        }
    }

    /// True if an empty frame lies above the slot where the next page was, or the page was nowhere.
    #[cold]
    fn fill_hole(&self, before: u32) -> bool {
        self.holes.last().is_some_and(|hole| before == NOWHERE || *hole > before)
    }

    /// The empty frame nearest to the top takes a page. Buffers that had the page have an empty frame where it was.
    #[cold]
    fn take_hole(&mut self, before: u32) {
        if let Some(hole) = self.holes.pop_last() {
            self.free(hole as usize);
        }
        if before != NOWHERE {
            self.leave_hole(before);
        }
    }

    fn leave_hole(&mut self, slot: u32) {
        self.pages[slot as usize] = NOWHERE;
        self.holes.insert(slot);
    }

    /// Clears a slot whose bit is set.
    #[inline]
    fn free(&mut self, slot: usize) {
        self.bits[slot / WORD] ^= 1 << (slot % WORD);
        self.change(slot, u32::MAX);
        self.live -= 1;
    }

    /// The distance that a reference to the page would have next; `None` if it was never referenced, or has ended.
    pub fn depth(&self, page: u32) -> Option<u32> {
        let slot = self.slots.get(page as usize);
        let slot = slot.filter(|slot| **slot != NOWHERE)?;
        Some(self.live - self.before(*slot as usize))
    }

    /// The pages referenced so far that have not ended, most recent first, and their distances: those of at most n are the pages
    /// that LRU with n frames has in memory.
    pub fn by_recency(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let slots = (0..self.bits.len() * WORD).rev();
        let set = slots.filter(|slot| self.bits[slot / WORD] >> (slot % WORD) & 1 == 1).map(|slot| self.pages[slot]);
        set.zip(1..).filter(|(page, _)| *page != NOWHERE)
    }

    /// Adds to the counts of a slot's block, modulo 2^32.
    #[inline]
    fn change(&mut self, slot: usize, by: u32) {
        let mut at = slot / BLOCK;
        for level in &mut self.levels {
            let count = &mut level[at / FANOUT][at % FANOUT];
            *count = count.wrapping_add(by);
            at /= FANOUT;
        }
    }

    /// Bits set before a slot.
    #[inline]
    fn before(&self, slot: usize) -> u32 {
        let (mut at, word) = (slot / BLOCK, slot / WORD % BLOCK_WORDS);
        let lower = (1 << (slot % WORD)) - 1;
        let words = &self.bits[at * BLOCK_WORDS..(at + 1) * BLOCK_WORDS];
        let ones = words.iter().enumerate().map(|(i, bits)| {
            let mask = if i == word { lower } else { 0 };
            (bits & if i < word { u64::MAX } else { mask }).count_ones()
        });
        let mut count = ones.sum();
        for level in &self.levels {
            let entries = level[at / FANOUT].iter().zip(0..);
            let earlier = (at % FANOUT) as u32;
            count += entries.map(|(&entry, i)| if i < earlier { entry } else { 0 }).sum::<u32>();
            at /= FANOUT;
        }
        count
    }

    /// Moves the pages to the beginning of an axis whose length fits their number.
    fn compact(&mut self) {
        let live = self.live as usize;
        let mut next = 0;
        self.holes.clear();
        for word in 0..self.bits.len() {
            let mut bits = self.bits[word];
            while bits != 0 {
                let page = self.pages[word * WORD + bits.trailing_zeros() as usize];
                bits &= bits - 1;
                self.pages[next] = page;
                match page {
                    NOWHERE => {
                        self.holes.insert(next as u32);
                    }
                    page => self.slots[page as usize] = next as u32,
                }
                next += 1;
            }
        }
        let slots = (SLOTS_PER_PAGE * live).next_multiple_of(BLOCK).max(FEWEST_SLOTS);
        self.pages.resize(slots, 0);
        self.bits.clear();
        self.bits.resize(slots / WORD, 0);
        for slot in 0..live {
            self.bits[slot / WORD] |= 1 << (slot % WORD);
        }
        self.levels = levels_over(&self.bits);
        self.top = live;
    }
}

/// The sums over blocks of bits, which are whole blocks.
fn levels_over(bits: &[u64]) -> Vec<Vec<[u32; FANOUT]>> {
    let ones = |words: &[u64]| words.iter().map(|bits| bits.count_ones()).sum();
    let mut counts: Vec<u32> = bits.chunks(BLOCK_WORDS).map(ones).collect();
    let mut levels = Vec::new();
    loop {
        counts.resize(counts.len().next_multiple_of(FANOUT), 0);
        let (level, _) = counts.as_chunks();
        levels.push(level.to_vec());
        if level.len() == 1 {
            return levels;
        }
        counts = level.iter().map(|group| group.iter().sum()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]

        #[test]
        fn distances_are_those_of_a_stack(
            pages in 1u32..3000,
            references in prop::collection::vec((any::<u32>(), any::<bool>()), 0..15_000),
        ) {
            let mut distances = StackDistances::new();
            let mut stack: Vec<u32> = Vec::new();
            for (draw, hot) in references {
                let page = draw % if hot { pages.div_ceil(50) } else { pages };
                let at = stack.iter().rev().position(|&other| other == page);
                let expected = at.map(|at| at as u32 + 1);
                if let Some(at) = at {
                    stack.remove(stack.len() - 1 - at);
                }
                stack.push(page);
                prop_assert_eq!(distances.depth(page), expected);
                prop_assert_eq!(distances.reference(page), expected);
                prop_assert_eq!(distances.depth(page), Some(1));
            }
            stack.reverse();
            let recent: Vec<(u32, u32)> = stack.into_iter().zip(1..).collect();
            prop_assert_eq!(distances.by_recency().collect::<Vec<_>>(), recent);
        }

        /// Distances are those from which on an LRU buffer with frames that pages leave empty has the page.
        #[test]
        fn distances_beside_pages_that_end(steps in prop::collection::vec((0u32..40, 0u8..10), 0..6000)) {
            let mut distances = StackDistances::new();
            let sizes = 1..=40u32;
            let mut buffers: Vec<Vec<u32>> = sizes.clone().map(|_| Vec::new()).collect();
            for (page, action) in steps {
                let has = |buffer: &Vec<u32>| buffer.contains(&page);
                let expected = buffers.iter().position(has).map(|at| at as u32 + 1);
                prop_assert!(buffers.iter().skip_while(|buffer| !has(buffer)).all(has), "larger buffers have the page");
                prop_assert_eq!(distances.depth(page), expected);
                if action == 0 {
                    distances.remove(page);
                } else {
                    prop_assert_eq!(distances.reference(page), expected);
                }
                for (buffer, frames) in buffers.iter_mut().zip(sizes.clone()) {
                    buffer.retain(|&other| other != page);
                    if action > 0 {
                        if buffer.len() as u32 == frames {
                            buffer.pop();
                        }
                        buffer.insert(0, page);
                    }
                }
            }
            let all: Vec<u32> = distances.by_recency().map(|(page, _)| page).collect();
            prop_assert_eq!(buffers.last(), Some(&all));
        }
    }

    #[test]
    fn the_axis_grows_with_the_pages_only() {
        let mut distances = StackDistances::new();
        for round in 0..3 {
            for page in 0..10_000 {
                assert_eq!(distances.reference(page), (round > 0).then_some(10_000));
            }
        }
        for _ in 0..1_000_000 {
            assert!(distances.reference(7).is_some());
        }
        assert!(distances.pages.len() <= 4 * 10_000 + BLOCK);
    }
}
