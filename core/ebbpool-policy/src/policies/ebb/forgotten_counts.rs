//! The reference counts of pages whose ghosts are forgotten.

use prefetch_index::prefetch_index;

use super::counts::EventCount;
use crate::policy::Page;

/// Entries of a set, all of which are searched for a page.
const WAYS: usize = 4;
const TAG_BITS: u32 = 11;
const COUNT_BITS: u32 = 6;
const TIME_BITS: u32 = u32::BITS - TAG_BITS - COUNT_BITS;
const MOST_COUNT: u32 = (1 << COUNT_BITS) - 1;
const TIMES: u32 = 1 << TIME_BITS;

/// Counts of pages whose ghosts are forgotten, 4 bytes each: some bits of the page number's hash,
/// the count, and the time of the last reference, as precisely as the bits allow.
///
/// One page may be mistaken for another, which does little harm: a count is an estimate anyway.
pub(super) struct ForgottenCounts {
    sets: Vec<[CountEntry; WAYS]>,
    /// References to a unit of time.
    unit: u64,
}

/// Tag, count plus 1, and time. 0 if there is none.
#[derive(Clone, Copy, Default)]
struct CountEntry(u32);

impl CountEntry {
    fn is_of(self, tag: u32) -> bool {
        self.0 != 0 && self.0 >> (u32::BITS - TAG_BITS) == tag
    }

    fn count(self) -> EventCount {
        EventCount::from_quarters(((self.0 >> TIME_BITS) & MOST_COUNT).saturating_sub(1))
    }

    /// The same count of a page referenced at `time`.
    fn at(self, time: u32) -> Self {
        CountEntry(self.0 - self.0 % TIMES + time % TIMES)
    }

    /// Units of time until `time`; more than there can be if there is no entry.
    fn age(self, time: u32) -> u32 {
        match self.0 {
            0 => TIMES,
            _ => time.wrapping_sub(self.0) % TIMES,
        }
    }
}

impl ForgottenCounts {
    /// Room for at least `entries` counts over `frames` frames.
    pub(super) fn new(entries: u64, frames: u32) -> Self {
        ForgottenCounts { sets: vec![Default::default(); entries.div_ceil(WAYS as u64) as usize], unit: u64::from(frames) }
    }

    /// From now on there are as many sets as in `sized`. A set has the latest counts of those sets that had the counts of its pages.
    pub(super) fn resize(&mut self, sized: &ForgottenCounts, now: u64) {
        let (before, sets) = (self.sets.len(), sized.sets.len());
        let (then, time) = (self.time(now), sized.time(now));
        let set_of = |set: usize| {
            let covered = set * before / sets..((set + 1) * before).div_ceil(sets);
            let mut latest = self.sets[covered].concat();
            latest.retain(|&CountEntry(entry)| entry != 0);
            latest.sort_by_key(|entry| entry.age(then));
            let in_units = |entry: &CountEntry| {
                let age = u64::from(entry.age(then)) * self.unit / sized.unit;
                entry.at(time.wrapping_sub(age.min(u64::from(TIMES - 1)) as u32))
            };
            std::array::from_fn(|way| latest.get(way).map(in_units).unwrap_or_default())
        };
        self.sets = (0..sets).map(set_of).collect();
        self.unit = sized.unit;
    }

    /// Prefetches the page's set: its count will soon be looked up or stored.
    #[inline]
    pub(super) fn prefetch(&self, page: Page) {
        prefetch_index(&self.sets, self.set_and_tag(page).0);
    }

    /// Stores the count of a page that was referenced `age` references ago, in place of the set's oldest if there is no room.
    #[inline]
    pub(super) fn put(&mut self, page: Page, count: EventCount, age: u64, now: u64) {
        if self.sets.is_empty() {
            return;
        }
        let (set, tag) = self.set_and_tag(page);
        let (now, time) = (self.time(now), self.time(now.saturating_sub(age)));
        let set = &mut self.sets[set];
        let its = set.iter().position(|entry| entry.is_of(tag));
        let oldest = || (1..WAYS).fold(0, |a, b| if set[b].age(now) > set[a].age(now) { b } else { a });
        let at = its.unwrap_or_else(oldest);
        let count = (count.quarters() + 1).min(MOST_COUNT);
        set[at] = CountEntry(tag << (u32::BITS - TAG_BITS) | count << TIME_BITS | time);
    }

    /// Removes and returns the page's count.
    #[inline]
    pub(super) fn take(&mut self, page: Page) -> Option<EventCount> {
        if self.sets.is_empty() {
            return None;
        }
        let (set, tag) = self.set_and_tag(page);
        let found = self.sets[set].iter_mut().find(|entry| entry.is_of(tag))?;
        Some(std::mem::take(found).count())
    }

    #[inline]
    fn time(&self, references: u64) -> u32 {
        (references / self.unit % u64::from(TIMES)) as u32
    }

    /// The set and the tag of a page, by the last step of SplitMix64.
    #[inline]
    fn set_and_tag(&self, page: Page) -> (usize, u32) {
        let mixed = ebbpool_cost::mixed(page);
        let set = ((mixed >> 32) * self.sets.len() as u64) >> 32;
        (set as usize, mixed as u32 >> (u32::BITS - TAG_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_once_and_the_oldest_make_room() {
        let mut counts = ForgottenCounts::new(4, 10);
        let count = EventCount::from_quarters(4);
        for page in 0..5 {
            counts.put(page, count, 1000 - 100 * page, 1000);
        }
        assert_eq!(counts.take(0), None);
        assert_eq!(counts.take(1), Some(count));
        assert_eq!(counts.take(1), None);
        assert_eq!(counts.take(4), Some(count));

        counts.put(2, EventCount::from_number(1), 10, 1000);
        assert_eq!(counts.take(2), Some(EventCount::from_number(1)));
        assert_eq!(counts.take(2), None);
    }

    #[test]
    fn without_room_no_count_is_stored() {
        let mut counts = ForgottenCounts::new(0, 1);
        counts.put(1, EventCount::from_number(1), 1, 1);
        assert_eq!(counts.take(1), None);
    }
}
