//! What survives a crash: the database in place, `-wal`, and `-ebb`.
//!
//! The state as of the last epoch is the database in place, with the pages that the logs hold laid over it. So a page
//! that leaves memory is never written for that: reading it again takes it from the logs. [`Stored`] says where each page
//! is, to threads that read; one thread at a time has the [`DurableFiles`], and writes. Invariants, cited as such:
//!
//! 1. What the logs hold is the state after a commit.
//! 2. Only two kinds of pages are written in place: those that a durable `-wal` holds, and those beyond the end that every
//!    log knows.
//! 3. A log is truncated only after everything in it is durable in the database.
//! 4. Deltas apply to the pages as the log knows them: as they were in place when the log began, then changed by each
//!    record; a page beyond the size of a record is all zeros from then on.
//! 5. While `-ebb` has records, the database in place has the mark with the number of its generation, or of the next one
//!    where a checkpoint has begun. The header of `-ebb` is durable in one of its slots before the mark is written, and another
//!    header is written to the other slot first; `-ebb` goes only after the mark has gone. So a mark with a number, and no `-ebb`
//!    or one without a valid header, says that it was deleted or damaged.
//! 6. What a crash may bring back in `-wal` has the mark that is in place: a `-wal` from before a mark is made invalid before
//!    the mark is written.

mod checkpoint;
mod epoch;
mod log_match;
mod mark;
mod page_cache;
mod stored;

use std::sync::Arc;

use crate::code::{SqliteCode, SqliteResult};
use crate::delta_log::{self, Header, Heads, is_page_size};
use crate::disk::{BaseFile, BaseVfs, FileIdentity, ForeignChange, OwnedFile};
use crate::ffi;
use crate::options::LogKind;
use crate::owner::OwnerLock;
use crate::wal_log::WalLog;

pub(crate) use epoch::{Flight, LONGEST_RECORD};
pub(crate) use log_match::LogMatch;
pub(crate) use mark::{GENERATION, READ_VERSION, WRITE_VERSION, fingerprint, is_marked, is_plain, marked_generation, unmark};
pub(crate) use page_cache::PageCache;
pub(crate) use stored::{Figures, PlaceChange, Stored};

/// `-ebb` grows by at most this many bytes ahead, so that a sync of a short record changes no metadata of the file system.
const STEP: u64 = 1 << 20;
/// A record of at least this many bytes costs less with such a change (some blocks of the file system's journal) than with
/// zeros written ahead of it.
const LONG_RECORD: u64 = 32 << 10;
/// Pages are written in place in runs of at most this many bytes.
const RUN: usize = 1 << 20;
/// Bytes that a slice of a checkpoint writes: commits that need the files wait for one slice.
pub(crate) const SLICE: u64 = 1 << 20;
/// A page whose content is spread over more sections is logged whole.
const LONGEST_CHAIN: usize = 512;

/// What was written to the real files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WrittenBytes {
    /// Bytes to `-ebb` and `-wal`, in whole blocks as a card gets them, like the next one.
    pub(crate) log: u64,
    /// Bytes to the database.
    pub(crate) in_place: u64,
    pub(crate) epochs: u64,
    pub(crate) checkpoints: u64,
    pub(crate) syncs: u64,
}

/// Neighbouring pages that are written in place at once.
#[derive(Default)]
pub(crate) struct Run {
    begin: u32,
    next: u32,
    bytes: Vec<u8>,
}

/// The log of deltas as it is in its file.
#[derive(Default)]
struct Deltas {
    file: Option<BaseFile>,
    /// Which file it is, to notice that another has its name.
    identity: Option<FileIdentity>,
    /// True if the header of this generation survives a crash.
    ready: bool,
    /// True if the file may hold a record that could not be made durable.
    is_uncertain: bool,
    /// The latest header.
    header: Option<Header>,
    /// The slot that does not have it, or not for sure.
    slot_left: Option<usize>,
    generation: u64,
    end: u64,
    checksum: u64,
    epochs: u32,
    /// Bytes of the file that were written, so that writing them again changes no metadata.
    allocated: u64,
    /// Bytes of the file that the disk has room for.
    reserved: u64,
}

