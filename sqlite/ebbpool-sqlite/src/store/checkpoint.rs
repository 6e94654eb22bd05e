//! Checkpoints: what the logs hold goes in place, and they begin anew.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::PageCache;
use super::mark::has_size;
use super::{DurableFiles, RUN, Run, is_marked, marked_generation};
use crate::code::{SqliteCode, SqliteResult};
use crate::delta_log::PageDelta;
use crate::disk::FileIdentity;
use crate::disk::whole_blocks;
use crate::ffi;
use crate::options::LogKind;

/// Bytes of slices after which one makes them durable, so that the sync at the end is short.
const SYNC: u64 = 4 << 20;
/// Slices after which the rest is done at once: epochs that come in between could keep a checkpoint from its end.
const MOST_SLICES: u32 = 400;

/// How far the slices of a checkpoint are. Each round logs what only `-ebb` has as a commit of `-wal`, and places what `-wal` has;
/// epochs that come in between are those of the next round.
#[derive(Default)]
pub(super) struct Slices {
    done: u32,
    /// The commit that the slices are about to write.
    logging: Option<Logging>,
    /// True if the last commit of `-wal` has every epoch.
    wal_is_current: bool,
    /// Pages that are in place without an image in `-wal`, because they were beyond the end.
    appended: HashSet<u32>,
    /// The pages that are in place, and where the image begins that is there.
    placed: HashMap<u32, u64>,
    /// Bytes that no sync has made durable.
    unsynced: u64,
}

/// A commit of `-wal` that is not complete.
struct Logging {
    /// Pages that it does not have yet, or not as they are now.
    left: BTreeSet<u32>,
    /// Pages beyond this one go in place.
    end: u32,
    /// The frames that it has.
    frames: u64,
}

impl Slices {
    /// True if the checkpoint is to go on.
    pub(super) fn are_under_way(&self) -> bool {
        self.logging.is_some() || self.wal_is_current || !self.placed.is_empty()
    }

    /// `-ebb` has another epoch.
    pub(super) fn note_epoch(&mut self, sections: &[PageDelta]) {
        self.wal_is_current = false;
        for section in sections {
            self.appended.remove(&section.page);
            if let Some(logging) = &mut self.logging {
                logging.left.insert(section.page);
            }
        }
    }

    /// Another commit takes the place of one that is not complete.
    pub(super) fn forget_logging(&mut self) {
        self.logging = None;
        self.wal_is_current = false;
    }
}

impl DurableFiles {
    /// The pages beyond this one are in no version of the database that a crash could leave behind, so that they may be
    /// written in place before a log has them (invariant 2).
    pub(super) fn end_in_place(&mut self) -> SqliteResult<u32> {
        let length = self.database.length()?;
        Ok(match length {
            // SQLite deletes a WAL beside an empty database, and `-wal` may hold a commit that is not in place.
            0 => u32::MAX,
            _ if self.wal_needed || self.wal_is_uncertain => u32::MAX,
            // SQLite would take what a crash leaves beyond the end for a part of the database.
            _ if !has_size(&self.header()?) => u32::MAX,
            _ => length.div_ceil(self.page_size as u64) as u32,
        })
    }

    /// Writes a page in place together with its neighbours: see [`DurableFiles::write_run`].
    pub(super) fn place_page(&mut self, run: &mut Run, page: u32, image: &[u8]) -> SqliteResult<()> {
        if page != run.next || run.bytes.len() >= RUN {
            self.write_run(run)?;
            run.begin = page;
        }
        run.bytes.extend_from_slice(image);
        run.next = page + 1;
        Ok(())
    }

    /// Writes the rest of a run in place.
    fn write_run(&mut self, run: &mut Run) -> SqliteResult<()> {
        if run.bytes.is_empty() {
            return Ok(());
        }
        self.stored.keep_lent(run.begin..run.next)?;
        let at = u64::from(run.begin - 1) * self.page_size as u64;
        self.database.write(at, &run.bytes)?;
        self.written.in_place += whole_blocks(at, run.bytes.len() as u64);
        run.bytes.clear();
        Ok(())
    }

