//! The double-write area: restores pages that a crash tore, from images that were written to a second place before.
//!
//! Images lie one after the other. Each *batch* of images follows *records*, which are pages that list the images. A
//! batch is synced before its pages are written in place. If the next batch would lie behind the area's length, the
//! data is synced and the next batch *starts over* from an earlier place. The invariants, which other modules cite by
//! number:
//!
//! 1. A page is written in place only after its image, and the record that lists it, have been synced.
//! 2. An image is *needed* from then on until its page was written in place without an error, and synced; or until a
//!    later image of the same page is in the area, which is needed in its place. A write that failed may have torn
//!    the page, and so the image stays needed however often the data is synced.
//! 3. Only a batch that starts over overwrites older images. It begins when no page is being written in place and all
//!    pages that were written have been synced, so that by 2 only the images of failed writes are needed. The batch
//!    contains these images too (it *carries on*), or newer ones of the same pages. It does not overlap any batch
//!    that is needed if it is not written whole itself. If no image is needed it may lie anywhere.
//! 4. Each record names the last record of the batch before it, except in a batch that starts over when no image is
//!    needed. Numbers of records are never used again, not even those of batches that could not be written.
//! 5. So all images that are needed are found by following the records back from the one with the highest number to
//!    the first batch that carries on and is not the last batch; later images of a page are found first. Only the
//!    last batch may not be whole, and then none of its pages was written in place.
//!
//! An image is restored only if the page in place is not whole, and only the latest image of the page.
//!
//! A writer does, in this order:
//!
//! ```text
//! let in_place = area.save_images(&images, || data.sync())?;   // nothing is written in place on an error
//! data.write(&mut writes);
//! in_place.finish(pages_written_without_an_error);
//! ```
//!
//! and a thread that syncs the data:
//!
//! ```text
//! let mark = area.mark();
//! data.sync()?;
//! area.note_synced(mark);
//! ```
//!
//! All writes of the data have to go through the same area, which takes its images for the latest of their pages.
//! Syncs of the data must not overlap: otherwise a sync that succeeds proves nothing, because a kernel reports a
//! failure only once.

mod aligned;
#[cfg(test)]
mod golden;
mod record;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;

use crate::error::{OptionsError, PoolError};
use crate::page::{Damage, PageFormat};
use crate::spaces;
use crate::storage::{Read, Storage, Write, settled};
use crate::sync::{Condvar, Mutex};

use aligned::AlignedPages;
use record::{BatchLinks, DecodedPage, FARTHEST, Image, LEAST_PAGE, Record, VERSION_NOW, capacity};

/// The number of pages of the area that are read at a time.
const READ_AT_ONCE: u64 = 64;

/// How often an image is read before it counts as rotted.
const READS_OF_AN_IMAGE: usize = 3;

/// A small storage for the images of pages, which are written before the pages are written in place. So after a crash
/// either the page or its image is whole.
///
/// This costs one more write of each page and one sync of each batch. Room is reused only after the data was synced,
/// and the images of pages that could not be written in place remain until the pages are written. InnoDB's
/// doublewrite buffer works in the same way.
///
/// A pool that is opened with [`PoolOptions::double_write`](crate::PoolOptions::double_write) writes to the area, and
/// restores pages from it when it is opened. The public functions are for programs that open data and area without a
/// pool: call [`restore`](Self::restore) before anything is read, and [`retire`](Self::retire) before the data is
/// written without the area.
pub struct DoubleWriteArea {
    storage: Box<dyn Storage>,
    /// The number of pages after which a batch starts over.
    length: u64,
    /// The identity of the data, 0 for none.
    identity: u64,
    end: Mutex<AreaEnd>,
    batches: Mutex<BatchStates>,
    written: Condvar,
}

/// Where the next batch of the area begins.
struct AreaEnd {
    /// The pages of the latest batch that carries on and of the batches after it.
    used: Range<u64>,
    /// The number of the next record.
    sequence: u64,
    /// The last record of the latest batch.
    last: Option<u64>,
    /// The data has been synced since the last batch was written in place: the next one starts over.
    starts_over: bool,
    /// Why the area takes no more images.
    broken: Option<String>,
}

/// Batches whose images are synced.
#[derive(Default)]
struct BatchStates {
    begun: u64,
    /// The number of batches whose pages are being written in place.
    in_place: usize,
    /// The number of pages that all batches took, lists included.
    pages: u64,
    /// The images of pages that are being written in place, and of pages for which that failed.
    needed: HashMap<u64, SavedImage>,
}

