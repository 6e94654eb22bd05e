//! SQLite with a write-ahead log, and a table without row numbers: a B-tree by key.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::{Engine, Records};
use crate::Failure;
use crate::plan::Durability;

const GET: &str = "SELECT value FROM records WHERE key = ?1";
const PUT: &str = "INSERT INTO records VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
const SCAN: &str = "SELECT key, value FROM records WHERE key >= ?1 ORDER BY key LIMIT ?2";
const UPDATE_SCAN: &str = "UPDATE records SET value = ?3 WHERE key IN \
                           (SELECT key FROM records WHERE key >= ?1 ORDER BY key LIMIT ?2)";

pub struct Sqlite(Connection);

fn connection(directory: &Path, cache: u64, synchronous: &str) -> Result<Connection, Failure> {
    let connection = Connection::open(directory.join("sqlite.db"))?;
    connection.pragma_update(None, "page_size", 4096)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    // A negative number is KiB.
    connection.pragma_update(None, "cache_size", -i64::try_from(cache / 1024)?)?;
    Ok(connection)
}

pub fn load(directory: &Path, cache: u64, records: Records) -> Result<(), Failure> {
    let mut connection = connection(directory, cache, "FULL")?;
    let table = "CREATE TABLE records (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";
    connection.execute(table, [])?;
    let transaction = connection.transaction()?;
    {
        let mut put = transaction.prepare(PUT)?;
        for (key, value) in records {
            put.execute(params![key, value])?;
        }
    }
    transaction.commit()?;
    Ok(connection.close().map_err(|(_, error)| error)?)
}

impl Sqlite {
    pub fn open(directory: &Path, cache: u64, durability: Durability) -> Result<Self, Failure> {
        let synchronous = match durability {
            Durability::None => "OFF",
            Durability::Synced => "FULL",
        };
        Ok(Sqlite(connection(directory, cache, synchronous)?))
    }
}

impl Engine for Sqlite {
    fn read(&mut self, key: &[u8]) -> Result<bool, Failure> {
        let mut get = self.0.prepare_cached(GET)?;
        let value: Option<Vec<u8>> = get.query_row([key], |row| row.get(0)).optional()?;
        Ok(std::hint::black_box(value).is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.0.prepare_cached(PUT)?.execute(params![key, value])?;
        Ok(())
    }

    fn read_and_put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let transaction = self.0.transaction()?;
        {
            let mut get = transaction.prepare_cached(GET)?;
            let old: Option<Vec<u8>> = get.query_row([key], |row| row.get(0)).optional()?;
            std::hint::black_box(old);
            transaction.prepare_cached(PUT)?.execute(params![key, value])?;
        }
        Ok(transaction.commit()?)
    }

    fn scan(&mut self, from: &[u8], count: u64) -> Result<u64, Failure> {
        let mut scan = self.0.prepare_cached(SCAN)?;
        let mut rows = scan.query(params![from, i64::try_from(count)?])?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            let record: (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?);
            std::hint::black_box(record);
            seen += 1;
        }
        Ok(seen)
    }

    fn update_scan(&mut self, from: &[u8], count: u64, value: &[u8]) -> Result<u64, Failure> {
        let mut update = self.0.prepare_cached(UPDATE_SCAN)?;
        let updated = update.execute(params![from, i64::try_from(count)?, value])?;
        Ok(updated as u64)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        // The last connection to close writes the log's pages into the database.
        Ok(self.0.close().map_err(|(_, error)| error)?)
    }
}
