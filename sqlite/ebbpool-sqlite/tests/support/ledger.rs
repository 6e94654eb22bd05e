//! What connections have committed: a model that knows of each transaction whether SQLite has acknowledged or refused it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use ebbpool::storage::FaultyDisk;
use fastrand::Rng;
use rusqlite::{Connection, params};

use super::workload::judge;

/// Transactions of any number of connections of one database, which has the tables of `workload::SCHEMA`.
pub struct Ledger {
    disk: Option<FaultyDisk>,
    /// The number of transactions that may be under way at once.
    connections: i64,
    entries: Mutex<Entries>,
}

#[derive(Clone, Debug, Default)]
struct Entries {
    last_id: i64,
    /// The ids by the numbers that the transactions have in the database.
    acknowledged: BTreeMap<i64, i64>,
    refused: BTreeSet<i64>,
    /// True if the tables are acknowledged.
    has_tables: bool,
    /// The last transaction that must survive a power cut; -1 if not even the tables must.
    durable: i64,
}

/// A transaction that is open: its number, and its id, which no other transaction has.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    pub number: i64,
    pub id: i64,
}

/// From when on the database is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The process goes on, or has closed the database: what is acknowledged is there, and nothing else is.
    Acknowledged,
    /// The power has failed: what is durable is there, and of what was refused or under way perhaps the last.
    PowerCut,
}

impl Entries {
    fn last(&self) -> i64 {
        let usual = if self.has_tables { 0 } else { -1 };
        self.acknowledged.keys().last().copied().unwrap_or(usual)
    }
}

impl Ledger {
    /// The ledger of a database on a disk. What fails because the power has failed is not refused.
    pub fn new(disk: Option<&FaultyDisk>, connections: i64) -> Ledger {
        Ledger { disk: disk.cloned(), connections, entries: Mutex::new(Entries { durable: -1, ..Entries::default() }) }
    }

    fn is_off(&self) -> bool {
        self.disk.as_ref().is_some_and(FaultyDisk::is_off)
    }

    /// The number of the last transaction that was acknowledged: 0 is that of the tables, and -1 says that there are none.
    pub fn last(&self) -> i64 {
        self.entries.lock().unwrap().last()
    }

    /// Notes that SQLite has acknowledged the tables.
    pub fn acknowledge_tables(&self, is_durable: bool) {
        let mut entries = self.entries.lock().unwrap();
        entries.has_tables = true;
        if is_durable {
            entries.durable = entries.durable.max(0);
        }
    }

    /// The number of the last transaction that must survive.
    pub fn durable(&self) -> i64 {
        self.entries.lock().unwrap().durable
    }

    /// What was acknowledged up to a number must survive from now on.
    pub fn settle(&self, number: i64) {
        let mut entries = self.entries.lock().unwrap();
        entries.durable = entries.durable.max(number);
    }

    /// Begins a transaction and makes its changes.
    pub fn begin(&self, database: &Connection, random: &mut Rng) -> rusqlite::Result<Begun> {
        database.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let begun = self.change(database, random);
        if begun.is_err() && !database.is_autocommit() {
            let _ = database.execute_batch("ROLLBACK");
        }
        begun
    }

    fn change(&self, database: &Connection, random: &mut Rng) -> rusqlite::Result<Begun> {
        let id = {
            let mut entries = self.entries.lock().unwrap();
            entries.last_id += 1;
            entries.last_id
        };
        let number = 1 + database.prepare_cached("SELECT n FROM steps")?.query_row([], |row| row.get::<_, i64>(0))?;
        for _ in 0..random.u32(1..7) {
            let key = random.i64(0..200);
            if random.u32(0..5) == 0 {
                database.prepare_cached("DELETE FROM kv WHERE k=?1")?.execute([key])?;
                continue;
            }
            let length = match random.u32(0..20) {
                0 => 3000,
                _ => random.usize(0..300),
            };
            database.prepare_cached("INSERT OR REPLACE INTO kv VALUES (?1, ?2, ?3)")?.execute(params![
                key,
                vec![number as u8; length],
                number
            ])?;
        }
        database
            .prepare_cached("INSERT INTO log SELECT ?1, coalesce(sum(k*31+n*7+length(v)), 0), ?2 FROM kv")?
            .execute([number, id])?;
        database.prepare_cached("UPDATE steps SET n=?1")?.execute([number])?;
        Ok(Begun { number, id })
    }

    /// Commits a transaction, and notes the answer.
    pub fn commit(&self, database: &Connection, begun: Begun, is_durable: bool) -> rusqlite::Result<()> {
        let committed = database.prepare_cached("COMMIT")?.execute([]).map(drop);
        if committed.is_err() && !database.is_autocommit() {
            // SQLite keeps a transaction open that waits for readers.
            let _ = database.execute_batch("ROLLBACK");
        }
        match committed {
            // In the memory of a machine without power.
            Ok(()) if self.is_off() && !is_durable => {}
            Err(_) if self.is_off() => {}
            Ok(()) => self.acknowledge(begun, is_durable),
            Err(_) => self.refuse(begun),
        }
        committed
    }

