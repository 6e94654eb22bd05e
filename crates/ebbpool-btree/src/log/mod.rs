//! The write-ahead log: two files that take turns.
//!
//! The log is one endless string of bytes; each file has a piece of it, behind a header that says where
//! in the string its piece begins. Records go to the *current* file. When nothing before a position is
//! needed any more, the other file holds nothing that is needed, and the current one is longer than it
//! should be, the log goes on in the other one.
//!
//! A crash may leave records behind the end, after one that is torn. They are told from damage by the
//! commits among them, which say how far the log was durable when they were appended.
//!
//! What holds at any time, and is cited by its number elsewhere:
//!
//! 1. A position up to which the log was durable never comes again. A record names its position, and its checksum has
//!    the database's identity for a seed; so bytes that a file has from another piece of the log, or from another
//!    database, are never taken for a record.
//! 2. Records are written in the order in which they were appended, by one thread at a time, which has `writer`. So
//!    what is written is a piece of the log without a gap.
//! 3. The file that is not current was synced whole before the current one's header was written, and ends where the
//!    current one begins. If it is not whole it was damaged.
//! 4. A file takes its turn only when nothing that it holds is needed, and is cut only after its new header is
//!    durable.
//! 5. `durable` is raised only after the file that has everything up to there, its header included, was synced without
//!    an error, and after a witness of that was written. No witness, commit or checkpoint names more than was durable
//!    when it was made; so a log that ends before what one of them names lost something.
//! 6. After a write or a sync that failed or panicked nothing more is logged and nothing more becomes durable. What the
//!    sync may have dropped is written once more or cut off, so that no record is found on opening that a later crash
//!    takes away.
//! 7. Opening cuts the current file off at the log's end before anything is appended, so that what stood there never
//!    continues what is appended.

mod file;
mod frame;
#[cfg(feature = "test-kit")]
pub(crate) mod fuzzing;
mod header;
mod open;
mod record;
mod scan;
mod tail;
#[cfg(test)]
mod tests;
mod witness;

use std::io;
use std::sync::OnceLock;

use ebbpool::{Log, Lsn};

use crate::error::Error;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, RwLock};
use header::Header;
use scan::Frames;
use tail::Tail;
use witness::Witness;

pub use file::LogFile;
pub(crate) use record::{Position, Record, TxnId, Undo};

/// A log begins here, so that no LSN is 0.
pub(crate) const FIRST: Position = 64;

/// Whoever appends writes what is not written yet when there is more than this, unless somebody else
/// does.
const WRITE_AT: usize = 1 << 20;

/// With so much that is not written, whoever appends waits for his turn.
const MOST_UNWRITTEN: usize = 16 << 20;

/// Most records are not longer, so that one read has them.
const FIRST_READ: usize = 4096;

/// What a log's header says of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// What a log is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Where what can be read ends.
    pub(crate) end: Position,
    /// How far it was durable once, at least.
    pub(crate) durable: Lsn,
    /// What one of the files had is not there.
    pub(crate) beginning: bool,
}

/// What is to become of a log that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damaged {
    /// It is refused.
    Refuse,
    /// It is opened as far as it can be read: nothing is to be written to it.
    Salvage,
}

/// The log, for many threads.
pub(crate) struct Wal {
    files: [Box<dyn LogFile>; 2],
    identity: Identity,
    turn_bytes: u64,
    tail: Mutex<Tail>,
    /// Who has this writes and syncs; how far the log is written. Taken before `tail`.
    writer: Mutex<Position>,
    /// True while somebody syncs for all who wait. Taken before `writer`, and not kept meanwhile.
    syncing: Mutex<bool>,
    synced: Condvar,
    /// Changed only by who has `writer`.
    layout: RwLock<Layout>,
    /// By file, how far it says that the log was durable.
    witnesses: Mutex<[Witness; 2]>,
    /// What is missing of a log that was opened to save what is left.
    lost: Option<Lost>,
    end: AtomicU64,
    durable: AtomicU64,
    /// The current file's header has been synced. It need not be when the log is opened.
    header_is_durable: AtomicBool,
    failure: OnceLock<Failure>,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
}

