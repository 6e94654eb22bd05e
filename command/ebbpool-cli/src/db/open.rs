//! Opens databases with the options of the command line.

use std::io::{self, Write};
use std::path::Path;

use ebbpool_btree::{Database, DatabaseOptions};
use ebbpool_cost::ByteSize;
use ebbpool_sim::BufferSize;

use super::args::OpenArgs;
use super::error::DbError;

/// Frames for a database that a command opens only to read its page size or one key.
const FEW: u32 = 64;

impl OpenArgs {
    /// DatabaseOptions for a new database with pages of this size.
    pub(super) fn options_of_new(&self, page_size: usize) -> Result<DatabaseOptions, DbError> {
        let frames = match self.frames.size {
            BufferSize::Frames(frames) => frames,
            BufferSize::Bytes(size) => frames_in(size, page_size),
            BufferSize::Share(_) => return Err(DbError::ShareOfNew(self.frames.to_string())),
        };
        self.options(frames)
    }

    /// DatabaseOptions for an existing database. If the frames are given in bytes or as a share of the database's
    /// pages, this opens the database to read its page size.
    pub(super) fn options_of(&self, path: &Path, read_only: bool) -> Result<DatabaseOptions, DbError> {
        let frames = match self.frames.size {
            BufferSize::Frames(frames) => frames,
            BufferSize::Bytes(size) => frames_in(size, page_size_of(path, read_only)?),
            BufferSize::Share(share) => {
                let page_size = page_size_of(path, read_only)?;
                let bytes = path.metadata().map_or(0, |found| found.len());
                share.floor_times(frames_in(ByteSize::new(bytes), page_size))
            }
        };
        Ok(self.options(frames)?.create(false).read_only(read_only))
    }

    fn options(&self, frames: u64) -> Result<DatabaseOptions, DbError> {
        let options = DatabaseOptions::new(u32::try_from(frames).unwrap_or(u32::MAX));
        match &self.policy {
            Some(policy) => Ok(options.policy(policy)?),
            None => Ok(options),
        }
    }
}

/// The number of pages that these bytes have room for.
fn frames_in(size: ByteSize, page_size: usize) -> u64 {
    size.bytes() / page_size.max(1) as u64
}

fn page_size_of(path: &Path, read_only: bool) -> Result<usize, DbError> {
    let database = open_briefly(path, read_only)?;
    let page_size = database.stats().pool.page_size;
    database.close().map_err(DbError::at(path))?;
    Ok(page_size)
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
pub(super) fn close<T>(database: Database, path: &Path, outcome: Result<T, DbError>) -> Result<T, DbError> {
    if let Some(lost) = database.lost() {
        let path = path.display();
        // If standard error is closed, there is no way left to report the loss.
        let _ = writeln!(io::stderr(), "ebbpool: note: {path} is shown without its lost part: {lost}");
    }
    let closed = database.close().map_err(DbError::at(path));
    let done = outcome.map_err(|error| error.named(path))?;
    closed.map(|()| done)
}
