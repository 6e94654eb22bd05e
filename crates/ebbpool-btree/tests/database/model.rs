//! The database does what a `BTreeMap` does, of which a copy is kept at each commit, whatever fails.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebbpool::storage::{EIO, Fault, FaultyDisk, Operation};
use ebbpool_btree::{Database, Durability, Error, Transaction};
use proptest::prelude::*;

use crate::parts::{all, open, options, parts};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Op {
    Put(u8, u16),
    Delete(u8),
    Get(u8),
    GetForUpdate(u8),
    /// Between two keys, from the front or the back at each step, by the bits.
    Range(Bound<u8>, Bound<u8>, u64, usize),
    UpdateRange(u8, u64),
    Checkpoint,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Commit,
    Rollback,
    Drop,
    /// The process ends in the middle of it.
    Killed,
    /// The power fails in the middle of it.
    PowerFails(u64),
}

#[derive(Clone, Copy, Debug)]
enum After {
    Nothing,
    Checkpoint,
    Check,
    Close,
    /// Without closing; the disk has everything.
    Drop,
    Crash(u64),
}

#[derive(Clone, Debug)]
struct Step {
    ops: Vec<(Op, Option<(bool, u64)>)>,
    end: End,
    after: After,
}

/// Some of them long, so that inner nodes have few.
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

fn op() -> impl Strategy<Value = Op> {
    let length = prop_oneof![4 => 0..40u16, 2 => 40..120u16, 1 => 120..4000u16];
    let bound = || {
        prop_oneof![
            Just(Bound::Unbounded),
            any::<u8>().prop_map(Bound::Included),
            any::<u8>().prop_map(Bound::Excluded),
        ]
    };
    prop_oneof![
        8 => (any::<u8>(), length).prop_map(|(key, length)| Op::Put(key, length)),
        4 => any::<u8>().prop_map(Op::Delete),
        1 => any::<u8>().prop_map(Op::Get),
        1 => any::<u8>().prop_map(Op::GetForUpdate),
        2 => (bound(), bound(), any::<u64>(), 0..80usize)
            .prop_map(|(from, to, ends, expecting)| Op::Range(from, to, ends, expecting)),
        1 => (any::<u8>(), 0..20u64).prop_map(|(from, count)| Op::UpdateRange(from, count)),
        1 => Just(Op::Checkpoint),
    ]
}

/// Reads or writes of pages that fail, now and then.
fn fault() -> impl Strategy<Value = Option<(bool, u64)>> {
    proptest::option::weighted(0.05, (any::<bool>(), 1..6u64))
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        6 => Just(End::Commit),
        2 => Just(End::Rollback),
        2 => Just(End::Drop),
        1 => Just(End::Killed),
        1 => any::<u64>().prop_map(End::PowerFails),
    ];
    let after = prop_oneof![
        8 => Just(After::Nothing),
        1 => Just(After::Checkpoint),
        1 => Just(After::Check),
        1 => Just(After::Close),
        1 => Just(After::Drop),
        1 => any::<u64>().prop_map(After::Crash),
    ];
    let ops = proptest::collection::vec((op(), fault()), 0..40);
    (ops, end, after).prop_map(|(ops, end, after)| Step { ops, end, after })
}

fn flip(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}

