//! A program that uses the database, from its start to its end.

use ebbpool::storage::{FaultyDisk, page_lsn};
use ebbpool::{OperationCosts, Unit};
use ebbpool_btree::{Database, DatabaseError, DatabaseOptions, DatabaseParts, Durability, Transaction};

use crate::lives::{Counts, EndCause, power_is_off};
use crate::model::{Effects, Model, Records, apply};
use crate::script::{SLOTS, Session, Setting, Step};

/// Counters, which show that the test has tested something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub crashes: u64,
    pub recoveries: u64,
    pub committed: u64,
    pub rolled_back: u64,
    pub reported: u64,
    pub steps: u64,
    /// Pages by which files were made shorter.
    pub cut_off: u64,
    /// Levels of the highest tree.
    pub deepest: u8,
}

impl Counts for Tally {
    fn crashed(&mut self) {
        self.crashes += 1;
    }

    fn reported(&mut self) {
        self.reported += 1;
    }

    fn crashes(&self) -> u64 {
        self.crashes
    }

    fn add(&mut self, other: &Tally) {
        self.crashes += other.crashes;
        self.recoveries += other.recoveries;
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.reported += other.reported;
        self.steps += other.steps;
        self.cut_off += other.cut_off;
        self.deepest = self.deepest.max(other.deepest);
    }
}

fn end(setting: &Setting, error: &DatabaseError) -> EndCause {
    match error {
        error if power_is_off(error) => EndCause::PowerOff,
        DatabaseError::Pool(ebbpool::PoolError::Damaged { .. }) if !setting.double_write => EndCause::Reported,
        error => EndCause::Wrong(format!("{error}")),
    }
}

/// An open transaction, and its changes.
type OpenTransaction<'d> = (Transaction<'d>, Effects);

pub struct Life<'a> {
    pub disk: &'a FaultyDisk,
    pub setting: &'a Setting,
    pub model: &'a mut Model,
    pub tally: &'a mut Tally,
}

