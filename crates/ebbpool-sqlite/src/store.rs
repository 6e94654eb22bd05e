//! What survives a crash: the database in place, `-wal`, and `-ebb`.
//!
//! The state as of the last epoch is the database in place, with the pages that the logs hold laid over it. So a page
//! that leaves memory is never written for that: reading it again takes it from the logs. Invariants, cited as such:
//!
//! 1. What the logs hold is the state after a commit.
//! 2. In place is only written what a durable `-wal` holds, and what is beyond the end of the database as every log
//!    knows it.
//! 3. A log begins anew only when the database is durable that has all of it.
//! 4. Deltas apply to the pages as the log knows them: as they were in place when the log began, then changed by each
//!    record; a page beyond the size of a record is all zeros from then on.

mod checkpoint;
mod epoch;

use std::collections::HashMap;

use crate::code::{Answer, Code};
use crate::delta_log::{self, Header, Section, is_page_size};
use crate::disk::{BaseFile, BaseVfs};
use crate::ffi;
use crate::fit::FitCheck;
use crate::options::LogKind;
use crate::wal_log::WalLog;

/// `-ebb` grows by this many bytes at a time, so that a sync of a short record changes no metadata of the file system.
const STEP: u64 = 1 << 20;
/// A record of at least this many bytes costs less with such a change (some blocks of the file system's journal) than with
/// zeros written ahead of it.
const LONG_RECORD: usize = 32 << 10;
/// Pages are written in place in runs of at most this many bytes.
const RUN: usize = 1 << 20;
/// A page whose content is spread over more sections is logged whole.
const LONGEST_CHAIN: usize = 512;

/// The file format version that makes SQLite refuse to write a database, and lets it read.
pub(crate) const READ_ONLY: u8 = 3;
/// Where the header of a database has its write and read version.
pub(crate) const WRITE_VERSION: usize = 18;
pub(crate) const READ_VERSION: usize = 19;
/// The bytes of the header that a change of the database changes.
const FINGERPRINT: usize = 96;

/// What was written to the real files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// Bytes to `-ebb` and `-wal`, in whole blocks as a card gets them, like the next one.
    pub(crate) log: u64,
    /// Bytes to the database.
    pub(crate) in_place: u64,
    pub(crate) epochs: u64,
    pub(crate) checkpoints: u64,
    pub(crate) syncs: u64,
}

/// What `-ebb` says about a page.
#[derive(Default)]
struct Chain {
    /// True if the page was all zeros before the first section.
    from_zeros: bool,
    /// Where the runs of each section are in the file, and their bytes.
    sections: Vec<(u64, u32)>,
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
    /// True if the header of this generation survives a crash.
    ready: bool,
    /// True if the file may hold a record that could not be made durable.
    is_uncertain: bool,
    end: u64,
    checksum: u64,
    epochs: u32,
    allocated: u64,
    chains: HashMap<u32, Chain>,
}

/// The real files of a database that this process owns.
pub(crate) struct Store {
    base: BaseVfs,
    path: String,
    kind: LogKind,
    database: BaseFile,
    wal_file: Option<BaseFile>,
    wal: WalLog,
    deltas: Deltas,
    page_size: usize,
    /// The size of the database in pages as of the last epoch.
    size: u32,
    /// Pages beyond this one read as zeros where no log has them.
    zeros_beyond: u32,
    /// True if `-wal` holds a commit that is not in place yet.
    wal_needed: bool,
    /// True if `-wal` may hold a commit that `-ebb` has no record of, and that is in no pool either: making it durable
    /// has failed.
    wal_is_uncertain: bool,
    /// True if `-wal` may hold the state as of some epoch of `-ebb`, because a checkpoint has begun and not ended.
    checkpoint_has_begun: bool,
    /// True if the mark in place survives a crash. What the file shows does not say that: after a failed sync it shows what
    /// the disk may not have.
    is_marked: bool,
    /// True if the database in place is not empty, and survives a crash so.
    has_first_page: bool,
    random: u64,
    pub(crate) written: Written,
}

fn now_in_milliseconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

/// True if the bytes begin like a database of SQLite's that is not encrypted.
pub(crate) fn is_plain(header: &[u8]) -> bool {
    header.starts_with(b"SQLite format 3\0") && (1..=2).contains(&header[READ_VERSION])
}

/// True if the header of a database keeps SQLite from writing it. A power cut while the mark is written may leave any byte
/// there, so any version that SQLite does not write is one.
pub(crate) fn is_marked(header: &[u8]) -> bool {
    header[WRITE_VERSION] >= READ_ONLY
}

