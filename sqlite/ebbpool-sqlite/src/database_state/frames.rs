//! Frames of SQLite's WAL whose content need not be in it.
//!
//! While a connection reads, SQLite cannot begin its WAL anew, which grows with each commit. Plain SQLite has it in a file; here
//! it would fill the memory, and then a temporary file, with pages that the log has as well. So once an epoch has a page, the last
//! frame of it that the epoch has stands for the page as the pool has it, and frames that no snapshot shows go. A snapshot is what
//! the index of the WAL had as its last frame when the connection locked its slot as a reader: SQLite looks at the index once
//! more behind that, and begins again if it has changed (wal.c: `walTryBeginRead`). Invariants:
//!
//! 1. Only frames of commits that an epoch has lose their content, and only where SQLite has an index in shared memory.
//! 2. A frame that a snapshot shows, or the next one would, has its content here, or is what the page is as of the last epoch.
//! 3. Who makes the index anew, and reads all frames for that, finds all contents in the WAL, or none.

use std::collections::HashMap;
use std::sync::Arc;

use super::{DatabaseState, PageSource};
use crate::code::{SqliteCode, SqliteResult};
use crate::memory::{Content, ContentAt, Image, VirtualFile};
use crate::store::Flight;
use crate::wal_log::{self, WalCursor};

/// Frames that stay for a snapshot, before it is looked whether they may go.
const LEAST_PINNED: usize = 64;

/// Which frames have which pages.
#[derive(Default)]
pub(crate) struct WalFrames {
    /// The frames of each page that have not gone, in ascending order.
    of_page: HashMap<u32, Vec<u64>>,
    /// Frames before this one are in there.
    noted: u64,
    /// Frames with a later one of the same page that a snapshot has shown when they were looked at last.
    pinned: Vec<(u32, u64)>,
    next_look: usize,
}

impl WalFrames {
    /// True if frames have lost their content.
    fn is_sparse(&self) -> bool {
        self.noted > 0
    }
}

/// A page of the pool that a read of SQLite's WAL has come to.
pub(crate) struct PageInWal {
    /// Bytes that are read before it.
    pub(crate) done: usize,
    pub(crate) page: u32,
    /// The offset in it.
    pub(crate) within: usize,
    pub(crate) source: PageSource,
}

impl DatabaseState {
    /// Reads SQLite's WAL, and returns true if all bytes were there. It stops where the content of a frame is a page of the pool, and
    /// returns which.
    pub(crate) fn read_wal(&self, at: u64, into: &mut [u8]) -> SqliteResult<(bool, Option<PageInWal>)> {
        let Some(wal) = &self.wal else {
            into.fill(0);
            return Ok((false, None));
        };
        let (is_whole, found) = wal.read_up_to_content(at, into)?;
        let Some(ContentAt { done, content, within }) = found else {
            return Ok((is_whole, None));
        };
        match (content, self.pool()) {
            (Content::OfPage(page), Some(pages)) => {
                let stored = Arc::clone(&self.stored);
                let source = PageSource::Pool { pages, moves: stored.moves(), stored };
                Ok((false, Some(PageInWal { done, page, within, source })))
            }
            // Only a snapshot that was taken earlier and opened again (`sqlite3_snapshot_open`) could read one that has gone.
            _ => Err(SqliteCode::IO),
        }
    }

    /// The WAL begins anew.
    pub(super) fn forget_frames(&mut self) {
        self.in_wal.frames = WalFrames::default();
    }

    /// SQLite has taken the frames behind a number back, and writes others over them.
    pub(super) fn forget_frames_after(&mut self, last: u64) {
        let frames = &mut self.in_wal.frames;
        if frames.noted <= last {
            return;
        }
        let Some(wal) = &mut self.wal else {
            return;
        };
        for frame in last + 1..=frames.noted {
            if wal.elsewhere(frame).is_some() {
                // Its page is about to be another one.
                let _ = wal.forget_content(frame, Content::Gone);
            }
        }
        frames.noted = last;
        frames.pinned.retain(|(_, frame)| *frame <= last);
        frames.of_page.retain(|_, list| {
            list.retain(|frame| *frame <= last);
            !list.is_empty()
        });
    }

