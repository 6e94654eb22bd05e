//! Many threads use the database at the same time, some until the power fails.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use ebbpool::storage::{DiskOperation, Fault, FaultyDisk};
use ebbpool_btree::{Database, DatabaseError, DatabaseOptions, Durability};

use crate::parts::{all, options, parts};

const ACCOUNTS: u32 = 40;
const EACH: u64 = 1000;

fn account(number: u32) -> Vec<u8> {
    format!("account {number:05}").into_bytes()
}

/// A value with the amount, padded so that some values are short and others long.
fn balance(amount: u64) -> Vec<u8> {
    let mut value = amount.to_le_bytes().to_vec();
    value.resize(8 + (amount % 7 * 60) as usize, amount as u8);
    value
}

fn amount(value: &[u8]) -> u64 {
    let (amount, rest) = value.split_first_chunk().expect("an amount");
    let amount = u64::from_le_bytes(*amount);
    assert_eq!(rest, &balance(amount)[8..], "a value of two halves");
    amount
}

fn opened(database: &Database) {
    let mut transaction = database.begin();
    for number in 0..ACCOUNTS {
        transaction.put(&account(number), &balance(EACH)).unwrap();
    }
    transaction.commit().unwrap();
}

fn transfer(database: &Database, random: &mut fastrand::Rng) -> Result<(), DatabaseError> {
    let (from, to) = (random.u32(0..ACCOUNTS), random.u32(0..ACCOUNTS));
    let mut transaction = database.begin();
    let has = amount(&transaction.get_for_update(&account(from))?.expect("an account"));
    let sum = random.u64(0..=has.min(50));
    transaction.put(&account(from), &balance(has - sum))?;
    // Lets other threads lock the key that this one locks next.
    thread::yield_now();
    let has = amount(&transaction.get_for_update(&account(to))?.expect("an account"));
    transaction.put(&account(to), &balance(has + sum))?;
    // The account is removed and put again, so that there are removals too.
    if random.u8(0..4) == 0 {
        let value = transaction.get(&account(to))?.expect("an account");
        transaction.delete(&account(to))?;
        transaction.put(&account(to), &value)?;
    }
    match random.u8(0..5) {
        0 => transaction.rollback(),
        _ => transaction.commit(),
    }
}

fn total(database: &Database) -> u64 {
    let records = all(database);
    assert_eq!(records.len(), ACCOUNTS as usize);
    records.iter().map(|(_, value)| amount(value)).sum()
}