/// An image in the area.
#[derive(Clone, Copy)]
struct SavedImage {
    at: u64,
    image: Image,
}

/// A batch whose pages are being written in place. Until this is dropped all of its images remain; afterwards the
/// images of the pages that were not passed to [`finish`](Self::finish) remain.
#[must_use = "the images may be overwritten as soon as this is finished; keep it until the pages are written"]
pub(crate) struct InPlaceWrites<'a> {
    area: &'a DoubleWriteArea,
    /// The pages, and where their images are.
    pages: Vec<(u64, u64)>,
}

/// The batches that a sync covers if it begins now. See [`DoubleWriteArea::mark`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncMark {
    begun: u64,
    quiet: bool,
}

/// An image that may be restored, and its batch.
#[derive(Clone, Copy)]
struct ImageCandidate {
    saved: SavedImage,
    batch: u64,
}

/// A record, and where it is.
struct PlacedRecord {
    at: u64,
    record: Record,
}

impl DoubleWriteArea {
    /// Opens an area of `length` pages, of the data's page size. It grows if a batch needs more: one page for each
    /// page of the batch, a few for the lists, and one for each image of a page that cannot be written in place.
    ///
    /// `identity` is a number that identifies the data, 0 if it has none. The area stores it, and refuses data with
    /// another identity from then on: pages would be overwritten with images of other data. A copy of the data has
    /// the same identity.
    ///
    /// # Errors
    ///
    /// [`PoolError::Options`] if pages are too small or the area was written by a later version,
    /// [`PoolError::ForeignArea`] if it belongs to other data, [`PoolError::Grow`] and [`PoolError::Storage`] if
    /// the storage fails.
    pub fn open(storage: Box<dyn Storage>, length: u64, identity: u64) -> Result<Self, PoolError> {
        let page_size = storage.page_size();
        if page_size < LEAST_PAGE {
            let (bytes, least) = (page_size, LEAST_PAGE);
            return Err(OptionsError::AreaPageSize { bytes, least }.into());
        }
        let pages = storage.pages().map_err(unreadable)?;
        if pages < length {
            let grown = storage.grow(length);
            grown.map_err(|source| PoolError::Grow { pages: length, source })?;
        }
        let mut area = DoubleWriteArea {
            storage,
            length,
            identity,
            end: Mutex::new(AreaEnd {
                // Full, so that the data is synced before the first image is overwritten.
                used: 0..length.max(pages),
                sequence: 1,
                last: None,
                starts_over: false,
                broken: None,
            }),
            batches: Mutex::default(),
            written: Condvar::new(),
        };
        // All records count, also those that are not needed any more (4).
        let records = area.records()?;
        let Some(latest) = records.iter().max_by_key(|it| it.record.sequence) else {
            return Ok(area);
        };
        area.check_identity(&latest.record)?;
        area.end.get_mut().sequence = latest.record.sequence + 1;
        Ok(area)
    }

    fn check_identity(&self, latest: &Record) -> Result<(), PoolError> {
        match latest.links {
            Some(links) if links.identity != 0 && links.identity != self.identity => {
                Err(PoolError::ForeignArea { area: self.storage.describe(), found: links.identity, expected: self.identity })
            }
            // An area that was written before the data had an identity is accepted.
            _ => Ok(()),
        }
    }

    /// All records in the area, needed or not.
    fn records(&self) -> Result<Vec<PlacedRecord>, PoolError> {
        let pages = self.storage.pages().map_err(unreadable)?;
        let mut records = Vec::new();
        let mut at = 0;
        while at < pages {
            let count = (pages - at).min(READ_AT_ONCE);
            let mut buffers = AlignedPages::new(count as usize, self.storage.page_size());
            self.read(at, &mut buffers)?;
            for (bytes, at) in buffers.iter().zip(at..) {
                match Record::decode(bytes) {
                    DecodedPage::Record(record) => records.push(PlacedRecord { at, record }),
                    DecodedPage::Newer(version) => {
                        let (found, supported) = (version, VERSION_NOW);
                        return Err(OptionsError::NewerArea { found, supported }.into());
                    }
                    DecodedPage::None => {}
                }
            }
            at += count;
        }
        Ok(records)
    }

    fn read(&self, from: u64, into: &mut AlignedPages) -> Result<(), PoolError> {
        read_pages(&*self.storage, from, into).map_err(|(_, source)| unreadable(source))
    }

