//! Commits: what SQLite has written to its WAL or to the main file becomes pending.
//!
//! A transaction is *prepared* while SQLite can still roll it back: when the last frame of its commit is in the WAL, or when
//! SQLite syncs the main file, before it lets go of the journal. Then the disk has the transaction, or room for it, or SQLite
//! gets an error. It is *taken* when it is committed: when the writer of the WAL lets go of its lock, or the one of the main
//! file. That cannot fail.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::epoch::Waiting;
use super::phase::{MainEvent, MainPhase, WalPhase};
use super::taken_back::{Before, LastCommit};
use super::{DatabaseState, USUAL_PAGE};
use crate::code::{SqliteCode, SqliteResult};
use crate::delta_log::is_page_size;
use crate::health::HealthNote;
use crate::memory::{Image, VirtualFile};
use crate::store::{DurableFiles, LONGEST_RECORD};
use crate::wal_log::{self, WalCursor, WalFrame};

/// Bytes that the header of a page takes in either log, at most.
const PAGE_HEADER: u64 = 32;
/// Bytes that an epoch takes beside its pages, at most.
const EPOCH_HEADER: u64 = 4096;

/// A transaction that is complete.
pub(crate) struct Transaction {
    pub(super) pages: BTreeMap<u32, Arc<Image>>,
    pub(super) bytes: u64,
    /// The size of the database in pages after it.
    pub(super) size: u32,
    /// The position in SQLite's WAL behind it.
    pub(super) taken: Option<WalCursor>,
    /// What was committed before it.
    pub(super) before: Before,
}

impl DatabaseState {
    /// Writes to SQLite's WAL. Returns true if that completes a commit.
    pub(crate) fn write_wal(&mut self, at: u64, bytes: &[u8]) -> SqliteResult<bool> {
        self.asked.wal += bytes.len() as u64;
        if at == 0 {
            self.wal_begins_anew();
            // No reader uses the frames of the generation before (SQLite's file format, 4.4): they make room. The length
            // stays, because `PRAGMA journal_size_limit` looks at it.
            let page_size = bytes.get(8..12).map_or(0, |_| wal_log::be32(bytes, 8) as usize);
            if let Some(wal) = &mut self.wal {
                match is_page_size(page_size) {
                    true => wal.use_frames(page_size),
                    false => wal.zero(),
                }
            }
        }
        let is_complete = self.note_frame(at, bytes)?;
        let wal = self.wal.as_mut().ok_or(SqliteCode::IO)?;
        if bytes.len() as u64 == wal_log::FRAME {
            // SQLite writes headers of a transaction anew that have their checksums already (`wal_transaction`). The pieces of the
            // WAL are shared with the transaction by then, and a write would copy them.
            let mut there = [0; wal_log::FRAME as usize];
            if wal.read(at, &mut there)? && there == *bytes {
                return Ok(is_complete);
            }
        }
        wal.write(at, bytes).map(|()| is_complete)
    }

    /// Notes a part of a frame; true if it is the last one of a commit. That is the content of the commit frame: SQLite (wal.c:
    /// `walFrames`) has given earlier frames another content before, and writes only headers anew afterwards.
    fn note_frame(&mut self, at: u64, bytes: &[u8]) -> SqliteResult<bool> {
        let page_size = self.page_size_of_wal()? as u64;
        let Some(behind) = at.checked_sub(wal_log::HEADER) else {
            return Ok(false);
        };
        let frame = wal_log::FRAME + page_size;
        let (index, within) = ((behind / frame) as u32 + 1, behind % frame);
        let is_last = self.in_wal.phase.announced().is_some_and(|(last, _)| last == index);
        if within == wal_log::FRAME && bytes.len() as u64 == page_size {
            self.note_content(u64::from(index));
            return Ok(is_last);
        }
        if within == 0 && bytes.len() as u64 == wal_log::FRAME {
            self.note_header(u64::from(index));
            match wal_log::be32(bytes, 4) {
                // Another transaction has the frame of one that was rolled back.
                0 if is_last => self.in_wal.phase.announce(None),
                0 => {}
                size => self.in_wal.phase.announce(Some((index, size))),
            }
        }
        Ok(false)
    }

