//! The mark in a database that has newer content in a log: the version of its format, which keeps SQLite from writing it, and
//! the number of the log's generation, in bytes that SQLite reserves.

use super::DurableFiles;
use crate::code::SqliteResult;
use crate::disk::whole_blocks;

/// The file format version that makes SQLite refuse to write a database, and lets it read.
const READ_ONLY: u8 = 3;
/// Where the header of a database has its write and read version.
pub(crate) const WRITE_VERSION: usize = 18;
pub(crate) const READ_VERSION: usize = 19;
/// Where the mark has the number of the generation: in bytes that are zeros in SQLite's format (1.3.21, "reserved for
/// expansion").
pub(crate) const GENERATION: std::ops::Range<usize> = 72..80;
/// All bytes that SQLite reserves.
const RESERVED: std::ops::Range<usize> = 72..92;
/// The bytes of the header that a change of the database changes.
const FINGERPRINT: usize = 96;

/// True if the bytes begin like a database of SQLite's that is not encrypted.
pub(crate) fn is_plain(header: &[u8]) -> bool {
    header.starts_with(b"SQLite format 3\0") && (1..=2).contains(&header[READ_VERSION])
}

/// True if the header of a database keeps SQLite from writing it. A power cut while the mark is written may leave any byte
/// there, so any version that SQLite does not write is one.
pub(crate) fn is_marked(header: &[u8]) -> bool {
    header[WRITE_VERSION] >= READ_ONLY
}

/// The number of the generation in the mark of a header; 0 without one.
pub(crate) fn marked_generation(header: &[u8]) -> u64 {
    let bytes = header.get(GENERATION).unwrap_or(&[]);
    u64::from_le_bytes(bytes.try_into().unwrap_or_default())
}

/// True if the header of a database says how many pages it has. SQLite before 3.7.0 wrote none that is valid; then the
/// length of the file says it (SQLite's file format, 1.3.7).
pub(super) fn has_size(header: &[u8]) -> bool {
    header[28..32] != [0; 4] && header[24..28] == header[92..96]
}

/// Marks the header of a database.
fn mark(page: &mut [u8], generation: u64) {
    page[WRITE_VERSION] = READ_ONLY;
    if generation != 0 {
        page[GENERATION].copy_from_slice(&generation.to_le_bytes());
    }
}

/// What the disk may have of a mark, after a sync has failed that was to make it durable, or that it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UncertainMark {
    /// At most the bit: the bytes of the number have not been written.
    WithoutNumber,
    MayHaveNumber,
}

impl UncertainMark {
    fn new(generation: u64) -> Self {
        match generation {
            0 => UncertainMark::WithoutNumber,
            _ => UncertainMark::MayHaveNumber,
        }
    }
}

/// Makes page 1, or a part of it from its begin on, what SQLite wrote.
pub(crate) fn unmark(page: &mut [u8]) {
    if page.len() > READ_VERSION && is_marked(page) && is_plain(page) {
        page[WRITE_VERSION] = page[READ_VERSION];
        if page.len() >= GENERATION.end {
            page[GENERATION].fill(0);
        }
    }
}

/// The fingerprint of a database, which changes with each of its commits in a rollback mode.
pub(crate) fn fingerprint(header: &[u8]) -> u64 {
    let mut header = header[..FINGERPRINT].to_vec();
    unmark(&mut header);
    // A record that has changed the page size has written the word of the mark, and not that of its number.
    header[GENERATION].fill(0);
    xxhash_rust::xxh3::xxh3_64(&header)
}

