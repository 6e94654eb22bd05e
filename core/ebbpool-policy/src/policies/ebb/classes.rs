//! The classes of pages for which waits are learned apart.

use crate::policy::{Page, PageClass, UNKNOWN_CLASS};

/// Slots for classes. Slot 0 is for the pages of all classes that have none.
pub(super) const SLOTS: usize = 12;
/// The most classes that have slots of their own.
pub(super) const MOST_CLASSES: usize = SLOTS - 1;
/// The slot of the pages whose class has no slot of its own.
pub(super) const SHARED_SLOT: u8 = 0;
/// The frames for each class that has a slot: with fewer there is too little to learn from.
const FRAMES_PER_CLASS: u32 = 32;
/// A page that is at most this far from the highest page of its class, when it is missed, is at the class's end.
const TAIL_PAGES: u64 = 2;
/// The misses of a class at which all numbers of misses are halved, so that the classes of long ago lose their slots.
const MOST_MISSES: u32 = 1 << 16;
/// Added to the number of a region, so that no class equals a region.
const REGION: u64 = 1 << 32;

/// The classes that have slots: those with most misses, counted as Misra and Gries (1982) count frequent items.
pub(super) struct ClassSlots {
    slots: [ClassSlot; SLOTS],
    /// The number of slots that classes may have. Pages of unknown class are divided by page number into at most that
    /// many regions, which are taken for classes.
    classes: usize,
    /// The number of slots that were ever used, the shared one included.
    used: usize,
    /// The highest page of unknown class so far, and the number of bits by which a page number is shifted for its
    /// region's number.
    highest: Page,
    shift: u32,
}

#[derive(Clone, Copy, Default)]
struct ClassSlot {
    /// The class or region. Meaningless while `misses` is 0.
    class: u64,
    /// Misses of the class, less the misses of classes without a slot.
    misses: u32,
    /// The highest page of the class that was missed.
    end: Page,
}

/// What a page's class and number say about it when it is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Classification {
    pub(super) slot: u8,
    /// The page is at the end of its class, where a class that grows gets its new pages.
    pub(super) is_tail: bool,
    /// The slot is used for the first time.
    pub(super) is_new_slot: bool,
}

impl ClassSlots {
    /// At most `most` classes have slots.
    pub(super) fn new(frames: u32, most: usize) -> Self {
        let mut slots = ClassSlots { slots: [ClassSlot::default(); SLOTS], classes: 0, used: 1, highest: 0, shift: 0 };
        slots.resize(frames, most);
        slots
    }

    /// At most `most` classes have slots from now on; those slots that were ever used stay.
    pub(super) fn resize(&mut self, frames: u32, most: usize) {
        let classes = ((frames / FRAMES_PER_CLASS) as usize).min(most).min(MOST_CLASSES);
        let before = std::mem::replace(&mut self.classes, classes.max(self.used - 1));
        if self.classes != before {
            // Regions become smaller, or larger.
            self.slots = Default::default();
            self.shift = 0;
        }
    }

    /// The number of slots that may ever be used, the shared one included.
    pub(super) fn most_used(&self) -> usize {
        self.classes + 1
    }

    /// The number of slots that were ever used.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Classifies a missed page.
    #[inline]
    pub(super) fn classify(&mut self, class: PageClass, page: Page) -> Classification {
        let is_known = class != UNKNOWN_CLASS;
        let class = match is_known {
            true => u64::from(class),
            false => self.region(page),
        };
        let has_slot = |slot: &ClassSlot| slot.misses > 0 && slot.class == class;
        let Some(at) = self.class_slots().iter().position(has_slot) else {
            return self.assign(class, page, is_known);
        };
        let slot = &mut self.slots[at + 1];
        slot.misses += 1;
        slot.end = slot.end.max(page);
        let is_tail = is_known && slot.end - page <= TAIL_PAGES;
        if slot.misses == MOST_MISSES {
            self.slots.iter_mut().for_each(|slot| slot.misses /= 2);
        }
        Classification { slot: at as u8 + 1, is_tail, is_new_slot: false }
    }

    /// Assigns a free slot to a class that has none. Without a free one every class loses a miss, and the page is of the
    /// shared slot.
    fn assign(&mut self, class: u64, page: Page, is_known: bool) -> Classification {
        let slots = self.class_slots();
        let Some(at) = slots.iter().position(|slot| slot.misses == 0) else {
            slots.iter_mut().for_each(|slot| slot.misses -= 1);
            return Classification { slot: SHARED_SLOT, is_tail: false, is_new_slot: false };
        };
        let at = at + 1;
        self.slots[at] = ClassSlot { class, misses: 1, end: page };
        let is_new_slot = at >= self.used;
        self.used = self.used.max(at + 1);
        Classification { slot: at as u8, is_tail: is_known, is_new_slot }
    }