    /// Writes and syncs the images of a batch, before the batch is written in place. If there is no room it waits for
    /// batches that are being written in place, and then calls `sync_data` to sync the data. `sync_data` may call all
    /// functions of the area except this one.
    ///
    /// # Errors
    ///
    /// If the area cannot be written or the data cannot be synced: then nothing may be written in place. After a
    /// failed sync of the area every call fails.
    pub(crate) fn save_images(
        &self,
        pages: &[(u64, &[u8])],
        sync_data: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<InPlaceWrites<'_>> {
        let end = &mut *self.end.lock();
        if let Some(cause) = &end.broken {
            let why = format!("the double-write area could not be synced once: {cause}; reopen it");
            return Err(io::Error::other(why));
        }
        if end.used.end.saturating_add(self.room_for(pages.len())) > self.length && !end.starts_over {
            self.wait_for_writers();
            sync_data()?;
            // This stays set until the next batch is in the area: no other batch begins before.
            end.starts_over = true;
        }
        let (needed, carried) = match end.starts_over {
            true => self.carried(pages)?,
            false => (true, Vec::new()),
        };
        let carried = carried.iter().flat_map(|(page, bytes)| {
            let bytes = bytes.iter();
            bytes.map(move |bytes| (*page, bytes))
        });
        let images: Vec<(u64, &[u8])> = carried.chain(pages.iter().copied()).collect();
        let room = self.room_for(images.len());
        let at = match end.starts_over && (!needed || room <= end.used.start) {
            // In front of the images that are needed, if any is (3).
            true => 0,
            false => end.used.end,
        };
        let links = BatchLinks { before: end.last.filter(|_| needed), carries_on: end.starts_over, identity: self.identity };
        let first = end.sequence;
        if links.before.is_some_and(|before| first - before > FARTHEST) {
            let why = "the double-write area could not be written too often; reopen it";
            return Err(io::Error::other(why));
        }
        let lists = room - images.len() as u64;
        // Even if the write fails, because part of the batch may be in the area then (4).
        end.sequence += lists;
        let saved = self.write(at, first, links, &images)?;
        if let Err(error) = self.storage.sync() {
            end.broken = Some(error.to_string());
            return Err(in_area("synced", &error));
        }
        end.used = match end.starts_over {
            true => at..at + room,
            false => end.used.start..at + room,
        };
        end.last = Some(first + lists - 1);
        end.starts_over = false;
        let own = saved.len() - pages.len();
        let own = saved[own..].iter().map(|it| (it.image.page, it.at));
        let mut batches = self.batches.lock();
        batches.begun += 1;
        batches.in_place += 1;
        batches.pages += room;
        let saved = saved.iter().map(|it| (it.image.page, *it));
        batches.needed.extend(saved);
        Ok(InPlaceWrites { area: self, pages: own.collect() })
    }

    /// The number of pages that a batch takes.
    fn room_for(&self, images: usize) -> u64 {
        (images + images.div_ceil(capacity(self.storage.page_size()))) as u64
    }

    /// While no page is being written in place: whether any image is needed, and those of the needed images of which
    /// the next batch has no newer ones.
    fn carried(&self, next_batch: &[(u64, &[u8])]) -> io::Result<(bool, Vec<(u64, AlignedPages)>)> {
        let mut needed: Vec<SavedImage> = self.batches.lock().needed.values().copied().collect();
        if needed.is_empty() {
            return Ok((false, Vec::new()));
        }
        let next_batch: HashSet<u64> = next_batch.iter().map(|&(page, _)| page).collect();
        needed.retain(|it| !next_batch.contains(&it.image.page));
        needed.sort_unstable_by_key(|it| it.image.page);
        let mut carried = Vec::with_capacity(needed.len());
        for SavedImage { at, image } in needed {
            if let Some(bytes) = self.read_image(at, image)? {
                carried.push((image.page, bytes));
                continue;
            }
            let page = image.page;
            tracing::error!(page, "the image of a page that could not be written in place has rotted");
            self.batches.lock().needed.remove(&page);
        }
        Ok((true, carried))
    }

