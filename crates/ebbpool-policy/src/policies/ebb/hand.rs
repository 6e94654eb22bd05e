//! The order in which the frames of a pool are compared.

use std::ops::Range;

use crate::policy::Frame;

/// The most frames of a group.
pub(super) const GROUP: Frame = 8;
/// A group is about this share of all groups after the one before it, in thousandths: the golden section, of which any
/// number of multiples is spread evenly.
const STEP: u64 = 618;

/// Visits the frames in groups of neighbours: all groups in a round, each once, and those that follow each other far
/// apart.
///
/// A pool is filled in the order of its frames, so that neighbours hold pages of about one age: the frames in turn are
/// no sample of the pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hand {
    frames: Frame,
    /// Frames of a group; the last group may have fewer.
    group: Frame,
    groups: u32,
    /// The group to visit next, and how many groups after it the following one is.
    next: u32,
    step: u32,
    /// Groups visited for each victim.
    per_victim: u32,
}

impl Hand {
    /// A hand that visits at least `looks` of `frames` frames for each victim, each of which is at least 1.
    pub(super) fn new(frames: u32, looks: u32) -> Self {
        let looks = looks.clamp(1, frames.max(1));
        let per_victim = looks.div_ceil(GROUP);
        let group = looks.div_ceil(per_victim);
        let groups = frames.div_ceil(group).max(1);
        Hand {
            frames,
            group,
            groups,
            next: 0,
            step: step(groups),
            per_victim: per_victim.min(groups),
        }
    }

    /// The groups that are visited for one victim.
    #[inline]
    pub(super) fn per_victim(&self) -> u32 {
        self.per_victim
    }

    /// Visits the next group.
    #[inline]
    pub(super) fn advance(&mut self) -> Range<Frame> {
        let start = self.start();
        let next = u64::from(self.next) + u64::from(self.step);
        let groups = u64::from(self.groups);
        self.next = if next < groups { next } else { next - groups } as u32;
        start..self.frames.min(start + self.group)
    }

    /// The first frame of the group to visit next.
    #[inline]
    pub(super) fn start(&self) -> Frame {
        self.next * self.group
    }
}

/// The least step from the golden section on with which a round visits every group.
fn step(groups: u32) -> u32 {
    let golden = (u64::from(groups) * STEP / 1000) as u32;
    let mut steps = golden.max(1)..;
    steps.find(|&step| divisor(step, groups) == 1).unwrap_or(1)
}

/// The greatest common divisor, of which one number is not 0.
fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_visits_each_frame_once() {
        for frames in (1..200).chain([1000, 4096, 65_537]) {
            for looks in [1, 5, 8, 12, 32, 1024] {
                let mut hand = Hand::new(frames, looks);
                let mut visited = vec![0; frames as usize];
                for _ in 0..hand.groups {
                    let group = hand.advance();
                    assert!(group.len() <= GROUP as usize && !group.is_empty());
                    group.for_each(|frame| visited[frame as usize] += 1);
                }
                assert!(
                    visited.iter().all(|&visits| visits == 1),
                    "{frames}, {looks}"
                );
                assert_eq!(hand.start(), 0);
            }
        }
    }

    #[test]
    fn each_victim_has_its_looks_far_apart() {
        let mut hand = Hand::new(8000, 32);
        let groups: Vec<Frame> = (0..hand.per_victim())
            .map(|_| hand.advance().start)
            .collect();
        assert_eq!(groups, [0, 4952, 1904, 6856]);
        assert_eq!(Hand::new(8000, 1).per_victim, 1);
        assert_eq!(Hand::new(8000, 1).advance(), 0..1);
        let hand = Hand::new(8000, 12);
        assert_eq!((hand.per_victim, hand.group), (2, 6));
        let hand = Hand::new(20, 32);
        assert_eq!((hand.per_victim, hand.group), (3, 7));
    }
}
