//! One database: what SQLite sees of its files, and what is committed and not durable yet.
//!
//! A page has up to four versions. *In place* is that of the last checkpoint. The *pool* has it as of the last epoch
//! ([`Store`]). `pending` has it as of the last commit, where that differs. `view` has it as SQLite's main file shows it,
//! where that differs from the pool: newer while a transaction writes, older while commits are in SQLite's own WAL only.
//! SQLite's journal and WAL exist in memory only. A commit moves pages from the view, or from SQLite's WAL, to `pending`;
//! an epoch logs `pending`, and moves it to the pool.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::code::{Answer, Code};
use crate::delta_log::{Draft, is_page_size};
use crate::disk::{BaseFile, BaseVfs};
use crate::home::Pages;
use crate::locks::{FileLocks, WalIndex};
use crate::memory::{Image, Memory, VirtualFile};
use crate::options::{LogKind, Options};
use crate::store::{Run, Store};
use crate::wal_log::{self, frame_checksum};

/// A record of deltas is put together in memory: what is larger goes to `-wal` at once.
const LONGEST_RECORD: u64 = 64 << 20;

/// The page size before SQLite says otherwise.
const USUAL_PAGE: usize = 4096;

/// What SQLite has asked for so far: what it would have written without this VFS.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requested {
    pub(crate) main: u64,
    pub(crate) journal: u64,
    pub(crate) wal: u64,
    pub(crate) syncs: u64,
    pub(crate) commits: u64,
}

/// A database that this process has to itself.
pub(crate) struct Family {
    pub(crate) options: Options,
    pub(crate) asked: Requested,
    pub(crate) locks: FileLocks,
    pub(crate) index: WalIndex,
    pub(crate) memory: Memory,
    pub(crate) store: Arc<Mutex<Store>>,
    pages: Option<Pages>,
    page_size: usize,
    // What SQLite sees.
    view: HashMap<u32, Arc<Image>>,
    length: u64,
    pub(crate) journal: Option<VirtualFile>,
    pub(crate) wal: Option<VirtualFile>,
    /// Pages that the transaction has written to the main file.
    working: BTreeSet<u32>,
    // What is committed.
    pending: BTreeMap<u32, Arc<Image>>,
    pending_bytes: u64,
    size: u32,
    /// Seconds: when the first commit was made that no epoch has.
    oldest: Option<f64>,
    /// Frames of SQLite's WAL that are in `pending` or durable, and the checksum up to there.
    wal_taken: u32,
    wal_sum: [u32; 2],
    /// The last commit frame that was written since, and the size that it has.
    wal_commit: Option<(u32, u32)>,
    last_checkpoint: f64,
    pub(crate) now: f64,
}

impl Family {
    /// Takes a database over whose file is locked.
    pub(crate) fn new(
        base: BaseVfs,
        store: Store,
        length: u64,
        options: Options,
        now: f64,
    ) -> Answer<Family> {
        let (page_size, size) = (store.page_size(), store.size());
        let is_in_place = store.is_in_place();
        let store = Arc::new(Mutex::new(store));
        let mut family = Family {
            options,
            asked: Requested::default(),
            locks: FileLocks::default(),
            index: WalIndex::default(),
            memory: Memory::new(base, options.memory_of_writes() as usize),
            store,
            pages: None,
            page_size: 0,
            view: HashMap::new(),
            length: if is_in_place {
                length
            } else {
                u64::from(size) * page_size as u64
            },
            journal: None,
            wal: None,
            working: BTreeSet::new(),
            pending: BTreeMap::new(),
            pending_bytes: 0,
            size,
            oldest: None,
            wal_taken: 0,
            wal_sum: [0; 2],
            wal_commit: None,
            last_checkpoint: now,
            now,
        };
        if page_size > 0 {
            family.use_page_size(page_size)?;
        }
        if options.log == LogKind::Wal && family.store.lock().kind() == LogKind::Deltas {
            if !is_in_place {
                family.checkpoint()?;
            }
            family.store.lock().use_wal()?;
        }
        Ok(family)
    }

    fn use_page_size(&mut self, page_size: usize) -> Answer<()> {
        self.page_size = page_size;
        let memory = self.options.memory - self.options.memory_of_writes();
        self.pages = Some(Pages::new(&self.store, page_size, memory)?);
        Ok(())
    }

