//! Isolation: a transaction sees the changes that others have committed, and no others (read committed).

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use ebbpool::storage::{DiskOperation, EIO, Fault, FaultyDisk};
use ebbpool_btree::{Database, DatabaseError, Durability};

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

type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// What a reader sees, which is the same from both ends, in batches of any size, and key by key. A reader that waited would do so
/// for an hour.
fn seen(database: &Database, numbers: u32) -> Records {
    let records = all(database);
    let mut reversed: Vec<_> = database.range::<&[u8]>(..).rev().map(Result::unwrap).collect();
    reversed.reverse();
    let at_once: Vec<_> = database.range::<&[u8]>(..).expecting(5000).map(Result::unwrap).collect();
    let one_by_one = (0..numbers).filter_map(|number| Some((key(number), database.get(&key(number)).unwrap()?)));
    assert!(records == reversed && records == at_once && records == one_by_one.collect::<Vec<_>>());
    records
}

/// A key that an open transaction has removed may be there again, and is as one that it has locked.
#[test]
fn an_update_of_a_range_leaves_out_no_key_that_may_be_restored() {
    let database = filled(Duration::ZERO, 100);
    for removed in [0, 5, 50, 99] {
        let mut one = database.begin();
        one.delete(&key(removed)).unwrap();
        let mut seen = Vec::new();
        let mut update = |from: u32, count| {
            seen.clear();
            let mut two = database.begin();
            let updated = two.update_range(&key(from), count, |key, old| {
                seen.push(key.to_vec());
                Some(vec![old[0] + 1; old.len()])
            });
            two.rollback().unwrap();
            (updated, std::mem::take(&mut seen))
        };
        for (from, count) in [(removed, 1), (removed.saturating_sub(3), 9), (0, 1000)] {
            let (updated, _) = update(from, count);
            assert!(is_conflict(&updated), "{removed}: {count} from {from}: {updated:?}");
        }
        if removed > 3 {
            assert!(matches!(update(removed - 3, 3), (Ok(3), _)));
        }
        // Its own removals it does not wait for.
        assert_eq!(one.update_range(&key(0), 1000, |_, _| None).unwrap(), 99);
        drop(one);
        let (updated, seen) = update(removed, 1);
        assert_eq!((updated.unwrap(), seen), (1, vec![key(removed)]));
    }
}

#[test]
fn only_a_transaction_itself_sees_its_uncommitted_changes() {
    let database = filled(Duration::ZERO, 100);
    let before = all(&database);
    let mut one = database.begin();
    one.put(&key(3), b"newer").unwrap();
    one.put(&key(3), b"new").unwrap();
    one.put(&key(500), b"new").unwrap();
    one.delete(&key(5)).unwrap();
    one.get_for_update(&key(7)).unwrap();
    assert_eq!(one.get(&key(3)).unwrap().unwrap(), b"new");
    assert_eq!(one.get(&key(5)).unwrap(), None);
    let mut two = database.begin();
    assert!(seen(&database, 501) == before);
    for number in [3, 5, 7, 500] {
        assert_eq!(two.get(&key(number)).unwrap(), (number != 500).then(|| vec![7; 50]), "{number}");
        assert!(is_conflict(&two.get_for_update(&key(number))), "{number}");
        assert!(is_conflict(&database.put(&key(number), b"")), "{number}");
        assert!(is_conflict(&database.delete(&key(number))), "{number}");
    }
    assert!(two.range::<&[u8]>(..).map(Result::unwrap).eq(before.clone()));
    assert_eq!(one.range::<&[u8]>(..).count(), 100);
    assert_eq!(one.range::<&[u8]>(..).rev().count(), 100);
    one.rollback().unwrap();
    assert!(seen(&database, 501) == before);
}

#[test]
fn a_scan_ends_with_the_first_error() {
    let disk = FaultyDisk::new(0);
    let database = options().open_on(parts(&disk)).unwrap();
    (0..1000).for_each(|number| database.put(&key(number), &[7; 50]).unwrap());
    let mut range = database.range::<&[u8]>(..);
    assert!(range.next().unwrap().is_ok());
    disk.inject(Fault::failing(DiskOperation::Read, EIO).in_file("data").forever());
    let rest: Vec<_> = range.by_ref().collect();
    assert!(rest.len() < 999 && rest.last().unwrap().is_err());
    assert!(rest.iter().rev().skip(1).all(Result::is_ok) && range.next().is_none() && range.next_back().is_none());
}

/// Enough changes that nodes are split and merged, of short and long values, in parts of the tree and in all of it.
#[test]
fn readers_do_not_wait_for_open_transactions() {
    const COUNT: u32 = 1000;
    let changed = |number: u32| match number % 4 {
        _ if number / 100 == 4 => None,
        0 => None,
        1 => Some(vec![1; 20_000 * usize::from(number % 100 == 1)]),
        2 => Some(b"dirty".to_vec()),
        _ => Some(vec![2; 300]),
    };
    for (from, to) in [(0, 500), (COUNT / 3, COUNT / 2), (COUNT - 10, COUNT + 500), (0, COUNT + 100)] {
        for commit in [false, true] {
            let database = filled(NEVER, COUNT);
            (0..COUNT).step_by(90).for_each(|number| database.put(&key(number), &vec![number as u8; 30_000]).unwrap());
            let before = all(&database);
            let (mut one, numbers) = (database.begin(), from..to);
            for (at, number) in numbers.clone().enumerate() {
                // Others in between, which are the same afterwards.
                one.put(&[&key(number)[..], b"x"].concat(), &[3; 100]).unwrap();
                match changed(number) {
                    Some(value) => one.put(&key(number), &value).unwrap(),
                    None => _ = one.delete(&key(number)).unwrap(),
                }
                if at % 300 == 69 {
                    assert!(seen(&database, COUNT) == before, "{from}..{to}, after {at}");
                }
            }
            for number in numbers.clone() {
                assert!(one.delete(&[&key(number)[..], b"x"].concat()).unwrap());
            }
            assert!(seen(&database, COUNT) == before, "{from}..{to}");
            let expected = match commit {
                true => {
                    one.commit().unwrap();
                    let others =
                        before.into_iter().filter(|(key, _)| !numbers.clone().any(|number| *key == number.to_be_bytes()));
                    let mut expected: Records =
                        others.chain(numbers.clone().filter_map(|number| Some((key(number), changed(number)?)))).collect();
                    expected.sort();
                    expected
                }
                false => {
                    one.rollback().unwrap();
                    before
                }
            };
            assert!(seen(&database, COUNT + 500) == expected, "{from}..{to}, {commit}");
        }
    }
}

