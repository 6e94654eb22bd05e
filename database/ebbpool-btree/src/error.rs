//! The errors of a database.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ebbpool::Lsn;

/// An error that a call of the database returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// An option has no valid value, or does not fit the database.
    #[error("{0}")]
    Options(String),
    /// An error of the buffer pool.
    #[error(transparent)]
    Pool(#[from] ebbpool::PoolError),
    /// The page's checksum is right, but its content does not belong there.
    #[error("page {page} is damaged: {what}")]
    Corrupt {
        /// The page.
        page: u64,
        /// What is wrong.
        what: String,
    },
    /// The files are not a database.
    #[error("{path} is not an Ebbpool database: {what}")]
    NotADatabase {
        /// The database's path.
        path: PathBuf,
        /// Why they are not one.
        what: String,
    },
    /// The database was written by a later version.
    #[error("{path} is of format {found}, and this program knows formats up to {supported}; take a newer ebbpool")]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The latest format that this program reads.
        supported: u32,
    },
    /// The database is open already, in this process or in another one.
    #[error("{path} is open elsewhere; a database is opened once at a time")]
    Locked {
        /// The database's path.
        path: PathBuf,
    },
    /// A file could not be opened, read or written.
    #[error("{path}: cannot {what}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// There is no room for the log: the disk is full, or a limit is reached. A change that fails with it has changed
    /// nothing; reads and, as far as a checkpoint makes room, deletions go on.
    #[error("the log has no room: {source}; free some on the disk, or delete records")]
    Full {
        /// The system's error.
        source: io::Error,
    },
    /// The log could not be written or read. After a failed sync the database commits nothing more. Reopen it: opening
    /// recovers it. A write is repeated by later calls.
    #[error("the log cannot be {what}: {source}")]
    Log {
        /// The operation that failed, as a participle.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The log has a hole before a position up to which it was durable. A database that is opened with
    /// [`DatabaseOptions::read_only`](crate::DatabaseOptions::read_only) shows what can still be read.
    #[error(
        "the log is damaged at byte {position}: records that were durable up to byte {durable} are missing; nothing was changed. Put the log back from a backup, or open the database read-only (DatabaseOptions::read_only)"
    )]
    LogDamaged {
        /// Where the first unreadable record begins, in bytes since the log's creation.
        position: Lsn,
        /// The position up to which the log was durable.
        durable: Lsn,
    },
    /// The log lost its end. Pages in the storage may depend on the missing records, and new records at the
    /// same positions would be mistaken for those. A database that is opened with
    /// [`DatabaseOptions::read_only`](crate::DatabaseOptions::read_only) shows what can still be read.
    #[error(
        "the log ends at byte {end}, and was durable up to byte {durable} once: {} bytes are missing. Put the log back from a backup, or open the database read-only (DatabaseOptions::read_only)",
        .durable.saturating_sub(*.end)
    )]
    LogCut {
        /// Where the log ends, in bytes since its creation.
        end: Lsn,
        /// A position up to which the log was durable.
        durable: Lsn,
    },
    /// The file of pages is older than the log, and commits between the two are in neither. A database that is opened with
    /// [`DatabaseOptions::read_only`](crate::DatabaseOptions::read_only) shows what can still be read.
    #[error(
        "the pages are older than the log: the first is as of byte {found}, and a checkpoint wrote it at byte {expected}. Put back all four files of one copy, or open the database read-only"
    )]
    PagesOlder {
        /// The LSN of the first page.
        found: Lsn,
        /// Its LSN when the latest checkpoint was complete.
        expected: Lsn,
    },
    /// The database was opened read-only.
    #[error("the database is open read-only; open it without DatabaseOptions::read_only to change it")]
    ReadOnly,
    /// The log failed, a page is damaged, or a thread panicked in a change, so pages may hold wrong content. Reopen the
    /// database: opening recovers it.
    #[error("the database takes no more changes, since {0}; reopen it to recover")]
    Broken(String),
    /// An operation of the transaction failed and could not be undone, so all of the transaction is rolled back. Its keys
    /// stay locked until that is done, which later calls and the checkpoint thread try again.
    #[error("the transaction was rolled back, since one of its operations could not be undone: {0}; begin it again")]
    RolledBack(String),
    /// The key is too long for the pages of this database.
    #[error("a key of {length} bytes is too long: with these pages it may have {most}")]
    KeyTooLong {
        /// The length of the key in bytes.
        length: usize,
        /// The greatest length of a key in bytes.
        most: usize,
    },
    /// The value is too long.
    #[error("a value of {length} bytes is too long: it may have {most}")]
    ValueTooLong {
        /// The length of the value in bytes.
        length: usize,
        /// The greatest length of a value in bytes.
        most: usize,
    },
    /// Another transaction has locked the key and has not ended: the wait timed out, or would never end
    /// (deadlock). Roll back and try again.
    #[error("another transaction has the key: {}", match .deadlock { true => "waiting would be a deadlock".into(), false => format!("waited {:?}", .waited) })]
    Conflict {
        /// True if the transactions would wait for each other.
        deadlock: bool,
        /// How long the call waited.
        waited: Duration,
    },
    /// The records to be loaded are not in ascending order.
    #[error("record {record} does not come after the one before it; sort the records, with each key once")]
    Unsorted {
        /// The number, from 1, of the record whose key is not greater than that before it.
        record: u64,
    },
    /// The database has records already.
    #[error("loading takes an empty database, and this one has records")]
    NotEmpty,
}

impl DatabaseError {
    pub(crate) fn corrupt(page: u64, what: impl Into<String>) -> Self {
        DatabaseError::Corrupt { page, what: what.into() }
    }

    /// True if what failed may succeed when it is repeated.
    pub(crate) fn may_pass(&self) -> bool {
        use ebbpool::PoolError as Pool;
        match self {
            DatabaseError::Pool(
                Pool::Poisoned { .. } | Pool::Abandoned { .. } | Pool::WriteAhead { .. } | Pool::Damaged { .. },
            ) => false,
            DatabaseError::Pool(_) | DatabaseError::Full { .. } => true,
            DatabaseError::Log { source, .. } => source.kind() != io::ErrorKind::InvalidData,
            _ => false,
        }
    }
}