    fn pages(&self) -> Answer<&Pages> {
        self.pages.as_ref().ok_or(Code::IO)
    }

    /// Calls `with` with a page as of the last epoch.
    fn durable<R>(&self, page: u32, with: impl FnOnce(&[u8]) -> R) -> Answer<R> {
        if page > self.store.lock().size() {
            return Ok(with(&vec![0; self.page_size]));
        }
        self.pages()?.read(page, with)
    }

    // The main file.

    /// The length of the main file that SQLite sees.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Reads the main file, zeros beyond the end, and returns true if all bytes were there.
    pub(crate) fn read_main(&self, at: u64, into: &mut [u8]) -> Answer<bool> {
        let there = self.length.saturating_sub(at).min(into.len() as u64) as usize;
        into[there..].fill(0);
        if self.page_size == 0 {
            self.store.lock().read_in_place(at, &mut into[..there])?;
            return Ok(there == into.len());
        }
        let mut done = 0;
        while done < there {
            let (page, within) = self.page_of(at + done as u64);
            let count = (self.page_size - within).min(there - done);
            let target = &mut into[done..done + count];
            self.read_view(page, |bytes| {
                target.copy_from_slice(&bytes[within..within + count])
            })?;
            done += count;
        }
        Ok(there == into.len())
    }

    fn page_of(&self, at: u64) -> (u32, usize) {
        let size = self.page_size as u64;
        ((at / size) as u32 + 1, (at % size) as usize)
    }

    fn read_view<R>(&self, page: u32, with: impl FnOnce(&[u8]) -> R) -> Answer<R> {
        match self.view.get(&page) {
            Some(image) => Ok(with(&image.bytes()?)),
            None => self.durable(page, with),
        }
    }

    /// Writes to the main file: as part of a transaction, or of a checkpoint of SQLite's, which copies what is committed
    /// already.
    pub(crate) fn write_main(&mut self, at: u64, bytes: &[u8], is_checkpoint: bool) -> Answer<()> {
        self.asked.main += bytes.len() as u64;
        let count = bytes.len();
        let is_new = self.length == 0 && self.pending.is_empty() && self.store.lock().is_in_place();
        if self.page_size == 0 || (is_new && count != self.page_size && is_page_size(count)) {
            let page_size = if is_page_size(count) {
                count
            } else {
                USUAL_PAGE
            };
            self.store.lock().set_page_size(page_size)?;
            self.use_page_size(page_size)?;
            self.view.clear();
        }
        let mut done = 0;
        while done < count {
            let (page, within) = self.page_of(at + done as u64);
            let part = &bytes[done..count.min(done + self.page_size - within)];
            let image = match part.len() == self.page_size {
                true => self.memory.store(part)?,
                false => {
                    let mut whole = self.read_view(page, <[u8]>::to_vec)?;
                    whole[within..within + part.len()].copy_from_slice(part);
                    self.memory.store(&whole)?
                }
            };
            self.set_view(page, image, is_checkpoint)?;
            done += part.len();
        }
        self.length = self.length.max(at + count as u64);
        Ok(())
    }

    fn set_view(&mut self, page: u32, image: Image, is_checkpoint: bool) -> Answer<()> {
        if !is_checkpoint {
            self.working.insert(page);
            self.view.insert(page, Arc::new(image));
            return Ok(());
        }
        // Most copies are the last committed version, which need not be stored twice.
        match self.pending.get(&page) {
            Some(pending) if pending.bytes()? == image.bytes()? => {
                self.view.insert(page, Arc::clone(pending));
            }
            None if self.durable(page, |bytes| image.bytes().map(|new| *new == *bytes))?? => {
                self.view.remove(&page);
            }
            _ => {
                self.view.insert(page, Arc::new(image));
            }
        }
        Ok(())
    }

    /// Cuts the main file off. Should it grow again, SQLite never reads a page there that it has not written.
    pub(crate) fn truncate_main(&mut self, length: u64) {
        if length < self.length && self.page_size > 0 {
            let left = length.div_ceil(self.page_size as u64) as u32;
            self.view.retain(|page, _| *page <= left);
            self.working.retain(|page| *page <= left);
        }
        self.length = length;
    }

