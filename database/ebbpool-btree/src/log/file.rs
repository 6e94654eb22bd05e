//! The files of a log.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

#[cfg(feature = "test-kit")]
use ebbpool::storage::FaultyFile;

/// The operations that a log needs of a file.
#[allow(clippy::len_without_is_empty)]
pub trait LogFile: Send + Sync {
    /// The length of the file in bytes.
    ///
    /// # Errors
    ///
    /// The system's error, for this and all other methods.
    fn len(&self) -> io::Result<u64>;

    /// Reads bytes from an offset on, and returns how many it read: fewer than requested only at the end of
    /// the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes all of the bytes from an offset on.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reserves blocks between two offsets and leaves the length as it is, so that later writes there find room. Does
    /// nothing if the file cannot do that; then a full disk shows when the log is written.
    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        let _ = (from, to);
        Ok(())
    }

    /// Sets the file's length in bytes.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Makes everything written so far survive a power failure.
    fn sync(&self) -> io::Result<()>;
}

impl LogFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut length_read = 0;
        while let Some(rest) = into.get_mut(length_read..).filter(|rest| !rest.is_empty()) {
            match FileExt::read_at(self, rest, offset.saturating_add(length_read as u64)) {
                Ok(0) => break,
                Ok(length) => length_read += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(length_read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        loop {
            let outcome = fallocate(self, FallocateFlags::KEEP_SIZE, from, to.saturating_sub(from).max(1));
            match outcome.map_err(io::Error::from) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if [io::ErrorKind::Unsupported, io::ErrorKind::InvalidInput].contains(&error.kind()) => {
                    return Ok(());
                }
                outcome => return outcome,
            }
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        File::set_len(self, length)?;
        // A sync of data need not make the new length durable if the file became shorter.
        self.sync_all()
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

#[cfg(feature = "test-kit")]
impl LogFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        FaultyFile::len(self)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        FaultyFile::read_at(self, offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        FaultyFile::write_at(self, offset, bytes)
    }

    fn reserve(&self, _from: u64, to: u64) -> io::Result<()> {
        FaultyFile::reserve(self, to)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        FaultyFile::set_len(self, length)
    }

    fn sync(&self) -> io::Result<()> {
        FaultyFile::sync(self)
    }
}
