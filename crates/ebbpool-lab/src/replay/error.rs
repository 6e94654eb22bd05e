//! Why a trace cannot be replayed.

use std::io;
use std::path::PathBuf;

use bytesize::ByteSize;
use ebbpool::storage::OpenError;

/// The smallest pages that a replay has use for.
pub(super) const LEAST_PAGE_SIZE: usize = 512;

/// Why a trace cannot be replayed. Front ends say by which argument of theirs it is mended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The pool failed.
    #[error(transparent)]
    Pool(#[from] ebbpool::Error),
    /// The file failed.
    #[error("{path}: cannot {what}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was to be done.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The caller stopped while the file was made.
    #[error("interrupted while {0} was made; it is of no use so far")]
    NotMade(PathBuf),
    /// The caller stopped.
    #[error(
        "interrupted after {done} of {all} references, of which {warmup} are the warm-up; every page is whole"
    )]
    Interrupted {
        /// References replayed.
        done: u64,
        /// References of the trace.
        all: u64,
        /// References of the warm-up.
        warmup: u64,
    },
    /// The storage acknowledged a write that it does not have.
    #[error(
        "{path}: page {page} was written {expected} times and holds what was written {found} times; the storage loses writes"
    )]
    Lost {
        /// The file.
        path: String,
        /// The page.
        page: u64,
        /// What it holds.
        found: u64,
        /// What was written.
        expected: u32,
    },
    /// An offline policy.
    #[error(
        "{0} needs to know the references to come, and a pool does not; only a simulation can run it"
    )]
    Offline(String),
    /// Pages that a pool cannot have.
    #[error(
        "pages of {0} bytes cannot be replayed; they are a power of two from {LEAST_PAGE_SIZE} up"
    )]
    PageSize(u64),
    /// A page number that no file can have.
    #[error("{trace}: a file cannot have a page {page}; number the pages of the trace from 0")]
    PageNumber {
        /// The trace.
        trace: String,
        /// The page.
        page: u64,
    },
    /// Too many pages for memory.
    #[error("the trace's pages take {}, too much for memory; number its pages from 0", ByteSize(*.0))]
    TooLarge(u64),
    /// Too many pages to count.
    #[error("there is no memory to keep note of {0} pages; number the pages of the trace from 0")]
    TooManyPages(u64),
    /// The file is not there, and was not to be made.
    #[error("{}: is not there; made anew it would have {}", path.display(), ByteSize(*.bytes))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The bytes that it will have.
        bytes: u64,
    },
    /// The file is empty, and was not to be made.
    #[error("{}: is empty", .0.display())]
    Empty(PathBuf),
    /// The file is of another replay.
    #[error("{}: {why}; name another file", path.display())]
    OtherTrace {
        /// The file.
        path: PathBuf,
        /// How it can be told.
        why: String,
    },
    /// The file is of something else.
    #[error("{}: {why}; name another file", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// How it can be told.
        why: String,
    },
    /// The caller's user does not want to lose what is in the file.
    #[error("{} is left as it is", .0.display())]
    LeftAlone(PathBuf),
}

impl ReplayError {
    /// True where another request may succeed, and nothing has failed.
    pub fn is_request(&self) -> bool {
        match self {
            ReplayError::Open(error) => matches!(
                error,
                OpenError::PageSize(_) | OpenError::NotAFile(_) | OpenError::Uring(_)
            ),
            ReplayError::Pool(error) => matches!(error, ebbpool::Error::Options(_)),
            ReplayError::Io { .. }
            | ReplayError::NotMade(_)
            | ReplayError::Interrupted { .. }
            | ReplayError::Lost { .. } => false,
            _ => true,
        }
    }
}