    /// Notes that SQLite has acknowledged a transaction.
    pub fn acknowledge(&self, begun: Begun, is_durable: bool) {
        let mut entries = self.entries.lock().unwrap();
        entries.acknowledged.insert(begun.number, begun.id);
        if is_durable {
            entries.durable = entries.durable.max(begun.number);
        }
    }

    /// Notes that SQLite has refused a transaction.
    pub fn refuse(&self, begun: Begun) {
        self.entries.lock().unwrap().refused.insert(begun.id);
    }

    /// A whole transaction; its number.
    pub fn transact(&self, database: &Connection, random: &mut Rng, is_durable: bool) -> rusqlite::Result<i64> {
        let begun = self.begin(database, random)?;
        self.commit(database, begun, is_durable)?;
        Ok(begun.number)
    }

    /// Judges a database, as of one moment; the number of its last transaction, -1 if it has no tables.
    pub fn check(&self, database: &Connection, since: Since, when: &str) -> Result<i64, String> {
        let text = |error: rusqlite::Error| format!("{when}: {error}");
        // Others may commit while this one reads.
        let least = self.least(since);
        let is_outermost = database.is_autocommit();
        if is_outermost {
            database.execute_batch("BEGIN").map_err(text)?;
        }
        let judged = judge(database).map_err(|why| format!("{when}: {why}"));
        let rows = match &judged {
            Ok(0..) => rows_of(database).map_err(text),
            _ => Ok(BTreeMap::new()),
        };
        // SQLite rolls a transaction back in which reading failed.
        if is_outermost && !database.is_autocommit() {
            database.execute_batch("ROLLBACK").map_err(text)?;
        }
        let (found, rows) = (judged?, rows?);
        self.compare(&rows, found, since, least).map_err(|why| format!("{when}: {why}"))?;
        Ok(found)
    }

    fn least(&self, since: Since) -> i64 {
        let entries = self.entries.lock().unwrap();
        match since {
            Since::Acknowledged => entries.last().max(entries.durable),
            Since::PowerCut => entries.durable,
        }
    }

    fn compare(&self, rows: &BTreeMap<i64, i64>, found: i64, since: Since, least: i64) -> Result<(), String> {
        let entries = self.entries.lock().unwrap().clone();
        let last = entries.last();
        if found < least {
            return Err(format!("it has {found} transactions, {last} were acknowledged, {} must survive", entries.durable));
        }
        if found > self.most(since, last) {
            return Err(format!("it has {found} transactions, and {last} were acknowledged"));
        }
        for (number, id) in rows {
            match entries.acknowledged.get(number) {
                Some(known) if known != id => {
                    return Err(format!("transaction {number} is that with id {id}, acknowledged was {known}"));
                }
                Some(_) => {}
                // After a power cut nothing has made the end of the log invalid yet.
                None if since == Since::PowerCut && *number > last => {}
                None if entries.refused.contains(id) => {
                    return Err(format!("transaction {number} with id {id} was refused, and is there"));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// The most transactions that a database may have. Those of other connections are under way where one of them judges.
    fn most(&self, since: Since, last: i64) -> i64 {
        match since {
            Since::Acknowledged if self.connections == 1 => last,
            _ => last + self.connections,
        }
    }

    /// Judges an older whole database, which plain SQLite finds without the library.
    pub fn check_older(&self, database: &Connection, when: &str) -> Result<(), String> {
        let found = judge(database).map_err(|why| format!("{when}: {why}"))?;
        match found > self.most(Since::PowerCut, self.last()) {
            true => Err(format!("{when}: {found} of {}", self.last())),
            false => Ok(()),
        }
    }

    /// Takes over what a database has after a power cut: the others are gone for good.
    pub fn take_up(&self, database: &Connection, found: i64) -> rusqlite::Result<()> {
        let rows = if found < 0 { BTreeMap::new() } else { rows_of(database)? };
        let mut entries = self.entries.lock().unwrap();
        entries.durable = found;
        entries.has_tables = found >= 0;
        for id in rows.values() {
            entries.refused.remove(id);
        }
        entries.acknowledged = rows;
        Ok(())
    }
}

/// The ids of the transactions that a database has, by their numbers.
fn rows_of(database: &Connection) -> rusqlite::Result<BTreeMap<i64, i64>> {
    let mut statement = database.prepare_cached("SELECT n, id FROM log")?;
    let pairs = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    pairs.collect()
}