/// Which file has which part of the log.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Of the two files, the one that records go to.
    current: usize,
    turn: u64,
    /// What each file begins at. The other one ends where the current one begins.
    starts: [Position; 2],
}

impl Layout {
    fn current_start(&self) -> Position {
        self.starts[self.current]
    }

    fn other(&self) -> usize {
        1 - self.current
    }

    fn begin(&self) -> Position {
        self.starts[self.other()]
    }

    /// That of the current file.
    fn header(&self, identity: Identity) -> Header {
        Header {
            identity,
            turn: self.turn,
            start: self.current_start(),
        }
    }

    /// The file that has a position, and where in it that is.
    fn place(&self, position: Position) -> (usize, u64) {
        let file = match position < self.current_start() {
            true => self.other(),
            false => self.current,
        };
        let within = position.saturating_sub(self.starts[file]);
        (file, header::LENGTH + within)
    }
}

/// Why nothing more is logged: nobody knows what of it is in the file.
struct Failure {
    what: &'static str,
    kind: io::ErrorKind,
    told: String,
}

/// Held by who syncs for all.
struct TurnToSync<'w>(&'w Wal);

impl Drop for TurnToSync<'_> {
    fn drop(&mut self) {
        *self.0.syncing.lock() = false;
        self.0.synced.notify_all();
    }
}

/// Held while a file of the log is written or synced. If the file panics, nobody knows what of it was
/// done, and the log takes no more.
struct Unfinished<'w>(&'w Wal);

impl Unfinished<'_> {
    fn finish(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let why = io::Error::other("a thread panicked in its file");
        self.0.fail("written", why);
    }
}

impl Wal {
    /// Makes a log of two files that are empty, and syncs it. `turn_bytes`: how long a file is to
    /// become before the other one takes over. What [`open`](Self::open) finds unfinished may be
    /// in the files.
    pub(crate) fn create(
        files: [Box<dyn LogFile>; 2],
        identity: Identity,
        turn_bytes: u64,
    ) -> Result<Self, Error> {
        make(&files, identity).map_err(|source| Error::Log {
            what: "made",
            source,
        })?;
        let layout = Layout {
            current: 0,
            turn: 1,
            starts: [FIRST; 2],
        };
        let wal = Wal::new(files, identity, turn_bytes, layout, FIRST);
        wal.bytes_written
            .store(2 * header::LENGTH, Ordering::Relaxed);
        wal.syncs.store(2, Ordering::Relaxed);
        wal.header_is_durable.store(true, Ordering::Relaxed);
        Ok(wal)
    }

    /// Opens a log, and cuts off what was not written whole at its end; nothing if it was never finished
    /// being made. A log without any record is one of a database that was not finished either.
    ///
    /// # Errors
    ///
    /// [`Error::Log`], [`Error::LogDamaged`], [`Error::LogCut`], and [`Error::Newer`], whose path is `the
    /// log`. Nothing was changed then, unless it is cutting off or syncing what was found that failed.
    pub(crate) fn open(
        files: [Box<dyn LogFile>; 2],
        turn_bytes: u64,
        damaged: Damaged,
    ) -> Result<Option<(Self, Identity)>, Error> {
        let Some(found) = open::find(&files, damaged)? else {
            return Ok(None);
        };
        let headers = found.headers;
        let identity = headers[0].identity;
        let layout = Layout {
            current: found.current,
            turn: headers[found.current].turn,
            starts: headers.map(|header| header.start),
        };
        let mut wal = Wal::new(files, identity, turn_bytes, layout, found.end);
        wal.durable.store(found.durable, Ordering::Release);
        wal.witnesses = Mutex::new(found.witnesses);
        wal.lost = found.lost;
        wal.settle(found.end)?;
        Ok(Some((wal, identity)))
    }

