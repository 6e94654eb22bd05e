//! The file for the pages of a replay: finds a usable one, creates it, or refuses a foreign one.

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
use crate::events::LabEvents;

/// Memory for the pages that are written together when a file is created.
const FILL_MEMORY: usize = 64 << 20;

/// Pages in one call of the storage when a file is created.
const BATCH: u32 = 256;

/// The most memory for pages. Without this limit a wrong page number could exhaust the memory, and the
/// system would kill arbitrary processes.
const MOST_MEMORY: u64 = 64 << 30;

/// The name of the creation of a file in reports of progress.
const CREATING: &str = "creating the file";

/// The page size and the number of pages that the file needs.
#[derive(Clone, Copy)]
pub(super) struct PageExtent {
    pub(super) page_size: usize,
    pub(super) pages: u64,
}

impl PageExtent {
    fn bytes(self) -> u64 {
        self.pages.saturating_mul(self.page_size as u64)
    }
}

/// The storage of the pages between one pool and the next.
pub(super) enum PageStore<'a> {
    Memory(Arc<MemoryStorage>),
    File(TargetFile<'a>),
}

impl<'a> PageStore<'a> {
    /// Finds or creates the storage.
    pub(super) fn find(storage: &'a ReplayStorage, extent: PageExtent, events: &'a dyn LabEvents) -> Result<Self, ReplayError> {
        let ReplayStorage::File(file) = storage else {
            return in_memory(extent).map(PageStore::Memory);
        };
        let target = TargetFile { file, path: &file.path, extent, events };
        target.prepare()?;
        Ok(PageStore::File(target))
    }

    /// The storage for one pool. Each pool opens the file anew, because an open file can register memory only
    /// once.
    pub(super) fn open(&self) -> Result<Arc<dyn Storage>, ReplayError> {
        Ok(match self {
            PageStore::Memory(storage) => Arc::<MemoryStorage>::clone(storage),
            PageStore::File(target) => Arc::new(target.storage()?),
        })
    }

    /// The name for messages.
    pub(super) fn label(&self) -> String {
        match self {
            PageStore::Memory(_) => "memory".into(),
            PageStore::File(target) => target.path.display().to_string(),
        }
    }
}

fn in_memory(extent: PageExtent) -> Result<Arc<MemoryStorage>, ReplayError> {
    let too_large = || ReplayError::TooLarge(extent.bytes());
    if extent.bytes() > MOST_MEMORY {
        return Err(too_large());
    }
    let storage = MemoryStorage::new(extent.page_size);
    storage.grow(extent.pages).map_err(|_| too_large())?;
    Ok(Arc::new(storage))
}

/// Why an existing file cannot be used without changes.
enum UnusableFile {
    /// An earlier replay created it for another trace, so its contents can be overwritten.
    OtherTrace(ReplayError),
    Refused(ReplayError),
}

impl From<ReplayError> for UnusableFile {
    fn from(error: ReplayError) -> Self {
        UnusableFile::Refused(error)
    }
}

impl From<UnusableFile> for ReplayError {
    fn from(unusable: UnusableFile) -> Self {
        match unusable {
            UnusableFile::OtherTrace(error) | UnusableFile::Refused(error) => error,
        }
    }
}

/// A file or a block device.
pub(super) struct TargetFile<'a> {
    file: &'a ReplayFile,
    path: &'a Path,
    extent: PageExtent,
    events: &'a dyn LabEvents,
}

