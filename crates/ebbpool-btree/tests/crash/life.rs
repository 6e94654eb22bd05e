//! A program on the database, from its start to its end.

use ebbpool::storage::{FaultyDisk, PowerOff, page_lsn};
use ebbpool::{OperationCosts, Unit};
use ebbpool_btree::{Database, Durability, Error, Options, Parts, Transaction};

use crate::model::{Effects, Model, Records, apply};
use crate::script::{SLOTS, Session, Setting, Step};

/// Why a life ended.
#[derive(Debug)]
pub enum End {
    PowerOff,
    /// A torn page was reported, where nothing else was promised.
    Reported,
    Wrong(String),
}

/// What is worth counting, lest all of it be for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub crashes: u64,
    pub recoveries: u64,
    pub committed: u64,
    pub rolled_back: u64,
    pub reported: u64,
    pub steps: u64,
    /// Levels of the highest tree.
    pub deepest: u8,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.crashes += other.crashes;
        self.recoveries += other.recoveries;
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.reported += other.reported;
        self.steps += other.steps;
        self.deepest = self.deepest.max(other.deepest);
    }
}

fn end(setting: &Setting, error: &Error) -> End {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = source {
        // What was wrapped in another error is known by its message.
        if inner.is::<PowerOff>() || inner.to_string().contains(&PowerOff.to_string()) {
            return End::PowerOff;
        }
        source = inner.source();
    }
    match error {
        Error::Pool(ebbpool::Error::Damaged { .. }) if !setting.double_write => End::Reported,
        error => End::Wrong(format!("{error}")),
    }
}

/// An open transaction, and what it has done.
type Open<'d> = (Transaction<'d>, Effects);

pub struct Life<'a> {
    pub disk: &'a FaultyDisk,
    pub setting: &'a Setting,
    pub model: &'a mut Model,
    pub tally: &'a mut Tally,
}

