//! Workloads of databases: operations on records, before an index turns them into page references.
//!
//! - [`CfdcWorkload`]: point and range queries and updates, as in the CFDC paper.
//! - [`Ycsb`]: the core workloads A to F of the Yahoo! Cloud Serving Benchmark.
//! - [`Keys`] and [`fill_value`]: keys and values for the records.
//!
//! The same workload gives the same operations on every machine. The generator `btree` makes the
//! page references of a [`CfdcWorkload`].
//!
//! ```
//! use ebbpool_trace::workload::{CfdcWorkload, WorkloadOperation};
//!
//! let workload = CfdcWorkload { records: 1000, queries: 90, updates: 10, ..CfdcWorkload::default() };
//! let updates = workload
//!     .operations()?
//!     .filter(|operation| matches!(operation, WorkloadOperation::Update { .. }));
//! assert_eq!(updates.count(), 10);
//! # Ok::<(), ebbpool_trace::workload::WorkloadError>(())
//! ```

mod cfdc;
mod records;
mod skew;
#[cfg(test)]
mod tests;
mod ycsb;

pub use cfdc::{CfdcOperations, CfdcWorkload};
pub use records::{Keys, fill_value};
pub use skew::Skew;
pub use ycsb::{Mix, Ycsb, YcsbOperations};

use crate::generators::zipf::MOST_PAGES;

/// The most records that a workload chooses from: its tables take 24 bytes for each.
pub const MOST_RECORDS: u64 = MOST_PAGES;

/// An operation on a database. Records are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkloadOperation {
    /// Reads a record.
    Read {
        /// The record.
        record: u64,
    },
    /// Gives a record another value of the same length without reading it.
    Update {
        /// The record.
        record: u64,
    },
    /// Reads a record and gives it another value.
    ReadModifyWrite {
        /// The record.
        record: u64,
    },
    /// Adds a record.
    Insert {
        /// Its number, which no other record has.
        record: u64,
    },
    /// Reads records in order of their keys.
    Scan {
        /// The first record.
        first: u64,
        /// How many records, or as many as there are.
        records: u64,
    },
    /// Reads and updates records in order of their keys.
    UpdateScan {
        /// The first record.
        first: u64,
        /// How many records, or as many as there are.
        records: u64,
    },
}

/// Why a workload is impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// No records, or too many.
    #[error("a workload has 1 to {MOST_RECORDS} records, not {0}")]
    Records(u64),
    /// More operations than can be counted.
    #[error("there are more operations than can be counted; ask for fewer than 2^64")]
    Operations,
    /// The tables do not fit into memory.
    #[error("not enough memory for tables of {0} records; choose fewer records")]
    Memory(u64),
    /// Keys are too short for the numbers of records.
    #[error("keys of {bytes} bytes distinguish {most} records, not {records}; choose longer keys")]
    Keys {
        /// Bytes of a key.
        bytes: usize,
        /// Records for which they suffice.
        most: u64,
        /// The number of records.
        records: u64,
    },
}
