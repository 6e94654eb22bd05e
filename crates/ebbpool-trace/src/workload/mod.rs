//! Workloads of databases: operations on records, before an index makes page references of them.
//!
//! - [`Cfdc`]: point and range queries and updates, as the CFDC paper has them.
//! - [`Ycsb`]: the core workloads A to F of the Yahoo! Cloud Serving Benchmark.
//! - [`Keys`] and [`fill_value`]: keys and values for the records.
//!
//! The same workload gives the same operations on every machine. The generator `btree` makes the
//! page references of a [`Cfdc`] workload.
//!
//! ```
//! use ebbpool_trace::workload::{Cfdc, Operation};
//!
//! let workload = Cfdc { records: 1000, queries: 90, updates: 10, ..Cfdc::default() };
//! let updates = workload
//!     .operations()?
//!     .filter(|operation| matches!(operation, Operation::Update { .. }));
//! assert_eq!(updates.count(), 10);
//! # Ok::<(), ebbpool_trace::workload::WorkloadError>(())
//! ```

mod cfdc;
mod records;
mod skew;
#[cfg(test)]
mod tests;
mod ycsb;

pub use cfdc::{Cfdc, CfdcOperations};
pub use records::{Keys, fill_value};
pub use skew::Skew;
pub use ycsb::{Mix, Ycsb, YcsbOperations};

use crate::generators::zipf::MOST_PAGES;

/// The most records that a workload chooses from: its tables take 24 bytes for each.
pub const MOST_RECORDS: u64 = MOST_PAGES;

/// What is asked of a database. Records are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads a record.
    Read {
        /// Which.
        record: u64,
    },
    /// Gives a record another value of the same length, unseen.
    Update {
        /// Which.
        record: u64,
    },
    /// Reads a record and gives it another value.
    ReadModifyWrite {
        /// Which.
        record: u64,
    },
    /// Adds a record.
    Insert {
        /// Its number, which none has yet.
        record: u64,
    },
    /// Reads records in order of their keys.
    Scan {
        /// The first.
        first: u64,
        /// How many, if there are as many.
        records: u64,
    },
    /// Reads and updates records in order of their keys.
    UpdateScan {
        /// The first.
        first: u64,
        /// How many, if there are as many.
        records: u64,
    },
}

/// Why there is no such workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// None, or too many.
    #[error("a workload has 1 to {MOST_RECORDS} records, not {0}")]
    Records(u64),
    /// More operations than can be counted.
    #[error("so many operations cannot be counted; ask for fewer than 2^64")]
    Operations,
    /// The tables do not fit into memory.
    #[error("not enough memory for tables of {0} records; choose fewer records")]
    Memory(u64),
    /// Numbers of records do not fit into their keys.
    #[error("keys of {bytes} bytes tell {most} records apart, not {records}; choose longer keys")]
    Keys {
        /// Bytes of a key.
        bytes: usize,
        /// Records for which they suffice.
        most: u64,
        /// Records that there are.
        records: u64,
    },
}
