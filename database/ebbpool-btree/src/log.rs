//! The write-ahead log: two files that take turns.
//!
//! The log is one endless sequence of bytes. Each file has a piece of it, after a header that says where in
//! the sequence the piece begins. Records go to the *current* file. The log continues in the other file
//! when no record before a position is needed any more, the other file holds no needed record, and the
//! current file is longer than its limit.
//!
//! A crash may leave whole records after a torn one. The commits among them distinguish this from damage:
//! each says how far the log was durable when it was appended.
//!
//! These invariants hold at any time. Other places cite them by their numbers:
//!
//! 1. A position up to which the log was durable is never used again. A record contains its position, and
//!    its checksum has the database's identity as its seed. So bytes from another piece of the log, or from
//!    another database, are never taken for a record.
//! 2. Records are written in the order in which they were appended, by one thread at a time, which holds
//!    `writer`. So the written part of the log has no gap.
//! 3. The file that is not current was completely synced before the current one's header was written, and
//!    ends where the current one begins. If it is not whole, it was damaged.
//! 4. A file becomes current only when no record in it is needed, and is shortened only after its new
//!    header is durable.
//! 5. `durable` is raised only after the file that has everything up to that position, its header included,
//!    was synced without an error, and after a witness of that was written. No witness, commit or
//!    checkpoint names a position that was not durable when it was written. So a log that ends before such
//!    a position has lost records.
//! 6. After a sync that failed, or a write or a sync that panicked, nothing more is logged and nothing more becomes
//!    durable. A write that failed is repeated at the same offset, before any other one. The bytes that the sync may have dropped are written again or cut off, so that opening finds
//!    no record that a later crash could remove.
//! 7. Opening cuts the current file off at the log's end before anything is appended, so that old bytes
//!    there never continue the new records.

mod file;
mod frame;
#[cfg(feature = "test-kit")]
pub(crate) mod fuzzing;
mod header;
mod open;
mod record;
mod room;
mod scan;
mod tail;
#[cfg(test)]
mod tests;
mod witness;

use std::io;
use std::ops::Range;
use std::sync::OnceLock;

use ebbpool::{Log, Lsn};

use crate::error::DatabaseError;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, RwLock};
use header::LogHeader;
use room::LogRoom;
use scan::RecordReader;
use tail::LogTail;
use witness::Witness;

pub use file::LogFile;
pub(crate) use record::{Position, Record, TxnId, Undo};
pub(crate) use room::{PromisedRoom, RoomUse};

/// A log begins here, so that no LSN is 0.
pub(crate) const FIRST: Position = 64;

/// A thread that appends also writes when more bytes than this are not written yet, unless another thread
/// is writing.
const WRITE_AT: usize = 1 << 20;

/// If more bytes than this are not written, a thread that appends waits until it can write.
const MOST_UNWRITTEN: usize = 16 << 20;

/// The length of the first read of a record, which covers most records.
const FIRST_READ: usize = 4096;

/// Takes bytes of a file of the log, by its index, at an offset.
pub(crate) type LogCopy<'c> = dyn FnMut(usize, u64, &[u8]) -> Result<(), DatabaseError> + 'c;

/// The identity of a database in its log's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogIdentity {
    pub(crate) page_size: u32,
    pub(crate) number: u64,
}

/// Where a record was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendedRecord {
    pub(crate) position: Position,
    pub(crate) lsn: Lsn,
}

/// What an opened log has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogLoss {
    /// The end of the readable part.
    pub(crate) end: Position,
    /// A position up to which the log was durable.
    pub(crate) durable: Lsn,
    /// True if the part in one of the files is missing.
    pub(crate) beginning: bool,
}

/// How a damaged log is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DamagePolicy {
    /// Opening fails.
    Refuse,
    /// The log is opened as far as it can be read. Nothing may be written to its files.
    Salvage,
}

