//! What a database may fail with.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ebbpool::Lsn;

/// What a call of the database failed with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option makes no sense, or does not suit the database.
    #[error("{0}")]
    Options(String),
    /// What the buffer pool failed with.
    #[error(transparent)]
    Pool(#[from] ebbpool::Error),
    /// A page is whole, and yet not what belongs there.
    #[error("page {page} is damaged: {what}")]
    Corrupt {
        /// The page.
        page: u64,
        /// What is wrong.
        what: String,
    },
    /// The files are no database.
    #[error("{path} is not an Ebbpool database: {what}")]
    NotADatabase {
        /// The database's path.
        path: PathBuf,
        /// How one knows.
        what: String,
    },
    /// The database was written by a later version.
    #[error(
        "{path} is of format {found}, and this program knows formats up to {known}; take a newer ebbpool"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The latest format that is known here.
        known: u32,
    },
    /// Somebody has the database open.
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
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The log could not be written or read. After a failed write or sync nothing more is committed:
    /// reopen the database, which recovers.
    #[error("the log cannot be {what}: {source}")]
    Log {
        /// What was tried, as a participle.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The log has a hole where it was durable once. [`Options::read_only`](crate::Options::read_only)
    /// shows what is left.
    #[error(
        "the log is damaged at byte {position}: what was durable up to byte {durable} is gone; nothing was changed. Put the log back from a backup, or open the database read-only (Options::read_only)"
    )]
    LogDamaged {
        /// Where the first unreadable record begins, in bytes of all that was ever logged.
        position: Lsn,
        /// How far it was once durable.
        durable: Lsn,
    },
    /// The log lost its end: pages may have been written that need what is missing, and what would be
    /// logged now would be taken for it. [`Options::read_only`](crate::Options::read_only) shows what is
    /// left.
    #[error(
        "the log ends at byte {end}, and was durable up to byte {durable} once: {} bytes are missing. Put the log back from a backup, or open the database read-only (Options::read_only)",
        .durable.saturating_sub(*.end)
    )]
    LogCut {
        /// Where it ends, in bytes of all that was ever logged.
        end: Lsn,
        /// How far it was once durable, at least.
        durable: Lsn,
    },
    /// The database was opened only to be read.
    #[error("the database is open read-only; open it without Options::read_only to change it")]
    ReadOnly,
    /// Rollback or what follows a commit failed, and pages hold what they should not. Reopen the
    /// database, which recovers.
    #[error("the database takes no more changes, since {0}; reopen it to recover")]
    Broken(String),
    /// The key is longer than fits.
    #[error("a key of {length} bytes is too long: with these pages it may have {most}")]
    KeyTooLong {
        /// Its length.
        length: usize,
        /// The greatest length.
        most: usize,
    },
    /// The value is longer than fits.
    #[error("a value of {length} bytes is too long: it may have {most}")]
    ValueTooLong {
        /// Its length.
        length: usize,
        /// The greatest length.
        most: usize,
    },
    /// Another transaction has changed the key and is not done, and waiting was in vain or would never
    /// end (deadlock). Roll back and try again.
    #[error("another transaction has the key: {}", match .deadlock { true => "waiting would be a deadlock".into(), false => format!("waited {:?}", .waited) })]
    Conflict {
        /// True if each would wait for the other.
        deadlock: bool,
        /// How long it was tried.
        waited: Duration,
    },
    /// What is loaded does not come in ascending order.
    #[error(
        "record {record} does not come after the one before it; sort what is loaded, and each key once"
    )]
    Unsorted {
        /// Its number, from 1.
        record: u64,
    },
    /// There are records already.
    #[error("loading takes an empty database, and this one has records")]
    NotEmpty,
}

impl Error {
    pub(crate) fn corrupt(page: u64, what: impl Into<String>) -> Self {
        Error::Corrupt {
            page,
            what: what.into(),
        }
    }
}
