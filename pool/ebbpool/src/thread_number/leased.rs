//! The numbers that threads of the process have while they live.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The thread has no number yet, or no longer has one. This is larger than any number.
const NONE: usize = usize::MAX;

thread_local! {
    /// The thread's number. It has no destructor, so that it can be read until the very end of the thread.
    static NUMBER: Cell<usize> = const { Cell::new(NONE) };
    /// Gives the number back when the thread ends.
    static LEASE: Lease = const { Lease };
}

struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        give_back();
    }
}

/// Numbers below this one are given out again.
const REUSED: usize = 4096;

/// A bit for each of those that a thread has. There is no lock: a child of `fork` would wait for ever for one that another thread of
/// its parent had at that moment.
static TAKEN: [AtomicU64; REUSED / 64] = [const { AtomicU64::new(0) }; REUSED / 64];
/// The next number for a thread that finds all of them taken.
static FURTHER: AtomicUsize = AtomicUsize::new(REUSED);

/// The calling thread's number, if it has one already; otherwise a number larger than any.
#[inline]
pub(crate) fn current() -> usize {
    NUMBER.get()
}

/// The calling thread's number: one of the smallest that are free at its first call. No other thread has it until this one
/// ends. `None` once the thread has given it back: destructors of its other thread-locals may still run then.
pub(crate) fn get() -> Option<usize> {
    if NUMBER.get() == NONE {
        // Without the lease, no destructor would give the number back.
        LEASE.try_with(|_| ()).ok()?;
        NUMBER.set(take());
    }
    Some(NUMBER.get())
}

fn take() -> usize {
    for (index, word) in TAKEN.iter().enumerate() {
        let free = |taken: u64| (taken != u64::MAX).then(|| taken | 1 << taken.trailing_ones());
        // What the thread before has written comes before what this one reads.
        if let Ok(before) = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, free) {
            return index * 64 + before.trailing_ones() as usize;
        }
    }
    FURTHER.fetch_add(1, Ordering::Relaxed)
}

/// Gives the calling thread's number back.
fn give_back() {
    let number = NUMBER.replace(NONE);
    if let Some(word) = TAKEN.get(number / 64) {
        word.fetch_and(!(1 << (number % 64)), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of threads that live at the same time differ, also beyond those that are given out again.
    #[test]
    fn each_thread_has_a_number_of_its_own() {
        let barrier = std::sync::Barrier::new(100);
        let rounds = 0..3;
        for _ in rounds {
            let numbers = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..100)
                    .map(|_| {
                        scope.spawn(|| {
                            let number = get();
                            barrier.wait();
                            number.unwrap()
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<std::collections::BTreeSet<_>>()
            });
            assert_eq!(numbers.len(), 100);
        }
        // Other tests of this program have some, too.
        let taken = TAKEN.iter().map(|word| word.load(Ordering::Acquire).count_ones()).sum::<u32>();
        assert!(taken < 400, "{taken} are not given back");
    }
}
