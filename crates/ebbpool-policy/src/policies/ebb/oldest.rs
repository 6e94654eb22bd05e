//! The frames whose pages were referenced longest ago, for the time in which LRU leads.

use std::collections::BinaryHeap;

use crate::policy::Frame;

/// The frames that a round passes for a victim.
const PASSED: u32 = 128;
/// A round finds a frame for each victim that it lasts for, and at least this number.
const LEAST_FOUND: u32 = 64;

/// When the page in a frame was referenced last, by a clock that does not wrap, and the frame.
type Referenced = (u32, Frame);

/// Finds the frames referenced longest ago, in rounds over all frames, of which each victim takes the next part. What a round
/// finds are the victims during the next one. They were referenced before the round began: so no frame that it has passed and left
/// out becomes older than they are. Frames that are referenced meanwhile are no victims, nor are those that may not be evicted when
/// their turn comes, as where a driver has named them in advance: they are found again in the round after the next one.
///
/// A list of all frames would take 8 bytes for each, and work at each hit.
pub(super) struct OldestFrames {
    /// What the last round found, the oldest last.
    found: Vec<Referenced>,
    /// The last round found what was referenced after the first of these times and not after the second one, besides what
    /// earlier rounds had found and was not evicted.
    since: u32,
    until: u32,
    /// The oldest frames that this round has passed, but those found before, the youngest on top.
    coming: BinaryHeap<Referenced>,
    /// When the round began.
    begun: u32,
    /// The frame that the round passes next.
    next: Frame,
    /// The victims that a round lasts for, and the most frames that it finds.
    victims: usize,
    most: usize,
}

impl OldestFrames {
    /// For a pool of `frames` frames.
    pub(super) fn new(frames: u32) -> Self {
        let victims = frames.div_ceil(PASSED);
        let most = victims.max(LEAST_FOUND) as usize;
        OldestFrames {
            found: Vec::with_capacity(most),
            since: 0,
            until: 0,
            coming: BinaryHeap::with_capacity(most),
            begun: 0,
            next: 0,
            victims: victims as usize,
            most,
        }
    }

