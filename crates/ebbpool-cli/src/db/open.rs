//! Opening a database as the command line says.

use std::io::{self, Write};
use std::path::Path;

use ebbpool_btree::{Database, Options};

use super::args::{FramesArg, Opening};
use super::error::DbError;

/// Frames of a database that is only opened to know its page size, or for one key.
const FEW: u32 = 64;

impl Opening {
    /// For a database with pages of this size.
    pub(super) fn options(&self, page_size: usize) -> Result<Options, DbError> {
        let frames = match self.frames {
            FramesArg::Frames(frames) => frames,
            FramesArg::Bytes(bytes) => {
                let frames = bytes / page_size.max(1) as u64;
                u32::try_from(frames).unwrap_or(u32::MAX)
            }
        };
        let options = Options::new(frames);
        match &self.policy {
            Some(policy) => Ok(options.policy(policy)?),
            None => Ok(options),
        }
    }

    /// For a database that exists; it is opened for its page size, if that matters.
    pub(super) fn options_of(&self, path: &Path, read_only: bool) -> Result<Options, DbError> {
        let page_size = match self.frames {
            FramesArg::Frames(_) => 0,
            FramesArg::Bytes(_) => {
                let database = at_a_glance(path, read_only)?;
                let page_size = database.stats().pool.page_size;
                database.close().map_err(DbError::at(path))?;
                page_size
            }
        };
        Ok(self.options(page_size)?.create(false).read_only(read_only))
    }
}

/// Opens a database that exists.
pub(super) fn existing(path: &Path, options: Options) -> Result<Database, DbError> {
    options.create(false).open(path).map_err(DbError::at(path))
}

/// Opens one that exists, for a single look.
pub(super) fn at_a_glance(path: &Path, read_only: bool) -> Result<Database, DbError> {
    existing(path, Options::new(FEW).read_only(read_only))
}

/// Ends the work with a database: what failed first is what is told. What one that was only read is
/// missing is said on standard error.
pub(super) fn close<T>(
    database: Database,
    path: &Path,
    outcome: Result<T, DbError>,
) -> Result<T, DbError> {
    if let Some(lost) = database.lost() {
        let path = path.display();
        // Nothing is left to be done if standard error is gone.
        let _ = writeln!(
            io::stderr(),
            "ebbpool: note: {path} is shown as it was left: {lost}"
        );
    }
    let closed = database.close().map_err(DbError::at(path));
    let done = outcome.map_err(|error| error.named(path))?;
    closed.map(|()| done)
}