    /// Makes pages durable that were written beyond the end: they belong to the database with the next commit in `-wal`.
    pub(super) fn end_run(&mut self, run: &mut Run) -> SqliteResult<()> {
        self.write_run(run)?;
        self.database.sync()?;
        self.written.syncs += 1;
        Ok(())
    }

    /// Brings in place what the logs hold. With `removes_mark` the database in place is one that other programs may write;
    /// the next record sets the mark again.
    pub(crate) fn bring_in_place(&mut self, pages: &PageCache, removes_mark: bool) -> SqliteResult<()> {
        self.do_slice(pages, removes_mark, u64::MAX).map(drop)
    }

    /// Does a slice of what [`DurableFiles::bring_in_place`] does, of about `bytes` bytes, and returns true if it was the last one. Between
    /// two slices epochs may be written.
    ///
    /// # Errors
    ///
    /// Then the next slice is the first one again, and what is in `-wal` stays there.
    pub(crate) fn do_slice(&mut self, pages: &PageCache, removes_mark: bool, bytes: u64) -> SqliteResult<bool> {
        let is_whole = bytes == u64::MAX || self.slices.done >= MOST_SLICES;
        let bytes = if is_whole { u64::MAX } else { bytes };
        let mut done = self.go_on(pages, bytes);
        while is_whole && done == Ok(false) {
            done = self.go_on(pages, bytes);
        }
        if done == Err(SqliteCode(ffi::FULL)) && self.is_closing && self.give_reserve_back() {
            self.slices = Slices::default();
            done = self.go_on(pages, u64::MAX);
            while done == Ok(false) {
                done = self.go_on(pages, u64::MAX);
            }
        }
        self.slices.done += 1;
        if done == Ok(true) && removes_mark && (self.marked.is_some() || self.uncertain_mark.is_some()) {
            done = self.unmark_in_place(false).and(done);
        }
        if done.is_err() {
            self.slices = Slices::default();
        }
        self.publish();
        done
    }

    /// Cuts off what `-ebb` has behind its records, for `-wal`, and returns true if there was something.
    fn give_reserve_back(&mut self) -> bool {
        let deltas = &mut self.deltas;
        let end = deltas.end;
        let has_reserve = deltas.allocated.max(deltas.reserved) > end;
        let Some(file) = deltas.file.as_mut().filter(|_| has_reserve) else {
            return false;
        };
        deltas.allocated = end;
        deltas.reserved = end;
        file.truncate(end).and_then(|()| file.sync()).is_ok()
    }

    fn go_on(&mut self, pages: &PageCache, bytes: u64) -> SqliteResult<bool> {
        if self.wal_needed && !self.place_some(bytes)? {
            return Ok(false);
        }
        if self.deltas.epochs > 0 && !self.slices.wal_is_current {
            self.log_some(pages, bytes)?;
            return Ok(false);
        }
        if self.wal_needed {
            self.end_placing()?;
        }
        Ok(true)
    }