impl Life<'_> {
    pub fn live(&mut self, script: &[Session]) -> Result<(), EndCause> {
        script.iter().try_for_each(|session| self.session(session))
    }

    /// Opens the database, which recovers, checks its content, and runs a session.
    pub fn session(&mut self, session: &Session) -> Result<(), EndCause> {
        let mut database = self.open()?;
        self.judge(&mut database)?;
        if session.clear {
            self.clear(&database)?;
        }
        if let Some(records) = session.load {
            self.load(&mut database, records)?;
        }
        self.shrink(session, &mut database)?;
        self.work(&database, &session.steps)?;
        self.shrink(session, &mut database)?;
        if session.close {
            let setting = self.setting;
            database.close().map_err(|error| end(setting, &error))?;
            self.model.acknowledge();
        }
        Ok(())
    }

    fn end_of<T>(&self, outcome: Result<T, DatabaseError>) -> Result<T, EndCause> {
        outcome.map_err(|error| end(self.setting, &error))
    }

    fn open(&self) -> Result<Database, EndCause> {
        let setting = self.setting;
        let pages = |name| self.disk.pages(name, setting.page_size);
        let parts = DatabaseParts {
            pages: Box::new(pages("data")),
            double_write: setting.double_write.then(|| Box::new(pages("torn")) as _),
            log: ["log0", "log1"].map(|name| Box::new(self.disk.bytes(name)) as _),
        };
        let costs = OperationCosts { read: 1.0, write: 8.0, unit: Unit::PageReads };
        let options = self.end_of(DatabaseOptions::new(setting.frames).policy(setting.policy))?;
        let options = options
            .page_size(setting.page_size)
            .double_write(setting.double_write)
            .durability(setting.durability)
            .checkpoint_every(setting.checkpoint_every)
            .background(false)
            .pool(move |pool| pool.fixed_costs(costs));
        let database = self.end_of(options.open_on(parts))?;
        self.disk.watch(&database.log(), page_lsn);
        Ok(database)
    }

    /// Checks that the content is that after a prefix of the commits, and that the database is whole.
    fn judge(&mut self, database: &mut Database) -> Result<(), EndCause> {
        let found = self.end_of(contents(database))?;
        self.model.found(&found).map_err(EndCause::Wrong)?;
        let report = self.end_of(database.check())?;
        if let Some(finding) = report.findings.first() {
            return Err(EndCause::Wrong(format!("after recovery: {finding}")));
        }
        self.tally.recoveries += 1;
        self.tally.deepest = self.tally.deepest.max(report.shape.height);
        Ok(())
    }

    fn shrink(&mut self, session: &Session, database: &mut Database) -> Result<(), EndCause> {
        if session.shrink {
            let shrunk = self.end_of(database.shrink())?;
            self.model.acknowledge();
            self.tally.cut_off += shrunk.before - shrunk.pages;
            match self.end_of(database.free_pages())? {
                0 => self.judge(database)?,
                free => return Err(EndCause::Wrong(format!("{free} pages are free: {shrunk:?}"))),
            }
        }
        Ok(())
    }

    fn clear(&mut self, database: &Database) -> Result<(), EndCause> {
        let keys = self.model.now().into_keys();
        let effects: Effects = keys.map(|key| (key, None)).collect();
        let mut transaction = database.begin();
        for key in effects.keys() {
            if !self.end_of(transaction.delete(key))? {
                return Err(EndCause::Wrong(format!("key {key:?} is not there")));
            }
        }
        self.model.commit(effects);
        self.end_of(transaction.commit())?;
        if self.setting.durability == Durability::Synced {
            self.model.acknowledge();
        }
        Ok(())
    }

    fn load(&mut self, database: &mut Database, records: u64) -> Result<(), EndCause> {
        let records = self.setting.loaded(records);
        if !self.model.now().is_empty() {
            return match database.load(records.into_iter().map(Ok::<_, DatabaseError>), 0.7) {
                Err(DatabaseError::NotEmpty) => Ok(()),
                Ok(_) => Err(EndCause::Wrong("it loads over what is there".into())),
                Err(error) => Err(end(self.setting, &error)),
            };
        }
        let effects = records.iter().cloned();
        let effects = effects.map(|(key, value)| (key, Some(value))).collect();
        self.model.commit(effects);
        let loads_something = !records.is_empty();
        self.end_of(database.load(records.into_iter().map(Ok::<_, DatabaseError>), 0.7))?;
        // A load of no records logs nothing, so this test does not rely on it for the earlier commits.
        if loads_something {
            self.model.acknowledge();
        }
        Ok(())
    }

    fn work(&mut self, database: &Database, steps: &[Step]) -> Result<(), EndCause> {
        let mut open: [Option<OpenTransaction<'_>>; SLOTS] = std::array::from_fn(|_| None);
        for step in steps {
            self.tally.steps += 1;
            match step {
                Step::Put { slot, key, value } => {
                    let (transaction, effects) = open[*slot].get_or_insert_with(|| (database.begin(), Effects::new()));
                    self.end_of(transaction.put(key, value))?;
                    effects.insert(key.clone(), Some(value.clone()));
                    self.same(transaction.get(key), effects, key)?;
                }
                Step::Delete { slot, key } => {
                    let (transaction, effects) = open[*slot].get_or_insert_with(|| (database.begin(), Effects::new()));
                    let was = self.now(effects).contains_key(key);
                    if self.end_of(transaction.delete(key))? != was {
                        return Err(EndCause::Wrong(format!("whether key {key:?} was there")));
                    }
                    if was {
                        effects.insert(key.clone(), None);
                    }
                    self.same(transaction.get(key), effects, key)?;
                }
                Step::UpdateKeys { slot, keys } => {
                    let (transaction, effects) = open[*slot].get_or_insert_with(|| (database.begin(), Effects::new()));
                    for key in keys {
                        let Some(mut value) = self.end_of(transaction.get_for_update(key))? else {
                            continue;
                        };
                        value.iter_mut().for_each(|byte| *byte = !*byte);
                        self.end_of(transaction.put(key, &value))?;
                        effects.insert(key.clone(), Some(value));
                    }
                }
                Step::Commit { slot } => {
                    if let Some((transaction, effects)) = open[*slot].take() {
                        self.model.commit(effects);
                        self.end_of(transaction.commit())?;
                        self.tally.committed += 1;
                        if self.setting.durability == Durability::Synced {
                            self.model.acknowledge();
                        }
                    }
                }
                Step::Rollback { slot } => {
                    if let Some((transaction, _)) = open[*slot].take() {
                        self.end_of(transaction.rollback())?;
                        self.tally.rolled_back += 1;
                    }
                }
                Step::Read if open.iter().all(Option::is_none) => {
                    let found = self.end_of(contents(database))?;
                    if found != self.model.now() {
                        return Err(EndCause::Wrong("a scan finds something else".into()));
                    }
                }
                Step::Read => {}
                Step::Checkpoint => {
                    self.end_of(database.checkpoint())?;
                    self.model.acknowledge();
                }
            }
        }
        Ok(())
    }

    fn now(&self, effects: &Effects) -> Records {
        let mut records = self.model.now();
        apply(&mut records, effects);
        records
    }

    fn same(&self, found: Result<Option<Vec<u8>>, DatabaseError>, effects: &Effects, key: &[u8]) -> Result<(), EndCause> {
        match self.end_of(found)? == self.now(effects).remove(key) {
            true => Ok(()),
            false => Err(EndCause::Wrong(format!("key {key:?} has another value"))),
        }
    }
}

/// All records, which are the same from both ends.
fn contents(database: &Database) -> Result<Records, DatabaseError> {
    let all = || database.range::<&[u8]>(..);
    let ascending: Vec<(Vec<u8>, Vec<u8>)> = all().collect::<Result<_, _>>()?;
    let mut descending: Vec<(Vec<u8>, Vec<u8>)> = all().rev().collect::<Result<_, _>>()?;
    descending.reverse();
    assert_eq!(ascending, descending, "both ways");
    assert!(ascending.is_sorted_by(|a, b| a.0 < b.0), "in order");
    Ok(ascending.into_iter().collect())
}
