//! Opening a file or a block device: finds out what it supports, and locks it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::extent::Extent;
use super::transfer::Sizes;
use super::{FileStorage, TransferEngine};
use crate::storage::threads::Threads;
#[cfg(target_os = "linux")]
use crate::storage::uring::UringPool;
#[cfg(target_os = "linux")]
use crate::storage::uring::owner::{OwnerMark, has_owner, is_locked_by_running_process};

/// How operations are passed to the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// io_uring if the kernel has it and allows its use, otherwise threads.
    #[default]
    Auto,
    /// io_uring; opening fails if it cannot be used.
    Uring,
    /// Threads that call `pread` and `pwritev`.
    Threads,
}

/// The options with which a file is opened.
///
/// ```
/// use ebbpool::storage::FileOptions;
///
/// let options = FileOptions::new().page_size(8192).create(true);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct FileOptions {
    page_size: usize,
    create: bool,
    engine: Engine,
    direct: bool,
    queue_depth: u32,
    read_only: bool,
}

impl FileOptions {
    /// Options for an existing file of 4096-byte pages, with direct I/O and 32 operations at a time.
    pub fn new() -> Self {
        FileOptions { page_size: 4096, create: false, engine: Engine::Auto, direct: true, queue_depth: 32, read_only: false }
    }

    /// The number of bytes of a page: a power of two from 512 to 1 GiB; 4096 by default.
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = bytes;
        self
    }

    /// Whether the file is created if it does not exist; false by default.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// How operations are passed to the system; [`Engine::Auto`] by default.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Whether I/O bypasses the kernel's page cache (`O_DIRECT`), if file system and page size allow it; true by
    /// default.
    pub fn direct(mut self, direct: bool) -> Self {
        self.direct = direct;
        self
    }

    /// The number of operations of a batch that are under way at the same time, 1 to 4096; 32 by default. The threads
    /// engine uses 64 threads at most.
    pub fn queue_depth(mut self, operations: u32) -> Self {
        self.queue_depth = operations;
        self
    }

    /// Whether the file is opened only for reading, so that other programs may read it at the same time; false by
    /// default.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions::new()
    }
}

/// Why a file cannot be a storage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The page size is not supported.
    #[error("pages cannot have {0} bytes; give a power of two from 512 to 1073741824")]
    PageSize(usize),
    /// The queue depth is not supported.
    #[error("a queue cannot be {0} deep; give 1 to 4096")]
    QueueDepth(u32),
    /// The path is a directory, a pipe or the like.
    #[error("{0}: is neither a file nor a block device")]
    NotAFile(PathBuf),
    /// Another process, or another storage of this one, has the file open.
    #[error("{0}: is in use by another process, or opened twice in this one; close it there first")]
    InUse(PathBuf),
    /// The kernel does not allow the use of io_uring.
    #[error("io_uring cannot be used here ({0}); choose the engine auto or threads")]
    Uring(io::Error),
    /// The operating system refused.
    #[error("{path}: cannot {what}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The step that failed.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

const LARGEST_PAGE: usize = 1 << 30;
const DEEPEST_QUEUE: u32 = 4096;

/// The block size of devices that do not report theirs: most have no larger blocks.
const USUAL_BLOCK: usize = 4096;

