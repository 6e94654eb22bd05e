//! Random draws, the same in every run: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), seed 2026.

pub(crate) struct Sampler {
    state: u64,
}

impl Sampler {
    pub(crate) fn new() -> Sampler {
        Sampler { state: 2026 }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number from 0 to `end` - 1: the product of `end` and the upper half of a draw, as a
    /// fraction of 2^32, rounded down.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let fraction = u128::from(self.next() >> 32);
        ((fraction * end as u128) >> 32) as usize
    }

    /// True if the upper 53 bits of a draw, as a fraction, are below the probability.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        let fraction = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        fraction < probability
    }

    /// Draws slots until `size` of those drawn are evictable, at most 8 x `size` slots. If none was,
    /// the first evictable one from the last draw on.
    pub(crate) fn slots(&mut self, evictable: &[bool], size: usize) -> Vec<usize> {
        let mut drawn = Vec::new();
        let mut last = 0;
        for _ in 0..8 * size {
            last = self.below(evictable.len());
            if evictable[last] {
                drawn.push(last);
            }
            if drawn.len() == size {
                return drawn;
            }
        }
        if drawn.is_empty() {
            let mut turn = (last..evictable.len()).chain(0..last);
            drawn.extend(turn.find(|slot| evictable[*slot]));
        }
        drawn
    }
}

/// The order in which slots are used: those that never had a page in order, then the one that was emptied last.
pub(crate) struct EmptySlots {
    unused: std::ops::Range<usize>,
    emptied: Vec<usize>,
}

impl EmptySlots {
    pub(crate) fn new(m: usize) -> EmptySlots {
        EmptySlots { unused: 0..m, emptied: Vec::new() }
    }

    pub(crate) fn take(&mut self) -> usize {
        self.unused.next().or_else(|| self.emptied.pop()).expect("an empty slot")
    }

    pub(crate) fn add(&mut self, slot: usize) {
        self.emptied.push(slot);
    }
}

/// Pages in slots.
pub(crate) struct Slots<T> {
    slots: Vec<Option<(u64, T)>>,
    empty: EmptySlots,
}

impl<T> Slots<T> {
    pub(crate) fn new(m: usize) -> Slots<T> {
        Slots { slots: (0..m).map(|_| None).collect(), empty: EmptySlots::new(m) }
    }

    pub(crate) fn admit(&mut self, page: u64, state: T) -> usize {
        let empty = self.empty.take();
        self.slots[empty] = Some((page, state));
        empty
    }

    pub(crate) fn remove(&mut self, page: u64) -> (usize, T) {
        let slot = self.slot_of(page);
        let (_, state) = self.slots[slot].take().expect("a resident page");
        self.empty.add(slot);
        (slot, state)
    }

    pub(crate) fn slot_of(&self, page: u64) -> usize {
        let resident = |slot: &Option<(u64, T)>| slot.as_ref().is_some_and(|(is, _)| *is == page);
        self.slots.iter().position(resident).expect("a resident page")
    }

    pub(crate) fn of(&mut self, page: u64) -> &mut T {
        let slot = self.slot_of(page);
        &mut self.slots[slot].as_mut().expect("a resident page").1
    }

    pub(crate) fn at(&self, slot: usize) -> (u64, &T) {
        let (page, state) = self.slots[slot].as_ref().expect("a resident page");
        (*page, state)
    }

    pub(crate) fn evictable(&self, pinned: &std::collections::BTreeSet<u64>) -> Vec<bool> {
        let evictable = |slot: &Option<(u64, T)>| slot.as_ref().is_some_and(|(page, _)| !pinned.contains(page));
        self.slots.iter().map(evictable).collect()
    }
}
