//! The threads that use the database during a life, and check its results.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ebbpool::Lsn;
use ebbpool::storage::{FaultyDisk, PowerOff};
use ebbpool_btree_simulated::{Database, DatabaseError, Durability, Transaction};
use ebbpool_simulation::thread;

use crate::case::{Case, Ending, Operation, Step};
use crate::disk::FaultLog;
use crate::model::{Effects, Model, Records, Value};

/// Why a thread or a life ends before its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    PowerOff,
    /// A torn page was reported, in a case without double writes.
    Reported,
}

/// The payload of a panic that belongs to the script.
pub struct ScriptedPanic;

pub struct Client {
    pub case: Arc<Case>,
    pub database: Arc<Database>,
    pub model: Arc<Model>,
    pub disk: FaultyDisk,
    pub faults: Arc<FaultLog>,
    /// Some of the faults do not pass.
    pub may_break: bool,
    /// The disk has no room, and that is all: the log has what it was promised.
    pub only_full: bool,
    /// No other thread takes checkpoints.
    pub alone: bool,
    /// The number of checkpoints that it knows of, and where the log ended when it saw that number first.
    pub checkpoints: Cell<(u64, Lsn)>,
}

pub fn says_power_off(error: &DatabaseError) -> bool {
    let off = PowerOff.to_string();
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = source {
        // An error that was converted to another one is recognized by its message.
        if inner.is::<PowerOff>() || inner.to_string().contains(&off) {
            return true;
        }
        source = inner.source();
    }
    false
}

fn sleep(microseconds: u64) {
    if microseconds > 0 {
        thread::sleep(Duration::from_micros(microseconds));
    }
}

/// Readers wait for no transaction.
fn without_waiting<T>(outcome: Result<T, DatabaseError>) -> Result<T, DatabaseError> {
    assert!(!matches!(outcome, Err(DatabaseError::Conflict { .. })), "a reader has waited for a transaction");
    outcome
}

impl Client {
    /// Checks that the faults so far explain an error of the database.
    fn judge(&self, error: &DatabaseError) -> Result<(), StopReason> {
        if self.disk.is_off() {
            return Err(StopReason::PowerOff);
        }
        assert!(!says_power_off(error), "the power is said to be off, and is not: {error}");
        let set = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
        use ebbpool::PoolError as Pool;
        let allowed = match error {
            DatabaseError::Conflict { .. } => true,
            DatabaseError::Pool(Pool::Poisoned { .. }) => set(&self.faults.sync_failed),
            DatabaseError::Pool(Pool::Log { .. }) | DatabaseError::Log { .. } if self.only_full => false,
            DatabaseError::Pool(
                Pool::Read { .. } | Pool::Write { .. } | Pool::Log { .. } | Pool::Grow { .. } | Pool::Storage { .. },
            )
            | DatabaseError::Log { .. }
            | DatabaseError::Full { .. }
            | DatabaseError::RolledBack(_) => set(&self.faults.any),
            DatabaseError::Broken(_) => set(&self.faults.any) && self.may_break,
            DatabaseError::Pool(Pool::Damaged { .. }) | DatabaseError::Corrupt { .. } => set(&self.faults.flipped),
            _ => false,
        };
        assert!(allowed, "nothing explains the error: {error}");
        let tally = &mut self.model.state().tally;
        match error {
            DatabaseError::Conflict { .. } => tally.conflicts += 1,
            DatabaseError::Broken(_) => tally.broken += 1,
            _ => tally.refused += 1,
        }
        Ok(())
    }

    pub fn run(&self, script: &[Step]) {
        for step in script {
            if self.step(step).is_err() {
                return;
            }
        }
    }

