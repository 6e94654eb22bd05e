//! `ebbpool db backup`: a copy of a database.

use std::sync::atomic::Ordering;

use super::args::BackupArgs;
use super::error::DbError;
use super::open::{close, open_briefly};
use crate::progress::{self, STOP};

pub(super) fn backup(args: &BackupArgs) -> Result<(), DbError> {
    let database = open_briefly(&args.path, false)?;
    let bar = progress::bar("copying pages");
    let done = database.backup_while(&args.to, |share| {
        progress::set(&bar, share);
        !STOP.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let done = match STOP.load(Ordering::Relaxed) && done.is_err() {
        true => Err(DbError::Interrupted("no copy was made".into())),
        false => done.map(drop).map_err(DbError::at(&args.path)),
    };
    close(database, &args.path, done)
}