    /// The bytes of an image; `None` if they are not as they were written. It is read several times before that is believed:
    /// it may be the only whole copy of its page, and a transfer from the device may have flipped a bit.
    fn read_image(&self, at: u64, image: Image) -> io::Result<Option<AlignedPages>> {
        let mut bytes = AlignedPages::new(1, self.storage.page_size());
        for _ in 0..READS_OF_AN_IMAGE {
            let read = read_pages(&*self.storage, at, &mut bytes);
            read.map_err(|(_, error)| in_area("read", &error))?;
            if bytes.iter().any(|bytes| image.matches(bytes)) {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// True if a sync of the area has failed: it takes no more images.
    pub(crate) fn is_broken(&self) -> bool {
        self.end.lock().broken.is_some()
    }

    /// Pages written to the area since it was opened, its lists included.
    pub(crate) fn pages_written(&self) -> u64 {
        self.batches.lock().pages
    }

    fn wait_for_writers(&self) {
        let mut batches = self.batches.lock();
        while batches.in_place > 0 {
            self.written.wait(&mut batches);
        }
    }

    /// Writes a batch, whose records are numbered from `first` on.
    fn write(&self, at: u64, first: u64, links: BatchLinks, pages: &[(u64, &[u8])]) -> io::Result<Vec<SavedImage>> {
        let page_size = self.storage.page_size();
        let most = capacity(page_size);
        let chunks = pages.chunks(most);
        let mut lists = AlignedPages::new(chunks.len(), page_size);
        let mut saved = Vec::with_capacity(pages.len());
        let mut list_at = at;
        for ((list, chunk), sequence) in lists.iter_mut().zip(chunks.clone()).zip(first..) {
            let images = chunk.iter().map(|&(page, bytes)| Image::new(page, bytes));
            let record = Record { sequence, batch: first, links: Some(links), images: images.collect() };
            record.encode(list);
            let places = (list_at + 1..).zip(&record.images);
            saved.extend(places.map(|(at, &image)| SavedImage { at, image }));
            list_at += record.pages();
        }
        let buffers = lists.iter().zip(chunks).flat_map(|(list, chunk)| {
            let images = chunk.iter().map(|&(_, bytes)| bytes);
            std::iter::once(list).chain(images)
        });
        self.write_pages(at, buffers)?;
        Ok(saved)
    }

    fn write_pages<'b>(&self, at: u64, buffers: impl Iterator<Item = &'b [u8]>) -> io::Result<()> {
        let mut writes: Vec<Write<'_>> = buffers.zip(at..).map(|(buffer, page)| Write::new(page, buffer)).collect();
        self.storage.write(&mut writes);
        let mut outcomes = writes.into_iter().map(|write| settled(write.outcome));
        let failed = outcomes.find_map(Result::err);
        failed.map_or(Ok(()), |error| Err(in_area("written", &error)))
    }

    /// Takes the mark of a sync, right before the data is synced: it says which batches the sync covers.
    pub(crate) fn mark(&self) -> SyncMark {
        let batches = self.batches.lock();
        SyncMark { begun: batches.begun, quiet: batches.in_place == 0 }
    }

    /// Notes that the data has been synced since the mark was taken. If no batch was being written then or has begun
    /// since, the next batch starts over; otherwise the area goes on filling up.
    pub(crate) fn note_synced(&self, mark: SyncMark) {
        // If another thread has the lock, it is about to begin a batch.
        if let Some(mut end) = self.end.try_lock()
            && mark.quiet
            && self.batches.lock().begun == mark.begun
        {
            end.starts_over = true;
        }
    }

    /// Writes back the image of each page that is not whole in place, or cannot be read there, and syncs the data.
    /// Returns these pages, in ascending order. It can be repeated, also after a crash that interrupted it.
    ///
    /// # Errors
    ///
    /// [`PoolError::Options`] if the pages have no checksum ([`PageFormat::Raw`]) or another size than the area's;
    /// [`PoolError::Read`] if a page cannot be read and has no whole image, and [`PoolError::Storage`] if a storage
    /// fails otherwise.
    pub fn restore(&self, data: &dyn Storage, format: PageFormat) -> Result<Vec<u64>, PoolError> {
        let page_size = self.storage.page_size();
        if format != PageFormat::Checked {
            return Err(OptionsError::RawDoubleWrite.into());
        }
        if data.page_size() != page_size {
            let (area, data) = (page_size, data.page_size());
            return Err(OptionsError::UnequalPageSizes { area, data }.into());
        }
        let mut end = self.end.lock();
        let (candidates, last_batch) = self.candidates()?;
        let mut pages: Vec<u64> = candidates.keys().copied().collect();
        pages.sort_unstable();
        let mut restored = Vec::new();
        let mut torn = Vec::new();
        for page in pages {
            // A page that cannot be read counts as torn: a write that failed may have left it so.
            match is_torn(data, page) {
                Ok(false) => {}
                Ok(true) => torn.push((page, Ok(()))),
                Err(unreadable @ PoolError::Read { .. }) => torn.push((page, Err(unreadable))),
                // Before any page is written.
                Err(error) => return Err(error),
            }
        }
        for (page, torn) in torn {
            match self.restore_page(data, page, &candidates[&page], last_batch)? {
                true => restored.push(page),
                false => torn?,
            }
        }
        data.sync().map_err(|source| PoolError::Storage {
            what: "the data cannot be synced after torn pages were restored; reopen it",
            source,
        })?;
        // All pages are whole in place, except those without an image.
        end.starts_over = true;
        Ok(restored)
    }

    /// [Restores](Self::restore) torn pages for the last time, and empties the area. From then on the data may be
    /// written without the area, and later with it again.
    ///
    /// # Errors
    ///
    /// As [`restore`](Self::restore).
    pub fn retire(self, data: &dyn Storage, format: PageFormat) -> Result<Vec<u64>, PoolError> {
        let restored = self.restore(data, format)?;
        let number = self.end.lock().sequence;
        if number > 1 {
            let record = Record {
                sequence: number,
                batch: number,
                links: Some(BatchLinks { before: None, carries_on: true, identity: self.identity }),
                images: Vec::new(),
            };
            let mut list = AlignedPages::new(1, self.storage.page_size());
            list.iter_mut().for_each(|list| record.encode(list));
            let written = self.write_pages(0, list.iter());
            let emptied = written.and_then(|()| self.storage.sync());
            emptied.map_err(|source| PoolError::Storage { what: "the double-write area cannot be emptied", source })?;
        }
        Ok(restored)
    }

    /// True if the area has an image of a page: a crash may have torn it.
    ///
    /// # Errors
    ///
    /// [`PoolError::Storage`] if the area cannot be read.
    pub fn has_image(&self, page: u64) -> Result<bool, PoolError> {
        Ok(self.candidates()?.0.contains_key(&page))
    }

    /// The images of each page, latest first, and the number of the last batch.
    fn candidates(&self) -> Result<(HashMap<u64, Vec<ImageCandidate>>, u64), PoolError> {
        let records = self.records()?;
        let latest = records.iter().max_by_key(|it| it.record.sequence);
        let (last_batch, live) = match latest {
            None => (0, Vec::new()),
            Some(latest) if latest.record.links.is_some() => (latest.record.batch, linked_records(&records, latest)),
            Some(_) => {
                let live = consecutive_records(&records);
                (live.first().map_or(0, |latest| latest.record.batch), live)
            }
        };
        let mut found: HashMap<u64, Vec<ImageCandidate>> = HashMap::new();
        for PlacedRecord { at, record } in live {
            for (&image, at) in record.images.iter().zip(at + 1..) {
                let saved = SavedImage { at, image };
                let batch = record.batch;
                let candidates = found.entry(image.page).or_default();
                candidates.push(ImageCandidate { saved, batch });
            }
        }
        Ok((found, last_batch))
    }

    /// Restores a page from its latest whole image; false if there is none.
    fn restore_page(
        &self,
        data: &dyn Storage,
        page: u64,
        candidates: &[ImageCandidate],
        last_batch: u64,
    ) -> Result<bool, PoolError> {
        let mut image = AlignedPages::new(1, self.storage.page_size());
        for candidate in candidates {
            self.read(candidate.saved.at, &mut image)?;
            let bytes = image.iter().next().unwrap_or_default();
            let whole = candidate.saved.image.matches(bytes);
            if whole && PageFormat::Checked.check(bytes, page).is_ok() {
                write_page(data, page, bytes)?;
                return Ok(true);
            }
            // Only the images of the last batch may not be whole (5). An image before a damaged one is older than the
            // page should be.
            if candidate.batch != last_batch {
                break;
            }
        }
        Ok(false)
    }
}

impl InPlaceWrites<'_> {
    /// Ends the batch. `written` are the pages that were written in place without an error: their images are no
    /// longer needed once the data is synced. The images of the batch's other pages remain.
    pub(crate) fn finish(self, written: impl IntoIterator<Item = u64>) {
        let written: HashSet<u64> = written.into_iter().collect();
        let mut batches = self.area.batches.lock();
        for (page, at) in self.pages.iter().filter(|(page, _)| written.contains(page)) {
            if batches.needed.get(page).is_some_and(|saved| saved.at == *at) {
                batches.needed.remove(page);
            }
        }
    }
}

impl Drop for InPlaceWrites<'_> {
    fn drop(&mut self) {
        let mut batches = self.area.batches.lock();
        batches.in_place -= 1;
        if batches.in_place == 0 {
            self.area.written.notify_all();
        }
    }
}