/// Does it, and compares. An error is answered, after which the model is as it was.
fn run(
    database: &Database,
    transaction: &mut Transaction<'_>,
    model: &mut Model,
    op: &Op,
) -> Result<(), Error> {
    match op {
        Op::Checkpoint => database.checkpoint()?,
        Op::Put(number, length) => {
            transaction.put(&key(*number), &value(*number, *length))?;
            model.insert(key(*number), value(*number, *length));
        }
        Op::Delete(number) => {
            let was_there = transaction.delete(&key(*number))?;
            assert_eq!(was_there, model.remove(&key(*number)).is_some());
        }
        Op::Get(number) => {
            let found = transaction.get(&key(*number))?;
            assert_eq!(found.as_ref(), model.get(&key(*number)));
        }
        Op::GetForUpdate(number) => {
            let found = transaction.get_for_update(&key(*number))?;
            assert_eq!(found.as_ref(), model.get(&key(*number)));
        }
        Op::Range(from, to, ends, expecting) => {
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
        Op::UpdateRange(from, count) => {
            let odd = |value: &[u8]| value.len() % 2 == 1;
            let updated = transaction.update_range(&key(*from), *count, |_, value| {
                odd(value).then(|| flip(value))
            })?;
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
    /// Answers whether the database has to be opened anew.
    fn step(&mut self, database: &Database, step: &Step) -> bool {
        let mut model = self.committed.clone();
        let mut transaction = database.begin();
        for (op, fault) in &step.ops {
            if let Some((write, nth)) = fault {
                let on = [Operation::Read, Operation::Write][usize::from(*write)];
                self.disk
                    .inject(Fault::failing(on, EIO).of("data").nth(*nth));
            }
            let outcome = run(database, &mut transaction, &mut model, op);
            self.disk.heal();
            match outcome {
                Ok(()) => {}
                Err(Error::Broken(_)) => return true,
                Err(Error::Pool(_)) if fault.is_some() => self.errors += 1,
                Err(error) => panic!("{error}"),
            }
        }
        let records: Result<Vec<_>, _> = transaction.range::<&[u8]>(..).collect();
        assert!(
            records.expect("every record") == model.clone().into_iter().collect::<Vec<_>>(),
            "a transaction does not see what it did"
        );
        match step.end {
            End::Commit => {
                transaction.commit().expect("committed");
                self.committed = model;
            }
            End::Rollback => transaction.rollback().expect("rolled back"),
            End::Drop => drop(transaction),
            End::Killed => {
                std::mem::forget(transaction);
                return true;
            }
            End::PowerFails(seed) => {
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
    fn it_is_a_map_with_commits(steps in proptest::collection::vec(step(), 1..30)) {
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
                After::Nothing => {}
                After::Checkpoint => database.checkpoint().unwrap(),
                After::Check => check(&mut database),
                After::Close => {
                    database.close().unwrap();
                    database = run.reopened();
                }
                After::Drop => {
                    drop(database);
                    database = run.reopened();
                }
                After::Crash(seed) => {
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
    fn what_is_loaded_is_there_or_nothing_of_it(
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
            disk.inject(Fault::crash(Operation::Change, seed).nth(nth));
        }
        let outcome = database.load(
            records.iter().enumerate().map(|(at, record)| match fails_at {
                Some(fails_at) if at == fails_at => Err(TheirError::Own),
                _ => Ok(record.clone()),
            }),
            fill,
        );
        let fails = fails_at.is_some_and(|at| at < there);
        let crashed = disk.is_off();
        match &outcome {
            Ok(count) => prop_assert!(!fails && *count == there as u64),
            Err(TheirError::Own) => prop_assert!(fails),
            Err(TheirError::Database(error)) => prop_assert!(crashed, "{error}"),
        }
        if !crashed {
            disk.heal();
            check(&mut database);
            if fails {
                prop_assert!(all(&database).is_empty());
                database.put(b"a", b"b").unwrap();
                database.delete(b"a").unwrap();
            }
            prop_assert_eq!(database.load(records.iter().cloned().map(Ok::<_, Error>), fill).is_ok(), fails || there == 0);
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
enum TheirError {
    Own,
    Database(Error),
}

impl From<Error> for TheirError {
    fn from(error: Error) -> Self {
        TheirError::Database(error)
    }
}

#[test]
fn refused_keys_values_and_records_change_nothing() {
    let disk = FaultyDisk::new(0);
    let mut database = open(&disk).unwrap();
    let mut transaction = database.begin();
    transaction.put(b"k", b"v").unwrap();
    let long = transaction.put(&[0; 500], b"");
    assert!(matches!(long, Err(Error::KeyTooLong { length: 500, most }) if most < 500));
    let long = transaction.put(b"k", &vec![0; (64 << 20) + 1]);
    assert!(matches!(long, Err(Error::ValueTooLong { .. })));
    let other = transaction.update_range(b"", 9, |_, _| Some(vec![0; 9]));
    assert!(matches!(other, Err(Error::Options(_))));
    transaction.commit().unwrap();
    assert_eq!(database.get(b"k").unwrap(), Some(b"v".to_vec()));
    let load = |database: &mut Database, keys: &[&[u8]]| {
        let records: Vec<_> = keys.iter().map(|key| Ok((key.to_vec(), vec![]))).collect();
        database.load::<Error>(records, 1.0)
    };
    assert!(matches!(load(&mut database, &[b"a"]), Err(Error::NotEmpty)));
    database.delete(b"k").unwrap();
    let unsorted = load(&mut database, &[b"a", b"b", b"b"]);
    assert!(matches!(unsorted, Err(Error::Unsorted { record: 3 })));
    assert!(all(&database).is_empty());
    assert_eq!(load(&mut database, &[b"", b"b"]).unwrap(), 2);
    for fill in [0.0, -1.0, 1.1, f64::NAN] {
        let refused = database.load::<Error>([], fill);
        assert!(matches!(refused, Err(Error::Options(_))), "{fill}");
    }
}

/// The log keeps what it takes to undo a transaction, for as long as that lasts.
#[test]
fn a_long_transaction_is_taken_back_whole_in_the_end() {
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
        let kept = database.stats().log_length;
        assert!(kept > 100_000, "{kept}");
        if power_fails {
            std::mem::forget(long);
            disk.crash(1);
            drop(database);
            disk.restart();
            database = open(&disk).unwrap();
        } else {
            long.rollback().unwrap();
            work();
            let kept = database.stats().log_length;
            assert!(kept < 50_000, "{kept}");
        }
        assert_eq!(database.get(b"a").unwrap().unwrap(), b"old");
        assert_eq!(database.get(b"b").unwrap().unwrap(), b"old");
        assert_eq!(all(&database).len(), 52);
        check(&mut database);
    }
}

/// Its last changes were never written, and nothing of it may be redone on what storage has.
#[test]
fn pages_are_freed_while_a_checkpoint_is_under_way() {
    for seed in 0..20 {
        let disk = FaultyDisk::new(0);
        let one_by_one = options().pool(|pool| pool.batch(1));
        let mut database = one_by_one.open_on(parts(&disk)).unwrap();
        let key = |number: u16| number.to_be_bytes().to_vec();
        let records = (0..100).map(|number| Ok::<_, Error>((key(number), vec![1; 40])));
        database.load(records, 0.5).unwrap();
        let database = Arc::new(database);
        let more = move |number| [1, 2].map(|last| [key(number), vec![last]].concat());
        for key in (60..100).flat_map(more) {
            database.put(&key, b"").unwrap();
        }
        let (other, begun) = (Arc::downgrade(&database), AtomicBool::new(false));
        disk.observe(move |io| {
            let of_data = io.file == "data" && io.operation == Operation::Write;
            if !of_data || begun.swap(true, Ordering::SeqCst) {
                return;
            }
            let database = other.upgrade().expect("it is at work");
            // From the end on: what storage has of a leaf has no such slot.
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
fn what_did_not_change_anything_is_not_logged() {
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
        database
            .put(&(round % 100).to_be_bytes(), &[7; 100])
            .unwrap();
    }
    let stats = database.stats();
    assert!(
        stats.checkpoints > 10 && stats.log_bytes > 300_000,
        "{stats:?}"
    );
    assert!(stats.log_length < 64 << 10, "{}", stats.log_length);
    let lengths = ["log0", "log1"].map(|name| disk.bytes(name).len().unwrap());
    assert!(lengths.iter().sum::<u64>() < 160 << 10, "{lengths:?}");
}

/// Pages that are loaded into had a life before.
#[test]
fn what_is_loaded_after_everything_was_removed_can_be_read() {
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
    let loaded = database.load(records.iter().cloned().map(Ok::<_, Error>), 0.9);
    assert_eq!(loaded.unwrap(), 2000);
    assert!(all(&database) == records);
    check(&mut database);
    for (key, value) in &records {
        assert_eq!(database.get(key).unwrap().as_ref(), Some(value));
    }
    database.close().unwrap();
    assert!(all(&open(&disk).unwrap()) == records);
}

/// What the load says is true of the database counts, whatever commits were to be: it is empty, durably.
#[test]
fn a_load_of_nothing_makes_what_was_removed_before_it_durable() {
    let disk = FaultyDisk::new(0);
    let mut database = open(&disk).unwrap();
    database.put(b"key", b"value").unwrap();
    database.close().unwrap();
    let options = options().durability(Durability::None);
    database = options.open_on(parts(&disk)).unwrap();
    database.delete(b"key").unwrap();
    let nothing = std::iter::empty::<Result<_, Error>>();
    assert_eq!(database.load(nothing, 0.9).unwrap(), 0);
    disk.crash(0);
    drop(database);
    disk.restart();
    assert!(all(&open(&disk).unwrap()).is_empty());
}