pub(super) fn open(path: &Path, options: &FileOptions) -> Result<FileStorage, OpenError> {
    let page = options.page_size;
    if !page.is_power_of_two() || !(512..=LARGEST_PAGE).contains(&page) {
        return Err(OpenError::PageSize(page));
    }
    if !(1..=DEEPEST_QUEUE).contains(&options.queue_depth) {
        return Err(OpenError::QueueDepth(options.queue_depth));
    }
    let failed = |what| move |source| OpenError::Io { path: path.into(), what, source };
    let found = match fs::metadata(path) {
        Err(error) if options.create && error.kind() == io::ErrorKind::NotFound => None,
        found => Some(found.map_err(failed("open it"))?),
    };
    let is_device = match &found {
        Some(found) if found.file_type().is_block_device() => true,
        Some(found) if !found.is_file() => return Err(OpenError::NotAFile(path.into())),
        _ => false,
    };
    let (file, mut buffered) = open_and_lock(path, options, is_device)?;
    if found.is_none() {
        make_name_durable(path).map_err(failed("sync its directory"))?;
    }
    let block = match buffered {
        Some(_) => 1,
        None => block_size(&file, is_device),
    };
    let of_file_system = match buffered {
        None if !is_device => file_system_block(&file),
        _ => 1,
    };
    let refused = if !page.is_multiple_of(block) {
        Some(format!("the device's blocks of {block}"))
    } else if !page.is_multiple_of(of_file_system) {
        Some(format!("the file system's blocks of {of_file_system}"))
    } else {
        None
    };
    if let Some(blocks) = refused {
        buffered = Some(format!("pages of {page} bytes are no multiple of {blocks}"));
        let flags = rustix::fs::fcntl_getfl(&file).map_err(io::Error::from);
        flags
            .and_then(|flags| Ok(rustix::fs::fcntl_setfl(&file, flags - direct_flag())?))
            .map_err(failed("switch direct I/O off"))?;
    }
    let block = if buffered.is_some() { 1 } else { block };
    let extent = Extent::new(&file, page, is_device).map_err(failed("find out its length"))?;
    let engine = start_engine(&file, options).map_err(|refused| match refused {
        EngineError::Uring(error) => OpenError::Uring(error),
        EngineError::Threads(error) => failed("start threads for it")(error),
    })?;
    Ok(FileStorage {
        #[cfg(target_os = "linux")]
        owner: OwnerMark::new(path),
        path: path.into(),
        file,
        sizes: Sizes { page, block },
        extent,
        engine: Arc::new(engine),
        writable: !options.read_only,
        buffered,
        queue_depth: options.queue_depth,
        opened_by: std::process::id(),
    })
}

/// How long opening waits for the last transfers of a process that has ended.
const LAST_TRANSFERS: Duration = Duration::from_secs(5);

/// For how long a process without a mark has to run beside its lock to count as one that goes on: a process that ends frees its
/// mark a moment before it has ended.
const LAST_MOMENTS: Duration = Duration::from_millis(200);

/// The file, locked, and why its I/O is buffered, if it is. After the owner has ended without closing the file, this waits
/// until the kernel has ended its transfers.
fn open_and_lock(path: &Path, options: &FileOptions, is_device: bool) -> Result<(File, Option<String>), OpenError> {
    let failed = |what| move |source| OpenError::Io { path: path.into(), what, source };
    let begin = Instant::now();
    let mut runs_since = None;
    let mut pause = Duration::from_millis(1);
    loop {
        match open_file(path, options, is_device) {
            Ok((file, buffered)) => match lock(&file, options.read_only) {
                Ok(()) => return Ok((file, buffered)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed("lock it")(error)),
            },
            // Another program uses the device.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            Err(error) => return Err(failed("open it")(error)),
        }
        let now = Instant::now();
        runs_since = match is_locked_by_running_process(path) {
            true => runs_since.or(Some(now)),
            false => None,
        };
        let goes_on = runs_since.is_some_and(|since| now >= since + LAST_MOMENTS);
        if has_owner(path) || goes_on || now >= begin + LAST_TRANSFERS {
            return Err(OpenError::InUse(path.into()));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(16));
    }
}

/// Only transfers of io_uring hold a lock after their process has ended.
#[cfg(not(target_os = "linux"))]
fn has_owner(_path: &Path) -> bool {
    true
}

