//! An LRU stack that tells the distance of any of its entries from the top in O(log m).

const WORD: usize = 64;
const WORDS_PER_BLOCK: usize = 8;
const BLOCK: usize = WORD * WORDS_PER_BLOCK;

/// A stack of entries, each at a *position* on a time axis; the newest position is the top.
///
/// A bit per position says whether an entry still stands there. The distance of an entry is the
/// number of bits from its position to the top, which a Fenwick tree over blocks of 512 positions
/// and at most eight population counts answer exactly. The block being filled is left out of the
/// tree, so that the hottest entries, which live there, cost no tree operation at all. When the
/// axis is used up, the entries move together at its start: once per at least m pushes.
pub(crate) struct DistanceStack {
    bits: Vec<u64>,
    /// Fenwick tree over the entries in each block but the current one.
    tree: Vec<u32>,
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
        let blocks = (2 * capacity as usize).div_ceil(BLOCK) + 1;
        DistanceStack {
            bits: vec![0; blocks * WORDS_PER_BLOCK],
            tree: vec![0; blocks + 1],
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
            let filled = self.current_len;
            self.add_to_tree(position / BLOCK, |sum| sum + filled);
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
            self.add_to_tree(position / BLOCK, |sum| sum - 1);
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
        let before = self.sum_before(block)
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
        self.tree.fill(0);
        self.len = 0;
        self.current_len = 0;
        self.top = 0;
        self.lowest_word = 0;
        for position in 0..next {
            self.push(self.entries[position]);
        }
    }

    #[inline]
    fn add_to_tree(&mut self, block: usize, change: impl Fn(u32) -> u32) {
        let mut node = block + 1;
        while node < self.tree.len() {
            self.tree[node] = change(self.tree[node]);
            node += node & node.wrapping_neg();
        }
    }

    #[inline]
    fn sum_before(&self, block: usize) -> u32 {
        let mut node = block;
        let mut sum = 0;
        while node > 0 {
            sum += self.tree[node];
            node &= node - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
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
