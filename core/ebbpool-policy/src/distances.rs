//! An LRU stack that computes the distance of any of its entries from the top in O(log m).

use prefetch_index::prefetch_index;

const WORD: usize = 64;
const WORDS_PER_BLOCK: usize = 4;
const BLOCK: usize = WORD * WORDS_PER_BLOCK;

/// A stack of entries, each identified by its *position* on a time axis; the newest position is the
/// top.
///
/// A bit per position says whether an entry still stands there. The distance of an entry is the
/// number of bits from its position to the top, which a tree of sums over blocks of 256 positions
/// and four population counts compute exactly. The tree does not include the block being filled, so
/// that the hottest entries, which are there, cost no tree operation at all. When the axis is used
/// up, the stack moves all entries together at its start, at most once per 3 m pushes.
///
/// The owner of the entries stores their positions. The stack does not notify the owner of an entry
/// that drops off the bottom: `holds` is false for its position from then on.
pub(crate) struct DistanceStack {
    bits: Vec<u64>,
    /// Entries in each block but the current one.
    tree: SumTree,
    /// Entries before each word; used while compacting.
    before: Vec<u32>,
    /// The next free position.
    top: u32,
    /// No entry stands below this position.
    bottom: u32,
    len: u32,
    /// Entries in the block of `top`.
    current_len: u32,
}

impl DistanceStack {
    /// A stack for at most `capacity` entries.
    pub(crate) fn new(capacity: u32) -> Self {
        let blocks = (4 * capacity as usize).div_ceil(BLOCK) + 1;
        DistanceStack {
            bits: vec![0; blocks * WORDS_PER_BLOCK],
            tree: SumTree::new(blocks),
            before: vec![0; blocks * WORDS_PER_BLOCK],
            top: 0,
            bottom: 0,
            len: 0,
            current_len: 0,
        }
    }

    /// Number of entries.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// True if the entry pushed at `position`, and not removed since, has not dropped off the
    /// bottom.
    #[inline]
    pub(crate) fn holds(&self, position: u32) -> bool {
        position.wrapping_sub(self.bottom) < self.top - self.bottom
    }

    /// True when `compact` must be called before the next push.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.top as usize == WORD * self.bits.len()
    }

    #[inline]
    fn current_block(&self) -> usize {
        self.top as usize / BLOCK
    }

    /// Puts a new entry on top and returns its position.
    #[inline]
    pub(crate) fn push(&mut self) -> u32 {
        self.len += 1;
        self.current_len += 1;
        self.mark_top()
    }

    /// Moves the entry at `position`, which the stack holds, to the top and returns its new
    /// position.
    #[inline]
    pub(crate) fn raise(&mut self, position: u32) -> u32 {
        let position = position as usize;
        self.bits[position / WORD] &= !(1 << (position % WORD));
        if position / BLOCK != self.current_block() {
            self.tree.decrement(position / BLOCK);
            self.current_len += 1;
        }
        self.mark_top()
    }

    #[inline]
    fn mark_top(&mut self) -> u32 {
        let position = self.top as usize;
        self.bits[position / WORD] |= 1 << (position % WORD);
        self.top += 1;
        if (position + 1).is_multiple_of(BLOCK) {
            self.tree.add(position / BLOCK, self.current_len);
            self.current_len = 0;
        }
        position as u32
    }

    /// Removes the entry at `position`, which the stack holds.
    #[inline]
    pub(crate) fn remove(&mut self, position: u32) {
        let position = position as usize;
        self.bits[position / WORD] &= !(1 << (position % WORD));
        self.len -= 1;
        if position / BLOCK == self.current_block() {
            self.current_len -= 1;
        } else {
            self.tree.decrement(position / BLOCK);
        }
    }

    /// Drops the entry at the bottom of a stack that is not empty.
    #[inline]
    pub(crate) fn drop_bottom(&mut self) {
        let mut word = self.bottom as usize / WORD;
        while self.bits[word] == 0 {
            word += 1;
        }
        let position = (word * WORD) as u32 + self.bits[word].trailing_zeros();
        self.remove(position);
        self.bottom = position + 1;
    }

    /// Prefetches what [`Self::distance`] will read, whether or not the stack holds `position`.
    #[inline]
    pub(crate) fn prefetch(&self, position: u32) {
        let block = position as usize / BLOCK;
        prefetch_index(&self.bits, block * WORDS_PER_BLOCK);
        self.tree.prefetch(block);
    }

    /// The distance from the top of the entry at `position`, which the stack holds; the top
    /// entry's is 1.
    #[inline]
    pub(crate) fn distance(&self, position: u32) -> u32 {
        let position = position as usize;
        let block = position / BLOCK;
        let words = &self.bits[block * WORDS_PER_BLOCK..(block + 1) * WORDS_PER_BLOCK];
        let inside = (position % BLOCK) as u32;
        let mut older = 0;
        let mut newer = 0;
        for (first, &bits) in (0..).step_by(WORD).zip(words) {
            let below = inside.saturating_sub(first).min(WORD as u32);
            let mask = 1u64.checked_shl(below).unwrap_or(0).wrapping_sub(1);
            older += (bits & mask).count_ones();
            newer += (bits & !mask).count_ones();
        }
        if block == self.current_block() { newer } else { self.len - older - self.tree.sum_before(block) }
    }

    /// Moves all entries together at the start of the axis. `positions` are all positions that the
    /// owner stores; positions that the stack does not hold become `u32::MAX`.
    pub(crate) fn compact<'a>(&mut self, positions: impl Iterator<Item = &'a mut u32>) {
        let mut sum = 0;
        for (before, bits) in self.before.iter_mut().zip(&self.bits) {
            *before = sum;
            sum += bits.count_ones();
        }
        for position in positions {
            *position = if self.holds(*position) {
                let (word, bit) = (*position as usize / WORD, *position as usize % WORD);
                self.before[word] + (self.bits[word] & ((1 << bit) - 1)).count_ones()
            } else {
                u32::MAX
            };
        }
        self.bits.fill(0);
        self.tree.clear();
        self.len = 0;
        self.current_len = 0;
        self.top = 0;
        self.bottom = 0;
        for _ in 0..sum {
            self.push();
        }
    }
}