/// The records whose images may be needed (5), the latest first.
fn linked_records<'r>(records: &'r [PlacedRecord], latest: &'r PlacedRecord) -> Vec<&'r PlacedRecord> {
    let mut batches: HashMap<u64, Vec<&PlacedRecord>> = HashMap::new();
    for placed in records {
        batches.entry(placed.record.batch).or_default().push(placed);
    }
    let mut last = latest;
    let mut live = Vec::new();
    loop {
        let number = last.record.batch;
        let mut batch = batches.remove(&number).unwrap_or_default();
        batch.sort_unstable_by_key(|it| Reverse(it.record.sequence));
        // If a record is missing, later images of pages of older records may be missing too.
        let is_whole = batch.len() as u64 > last.record.sequence - number;
        let is_last = number == latest.record.batch;
        live.append(&mut batch);
        let before = last.record.links.filter(|links| match is_last {
            true => true,
            false => is_whole && !links.carries_on,
        });
        let before = before.and_then(|links| links.before).and_then(|before| {
            let mut records = records.iter();
            records.find(|it| it.record.sequence == before)
        });
        match before {
            Some(before) => last = before,
            None => return live,
        }
    }
}

/// The records of version 1 that may be needed, the latest first: they begin at the first page, each behind the
/// images of the one before.
fn consecutive_records(records: &[PlacedRecord]) -> Vec<&PlacedRecord> {
    let mut live: Vec<&PlacedRecord> = Vec::new();
    let mut at = 0;
    while let Some(next) = records.iter().find(|it| it.at == at)
        && live.last().is_none_or(|last| next.record.sequence == last.record.sequence + 1)
    {
        at += next.record.pages();
        live.push(next);
    }
    live.reverse();
    live
}

