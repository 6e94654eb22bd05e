//! Checkpoints: what the logs hold goes in place, and they begin anew.

use super::mark::has_size;
use super::{RUN, Run, Store, is_marked, marked_generation};
use crate::code::{Answer, Code};
use crate::disk::whole_blocks;
use crate::ffi;
use crate::home::Pages;
use crate::options::LogKind;
use crate::owner::FileIdentity;

impl Store {
    /// The pages beyond this one are in no version of the database that a crash could leave behind, so that they may be
    /// written in place before a log has them (invariant 2).
    pub(super) fn end_in_place(&mut self) -> Answer<u32> {
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

    /// Writes a page in place together with its neighbours: see [`Store::write_run`].
    pub(super) fn place_page(&mut self, run: &mut Run, page: u32, image: &[u8]) -> Answer<()> {
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
        self.written.in_place += whole_blocks(at, run.bytes.len() as u64);
        run.bytes.clear();
        Ok(())
    }

    /// Makes pages durable that were written beyond the end: they belong to the database with the next commit in `-wal`.
    pub(super) fn end_run(&mut self, run: &mut Run) -> Answer<()> {
        self.write_run(run)?;
        self.database.sync()?;
        self.written.syncs += 1;
        Ok(())
    }

    /// Brings in place what the logs hold. With `removes_mark` the database in place is one that other programs may write;
    /// the next record sets the mark again.
    pub(crate) fn bring_in_place(&mut self, pages: &Pages, removes_mark: bool) -> Answer<()> {
        if self.deltas.epochs > 0 {
            let list = self.stored.pages_of_deltas();
            let end = self.end_in_place()?;
            let (list, beyond) = list.split_at(list.partition_point(|page| *page <= end));
            let durable = |page: u32| Ok(pages.read(page, <[u8]>::to_vec)?.into());
            self.append_pages(beyond, durable)?;
            let size = self.size;
            let images = self.log_pages(list, size, true, durable)?;
            self.stored.add_images(images, size);
        }
        if self.wal_needed {
            self.place()?;
        }
        if removes_mark && (self.marked.is_some() || self.may_be_marked) {
            self.unmark_in_place(false)?;
        }
        self.publish();
        Ok(())
    }

    /// Brings in place what only `-wal` holds, unless it is the log. Where `-ebb` has epochs, a checkpoint has begun and failed,
    /// and `-wal` does not have all of them.
    pub(crate) fn place_what_is_only_in_wal(&mut self) -> Answer<()> {
        match self.kind == LogKind::Deltas && self.wal_needed && self.deltas.epochs == 0 {
            true => self.place(),
            false => Ok(()),
        }
    }

    /// Brings in place what `-wal` holds, all of it (invariant 2), and lets the logs begin anew.
    pub(crate) fn place(&mut self) -> Answer<()> {
        let mut run = Run::default();
        let mut image = vec![0; self.page_size];
        for (page, at) in self.stored.images() {
            if page > self.size {
                continue;
            }
            let file = self.wal_file.as_mut().ok_or(Code::IO)?;
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
        self.stored.all_in_place(self.size);
        let header = self.header()?;
        self.marked = is_marked(&header).then(|| marked_generation(&header));
        self.begin_anew()?;
        self.publish();
        Ok(())
    }

    /// Lets the logs begin anew: the database is durable that has all of them (invariant 3).
    fn begin_anew(&mut self) -> Answer<()> {
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
    pub(crate) fn use_wal(&mut self) -> Answer<()> {
        if self.deltas.file.is_some() {
            self.forget_empty_deltas()?;
        }
        self.kind = LogKind::Wal;
        self.publish();
        Ok(())
    }

    /// Makes every commit in `-wal` invalid, all of which is in place.
    pub(super) fn cut_off_wal(&mut self) -> Answer<()> {
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
    pub(crate) fn leave(&mut self) -> Answer<()> {
        if !self.is_in_place() || self.wal_needed {
            return Err(Code::IO);
        }
        if !self.has_first_page && self.database.length()? > 0 {
            // The first commit was refused, and neither its page nor that this is gone is durable.
            self.database.truncate(0)?;
            self.database.sync()?;
            self.written.syncs += 1;
        }
        if self.wal_file.is_some() {
            // Durable before the mark goes: the images of page 1 in it may be marked.
            if self.wal.has_header() {
                self.cut_off_wal()?;
            }
            self.wal_file = None;
            self.stored.read_log_from(self.base, None, ffi::OPEN_WAL)?;
            self.base.delete(&self.wal_path(), false)?;
        } else {
            // A process that was killed may have left an empty one, which for SQLite does not exist.
            let _ = self.base.delete(&self.wal_path(), false);
        }
        let has_deltas = self.deltas.file.is_some();
        self.unmark_in_place(has_deltas)?;
        if has_deltas {
            // It has no epochs, so that it does no harm where deleting it fails.
            self.close_deltas()?;
            self.base.delete(&self.ebb_path(), true)?;
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

    /// Where a log was deleted or another file has its name, brings in place what the open file still holds, and lets go of
    /// it: the next process would not find it. A foreign file is moved aside.
    pub(super) fn replace_lost_logs(&mut self, pages: &Pages) -> Answer<()> {
        let path = self.ebb_path();
        if self.deltas.file.is_some() && FileIdentity::is_other(&path, &self.deltas.identity) {
            tracing::warn!(%path, "the log was deleted or replaced while it was open; what it held goes in place");
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
