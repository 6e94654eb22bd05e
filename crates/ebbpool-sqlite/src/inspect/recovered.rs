//! A copy of a database in the state that recovery would give.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{SqliteInspection, beside, log, open_if_there, read_start};
use crate::code::Code;
use crate::delta_log::{self, Heads};
use crate::fit::FitCheck;
use crate::store::unmark;
use crate::wal_log::WalCursor;

/// Writes a copy of a database to a new file: what is in place, then the commits of `-wal`, then the epochs of `-ebb`,
/// without the mark. A `-journal` is copied as it is; SQLite rolls it back when it opens the copy.
///
/// # Errors
///
/// If a file cannot be read or written. While a process has the database open, the copy may be no state of it.
pub fn write_recovered(inspection: &SqliteInspection, target: &Path) -> io::Result<()> {
    let path = &inspection.path;
    std::fs::copy(path, target)?;
    let copy = OpenOptions::new().read(true).write(true).open(target)?;
    if let Some(wal) = open_if_there(&beside(path, "-wal"))? {
        take_in_wal(&copy, &wal)?;
    }
    let mut first = vec![0; 1 << 16];
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
    if inspection.hot_journal.is_some() {
        std::fs::copy(beside(path, "-journal"), beside(target, "-journal"))?;
    }
    Ok(())
}

fn take_in_wal(copy: &File, wal: &File) -> io::Result<()> {
    let Some(mut cursor) = WalCursor::open(wal)? else {
        return Ok(());
    };
    let page_size = cursor.page_size as u64;
    let mut size = None;
    while let Some(frames) = cursor.next_commit(wal)? {
        for (frame, image) in frames {
            copy.write_all_at(&image, u64::from(frame.page - 1) * page_size)?;
            size = (frame.size > 0).then_some(frame.size).or(size);
        }
    }
    match size {
        Some(size) => copy.set_len(u64::from(size) * page_size),
        None => Ok(()),
    }
}

/// Applies the epochs of a log; `first` is the begin of the database with its mark.
fn take_in_log(copy: &File, file: &File, first: &[u8]) -> io::Result<()> {
    let length = file.metadata()?.len();
    let read = |at: u64, into: &mut [u8]| file.read_exact_at(into, at).map_err(|_| Code::IO);
    let unread = |_: Code| io::Error::other("its log cannot be read");
    let heads = Heads::read(length, read).map_err(unread)?;
    let page_size = match heads.of_mark(FitCheck::new(first).marked_generation()) {
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
