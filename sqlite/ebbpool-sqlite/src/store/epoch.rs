//! Epochs: records of `-ebb`, and commits of `-wal`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::checkpoint::Slices;
use super::mark::empty_like;
use super::{
    DurableFiles, LONG_RECORD, LONGEST_CHAIN, PageCache, PlaceChange, Run, STEP, fingerprint, is_plain, now_in_milliseconds,
};
use crate::code::{SqliteCode, SqliteResult};
use crate::delta_log::{self, EpochDraft, Header, RECORDS, SLOTS, slot_of};
use crate::disk::{BLOCK, BaseFile, whole_blocks};
use crate::memory::Image;
use crate::options::LogKind;
use crate::owner::reserve;
use crate::wal_log::WalCursor;

/// A record of deltas is put together in memory: what is larger goes to `-wal` at once.
pub(crate) const LONGEST_RECORD: u64 = 64 << 20;
/// From this many pages beyond the end of the database on, writing these once is worth a sync.
const MANY_PAGES: usize = 64;

/// What an epoch takes along: all that is committed, and a transaction that is about to be.
pub(crate) struct Flight {
    pub(crate) pages: BTreeMap<u32, Arc<Image>>,
    pub(crate) bytes: u64,
    pub(crate) size: u32,
    /// The position in SQLite's WAL behind the transaction that is about to be committed; `None` in the main file.
    pub(crate) transaction: Option<Option<WalCursor>>,
    /// The position in SQLite's WAL up to which it has the commits; `None` if it has none of them.
    pub(crate) wal: Option<WalCursor>,
}

/// Where an epoch goes.
enum Route {
    /// To `-ebb`, as what changed.
    Deltas,
    /// To `-wal`, which stays the log.
    Pages,
    /// To `-wal`, and from there in place.
    InPlace,
}

impl DurableFiles {
    /// Makes an epoch durable, and returns what that changes in the places of pages.
    ///
    /// # Errors
    ///
    /// Then nothing has changed, and the next attempt writes all of it again.
    pub(crate) fn write_epoch(&mut self, flight: &Flight, pages: &PageCache) -> SqliteResult<PlaceChange> {
        self.replace_lost_logs(pages)?;
        let written = match self.route(flight.bytes) {
            Route::Pages => self.epoch_of_pages(flight, pages),
            Route::Deltas => match self.epoch_of_deltas(flight, pages) {
                // The room that was reserved is in `-wal`.
                Err(_) if self.deltas.epochs == 0 && !self.deltas.is_uncertain => self.epoch_in_place(flight, pages),
                written => written,
            },
            Route::InPlace => match self.epoch_in_place(flight, pages) {
                // The room that was reserved is in `-ebb`.
                Err(_) if self.is_closing && self.deltas.ready => self.epoch_of_deltas(flight, pages),
                written => written,
            },
        };
        match &written {
            // Nothing was written over what an epoch before may have left.
            Ok(PlaceChange::Nothing) if self.must_cover => self.cover_what_failed(),
            Ok(_) => {
                self.epochs += 1;
                (self.must_cover, self.has_wal_to_cover) = (false, false);
            }
            Err(_) => {
                // After a failed sync the files show what the disk may not have.
                self.slices = Slices::default();
                self.cover_what_failed();
            }
        }
        written
    }

    fn route(&mut self, bytes: u64) -> Route {
        if self.kind == LogKind::Wal {
            return Route::Pages;
        }
        let is_long = bytes > LONGEST_RECORD.min(self.log_limit);
        // The first epoch may be the only one: a program that writes a row and ends is spared the mark and `-ebb`.
        let is_first = self.deltas.file.is_none() && self.epochs == 0;
        if self.size == 0 || is_long || is_first || (self.is_closing && self.deltas.epochs == 0) {
            return Route::InPlace;
        }
        match self.begin_generation() {
            Ok(()) => Route::Deltas,
            Err(_) => Route::InPlace,
        }
    }

    /// True if the next epoch of usual size goes to `-ebb`.
    pub(super) fn next_is_deltas(&self) -> bool {
        self.kind == LogKind::Deltas && self.deltas.ready
    }

