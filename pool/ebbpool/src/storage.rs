//! Where pages are stored: the trait [`Storage`] and its implementations.

#[cfg(feature = "test-kit")]
mod faulty;
mod file;
mod memory;
#[cfg(feature = "object-store")]
mod object;
pub(crate) mod several;
#[cfg(feature = "device-models")]
mod simulated;
mod threads;
#[cfg(target_os = "linux")]
mod uring;

use std::io;
use std::sync::Arc;

use ebbpool_cost::{OperationCosts, Unit};

use crate::frames::FrameMemory;

pub use crate::page::page_lsn;
#[cfg(feature = "test-kit")]
pub use faulty::{
    DiskOperation, EINTR, EIO, ENOSPC, Fault, FaultyDisk, FaultyFile, FaultyStorage, Io, IoCounts, PowerOff, SECTOR, Violation,
};
pub use file::{Engine, FileOptions, FileStorage, OpenError};
pub use memory::MemoryStorage;
#[cfg(feature = "object-store")]
pub use object::{ObjectError, ObjectOptions, ObjectStorage};
#[cfg(feature = "device-models")]
pub use simulated::{SimulatedError, SimulatedStorage};

/// One page to be read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Read<'a> {
    /// Its number.
    pub page: u64,
    /// The buffer for its content: as long as a page, and aligned to 4096 bytes, or to the page size if that is less.
    pub buffer: &'a mut [u8],
    /// The outcome, which the storage sets; an error until then.
    pub outcome: io::Result<()>,
}

impl<'a> Read<'a> {
    /// A page to be read, without an outcome.
    pub fn new(page: u64, buffer: &'a mut [u8]) -> Read<'a> {
        Read { page, buffer, outcome: not_set() }
    }
}

/// One page to be written.
#[derive(Debug)]
#[non_exhaustive]
pub struct Write<'a> {
    /// Its number.
    pub page: u64,
    /// The new content of the page: as long as a page, and aligned as in [`Read`].
    pub buffer: &'a [u8],
    /// The outcome, which the storage sets; an error until then.
    pub outcome: io::Result<()>,
}

impl<'a> Write<'a> {
    /// A page to be written, without an outcome.
    pub fn new(page: u64, buffer: &'a [u8]) -> Write<'a> {
        Write { page, buffer, outcome: not_set() }
    }
}

/// What stands for an outcome until the storage has set one. Nothing is allocated for it, since every page has it.
fn not_set() -> io::Result<()> {
    Err(io::ErrorKind::Other.into())
}

/// An outcome as the storage has left it, with words where it has set none: it has returned early, and has neither read nor written
/// the page for all that anyone knows.
pub(crate) fn settled(outcome: io::Result<()>) -> io::Result<()> {
    outcome.map_err(|error| {
        let is_plain = error.get_ref().is_none() && error.raw_os_error().is_none();
        match error.kind() {
            io::ErrorKind::Other if is_plain => io::Error::other("the storage has set no outcome for the page"),
            _ => error,
        }
    })
}

/// Numbered pages of one size, on a disk or elsewhere, used by many threads at once.
///
/// A page is read and written whole. A crash may lose writes until `sync` has returned; it may lose part of a page,
/// and keep later writes but not earlier ones. A pool never requests two writes of one page, or a read and a write of
/// it, at the same time, and has at most one sync under way.
///
/// A storage belongs to one pool at a time: two pools would overwrite each other's pages. A [`FileStorage`] locks its
/// file for that reason; use an `Arc` of a storage to look at it beside the pool, not for a second pool.
pub trait Storage: Send + Sync {
    /// The number of bytes of a page.
    fn page_size(&self) -> usize;

    /// The number of pages that the storage has now.
    ///
    /// # Errors
    ///
    /// If the storage cannot find out.
    fn pages(&self) -> io::Result<u64>;

    /// False if it takes no writes, however long it lives. A pool over it fixes no page for writing, and neither writes nor grows
    /// it.
    fn writable(&self) -> bool {
        true
    }

    /// Makes the storage at least `pages` pages long. New pages read as zeros.
    ///
    /// # Errors
    ///
    /// If there is no room.
    fn grow(&self, pages: u64) -> io::Result<()>;

    /// Cuts off the pages from `pages` on, which nothing uses any more, and which are not read or written meanwhile. A crash
    /// may bring them back until `sync` has returned.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] if the storage cannot become shorter, as by default. Nothing has changed then.
    fn truncate(&self, _pages: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads pages, all at the same time if possible, and returns when each has its outcome. A page beyond the end
    /// reads as zeros. The storage continues interrupted and short reads.
    ///
    /// Returns the cost of each page in the [unit](Storage::unit); `None` if that is the time that the call took.
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64>;

    /// Writes pages, all at the same time if possible, and returns when each has its outcome. The pages are in
    /// ascending order; the storage may write neighbouring pages with one operation. Writing beyond the end makes the
    /// storage longer.
    ///
    /// Returns the cost, as [`read`](Storage::read) does.
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64>;

    /// Makes everything written so far survive a crash.
    ///
    /// # Errors
    ///
    /// After an error it is unknown which writes survive a crash. Another attempt proves nothing: a kernel may have
    /// dropped what it could not write.
    fn sync(&self) -> io::Result<()>;

    /// Registers the memory that most buffers will be part of, for example with the kernel. A pool calls this once,
    /// before every other call.
    fn register(&self, _memory: &Arc<FrameMemory>) {}

    /// The unit of costs.
    fn unit(&self) -> Unit {
        Unit::Microseconds
    }

    /// The assumed costs of a read and a write of a page before any was measured.
    fn assumed_costs(&self) -> OperationCosts {
        OperationCosts { read: 100.0, write: 100.0, unit: self.unit() }
    }

    /// How often the erase block that holds a page was erased; `None` if the storage does not know.
    fn erases_of(&self, _page: u64) -> Option<u32> {
        None
    }

    /// A description for people, such as `io_uring, direct I/O`.
    fn describe(&self) -> String;
}

impl<S: Storage + ?Sized> Storage for Arc<S> {
    fn page_size(&self) -> usize {
        (**self).page_size()
    }
    fn pages(&self) -> io::Result<u64> {
        (**self).pages()
    }
    fn writable(&self) -> bool {
        (**self).writable()
    }
    fn grow(&self, pages: u64) -> io::Result<()> {
        (**self).grow(pages)
    }
    fn truncate(&self, pages: u64) -> io::Result<()> {
        (**self).truncate(pages)
    }
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        (**self).read(reads)
    }
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        (**self).write(writes)
    }
    fn sync(&self) -> io::Result<()> {
        (**self).sync()
    }
    fn register(&self, memory: &Arc<FrameMemory>) {
        (**self).register(memory);
    }
    fn unit(&self) -> Unit {
        (**self).unit()
    }
    fn assumed_costs(&self) -> OperationCosts {
        (**self).assumed_costs()
    }
    fn erases_of(&self, page: u64) -> Option<u32> {
        (**self).erases_of(page)
    }
    fn describe(&self) -> String {
        (**self).describe()
    }
}
