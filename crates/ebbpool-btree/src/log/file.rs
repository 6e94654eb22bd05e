//! Files that a log is kept in.

use std::io;

use ebbpool::storage::FaultyFile;

/// A file as a log needs it.
pub trait LogFile: Send + Sync {
    /// Its length in bytes.
    ///
    /// # Errors
    ///
    /// What the system says; so for all of these.
    #[allow(clippy::len_without_is_empty)]
    fn len(&self) -> io::Result<u64>;

    /// Reads bytes from an offset on, and answers how many there were: fewer at the end of the file only.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes all of the bytes from an offset on.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes it so many bytes long.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Makes everything written so far survive a power failure.
    fn sync(&self) -> io::Result<()>;
}

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

    fn set_len(&self, length: u64) -> io::Result<()> {
        FaultyFile::set_len(self, length)
    }

    fn sync(&self) -> io::Result<()> {
        FaultyFile::sync(self)
    }
}
