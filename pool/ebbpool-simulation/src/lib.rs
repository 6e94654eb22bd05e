//! A deterministic scheduler for threads under test: one seed decides every interleaving.
//!
//! A *run* has simulated threads. Each is a thread of the operating system, and exactly one of them runs at any
//! moment. Every operation on the primitives of this crate is a *step*, at which the scheduler lets the thread go on
//! or switches to another one. All of its decisions follow from the run's seed, so a run can be repeated exactly: the
//! same steps, the same times, the same failure.
//!
//! ```
//! use std::sync::Arc;
//! use ebbpool_simulation::{AtomicU64, Ordering, simulate, thread};
//!
//! let lost = (0..100).any(|seed| {
//!     let outcome = simulate(seed, || {
//!         let count = Arc::new(AtomicU64::new(0));
//!         let threads = [0, 1].map(|_| {
//!             let count = Arc::clone(&count);
//!             thread::spawn(move || {
//!                 let seen = count.load(Ordering::SeqCst);
//!                 count.store(seen + 1, Ordering::SeqCst);
//!             })
//!         });
//!         threads.map(|thread| thread.join().unwrap());
//!         count.load(Ordering::SeqCst)
//!     });
//!     outcome.unwrap().value == 1
//! });
//! assert!(lost, "two threads can overwrite each other's counts");
//! ```
//!
//! # What is simulated
//!
//! - The primitives that the pool and the tree use, with the interface of `parking_lot` and of the standard library:
//!   [`Mutex`], [`RwLock`], [`Condvar`], atomics, [`mpsc`], [`thread`]. Every memory order is executed as
//!   [`Ordering::SeqCst`]; loom checks what weaker orders allow. Waiters may be woken spuriously, and
//!   `compare_exchange_weak` may fail spuriously.
//! - Time: [`Instant`] and [`thread::sleep`] use the run's clock, which advances a little with each step. When all
//!   threads are blocked or asleep, it jumps to the next deadline. So a thread that waits for a minute takes no real
//!   time, and the clock does not jump while a thread can run.
//!
//! Outside a run the primitives are plain ones.
//!
//! # What ends a run
//!
//! A run succeeds when all its threads have ended. It [fails](Failure) if a thread ends with a panic, if all threads
//! are blocked and no deadline is left, or if it exceeds its limit of steps. Then the other threads unwind one by
//! one.
//!
//! # Schedules
//!
//! The seed also selects the strategy: preemption after a random number of steps with a mean between 2 and 4096, or
//! priorities that change at a few random steps (Burckhardt et al., A randomized scheduler with probabilistic
//! guarantees of finding bugs, ASPLOS 2010). [`Simulation::preemptions`] limits the number of preemptions, and
//! [`fewest_preemptions`] searches the smallest limit with which a run still fails.

mod atomic;
mod condvar;
pub mod mpsc;
mod mutex;
mod random;
mod rwlock;
mod strategy;
pub mod thread;
mod time;
mod worker;
mod world;

pub use atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
pub use random::Random;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use time::Instant;
pub use world::{
    Failure, FailureCause, Simulation, SimulationOutcome, fail, fewest_preemptions, is_simulated, random, simulate, step,
    steps_so_far, thread_number, undisturbed,
};
