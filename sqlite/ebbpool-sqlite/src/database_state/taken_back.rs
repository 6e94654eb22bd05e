//! Commits that SQLite takes back after the last frame of their WAL.
//!
//! A transaction is prepared, and with a window of 0 durable, when its last frame is written. SQLite may still get an error
//! then: a VFS above fails the sync, or there is no memory for the index of the WAL. Where several connections share that index it
//! says what is committed. A connection that has the WAL to itself (`PRAGMA locking_mode=EXCLUSIVE`) has no lock to let go of, and
//! says `COMMIT_PHASETWO` for transactions without a change too, and not for one whose transaction in an attached database is
//! refused. But the frames say it: SQLite writes the next transaction behind what is committed, and begins the WAL anew only when
//! the main file has all of it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::DatabaseState;
use super::commit::Transaction;
use super::phase::WalPhase;
use crate::code::{SqliteCode, SqliteResult};
use crate::memory::Image;
use crate::wal_log::{self, WalCursor};

/// What was committed before a transaction.
#[derive(Clone)]
pub(super) struct Before {
    /// The position in SQLite's WAL behind it; `None` before the first frame.
    taken: Option<WalCursor>,
    /// The size of the database in pages.
    size: u32,
}

impl Before {
    /// An empty database.
    #[cfg(test)]
    pub(super) fn nothing() -> Before {
        Before { taken: None, size: 0 }
    }
}

/// The last transaction of SQLite's WAL that is pending or durable.
pub(super) struct LastCommit {
    before: Before,
    pages: BTreeSet<u32>,
}

impl LastCommit {
    /// That of a transaction; `None` if it is one of the main file.
    pub(super) fn from_transaction(transaction: &Transaction) -> Option<LastCommit> {
        transaction.taken.as_ref()?;
        let before = transaction.before.clone();
        // Those that it has cut off come back with it.
        let cut_off = transaction.size.saturating_add(1)..=before.size;
        Some(LastCommit { pages: transaction.pages.keys().copied().chain(cut_off).collect(), before })
    }
}

impl DatabaseState {
    /// What is committed now.
    pub(super) fn before(&self) -> Before {
        Before { taken: self.in_wal.taken.clone(), size: self.commits.size }
    }

    /// The header of a frame is written: behind a transaction that was prepared, SQLite has committed that.
    pub(super) fn note_header(&mut self, frame: u64) {
        if self.in_wal.phase.last().is_some_and(|last| last < frame) {
            self.take_prepared_if_committed();
        }
    }

    /// The content of a frame is written: where it is one of a transaction that was complete, SQLite has taken that back.
    pub(super) fn note_content(&mut self, frame: u64) {
        if self.in_wal.phase.last().is_some_and(|last| frame <= last) {
            self.in_wal.phase.overwrite();
        }
        let taken = self.in_wal.taken.as_ref();
        if taken.is_some_and(|taken| frame <= taken.frames) {
            self.take_back(frame);
        }
    }

    /// The writer of the WAL has let go of it, and the index says what is committed: what was prepared and is not taken by now is
    /// not.
    pub(super) fn prepared_is_settled(&mut self) {
        let last = self.in_wal.phase.last();
        match (self.in_wal.phase.overwrite(), last) {
            (WalPhase::Logged { .. }, Some(last)) => self.take_back(last),
            (WalPhase::Prepared { .. }, _) => {}
            (_, _) => self.in_wal.last = None,
        }
    }

    /// Makes what SQLite reads again of the last commit, which has this frame, what is committed.
    fn take_back(&mut self, frame: u64) {
        let frames = |before: &Before| before.taken.as_ref().map_or(0, |taken| taken.frames);
        let last = self.in_wal.last.take();
        let Some(last) = last.filter(|last| frames(&last.before) < frame) else {
            return self.miss_commit("SQLite has taken an earlier one back");
        };
        tracing::warn!("SQLite has taken a commit back after its last frame");
        if let Err(code) = self.restore(&last, frames(&last.before)) {
            self.miss_commit(&format!("one that SQLite has taken back: {code}"));
        }
    }