    pub(super) fn page_size_of_wal(&self) -> SqliteResult<usize> {
        let mut field = [0; 4];
        if let Some(wal) = &self.wal {
            wal.read(8, &mut field)?;
        }
        let size = u32::from_be_bytes(field) as usize;
        Ok(if is_page_size(size) { size } else { USUAL_PAGE })
    }

    /// SQLite's WAL begins anew: all of it is in the main file.
    pub(crate) fn wal_begins_anew(&mut self) {
        self.compare_with_main();
        self.forget_frames();
        self.in_wal.taken = None;
        self.in_wal.phase.settle();
    }

    /// SQLite deletes its WAL.
    pub(crate) fn wal_is_gone(&mut self) {
        self.wal_begins_anew();
        self.wal = None;
    }

    /// A writer of SQLite's WAL begins: what a transaction that failed has left behind is no commit.
    pub(crate) fn wal_writer_begins(&mut self) {
        self.wal_writer_ends();
        self.in_wal.phase.settle();
        self.memory.lend(self.index.has_one_reader());
    }

    /// A writer of SQLite's WAL ends, and still has its lock: what the index has by now is committed. SQLite says so
    /// (`COMMIT_PHASETWO`) only after it has let go of the lock, when another writer may have begun.
    pub(crate) fn wal_writer_ends(&mut self) {
        let committed = self.index.last_frame();
        self.take_prepared(|last| committed.is_some_and(|committed| last <= committed));
        if committed.is_some() {
            self.prepared_is_settled();
        }
        self.take_missed();
    }

    /// SQLite says that a transaction is committed. Where a connection has the WAL to itself, and its index in its own memory,
    /// this is the only sign.
    pub(crate) fn wal_is_committed(&mut self) {
        self.take_prepared_if_committed();
        self.take_missed();
    }

    /// Takes commits that the index of the WAL has, although no write has completed them: a VFS above has changed the order of writes.
    /// Where the WAL does not have them either, no further one is acknowledged, and `status` says so.
    fn take_missed(&mut self) {
        let taken = self.in_wal.taken.as_ref().map_or(0, |taken| taken.frames);
        let committed = self.index.last_frame();
        let Some(committed) = committed.filter(|last| *last > taken && self.in_wal.phase.last().is_none()) else {
            return;
        };
        match self.wal_up_to(committed) {
            Ok(Some(transaction)) if transaction.size > 0 => {
                self.in_wal.phase.settle();
                self.take(transaction);
            }
            found => {
                let why = match found {
                    Ok(_) => "frames are not in the WAL".to_owned(),
                    Err(code) => code.to_string(),
                };
                self.miss_commit(&why);
            }
        }
    }

    /// From here on the log differs from what SQLite has committed: no further commit is acknowledged.
    pub(super) fn miss_commit(&mut self, why: &str) {
        tracing::error!(%why, "a commit is not known to the log");
        if !self.in_wal.has_missed {
            let text = format!("a commit is not known to the log: {why}");
            self.notes.last_error = Some(HealthNote::now(text));
        }
        self.in_wal.has_missed = true;
    }

    /// True if SQLite has committed what is not in its WAL, so that what it commits later cannot be durable.
    pub(crate) fn has_missed_commit(&self) -> bool {
        self.in_wal.has_missed
    }

    /// Takes what was prepared, unless the index of the WAL says that it is not committed.
    pub(super) fn take_prepared_if_committed(&mut self) {
        let committed = self.index.last_frame();
        self.take_prepared(|last| committed.is_none_or(|committed| last <= committed));
    }

    pub(super) fn take_prepared(&mut self, is_committed: impl Fn(u64) -> bool) {
        if !self.in_wal.phase.last().is_some_and(is_committed) {
            return;
        }
        match self.in_wal.phase.settle() {
            WalPhase::Prepared { transaction, .. } => self.take(transaction),
            WalPhase::Logged { .. } => self.asked.commits += 1,
            WalPhase::Idle | WalPhase::Announced(_) => {}
        }
    }

    /// The transaction that the commit frame in SQLite's WAL completes; `None` if there is none, or a VFS above holds frames
    /// back.
    pub(crate) fn wal_transaction(&mut self, store: Option<&mut DurableFiles>) -> SqliteResult<Option<Transaction>> {
        let Some((last, size)) = self.in_wal.phase.announced() else {
            return Ok(None);
        };
        let page_size = self.page_size_of_wal()?;
        if self.page_size == 0 {
            let store = store.ok_or(SqliteCode::IO)?;
            store.set_page_size(page_size)?;
            self.use_page_size(page_size)?;
        }
        let transaction = self.wal_up_to(u64::from(last))?;
        Ok(transaction.filter(|transaction| transaction.size == size))
    }

