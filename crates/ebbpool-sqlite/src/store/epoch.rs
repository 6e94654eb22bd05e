//! Epochs: records of `-ebb`, and commits of `-wal`.

use super::{
    LONG_RECORD, READ_ONLY, READ_VERSION, STEP, Store, WRITE_VERSION, fingerprint, is_marked,
    is_plain, note, now_in_milliseconds, open_log,
};
use crate::code::{Answer, Code};
use crate::delta_log::{self, Draft, Header};
use crate::disk::{BLOCK, whole_blocks};
use crate::ffi;
use crate::options::LogKind;

impl Store {
    /// Makes an epoch durable as deltas. After an error nothing has changed but bytes behind the end of the log, which the
    /// next attempt writes again.
    pub(crate) fn append_deltas(&mut self, mut draft: Draft, size: u32) -> Answer<()> {
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
        draft.follows_checkpoint = self.checkpoint_has_begun;
        let deltas = &mut self.deltas;
        let file = deltas.file.as_mut().ok_or(Code::IO)?;
        let (bytes, sections, checksum) = draft.finish(
            size,
            deltas.epochs + 1,
            now_in_milliseconds(),
            deltas.checksum,
        );
        let end = deltas.end + bytes.len() as u64;
        let mut written = whole_blocks(deltas.end, bytes.len() as u64);
        if end > deltas.allocated {
            let step = if bytes.len() < LONG_RECORD {
                STEP
            } else {
                BLOCK
            };
            let to = end.next_multiple_of(step);
            let from = deltas.allocated.max(end);
            written = whole_blocks(deltas.end, to - deltas.end);
            file.write(from, &vec![0; (to - from) as usize])?;
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
        self.written.log += written;
        self.written.syncs += 1;
        self.written.epochs += 1;
        Ok(())
    }

    /// Marks the database in place, and begins the log on it.
    pub(super) fn begin_deltas(&mut self) -> Answer<()> {
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
        self.written.log += whole_blocks(0, delta_log::HEADER as u64);
        self.written.syncs += 1;
        Ok(())
    }

    /// Makes invalid what may be behind the end of the log, because a sync has failed.
    fn cut_off_deltas(&mut self) -> Answer<()> {
        let deltas = &mut self.deltas;
        let file = deltas.file.as_mut().ok_or(Code::IO)?;
        file.write(deltas.end, &[0; delta_log::RECORD])?;
        file.sync()?;
        deltas.is_uncertain = false;
        self.written.log += whole_blocks(deltas.end, delta_log::RECORD as u64);
        self.written.syncs += 1;
        Ok(())
    }

    /// Keeps programs without this library from writing the database while `-ebb` has records.
    pub(super) fn mark_in_place(&mut self) -> Answer<()> {
        if !self.is_marked && is_plain(&self.header()?) {
            self.database.write(WRITE_VERSION as u64, &[READ_ONLY])?;
            self.database.sync()?;
            self.written.in_place += whole_blocks(0, 1);
            self.written.syncs += 1;
            self.is_marked = true;
        }
        Ok(())
    }

    /// Lets other programs write the database again; also where the mark is gone already, if an earlier attempt may have
    /// failed.
    pub(super) fn unmark_in_place(&mut self, again: bool) -> Answer<()> {
        let header = self.header()?;
        self.is_marked = false;
        if is_plain(&header) && (again || is_marked(&header)) {
            self.database
                .write(WRITE_VERSION as u64, &[header[READ_VERSION]])?;
            self.database.sync()?;
            self.written.in_place += whole_blocks(0, 1);
            self.written.syncs += 1;
        }
        Ok(())
    }

    /// Begins a commit in `-wal`: of what `-ebb` has as well, or of an epoch that only `-wal` is to have.
    pub(crate) fn begin_wal(&mut self, has_deltas: bool) -> Answer<()> {
        if self.deltas.is_uncertain {
            // A record that is not in the commit must not be applied after it.
            match has_deltas {
                true => self.cut_off_deltas()?,
                false => self.begin_deltas()?,
            }
        }
        self.wal_is_uncertain |= !has_deltas && self.kind == LogKind::Deltas;
        self.checkpoint_has_begun |= has_deltas && self.kind == LogKind::Deltas;
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
        self.wal.append(file, page, image, size)
    }

    /// Makes the commit durable.
    pub(crate) fn commit_wal(&mut self, size: u32) -> Answer<()> {
        let file = self.wal_file.as_mut().ok_or(Code::IO)?;
        self.written.log += self.wal.sync(file)?;
        self.written.syncs += 1;
        if !self.has_first_page {
            // SQLite deletes a WAL beside an empty database.
            self.database.write(0, &vec![0; self.page_size])?;
            self.database.sync()?;
            self.written.in_place += whole_blocks(0, self.page_size as u64);
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
    /// another record. Pages that the commit does not have are in place.
    pub(crate) fn committed_without_deltas(&mut self) {
        self.zeros_beyond = self.size;
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
}