    fn begin_generation(&mut self) -> SqliteResult<()> {
        if self.deltas.ready {
            return Ok(());
        }
        if self.wal_needed {
            self.place()?;
        }
        match self.deltas.ready {
            true => Ok(()),
            false => self.begin_deltas(),
        }
    }

    /// Has the file of the next epoch get room for `bytes` on the disk.
    ///
    /// # Errors
    ///
    /// `FULL`, if the disk has no such room.
    pub(crate) fn make_room(&mut self, bytes: u64) -> SqliteResult<()> {
        if self.kind == LogKind::Deltas && self.epochs > 0 && self.size > 0 {
            // Where that fails the next epoch goes to `-wal`, and tries again.
            let _ = self.begin_generation();
        }
        if !self.has_first_page {
            self.reserve_first_page()?;
        }
        let made = match self.next_is_deltas() {
            true => self.reserve_deltas(self.deltas.end + bytes),
            false => self.open_wal().and_then(|()| {
                let end = self.wal.end();
                let to = (end + bytes).next_multiple_of(BLOCK);
                let is_short = to > self.wal_allocated;
                if is_short && reserve(&self.wal_path(), self.wal_identity, to)? {
                    self.wal_allocated = to;
                }
                let file = self.wal_file.as_mut().ok_or(SqliteCode::IO)?;
                grow(file, &mut self.wal_allocated, end, to)
            }),
        };
        self.publish();
        made
    }

    /// Has the disk reserve room for `-ebb`: some more than is needed now, because this is done before a commit.
    fn reserve_deltas(&mut self, end: u64) -> SqliteResult<()> {
        let to = end.next_multiple_of(end.next_power_of_two().clamp(BLOCK, STEP));
        let is_short = to > self.deltas.reserved;
        if !is_short || reserve(&self.ebb_path(), self.deltas.identity, to)? {
            self.deltas.reserved = self.deltas.reserved.max(to);
            return Ok(());
        }
        self.grow_deltas(self.deltas.end, end, STEP)
    }

    /// Writes zeros to `-ebb` from an offset on, so that a sync of the records there changes no metadata, and at least up to `end`.
    /// A log that lives for a few records gets no more than these need.
    fn grow_deltas(&mut self, from: u64, end: u64, most: u64) -> SqliteResult<()> {
        let deltas = &mut self.deltas;
        if end <= deltas.allocated {
            return Ok(());
        }
        let step = end.next_power_of_two().clamp(BLOCK, most.max(BLOCK));
        let to = end.next_multiple_of(step);
        let from = deltas.allocated.max(from);
        let file = deltas.file.as_mut().ok_or(SqliteCode::IO)?;
        grow(file, &mut deltas.allocated, from, to)?;
        deltas.reserved = deltas.reserved.max(to);
        self.written.log += whole_blocks(from, to - from);
        Ok(())
    }

    fn epoch_of_deltas(&mut self, flight: &Flight, pages: &PageCache) -> SqliteResult<PlaceChange> {
        let mut draft = EpochDraft::new();
        let before = self.size;
        for (page, image) in &flight.pages {
            let new = image.bytes()?;
            if *page > before || self.stored.chain_length(*page) >= LONGEST_CHAIN {
                draft.add(*page, None, &new);
            } else {
                pages.read(*page, |old| draft.add(*page, Some(old), &new))?;
            }
        }
        // A failed attempt to write beyond the end may have left something in place of these (invariant 4).
        let zeros = vec![0; self.page_size];
        for page in before.saturating_add(1)..=flight.size {
            if !flight.pages.contains_key(&page) {
                draft.add(page, None, &zeros);
            }
        }
        if draft.is_empty() && flight.size == before {
            return Ok(PlaceChange::Nothing);
        }
        self.append_deltas(draft, flight.size)
    }

