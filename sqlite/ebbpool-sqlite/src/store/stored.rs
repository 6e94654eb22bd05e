//! Where each page is as of the last epoch, for the threads that read pages: they wait for no write and no sync.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeBounds;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use super::{PageCache, WrittenBytes, unmark};
use crate::code::{SqliteCode, SqliteResult};
use crate::delta_log::{self, PageDelta};
use crate::disk::{BaseFile, BaseVfs};
use crate::ffi;
use crate::memory::{Image, Lent, Memory};
use crate::options::LogKind;
use crate::sync::lock;

/// What `-ebb` says about a page.
#[derive(Default)]
pub(super) struct Chain {
    /// True if the page was all zeros before the first section.
    from_zeros: bool,
    /// Where the runs of each section are in the file, and their bytes.
    sections: Vec<(u64, u32)>,
}

/// Figures of the files, as of the last step of the thread that writes them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) written: WrittenBytes,
    pub(crate) kind: LogKind,
    /// Bytes of the logs that a checkpoint would bring in place.
    pub(crate) log_bytes: u64,
    /// Bytes of the pages that a checkpoint would write in place.
    pub(crate) changed_bytes: u64,
    pub(crate) is_in_place: bool,
    /// True if a checkpoint has done some of its slices.
    pub(crate) is_between_slices: bool,
    /// True if `-wal` has an epoch that is to go in place, and `-ebb` none.
    pub(crate) is_only_in_wal: bool,
    /// True if a log may show a transaction that was refused.
    pub(crate) must_cover: bool,
    /// Bytes of the log behind its end that are the file's already, so that the disk has room for them.
    pub(crate) room: u64,
}

/// What an epoch changes in the places of pages. The pool takes the pages over at the same moment.
pub(crate) enum PlaceChange {
    /// A record of `-ebb` at an offset.
    Deltas { at: u64, sections: Vec<PageDelta>, size: u32 },
    /// A commit of `-wal`: where the images begin. With `replaces_deltas` all other pages are in place.
    Wal { images: Vec<(u32, u64)>, size: u32, replaces_deltas: bool },
    /// The epoch has changed nothing.
    Nothing,
}

/// The places of the pages, and the files in which they are read.
pub(crate) struct Stored {
    places: RwLock<Places>,
    database: Arc<Mutex<BaseFile>>,
    /// Pages in place that images show: they are stored before others are written there.
    lent: Mutex<BTreeMap<u32, Weak<Lent>>>,
    figures: Mutex<Figures>,
    /// How often the pool has taken pages over.
    moves: AtomicU64,
}

#[derive(Default)]
struct Places {
    page_size: usize,
    size: u32,
    /// Pages beyond this one read as zeros where no log has them.
    zeros_beyond: u32,
    chains: HashMap<u32, Chain>,
    /// Where the latest image of each page in `-wal` begins.
    images: HashMap<u32, u64>,
    ebb: Option<Mutex<BaseFile>>,
    wal: Option<Mutex<BaseFile>>,
}

impl Places {
    fn add_sections(&mut self, at: u64, sections: &[PageDelta], size: u32) {
        self.zeros_beyond = self.zeros_beyond.min(size);
        self.chains.retain(|page, _| *page <= size);
        for section in sections {
            let zeros_beyond = self.zeros_beyond;
            let chain = self
                .chains
                .entry(section.page)
                .or_insert_with(|| Chain { from_zeros: section.page > zeros_beyond, sections: Vec::new() });
            if section.fresh {
                chain.from_zeros = true;
                chain.sections.clear();
            }
            let place = (at + u64::from(section.at), section.bytes);
            chain.sections.push(place);
            self.images.remove(&section.page);
        }
        self.size = size;
    }

    fn add_images(&mut self, images: Vec<(u32, u64)>, size: u32, replaces_deltas: bool) {
        self.images.extend(images);
        self.images.retain(|page, _| *page <= size);
        self.size = size;
        self.zeros_beyond = self.zeros_beyond.min(size);
        if replaces_deltas {
            self.zeros_beyond = size;
            self.chains.clear();
        }
    }
}