    fn step(&self, step: &Step) -> Result<(), StopReason> {
        match step {
            Step::Transaction { operations, ending, pause } => self.transaction(operations, *ending, *pause),
            Step::Get { key } => self.get(*key),
            Step::Scan { from, to, descending } => self.scan(*from, *to, *descending),
            Step::Checkpoint => {
                let now = self.model.now();
                let outcome = self.database.checkpoint();
                if self.alone {
                    let failure = self.database.stats().checkpoint_failure;
                    assert_eq!(failure, outcome.as_ref().err().map(|error| error.to_string()), "the failure of a checkpoint");
                }
                match outcome {
                    Ok(()) => self.model.durable_since(now),
                    Err(error) => self.judge(&error)?,
                }
                Ok(())
            }
            Step::Sleep { time } => {
                sleep(*time);
                Ok(())
            }
        }
    }

    fn get(&self, key: u64) -> Result<(), StopReason> {
        let key = self.case.key(key);
        let since = self.model.now();
        match without_waiting(self.database.get(&key)) {
            Ok(found) => self.model.check_get(&key, found.map(Arc::new).as_ref(), since, self.is_synced()),
            Err(error) => self.judge(&error)?,
        }
        Ok(())
    }

    fn scan(&self, from: u64, to: u64, descending: bool) -> Result<(), StopReason> {
        let (from, to) = (self.case.key(from), self.case.key(to));
        let (from, to) = (from.clone().min(to.clone()), from.max(to));
        let since = self.model.now();
        let range = self.database.range(from.clone()..to.clone());
        let found: Result<Vec<_>, DatabaseError> = match descending {
            true => range.rev().collect(),
            false => range.collect(),
        };
        match without_waiting(found) {
            Ok(found) => {
                let records = found.into_iter().map(|(key, value)| (key, Arc::new(value)));
                let records: Records = records.collect();
                self.model.check_scan(&records, |key| *key >= from && *key < to, since, self.is_synced());
            }
            Err(error) => self.judge(&error)?,
        }
        Ok(())
    }

    fn transaction(&self, operations: &[Operation], ending: Ending, pause: u64) -> Result<(), StopReason> {
        let mut transaction = self.database.begin();
        let mut effects = Effects::new();
        for operation in operations {
            sleep(pause);
            match self.operate_on_a_short_log(&mut transaction, operation, &mut effects) {
                Ok(true) => {}
                // After a panic the transaction is dropped.
                Ok(false) => return Ok(()),
                Err(error) => {
                    self.judge(&error)?;
                    return self.roll_back(transaction);
                }
            }
        }
        match ending {
            Ending::Commit => self.commit(transaction, effects),
            Ending::RollBack => self.roll_back(transaction),
            Ending::Drop => Ok(()),
        }
    }

    fn roll_back(&self, transaction: Transaction<'_>) -> Result<(), StopReason> {
        match transaction.rollback() {
            Ok(()) => self.model.state().tally.rolled_back += 1,
            Err(error) => self.judge(&error)?,
        }
        Ok(())
    }

    fn is_synced(&self) -> bool {
        self.case.durability == Durability::Synced
    }

    fn commit(&self, transaction: Transaction<'_>, effects: Effects) -> Result<(), StopReason> {
        // A transaction without changes writes no log, and so says nothing of a commit before it that failed.
        let durable = self.is_synced() && !effects.is_empty();
        let number = self.model.commit(effects);
        match transaction.commit() {
            Ok(()) => {
                self.model.committed(number, durable);
            }
            Err(error) => {
                // After any other error it is undecided whether the transaction has committed.
                match error {
                    DatabaseError::Broken(_) => self.model.refused(number),
                    _ => self.model.late(number),
                }
                self.judge(&error)?;
            }
        }
        Ok(())
    }

    /// Runs one operation. If it makes a change, the log was short enough when it began, or a checkpoint was taken.
    fn operate_on_a_short_log(
        &self,
        transaction: &mut Transaction<'_>,
        operation: &Operation,
        effects: &mut Effects,
    ) -> Result<bool, DatabaseError> {
        let end = self.database.log().end_lsn();
        let taken = || self.database.stats().checkpoints;
        if self.alone && self.checkpoints.get().0 != taken() {
            self.checkpoints.set((taken(), end));
        }
        let outcome = self.operate(transaction, operation, effects)?;
        let changes = !matches!(operation, Operation::Get { .. } | Operation::GetForUpdate { .. });
        let (checkpoints, since) = self.checkpoints.get();
        if self.alone && changes && checkpoints == taken() {
            let (length, every) = (end.saturating_sub(since), self.case.checkpoint_every);
            assert!(length <= 2 * every, "a change begins {length} bytes after a checkpoint, and one is due after {every}");
        }
        Ok(outcome)
    }