    /// Appends a record to `-ebb`. After an error nothing has changed but bytes behind the end of the log, which the next
    /// attempt writes again.
    fn append_deltas(&mut self, mut draft: EpochDraft, size: u32) -> SqliteResult<PlaceChange> {
        if self.wal_is_uncertain {
            self.reset_wal()?;
            self.wal_is_uncertain = false;
        }
        if self.marked.is_none() {
            // A checkpoint that a program has asked for has removed it.
            self.mark_in_place(self.deltas.generation)?;
        }
        draft.follows_checkpoint = self.checkpoint_has_begun;
        let header = self.deltas.header.ok_or(SqliteCode::IO)?;
        let (bytes, sections, checksum) =
            draft.finish(size, header.zero().wrapping_add(self.deltas.epochs + 1), now_in_milliseconds(), self.deltas.checksum);
        let at = self.deltas.end;
        let end = at + bytes.len() as u64;
        let most = if (bytes.len() as u64) < LONG_RECORD { STEP } else { BLOCK };
        self.grow_deltas(end, end, most)?;
        let deltas = &mut self.deltas;
        let file = deltas.file.as_mut().ok_or(SqliteCode::IO)?;
        deltas.is_uncertain = true;
        if let Some(slot) = deltas.slot_left.filter(|_| header.is_numbered()) {
            // In the other slot it is durable. The sync of the record is that of both.
            file.write(SLOTS[slot], &header.encode())?;
            self.written.log += if at < BLOCK { 0 } else { BLOCK };
        }
        file.write(at, &bytes)?;
        file.sync()?;
        deltas.is_uncertain = false;
        if header.is_numbered() {
            deltas.slot_left = None;
        }
        deltas.end = end;
        deltas.checksum = checksum;
        deltas.epochs += 1;
        self.slices.note_epoch(&sections);
        self.size = size;
        self.written.log += whole_blocks(at, bytes.len() as u64);
        self.written.syncs += 1;
        self.written.epochs += 1;
        Ok(PlaceChange::Deltas { at, sections, size })
    }

    /// Begins the log on the database in place, all of which is there.
    pub(super) fn begin_deltas(&mut self) -> SqliteResult<()> {
        if self.wal_is_stale {
            // Invariant 6.
            self.cut_off_wal()?;
        }
        if self.deltas.file.is_none() {
            let path = self.ebb_path();
            if self.base.exists(&path)? {
                if self.has_moved() {
                    // It may be the log of another database, which has the name by now.
                    return Err(SqliteCode::CANT_OPEN);
                }
                // It was not there when the database was taken over.
                crate::owner::move_aside(&path)?;
            }
            self.open_deltas()?;
        }
        let generation = match self.marked {
            Some(generation) if generation != 0 => generation,
            _ => self.next_random() | 1,
        };
        let base = fingerprint(&self.header()?);
        let (now, nonce) = (now_in_milliseconds(), self.next_random());
        let deltas = &mut self.deltas;
        deltas.ready = false;
        let file = deltas.file.as_mut().ok_or(SqliteCode::IO)?;
        let next = deltas.header.map_or(1, |header| header.turn.wrapping_add(1));
        // The slot of the latest header stays as it is, so that a power cut leaves one.
        let slot = deltas.slot_left.unwrap_or(slot_of(next));
        let turn = match slot_of(next) == slot {
            true => next,
            false => next.wrapping_add(1),
        };
        let header = Header::new(self.page_size as u32, generation, base, now, nonce, turn);
        if deltas.header.is_some_and(|header| !header.is_numbered()) {
            // The second slot of a log of the first version has a record, which those after it need.
            file.write(delta_log::HEADER as u64, &[0; delta_log::RECORD])?;
            file.sync()?;
            self.written.syncs += 1;
        }
        let mut bytes = header.encode().to_vec();
        if deltas.allocated < RECORDS {
            // A file that is shorter was cut off.
            bytes.resize((RECORDS - SLOTS[slot]) as usize, 0);
        }
        deltas.slot_left = Some(slot);
        file.write(SLOTS[slot], &bytes)?;
        // Only then new records: an old header with a new record would apply it to another database.
        file.sync()?;
        self.written.log += whole_blocks(0, RECORDS);
        self.written.syncs += 1;
        deltas.header = Some(header);
        deltas.slot_left = Some(1 - slot);
        deltas.is_uncertain = false;
        deltas.generation = generation;
        deltas.end = RECORDS;
        deltas.allocated = deltas.allocated.max(deltas.end);
        deltas.reserved = deltas.reserved.max(deltas.end);
        deltas.checksum = header.seed();
        deltas.epochs = 0;
        self.stored.begin_log(self.size);
        // Invariant 5: the header is durable.
        self.mark_in_place(generation)?;
        self.deltas.ready = true;
        Ok(())
    }

