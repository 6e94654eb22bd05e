//! Errors of `ebbpool db`.

use std::io;
use std::path::{Path, PathBuf};

use ebbpool_btree::DatabaseError;
use ebbpool_trace::TraceError;
use ebbpool_trace::workload::WorkloadError;

/// Why a command could not do its work on a database.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DbError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("{path}: {source}")]
    At { path: PathBuf, source: DatabaseError },
    #[error("{file}, line {line}: {problem}")]
    Line { file: String, line: u64, problem: String },
    #[error("{file}: cannot {what}: {source}")]
    Io { file: String, what: &'static str, source: io::Error },
    #[error("cannot write standard output: {0}")]
    Output(io::Error),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error("--frames {0} is a share of the pages of an existing database; give a new one frames, or bytes such as 16MiB")]
    ShareOfNew(String),
    #[error("{path} has no key {key}")]
    NoKey { path: PathBuf, key: String },
    #[error("{path}: the key {key} {what} a tab or a newline, which a line cannot show; add --escape")]
    NotALine { path: PathBuf, key: String, what: &'static str },
    #[error("{path}: the check found {count} problems; restore a copy, or dump the records that can be read")]
    Findings { path: PathBuf, count: usize },
    #[error("{path} was not loaded for this workload: {why}; make one with ebbpool db load --workload {workload}")]
    OtherWorkload { path: PathBuf, workload: &'static str, why: String },
    #[error("{path}: {what}; put the log back from a backup, or read the rest with ebbpool db dump {path} --read-only")]
    LostLog { path: PathBuf, what: String },
    #[error("interrupted; {0}")]
    Interrupted(String),
}

impl DbError {
    /// True if the command line is wrong, and not the database.
    pub(super) fn is_usage(&self) -> bool {
        match self {
            DbError::Database(error) | DbError::At { source: error, .. } => {
                matches!(error, DatabaseError::Options(_))
            }
            DbError::Workload(error) => !matches!(error, WorkloadError::Memory(_)),
            DbError::Trace(error) => error.is_usage(),
            DbError::ShareOfNew(_) => true,
            _ => false,
        }
    }

    /// Adds the database's path to errors whose message does not contain it.
    pub(super) fn at(path: &Path) -> impl Fn(DatabaseError) -> DbError {
        move |error| match error {
            DatabaseError::NotADatabase { .. }
            | DatabaseError::Newer { .. }
            | DatabaseError::Locked { .. }
            | DatabaseError::File { .. }
            | DatabaseError::Options(_) => DbError::Database(error),
            DatabaseError::LogCut { end, durable } => {
                let missing = durable.saturating_sub(end);
                let what = format!(
                    "the log ends at byte {end}, but it was durable up to byte {durable}: {missing} bytes \
                     are missing"
                );
                let path = path.into();
                DbError::LostLog { path, what }
            }
            DatabaseError::LogDamaged { position, durable } => {
                let what =
                    format!("the log is damaged at byte {position}, but it was durable up to byte {durable}: the rest is lost");
                let path = path.into();
                DbError::LostLog { path, what }
            }
            source => DbError::At { path: path.into(), source },
        }
    }

    /// Adds the database's path, as [`at`](Self::at) does, to an error without one.
    pub(super) fn named(self, path: &Path) -> DbError {
        match self {
            DbError::Database(error) => DbError::at(path)(error),
            other => other,
        }
    }
}
