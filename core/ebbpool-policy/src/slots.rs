//! A table of the erase blocks and clusters that have pages in the buffer.

use std::hash::BuildHasher;
use std::ops::{Index, IndexMut};

use hashbrown::{DefaultHashBuilder, HashTable};

/// Values found by number, each in a slot: a small number that identifies it until it is removed.
///
/// The number of slots is the highest number of values that there ever were at once. The table has room for twice as many,
/// so that it makes room where values were removed in place of growing, whatever its hasher's seed.
pub(crate) struct Slots<T> {
    by_number: HashTable<u32>,
    hasher: DefaultHashBuilder,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    number: u64,
    value: T,
}

impl<T> Slots<T> {
    /// No values yet.
    pub(crate) fn new() -> Self {
        Slots { by_number: HashTable::new(), hasher: DefaultHashBuilder::default(), slots: Vec::new(), free: Vec::new() }
    }

    /// Makes room for `most` values at once.
    pub(crate) fn reserve(&mut self, most: u32) {
        let further = (most as usize).saturating_sub(self.slots.len());
        self.slots.reserve_exact(further);
        self.free.reserve_exact(self.slots.capacity() - self.free.len());
        self.grow_table();
    }

    /// The slot of `number`, if it has a value.
    #[inline]
    pub(crate) fn find(&self, number: u64) -> Option<u32> {
        let is_its = |&slot: &u32| self.slots[slot as usize].number == number;
        let hash = self.hasher.hash_one(number);
        self.by_number.find(hash, is_its).copied()
    }

    /// Stores `value` for `number`, which has none. Returns its slot.
    pub(crate) fn insert(&mut self, number: u64, value: T) -> u32 {
        let entry = Slot { number, value };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                let slots = self.slots.len() + 1;
                if make_room(&mut self.slots, slots) {
                    self.grow_table();
                }
                self.slots.push(entry);
                // Makes room now, so that freeing a slot allocates nothing.
                make_room(&mut self.free, slots);
                slots as u32 - 1
            }
        };
        index(&mut self.by_number, &self.hasher, &self.slots, slot);
        slot
    }

    /// A table with room for twice the slots that there is memory for.
    fn grow_table(&mut self) {
        let mut larger = HashTable::with_capacity(2 * self.slots.capacity());
        for slot in self.by_number.drain() {
            index(&mut larger, &self.hasher, &self.slots, slot);
        }
        self.by_number = larger;
    }

    /// Frees `slot`, which has a value.
    pub(crate) fn remove(&mut self, slot: u32) {
        let hash = self.hasher.hash_one(self.slots[slot as usize].number);
        if let Ok(entry) = self.by_number.find_entry(hash, |&other| other == slot) {
            entry.remove();
            self.free.push(slot);
        }
    }

    /// The number of slots that have or had a value: all slots below it.
    pub(crate) fn len(&self) -> u32 {
        self.slots.len() as u32
    }
}

/// Stores that the value in `slot` has its number.
fn index<T>(table: &mut HashTable<u32>, hasher: &DefaultHashBuilder, slots: &[Slot<T>], slot: u32) {
    let hash_of = |&slot: &u32| hasher.hash_one(slots[slot as usize].number);
    table.insert_unique(hash_of(&slot), slot, hash_of);
}

/// Makes room for `len` entries in all, and for a quarter more if the memory was too small, which it returns; a vector left
/// to itself would double it.
#[inline]
pub(crate) fn make_room<T>(entries: &mut Vec<T>, len: usize) -> bool {
    let grows = len > entries.capacity();
    if grows {
        entries.reserve_exact(len + len / 4 - entries.len());
    }
    grows
}

impl<T> Index<u32> for Slots<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: u32) -> &T {
        &self.slots[slot as usize].value
    }
}

impl<T> IndexMut<u32> for Slots<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize].value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_found_by_number_and_used_again() {
        let mut slots = Slots::new();
        assert_eq!(slots.insert(7, 'a'), 0);
        assert_eq!(slots.insert(u64::MAX, 'b'), 1);
        assert_eq!((slots.find(7), slots.find(8)), (Some(0), None));
        slots.remove(0);
        assert_eq!(slots.find(7), None);
        assert_eq!(slots.insert(9, 'c'), 0);
        assert_eq!((slots[0], slots[1], slots.len()), ('c', 'b', 2));
        assert_eq!(slots.find(u64::MAX), Some(1));
    }

    #[test]
    fn the_table_does_not_grow_while_values_come_and_go() {
        for most in [1, 5, 40, 100] {
            for numbers in 0..200_u64 {
                let mut slots = Slots::new();
                let mut there: Vec<u32> = (0..most).map(|number| slots.insert(number, ())).collect();
                let size = slots.by_number.allocation_size();
                for (number, round) in (most..most + 2_000).zip((0..most as usize).cycle()) {
                    slots.remove(there[round]);
                    there[round] = slots.insert(number * (numbers + 1), ());
                }
                assert_eq!(slots.by_number.allocation_size(), size, "{most} values");
                assert_eq!(slots.len() as u64, most);
            }
        }
    }
}