    /// Makes invalid what may be behind the end of the log, because a sync has failed.
    pub(super) fn cut_off_deltas(&mut self) -> SqliteResult<()> {
        let deltas = &mut self.deltas;
        let file = deltas.file.as_mut().ok_or(SqliteCode::IO)?;
        file.write(deltas.end, &[0; delta_log::RECORD])?;
        file.sync()?;
        deltas.is_uncertain = false;
        self.written.log += whole_blocks(deltas.end, delta_log::RECORD as u64);
        self.written.syncs += 1;
        Ok(())
    }

    /// Tries to make invalid what a failed epoch has left behind the ends of the logs: after a kill or a power cut the files would
    /// show a transaction that was refused. Where that fails too, it is tried again, or the next epoch does it.
    pub(crate) fn cover_what_failed(&mut self) {
        if self.may_have_first_page && self.take_first_page_back().is_err() {
            // Without `-wal` a power cut could leave a part of the page, which is no database.
            self.must_cover = true;
            return;
        }
        let deltas = match self.deltas.is_uncertain {
            true => self.cut_off_deltas(),
            false => Ok(()),
        };
        self.has_wal_to_cover |= self.wal.open_frames() > 0;
        let wal = match self.wal_file.as_mut().filter(|_| self.has_wal_to_cover) {
            Some(file) => self.wal.cover(file).and_then(|()| file.sync()),
            None => Ok(()),
        };
        self.has_wal_to_cover &= wal.is_err();
        self.must_cover = deltas.is_err() || wal.is_err();
    }

    /// True if the logs may show a transaction that was refused.
    pub(crate) fn must_cover(&self) -> bool {
        self.must_cover
    }

    fn epoch_of_pages(&mut self, flight: &Flight, pages: &PageCache) -> SqliteResult<PlaceChange> {
        if self.epochs > 0 && !self.is_closing && self.marked.is_none() {
            self.mark_in_place(0)?;
        }
        let mut changed = Vec::new();
        for (page, image) in &flight.pages {
            let new = image.bytes()?;
            if *page > self.size || pages.read(*page, |old| *old != *new)? {
                changed.push(*page);
            }
        }
        if changed.is_empty() && flight.size == self.size {
            return Ok(PlaceChange::Nothing);
        }
        let images = self.log_flight(&changed, flight, pages)?;
        self.written.epochs += 1;
        Ok(PlaceChange::Wal { images, size: flight.size, replaces_deltas: false })
    }

    /// Logs pages of an epoch as one commit of `-wal`, and returns where their images begin.
    fn log_flight(&mut self, list: &[u32], flight: &Flight, pages: &PageCache) -> SqliteResult<Vec<(u32, u64)>> {
        self.log_pages(list, flight.size, false, |page| match flight.pages.get(&page) {
            Some(image) => image.bytes(),
            None => Ok(Cow::Owned(pages.read(page, <[u8]>::to_vec)?)),
        })
    }

    /// An epoch too large for a record, or the first or only one: some pages beyond the end go in place at once, others to
    /// `-wal`, and from there in place.
    fn epoch_in_place(&mut self, flight: &Flight, pages: &PageCache) -> SqliteResult<PlaceChange> {
        if self.deltas.epochs > 0 {
            self.bring_in_place(pages, false)?;
        }
        // Where that fails the epoch goes behind it.
        let _ = self.place_what_is_only_in_wal(u64::MAX);
        let list: Vec<u32> = flight.pages.keys().copied().collect();
        let list = self.without_unchanged(list, flight, pages)?;
        if list.is_empty() && flight.size == self.size && self.size > 0 {
            return Ok(PlaceChange::Nothing);
        }
        let end = self.end_in_place()?;
        let (most, beyond) = list.split_at(list.partition_point(|page| *page <= end));
        let is_placed = beyond.len() >= MANY_PAGES
            && self
                .append_pages(beyond, |page| match flight.pages.get(&page) {
                    Some(image) => image.bytes(),
                    None => Err(SqliteCode::IO),
                })
                // On a full disk the room that was reserved is in `-wal`.
                .is_ok();
        let logged = if is_placed { most } else { &list };
        let images = self.log_flight(logged, flight, pages)?;
        // The commit is an epoch that `-ebb` does not have: it begins anew before it gets another record.
        self.deltas.ready = false;
        self.deltas.epochs = 0;
        self.written.epochs += 1;
        Ok(PlaceChange::Wal { images, size: flight.size, replaces_deltas: true })
    }

