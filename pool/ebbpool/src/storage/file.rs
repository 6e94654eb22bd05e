//! Pages in a file or on a block device.

mod extent;
mod open;
pub(super) mod raw;
#[cfg(test)]
pub(super) mod scripted;
pub(super) mod transfer;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, mem, process};

use super::threads::{Positioned, Threads};
#[cfg(target_os = "linux")]
use super::uring::owner::OwnerMark;
#[cfg(target_os = "linux")]
use super::uring::{Addressed, UringPool};
use super::{Read, Storage, Write};
use crate::frames::FrameMemory;
use extent::Extent;
use transfer::{FileTransfer, Sizes, alike};

pub use open::{Engine, FileOptions, OpenError};

/// Neighbouring pages are written with one operation up to this number of bytes: longer writes gain nothing, and
/// shorter ones can be under way at the same time.
const LONGEST_RUN: usize = 256 << 10;

/// A file or a block device, with direct I/O where the system supports it.
///
/// The file is locked while it is open: opening it a second time fails, also in another process. A batch has up to
/// `queue_depth` operations under way. The caller's memory is not used after a call has returned.
/// [`Storage::describe`] says which engine and which kind of I/O is used.
#[derive(Debug)]
pub struct FileStorage {
    #[cfg(target_os = "linux")]
    owner: Option<OwnerMark>,
    path: PathBuf,
    file: File,
    sizes: Sizes,
    extent: Extent,
    engine: Arc<TransferEngine>,
    writable: bool,
    /// Why I/O is buffered, if it is.
    buffered: Option<String>,
    queue_depth: u32,
    /// The process that has opened it.
    opened_by: u32,
}

/// The engine that carries out the transfers.
#[derive(Debug)]
enum TransferEngine {
    #[cfg(target_os = "linux")]
    Uring(UringPool),
    Threads {
        threads: Threads,
        /// Why io_uring is not used, if it was requested.
        instead: Option<String>,
    },
}