/// The real files of a database that this process owns, for the thread that writes them.
pub(crate) struct DurableFiles {
    base: BaseVfs,
    path: String,
    kind: LogKind,
    log_limit: u64,
    database: OwnedFile,
    wal_file: Option<BaseFile>,
    wal: WalLog,
    /// Bytes of `-wal` that it has on the disk.
    wal_allocated: u64,
    wal_identity: Option<FileIdentity>,
    deltas: Deltas,
    stored: Arc<Stored>,
    page_size: usize,
    /// The size of the database in pages as of the last epoch.
    size: u32,
    /// True if `-wal` holds a commit that is not in place yet.
    wal_needed: bool,
    /// True if `-wal` may hold a commit that `-ebb` has no record of, and that is in no pool either: making it durable
    /// has failed.
    wal_is_uncertain: bool,
    /// True if a crash may bring a commit of `-wal` back that is in place, and that has no mark, or an earlier one (invariant 6).
    wal_is_stale: bool,
    /// True if `-wal` may hold the state as of some epoch of `-ebb`, because a checkpoint has begun and not ended.
    checkpoint_has_begun: bool,
    /// How far the slices of a checkpoint are.
    slices: checkpoint::Slices,
    /// The number in the mark in place, 0 without a number; `None` if no mark survives a crash. What the file shows does not
    /// say that: after a failed sync it shows what the disk may not have.
    marked: Option<u64>,
    /// The mark that may survive a crash although the file does not show it, because a sync has failed.
    uncertain_mark: Option<mark::UncertainMark>,
    /// True if the database in place is not empty, and survives a crash so.
    has_first_page: bool,
    /// True if a crash may show a first page whose sync has failed.
    may_have_first_page: bool,
    /// True if a log may show a transaction that was refused; and if that log is `-wal`.
    must_cover: bool,
    has_wal_to_cover: bool,
    /// What an empty database gets as its first page, before the pages that are committed.
    first_page: Vec<u8>,
    /// True while the database is closed: no log gets another epoch.
    pub(crate) is_closing: bool,
    /// Epochs since the process took the database over.
    epochs: u64,
    random: u64,
    written: WrittenBytes,
    /// Keeps other processes away. It goes last, or when the database is given up.
    lock: Option<OwnerLock>,
}

/// Milliseconds since 1970.
pub(crate) fn now_in_milliseconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

/// What another program has done to a database so that this process has to give it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForeignHarm {
    /// The file has another content: a backup was copied over it, for example.
    Written,
    /// A copy of the file has its name, as `sed -i` makes one, and the logs belong to the copy, too.
    Copied,
    /// The log was cut off, and had what is not in memory.
    LogCut,
}

/// What a database is taken over with.
pub(crate) struct Taking {
    pub(crate) database: BaseFile,
    pub(crate) lock: Option<OwnerLock>,
}

impl DurableFiles {
    /// Takes over a database that has no journal and whose `-wal` is in place, and what its `-ebb` adds.
    ///
    /// # Errors
    ///
    /// `CANT_OPEN` if `-ebb` belongs to another version of the database, has been taken away, or a later release has written
    /// it, and any I/O error.
    pub(crate) fn take_over(
        base: BaseVfs,
        path: &str,
        options: &crate::options::Options,
        taking: Taking,
        random: u64,
    ) -> SqliteResult<DurableFiles> {
        let Taking { mut database, lock } = taking;
        let length = database.length()?;
        let reading = ffi::OPEN_READONLY | ffi::OPEN_MAIN_DB;
        let stored = Stored::new(BaseFile::open(base, path, reading)?);
        let mut store = DurableFiles {
            base,
            path: path.to_owned(),
            kind: options.log,
            log_limit: options.log_limit,
            database: OwnedFile::new(database),
            wal_file: None,
            wal: WalLog::default(),
            wal_allocated: 0,
            wal_identity: None,
            deltas: Deltas::default(),
            stored: Arc::new(stored),
            page_size: 0,
            size: 0,
            wal_needed: false,
            wal_is_uncertain: false,
            wal_is_stale: false,
            checkpoint_has_begun: false,
            slices: checkpoint::Slices::default(),
            marked: None,
            uncertain_mark: None,
            has_first_page: length > 0,
            may_have_first_page: false,
            must_cover: false,
            has_wal_to_cover: false,
            first_page: Vec::new(),
            is_closing: false,
            epochs: 0,
            random: random | 1,
            written: WrittenBytes::default(),
            lock,
        };
        store.load(length)?;
        store.publish();
        Ok(store)
    }