    /// What SQLite's WAL has behind the last commit that was taken, up to a commit frame; `None` if it is not all there.
    fn wal_up_to(&mut self, last: u64) -> SqliteResult<Option<Transaction>> {
        let page_size = self.page_size_of_wal()?;
        if page_size != self.page_size {
            // SQLite takes no such WAL in: a test has put it there.
            return Err(SqliteCode::IO);
        }
        let Some(wal) = &mut self.wal else {
            return Ok(None);
        };
        let mut cursor = match &self.in_wal.taken {
            Some(taken) => taken.clone(),
            None => {
                let mut header = [0; wal_log::HEADER as usize];
                wal.read(0, &mut header)?;
                let Some(cursor) = WalCursor::begin(&header) else {
                    return Ok(None);
                };
                cursor
            }
        };
        let Some(frames) = complete_frames(wal, &mut cursor, last)? else {
            return Ok(None);
        };
        let Some(size) = frames.last().map(|(frame, _)| frame.size) else {
            return Ok(None);
        };
        let mut pages = BTreeMap::new();
        for (frame, at) in frames.iter().filter(|(frame, _)| frame.page <= size) {
            pages.insert(frame.page, Arc::new(wal.image(*at, page_size)?));
        }
        Ok(Some(Transaction { bytes: bytes_of(&pages), pages, size, taken: Some(cursor), before: self.before() }))
    }

    /// True if a transaction in SQLite's WAL needs the page size set first, which is the store's.
    pub(crate) fn wal_needs_store(&self) -> bool {
        self.page_size == 0
    }

    /// Makes the commit frame invalid of a transaction that was refused: who makes the index of the WAL anew must not find it.
    pub(crate) fn refuse_wal(&mut self) -> SqliteResult<()> {
        let frame = wal_log::FRAME + self.page_size_of_wal()? as u64;
        let refused = self.in_wal.phase.announced();
        self.in_wal.phase.announce(None);
        if let (Some((last, _)), Some(wal)) = (refused, &mut self.wal) {
            let at = wal_log::HEADER + u64::from(last - 1) * frame;
            wal.write(at, &[0; wal_log::FRAME as usize])?;
        }
        Ok(())
    }

    /// Notes a transaction in SQLite's WAL that its writer may commit.
    pub(crate) fn prepare_wal(&mut self, transaction: Transaction, is_durable: bool) {
        if is_durable {
            self.in_wal.last = LastCommit::from_transaction(&transaction);
        }
        self.in_wal.phase.complete(transaction, is_durable);
    }

    /// The transaction that SQLite has written to the main file; `None` if it has changed nothing.
    pub(crate) fn main_transaction(&self) -> SqliteResult<Option<Transaction>> {
        if self.page_size == 0 {
            return Ok(None);
        }
        let mut size = self.main.length.div_ceil(self.page_size as u64) as u32;
        if self.main.working.is_empty() && (self.wal.is_some() || size == self.commits.size) {
            return Ok(None);
        }
        if let Some(shorter) = self.size_of_header()? {
            // SQLite cuts the file off when it has committed.
            size = size.min(shorter);
        }
        let mut pages = BTreeMap::new();
        for page in self.main.working.iter().filter(|page| **page <= size) {
            if let Some(image) = self.main.view.get(page) {
                pages.insert(*page, Arc::clone(image));
            }
        }
        Ok(Some(Transaction { bytes: bytes_of(&pages), pages, size, taken: None, before: self.before() }))
    }

    /// The transaction that SQLite has written to the main file and may still undo. Should it have cut the database off, the pages
    /// behind the new end stay until it has committed: SQLite has no copy of them in its journal.
    pub(crate) fn main_transaction_in_doubt(&self) -> SqliteResult<Option<Transaction>> {
        let transaction = self.main_transaction()?;
        Ok(transaction.map(|transaction| Transaction { size: transaction.size.max(self.commits.size), ..transaction }))
    }

