//! `ebbpool db delete`: deletes one key.

use std::os::unix::ffi::OsStrExt;

use super::args::DeleteArgs;
use super::dump::argument;
use super::error::DbError;
use super::lines::{LineForm, shown};
use super::open::{close, open_briefly};

pub(super) fn delete(args: &DeleteArgs) -> Result<(), DbError> {
    let path = &args.path;
    let key = argument("KEY", args.key.as_bytes(), LineForm::new(args.escape))?;
    let database = open_briefly(path, false)?;
    let deleted = database.delete(&key).map_err(DbError::at(path));
    match close(database, path, deleted)? {
        true => Ok(()),
        false => Err(DbError::NoKey { path: path.clone(), key: shown(&key) }),
    }
}
