//! The files or storages of a database, and what they hold before anything is written.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ebbpool::storage::{Read, Storage};
use ebbpool::{ALIGNMENT, DoubleWriteArea, HEADER_BYTES, PageFormat};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::DatabaseError;
use crate::files;
use crate::log::LogFile;
use crate::options::{DatabaseParts, is_page_size};
use crate::overlay::OverlayFile;
use crate::page::META;
use crate::page::meta::{FORMAT, MetaPage};

/// What is wrong with a file that no database has written.
pub(crate) const FOREIGN: &str = "it does not begin like one; give the path of a database, or a new one";

/// The files or storages of a database, before it is open.
pub(crate) struct DatabaseFiles {
    /// The path that errors name.
    pub(crate) path: PathBuf,
    pub(crate) head: DatabaseHead,
    log: [Arc<dyn LogFile>; 2],
    pages: PageSource,
    /// Nothing in them is to be changed.
    read_only: bool,
}

enum PageSource {
    /// Files beside those of the log, still to be opened.
    Files,
    Opened {
        pages: Arc<dyn Storage>,
        double_write: Option<Arc<dyn Storage>>,
    },
}

/// The pages, unless the database is open read-only and has none, and the double-write area if there is
/// one.
pub(crate) type Storages = (Option<Arc<dyn Storage>>, Option<Arc<dyn Storage>>);

impl DatabaseFiles {
    /// # Errors
    ///
    /// [`DatabaseError::Pool`] if the first page cannot be read.
    pub(crate) fn from_parts(parts: DatabaseParts) -> Result<Self, DatabaseError> {
        let head = DatabaseHead::of_storage(&*parts.pages)?;
        Ok(DatabaseFiles {
            path: parts.pages.describe().into(),
            head,
            log: parts.log.map(Arc::from),
            pages: PageSource::Opened { pages: Arc::from(parts.pages), double_write: parts.double_write.map(Arc::from) },
            read_only: false,
        })
    }

    /// These files with an overlay in memory that has all writes to them.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Log`] if the log cannot be read.
    pub(crate) fn read_only(self) -> Result<Self, DatabaseError> {
        let overlaid = |file| -> Result<Arc<dyn LogFile>, DatabaseError> {
            let file = OverlayFile::new(Some(file));
            let what = "read";
            Ok(Arc::new(file.map_err(|source| DatabaseError::Log { what, source })?))
        };
        let [first, second] = self.log;
        Ok(DatabaseFiles { log: [overlaid(first)?, overlaid(second)?], read_only: true, ..self })
    }

    pub(crate) fn of_files(path: PathBuf, head: DatabaseHead, log: [Arc<dyn LogFile>; 2]) -> Self {
        DatabaseFiles { path, head, log, pages: PageSource::Files, read_only: false }
    }

    /// The log's files; each call returns further handles to them.
    pub(crate) fn log(&self) -> [Box<dyn LogFile>; 2] {
        self.log.each_ref().map(|file| Box::new(SharedLogFile(Arc::clone(file))) as Box<dyn LogFile>)
    }

    /// The storage's page size, if the storage is open already.
    pub(crate) fn page_size(&self) -> Option<usize> {
        match &self.pages {
            PageSource::Files => None,
            PageSource::Opened { pages, .. } => Some(pages.page_size()),
        }
    }

    /// True if there is a double-write area.
    pub(crate) fn has_area(&self) -> bool {
        match &self.pages {
            PageSource::Files => files::has_area(&self.path),
            PageSource::Opened { double_write, .. } => double_write.is_some(),
        }
    }

    /// Opens the storages that are not open yet. The area is opened if it exists, or if `with_area` asks
    /// for one.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::File`], [`DatabaseError::Locked`].
    pub(crate) fn storages(self, page_size: usize, with_area: bool) -> Result<Storages, DatabaseError> {
        match self.pages {
            PageSource::Files if self.read_only => files::storages_to_read(&self.path, page_size),
            PageSource::Files => files::storages(&self.path, page_size, with_area),
            PageSource::Opened { pages, double_write } => Ok((Some(pages), double_write)),
        }
    }

    /// Converts an error of the pool into one of the database. If the images of pages are another
    /// database's, the error names the file that they are in.
    pub(crate) fn foreign_area(&self) -> impl Fn(ebbpool::PoolError) -> DatabaseError + use<> {
        let path = self.path.clone();
        let area = match &self.pages {
            PageSource::Files => files::DatabasePaths::new(&path).double_write.display().to_string(),
            PageSource::Opened { double_write, .. } => double_write.as_ref().map_or_else(String::new, |area| area.describe()),
        };
        move |error| match error {
            ebbpool::PoolError::ForeignArea { found, expected, .. } => DatabaseError::NotADatabase {
                path: path.clone(),
                what: format!(
                    "the images of pages in {area} are those of database {found:#x}, and this one is \
                     {expected:#x}; restore its own, or remove that file if its database no longer exists"
                ),
            },
            error => DatabaseError::Pool(error),
        }
    }

