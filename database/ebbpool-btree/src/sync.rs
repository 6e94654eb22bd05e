//! Locks, atomics, threads and the clock: those of `parking_lot` and the standard library, or, in the package
//! `ebbpool-btree-simulated`, which compiles these sources once more, those of `ebbpool-simulation`.

#[cfg(not(feature = "simulation"))]
mod plain {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::thread;
    pub(crate) use std::time::Instant;

    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
}

#[cfg(not(feature = "simulation"))]
pub(crate) use plain::*;

#[cfg(feature = "simulation")]
pub(crate) use ebbpool_simulation::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Instant, Mutex, MutexGuard, Ordering, RwLock, thread,
};
