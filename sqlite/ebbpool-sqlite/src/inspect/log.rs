//! What `-ebb` holds, and whether it belongs to the database beside it.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::code::{SqliteCode, SqliteResult};
use crate::delta_log::{self, Heads, PageDelta, Record};
#[cfg(feature = "test-kit")]
use crate::delta_log::{HEADER, RECORD, SLOTS};
use crate::store::LogMatch;

/// What `-ebb` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaLogSummary {
    /// The length of the file in bytes, most of which may be older generations.
    pub bytes: u64,
    /// True if one of the slots has a valid header. A file whose process ended while it wrote the first one has none, and no
    /// epochs either.
    pub has_header: bool,
    /// Bytes of a page; 0 without a header.
    pub page_size: u32,
    /// Epochs with valid checksums: what recovery brings in place.
    pub epochs: u32,
    /// Bytes of the headers and of these epochs.
    pub used_bytes: u64,
    /// Pages that these epochs change.
    pub changed_pages: u64,
    /// The size of the database in pages after the last epoch; 0 without one.
    pub pages: u32,
    /// When the generation began, in milliseconds since 1970: the last checkpoint.
    pub began: u64,
    /// When the last epoch was written, in milliseconds since 1970.
    pub last_epoch: u64,
    /// Whether it belongs to the database.
    pub fit: LogFit,
}

/// Whether an `-ebb` belongs to the database beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFit {
    /// It has no epoch, and may be removed.
    NoEpochs,
    /// Its epochs continue the database in place.
    Fits,
    /// The database has no mark, so another program may have written it since.
    NotMarked,
    /// The header of the database is that of another version.
    OtherDatabase,
    /// It has no valid header, and the database needs one: what it held is lost.
    Damaged,
    /// It is no log, and the database needs none.
    Foreign,
    /// A later release has written it, in this version of the format.
    LaterVersion(u8),
}

/// Reads a log; `first` is the begin of the database, zeros beyond its end, and `bytes` its length.
pub(super) fn summarize(file: &File, first: &[u8], bytes: u64) -> io::Result<DeltaLogSummary> {
    let length = file.metadata()?.len();
    let read = |at: u64, into: &mut [u8]| {
        // While its owner writes, a log may end before its length says so.
        file.read_exact_at(into, at).map_err(|_| SqliteCode::IO)
    };
    let summary = read_log(length, first, bytes, read, |_, _, _| ());
    summary.map_err(|_| io::Error::other("its log cannot be read"))
}

/// Reads a log, and calls `each` with every record, its sections and its bytes.
pub(super) fn read_log(
    length: u64,
    first: &[u8],
    bytes: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> SqliteResult<()>,
    mut each: impl FnMut(&Record, &[PageDelta], &[u8]),
) -> SqliteResult<DeltaLogSummary> {
    let mut check = LogMatch::new(first);
    let mut changed = HashSet::new();
    let mut pages = 0;
    let heads = Heads::read(length, &mut read)?;
    let generation = check.marked_generation();
    let header = heads.of_mark(generation);
    let Some(header) = header.filter(|_| heads.later.is_none()) else {
        let without_later = match (generation, heads.is_log) {
            (1.., _) => LogFit::Damaged,
            (0, true) => LogFit::NoEpochs,
            (0, false) => LogFit::Foreign,
        };
        return Ok(DeltaLogSummary {
            bytes: length,
            has_header: false,
            page_size: 0,
            epochs: 0,
            used_bytes: 0,
            changed_pages: 0,
            pages: 0,
            began: 0,
            last_epoch: 0,
            fit: heads.later.map_or(without_later, LogFit::LaterVersion),
        });
    };
    let scanned = delta_log::scan(length, &header, &mut read, |record, _, sections, bytes| {
        pages = record.size;
        changed.extend(sections.iter().map(|section| section.page));
        check.add(&header, record, sections, bytes);
        each(record, sections, bytes);
    })?;
    let fit = match scanned.epochs {
        0 if check.needs_no_other(&header) => LogFit::NoEpochs,
        0 => LogFit::OtherDatabase,
        _ if bytes == 0 => LogFit::OtherDatabase,
        _ if !check.is_marked() => LogFit::NotMarked,
        _ if check.fits(&header) => LogFit::Fits,
        _ => LogFit::OtherDatabase,
    };
    Ok(DeltaLogSummary {
        bytes: length,
        has_header: true,
        page_size: header.page_size,
        epochs: scanned.epochs,
        used_bytes: scanned.end,
        changed_pages: changed.len() as u64,
        pages,
        began: header.began,
        last_epoch: scanned.time,
        fit,
    })
}

