//! The real `-wal` file, in SQLite's own format: any SQLite takes it in.
//!
//! A *commit* is a run of frames, one for each page, whose last frame has the size of the database; SQLite ignores
//! frames behind the last commit. Format: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::code::SqliteResult;
use crate::delta_log::is_page_size;
use crate::disk::{BaseFile, whole_blocks};

/// Bytes of the file's header, and of the header of each frame.
pub(crate) const HEADER: u64 = 32;
pub(crate) const FRAME: u64 = 24;

/// The magic number of a file whose checksums are over little-endian words; the next one stands for big-endian words.
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;
/// Frames are written together up to this many bytes.
const BATCH: usize = 1 << 20;

/// A big-endian number, as SQLite's formats have them.
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// SQLite's checksum over pairs of little-endian words.
fn checksum(mut sum: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    for pair in bytes.chunks_exact(8) {
        let low = u32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]);
        let high = u32::from_le_bytes([pair[4], pair[5], pair[6], pair[7]]);
        sum[0] = sum[0].wrapping_add(low).wrapping_add(sum[1]);
        sum[1] = sum[1].wrapping_add(high).wrapping_add(sum[0]);
    }
    sum
}

/// SQLite's checksum of bytes of a WAL that says itself whether their words are big-endian.
fn frame_checksum(sum: [u32; 2], bytes: &[u8], is_big_endian: bool) -> [u32; 2] {
    if !is_big_endian {
        return checksum(sum, bytes);
    }
    let words = bytes.chunks_exact(4);
    let swapped: Vec<u8> = words.flat_map(|word| [word[3], word[2], word[1], word[0]]).collect();
    checksum(sum, &swapped)
}

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
        (sum == [be32(header, 24), be32(header, 28)]).then_some(WalCursor { page_size, salt, is_big_endian, sum, frames: 0 })
    }

    /// True if it is one of the `-wal` with a header.
    pub(crate) fn is_of(&self, header: &[u8; HEADER as usize]) -> bool {
        self.salt == header[16..24]
    }

    /// Bytes of a frame.
    pub(crate) fn frame_bytes(&self) -> usize {
        FRAME as usize + self.page_size
    }

    /// The bytes of the file before the position.
    pub(crate) fn position(&self) -> u64 {
        HEADER + self.frames * self.frame_bytes() as u64
    }

    /// A position behind the header of a file whose header is damaged; `salt` and the order of bytes are those of its frames.
    pub(crate) fn without_header(page_size: usize, salt: [u8; 8], is_big_endian: bool) -> WalCursor {
        WalCursor { page_size, salt, is_big_endian, sum: [0, 0], frames: 0 }
    }

    /// The checksum behind a frame, whatever the frame itself says.
    fn sum_behind(&self, frame: &[u8]) -> [u32; 2] {
        let sum = frame_checksum(self.sum, &frame[..8], self.is_big_endian);
        frame_checksum(sum, &frame[FRAME as usize..], self.is_big_endian)
    }

    /// The position behind a frame that is damaged: with the checksum that it says, and with the one that its bytes give.
    pub(crate) fn behind_damaged(&self, frame: &[u8]) -> [WalCursor; 2] {
        [[be32(frame, 16), be32(frame, 20)], self.sum_behind(frame)].map(|sum| WalCursor {
            sum,
            frames: self.frames + 1,
            ..self.clone()
        })
    }

    /// Takes the next frame whatever salt and checksum it has, moves behind it, and returns the header that makes it valid here;
    /// `None` if it is of no page.
    pub(crate) fn seal(&mut self, frame: &[u8]) -> Option<(WalFrame, [u8; FRAME as usize])> {
        let page = be32(frame, 0);
        if page == 0 {
            return None;
        }
        self.sum = self.sum_behind(frame);
        self.frames += 1;
        let mut header = [0; FRAME as usize];
        header[..8].copy_from_slice(&frame[..8]);
        header[8..16].copy_from_slice(&self.salt);
        header[16..20].copy_from_slice(&self.sum[0].to_be_bytes());
        header[20..].copy_from_slice(&self.sum[1].to_be_bytes());
        let size = be32(frame, 4);
        Some((WalFrame { page, size }, header))
    }

    /// Takes the next frame, if the bytes are one, and moves behind it.
    pub(crate) fn take(&mut self, frame: &[u8]) -> Option<WalFrame> {
        let sum = self.sum_behind(frame);
        let page = be32(frame, 0);
        if page == 0 || frame[8..16] != self.salt || sum != [be32(frame, 16), be32(frame, 20)] {
            return None;
        }
        self.sum = sum;
        self.frames += 1;
        Some(WalFrame { page, size: be32(frame, 4) })
    }
}

/// The log as it is in its file.
#[derive(Default)]
pub(crate) struct WalLog {
    page_size: usize,
    /// Frames up to the last commit that survives a crash.
    committed: u64,
    /// The checksum up to there.
    sum: [u32; 2],
    salt: [u32; 2],
    sequence: u32,
    /// True if the header is in the file and survives a crash.
    ready: bool,
    /// True if the file has never had anything but zeros: then no old frame can follow a new header.
    pub(crate) is_fresh: bool,
    /// Frames that were appended and not committed yet.
    open: OpenTransaction,
}

/// Frames behind the last commit.
#[derive(Default)]
struct OpenTransaction {
    frames: u64,
    sum: [u32; 2],
    images: Vec<(u32, u64)>,
    buffer: Vec<u8>,
    /// Where `buffer` belongs in the file.
    at: u64,
}

