//! Reads a `-wal` from its file, also while a program appends to it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::wal_log::{FRAME, HEADER, WalCursor, WalFrame};

impl WalCursor {
    /// The position of the first frame of a file; `None` if it has no whole header.
    pub(crate) fn open(file: &File) -> io::Result<Option<WalCursor>> {
        let mut header = [0; HEADER as usize];
        match read_whole(file, &mut header, 0)? {
            true => Ok(WalCursor::begin(&header)),
            false => Ok(None),
        }
    }

    /// Reads the next frame into a buffer of its length; `None`, and the position stays, if there is no further one.
    pub(crate) fn next_frame(&mut self, file: &File, frame: &mut [u8]) -> io::Result<Option<WalFrame>> {
        match read_whole(file, frame, self.position())? {
            true => Ok(self.take(frame)),
            false => Ok(None),
        }
    }

    /// Calls `each` with the frames of the next commit, and the images of their pages, one after the other: a commit may be
    /// larger than memory. Returns their number; `None`, and the position stays, if there is no further commit. The position
    /// also stays where `go_on`, which is asked before each frame is read, fails.
    pub(crate) fn next_commit(
        &mut self,
        file: &File,
        go_on: &dyn Fn() -> io::Result<()>,
        mut each: impl FnMut(WalFrame, &[u8]) -> io::Result<()>,
    ) -> io::Result<Option<u64>> {
        let mut bytes = vec![0; self.frame_bytes()];
        // Only at its end it is known whether there is a whole one.
        let mut end = self.clone();
        loop {
            go_on()?;
            match end.next_frame(file, &mut bytes)? {
                Some(frame) if frame.size != 0 => break,
                Some(_) => {}
                None => return Ok(None),
            }
        }
        let begin = self.clone();
        while self.frames < end.frames {
            if let Err(error) = go_on() {
                *self = begin;
                return Err(error);
            }
            let Some(frame) = self.next_frame(file, &mut bytes)? else {
                // Its program has begun the file anew meanwhile.
                *self = begin;
                return Ok(None);
            };
            each(frame, &bytes[FRAME as usize..])?;
        }
        Ok(Some(end.frames - begin.frames))
    }
}

/// Reads as many bytes as the buffer has; false if the file ends before.
pub(crate) fn read_whole(file: &File, into: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(into, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The first position from `at` on that is in no hole of a file; `None` if there are only holes.
pub(crate) fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    // Nothing reads from the file's own position.
    match seek(file, SeekFrom::Data(at)) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NXIO) => Ok(None),
        // A file system that knows of no holes.
        Err(Errno::INVAL) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}