impl TargetFile<'_> {
    fn prepare(&self) -> Result<(), ReplayError> {
        let found = match fs::metadata(self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.create(),
            found => found.map_err(|error| self.failed("inspect it", error))?,
        };
        if !found.is_file() && !found.file_type().is_block_device() {
            return Err(ReplayError::Open(OpenError::NotAFile(self.path.into())));
        }
        let is_empty = found.is_file() && found.len() == 0;
        if self.file.overwrite || (self.file.create && is_empty) {
            if !is_empty {
                self.permit()?;
            }
            return self.overwrite(found.is_file());
        }
        if is_empty {
            return Err(ReplayError::Empty(self.path.into()));
        }
        match self.check_existing() {
            Err(UnusableFile::OtherTrace(_)) if self.file.create => self.overwrite(found.is_file()),
            existing => Ok(existing?),
        }
    }

    fn options(&self) -> FileOptions {
        FileOptions::new().page_size(self.extent.page_size).engine(self.file.engine).direct(self.file.direct)
    }

    fn storage(&self) -> Result<FileStorage, ReplayError> {
        Ok(FileStorage::open(self.path, &self.options())?)
    }

    fn failed(&self, what: &'static str, source: io::Error) -> ReplayError {
        let path = self.path.into();
        ReplayError::Io { path, what, source }
    }

    /// Creates a file that does not exist; removes it again if it cannot be finished.
    fn create(&self) -> Result<(), ReplayError> {
        if !self.file.create && !self.file.overwrite {
            return Err(ReplayError::Missing { path: self.path.into(), bytes: self.extent.bytes() });
        }
        let created = File::create_new(self.path).and_then(|_| TempPath::try_from_path(std::path::absolute(self.path)?));
        let unfinished = created.map_err(|error| self.failed("create it", error))?;
        self.fill()?;
        unfinished.keep().map_err(|error| self.failed("keep it", error.error))?;
        Ok(())
    }

    fn overwrite(&self, is_file: bool) -> Result<(), ReplayError> {
        // This fails if another process uses the file.
        drop(self.storage()?);
        if is_file {
            let emptied = OpenOptions::new().write(true).truncate(true).open(self.path);
            emptied.map_err(|error| self.failed("empty it", error))?;
        }
        self.fill()
    }

    /// Asks the caller whether the contents may be lost.
    fn permit(&self) -> Result<(), ReplayError> {
        match self.events.may_overwrite(self.path) {
            true => Ok(()),
            false => Err(ReplayError::LeftAlone(self.path.into())),
        }
    }

    /// Writes every page, because reading a page that was never written does not access the device.
    fn fill(&self) -> Result<(), ReplayError> {
        let PageExtent { page_size, pages } = self.extent;
        let storage = Arc::new(self.storage()?);
        storage.grow(pages).map_err(|error| self.failed("extend it to the pages of the trace", error))?;
        let frames = (FILL_MEMORY / page_size).max(16);
        let frames = u64::try_from(frames).map_or(pages, |frames| frames.min(pages));
        let pool = PoolOptions::new(u32::try_from(frames).unwrap_or(u32::MAX).max(1))
            .policy("fifo")
            .map_err(ReplayError::Pool)?
            .background(false)
            .dirty_budget(1.0, Duration::ZERO)
            .batch(BATCH)
            .open(Arc::clone(&storage))
            .map_err(ReplayError::Pool)?;
        // The first page, which identifies the file, is written last.
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
                    self.events.progress(CREATING, share);
                }
            }
            pool.checkpoint().map_err(ReplayError::Pool)?;
        }
        self.events.progress(CREATING, 1.0);
        Ok(())
    }

    /// Checks that an existing file belongs to a replay and fits the trace.
    fn check_existing(&self) -> Result<(), UnusableFile> {
        let PageExtent { page_size, pages } = self.extent;
        let foreign = |why: &str| UnusableFile::Refused(ReplayError::Foreign { path: self.path.into(), why: why.into() });
        let other = |why: String| UnusableFile::OtherTrace(ReplayError::OtherTrace { path: self.path.into(), why });
        let found = self.first_bytes()?;
        let page_bytes = found.get(HEADER_BYTES..).and_then(page::page_size);
        match page_bytes {
            None => return Err(foreign("exists, and is not a file of ebbpool replay")),
            Some(found) if found != page_size as u64 => {
                return Err(other(format!("has pages of {found} bytes, and the trace's have {page_size}")));
            }
            Some(_) => {}
        }
        let storage = Arc::new(self.storage().map_err(UnusableFile::Refused)?);
        let existing = storage.pages().map_err(|error| self.failed("determine its length", error))?;
        if existing < pages {
            return Err(other(format!("has {existing} pages, and the trace needs {pages}")));
        }
        self.check_pages(&storage).map_err(|error| foreign(&format!("is an incomplete file of ebbpool replay ({error})")))
    }

    /// The first bytes, which show whether the file belongs to a replay; fewer if the file is shorter.
    fn first_bytes(&self) -> Result<Vec<u8>, ReplayError> {
        let mut bytes = Vec::new();
        let limit = (HEADER_BYTES + page::BYTES) as u64;
        let read = File::open(self.path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        read.map_err(|error| self.failed("read it", error))?;
        Ok(bytes)
    }

    /// Reads some pages through a pool, which checks them.
    fn check_pages(&self, storage: &Arc<FileStorage>) -> Result<(), String> {
        let pool = PoolOptions::new(1).background(false).open(Arc::clone(storage)).map_err(|error| error.to_string())?;
        let last = self.extent.pages - 1;
        for number in [0, last / 2, last] {
            let fixed = pool.fix_read(number).map_err(|error| error.to_string())?;
            if page::page_size(&fixed).is_none() {
                return Err(format!("page {number} does not belong to a replay"));
            }
        }
        Ok(())
    }
}
