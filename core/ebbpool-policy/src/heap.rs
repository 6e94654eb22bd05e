//! A priority queue over small integers whose members can be removed and re-keyed.

use prefetch_index::prefetch_index;

use crate::slots::make_room;

const ABSENT: u32 = u32::MAX;
const ARITY: usize = 4;

/// A 4-ary min-heap of items, each at most once, found by a table of positions.
///
/// Keys and items are two arrays, so that no key is padded and the keys of siblings, which are
/// compared with each other, lie side by side.
pub(crate) struct IndexedHeap<K> {
    keys: Vec<K>,
    items: Vec<u32>,
    positions: Vec<u32>,
}

impl<K: Copy + PartialOrd> IndexedHeap<K> {
    /// An empty heap for items `0..capacity`, at most `members` of them at a time.
    pub(crate) fn new(capacity: u32, members: u32) -> Self {
        IndexedHeap {
            keys: Vec::with_capacity(members as usize),
            items: Vec::with_capacity(members as usize),
            positions: vec![ABSENT; capacity as usize],
        }
    }

    /// An empty heap that grows with the items inserted.
    pub(crate) fn growing() -> Self {
        Self::new(0, 0)
    }

    /// Makes room for items `0..capacity` of a heap that grows.
    pub(crate) fn reserve(&mut self, capacity: u32) {
        let capacity = capacity as usize;
        self.keys.reserve_exact(capacity.saturating_sub(self.keys.len()));
        self.items.reserve_exact(capacity.saturating_sub(self.items.len()));
        self.positions.reserve_exact(capacity.saturating_sub(self.positions.len()));
    }

    /// The item with the least key.
    #[inline]
    pub(crate) fn least(&self) -> Option<u32> {
        self.items.first().copied()
    }

    /// The key of `item`, if it is in the heap.
    #[inline]
    pub(crate) fn key(&self, item: u32) -> Option<K> {
        let position = *self.positions.get(item as usize)?;
        self.keys.get(position as usize).copied()
    }

    /// Loads what re-keying `item` reads first into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, item: u32) {
        let Some(&position) = self.positions.get(item as usize) else {
            return;
        };
        let position = position as usize;
        prefetch_index(&self.keys, position);
        prefetch_index(&self.keys, position.wrapping_sub(1) / ARITY);
    }

    /// Inserts `item`, or gives it a new key.
    #[inline]
    pub(crate) fn set(&mut self, item: u32, key: K) {
        if item as usize >= self.positions.len() {
            make_room(&mut self.positions, item as usize + 1);
            self.positions.resize(item as usize + 1, ABSENT);
        }
        let position = match self.positions[item as usize] {
            ABSENT => {
                let members = self.keys.len() + 1;
                make_room(&mut self.keys, members);
                make_room(&mut self.items, members);
                self.keys.push(key);
                self.items.push(item);
                members - 1
            }
            position => {
                self.keys[position as usize] = key;
                position as usize
            }
        };
        self.sift(position);
    }

    /// Removes `item`; does nothing if it is not in the heap.
    #[inline]
    pub(crate) fn remove(&mut self, item: u32) {
        let Some(position) = self.positions.get_mut(item as usize) else {
            return;
        };
        let position = std::mem::replace(position, ABSENT) as usize;
        if position >= self.keys.len() {
            return;
        }
        self.keys.swap_remove(position);
        self.items.swap_remove(position);
        if let Some(&moved) = self.items.get(position) {
            self.positions[moved as usize] = position as u32;
            self.sift(position);
        }
    }

    /// The item with the least key among those that satisfy `condition`.
    ///
    /// Walks only the subtrees whose root does not satisfy it, so it costs O(log n) while few items
    /// do not.
    pub(crate) fn least_where(&self, condition: impl Fn(u32) -> bool) -> Option<u32> {
        let mut best: Option<(K, u32)> = None;
        let mut next = 0;
        let mut skip_subtree;
        if self.keys.is_empty() {
            return None;
        }
        loop {
            let (key, item) = (self.keys[next], self.items[next]);
            let beaten = best.is_some_and(|(least, _)| least < key);
            if beaten {
                skip_subtree = true;
            } else if condition(item) {
                best = Some((key, item));
                skip_subtree = true;
            } else {
                skip_subtree = false;
            }
            let child = next * ARITY + 1;
            if !skip_subtree && child < self.keys.len() {
                next = child;
                continue;
            }
            loop {
                if next == 0 {
                    return best.map(|(_, item)| item);
                }
                let parent = (next - 1) / ARITY;
                let last_child = (parent * ARITY + ARITY).min(self.keys.len() - 1);
                if next < last_child {
                    next += 1;
                    break;
                }
                next = parent;
            }
        }
    }

    /// Moves the item at `position` to where its key belongs.
    #[inline]
    fn sift(&mut self, position: usize) {
        let (key, item) = (self.keys[position], self.items[position]);
        let settled = match self.rise(position, key) {
            risen if risen == position => self.sink(position, key),
            risen => risen,
        };
        self.place(settled, key, item);
    }

    /// Moves the items above `position` that have greater keys down. Returns the position that this
    /// frees.
    #[inline]
    fn rise(&mut self, mut position: usize, key: K) -> usize {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if self.keys[parent] <= key {
                break;
            }
            self.place(position, self.keys[parent], self.items[parent]);
            position = parent;
        }
        position
    }

    /// Moves the items below `position` that have lesser keys up. Returns the position that this
    /// frees.
    #[inline]
    fn sink(&mut self, mut position: usize, key: K) -> usize {
        loop {
            let first = position * ARITY + 1;
            let end = (first + ARITY).min(self.keys.len());
            let Some(least) = (first..end).reduce(|a, b| if self.keys[b] < self.keys[a] { b } else { a }) else {
                return position;
            };
            if key <= self.keys[least] {
                return position;
            }
            self.place(position, self.keys[least], self.items[least]);
            position = least;
        }
    }

    #[inline]
    fn place(&mut self, position: usize, key: K, item: u32) {
        self.keys[position] = key;
        self.items[position] = item;
        self.positions[item as usize] = position as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(ops in prop::collection::vec((0u32..40, 0u64..30, 0u8..3), 1..400)) {
            let mut heap = IndexedHeap::growing();
            let mut model: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
            for (item, key, op) in ops {
                if op == 0 {
                    heap.remove(item);
                    model.remove(&item);
                } else {
                    heap.set(item, (key, item));
                    model.insert(item, (key, item));
                }
                prop_assert_eq!(heap.key(item), model.get(&item).copied());
                prop_assert_eq!(heap.least(), model.values().min().map(|key| key.1));
                let odd = model.values().filter(|key| key.1 % 2 == 1).min().map(|key| key.1);
                prop_assert_eq!(heap.least_where(|item| item % 2 == 1), odd);
            }
        }
    }
}
