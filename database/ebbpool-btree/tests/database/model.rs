//! Compares the database with a `BTreeMap` that is copied at each commit, with failures of all kinds.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebbpool::storage::{DiskOperation, EIO, Fault, FaultyDisk};
use ebbpool_btree::{Database, DatabaseError, Durability, Transaction};
use proptest::prelude::*;

use crate::parts::{all, open, options, parts};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum ModelOperation {
    Put(u8, u16),
    Delete(u8),
    Get(u8),
    GetForUpdate(u8),
    /// Reads between two keys, at each step from the front or the back, as the bits say.
    Range(Bound<u8>, Bound<u8>, u64, usize),
    UpdateRange(u8, u64),
    Checkpoint,
}

#[derive(Clone, Copy, Debug)]
enum TransactionEnd {
    Commit,
    Rollback,
    Drop,
    /// The process ends in the middle of the transaction.
    Killed,
    /// The power fails in the middle of the transaction.
    PowerFails(u64),
}

#[derive(Clone, Copy, Debug)]
enum NextAction {
    Nothing,
    Checkpoint,
    Check,
    Close,
    Shrink,
    /// The database is dropped without closing; the disk has all writes.
    Drop,
    Crash(u64),
}

#[derive(Clone, Debug)]
struct Step {
    ops: Vec<(ModelOperation, Option<(bool, u64)>)>,
    end: TransactionEnd,
    after: NextAction,
}

/// A key. Some are long, so that inner nodes have few cells.
fn key(number: u8) -> Vec<u8> {
    let length = usize::from(number) * 7 % 59;
    let mut key = vec![number / 4; length / 2];
    key.extend(vec![number; length - length / 2]);
    key
}

fn value(number: u8, length: u16) -> Vec<u8> {
    let byte = |at| (usize::from(number) * 31 + usize::from(length) + at) as u8;
    (0..usize::from(length)).map(byte).collect()
}

fn op() -> impl Strategy<Value = ModelOperation> {
    let length = prop_oneof![4 => 0..40u16, 2 => 40..120u16, 1 => 120..4000u16];
    let bound =
        || prop_oneof![Just(Bound::Unbounded), any::<u8>().prop_map(Bound::Included), any::<u8>().prop_map(Bound::Excluded),];
    prop_oneof![
        8 => (any::<u8>(), length).prop_map(|(key, length)| ModelOperation::Put(key, length)),
        4 => any::<u8>().prop_map(ModelOperation::Delete),
        1 => any::<u8>().prop_map(ModelOperation::Get),
        1 => any::<u8>().prop_map(ModelOperation::GetForUpdate),
        2 => (bound(), bound(), any::<u64>(), 0..80usize)
            .prop_map(|(from, to, ends, expecting)| ModelOperation::Range(from, to, ends, expecting)),
        1 => (any::<u8>(), 0..20u64).prop_map(|(from, count)| ModelOperation::UpdateRange(from, count)),
        1 => Just(ModelOperation::Checkpoint),
    ]
}

/// Failures of some reads or writes of pages.
fn fault() -> impl Strategy<Value = Option<(bool, u64)>> {
    proptest::option::weighted(0.05, (any::<bool>(), 1..6u64))
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        6 => Just(TransactionEnd::Commit),
        2 => Just(TransactionEnd::Rollback),
        2 => Just(TransactionEnd::Drop),
        1 => Just(TransactionEnd::Killed),
        1 => any::<u64>().prop_map(TransactionEnd::PowerFails),
    ];
    let after = prop_oneof![
        8 => Just(NextAction::Nothing),
        1 => Just(NextAction::Checkpoint),
        1 => Just(NextAction::Check),
        1 => Just(NextAction::Close),
        1 => Just(NextAction::Shrink),
        1 => Just(NextAction::Drop),
        1 => any::<u64>().prop_map(NextAction::Crash),
    ];
    let ops = proptest::collection::vec((op(), fault()), 0..40);
    (ops, end, after).prop_map(|(ops, end, after)| Step { ops, end, after })
}

fn flip(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}

