//! The atomics that frame words and the page table are made of. The model checker puts its own in
//! their place (`tests/loom.rs`).

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
