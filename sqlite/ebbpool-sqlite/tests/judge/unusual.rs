//! Steps of programs that concern files as such, and threads that wait for the disk.

use std::rc::Rc;

use rusqlite::ffi;

use crate::history::open_scratch;
use crate::lockstep::{Lockstep, Run, Stop};
use crate::points::{Event, Point};
use crate::price::Price;
use crate::sql::{self, Outcome};
use crate::step::{C, Database, Work};
use crate::world::{Held, Progress, statement};

impl Lockstep<'_> {
    /// A copy for a backup holds everything, and plain SQLite can write it.
    pub fn copy(&mut self, c: C) -> Run<()> {
        let Some(opening) = self.openings[c] else {
            return Ok(());
        };
        let is_idle = self.ours.get(c).is_some_and(rusqlite::Connection::is_autocommit);
        let truncate = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_reader = self.is_readers_checkpoint(c, truncate);
        if self.any_held() || !is_idle || self.has_pending_fault() || is_reader {
            return Ok(());
        }
        let ours = self.ours.run(c, truncate);
        self.compare(c, truncate, ours.clone(), |run| Ok(run.plain.run(c, truncate)))?;
        let has_wal = |outcome: &Outcome| outcome.answer.as_ref().is_ok_and(|rows| rows == &["0|0|0"]);
        if !has_wal(&ours) || self.bench.ours.has_cut() {
            return Ok(());
        }
        self.sql(c, "BEGIN IMMEDIATE")?;
        if self.ours.get(c).is_none_or(rusqlite::Connection::is_autocommit) {
            return Ok(());
        }
        let database = opening.database;
        self.history.raise(database, self.history.last());
        let path = self.ours.path(database);
        let file = self.bench.ours.content(&path);
        self.sql(c, "ROLLBACK")?;
        self.bench.scratch.reset(1);
        self.bench.scratch.replace(&path, &file);
        let copy = open_scratch(self.bench.scratch_name, &path).map_err(|error| error.to_string())?;
        if let Some(why) = sql::damage(&copy) {
            return Err(format!("the copy of {database:?}: {why}").into());
        }
        let dump = sql::dump(&copy)?;
        let written = sql::run(&copy, "CREATE TABLE in_the_copy (a)");
        drop(copy);
        let latest = self.content(self.history.last(), database)?;
        if dump != latest.dump {
            let difference = sql::difference(&dump, &latest.dump);
            return Err(format!("the copy of {database:?}: {difference}").into());
        }
        if !written.is_ok() {
            return Err(format!("plain SQLite cannot write the copy of {database:?}: {written:?}").into());
        }
        self.stored.push((database, Rc::new(crate::history::Content { file, dump })));
        Ok(())
    }

    /// Copies the file as it is: the copy is whole, of whatever age.
    pub fn snatch(&mut self, database: Database) -> Run<()> {
        let path = self.ours.path(database);
        let file = self.bench.ours.content(&path);
        if self.any_held() || self.is_dirty || self.has_pending_fault() || file.is_empty() {
            return Ok(());
        }
        self.bench.scratch.reset(1);
        self.bench.scratch.replace(&path, &file);
        let copy = open_scratch(self.bench.scratch_name, &path).map_err(|error| error.to_string())?;
        if let Some(why) = sql::damage(&copy) {
            return Err(format!("the snatched copy of {database:?}: {why}").into());
        }
        let dump = sql::dump(&copy)?;
        drop(copy);
        self.stored.push((database, Rc::new(crate::history::Content { file, dump })));
        Ok(())
    }

    /// Stores the file of a database that is closed.
    pub fn store(&mut self, database: Database) -> Run<()> {
        if self.is_in_use() || self.is_dirty || self.has_pending_fault() {
            return Ok(());
        }
        let latest = self.content(self.history.last(), database)?;
        let file = self.bench.ours.content(&self.ours.path(database));
        let dump = latest.dump.clone();
        self.stored.push((database, Rc::new(crate::history::Content { file, dump })));
        Ok(())
    }

    /// A copy is put in the database's place, and what belongs to it by SQLite's rules is deleted. `-ebb` stays.
    pub fn put_back(&mut self, database: Database, number: usize) -> Run<()> {
        let stored = self.stored.iter().filter(|(of, _)| *of == database);
        let copies: Vec<_> = stored.map(|(_, content)| Rc::clone(content)).collect();
        if self.is_in_use() || copies.is_empty() || self.has_pending_fault() {
            return Ok(());
        }
        let copy = &copies[number % copies.len()];
        let path = self.ours.path(database);
        // Byte 18 keeps SQLite from writing a copy that was snatched while a log had more.
        let is_marked = copy.file.get(18).is_some_and(|version| *version > 2);
        let log = format!("{path}-ebb");
        self.replace(database, &copy.file);
        if self.bench.ours.content(&log).is_empty() && !is_marked {
            self.begin_with(database, copy.file.clone());
            return Ok(());
        }
        let found = self.dump(database);
        if self.bench.ours.take_cut() {
            return Err(Stop::Over);
        }
        match found {
            Ok(dump) if dump == copy.dump => {}
            Ok(dump) => {
                // The copy may be the very state on which the log began.
                let floor = self.history.floor(database);
                if self.find(&dump, database, floor)?.is_none() {
                    let difference = sql::difference(&dump, &copy.dump);
                    return Err(format!("an older copy of {database:?} beside a log: {difference}").into());
                }
            }
            Err(why) if !is_refused(&why) => {
                return Err(format!("an older copy of {database:?} beside a log: {why}").into());
            }
            Err(_) if is_marked => self.pay(Price::LogAndDatabase),
            Err(_) => {
                self.pay(Price::LogAndDatabase);
                self.bench.ours.replace(&log, &[]);
                self.replace(database, &copy.file);
                let dump = self.dump(database)?;
                if dump != copy.dump {
                    let difference = sql::difference(&dump, &copy.dump);
                    return Err(format!("a copy of {database:?} without a log: {difference}").into());
                }
            }
        }
        Err(Stop::Over)
    }

    fn replace(&self, database: Database, file: &[u8]) {
        let path = self.ours.path(database);
        self.bench.ours.replace(&path, file);
        for suffix in ["-wal", "-journal"] {
            self.bench.ours.replace(&format!("{path}{suffix}"), &[]);
        }
    }

    /// The other world gets the same file.
    fn begin_with(&mut self, database: Database, file: Vec<u8>) {
        let path = self.plain.path(database);
        self.bench.plain.replace(&path, &file);
        for suffix in ["-wal", "-journal"] {
            self.bench.plain.replace(&format!("{path}{suffix}"), &[]);
        }
        self.note_state();
        self.history.raise(database, self.history.last());
    }

    /// `-ebb` is deleted beside a database that a crash has left: the library refuses, or has lost nothing.
    pub fn unlink(&mut self, database: Database) -> Run<()> {
        let log = format!("{}-ebb", self.ours.path(database));
        if !self.is_dirty || self.bench.ours.content(&log).is_empty() {
            return Ok(());
        }
        self.bench.ours.replace(&log, &[]);
        let found = self.dump(database);
        if self.bench.ours.take_cut() {
            return Err(Stop::Over);
        }
        match found {
            Ok(dump) => {
                let floor = self.history.floor(database);
                if self.find(&dump, database, floor)?.is_none() {
                    return Err(format!("{database:?} without its log is accepted, and older than its window").into());
                }
            }
            Err(why) if is_refused(&why) => self.pay(Price::NoLog),
            Err(why) => return Err(format!("{database:?} without its log: {why}").into()),
        }
        Err(Stop::Over)
    }

    /// Stores `-ebb` as it is between two statements.
    pub fn store_log(&mut self, database: Database) {
        let log = self.bench.ours.content(&format!("{}-ebb", self.ours.path(database)));
        if !self.any_held() && !self.is_dirty && !self.has_pending_fault() && !log.is_empty() {
            self.stored_log = Some((database, log));
        }
    }

    /// An older `-ebb` beside a database that a crash has left: the library refuses it, or finds a state that once was.
    pub fn put_log_back(&mut self, database: Database) -> Run<()> {
        let stored = self.stored_log.take().filter(|(of, _)| *of == database);
        let Some((_, stored)) = stored.filter(|_| self.is_dirty && !self.is_in_doubt) else {
            return Ok(());
        };
        let log = format!("{}-ebb", self.ours.path(database));
        self.bench.ours.replace(&log, &stored);
        let found = self.dump(database);
        if self.bench.ours.take_cut() {
            return Err(Stop::Over);
        }
        match found {
            Ok(dump) => {
                if self.find(&dump, database, 0)?.is_none() {
                    return Err(format!("{database:?} with an older log is no state that was").into());
                }
            }
            Err(why) if is_refused(&why) => self.pay(Price::LogAndDatabase),
            Err(why) => return Err(format!("{database:?} with an older log: {why}").into()),
        }
        Err(Stop::Over)
    }

    /// In the n-th sync of one thread's work another thread runs a statement, and must not wait for it.
    pub fn while_sync(&mut self, work: Work, nth: u32, c: C, text: &'static str) -> Run<()> {
        let Some(opening) = self.openings[c].filter(|_| self.may_sync(work, c)) else {
            return Ok(());
        };
        let instance = self.bench.instances[0];
        // The connection itself must not have the WAL open earlier than in our world: with it, one that closes is not the last.
        let before = self.plain.run_once(&opening, text);
        let point = Some(Point(Event::DiskSync, nth));
        let progress = match work {
            Work::Sql(actor, text) => Held::begin(self.ours.take(actor), point, statement(text)),
            Work::Close(actor) => Held::begin(self.ours.take(actor), point, |database| {
                drop(database);
                (None, done())
            }),
            Work::Time(seconds) => {
                self.now += seconds;
                let now = f64::from(self.now);
                Held::begin(None, point, move |_| {
                    let set = instance.set_time(now);
                    let answer = set.map(|()| Vec::new()).map_err(|code| code.0);
                    (None, Outcome { answer, is_idle: true })
                })
            }
        };
        let (database, ours, reader) = self.run_beside(progress, c, text)?;
        if let Work::Sql(actor, _) | Work::Close(actor) = work {
            self.ours.put(actor, database);
        }
        self.compare_work(work, ours)?;
        let after = self.plain.run(c, text);
        let again = self.ours.run(c, text);
        if !again.agrees(&after) {
            return Err(format!("{text} of {c} after a sync: ours {again:?}, plain {after:?}").into());
        }
        // Where it finds a lock only our world's connection may know the tables, from the sync.
        self.is_loose |= !again.is_ok();
        let Some(reader) = reader else {
            return Ok(());
        };
        if reader.agrees(&before) || reader.agrees(&after) {
            return Ok(());
        }
        let is_locked = matches!(reader.code(), ffi::SQLITE_BUSY | ffi::SQLITE_ERROR);
        if is_locked && matches!(work, Work::Sql(..)) {
            self.pay(Price::Committing);
            return Ok(());
        }
        Err(format!("{text} of {c} during a sync: {reader:?}; before {before:?}, after {after:?}").into())
    }

    fn may_sync(&self, work: Work, c: C) -> bool {
        let is_one_process = self.openings.iter().flatten().all(|opening| opening.process == 0);
        let is_idle = self.ours.get(c).is_some_and(rusqlite::Connection::is_autocommit);
        let fits = match work {
            Work::Sql(actor, _) | Work::Close(actor) => actor != c && self.ours.is_open(actor),
            Work::Time(_) => true,
        };
        // A statement that reads would leave a lock behind, or take it away.
        if self.is_exclusive.contains(&true) {
            return false;
        }
        let is_disturbed = self.any_held() || self.has_pending_fault() || self.bench.ours.may_cut();
        is_one_process && is_idle && fits && !is_disturbed
    }

    /// Runs a statement while work is held back in a sync, if it is, and lets the work end.
    #[allow(clippy::type_complexity)]
    fn run_beside(
        &mut self,
        progress: Progress,
        c: C,
        text: &'static str,
    ) -> Run<(Option<rusqlite::Connection>, Outcome, Option<Outcome>)> {
        let held = match progress {
            Progress::Done(database, outcome) => return Ok((database, outcome, None)),
            Progress::Hung => return Err(Stop::Hang("work that syncs does not end".into())),
            Progress::Held(held) => held,
        };
        let reader = match Held::begin(self.ours.take(c), None, statement(text)) {
            Progress::Done(database, outcome) => {
                self.ours.put(c, database);
                outcome
            }
            _ => {
                // Both threads end now, with their connections.
                let _ = held.resume();
                std::thread::sleep(std::time::Duration::from_millis(100));
                return Err(format!("{text} of {c} waits for another thread's sync").into());
            }
        };
        match held.resume() {
            Progress::Done(database, outcome) => Ok((database, outcome, Some(reader))),
            _ => Err(Stop::Hang("work that syncs does not end".into())),
        }
    }

    fn compare_work(&mut self, work: Work, ours: Outcome) -> Run<()> {
        match work {
            Work::Sql(actor, text) => self.compare(actor, text, ours, |run| Ok(run.plain.run(actor, text))),
            Work::Close(actor) => self.close(actor),
            Work::Time(_) if ours.is_ok() => {
                self.time_has_passed();
                Ok(())
            }
            Work::Time(_) => Err(format!("an epoch fails without a fault: {ours:?}").into()),
        }
    }
}

fn done() -> Outcome {
    Outcome { answer: Ok(Vec::new()), is_idle: true }
}

/// True if the library has refused a database.
fn is_refused(why: &str) -> bool {
    why.contains("unable to open database file") || why.contains("CANTOPEN")
}