    /// Forgets what was found: ebb leads, or the clock was moved.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.found.clear();
        self.coming.clear();
        (self.since, self.until, self.next) = (0, 0, 0);
    }

    /// The frames that were found, the oldest first, whatever has happened to them since.
    #[inline]
    pub(super) fn found(&self) -> impl Iterator<Item = Referenced> {
        self.found.iter().rev().copied()
    }

    /// The oldest frame that was found, was not referenced since then, and may be evicted, and how many were found after it.
    #[inline]
    pub(super) fn first(
        &self,
        is_still: impl Fn(Referenced) -> bool,
        may_evict: impl Fn(Frame) -> bool,
    ) -> Option<(Frame, usize)> {
        let mut found = self.found.iter();
        let first = found.rfind(|&&oldest| is_still(oldest) && may_evict(oldest.1));
        first.map(|&(_, frame)| (frame, found.len()))
    }

    /// A victim was chosen: of the frames that were found, only the youngest `left` still are.
    #[inline]
    pub(super) fn leave(&mut self, left: usize) {
        self.found.truncate(left);
    }

    /// Passes the next of `frames` frames, unless what was found lasts for a round after this victim. `referenced_at` is the time
    /// of the last reference to the page in a frame, if there is one.
    #[inline]
    pub(super) fn pass(
        &mut self,
        frames: Frame,
        now: u32,
        referenced_at: impl Fn(Frame) -> Option<u32>,
        may_evict: impl Fn(Frame) -> bool,
    ) {
        if self.next == 0 {
            if self.found.len() >= self.victims {
                return;
            }
            self.begun = now;
        }
        let end = frames.min(self.next + PASSED);
        for frame in self.next..end {
            let Some(at) = referenced_at(frame) else {
                continue;
            };
            let was_found = at > self.since && at <= self.until;
            if was_found || at > self.begun {
                continue;
            }
            if self.coming.len() < self.most {
                if may_evict(frame) {
                    self.coming.push((at, frame));
                }
            } else if let Some(mut youngest) = self.coming.peek_mut()
                && (at, frame) < *youngest
                && may_evict(frame)
            {
                *youngest = (at, frame);
            }
        }
        self.next = end;
        if end == frames {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        let mut found = std::mem::take(&mut self.coming).into_sorted_vec();
        found.reverse();
        let mut before = std::mem::replace(&mut self.found, found);
        before.clear();
        self.coming = before.into();
        let youngest = self.found.first().map_or(0, |&(at, _)| at);
        (self.since, self.until) = (self.until, self.until.max(youngest));
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_first(
        oldest: &mut OldestFrames,
        is_still: impl Fn(Referenced) -> bool,
        may_evict: impl Fn(Frame) -> bool,
    ) -> Option<Frame> {
        let first = oldest.first(is_still, may_evict);
        oldest.leave(first.map_or(0, |(_, left)| left));
        first.map(|(frame, _)| frame)
    }

    /// Evicts with references between and compares with the page referenced longest ago.
    #[test]
    fn victims_are_the_oldest_once_a_round_has_ended() {
        for frames in [33, 64, 100, 1000, 20_000] {
            let mut oldest = OldestFrames::new(frames);
            let mut times: Vec<u32> = (1..=frames).collect();
            let mut now = frames;
            let (mut found, mut missing) = (0, 0);
            for victim in 0..4 * u64::from(frames) {
                let first = take_first(
                    &mut oldest,
                    |(at, frame)| times[frame as usize] == at,
                    |_| true,
                );
                let least = (0..frames).min_by_key(|&frame| times[frame as usize]);
                match first {
                    Some(_) => found += 1,
                    None => missing += 1,
                }
                assert!(first.is_none() || first == least, "{frames}: {victim}");
                oldest.pass(frames, now, |frame| Some(times[frame as usize]), |_| true);
                let referenced = ebbpool_cost::mixed(victim) % u64::from(frames);
                for frame in [least.unwrap_or(0), referenced as Frame] {
                    now += 1;
                    times[frame as usize] = now;
                }
            }
            assert!(missing * 2 < found, "{frames}: {found} {missing}");
        }
    }

    #[test]
    fn a_pinned_frame_is_found_again() {
        let mut oldest = OldestFrames::new(1000);
        let mut times: Vec<u32> = (1..=1000).collect();
        let mut now = 1000;
        for victim in 0..3000 {
            let is_still = |(at, frame): Referenced| times[frame as usize] == at;
            let is_pinned = |frame| victim < 1500 && frame == 0;
            let first = take_first(&mut oldest, is_still, |frame| !is_pinned(frame));
            oldest.pass(
                1000,
                now,
                |frame| Some(times[frame as usize]),
                |frame| !is_pinned(frame),
            );
            let first = first.unwrap_or(500);
            now += 1;
            times[first as usize] = now;
        }
        assert!(times[0] > 1500, "{}", times[0]);
    }
    /// A driver that names a 64th of all frames in advance, as PostgreSQL does, has the oldest ones too.
    #[test]
    fn frames_named_in_advance_do_not_hide_the_next_ones() {
        const FRAMES: u32 = 20_000;
        let mut oldest = OldestFrames::new(FRAMES);
        let mut times: Vec<u32> = (1..=FRAMES).collect();
        let mut now = FRAMES;
        let mut named = std::collections::VecDeque::new();
        let (mut found, mut missing) = (0, 0);
        for victim in 0..4 * u64::from(FRAMES) {
            let is_still = |(at, frame): Referenced| times[frame as usize] == at;
            let may_evict = |frame: Frame| !named.contains(&frame);
            let first = take_first(&mut oldest, is_still, may_evict);
            let may_evict = |frame: Frame| Some(frame) != first && may_evict(frame);
            oldest.pass(FRAMES, now, |frame| Some(times[frame as usize]), may_evict);
            let others = (0..FRAMES).filter(|frame| !named.contains(frame));
            match first {
                Some(_) if victim % 64 == 0 => {
                    let least = others.min_by_key(|&frame| times[frame as usize]);
                    assert_eq!(first, least, "{victim}");
                    found += 1;
                }
                Some(_) => found += 1,
                None => missing += 1,
            }
            named.extend(first);
            let evicted = match named.len() > FRAMES as usize / 64 {
                true => named.pop_front(),
                false => None,
            };
            let referenced = ebbpool_cost::mixed(victim) % u64::from(FRAMES);
            let referenced = Some(referenced as Frame).filter(|frame| !named.contains(frame));
            for frame in evicted.into_iter().chain(referenced) {
                now += 1;
                times[frame as usize] = now;
            }
        }
        assert!(missing * 2 < found, "{found} {missing}");
    }
}
