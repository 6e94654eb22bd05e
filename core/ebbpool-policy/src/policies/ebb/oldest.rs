//! The frame whose page was referenced longest ago, for the time in which LRU leads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

use crate::policy::Frame;

/// The frames of a group.
const GROUP: u32 = 64;
/// The groups without a frame that may be evicted that keep their times. Others are looked at again once all older frames have left.
const MOST_ASIDE: usize = 16;

/// When the oldest page of a group was referenced, by a clock that does not wrap, and the group.
type OldestOfGroup = (u32, u32);

/// Finds the frame referenced longest ago, in a heap of groups of neighbours. A group's time is that of its oldest frame when it was
/// looked at last: since then its frames can only have become younger. So the group of the earliest time is looked at anew, until
/// its time proves right: then no other frame is older.
///
/// A list of all frames would take 8 bytes for each, and work at each hit; this takes an eighth of a byte, and no work at a hit.
pub(super) struct OldestFrames {
    /// The earliest time on top.
    groups: BinaryHeap<Reverse<OldestOfGroup>>,
}

impl OldestFrames {
    /// For that many frames.
    pub(super) fn new(frames: u32) -> Self {
        let groups = 0..frames.div_ceil(GROUP);
        OldestFrames { groups: groups.map(|group| Reverse((0, group))).collect() }
    }

    /// Forgets all times: the clock was moved.
    pub(super) fn clear(&mut self) {
        let mut groups = std::mem::take(&mut self.groups).into_vec();
        groups.iter_mut().for_each(|Reverse((at, _))| *at = 0);
        self.groups = groups.into();
    }

    /// The frames of each group, and a time before which the page in none of them was referenced last, unless it could not be
    /// evicted when the group was looked at.
    pub(super) fn groups(&self) -> impl Iterator<Item = (u32, Range<Frame>)> {
        self.groups.iter().map(|&Reverse((at, group))| (at, frames_of(group)))
    }

    /// The oldest frame that may be evicted. A frame that may not is left out until its group is looked at again: a driver may
    /// have named many in advance. Where no frame at all may be evicted nothing changes. `referenced_at` is the time of the last
    /// reference to the page in a frame, if there is one, and `now` no earlier than any.
    #[inline]
    pub(super) fn first(
        &mut self,
        now: u32,
        referenced_at: impl Fn(Frame) -> Option<u32>,
        may_evict: impl Fn(Frame) -> bool,
        may_evict_any: impl Fn() -> bool,
    ) -> Option<Frame> {
        let (mut looked_at, mut may_any) = (None, false);
        let mut aside = [(0, 0); MOST_ASIDE];
        let mut number_aside = 0;
        let first = loop {
            let Some(mut top) = self.groups.peek_mut() else {
                break None;
            };
            let Reverse(earliest) = *top;
            if let Some((group, frame)) = looked_at
                && group == earliest
            {
                break Some(frame);
            }
            let (known, group) = earliest;
            match oldest_of(group, &referenced_at, &may_evict) {
                Some((at, frame)) if at == known => break Some(frame),
                Some((at, frame)) => {
                    *top = Reverse((at, group));
                    looked_at = Some(((at, group), frame));
                }
                // All groups left have this time, some from a search before this one at the same time.
                None if known == now => {
                    drop(top);
                    let groups = self.groups.iter().map(|&Reverse((_, group))| group);
                    let oldest = groups.filter_map(|it| oldest_of(it, &referenced_at, &may_evict));
                    break oldest.min().map(|(_, frame)| frame);
                }
                None if number_aside < MOST_ASIDE => {
                    aside[number_aside] = earliest;
                    number_aside += 1;
                    PeekMut::pop(top);
                }
                None => {
                    may_any = may_any || may_evict_any();
                    if !may_any {
                        break None;
                    }
                    *top = Reverse((now, group));
                }
            }
        };
        let aside = aside.into_iter().take(number_aside);
        self.groups.extend(aside.map(Reverse));
        first
    }
}

fn frames_of(group: u32) -> Range<Frame> {
    group * GROUP..group.saturating_add(1).saturating_mul(GROUP)
}