/// True if the header of a database says how many pages it has. SQLite before 3.7.0 wrote none that is valid; then the
/// length of the file says it (SQLite's file format, 1.3.7).
fn has_size(header: &[u8]) -> bool {
    header[28..32] != [0; 4] && header[24..28] == header[92..96]
}

/// Makes page 1 what SQLite wrote, without the mark that keeps other programs from writing.
pub(crate) fn unmark(page: &mut [u8]) {
    if page.len() > READ_VERSION && is_marked(page) && is_plain(page) {
        page[WRITE_VERSION] = page[READ_VERSION];
    }
}

/// The fingerprint of a database, which changes with each of its commits.
pub(crate) fn fingerprint(header: &[u8]) -> u64 {
    let mut header = header[..FINGERPRINT].to_vec();
    unmark(&mut header);
    xxhash_rust::xxh3::xxh3_64(&header)
}

impl Store {
    /// Takes over a database that has no journal and whose `-wal` is in place, and what its `-ebb` adds.
    ///
    /// # Errors
    ///
    /// `CANT_OPEN` if `-ebb` belongs to another version of the database, or a later release has written it, and any I/O
    /// error.
    pub(crate) fn take_over(
        base: BaseVfs,
        path: &str,
        kind: LogKind,
        mut database: BaseFile,
        random: u64,
    ) -> Result<Store, (BaseFile, Code)> {
        let length = match database.length() {
            Ok(length) => length,
            Err(error) => return Err((database, error)),
        };
        let mut store = Store {
            base,
            path: path.to_owned(),
            kind,
            database,
            wal_file: None,
            wal: WalLog::default(),
            deltas: Deltas::default(),
            page_size: 0,
            size: 0,
            zeros_beyond: 0,
            wal_needed: false,
            wal_is_uncertain: false,
            checkpoint_has_begun: false,
            is_marked: false,
            has_first_page: length > 0,
            random: random | 1,
            written: Written::default(),
        };
        match store.load(length) {
            Ok(()) => Ok(store),
            Err(error) => Err((store.database, error)),
        }
    }