    fn new(
        files: [Box<dyn LogFile>; 2],
        identity: Identity,
        turn_bytes: u64,
        layout: Layout,
        end: Position,
    ) -> Self {
        Wal {
            files,
            identity,
            turn_bytes,
            tail: Mutex::new(Tail::new(end)),
            writer: Mutex::new(end),
            syncing: Mutex::new(false),
            synced: Condvar::new(),
            layout: RwLock::new(layout),
            witnesses: Mutex::default(),
            lost: None,
            end: AtomicU64::new(end),
            durable: AtomicU64::new(end),
            header_is_durable: AtomicBool::new(false),
            failure: OnceLock::new(),
            bytes_written: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        }
    }

    /// Cuts the current file off at the log's end (7), and sees to it that what was found is durable.
    fn settle(&self, end: Position) -> Result<(), Error> {
        let layout = *self.layout.read();
        let (file, offset) = layout.place(end);
        let file = &*self.files[file];
        if file.len().map_err(unreadable)? > offset {
            let cut = file.set_len(offset);
            cut.map_err(|error| self.fail("cut off", error))?;
        }
        self.sync_written(end)
    }

    /// Appends a record, which is in memory then.
    ///
    /// # Errors
    ///
    /// [`Error::Log`] if the log has failed before, or the record is longer than 80 MiB; nothing was
    /// appended then.
    pub(crate) fn append(&self, record: &Record<'_>) -> Result<Appended, Error> {
        self.check()?;
        let (position, lsn, unwritten) = {
            let mut tail = self.tail.lock();
            let appended = tail.append(record, self.identity.number);
            let (position, lsn) = appended.map_err(|source| Error::Log {
                what: "appended to",
                source,
            })?;
            self.end.store(lsn, Ordering::Release);
            (position, lsn, tail.len())
        };
        if unwritten > WRITE_AT {
            self.relieve(unwritten);
        }
        Ok(Appended { position, lsn })
    }

    /// Writes, since much is not written. If that fails, the next call says so: the record was appended.
    fn relieve(&self, unwritten: usize) {
        let writer = match unwritten > MOST_UNWRITTEN {
            true => Some(self.writer.lock()),
            false => self.writer.try_lock(),
        };
        if let Some(mut written) = writer {
            let _ = self.write_out(&mut written);
        }
    }

    /// Gives what was appended to the operating system: it survives the end of the process.
    pub(crate) fn write(&self) -> Result<(), Error> {
        self.write_out(&mut self.writer.lock())
    }

