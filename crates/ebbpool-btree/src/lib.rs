//! A small database: a B+-tree on the pages of a buffer pool, with a write-ahead log.
//!
//! - [`Options`] and [`Database`]: opening, reading, checkpoints, loading, checking.
//! - [`Transaction`]: changes that happen all or not at all.
//! - [`ebbpool`]: the pool, whose options, storages and errors are part of this crate's.
//! - `docs/btree.md` says how it works, and why so.
//!
//! The feature `test-kit` lets a database lie on the disk of `ebbpool` that fails on demand.

// In a simulation the pool is the one that is compiled for simulated threads.
#[cfg(feature = "simulation")]
extern crate ebbpool_simulated as ebbpool;

mod allocation;
mod change;
mod check;
mod checkpoint;
mod database;
mod error;
#[cfg(unix)]
mod files;
mod locks;
mod log;
mod open;
mod options;
mod overlay;
mod page;
mod place;
mod range;
mod recovery;
mod rollback;
mod sync;
mod transaction;
mod tree;

/// For fuzzing only.
#[cfg(feature = "test-kit")]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::log::fuzzing::{log, record};
}

pub use check::{Finding, Report};
pub use database::{Database, DatabaseStats, Lost};
#[cfg(not(feature = "simulation"))]
pub use ebbpool;
pub use error::Error;
pub use log::LogFile;
pub use options::{Durability, Options, Parts};
pub use range::Range;
pub use transaction::Transaction;
pub use tree::Shape;

/// Compiles the example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
