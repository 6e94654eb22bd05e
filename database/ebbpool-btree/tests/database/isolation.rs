//! Isolation: a transaction sees the changes that others have committed, and no others (read committed).

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use ebbpool::storage::{DiskOperation, FaultyDisk};
use ebbpool_btree::{Database, DatabaseError};

use crate::parts::{all, options, parts};

const NEVER: Duration = Duration::from_secs(3600);

fn database(patience: Duration) -> Database {
    let options = options().lock_patience(patience);
    options.open_on(parts(&FaultyDisk::new(0))).unwrap()
}

fn is_conflict<T>(outcome: &Result<T, DatabaseError>) -> bool {
    matches!(outcome, Err(DatabaseError::Conflict { deadlock: false, .. }))
}

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn filled(patience: Duration, count: u32) -> Database {
    let mut database = database(patience);
    let records = (0..count).map(|number| Ok::<_, DatabaseError>((key(number), vec![7; 50])));
    database.load(records, 0.9).unwrap();
    database
}

#[test]
fn only_a_transaction_itself_sees_its_uncommitted_changes() {
    let database = filled(Duration::ZERO, 100);
    let mut one = database.begin();
    one.put(&key(3), b"new").unwrap();
    one.put(&key(500), b"new").unwrap();
    one.delete(&key(5)).unwrap();
    assert_eq!(one.get(&key(3)).unwrap().unwrap(), b"new");
    assert_eq!(one.get(&key(5)).unwrap(), None);
    let two = database.begin();
    for number in [3, 5, 500] {
        assert!(is_conflict(&database.get(&key(number))), "{number}");
        assert!(is_conflict(&two.get(&key(number))), "{number}");
        assert!(is_conflict(&database.put(&key(number), b"")), "{number}");
        assert!(is_conflict(&database.delete(&key(number))), "{number}");
        let at = database.range(key(number)..=key(number)).next();
        assert!(is_conflict(&at.unwrap()), "{number}");
    }
    assert_eq!(database.range(key(6)..key(500)).count(), 94);
    assert_eq!(one.range::<&[u8]>(..).count(), 100);
    assert_eq!(one.range::<&[u8]>(..).rev().count(), 100);
    one.rollback().unwrap();
    assert_eq!(two.get(&key(3)).unwrap().unwrap(), [7; 50]);
    assert_eq!(two.get(&key(500)).unwrap(), None);
    assert_eq!(two.range::<&[u8]>(..).count(), 100);
}

#[test]
fn a_scan_ends_with_the_first_error() {
    let database = filled(Duration::ZERO, 100);
    let mut one = database.begin();
    one.delete(&key(50)).unwrap();
    let mut range = database.range::<&[u8]>(..).expecting(1000);
    assert!(is_conflict(&range.next().unwrap()));
    assert!(range.next().is_none() && range.next_back().is_none());
    let before: Vec<_> = database.range::<&[u8]>(..).collect();
    assert!(before.len() < 52 && is_conflict(before.last().unwrap()));
}

/// A scan waits, from either end, until the transaction has ended.
#[test]
fn scans_wait_for_keys_that_are_changed_or_removed() {
    for (commit, backwards) in [(false, false), (false, true), (true, false), (true, true)] {
        let database = filled(NEVER, 200);
        let mut one = database.begin();
        for number in 50..150 {
            // Enough removals that nodes are merged.
            one.delete(&key(number)).unwrap();
        }
        one.put(&key(1000), b"new").unwrap();
        let ended = AtomicBool::new(false);
        thread::scope(|threads| {
            let scan = threads.spawn(|| {
                let mut records = database.range::<&[u8]>(..);
                let next = || match backwards {
                    true => records.next_back(),
                    false => records.next(),
                };
                let mut records: Vec<_> = std::iter::from_fn(next)
                    .map(|record| {
                        let (key, _) = record.unwrap();
                        let number = u32::from_be_bytes(key.try_into().unwrap());
                        (number, ended.load(Ordering::SeqCst))
                    })
                    .collect();
                if backwards {
                    records.reverse();
                }
                records
            });
            while !scan.is_finished() && database.stats().commits < 2 {
                // The scan has to wait however long this takes; the commits only let time pass.
                database.put(&key(2000), b"").unwrap();
                database.delete(&key(2000)).unwrap();
            }
            assert!(!scan.is_finished());
            ended.store(true, Ordering::SeqCst);
            match commit {
                true => one.commit().unwrap(),
                false => one.rollback().unwrap(),
            }
            let seen = scan.join().unwrap();
            let numbers: Vec<u32> = seen.iter().map(|&(number, _)| number).collect();
            let mut expected: Vec<u32> = match commit {
                true => (0..50).chain(150..200).collect(),
                false => (0..200).collect(),
            };
            if commit {
                expected.push(1000);
            }
            let numbers: Vec<u32> = numbers.into_iter().filter(|&it| it != 2000).collect();
            assert_eq!(numbers, expected);
            let decided = |&(number, ended): &(u32, bool)| !(50..150).contains(&number) && number != 1000 || ended;
            assert!(seen.iter().all(decided));
        });
    }
}

