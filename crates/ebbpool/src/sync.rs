//! Locks, atomics, threads, channels and the clock: those of `parking_lot` and the standard library. Two
//! others take their place: the model checker's atomics (`tests/loom.rs`), and the whole of
//! `ebbpool-simulation` in the package `ebbpool-simulated`, which compiles these sources once more.

#[cfg(not(feature = "simulation"))]
mod plain {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use std::sync::mpsc;
    pub(crate) use std::thread;
    pub(crate) use std::time::Instant;

    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
}

#[cfg(not(feature = "simulation"))]
pub(crate) use plain::*;

#[cfg(feature = "simulation")]
pub(crate) use ebbpool_simulation::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Condvar, Instant, Mutex, MutexGuard, Ordering,
    fence, mpsc, thread,
};
