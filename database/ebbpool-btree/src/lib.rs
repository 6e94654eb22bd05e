//! A small database: a B+-tree on the pages of a buffer pool, with a write-ahead log.
//!
//! - [`DatabaseOptions`] and [`Database`] open, read, load, check and checkpoint a database.
//! - [`Transaction`]: changes that take effect together or not at all.
//! - [`ebbpool`]: the pool, whose options, storages and errors are part of this crate's interface.
//! - `docs/database.md` describes the guarantees and the design.
//!
//! With the feature `test-kit` a database can be stored on the disk of `ebbpool` that fails on demand.

// A simulation uses the pool that is compiled for simulated threads.
#[cfg(feature = "simulation")]
extern crate ebbpool_simulated as ebbpool;

mod admission;
mod allocation;
mod backup;
mod change;
mod check;
mod checkpoint;
mod database;
mod database_files;
mod ended;
mod error;
mod files;
mod locks;
mod log;
mod open;
mod options;
mod overlay;
mod page;
mod range;
mod recovery;
mod rollback;
mod shrink;
mod sync;
mod transaction;
mod tree;

/// For fuzzing only.
#[cfg(feature = "test-kit")]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::log::fuzzing::{log, record};
}

pub use backup::Backup;
pub use check::{CheckFinding, CheckReport};
pub use database::{Database, DatabaseStats, LostData, OpenTransaction};
#[cfg(not(feature = "simulation"))]
pub use ebbpool;
pub use error::DatabaseError;
pub use files::DatabasePaths;
pub use log::LogFile;
pub use options::{DatabaseOptions, DatabaseParts, Durability};
pub use page::class::PAGE_CLASSES;
pub use range::RecordRange;
pub use recovery::RecoveryStats;
pub use shrink::Shrunk;
pub use transaction::Transaction;
pub use tree::TreeShape;

/// Compiles the example in the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
