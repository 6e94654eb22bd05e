//! Where pages are kept: one small trait, and what implements it.

#[cfg(feature = "test-kit")]
mod faulty;
#[cfg(unix)]
mod file;
mod memory;
#[cfg(feature = "object-store")]
mod object;
#[cfg(feature = "device-models")]
mod simulated;
#[cfg(unix)]
mod threads;
#[cfg(target_os = "linux")]
mod uring;

use std::io;
use std::sync::Arc;

use ebbpool_cost::{OperationCosts, Unit};

use crate::frames::Memory;

pub use crate::page::page_lsn;
#[cfg(feature = "test-kit")]
pub use faulty::{
    EINTR, EIO, ENOSPC, Fault, FaultyDisk, FaultyFile, FaultyStorage, Io, IoCounts, Operation,
    PowerOff, SECTOR, Violation,
};
#[cfg(unix)]
pub use file::{Engine, FileOptions, FileStorage, OpenError};
pub use memory::MemoryStorage;
#[cfg(feature = "object-store")]
pub use object::{ObjectError, ObjectOptions, ObjectStorage};
#[cfg(feature = "device-models")]
pub use simulated::{SimulatedError, SimulatedStorage};

/// One page to be read.
#[derive(Debug)]
pub struct Read<'a> {
    /// Its number.
    pub page: u64,
    /// Where it goes: as long as a page, and aligned to 4096 bytes or to the page size if that is
    /// less.
    pub buffer: &'a mut [u8],
    /// What came of it.
    pub outcome: io::Result<()>,
}

/// One page to be written.
#[derive(Debug)]
pub struct Write<'a> {
    /// Its number.
    pub page: u64,
    /// What it is to hold: as long as a page, and aligned as in [`Read`].
    pub buffer: &'a [u8],
    /// What came of it.
    pub outcome: io::Result<()>,
}

/// Numbered pages of one size, on a disk or elsewhere, used by many threads at once.
///
/// A page is read and written whole. What was written may be lost in a crash until `sync` has
/// returned; part of a page may be lost, and pages written later may survive those written before.
/// Two writes of one page, or a read and a write of it, are never asked for at the same time, and a pool
/// has one sync under way at a time.
///
/// A storage belongs to one pool at a time: two would overwrite each other's pages. A
/// [`FileStorage`] sees to it for its file; an `Arc` of a storage is for looking at it beside the pool,
/// not for a second pool.
pub trait Storage: Send + Sync {
    /// Bytes of a page.
    fn page_size(&self) -> usize;

    /// Pages it has now.
    ///
    /// # Errors
    ///
    /// What finding out may fail with.
    fn pages(&self) -> io::Result<u64>;

    /// Makes it at least so many pages long. New pages read as zeros.
    ///
    /// # Errors
    ///
    /// Where there is no room.
    fn grow(&self, pages: u64) -> io::Result<()>;

    /// Reads pages, all at the same time where that can be, and returns when each has its outcome.
    /// A page beyond the end reads as zeros. Interrupted and short reads are continued here.
    ///
    /// Answers what a page came to, in the [unit](Storage::unit); nothing if that is the time it
    /// took.
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64>;

    /// Writes pages, all at the same time where that can be, and returns when each has its outcome.
    /// They come in ascending order; neighbours may go out as one. Writing beyond the end makes
    /// the storage longer.
    ///
    /// Answers as [`read`](Storage::read).
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64>;

    /// Makes everything written so far survive a crash.
    ///
    /// # Errors
    ///
    /// Then nobody knows what of it will. Trying again proves nothing: a kernel may have dropped
    /// what it could not write.
    fn sync(&self) -> io::Result<()>;

    /// Told once, before everything else, which memory buffers will mostly be from, so that it can
    /// be registered with the kernel.
    fn register(&self, _memory: &Arc<Memory>) {}

    /// What costs are counted in.
    fn unit(&self) -> Unit {
        Unit::Microseconds
    }

    /// What a read and a write of a page are thought to cost before any was measured.
    fn assumed_costs(&self) -> OperationCosts {
        OperationCosts {
            read: 100.0,
            write: 100.0,
            unit: self.unit(),
        }
    }

    /// How often the erase block that holds a page was erased; nothing where that cannot be known.
    fn erases_of(&self, _page: u64) -> Option<u32> {
        None
    }

    /// What it is, for people, such as `io_uring, direct I/O`.
    fn describe(&self) -> String;
}

impl<S: Storage + ?Sized> Storage for Arc<S> {
    fn page_size(&self) -> usize {
        (**self).page_size()
    }
    fn pages(&self) -> io::Result<u64> {
        (**self).pages()
    }
    fn grow(&self, pages: u64) -> io::Result<()> {
        (**self).grow(pages)
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
    fn register(&self, memory: &Arc<Memory>) {
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
