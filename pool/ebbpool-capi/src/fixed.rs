//! The pages that a program has fixed, by token.
//!
//! A token is the number of a slot and of the slot's generation, which goes up each time a page is unfixed. So a token
//! that was used up is not found, though its slot may have another page. Generations of two pools begin far apart, so
//! that a token of one is mostly none of the other.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use ebbpool::{ReadGuard, WriteGuard};

use crate::error::Failure;

/// Threads insert into different shards, so that they seldom wait for each other.
const SHARDS: usize = 1 << SHARD_BITS;
const SHARD_BITS: u32 = 6;

/// The bits of a token that number the slot of its shard.
const SLOT_BITS: u32 = 26;

/// A fixed page. Its guard has a lifetime that the compiler does not check: see `pages.rs`.
pub(crate) enum PageGuard {
    Read(ReadGuard<'static>),
    Write(WriteGuard<'static>),
}

/// The fixed pages of one pool.
pub(crate) struct FixedPages {
    shards: [CachePadded<Mutex<Shard>>; SHARDS],
    first_generation: u32,
}

#[derive(Default)]
struct Shard {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    guard: Option<PageGuard>,
}

impl FixedPages {
    /// No pages.
    pub(crate) fn new() -> Self {
        static POOLS: AtomicU32 = AtomicU32::new(1);
        let number = POOLS.fetch_add(1, Ordering::Relaxed);
        FixedPages {
            shards: std::array::from_fn(|_| CachePadded::default()),
            // Multiples of the golden ratio lie far apart (Knuth, The Art of Computer Programming 3, section 6.4).
            first_generation: number.wrapping_mul(0x9e37_79b9),
        }
    }

    fn shard(&self, at: usize) -> MutexGuard<'_, Shard> {
        // A panic leaves a shard as it was before: nothing between two of its changes can panic.
        let shard = &self.shards[at % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a guard; returns its token, which is not 0.
    pub(crate) fn insert(&self, guard: PageGuard) -> Result<u64, Failure> {
        let number = shard_of_thread();
        let mut shard = self.shard(number);
        let at = match shard.free.pop() {
            Some(at) => at as usize,
            None if shard.slots.len() >> SLOT_BITS == 0 => {
                let generation = self.first_generation.max(1);
                shard.slots.push(Slot { generation, guard: None });
                shard.slots.len() - 1
            }
            None => return Err(Failure::busy("too many pages are fixed")),
        };
        let slot = &mut shard.slots[at];
        slot.guard = Some(guard);
        Ok(u64::from(slot.generation) << 32 | (at << SHARD_BITS | number) as u64)
    }

    /// Removes and returns the guard of a token, if `check` accepts it.
    pub(crate) fn take(&self, token: u64, check: impl FnOnce(&PageGuard) -> Result<(), Failure>) -> Result<PageGuard, Failure> {
        let (mut shard, at) = self.locate(token);
        let slot = shard.find(token, at)?;
        if let Some(guard) = &slot.guard {
            check(guard)?;
        }
        let guard = slot.guard.take().ok_or_else(|| Failure::not_fixed(token))?;
        // 0 is no generation, so that 0 is no token.
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        shard.free.push(at as u32);
        Ok(guard)
    }

    /// Changes the guard of a token, without the lock, since that may call the program's `on_fix`.
    pub(crate) fn change(
        &self,
        token: u64,
        change: impl FnOnce(PageGuard) -> (PageGuard, Result<(), Failure>),
    ) -> Result<(), Failure> {
        let (mut shard, at) = self.locate(token);
        let guard = shard.find(token, at)?.guard.take().ok_or_else(|| Failure::not_fixed(token))?;
        drop(shard);
        let (guard, result) = change(guard);
        // The slot is not free meanwhile.
        let (mut shard, at) = self.locate(token);
        shard.slots[at].guard = Some(guard);
        result
    }

    /// The number of fixed pages.
    pub(crate) fn count(&self) -> usize {
        let of = |at| {
            let shard = self.shard(at);
            shard.slots.len() - shard.free.len()
        };
        (0..SHARDS).map(of).sum()
    }

    fn locate(&self, token: u64) -> (MutexGuard<'_, Shard>, usize) {
        let number = token as u32 as usize;
        (self.shard(number % SHARDS), number >> SHARD_BITS)
    }
}

impl Shard {
    fn find(&mut self, token: u64, at: usize) -> Result<&mut Slot, Failure> {
        let slot = self.slots.get_mut(at);
        slot.filter(|slot| slot.guard.is_some() && u64::from(slot.generation) == token >> 32)
            .ok_or_else(|| Failure::not_fixed(token))
    }
}

fn shard_of_thread() -> usize {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static SHARD: Cell<Option<u32>> = const { Cell::new(None) };
    }
    SHARD.with(|shard| {
        let number = shard.get().unwrap_or_else(|| {
            let number = THREADS.fetch_add(1, Ordering::Relaxed);
            shard.set(Some(number));
            number
        });
        number as usize % SHARDS
    })
}
