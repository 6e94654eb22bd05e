//! The file that pages are kept in: ours, made anew, or refused.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ebbpool::storage::{FileOptions, FileStorage, MemoryStorage, OpenError, Storage};
use ebbpool::{HEADER_BYTES, PoolOptions};
use tempfile::TempPath;

use super::{ReplayError, ReplayFile, ReplayStorage, page};
use crate::events::Events;

/// Memory for the pages that are written together when a file is made.
const FILLED_TOGETHER: usize = 64 << 20;

/// Pages in one call of the storage then.
const BATCH: u32 = 256;

/// What is kept in memory may not be larger: a page number that is wrong by far would end in the
/// system's killing whatever it likes.
const MOST_MEMORY: u64 = 64 << 30;

/// The work of making a file, in reports of progress.
const MAKING: &str = "making the file";

/// What pages the file is to have.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) page_size: usize,
    pub(super) pages: u64,
}

impl Extent {
    fn bytes(self) -> u64 {
        self.pages.saturating_mul(self.page_size as u64)
    }
}

/// Where the pages are kept between one pool and the next.
pub(super) enum PageStore<'a> {
    Memory(Arc<MemoryStorage>),
    File(TargetFile<'a>),
}

impl<'a> PageStore<'a> {
    /// Finds or makes it.
    pub(super) fn find(
        storage: &'a ReplayStorage,
        extent: Extent,
        events: &'a dyn Events,
    ) -> Result<Self, ReplayError> {
        let ReplayStorage::File(file) = storage else {
            return in_memory(extent).map(PageStore::Memory);
        };
        let target = TargetFile {
            file,
            path: &file.path,
            extent,
            events,
        };
        target.prepare()?;
        Ok(PageStore::File(target))
    }

    /// The storage for one pool: files are opened for each, since memory is registered once.
    pub(super) fn open(&self) -> Result<Arc<dyn Storage>, ReplayError> {
        Ok(match self {
            PageStore::Memory(storage) => Arc::<MemoryStorage>::clone(storage),
            PageStore::File(target) => Arc::new(target.storage()?),
        })
    }

    /// What it is called in messages.
    pub(super) fn label(&self) -> String {
        match self {
            PageStore::Memory(_) => "memory".into(),
            PageStore::File(target) => target.path.display().to_string(),
        }
    }
}

fn in_memory(extent: Extent) -> Result<Arc<MemoryStorage>, ReplayError> {
    let too_large = || ReplayError::TooLarge(extent.bytes());
    if extent.bytes() > MOST_MEMORY {
        return Err(too_large());
    }
    let storage = MemoryStorage::new(extent.page_size);
    storage.grow(extent.pages).map_err(|_| too_large())?;
    Ok(Arc::new(storage))
}

/// Why a file that exists cannot be used as it is.
enum Unfit {
    /// A replay made it, for a trace of another kind: nothing in it is missed.
    Other(ReplayError),
    Refused(ReplayError),
}

impl From<ReplayError> for Unfit {
    fn from(error: ReplayError) -> Self {
        Unfit::Refused(error)
    }
}

impl From<Unfit> for ReplayError {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Other(error) | Unfit::Refused(error) => error,
        }
    }
}

/// A file, or a block device.
pub(super) struct TargetFile<'a> {
    file: &'a ReplayFile,
    path: &'a Path,
    extent: Extent,
    events: &'a dyn Events,
}