impl Life<'_> {
    pub fn live(&mut self, script: &[Session]) -> Result<(), End> {
        script.iter().try_for_each(|session| self.session(session))
    }

    /// Opens the database, which recovers, and finds what has to be there.
    pub fn session(&mut self, session: &Session) -> Result<(), End> {
        let mut database = self.open()?;
        self.judge(&mut database)?;
        if session.clear {
            self.clear(&database)?;
        }
        if let Some(records) = session.load {
            self.load(&mut database, records)?;
        }
        self.work(&database, &session.steps)?;
        if session.close {
            let setting = self.setting;
            database.close().map_err(|error| end(setting, &error))?;
            self.model.acknowledge();
        }
        Ok(())
    }

    fn tell<T>(&self, outcome: Result<T, Error>) -> Result<T, End> {
        outcome.map_err(|error| end(self.setting, &error))
    }

    fn open(&self) -> Result<Database, End> {
        let setting = self.setting;
        let pages = |name| self.disk.pages(name, setting.page_size);
        let parts = Parts {
            pages: Box::new(pages("data")),
            double_write: setting.double_write.then(|| Box::new(pages("torn")) as _),
            log: ["log0", "log1"].map(|name| Box::new(self.disk.bytes(name)) as _),
        };
        let costs = OperationCosts {
            read: 1.0,
            write: 8.0,
            unit: Unit::PageReads,
        };
        let options = self.tell(Options::new(setting.frames).policy(setting.policy))?;
        let options = options
            .page_size(setting.page_size)
            .double_write(setting.double_write)
            .durability(setting.durability)
            .checkpoint_every(setting.checkpoint_every)
            .background(false)
            .pool(move |pool| pool.fixed_costs(costs));
        let database = self.tell(options.open_on(parts))?;
        self.disk.watch(&database.log(), page_lsn);
        Ok(database)
    }

    /// What is there is a prefix of what was committed, and the database is whole.
    fn judge(&mut self, database: &mut Database) -> Result<(), End> {
        let found = self.tell(contents(database))?;
        self.model.found(&found).map_err(End::Wrong)?;
        let report = self.tell(database.check())?;
        if let Some(finding) = report.findings.first() {
            return Err(End::Wrong(format!("after recovery: {finding}")));
        }
        self.tally.recoveries += 1;
        self.tally.deepest = self.tally.deepest.max(report.shape.height);
        Ok(())
    }

    fn clear(&mut self, database: &Database) -> Result<(), End> {
        let keys = self.model.now().into_keys();
        let effects: Effects = keys.map(|key| (key, None)).collect();
        let mut transaction = database.begin();
        for key in effects.keys() {
            if !self.tell(transaction.delete(key))? {
                return Err(End::Wrong(format!("key {key:?} is not there")));
            }
        }
        self.model.commit(effects);
        self.tell(transaction.commit())?;
        if self.setting.durability == Durability::Synced {
            self.model.acknowledge();
        }
        Ok(())
    }

    fn load(&mut self, database: &mut Database, records: u64) -> Result<(), End> {
        let records = self.setting.loaded(records);
        if !self.model.now().is_empty() {
            return match database.load(records.into_iter().map(Ok::<_, Error>), 0.7) {
                Err(Error::NotEmpty) => Ok(()),
                Ok(_) => Err(End::Wrong("it loads over what is there".into())),
                Err(error) => Err(end(self.setting, &error)),
            };
        }
        let effects = records.iter().cloned();
        let effects = effects.map(|(key, value)| (key, Some(value))).collect();
        self.model.commit(effects);
        let loads_something = !records.is_empty();
        self.tell(database.load(records.into_iter().map(Ok::<_, Error>), 0.7))?;
        // A load of nothing logs nothing, and so says nothing of the commits before it.
        if loads_something {
            self.model.acknowledge();
        }
        Ok(())
    }

    fn work(&mut self, database: &Database, steps: &[Step]) -> Result<(), End> {
        let mut open: [Option<Open<'_>>; SLOTS] = std::array::from_fn(|_| None);
        for step in steps {
            self.tally.steps += 1;
            match step {
                Step::Put { slot, key, value } => {
                    let (transaction, effects) =
                        open[*slot].get_or_insert_with(|| (database.begin(), Effects::new()));
                    self.tell(transaction.put(key, value))?;
                    effects.insert(key.clone(), Some(value.clone()));
                    self.same(transaction.get(key), effects, key)?;
                }
                Step::Delete { slot, key } => {
                    let (transaction, effects) =
                        open[*slot].get_or_insert_with(|| (database.begin(), Effects::new()));
                    let was = self.now(effects).contains_key(key);
                    if self.tell(transaction.delete(key))? != was {
                        return Err(End::Wrong(format!("whether key {key:?} was there")));
                    }
                    if was {
                        effects.insert(key.clone(), None);
                    }
                    self.same(transaction.get(key), effects, key)?;
                }
                Step::UpdateKeys { slot, keys } => {
                    let (transaction, effects) =
                        open[*slot].get_or_insert_with(|| (database.begin(), Effects::new()));
                    for key in keys {
                        let Some(mut value) = self.tell(transaction.get_for_update(key))? else {
                            continue;
                        };
                        value.iter_mut().for_each(|byte| *byte = !*byte);
                        self.tell(transaction.put(key, &value))?;
                        effects.insert(key.clone(), Some(value));
                    }
                }
                Step::Commit { slot } => {
                    if let Some((transaction, effects)) = open[*slot].take() {
                        self.model.commit(effects);
                        self.tell(transaction.commit())?;
                        self.tally.committed += 1;
                        if self.setting.durability == Durability::Synced {
                            self.model.acknowledge();
                        }
                    }
                }
                Step::Rollback { slot } => {
                    if let Some((transaction, _)) = open[*slot].take() {
                        self.tell(transaction.rollback())?;
                        self.tally.rolled_back += 1;
                    }
                }
                Step::Read if open.iter().all(Option::is_none) => {
                    let found = self.tell(contents(database))?;
                    if found != self.model.now() {
                        return Err(End::Wrong("a scan finds something else".into()));
                    }
                }
                Step::Read => {}
                Step::Checkpoint => {
                    self.tell(database.checkpoint())?;
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

    fn same(
        &self,
        found: Result<Option<Vec<u8>>, Error>,
        effects: &Effects,
        key: &[u8],
    ) -> Result<(), End> {
        match self.tell(found)? == self.now(effects).remove(key) {
            true => Ok(()),
            false => Err(End::Wrong(format!("key {key:?} has another value"))),
        }
    }
}

/// Everything, if it is the same from both ends.
fn contents(database: &Database) -> Result<Records, Error> {
    let all = || database.range::<&[u8]>(..);
    let ascending: Vec<(Vec<u8>, Vec<u8>)> = all().collect::<Result<_, _>>()?;
    let mut descending: Vec<(Vec<u8>, Vec<u8>)> = all().rev().collect::<Result<_, _>>()?;
    descending.reverse();
    assert_eq!(ascending, descending, "both ways");
    assert!(ascending.is_sorted_by(|a, b| a.0 < b.0), "in order");
    Ok(ascending.into_iter().collect())
}