/// Runs an operation and compares the result with the model. After an error the model is unchanged.
fn run(
    database: &Database,
    transaction: &mut Transaction<'_>,
    model: &mut Model,
    op: &ModelOperation,
) -> Result<(), DatabaseError> {
    match op {
        ModelOperation::Checkpoint => database.checkpoint()?,
        ModelOperation::Put(number, length) => {
            transaction.put(&key(*number), &value(*number, *length))?;
            model.insert(key(*number), value(*number, *length));
        }
        ModelOperation::Delete(number) => {
            let was_there = transaction.delete(&key(*number))?;
            assert_eq!(was_there, model.remove(&key(*number)).is_some());
        }
        ModelOperation::Get(number) => {
            let found = transaction.get(&key(*number))?;
            assert_eq!(found.as_ref(), model.get(&key(*number)));
        }
        ModelOperation::GetForUpdate(number) => {
            let found = transaction.get_for_update(&key(*number))?;
            assert_eq!(found.as_ref(), model.get(&key(*number)));
        }
        ModelOperation::Range(from, to, ends, expecting) => {
            let bounds = (from.map(key), to.map(key));
            let mut range = transaction.range::<Vec<u8>>(bounds.clone());
            if *expecting > 0 {
                range = range.expecting(*expecting);
            }
            let within = |key: &&Vec<u8>| std::ops::RangeBounds::contains(&bounds, *key);
            let keys = model.keys().filter(within);
            let mut expected: std::collections::VecDeque<_> = keys.collect();
            for at in 0.. {
                let (record, key) = match ends >> (at % 64) & 1 {
                    0 => (range.next(), expected.pop_front()),
                    _ => (range.next_back(), expected.pop_back()),
                };
                let record = record.transpose()?;
                let expected = key.map(|key| (key.clone(), model[key].clone()));
                assert_eq!(record, expected);
                if record.is_none() {
                    break;
                }
            }
        }
        ModelOperation::UpdateRange(from, count) => {
            let odd = |value: &[u8]| value.len() % 2 == 1;
            let updated = transaction.update_range(&key(*from), *count, |_, value| odd(value).then(|| flip(value)))?;
            let mut seen = 0;
            for (_, value) in model.range_mut(key(*from)..).take(*count as usize) {
                seen += 1;
                if odd(value) {
                    *value = flip(value);
                }
            }
            assert_eq!(updated, seen);
        }
    }
    Ok(())
}

fn compare(database: &Database, model: &Model) {
    let expected: Vec<_> = model.clone().into_iter().collect();
    assert!(all(database) == expected, "records differ");
}

