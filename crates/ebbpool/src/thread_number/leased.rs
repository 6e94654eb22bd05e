//! Numbers that the process's threads have for as long as they live.

use std::cell::Cell;
use std::collections::BTreeSet;

use parking_lot::Mutex;

/// The thread has no number yet, or has one no more. As a number it is larger than any.
const NONE: usize = usize::MAX;

thread_local! {
    /// Has no destructor, so that it can be read until the very end of the thread.
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
    /// All from here on were never given out.
    unused: usize,
}

static FREE: Mutex<Free> = Mutex::new(Free {
    given_back: BTreeSet::new(),
    unused: 0,
});

/// The calling thread's number, if it has one already; else a number larger than any.
#[inline]
pub(crate) fn known() -> usize {
    NUMBER.get()
}

/// The calling thread's number, which no other thread has until this one ends: the smallest that is free when
/// it first asks. None once the thread has given it back: destructors of its other thread-locals may still run
/// then.
pub(crate) fn get() -> Option<usize> {
    if NUMBER.get() == NONE {
        // Nothing would give a number back that is taken after this.
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

/// The calling thread does without its number from now on.
fn give_back() {
    let number = NUMBER.replace(NONE);
    if number != NONE {
        FREE.lock().given_back.insert(number);
    }
}
