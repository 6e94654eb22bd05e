//! Shrinking of the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ebbpool::storage::{DiskOperation, EIO, Fault, FaultyDisk, MemoryStorage};
use ebbpool::{PoolError, storage};
use ebbpool_btree::{Database, DatabaseError, DatabaseOptions, DatabaseParts};

use crate::parts::{PAGE, all, open, options, parts};

type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// The pages that an allocation map covers.
const SPAN: u64 = 3700;

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A database with two long values over several allocation maps, and short ones, of which most are deleted again. Returns what is left.
fn fragmented(disk: &FaultyDisk) -> (Database, Records) {
    let database = open(disk).unwrap();
    for number in 0..600 {
        database.put(&key(number), &vec![number as u8; number as usize % 97]).unwrap();
        match number {
            200 => database.put(b"long", &vec![3; 2 * SPAN as usize * PAGE]).unwrap(),
            300 => database.put(b"other", &vec![4; 5000]).unwrap(),
            _ => {}
        }
    }
    for number in (0..600).filter(|number| number % 8 != 0) {
        database.delete(&key(number)).unwrap();
    }
    database.delete(b"long").unwrap();
    let left = all(&database);
    (database, left)
}

fn is_whole(mut database: Database, expected: &Records) -> Database {
    assert!(all(&database) == *expected);
    let report = database.check().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    database
}

#[test]
fn the_file_keeps_the_pages_in_use_and_grows_again() {
    let disk = FaultyDisk::new(0);
    let (mut database, expected) = fragmented(&disk);
    let shrunk = database.shrink().unwrap();
    assert!(shrunk.before > 2 * SPAN && shrunk.pages < 60 && shrunk.moved > 20, "{shrunk:?}");
    assert_eq!((database.free_pages().unwrap(), database.stats().pages), (0, shrunk.pages));
    assert_eq!(disk.bytes("data").len().unwrap(), shrunk.pages * PAGE as u64);
    let mut database = is_whole(database, &expected);
    let again = database.shrink().unwrap();
    assert_eq!((again.before, again.pages, again.moved), (shrunk.pages, shrunk.pages, 0));
    database.close().unwrap();
    let database = is_whole(open(&disk).unwrap(), &expected);
    // Over maps that were cut off.
    database.put(b"long", &vec![5; 2 * SPAN as usize * PAGE]).unwrap();
    let expected = all(&database);
    disk.crash(1);
    drop(database);
    disk.restart();
    let mut database = is_whole(open(&disk).unwrap(), &expected);
    database.delete(b"long").unwrap();
    assert_eq!(database.shrink().unwrap().pages, shrunk.pages);
}

/// The power fails, or an operation fails, at each operation of the disk in turn.
#[test]
fn a_failure_at_any_moment_loses_nothing() {
    let disk = FaultyDisk::new(0);
    let (database, expected) = fragmented(&disk);
    database.close().unwrap();
    let (mut failed, mut shortened) = (0, 0);
    for during in [DiskOperation::Write, DiskOperation::Sync, DiskOperation::Resize, DiskOperation::Read] {
        for crash in [true, false] {
            for nth in (1..).map(|n| n * n / 8 + 1).take(40) {
                let disk = disk.fork(nth);
                let mut database = open(&disk).unwrap();
                let fault = if crash { Fault::crash(during, nth) } else { Fault::failing(during, EIO) };
                disk.inject(fault.nth(nth));
                let shrunk = database.shrink();
                let is_off = disk.is_off();
                if shrunk.is_ok() && !is_off {
                    break;
                }
                failed += 1;
                drop(database);
                disk.restart();
                disk.heal();
                let mut database = is_whole(open(&disk).unwrap(), &expected);
                shortened += u64::from(database.stats().pages < SPAN);
                assert!(database.shrink().unwrap().pages < 60);
                is_whole(database, &expected);
            }
        }
    }
    assert!(failed > 60 && shortened > 0, "{failed} failures, the file was short after {shortened}");
}

#[test]
fn an_error_leaves_the_database_as_it_was_and_usable() {
    for during in [DiskOperation::Resize, DiskOperation::Read, DiskOperation::Write] {
        let disk = FaultyDisk::new(0);
        let (database, mut expected) = fragmented(&disk);
        database.close().unwrap();
        let mut database = open(&disk).unwrap();
        disk.inject(Fault::failing(during, EIO).in_file("data").forever());
        let error = database.shrink().unwrap_err();
        disk.heal();
        assert!(!matches!(error, DatabaseError::Broken(_)), "{error}");
        let is_cut = matches!(error, DatabaseError::Pool(PoolError::Truncate { .. }));
        assert_eq!(is_cut, during == DiskOperation::Resize, "{error}");
        // New pages are those that were not cut off, with their map.
        database.put(b"later", &vec![9; 2 * SPAN as usize * PAGE]).unwrap();
        expected.push((b"later".to_vec(), vec![9; 2 * SPAN as usize * PAGE]));
        expected.sort();
        disk.crash(7);
        drop(database);
        disk.restart();
        let mut database = is_whole(open(&disk).unwrap(), &expected);
        database.delete(b"later").unwrap();
        assert!(database.shrink().unwrap().pages < 60);
    }
}

