//! What stands for `tests/mirror` in the library that programs use: no file is mirrored.

use std::convert::Infallible;
use std::ffi::{c_int, c_void};

use crate::code::{SqliteCode, SqliteResult};
use crate::disk::{BaseFile, BaseVfs};

pub(crate) const fn is_on() -> bool {
    false
}

/// No database is copied.
pub(crate) struct SuiteCopy(Infallible);

impl SuiteCopy {
    pub(crate) fn has_moved(&mut self) -> bool {
        match self.0 {}
    }

    pub(crate) fn into_real(self) -> Option<BaseFile> {
        match self.0 {}
    }
}

type Divided = (BaseVfs, String, BaseFile, Option<SuiteCopy>);

pub(crate) fn divide(base: BaseVfs, path: &str, database: BaseFile) -> Result<Divided, (BaseFile, SqliteCode)> {
    Ok((base, path.to_owned(), database, None))
}

pub(crate) fn delete(_base: BaseVfs, _path: &str, _durable: bool) -> SqliteResult<()> {
    Ok(())
}

/// No real file.
pub(crate) struct SuiteMirror;

impl SuiteMirror {
    pub(crate) fn open(_base: BaseVfs, _path: &str, _flags: c_int) -> SqliteResult<Self> {
        Ok(SuiteMirror)
    }

    pub(crate) fn content(&mut self) -> SqliteResult<Vec<u8>> {
        Ok(Vec::new())
    }

    pub(crate) fn read(&mut self, _at: u64, _into: &[u8], _is_whole: bool) -> SqliteResult<()> {
        Ok(())
    }

    pub(crate) fn write(&mut self, _at: u64, _bytes: &[u8]) -> SqliteResult<()> {
        Ok(())
    }

    pub(crate) fn truncate(&mut self, _length: u64) -> SqliteResult<()> {
        Ok(())
    }

    pub(crate) fn sync(&mut self, _flags: c_int) -> SqliteResult<()> {
        Ok(())
    }

    pub(crate) fn control(&mut self, _operation: c_int, _argument: *mut c_void) -> Option<c_int> {
        None
    }
}
