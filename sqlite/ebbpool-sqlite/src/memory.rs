//! Bytes that SQLite has written and that are in no file yet: in memory up to a limit, beyond it in a temporary file.
//!
//! The temporary file is in the directory of the database, where plain SQLite has its journal or WAL: a small `/var/tmp`, as owners
//! of cards have it in memory, is no reason to refuse what the card has room for. It has no name, is never synced, and may be lost
//! at any time without harm: nothing in it is durable.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::code::{SqliteCode, SqliteResult};
use crate::disk::{BaseVfs, TemporaryFile};
use crate::sync::lock;

/// Bytes of a piece of a [`VirtualFile`].
const PIECE: usize = 1 << 16;

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
    /// A part of a spilled image, and where it begins in the temporary file.
    Part(#[expect(dead_code, reason = "holds the space")] Arc<Image>, u64),
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
        let shared = &*self.shared;
        let used = shared.used.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        let place = if used <= shared.limit {
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
        self.store(bytes).unwrap_or_else(|_| {
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
    /// The bytes.
    pub(crate) fn bytes(&self) -> SqliteResult<Cow<'_, [u8]>> {
        match &self.place {
            Residence::Memory(bytes) => Ok(Cow::Borrowed(bytes)),
            Residence::Spilled(at) | Residence::Part(_, at) => {
                let mut bytes = vec![0; self.length];
                lock(&self.memory.shared.file).read(*at, &mut bytes)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }

    /// Reads some of the bytes, which must be there.
    fn read(&self, from: usize, into: &mut [u8]) -> SqliteResult<()> {
        match &self.place {
            Residence::Memory(bytes) => {
                into.copy_from_slice(&bytes[from..from + into.len()]);
                Ok(())
            }
            Residence::Spilled(at) | Residence::Part(_, at) => {
                let mut file = lock(&self.memory.shared.file);
                file.read(at + from as u64, into)
            }
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
                let mut file = lock(&self.memory.shared.file);
                self.memory.shared.spilled.fetch_add(bytes.len(), Ordering::Relaxed);
                file.write(*at + from as u64, bytes)
            }
            // Others share these bytes.
            Residence::Part(..) => Err(SqliteCode::IO),
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
            Residence::Part(..) => {}
        }
    }
}

/// A file that exists only here: a journal, or SQLite's own WAL.
pub(crate) struct VirtualFile {
    memory: Memory,
    pieces: Vec<Option<Arc<Image>>>,
    /// The piece that was begun last, which most writes go on with.
    open: Option<(usize, Vec<u8>)>,
    length: u64,
}

impl VirtualFile {
    pub(crate) fn new(memory: &Memory) -> VirtualFile {
        VirtualFile { memory: memory.clone(), pieces: Vec::new(), open: None, length: 0 }
    }

    /// The length in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Reads bytes from an offset on, zeros beyond the end, and returns true if all of them were there.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> SqliteResult<bool> {
        let there = self.length.saturating_sub(at).min(into.len() as u64) as usize;
        into[there..].fill(0);
        let mut done = 0;
        while done < there {
            let (index, within) = piece_of(at + done as u64);
            let count = (PIECE - within).min(there - done);
            let target = &mut into[done..done + count];
            match (&self.open, self.piece(index)) {
                (Some((open, bytes)), _) if *open == index => {
                    target.copy_from_slice(&bytes[within..within + count]);
                }
                (_, Some(piece)) => piece.read(within, target)?,
                (_, None) => target.fill(0),
            }
            done += count;
        }
        Ok(there == into.len())
    }

    fn piece(&self, index: usize) -> Option<&Arc<Image>> {
        self.pieces.get(index).and_then(Option::as_ref)
    }

    /// Stores a part of the file of at most 64 KiB. What is in the temporary file is not written there again.
    pub(crate) fn image(&self, at: u64, length: usize) -> SqliteResult<Image> {
        let (index, within) = piece_of(at);
        let is_open = self.open.as_ref().is_some_and(|(open, _)| *open == index);
        let piece = self.piece(index).filter(|_| !is_open && within + length <= PIECE);
        if let Some(piece) = piece
            && let Residence::Spilled(begin) = piece.place
        {
            return Ok(Image {
                memory: self.memory.clone(),
                place: Residence::Part(Arc::clone(piece), begin + within as u64),
                length,
            });
        }
        let mut bytes = vec![0; length];
        self.read(at, &mut bytes)?;
        self.memory.store(&bytes)
    }

    /// Writes bytes at an offset; the file becomes longer where that is needed.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> SqliteResult<()> {
        let mut done = 0;
        while done < bytes.len() {
            let (index, within) = piece_of(at + done as u64);
            let count = (PIECE - within).min(bytes.len() - done);
            self.write_to_piece(index, within, &bytes[done..done + count])?;
            done += count;
        }
        self.length = self.length.max(at + bytes.len() as u64);
        Ok(())
    }

    fn write_to_piece(&mut self, index: usize, within: usize, bytes: &[u8]) -> SqliteResult<()> {
        let is_open = self.open.as_ref().is_some_and(|(open, _)| *open == index);
        if !is_open
            && let Some(Some(piece)) = self.pieces.get_mut(index)
            && let Some(piece) = Arc::get_mut(piece)
        {
            return piece.write(within, bytes);
        }
        self.piece_to_write(index)?[within..within + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn piece_to_write(&mut self, index: usize) -> SqliteResult<&mut [u8]> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != index) {
            let bytes = match self.piece(index) {
                Some(piece) => piece.bytes()?.into_owned(),
                None => vec![0; PIECE],
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
                self.pieces.resize_with(index + 1, || None);
            }
            // The old image goes first: its memory is what the new one takes.
            self.pieces[*index] = None;
            self.pieces[*index] = Some(Arc::new(self.memory.store(bytes)?));
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
        let (index, within) = piece_of(length);
        let pieces = index + usize::from(within > 0);
        self.pieces.truncate(pieces);
        if self.open.as_ref().is_some_and(|(open, _)| *open >= pieces) {
            self.open = None;
        }
        if within > 0 {
            self.write_to_piece(index, within, &vec![0; PIECE - within])?;
        }
        self.length = length;
        Ok(())
    }
}

fn piece_of(at: u64) -> (usize, usize) {
    ((at / PIECE as u64) as usize, (at % PIECE as u64) as usize)
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
        ) {
            let memory = memory(limit);
            let mut file = VirtualFile::new(&memory);
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