const FANOUT: usize = 16;

/// Prefix sums over counters: each level holds the sums of 16 neighbours of the level below.
///
/// A change costs one addition per level, a query a masked sum of 16 counters per level, without
/// branches that depend on the position.
struct SumTree {
    levels: Vec<Vec<u32>>,
}

impl SumTree {
    fn new(counters: usize) -> Self {
        let mut levels = Vec::new();
        let mut width = counters;
        loop {
            let padded = width.next_multiple_of(FANOUT);
            levels.push(vec![0; padded]);
            if padded == FANOUT {
                return SumTree { levels };
            }
            width = padded / FANOUT;
        }
    }

    #[inline]
    fn add(&mut self, mut counter: usize, amount: u32) {
        for level in &mut self.levels {
            level[counter] += amount;
            counter /= FANOUT;
        }
    }

    #[inline]
    fn decrement(&mut self, mut counter: usize) {
        for level in &mut self.levels {
            level[counter] -= 1;
            counter /= FANOUT;
        }
    }

    /// Prefetches what [`Self::sum_before`] reads in the lowest level; the others stay in the
    /// cache.
    #[inline]
    fn prefetch(&self, counter: usize) {
        if let Some(lowest) = self.levels.first() {
            prefetch_index(lowest, counter / FANOUT * FANOUT);
        }
    }

    /// The sum of all counters before `counter`.
    #[inline]
    fn sum_before(&self, mut counter: usize) -> u32 {
        let mut sum = 0;
        for level in &self.levels {
            let inside = (counter % FANOUT) as u32;
            let start = counter - counter % FANOUT;
            for (at, value) in (0..).zip(&level[start..start + FANOUT]) {
                sum += if at < inside { *value } else { 0 };
            }
            counter /= FANOUT;
        }
        sum
    }

    fn clear(&mut self) {
        self.levels.iter_mut().for_each(|level| level.fill(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prefix_sums_equal_plain_ones(counters in 1usize..9000, ops in prop::collection::vec((0usize..9000, 0u32..600), 1..200)) {
            let mut tree = SumTree::new(counters);
            let mut plain = vec![0; counters];
            for (counter, amount) in ops {
                let counter = counter % counters;
                tree.add(counter, amount);
                plain[counter] += amount;
                if plain[counter] > 0 {
                    tree.decrement(counter);
                    plain[counter] -= 1;
                }
                let before = (counter * 7 + 3) % counters;
                prop_assert_eq!(tree.sum_before(before), plain[..before].iter().sum::<u32>());
            }
        }

        #[test]
        fn distances_equal_a_walk(capacity in 1u32..1500, ops in prop::collection::vec(0u32..3000, 1..3000)) {
            let mut stack = DistanceStack::new(capacity);
            let mut positions = vec![u32::MAX; 3000];
            let mut walk: Vec<u32> = Vec::new();
            for entry in ops {
                let position = positions[entry as usize];
                let distance = walk.iter().rev().position(|&other| other == entry).map(|at| at as u32 + 1);
                prop_assert_eq!(stack.holds(position).then(|| stack.distance(position)), distance);
                if stack.is_used_up() {
                    stack.compact(positions.iter_mut());
                }
                let position = positions[entry as usize];
                if distance.is_some() {
                    walk.retain(|&other| other != entry);
                    if entry % 5 == 0 {
                        stack.remove(position);
                        positions[entry as usize] = u32::MAX;
                        continue;
                    }
                    positions[entry as usize] = stack.raise(position);
                } else {
                    if walk.len() as u32 == capacity {
                        walk.remove(0);
                        stack.drop_bottom();
                    }
                    positions[entry as usize] = stack.push();
                }
                walk.push(entry);
                prop_assert_eq!(stack.len() as usize, walk.len());
            }
        }
    }
}
