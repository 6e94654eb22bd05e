//! Panics in the caller's code: in a closure, in an iterator of records, in a storage or a log.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ebbpool::storage::{FaultyDisk, FaultyFile};
use ebbpool_btree::{Database, DatabaseError, DatabaseParts, LogFile};

use crate::parts::{all, open, options, parts};

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn filled(disk: &FaultyDisk) -> Database {
    let mut database = open(disk).unwrap();
    let value = |number: u32| vec![7; if number % 50 == 9 { 20_000 } else { 50 }];
    let records = (0..300).map(|number| Ok::<_, DatabaseError>((key(number), value(number))));
    database.load(records, 0.9).unwrap();
    database
}

#[test]
fn a_closure_that_panics_changes_nothing_and_the_transaction_goes_on() {
    let disk = FaultyDisk::new(0);
    let mut database = filled(&disk);
    let before = all(&database);
    for after in [0, 1, 5, 9, 40, 120] {
        let mut transaction = database.begin();
        transaction.put(&key(1000), b"own").unwrap();
        let mut seen = 0;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            transaction.update_range(&key(0), 200, |_, old| {
                seen += 1;
                assert!(seen <= after, "in a closure");
                Some(vec![8; old.len()])
            })
        }));
        let payload = panicked.unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"in a closure"));
        assert_eq!(seen, after + 1);
        // The pages are usable, the changes of the call are undone, and earlier changes are not.
        assert_eq!(transaction.get(&key(0)).unwrap().unwrap(), [7; 50]);
        assert_eq!(transaction.range::<&[u8]>(..).count(), 301);
        transaction.put(&key(after), &[9; 50]).unwrap();
        transaction.put(&key(after), &[7; 50]).unwrap();
        transaction.commit().unwrap();
        database.delete(&key(1000)).unwrap();
        assert!(all(&database) == restored(&before, after));
        database.checkpoint().unwrap();
        assert_eq!(database.check().unwrap().findings, []);
        database.put(&key(after), &before[after as usize].1).unwrap();
    }
    database.close().unwrap();
    assert!(all(&open(&disk).unwrap()) == before);
}

fn restored(before: &[(Vec<u8>, Vec<u8>)], number: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut records = before.to_vec();
    records[number as usize].1 = vec![7; 50];
    records
}

/// The panic unwinds through the transaction, which is dropped.
#[test]
fn a_transaction_is_rolled_back_by_a_panic() {
    let disk = FaultyDisk::new(0);
    let database = filled(&disk);
    let before = all(&database);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut transaction = database.begin();
        transaction.put(&key(5), b"dirty").unwrap();
        let _ = transaction.update_range(&key(0), 200, |_, _| panic!("in a closure"));
    }));
    assert!(panicked.is_err());
    assert!(all(&database) == before);
    database.put(&key(5), b"new").unwrap();
    database.close().unwrap();
    assert_eq!(open(&disk).unwrap().get(&key(5)).unwrap().unwrap(), b"new");
}

#[test]
fn an_iterator_of_records_may_panic() {
    for after in [0, 1, 30, 200] {
        let disk = FaultyDisk::new(0);
        let mut database = open(&disk).unwrap();
        let records = |after: u32| {
            (0..300).map(move |number| {
                assert!(number < after, "in an iterator");
                Ok::<_, DatabaseError>((key(number), vec![1; 80]))
            })
        };
        let panicked = catch_unwind(AssertUnwindSafe(|| database.load(records(after), 0.9)));
        assert!(panicked.is_err());
        assert!(all(&database).is_empty());
        assert_eq!(database.check().unwrap().findings, []);
        assert_eq!(database.load(records(300), 0.9).unwrap(), 300);
        database.close().unwrap();
        assert_eq!(all(&open(&disk).unwrap()).len(), 300);
    }
}

/// A log's file that panics when the count of writes is up.
struct PanickingFile(FaultyFile, Arc<AtomicI64>);

impl LogFile for PanickingFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(self.1.fetch_sub(1, Ordering::Relaxed) != 0, "in a log");
        self.0.write_at(offset, bytes)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

/// After a panic in the caller's log all calls that write fail, and recovery finds all acknowledged changes
/// in the log.
#[test]
fn a_log_that_panics_breaks_the_database_until_it_is_reopened() {
    let mut broken = 0;
    for nth in 0..60 {
        let disk = FaultyDisk::new(0);
        drop(filled(&disk));
        let left = Arc::new(AtomicI64::new(-1));
        let file = |name| Box::new(PanickingFile(disk.bytes(name), Arc::clone(&left))) as _;
        let panicking = DatabaseParts { log: ["log0", "log1"].map(file), ..parts(&disk) };
        let database = options().open_on(panicking).unwrap();
        left.store(nth, Ordering::Relaxed);
        let mut acknowledged = Vec::new();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            for number in 0..200 {
                database.put(&key(number), &[number as u8; 600]).unwrap();
                acknowledged.push(number);
            }
        }));
        if panicked.is_err() {
            broken += 1;
            // The scan evicts pages, which need the log to be durable first.
            let records: Result<Vec<_>, _> = database.range::<&[u8]>(..).collect();
            drop(records);
            // The log fails from now on. If the pool forced the log, the pool caught the panic and returned
            // an error.
            assert!(database.checkpoint().is_err());
            assert!(database.put(b"k", b"").is_err());
            assert!(database.close().is_err());
        } else {
            drop(database);
        }
        let mut database = open(&disk).unwrap();
        assert_eq!(database.check().unwrap().findings, []);
        for number in acknowledged {
            let value = database.get(&key(number)).unwrap().unwrap();
            assert_eq!(value, [number as u8; 600]);
        }
        assert_eq!(all(&database).len(), 300);
    }
    assert!(broken > 50, "{broken}");
}
