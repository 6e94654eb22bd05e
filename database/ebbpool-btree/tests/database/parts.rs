//! A database on a simulated disk.

use ebbpool::storage::FaultyDisk;
use ebbpool_btree::{Database, DatabaseError, DatabaseOptions, DatabaseParts};

pub const PAGE: usize = 512;

pub fn parts(disk: &FaultyDisk) -> DatabaseParts {
    DatabaseParts {
        pages: Box::new(disk.pages("data", PAGE)),
        double_write: Some(Box::new(disk.pages("torn", PAGE))),
        log: ["log0", "log1"].map(|name| Box::new(disk.bytes(name)) as _),
    }
}

/// All work happens within calls, so that runs are repeatable.
pub fn options() -> DatabaseOptions {
    DatabaseOptions::new(32).background(false).checkpoint_every(8 << 10)
}

pub fn open(disk: &FaultyDisk) -> Result<Database, DatabaseError> {
    options().open_on(parts(disk))
}

pub fn all(database: &Database) -> Vec<(Vec<u8>, Vec<u8>)> {
    let records = database.range::<&[u8]>(..);
    records.collect::<Result<_, _>>().expect("every record")
}
