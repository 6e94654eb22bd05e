//! Pages that a crash tore, restored from a second place that they were written to before.

mod aligned;
mod record;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;

use crate::error::Error;
use crate::page::{Damage, PageFormat};
use crate::storage::{Read, Storage, Write};
use crate::sync::{Condvar, Mutex};

use aligned::AlignedPages;
use record::{Image, LEAST_PAGE, Record, capacity};

/// A small storage that takes the images of pages before they are written in place, so that of each
/// page one of the two is whole after a crash.
///
/// Images lie one after the other, each batch behind a page that lists them, and are synced before
/// the batch is written in place; that is one more write of each page and one sync of a batch.
/// Places are used again only after the data was synced. InnoDB's doublewrite buffer works so.
///
/// A writer does, in this order:
///
/// ```text
/// let in_place = area.before(&images, || data.sync())?;   // nothing is written in place on an error
/// data.write(&mut writes);
/// drop(in_place);
/// ```
///
/// and whoever syncs the data:
///
/// ```text
/// let mark = area.mark();
/// data.sync()?;
/// area.settled(mark);
/// ```
///
/// When data and area are opened, [`restore`](Self::restore) comes first, before anything is read. All
/// writes of the data have to go through the same area from then on: images are believed to be the
/// latest of their pages.
pub struct DoubleWriteArea {
    storage: Box<dyn Storage>,
    end: Mutex<End>,
    batches: Mutex<Batches>,
    written: Condvar,
}

/// Where the area goes on.
struct End {
    /// Pages that it takes.
    length: u64,
    /// The page after the latest record.
    next: u64,
    /// What the next record is to be numbered.
    sequence: u64,
    /// Why nothing can be trusted any more.
    broken: Option<String>,
}

/// Batches whose images are safe.
#[derive(Default)]
struct Batches {
    begun: u64,
    /// Those that are being written in place.
    in_place: usize,
    /// Pages that they took, lists included.
    pages: u64,
}

/// A batch that is being written in place. To be dropped when its writes have their outcomes: until
/// then its images are kept.
#[must_use = "the images may be overwritten as soon as this is dropped; keep it until the pages are written"]
pub struct InPlace<'a>(&'a DoubleWriteArea);

/// What a sync that begins now will cover. See [`DoubleWriteArea::mark`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    begun: u64,
    quiet: bool,
}

/// A place where an image may be.
#[derive(Clone, Copy)]
struct Candidate {
    at: u64,
    image: Image,
    batch: u64,
}

impl DoubleWriteArea {
    /// An area of `length` pages, of the data's page size. It grows if a batch needs more: one page
    /// for each of the batch's, and a few for the lists.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] if pages are too small, [`Error::Grow`] and [`Error::Storage`] if the
    /// storage fails.
    pub fn open(storage: Box<dyn Storage>, length: u64) -> Result<Self, Error> {
        let page_size = storage.page_size();
        if page_size < LEAST_PAGE {
            return Err(Error::Options(format!(
                "the double-write area needs pages of at least {LEAST_PAGE} bytes, not {page_size}"
            )));
        }
        let pages = storage.pages().map_err(unreadable)?;
        if pages < length {
            let grown = storage.grow(length);
            grown.map_err(|source| Error::Grow {
                pages: length,
                source,
            })?;
        }
        let length = pages.max(length);
        let mut area = DoubleWriteArea {
            storage,
            end: Mutex::new(End {
                length,
                // Full, so that the data is synced before the first image is overwritten.
                next: length,
                sequence: 1,
                broken: None,
            }),
            batches: Mutex::default(),
            written: Condvar::new(),
        };
        area.end.get_mut().sequence = area.highest_sequence(pages)? + 1;
        Ok(area)
    }

    /// Of all records there are, those that nobody needs any more included: a number that was used
    /// once must not come again.
    fn highest_sequence(&self, pages: u64) -> Result<u64, Error> {
        let mut highest = 0;
        let mut at = 0;
        while at < pages {
            let count = (pages - at).min(64) as usize;
            let mut buffers = AlignedPages::new(count, self.storage.page_size());
            self.read(at, &mut buffers)?;
            let records = buffers.iter().filter_map(Record::decode);
            highest = records.map(|it| it.sequence).fold(highest, u64::max);
            at += count as u64;
        }
        Ok(highest)
    }

    fn read(&self, from: u64, into: &mut AlignedPages) -> Result<(), Error> {
        read_pages(&*self.storage, from, into).map_err(|(_, source)| unreadable(source))
    }

