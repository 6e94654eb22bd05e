//! A further connection, which acts where a test says so.

use std::sync::Arc;

use ebbpool::storage::FaultyDisk;
use fastrand::Rng;
use rusqlite::{Connection, ErrorCode};

use super::cases::Bench;
use super::ledger::{Begun, Ledger, Since};

/// What a connection does at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A transaction.
    Write,
    /// A transaction that stays open until the next action.
    Begin,
    /// A transaction that is rolled back.
    RollBack,
    /// A checkpoint of SQLite's: `TRUNCATE` and so on.
    Checkpoint(&'static str),
    /// The writer's lock, and nothing else, until the next action.
    Lock,
    /// Reads and judges.
    Read,
    /// Reads, and goes on reading until the next action.
    BeginReading,
    /// Closes the connection, and opens another one.
    Reopen,
    /// Closes the connection, opens another one, which writes, and closes that.
    Come,
    /// The library's own commands.
    Pragma(&'static str),
    /// The window ends by time.
    Wait,
}

pub const ACTIONS: [Action; 16] = [
    Action::Write,
    Action::Checkpoint("TRUNCATE"),
    Action::Begin,
    Action::Checkpoint("FULL"),
    Action::Lock,
    Action::Read,
    Action::Come,
    Action::Checkpoint("RESTART"),
    Action::RollBack,
    Action::BeginReading,
    Action::Checkpoint("PASSIVE"),
    Action::Reopen,
    Action::Wait,
    Action::Pragma("ebbpool_flush"),
    Action::Pragma("ebbpool_checkpoint"),
    Action::Pragma("ebbpool_status"),
];

/// A connection with transactions of its own.
pub struct Actor {
    bench: Bench,
    disk: FaultyDisk,
    options: String,
    is_durable: bool,
    pub ledger: Arc<Ledger>,
    database: Option<Connection>,
    random: Rng,
    begun: Option<Begun>,
    is_open: bool,
    now: f64,
    /// What no other connection, no fault and no power cut explains.
    pub failures: Vec<String>,
    /// Errors of other kinds are explained by faults of the disk.
    pub may_fail: bool,
}

/// True if another connection is in the way, which is no fault. One that has just begun to change the index of the WAL, and
/// does not go on, is a fault of the protocol to SQLite.
pub fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
    )
}

impl Actor {
    pub fn new(bench: Bench, disk: &FaultyDisk, options: &str, seed: u64, ledger: &Arc<Ledger>) -> Actor {
        Actor {
            bench,
            disk: disk.clone(),
            options: options.to_owned(),
            is_durable: options.contains("window=0"),
            ledger: Arc::clone(ledger),
            database: None,
            random: Rng::with_seed(seed ^ 0xac7),
            begun: None,
            is_open: false,
            now: 0.0,
            failures: Vec::new(),
            may_fail: false,
        }
    }

    /// Acts; a connection in the way is no failure.
    pub fn act(&mut self, action: Action) {
        if self.disk.is_off() {
            return;
        }
        let outcome = self.finish().and_then(|()| self.try_to(action));
        self.note(outcome, &format!("{action:?}"));
    }

    fn note(&mut self, outcome: rusqlite::Result<()>, when: &str) {
        if let Err(error) = outcome
            && !is_busy(&error)
            && !self.disk.is_off()
            && (!self.may_fail || matches!(error, rusqlite::Error::InvalidPath(_)))
        {
            self.failures.push(format!("{when}: {error}"));
        }
    }

    /// Ends what the last action has left open.
    pub fn finish(&mut self) -> rusqlite::Result<()> {
        let Some(database) = &self.database else {
            return Ok(());
        };
        let begun = self.begun.take();
        if !std::mem::take(&mut self.is_open) {
            return Ok(());
        }
        match begun {
            Some(begun) => self.ledger.commit(database, begun, self.is_durable),
            None if database.is_autocommit() => Ok(()),
            None => database.execute_batch("ROLLBACK"),
        }
    }

    /// Ends what is open, and closes the connection.
    pub fn leave(&mut self) {
        let finished = self.finish();
        self.note(finished, "the end");
        self.database = None;
    }

    fn database(&mut self) -> rusqlite::Result<&Connection> {
        if self.database.is_none() {
            let database = self.bench.open(&self.options)?;
            self.database = Some(database);
        }
        self.database.as_ref().ok_or(rusqlite::Error::InvalidQuery)
    }

    /// False while there are no tables to write to.
    fn has_tables(&mut self) -> rusqlite::Result<bool> {
        self.database()?
            .query_row("SELECT count(*) FROM sqlite_master WHERE name='log'", [], |row| Ok(row.get::<_, i64>(0)? > 0))
    }

    fn try_to(&mut self, action: Action) -> rusqlite::Result<()> {
        match action {
            Action::Write => self.write(),
            Action::Begin => {
                if self.has_tables()? {
                    let ledger = Arc::clone(&self.ledger);
                    let mut random = self.random.fork();
                    self.begun = Some(ledger.begin(self.database()?, &mut random)?);
                    self.is_open = true;
                }
                Ok(())
            }
            Action::RollBack => {
                if self.has_tables()? {
                    self.database()?
                        .execute_batch("BEGIN IMMEDIATE; UPDATE kv SET v=zeroblob(300); DELETE FROM log; ROLLBACK")?;
                }
                Ok(())
            }
            Action::Checkpoint(mode) => {
                let sql = format!("PRAGMA wal_checkpoint({mode})");
                self.database()?.query_row(&sql, [], |_| Ok(()))
            }
            Action::Lock => {
                self.database()?.execute_batch("BEGIN IMMEDIATE")?;
                self.is_open = true;
                Ok(())
            }
            Action::Read => self.read(),
            Action::BeginReading => {
                self.database()?.execute_batch("BEGIN")?;
                self.is_open = true;
                self.read()
            }
            Action::Reopen => {
                self.database = None;
                self.read()
            }
            Action::Come => {
                self.database = None;
                let written = self.write();
                self.database = None;
                written
            }
            Action::Pragma(name) => self.pragma(name),
            Action::Wait => {
                let before = self.ledger.last();
                self.now += 1000.0;
                if self.bench.instance.set_time(self.now).is_ok() && !self.disk.is_off() {
                    self.ledger.settle(before);
                }
                Ok(())
            }
        }
    }

    fn write(&mut self) -> rusqlite::Result<()> {
        if !self.has_tables()? {
            return Ok(());
        }
        let (ledger, is_durable) = (Arc::clone(&self.ledger), self.is_durable);
        let mut random = self.random.fork();
        ledger.transact(self.database()?, &mut random, is_durable).map(drop)
    }

    /// What is acknowledged is there.
    fn read(&mut self) -> rusqlite::Result<()> {
        if !self.has_tables()? {
            return Ok(());
        }
        let ledger = Arc::clone(&self.ledger);
        let found = ledger.check(self.database()?, Since::Acknowledged, "another connection");
        // Every statement of the check may meet the same locks.
        match found {
            Err(why) if !why.contains("lock") && !self.disk.is_off() => Err(rusqlite::Error::InvalidPath(why.into())),
            _ => Ok(()),
        }
    }

    fn pragma(&mut self, name: &'static str) -> rusqlite::Result<()> {
        let before = self.ledger.last();
        self.database()?.query_row(&format!("PRAGMA {name}"), [], |_| Ok(()))?;
        if name != "ebbpool_status" {
            self.ledger.settle(before);
        }
        Ok(())
    }
}