/// The first page of a database without tables, in the form of another first page (SQLite's file format, 1.3 and 1.6); nothing if
/// that is encrypted.
pub(crate) fn empty_like(first: &[u8]) -> Vec<u8> {
    /// Bytes of a database's header.
    const HEADER: usize = 100;
    /// The kind of a page that is a leaf of a table.
    const LEAF: u8 = 0x0d;
    if !is_plain(first) {
        return Vec::new();
    }
    let mut page = vec![0; first.len()];
    page[..24].copy_from_slice(&first[..24]);
    page[WRITE_VERSION] = page[READ_VERSION];
    // One page.
    page[31] = 1;
    page[HEADER] = LEAF;
    // Where its cells begin: at the end of what is not reserved; 0 stands for 65536.
    let usable = first.len() - usize::from(first[20]);
    page[HEADER + 5..HEADER + 7].copy_from_slice(&(usable as u16).to_be_bytes());
    page
}

impl DurableFiles {
    /// Keeps programs without this library from writing the database in place. Invariant 5: with a number other than 0 the
    /// header of `-ebb` is durable that has it.
    pub(super) fn mark_in_place(&mut self, generation: u64) -> SqliteResult<()> {
        let mut header = self.header()?;
        if self.marked == Some(generation) || !is_plain(&header) {
            return Ok(());
        }
        mark(&mut header, generation);
        let number = UncertainMark::new(generation).max(self.mark_on_disk().unwrap_or(UncertainMark::WithoutNumber));
        // Where the sync fails, either may be on the disk.
        self.marked = None;
        self.uncertain_mark = Some(number);
        self.write_mark(&header, number)?;
        self.marked = Some(generation);
        self.uncertain_mark = None;
        Ok(())
    }

    /// Lets other programs write the database again; also where the mark is gone already, if an earlier attempt may have
    /// failed.
    pub(super) fn unmark_in_place(&mut self, again: bool) -> SqliteResult<()> {
        let mut header = self.header()?;
        // After a failed sync the file shows what the disk may not have.
        let on_disk = self.mark_on_disk();
        if is_plain(&header) && (again || on_disk.is_some() || is_marked(&header)) {
            // An earlier process may have failed to remove a number that the file no longer shows.
            let before = on_disk.unwrap_or(UncertainMark::MayHaveNumber);
            let number = UncertainMark::new(marked_generation(&header)).max(before);
            header[WRITE_VERSION] = header[READ_VERSION];
            header[GENERATION].fill(0);
            // Where the sync fails the file shows no mark, without which the next process refuses a log with epochs.
            self.marked = None;
            self.uncertain_mark = Some(number);
            self.write_mark(&header, number)?;
        }
        self.marked = None;
        self.uncertain_mark = None;
        Ok(())
    }

    /// The mark that the disk has or may have; `None` if it has none, as far as this process knows.
    fn mark_on_disk(&self) -> Option<UncertainMark> {
        self.marked.map(UncertainMark::new).max(self.uncertain_mark)
    }

    fn write_mark(&mut self, header: &[u8], number: UncertainMark) -> SqliteResult<()> {
        // A power cut may leave anything in the bytes that are written, and only there: a mark without a number must not get one.
        let version = WRITE_VERSION..WRITE_VERSION + 1;
        let number = (number == UncertainMark::MayHaveNumber).then_some(GENERATION);
        for bytes in number.into_iter().chain([version]) {
            let at = bytes.start as u64;
            self.database.write(at, &header[bytes])?;
        }
        self.database.sync()?;
        self.written.in_place += whole_blocks(0, 1);
        self.written.syncs += 1;
        Ok(())
    }

    /// Page 1 with the mark that a commit of `-wal` gives it; `None` for other pages, and where it gets none.
    pub(super) fn with_mark(&self, page: u32, image: &[u8]) -> Option<Vec<u8>> {
        let generation = self.mark_of_commit()?;
        (page == 1 && is_plain(image)).then(|| {
            let mut marked = image.to_vec();
            mark(&mut marked, generation);
            marked
        })
    }

    /// True if the bytes for the number of a generation are in use for something else.
    pub(super) fn is_reserved_used(header: &[u8]) -> bool {
        is_plain(header) && !is_marked(header) && header[RESERVED].iter().any(|byte| *byte != 0)
    }
}