/// The log. Many threads may use it.
pub(crate) struct Wal {
    files: [Box<dyn LogFile>; 2],
    identity: LogIdentity,
    turn_bytes: u64,
    tail: Mutex<LogTail>,
    /// How far the log is written. The thread that holds the mutex writes and syncs. Locked before `tail`.
    writer: Mutex<Position>,
    /// True while one thread syncs for all waiting threads. Locked before `writer`, and not held during the
    /// sync.
    syncing: Mutex<bool>,
    synced: Condvar,
    /// Changed only by the thread that holds `writer`.
    layout: RwLock<LogLayout>,
    /// A turn whose header could not be written: the layout before, and where the log continues. Nothing is written until
    /// it has been.
    turning: Mutex<Option<(LogLayout, Position)>>,
    /// By file, its witness of how far the log was durable.
    witnesses: Mutex<[Witness; 2]>,
    room: Mutex<LogRoom>,
    /// There was no room for an operation since the log continued in the other file.
    full: AtomicBool,
    /// The latest write has failed.
    unwritten: AtomicBool,
    /// What is missing, if the log was opened although it is damaged.
    lost: Option<LogLoss>,
    end: AtomicU64,
    durable: AtomicU64,
    /// True if the current file's header has been synced, which is not known when the log is opened.
    header_is_durable: AtomicBool,
    failure: OnceLock<LogFailure>,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
}

/// Which file has which part of the log.
#[derive(Clone, Copy, Debug)]
struct LogLayout {
    /// The index of the file that records go to.
    current: usize,
    turn: u64,
    /// By file, the position of its first record. The other file ends where the current one begins.
    starts: [Position; 2],
}

impl LogLayout {
    fn current_start(&self) -> Position {
        self.starts[self.current]
    }

    fn other(&self) -> usize {
        1 - self.current
    }

    fn begin(&self) -> Position {
        self.starts[self.other()]
    }

    /// True if the other file has no record that is needed, if none before a position is. Its records are before the current
    /// one's start (3).
    fn other_is_free(&self, needed_from: Position) -> bool {
        let start = self.current_start();
        needed_from >= start || self.begin() == start
    }

    /// The header of the current file.
    fn header(&self, identity: LogIdentity) -> LogHeader {
        LogHeader { identity, turn: self.turn, start: self.current_start() }
    }

    /// The file that has a position, and the offset of the position in it.
    fn locate(&self, position: Position) -> (usize, u64) {
        let file = match position < self.current_start() {
            true => self.other(),
            false => self.current,
        };
        let within = position.saturating_sub(self.starts[file]);
        (file, header::LENGTH + within)
    }
}

/// Why nothing more is logged: it is unknown which part of a write is in the file.
struct LogFailure {
    what: &'static str,
    kind: io::ErrorKind,
    message: String,
}

/// Held by the thread that syncs for all waiting threads.
struct SyncTurn<'w>(&'w Wal);

impl Drop for SyncTurn<'_> {
    fn drop(&mut self) {
        *self.0.syncing.lock() = false;
        self.0.synced.notify_all();
    }
}

/// Held while a file of the log is written or synced. If the file panics, it is unknown which part was
/// done, and the log takes no more records.
struct UnfinishedWrite<'w>(&'w Wal);

impl UnfinishedWrite<'_> {
    fn finish(self) {
        std::mem::forget(self);
    }
}

impl Drop for UnfinishedWrite<'_> {
    fn drop(&mut self) {
        let why = io::Error::other("a thread panicked in its file");
        self.0.fail("written", why);
    }
}

