//! The engines, all behind one trait.

mod ebbpool;
mod redb;
mod sqlite;

use std::path::Path;

use crate::Failure;
use crate::plan::Durability;

/// All of them.
pub const NAMES: [&str; 3] = ["ebbpool", "redb", "sqlite"];

/// Records in order of their keys.
pub type Records = Box<dyn Iterator<Item = (Vec<u8>, Vec<u8>)>>;

/// A database that is open. Every operation is a transaction of its own.
pub trait Engine {
    /// The value of a key, looked at; false if there is none.
    fn read(&mut self, key: &[u8]) -> Result<bool, Failure>;

    /// Gives a key a value.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Reads a key and gives it a value, in one transaction.
    fn read_and_put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Reads `count` records from a key on.
    fn scan(&mut self, from: &[u8], count: u64) -> Result<u64, Failure>;

    /// Replaces the values of `count` records from a key on by this one, which has the same length, in one transaction.
    fn update_scan(&mut self, from: &[u8], count: u64, value: &[u8]) -> Result<u64, Failure>;

    /// Closes it in good order.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

/// Fills a new database; leaves to a share of `fill` if the engine has an option for it.
pub fn load(name: &str, directory: &Path, cache: u64, fill: f64, records: Records) -> Result<(), Failure> {
    match name {
        "ebbpool" => ebbpool::load(directory, cache, fill, records),
        "redb" => redb::load(directory, cache, records),
        "sqlite" => sqlite::load(directory, cache, records),
        _ => Err(unknown(name)),
    }
}

/// Opens a database that was loaded.
pub fn open(name: &str, directory: &Path, cache: u64, durability: Durability) -> Result<Box<dyn Engine>, Failure> {
    match name {
        "ebbpool" => Ok(Box::new(ebbpool::Ebbpool::open(directory, cache, durability)?)),
        "redb" => Ok(Box::new(redb::Redb::open(directory, cache, durability)?)),
        "sqlite" => Ok(Box::new(sqlite::Sqlite::open(directory, cache, durability)?)),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Failure {
    format!("there is no engine {name}; there are {}", NAMES.join(", ")).into()
}