    /// The size of pages that page 1 has from now on, if that is another one: VACUUM has written the database anew, in
    /// pieces of the old size.
    fn new_page_size(&self) -> Answer<Option<usize>> {
        if !self.working.contains(&1) {
            return Ok(None);
        }
        self.read_view(1, |page| {
            let size = usize::from(page[16]) << 8 | usize::from(page[17]) << 16;
            let is_plain = page.starts_with(b"SQLite format 3\0");
            (is_plain && is_page_size(size) && size != self.page_size).then_some(size)
        })
    }

    /// Cuts the database of a transaction that has written all of it into pages of another size.
    fn change_page_size(&mut self, page_size: usize) -> Answer<()> {
        let size = self.length.div_ceil(page_size as u64) as u32;
        let mut pages = BTreeMap::new();
        let mut bytes = vec![0; page_size];
        for page in 1..=size {
            self.read_main(u64::from(page - 1) * page_size as u64, &mut bytes)?;
            pages.insert(page, Arc::new(self.memory.store(&bytes)?));
        }
        // What was committed before has pages of the old size, and goes in place first.
        self.checkpoint()?;
        self.store.lock().set_page_size(page_size)?;
        self.use_page_size(page_size)?;
        self.working = pages.keys().copied().collect();
        self.view = pages.into_iter().collect();
        Ok(())
    }

    // SQLite's WAL.

    /// Writes to SQLite's WAL.
    pub(crate) fn write_wal(&mut self, at: u64, bytes: &[u8]) -> Answer<()> {
        self.asked.wal += bytes.len() as u64;
        if at == 0 {
            self.wal_begins_anew()?;
        }
        let frame = wal_log::FRAME + self.page_size_of_wal()? as u64;
        let is_frame_header = bytes.len() as u64 == wal_log::FRAME
            && at >= wal_log::HEADER
            && (at - wal_log::HEADER).is_multiple_of(frame);
        if is_frame_header {
            let size = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            if size != 0 {
                self.wal_commit = Some((((at - wal_log::HEADER) / frame) as u32 + 1, size));
            }
        }
        match &mut self.wal {
            Some(wal) => wal.write(at, bytes),
            None => Err(Code::IO),
        }
    }

    fn page_size_of_wal(&self) -> Answer<usize> {
        let mut field = [0; 4];
        if let Some(wal) = &self.wal {
            wal.read(8, &mut field)?;
        }
        let size = u32::from_be_bytes(field) as usize;
        Ok(if is_page_size(size) { size } else { USUAL_PAGE })
    }

    /// SQLite's WAL begins anew: all of it is in the main file.
    pub(crate) fn wal_begins_anew(&mut self) -> Answer<()> {
        self.wal_taken = 0;
        self.wal_commit = None;
        self.checkpoint_if_due()
    }

    /// A writer begins: what a transaction that failed has left behind is no commit.
    pub(crate) fn wal_writer_begins(&mut self) -> Answer<()> {
        self.wal_commit = None;
        self.retry()
    }

    /// SQLite deletes its WAL.
    pub(crate) fn wal_is_gone(&mut self) -> Answer<()> {
        self.wal = None;
        self.wal_begins_anew()
    }

    /// Takes the frames of a commit in SQLite's WAL; false if a VFS above holds them back.
    fn take_wal(&mut self, last: u32, size: u32) -> Answer<bool> {
        let page_size = self.page_size_of_wal()?;
        if self.page_size == 0 {
            self.store.lock().set_page_size(page_size)?;
            self.use_page_size(page_size)?;
        }
        let Some(wal) = &self.wal else {
            return Ok(false);
        };
        let mut header = [0; wal_log::HEADER as usize];
        wal.read(0, &mut header)?;
        let is_big_endian = header[3] & 1 == 1;
        let mut sum = match self.wal_taken {
            0 => [be32(&header, 24), be32(&header, 28)],
            _ => self.wal_sum,
        };
        let mut frame = vec![0; wal_log::FRAME as usize + page_size];
        let mut taken = Vec::new();
        for index in self.wal_taken..last {
            let at = wal_log::HEADER + u64::from(index) * frame.len() as u64;
            if !wal.read(at, &mut frame)? {
                return Ok(false);
            }
            sum = frame_checksum(sum, &frame[..8], is_big_endian);
            sum = frame_checksum(sum, &frame[wal_log::FRAME as usize..], is_big_endian);
            if sum != [be32(&frame, 16), be32(&frame, 20)] || frame[8..16] != header[16..24] {
                return Ok(false);
            }
            let image = self.memory.store(&frame[wal_log::FRAME as usize..])?;
            taken.push((be32(&frame, 0), image));
        }
        for (page, image) in taken {
            self.set_pending(page, Arc::new(image));
        }
        self.wal_taken = last;
        self.wal_sum = sum;
        self.size = size;
        Ok(true)
    }