fn check(database: &mut Database) {
    let report = database.check().expect("checked");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

struct Run {
    disk: FaultyDisk,
    committed: Model,
    errors: usize,
}

impl Run {
    /// Runs a step, and returns whether the database has to be reopened.
    fn step(&mut self, database: &Database, step: &Step) -> bool {
        let mut model = self.committed.clone();
        let mut transaction = database.begin();
        for (op, fault) in &step.ops {
            if let Some((write, nth)) = fault {
                let on = [DiskOperation::Read, DiskOperation::Write][usize::from(*write)];
                self.disk.inject(Fault::failing(on, EIO).in_file("data").nth(*nth));
            }
            let outcome = run(database, &mut transaction, &mut model, op);
            self.disk.heal();
            match outcome {
                Ok(()) => {}
                Err(DatabaseError::Broken(_)) => return true,
                Err(DatabaseError::Pool(_)) if fault.is_some() => self.errors += 1,
                Err(error) => panic!("{error}"),
            }
        }
        let records: Result<Vec<_>, _> = transaction.range::<&[u8]>(..).collect();
        assert!(
            records.expect("every record") == model.clone().into_iter().collect::<Vec<_>>(),
            "a transaction does not see what it did"
        );
        match step.end {
            TransactionEnd::Commit => {
                transaction.commit().expect("committed");
                self.committed = model;
            }
            TransactionEnd::Rollback => transaction.rollback().expect("rolled back"),
            TransactionEnd::Drop => drop(transaction),
            TransactionEnd::Killed => {
                std::mem::forget(transaction);
                return true;
            }
            TransactionEnd::PowerFails(seed) => {
                self.disk.crash(seed);
                return true;
            }
        }
        false
    }

    fn reopened(&self) -> Database {
        let mut database = open(&self.disk).expect("reopened");
        compare(&database, &self.committed);
        check(&mut database);
        database
    }
}

proptest! {
    #[test]
    fn the_database_is_a_map_with_commits(steps in proptest::collection::vec(step(), 1..30)) {
        let disk = FaultyDisk::new(0);
        let mut database = open(&disk).unwrap();
        let mut run = Run { disk, committed: Model::new(), errors: 0 };
        for step in &steps {
            let ended = run.step(&database, step);
            if ended {
                drop(database);
                if run.disk.is_off() {
                    run.disk.restart();
                }
                database = run.reopened();
                continue;
            }
            match step.after {
                NextAction::Nothing => {}
                NextAction::Checkpoint => database.checkpoint().unwrap(),
                NextAction::Shrink => {
                    let shrunk = database.shrink().unwrap();
                    prop_assert!(shrunk.pages <= shrunk.before && database.free_pages().unwrap() == 0, "{shrunk:?}");
                    check(&mut database);
                }
                NextAction::Check => check(&mut database),
                NextAction::Close => {
                    database.close().unwrap();
                    database = run.reopened();
                }
                NextAction::Drop => {
                    drop(database);
                    database = run.reopened();
                }
                NextAction::Crash(seed) => {
                    run.disk.crash(seed);
                    drop(database);
                    run.disk.restart();
                    database = run.reopened();
                }
            }
            compare(&database, &run.committed);
        }
        check(&mut database);
        database.close().unwrap();
        prop_assert!(run.disk.violations().is_empty());
        run.reopened();
    }

    #[test]
    fn a_load_takes_effect_as_a_whole_or_not_at_all(
        numbers in proptest::collection::btree_set(any::<u16>(), 0..300),
        length in 0..300usize,
        fill in 0.3..1.0f64,
        fails_at in proptest::option::of(0..300usize),
        crash in proptest::option::of((1..200u64, any::<u64>())),
    ) {
        let disk = FaultyDisk::new(0);
        let mut database = open(&disk).unwrap();
        let record = |number: u16| (number.to_be_bytes().to_vec(), vec![number as u8; length]);
        let records: Vec<_> = numbers.iter().map(|&number| record(number)).collect();
        let there = records.len();
        if let Some((nth, seed)) = crash {
            disk.inject(Fault::crash(DiskOperation::Change, seed).nth(nth));
        }
        let outcome = database.load(
            records.iter().enumerate().map(|(at, record)| match fails_at {
                Some(fails_at) if at == fails_at => Err(CallerError::Own),
                _ => Ok(record.clone()),
            }),
            fill,
        );
        let fails = fails_at.is_some_and(|at| at < there);
        let crashed = disk.is_off();
        match &outcome {
            Ok(count) => prop_assert!(!fails && *count == there as u64),
            Err(CallerError::Own) => prop_assert!(fails),
            Err(CallerError::Database(error)) => prop_assert!(crashed, "{error}"),
        }
        if !crashed {
            disk.heal();
            check(&mut database);
            if fails {
                prop_assert!(all(&database).is_empty());
                database.put(b"a", b"b").unwrap();
                database.delete(b"a").unwrap();
            }
            prop_assert_eq!(database.load(records.iter().cloned().map(Ok::<_, DatabaseError>), fill).is_ok(), fails || there == 0);
        }
        drop(database);
        if crashed {
            disk.restart();
        }
        let mut database = open(&disk).unwrap();
        let found = all(&database);
        match (crashed, outcome.is_ok()) {
            (true, false) => prop_assert!(found.is_empty() || found == records),
            _ => prop_assert!(found == records),
        }
        check(&mut database);
    }
}

#[derive(Debug)]
enum CallerError {
    Own,
    Database(DatabaseError),
}

impl From<DatabaseError> for CallerError {
    fn from(error: DatabaseError) -> Self {
        CallerError::Database(error)
    }
}

#[test]
fn refused_keys_values_and_records_change_nothing() {
    let disk = FaultyDisk::new(0);
    let mut database = open(&disk).unwrap();
    let mut transaction = database.begin();
    transaction.put(b"k", b"v").unwrap();
    let long = transaction.put(&[0; 500], b"");
    assert!(matches!(long, Err(DatabaseError::KeyTooLong { length: 500, most }) if most < 500));
    let long = transaction.put(b"k", &vec![0; (64 << 20) + 1]);
    assert!(matches!(long, Err(DatabaseError::ValueTooLong { .. })));
    let other = transaction.update_range(b"", 9, |_, _| Some(vec![0; 9]));
    assert!(matches!(other, Err(DatabaseError::Options(_))));
    transaction.commit().unwrap();
    assert_eq!(database.get(b"k").unwrap(), Some(b"v".to_vec()));
    let load = |database: &mut Database, keys: &[&[u8]]| {
        let records: Vec<_> = keys.iter().map(|key| Ok((key.to_vec(), vec![]))).collect();
        database.load::<DatabaseError>(records, 1.0)
    };
    assert!(matches!(load(&mut database, &[b"a"]), Err(DatabaseError::NotEmpty)));
    database.delete(b"k").unwrap();
    let unsorted = load(&mut database, &[b"a", b"b", b"b"]);
    assert!(matches!(unsorted, Err(DatabaseError::Unsorted { record: 3 })));
    assert!(all(&database).is_empty());
    assert_eq!(load(&mut database, &[b"", b"b"]).unwrap(), 2);
    for fill in [0.0, -1.0, 1.1, f64::NAN] {
        let refused = database.load::<DatabaseError>([], fill);
        assert!(matches!(refused, Err(DatabaseError::Options(_))), "{fill}");
    }
}

/// The log retains the records that undo a transaction until the transaction ends.
#[test]
fn a_long_transaction_can_be_rolled_back_completely() {
    for power_fails in [false, true] {
        let disk = FaultyDisk::new(0);
        let mut database = open(&disk).unwrap();
        database.put(b"a", b"old").unwrap();
        database.put(b"b", b"old").unwrap();
        let mut long = database.begin();
        long.put(b"a", b"new").unwrap();
        long.delete(b"b").unwrap();
        long.put(b"c", &[1; 2000]).unwrap();
        let work = || {
            for round in 0..1000u32 {
                let key = [b'k', (round % 50) as u8];
                database.put(&key, &[round as u8; 60]).unwrap();
            }
        };
        work();
        let log_length = database.stats().log_length;
        assert!(log_length > 100_000, "{log_length}");
        if power_fails {
            std::mem::forget(long);
            disk.crash(1);
            drop(database);
            disk.restart();
            database = open(&disk).unwrap();
        } else {
            long.rollback().unwrap();
            work();
            let log_length = database.stats().log_length;
            assert!(log_length < 50_000, "{log_length}");
        }
        assert_eq!(database.get(b"a").unwrap().unwrap(), b"old");
        assert_eq!(database.get(b"b").unwrap().unwrap(), b"old");
        assert_eq!(all(&database).len(), 52);
        check(&mut database);
    }
}

/// The last changes of such pages are never written, and none of them may be redone on the pages in
/// storage.
#[test]
fn pages_may_be_freed_during_a_checkpoint() {
    for seed in 0..20 {
        let disk = FaultyDisk::new(0);
        // The changes below do not wait for the checkpoint that is under way.
        let one_by_one = options().checkpoint_every(1 << 20).pool(|pool| pool.batch(1));
        let mut database = one_by_one.open_on(parts(&disk)).unwrap();
        let key = |number: u16| number.to_be_bytes().to_vec();
        let records = (0..100).map(|number| Ok::<_, DatabaseError>((key(number), vec![1; 40])));
        database.load(records, 0.5).unwrap();
        let database = Arc::new(database);
        let more = move |number| [1, 2].map(|last| [key(number), vec![last]].concat());
        for key in (60..100).flat_map(more) {
            database.put(&key, b"").unwrap();
        }
        let (other, begun) = (Arc::downgrade(&database), AtomicBool::new(false));
        disk.observe(move |io| {
            let of_data = io.file == "data" && io.operation == DiskOperation::Write;
            if !of_data || begun.swap(true, Ordering::SeqCst) {
                return;
            }
            let database = other.upgrade().expect("the database is open");
            // From the end on, so that a leaf in storage lacks the slots of later changes.
            let keys = (60..100).rev().flat_map(|number| {
                let [one, two] = more(number);
                [two, one, key(number)]
            });
            for key in keys {
                assert!(database.delete(&key).expect("deleted"));
            }
        });
        database.checkpoint().unwrap();
        disk.observe_no_more();
        let expected = all(&database);
        assert_eq!(expected.len(), 60);
        disk.crash(seed);
        drop(database);
        disk.restart();
        let mut database = open(&disk).unwrap();
        assert_eq!(all(&database), expected);
        check(&mut database);
    }
}

#[test]
fn transactions_without_changes_are_not_logged() {
    let disk = FaultyDisk::new(0);
    let database = open(&disk).unwrap();
    database.put(b"k", b"v").unwrap();
    let before = database.stats();
    assert!(!database.delete(b"none").unwrap());
    let mut reads = database.begin();
    reads.get_for_update(b"k").unwrap();
    reads.commit().unwrap();
    database.begin().rollback().unwrap();
    let after = database.stats();
    assert_eq!(before.log_length, after.log_length);
    assert_eq!((before.log_syncs, after.commits), (after.log_syncs, 3));
}

#[test]
fn the_log_does_not_grow_for_ever() {
    let disk = FaultyDisk::new(0);
    let database = open(&disk).unwrap();
    for round in 0..3000u32 {
        database.put(&(round % 100).to_be_bytes(), &[7; 100]).unwrap();
    }
    let stats = database.stats();
    assert!(stats.checkpoints > 10 && stats.log_bytes > 300_000, "{stats:?}");
    assert!(stats.log_length < 64 << 10, "{}", stats.log_length);
    let lengths = ["log0", "log1"].map(|name| disk.bytes(name).len().unwrap());
    assert!(lengths.iter().sum::<u64>() < 160 << 10, "{lengths:?}");
}

/// A load uses pages that had other content before.
#[test]
fn records_loaded_after_all_were_removed_can_be_read() {
    let disk = FaultyDisk::new(0);
    let mut database = open(&disk).unwrap();
    let key = |number: u32| number.to_be_bytes().to_vec();
    for number in 0..2000 {
        database.put(&key(number), &[7; 40]).unwrap();
    }
    database.checkpoint().unwrap();
    for number in 0..2000 {
        database.delete(&key(number)).unwrap();
    }
    database.checkpoint().unwrap();
    let records: Vec<_> = (0..2000).map(|number| (key(number), vec![9; 40])).collect();
    let loaded = database.load(records.iter().cloned().map(Ok::<_, DatabaseError>), 0.9);
    assert_eq!(loaded.unwrap(), 2000);
    assert!(all(&database) == records);
    check(&mut database);
    for (key, value) in &records {
        assert_eq!(database.get(key).unwrap().as_ref(), Some(value));
    }
    database.close().unwrap();
    assert!(all(&open(&disk).unwrap()) == records);
}

/// A load of no records promises a durably empty database, at any durability of commits.
#[test]
fn a_load_of_no_records_makes_earlier_removals_durable() {
    let disk = FaultyDisk::new(0);
    let mut database = open(&disk).unwrap();
    database.put(b"key", b"value").unwrap();
    database.close().unwrap();
    let options = options().durability(Durability::None);
    database = options.open_on(parts(&disk)).unwrap();
    database.delete(b"key").unwrap();
    let nothing = std::iter::empty::<Result<_, DatabaseError>>();
    assert_eq!(database.load(nothing, 0.9).unwrap(), 0);
    disk.crash(0);
    drop(database);
    disk.restart();
    assert!(all(&open(&disk).unwrap()).is_empty());
}
