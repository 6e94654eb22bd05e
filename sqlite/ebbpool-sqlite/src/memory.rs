//! Bytes that SQLite has written and that are in no file yet: in memory up to a limit, beyond it in a temporary file.
//!
//! The temporary file is in the directory of the database, where plain SQLite has its journal or WAL: a small `/var/tmp`, as owners
//! of cards have it in memory, is no reason to refuse what the card has room for. It has no name, is never synced, and may be lost
//! at any time without harm: nothing in it is durable.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::code::{SqliteCode, SqliteResult};
use crate::disk::{BaseFile, BaseVfs, TemporaryFile};
use crate::sync::lock;

/// Bytes of a piece of a [`VirtualFile`] without frames.
const PIECE: usize = 1 << 16;
/// Bytes of the header of a frame.
const FRAME: usize = crate::wal_log::FRAME as usize;

/// The memory of one database, and its temporary file.
#[derive(Clone)]
pub(crate) struct Memory {
    shared: Arc<Shared>,
}

struct Shared {
    base: BaseVfs,
    /// The path of the database.
    path: String,
    limit: usize,
    /// Bytes beyond the limit that may be used where the temporary file cannot take more.
    reserve: AtomicUsize,
    used: AtomicUsize,
    most: AtomicUsize,
    spilled: AtomicUsize,
    file: Mutex<SpillFile>,
}

/// Images one behind the other in a temporary file. It is opened when it is first needed, and closed, which deletes it,
/// when it holds none.
#[derive(Default)]
struct SpillFile {
    file: Option<TemporaryFile>,
    /// Where images were that are gone, by their length: there are few lengths, a piece and a page.
    free: HashMap<usize, Vec<u64>>,
    end: u64,
    images: usize,
}

