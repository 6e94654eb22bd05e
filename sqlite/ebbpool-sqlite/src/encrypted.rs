//! The `-wal` of an encrypted database, which SQLite cannot take in without the key.
//!
//! The frames of such a file are encrypted pages, and its checksums are over these. So bringing them in place needs no
//! key, only the order of SQLite's own checkpoint: frames, sync, and then the log goes.

use crate::code::{SqliteCode, SqliteResult};
use crate::disk::{BaseFile, BaseVfs};
use crate::ffi;
use crate::store::is_plain;
use crate::wal_log::{FRAME, HEADER, WalCursor};

/// Brings the `-wal` beside a locked database in place, if the database is encrypted and has one.
pub(crate) fn take_in_wal(base: BaseVfs, path: &str, database: &mut BaseFile) -> SqliteResult<()> {
    let mut header = [0; 100];
    database.read(0, &mut header)?;
    let wal = format!("{path}-wal");
    if is_plain(&header) || database.length()? == 0 || !base.exists(&wal)? {
        return Ok(());
    }
    let mut file = BaseFile::open(base, &wal, ffi::OPEN_READWRITE | ffi::OPEN_WAL)?;
    if let Some((begin, frames, size)) = last_commit(&mut file)? {
        let (page_size, mut cursor) = (begin.page_size, begin);
        let mut bytes = vec![0; cursor.frame_bytes()];
        while cursor.frames < frames {
            file.read(cursor.position(), &mut bytes)?;
            let Some(frame) = cursor.take(&bytes) else {
                return Err(SqliteCode::IO);
            };
            if frame.page <= size {
                let at = u64::from(frame.page - 1) * page_size as u64;
                database.write(at, &bytes[FRAME as usize..])?;
            }
        }
        let length = u64::from(size) * page_size as u64;
        if database.length()? != length {
            database.truncate(length)?;
        }
        database.sync()?;
    }
    file.truncate(0)?;
    file.sync()?;
    drop(file);
    base.delete(&wal, false)
}

/// The position of the first frame, the number of frames up to the last commit, and the size of the database that it has.
fn last_commit(file: &mut BaseFile) -> SqliteResult<Option<(WalCursor, u64, u32)>> {
    let mut header = [0; HEADER as usize];
    file.read(0, &mut header)?;
    let Some(begin) = WalCursor::begin(&header) else {
        return Ok(None);
    };
    let length = file.length()?;
    let mut cursor = begin.clone();
    let mut bytes = vec![0; cursor.frame_bytes()];
    let mut last = None;
    while cursor.position() + bytes.len() as u64 <= length {
        file.read(cursor.position(), &mut bytes)?;
        let Some(frame) = cursor.take(&bytes) else {
            break;
        };
        if frame.size != 0 {
            last = Some((begin.clone(), cursor.frames, frame.size));
        }
    }
    Ok(last)
}
