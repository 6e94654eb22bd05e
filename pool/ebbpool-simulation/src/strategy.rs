//! The scheduling strategies: when the running thread is interrupted, and which thread goes on.

use crate::random::Random;

/// The most steps of a thread before the scheduler looks for sleepers whose deadline has passed.
const LONGEST_STRETCH: u64 = 4096;

/// The number of steps after which a thread that never blocks is interrupted in any case, so that it does not wait
/// for ever for a thread that cannot run.
pub(crate) const FAIR: u64 = 20_000;

#[derive(Clone, Debug)]
pub(crate) enum Strategy {
    /// After a random number of steps any other thread goes on.
    Random { mean: u64 },
    /// The thread with the highest priority goes on; at a few steps it gets the lowest priority.
    Priorities { changes: Vec<u64> },
}

impl Strategy {
    pub(crate) fn draw(random: &mut Random) -> Self {
        if random.below(8) < 5 {
            return Strategy::Random { mean: random.pick(&[2, 4, 8, 16, 32, 64, 128, 512, 4096]) };
        }
        let length = 1 << (6 + random.below(10));
        let count = 1 + random.below(6);
        let mut changes: Vec<u64> = (0..count).map(|_| random.below(length)).collect();
        changes.sort_unstable_by(|a, b| b.cmp(a));
        Strategy::Priorities { changes }
    }

    pub(crate) fn has_priorities(&self) -> bool {
        matches!(self, Strategy::Priorities { .. })
    }

    /// The number of steps that the thread that is about to run may make before the scheduler decides again.
    pub(crate) fn stretch(&self, steps: u64, random: &mut Random) -> u64 {
        let stretch = match self {
            Strategy::Random { mean } => random.below(mean * 2),
            Strategy::Priorities { changes } => changes.last().map_or(LONGEST_STRETCH, |&next| next.saturating_sub(steps)),
        };
        stretch.min(LONGEST_STRETCH)
    }

    /// Whether the running thread has to yield now. `steps` is the number of the run's steps so far, `since_switch` the
    /// number of the thread's steps since it got the turn.
    pub(crate) fn has_to_yield(&mut self, steps: u64, since_switch: u64) -> bool {
        if since_switch >= FAIR {
            return true;
        }
        match self {
            Strategy::Random { .. } => true,
            Strategy::Priorities { changes } => {
                let due = changes.last().is_some_and(|&next| next <= steps);
                if due {
                    changes.pop();
                }
                due
            }
        }
    }
}
