//! An LRU stack that tells the distance of any of its entries from the top in O(log m).

const WORD: usize = 64;
const WORDS_PER_BLOCK: usize = 8;
const BLOCK: usize = WORD * WORDS_PER_BLOCK;

/// A stack of entries, each at a *position* on a time axis; the newest position is the top.
///
/// A bit per position says whether an entry still stands there. The distance of an entry is the
/// number of bits from its position to the top, which a tree of sums over blocks of 512 positions
/// and at most eight population counts answer exactly. The block being filled is left out of the
/// tree, so that the hottest entries, which live there, cost no tree operation at all. When the
/// axis is used up, the entries move together at its start: once per at least 3 m
/// pushes.
pub(crate) struct DistanceStack {
    bits: Vec<u64>,
    /// Entries in each block but the current one.
    tree: SumTree,
    entries: Vec<u32>,
    /// The next free position.
    top: usize,
    len: u32,
    /// Entries in the block of `top`.
    current_len: u32,
    /// No entry stands in a word before this one.
    lowest_word: usize,
}

impl DistanceStack {
    /// A stack for at most `capacity` entries.
    pub(crate) fn new(capacity: u32) -> Self {
        let blocks = (4 * capacity as usize).div_ceil(BLOCK) + 1;
        DistanceStack {
            bits: vec![0; blocks * WORDS_PER_BLOCK],
            tree: SumTree::new(blocks),
            entries: vec![0; blocks * BLOCK],
            top: 0,
            len: 0,
            current_len: 0,
            lowest_word: 0,
        }
    }

    /// Number of entries.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// True when `compact` must be called before the next push.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.top == self.entries.len()
    }

    /// Puts `entry` on top and returns its position.
    #[inline]
    pub(crate) fn push(&mut self, entry: u32) -> u32 {
        let position = self.top;
        self.bits[position / WORD] |= 1 << (position % WORD);
        self.entries[position] = entry;
        self.top += 1;
        self.len += 1;
        self.current_len += 1;
        if self.top.is_multiple_of(BLOCK) {
            self.tree.add(position / BLOCK, self.current_len);
            self.current_len = 0;
        }
        position as u32
    }

    /// Takes the entry at `position` out.
    #[inline]
    pub(crate) fn remove(&mut self, position: u32) {
        let position = position as usize;
        self.bits[position / WORD] &= !(1 << (position % WORD));
        self.len -= 1;
        if position / BLOCK == self.top / BLOCK {
            self.current_len -= 1;
        } else {
            self.tree.decrement(position / BLOCK);
        }
    }

    /// The distance from the top of the entry at `position`; the top entry's is 1.
    #[inline]
    pub(crate) fn distance(&self, position: u32) -> u32 {
        let position = position as usize;
        let block = position / BLOCK;
        let word = position / WORD;
        let from_word = (self.bits[word] >> (position % WORD)).count_ones();
        if block == self.top / BLOCK {
            let newer = &self.bits[word + 1..=(self.top / WORD).max(word)];
            return from_word + newer.iter().map(|bits| bits.count_ones()).sum::<u32>();
        }
        let older = &self.bits[block * WORDS_PER_BLOCK..word];
        let before = self.tree.sum_before(block)
            + older.iter().map(|bits| bits.count_ones()).sum::<u32>()
            + self.bits[word].count_ones()
            - from_word;
        self.len - before
    }

    /// The entry at the bottom.
    pub(crate) fn bottom(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        while self.bits[self.lowest_word] == 0 {
            self.lowest_word += 1;
        }
        let position =
            self.lowest_word * WORD + self.bits[self.lowest_word].trailing_zeros() as usize;
        Some(self.entries[position])
    }

    /// Moves all entries together at the start of the axis, telling `moved` each entry's new
    /// position.
    pub(crate) fn compact(&mut self, mut moved: impl FnMut(u32, u32)) {
        let mut next = 0;
        for word in 0..self.bits.len() {
            let mut bits = std::mem::take(&mut self.bits[word]);
            while bits != 0 {
                let entry = self.entries[word * WORD + bits.trailing_zeros() as usize];
                bits &= bits - 1;
                self.entries[next] = entry;
                moved(entry, next as u32);
                next += 1;
            }
        }
        self.tree.clear();
        self.len = 0;
        self.current_len = 0;
        self.top = 0;
        self.lowest_word = 0;
        for position in 0..next {
            self.push(self.entries[position]);
        }
    }
}

const FANOUT: usize = 16;

/// Prefix sums over counters: each level holds the sums of 16 neighbours of the level below.
///
/// A change costs one addition a level, a query a masked sum of 16 counters a level, without
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
        fn distances_equal_a_walk(capacity in 1u32..1500, ops in prop::collection::vec(0u32..3000, 1..6000)) {
            let mut stack = DistanceStack::new(capacity);
            let mut positions = vec![None; 3000];
            let mut walk: Vec<u32> = Vec::new();
            for entry in ops {
                if let Some(position) = positions[entry as usize].take() {
                    let distance = walk.iter().rev().position(|&other| other == entry).map(|at| at as u32 + 1);
                    prop_assert_eq!(Some(stack.distance(position)), distance);
                    stack.remove(position);
                    walk.retain(|&other| other != entry);
                    if entry % 5 == 0 {
                        continue;
                    }
                } else if walk.len() as u32 == capacity {
                    let bottom = walk.remove(0);
                    prop_assert_eq!(stack.bottom(), Some(bottom));
                    if let Some(position) = positions[bottom as usize].take() {
                        stack.remove(position);
                    }
                }
                if stack.is_used_up() {
                    stack.compact(|entry, position| positions[entry as usize] = Some(position));
                }
                positions[entry as usize] = Some(stack.push(entry));
                walk.push(entry);
                prop_assert_eq!(stack.len() as usize, walk.len());
            }
        }
    }
}
