//! A file of the disk as bytes, for logs.

use std::io;

use super::Handle;
use super::fault::{DiskOperation, FaultEffect, PowerOff};

/// A file of bytes on a [`FaultyDisk`](super::FaultyDisk), such as a log. A crash tears its writes as it tears writes
/// of pages.
///
/// All calls fail with the error of a [`Fault`](super::Fault), or with [`PowerOff`].
#[derive(Clone)]
pub struct FaultyFile {
    handle: Handle,
}

impl FaultyFile {
    pub(super) fn new(handle: Handle) -> Self {
        FaultyFile { handle }
    }

    /// The length of the file in bytes.
    ///
    /// # Errors
    ///
    /// [`PowerOff`].
    pub fn len(&self) -> io::Result<u64> {
        self.handle.len()
    }

    /// True if it has no bytes.
    ///
    /// # Errors
    ///
    /// [`PowerOff`].
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Writes bytes at the end, and returns the offset at which they begin.
    ///
    /// # Errors
    ///
    /// See [`FaultyFile`].
    pub fn append(&self, bytes: &[u8]) -> io::Result<u64> {
        self.write(None, bytes)
    }

    /// Writes bytes that begin at an offset; the file becomes longer where that is needed.
    ///
    /// # Errors
    ///
    /// See [`FaultyFile`].
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(Some(offset), bytes).map(drop)
    }

    fn write(&self, offset: Option<u64>, bytes: &[u8]) -> io::Result<u64> {
        let (offset, outcome) = {
            let state = &mut *self.handle.lock();
            let effect = state.begin(DiskOperation::Write, &self.handle, None)?;
            let end = state.files[self.handle.file].1.len() as u64;
            let offset = offset.unwrap_or(end);
            let to = |offset| offset;
            let outcome = self.handle.apply_write(state, effect, to, offset, bytes);
            if let Some(FaultEffect::Crash { seed }) = effect {
                state.crash(seed);
            }
            (offset, outcome)
        };
        self.handle.notify_observer(DiskOperation::Write, None);
        self.handle.lock().check_power(self.handle.start)?;
        outcome.map(|()| offset)
    }

    /// Reads bytes from an offset on, and returns their number: fewer at the end of the file.
    ///
    /// # Errors
    ///
    /// See [`FaultyFile`].
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let outcome = {
            let state = &mut *self.handle.lock();
            let effect = state.begin(DiskOperation::Read, &self.handle, None)?;
            if let Some(FaultEffect::Crash { seed }) = effect {
                state.crash(seed);
                return Err(PowerOff.into());
            }
            self.handle.apply_read(state, effect, offset, into)
        };
        self.handle.notify_observer(DiskOperation::Read, None);
        outcome
    }

    /// Reads all of it.
    ///
    /// # Errors
    ///
    /// See [`FaultyFile`].
    pub fn read_all(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.len()? as usize];
        let length = self.read_at(0, &mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Sets the length of the file: cuts it off, or adds zeros.
    ///
    /// # Errors
    ///
    /// See [`FaultyFile`].
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        self.handle.set_len(length)
    }

    /// Reserves room up to an offset, and leaves the length as it is. A later [`set_len`](Self::set_len) that makes the file no
    /// longer, or a crash, frees it.
    ///
    /// # Errors
    ///
    /// [`ENOSPC`](super::ENOSPC) beyond [`set_capacity`](super::FaultyDisk::set_capacity), and [`PowerOff`].
    pub fn reserve(&self, to: u64) -> io::Result<()> {
        self.handle.reserve(to)
    }

    /// Makes everything written so far survive a crash.
    ///
    /// # Errors
    ///
    /// See [`FaultyFile`].
    pub fn sync(&self) -> io::Result<()> {
        self.handle.sync()
    }
}