/// A reader has found where the log has an old value. Before it reads its pages, the transaction commits, and they are used again.
#[test]
fn an_old_value_is_not_read_from_pages_that_were_freed() {
    let disk = FaultyDisk::new(0);
    let database: &'static Database = Box::leak(Box::new(options().open_on(parts(&disk)).unwrap()));
    database.put(b"a", &[1; 10_000]).unwrap();
    let mut one = database.begin();
    one.put(b"a", &[2; 9_000]).unwrap();
    // This writes the log.
    database.put(b"b", b"").unwrap();
    let one = Mutex::new(Some(one));
    disk.observe(move |io| {
        let reads_log = io.file.starts_with("log") && io.operation == DiskOperation::Read;
        if reads_log && let Some(one) = one.lock().unwrap().take() {
            one.commit().unwrap();
            database.put(b"b", &[3; 10_000]).unwrap();
        }
    });
    assert!(database.get(b"a").unwrap().unwrap() == [2; 9_000]);
    disk.observe_no_more();
    assert!(database.get(b"b").unwrap().unwrap() == [3; 10_000]);
}

/// Writers replace a long value, which others read, and roll back or commit; the log is short, and pages are used again.
#[test]
fn old_values_are_whole_while_transactions_end() {
    let options = options().lock_patience(NEVER).background(true).durability(Durability::None);
    let database = options.open_on(parts(&FaultyDisk::new(0))).unwrap();
    database.put(b"a", &[1; 3000]).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|threads| {
        for reader in 0..2 {
            let (database, done) = (&database, &done);
            threads.spawn(move || {
                while !done.load(Ordering::SeqCst) {
                    let value = match reader {
                        0 => database.get(b"a").unwrap().unwrap(),
                        _ => database.range("a".."b").next_back().unwrap().unwrap().1,
                    };
                    assert!(value.len() == 3000 * usize::from(value[0]) && value.iter().all(|&byte| byte == value[0]));
                }
            });
        }
        let write = || {
            for round in 0..400u32 {
                let mut one = database.begin();
                let byte = (round % 5 + 1) as u8;
                let length = 3000 * usize::from(byte);
                let bytes = if round % 3 == 0 { vec![byte + 100; length] } else { vec![byte; length] };
                one.put(b"a", &bytes).unwrap();
                if round % 4 == 0 {
                    one.delete(b"a").unwrap();
                }
                match round % 12 {
                    0 | 3 | 4 | 6 | 8 | 9 => one.rollback().unwrap(),
                    _ => one.commit().unwrap(),
                }
            }
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write));
        done.store(true, Ordering::SeqCst);
        outcome.unwrap();
    });
}

/// While the commit of one transaction is synced, others see what was before it; but not one that has got a key from it, and
/// builds on it. When the commit is durable, all its changes are visible.
#[test]
fn a_commit_is_seen_when_it_is_durable() {
    for hands_over in [false, true] {
        let disk = FaultyDisk::new(0);
        let database: &'static Database = Box::leak(Box::new(options().lock_patience(NEVER).open_on(parts(&disk)).unwrap()));
        (0..3).for_each(|number| database.put(&key(number), b"old").unwrap());
        let mut one = database.begin();
        (0..3).for_each(|number| one.put(&key(number), b"new").unwrap());
        let ours = thread::current().id();
        disk.observe(move |io| {
            let syncs = io.file.starts_with("log") && io.operation == DiskOperation::Sync;
            if syncs && thread::current().id() == ours {
                let read = thread::spawn(move || {
                    assert!((0..3).all(|number| database.get(&key(number)).unwrap().unwrap() == b"old"));
                    assert!(all(database).iter().all(|(_, value)| value == b"old"));
                });
                read.join().expect("the reader");
            }
        });
        thread::scope(|threads| {
            let second = hands_over.then(|| {
                threads.spawn(|| {
                    let mut two = database.begin();
                    let value = two.get_for_update(&key(1)).unwrap().unwrap();
                    assert!((0..3).all(|number| two.get(&key(number)).unwrap().unwrap() == value));
                    assert!(two.range::<&[u8]>(..).all(|record| record.unwrap().1 == value));
                    two.put(&key(1), b"newer").unwrap();
                    two.rollback().unwrap();
                    assert!((0..3).all(|number| database.get(&key(number)).unwrap().unwrap() == b"new"));
                })
            });
            // It may also come later, which tests less.
            thread::sleep(Duration::from_millis(u64::from(hands_over) * 20));
            one.commit().unwrap();
            disk.observe_no_more();
            assert!((0..3).all(|number| database.get(&key(number)).unwrap().unwrap() == b"new"));
            second.into_iter().for_each(|second| second.join().unwrap());
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
