//! Opens databases with the options of the command line.

use std::io::{self, Write};
use std::path::Path;

use ebbpool_btree::{Database, DatabaseOptions};

use super::args::{FramesArg, OpenArgs};
use super::error::DbError;

/// Frames for a database that a command opens only to read its page size or one key.
const FEW: u32 = 64;

impl OpenArgs {
    /// DatabaseOptions for a database with pages of this size.
    pub(super) fn options(&self, page_size: usize) -> Result<DatabaseOptions, DbError> {
        let frames = match self.frames {
            FramesArg::Frames(frames) => frames,
            FramesArg::Bytes(bytes) => {
                let frames = bytes / page_size.max(1) as u64;
                u32::try_from(frames).unwrap_or(u32::MAX)
            }
        };
        let options = DatabaseOptions::new(frames);
        match &self.policy {
            Some(policy) => Ok(options.policy(policy)?),
            None => Ok(options),
        }
    }

    /// DatabaseOptions for an existing database. If the frames are given in bytes, this opens the database to read
    /// its page size.
    pub(super) fn options_of(
        &self,
        path: &Path,
        read_only: bool,
    ) -> Result<DatabaseOptions, DbError> {
        let page_size = match self.frames {
            FramesArg::Frames(_) => 0,
            FramesArg::Bytes(_) => {
                let database = open_briefly(path, read_only)?;
                let page_size = database.stats().pool.page_size;
                database.close().map_err(DbError::at(path))?;
                page_size
            }
        };
        Ok(self.options(page_size)?.create(false).read_only(read_only))
    }
}

/// Opens an existing database.
pub(super) fn existing(path: &Path, options: DatabaseOptions) -> Result<Database, DbError> {
    options.create(false).open(path).map_err(DbError::at(path))
}

/// Opens an existing database for a single access.
pub(super) fn open_briefly(path: &Path, read_only: bool) -> Result<Database, DbError> {
    existing(path, DatabaseOptions::new(FEW).read_only(read_only))
}

/// Closes a database and returns the outcome of the work, or the first error. If a database that was
/// opened read-only has lost a part of its log, a note on standard error says so.
pub(super) fn close<T>(
    database: Database,
    path: &Path,
    outcome: Result<T, DbError>,
) -> Result<T, DbError> {
    if let Some(lost) = database.lost() {
        let path = path.display();
        // If standard error is closed, there is no way left to report the loss.
        let _ = writeln!(
            io::stderr(),
            "ebbpool: note: {path} is shown without its lost part: {lost}"
        );
    }
    let closed = database.close().map_err(DbError::at(path));
    let done = outcome.map_err(|error| error.named(path))?;
    closed.map(|()| done)
}