impl FileStorage {
    /// Opens a file or a block device.
    ///
    /// # Errors
    ///
    /// [`OpenError`], whose message says what to do.
    pub fn open(path: impl AsRef<Path>, options: &FileOptions) -> Result<Self, OpenError> {
        open::open(path.as_ref(), options)
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if pages are moved without the kernel's page cache.
    pub fn is_direct(&self) -> bool {
        self.buffered.is_none()
    }

    fn carry_out<P: Transferable>(&self, mut transfers: Vec<FileTransfer<P>>) {
        if transfers.is_empty() {
            return;
        }
        match &*self.engine {
            #[cfg(target_os = "linux")]
            TransferEngine::Uring(rings) => rings.carry_out(transfers, &self.file, self.sizes),
            TransferEngine::Threads { threads, .. } => match transfers.pop() {
                Some(only) if transfers.is_empty() => {
                    super::threads::carry_out(only, &self.file, self.sizes);
                }
                last => {
                    transfers.extend(last);
                    threads.carry_out(transfers, &self.file, self.sizes);
                }
            },
        }
    }

    /// The error for a buffer that cannot be used, if it cannot.
    fn refuse(&self, buffer: &[u8]) -> Option<io::Error> {
        let Sizes { page, block } = self.sizes;
        let problem = if buffer.len() != page {
            format!("a buffer of {} bytes is no page of {page}", buffer.len())
        } else if !(buffer.as_ptr() as usize).is_multiple_of(block) {
            format!("direct I/O needs buffers that begin at a multiple of {block} bytes")
        } else {
            return None;
        };
        Some(io::Error::new(io::ErrorKind::InvalidInput, problem))
    }

    /// Makes room for writes; those without room get an error as their outcome, and are not carried out.
    fn make_room(&self, writes: &mut [Write<'_>]) {
        let last = writes.iter().map(|write| write.page).max().unwrap_or(0);
        let pages = last.saturating_add(1);
        let Err(error) = self.extent.grow_to_write(&self.file, pages) else {
            return;
        };
        let pages = self.extent.pages();
        for write in writes.iter_mut().filter(|write| write.page >= pages) {
            write.outcome = Err(alike(&error));
        }
    }
}

impl Drop for FileStorage {
    fn drop(&mut self) {
        if self.opened_by != process::id() {
            // A child of `fork` shares the open files, and so the locks, with the process that goes on using them. Closing its
            // own descriptors leaves the locks; it has none of the threads.
            mem::forget(Arc::clone(&self.engine));
            return;
        }
        self.extent.close(&self.file);
        // First, so that the next owner can mark the file as soon as it has the lock.
        #[cfg(target_os = "linux")]
        drop(self.owner.take());
        // The lock belongs to the open file, which a child process may hold open.
        let _ = self.file.unlock();
    }
}

/// Pages that every engine can transfer.
#[cfg(target_os = "linux")]
trait Transferable: Positioned + Addressed {}
#[cfg(target_os = "linux")]
impl<P: Positioned + Addressed> Transferable for P {}
#[cfg(not(target_os = "linux"))]
trait Transferable: Positioned {}
#[cfg(not(target_os = "linux"))]
impl<P: Positioned> Transferable for P {}

impl Storage for FileStorage {
    fn page_size(&self) -> usize {
        self.sizes.page
    }

    fn pages(&self) -> io::Result<u64> {
        Ok(self.extent.pages())
    }

    fn writable(&self) -> bool {
        self.writable
    }

    fn grow(&self, pages: u64) -> io::Result<()> {
        if !self.writable && pages > self.extent.pages() {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.extent.grow(&self.file, pages)
    }

    fn truncate(&self, pages: u64) -> io::Result<()> {
        match self.writable {
            true => self.extent.truncate(&self.file, pages),
            false => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }

    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        let pages = self.extent.pages();
        let mut transfers = Vec::with_capacity(reads.len());
        for read in reads {
            if let Some(error) = self.refuse(read.buffer) {
                read.outcome = Err(error);
            } else if read.page >= pages {
                read.buffer.fill(0);
                read.outcome = Ok(());
            } else {
                transfers.push(FileTransfer::of_file(read, pages));
            }
        }
        self.carry_out(transfers);
        None
    }

    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        if !self.writable {
            for write in writes {
                write.outcome = Err(io::ErrorKind::ReadOnlyFilesystem.into());
            }
            return None;
        }
        for write in writes.iter_mut() {
            write.outcome = self.refuse(write.buffer).map_or(Ok(()), Err);
        }
        self.make_room(writes);
        let most = (LONGEST_RUN / self.sizes.page).max(1);
        let neighbours =
            |a: &Write<'_>, b: &Write<'_>| a.outcome.is_ok() && b.outcome.is_ok() && a.page.checked_add(1) == Some(b.page);
        let runs = writes.chunk_by_mut(neighbours);
        let good = runs.filter(|run| run.iter().all(|write| write.outcome.is_ok()));
        let runs = good.flat_map(|run| run.chunks_mut(most));
        self.carry_out(runs.map(FileTransfer::new).collect());
        None
    }

    fn sync(&self) -> io::Result<()> {
        self.extent.sync(&self.file)
    }

    #[cfg(target_os = "linux")]
    fn register(&self, memory: &Arc<FrameMemory>) {
        if let TransferEngine::Uring(rings) = &*self.engine {
            rings.register(memory);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn register(&self, _memory: &Arc<FrameMemory>) {}

    fn describe(&self) -> String {
        let engine = match &*self.engine {
            #[cfg(target_os = "linux")]
            TransferEngine::Uring(rings) => match (rings.broken(), rings.is_registered()) {
                (Some(why), _) => format!("one after another (io_uring failed: {why})"),
                (None, Some(true)) => "io_uring, registered buffers".into(),
                (None, Some(false)) => "io_uring, buffers not registered".into(),
                (None, None) => "io_uring".into(),
            },
            TransferEngine::Threads { instead, .. } => match instead {
                Some(why) => format!("threads (io_uring is refused: {why})"),
                None => "threads".into(),
            },
        };
        let io = match &self.buffered {
            Some(why) => format!("buffered I/O ({why})"),
            None => "direct I/O".into(),
        };
        format!("{engine}, {io}, queue depth {}", self.queue_depth)
    }
}
