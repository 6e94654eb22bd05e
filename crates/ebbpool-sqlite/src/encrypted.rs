//! The `-wal` of an encrypted database, which SQLite cannot take in without the key.
//!
//! The frames of such a file are encrypted pages, and its checksums are over these. So bringing them in place needs no
//! key, only the order of SQLite's own checkpoint: frames, sync, and then the log goes.

use crate::code::Answer;
use crate::delta_log::is_page_size;
use crate::disk::{BaseFile, BaseVfs};
use crate::ffi;
use crate::store::is_plain;
use crate::wal_log::{FRAME, HEADER, frame_checksum};

/// Brings the `-wal` beside a locked database in place, if the database is encrypted and has one.
pub(crate) fn take_in_wal(base: BaseVfs, path: &str, database: &mut BaseFile) -> Answer<()> {
    let mut header = [0; 100];
    database.read(0, &mut header)?;
    let wal = format!("{path}-wal");
    if is_plain(&header) || database.length()? == 0 || !base.exists(&wal)? {
        return Ok(());
    }
    let mut file = BaseFile::open(base, &wal, ffi::OPEN_READWRITE | ffi::OPEN_WAL)?;
    if let Some((page_size, frames, size)) = last_commit(&mut file)? {
        let mut frame = vec![0; FRAME as usize + page_size];
        for index in 0..frames {
            file.read(HEADER + index * frame.len() as u64, &mut frame)?;
            let page = u64::from(be32(&frame, 0));
            if (1..=u64::from(size)).contains(&page) {
                database.write((page - 1) * page_size as u64, &frame[FRAME as usize..])?;
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

/// The page size, the number of frames up to the last commit, and the size of the database that it has.
fn last_commit(file: &mut BaseFile) -> Answer<Option<(usize, u64, u32)>> {
    let mut header = [0; HEADER as usize];
    file.read(0, &mut header)?;
    let (magic, page_size) = (be32(&header, 0), be32(&header, 8) as usize);
    let is_big_endian = magic & 1 == 1;
    let mut sum = frame_checksum([0, 0], &header[..24], is_big_endian);
    if magic & !1 != 0x377f_0682
        || !is_page_size(page_size)
        || sum != [be32(&header, 24), be32(&header, 28)]
    {
        return Ok(None);
    }
    let mut frame = vec![0; FRAME as usize + page_size];
    let mut last = None;
    for index in 0.. {
        let at = HEADER + index * frame.len() as u64;
        if at + frame.len() as u64 > file.length()? {
            break;
        }
        file.read(at, &mut frame)?;
        sum = frame_checksum(sum, &frame[..8], is_big_endian);
        sum = frame_checksum(sum, &frame[FRAME as usize..], is_big_endian);
        if frame[8..16] != header[16..24] || sum != [be32(&frame, 16), be32(&frame, 20)] {
            break;
        }
        let size = be32(&frame, 4);
        if size != 0 {
            last = Some((page_size, index + 1, size));
        }
    }
    Ok(last)
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
