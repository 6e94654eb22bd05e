//! The calls of a file, as the system carries them out: a call may move only part of the bytes.

use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom};

/// A file's positioned calls. The caller handles short counts and interruptions.
pub(crate) trait Raw: Send + Sync {
    /// Reads some bytes; none at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some of the bytes.
    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;

    /// The length of the file in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Makes the file longer, with its blocks reserved; `Unsupported` where the system cannot do that.
    fn allocate(&self, from: u64, to: u64) -> io::Result<()>;

    /// Reserves blocks and leaves the length as it is; `Unsupported` where the system cannot do that.
    fn reserve(&self, from: u64, to: u64) -> io::Result<()>;

    /// Sets the length, with holes where no blocks are reserved. Blocks that were reserved behind the end stay
    /// reserved if the file becomes longer, and are freed otherwise.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Makes its bytes durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes its bytes and its length durable.
    fn sync_all(&self) -> io::Result<()>;
}

impl Raw for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(self, buffer, offset)?)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(match buffers {
            [buffer] => rustix::io::pwrite(self, buffer, offset)?,
            buffers => rustix::io::pwritev(self, buffers, offset)?,
        })
    }

    fn length(&self) -> io::Result<u64> {
        // The metadata of a block device has no length.
        (&mut &*self).seek(SeekFrom::End(0))
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        let flags = rustix::fs::FallocateFlags::empty();
        Ok(rustix::fs::fallocate(self, flags, from, to - from)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, _from: u64, _to: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(self, flags, from, to - from)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn reserve(&self, _from: u64, _to: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }
}
