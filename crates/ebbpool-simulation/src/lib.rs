//! A deterministic scheduler for threads under test: one seed decides every interleaving.
//!
//! A *run* has simulated threads, each of them a thread of the operating system, of which exactly one
//! is running at any moment. Every operation on the primitives of this crate is a *step*: there the
//! scheduler lets the thread go on, or hands over to another one. All it decides follows from the
//! run's seed, so a run is repeated exactly: the same steps, the same times, the same failure.
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
//! - The primitives that the pool and the tree use, with the interface of `parking_lot` and of the
//!   standard library: [`Mutex`], [`RwLock`], [`Condvar`], atomics, [`mpsc`], [`thread`]. Every memory
//!   order is executed as [`Ordering::SeqCst`]: what weaker orders allow is loom's to check. Waiters
//!   may be woken for no reason, and `compare_exchange_weak` may fail for none.
//! - Time: [`Instant`] and [`thread::sleep`] go by a clock of the run's own, which advances a little
//!   with each step. When all threads are blocked or asleep, it jumps to the next deadline. A thread
//!   that waits for a minute costs nothing, and no deadline passes while another thread could run.
//!
//! Outside a run the primitives are plain ones.
//!
//! # What ends a run
//!
//! A run ends well when all its threads have ended. It [fails](Failure) if a panic leaves a thread,
//! if all threads are blocked and no deadline is left, or after a number of steps. Then the other
//! threads unwind one by one.
//!
//! # Schedules
//!
//! The seed also draws the strategy: preemption after a random number of steps with a mean between 2
//! and 4096, or priorities that change at a few random steps (Burckhardt et al., A randomized scheduler
//! with probabilistic guarantees of finding bugs, ASPLOS 2010). [`Simulation::preemptions`] limits how
//! often a thread that could go on is interrupted, and [`fewest_preemptions`] searches the smallest limit
//! with which a run still fails.

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
    Cause, Failure, Outcome, Simulation, fail, fewest_preemptions, is_simulated, random, simulate,
    step, steps_so_far, thread_number, undisturbed,
};
