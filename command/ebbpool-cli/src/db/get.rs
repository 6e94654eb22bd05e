//! `ebbpool db get`: prints one value.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use super::args::GetArgs;
use super::dump::argument;
use super::error::DbError;
use super::lines::{LineForm, shown};
use super::open::{close, open_briefly};

pub(super) fn get(args: &GetArgs) -> Result<(), DbError> {
    let path = &args.path;
    let form = LineForm::new(args.escape);
    let key = argument("KEY", args.key.as_bytes(), form)?;
    let database = open_briefly(path, args.read_only)?;
    let found = database.get(&key).map_err(DbError::at(path));
    let value = close(database, path, found)?.ok_or_else(|| DbError::NoKey { path: path.clone(), key: shown(&key) })?;
    let mut line = Vec::new();
    form.write(&value, &mut line);
    line.push(b'\n');
    io::stdout().lock().write_all(&line).map_err(DbError::Output)
}