impl Wal {
    /// Creates a log in two files, and syncs it. `turn_bytes` is the length at which the log continues in
    /// the other file. The files are empty, or hold a log that [`open`](Self::open) found unfinished.
    pub(crate) fn create(files: [Box<dyn LogFile>; 2], identity: LogIdentity, turn_bytes: u64) -> Result<Self, DatabaseError> {
        make(&files, identity).map_err(|source| DatabaseError::Log { what: "created", source })?;
        let layout = LogLayout { current: 0, turn: 1, starts: [FIRST; 2] };
        let wal = Wal::new(files, identity, turn_bytes, layout, FIRST);
        wal.bytes_written.store(2 * header::LENGTH, Ordering::Relaxed);
        wal.syncs.store(2, Ordering::Relaxed);
        wal.header_is_durable.store(true, Ordering::Relaxed);
        (0..2).try_for_each(|file| wal.reserve_in(file).map(drop)).map_err(|source| wal.note_full(source))?;
        Ok(wal)
    }

    /// Opens a log, and cuts off a record at its end that was not completely written. Returns nothing if
    /// the log's creation was interrupted. A log without records belongs to a database whose creation was
    /// interrupted.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Log`], [`DatabaseError::LogDamaged`], [`DatabaseError::LogCut`], and
    /// [`DatabaseError::Newer`], whose path is `the log`. Nothing has changed then, unless the cut at the
    /// end or the sync failed.
    pub(crate) fn open(
        files: [Box<dyn LogFile>; 2],
        turn_bytes: u64,
        damaged: DamagePolicy,
    ) -> Result<Option<(Self, LogIdentity)>, DatabaseError> {
        let Some(log) = open::find(&files, damaged)? else {
            return Ok(None);
        };
        let headers = log.headers;
        let identity = headers[0].identity;
        let layout =
            LogLayout { current: log.current, turn: headers[log.current].turn, starts: headers.map(|header| header.start) };
        let mut wal = Wal::new(files, identity, turn_bytes, layout, log.end);
        wal.durable.store(log.durable, Ordering::Release);
        wal.witnesses = Mutex::new(log.witnesses);
        wal.lost = log.lost;
        wal.cut_to_end(log.end)?;
        Ok(Some((wal, identity)))
    }

    fn new(files: [Box<dyn LogFile>; 2], identity: LogIdentity, turn_bytes: u64, layout: LogLayout, end: Position) -> Self {
        Wal {
            files,
            identity,
            turn_bytes,
            tail: Mutex::new(LogTail::new(end)),
            writer: Mutex::new(end),
            syncing: Mutex::new(false),
            synced: Condvar::new(),
            layout: RwLock::new(layout),
            turning: Mutex::default(),
            witnesses: Mutex::default(),
            room: Mutex::default(),
            full: AtomicBool::new(false),
            unwritten: AtomicBool::new(false),
            lost: None,
            end: AtomicU64::new(end),
            durable: AtomicU64::new(end),
            header_is_durable: AtomicBool::new(false),
            failure: OnceLock::new(),
            bytes_written: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        }
    }

    /// Cuts the current file off at the log's end (7), and makes the records durable that were found.
    fn cut_to_end(&self, end: Position) -> Result<(), DatabaseError> {
        let layout = *self.layout.read();
        let (file, offset) = layout.locate(end);
        let file = &*self.files[file];
        if file.len().map_err(unreadable)? > offset {
            let cut = file.set_len(offset);
            cut.map_err(|error| self.fail("cut off", error))?;
        }
        self.sync_written(end)
    }

    /// Appends a record in memory.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Log`] if the log has failed before, or the record is longer than 80 MiB; nothing was
    /// appended then.
    pub(crate) fn append(&self, record: &Record<'_>) -> Result<AppendedRecord, DatabaseError> {
        self.check()?;
        let (position, lsn, unwritten) = {
            let mut tail = self.tail.lock();
            let appended = tail.append(record, self.identity.number);
            let (position, lsn) = appended.map_err(|source| DatabaseError::Log { what: "appended to", source })?;
            self.end.store(lsn, Ordering::Release);
            (position, lsn, tail.len())
        };
        if unwritten > WRITE_AT {
            self.write_backlog(unwritten);
        }
        Ok(AppendedRecord { position, lsn })
    }

