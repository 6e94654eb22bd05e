//! The write-ahead log: two files that take turns.
//!
//! The log is one endless string of bytes; each file has a piece of it, behind a header that says where in the
//! string its piece begins. Records go to the *current* file. When nothing before a position is needed
//! any more, the other file holds nothing that is needed, and the current one is longer than it should be, the log goes on in the other one.

mod file;
mod record;
mod scan;

use std::io;

use ebbpool::{Log, Lsn};

use crate::error::Error;

pub use file::LogFile;
pub(crate) use record::{Position, Record, TxnId, Undo};

/// What a log's header says of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) page_size: u32,
    pub(crate) number: u64,
}

/// Where a record was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) position: Position,
    pub(crate) lsn: Lsn,
}

/// The log, for many threads.
pub(crate) struct Wal {}

impl Wal {
    /// Makes a log of two files that are empty, and syncs it. `turn_bytes`: how long a file is to
    /// become before the other one takes over.
    pub(crate) fn create(
        files: [Box<dyn LogFile>; 2],
        identity: Identity,
        turn_bytes: u64,
    ) -> Result<Self, Error> {
        todo!()
    }

    /// Opens a log, and cuts off what was not written whole at its end; nothing if neither file has a
    /// header (and neither holds more than a header: a database that was never finished being made).
    ///
    /// # Errors
    ///
    /// [`Error::Log`], [`Error::LogDamaged`]. Nothing was changed then.
    pub(crate) fn open(
        files: [Box<dyn LogFile>; 2],
        turn_bytes: u64,
    ) -> Result<Option<(Self, Identity)>, Error> {
        todo!()
    }

    /// Appends a record, which is in memory then.
    ///
    /// # Errors
    ///
    /// [`Error::Log`] if the log has failed before; nothing was appended then.
    pub(crate) fn append(&self, record: &Record<'_>) -> Result<Appended, Error> {
        todo!()
    }

    /// Gives what was appended to the operating system: it survives the end of the process.
    pub(crate) fn write(&self) -> Result<(), Error> {
        todo!()
    }

    /// Makes everything up to an LSN survive a power failure. Those who come while another one syncs
    /// share the next sync (group commit).
    pub(crate) fn sync(&self, lsn: Lsn) -> Result<(), Error> {
        todo!()
    }

    /// The record at a position, with what it borrows from in `buffer`.
    pub(crate) fn read<'b>(
        &self,
        position: Position,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Record<'b>, Error> {
        todo!()
    }

    /// Tells of each record that the log still has, in order: where it begins, its LSN.
    pub(crate) fn scan(
        &self,
        each: &mut dyn FnMut(Position, Lsn, &Record<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        todo!()
    }

    /// Nothing before this is needed any more. May take the other file's turn.
    pub(crate) fn truncate(&self, needed_from: Position) -> Result<(), Error> {
        todo!()
    }

    /// Where the log begins now.
    pub(crate) fn begin(&self) -> Position {
        todo!()
    }

    /// Bytes written to the files since the log was opened.
    pub(crate) fn bytes_written(&self) -> u64 {
        todo!()
    }

    /// Syncs since the log was opened.
    pub(crate) fn syncs(&self) -> u64 {
        todo!()
    }
}

impl Log for Wal {
    fn durable_lsn(&self) -> Lsn {
        todo!()
    }

    fn force(&self, lsn: Lsn) -> io::Result<()> {
        todo!()
    }

    fn end_lsn(&self) -> Lsn {
        todo!()
    }
}