    /// Logs some of the pages that only `-ebb` has, as one commit of `-wal`, which the last slice completes; those beyond the end
    /// go in place at once.
    fn log_some(&mut self, pages: &PageCache, bytes: u64) -> SqliteResult<()> {
        let frames = self.wal.open_frames();
        // Frames that were taken back are those of no commit.
        if self.slices.logging.as_ref().is_none_or(|logging| logging.frames != frames) {
            if self.deltas.is_uncertain {
                // `-ebb` must not show an epoch that the commit does not have.
                self.cut_off_deltas()?;
            }
            let end = self.end_in_place()?;
            self.begin_wal(true)?;
            let mut left: BTreeSet<u32> = self.stored.pages_of_deltas().into_iter().collect();
            left.retain(|page| !self.slices.appended.contains(page));
            self.slices.logging = Some(Logging { left, end, frames: 0 });
        }
        let Some(mut logging) = self.slices.logging.take() else {
            return Ok(());
        };
        let durable = |page: u32| pages.read(page, <[u8]>::to_vec);
        let mut run = Run::default();
        let mut count = 0;
        while count * (self.page_size as u64) < bytes {
            let Some(page) = logging.left.pop_first() else {
                break;
            };
            count += 1;
            // Page 1 comes last: it has the mark, and completes the commit.
            if page == 1 || page > self.size {
                continue;
            }
            let image = durable(page)?;
            if page > logging.end {
                self.place_page(&mut run, page, &image)?;
                self.slices.appended.insert(page);
            } else {
                let file = self.wal_file.as_mut().ok_or(SqliteCode::IO)?;
                self.wal.append(file, page, &image, 0)?;
                logging.frames += 1;
            }
            self.slices.unsynced += image.len() as u64;
        }
        self.write_run(&mut run)?;
        if !logging.left.is_empty() {
            if self.slices.unsynced >= SYNC {
                let file = self.wal_file.as_mut().ok_or(SqliteCode::IO)?;
                self.wal.sync_open_frames(file)?;
                self.written.syncs += 1;
                self.sync_appended()?;
                self.slices.unsynced = 0;
            }
            self.slices.logging = Some(logging);
            return Ok(());
        }
        // They belong to the database with the commit.
        self.sync_appended()?;
        let first = durable(1)?;
        let marked = self.with_mark(1, &first);
        let file = self.wal_file.as_mut().ok_or(SqliteCode::IO)?;
        self.wal.append(file, 1, marked.as_deref().unwrap_or(&first), self.size)?;
        let images = self.commit_wal(self.size)?;
        self.stored.add_images(images, self.size);
        self.slices.unsynced = 0;
        self.slices.wal_is_current = true;
        Ok(())
    }

    fn sync_appended(&mut self) -> SqliteResult<()> {
        if !self.slices.appended.is_empty() {
            self.database.sync()?;
            self.written.syncs += 1;
        }
        Ok(())
    }

    /// True if `-wal` is to be brought in place, and is not the log. Where `-ebb` has epochs, a checkpoint has begun and failed,
    /// and `-wal` does not have all of them.
    pub(super) fn is_only_in_wal(&self) -> bool {
        self.kind == LogKind::Deltas && self.wal_needed && self.deltas.epochs == 0
    }

    /// Brings in place what only `-wal` holds. SQLite's main file may still show what is there: unless no more than some bytes of that
    /// have to be stored for it, SQLite's checkpoint comes first, or the next epoch.
    pub(crate) fn place_what_is_only_in_wal(&mut self, most: u64) -> SqliteResult<()> {
        match self.is_only_in_wal() && (self.stored.lent_pages() * self.page_size) as u64 <= most {
            true => self.place(),
            false => Ok(()),
        }
    }

    /// Brings in place what `-wal` holds, all of it (invariant 2), and lets the logs begin anew.
    pub(crate) fn place(&mut self) -> SqliteResult<()> {
        let placed = self.place_some(u64::MAX).and_then(|_| self.end_placing());
        if placed.is_err() {
            self.slices = Slices::default();
        }
        placed
    }