impl SpillFile {
    fn store(&mut self, shared: &Shared, bytes: &[u8]) -> SqliteResult<u64> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(TemporaryFile::open(shared.base, &shared.path)?),
        };
        let again = self.free.get_mut(&bytes.len()).and_then(Vec::pop);
        let at = again.unwrap_or(self.end);
        self.end = self.end.max(at + bytes.len() as u64);
        self.images += 1;
        if let Err(error) = file.write(at, bytes) {
            self.free_up(at, bytes.len());
            return Err(error);
        }
        Ok(at)
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> SqliteResult<()> {
        match &mut self.file {
            Some(file) => file.read(at, into),
            None => Err(SqliteCode::IO),
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> SqliteResult<()> {
        match &mut self.file {
            Some(file) => file.write(at, bytes),
            None => Err(SqliteCode::IO),
        }
    }

    fn free_up(&mut self, at: u64, length: usize) {
        self.images -= 1;
        match self.images {
            0 => *self = SpillFile::default(),
            _ => self.free.entry(length).or_default().push(at),
        }
    }
}

/// Bytes of at most 64 KiB, which change only while one owner has them.
pub(crate) struct Image {
    memory: Memory,
    place: Residence,
    length: usize,
}

enum Residence {
    Memory(Box<[u8]>),
    /// Where the image begins in the temporary file.
    Spilled(u64),
    /// A part of another image, from an offset on.
    Part(Arc<Image>, usize),
    /// In a file that shows it until other bytes are written there.
    Lent(Arc<Lent>),
}

/// Bytes of a file that are stored only when others are about to be written over them.
pub(crate) struct Lent {
    memory: Memory,
    file: Arc<Mutex<BaseFile>>,
    at: u64,
    length: usize,
    copy: OnceLock<Image>,
}

impl Lent {
    /// Bytes of a file, which the caller keeps as they are until it has called [`Lent::keep`].
    pub(crate) fn new(memory: &Memory, file: &Arc<Mutex<BaseFile>>, at: u64, length: usize) -> Lent {
        Lent { memory: memory.clone(), file: Arc::clone(file), at, length, copy: OnceLock::new() }
    }

    /// Stores the bytes: the file may get others now.
    pub(crate) fn keep(&self) -> SqliteResult<()> {
        let mut bytes = vec![0; self.length];
        // No reader is between its look for a copy and the file.
        let mut file = lock(&self.file);
        file.read(self.at, &mut bytes)?;
        self.copy.get_or_init(|| self.memory.store_earlier(&bytes));
        Ok(())
    }

    fn read(&self, from: usize, into: &mut [u8]) -> SqliteResult<()> {
        let mut file = lock(&self.file);
        match self.copy.get() {
            Some(copy) => copy.read(from, into),
            None => file.read(self.at + from as u64, into),
        }
    }
}

impl Memory {
    /// Memory of `limit` bytes for the database with a path.
    pub(crate) fn new(base: BaseVfs, path: &str, limit: usize) -> Memory {
        Memory {
            shared: Arc::new(Shared {
                base,
                path: path.to_owned(),
                limit,
                reserve: AtomicUsize::new(0),
                used: AtomicUsize::new(0),
                most: AtomicUsize::new(0),
                spilled: AtomicUsize::new(0),
                file: Mutex::default(),
            }),
        }
    }

    /// Bytes in memory now.
    pub(crate) fn used(&self) -> usize {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// The most bytes that were in memory at any time.
    pub(crate) fn most(&self) -> usize {
        self.shared.most.load(Ordering::Relaxed)
    }

    /// Bytes that went to the temporary file so far.
    pub(crate) fn spilled(&self) -> usize {
        self.shared.spilled.load(Ordering::Relaxed)
    }

    /// The limit in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.shared.limit
    }

    /// Lets a writer go beyond the limit where the temporary file is full, by at least a quarter of it, or no longer.
    pub(crate) fn lend(&self, may_use_reserve: bool) {
        /// Limits that the reserve is, at most.
        const MOST: usize = 8;
        let limit = self.shared.limit;
        let reserve = match may_use_reserve {
            true => (self.used().saturating_sub(limit) + limit / 4).clamp(limit, MOST * limit),
            false => 0,
        };
        self.shared.reserve.store(reserve, Ordering::Relaxed);
    }

    /// Stores bytes.
    pub(crate) fn store(&self, bytes: &[u8]) -> SqliteResult<Image> {
        self.store_within(self.shared.limit, bytes)
    }

    /// Stores bytes in memory if it has no more than some bytes then.
    fn store_within(&self, most: usize, bytes: &[u8]) -> SqliteResult<Image> {
        let shared = &*self.shared;
        let used = shared.used.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        let place = if used <= most {
            shared.most.fetch_max(used, Ordering::Relaxed);
            Residence::Memory(bytes.into())
        } else {
            match self.spill(bytes) {
                Ok(at) => {
                    shared.used.fetch_sub(bytes.len(), Ordering::Relaxed);
                    Residence::Spilled(at)
                }
                Err(_) if used <= shared.limit + shared.reserve.load(Ordering::Relaxed) => {
                    shared.most.fetch_max(used, Ordering::Relaxed);
                    Residence::Memory(bytes.into())
                }
                Err(error) => {
                    shared.used.fetch_sub(bytes.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        };
        Ok(Image { memory: self.clone(), place, length: bytes.len() })
    }

    /// Stores bytes that must not be lost: in memory, beyond the limit, where the temporary file fails.
    pub(crate) fn store_surely(&self, bytes: &[u8]) -> Image {
        self.store_within_or_beyond(self.shared.limit, bytes)
    }

    /// The same for an earlier version of a page, which stays as long as a reader needs it: a quarter of the memory is for what
    /// comes and goes.
    pub(crate) fn store_earlier(&self, bytes: &[u8]) -> Image {
        self.store_within_or_beyond(self.shared.limit / 4 * 3, bytes)
    }

    fn store_within_or_beyond(&self, most: usize, bytes: &[u8]) -> Image {
        self.store_within(most, bytes).unwrap_or_else(|_| {
            self.shared.used.fetch_add(bytes.len(), Ordering::Relaxed);
            Image { memory: self.clone(), place: Residence::Memory(bytes.into()), length: bytes.len() }
        })
    }

    fn spill(&self, bytes: &[u8]) -> SqliteResult<u64> {
        let at = lock(&self.shared.file).store(&self.shared, bytes)?;
        self.shared.spilled.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(at)
    }
}

impl Image {
    /// An image of bytes that are in a file.
    pub(crate) fn lent(lent: Arc<Lent>) -> Image {
        Image { memory: lent.memory.clone(), length: lent.length, place: Residence::Lent(lent) }
    }

    /// A part of an image, which has it with it.
    fn part(whole: &Arc<Image>, from: usize, length: usize) -> Image {
        Image { memory: whole.memory.clone(), place: Residence::Part(Arc::clone(whole), from), length }
    }

    /// True if it is a part of another one.
    fn is_part_of(&self, whole: &Arc<Image>) -> bool {
        matches!(&self.place, Residence::Part(of, _) if Arc::ptr_eq(of, whole))
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> SqliteResult<Cow<'_, [u8]>> {
        match &self.place {
            Residence::Memory(bytes) => return Ok(Cow::Borrowed(bytes)),
            Residence::Part(whole, from) => {
                if let Residence::Memory(bytes) = &whole.place {
                    return Ok(Cow::Borrowed(&bytes[*from..from + self.length]));
                }
            }
            Residence::Spilled(_) | Residence::Lent(_) => {}
        }
        let mut bytes = vec![0; self.length];
        self.read(0, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    /// Reads some of the bytes, which must be there.
    fn read(&self, from: usize, into: &mut [u8]) -> SqliteResult<()> {
        match &self.place {
            Residence::Memory(bytes) => {
                into.copy_from_slice(&bytes[from..from + into.len()]);
                Ok(())
            }
            Residence::Spilled(at) => lock(&self.memory.shared.file).read(at + from as u64, into),
            Residence::Part(whole, begin) => whole.read(begin + from, into),
            Residence::Lent(lent) => lent.read(from, into),
        }
    }

    /// Changes some of the bytes, which must be there.
    fn write(&mut self, from: usize, bytes: &[u8]) -> SqliteResult<()> {
        match &mut self.place {
            Residence::Memory(image) => {
                image[from..from + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            Residence::Spilled(at) => {
                self.memory.shared.spilled.fetch_add(bytes.len(), Ordering::Relaxed);
                lock(&self.memory.shared.file).write(*at + from as u64, bytes)
            }
            // Others share these bytes.
            Residence::Part(..) | Residence::Lent(_) => Err(SqliteCode::IO),
        }
    }

    /// The number of bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        match self.place {
            Residence::Memory(_) => {
                self.memory.shared.used.fetch_sub(self.length, Ordering::Relaxed);
            }
            Residence::Spilled(at) => lock(&self.memory.shared.file).free_up(at, self.length),
            Residence::Part(..) | Residence::Lent(_) => {}
        }
    }
}

/// A file that exists only here: a journal, or SQLite's own WAL.
pub(crate) struct VirtualFile {
    memory: Memory,
    /// Bytes of the first piece, which is the header of a WAL, and of each other one.
    head: usize,
    piece: usize,
    pieces: Vec<Piece>,
    /// The piece that was begun last, which most writes go on with.
    open: Option<(usize, Vec<u8>)>,
    length: u64,
}

/// A piece of a file.
#[derive(Clone)]
enum Piece {
    Zeros,
    Here(Arc<Image>),
    /// A frame of a WAL, of which only the header is here.
    Elsewhere([u8; FRAME], Content),
}

/// Where the content of a frame is that is not in the WAL any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// It is what a page is as of the last epoch.
    OfPage(u32),
    /// Nowhere: no reader may read it any more.
    Gone,
}

/// The content of a frame that is elsewhere, as a read finds it.
pub(crate) struct ContentAt {
    /// Bytes that are read before it.
    pub(crate) done: usize,
    pub(crate) content: Content,
    /// The offset in it.
    pub(crate) within: usize,
}

impl VirtualFile {
    pub(crate) fn new(memory: &Memory) -> VirtualFile {
        VirtualFile { memory: memory.clone(), head: 0, piece: PIECE, pieces: Vec::new(), open: None, length: 0 }
    }

    /// Makes each frame of a WAL with pages of some size a piece, in a file all of which is zeros.
    pub(crate) fn use_frames(&mut self, page_size: usize) {
        self.zero();
        self.head = crate::wal_log::HEADER as usize;
        self.piece = FRAME + page_size;
    }

    /// True if each frame is a piece of its own.
    pub(crate) fn has_frames(&self) -> bool {
        self.head > 0
    }

    /// The length in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The piece of an offset, the offset within it, and its length.
    fn piece_of(&self, at: u64) -> (usize, usize, usize) {
        match at.checked_sub(self.head as u64) {
            Some(behind) => {
                let (index, within) = (behind / self.piece as u64, behind % self.piece as u64);
                (index as usize + usize::from(self.head > 0), within as usize, self.piece)
            }
            None => (0, at as usize, self.head),
        }
    }

    fn length_of(&self, index: usize) -> usize {
        if index == 0 && self.head > 0 { self.head } else { self.piece }
    }

    /// Reads bytes from an offset on, zeros beyond the end, and returns true if all of them were there.
    ///
    /// # Errors
    ///
    /// `IO` for the content of a frame that is elsewhere.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> SqliteResult<bool> {
        match self.read_up_to_content(at, into)? {
            (_, Some(_)) => Err(SqliteCode::IO),
            (is_whole, None) => Ok(is_whole),
        }
    }

    /// As `read`, but stops at the content of a frame that is elsewhere, and returns where that is.
    pub(crate) fn read_up_to_content(&self, at: u64, into: &mut [u8]) -> SqliteResult<(bool, Option<ContentAt>)> {
        let there = self.length.saturating_sub(at).min(into.len() as u64) as usize;
        into[there..].fill(0);
        let mut done = 0;
        while done < there {
            let (index, within, length) = self.piece_of(at + done as u64);
            let mut count = (length - within).min(there - done);
            let target = &mut into[done..done + count];
            match (&self.open, self.pieces.get(index)) {
                (Some((open, bytes)), _) if *open == index => target.copy_from_slice(&bytes[within..within + count]),
                (_, Some(Piece::Here(piece))) => piece.read(within, target)?,
                (_, Some(Piece::Elsewhere(header, content))) => {
                    if within >= FRAME {
                        return Ok((false, Some(ContentAt { done, content: *content, within: within - FRAME })));
                    }
                    count = count.min(FRAME - within);
                    target[..count].copy_from_slice(&header[within..within + count]);
                }
                (_, None | Some(Piece::Zeros)) => target.fill(0),
            }
            done += count;
        }
        Ok((there == into.len(), None))
    }

    /// Shares a part of the file, or stores it. What is in the temporary file is not written there again.
    pub(crate) fn image(&mut self, at: u64, length: usize) -> SqliteResult<Image> {
        let (index, within, piece) = self.piece_of(at);
        if within + length <= piece {
            if self.open.as_ref().is_some_and(|(open, _)| *open == index) && self.has_frames() {
                self.store_open_piece()?;
            }
            let is_open = self.open.as_ref().is_some_and(|(open, _)| *open == index);
            if let Some(Piece::Here(piece)) = self.pieces.get(index).filter(|_| !is_open)
                && (self.has_frames() || matches!(piece.place, Residence::Spilled(_)))
            {
                return Ok(Image::part(piece, within, length));
            }
        }
        let mut bytes = vec![0; length];
        self.read(at, &mut bytes)?;
        self.memory.store(&bytes)
    }

    /// Writes bytes at an offset; the file becomes longer where that is needed.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> SqliteResult<()> {
        let mut done = 0;
        while done < bytes.len() {
            let (index, within, length) = self.piece_of(at + done as u64);
            let count = (length - within).min(bytes.len() - done);
            self.write_to_piece(index, within, &bytes[done..done + count])?;
            done += count;
        }
        self.length = self.length.max(at + bytes.len() as u64);
        Ok(())
    }

    fn write_to_piece(&mut self, index: usize, within: usize, bytes: &[u8]) -> SqliteResult<()> {
        let is_open = self.open.as_ref().is_some_and(|(open, _)| *open == index);
        match self.pieces.get_mut(index) {
            Some(Piece::Here(piece)) if !is_open => {
                if let Some(piece) = Arc::get_mut(piece) {
                    return piece.write(within, bytes);
                }
            }
            // The checksums of a frame that stays as it is.
            Some(Piece::Elsewhere(header, Content::OfPage(_))) if !is_open && within + bytes.len() <= FRAME => {
                header[within..within + bytes.len()].copy_from_slice(bytes);
                return Ok(());
            }
            _ => {}
        }
        self.piece_to_write(index)?[within..within + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn piece_to_write(&mut self, index: usize) -> SqliteResult<&mut [u8]> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != index) {
            let bytes = match self.pieces.get(index) {
                Some(Piece::Here(piece)) => piece.bytes()?.into_owned(),
                // SQLite writes another frame over it.
                Some(Piece::Elsewhere(header, _)) => {
                    let mut bytes = vec![0; self.piece];
                    bytes[..FRAME].copy_from_slice(header);
                    bytes
                }
                None | Some(Piece::Zeros) => vec![0; self.length_of(index)],
            };
            self.store_open_piece()?;
            self.open = Some((index, bytes));
        }
        match &mut self.open {
            Some((_, bytes)) => Ok(bytes),
            None => Ok(&mut []),
        }
    }

    fn store_open_piece(&mut self) -> SqliteResult<()> {
        if let Some((index, bytes)) = &self.open {
            if self.pieces.len() <= *index {
                self.pieces.resize(index + 1, Piece::Zeros);
            }
            // The old image goes first: its memory is what the new one takes.
            self.pieces[*index] = Piece::Zeros;
            self.pieces[*index] = Piece::Here(Arc::new(self.memory.store(bytes)?));
        }
        self.open = None;
        Ok(())
    }

    /// Makes all bytes zeros, which take no room. The length stays.
    pub(crate) fn zero(&mut self) {
        self.pieces.clear();
        self.open = None;
    }

    /// Cuts the file off.
    pub(crate) fn truncate(&mut self, length: u64) -> SqliteResult<()> {
        if length >= self.length {
            self.length = length;
            return Ok(());
        }
        let (index, within, piece) = self.piece_of(length);
        let pieces = index + usize::from(within > 0);
        self.pieces.truncate(pieces);
        if self.open.as_ref().is_some_and(|(open, _)| *open >= pieces) {
            self.open = None;
        }
        if within > 0 {
            self.write_to_piece(index, within, &vec![0; piece - within])?;
        }
        self.length = length;
        Ok(())
    }

    // Frames, the first of which has the number 1.

    /// The header of a frame.
    pub(crate) fn header_of(&self, frame: u64) -> SqliteResult<[u8; FRAME]> {
        let mut header = [0; FRAME];
        self.read(self.head as u64 + (frame - 1) * self.piece as u64, &mut header)?;
        Ok(header)
    }

    /// True if an image shares the content of a frame.
    pub(crate) fn is_content(&self, frame: u64, image: &Image) -> bool {
        matches!(self.pieces.get(frame as usize), Some(Piece::Here(piece)) if image.is_part_of(piece))
    }

    /// Where the content of a frame is, if it is not here.
    pub(crate) fn elsewhere(&self, frame: u64) -> Option<Content> {
        let is_open = self.open.as_ref().is_some_and(|(open, _)| *open == frame as usize);
        match self.pieces.get(frame as usize) {
            Some(Piece::Elsewhere(_, content)) if !is_open => Some(*content),
            _ => None,
        }
    }

    /// Gives up the content of a frame, which is elsewhere.
    pub(crate) fn forget_content(&mut self, frame: u64, content: Content) -> SqliteResult<()> {
        if self.open.as_ref().is_some_and(|(open, _)| *open == frame as usize) {
            self.store_open_piece()?;
        }
        let header = self.header_of(frame)?;
        if let Some(piece) = self.pieces.get_mut(frame as usize) {
            *piece = Piece::Elsewhere(header, content);
        }
        Ok(())
    }

    /// Takes the content of a frame back.
    pub(crate) fn take_content(&mut self, frame: u64, bytes: &[u8]) {
        if let Some(Piece::Elsewhere(header, _)) = self.pieces.get(frame as usize) {
            let image = self.memory.store_surely(&[&header[..], bytes].concat());
            self.pieces[frame as usize] = Piece::Here(Arc::new(image));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    // It links SQLite.
    use rusqlite as _;

    #[allow(unsafe_code)]
    fn memory(limit: usize) -> Memory {
        // SAFETY: a name may be missing; then it is SQLite's default.
        Memory::new(BaseVfs(unsafe { (crate::linked_api().vfs_find)(std::ptr::null()) }), "", limit)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, Vec<u8>),
        Read(u64, usize),
        Truncate(u64),
        Zero,
        TakeImage(u64, usize),
        DropImage(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let at = || prop_oneof![0u64..200, 65_400u64..65_700, 131_000u64..131_200];
        let step = prop_oneof![
            (at(), proptest::collection::vec(any::<u8>(), 0..300)).prop_map(|(at, b)| Step::Write(at, b)),
            (at(), 0usize..400).prop_map(|(at, n)| Step::Read(at, n)),
            at().prop_map(Step::Truncate),
            Just(Step::Zero),
            (at(), 1usize..400).prop_map(|(at, n)| Step::TakeImage(at, n)),
            (0usize..10).prop_map(Step::DropImage),
        ];
        proptest::collection::vec(step, 1..60)
    }

    fn expected(model: &[u8], at: u64, count: usize) -> Vec<u8> {
        (0..count).map(|i| model.get(at as usize + i).copied().unwrap_or(0)).collect()
    }

    proptest! {
        #[test]
        fn a_virtual_file_reads_what_was_written(
            steps in steps(),
            limit in prop_oneof![Just(0), Just(PIECE + 1000), Just(usize::MAX / 2)],
            page_size in prop_oneof![Just(0), Just(64), Just(65_536)],
        ) {
            let memory = memory(limit);
            let mut file = VirtualFile::new(&memory);
            if page_size > 0 {
                file.use_frames(page_size);
            }
            let mut model: Vec<u8> = Vec::new();
            let mut images: Vec<(Image, Vec<u8>)> = Vec::new();
            for step in steps {
                match step {
                    Step::Write(at, bytes) => {
                        file.write(at, &bytes).unwrap();
                        let end = at as usize + bytes.len();
                        if !bytes.is_empty() {
                            model.resize(model.len().max(end), 0);
                            model[at as usize..end].copy_from_slice(&bytes);
                        }
                        model.resize(file.length() as usize, 0);
                    }
                    Step::Read(at, count) => {
                        let mut found = vec![7; count];
                        let whole = file.read(at, &mut found).unwrap();
                        prop_assert_eq!(found, expected(&model, at, count));
                        prop_assert_eq!(whole, at as usize + count <= model.len() || count == 0);
                    }
                    Step::Truncate(length) => {
                        file.truncate(length).unwrap();
                        model.resize(length as usize, 0);
                    }
                    Step::Zero => {
                        file.zero();
                        model.fill(0);
                    }
                    Step::TakeImage(at, count) => {
                        let image = file.image(at, count).unwrap();
                        images.push((image, expected(&model, at, count)));
                    }
                    Step::DropImage(index) => {
                        if index < images.len() {
                            images.remove(index);
                        }
                    }
                }
                for (image, bytes) in &images {
                    prop_assert_eq!(&*image.bytes().unwrap(), &**bytes);
                }
            }
            drop((file, images));
            prop_assert_eq!(memory.used(), 0);
            prop_assert!(memory.most() <= limit);
            prop_assert!(lock(&memory.shared.file).file.is_none(), "the temporary file is closed");
        }
    }
}
