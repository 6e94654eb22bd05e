//! Where a database is kept, and what is seen there before anything is written.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ebbpool::storage::{Read, Storage, Write};
use ebbpool::{ALIGNMENT, DoubleWriteArea, HEADER_BYTES, PageFormat};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
#[cfg(unix)]
use crate::files;
use crate::log::LogFile;
use crate::options::{Parts, is_page_size};
use crate::overlay::OverlayFile;
use crate::page::META;
use crate::page::meta::{FORMAT, Meta};

/// What is wrong with a file of somebody else's.
pub(crate) const FOREIGN: &str = "it begins otherwise; give the path of a database, or a new one";

/// Where a database is kept.
pub(crate) struct Place {
    /// As errors name it.
    pub(crate) path: PathBuf,
    pub(crate) head: Head,
    log: [Arc<dyn LogFile>; 2],
    pages: Pages,
    /// Nothing of it is to be changed.
    read_only: bool,
}

enum Pages {
    /// Beside the log.
    #[cfg(unix)]
    Files,
    Opened {
        pages: Arc<dyn Storage>,
        double_write: Option<Arc<dyn Storage>>,
    },
}

/// Pages, unless they are only to be read and missing, and the area for images of pages if there is one.
pub(crate) type Storages = (Option<Arc<dyn Storage>>, Option<Arc<dyn Storage>>);

impl Place {
    /// # Errors
    ///
    /// [`Error::Pool`] if the first page cannot be read.
    pub(crate) fn of(parts: Parts) -> Result<Self, Error> {
        let head = Head::of_storage(&*parts.pages)?;
        Ok(Place {
            path: parts.pages.describe().into(),
            head,
            log: parts.log.map(Arc::from),
            pages: Pages::Opened {
                pages: Arc::from(parts.pages),
                double_write: parts.double_write.map(Arc::from),
            },
            read_only: false,
        })
    }

    /// The same place, with all that is written to it kept in memory.
    ///
    /// # Errors
    ///
    /// [`Error::Log`] if the log cannot be read.
    pub(crate) fn read_only(self) -> Result<Self, Error> {
        let overlaid = |file| -> Result<Arc<dyn LogFile>, Error> {
            let file = OverlayFile::new(Some(file));
            let what = "read";
            Ok(Arc::new(
                file.map_err(|source| Error::Log { what, source })?,
            ))
        };
        let [first, second] = self.log;
        Ok(Place {
            log: [overlaid(first)?, overlaid(second)?],
            read_only: true,
            ..self
        })
    }

    #[cfg(unix)]
    pub(crate) fn of_files(path: PathBuf, head: Head, log: [Arc<dyn LogFile>; 2]) -> Self {
        Place {
            path,
            head,
            log,
            pages: Pages::Files,
            read_only: false,
        }
    }

    /// The log's files, which others may have too.
    pub(crate) fn log(&self) -> [Box<dyn LogFile>; 2] {
        self.log
            .each_ref()
            .map(|file| Box::new(Shared(Arc::clone(file))) as Box<dyn LogFile>)
    }

    /// The page size that the storage has, where it is open already.
    pub(crate) fn page_size(&self) -> Option<usize> {
        match &self.pages {
            #[cfg(unix)]
            Pages::Files => None,
            Pages::Opened { pages, .. } => Some(pages.page_size()),
        }
    }

    /// Opens what is not open yet; the area too if there is one, `wanted` or not.
    ///
    /// # Errors
    ///
    /// [`Error::File`], [`Error::Locked`].
    pub(crate) fn storages(self, page_size: usize, wanted: bool) -> Result<Storages, Error> {
        match self.pages {
            #[cfg(unix)]
            Pages::Files if self.read_only => files::storages_to_read(&self.path, page_size),
            #[cfg(unix)]
            Pages::Files => files::storages(&self.path, page_size, wanted),
            Pages::Opened {
                pages,
                double_write,
            } => Ok((Some(pages), double_write)),
        }
    }