    pub(crate) fn not_a_database(&self, what: impl Into<String>) -> DatabaseError {
        DatabaseError::NotADatabase { path: self.path.clone(), what: what.into() }
    }
}

/// A handle to a log's file that has other handles.
struct SharedLogFile(Arc<dyn LogFile>);

impl LogFile for SharedLogFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        self.0.reserve(from, to)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

/// The beginning of the pages, as far as opening needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseHead {
    /// The length of all pages in bytes.
    pub(crate) length: u64,
    pub(crate) kind: HeadKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadKind {
    /// Zeros only, or nothing at all.
    Empty,
    /// The first page of a database, with the right checksum.
    Ours(MetaPage),
    /// The first page of a database, with a wrong checksum.
    Damaged,
    /// Something that is not a database.
    Foreign,
}

impl DatabaseHead {
    /// Interprets the first bytes, as many as the largest page has or all that there are. `length` is that
    /// of all pages.
    pub(crate) fn from_bytes(bytes: &[u8], length: u64) -> Self {
        let kind = match bytes.iter().all(|&byte| byte == 0) {
            true => HeadKind::Empty,
            false => kind(bytes),
        };
        DatabaseHead { length, kind }
    }

    fn of_storage(pages: &dyn Storage) -> Result<Self, DatabaseError> {
        let failed = |source| ebbpool::PoolError::Read { page: META, source };
        let bytes = read_page(pages, META).map_err(failed)?;
        let count = pages.pages().map_err(failed)?;
        let length = count.saturating_mul(pages.page_size() as u64);
        Ok(DatabaseHead::from_bytes(&bytes, length))
    }

    /// The format, if it is newer than this program's.
    pub(crate) fn newer(&self) -> Option<u32> {
        match self.kind {
            HeadKind::Ours(meta) if meta.format > FORMAT => Some(meta.format),
            _ => None,
        }
    }
}

/// A buffer with room for `size` bytes at an address that is aligned for direct I/O, and where they begin
/// in it.
fn aligned(size: usize) -> (Vec<u8>, std::ops::Range<usize>) {
    let room = vec![0; size + ALIGNMENT];
    let from = room.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    (room, from..from + size)
}

fn read_page(of: &dyn Storage, page: u64) -> io::Result<Vec<u8>> {
    let (mut room, range) = aligned(of.page_size());
    let mut reads = [Read::new(page, &mut room[range])];
    of.read(&mut reads);
    let [Read { buffer, outcome, .. }] = reads;
    outcome.map(|()| buffer.to_vec())
}

/// True if a crash may have torn the first page: the area has an image of it, and the file is one of a pool.
pub(crate) fn first_page_may_be_torn(
    (pages, area): (&dyn Storage, &Arc<dyn Storage>),
    head: HeadKind,
    identity: u64,
) -> Result<bool, ebbpool::PoolError> {
    let may_be_ours = head != HeadKind::Foreign || has_whole_page(pages)?;
    let images = || DoubleWriteArea::open(Box::new(Arc::clone(area)), 0, identity);
    Ok(may_be_ours && images()?.has_image(META)?)
}

/// The number of pages among which [`has_whole_page`] looks for one.
const LOOKED_AT: u64 = 1024;

/// True if a page after the first one is whole, as nearly all pages of a database are after a crash.
fn has_whole_page(pages: &dyn Storage) -> Result<bool, ebbpool::PoolError> {
    let failed = |source| ebbpool::PoolError::Read { page: META, source };
    let end = pages.pages().map_err(failed)?.min(LOOKED_AT);
    // A page that cannot be read is not whole.
    let mut read = (META + 1..end).filter_map(|page| read_page(pages, page).ok());
    Ok(read.any(|bytes| is_whole(&bytes)))
}

/// True if the page has the right checksum. A page of zeros has none.
fn is_whole(page: &[u8]) -> bool {
    let parts = page.split_first_chunk::<8>();
    parts.is_some_and(|(sum, rest)| xxh3_64(rest) == u64::from_le_bytes(*sum))
}

/// Restores torn pages from an area that the pool will not write to, and clears the area: its images would
/// be taken for the latest ones when the area is used again.
pub(crate) fn retire(area: Arc<dyn Storage>, pages: &dyn Storage, identity: u64) -> Result<(), ebbpool::PoolError> {
    let images = DoubleWriteArea::open(Box::new(area), 0, identity)?;
    images.retire(pages, PageFormat::Checked).map(drop)
}

fn kind(bytes: &[u8]) -> HeadKind {
    let payload = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let Ok(meta) = MetaPage::read(payload) else {
        return HeadKind::Foreign;
    };
    let size = meta.page_size as usize;
    let page = bytes.get(..size).filter(|_| is_page_size(size));
    match page.map(is_whole) {
        Some(true) => HeadKind::Ours(meta),
        _ => HeadKind::Damaged,
    }
}
