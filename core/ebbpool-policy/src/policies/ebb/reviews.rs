//! When the value of the page in a frame is found anew.

use prefetch_index::prefetch_index;

use super::hand::Hand;
use crate::policy::Frame;

/// The frames whose reviews are compared at a time.
pub(super) const GROUP: Frame = 8;
/// A page whose value exceeds the limit by this factor is passed over until its age has doubled; one that exceeds it by
/// less for a proportionally shorter time.
const CERTAIN: f32 = 3.0;
/// The longest time for which a page is passed over, in references for each frame.
const REFERENCES_PER_FRAME: u64 = 4;
/// The longest time for which a page is passed over in any pool, in references. The owner makes all frames due before a review
/// that is past could be taken for one to come.
const LONGEST: u64 = 1 << 30;

/// The time of the next review of each frame, modulo 2^32: until then a search for victims passes over the frame.
///
/// A page whose value was well above that of the candidates hardly becomes a victim before it is a good deal older. That
/// saves the search most of its work. It also costs less: a page that was found to be valuable is not given up at once
/// when its row is learned anew.
#[cfg_attr(test, derive(Clone, Debug, PartialEq))]
pub(super) struct Reviews {
    groups: Vec<GroupReviews>,
    /// Searches since all frames were due, and how many there are at most.
    searches: u32,
    most_searches: u32,
    /// The longest time for which a page is passed over. After a calm ages are long, and say nothing of the workload that
    /// comes then.
    longest: u64,
}

/// The groups the frames of which are compared in one loop: how many of a group are due cannot be predicted.
const GROUPS_AT_ONCE: usize = (u32::BITS / GROUP) as usize;

/// The frames of some groups that are due for review.
pub(super) struct DueFrames {
    groups: [u32; GROUPS_AT_ONCE],
    /// A bit for each frame of each group, the first one the lowest.
    due: u32,
}

impl Iterator for DueFrames {
    type Item = Frame;

    #[inline]
    fn next(&mut self) -> Option<Frame> {
        let lowest = (self.due != 0).then(|| self.due.trailing_zeros())?;
        self.due &= self.due - 1;
        let group = self.groups[(lowest / GROUP) as usize];
        Some(group * GROUP + lowest % GROUP)
    }
}

/// The reviews of a group, within a line of the processor's cache.
#[derive(Clone)]
#[cfg_attr(test, derive(Debug, PartialEq))]
#[repr(align(32))]
struct GroupReviews([u32; GROUP as usize]);

impl Reviews {
    /// Reviews of `frames` frames, of which all remain due unless they may be put off.
    pub(super) fn new(frames: u32, may_put_off: bool) -> Self {
        let longest = match may_put_off {
            true => (REFERENCES_PER_FRAME * u64::from(frames)).min(LONGEST),
            false => 0,
        };
        let group = GroupReviews([0; GROUP as usize]);
        Reviews { groups: vec![group; frames.div_ceil(GROUP) as usize], searches: 0, most_searches: frames / 2, longest }
    }

    /// A search has found a victim. Makes all frames due once their number lets the workload have changed: a page was compared
    /// with candidates of its time, and may be worth less than those of now. Where pages have lain for long, nearly all frames
    /// would be passed over for as long again, and new pages would evict each other.
    #[inline]
    pub(super) fn end_search(&mut self, now: u64) {
        self.searches += 1;
        if self.searches > self.most_searches {
            self.make_all_due(now);
        }
    }

    #[cold]
    pub(super) fn make_all_due(&mut self, now: u64) {
        self.groups.fill(GroupReviews([now as u32; GROUP as usize]));
        self.searches = 0;
    }

    #[inline]
    fn set(&mut self, frame: Frame, review: u32) {
        self.groups[(frame / GROUP) as usize].0[(frame % GROUP) as usize] = review;
    }

    /// The frame has a new page, which has no value yet.
    #[inline]
    pub(super) fn admit(&mut self, frame: Frame, now: u64) {
        self.set(frame, now as u32);
    }

    /// Sets the time of the frame's next review.
    #[inline]
    pub(super) fn put_off(&mut self, frame: Frame, until: u64) {
        self.set(frame, until as u32);
    }

    /// The longest time, in references, until the next review of a page of the given age, the value of which was found to be
    /// `value` while a victim had to have less than `limit`.
    #[inline]
    pub(super) fn wait(&self, value: f32, limit: f32, age: u64) -> u64 {
        let excess = (value / limit - 1.0) / (CERTAIN - 1.0);
        // As a whole number, what is not a number (0 / 0) becomes 0.
        let longest = age.min(self.longest) as u32;
        ((longest as f32 * excess.clamp(0.0, 1.0)) as u32).into()
    }

