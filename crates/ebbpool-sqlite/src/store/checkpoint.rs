//! Checkpoints: what the logs hold goes in place, and they begin anew.

use super::{READ_ONLY, RUN, Run, Store, WRITE_VERSION, has_size, is_plain};
use crate::code::{Answer, Code};
use crate::disk::whole_blocks;
use crate::options::LogKind;

impl Store {
    /// The pages beyond this one are in no version of the database that a crash could leave behind, so that they may be
    /// written in place before a log has them (invariant 2).
    pub(crate) fn end_in_place(&mut self) -> Answer<u32> {
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
    pub(super) fn write_run(&mut self, run: &mut Run) -> Answer<()> {
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
    pub(super) fn begin_anew(&mut self) -> Answer<()> {
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
        self.checkpoint_has_begun = false;
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
}
