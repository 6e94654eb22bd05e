//! Statements: the answers of both worlds, and what those of ours promise.

use rusqlite::{Connection, ffi};

use super::{Lockstep, Run, Stop};
use crate::points;
use crate::price::{self, Price};
use crate::sql::{self, Outcome};
use crate::step::{C, CONNECTIONS, Database, OpenedBy};
use crate::trace;
use crate::world::Hang;

/// What statements begin with that only our world knows.
const OURS: &str = "PRAGMA ebbpool_";

impl Lockstep<'_> {
    pub fn sql(&mut self, c: C, text: &'static str) -> Run<()> {
        let may_write = self.openings[c].is_some_and(|opening| opening.how == OpenedBy::Ours);
        if text.starts_with(OURS) && !may_write {
            return Ok(());
        }
        if self.is_readers_checkpoint(c, text) {
            self.pay(Price::ReadersCheckpoint);
            return Ok(());
        }
        // After a failure only one of the worlds would hold the lock.
        let is_exclusive = text == "PRAGMA locking_mode=EXCLUSIVE";
        if is_exclusive && (self.has_pending_fault() || !may_write) {
            return Ok(());
        }
        self.is_exclusive[c] |= is_exclusive;
        self.has_memory_journal[c] |= text == "PRAGMA journal_mode=memory";
        // After a failure this one answers with a mode where others answer with an error.
        let is_mode = text.starts_with("PRAGMA journal_mode");
        if is_mode && (self.has_pending_fault() || !may_write) {
            return Ok(());
        }
        let ours = self.ours.run(c, text);
        self.compare(c, text, ours, |run| Ok(run.plain.run(c, text)))
    }

    /// Compares an answer of our world, unless it has a price, with that of the other one.
    pub fn compare(&mut self, c: C, text: &str, ours: Outcome, plain: impl FnOnce(&mut Self) -> Run<Outcome>) -> Run<()> {
        if let Some(price) = price::of(&ours, text, self.circumstances(c)) {
            self.tally.pay(price);
            self.is_in_doubt |= price == Price::Fault && ours.is_idle && !self.is_only_full;
            let ours = self.after_release(c, text, ours);
            self.reconcile(c, &ours)?;
            return match price {
                Price::Fault if ours.is_idle => self.know_tables(c),
                Price::OneProcess => {
                    self.read_tables(c);
                    Ok(())
                }
                _ => Ok(()),
            };
        }
        self.lacks_tables[c] &= !(ours.is_ok() && price::names_a_table(text));
        trace::line(|| format!("    answers {ours:?}"));
        let is_of_ours = text.starts_with(OURS);
        if is_of_ours {
            if ours.code() == ffi::SQLITE_BUSY && self.had_reader {
                self.pay(Price::Passed);
                return Ok(());
            }
            if !ours.is_ok() {
                return Err(format!("{text} of {c}: {ours:?}").into());
            }
        } else {
            let plain = plain(self)?;
            let numbers_differ = self.is_loose && text.contains("wal_checkpoint");
            let are_refused = [ours.code(), plain.code()]
                .iter()
                .all(|code| [ffi::SQLITE_BUSY, ffi::SQLITE_ERROR, ffi::SQLITE_READONLY].contains(code));
            // Whether a connection knows that there is no such table, or is to look and finds a lock.
            let are_refused = are_refused && self.is_loose && price::names_a_table(text);
            let same = ours.agrees(&plain) || are_refused || (numbers_differ && ours.is_ok() == plain.is_ok());
            // A statement that only our world has run began the WAL anew there. In the other one the next writer does, and then what
            // was read before is too old to write.
            let is_too_old = !ours.is_idle && plain.answer == Err(ffi::SQLITE_BUSY_SNAPSHOT);
            if is_too_old && ours.is_ok() && self.is_loose {
                for world in [&self.ours, &self.plain] {
                    drop(world.get(c).map(|database| sql::run(database, "ROLLBACK")));
                }
                self.pay(Price::Fault);
                return Ok(());
            }
            if !same {
                return Err(format!("{text} of {c}: ours {ours:?}, plain {plain:?}").into());
            }
        }
        match text.contains("wal_checkpoint") {
            // It changes files, and commits nothing.
            true => drop(self.note_state()),
            false => self.acknowledge(c, text, &ours),
        }
        Ok(())
    }

    /// Where the commit of an outermost savepoint fails SQLite rolls back, and stays in a transaction, which is empty: programs have
    /// to end it.
    fn after_release(&self, c: C, text: &str, ours: Outcome) -> Outcome {
        let has_lost = text.starts_with("RELEASE") && ours.code() != ffi::SQLITE_BUSY;
        match self.ours.get(c).filter(|_| has_lost && !ours.is_idle) {
            Some(database) => sql::run(database, "ROLLBACK"),
            None => ours,
        }
    }

    /// Only in one world the statement before may have read the tables, without which the next one may need another lock.
    fn know_tables(&mut self, c: C) -> Run<()> {
        let path = self.openings[c].map(|opening| self.plain.path(opening.database));
        if path.is_none_or(|path| self.bench.plain.content(&path).is_empty()) {
            // In an empty database SQLite takes the first commit of another connection for its own one, which was refused, if both
            // are of the same size.
            return self.close(c);
        }
        self.read_tables(c);
        Ok(())
    }

    /// Has SQLite read the tables in both worlds, if it does not know them, or in none: with a WAL this keeps a lock. A statement that
    /// is only prepared begins no transaction.
    fn read_tables(&mut self, c: C) {
        const READ: &str = "SELECT 1 FROM sqlite_master LIMIT 1";
        for (world, is_ours) in [(&self.ours, true), (&self.plain, false)] {
            let Some(database) = world.get(c) else {
                continue;
            };
            let is_read = match database.is_autocommit() {
                true => sql::run(database, READ).is_ok(),
                false => {
                    let prepared = database.prepare("SELECT 1 FROM no_such_table");
                    prepared.map_err(|error| sql::code(&error)).err() == Some(ffi::SQLITE_ERROR)
                }
            };
            if is_ours && !is_read {
                self.lacks_tables[c] = true;
                return;
            }
        }
    }

    /// A statement was not run in the other world: there too its transaction is gone where it is in ours.
    fn reconcile(&mut self, c: C, ours: &Outcome) -> Run<()> {
        self.is_loose = true;
        self.has_lost[c] = !ours.is_idle;
        // What others read may be older than what was refused, so that they cannot write.
        for other in 0..CONNECTIONS {
            let is_other = other != c && self.share_a_database(c, other);
            self.has_lost[other] |= is_other && self.ours.get(other).is_some_and(|database| !database.is_autocommit());
        }
        let Some(plain) = self.plain.get(c) else {
            return Ok(());
        };
        if ours.is_idle && !plain.is_autocommit() {
            let rolled_back = sql::run(plain, "ROLLBACK");
            if !rolled_back.is_ok() {
                return Err(format!("plain SQLite cannot roll back: {rolled_back:?}").into());
            }
        }
        if !ours.is_idle && plain.is_autocommit() {
            return Err("an error began a transaction".to_owned().into());
        }
        Ok(())
    }

    /// Adds the other world's state to the history if it may be a new one.
    pub fn note_state(&mut self) -> bool {
        self.note_state_with(None)
    }

    /// Adds the other world's state to the history if it may be a new one; `clear` shows a committed state in any case.
    fn note_state_with(&mut self, clear: Option<Database>) -> bool {
        let has_changed = self.bench.plain.take_changed();
        if !has_changed && !self.has_unseen {
            return false;
        }
        let unclear = self.unclear(clear);
        let path = |database| self.plain.path(database);
        let unclear: Vec<String> = unclear.into_iter().map(path).collect();
        let is_unclear = |name: &str| unclear.iter().any(|path| name.starts_with(path));
        let files = self.bench.plain.files();
        self.history.push(files, self.now, is_unclear);
        self.has_unseen = !unclear.is_empty();
        has_changed
    }

    /// Databases whose files do not show a committed state. Of a connection that is held back it is unknown whether it writes; if
    /// its database is `clear`, it does not.
    fn unclear(&self, clear: Option<Database>) -> Vec<Database> {
        let of_writer = |c: C| {
            let database = self.openings[c]?.database;
            let writes = match self.plain.get(c) {
                Some(connection) => sql::is_writing(connection),
                None => self.plain.is_held(c) && clear != Some(database),
            };
            (self.has_memory_journal[c] && writes).then_some(database)
        };
        (0..CONNECTIONS).filter_map(of_writer).collect()
    }

    /// Our world has said that a statement is done: what does that promise?
    fn acknowledge(&mut self, c: C, text: &str, ours: &Outcome) {
        let is_flush = text.starts_with(OURS);
        let first = std::mem::replace(&mut self.parked_at[c], usize::MAX);
        // A statement that reads a table and succeeds has found no other one that writes.
        let has_read = ours.is_ok() && ours.is_idle && price::names_a_table(text);
        let succeeded = self.openings[c].filter(|_| has_read);
        let clear = succeeded.map(|opening| opening.database);
        let has_changed = self.note_state_with(clear) || self.history.last() > first;
        // What was held back counts from here on.
        self.history.date(first, self.now);
        let Some(opening) = self.openings[c] else {
            return;
        };
        // What was acknowledged while the power failed may be lost.
        if !ours.is_ok() || self.bench.ours.has_cut() || self.any_held() {
            return;
        }
        self.settle(&opening);
        let database = opening.database;
        let is_durable = opening.how == OpenedBy::Ours && self.window(database) == Some(0);
        if (is_flush && opening.how == OpenedBy::Ours) || (is_durable && has_changed && ours.is_idle) {
            self.history.raise(database, self.history.last());
        }
    }

    /// True if a connection that only reads is to run a checkpoint.
    pub fn is_readers_checkpoint(&self, c: C, text: &str) -> bool {
        let readers = [OpenedBy::OursReadOnly, OpenedBy::PlainReadOnly];
        let is_reader = self.openings[c].is_some_and(|opening| readers.contains(&opening.how));
        is_reader && text.contains("wal_checkpoint")
    }

    /// True if `journal_mode=persist` has left a journal beside the connection's database where the library leaves none: what
    /// looks whether it is hot are calls that the other world does not make.
    fn looks_at_a_journal(&self, c: C) -> bool {
        self.openings[c].is_some_and(|opening| {
            let journal = format!("{}-journal", self.plain.path(opening.database));
            // The head of one that is in use does not begin with a zero.
            self.bench.plain.content(&journal).first() == Some(&0)
        })
    }

    pub fn park(&mut self, c: C, text: &'static str, point: points::Point) -> Run<()> {
        let circumstances = self.circumstances(c);
        let is_disturbed = circumstances.has_other_process || circumstances.has_failed;
        let is_special = [OURS, "PRAGMA journal_mode", "PRAGMA locking_mode"];
        let is_special = is_special.iter().any(|first| text.starts_with(first));
        let is_special = is_special
            || self.is_readers_checkpoint(c, text)
            || self.looks_at_a_journal(c) && matches!(point.0, points::Event::Call | points::Event::Read);
        if is_disturbed || self.has_pending_fault() || is_special {
            return self.sql(c, text);
        }
        let hang = |Hang| Stop::Hang(format!("{text} of {c} does not end"));
        let ours = self.ours.park(c, text, point).map_err(hang)?;
        let plain = self.plain.park(c, text, point).map_err(hang)?;
        match (ours, plain) {
            (None, None) => {
                self.parked_at[c] = self.history.last();
                self.holds_checkpoint[c] = text.contains("wal_checkpoint");
                self.note_state();
                Ok(())
            }
            (Some(ours), Some(plain)) => self.compare(c, text, ours, |_| Ok(plain)),
            (ours, plain) => {
                let ours = self.ended(ours, true, c)?;
                let plain = self.ended(plain, false, c)?;
                let same = ours.agrees(&plain);
                let why = format!("{text} of {c} reaches {point:?} in one world only");
                if same && self.is_loose {
                    return Ok(());
                }
                Err(Stop::Finding(match same {
                    true => why,
                    false => format!("{why}: ours {ours:?}, plain {plain:?}"),
                }))
            }
        }
    }

    /// The outcome of a statement that is held back in one world only.
    fn ended(&mut self, outcome: Option<Outcome>, is_ours: bool, c: C) -> Run<Outcome> {
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
        let world = if is_ours { &mut self.ours } else { &mut self.plain };
        match world.resume(c) {
            Ok(Some(outcome)) => Ok(outcome),
            _ => Err(Stop::Hang(format!("the statement of {c} does not end"))),
        }
    }

    pub fn resume(&mut self, c: C) -> Run<()> {
        let ours = self.ended(None, true, c)?;
        let plain = self.ended(None, false, c)?;
        let text = if std::mem::take(&mut self.holds_checkpoint[c]) {
            self.parked_at[c] = usize::MAX;
            "the rest of wal_checkpoint"
        } else {
            "the rest"
        };
        self.compare(c, text, ours, |_| Ok(plain))
    }

    pub fn backup(&mut self, c: C) -> Run<()> {
        let (Some(ours), Some(plain)) = (self.ours.get(c), self.plain.get(c)) else {
            return Ok(());
        };
        let outcome =
            |answer: Result<Vec<String>, i32>, database: &Connection| Outcome { answer, is_idle: database.is_autocommit() };
        let ours = outcome(sql::backup(ours), ours);
        let plain = outcome(sql::backup(plain), plain);
        match price::of(&ours, "", self.circumstances(c)) {
            Some(price) => self.tally.pay(price),
            None if ours.agrees(&plain) => {}
            None => return Err(format!("backup of {c}: ours {ours:?}, plain {plain:?}").into()),
        }
        Ok(())
    }
}
