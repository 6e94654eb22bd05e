//! Commits: what SQLite has written to its WAL or to the main file becomes pending.

use std::sync::Arc;

use super::{Family, USUAL_PAGE};
use crate::code::{Answer, Code};
use crate::delta_log::is_page_size;
use crate::memory::Image;
use crate::wal_log::{self, WalCursor};

impl Family {
    /// Writes to SQLite's WAL.
    pub(crate) fn write_wal(&mut self, at: u64, bytes: &[u8]) -> Answer<()> {
        self.asked.wal += bytes.len() as u64;
        if at == 0 {
            self.wal_begins_anew()?;
            // No reader uses the frames of the generation before (SQLite's file format, 4.4): they make room. The length
            // stays, because `PRAGMA journal_size_limit` looks at it.
            if let Some(wal) = &mut self.wal {
                wal.zero();
            }
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

    pub(super) fn page_size_of_wal(&self) -> Answer<usize> {
        let mut field = [0; 4];
        if let Some(wal) = &self.wal {
            wal.read(8, &mut field)?;
        }
        let size = u32::from_be_bytes(field) as usize;
        Ok(if is_page_size(size) { size } else { USUAL_PAGE })
    }

    /// SQLite's WAL begins anew: all of it is in the main file.
    pub(crate) fn wal_begins_anew(&mut self) -> Answer<()> {
        self.wal_taken = None;
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
    pub(super) fn take_wal(&mut self, last: u32, size: u32) -> Answer<bool> {
        let page_size = self.page_size_of_wal()?;
        if self.page_size == 0 {
            self.store.lock().set_page_size(page_size)?;
            self.use_page_size(page_size)?;
        }
        if page_size != self.page_size {
            // SQLite takes no such WAL in: a test has put it there.
            return Err(Code::IO);
        }
        let Some(wal) = &self.wal else {
            return Ok(false);
        };
        let mut cursor = match &self.wal_taken {
            Some(cursor) => cursor.clone(),
            None => {
                let mut header = [0; wal_log::HEADER as usize];
                wal.read(0, &mut header)?;
                let Some(cursor) = WalCursor::begin(&header) else {
                    return Ok(false);
                };
                cursor
            }
        };
        let mut bytes = vec![0; cursor.frame_bytes()];
        let mut taken = Vec::new();
        while cursor.frames < u64::from(last) {
            if !wal.read(cursor.position(), &mut bytes)? {
                return Ok(false);
            }
            let at = cursor.position() + wal_log::FRAME;
            let Some(frame) = cursor.take(&bytes) else {
                return Ok(false);
            };
            let image = wal.image(at, page_size)?;
            taken.push((frame.page, image));
        }
        for (page, image) in taken {
            self.set_pending(page, Arc::new(image));
        }
        self.wal_taken = Some(cursor);
        self.size = size;
        Ok(true)
    }

    pub(super) fn set_pending(&mut self, page: u32, image: Arc<Image>) {
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
            let taken = self.wal_taken.as_ref().map_or(0, |cursor| cursor.frames);
            has_changed |= u64::from(last) > taken && self.take_wal(last, size)?;
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
        self.checkpoint_if_due()
    }

    /// An epoch makes room when the pages since the last one take much of the memory. It does not where SQLite's own WAL
    /// or a transaction takes it.
    pub(super) fn memory_is_short(&self) -> bool {
        let limit = self.memory.limit() as u64;
        let is_full = self.memory.used() as u64 > limit - limit / 8;
        self.pending_bytes > limit / 2 || (is_full && self.pending_bytes > limit / 8)
    }

    pub(super) fn take_main(&mut self) -> Answer<bool> {
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
}