    fn load(&mut self, length: u64) -> SqliteResult<()> {
        let header = self.header()?;
        if length >= 100 {
            let size = usize::from(header[16]) << 8 | usize::from(header[17]) << 16;
            if is_plain(&header) && is_page_size(size) {
                self.page_size = size;
                self.marked = is_marked(&header).then(|| marked_generation(&header));
            } else {
                // An encrypted database: its page size is what SQLite reads and writes.
                self.kind = LogKind::Wal;
            }
        }
        self.set_extent(length);
        self.load_deltas()?;
        if self.deltas.epochs > 0 {
            self.kind = LogKind::Deltas;
        } else if self.deltas.file.is_some() {
            self.forget_empty_deltas()?;
        } else if self.needs_log() {
            // Invariant 5.
            return Err(SqliteCode::CANT_OPEN);
        }
        let header = self.header()?;
        if self.kind == LogKind::Deltas && self.deltas.epochs == 0 && DurableFiles::is_reserved_used(&header) {
            // A later SQLite uses the bytes in which a mark has its number.
            self.kind = LogKind::Wal;
        }
        Ok(())
    }

    fn set_extent(&mut self, length: u64) {
        self.size = match self.page_size {
            0 => 0,
            size => length.div_ceil(size as u64) as u32,
        };
        self.stored.set_extent(self.page_size, self.size);
    }

    fn header(&mut self) -> SqliteResult<[u8; 100]> {
        let mut header = [0; 100];
        self.database.read(0, &mut header)?;
        Ok(header)
    }

    /// True if the database in place is not whole without a log: its mark has a number.
    fn needs_log(&self) -> bool {
        self.marked.is_some_and(|generation| generation != 0)
    }

    /// Reads `-ebb`. Without records it is open afterwards if it may go, and otherwise it is not.
    fn load_deltas(&mut self) -> SqliteResult<()> {
        let path = self.ebb_path();
        if !self.base.exists(&path)? {
            return Ok(());
        }
        self.open_deltas()?;
        let file = self.deltas.file.as_mut().ok_or(SqliteCode::IO)?;
        let length = file.length()?;
        let heads = Heads::read(length, |at, into| file.read(at, into))?;
        let mut first = vec![0; 1 << 16];
        self.database.read(0, &mut first)?;
        let mut check = LogMatch::new(&first);
        let header = heads.of_mark(check.marked_generation());
        let Some(header) = header.filter(|_| heads.later.is_none()) else {
            if heads.later.is_some() || self.needs_log() {
                // A log without a valid header is gone: a power cut leaves one of its two.
                self.deltas = Deltas::default();
                return Err(SqliteCode::CANT_OPEN);
            }
            return match heads.is_log && self.marked.is_none() {
                true => Ok(()),
                // It may be another program's, or a damaged one of the first version.
                false => crate::owner::move_aside(&path),
            };
        };
        // The first epoch of a new page size is in the log before it is in place.
        let page_size = header.page_size as usize;
        let pages = self.database.length()?.div_ceil(page_size as u64);
        self.stored.set_extent(page_size, pages as u32);
        let stored = Arc::clone(&self.stored);
        let scanned = delta_log::scan(
            length,
            &header,
            |at, into| file.read(at, into),
            |record, at, sections, bytes| {
                stored.add_sections(at, sections, record.size);
                check.add(&header, record, sections, bytes);
            },
        )?;
        if scanned.epochs == 0 {
            let length = self.database.length()?;
            self.set_extent(length);
            if !check.needs_no_other(&header) {
                self.deltas = Deltas::default();
                return Err(SqliteCode::CANT_OPEN);
            }
            return Ok(());
        }
        self.page_size = page_size;
        self.size = self.stored.size();
        let deltas = &mut self.deltas;
        deltas.header = Some(header);
        deltas.slot_left = Some(heads.slot_left(&header));
        deltas.generation = header.generation;
        deltas.end = scanned.end;
        deltas.checksum = scanned.checksum;
        deltas.epochs = scanned.epochs;
        // A process that was killed may have left behind the end what a failed sync keeps from the disk, or what it could not take
        // from there.
        deltas.is_uncertain = true;
        deltas.ready = true;
        if !check.is_marked() || !check.fits(&header) {
            self.deltas = Deltas::default();
            return Err(SqliteCode::CANT_OPEN);
        }
        // The next record follows the state that is in place.
        self.checkpoint_has_begun = !check.is_base(&header);
        Ok(())
    }

    /// Opens `-ebb`, and makes it if there is none.
    fn open_deltas(&mut self) -> SqliteResult<()> {
        let path = self.ebb_path();
        let mut file = open_log(self.base, &path, ffi::OPEN_MAIN_JOURNAL)?;
        self.deltas.allocated = file.length()?;
        self.deltas.reserved = self.deltas.allocated;
        self.deltas.identity = FileIdentity::for_path(&path);
        self.deltas.file = Some(file);
        self.stored.read_log_from(self.base, Some(&path), ffi::OPEN_MAIN_JOURNAL)
    }