    /// Writes some of the pages in place that `-wal` holds, and returns true if that was the rest of them.
    fn place_some(&mut self, bytes: u64) -> SqliteResult<bool> {
        let placed = &self.slices.placed;
        let is_left = |(page, at): &(u32, u64)| *page <= self.size && placed.get(page) != Some(at);
        let left: Vec<(u32, u64)> = self.stored.images().into_iter().filter(is_left).collect();
        let most = usize::try_from(bytes / self.page_size as u64).unwrap_or(usize::MAX);
        let count = left.len().min(most.max(1));
        let mut run = Run::default();
        let mut image = vec![0; self.page_size];
        for (page, at) in &left[..count] {
            let file = self.wal_file.as_mut().ok_or(SqliteCode::IO)?;
            file.read(*at, &mut image)?;
            self.place_page(&mut run, *page, &image)?;
        }
        self.write_run(&mut run)?;
        self.slices.placed.extend(left[..count].iter().copied());
        self.slices.unsynced += (count * self.page_size) as u64;
        let is_all = count == left.len();
        if !is_all && self.slices.unsynced >= SYNC {
            self.database.sync()?;
            self.written.syncs += 1;
            self.slices.unsynced = 0;
        }
        Ok(is_all)
    }

    /// All that `-wal` holds is written in place, and no log has more: makes it durable.
    fn end_placing(&mut self) -> SqliteResult<()> {
        let length = u64::from(self.size) * self.page_size as u64;
        if self.database.length()? != length {
            self.stored.keep_lent(self.size + 1..)?;
            self.database.truncate(length)?;
        }
        self.database.sync()?;
        self.written.syncs += 1;
        self.written.checkpoints += 1;
        // From here on the database in place has every page, whatever becomes of the logs.
        self.stored.all_in_place(self.size);
        let slices = std::mem::take(&mut self.slices);
        if slices.placed.contains_key(&1) {
            // Otherwise the file may show a mark whose sync has failed.
            let header = self.header()?;
            self.marked = is_marked(&header).then(|| marked_generation(&header));
            self.uncertain_mark = None;
        }
        self.begin_anew()?;
        self.publish();
        Ok(())
    }

    /// Lets the logs begin anew: the database is durable that has all of them (invariant 3).
    fn begin_anew(&mut self) -> SqliteResult<()> {
        self.deltas.ready = false;
        match self.kind {
            LogKind::Deltas if self.deltas.file.is_some() && self.marked.is_some() => {
                self.begin_deltas()?;
                self.wal.clear();
                // A crash may bring it back, with the mark of this generation: another one does not begin before that is over.
                self.wal_is_stale = true;
                if let Some(file) = &mut self.wal_file {
                    self.wal_allocated = 0;
                    file.truncate(0)?;
                }
            }
            LogKind::Deltas => {
                // The next generation begins with the next record.
                self.deltas.epochs = 0;
                self.wal.clear();
                self.wal_is_stale = true;
            }
            LogKind::Wal if self.is_closing => self.wal.clear(),
            LogKind::Wal => self.reset_wal()?,
        }
        self.wal_needed = false;
        self.wal_is_uncertain = false;
        self.checkpoint_has_begun = false;
        if self.kind == LogKind::Deltas && !self.is_plain_in_place()? {
            // A database that was new is encrypted, as now turns out: without a header there is nothing to mark.
            self.use_wal()?;
        }
        Ok(())
    }

    /// Sends epochs to `-wal` from now on. All that `-ebb` has is in place.
    pub(crate) fn use_wal(&mut self) -> SqliteResult<()> {
        if self.deltas.file.is_some() {
            self.forget_empty_deltas()?;
        }
        self.kind = LogKind::Wal;
        self.publish();
        Ok(())
    }

    /// Makes every commit in `-wal` invalid, all of which is in place.
    pub(super) fn cut_off_wal(&mut self) -> SqliteResult<()> {
        // Whatever becomes of the write, no commit follows the header that was there.
        self.wal.clear();
        if let Some(file) = &mut self.wal_file {
            // Cheaper than cutting the file off, which would change metadata of the file system.
            file.write(0, &[0; crate::wal_log::HEADER as usize])?;
            file.sync()?;
            self.written.log += whole_blocks(0, 1);
            self.written.syncs += 1;
        }
        self.wal_is_stale = false;
        Ok(())
    }

