//! redb: a copy-on-write B-tree.

use std::path::Path;

use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::{Engine, Records};
use crate::Failure;
use crate::plan::Durability;

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("records");

pub struct Redb {
    database: Database,
    durability: redb::Durability,
}

fn database(directory: &Path, cache: u64) -> Result<Database, Failure> {
    let mut builder = Builder::new();
    builder.set_cache_size(usize::try_from(cache)?);
    Ok(builder.create(directory.join("redb"))?)
}

pub fn load(directory: &Path, cache: u64, records: Records) -> Result<(), Failure> {
    let database = database(directory, cache)?;
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(TABLE)?;
        for (key, value) in records {
            table.insert(&key[..], &value[..])?;
        }
    }
    Ok(transaction.commit()?)
}

impl Redb {
    pub fn open(directory: &Path, cache: u64, durability: Durability) -> Result<Self, Failure> {
        Ok(Redb {
            database: database(directory, cache)?,
            durability: match durability {
                Durability::None => redb::Durability::None,
                Durability::Synced => redb::Durability::Immediate,
            },
        })
    }

    fn begin(&self) -> Result<WriteTransaction, Failure> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(self.durability)?;
        Ok(transaction)
    }
}

impl Engine for Redb {
    fn read(&mut self, key: &[u8]) -> Result<bool, Failure> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let found = table.get(key)?;
        Ok(found.map(|value| std::hint::black_box(value.value().to_vec())).is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let transaction = self.begin()?;
        transaction.open_table(TABLE)?.insert(key, value)?;
        Ok(transaction.commit()?)
    }

    fn read_and_put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let transaction = self.begin()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            let old = table.get(key)?.map(|value| value.value().to_vec());
            std::hint::black_box(old);
            table.insert(key, value)?;
        }
        Ok(transaction.commit()?)
    }

    fn scan(&mut self, from: &[u8], count: u64) -> Result<u64, Failure> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let mut seen = 0;
        for record in table.range(from..)?.take(usize::try_from(count)?) {
            let (key, value) = record?;
            std::hint::black_box((key.value().to_vec(), value.value().to_vec()));
            seen += 1;
        }
        Ok(seen)
    }

    fn update_scan(&mut self, from: &[u8], count: u64, value: &[u8]) -> Result<u64, Failure> {
        let transaction = self.begin()?;
        let mut updated = 0;
        {
            let mut table = transaction.open_table(TABLE)?;
            let mut keys = Vec::new();
            for record in table.range(from..)?.take(usize::try_from(count)?) {
                keys.push(record?.0.value().to_vec());
            }
            for key in keys {
                table.insert(&key[..], value)?;
                updated += 1;
            }
        }
        transaction.commit()?;
        Ok(updated)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        drop(self.database);
        Ok(())
    }
}