impl TargetFile<'_> {
    fn prepare(&self) -> Result<(), ReplayError> {
        let found = match fs::metadata(self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.make(),
            found => found.map_err(|error| self.failed("look at it", error))?,
        };
        if !found.is_file() && !found.file_type().is_block_device() {
            return Err(ReplayError::Open(OpenError::NotAFile(self.path.into())));
        }
        let nothing_in_it = found.is_file() && found.len() == 0;
        if self.file.overwrite || (self.file.create && nothing_in_it) {
            if !nothing_in_it {
                self.permit()?;
            }
            return self.make_anew(found.is_file());
        }
        if nothing_in_it {
            return Err(ReplayError::Empty(self.path.into()));
        }
        match self.existing() {
            Err(Unfit::Other(_)) if self.file.create => self.make_anew(found.is_file()),
            existing => Ok(existing?),
        }
    }

    fn options(&self) -> FileOptions {
        FileOptions::new()
            .page_size(self.extent.page_size)
            .engine(self.file.engine)
            .direct(self.file.direct)
    }

    fn storage(&self) -> Result<FileStorage, ReplayError> {
        Ok(FileStorage::open(self.path, &self.options())?)
    }

    fn failed(&self, what: &'static str, source: io::Error) -> ReplayError {
        let path = self.path.into();
        ReplayError::Io { path, what, source }
    }

    /// A file that is not there; it is removed if it cannot be finished.
    fn make(&self) -> Result<(), ReplayError> {
        if !self.file.create && !self.file.overwrite {
            return Err(ReplayError::Missing {
                path: self.path.into(),
                bytes: self.extent.bytes(),
            });
        }
        let made = File::create_new(self.path)
            .and_then(|_| TempPath::try_from_path(std::path::absolute(self.path)?));
        let unfinished = made.map_err(|error| self.failed("make it", error))?;
        self.fill()?;
        unfinished
            .keep()
            .map_err(|error| self.failed("keep it", error.error))?;
        Ok(())
    }

    fn make_anew(&self, is_file: bool) -> Result<(), ReplayError> {
        // Refused where another process has it.
        drop(self.storage()?);
        if is_file {
            let emptied = OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(self.path);
            emptied.map_err(|error| self.failed("empty it", error))?;
        }
        self.fill()
    }

    /// The caller says whether what is there may be lost.
    fn permit(&self) -> Result<(), ReplayError> {
        match self.events.may_overwrite(self.path) {
            true => Ok(()),
            false => Err(ReplayError::LeftAlone(self.path.into())),
        }
    }

    /// Writes every page, since a device is not asked for what was never written.
    fn fill(&self) -> Result<(), ReplayError> {
        let Extent { page_size, pages } = self.extent;
        let storage = Arc::new(self.storage()?);
        storage
            .grow(pages)
            .map_err(|error| self.failed("make it as long as the trace needs", error))?;
        let frames = (FILLED_TOGETHER / page_size).max(16);
        let frames = u64::try_from(frames).map_or(pages, |frames| frames.min(pages));
        let pool = PoolOptions::new(u32::try_from(frames).unwrap_or(u32::MAX).max(1))
            .policy("fifo")
            .map_err(ReplayError::Pool)?
            .background(false)
            .dirty_budget(1.0, Duration::ZERO)
            .batch(BATCH)
            .open(Arc::clone(&storage))
            .map_err(ReplayError::Pool)?;
        // The first page, by which the file is known, comes last.
        let mut pages_to_write = (1..pages).chain([0]).peekable();
        while pages_to_write.peek().is_some() {
            if self.events.stop().load(Ordering::Relaxed) {
                return Err(ReplayError::NotMade(self.path.into()));
            }
            for number in pages_to_write.by_ref().take(frames as usize) {
                let mut new = pool.fix_new(number).map_err(ReplayError::Pool)?;
                page::mark(&mut new, page_size);
                if number > 0 {
                    let share = number as f64 / pages as f64;
                    self.events.progress(MAKING, share);
                }
            }
            pool.checkpoint().map_err(ReplayError::Pool)?;
        }
        self.events.progress(MAKING, 1.0);
        Ok(())
    }

    /// A file that a replay made, and nothing else.
    fn existing(&self) -> Result<(), Unfit> {
        let Extent { page_size, pages } = self.extent;
        let not_ours = |why: &str| {
            Unfit::Refused(ReplayError::Foreign {
                path: self.path.into(),
                why: why.into(),
            })
        };
        let other = |why: String| {
            Unfit::Other(ReplayError::OtherTrace {
                path: self.path.into(),
                why,
            })
        };
        let found = self.first_bytes()?;
        let ours = found.get(HEADER_BYTES..).and_then(page::page_size);
        match ours {
            None => return Err(not_ours("exists, and is not a file of ebbpool replay")),
            Some(found) if found != page_size as u64 => {
                return Err(other(format!(
                    "has pages of {found} bytes, and the trace's have {page_size}"
                )));
            }
            Some(_) => {}
        }
        let storage = Arc::new(self.storage().map_err(Unfit::Refused)?);
        let there = storage
            .pages()
            .map_err(|error| self.failed("find out its length", error))?;
        if there < pages {
            return Err(other(format!(
                "has {there} pages, and the trace needs {pages}"
            )));
        }
        self.look_into(&storage)
            .map_err(|error| not_ours(&format!("is no whole file of ebbpool replay ({error})")))
    }

    /// As many bytes as tell whose file it is; fewer where it is shorter.
    fn first_bytes(&self) -> Result<Vec<u8>, ReplayError> {
        let mut bytes = Vec::new();
        let limit = (HEADER_BYTES + page::BYTES) as u64;
        let read = File::open(self.path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        read.map_err(|error| self.failed("read it", error))?;
        Ok(bytes)
    }

    /// Reads some pages as the pool does, which checks them.
    fn look_into(&self, storage: &Arc<FileStorage>) -> Result<(), String> {
        let pool = PoolOptions::new(1)
            .background(false)
            .open(Arc::clone(storage))
            .map_err(|error| error.to_string())?;
        let last = self.extent.pages - 1;
        for number in [0, last / 2, last] {
            let fixed = pool.fix_read(number).map_err(|error| error.to_string())?;
            if page::page_size(&fixed).is_none() {
                return Err(format!("page {number} is of something else"));
            }
        }
        Ok(())
    }
}
