//! A database on a simulated disk.

use ebbpool::storage::FaultyDisk;
use ebbpool_btree::{Database, Error, Options, Parts};

pub const PAGE: usize = 512;

pub fn parts(disk: &FaultyDisk) -> Parts {
    Parts {
        pages: Box::new(disk.pages("data", PAGE)),
        double_write: Some(Box::new(disk.pages("torn", PAGE))),
        log: ["log0", "log1"].map(|name| Box::new(disk.bytes(name)) as _),
    }
}

/// Everything happens within calls, and the same each time.
pub fn options() -> Options {
    Options::new(32).background(false).checkpoint_every(8 << 10)
}

pub fn open(disk: &FaultyDisk) -> Result<Database, Error> {
    options().open_on(parts(disk))
}

pub fn all(database: &Database) -> Vec<(Vec<u8>, Vec<u8>)> {
    let records = database.range::<&[u8]>(..);
    records.collect::<Result<_, _>>().expect("every record")
}