#[cfg(not(target_os = "linux"))]
fn is_locked_by_running_process(_path: &Path) -> bool {
    true
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn direct_flag() -> OFlags {
    OFlags::DIRECT
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn direct_flag() -> OFlags {
    OFlags::empty()
}

/// The file, and why its I/O is buffered, if it is.
fn open_file(path: &Path, options: &FileOptions, is_device: bool) -> io::Result<(File, Option<String>)> {
    let open = |direct: bool| {
        let mut flags = OFlags::empty();
        if direct {
            flags |= direct_flag();
        }
        if is_device {
            // Then Linux refuses to open the device while it is mounted, or is part of something that is mounted.
            flags |= OFlags::EXCL;
        }
        OpenOptions::new()
            .read(true)
            .write(!options.read_only)
            .create(options.create && !options.read_only && !is_device)
            .custom_flags(flags.bits() as i32)
            .open(path)
    };
    if !options.direct {
        return Ok((open(false)?, Some("as asked for".into())));
    }
    if direct_flag().is_empty() {
        return Ok((open(false)?, Some("the system has no other".into())));
    }
    match open(true) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {
            Ok((open(false)?, Some("the file system refuses direct I/O".into())))
        }
        opened => Ok((opened?, None)),
    }
}

fn lock(file: &File, shared: bool) -> Result<(), TryLockError> {
    match shared {
        true => file.try_lock_shared(),
        false => file.try_lock(),
    }
}

/// Syncs the directory: otherwise a crash may lose the name of a new file, even if its content is synced.
fn make_name_durable(path: &Path) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Bytes that offsets, lengths and addresses of direct I/O are multiples of.
#[cfg(target_os = "linux")]
fn block_size(file: &File, is_device: bool) -> usize {
    use rustix::fs::{AtFlags, StatxFlags, ioctl_blksszget, statx};

    if is_device {
        return ioctl_blksszget(file).map_or(USUAL_BLOCK, |bytes| bytes as usize);
    }
    // Linux reports it since 6.1.
    let stat = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let Ok(stat) = stat else {
        return USUAL_BLOCK;
    };
    if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && stat.stx_dio_offset_align > 0 {
        return stat.stx_dio_offset_align.max(stat.stx_dio_mem_align) as usize;
    }
    let device = format!("/sys/dev/block/{}:{}", stat.stx_dev_major, stat.stx_dev_minor);
    let of = |queue: &str| -> Option<usize> {
        let text = fs::read_to_string(format!("{device}/{queue}/logical_block_size")).ok()?;
        text.trim().parse().ok().filter(|&bytes| bytes > 0)
    };
    // A partition's queue is its disk's.
    of("queue").or_else(|| of("../queue")).unwrap_or(USUAL_BLOCK)
}

#[cfg(not(target_os = "linux"))]
fn block_size(_file: &File, _is_device: bool) -> usize {
    USUAL_BLOCK
}

/// Bytes that the file system reads and writes together, as far as that matters to direct I/O: at most a page of memory.
///
/// A file system that lengthens a file within a block clears the rest of the block in the kernel's page cache. If direct
/// I/O moves another part of that block meanwhile, Linux cannot remove it from the cache, and the next sync fails.
fn file_system_block(file: &File) -> usize {
    let block = rustix::fs::fstatvfs(file).map_or(USUAL_BLOCK as u64, |system| system.f_frsize);
    let block = block.min(rustix::param::page_size() as u64) as usize;
    if block.is_power_of_two() { block } else { USUAL_BLOCK }
}

/// Why an engine cannot be started.
enum EngineError {
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    Uring(io::Error),
    Threads(io::Error),
}

fn start_engine(file: &File, options: &FileOptions) -> Result<TransferEngine, EngineError> {
    let refused = match options.engine {
        Engine::Threads => None,
        #[cfg(target_os = "linux")]
        Engine::Auto | Engine::Uring => match UringPool::new(file, options.queue_depth) {
            Ok(rings) => return Ok(TransferEngine::Uring(rings)),
            Err(error) => Some(error),
        },
        #[cfg(not(target_os = "linux"))]
        Engine::Auto | Engine::Uring => Some(io::ErrorKind::Unsupported.into()),
    };
    if let (Engine::Uring, Some(error)) = (options.engine, refused.as_ref()) {
        return Err(EngineError::Uring(super::alike(error)));
    }
    let threads = Threads::new(options.queue_depth as usize).map_err(EngineError::Threads)?;
    Ok(TransferEngine::Threads { threads, instead: refused.map(|error| error.to_string()) })
}