    /// A transaction that was rolled back has written all its pages as they were: then these need not be written.
    fn without_unchanged(&mut self, list: Vec<u32>, flight: &Flight, pages: &PageCache) -> SqliteResult<Vec<u32>> {
        /// The number of pages that are looked at before all are.
        const SAMPLE: usize = 8;
        let is_changed = |page: &u32| -> SqliteResult<bool> {
            match flight.pages.get(page) {
                Some(image) if *page <= self.size => {
                    let new = image.bytes()?;
                    pages.read(*page, |old| *old != *new)
                }
                _ => Ok(true),
            }
        };
        for page in list.iter().take(SAMPLE) {
            if is_changed(page)? {
                return Ok(list);
            }
        }
        let mut changed = Vec::new();
        for page in list {
            if is_changed(&page)? {
                changed.push(page);
            }
        }
        Ok(changed)
    }

    /// Logs pages as one commit of `-wal`: of what `-ebb` has as well, or of an epoch that only `-wal` is to have.
    pub(super) fn log_pages<'a>(
        &mut self,
        list: &[u32],
        size: u32,
        has_deltas: bool,
        image: impl Fn(u32) -> SqliteResult<Cow<'a, [u8]>>,
    ) -> SqliteResult<Vec<(u32, u64)>> {
        // Where only the length changed any page will do. The first page has the number of the generation that begins with
        // what is in place then.
        let needs_first = list.is_empty() || (self.mark_of_commit().is_some() && list[0] != 1);
        let first: &[u32] = if needs_first { &[1] } else { &[] };
        self.begin_wal(has_deltas)?;
        let count = first.len() + list.len();
        for (index, page) in first.iter().chain(list).enumerate() {
            let size = if index + 1 == count { size } else { 0 };
            let image = image(*page)?;
            if *page == 1 && !self.has_first_page {
                self.first_page = empty_like(&image);
            }
            let marked = self.with_mark(*page, &image);
            let image = marked.as_deref().unwrap_or(&image);
            let file = self.wal_file.as_mut().ok_or(SqliteCode::IO)?;
            self.wal.append(file, *page, image, size)?;
        }
        self.commit_wal(size)
    }

    /// The number in the mark that a commit of `-wal` gives page 1.
    pub(super) fn mark_of_commit(&self) -> Option<u64> {
        let deltas = &self.deltas;
        self.marked.map(|_| match (self.kind, deltas.header) {
            (LogKind::Deltas, Some(header)) => header.generation_after(deltas.checksum),
            // There is no log that a number could name.
            _ => 0,
        })
    }

    pub(super) fn begin_wal(&mut self, has_deltas: bool) -> SqliteResult<()> {
        self.slices.forget_logging();
        if self.deltas.is_uncertain {
            // A record that is not in the commit must not be applied after it.
            match has_deltas {
                true => self.cut_off_deltas()?,
                false => self.begin_deltas()?,
            }
        }
        self.open_wal()?;
        // A commit that is not in place yet stays valid until the next one is durable.
        if !self.wal.is_ready() {
            self.reset_wal()?;
        }
        self.wal_is_uncertain |= !has_deltas && self.kind == LogKind::Deltas;
        self.checkpoint_has_begun |= has_deltas && self.kind == LogKind::Deltas;
        self.wal.begin();
        Ok(())
    }

    /// Has `-wal` begin anew. Where the file has had nothing, the sync of the first commit is that of its header, too.
    pub(super) fn reset_wal(&mut self) -> SqliteResult<()> {
        self.slices = Slices::default();
        self.open_wal()?;
        let random = self.next_random();
        let file = self.wal_file.as_mut().ok_or(SqliteCode::IO)?;
        let is_synced = self.wal.reset(file, self.page_size, random)?;
        self.written.log += whole_blocks(0, crate::wal_log::HEADER);
        self.written.syncs += u64::from(is_synced);
        self.wal_is_stale = false;
        Ok(())
    }

    /// Makes the commit durable, and returns where its images begin.
    pub(super) fn commit_wal(&mut self, size: u32) -> SqliteResult<Vec<(u32, u64)>> {
        let end = self.wal.open_end();
        let file = self.wal_file.as_mut().ok_or(SqliteCode::IO)?;
        if self.is_closing && self.wal_allocated > end {
            // The room that was reserved need not reach the disk.
            file.truncate(end)?;
            self.wal_allocated = end;
        }
        self.written.log += self.wal.sync(file)?;
        self.written.syncs += 1;
        if !self.has_first_page {
            self.write_first_page(end)?;
        }
        let images = self.wal.commit();
        self.wal_allocated = self.wal_allocated.max(self.wal.end());
        self.wal_needed = true;
        self.size = size;
        Ok(images)
    }

    /// Makes a database that is empty one page long: SQLite deletes a WAL beside an empty one. The commit in `-wal` ends at `end`.
    fn write_first_page(&mut self, end: u64) -> SqliteResult<()> {
        // Without the commit, which may be refused, it is a database without tables.
        let page = std::mem::take(&mut self.first_page);
        let page = match page.len() == self.page_size {
            true => page,
            false => vec![0; self.page_size],
        };
        self.may_have_first_page = true;
        let mut write = || {
            if self.database.write(0, &page).is_err() {
                // On a full disk `-wal` has the room, more than its frames take, where none could be reserved in the file.
                let file = self.wal_file.as_mut().ok_or(SqliteCode::IO)?;
                file.truncate(end)?;
                self.wal_allocated = end;
                self.database.write(0, &page)?;
            }
            self.database.sync()
        };
        write().inspect_err(|_| {
            // The next process would take for durable what the disk may not have.
            let _ = self.database.truncate(0).and_then(|()| self.reserve_first_page());
        })?;
        self.written.in_place += whole_blocks(0, self.page_size as u64);
        self.written.syncs += 1;
        self.has_first_page = true;
        self.may_have_first_page = false;
        Ok(())
    }

    /// Has the disk reserve room in the file that has no page yet: what `-wal` gives back another program may take.
    fn reserve_first_page(&self) -> SqliteResult<()> {
        self.lock.as_ref().map_or(Ok(()), |lock| lock.reserve_behind_end(self.page_size as u64))
    }

    /// Makes a database empty again whose first commit was refused.
    pub(super) fn take_first_page_back(&mut self) -> SqliteResult<()> {
        self.database.truncate(0)?;
        let _ = self.reserve_first_page();
        self.database.sync()?;
        self.written.syncs += 1;
        self.may_have_first_page = false;
        Ok(())
    }

    /// Writes pages beyond the end of the database in place: no crash leaves a version behind that has them, until `-wal`
    /// has a commit with the new size.
    pub(super) fn append_pages<'a>(
        &mut self,
        pages: &[u32],
        image: impl Fn(u32) -> SqliteResult<Cow<'a, [u8]>>,
    ) -> SqliteResult<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let mut run = Run::default();
        for page in pages {
            let image = image(*page)?;
            self.place_page(&mut run, *page, &image)?;
        }
        self.end_run(&mut run)
    }

    /// True if the database is not encrypted.
    pub(super) fn is_plain_in_place(&mut self) -> SqliteResult<bool> {
        Ok(is_plain(&self.header()?))
    }
}

/// Writes zeros behind the end of a log up to an offset.
fn grow(file: &mut BaseFile, allocated: &mut u64, end: u64, to: u64) -> SqliteResult<()> {
    let zeros = [0; 1 << 14];
    let mut at = (*allocated).max(end);
    while at < to {
        let count = (to - at).min(zeros.len() as u64);
        file.write(at, &zeros[..count as usize])?;
        at += count;
        *allocated = at;
    }
    Ok(())
}
