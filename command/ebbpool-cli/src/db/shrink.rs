//! `ebbpool db shrink`: makes the file as short as it can be.

use std::io::{self, Write};

use super::args::ShrinkArgs;
use super::bench::FileSizes;
use super::error::DbError;
use super::open::{close, existing};

pub(super) fn shrink(args: &ShrinkArgs) -> Result<(), DbError> {
    let path = &args.path;
    let mut database = existing(path, args.open.options_of(path, false)?)?;
    let before = FileSizes::for_path(path);
    let shrunk = database.shrink().map_err(DbError::at(path));
    let shrunk = close(database, path, shrunk)?;
    let (now, moved) = (FileSizes::for_path(path), shrunk.moved);
    writeln!(io::stdout(), "before: {before}\nnow: {now}; {moved} pages were moved").map_err(DbError::Output)
}