/// The free pages at the end make room for the log, which moves the rest.
#[test]
fn a_file_on_a_full_disk_becomes_shorter() {
    for room in [0, 1000, 10_000] {
        let disk = FaultyDisk::new(0);
        let (database, expected) = fragmented(&disk);
        database.put(b"last", &vec![1; 100 * PAGE]).unwrap();
        database.delete(b"last").unwrap();
        drop(database);
        let mut database = open(&disk).unwrap();
        disk.set_capacity(disk.used() + room);
        assert!(database.shrink().unwrap().pages < 60);
        assert_eq!(database.free_pages().unwrap(), 0);
        is_whole(database, &expected);
    }
}

/// A storage that cannot become shorter.
struct Rigid(MemoryStorage);

impl storage::Storage for Rigid {
    fn page_size(&self) -> usize {
        self.0.page_size()
    }
    fn pages(&self) -> std::io::Result<u64> {
        self.0.pages()
    }
    fn grow(&self, pages: u64) -> std::io::Result<()> {
        self.0.grow(pages)
    }
    fn read(&self, reads: &mut [storage::Read<'_>]) -> Option<f64> {
        self.0.read(reads)
    }
    fn write(&self, writes: &mut [storage::Write<'_>]) -> Option<f64> {
        self.0.write(writes)
    }
    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
    fn describe(&self) -> String {
        "rigid".into()
    }
}

#[test]
fn a_storage_that_keeps_its_length_is_an_error_that_passes() {
    let disk = FaultyDisk::new(0);
    let parts = DatabaseParts { pages: Box::new(Rigid(MemoryStorage::new(PAGE))), ..parts(&disk) };
    let mut database = options().open_on(parts).unwrap();
    database.put(b"long", &vec![1; 2 * SPAN as usize * PAGE]).unwrap();
    database.put(b"key", b"1").unwrap();
    database.delete(b"long").unwrap();
    let error = database.shrink().unwrap_err().to_string();
    assert!(error.contains("cannot be cut off"), "{error}");
    database.put(b"long", &vec![2; 2 * SPAN as usize * PAGE]).unwrap();
    let expected = all(&database);
    is_whole(database, &expected);
}

#[test]
fn a_file_becomes_shorter_and_one_that_is_read_only_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("my.db");
    let mut database = DatabaseOptions::new(64).open(&path).unwrap();
    let value = |number: u32| vec![number as u8; if number == 700 { 1 << 20 } else { 900 }];
    (0..1000).for_each(|number| database.put(&key(number), &value(number)).unwrap());
    (0..1000).filter(|number| number % 9 != 0).for_each(|number| assert!(database.delete(&key(number)).unwrap()));
    let expected = all(&database);
    let before = std::fs::metadata(&path).unwrap().len();
    let log = || [".log0", ".log1"].map(|end| std::fs::metadata(format!("{}{end}", path.display())).unwrap().len());
    assert!(log().iter().sum::<u64>() > 1 << 20);
    let shrunk = database.shrink().unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!(bytes == shrunk.pages * 4096 && before == shrunk.before * 4096 && bytes * 4 < before, "{shrunk:?}");
    assert!(log().iter().all(|&length| length < 9000), "{:?}", log());
    is_whole(database, &expected).close().unwrap();
    let mut reader = DatabaseOptions::new(64).read_only(true).open(&path).unwrap();
    assert!(matches!(reader.shrink(), Err(DatabaseError::ReadOnly)));
    is_whole(reader, &expected);
}

/// The checkpoint thread undoes a transaction whose rollback has failed at first.
#[test]
fn a_rollback_that_goes_on_ends_before_pages_move() {
    for seed in 0..8 {
        let disk = FaultyDisk::new(seed);
        let mut database = options().background(true).open_on(parts(&disk)).unwrap();
        database.put(b"long", &vec![3; 1000 * PAGE]).unwrap();
        // More leaves than frames, so that the rollback has to read.
        (0..1000).for_each(|number| database.put(&key(2 * number), &[1; 40]).unwrap());
        let mut transaction = database.begin();
        (0..100).for_each(|number| transaction.put(&key(20 * number + 1), &[2; 2000]).unwrap());
        database.delete(b"long").unwrap();
        let expected: Records = (0..1000).map(|number| (key(2 * number), vec![1; 40])).collect();
        disk.inject(Fault::failing(DiskOperation::Read, EIO).in_file("data").forever());
        transaction.rollback().unwrap_err();
        let goes_on = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&goes_on);
        disk.observe(move |_| {
            if thread::current().name() == Some("ebbpool-log") {
                seen.store(true, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(100));
            }
        });
        disk.heal();
        while !goes_on.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let shrunk = database.shrink().unwrap();
        assert_eq!(database.free_pages().unwrap(), 0, "{shrunk:?}");
        is_whole(database, &expected);
    }
}

#[test]
fn a_transaction_that_never_ends_keeps_its_pages_where_they_are() {
    let disk = FaultyDisk::new(0);
    let mut database = open(&disk).unwrap();
    database.put(b"long", &[1; 50_000]).unwrap();
    let mut transaction = database.begin();
    transaction.put(b"uncommitted", &[2; 20_000]).unwrap();
    std::mem::forget(transaction);
    database.delete(b"long").unwrap();
    let error = database.shrink().unwrap_err().to_string();
    assert!(error.contains("a transaction has not ended"), "{error}");
    database.put(b"later", &[4; 30_000]).unwrap();
    disk.crash(3);
    drop(database);
    disk.restart();
    let mut database = is_whole(open(&disk).unwrap(), &vec![(b"later".to_vec(), vec![4; 30_000])]);
    database.shrink().unwrap();
    assert_eq!(database.free_pages().unwrap(), 0);
}
