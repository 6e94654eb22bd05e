//! What plain SQLite and the library find after a crash.

use std::rc::Rc;

use rusqlite::Connection;

use super::{BOTH, Lockstep, Run, without_mode};
use crate::history::{Content, open_scratch};
use crate::price::Price;
use crate::sql;
use crate::step::{Database, OpenedBy, Opening};
use crate::trace;

impl Lockstep<'_> {
    pub fn content(&mut self, state: usize, database: Database) -> Result<Rc<Content>, String> {
        let path = self.ours.path(database);
        let (scratch, vfs) = (self.bench.scratch, self.bench.scratch_name);
        self.history.content(state, database, &path, scratch, vfs)
    }

    /// What plain SQLite finds in the files of our world as they are, on a copy of them.
    pub fn without_the_library(&self, database: Database) -> Result<Connection, String> {
        let path = self.ours.path(database);
        self.bench.scratch.reset(1);
        for suffix in ["", "-wal", "-journal"] {
            let name = format!("{path}{suffix}");
            let content = self.bench.ours.content(&name);
            self.bench.scratch.replace(&name, &content);
        }
        open_scratch(self.bench.scratch_name, &path).map_err(|error| error.to_string())
    }

    /// The latest state, from a first one on, with this content.
    pub fn find(&mut self, dump: &[String], database: Database, first: usize) -> Result<Option<usize>, String> {
        for state in (first..=self.history.last()).rev() {
            if self.content(state, database)?.dump == dump {
                return Ok(Some(state));
            }
        }
        Ok(None)
    }

    /// True if a database was like this in any state, in whichever journal mode.
    fn was_once(&mut self, dump: &[String], database: Database) -> Result<bool, String> {
        for state in (0..=self.history.last()).rev() {
            let known = without_mode(&self.content(state, database)?.dump);
            if known == dump || (sql::has_no_tables(&known) && sql::has_no_tables(dump)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// After a crash: plain SQLite finds a whole database of some age, the library one that is within the window. The other
    /// world goes on with that.
    pub fn judge(&mut self) -> Run<()> {
        self.tally.recoveries += 1;
        self.was_cut_again = false;
        let mut found = Vec::new();
        for database in BOTH {
            if self.was_never_made(database) {
                found.push(Rc::new(Content { file: Vec::new(), dump: Vec::new() }));
                continue;
            }
            let plain = self.without_the_library(database)?;
            if let Some(why) = sql::damage(&plain) {
                return Err(format!("{database:?} without the library: {why}").into());
            }
            let dump = without_mode(&sql::dump(&plain)?);
            drop(plain);
            if !self.is_in_doubt && !self.was_once(&dump, database)? {
                let latest = self.content(self.history.last(), database)?;
                return Err(format!(
                    "{database:?} without the library is none of the states; {} of the last",
                    sql::difference(&dump, &without_mode(&latest.dump))
                )
                .into());
            }
            found.push(self.recovered(database)?);
        }
        if self.was_cut_again {
            // What was only deleted, or cut off, of the one that was recovered first may be there once more.
            return self.judge();
        }
        let mut files = crate::machine::Files::new();
        for (database, content) in BOTH.into_iter().zip(found) {
            files.insert(self.ours.path(database), content.file.clone().into());
        }
        self.bench.plain.put(files);
        self.bench.plain.take_changed();
        self.history.begin(self.bench.plain.files(), self.now);
        self.is_dirty = false;
        self.is_in_doubt = false;
        Ok(())
    }

    /// True if no world has a file of the name.
    pub fn was_never_made(&self, database: Database) -> bool {
        let path = self.ours.path(database);
        let of_ours = ["", "-wal", "-ebb"].map(|suffix| self.bench.ours.content(&format!("{path}{suffix}")));
        of_ours.iter().all(Vec::is_empty) && self.bench.plain.content(&path).is_empty()
    }

    /// A database as recovery has left it, if it is one file: pages that hold nothing may be others than plain SQLite's.
    fn as_it_is(&self, database: Database) -> Option<Rc<Content>> {
        let path = self.ours.path(database);
        let is_there = |suffix| !self.bench.ours.content(&format!("{path}{suffix}")).is_empty();
        let is_whole = !["-wal", "-ebb", "-journal"].into_iter().any(is_there);
        let file = self.bench.ours.content(&path);
        is_whole.then(|| Rc::new(Content { file, dump: Vec::new() }))
    }

    /// What the library finds after a crash.
    fn recovered(&mut self, database: Database) -> Run<Rc<Content>> {
        let dump = self.recover(database)?;
        let floor = self.history.floor(database);
        if let Some(state) = self.find(&dump, database, floor)? {
            trace::line(|| format!("    as in state {state} of {floor} to {}", self.history.last()));
            let content = self.content(state, database)?;
            return Ok(self.as_it_is(database).unwrap_or(content));
        }
        let least = self.content(floor, database)?;
        if sql::has_no_tables(&dump) && sql::has_no_tables(&least.dump) {
            let file = self.bench.ours.content(&self.ours.path(database));
            return Ok(Rc::new(Content { file, dump }));
        }
        if self.is_in_doubt {
            // What was refused is there: the disk has failed what would have taken it back, and then the process was gone.
            self.pay(Price::InDoubt);
            let file = self.bench.ours.content(&self.ours.path(database));
            return Ok(Rc::new(Content { file, dump }));
        }
        let latest = self.history.last();
        let least = self.content(floor, database)?;
        Err(match self.find(&dump, database, 0)? {
            Some(state) => format!(
                "{database:?} recovered: state {state} of {latest}, although {floor} had to survive; {} of that",
                sql::difference(&dump, &least.dump)
            ),
            None => format!(
                "{database:?} recovered is none of {latest} states; {} of the last",
                sql::difference(&dump, &self.content(latest, database)?.dump)
            ),
        }
        .into())
    }

    /// Opens a database through the library after a crash, as often as the power fails meanwhile, and closes it.
    pub fn recover(&mut self, database: Database) -> Run<Vec<String>> {
        for _ in 0..5 {
            let answer = self.dump(database);
            let mut is_cut = self.bench.ours.take_cut();
            let has_failed = !is_cut && self.has_pending_fault() && self.failures() > 0;
            if has_failed {
                // Closing it may have failed.
                self.work_again();
                is_cut = self.bench.ours.take_cut();
            }
            if is_cut {
                self.was_cut_again = true;
                for instance in self.bench.instances {
                    // What a fault has left open before the power failed is gone with its process.
                    instance.be_killed();
                }
                self.bench.ours.revive();
                continue;
            }
            match answer {
                Ok(dump) => return Ok(dump),
                Err(_) if has_failed => {}
                Err(why) => return Err(format!("{database:?} cannot be recovered: {why}").into()),
            }
        }
        Err(format!("{database:?} cannot be recovered in five attempts").into())
    }

    /// The disk works again, and what could not be closed is closed.
    fn work_again(&mut self) {
        self.bench.ours.disk().heal();
        self.bench.ours.set_pending_fault(false);
        self.is_only_full = false;
        self.bench.ours.forget_failures();
        for _ in 0..2 {
            self.now += 2;
            self.set_time();
        }
    }

    /// What the library finds, on a connection of its own.
    pub fn dump(&mut self, database: Database) -> Result<Vec<String>, String> {
        trace::line(|| format!("{database:?} is opened and closed"));
        let opening = Opening { c: 0, database, process: 0, how: OpenedBy::Ours, window: 1000, options: "" };
        let opened = self.ours.open(&opening);
        let Some(connection) = self.ours.take(0) else {
            return Err(format!("{opened:?}"));
        };
        let dump = sql::dump(&connection)?;
        trace::line(|| format!("    holds {} lines: {dump:.100?}", dump.len()));
        match sql::damage(&connection) {
            Some(why) => Err(why),
            None => Ok(dump),
        }
    }
}
