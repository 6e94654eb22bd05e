//! The order in which the frames of a pool are compared.

use super::reviews::GROUP;
use crate::policy::Frame;

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
    groups: u32,
    /// The group to visit next, and how many groups after it the following one is.
    next: u32,
    step: u32,
    /// Groups visited for each victim.
    per_victim: u32,
}

impl Hand {
    /// A hand over `frames` frames that visits `looks` of them for each victim, as many groups as these take. Both
    /// numbers are at least 1.
    pub(super) fn new(frames: u32, looks: u32) -> Self {
        let groups = frames.div_ceil(GROUP).max(1);
        Hand { groups, next: 0, step: step(groups), per_victim: looks.div_ceil(GROUP).min(groups) }
    }

    /// The groups that are visited for one victim.
    #[inline]
    pub(super) fn per_victim(&self) -> u32 {
        self.per_victim
    }

    /// Whether all groups are visited for each victim.
    #[inline]
    pub(super) fn visits_all(&self) -> bool {
        self.per_victim == self.groups
    }

    /// The groups that are visited for some victims, each once.
    pub(super) fn for_victims(&self, victims: usize) -> u32 {
        let groups = u64::from(self.per_victim).saturating_mul(victims as u64);
        groups.min(self.groups.into()) as u32
    }

    /// Visits the next group, counted from 0.
    #[inline]
    pub(super) fn advance(&mut self) -> u32 {
        let group = self.next;
        // Neither number is near the end of its type: there are fewer groups than an eighth of all numbers.
        let next = group + self.step;
        self.next = if next < self.groups { next } else { next - self.groups };
        group
    }

    /// The first frame of the group to visit next.
    #[inline]
    pub(super) fn start(&self) -> Frame {
        self.next * GROUP
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
    fn a_round_visits_each_group_once() {
        for frames in (1..200).chain([1000, 4096, 65_537, u32::MAX]) {
            let mut hand = Hand::new(frames, 32);
            assert_eq!(divisor(hand.step, hand.groups), 1, "{frames}");
            if frames == u32::MAX {
                (0..100).for_each(|_| assert!(hand.advance() < hand.groups));
                continue;
            }
            let mut visited = vec![0; hand.groups as usize];
            (0..hand.groups).for_each(|_| visited[hand.advance() as usize] += 1);
            assert!(visited.iter().all(|&visits| visits == 1), "{frames}");
            assert_eq!(hand.start(), 0);
        }
    }

    #[test]
    fn each_victim_has_its_looks_far_apart() {
        let mut hand = Hand::new(8000, 32);
        let groups: Vec<u32> = (0..hand.per_victim()).map(|_| hand.advance()).collect();
        assert_eq!(groups, [0, 619, 238, 857]);
        assert_eq!(hand.start(), 476 * GROUP);
        let per_victim = |frames, looks| Hand::new(frames, looks).per_victim();
        assert_eq!((per_victim(8000, 1), per_victim(8000, 12)), (1, 2));
        assert_eq!((per_victim(20, 32), per_victim(1, 1024)), (3, 1));
    }
}