    /// The frames that are due for review of the next groups that the hand visits: of [`GROUPS_AT_ONCE`] groups, or of those that
    /// are left if these are fewer. They are left no longer.
    #[inline]
    pub(super) fn due_next(&self, hand: &mut Hand, left: &mut u32, now: u64) -> DueFrames {
        let mut frames = DueFrames { groups: [0; GROUPS_AT_ONCE], due: 0 };
        let groups = GROUPS_AT_ONCE.min(*left as usize);
        for at in 0..groups {
            let group = hand.advance();
            frames.groups[at] = group;
            frames.due |= self.due(group, now) << (at as u32 * GROUP);
        }
        *left -= groups as u32;
        frames
    }

    /// The frames of a group that are due for review: bit 0 is for the first one. Groups are counted from 0.
    #[inline]
    fn due(&self, group: u32, now: u64) -> u32 {
        const BITS: [u32; GROUP as usize] = [1, 2, 4, 8, 16, 32, 64, 128];
        let reviews = &self.groups[group as usize].0;
        // Without a branch, since which frames are due cannot be predicted, and such that a compiler compares all at once: a
        // time that has passed leaves a difference without a sign.
        let due = |(review, bit): (&u32, u32)| (!((now as u32).wrapping_sub(*review)) as i32 >> 31) as u32 & bit;
        reviews.iter().zip(BITS).map(due).sum()
    }

    /// Prefetches the reviews of a group.
    #[inline]
    pub(super) fn prefetch(&self, group: u32) {
        prefetch_index(&self.groups, group as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts the review of a page off, the value, limit and age of which are given.
    fn put(reviews: &mut Reviews, frame: Frame, (value, limit, age): (f32, f32, u64), now: u64) {
        let wait = reviews.wait(value, limit, age);
        reviews.put_off(frame, now + wait);
    }

    #[test]
    fn pages_are_reviewed_the_sooner_the_nearer_their_values_are_to_the_limit() {
        let mut reviews = Reviews::new(200, true);
        let limits = [f32::INFINITY, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0];
        for frame in 0..43 {
            put(&mut reviews, frame, (6.0, limits[frame as usize % 8], 100), 1000);
        }
        let waits = [0, 0, 10, 25, 50, 100, 100, 100];
        for now in 1000..1102 {
            for frame in 0..43 {
                let due = reviews.due(frame / GROUP, now) >> (frame % GROUP) & 1;
                let is_due = now - 1000 >= waits[frame as usize % 8];
                assert_eq!(due == 1, is_due, "{frame} at {now}");
            }
        }
        put(&mut reviews, 0, (0.0, 0.0, 100), 1000);
        assert_eq!(reviews.due(0, 1000) & 1, 1);
    }

    #[test]
    fn the_next_groups_are_those_of_the_hand() {
        let mut reviews = Reviews::new(80, true);
        (0..80).for_each(|frame| reviews.put_off(frame, 200));
        [3, 8, 77, 79].into_iter().for_each(|frame| reviews.put_off(frame, 100));
        let (mut hand, mut left) = (Hand::new(80, 48), 6);
        let mut due = || reviews.due_next(&mut hand, &mut left, 100).collect::<Vec<_>>();
        // The groups are 0, 7, 4, 1, 8 and 5.
        assert_eq!([due(), due(), due()], [vec![3, 8], vec![], vec![]]);
        assert_eq!(left, 0);
        left = 10;
        let mut rest: Vec<Frame> = Vec::new();
        while left > 0 {
            rest.extend(reviews.due_next(&mut hand, &mut left, 150));
        }
        rest.sort_unstable();
        assert_eq!(rest, [3, 8, 77, 79]);
    }

    #[test]
    fn no_page_is_passed_over_for_more_than_four_references_for_each_frame() {
        let mut reviews = Reviews::new(50, true);
        put(&mut reviews, 0, (6.0, 1.0, 1_000_000), 1000);
        put(&mut reviews, 1, (6.0, 4.0, 1_000_000), 1000);
        let due = [1000, 1049, 1050, 1199, 1200].map(|now| reviews.due(0, now) & 3);
        assert_eq!(due, [0, 0, 2, 2, 3]);
    }

    #[test]
    fn reviews_outlive_the_wrapping_of_the_clock() {
        let mut reviews = Reviews::new(16, true);
        let now = u64::from(u32::MAX) - 5;
        put(&mut reviews, 0, (3.0, 1.0, 10), now);
        reviews.admit(1, now);
        assert_eq!(reviews.due(0, now + 9) & 3, 2);
        assert_eq!(reviews.due(0, now + 10) & 3, 3);
    }

    #[test]
    fn all_are_due_after_half_as_many_searches_as_there_are_frames() {
        let mut reviews = Reviews::new(8, true);
        for at in 0..20 {
            put(&mut reviews, 3, (3.0, 1.0, 1000), 100);
            reviews.end_search(100);
            assert_eq!(reviews.due(0, 100) & 8 != 0, at % 5 == 4, "search {at}");
        }
    }
}