    fn set_pending(&mut self, page: u32, image: Arc<Image>) {
        self.pending_bytes += image.length() as u64;
        if let Some(before) = self.pending.insert(page, image) {
            self.pending_bytes -= before.length() as u64;
        }
    }

    // Commits.

    /// SQLite has committed, as it says, or lets go of the lock of a writer: then only the main file may have changed.
    ///
    /// # Errors
    ///
    /// If the window is 0, or memory is full, and the epoch cannot be made durable.
    pub(crate) fn commit(&mut self, is_announced: bool) -> Answer<()> {
        let mut has_changed = false;
        if let Some((last, size)) = self.wal_commit.take_if(|_| is_announced) {
            has_changed |= last > self.wal_taken && self.take_wal(last, size)?;
        }
        has_changed |= self.take_main()?;
        if has_changed {
            self.asked.commits += 1;
            let size = self.size;
            let (pending, bytes) = (&mut self.pending, &mut self.pending_bytes);
            pending.retain(|page, image| {
                let stays = *page <= size;
                *bytes -= if stays { 0 } else { image.length() as u64 };
                stays
            });
            self.oldest.get_or_insert(self.now);
            if self.options.window == 0.0 || self.memory_is_short() {
                self.epoch()?;
            }
        }
        if self.wal.is_none() {
            self.checkpoint_if_due()
        } else {
            Ok(())
        }
    }

    /// An epoch makes room when the pages since the last one take much of the memory. It does not where SQLite's own WAL
    /// or a transaction takes it.
    fn memory_is_short(&self) -> bool {
        let limit = self.memory.limit() as u64;
        let is_full = self.memory.used() as u64 > limit - limit / 8;
        self.pending_bytes > limit / 2 || (is_full && self.pending_bytes > limit / 8)
    }

    fn take_main(&mut self) -> Answer<bool> {
        if self.page_size == 0 {
            return Ok(false);
        }
        if let Some(page_size) = self.new_page_size()? {
            self.change_page_size(page_size)?;
        }
        let pages = self.length.div_ceil(self.page_size as u64) as u32;
        if self.working.is_empty() && (self.wal.is_some() || pages == self.size) {
            return Ok(false);
        }
        self.size = pages;
        for page in std::mem::take(&mut self.working) {
            if let Some(image) = self.view.get(&page).cloned() {
                self.set_pending(page, image);
            }
        }
        Ok(true)
    }

    /// True if SQLite's journal would roll a transaction back.
    pub(crate) fn has_hot_journal(&self) -> Answer<bool> {
        let mut magic = [0; 8];
        match &self.journal {
            Some(journal) => Ok(journal.read(0, &mut magic)? && magic != [0; 8]),
            None => Ok(false),
        }
    }

    // Epochs.

    /// When the next epoch is due, in seconds.
    pub(crate) fn due(&self) -> Option<f64> {
        self.oldest.map(|oldest| oldest + self.options.window)
    }

    /// Makes an epoch if the window is over.
    pub(crate) fn epoch_if_due(&mut self) -> Answer<()> {
        if self.due().is_some_and(|due| due <= self.now) {
            self.epoch()?;
        }
        Ok(())
    }

    /// Tries an epoch again that is late because it failed: a writer waits for it.
    pub(crate) fn retry(&mut self) -> Answer<()> {
        let is_late = self.due().is_some_and(|due| due < self.now) || self.options.window == 0.0;
        if is_late { self.epoch() } else { Ok(()) }
    }