    /// Runs one operation. Returns false after a panic that belongs to the script.
    fn operate(
        &self,
        transaction: &mut Transaction<'_>,
        operation: &Operation,
        effects: &mut Effects,
    ) -> Result<bool, DatabaseError> {
        match *operation {
            Operation::Put { key, length, fill } => {
                let key = self.case.key(key);
                let value = value(length, fill);
                transaction.put(&key, &value)?;
                effects.insert(key, Some(value));
            }
            Operation::Delete { key } => {
                let key = self.case.key(key);
                let was = transaction.delete(&key)?;
                if let Some(own) = effects.get(&key) {
                    assert_eq!(was, own.is_some(), "whether key {key:?} was there");
                }
                if was {
                    effects.insert(key, None);
                }
            }
            Operation::Get { key } => {
                let key = self.case.key(key);
                let since = self.model.now();
                let found = without_waiting(transaction.get(&key))?.map(Arc::new);
                self.check_own(&key, found.as_ref(), effects, since);
            }
            Operation::GetForUpdate { key } => {
                let key = self.case.key(key);
                let since = self.model.now();
                let found = transaction.get_for_update(&key)?.map(Arc::new);
                self.check_own(&key, found.as_ref(), effects, since);
            }
            Operation::UpdateRange { from, count, panics_at } => {
                return self.update_range(transaction, from, count, panics_at, effects);
            }
        }
        Ok(true)
    }

    fn check_own(&self, key: &[u8], found: Option<&Value>, effects: &Effects, since: u64) {
        match effects.get(key) {
            Some(own) => assert!(own.as_ref() == found, "key {key:?} is not as its own transaction left it"),
            // It may have got a lock from a transaction whose commit is not durable yet.
            None => self.model.check_get(key, found, since, false),
        }
    }

    fn update_range(
        &self,
        transaction: &mut Transaction<'_>,
        from: u64,
        count: u64,
        panics_at: Option<u64>,
        effects: &mut Effects,
    ) -> Result<bool, DatabaseError> {
        let from = self.case.key(from);
        let since = self.model.now();
        let mut seen = Records::new();
        let mut calls = 0;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            transaction.update_range(&from, count, |key, old| {
                if panics_at == Some(calls) {
                    panic_any(ScriptedPanic);
                }
                calls += 1;
                // The closure may get a key twice, if its page had to be unlatched in between.
                seen.entry(key.to_vec()).or_insert_with(|| Arc::new(old.to_vec()));
                let new = old.iter().map(|byte| byte.wrapping_add(1)).collect();
                (!key.is_empty() && key.len().is_multiple_of(2)).then_some(new)
            })
        }));
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(payload) if payload.is::<ScriptedPanic>() => {
                self.model.state().tally.panics += 1;
                return Ok(false);
            }
            Err(payload) => resume_unwind(payload),
        };
        let found = outcome?;
        assert!(found <= count, "{found} keys of {count}");
        for (key, old) in seen {
            self.check_own(&key, Some(&old), effects, since);
            if !key.is_empty() && key.len().is_multiple_of(2) {
                let new = old.iter().map(|byte| byte.wrapping_add(1)).collect();
                effects.insert(key, Some(Arc::new(new)));
            }
        }
        Ok(true)
    }
}

/// A value that begins with the number `fill`, if it is long enough.
fn value(length: usize, fill: u64) -> Value {
    let mut value = vec![fill as u8; length];
    for (into, from) in value.iter_mut().zip(fill.to_le_bytes()) {
        *into = from;
    }
    Arc::new(value)
}