impl Stored {
    /// The places of a database whose logs are not read yet.
    pub(super) fn new(database: BaseFile) -> Stored {
        Stored {
            places: RwLock::default(),
            database: Arc::new(Mutex::new(database)),
            lent: Mutex::default(),
            figures: Mutex::default(),
            moves: AtomicU64::new(0),
        }
    }

    // What the places say stays right when a reader panics.
    fn places(&self) -> RwLockReadGuard<'_, Places> {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Places> {
        self.places.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The size in pages as of the last epoch.
    pub(crate) fn size(&self) -> u32 {
        self.places().size
    }

    /// How often the pool has taken pages over. A thread that read a page from the pool without the lock of the state has read what
    /// the main file shows if this is what it was when the thread had the lock.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::SeqCst)
    }

    /// Notes that the pool is about to take pages over. The caller has the lock of the state.
    pub(crate) fn note_move(&self) {
        self.moves.fetch_add(1, Ordering::SeqCst);
    }

    /// Figures as of the last step of the thread that writes.
    pub(crate) fn figures(&self) -> Figures {
        *lock(&self.figures)
    }

    pub(super) fn set_figures(&self, figures: Figures) {
        *lock(&self.figures) = figures;
    }

    /// Reads bytes of the database in place, before the page size is known.
    pub(crate) fn read_in_place(&self, at: u64, into: &mut [u8]) -> SqliteResult<()> {
        lock(&self.database).read(at, into)?;
        if at == 0 {
            unmark(into);
        }
        Ok(())
    }

    /// Reads a page as of the last epoch. The lock for reading lasts until the page is read: the thread that writes begins a log
    /// anew only when no reader looks for a page there.
    pub(crate) fn read(&self, page: u32, into: &mut [u8]) -> SqliteResult<()> {
        let places = self.places();
        if let (Some(at), Some(wal)) = (places.images.get(&page), &places.wal) {
            lock(wal).read_all(*at, into)?;
            unmark_first(page, into);
        } else {
            let chain = places.chains.get(&page);
            if page > places.zeros_beyond || chain.is_some_and(|chain| chain.from_zeros) {
                into.fill(0);
            } else {
                let at = u64::from(page - 1) * places.page_size as u64;
                lock(&self.database).read(at, into)?;
                // The records were made of pages without a mark.
                unmark_first(page, into);
            }
            if let Some(chain) = chain {
                let Some(ebb) = &places.ebb else {
                    return Err(SqliteCode::IO);
                };
                let mut file = lock(ebb);
                let mut runs = Vec::new();
                for (at, bytes) in &chain.sections {
                    runs.resize(*bytes as usize, 0);
                    file.read_all(*at, &mut runs)?;
                    delta_log::apply(&runs, into);
                }
            }
        }
        Ok(())
    }

    /// A page as of the last epoch, for as long as SQLite's main file shows it so: without a copy where it is in place.
    pub(crate) fn earlier(&self, page: u32, pages: &PageCache, memory: &Memory) -> SqliteResult<Image> {
        let places = self.places();
        let is_logged = places.chains.contains_key(&page) || places.images.contains_key(&page);
        // Page 1 has the mark.
        if is_logged || page == 1 || page > places.zeros_beyond {
            drop(places);
            return pages.read(page, |old| memory.store_earlier(old));
        }
        let mut all = lock(&self.lent);
        let lent = all.get(&page).and_then(Weak::upgrade).unwrap_or_else(|| {
            let at = u64::from(page - 1) * places.page_size as u64;
            Arc::new(Lent::new(memory, &self.database, at, places.page_size))
        });
        all.insert(page, Arc::downgrade(&lent));
        Ok(Image::lent(lent))
    }

    /// Stores what is lent of pages that are about to be others in place.
    pub(super) fn keep_lent(&self, pages: impl RangeBounds<u32>) -> SqliteResult<()> {
        let found: Vec<u32> = lock(&self.lent).range(pages).map(|(page, _)| *page).collect();
        for page in found {
            let lent = lock(&self.lent).get(&page).and_then(Weak::upgrade);
            lent.map_or(Ok(()), |lent| lent.keep())?;
            lock(&self.lent).remove(&page);
        }
        Ok(())
    }

    /// The most pages that are lent.
    pub(crate) fn lent_pages(&self) -> usize {
        let mut all = lock(&self.lent);
        // SQLite's checkpoint gives them back from the first to the last.
        while let Some(first) = all.first_entry().filter(|first| first.get().strong_count() == 0) {
            first.remove();
        }
        all.len()
    }

    /// The number of sections that a page is spread over.
    pub(super) fn chain_length(&self, page: u32) -> usize {
        let places = self.places();
        places.chains.get(&page).map_or(0, |chain| chain.sections.len())
    }

    /// The pages that only `-ebb` holds, in ascending order.
    pub(super) fn pages_of_deltas(&self) -> Vec<u32> {
        let places = self.places();
        let held = |page: &u32| *page <= places.size && !places.images.contains_key(page);
        let mut pages: Vec<u32> = places.chains.keys().copied().filter(held).collect();
        pages.sort_unstable();
        pages
    }

    /// The pages with an image in `-wal` and where it begins, in ascending order.
    pub(super) fn images(&self) -> Vec<(u32, u64)> {
        let mut images: Vec<(u32, u64)> = self.places().images.iter().map(|(page, at)| (*page, *at)).collect();
        images.sort_unstable();
        images
    }

    /// The number of pages that are not in place.
    pub(super) fn changed_pages(&self) -> usize {
        let places = self.places();
        places.chains.len() + places.images.len()
    }

    /// Sets the page size in bytes, and the size in pages of a database that is all in place.
    pub(super) fn set_extent(&self, page_size: usize, size: u32) {
        let mut places = self.change();
        places.page_size = page_size;
        places.size = size;
        places.zeros_beyond = size;
        places.chains.clear();
        places.images.clear();
    }

    /// Notes a record of `-ebb` at an offset.
    pub(super) fn add_sections(&self, at: u64, sections: &[PageDelta], size: u32) {
        self.change().add_sections(at, sections, size);
    }

    /// Notes images in `-wal` of pages as of the last epoch.
    pub(super) fn add_images(&self, images: Vec<(u32, u64)>, size: u32) {
        self.change().add_images(images, size, false);
    }

    /// Notes what an epoch has changed.
    pub(crate) fn apply(&self, change: PlaceChange) {
        match change {
            PlaceChange::Deltas { at, sections, size } => {
                self.change().add_sections(at, &sections, size);
            }
            PlaceChange::Wal { images, size, replaces_deltas } => self.change().add_images(images, size, replaces_deltas),
            PlaceChange::Nothing => {}
        }
    }

    /// Notes that every page is in place, before the logs begin anew.
    pub(super) fn all_in_place(&self, size: u32) {
        let mut places = self.change();
        places.chains.clear();
        places.images.clear();
        places.size = size;
        places.zeros_beyond = size;
    }

    /// Notes that `-ebb` begins anew, on a database of a size in pages.
    pub(super) fn begin_log(&self, size: u32) {
        let mut places = self.change();
        places.chains.clear();
        places.zeros_beyond = size;
    }

    /// Opens a log for reading; `None` closes it.
    pub(super) fn read_log_from(&self, base: BaseVfs, path: Option<&str>, kind: i32) -> SqliteResult<()> {
        let file = match path {
            Some(path) => {
                // As the thread that writes opens it: a file that is still empty exists for no reader.
                let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | kind;
                Some(Mutex::new(BaseFile::open(base, path, flags)?))
            }
            None => None,
        };
        let mut places = self.change();
        match kind {
            ffi::OPEN_WAL => places.wal = file,
            _ => places.ebb = file,
        }
        Ok(())
    }
}

fn unmark_first(page: u32, image: &mut [u8]) {
    if page == 1 {
        unmark(image);
    }
}
