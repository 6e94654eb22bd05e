//! The atomics that frame words and the page table are made of, and what a run must not depend on. The model
//! checker puts its own in their place (`tests/loom.rs`).

use std::hash::{BuildHasher, RandomState};

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The key of a hash, which nobody outside the process can guess.
pub(crate) fn hash_key() -> [u64; 2] {
    let random = RandomState::new();
    [random.hash_one(0), random.hash_one(1)]
}