    /// Makes everything up to an LSN survive a power failure. Those who come while another one syncs
    /// share the next sync (group commit).
    ///
    /// # Errors
    ///
    /// [`Error::Log`]; also if the log does not come so far.
    pub(crate) fn sync(&self, lsn: Lsn) -> Result<(), Error> {
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
            false => Err(Error::Log {
                what: "synced",
                source: io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("it is to be durable up to byte {lsn}, and ends at {written}"),
                ),
            }),
        }
    }

    /// Waits while another one syncs; nothing if the log is durable up to `lsn` then. Who waited for
    /// `writer` instead would often wait for a sync that is none of his.
    fn turn_to_sync(&self, lsn: Lsn) -> Option<TurnToSync<'_>> {
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
        Some(TurnToSync(self))
    }

    /// The record at a position, with what it borrows from in `buffer`.
    ///
    /// # Errors
    ///
    /// [`Error::LogDamaged`] if there is none, else [`Error::Log`].
    pub(crate) fn read<'b>(
        &self,
        position: Position,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Record<'b>, Error> {
        let unwritten = self.tail.lock().copy(position, buffer);
        if !unwritten {
            self.fetch(position, buffer).map_err(unreadable)?;
        }
        let body = match frame::length(buffer, position, buffer.len() as u64) {
            Some(length) if length == buffer.len() => frame::body(buffer, self.identity.number),
            _ => None,
        };
        let body = body.ok_or(Error::LogDamaged {
            position,
            durable: self.durable_lsn(),
        })?;
        frame::decode(body, position).map_err(unreadable)
    }

    /// Reads what a record's head at a position says is the record; less, if there is none.
    fn fetch(&self, position: Position, buffer: &mut Vec<u8>) -> io::Result<()> {
        let (file, offset) = self.layout.read().place(position);
        let file = &*self.files[file];
        buffer.resize(FIRST_READ, 0);
        let mut there = file.read_at(offset, buffer)?;
        buffer.truncate(there);
        let length = frame::length(buffer, position, u64::MAX).unwrap_or(0);
        if length > there {
            let room = file.len()?.saturating_sub(offset);
            if length as u64 <= room {
                buffer.resize(length, 0);
                there += file.read_at(offset + there as u64, &mut buffer[there..])?;
            }
        }
        buffer.truncate(length.min(there));
        Ok(())
    }

    /// Tells of each record that the log still has, in order: where it begins, its LSN.
    ///
    /// # Errors
    ///
    /// [`Error::Log`], [`Error::LogDamaged`], and what `each` fails with.
    pub(crate) fn scan(
        &self,
        each: &mut dyn FnMut(Position, Lsn, &Record<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (layout, end) = {
            let mut written = self.writer.lock();
            self.write_out(&mut written)?;
            (*self.layout.read(), *written)
        };
        let older = (layout.other(), layout.current_start());
        for (file, end) in [older, (layout.current, end)] {
            let frames = Frames::new(
                &*self.files[file],
                self.identity.number,
                layout.starts[file],
            );
            let mut frames = frames.map_err(unreadable)?.up_to(end);
            while let Some((position, lsn, record)) = frames.next().map_err(unreadable)? {
                each(position, lsn, &record)?;
            }
            let position = frames.position();
            if position != end {
                let durable = self.durable_lsn();
                return Err(Error::LogDamaged { position, durable });
            }
        }
        Ok(())
    }

    /// Nothing before this is needed any more. May take the other file's turn.
    ///
    /// # Errors
    ///
    /// [`Error::Log`].
    pub(crate) fn truncate(&self, needed_from: Position) -> Result<(), Error> {
        let mut written = self.writer.lock();
        self.check()?;
        let layout = *self.layout.read();
        let start = layout.current_start();
        // All that the other file has is before the current one's start (3).
        let other_is_free = needed_from >= start || layout.begin() == start;
        if !other_is_free || self.end_lsn() - start <= self.turn_bytes {
            return Ok(());
        }
        self.write_out(&mut written)?;
        self.sync_written(*written)?;
        self.take_turn(layout, *written)
    }

    /// What is missing, if the log was opened though it is damaged.
    pub(crate) fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// Has both files say how far the log is durable, so that one that loses its end is found out by
    /// either.
    ///
    /// # Errors
    ///
    /// [`Error::Log`].
    pub(crate) fn witness_in_both(&self) -> Result<(), Error> {
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

    fn write_out(&self, written: &mut Position) -> Result<(), Error> {
        self.check()?;
        let Some((from, bytes)) = self.tail.lock().leave() else {
            return Ok(());
        };
        let (file, offset) = self.layout.read().place(from);
        let unfinished = Unfinished(self);
        let outcome = self.files[file].write_at(offset, &bytes);
        unfinished.finish();
        outcome.map_err(|error| self.fail("written", error))?;
        let length = bytes.len() as u64;
        self.bytes_written.fetch_add(length, Ordering::Relaxed);
        *written = from + length;
        self.tail.lock().left(bytes);
        Ok(())
    }

    /// Syncs the current file, in which all is that was written since the last sync.
    fn sync_written(&self, written: Position) -> Result<(), Error> {
        let layout = *self.layout.read();
        if let Err(error) = self.sync_file(&*self.files[layout.current]) {
            self.renew(&layout, written);
            return Err(self.fail("synced", error));
        }
        // Before a thread acts on it, such as the pool's, which writes pages that need the log so far (5).
        // To the other file, so that the next sync of this one has no more to write for it.
        self.witness(layout.other(), written)?;
        self.header_is_durable.store(true, Ordering::Relaxed);
        self.durable.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }

    fn witness(&self, file: usize, durable: Lsn) -> Result<(), Error> {
        let witness = &mut self.witnesses.lock()[file];
        let raised = witness.raise(&*self.files[file], durable, self.identity.number);
        let bytes = raised.map_err(|error| self.fail("written", error))?;
        self.bytes_written
            .fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync_file(&self, file: &dyn LogFile) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let unfinished = Unfinished(self);
        let outcome = file.sync();
        unfinished.finish();
        outcome
    }

    /// Writes once more what a failed sync may have dropped (6). A kernel may take it for written and still
    /// show it: whoever opened the log next would build on it, and a sync would do nothing for it
    /// (Rebello et al., Can applications recover from fsync failures?, ATC 2020). Where that fails too,
    /// it is cut off. What the sync failed with is what is told.
    fn renew(&self, layout: &Layout, written: Position) {
        let start = layout.current_start();
        let (file, from) = layout.place(self.durable_lsn().max(start));
        let (_, to) = layout.place(written);
        let file = &*self.files[file];
        // Not one that is durable: a crash may leave nothing of a sector that is written again.
        if !self.header_is_durable.load(Ordering::Relaxed) {
            let header = layout.header(self.identity);
            let _ = file.write_at(header.place(), &header.encode());
        }
        let renewed = rewrite(file, from, to).and_then(|()| file.set_len(to));
        if renewed.is_err() {
            let _ = file.set_len(from);
        }
    }

    /// Has the log go on in the other file, from `start` on, up to where it is durable.
    fn take_turn(&self, mut layout: Layout, start: Position) -> Result<(), Error> {
        layout.current = layout.other();
        layout.turn += 1;
        layout.starts[layout.current] = start;
        let header = layout.header(self.identity);
        let file = &*self.files[layout.current];
        let bytes = header.encode();
        let outcome = file.write_at(header.place(), &bytes);
        outcome.map_err(|error| self.fail("written", error))?;
        self.bytes_written
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if let Err(error) = self.sync_file(file) {
            // As in `renew`.
            let _ = file.write_at(header.place(), &bytes);
            return Err(self.fail("synced", error));
        }
        // Not before the header is durable: until then the log may still need what is cut off (4).
        let longest = header::LENGTH.saturating_add(self.turn_bytes);
        let shortened = match file.len() {
            Ok(length) if length > longest => file.set_len(longest),
            outcome => outcome.map(drop),
        };
        shortened.map_err(|error| self.fail("shortened", error))?;
        *self.layout.write() = layout;
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        match self.failure.get() {
            None => Ok(()),
            Some(Failure { what, kind, told }) => Err(Error::Log {
                what,
                source: io::Error::new(*kind, format!("that failed before: {told}")),
            }),
        }
    }

    /// Nothing is logged any more.
    fn fail(&self, what: &'static str, source: io::Error) -> Error {
        self.failure.get_or_init(|| Failure {
            what,
            kind: source.kind(),
            told: source.to_string(),
        });
        Error::Log { what, source }
    }
}

fn make(files: &[Box<dyn LogFile>; 2], identity: Identity) -> io::Result<()> {
    for file in files {
        if file.len()? > 0 {
            file.set_len(0)?;
            file.sync()?;
        }
    }
    for (file, turn) in [(&files[0], 1), (&files[1], 0)] {
        let header = Header {
            identity,
            turn,
            start: FIRST,
        };
        file.write_at(0, &header.block())?;
        file.sync()?;
    }
    Ok(())
}

/// Writes the bytes between two offsets that a file has there.
fn rewrite(file: &dyn LogFile, mut from: u64, to: u64) -> io::Result<()> {
    let mut bytes = Vec::new();
    while from < to {
        bytes.resize((to - from).min(WRITE_AT as u64) as usize, 0);
        let there = file.read_at(from, &mut bytes)?;
        if there == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.write_at(from, &bytes[..there])?;
        from += there as u64;
    }
    Ok(())
}

fn unreadable(source: io::Error) -> Error {
    Error::Log {
        what: "read",
        source,
    }
}

impl Log for Wal {
    fn durable_lsn(&self) -> Lsn {
        self.durable.load(Ordering::Acquire)
    }

    fn force(&self, lsn: Lsn) -> io::Result<()> {
        self.sync(lsn).map_err(|error| match error {
            Error::Log { source, .. } => source,
            other => io::Error::other(other),
        })
    }

    fn end_lsn(&self) -> Lsn {
        self.end.load(Ordering::Acquire)
    }
}
