//! A copy of a database in the state that recovery would give.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::{SqliteHeader, SqliteInspection, beside, log, open_if_there, open_to_read, read_start};
use crate::code::SqliteCode;
use crate::delta_log::{self, Heads};
use crate::store::LogMatch;
use crate::store::unmark;
use crate::wal_log::{WalCursor, WalFrame};

/// Writes a copy of a database to a new file: what is in place, then the commits of `-wal`, then the epochs of `-ebb`,
/// without the mark. A `-journal` is copied as it is; SQLite rolls it back when it opens the copy. So is a `-wal` with pages of
/// another size than the database's.
///
/// # Errors
///
/// If a file cannot be read or written. While a process has the database open, the copy may be no state of it.
pub fn write_recovered(inspection: &SqliteInspection, target: &Path) -> io::Result<()> {
    let path = &inspection.path;
    let copy = copied(open_to_read(path)?, target)?;
    let mut first = vec![0; 1 << 16];
    read_start(&copy, &mut first)?;
    if let Some(wal) = open_if_there(&beside(path, "-wal"))? {
        let own = SqliteHeader::decode(&first).filter(|own| !own.is_marked);
        let of_wal = inspection.wal.as_ref().map(|wal| wal.page_size);
        match own {
            // It may be of another database: only SQLite itself knows what it makes of its pages.
            Some(own) if inspection.log.is_none() && of_wal != Some(own.page_size) => {
                copied(wal, &beside(target, "-wal"))?;
                return Ok(());
            }
            _ => take_in_wal(&copy, &wal)?,
        }
    }
    read_start(&copy, &mut first)?;
    // The records were made of pages without a mark.
    let mut header = first[..100].to_vec();
    unmark(&mut header);
    if header != first[..100] {
        copy.write_all_at(&header, 0)?;
    }
    if let Some(log) = open_if_there(&beside(path, "-ebb"))? {
        take_in_log(&copy, &log, &first)?;
    }
    if let (Some(_), Some(journal)) = (inspection.hot_journal, open_if_there(&beside(path, "-journal"))?) {
        copied(journal, &beside(target, "-journal"))?;
    }
    Ok(())
}

/// Copies a file to a new one, with all rights for this user only.
fn copied(mut file: File, target: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let mut copy = options.open(target)?;
    io::copy(&mut file, &mut copy)?;
    Ok(copy)
}

fn take_in_wal(copy: &File, wal: &File) -> io::Result<()> {
    let Some(mut cursor) = WalCursor::open(wal)? else {
        return Ok(());
    };
    let page_size = cursor.page_size as u64;
    let mut size = None;
    let mut place = |frame: WalFrame, image: &[u8]| {
        size = (frame.size > 0).then_some(frame.size).or(size);
        copy.write_all_at(image, u64::from(frame.page - 1) * page_size)
    };
    while cursor.next_commit(wal, &|| Ok(()), &mut place)?.is_some() {}
    match size {
        Some(size) => copy.set_len(u64::from(size) * page_size),
        None => Ok(()),
    }
}

/// Applies the epochs of a log; `first` is the begin of the database with its mark.
fn take_in_log(copy: &File, file: &File, first: &[u8]) -> io::Result<()> {
    let length = file.metadata()?.len();
    let read = |at: u64, into: &mut [u8]| file.read_exact_at(into, at).map_err(|_| SqliteCode::IO);
    let unread = |_: SqliteCode| io::Error::other("its log cannot be read");
    let heads = Heads::read(length, read).map_err(unread)?;
    let page_size = match heads.of_mark(LogMatch::new(first).marked_generation()) {
        Some(header) => u64::from(header.page_size),
        None => return Ok(()),
    };
    let mut page = vec![0; page_size as usize];
    let mut outcome = Ok(());
    let read_all = log::read_log(length, first, 1, read, |record, sections, bytes| {
        let mut apply = || {
            // What was beyond the end of a record is zeros from then on.
            copy.set_len(u64::from(record.size) * page_size)?;
            for section in sections {
                let at = u64::from(section.page - 1) * page_size;
                match section.fresh {
                    true => page.fill(0),
                    false => copy.read_exact_at(&mut page, at)?,
                }
                delta_log::apply(section.runs(bytes), &mut page);
                copy.write_all_at(&page, at)?;
            }
            io::Result::Ok(())
        };
        if outcome.is_ok() {
            outcome = apply();
        }
    });
    read_all.map_err(unread)?;
    outcome
}