/// A removal is rolled back after a scan has read the leaf in which the key was missing, and before it
/// checks for removed keys.
#[test]
fn a_scan_does_not_miss_a_key_that_is_restored_behind_it() {
    // The first reads are those on the path to that leaf.
    for nth in 8..24 {
        let disk = FaultyDisk::new(0);
        let mut database = options().open_on(parts(&disk)).unwrap();
        let records = (0..1000).map(|number| Ok::<_, DatabaseError>((key(number), vec![7; 50])));
        database.load(records, 0.9).unwrap();
        let database: &'static Database = Box::leak(Box::new(database));
        let mut one = database.begin();
        one.delete(&key(5)).unwrap();
        // This evicts all pages that the scan reads.
        assert_eq!(database.range(key(500)..).count(), 500);
        let (one, reads) = (Mutex::new(Some(one)), AtomicU32::new(0));
        disk.observe(move |io| {
            let read = io.file == "data" && io.operation == DiskOperation::Read;
            if read && reads.fetch_add(1, Ordering::SeqCst) + 1 == nth {
                let one = one.lock().unwrap().take();
                one.expect("the first time").rollback().expect("rolled back");
            }
        });
        let records = database.range(..key(500)).expecting(1000);
        assert_eq!(records.map(Result::unwrap).count(), 500, "{nth}");
        disk.observe_no_more();
        assert_eq!(database.stats().rollbacks, 1);
    }
}

/// Writers roll back all their changes, so readers always see the same records.
#[test]
fn changes_that_are_rolled_back_are_never_seen() {
    const KEYS: u32 = 300;
    let database = filled(NEVER, KEYS);
    let expected = all(&database);
    let done = AtomicBool::new(false);
    thread::scope(|threads| {
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                let database = &database;
                threads.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(writer);
                    for _ in 0..300 {
                        let mut transaction = database.begin();
                        for _ in 0..random.u32(1..40) {
                            // Each writer has keys of its own, so there is no deadlock.
                            let number = random.u32(0..KEYS) / 2 * 2 + writer as u32;
                            let key = key(number);
                            match random.u8(0..3) {
                                0 => transaction.put(&key, b"dirty").unwrap(),
                                1 => transaction.put(&[&key[..], b"x"].concat(), &[1; 300]).unwrap(),
                                _ => _ = transaction.delete(&key).unwrap(),
                            }
                        }
                        transaction.rollback().unwrap();
                    }
                })
            })
            .collect();
        for reader in 0..2u64 {
            let (database, done, expected) = (&database, &done, &expected);
            threads.spawn(move || {
                let mut random = fastrand::Rng::with_seed(reader + 9);
                while !done.load(Ordering::SeqCst) {
                    let number = random.u32(0..KEYS);
                    assert_eq!(database.get(&key(number)).unwrap().unwrap(), [7; 50]);
                    let (from, to) = (number as usize, random.usize(0..=KEYS as usize));
                    let to = to.max(from);
                    let records = database.range(key(from as u32)..key(to as u32));
                    let records = records.expecting(random.usize(1..400));
                    let records: Vec<_> = match random.bool() {
                        true => records.map(Result::unwrap).collect(),
                        false => {
                            let mut records: Vec<_> = records.rev().map(Result::unwrap).collect();
                            records.reverse();
                            records
                        }
                    };
                    assert!(records == expected[from..to], "{from}..{to}");
                }
            });
        }
        let outcomes: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::SeqCst);
        outcomes.into_iter().for_each(Result::unwrap);
    });
    assert_eq!(all(&database), expected);
    assert_eq!(database.stats().rollbacks, 600);
}
