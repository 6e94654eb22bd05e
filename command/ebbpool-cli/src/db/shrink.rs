//! `ebbpool db shrink`: makes the file as short as it can be.

use std::io::{self, Write};

use ebbpool_cost::ByteSize;

use super::args::ShrinkArgs;
use super::error::DbError;
use super::open::{close, existing};

pub(super) fn shrink(args: &ShrinkArgs) -> Result<(), DbError> {
    let path = &args.path;
    let mut database = existing(path, args.open.options_of(path, false)?)?;
    let page_size = database.stats().pool.page_size as u64;
    let shrunk = database.shrink().map_err(DbError::at(path));
    let shrunk = close(database, path, shrunk)?;
    let size = |pages: u64| ByteSize::new(pages * page_size);
    let (before, now) = (size(shrunk.before), size(shrunk.pages));
    writeln!(io::stdout(), "{before} before, {now} now; {} pages were moved", shrunk.moved).map_err(DbError::Output)
}
