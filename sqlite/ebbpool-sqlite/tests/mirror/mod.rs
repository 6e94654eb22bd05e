//! For SQLite's own test suite only: everything that SQLite writes is in the real files too, at once.
//!
//! Many of SQLite's tests look at the database, the journal and the WAL on disk, copy them, or make their writes fail.
//! Only builds with the feature `test-kit` and debug assertions can do this, of which `sqlite/suite/run` makes its program:
//! the library that programs use has `src/mirror.rs` instead.
//!
//! With the environment variable `EBBPOOL_SQLITE_MIRROR` set, each handle has a real file beside the virtual one. SQLite
//! reads the virtual one; what the real one has must be the same, which makes each read of the suite a check. The epochs
//! then go to a copy of the files in memory ([`shadow`]), so that nothing is written twice to one file.

mod shadow;

use std::ffi::{CString, c_int, c_void};
use std::sync::OnceLock;

use crate::code::{SqliteCode, SqliteResult};
use crate::delta_log::is_page_size;
use crate::disk::{BaseFile, BaseVfs};
use crate::ffi;
use crate::wal_log;

pub(crate) use shadow::SuiteCopy;

/// True if what SQLite writes is to be in the real files at once, so that the VFS below knows which of them exist.
pub(crate) fn is_on() -> bool {
    static IS_ON: OnceLock<bool> = OnceLock::new();
    *IS_ON.get_or_init(|| std::env::var_os("EBBPOOL_SQLITE_MIRROR").is_some())
}

/// The files that a database works on: their VFS, their path, and the database, with the real one where this is a copy.
type Divided = (BaseVfs, String, BaseFile, Option<SuiteCopy>);

/// Has the epochs of a database go to a copy in memory, if its handles are mirrored. The database is locked.
pub(crate) fn divide(base: BaseVfs, path: &str, mut database: BaseFile) -> Result<Divided, (BaseFile, SqliteCode)> {
    if !is_on() {
        return Ok((base, path.to_owned(), database, None));
    }
    match SuiteCopy::new(base, path, &mut database) {
        Ok((shadow, copy)) => {
            let (base, path) = (shadow.base(), shadow.path().to_owned());
            Ok((base, path, copy, Some(shadow.of(database))))
        }
        Err(error) => Err((database, error)),
    }
}

/// Deletes the real file of a virtual one.
#[allow(unsafe_code)]
pub(crate) fn delete(base: BaseVfs, path: &str, durable: bool) -> SqliteResult<()> {
    if !is_on() {
        return Ok(());
    }
    let path = CString::new(path).map_err(|_| SqliteCode::CANT_OPEN)?;
    // SAFETY: a registered VFS has all methods; the path ends with a zero and lives until the call returns.
    SqliteCode::check(unsafe { ((*base.0).xDelete)(base.0, path.as_ptr(), c_int::from(durable)) })
}

/// True if the real file holds what the virtual one does, but for salt and checksum of a frame that SQLite reads as a whole. In its
/// own WAL they are old or missing until it writes the headers of a commit anew, where a page got another content; in the virtual
/// one they are right as soon as the commit is complete (`database_state::commit`). SQLite looks at them where it makes an index anew.
fn is_same(real: &[u8], bytes: &[u8]) -> bool {
    const SEAL: std::ops::Range<usize> = 8..24;
    let content = real.len().checked_sub(wal_log::FRAME as usize);
    if !content.is_some_and(is_page_size) {
        return real == bytes;
    }
    let [real, bytes] = [real, bytes].map(|frame| (&frame[..SEAL.start], &frame[SEAL.end..]));
    real == bytes
}

/// The real file of one handle, if there is one.
pub(crate) struct SuiteMirror {
    file: Option<BaseFile>,
    /// True after a write that failed: then both files may have other bytes.
    has_failed: bool,
}

impl SuiteMirror {
    /// The real file of a handle that is opened with these flags.
    pub(crate) fn open(base: BaseVfs, path: &str, flags: c_int) -> SqliteResult<SuiteMirror> {
        let flags = flags & !ffi::OPEN_URI & !ffi::OPEN_DELETEONCLOSE;
        let file = match is_on() {
            true => Some(BaseFile::open(base, path, flags)?),
            false => None,
        };
        Ok(SuiteMirror { file, has_failed: false })
    }

    /// What the real file holds when it is opened: a test may have put it there.
    pub(crate) fn content(&mut self) -> SqliteResult<Vec<u8>> {
        let Some(file) = &mut self.file else {
            return Ok(Vec::new());
        };
        let mut content = vec![0; file.length()? as usize];
        file.read(0, &mut content)?;
        Ok(content)
    }

    /// Reads the real file as well, for its errors, and says so on standard error if it has other bytes.
    pub(crate) fn read(&mut self, at: u64, into: &[u8], is_whole: bool) -> SqliteResult<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let mut real = vec![0; into.len()];
        file.read(at, &mut real)?;
        if is_whole && !is_same(&real, into) && !self.has_failed {
            eprintln!("ebbpool: {} bytes at {at} differ from the file", into.len());
        }
        Ok(())
    }

    /// Writes to the real file.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> SqliteResult<()> {
        let written = match &mut self.file {
            Some(file) => file.write(at, bytes),
            None => Ok(()),
        };
        self.has_failed |= written.is_err();
        written
    }

    /// Cuts the real file off.
    pub(crate) fn truncate(&mut self, length: u64) -> SqliteResult<()> {
        match &mut self.file {
            Some(file) => file.truncate(length),
            None => Ok(()),
        }
    }

    /// Syncs the real file, as SQLite asks for it.
    #[allow(unsafe_code)]
    pub(crate) fn sync(&mut self, flags: c_int) -> SqliteResult<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let handle = file.handle();
        // SAFETY: the handle is open.
        SqliteCode::check(unsafe { ((*(*handle).methods).xSync)(handle, flags) })
    }

    /// Passes a control to the real file; `None` if there is none.
    #[allow(unsafe_code)]
    pub(crate) fn control(&mut self, operation: c_int, argument: *mut c_void) -> Option<c_int> {
        let handle = self.file.as_mut()?.handle();
        // SAFETY: the handle is open, and the argument is SQLite's.
        Some(unsafe { ((*(*handle).methods).xFileControl)(handle, operation, argument) })
    }
}
