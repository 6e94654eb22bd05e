//! When the running thread is interrupted, and which one goes on.

use crate::random::Random;

/// The most steps of a thread before the scheduler looks for sleepers whose time has come.
const LONGEST_STRETCH: u64 = 4096;

/// Steps after which a thread that never blocks is interrupted in any case, lest it wait in a circle for
/// one that cannot run.
pub(crate) const FAIR: u64 = 20_000;

#[derive(Clone, Debug)]
pub(crate) enum Strategy {
    /// After a random number of steps any other thread goes on.
    Random { mean: u64 },
    /// The thread of the highest priority goes on; at a few steps that one gets the lowest.
    Priorities { changes: Vec<u64> },
}

impl Strategy {
    pub(crate) fn draw(random: &mut Random) -> Self {
        if random.below(8) < 5 {
            return Strategy::Random {
                mean: random.pick(&[2, 4, 8, 16, 32, 64, 128, 512, 4096]),
            };
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

    /// Steps for which the thread that is about to run is not asked again.
    pub(crate) fn stretch(&self, steps: u64, random: &mut Random) -> u64 {
        let stretch = match self {
            Strategy::Random { mean } => random.below(mean * 2),
            Strategy::Priorities { changes } => changes
                .last()
                .map_or(LONGEST_STRETCH, |&next| next.saturating_sub(steps)),
        };
        stretch.min(LONGEST_STRETCH)
    }

    /// Whether the running thread is to make way now. `steps` are the run's so far, `in_one_go` the thread's since
    /// it got the turn.
    pub(crate) fn makes_way(&mut self, steps: u64, in_one_go: u64) -> bool {
        if in_one_go >= FAIR {
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
