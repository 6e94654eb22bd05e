//! `ebbpool db dump`: prints records as lines.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use ebbpool_btree::{Database, DatabaseError, RecordRange};

use super::args::DumpArgs;
use super::error::DbError;
use super::lines::{LineForm, shown};
use super::open::{close, existing};
use crate::progress::STOP;

pub(super) fn dump(args: &DumpArgs) -> Result<(), DbError> {
    let path = &args.path;
    let form = LineForm::new(args.escape);
    let key = |option, text: &Option<OsString>| {
        let text = text.as_ref().map(|text| argument(option, text.as_bytes(), form));
        text.transpose()
    };
    let (from, to) = (key("--from", &args.from)?, key("--to", &args.to)?);
    let database = existing(path, args.open.options_of(path, args.read_only)?)?;
    let outcome = match (&from, &to) {
        (Some(from), Some(to)) if from >= to => Ok(()),
        _ => {
            let from = from.map_or(Bound::Unbounded, Bound::Included);
            let to = to.map_or(Bound::Unbounded, Bound::Excluded);
            print(&database, (from, to), args.reverse, form, path)
        }
    };
    close(database, path, outcome)
}

/// Reads a key from the command line.
pub(super) fn argument(name: &str, text: &[u8], form: LineForm) -> Result<Vec<u8>, DbError> {
    let key = form.read(text);
    key.map_err(|problem| DbError::Database(DatabaseError::Options(format!("{name}: {problem}"))))
}

fn print(
    database: &Database,
    bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    reverse: bool,
    form: LineForm,
    path: &Path,
) -> Result<(), DbError> {
    let mut range = database.range(bounds);
    let next = |range: &mut RecordRange<'_>| match reverse {
        true => range.next_back(),
        false => range.next(),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut line = Vec::new();
    while let Some(record) = next(&mut range) {
        if STOP.load(Ordering::Relaxed) {
            return Err(DbError::Interrupted("not every record was printed".into()));
        }
        let (key, value) = record?;
        if form == LineForm::Raw {
            check_readable(&key, &value, path)?;
        }
        line.clear();
        form.write(&key, &mut line);
        line.push(b'\t');
        form.write(&value, &mut line);
        line.push(b'\n');
        out.write_all(&line).map_err(DbError::Output)?;
    }
    out.flush().map_err(DbError::Output)
}

/// Fails if `db load` and `db put` could not read the line again.
fn check_readable(key: &[u8], value: &[u8], path: &Path) -> Result<(), DbError> {
    let what = if key.iter().any(|byte| b"\t\n".contains(byte)) {
        "holds"
    } else if value.contains(&b'\n') {
        "has a value with"
    } else {
        return Ok(());
    };
    Err(DbError::NotALine { path: path.into(), key: shown(key), what })
}