    /// Writes the unwritten bytes when there are many. If that fails, the next call returns the error,
    /// since this record was appended.
    fn write_backlog(&self, unwritten: usize) {
        let writer = match unwritten > MOST_UNWRITTEN {
            true => Some(self.writer.lock()),
            false => self.writer.try_lock(),
        };
        if let Some(mut written) = writer {
            let _ = self.write_out(&mut written);
        }
    }

    /// Passes all appended records to the operating system, so that they survive the end of the process.
    pub(crate) fn write(&self) -> Result<(), DatabaseError> {
        self.write_out(&mut self.writer.lock())
    }

    /// Makes all records up to an LSN durable, so that they survive a power failure. Threads that call this
    /// while another one syncs share the next sync (group commit).
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Log`]; also if the log ends before `lsn`.
    pub(crate) fn sync(&self, lsn: Lsn) -> Result<(), DatabaseError> {
        if self.durable_lsn() >= lsn {
            return Ok(());
        }
        let Some(_turn) = self.turn_to_sync(lsn) else {
            return Ok(());
        };
        let mut written = self.writer.lock();
        self.write_out(&mut written)?;
        self.sync_written(*written)?;
        match *written >= lsn {
            true => Ok(()),
            false => Err(DatabaseError::Log {
                what: "synced",
                source: io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("it is to be durable up to byte {lsn}, and ends at {written}"),
                ),
            }),
        }
    }

    /// Waits while another thread syncs. Returns nothing if the log is durable up to `lsn` then. A thread
    /// that waited for `writer` instead would often wait for a further sync that it does not need.
    fn turn_to_sync(&self, lsn: Lsn) -> Option<SyncTurn<'_>> {
        let mut syncing = self.syncing.lock();
        loop {
            if self.durable_lsn() >= lsn {
                return None;
            }
            if !*syncing {
                break;
            }
            self.synced.wait(&mut syncing);
        }
        *syncing = true;
        Some(SyncTurn(self))
    }

    /// Reads the record at a position. Its bytes are in `buffer`.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::LogDamaged`] if there is none, else [`DatabaseError::Log`].
    pub(crate) fn read<'b>(&self, position: Position, buffer: &'b mut Vec<u8>) -> Result<Record<'b>, DatabaseError> {
        let unwritten = self.tail.lock().copy(position, buffer);
        if !unwritten {
            self.fetch(position, buffer).map_err(unreadable)?;
        }
        let body = match frame::length(buffer, position, buffer.len() as u64) {
            Some(length) if length == buffer.len() => frame::body(buffer, self.identity.number),
            _ => None,
        };
        let body = body.ok_or(DatabaseError::LogDamaged { position, durable: self.durable_lsn() })?;
        frame::decode(body, position).map_err(unreadable)
    }

    /// Reads as many bytes at a position as the record's head there says; fewer if there is no record.
    fn fetch(&self, position: Position, buffer: &mut Vec<u8>) -> io::Result<()> {
        let (file, offset) = self.layout.read().locate(position);
        let file = &*self.files[file];
        buffer.resize(FIRST_READ, 0);
        let mut length_read = file.read_at(offset, buffer)?;
        buffer.truncate(length_read);
        let length = frame::length(buffer, position, u64::MAX).unwrap_or(0);
        if length > length_read {
            let room = file.len()?.saturating_sub(offset);
            if length as u64 <= room {
                buffer.resize(length, 0);
                length_read += file.read_at(offset + length_read as u64, &mut buffer[length_read..])?;
            }
        }
        buffer.truncate(length.min(length_read));
        Ok(())
    }

    /// Calls `each` with the position, the LSN and the content of each record that the log still has, in
    /// order.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Log`], [`DatabaseError::LogDamaged`], and errors of `each`.
    pub(crate) fn scan(
        &self,
        each: &mut dyn FnMut(Position, Lsn, &Record<'_>) -> Result<(), DatabaseError>,
    ) -> Result<(), DatabaseError> {
        let (layout, end) = {
            let mut written = self.writer.lock();
            self.write_out(&mut written)?;
            (*self.layout.read(), *written)
        };
        let older = (layout.other(), layout.current_start());
        for (file, end) in [older, (layout.current, end)] {
            let records = RecordReader::new(&*self.files[file], self.identity.number, layout.starts[file]);
            let mut records = records.map_err(unreadable)?.up_to(end);
            while let Some((position, lsn, record)) = records.next().map_err(unreadable)? {
                each(position, lsn, &record)?;
            }
            let position = records.position();
            if position != end {
                let durable = self.durable_lsn();
                return Err(DatabaseError::LogDamaged { position, durable });
            }
        }
        Ok(())
    }

    /// Announces that no record before `needed_from` is needed any more. The log may continue in the other
    /// file then.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Log`].
    pub(crate) fn truncate(&self, needed_from: Position) -> Result<(), DatabaseError> {
        self.truncate_to(needed_from, self.turn_bytes)
    }

    /// As [`truncate`](Self::truncate), but the log continues in the other file if the current one has a piece of more than
    /// `longest` bytes, and the other one keeps no more for later.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Log`].
    pub(crate) fn truncate_to(&self, needed_from: Position, longest: u64) -> Result<(), DatabaseError> {
        let mut written = self.writer.lock();
        self.write_out(&mut written)?;
        let layout = *self.layout.read();
        let is_long = self.end_lsn() - layout.current_start() > longest || self.is_full();
        // Without the room that is promised the log stays where it is.
        if !is_long || !self.has_other_room(needed_from) {
            return Ok(());
        }
        self.sync_written(*written)?;
        self.take_turn(layout, *written, longest)
    }

    /// True if the log can continue in the other file once no record before a position is needed.
    pub(crate) fn has_other_room(&self, needed_from: Position) -> bool {
        let layout = *self.layout.read();
        layout.other_is_free(needed_from) && self.reserve_in(layout.other()).is_ok()
    }

    /// Hands over both files as they are at one moment, which is durable; the log does not turn meanwhile. Threads that commit wait only
    /// for the end of it. Returns the bytes.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Log`], and the errors of `write`.
    pub(crate) fn copy(&self, write: &mut LogCopy<'_>) -> Result<u64, DatabaseError> {
        let layout = *self.layout.read();
        let piece = layout.current_start() - layout.begin();
        let mut bytes = self.copy_bytes(layout.other(), header::LENGTH..header::LENGTH + piece, write)?;
        // What is there now needs no lock, since it does not change.
        let (file, most) = layout.locate(*self.writer.lock());
        bytes += self.copy_bytes(file, header::LENGTH..most, write)?;
        let mut written = self.writer.lock();
        self.write_out(&mut written)?;
        self.sync_written(*written)?;
        bytes += self.copy_bytes(file, most..layout.locate(*written).1, write)?;
        for file in 0..2 {
            bytes += self.copy_bytes(file, 0..header::LENGTH, write)?;
        }
        Ok(bytes)
    }

    fn copy_bytes(&self, file: usize, range: Range<u64>, write: &mut LogCopy<'_>) -> Result<u64, DatabaseError> {
        let mut bytes = vec![0; WRITE_AT];
        let mut at = range.start;
        while at < range.end {
            let room = (range.end - at).min(WRITE_AT as u64) as usize;
            let length = self.files[file].read_at(at, &mut bytes[..room]).map_err(unreadable)?;
            if length == 0 {
                return Err(unreadable(io::ErrorKind::UnexpectedEof.into()));
            }
            write(file, at, &bytes[..length])?;
            at += length as u64;
        }
        Ok(range.end.saturating_sub(range.start))
    }

    /// The number in the identity of the database.
    pub(crate) fn identity(&self) -> u64 {
        self.identity.number
    }

    /// What is missing, if the log was opened although it is damaged.
    pub(crate) fn lost(&self) -> Option<LogLoss> {
        self.lost
    }

    /// Writes to both files how far the log is durable, so that either reveals it if the other one loses
    /// its end.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Log`].
    pub(crate) fn witness_in_both(&self) -> Result<(), DatabaseError> {
        self.check()?;
        let durable = self.durable_lsn();
        (0..2).try_for_each(|file| self.witness(file, durable))
    }

    /// Where the log begins now.
    pub(crate) fn begin(&self) -> Position {
        self.layout.read().begin()
    }

    /// Bytes written to the files since the log was opened.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Syncs since the log was opened.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    fn write_out(&self, written: &mut Position) -> Result<(), DatabaseError> {
        self.check()?;
        let turning = self.turning.lock().take();
        if let Some((layout, start)) = turning {
            self.take_turn(layout, start, self.turn_bytes)?;
        }
        let end = self.end_lsn();
        while *written < end {
            let Some((from, bytes)) = self.tail.lock().begin_write() else {
                break;
            };
            let (file, offset) = self.layout.read().locate(from);
            let unfinished = UnfinishedWrite(self);
            let outcome = repeated(|| self.files[file].write_at(offset, &bytes));
            unfinished.finish();
            self.unwritten.store(outcome.is_err(), Ordering::Relaxed);
            outcome.map_err(unwritten)?;
            let length = bytes.len() as u64;
            self.bytes_written.fetch_add(length, Ordering::Relaxed);
            *written = from + length;
            self.tail.lock().end_write(bytes);
        }
        Ok(())
    }

    /// Syncs the current file, which has all bytes that were written since the last sync.
    fn sync_written(&self, written: Position) -> Result<(), DatabaseError> {
        let layout = *self.layout.read();
        if let Err(error) = self.sync_file(&*self.files[layout.current]) {
            self.renew(&layout, written);
            return Err(self.fail("synced", error));
        }
        // The witness is written before any thread relies on the new `durable`, such as one of the pool
        // that writes pages up to that LSN (5). It goes to the other file, so that the next sync of the
        // current one has no additional block to write.
        self.witness(layout.other(), written)?;
        self.header_is_durable.store(true, Ordering::Relaxed);
        self.durable.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }

    fn witness(&self, file: usize, durable: Lsn) -> Result<(), DatabaseError> {
        let witness = &mut self.witnesses.lock()[file];
        let bytes = repeated(|| witness.raise(&*self.files[file], durable, self.identity.number)).map_err(unwritten)?;
        self.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync_file(&self, file: &dyn LogFile) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let unfinished = UnfinishedWrite(self);
        let outcome = file.sync();
        unfinished.finish();
        outcome
    }

    /// Writes the bytes again that a failed sync may have dropped (6). A kernel may mark dropped pages as
    /// clean and still return their content: a program that opened the log next would rely on it, and a
    /// further sync would not write it (Rebello et al., Can applications recover from fsync failures?, ATC
    /// 2020). If that write fails too, this cuts the bytes off. The caller returns the sync's error.
    fn renew(&self, layout: &LogLayout, written: Position) {
        let start = layout.current_start();
        let (file, from) = layout.locate(self.durable_lsn().max(start));
        let (_, to) = layout.locate(written);
        let file = &*self.files[file];
        // A durable header is not written again: a crash may destroy a sector during a write.
        if !self.header_is_durable.load(Ordering::Relaxed) {
            let header = layout.header(self.identity);
            let _ = file.write_at(header.offset(), &header.encode());
        }
        let renewed = rewrite(file, from, to).and_then(|()| file.set_len(to));
        if renewed.is_err() {
            let _ = file.set_len(from);
        }
    }

    /// Makes the other file the current one. Its piece begins at `start`, up to which the log is durable. Of its blocks the file
    /// keeps those for a piece of `longest` bytes.
    fn take_turn(&self, mut layout: LogLayout, start: Position, longest: u64) -> Result<(), DatabaseError> {
        layout.current = layout.other();
        layout.turn += 1;
        layout.starts[layout.current] = start;
        let header = layout.header(self.identity);
        let file = &*self.files[layout.current];
        let bytes = header.encode();
        // After a failure the header may be there, so no record may follow in the file that is still the current one.
        if let Err(error) = repeated(|| file.write_at(header.offset(), &bytes)) {
            *self.turning.lock() = Some((*self.layout.read(), start));
            return Err(unwritten(error));
        }
        self.bytes_written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if let Err(error) = self.sync_file(file) {
            // As in `renew`.
            let _ = file.write_at(header.offset(), &bytes);
            return Err(self.fail("synced", error));
        }
        // Only now that the header is durable: before, the log might still have needed these bytes (4).
        let longest = header::LENGTH.saturating_add(longest);
        let shortened = match file.len() {
            Ok(length) if length > longest => file.set_len(longest),
            outcome => outcome.map(drop),
        };
        shortened.map_err(|error| self.fail("shortened", error))?;
        // The blocks were reserved before, and cutting the file off may have freed some.
        let blocks = self.reserve_in(layout.current).unwrap_or(0);
        let mut room = self.room.lock();
        *self.layout.write() = layout;
        room.end = start + blocks;
        self.full.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// True if there was no room for an operation, so that a checkpoint should have the log continue in the other file.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    fn note_full(&self, source: io::Error) -> DatabaseError {
        self.full.store(true, Ordering::Relaxed);
        DatabaseError::Full { source }
    }

    /// True if nothing more is logged (6).
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    fn check(&self) -> Result<(), DatabaseError> {
        match self.failure.get() {
            None => Ok(()),
            Some(LogFailure { what, kind, message }) => {
                Err(DatabaseError::Log { what, source: io::Error::new(*kind, format!("that failed before: {message}")) })
            }
        }
    }

    /// Stops all logging because of an error, and returns the error.
    fn fail(&self, what: &'static str, source: io::Error) -> DatabaseError {
        self.failure.get_or_init(|| LogFailure { what, kind: source.kind(), message: source.to_string() });
        DatabaseError::Log { what, source }
    }
}

