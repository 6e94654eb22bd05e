//! Reads a `-wal` from its file, also while a program appends to it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::delta_log::is_page_size;
use crate::family::be32;
use crate::wal_log::{FRAME, HEADER, frame_checksum};

/// The magic number of a file whose checksums are over little-endian words; the next one stands for big-endian words.
const MAGIC: u32 = 0x377f_0682;

/// A position in a `-wal`, behind a frame that is valid.
#[derive(Clone, Debug)]
pub(crate) struct WalCursor {
    pub(crate) page_size: usize,
    pub(crate) salt: [u8; 8],
    is_big_endian: bool,
    sum: [u32; 2],
    /// Frames before the position.
    pub(crate) frames: u64,
}

/// The numbers in the header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalFrame {
    pub(crate) page: u32,
    /// The size of the database in pages, if the frame is the last one of a commit, otherwise 0.
    pub(crate) size: u32,
}

/// The frames of a commit, each with the image of its page.
pub(crate) type CommitFrames = Vec<(WalFrame, Vec<u8>)>;

impl WalCursor {
    /// The position of the first frame, if the bytes are the header of a `-wal`.
    pub(crate) fn begin(header: &[u8]) -> Option<WalCursor> {
        let header: &[u8; HEADER as usize] = header.try_into().ok()?;
        let magic = be32(header, 0);
        let page_size = be32(header, 8) as usize;
        if magic & !1 != MAGIC || !is_page_size(page_size) {
            return None;
        }
        let is_big_endian = magic & 1 == 1;
        let sum = frame_checksum([0, 0], &header[..24], is_big_endian);
        let mut salt = [0; 8];
        salt.copy_from_slice(&header[16..24]);
        (sum == [be32(header, 24), be32(header, 28)]).then_some(WalCursor {
            page_size,
            salt,
            is_big_endian,
            sum,
            frames: 0,
        })
    }

    /// The position of the first frame of a file; `None` if it has no whole header.
    pub(crate) fn open(file: &File) -> io::Result<Option<WalCursor>> {
        let mut header = [0; HEADER as usize];
        match read_whole(file, &mut header, 0)? {
            true => Ok(WalCursor::begin(&header)),
            false => Ok(None),
        }
    }

    /// Bytes of a frame.
    pub(crate) fn frame_bytes(&self) -> usize {
        FRAME as usize + self.page_size
    }

    /// The bytes of the file before the position.
    pub(crate) fn position(&self) -> u64 {
        HEADER + self.frames * self.frame_bytes() as u64
    }

    /// Takes the next frame, if the bytes are one, and moves behind it.
    pub(crate) fn take(&mut self, frame: &[u8]) -> Option<WalFrame> {
        let sum = frame_checksum(self.sum, &frame[..8], self.is_big_endian);
        let sum = frame_checksum(sum, &frame[FRAME as usize..], self.is_big_endian);
        let page = be32(frame, 0);
        if page == 0 || frame[8..16] != self.salt || sum != [be32(frame, 16), be32(frame, 20)] {
            return None;
        }
        self.sum = sum;
        self.frames += 1;
        Some(WalFrame {
            page,
            size: be32(frame, 4),
        })
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
