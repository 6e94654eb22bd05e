//! Locks, atomics, threads, channels and the clock: those of `parking_lot` and the standard library. Tests replace
//! them in two ways: `tests/loom.rs` uses the model checker's atomics, and the package `ebbpool-simulated`, which
//! compiles these sources once more, uses `ebbpool-simulation` for all of them.

#[cfg(not(feature = "simulation"))]
mod plain {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use std::sync::mpsc;
    pub(crate) use std::thread;
    pub(crate) use std::time::Instant;

    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
}

#[cfg(not(feature = "simulation"))]
pub(crate) use plain::*;

// The simulation runs one thread at a time, and each sees what all others have stored.
#[cfg(feature = "simulation")]
pub(crate) use std::sync::atomic::fence;

#[cfg(feature = "simulation")]
pub(crate) use ebbpool_simulation::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Condvar, Instant, Mutex, MutexGuard, Ordering, mpsc, thread,
};

/// The key of a hash, which no caller can guess.
#[cfg(not(feature = "simulation"))]
pub(crate) fn hash_key() -> [u64; 2] {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new();
    [random.hash_one(0), random.hash_one(1)]
}

/// A fixed key, so that simulated clients can choose page numbers that share a home in the page table.
#[cfg(feature = "simulation")]
pub(crate) fn hash_key() -> [u64; 2] {
    [0, 0x9e37_79b9_7f4a_7c15]
}

/// True if the handle is that of the calling thread, which cannot wait for its own end.
#[cfg(not(feature = "simulation"))]
pub(crate) fn is_this_thread(handle: &thread::JoinHandle<()>) -> bool {
    handle.thread().id() == thread::current().id()
}

/// Simulated clients drop pools in their own threads only.
#[cfg(feature = "simulation")]
pub(crate) fn is_this_thread(_: &thread::JoinHandle<()>) -> bool {
    false
}