    pub(crate) fn not_a_database(&self, what: impl Into<String>) -> Error {
        Error::NotADatabase {
            path: self.path.clone(),
            what: what.into(),
        }
    }
}

/// A log's file that others have too.
struct Shared(Arc<dyn LogFile>);

impl LogFile for Shared {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

/// What the pages begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of all pages.
    pub(crate) length: u64,
    pub(crate) kind: HeadKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadKind {
    /// Nothing was ever written there.
    Empty,
    /// The first page of a database, whole.
    Ours(Meta),
    /// It looks like one, and its checksum is wrong.
    Damaged,
    /// Something else.
    Foreign,
}

impl Head {
    /// Of the first bytes, as many as the largest page has or all that there are, and the length in all.
    pub(crate) fn of(bytes: &[u8], length: u64) -> Self {
        let kind = match bytes.iter().all(|&byte| byte == 0) {
            true => HeadKind::Empty,
            false => kind(bytes),
        };
        Head { length, kind }
    }

    fn of_storage(pages: &dyn Storage) -> Result<Self, Error> {
        let failed = |source| ebbpool::Error::Read { page: META, source };
        let bytes = first_page(pages).map_err(failed)?;
        let count = pages.pages().map_err(failed)?;
        let length = count.saturating_mul(pages.page_size() as u64);
        Ok(Head::of(&bytes, length))
    }

    /// The format, if it is one that is not known here.
    pub(crate) fn newer(&self) -> Option<u32> {
        match self.kind {
            HeadKind::Ours(meta) if meta.format > FORMAT => Some(meta.format),
            _ => None,
        }
    }
}

/// So many bytes, and as many more as it takes to have them begin where direct I/O wants it: where that is.
fn aligned(size: usize) -> (Vec<u8>, std::ops::Range<usize>) {
    let room = vec![0; size + ALIGNMENT];
    let from = room.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    (room, from..from + size)
}

fn first_page(of: &dyn Storage) -> io::Result<Vec<u8>> {
    let (mut room, place) = aligned(of.page_size());
    let mut reads = [Read {
        page: 0,
        buffer: &mut room[place],
        outcome: Ok(()),
    }];
    of.read(&mut reads);
    let [
        Read {
            buffer, outcome, ..
        },
    ] = reads;
    outcome.map(|()| buffer.to_vec())
}

/// Restores torn pages from an area that will not be told of further writes, and makes it forget its
/// images: they would be taken for the latest when the area is used again.
///
/// # Errors
///
/// [`Error::Pool`].
pub(crate) fn retire(area: Arc<dyn Storage>, pages: &dyn Storage) -> Result<(), Error> {
    let failed = |source| ebbpool::Error::Storage {
        what: "the double-write area cannot be emptied",
        source,
    };
    if first_page(&*area)
        .map_err(failed)?
        .iter()
        .all(|&byte| byte == 0)
    {
        return Ok(());
    }
    let images = DoubleWriteArea::open(Box::new(Arc::clone(&area)), 0)?;
    images.restore(pages, PageFormat::Checked)?;
    // Images are looked for from the first page on.
    let (room, place) = aligned(area.page_size());
    let mut writes = [Write {
        page: 0,
        buffer: &room[place],
        outcome: Ok(()),
    }];
    area.write(&mut writes);
    let [write] = writes;
    write.outcome.and_then(|()| area.sync()).map_err(failed)?;
    Ok(())
}

fn kind(bytes: &[u8]) -> HeadKind {
    let payload = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let Ok(meta) = Meta::read(payload) else {
        return HeadKind::Foreign;
    };
    let size = meta.page_size as usize;
    let page = bytes.get(..size).filter(|_| is_page_size(size));
    let is_whole = |page: &[u8]| {
        let (sum, rest) = page.split_first_chunk::<8>()?;
        Some(xxh3_64(rest) == u64::from_le_bytes(*sum))
    };
    match page.and_then(is_whole) {
        Some(true) => HeadKind::Ours(meta),
        _ => HeadKind::Damaged,
    }
}
