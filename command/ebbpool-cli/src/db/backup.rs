//! `ebbpool db backup`: a copy of a database.

use super::args::BackupArgs;
use super::error::DbError;
use super::open::{close, open_briefly};

pub(super) fn backup(args: &BackupArgs) -> Result<(), DbError> {
    let database = open_briefly(&args.path, false)?;
    let done = database.backup(&args.to).map(drop).map_err(DbError::at(&args.path));
    close(database, &args.path, done)
}