    /// Pages of which a frame stands for what the flight replaces, while a snapshot shows it.
    pub(crate) fn pages_of_snapshots(&self, flight: &Flight) -> Vec<u32> {
        if !self.in_wal.frames.is_sparse() {
            return Vec::new();
        }
        let is_needed = |page: &u32| self.frame_of_pool(*page).is_some_and(|frame| self.is_shown_to_any(*page, frame));
        let changed = flight.pages.keys().copied().filter(is_needed);
        changed.chain(self.cut_off_by(flight).into_iter().filter(is_needed)).collect()
    }

    /// Pages with frames that an epoch cuts off.
    fn cut_off_by(&self, flight: &Flight) -> Vec<u32> {
        match flight.size < self.stored.size() {
            true => self.in_wal.frames.of_page.keys().copied().filter(|page| *page > flight.size).collect(),
            false => Vec::new(),
        }
    }

    /// The frame that stands for a page of the pool.
    fn frame_of_pool(&self, page: u32) -> Option<u64> {
        let wal = self.wal.as_ref()?;
        let frames = self.in_wal.frames.of_page.get(&page)?;
        frames.iter().rev().copied().find(|frame| wal.elsewhere(*frame) == Some(Content::OfPage(page)))
    }

    /// True if a snapshot shows a frame of a page, or the next one would (invariant 2).
    fn is_shown_to_any(&self, page: u32, frame: u64) -> bool {
        let next = self.in_wal.frames.of_page.get(&page).and_then(|list| list.iter().copied().find(|later| *later > frame));
        self.index.shows(frame, next.unwrap_or(u64::MAX))
    }

    /// Gives frames their contents back that stand for pages which a flight is about to replace; those that no snapshot shows go.
    pub(super) fn keep_for_snapshots(&mut self, flight: &Flight) -> SqliteResult<()> {
        if !self.in_wal.frames.is_sparse() {
            return Ok(());
        }
        for page in flight.pages.keys().copied().chain(self.cut_off_by(flight)) {
            let Some(frame) = self.frame_of_pool(page) else {
                continue;
            };
            if self.is_shown_to_any(page, frame) {
                let bytes = self.durable(page, <[u8]>::to_vec)?;
                self.give_back(frame, &bytes);
                self.in_wal.frames.pinned.push((page, frame));
            } else if let Some(wal) = &mut self.wal {
                wal.forget_content(frame, Content::Gone)?;
            }
        }
        Ok(())
    }

    fn give_back(&mut self, frame: u64, bytes: &[u8]) {
        if let Some(wal) = &mut self.wal {
            wal.take_content(frame, bytes);
        }
    }

    /// An epoch has what a flight took along: its frames up to a position in the WAL stand for pages of the pool.
    pub(super) fn frames_are_durable(&mut self, flight: &Flight) -> SqliteResult<()> {
        let (Some(end), Some(_)) = (&flight.wal, self.index.last_frame()) else {
            return Ok(());
        };
        let Some(wal) = self.wal.as_mut().filter(|wal| wal.has_frames()) else {
            return Ok(());
        };
        let mut header = [0; wal_log::HEADER as usize];
        wal.read(0, &mut header)?;
        if end.page_size != self.page_size || !end.is_of(&header) {
            // It has begun anew since the flight took off.
            return Ok(());
        }
        for frame in self.in_wal.frames.noted + 1..=end.frames {
            let page = wal_log::be32(&wal.header_of(frame)?, 0);
            self.in_wal.frames.of_page.entry(page).or_default().push(frame);
            self.in_wal.frames.noted = frame;
        }
        for (page, image) in &flight.pages {
            self.page_is_durable(*page, image, end)?;
        }
        if self.in_wal.frames.pinned.len() > self.in_wal.frames.next_look.max(LEAST_PINNED) {
            self.look_at_pinned()?;
        }
        Ok(())
    }