    fn restore(&mut self, last: &LastCommit, frames: u64) -> SqliteResult<()> {
        let size = last.before.size;
        let in_wal = self.frames_of(&last.pages, frames)?;
        for page in last.pages.range(..=size) {
            let image = match in_wal.get(page) {
                Some(at) => {
                    let wal = self.wal.as_mut().ok_or(SqliteCode::IO)?;
                    Arc::new(wal.image(*at, self.page_size)?)
                }
                None => self.shown(*page)?,
            };
            self.set_pending(*page, image);
        }
        self.commits.size = size;
        self.in_wal.taken = last.before.taken.clone();
        self.forget_frames_after(frames);
        self.wait_for_epoch();
        Ok(())
    }

    /// Where the last of a number of frames begin whose pages are among these.
    fn frames_of(&self, pages: &BTreeSet<u32>, frames: u64) -> SqliteResult<HashMap<u32, u64>> {
        let mut found = HashMap::new();
        let Some(wal) = &self.wal else {
            return Ok(found);
        };
        let mut header = [0; wal_log::FRAME as usize];
        for index in 0..frames {
            let at = wal_log::HEADER + index * (wal_log::FRAME + self.page_size as u64);
            wal.read(at, &mut header)?;
            let page = wal_log::be32(&header, 0);
            if pages.contains(&page) {
                found.insert(page, at + wal_log::FRAME);
            }
        }
        Ok(found)
    }

    /// A page as SQLite's main file shows it.
    fn shown(&self, page: u32) -> SqliteResult<Arc<Image>> {
        match self.main.view.get(&page) {
            Some(image) => Ok(Arc::clone(image)),
            None => Ok(Arc::new(self.durable(page, |bytes| self.memory.store(bytes))??)),
        }
    }

    /// SQLite's WAL ends, or begins anew: all that is committed is in the main file. Where no index has said whether the last
    /// commit is, the main file says it.
    pub(super) fn compare_with_main(&mut self) {
        if self.page_size == 0 {
            return;
        }
        if let WalPhase::Prepared { transaction, .. } = self.in_wal.phase.overwrite() {
            match self.main_has(&transaction) {
                Ok(true) => self.take(transaction),
                Ok(false) => {}
                Err(code) => self.miss_commit(&code.to_string()),
            }
        }
        if let Some(last) = self.in_wal.last.take()
            && let Err(code) = self.take_from_main(&last)
        {
            self.miss_commit(&code.to_string());
        }
    }

    /// True if the main file has all pages of a transaction.
    fn main_has(&self, transaction: &Transaction) -> SqliteResult<bool> {
        let size = u64::from(transaction.size) * self.page_size as u64;
        let mut is_there = self.main.length == size;
        for (page, image) in &transaction.pages {
            is_there = is_there && self.is_shown(*page, Some(image))?;
        }
        Ok(is_there)
    }

    /// True if the main file shows a page as it is in an image, or without one as the last epoch has it.
    pub(super) fn is_shown(&self, page: u32, image: Option<&Arc<Image>>) -> SqliteResult<bool> {
        match (self.main.view.get(&page), image) {
            (None, None) => Ok(true),
            (Some(shown), Some(image)) if Arc::ptr_eq(shown, image) => Ok(true),
            (_, Some(image)) => {
                let bytes = image.bytes()?;
                self.read_view(page, |shown| *shown == *bytes)
            }
            (Some(shown), None) => {
                let shown = shown.bytes()?;
                self.durable(page, |bytes| *bytes == *shown)
            }
        }
    }

    /// Makes the main file's version of the last commit's pages what is committed, where it differs.
    fn take_from_main(&mut self, last: &LastCommit) -> SqliteResult<()> {
        let size = (self.main.length / self.page_size as u64) as u32;
        let mut differs = self.commits.size != size;
        for page in last.pages.range(..=size) {
            if !self.is_as_committed(*page)? {
                let image = self.shown(*page)?;
                self.set_pending(*page, image);
                differs = true;
            }
        }
        if differs {
            tracing::warn!("SQLite has taken a commit back after its last frame");
            self.commits.size = size;
            self.wait_for_epoch();
        }
        Ok(())
    }
}
