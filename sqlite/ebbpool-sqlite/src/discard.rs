//! Gives a log up that cannot be brought in place, so that the database is a plain one as it is.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::inspect::{beside, open_locked, read_start};
use crate::store::{GENERATION, WRITE_VERSION, is_marked, is_plain, unmark};

/// Gives the log of a database up: moves `-ebb` to `stale`, if one is named, and then removes the mark of the database, each
/// step durable before the next. No process may have the database open; it is locked meanwhile. A database that other
/// bytes than SQLite's begin has no mark that is removed.
///
/// # Errors
///
/// `WouldBlock` if a process has the database open. `NotFound` if `stale` is named, and there is no `-ebb`; `AlreadyExists`
/// if none is named, and there is one by now that is not empty. Otherwise that of the system.
pub fn discard_log(path: &Path, stale: Option<&Path>) -> io::Result<()> {
    let database = open_locked(path)?;
    let ebb = beside(path, "-ebb");
    match stale {
        Some(stale) => {
            fs::rename(ebb, stale)?;
            let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        None if fs::metadata(&ebb).is_ok_and(|metadata| metadata.len() > 0) => {
            let why = "a process has made its -ebb meanwhile";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        None => {}
    }
    let mut header = [0; 100];
    read_start(&database, &mut header)?;
    if is_plain(&header) && is_marked(&header) {
        unmark(&mut header);
        // The mark goes last: without it no program looks for its number.
        for bytes in [GENERATION, WRITE_VERSION..WRITE_VERSION + 1] {
            database.write_all_at(&header[bytes.clone()], bytes.start as u64)?;
        }
        database.sync_all()?;
    }
    Ok(())
}

/// Removes an `-ebb` that is empty, which is as if there were none. No process may have the database open; it is locked meanwhile.
///
/// # Errors
///
/// `WouldBlock` if a process has the database open. Otherwise that of the system.
pub fn remove_empty_log(path: &Path) -> io::Result<()> {
    let _database = open_locked(path)?;
    let ebb = beside(path, "-ebb");
    match fs::metadata(&ebb) {
        Ok(metadata) if metadata.len() == 0 => fs::remove_file(ebb),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