    fn load(&mut self, length: u64) -> Answer<()> {
        let header = self.header()?;
        if length >= 100 {
            let size = usize::from(header[16]) << 8 | usize::from(header[17]) << 16;
            if is_plain(&header) && is_page_size(size) {
                self.page_size = size;
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
        }
        Ok(())
    }

    fn set_extent(&mut self, length: u64) {
        self.size = match self.page_size {
            0 => 0,
            size => length.div_ceil(size as u64) as u32,
        };
        self.zeros_beyond = self.size;
    }

    fn header(&mut self) -> Answer<[u8; 100]> {
        let mut header = [0; 100];
        self.database.read(0, &mut header)?;
        Ok(header)
    }

    fn load_deltas(&mut self) -> Answer<()> {
        let path = self.ebb_path();
        if !self.base.exists(&path)? {
            return Ok(());
        }
        let mut file = open_log(self.base, &path, ffi::OPEN_MAIN_JOURNAL)?;
        let length = file.length()?;
        let mut head = [0; delta_log::HEADER];
        file.read(0, &mut head)?;
        if delta_log::later_version(&head).is_some() {
            return Err(Code::CANT_OPEN);
        }
        let extent = match Header::decode(&head) {
            // The first epoch of a new page size is in the log before it is in place.
            Some(header) => self
                .database
                .length()?
                .div_ceil(u64::from(header.page_size)) as u32,
            None => 0,
        };
        let (mut size, mut zeros_beyond) = (extent, extent);
        let chains = &mut self.deltas.chains;
        let mut first = vec![0; 1 << 16];
        self.database.read(0, &mut first)?;
        let mut check = FitCheck::new(&first);
        let scanned = delta_log::scan(
            length,
            |at, into| file.read(at, into),
            |record, at, sections, bytes| {
                note(chains, &mut zeros_beyond, record.size, at, sections);
                size = record.size;
                check.add(record, sections, bytes);
            },
        )?;
        self.deltas.file = Some(file);
        self.deltas.allocated = length;
        let Some(scanned) = scanned.filter(|scanned| scanned.epochs > 0) else {
            self.deltas.chains.clear();
            return Ok(());
        };
        self.page_size = scanned.header.page_size as usize;
        self.size = size;
        self.zeros_beyond = zeros_beyond;
        self.deltas.end = scanned.end;
        self.deltas.checksum = scanned.checksum;
        self.deltas.epochs = scanned.epochs;
        self.deltas.ready = true;
        if !check.is_marked() || !check.fits(&scanned.header) {
            self.deltas = Deltas::default();
            return Err(Code::CANT_OPEN);
        }
        // The next record follows the state that is in place.
        self.checkpoint_has_begun = !check.is_base(&scanned.header);
        Ok(())
    }

    /// Removes the mark and the file that a process left which ended between two steps of closing.
    fn forget_empty_deltas(&mut self) -> Answer<()> {
        self.deltas = Deltas::default();
        self.unmark_in_place(true)?;
        self.base.delete(&self.ebb_path(), true)
    }

    fn ebb_path(&self) -> String {
        format!("{}-ebb", self.path)
    }

    fn wal_path(&self) -> String {
        format!("{}-wal", self.path)
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
    pub(crate) fn set_page_size(&mut self, page_size: usize) -> Answer<()> {
        self.page_size = page_size;
        let length = self.database.length()?;
        self.set_extent(length);
        self.wal.clear();
        self.deltas.ready = false;
        Ok(())
    }

    /// Bytes in the logs that a checkpoint would bring in place.
    pub(crate) fn log_bytes(&self) -> u64 {
        match self.kind {
            LogKind::Wal => self.wal.bytes(),
            LogKind::Deltas => self.deltas.end,
        }
    }

    /// True if the database in place is the whole state.
    pub(crate) fn is_in_place(&self) -> bool {
        self.wal.is_empty() && self.deltas.epochs == 0
    }

    /// Reads bytes of the database in place, before the page size is known.
    pub(crate) fn read_in_place(&mut self, at: u64, into: &mut [u8]) -> Answer<()> {
        self.database.read(at, into)?;
        if at == 0 {
            unmark(into);
        }
        Ok(())
    }

    /// The length of the database in place, in bytes.
    pub(crate) fn length_in_place(&mut self) -> Answer<u64> {
        self.database.length()
    }

    /// Reads a page as of the last epoch.
    pub(crate) fn read(&mut self, page: u32, into: &mut [u8]) -> Answer<()> {
        if let (Some(at), Some(wal)) = (self.wal.image(page), &mut self.wal_file) {
            wal.read(at, into)?;
        } else {
            let chain = self.deltas.chains.get(&page);
            if page > self.zeros_beyond || chain.is_some_and(|chain| chain.from_zeros) {
                into.fill(0);
            } else {
                let at = u64::from(page - 1) * self.page_size as u64;
                self.database.read(at, into)?;
            }
            if let (Some(chain), Some(file)) = (chain, &mut self.deltas.file) {
                let mut runs = Vec::new();
                for (at, bytes) in &chain.sections {
                    runs.resize(*bytes as usize, 0);
                    file.read(*at, &mut runs)?;
                    delta_log::apply(&runs, into);
                }
            }
        }
        if page == 1 {
            unmark(into);
        }
        Ok(())
    }

    /// True if the next section of a page should hold all of it, because it would take many reads to put it together.
    pub(crate) fn wants_whole(&self, page: u32) -> bool {
        let chain = self.deltas.chains.get(&page);
        chain.is_some_and(|chain| chain.sections.len() >= LONGEST_CHAIN)
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

    /// The path of the database.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The handle of the database, for calls that are passed on.
    pub(crate) fn handle(&mut self) -> *mut ffi::File {
        self.database.handle()
    }
}

/// Notes the sections of a record that begins at an offset of the file.
fn note(
    chains: &mut HashMap<u32, Chain>,
    zeros_beyond: &mut u32,
    size: u32,
    at: u64,
    sections: &[Section],
) {
    if size < *zeros_beyond {
        *zeros_beyond = size;
    }
    chains.retain(|page, _| *page <= size);
    for section in sections {
        let chain = chains.entry(section.page).or_insert_with(|| Chain {
            from_zeros: section.page > *zeros_beyond,
            sections: Vec::new(),
        });
        if section.fresh {
            chain.from_zeros = true;
            chain.sections.clear();
        }
        chain
            .sections
            .push((at + u64::from(section.at), section.bytes));
    }
}

fn open_log(base: BaseVfs, path: &str, kind: i32) -> Answer<BaseFile> {
    let file = BaseFile::open(base, path, ffi::OPEN_READWRITE | ffi::OPEN_CREATE | kind)?;
    if file.is_read_only() {
        return Err(Code::CANT_OPEN);
    }
    Ok(file)
}