    /// Makes everything committed durable.
    ///
    /// # Errors
    ///
    /// Then nothing has changed, and the next attempt writes all of it again.
    pub(crate) fn epoch(&mut self) -> Answer<()> {
        if self.oldest.is_none() {
            return Ok(());
        }
        let before = self.store.lock().size();
        let written = match self.store.lock().kind() {
            LogKind::Deltas
                if before == 0
                    || self.pending_bytes > LONGEST_RECORD.min(self.options.log_limit) =>
            {
                None
            }
            LogKind::Deltas => Some(true),
            LogKind::Wal => Some(false),
        };
        match written {
            Some(true) => self.epoch_of_deltas()?,
            Some(false) => self.epoch_of_pages()?,
            None => self.epoch_in_place()?,
        }
        self.oldest = None;
        self.settle(before)
    }

    fn epoch_of_deltas(&mut self) -> Answer<()> {
        let mut draft = Draft::new();
        let before = self.store.lock().size();
        for (page, image) in &self.pending {
            let new = image.bytes()?;
            if *page > before || self.store.lock().wants_whole(*page) {
                draft.add(*page, None, &new);
            } else {
                self.durable(*page, |old| draft.add(*page, Some(old), &new))?;
            }
        }
        if draft.is_empty() && self.size == before {
            return Ok(());
        }
        self.store.lock().append_deltas(draft, self.size)
    }

    fn epoch_of_pages(&mut self) -> Answer<()> {
        let mut changed = Vec::new();
        for (page, image) in &self.pending {
            let new = image.bytes()?;
            if self.durable(*page, |old| *old != *new)? {
                changed.push(*page);
            }
        }
        if changed.is_empty() && self.size == self.store.lock().size() {
            return Ok(());
        }
        self.log_pages(&changed, true)?;
        self.store.lock().written.epochs += 1;
        Ok(())
    }

    /// Logs pages, as they are committed, as one commit of `-wal`.
    fn log_pages(&self, pages: &[u32], has_deltas: bool) -> Answer<()> {
        // Where only the length changed any page will do.
        let pages = if pages.is_empty() { &[1][..] } else { pages };
        self.store.lock().begin_wal(has_deltas)?;
        for (index, page) in pages.iter().enumerate() {
            let size = if index + 1 == pages.len() {
                self.size
            } else {
                0
            };
            match self.pending.get(page) {
                Some(image) => self.store.lock().append_wal(*page, &image.bytes()?, size)?,
                None => {
                    let image = self.durable(*page, <[u8]>::to_vec)?;
                    self.store.lock().append_wal(*page, &image, size)?;
                }
            }
        }
        self.store.lock().commit_wal(self.size)
    }

    /// An epoch too large for a record, or the first one of a database: it goes to `-wal`, and from there in place.
    fn epoch_in_place(&mut self) -> Answer<()> {
        if !self.store.lock().is_in_place() {
            self.bring_in_place()?;
        }
        let pages: Vec<u32> = self.pending.keys().copied().collect();
        self.log_pages(&pages, false)?;
        self.store.lock().committed_without_deltas();
        let placed = self.store.lock().place();
        if let Err(error) = placed {
            // The epoch is durable; the next one brings it in place first.
            tracing::warn!(%error, "an epoch cannot be brought in place");
        }
        Ok(())
    }

    /// After an epoch: the pool has what was pending, and the view what differs from the pool now.
    fn settle(&mut self, before: u32) -> Answer<()> {
        let view_pages = match self.page_size {
            0 => 0,
            size => self.length.div_ceil(size as u64) as u32,
        };
        // What SQLite's main file still shows of the pages that change now.
        let lagging: Vec<u32> = match self.wal {
            Some(_) => self.lagging_pages(before, view_pages),
            None => Vec::new(),
        };
        for page in lagging {
            let old = self
                .pages()?
                .read(page, |bytes| self.memory.store(bytes))??;
            self.view.insert(page, Arc::new(old));
        }
        self.pages()?.note_epoch();
        for page in before.saturating_add(1)..=self.size {
            if !self.pending.contains_key(&page) {
                // The pool may have the page as it was before the database was cut off; now it is zeros.
                self.pages()?.forget(page)?;
            }
        }
        for (page, image) in std::mem::take(&mut self.pending) {
            let bytes = image.bytes()?;
            let replaced = self.pages()?.replace(page, &bytes);
            if replaced.is_err() {
                self.pages()?.forget(page)?;
            }
            if self
                .view
                .get(&page)
                .is_some_and(|shown| Arc::ptr_eq(shown, &image))
            {
                self.view.remove(&page);
            }
        }
        self.pending_bytes = 0;
        Ok(())
    }