fn make(files: &[Box<dyn LogFile>; 2], identity: LogIdentity) -> io::Result<()> {
    for file in files {
        if file.len()? > 0 {
            file.set_len(0)?;
            file.sync()?;
        }
    }
    for (file, turn) in [(&files[0], 1), (&files[1], 0)] {
        let header = LogHeader { identity, turn, start: FIRST };
        file.write_at(0, &header.block())?;
        file.sync()?;
    }
    Ok(())
}

/// Reads the bytes between two offsets of a file and writes them again.
fn rewrite(file: &dyn LogFile, mut from: u64, to: u64) -> io::Result<()> {
    let mut bytes = Vec::new();
    while from < to {
        bytes.resize((to - from).min(WRITE_AT as u64) as usize, 0);
        let length_read = file.read_at(from, &mut bytes)?;
        if length_read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.write_at(from, &bytes[..length_read])?;
        from += length_read as u64;
    }
    Ok(())
}

/// Repeats an operation at a fixed offset while it fails, but not for ever.
fn repeated<R>(mut operation: impl FnMut() -> io::Result<R>) -> io::Result<R> {
    operation().or_else(|_| operation()).or_else(|_| operation())
}

/// The error of a write that can be repeated.
fn unwritten(source: io::Error) -> DatabaseError {
    DatabaseError::Log { what: "written", source }
}

fn unreadable(source: io::Error) -> DatabaseError {
    DatabaseError::Log { what: "read", source }
}

impl Log for Wal {
    fn durable_lsn(&self) -> Lsn {
        self.durable.load(Ordering::Acquire)
    }

    fn force(&self, lsn: Lsn) -> io::Result<()> {
        self.sync(lsn).map_err(|error| match error {
            DatabaseError::Log { source, .. } => source,
            other => io::Error::other(other),
        })
    }

    fn end_lsn(&self) -> Lsn {
        self.end.load(Ordering::Acquire)
    }
}