    fn page_is_durable(&mut self, page: u32, image: &Image, end: &WalCursor) -> SqliteResult<()> {
        let Some(wal) = &mut self.wal else {
            return Ok(());
        };
        let frames: Vec<u64> = self.in_wal.frames.of_page.get(&page).into_iter().flatten().copied().collect();
        let Some(last) = frames.iter().rev().copied().find(|frame| *frame <= end.frames) else {
            return Ok(());
        };
        if wal.is_content(last, image) {
            wal.forget_content(last, Content::OfPage(page))?;
        }
        for frame in frames.into_iter().filter(|frame| *frame < last) {
            self.let_go_of(page, frame)?;
        }
        Ok(())
    }

    /// Drops a frame that no snapshot shows.
    fn let_go_of(&mut self, page: u32, frame: u64) -> SqliteResult<()> {
        if self.is_shown_to_any(page, frame) {
            self.in_wal.frames.pinned.push((page, frame));
            return Ok(());
        }
        if let Some(wal) = &mut self.wal {
            wal.forget_content(frame, Content::Gone)?;
        }
        if let Some(list) = self.in_wal.frames.of_page.get_mut(&page) {
            list.retain(|other| *other != frame);
        }
        Ok(())
    }

    /// Drops the frames whose snapshots have ended.
    fn look_at_pinned(&mut self) -> SqliteResult<()> {
        let mut pinned = std::mem::take(&mut self.in_wal.frames.pinned);
        pinned.sort_unstable();
        pinned.dedup();
        for (page, frame) in pinned {
            let is_there = self.in_wal.frames.of_page.get(&page).is_some_and(|list| list.contains(&frame));
            if is_there && self.wal.as_ref().is_some_and(|wal| wal.elsewhere(frame).is_none()) {
                self.let_go_of(page, frame)?;
            }
        }
        self.in_wal.frames.next_look = 2 * self.in_wal.frames.pinned.len();
        Ok(())
    }

    /// SQLite is about to look at its WAL without an index, or to make one, which it does without snapshots, and locks `slots` for it.
    /// Where all frames are there, those get their contents back whose pages the pool has. Otherwise the main file has what is committed,
    /// and the WAL is empty, as after a checkpoint of SQLite's (invariant 3). Returns true if it has become so.
    pub(crate) fn index_is_wanted(&mut self, slots: &std::ops::Range<usize>) -> SqliteResult<bool> {
        if !self.in_wal.frames.is_sparse() || !self.index.is_made_anew(slots) {
            return Ok(false);
        }
        let is_gone =
            |wal: &VirtualFile| (1..=self.in_wal.frames.noted).any(|frame| wal.elsewhere(frame) == Some(Content::Gone));
        if self.wal.as_ref().is_some_and(|wal| !is_gone(wal)) {
            for frame in 1..=self.in_wal.frames.noted {
                if let Some(Content::OfPage(page)) = self.wal.as_ref().and_then(|wal| wal.elsewhere(frame)) {
                    let bytes = self.durable(page, <[u8]>::to_vec)?;
                    self.give_back(frame, &bytes);
                }
            }
            self.forget_frames();
            return Ok(false);
        }
        let committed = |page: &u32| self.commits.pending.get(page).or_else(|| self.commits.flying.get(page)).map(Arc::clone);
        let pages = self.commits.pending.keys().chain(self.commits.flying.keys());
        self.main.view = pages.filter_map(|page| committed(page).map(|image| (*page, image))).collect();
        self.main.length = u64::from(self.commits.size) * self.page_size as u64;
        self.wal_begins_anew();
        match &mut self.wal {
            Some(wal) => wal.truncate(0).map(|()| true),
            None => Ok(true),
        }
    }
}