    /// Pages that differ from the pool from now on, because SQLite's main file does not have the commits of its WAL yet.
    fn lagging_pages(&self, before: u32, view_pages: u32) -> Vec<u32> {
        let is_shown =
            |page: &u32| *page <= view_pages.min(before) && !self.view.contains_key(page);
        let cut_off = self.size.saturating_add(1)..=before;
        let changed = self.pending.keys().copied();
        changed.chain(cut_off).filter(is_shown).collect()
    }

    // Checkpoints.

    /// Brings the logs in place if they are long or old.
    pub(crate) fn checkpoint_if_due(&mut self) -> Answer<()> {
        let (bytes, is_in_place) = {
            let store = self.store.lock();
            (store.log_bytes(), store.is_in_place())
        };
        let is_old = self.now - self.last_checkpoint >= self.options.checkpoint_age;
        if !is_in_place && (bytes > self.options.log_limit || is_old) {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Makes everything committed durable, and brings it in place.
    pub(crate) fn checkpoint(&mut self) -> Answer<()> {
        self.epoch()?;
        if !self.store.lock().is_in_place() {
            self.bring_in_place()?;
        }
        Ok(())
    }

    fn bring_in_place(&mut self) -> Answer<()> {
        let pages = self.store.lock().pages_of_deltas();
        let is_deltas = self.store.lock().kind() == LogKind::Deltas;
        if !pages.is_empty() || is_deltas {
            let end = self.store.lock().end_in_place()?;
            let (pages, beyond) = pages.split_at(pages.partition_point(|page| *page <= end));
            self.append_durable_pages(beyond)?;
            self.log_durable_pages(pages)?;
        }
        self.store.lock().place()?;
        self.last_checkpoint = self.now;
        self.pages()?.note_checkpoint()
    }

    /// Writes pages beyond the end of the database in place, as of the last epoch: no crash leaves a version behind that
    /// has them, until `-wal` has a commit with the new size.
    fn append_durable_pages(&self, pages: &[u32]) -> Answer<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let mut run = Run::default();
        for page in pages {
            let image = self.pages()?.read(*page, <[u8]>::to_vec)?;
            self.store.lock().place_page(&mut run, *page, &image)?;
        }
        self.store.lock().end_run(&mut run)
    }

    /// Logs pages, as of the last epoch, as one commit of `-wal`.
    fn log_durable_pages(&self, pages: &[u32]) -> Answer<()> {
        let pages = if pages.is_empty() { &[1][..] } else { pages };
        let size = self.store.lock().size();
        self.store.lock().begin_wal(true)?;
        for (index, page) in pages.iter().enumerate() {
            let image = self.pages()?.read(*page, <[u8]>::to_vec)?;
            let last = if index + 1 == pages.len() { size } else { 0 };
            self.store.lock().append_wal(*page, &image, last)?;
        }
        self.store.lock().commit_wal(size)
    }

    /// The last handle goes: leaves a plain database behind.
    pub(crate) fn leave(&mut self) -> Answer<()> {
        let left = self.checkpoint().and_then(|()| self.store.lock().leave());
        if left.is_err() {
            self.store.lock().abandon();
        }
        left
    }

    /// Frames of the pool, its hits and its misses.
    pub(crate) fn pool_figures(&self) -> (u32, u64, u64) {
        match &self.pages {
            Some(pages) => {
                let (hits, misses) = pages.hits_and_misses();
                (pages.frames(), hits, misses)
            }
            None => (0, 0, 0),
        }
    }

    /// The number of pages of the database that SQLite sees, and their size in bytes.
    pub(crate) fn extent(&self) -> (u32, usize) {
        (self.size, self.page_size)
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The two ways of opening a database fail differently: see [`Store::take_over`].
pub(crate) fn take_over(
    base: BaseVfs,
    path: &str,
    database: BaseFile,
    options: Options,
    random: u64,
    now: f64,
) -> Result<Family, (Option<BaseFile>, Code)> {
    let mut store = Store::take_over(base, path, options.log, database, random)
        .map_err(|(database, error)| (Some(database), error))?;
    let length = store.length_in_place().map_err(|error| (None, error))?;
    Family::new(base, store, length, options, now).map_err(|error| (None, error))
}