    #[inline]
    fn class_slots(&mut self) -> &mut [ClassSlot] {
        &mut self.slots[1..=self.classes]
    }

    /// The region of a page of unknown class. Regions double when the page numbers outgrow them; then they lose their
    /// slots, since their numbers change. A single region has all pages.
    #[inline]
    fn region(&mut self, page: Page) -> u64 {
        let regions = self.classes as u64;
        if regions < 2 {
            return REGION;
        }
        self.highest = self.highest.max(page);
        if self.highest >> self.shift >= regions {
            while self.highest >> self.shift >= regions {
                self.shift += 1;
            }
            let slots = self.class_slots().iter_mut();
            slots.filter(|slot| slot.class >= REGION).for_each(|slot| slot.misses = 0);
        }
        REGION + (page >> self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(slot: u8, is_tail: bool, is_new_slot: bool) -> Classification {
        Classification { slot, is_tail, is_new_slot }
    }

    #[test]
    fn pages_at_the_end_of_a_class_are_its_tail() {
        let mut slots = ClassSlots::new(1000, MOST_CLASSES);
        assert_eq!(slots.classify(7, 100), at(1, true, true));
        assert_eq!(slots.classify(7, 97), at(1, false, false));
        assert_eq!(slots.classify(7, 98), at(1, true, false));
        assert_eq!(slots.classify(u32::MAX, u64::MAX), at(2, true, true));
        assert_eq!(slots.classify(7, 101), at(1, true, false));
        assert_eq!(slots.classify(7, 98), at(1, false, false));
    }

    #[test]
    fn the_classes_with_most_misses_have_slots() {
        let mut slots = ClassSlots::new(1000, MOST_CLASSES);
        for class in 1..SLOTS as u32 {
            slots.classify(class, 1);
            slots.classify(class, 1);
        }
        assert_eq!(slots.used(), SLOTS);
        slots.classify(1, 1);
        assert_eq!(slots.classify(100, 1).slot, SHARED_SLOT);
        assert_eq!(slots.classify(100, 1).slot, SHARED_SLOT);
        // The slot of class 2 is free.
        assert_eq!(slots.classify(100, 1), at(2, true, false));
        assert_eq!(slots.classify(1, 1), at(1, true, false));
    }

    #[test]
    fn regions_double_with_the_page_numbers() {
        let mut slots = ClassSlots::new(1000, MOST_CLASSES);
        assert_eq!(slots.classify(UNKNOWN_CLASS, 5), at(1, false, true));
        assert_eq!(slots.classify(UNKNOWN_CLASS, 6), at(2, false, true));
        // Shifted by 1: 11 is in region 5, and 5 and 4 are in region 2.
        assert_eq!(slots.classify(UNKNOWN_CLASS, 11), at(1, false, false));
        assert_eq!(slots.classify(UNKNOWN_CLASS, 5), at(2, false, false));
        assert_eq!(slots.classify(UNKNOWN_CLASS, 4), at(2, false, false));
        slots.classify(UNKNOWN_CLASS, u64::MAX);
        assert_eq!(slots.classify(UNKNOWN_CLASS, 0).slot, 2);
    }

    #[test]
    fn few_frames_have_few_classes() {
        let mut slots = ClassSlots::new(2 * FRAMES_PER_CLASS - 1, MOST_CLASSES);
        assert_eq!(slots.classify(UNKNOWN_CLASS, u64::MAX), at(1, false, true));
        assert_eq!(slots.classify(UNKNOWN_CLASS, 0), at(1, false, false));
        assert_eq!(slots.classify(1, 0).slot, SHARED_SLOT);
        let mut slots = ClassSlots::new(2 * FRAMES_PER_CLASS, MOST_CLASSES);
        assert_eq!(slots.classify(UNKNOWN_CLASS, u64::MAX), at(1, false, true));
        assert_eq!(slots.classify(UNKNOWN_CLASS, 0), at(2, false, true));
        let mut slots = ClassSlots::new(FRAMES_PER_CLASS - 1, MOST_CLASSES);
        assert_eq!(slots.classify(UNKNOWN_CLASS, 0).slot, SHARED_SLOT);
        assert_eq!(slots.classify(1, 0).slot, SHARED_SLOT);
        let mut slots = ClassSlots::new(1000, 1);
        assert_eq!(slots.classify(1, 0).slot, 1);
        assert_eq!(slots.classify(2, 0).slot, SHARED_SLOT);
    }

    #[test]
    fn old_misses_lose_weight() {
        let mut slots = ClassSlots::new(1000, MOST_CLASSES);
        for _ in 0..10 * u64::from(MOST_MISSES) {
            slots.classify(1, 1);
        }
        assert!(slots.slots[1].misses < MOST_MISSES);
    }
}
