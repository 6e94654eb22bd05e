//! The numbers that threads of the process have while they live.

use std::cell::Cell;
use std::collections::BTreeSet;

use parking_lot::Mutex;

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

/// Numbers that no thread has.
struct Free {
    given_back: BTreeSet<usize>,
    /// The first number that was never given out; no later one was either.
    unused: usize,
}

static FREE: Mutex<Free> = Mutex::new(Free { given_back: BTreeSet::new(), unused: 0 });

/// The calling thread's number, if it has one already; otherwise a number larger than any.
#[inline]
pub(crate) fn current() -> usize {
    NUMBER.get()
}

/// The calling thread's number: the smallest that is free at its first call. No other thread has it until this one
/// ends. `None` once the thread has given it back: destructors of its other thread-locals may still run then.
pub(crate) fn get() -> Option<usize> {
    if NUMBER.get() == NONE {
        // Without the lease, no destructor would give the number back.
        LEASE.try_with(|_| ()).ok()?;
        let mut free = FREE.lock();
        let number = free.given_back.pop_first().unwrap_or_else(|| {
            free.unused += 1;
            free.unused - 1
        });
        NUMBER.set(number);
    }
    Some(NUMBER.get())
}

/// Gives the calling thread's number back.
fn give_back() {
    let number = NUMBER.replace(NONE);
    if number != NONE {
        FREE.lock().given_back.insert(number);
    }
}
