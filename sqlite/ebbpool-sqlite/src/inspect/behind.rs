//! Commits of a `-wal` that are behind the end of those that SQLite takes in.

use std::fs::File;
use std::io;

use super::{SqliteInspection, beside, open_if_there};
use crate::wal_log::{FRAME, HEADER, WalCursor, be32};
use crate::wal_log::{next_data, read_whole};

/// The commits of `-wal` that SQLite takes in, if the file has a frame of a later commit behind damage. A commit that a power cut
/// has torn is the last one, so that no frame follows its last one; so one whole commit behind lost frames cannot be distinguished
/// from the rest of a torn one, and is not found. With `synchronous=NORMAL` plain SQLite syncs no commit by
/// itself, and a power cut may leave the same as damage does: commits that are lost.
///
/// # Errors
///
/// If the file cannot be read. While a process has the database open, the answer may be wrong.
pub fn commits_before_damage(inspection: &SqliteInspection) -> io::Result<Option<u64>> {
    let Some(wal) = open_if_there(&beside(&inspection.path, "-wal"))? else {
        return Ok(None);
    };
    let commits = inspection.wal.as_ref().map_or(0, |wal| wal.commits);
    let mut is_behind = false;
    match WalCursor::open(&wal)? {
        Some(mut cursor) => {
            let mut frame = vec![0; cursor.frame_bytes()];
            while cursor.next_frame(&wal, &mut frame)?.is_some() {}
            is_behind = has_later_commit(&wal, cursor)?;
        }
        None => {
            for cursor in without_header(inspection, &wal)? {
                is_behind |= has_later_commit(&wal, cursor)?;
            }
        }
    }
    Ok(is_behind.then_some(commits))
}

/// The first position in a file whose header is damaged, with the order of bytes of each kind of checksum. A header of zeros is no
/// damage: the library has cut off a file that it is about to delete, and a power cut brings the file back.
fn without_header(inspection: &SqliteInspection, wal: &File) -> io::Result<Vec<WalCursor>> {
    let mut head = [0; FRAME as usize];
    let Some(header) = &inspection.header else {
        return Ok(Vec::new());
    };
    if !read_whole(wal, &mut head, HEADER)? {
        return Ok(Vec::new());
    }
    let mut start = [0; HEADER as usize];
    if read_whole(wal, &mut start, 0)? && start == [0; HEADER as usize] {
        return Ok(Vec::new());
    }
    let mut salt = [0; 8];
    salt.copy_from_slice(&head[8..16]);
    let cursor = |is_big_endian| WalCursor::without_header(header.page_size as usize, salt, is_big_endian);
    Ok([false, true].map(cursor).into())
}

/// True if a valid frame follows the last one of a commit, at or behind a position whose frame is not valid.
fn has_later_commit(wal: &File, mut cursor: WalCursor) -> io::Result<bool> {
    let mut before = vec![0; cursor.frame_bytes()];
    let mut frame = before.clone();
    if !read_whole(wal, &mut before, cursor.position())? {
        return Ok(false);
    }
    let mut candidates = cursor.behind_damaged(&before);
    cursor.frames += 1;
    while read_whole(wal, &mut frame, cursor.position())? {
        if frame[..FRAME as usize] == [0; FRAME as usize] {
            // A file may be long because of a hole, which has no frame and ends no commit.
            let Some(data) = next_data(wal, cursor.position())? else {
                return Ok(false);
            };
            let skipped = (data - cursor.position()) / cursor.frame_bytes() as u64;
            if skipped > 0 {
                cursor.frames += skipped;
                before.fill(0);
                continue;
            }
        }
        let ends_commit = be32(&before, 4) > 0;
        if ends_commit && candidates.iter_mut().any(|it| it.take(&frame).is_some()) {
            return Ok(true);
        }
        std::mem::swap(&mut before, &mut frame);
        candidates = cursor.behind_damaged(&before);
        cursor.frames += 1;
    }
    Ok(false)
}