impl WalLog {
    /// True if no page is committed in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.committed == 0
    }

    /// Bytes of the file up to the last commit.
    pub(crate) fn bytes(&self) -> u64 {
        match self.committed {
            0 => 0,
            frames => HEADER + frames * (FRAME + self.page_size as u64),
        }
    }

    /// Where the next commit begins.
    pub(crate) fn end(&self) -> u64 {
        match self.committed {
            0 => HEADER,
            _ => self.bytes(),
        }
    }

    /// True if the file has had a header since it was opened, or may have had one before.
    pub(crate) fn has_header(&self) -> bool {
        !self.is_fresh
    }

    /// True if the header of the file is one that this log has not written.
    pub(crate) fn is_foreign(&self, header: &[u8; HEADER as usize]) -> bool {
        let salt = [be32(header, 16), be32(header, 20)];
        *header != [0; HEADER as usize] && salt != self.salt
    }

    /// Begins anew with a new salt, which makes all frames in the file invalid, and returns true if that took a sync. The
    /// caller has made the database durable in which all of them are in place (invariant 3).
    pub(crate) fn reset(&mut self, file: &mut BaseFile, page_size: usize, random: u64) -> SqliteResult<bool> {
        self.ready = false;
        self.page_size = page_size;
        self.committed = 0;
        self.open = OpenTransaction::default();
        self.sequence = self.sequence.wrapping_add(1);
        self.salt = [random as u32, (random >> 32) as u32];
        let mut header = [0u8; HEADER as usize];
        let fields = [MAGIC, VERSION, page_size as u32, self.sequence, self.salt[0], self.salt[1]];
        for (slot, field) in header.chunks_exact_mut(4).zip(fields) {
            slot.copy_from_slice(&field.to_be_bytes());
        }
        self.sum = checksum([0, 0], &header[..24]);
        header[24..28].copy_from_slice(&self.sum[0].to_be_bytes());
        header[28..].copy_from_slice(&self.sum[1].to_be_bytes());
        let needs_sync = !std::mem::take(&mut self.is_fresh);
        file.write(0, &header)?;
        if needs_sync {
            file.sync()?;
        }
        self.ready = true;
        Ok(needs_sync)
    }

    /// True if frames may be appended: the header of this generation survives a crash.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Forgets frames that were appended and not committed.
    pub(crate) fn begin(&mut self) {
        self.open = OpenTransaction { sum: self.sum, at: self.end(), ..OpenTransaction::default() };
    }

    /// Appends a page; `size` is the size of the database in pages for the last one of a commit, otherwise 0.
    pub(crate) fn append(&mut self, file: &mut BaseFile, page: u32, image: &[u8], size: u32) -> SqliteResult<()> {
        let open = &mut self.open;
        let mut head = [0u8; FRAME as usize];
        head[..4].copy_from_slice(&page.to_be_bytes());
        head[4..8].copy_from_slice(&size.to_be_bytes());
        open.sum = checksum(checksum(open.sum, &head[..8]), image);
        for (slot, word) in head[8..].chunks_exact_mut(4).zip(self.salt.iter().chain(&open.sum)) {
            slot.copy_from_slice(&word.to_be_bytes());
        }
        open.buffer.extend_from_slice(&head);
        let begin = open.at + open.buffer.len() as u64;
        open.images.push((page, begin));
        open.buffer.extend_from_slice(image);
        open.frames += 1;
        if open.buffer.len() >= BATCH {
            self.write_out(file)?;
        }
        Ok(())
    }

    fn write_out(&mut self, file: &mut BaseFile) -> SqliteResult<()> {
        let open = &mut self.open;
        file.write(open.at, &open.buffer)?;
        open.at += open.buffer.len() as u64;
        open.buffer.clear();
        Ok(())
    }

    /// Makes the frames durable that were appended so far, before the commit has its last one.
    pub(crate) fn sync_open_frames(&mut self, file: &mut BaseFile) -> SqliteResult<()> {
        let written = self.write_out(file).and_then(|()| file.sync());
        if written.is_err() && self.committed == 0 {
            // The header may not be durable either, and no later sync need write it.
            self.ready = false;
        }
        written
    }

    /// Makes the appended frames durable, and returns their bytes in whole blocks. After an error nothing is committed, and
    /// the caller begins again.
    pub(crate) fn sync(&mut self, file: &mut BaseFile) -> SqliteResult<u64> {
        self.sync_open_frames(file)?;
        let frame = FRAME + self.page_size as u64;
        let begin = HEADER + self.committed * frame;
        Ok(whole_blocks(begin, self.open.frames * frame))
    }

    /// Notes that the appended frames are durable, and committed. Returns the pages, and where their images begin.
    pub(crate) fn commit(&mut self) -> Vec<(u32, u64)> {
        let open = std::mem::take(&mut self.open);
        self.committed += open.frames;
        self.sum = open.sum;
        open.images
    }

    /// Frames that were appended and are not committed.
    pub(crate) fn open_frames(&self) -> u64 {
        self.open.frames
    }

    /// The end of the frames that were appended.
    pub(crate) fn open_end(&self) -> u64 {
        self.end() + self.open.frames * (FRAME + self.page_size as u64)
    }

    /// Makes the frames invalid that were appended and not committed.
    pub(crate) fn cover(&mut self, file: &mut BaseFile) -> SqliteResult<()> {
        let end = self.end();
        self.begin();
        file.write(end, &[0; FRAME as usize])
    }

    /// Forgets everything: the file has been cut off.
    pub(crate) fn clear(&mut self) {
        *self = WalLog { sequence: self.sequence, salt: self.salt, is_fresh: self.is_fresh, ..WalLog::default() };
    }
}

/// Reads it from its file, also while a program appends to it.
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