/// The oldest frame of a group that may be evicted, and when it was referenced.
#[inline]
fn oldest_of(
    group: u32,
    referenced_at: impl Fn(Frame) -> Option<u32>,
    may_evict: impl Fn(Frame) -> bool,
) -> Option<(u32, Frame)> {
    let mut oldest: Option<(u32, Frame)> = None;
    for frame in frames_of(group) {
        let Some(at) = referenced_at(frame) else {
            continue;
        };
        if oldest.is_none_or(|(earliest, _)| at < earliest) && may_evict(frame) {
            oldest = Some((at, frame));
        }
    }
    oldest
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A pool whose pages were referenced at times.
    struct Pool {
        oldest: OldestFrames,
        times: Vec<u32>,
        now: u32,
    }

    impl Pool {
        fn new(frames: u32) -> Self {
            Pool { oldest: OldestFrames::new(frames), times: (1..=frames).collect(), now: frames }
        }

        fn refer(&mut self, frame: Frame) {
            self.now += 1;
            self.times[frame as usize] = self.now;
        }

        fn first(&mut self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
            let times = &self.times;
            let referenced_at = |frame: Frame| times.get(frame as usize).copied();
            let may_any = || (0..times.len() as Frame).any(&may_evict);
            self.oldest.first(self.now, referenced_at, &may_evict, may_any)
        }

        fn least(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
            let frames = (0..self.times.len() as Frame).filter(|&frame| may_evict(frame));
            frames.min_by_key(|&frame| self.times[frame as usize])
        }
    }

    #[test]
    fn the_victim_is_the_oldest_however_many_are_hit_between() {
        for frames in [1, 33, 64, 65, 1000, 5000] {
            for hits in [0, 1, 300] {
                let mut pool = Pool::new(frames);
                for victim in 0..1000 {
                    let first = pool.first(|_| true);
                    assert_eq!(first, pool.least(|_| true), "{frames} frames, {victim}");
                    pool.refer(first.unwrap_or(0));
                    for hit in 0..hits {
                        let mixed = ebbpool_cost::mixed(victim * 1000 + hit);
                        pool.refer((mixed % u64::from(frames)) as Frame);
                    }
                }
                pool.oldest.clear();
                assert_eq!(pool.first(|_| true), pool.least(|_| true));
            }
        }
    }

    #[test]
    fn a_frame_that_was_pinned_is_found_again() {
        let mut pool = Pool::new(1000);
        for victim in 0..3000 {
            let may_evict = |frame| victim >= 1500 || frame != 0;
            let first = pool.first(may_evict);
            assert!(first.is_some_and(may_evict));
            pool.refer(first.unwrap_or(0));
        }
        assert!(pool.times[0] > 1500, "{}", pool.times[0]);
    }

    #[test]
    fn where_all_are_pinned_none_is_found_and_then_the_one_that_is_free() {
        let mut pool = Pool::new(1000);
        for free in [0, 999, 500] {
            assert_eq!(pool.first(|_| false), None);
            assert_eq!(pool.first(|_| true), pool.least(|_| true));
            assert_eq!(pool.first(|frame| frame == free), Some(free));
            pool.refer(free);
        }
    }

    #[test]
    fn frames_that_are_freed_before_the_clock_moves_are_found() {
        let mut pool = Pool::new(2000);
        for group in [17, 18, 30, 16] {
            assert_eq!(pool.first(|frame| frame == 0), Some(0));
            let is_free = |frame| frames_of(group).skip(20).any(|free| free == frame);
            assert_eq!(pool.first(is_free), pool.least(is_free), "group {group}");
        }
    }

    /// A driver that names a 64th of all frames in advance, as PostgreSQL does, has the oldest ones too.
    #[test]
    fn frames_named_in_advance_do_not_hide_the_next_ones() {
        const FRAMES: u32 = 6000;
        let mut pool = Pool::new(FRAMES);
        let mut named = VecDeque::new();
        for victim in 0..u64::from(FRAMES) {
            let may_evict = |frame| !named.contains(&frame);
            let first = pool.first(may_evict);
            if victim % 64 == 0 {
                assert_eq!(first, pool.least(may_evict), "{victim}");
            }
            named.extend(first);
            if named.len() > FRAMES as usize / 64
                && let Some(evicted) = named.pop_front()
            {
                pool.refer(evicted);
            }
            let referenced = (ebbpool_cost::mixed(victim) % u64::from(FRAMES)) as Frame;
            if !named.contains(&referenced) {
                pool.refer(referenced);
            }
        }
    }
}
