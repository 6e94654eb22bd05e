//! Ebbpool's B+-tree, with the pool's own policy, direct I/O and the double-write area.

use std::ops::Bound;
use std::path::{Path, PathBuf};

use ebbpool_btree::{Database, DatabaseError, DatabaseOptions};

use super::{Engine, Records};
use crate::Failure;
use crate::plan::Durability;

const PAGE: u64 = 4096;

pub struct Ebbpool(Database);

fn path(directory: &Path) -> PathBuf {
    directory.join("tree.db")
}

fn options(cache: u64) -> DatabaseOptions {
    DatabaseOptions::new(u32::try_from(cache / PAGE).unwrap_or(u32::MAX))
}

pub fn load(directory: &Path, cache: u64, fill: f64, records: Records) -> Result<(), Failure> {
    let mut database = options(cache).open(path(directory))?;
    database.load(records.map(Ok::<_, DatabaseError>), fill)?;
    Ok(database.close()?)
}

impl Ebbpool {
    pub fn open(directory: &Path, cache: u64, durability: Durability) -> Result<Self, Failure> {
        let durability = match durability {
            Durability::None => ebbpool_btree::Durability::None,
            Durability::Synced => ebbpool_btree::Durability::Synced,
        };
        let options = options(cache).create(false).durability(durability);
        Ok(Ebbpool(options.open(path(directory))?))
    }
}

impl Engine for Ebbpool {
    fn read(&mut self, key: &[u8]) -> Result<bool, Failure> {
        Ok(self.0.get(key)?.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.0.put(key, value)?)
    }

    fn read_and_put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut transaction = self.0.begin();
        transaction.get_for_update(key)?;
        transaction.put(key, value)?;
        Ok(transaction.commit()?)
    }

    fn scan(&mut self, from: &[u8], count: u64) -> Result<u64, Failure> {
        let count = usize::try_from(count)?;
        let from = (Bound::Included(from.to_vec()), Bound::Unbounded);
        let mut seen = 0;
        for record in self.0.range(from).expecting(count).take(count) {
            std::hint::black_box(record?);
            seen += 1;
        }
        Ok(seen)
    }

    fn update_scan(&mut self, from: &[u8], count: u64, value: &[u8]) -> Result<u64, Failure> {
        let mut transaction = self.0.begin();
        let updated = transaction.update_range(from, count, |_, _| Some(value.to_vec()))?;
        transaction.commit()?;
        Ok(updated)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(self.0.close()?)
    }
}