    /// Makes the images of a batch safe, before the batch is written in place. If there is no room
    /// it waits for batches that are being written and has the data synced by `sync_data`, which
    /// may use all of the area but this function.
    ///
    /// # Errors
    ///
    /// If the area cannot be written or the data not be synced; nothing may be written in place
    /// then. After a failed sync of the area it fails for ever.
    pub fn before(
        &self,
        pages: &[(u64, &[u8])],
        sync_data: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<InPlace<'_>> {
        let mut end = self.end.lock();
        if let Some(cause) = &end.broken {
            let why = format!("the double-write area could not be synced once: {cause}; reopen it");
            return Err(io::Error::other(why));
        }
        let lists = pages.len().div_ceil(capacity(self.storage.page_size()));
        let needed = (pages.len() + lists) as u64;
        if end.length - end.next < needed {
            self.wait_for_writers();
            sync_data()?;
            end.next = 0;
            end.length = end.length.max(needed);
        }
        self.write(&end, pages)?;
        if let Err(error) = self.storage.sync() {
            end.broken = Some(error.to_string());
            return Err(in_area("synced", &error));
        }
        end.next += needed;
        end.sequence += lists as u64;
        let mut batches = self.batches.lock();
        batches.begun += 1;
        batches.in_place += 1;
        batches.pages += needed;
        Ok(InPlace(self))
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

    fn write(&self, end: &End, pages: &[(u64, &[u8])]) -> io::Result<()> {
        let page_size = self.storage.page_size();
        let chunks = pages.chunks(capacity(page_size));
        let mut lists = AlignedPages::new(chunks.len(), page_size);
        for ((list, chunk), sequence) in lists.iter_mut().zip(chunks.clone()).zip(end.sequence..) {
            let images = chunk.iter().map(|&(page, bytes)| Image::of(page, bytes));
            let record = Record {
                sequence,
                batch: end.sequence,
                images: images.collect(),
            };
            record.encode(list);
        }
        let buffers = lists.iter().zip(chunks).flat_map(|(list, chunk)| {
            let images = chunk.iter().map(|&(_, bytes)| bytes);
            std::iter::once(list).chain(images)
        });
        let mut writes: Vec<Write<'_>> = buffers
            .zip(end.next..)
            .map(|(buffer, page)| Write {
                page,
                buffer,
                outcome: Ok(()),
            })
            .collect();
        self.storage.write(&mut writes);
        let mut outcomes = writes.into_iter().map(|write| write.outcome);
        let failed = outcomes.find_map(Result::err);
        failed.map_or(Ok(()), |error| Err(in_area("written", &error)))
    }

    /// To be taken right before the data is synced: which batches that will cover.
    pub fn mark(&self) -> Mark {
        let batches = self.batches.lock();
        Mark {
            begun: batches.begun,
            quiet: batches.in_place == 0,
        }
    }

    /// The data has been synced since the mark was taken. If no batch was being written then or has
    /// begun since, the area is empty from now on; else it goes on filling up.
    pub fn settled(&self, mark: Mark) {
        // Whoever has the lock is about to begin a batch.
        if let Some(mut end) = self.end.try_lock()
            && mark.quiet
            && self.batches.lock().begun == mark.begun
        {
            end.next = 0;
        }
    }

    /// Writes back the image of each page that is not whole in place, and syncs the data; answers
    /// which pages these were, in ascending order. It can be repeated, also after a crash that
    /// interrupted it.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] if the pages have no checksum ([`PageFormat::Raw`]) or not the size of the
    /// area's; [`Error::Read`], [`Error::Write`] and [`Error::Storage`] if a storage fails.
    pub fn restore(&self, data: &dyn Storage, format: PageFormat) -> Result<Vec<u64>, Error> {
        let page_size = self.storage.page_size();
        if format != PageFormat::Checked {
            let why = "torn pages are found by their checksums, so a double-write area needs PageFormat::Checked";
            return Err(Error::Options(why.into()));
        }
        if data.page_size() != page_size {
            return Err(Error::Options(format!(
                "pages of the double-write area have {page_size} bytes, and those of the data {}",
                data.page_size()
            )));
        }
        let mut end = self.end.lock();
        let (candidates, last_batch) = self.candidates(end.length)?;
        let mut pages: Vec<u64> = candidates.keys().copied().collect();
        pages.sort_unstable();
        let mut restored = Vec::new();
        for page in pages {
            let images = &candidates[&page];
            if is_torn(data, page)? && self.restore_page(data, page, images, last_batch)? {
                restored.push(page);
            }
        }
        data.sync().map_err(|source| Error::Storage {
            what: "the data cannot be synced after torn pages were restored; reopen it",
            source,
        })?;
        end.next = 0;
        Ok(restored)
    }

    /// Where the images of each page are, latest first, and which batch is the last one.
    fn candidates(&self, length: u64) -> Result<(HashMap<u64, Vec<Candidate>>, u64), Error> {
        let mut found: HashMap<u64, Vec<Candidate>> = HashMap::new();
        let mut list = AlignedPages::new(1, self.storage.page_size());
        let mut before: Option<Record> = None;
        let mut at = 0;
        while at < length {
            self.read(at, &mut list)?;
            let record = list.iter().next().and_then(Record::decode);
            let follows = |record: &Record| match &before {
                Some(before) => record.sequence == before.sequence + 1,
                None => true,
            };
            let Some(record) = record.filter(follows) else {
                break;
            };
            for (&image, at) in record.images.iter().zip(at + 1..) {
                let batch = record.batch;
                let candidate = Candidate { at, image, batch };
                found.entry(image.page).or_default().insert(0, candidate);
            }
            at += record.pages();
            before = Some(record);
        }
        Ok((found, before.map_or(0, |record| record.batch)))
    }

    /// False if there is no whole image of the page.
    fn restore_page(
        &self,
        data: &dyn Storage,
        page: u64,
        candidates: &[Candidate],
        last_batch: u64,
    ) -> Result<bool, Error> {
        let mut image = AlignedPages::new(1, self.storage.page_size());
        for candidate in candidates {
            self.read(candidate.at, &mut image)?;
            let bytes = image.iter().next().unwrap_or_default();
            let whole = candidate.image.is(bytes);
            if whole && PageFormat::Checked.check(bytes, page).is_ok() {
                write_page(data, page, bytes)?;
                return Ok(true);
            }
            // Only of the last batch the images need not be whole, and then nothing of it was
            // written in place. An image before a lost one is older than the page should be.
            if candidate.batch != last_batch {
                break;
            }
        }
        Ok(false)
    }
}

impl Drop for InPlace<'_> {
    fn drop(&mut self) {
        let mut batches = self.0.batches.lock();
        batches.in_place -= 1;
        if batches.in_place == 0 {
            self.0.written.notify_all();
        }
    }
}

