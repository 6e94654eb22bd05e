//! Reads a `-wal` from its file, also while a program appends to it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::wal_log::{FRAME, HEADER, WalCursor, WalFrame};

/// The frames of a commit, each with the image of its page.
pub(crate) type CommitFrames = Vec<(WalFrame, Vec<u8>)>;

impl WalCursor {
    /// The position of the first frame of a file; `None` if it has no whole header.
    pub(crate) fn open(file: &File) -> io::Result<Option<WalCursor>> {
        let mut header = [0; HEADER as usize];
        match read_whole(file, &mut header, 0)? {
            true => Ok(WalCursor::begin(&header)),
            false => Ok(None),
        }
    }

    /// Reads the frames of the next commit: for each its numbers and the image of the page. `None`, and the position stays,
    /// if there is no further commit.
    pub(crate) fn next_commit(&mut self, file: &File) -> io::Result<Option<CommitFrames>> {
        let mut cursor = self.clone();
        let mut frames = Vec::new();
        let mut bytes = vec![0; self.frame_bytes()];
        while read_whole(file, &mut bytes, cursor.position())? {
            let Some(frame) = cursor.take(&bytes) else {
                break;
            };
            frames.push((frame, bytes[FRAME as usize..].to_vec()));
            if frame.size != 0 {
                *self = cursor;
                return Ok(Some(frames));
            }
        }
        Ok(None)
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
