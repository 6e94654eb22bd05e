//! A buffer pool that knows what a write costs. It caches the pages of a file in a fixed number of frames, lets many
//! threads fix them, and writes dirty pages back when its replacement policy evicts them.
//!
//! ```no_run
//! use ebbpool::PoolOptions;
//! use ebbpool::storage::{FileOptions, FileStorage};
//!
//! // 10,000 frames for pages of 4,096 bytes, which is the default: 39 MiB.
//! let storage = FileStorage::open("my.pages", &FileOptions::new().create(true))?;
//! let pool = PoolOptions::new(10_000).open(storage)?;
//!
//! // An unused page, fixed for writing until the guard is dropped.
//! let mut page = pool.allocate()?;
//! page[..5].copy_from_slice(b"hello");
//! let number = page.page();
//! drop(page);
//!
//! assert_eq!(&pool.fix_read(number)?[..5], b"hello");
//! println!("{}", pool.stats());
//! // Writes what is dirty. A pool that is only dropped writes nothing.
//! pool.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Pool`] is `Send` and `Sync`: threads share one in an `Arc`, or borrow it. Changes are durable after
//! [`Pool::flush`], [`Pool::checkpoint`] or [`Pool::close`], or as soon as your own [`Log`] is.
//!
//! - [`PoolOptions`]: how a pool is opened: its frames, policy, log, and guarantees.
//! - [`Pool`]: fixes pages, writes them back, reports statistics.
//! - [`ClassedPool`]: fixes pages whose class the policy may use, such as the leaves of an index.
//! - [`storage`]: the files, devices and memory that store pages.
//! - [`Log`]: the write-ahead log that the pool forces before it writes a page.
//! - [`policy`]: the replacement policies, and the trait that a policy of your own implements.
//!
//! `docs/pool.md` in the repository explains guarantees, options, tuning and errors.
//!
//! Three optional features add storages: `object-store` (pages in S3 and the like), `device-models` (pages in memory
//! that cost what a device profile or the flash model says) and `test-kit` (a disk in memory that fails on demand,
//! for tests).

#[cfg(not(unix))]
compile_error!("ebbpool reads and writes files as Unix has them; no other system is supported");

mod background;
mod boxed;
mod callback;
mod checkpoint;
mod classed;
mod contained;
mod core;
#[cfg(feature = "device-models")]
pub mod device;
mod double_write;
mod error;
mod frames;
mod group_sync;
mod guard;
mod log;
mod numbers;
mod optimistic;
mod options;
mod page;
pub mod policy;
mod pool;
mod read_ahead;
mod recent;
mod recorder;
mod replacement;
mod resize;
mod rings;
mod scan;
mod spaces;
mod stats;
pub mod storage;
mod sync;
mod table;
#[cfg(test)]
mod table_tests;
mod thread_number;
mod throttle;
mod torn_pads;
mod transfer;

pub use checkpoint::Checkpoint;
pub use classed::ClassedPool;
pub use double_write::DoubleWriteArea;
pub use ebbpool_cost::{Asymmetry, AsymmetryError, OperationCosts, Unit};
pub use error::{CloseError, OptionsError, PoolError};
pub use frames::{ALIGNMENT, FrameMemory};
pub use guard::{OwnedReadGuard, OwnedWriteGuard, ReadGuard, WriteGuard};
pub use log::{Log, Lsn, NoLog};
pub use optimistic::Optimistic;
pub use options::PoolOptions;
pub use page::{Damage, HEADER_BYTES, PageFormat};
pub use pool::Pool;
pub use replacement::ReplacementEvent;
pub use scan::PoolScan;
pub use stats::{Quantiles, ReadCause, Stats, WriteCause};

/// Compiles the example in README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles the examples in docs/pool.md, which is no part of the package.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/pool.md")]
struct Guide;