    /// Closes `-ebb`.
    fn close_deltas(&mut self) -> SqliteResult<()> {
        self.deltas = Deltas::default();
        self.stored.read_log_from(self.base, None, ffi::OPEN_MAIN_JOURNAL)
    }

    /// Opens `-wal`, and makes it if there is none.
    fn open_wal(&mut self) -> SqliteResult<()> {
        if self.wal_file.is_some() {
            return Ok(());
        }
        let path = self.wal_path();
        let mut file = open_log(self.base, &path, ffi::OPEN_WAL)?;
        self.wal_allocated = file.length()?;
        self.wal.is_fresh = self.wal_allocated == 0;
        self.wal_identity = FileIdentity::for_path(&path);
        self.wal_file = Some(file);
        self.stored.read_log_from(self.base, Some(&path), ffi::OPEN_WAL)
    }

    /// Removes the mark and the file that a process left which ended between two steps of closing.
    fn forget_empty_deltas(&mut self) -> SqliteResult<()> {
        self.unmark_in_place(true)?;
        self.delete_deltas()
    }

    /// Deletes `-ebb`, which has no epochs, and so does no harm where that fails; it stays open then, for another attempt.
    fn delete_deltas(&mut self) -> SqliteResult<()> {
        self.delete_own(&self.ebb_path(), self.deltas.identity, true)?;
        self.close_deltas()
    }

    fn ebb_path(&self) -> String {
        format!("{}-ebb", self.path)
    }

    fn wal_path(&self) -> String {
        format!("{}-wal", self.path)
    }

    /// The path of the database.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The places of the pages.
    pub(crate) fn stored(&self) -> &Arc<Stored> {
        &self.stored
    }

    /// The page size in bytes; 0 while the database is empty.
    pub(crate) fn page_size(&self) -> usize {
        self.page_size
    }

    /// The size in pages as of the last epoch.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Which log the epochs go to.
    pub(crate) fn kind(&self) -> LogKind {
        self.kind
    }

    /// Sets the page size: of a new database, or of one that is all in place.
    pub(crate) fn set_page_size(&mut self, page_size: usize) -> SqliteResult<()> {
        self.page_size = page_size;
        let length = self.database.length()?;
        self.set_extent(length);
        self.wal.clear();
        self.slices = checkpoint::Slices::default();
        self.deltas.ready = false;
        self.publish();
        Ok(())
    }

    fn log_bytes(&self) -> u64 {
        match self.kind {
            LogKind::Wal => self.wal.bytes(),
            LogKind::Deltas => self.deltas.end,
        }
    }

    /// True if the database in place is the whole state.
    pub(crate) fn is_in_place(&self) -> bool {
        self.wal.is_empty() && self.deltas.epochs == 0
    }