    /// The size in pages that a transaction has written into page 1.
    fn size_of_header(&self) -> SqliteResult<Option<u32>> {
        match self.main.view.get(&1).filter(|_| self.main.working.contains(&1)) {
            Some(first) => {
                let first = first.bytes()?;
                let is_plain = first.starts_with(b"SQLite format 3\0");
                let is_valid = is_plain && first[24..28] == first[92..96];
                let size = wal_log::be32(&first, 28);
                Ok(Some(size).filter(|size| is_valid && *size > 0))
            }
            None => Ok(None),
        }
    }

    /// Takes the transaction that SQLite has committed in the main file, or has undone. Returns true if it has changed something.
    pub(crate) fn take_main(&mut self) -> SqliteResult<bool> {
        let Some(transaction) = self.main_transaction()? else {
            return Ok(false);
        };
        self.main.working.clear();
        self.main.has_committed_under_lock = true;
        self.take(transaction);
        Ok(true)
    }

    /// Notes that an epoch has the transaction in the main file.
    pub(super) fn main_is_durable(&mut self) {
        self.main.working.clear();
        self.main.has_committed_under_lock = true;
        self.asked.commits += 1;
    }

    /// Something happens to the transaction in the main file. Returns the phase before.
    pub(crate) fn main_is(&mut self, event: MainEvent) -> MainPhase {
        let before = self.main.phase;
        self.main.phase = before.after(event);
        before
    }

