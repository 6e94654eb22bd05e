//! A priority queue over small integers whose members can be removed and re-keyed.

use std::hint::black_box;

const ABSENT: u32 = u32::MAX;
const ARITY: usize = 4;

/// A 4-ary min-heap of items `0..capacity`, each at most once, found by a table of positions.
pub(crate) struct IndexedHeap<K> {
    heap: Vec<(K, u32)>,
    positions: Vec<u32>,
}

impl<K: Copy + PartialOrd> IndexedHeap<K> {
    /// An empty heap for items `0..capacity`.
    pub(crate) fn new(capacity: u32) -> Self {
        IndexedHeap {
            heap: Vec::with_capacity(capacity as usize),
            positions: vec![ABSENT; capacity as usize],
        }
    }

    /// The item with the least key.
    #[inline]
    pub(crate) fn least(&self) -> Option<(K, u32)> {
        self.heap.first().copied()
    }

    /// The key of `item`, if it is in the heap.
    #[inline]
    pub(crate) fn key(&self, item: u32) -> Option<K> {
        match self.positions[item as usize] {
            ABSENT => None,
            position => Some(self.heap[position as usize].0),
        }
    }

    /// Reads what re-keying `item` will look at first, so that it is in the processor's cache by then.
    #[inline]
    pub(crate) fn prefetch(&self, item: u32) {
        let position = self.positions[item as usize] as usize;
        black_box(self.heap.get(position).map(|(key, _)| *key));
        black_box(
            self.heap
                .get(position.wrapping_sub(1) / ARITY)
                .map(|(key, _)| *key),
        );
    }

    /// Inserts `item`, or gives it a new key.
    #[inline]
    pub(crate) fn set(&mut self, item: u32, key: K) {
        let position = match self.positions[item as usize] {
            ABSENT => {
                self.heap.push((key, item));
                self.heap.len() - 1
            }
            position => {
                self.heap[position as usize].0 = key;
                position as usize
            }
        };
        let settled = self.sift_up(position);
        if settled == position {
            self.sift_down(position);
        }
    }

    /// Takes `item` out; does nothing if it is not there.
    #[inline]
    pub(crate) fn remove(&mut self, item: u32) {
        let position = std::mem::replace(&mut self.positions[item as usize], ABSENT);
        if position == ABSENT {
            return;
        }
        let position = position as usize;
        self.heap.swap_remove(position);
        if position < self.heap.len() {
            self.positions[self.heap[position].1 as usize] = position as u32;
            let settled = self.sift_up(position);
            if settled == position {
                self.sift_down(position);
            }
        }
    }

    /// The item with the least key among those that satisfy `wanted`.
    ///
    /// Walks only the subtrees whose root is not wanted, so it costs O(log n) while few are
    /// unwanted.
    pub(crate) fn least_where(&self, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let mut best: Option<(K, u32)> = None;
        let mut next = 0;
        let mut skip_subtree;
        if self.heap.is_empty() {
            return None;
        }
        loop {
            let (key, item) = self.heap[next];
            let beaten = best.is_some_and(|(least, _)| least < key);
            if beaten {
                skip_subtree = true;
            } else if wanted(item) {
                best = Some((key, item));
                skip_subtree = true;
            } else {
                skip_subtree = false;
            }
            let child = next * ARITY + 1;
            if !skip_subtree && child < self.heap.len() {
                next = child;
                continue;
            }
            loop {
                if next == 0 {
                    return best.map(|(_, item)| item);
                }
                let parent = (next - 1) / ARITY;
                let last_child = (parent * ARITY + ARITY).min(self.heap.len() - 1);
                if next < last_child {
                    next += 1;
                    break;
                }
                next = parent;
            }
        }
    }

    fn sift_up(&mut self, mut position: usize) -> usize {
        let moving = self.heap[position];
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if self.heap[parent].0 <= moving.0 {
                break;
            }
            self.place(position, self.heap[parent]);
            position = parent;
        }
        self.place(position, moving);
        position
    }

    fn sift_down(&mut self, mut position: usize) {
        let moving = self.heap[position];
        loop {
            let first = position * ARITY + 1;
            let end = (first + ARITY).min(self.heap.len());
            let Some(least) = (first..end).reduce(|a, b| {
                if self.heap[b].0 < self.heap[a].0 {
                    b
                } else {
                    a
                }
            }) else {
                break;
            };
            if moving.0 <= self.heap[least].0 {
                break;
            }
            self.place(position, self.heap[least]);
            position = least;
        }
        self.place(position, moving);
    }

    #[inline]
    fn place(&mut self, position: usize, entry: (K, u32)) {
        self.heap[position] = entry;
        self.positions[entry.1 as usize] = position as u32;
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
            let mut heap = IndexedHeap::new(40);
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
                prop_assert_eq!(heap.least().map(|(_, item)| item), model.values().min().map(|key| key.1));
                let odd = model.values().filter(|key| key.1 % 2 == 1).min().map(|key| key.1);
                prop_assert_eq!(heap.least_where(|item| item % 2 == 1), odd);
            }
        }
    }
}