    /// The length of the database in place, in bytes.
    pub(crate) fn length_in_place(&mut self) -> SqliteResult<u64> {
        self.database.length()
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// True if another file has the database's name by now, or none.
    pub(crate) fn has_moved(&mut self) -> bool {
        self.database.has_moved()
    }

    /// What another program has changed of the database in place since this process has written it.
    pub(crate) fn foreign_change(&mut self) -> Option<ForeignChange> {
        self.database.foreign_change()
    }

    /// What such a change means, if what is in memory and in the logs does not belong to the database any more. `pages` is the pool.
    ///
    /// # Errors
    ///
    /// Those of reading the files.
    pub(crate) fn harm_of(&mut self, change: ForeignChange, pages: Option<&PageCache>) -> SqliteResult<Option<ForeignHarm>> {
        match change {
            ForeignChange::Content => Ok(Some(ForeignHarm::Written)),
            ForeignChange::Name => self.harm_of_other_file(),
            ForeignChange::Time => {
                if let Some(pages) = pages
                    && pages.differs(&self.stored)?
                {
                    return Ok(Some(ForeignHarm::Written));
                }
                self.database.look();
                Ok(None)
            }
        }
    }

    /// True if the log was cut off by another program while it was open, and had what is not in memory.
    pub(crate) fn has_lost_records(&mut self, pages: Option<&PageCache>) -> bool {
        self.is_log_cut_off() && pages.is_some_and(|pages| self.stored.pages_of_deltas().iter().any(|page| !pages.has(*page)))
    }

    /// True if the file of the log is shorter than the log.
    pub(crate) fn is_log_cut_off(&mut self) -> bool {
        let end = self.deltas.end;
        self.deltas.file.as_mut().is_some_and(|file| file.length().is_ok_and(|length| length < end))
    }

    /// What it means that another file has the name of the database: nothing, unless that file has the mark of this log.
    fn harm_of_other_file(&mut self) -> SqliteResult<Option<ForeignHarm>> {
        let flags = ffi::OPEN_READONLY | ffi::OPEN_MAIN_DB;
        let Ok(mut other) = BaseFile::open(self.base, &self.path, flags) else {
            return Ok(None);
        };
        let mut header = [0; 100];
        other.read(0, &mut header)?;
        if !is_plain(&header) || !is_marked(&header) || self.marked != Some(marked_generation(&header)) {
            return Ok(None);
        }
        // No checkpoint has begun, and the log changes nothing but what is in both files.
        let mut fits = self.needs_log() && self.wal.is_empty() && !self.wal_needed && !self.slices.are_under_way();
        fits = fits && header == self.header()? && other.length()? == self.database.length()?;
        let (mut ours, mut theirs) = (vec![0; self.page_size], vec![0; self.page_size]);
        for page in self.stored.pages_of_deltas() {
            let at = u64::from(page - 1) * self.page_size as u64;
            self.database.read(at, &mut ours)?;
            other.read(at, &mut theirs)?;
            fits = fits && ours == theirs;
        }
        Ok(Some(if fits { ForeignHarm::Copied } else { ForeignHarm::Written }))
    }

    /// True if no name leads to the file any more.
    pub(crate) fn is_nameless(&self) -> bool {
        self.lock.as_ref().is_some_and(OwnerLock::is_nameless)
    }

    /// True if the database in place has the mark of a log.
    pub(crate) fn is_marked_in_place(&mut self) -> bool {
        self.header().is_ok_and(|header| is_plain(&header) && is_marked(&header) && marked_generation(&header) != 0)
    }

    /// Gives the database up for a copy that has its name, to which the logs belong as to this one.
    pub(crate) fn leave_to_copy(&mut self) {
        self.abandon();
        self.let_go();
    }

    /// Lets go of the logs and of the lock: what uses these files from now on is not this.
    fn let_go(&mut self) {
        self.deltas = Deltas::default();
        self.wal_file = None;
        self.lock = None;
    }

    /// Gives the database up as it is now, and puts the logs aside, which do not belong to it. The files are good for nothing more.
    ///
    /// # Errors
    ///
    /// `CANT_OPEN` if a log cannot get another name.
    pub(crate) fn put_aside(&mut self) -> SqliteResult<()> {
        let moved = self.rename_logs();
        self.let_go();
        moved
    }

    /// Gives the logs names that end in `.stale`. They stay open.
    ///
    /// # Errors
    ///
    /// `CANT_OPEN` if one cannot get another name.
    pub(crate) fn rename_logs(&mut self) -> SqliteResult<()> {
        let logs = [
            (self.deltas.file.is_some(), self.ebb_path(), self.deltas.identity),
            (self.wal_file.is_some(), self.wal_path(), self.wal_identity),
        ];
        let mut moved = Ok(());
        for (is_open, path, identity) in logs {
            if is_open && !FileIdentity::is_other(&path, &identity) {
                moved = moved.and(crate::owner::move_aside(&path));
            }
        }
        moved
    }

    /// Makes the figures those of this moment.
    pub(crate) fn publish(&self) {
        let room = match self.next_is_deltas() {
            true => self.deltas.reserved.saturating_sub(self.deltas.end),
            // The next look for room begins `-ebb`.
            false if self.kind == LogKind::Deltas && self.epochs > 0 => 0,
            false => self.wal_allocated.saturating_sub(self.wal.end()),
        };
        let changed_pages = self.stored.changed_pages() as u64;
        self.stored.set_figures(Figures {
            written: self.written,
            kind: self.kind,
            log_bytes: self.log_bytes(),
            changed_bytes: changed_pages * self.page_size as u64,
            is_in_place: self.is_in_place(),
            is_between_slices: self.slices.are_under_way(),
            is_only_in_wal: self.is_only_in_wal(),
            must_cover: self.must_cover,
            room,
        });
    }
}

fn open_log(base: BaseVfs, path: &str, kind: i32) -> SqliteResult<BaseFile> {
    let file = BaseFile::open(base, path, ffi::OPEN_READWRITE | ffi::OPEN_CREATE | kind)?;
    if file.is_read_only() {
        return Err(SqliteCode::CANT_OPEN);
    }
    Ok(file)
}