/// Runs `rounds` transfers in each of three threads, with two threads that read.
fn bank(database: &Database, rounds: u32) {
    let at_work = AtomicU64::new(3);
    thread::scope(|threads| {
        for seed in 0..3 {
            let at_work = &at_work;
            threads.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..rounds {
                    match transfer(database, &mut random) {
                        Ok(()) | Err(DatabaseError::Conflict { .. }) => {}
                        Err(error) => {
                            at_work.fetch_sub(1, Ordering::SeqCst);
                            panic!("{error}");
                        }
                    }
                }
                at_work.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let at_work = &at_work;
        threads.spawn(move || {
            let mut random = fastrand::Rng::with_seed(9);
            while at_work.load(Ordering::SeqCst) > 0 {
                match database.get(&account(random.u32(0..ACCOUNTS))) {
                    Ok(value) => _ = amount(&value.expect("an account")),
                    Err(DatabaseError::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        threads.spawn(move || {
            while at_work.load(Ordering::SeqCst) > 0 {
                let records: Result<Vec<_>, _> = database.range::<&[u8]>(..).collect();
                match records {
                    // Amounts of different times, but each account once.
                    Ok(records) => {
                        let keys = records.iter().map(|(key, _)| key.clone());
                        assert!(keys.eq((0..ACCOUNTS).map(account)));
                        records.iter().for_each(|(_, value)| _ = amount(value));
                    }
                    Err(DatabaseError::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    });
}

#[test]
fn of_two_transactions_that_wait_for_each_other_one_gets_an_error() {
    let options = options().lock_patience(Duration::from_secs(3600));
    let database = options.open_on(parts(&FaultyDisk::new(0))).unwrap();
    let both_have_one = Barrier::new(2);
    let outcomes = thread::scope(|threads| {
        let run = |first: &'static [u8], second: &'static [u8]| {
            let (database, both_have_one) = (&database, &both_have_one);
            threads.spawn(move || {
                let mut transaction = database.begin();
                transaction.put(first, b"1").unwrap();
                both_have_one.wait();
                transaction.put(second, b"2")?;
                transaction.commit()
            })
        };
        let threads = [run(b"a", b"b"), run(b"b", b"a")];
        threads.map(|thread| thread.join().unwrap())
    });
    let is_deadlock = |it: &Result<(), _>| matches!(it, Err(DatabaseError::Conflict { deadlock: true, .. }));
    let deadlocks = outcomes.iter().filter(|it| is_deadlock(it)).count();
    assert_eq!((deadlocks, outcomes.iter().filter(|it| it.is_ok()).count()), (1, 1));
    assert_eq!(all(&database).len(), 2);
}

#[test]
fn transfers_preserve_the_sum() {
    for (background, durability) in
        [(false, Durability::Synced), (true, Durability::Synced), (true, Durability::Buffered), (true, Durability::None)]
    {
        let disk = FaultyDisk::new(0);
        let options = || options().background(background).durability(durability);
        let mut database = options().open_on(parts(&disk)).unwrap();
        opened(&database);
        bank(&database, 500);
        assert_eq!(total(&database), u64::from(ACCOUNTS) * EACH);
        let report = database.check().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let stats = database.stats();
        assert!(stats.checkpoints > 5 && stats.rollbacks > 100, "{stats:?}");
        database.close().unwrap();
        let database = options().open_on(parts(&disk)).unwrap();
        assert_eq!(total(&database), u64::from(ACCOUNTS) * EACH);
        assert!(disk.violations().is_empty());
    }
}

/// All commits before a power failure survive it, with any other work under way.
#[test]
fn the_power_fails_while_threads_write() {
    for round in 0..20u64 {
        let disk = FaultyDisk::new(round);
        let background = round % 2 == 0;
        let database = options().background(background).open_on(parts(&disk)).unwrap();
        opened(&database);
        database.checkpoint().unwrap();
        disk.inject(Fault::crash(DiskOperation::Change, round).nth(20 + round * 37));
        let done: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
        thread::scope(|threads| {
            for (thread, done) in done.iter().enumerate() {
                let database = &database;
                threads.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(round * 3 + thread as u64);
                    // The loop ends when the power fails.
                    for count in 1.. {
                        match transfer(database, &mut random) {
                            Ok(()) | Err(DatabaseError::Conflict { .. }) => {}
                            Err(_) => break,
                        }
                        let mark = format!("done {thread}");
                        match database.put(mark.as_bytes(), &u64::to_le_bytes(count)) {
                            Ok(()) => done.store(count, Ordering::SeqCst),
                            Err(DatabaseError::Conflict { .. }) => {}
                            Err(_) => break,
                        }
                    }
                });
            }
        });
        assert!(disk.is_off());
        drop(database);
        disk.restart();
        let mut database = options().open_on(parts(&disk)).unwrap();
        let report = database.check().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        for (thread, done) in done.iter().enumerate() {
            let mark = format!("done {thread}");
            let found = database.get(mark.as_bytes()).unwrap();
            let found = found.map_or(0, |it| u64::from_le_bytes(it.try_into().unwrap()));
            let done = done.load(Ordering::SeqCst);
            assert!(found >= done && found <= done + 1, "{found}, not {done}");
            database.delete(mark.as_bytes()).unwrap();
        }
        assert_eq!(total(&database), u64::from(ACCOUNTS) * EACH);
    }
}

/// The sync of a commit waits until the next transaction has changed the same key. Whether that one waits for the key when
/// the first one commits is not certain, so there are several rounds.
#[test]
fn a_key_is_handed_over_before_its_commit_is_durable() {
    let round = || {
        let disk = FaultyDisk::new(0);
        let database = options().open_on(parts(&disk)).unwrap();
        database.put(b"a", b"0").unwrap();
        let (changed, handed_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (seen, in_time) = (Arc::clone(&changed), Arc::clone(&handed_over));
        let mut one = database.begin();
        one.put(b"a", b"1").unwrap();
        let first = AtomicBool::new(true);
        disk.observe(move |io| {
            let syncs = io.file.starts_with("log") && io.operation == DiskOperation::Sync;
            if syncs && first.swap(false, Ordering::SeqCst) {
                for _ in 0..100 {
                    thread::sleep(Duration::from_millis(1));
                    in_time.fetch_or(seen.load(Ordering::SeqCst), Ordering::SeqCst);
                }
            }
        });
        thread::scope(|threads| {
            threads.spawn(|| {
                let mut two = database.begin();
                two.put(b"a", b"2").unwrap();
                changed.store(true, Ordering::SeqCst);
                two.commit().unwrap();
            });
            thread::sleep(Duration::from_millis(10));
            one.commit().unwrap();
        });
        assert_eq!(database.get(b"a").unwrap().unwrap(), b"2");
        handed_over.load(Ordering::SeqCst)
    };
    assert!((0..20).any(|_| round()));
}

#[test]
fn databases_can_be_used_by_other_threads() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Database>();
    is_sync::<Database>();
    is_send::<ebbpool_btree::Transaction<'_>>();
    fn debug<T: std::fmt::Debug>() {}
    debug::<(Database, ebbpool_btree::Transaction<'_>, DatabaseOptions)>();
    debug::<(ebbpool_btree::RecordRange<'_>, ebbpool_btree::DatabaseParts)>();
}

/// While a thread reads the pages of a long value one after the other, another thread puts a key of the
/// same leaf.
#[test]
fn a_leaf_can_be_changed_while_one_of_its_long_values_is_read() {
    let reads: [fn(&Database) -> Vec<u8>; 3] = [
        |database| database.get(b"a").unwrap().unwrap(),
        |database| database.range("a".."b").next().unwrap().unwrap().1,
        |database| database.range("a".."b").next_back().unwrap().unwrap().1,
    ];
    for read in reads {
        let disk = FaultyDisk::new(1);
        // If the put had to wait for the reader, it would time out, since the reader waits for the put.
        let options = DatabaseOptions::new(16).background(false).page_size(512);
        let options = options.pool(|pool| pool.patience(Duration::from_millis(500)));
        let database = Arc::new(options.open_on(parts(&disk)).unwrap());
        database.put(b"a", &[1; 100_000]).unwrap();
        database.put(b"b", b"1").unwrap();
        let (beside, count) = (Arc::clone(&database), AtomicU64::new(0));
        disk.observe(move |io| {
            let of_pages = io.file == "data" && io.operation == DiskOperation::Read;
            if of_pages && count.fetch_add(1, Ordering::Relaxed) == 20 {
                let database = Arc::clone(&beside);
                let put = thread::spawn(move || database.put(b"b", b"2"));
                put.join().unwrap().unwrap();
            }
        });
        assert_eq!(read(&database), [1; 100_000]);
        disk.observe_no_more();
        assert_eq!(database.get(b"b").unwrap().unwrap(), b"2");
    }
}

/// Values of many pages are read without their leaf's latch.
#[test]
fn a_put_beside_readers_of_a_long_value_does_not_starve() {
    let disk = FaultyDisk::new(1);
    let options = DatabaseOptions::new(4096).background(false).page_size(512).lock_patience(Duration::from_secs(60));
    let database = options.open_on(parts(&disk)).unwrap();
    let long = |byte: u8| vec![byte; 1 << 20];
    database.put(b"a", &long(0)).unwrap();
    database.put(b"b", b"").unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|threads| {
        for reader in 0..3 {
            let (database, done) = (&database, &done);
            threads.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let value = match reader {
                        0 => database.get(b"a").unwrap().unwrap(),
                        _ => database.range("a".."b").next().unwrap().unwrap().1,
                    };
                    assert!(value.iter().all(|&byte| byte == value[0]), "of two halves");
                    assert_eq!(value.len(), 1 << 20);
                }
            });
        }
        for round in 1..=20 {
            database.put(b"b", &[round]).unwrap();
            if round % 5 == 0 {
                database.put(b"a", &long(round)).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(database.get(b"a").unwrap().unwrap(), long(20));
}
