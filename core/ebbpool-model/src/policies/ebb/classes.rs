//! The classes of pages that have slots.

use super::SLOTS;

/// Counts the misses of classes. A miss of a class without a slot, when none is free, is taken off every class that has
/// one; a class with none left loses its slot. There is a slot for every 32 frames, and at
/// most 11. Pages of class 0 are divided by page number into at most as many regions, the size of which is a power of 2,
/// and a region is a class.
pub(super) struct Classes {
    /// Slots 1 and higher: the class that has it, its misses, its highest page.
    slots: Vec<Option<(Key, u32, u64)>>,
    used: usize,
    highest: u64,
    region_bits: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Key {
    Class(u32),
    Region(u64),
}

pub(super) struct Classified {
    pub(super) slot: usize,
    pub(super) tail: bool,
    /// No class had the slot before.
    pub(super) new_slot: bool,
}

impl Classes {
    pub(super) fn new(m: usize, most: usize) -> Self {
        Classes { slots: vec![None; (m / 32).min(SLOTS - 1).min(most)], used: 1, highest: 0, region_bits: 0 }
    }

    /// Slots that ever had a class, and slot 0.
    pub(super) fn slots_used(&self) -> usize {
        self.used
    }

    /// A page is missed.
    pub(super) fn classify(&mut self, class: u32, page: u64) -> Classified {
        let key = match class {
            0 => self.region(page),
            class => Key::Class(class),
        };
        let its = |slot: &Option<(Key, u32, u64)>| slot.is_some_and(|(other, ..)| other == key);
        let slot = self.slots.iter().position(its);
        let slot = slot.or_else(|| self.slots.iter().position(Option::is_none));
        let Some(slot) = slot else {
            self.reduce(|misses| misses - 1);
            return Classified { slot: 0, tail: false, new_slot: false };
        };
        let (_, misses, end) = self.slots[slot].unwrap_or((key, 0, page));
        let end = end.max(page);
        self.slots[slot] = Some((key, misses + 1, end));
        if misses + 1 == 65_536 {
            self.reduce(|misses| misses / 2);
        }
        let new_slot = slot + 1 == self.used;
        self.used = self.used.max(slot + 2);
        Classified { slot: slot + 1, tail: class != 0 && end - page <= 2, new_slot }
    }

    fn reduce(&mut self, misses: impl Fn(u32) -> u32) {
        for slot in &mut self.slots {
            let reduced = slot.map(|(key, old, end)| (key, misses(old), end));
            *slot = reduced.filter(|(_, misses, _)| *misses > 0);
        }
    }

    fn region(&mut self, page: u64) -> Key {
        let most = self.slots.len() as u64;
        if most < 2 {
            return Key::Region(0);
        }
        self.highest = self.highest.max(page);
        let bits = (0..64).find(|bits| self.highest >> bits < most);
        let bits = bits.expect("a page has 64 bits");
        if bits > self.region_bits {
            self.region_bits = bits;
            for slot in &mut self.slots {
                *slot = slot.filter(|(key, ..)| matches!(key, Key::Class(_)));
            }
        }
        Key::Region(page >> self.region_bits)
    }
}