fn is_torn(data: &dyn Storage, page: u64) -> Result<bool, PoolError> {
    let mut buffer = AlignedPages::new(1, data.page_size());
    read_pages(data, page, &mut buffer).map_err(|(page, source)| PoolError::Read { page, source })?;
    let checked = buffer.iter().next();
    let checked = checked.map(|bytes| PageFormat::Checked.check(bytes, page));
    match checked {
        Some(Err(damage @ Damage::Newer(_))) => Err(PoolError::Damaged { page, damage }),
        // A whole page of another file, which no image may replace.
        Some(Err(Damage::Misplaced(found))) if spaces::place(found).0 != spaces::place(page).0 => {
            let ((file, page), (its_file, its_page)) = (spaces::place(page), spaces::place(found));
            let why = format!(
                "are not those, or not in the order, as which they were written: page {page} of file {file} is page {its_page} of file {its_file}"
            );
            Err(OptionsError::Files(why).into())
        }
        Some(Err(_)) => Ok(true),
        _ => Ok(false),
    }
}

fn read_pages(storage: &dyn Storage, from: u64, into: &mut AlignedPages) -> Result<(), (u64, io::Error)> {
    let mut reads: Vec<Read<'_>> = into.iter_mut().zip(from..=u64::MAX).map(|(buffer, page)| Read::new(page, buffer)).collect();
    storage.read(&mut reads);
    let mut outcomes = reads.into_iter().map(|read| (read.page, settled(read.outcome)));
    let failed = outcomes.find_map(|(page, outcome)| Some((page, outcome.err()?)));
    failed.map_or(Ok(()), Err)
}

fn write_page(data: &dyn Storage, page: u64, buffer: &[u8]) -> Result<(), PoolError> {
    let mut writes = [Write::new(page, buffer)];
    data.write(&mut writes);
    let [write] = writes;
    settled(write.outcome).map_err(|source| PoolError::Storage { what: "a torn page cannot be restored", source })
}

fn unreadable(source: io::Error) -> PoolError {
    PoolError::Storage { what: "the double-write area cannot be read", source }
}

fn in_area(what: &str, error: &io::Error) -> io::Error {
    let why = format!("the double-write area cannot be {what}: {error}");
    match error.raw_os_error() {
        Some(_) => io::Error::new(error.kind(), why),
        None => io::Error::other(why),
    }
}