/// The number of an epoch that is behind the end of the log: damage has ended it. No process may have the database open.
pub(super) fn epoch_behind(file: &File, first: &[u8]) -> io::Result<Option<u32>> {
    let length = file.metadata()?.len();
    let mut read = |at: u64, into: &mut [u8]| file.read_exact_at(into, at).map_err(|_| SqliteCode::IO);
    let mut look = || {
        let heads = Heads::read(length, &mut read)?;
        let header = heads.of_mark(LogMatch::new(first).marked_generation());
        let Some(header) = header.filter(|_| heads.later.is_none()) else {
            return Ok(None);
        };
        let scanned = delta_log::scan(length, &header, &mut read, |_, _, _, _| ())?;
        delta_log::epoch_behind(length, &header, &scanned, &mut read)
    };
    look().map_err(|_: SqliteCode| io::Error::other("its log cannot be read"))
}

/// Reads bytes as a log over a database of which `first` is the begin, and applies its sections to a page: for fuzzing.
#[cfg(feature = "test-kit")]
pub fn check_bytes_of_log(bytes: &[u8], first: &[u8]) -> DeltaLogSummary {
    let mut begin = vec![0; 1 << 16];
    let count = first.len().min(begin.len());
    begin[..count].copy_from_slice(&first[..count]);
    let mut page = vec![0; 1 << 16];
    let read = |at: u64, into: &mut [u8]| {
        let at = usize::try_from(at).map_err(|_| SqliteCode::IO)?;
        let from = bytes.get(at..at + into.len()).ok_or(SqliteCode::IO)?;
        into.copy_from_slice(from);
        Ok(())
    };
    let each = |_: &Record, sections: &[PageDelta], bytes: &[u8]| {
        for section in sections {
            delta_log::apply(section.runs(bytes), &mut page);
        }
    };
    let length = bytes.len() as u64;
    match read_log(length, &begin, count as u64, read, each) {
        Ok(summary) => summary,
        Err(code) => panic!("bytes in memory are not read: {code}"),
    }
}

/// The bytes with checksums that are right for a log of this form, where they have one: for fuzzing, which finds no
/// checksum by chance.
#[cfg(feature = "test-kit")]
pub fn sealed_log(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in SLOTS.map(|at| at as usize) {
        // The second slot of the first version has records.
        let is_header = at == 0 || bytes.get(at..).is_some_and(delta_log::has_magic);
        if let Some(head) = bytes.get_mut(at..at + HEADER).filter(|_| is_header) {
            let sum = xxhash_rust::xxh3::xxh3_64(&head[..56]);
            head[56..].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let length = bytes.len() as u64;
    let read = |at: u64, into: &mut [u8]| {
        into.copy_from_slice(&bytes[at as usize..at as usize + into.len()]);
        Ok(())
    };
    let header = Heads::read(length, read).map(|heads| heads.of_mark(0));
    let Ok(Some(header)) = header else {
        return bytes;
    };
    let (mut at, mut before, mut epoch) = (header.records() as usize, header.seed(), 1u32);
    while let Some(record) = bytes.get_mut(at..at + RECORD) {
        // No input has the number of a checksum by chance.
        if header.is_numbered() {
            record[12..16].copy_from_slice(&header.zero().wrapping_add(epoch).to_le_bytes());
        }
        let decoded = Record::decode(record, &header);
        let Some(record) = decoded.filter(|record| record.epoch == epoch) else {
            break;
        };
        let end = at + record.length as usize;
        let Some(whole) = bytes.get_mut(at..end) else {
            break;
        };
        before = Record::sum(whole, before);
        whole[16..24].copy_from_slice(&before.to_le_bytes());
        at = end;
        epoch += 1;
    }
    bytes
}