fn is_torn(data: &dyn Storage, page: u64) -> Result<bool, Error> {
    let mut buffer = AlignedPages::new(1, data.page_size());
    read_pages(data, page, &mut buffer).map_err(|(page, source)| Error::Read { page, source })?;
    let checked = buffer.iter().next();
    let checked = checked.map(|bytes| PageFormat::Checked.check(bytes, page));
    match checked {
        Some(Err(damage @ Damage::Newer(_))) => Err(Error::Damaged { page, damage }),
        Some(Err(_)) => Ok(true),
        _ => Ok(false),
    }
}

fn read_pages(
    storage: &dyn Storage,
    from: u64,
    into: &mut AlignedPages,
) -> Result<(), (u64, io::Error)> {
    let mut reads: Vec<Read<'_>> = into
        .iter_mut()
        .zip(from..)
        .map(|(buffer, page)| Read {
            page,
            buffer,
            outcome: Ok(()),
        })
        .collect();
    storage.read(&mut reads);
    let mut outcomes = reads.into_iter().map(|read| (read.page, read.outcome));
    let failed = outcomes.find_map(|(page, outcome)| Some((page, outcome.err()?)));
    failed.map_or(Ok(()), Err)
}

fn write_page(data: &dyn Storage, page: u64, buffer: &[u8]) -> Result<(), Error> {
    let mut writes = [Write {
        page,
        buffer,
        outcome: Ok(()),
    }];
    data.write(&mut writes);
    let [write] = writes;
    write.outcome.map_err(|source| Error::Storage {
        what: "a torn page cannot be restored",
        source,
    })
}

fn unreadable(source: io::Error) -> Error {
    Error::Storage {
        what: "the double-write area cannot be read",
        source,
    }
}

fn in_area(what: &str, error: &io::Error) -> io::Error {
    let why = format!("the double-write area cannot be {what}: {error}");
    match error.raw_os_error() {
        Some(_) => io::Error::new(error.kind(), why),
        None => io::Error::other(why),
    }
}