    /// SQLite changes its journal: it begins a transaction, goes on with it, or has ended one. Behind the sync of a transaction that
    /// an epoch has, that is its end, and what SQLite has written since is its rollback. With an exclusive lock there is no other
    /// sign of that, and the next transaction would be rolled back to what SQLite has undone.
    pub(crate) fn journal_changes(&mut self) -> SqliteResult<()> {
        self.main.journal_was_read = false;
        match self.main_is(MainEvent::Journal) {
            MainPhase::Logged => self.take_main().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Where SQLite has rolled back what it has written to the main file, and an epoch of that has failed, makes what the main file
    /// has what is committed; false if SQLite has not rolled back. `before` is the phase before the sync: behind that of a
    /// transaction which is in doubt, this is the sync of its rollback, if there is a journal.
    pub(crate) fn undo_main(&mut self, before: MainPhase) -> SqliteResult<bool> {
        let is_rolled_back = match (before, self.has_hot_journal()?) {
            // The next epoch takes it back.
            (MainPhase::Logged, true) => return self.take_main().map(|_| true),
            (MainPhase::Synced | MainPhase::Prepared, true) => true,
            // What is durable may be what SQLite has undone.
            (MainPhase::Logged, false) => self.main_is_committed()?,
            (_, _) => self.is_rolled_back()?,
        };
        if is_rolled_back {
            self.restore_main();
        }
        Ok(is_rolled_back)
    }

    /// Has the main file show what is committed. SQLite restores no page that was free before: what those hold is of no use, and
    /// needs no room on the disk.
    fn restore_main(&mut self) {
        for page in std::mem::take(&mut self.main.working) {
            let committed = self.commits.pending.get(&page).or_else(|| self.commits.flying.get(&page));
            match committed {
                Some(image) => self.main.view.insert(page, Arc::clone(image)),
                None => self.main.view.remove(&page),
            };
        }
    }

    /// A commit changes page 1 (SQLite's file format, 1.3.8: the change counter), but for a later one under the same lock, and writes
    /// to its journal last; a rollback restores page 1, and has read the journal.
    fn is_rolled_back(&self) -> SqliteResult<bool> {
        let has_read = self.journal.is_none() || self.main.journal_was_read;
        if !has_read {
            return Ok(false);
        }
        match self.main.working.contains(&1) {
            true => self.is_as_committed(1),
            false if self.main.has_committed_under_lock => self.main_is_committed(),
            false => Ok(true),
        }
    }

    /// True if all that is written to the main file is as it is committed.
    fn main_is_committed(&self) -> SqliteResult<bool> {
        for page in &self.main.working {
            if !self.is_as_committed(*page)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if the main file shows a page as it is committed.
    pub(super) fn is_as_committed(&self, page: u32) -> SqliteResult<bool> {
        let committed = self.commits.pending.get(&page).or_else(|| self.commits.flying.get(&page));
        self.is_shown(page, committed)
    }

    /// Makes a committed transaction pending.
    pub(super) fn take(&mut self, transaction: Transaction) {
        self.in_wal.last = LastCommit::from_transaction(&transaction);
        for (page, image) in transaction.pages {
            self.set_pending(page, image);
        }
        self.commits.size = transaction.size;
        self.in_wal.taken = transaction.taken.or(self.in_wal.taken.take());
        self.asked.commits += 1;
        self.commits.unsaved += 1;
        self.wait_for_epoch();
    }

    /// What is pending, up to the size of the database, waits for an epoch.
    pub(super) fn wait_for_epoch(&mut self) {
        let size = self.commits.size;
        let (pending, bytes) = (&mut self.commits.pending, &mut self.commits.pending_bytes);
        pending.retain(|page, image| {
            let stays = *page <= size;
            *bytes -= if stays { 0 } else { image.length() as u64 };
            stays
        });
        self.commits.waiting = Some(Waiting::with(self.commits.waiting, self.now, self.options.window));
    }

    pub(super) fn set_pending(&mut self, page: u32, image: Arc<Image>) {
        self.commits.pending_bytes += image.length() as u64;
        if let Some(before) = self.commits.pending.insert(page, image) {
            self.commits.pending_bytes -= before.length() as u64;
        }
    }

    /// True if an epoch has to have a transaction before SQLite may commit it: the window is 0, or the pages since the last
    /// epoch take much of the memory. It makes no room where SQLite's own WAL or a transaction takes it.
    pub(crate) fn is_urgent(&self, transaction: &Transaction) -> bool {
        let bytes = self.commits.pending_bytes + transaction.bytes;
        let limit = self.memory.limit() as u64;
        let is_full = self.memory.used() as u64 > limit - limit / 8;
        self.options.window == 0.0
            || bytes > limit / 2
            || (is_full && bytes > limit / 8)
            || bytes > LONGEST_RECORD.min(self.options.log_limit)
    }

    /// Bytes that the logs take at most for all that is committed, and for a transaction.
    pub(crate) fn room_for(&self, transaction: &Transaction) -> u64 {
        let pages = self.commits.flying.len() + self.commits.pending.len() + transaction.pages.len();
        let new = transaction.size.saturating_sub(self.stored.size());
        // One more: the first page of an empty database.
        (pages as u64 + 1) * (self.page_size as u64 + PAGE_HEADER) + u64::from(new) * PAGE_HEADER + EPOCH_HEADER
    }

    /// True if SQLite's journal would roll a transaction back.
    pub(crate) fn has_hot_journal(&self) -> SqliteResult<bool> {
        let mut magic = [0; 8];
        match &self.journal {
            Some(journal) => Ok(journal.read(0, &mut magic)? && magic != [0; 8]),
            None => Ok(false),
        }
    }
}

/// Moves a position in SQLite's WAL behind the last frame of a transaction, and returns its frames and where their contents begin;
/// `None` if one has not been written: a VFS above holds it back.
///
/// The WAL is this process's memory, and needs no checksum to be whole. SQLite 3.40 leaves frames without one where it has rolled
/// back to a savepoint after a frame got another content (wal.c: `sqlite3WalSavepointUndo` kept `iReCksum`), and goes on with those that
/// follow from a sum that is not in the file. They get the right ones: who makes the index of the WAL anew stops at the first other one.
fn complete_frames(wal: &mut VirtualFile, cursor: &mut WalCursor, last: u64) -> SqliteResult<Option<Vec<(WalFrame, u64)>>> {
    let mut bytes = vec![0; cursor.frame_bytes()];
    let mut frames = Vec::new();
    while cursor.frames < last {
        let at = cursor.position();
        if !wal.read(at, &mut bytes)? {
            return Ok(None);
        }
        let header = &bytes[..wal_log::FRAME as usize];
        if header.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let (frame, valid) = cursor.seal(&bytes).ok_or(SqliteCode::IO)?;
        if *header != valid {
            wal.write(at, &valid)?;
        }
        frames.push((frame, at + wal_log::FRAME));
    }
    Ok(Some(frames))
}

fn bytes_of(pages: &BTreeMap<u32, Arc<Image>>) -> u64 {
    pages.values().map(|image| image.length() as u64).sum()
}