    /// Leaves a plain database behind: removes the mark and the logs, all of which is in place.
    pub(crate) fn leave(&mut self) -> SqliteResult<()> {
        if !self.is_in_place() || self.wal_needed {
            return Err(SqliteCode::IO);
        }
        if self.may_have_first_page {
            // Neither its page nor that this is gone is durable.
            self.take_first_page_back()?;
        }
        if self.wal_file.is_some() {
            // Durable before the mark goes: the images of page 1 in it may be marked.
            if self.wal.has_header() && !self.wal_is_taken()? {
                self.cut_off_wal()?;
            }
            let has_moved = self.has_moved();
            self.wal_file = None;
            self.stored.read_log_from(self.base, None, ffi::OPEN_WAL)?;
            if !has_moved {
                self.delete_own(&self.wal_path(), self.wal_identity, false)?;
            }
        } else if !self.has_moved() {
            // A process that was killed may have left an empty one, which for SQLite does not exist.
            let _ = self.base.delete(&self.wal_path(), false);
        }
        let has_deltas = self.deltas.file.is_some();
        self.unmark_in_place(has_deltas)?;
        if has_deltas {
            let (path, identity) = (self.ebb_path(), self.deltas.identity);
            if let Some(file) = &mut self.deltas.file
                && FileIdentity::is_other(&path, &identity)
            {
                // It has another name by now, or its directory has.
                file.truncate(0)?;
            }
            self.delete_deltas()?;
        } else if !self.has_moved() && !self.base.exists(&self.ebb_path())? {
            // As with `-wal`: an empty one.
            let _ = self.base.delete(&self.ebb_path(), false);
        }
        // What follows, while the process ends, begins as with a database that was just opened.
        self.epochs = 0;
        Ok(())
    }

    /// True if the database has another name by now, and SQLite uses the `-wal` that has stayed for one of the old name.
    fn wal_is_taken(&mut self) -> SqliteResult<bool> {
        if !self.has_moved() {
            return Ok(false);
        }
        let file = self.wal_file.as_mut().ok_or(SqliteCode::IO)?;
        let mut header = [0; crate::wal_log::HEADER as usize];
        file.read(0, &mut header)?;
        Ok(self.wal.is_foreign(&header))
    }

    /// Deletes a log, unless another file has its name by now.
    pub(super) fn delete_own(&self, path: &str, identity: Option<FileIdentity>, durable: bool) -> SqliteResult<()> {
        match FileIdentity::is_other(path, &identity) {
            true => Ok(()),
            false => self.base.delete(path, durable),
        }
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

    /// Where a log was deleted or another file has its name, brings in place what the open file still holds, and lets go of
    /// it: the next process would not find it. A foreign file is moved aside.
    pub(super) fn replace_lost_logs(&mut self, pages: &PageCache) -> SqliteResult<()> {
        if self.has_moved() {
            // The logs, too: their directory has another name, or another one is mounted over it. The open files are those that
            // belong together.
            return Ok(());
        }
        let path = self.ebb_path();
        let is_cut_off = self.is_log_cut_off();
        let is_other = FileIdentity::is_other(&path, &self.deltas.identity);
        if self.deltas.file.is_some() && (is_other || is_cut_off) {
            tracing::warn!(%path, "the log was deleted, replaced or cut off while it was open; what it held goes in place");
            self.bring_in_place(pages, true)?;
            self.close_deltas()?;
            crate::owner::move_aside(&path)?;
        }
        let path = self.wal_path();
        if self.wal_file.is_some() && FileIdentity::is_other(&path, &self.wal_identity) {
            tracing::warn!(%path, "the log was deleted or replaced while it was open; what it held goes in place");
            if self.wal_needed {
                self.place()?;
            }
            self.wal_file = None;
            self.wal.clear();
            self.wal_is_stale = false;
            self.stored.read_log_from(self.base, None, ffi::OPEN_WAL)?;
            crate::owner::move_aside(&path)?;
        }
        Ok(())
    }
}
