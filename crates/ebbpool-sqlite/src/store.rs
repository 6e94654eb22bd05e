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

use std::collections::HashMap;

use crate::code::{Answer, Code};
use crate::delta_log::{self, Draft, Header, Section, is_page_size};
use crate::disk::{BaseFile, BaseVfs};
use crate::ffi;
use crate::options::LogKind;
use crate::wal_log::WalLog;

/// `-ebb` grows by this many bytes at a time, so that a sync of a short record changes no metadata of the file system.
const STEP: u64 = 1 << 20;
/// A record of at least this many bytes costs less with such a change (some blocks of the file system's journal) than with
/// zeros written ahead of it.
const LONG_RECORD: usize = 32 << 10;
/// A block of the file system.
const BLOCK: u64 = 4096;
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
    /// Bytes to `-ebb` and `-wal`.
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

/// Makes page 1 what SQLite wrote, without the mark that keeps other programs from writing.
pub(crate) fn unmark(page: &mut [u8]) {
    if page.len() > READ_VERSION && page[WRITE_VERSION] == READ_ONLY && is_plain(page) {
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
    /// `CANT_OPEN` if `-ebb` belongs to another version of the database, and any I/O error.
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
        self.load_deltas(&header)?;
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

    fn load_deltas(&mut self, in_place: &[u8; 100]) -> Answer<()> {
        let path = self.ebb_path();
        if !self.base.exists(&path)? {
            return Ok(());
        }
        let mut file = open_log(self.base, &path, ffi::OPEN_MAIN_JOURNAL)?;
        let length = file.length()?;
        let mut head = [0; delta_log::HEADER];
        file.read(0, &mut head)?;
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
        let print = fingerprint(in_place);
        let mut is_of_a_record = false;
        let scanned = delta_log::scan(
            length,
            |at, into| file.read(at, into),
            |record, at, sections, bytes| {
                note(chains, &mut zeros_beyond, record.size, at, sections);
                size = record.size;
                // After a crash in a checkpoint, or a checkpoint that failed, SQLite has taken `-wal` in: the database in
                // place is that of some record, and the records up to it change nothing in it. If none of them changes
                // page 1, its fingerprint is that of the base.
                if let Some(section) = sections.iter().find(|section| section.page == 1) {
                    if section.fresh {
                        first.fill(0);
                    }
                    delta_log::apply(section.runs(bytes), &mut first);
                    is_of_a_record |= fingerprint(&first) == print;
                }
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
        // The mark was durable before the first record was, and no program writes a database that has it.
        let is_marked = !is_plain(in_place) || in_place[WRITE_VERSION] == READ_ONLY;
        if !is_marked || (print != scanned.header.base && !is_of_a_record) {
            self.deltas = Deltas::default();
            return Err(Code::CANT_OPEN);
        }
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

    // Epochs.

    /// Makes an epoch durable as deltas. After an error nothing has changed but bytes behind the end of the log, which the
    /// next attempt writes again.
    pub(crate) fn append_deltas(&mut self, draft: Draft, size: u32) -> Answer<()> {
        if !self.deltas.ready && self.wal_needed {
            self.place()?;
        }
        if self.wal_is_uncertain {
            let random = self.next_random();
            let file = self.wal_file.as_mut().ok_or(Code::IO)?;
            self.written.log += self.wal.reset(file, self.page_size, random)?;
            self.written.syncs += 1;
            self.wal_is_uncertain = false;
        }
        if !self.deltas.ready {
            self.begin_deltas()?;
        }
        let deltas = &mut self.deltas;
        let file = deltas.file.as_mut().ok_or(Code::IO)?;
        let (bytes, sections, checksum) = draft.finish(
            size,
            deltas.epochs + 1,
            now_in_milliseconds(),
            deltas.checksum,
        );
        let end = deltas.end + bytes.len() as u64;
        if end > deltas.allocated {
            let step = if bytes.len() < LONG_RECORD {
                STEP
            } else {
                BLOCK
            };
            let to = end.next_multiple_of(step);
            let from = deltas.allocated.max(end);
            file.write(from, &vec![0; (to - from) as usize])?;
            self.written.log += to - from;
            deltas.allocated = to;
        }
        deltas.is_uncertain = true;
        file.write(deltas.end, &bytes)?;
        file.sync()?;
        deltas.is_uncertain = false;
        note(
            &mut deltas.chains,
            &mut self.zeros_beyond,
            size,
            deltas.end,
            &sections,
        );
        for section in &sections {
            self.wal.supersede(section.page);
        }
        deltas.end = end;
        deltas.checksum = checksum;
        deltas.epochs += 1;
        self.size = size;
        self.written.log += bytes.len() as u64;
        self.written.syncs += 1;
        self.written.epochs += 1;
        Ok(())
    }

    /// Marks the database in place, and begins the log on it.
    fn begin_deltas(&mut self) -> Answer<()> {
        self.mark_in_place()?;
        if self.deltas.file.is_none() {
            let path = self.ebb_path();
            let mut file = open_log(self.base, &path, ffi::OPEN_MAIN_JOURNAL)?;
            self.deltas.allocated = file.length()?;
            self.deltas.file = Some(file);
        }
        let header = Header {
            page_size: self.page_size as u32,
            salt: self.next_random(),
            base: fingerprint(&self.header()?),
            began: now_in_milliseconds(),
        };
        let deltas = &mut self.deltas;
        let file = deltas.file.as_mut().ok_or(Code::IO)?;
        file.write(0, &header.encode())?;
        // Only then new records: an old header with a new record would apply it to another database.
        file.sync()?;
        deltas.ready = true;
        deltas.is_uncertain = false;
        deltas.end = delta_log::HEADER as u64;
        deltas.checksum = header.seed();
        deltas.epochs = 0;
        deltas.chains.clear();
        self.zeros_beyond = self.size;
        self.written.log += delta_log::HEADER as u64;
        self.written.syncs += 1;
        Ok(())
    }

    /// Keeps programs without this library from writing the database while `-ebb` has records.
    fn mark_in_place(&mut self) -> Answer<()> {
        if !self.is_marked && is_plain(&self.header()?) {
            self.database.write(WRITE_VERSION as u64, &[READ_ONLY])?;
            self.database.sync()?;
            self.written.in_place += 1;
            self.written.syncs += 1;
            self.is_marked = true;
        }
        Ok(())
    }

    /// Lets other programs write the database again; also where the mark is gone already, if an earlier attempt may have
    /// failed.
    fn unmark_in_place(&mut self, again: bool) -> Answer<()> {
        let header = self.header()?;
        self.is_marked = false;
        if is_plain(&header) && (again || header[WRITE_VERSION] == READ_ONLY) {
            self.database
                .write(WRITE_VERSION as u64, &[header[READ_VERSION]])?;
            self.database.sync()?;
            self.written.in_place += 1;
            self.written.syncs += 1;
        }
        Ok(())
    }

    /// Begins a commit in `-wal`: of what `-ebb` has as well, or of an epoch that only `-wal` is to have.
    pub(crate) fn begin_wal(&mut self, has_deltas: bool) -> Answer<()> {
        if !has_deltas && self.kind == LogKind::Deltas {
            if self.deltas.is_uncertain {
                // A record that is older than the commit must not be applied after it.
                self.begin_deltas()?;
            }
            self.wal_is_uncertain = true;
        }
        if self.wal_file.is_none() {
            let file = open_log(self.base, &self.wal_path(), ffi::OPEN_WAL)?;
            self.wal_file = Some(file);
        }
        let random = self.next_random();
        // A commit that is not in place yet stays valid until the next one is durable.
        if !self.wal.is_ready() {
            let file = self.wal_file.as_mut().ok_or(Code::IO)?;
            self.written.log += self.wal.reset(file, self.page_size, random)?;
            self.written.syncs += 1;
        }
        self.wal.begin();
        Ok(())
    }

    /// Appends a page to the commit; `size` is the size of the database in pages for its last page, otherwise 0.
    pub(crate) fn append_wal(&mut self, page: u32, image: &[u8], size: u32) -> Answer<()> {
        let file = self.wal_file.as_mut().ok_or(Code::IO)?;
        let mut marked;
        let mut image = image;
        if page == 1 && self.kind == LogKind::Deltas && is_plain(image) {
            marked = image.to_vec();
            marked[WRITE_VERSION] = READ_ONLY;
            image = &marked;
        }
        self.written.log += self.wal.append(file, page, image, size)?;
        Ok(())
    }

    /// Makes the commit durable.
    pub(crate) fn commit_wal(&mut self, size: u32) -> Answer<()> {
        let file = self.wal_file.as_mut().ok_or(Code::IO)?;
        self.wal.sync(file)?;
        self.written.syncs += 1;
        if !self.has_first_page {
            // SQLite deletes a WAL beside an empty database.
            self.database.write(0, &vec![0; self.page_size])?;
            self.database.sync()?;
            self.written.in_place += self.page_size as u64;
            self.written.syncs += 1;
            self.has_first_page = true;
        }
        self.wal.commit();
        self.wal_needed = true;
        self.size = size;
        self.zeros_beyond = self.zeros_beyond.min(size);
        self.wal.cut_off(size);
        Ok(())
    }

    /// Notes that the commit was an epoch of its own, and not one that `-ebb` has: so `-ebb` begins anew before it gets
    /// another record.
    pub(crate) fn committed_without_deltas(&mut self) {
        self.deltas.ready = false;
        self.deltas.epochs = 0;
        self.deltas.chains.clear();
        self.written.epochs += 1;
    }

    /// The pages that only `-ebb` holds, in ascending order: those that `-wal` must hold before they go in place.
    pub(crate) fn pages_of_deltas(&self) -> Vec<u32> {
        let held = |page: &u32| *page <= self.size && self.wal.image(*page).is_none();
        let mut pages: Vec<u32> = self.deltas.chains.keys().copied().filter(held).collect();
        pages.sort_unstable();
        pages
    }

    // Checkpoints.

    /// The pages beyond this one are in no version of the database that a crash could leave behind, so that they may be
    /// written in place before a log has them (invariant 2).
    pub(crate) fn end_in_place(&mut self) -> Answer<u32> {
        let length = self.database.length()?;
        Ok(match length {
            // SQLite deletes a WAL beside an empty database, and `-wal` may hold a commit that is not in place.
            0 => u32::MAX,
            _ if self.wal_needed || self.wal_is_uncertain => u32::MAX,
            _ => length.div_ceil(self.page_size as u64) as u32,
        })
    }

    /// Writes a page in place together with its neighbours: see [`Store::write_run`].
    pub(crate) fn place_page(&mut self, run: &mut Run, page: u32, image: &[u8]) -> Answer<()> {
        if page != run.next || run.bytes.len() >= RUN {
            self.write_run(run)?;
            run.begin = page;
        }
        run.bytes.extend_from_slice(image);
        run.next = page + 1;
        Ok(())
    }

    /// Writes the rest of a run in place.
    fn write_run(&mut self, run: &mut Run) -> Answer<()> {
        if run.bytes.is_empty() {
            return Ok(());
        }
        let at = u64::from(run.begin - 1) * self.page_size as u64;
        self.database.write(at, &run.bytes)?;
        self.written.in_place += run.bytes.len() as u64;
        run.bytes.clear();
        Ok(())
    }

    /// Makes pages durable that were written beyond the end: they belong to the database with the next commit in `-wal`.
    pub(crate) fn end_run(&mut self, run: &mut Run) -> Answer<()> {
        self.write_run(run)?;
        self.database.sync()?;
        self.written.syncs += 1;
        Ok(())
    }

    /// Brings in place what `-wal` holds, all of it (invariant 2), and lets the logs begin anew.
    pub(crate) fn place(&mut self) -> Answer<()> {
        let mut run = Run::default();
        let mut image = vec![0; self.page_size];
        for page in self.wal.pages() {
            if page > self.size {
                continue;
            }
            let (Some(at), Some(file)) = (self.wal.image(page), &mut self.wal_file) else {
                continue;
            };
            file.read(at, &mut image)?;
            self.place_page(&mut run, page, &image)?;
        }
        self.write_run(&mut run)?;
        let length = u64::from(self.size) * self.page_size as u64;
        if self.database.length()? != length {
            self.database.truncate(length)?;
        }
        self.database.sync()?;
        self.written.syncs += 1;
        self.written.checkpoints += 1;
        // From here on the database in place has every page, whatever becomes of the logs.
        self.zeros_beyond = self.size;
        self.is_marked = self.header()?[WRITE_VERSION] == READ_ONLY;
        self.begin_anew()
    }

    /// Lets the logs begin anew: the database is durable that has all of them (invariant 3).
    fn begin_anew(&mut self) -> Answer<()> {
        match self.kind {
            LogKind::Deltas => {
                self.deltas.ready = false;
                self.begin_deltas()?;
                if let Some(file) = &mut self.wal_file {
                    file.truncate(0)?;
                }
                self.wal.clear();
            }
            LogKind::Wal => {
                let random = self.next_random();
                let file = self.wal_file.as_mut().ok_or(Code::IO)?;
                self.written.log += self.wal.reset(file, self.page_size, random)?;
                self.written.syncs += 1;
            }
        }
        self.wal_needed = false;
        self.wal_is_uncertain = false;
        if self.kind == LogKind::Deltas && !is_plain(&self.header()?) {
            // A database that was new is encrypted, as now turns out: without a header there is nothing to mark.
            self.use_wal()?;
        }
        Ok(())
    }

    /// Sends epochs to `-wal` from now on. All that `-ebb` has is in place.
    pub(crate) fn use_wal(&mut self) -> Answer<()> {
        if self.deltas.file.is_some() {
            self.forget_empty_deltas()?;
        }
        self.kind = LogKind::Wal;
        Ok(())
    }

    /// Leaves a plain database behind: removes the mark and the logs, all of which is in place.
    pub(crate) fn leave(&mut self) -> Answer<()> {
        if !self.is_in_place() {
            return Err(Code::IO);
        }
        if let Some(mut file) = self.wal_file.take() {
            // Durable before the mark goes: the images of page 1 in it are marked.
            file.truncate(0)?;
            file.sync()?;
            drop(file);
            self.base.delete(&self.wal_path(), false)?;
        } else {
            // A process that was killed may have left an empty one, which for SQLite does not exist.
            let _ = self.base.delete(&self.wal_path(), false);
        }
        let had_deltas = self.deltas.file.take().is_some();
        self.unmark_in_place(had_deltas)?;
        if had_deltas {
            self.base.delete(&self.ebb_path(), false)?;
        }
        Ok(())
    }

    /// Leaves the files as after a crash, because they cannot be brought in place. What could not be made durable is cut
    /// off: until the next start of the machine the files would show it, and the next process would trust it.
    pub(crate) fn abandon(&mut self) {
        let end = self.wal.bytes();
        if let Some(file) = &mut self.wal_file {
            let _ = file.truncate(end).and_then(|()| file.sync());
        }
        let end = self.deltas.end;
        if let Some(file) = &mut self.deltas.file {
            let _ = file.truncate(end).and_then(|()| file.sync());
        }
    }

    /// True if another file has the database's name by now, or none.
    pub(crate) fn has_moved(&mut self) -> bool {
        self.database.has_moved()
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
