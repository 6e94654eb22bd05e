//! Failures: those that pass are errors of one call, and the database goes on. After others it returns errors, shows no
//! uncommitted changes, and is whole again after it is reopened.

use std::collections::BTreeMap;
use std::time::Duration;

use ebbpool::storage::{DiskOperation, EIO, ENOSPC, Fault, FaultyDisk};
use ebbpool::{OperationCosts, PoolError, Unit};
use ebbpool_btree::{Database, DatabaseError, DatabaseOptions, Durability};

use crate::parts::{PAGE, all, open, options, parts};

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A database with more pages than frames.
fn filled(disk: &FaultyDisk) -> Database {
    let options = options().lock_patience(Duration::ZERO);
    let mut database = options.open_on(parts(disk)).unwrap();
    let records = (0..1000).map(|number| Ok::<_, DatabaseError>((key(number), vec![7; 50])));
    database.load(records, 0.9).unwrap();
    database
}

fn is_broken<T: std::fmt::Debug>(outcome: Result<T, DatabaseError>) -> bool {
    matches!(outcome, Err(DatabaseError::Broken(_)))
}

/// Whether readers see a key as it was loaded, since no commit that changed it is known to be durable.
fn is_as_before(database: &Database, number: u32) -> bool {
    let at = database.range(key(number)..=key(number)).next();
    database.get(&key(number)).unwrap().unwrap() == [7; 50] && at.unwrap().unwrap().1 == [7; 50]
}

fn reopened(disk: &FaultyDisk, database: Database) -> Database {
    drop(database);
    disk.heal();
    let mut database = open(disk).unwrap();
    let report = database.check().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    database
}

#[test]
fn a_commit_that_cannot_be_synced_is_undecided_until_the_database_is_reopened() {
    let faults: [fn() -> Fault; 2] = [|| Fault::failing(DiskOperation::Sync, EIO), || Fault::sync_that_drops(EIO)];
    for (fault, crash) in faults.into_iter().zip([false, true]) {
        let disk = FaultyDisk::new(3);
        let database = filled(&disk);
        database.put(&key(1), b"before").unwrap();
        let mut other = database.begin();
        other.put(&key(2), b"other").unwrap();
        let mut one = database.begin();
        one.put(&key(3), b"new").unwrap();
        one.delete(&key(4)).unwrap();
        for log in ["log0", "log1"] {
            disk.inject(fault().in_file(log));
        }
        let error = one.commit().unwrap_err();
        assert!(matches!(error, DatabaseError::Log { .. }), "{error}");
        assert!(is_as_before(&database, 3) && is_as_before(&database, 4));
        assert_eq!(database.get(&key(5)).unwrap().unwrap(), [7; 50]);
        assert!(is_broken(database.put(&key(6), b"")));
        assert!(is_broken(other.put(&key(7), b"")));
        assert!(is_broken(other.commit()) && is_as_before(&database, 2));
        if crash {
            disk.crash(1);
            disk.restart();
        }
        let database = reopened(&disk, database);
        let found = [3, 4].map(|number| database.get(&key(number)).unwrap());
        let old = [Some(vec![7; 50]), Some(vec![7; 50])];
        assert!(found == [Some(b"new".to_vec()), None] || found == old, "{found:?}");
        assert_eq!(database.get(&key(1)).unwrap().unwrap(), b"before");
        assert_eq!(database.get(&key(2)).unwrap().unwrap(), [7; 50]);
        database.put(&key(6), b"").unwrap();
    }
}

/// Writes of the log fail for a while, as on a full disk where no blocks can be reserved.
#[test]
fn a_commit_that_cannot_be_written_is_written_later() {
    for durability in [Durability::Buffered, Durability::Synced] {
        let disk = FaultyDisk::new(3);
        let database = options().durability(durability).lock_patience(Duration::ZERO).open_on(parts(&disk)).unwrap();
        (0..100).for_each(|number| database.put(&key(number), &[7; 50]).unwrap());
        for log in ["log0", "log1"] {
            disk.inject(Fault::failing(DiskOperation::Write, ENOSPC).in_file(log).forever());
        }
        assert!(matches!(database.put(&key(3), b"new"), Err(DatabaseError::Log { .. })));
        assert!(is_full(database.put(&key(4), b"new")) && is_full(database.delete(&key(5)).map(drop)));
        // It is not decided whether this one is committed, and that one is not.
        assert!(is_as_before(&database, 3) && is_as_before(&database, 4));
        disk.heal();
        assert!(is_as_before(&database, 3));
        database.put(&key(4), b"new").unwrap();
        assert_eq!(database.get(&key(3)).unwrap().unwrap(), b"new");
        let database = reopened(&disk, database);
        assert_eq!([3, 4, 5].map(|number| database.get(&key(number)).unwrap().unwrap().len()), [3, 3, 50]);
    }
}

/// Fills the disk: from here on no block can be had.
fn fill(disk: &FaultyDisk) {
    disk.set_capacity(disk.used());
}

fn is_full<T>(outcome: Result<T, DatabaseError>) -> bool {
    matches!(outcome, Err(DatabaseError::Full { .. }))
}

#[test]
fn a_full_disk_is_an_error_of_the_change_that_has_no_room() {
    let disk = FaultyDisk::new(5);
    let open = || DatabaseOptions::new(32).background(false).open_on(parts(&disk));
    let database = open().unwrap();
    (0..2000).for_each(|number| database.put(&key(number), &[7; 50]).unwrap());
    fill(&disk);
    let before = all(&database);
    let mut large = database.begin();
    assert!(is_full((0..).find_map(|number| large.put(&key(number % 2000), &[8; 50]).err()).map_or(Ok(()), Err)));
    // There is room for its rollback, then for others, since a checkpoint makes room.
    assert!(database.put(b"other", b"").is_err());
    large.rollback().unwrap();
    assert_eq!(all(&database), before);
    drop(database);
    let mut database = open().unwrap();
    for number in 0..2000 {
        assert!(database.delete(&key(number)).unwrap());
    }
    assert!(all(&database).is_empty() && database.check().unwrap().findings.is_empty());
    database.put(b"a", b"1").unwrap();
    database.close().unwrap();
    assert_eq!(all(&open().unwrap()).len(), 1);
}

/// An open transaction keeps the log, so that a checkpoint makes no room, and a program tries again and again.
#[test]
fn refused_changes_use_up_no_room_that_others_were_promised() {
    for ending in ["commit", "roll back", "die", "lose power"] {
        let disk = FaultyDisk::new(5);
        let options = || DatabaseOptions::new(32).background(false).checkpoint_every(64 << 10).lock_patience(Duration::ZERO);
        let open = || options().open_on(parts(&disk));
        let mut database = open().unwrap();
        let records = (0..1000).map(|number| Ok::<_, DatabaseError>((key(number), vec![7; 50])));
        database.load(records, 0.9).unwrap();
        let mut one = database.begin();
        (0..50).for_each(|number| one.put(&key(number), &[8; 50]).unwrap());
        fill(&disk);
        let refused = (0..5000).filter(|number| is_full(database.put(&key(500 + number % 500), &[9; 50]))).count();
        assert!((3000..5000).contains(&refused), "{refused}");
        let deleted = |database: &Database| (0..20).filter(|number| database.delete(&key(100 + number)).unwrap()).count();
        assert_eq!(deleted(&database), 20);
        (0..1000).for_each(|_| drop(database.checkpoint()));
        assert_eq!(deleted(&database), 0);
        match ending {
            "commit" => one.commit().unwrap(),
            "roll back" => one.rollback().unwrap(),
            _ => std::mem::forget(one),
        }
        let value = if ending == "commit" { 8 } else { 7 };
        for round in 0..3 {
            if ending == "lose power" {
                disk.crash(3);
                disk.restart();
            }
            drop(database);
            database = open().unwrap();
            assert_eq!(database.get(&key(3)).unwrap().unwrap(), [value; 50]);
            assert!(database.delete(&key(200 + round)).unwrap(), "{ending}");
        }
        disk.heal();
        database.put(&key(4), b"").unwrap();
        assert_eq!(all(&reopened(&disk, database)).len(), 1000 - 20 - 3, "{ending}");
    }
}

#[test]
fn a_rollback_that_meets_an_error_goes_on_with_a_later_call() {
    for later in [|database: &Database| drop(database.put(&key(5), b"")), |database: &Database| drop(database.checkpoint())] {
        let disk = FaultyDisk::new(0);
        let database = filled(&disk);
        let mut one = database.begin();
        for number in (0..1000).step_by(50) {
            one.put(&key(number), b"dirty").unwrap();
            one.delete(&key(number + 1)).unwrap();
        }
        // The leaves are no longer in memory.
        assert_eq!(database.range(key(955)..).count(), 45);
        disk.inject(Fault::failing(DiskOperation::Read, EIO).in_file("data").nth(5).forever());
        let error = one.rollback().unwrap_err();
        assert!(matches!(error, DatabaseError::Pool(PoolError::Read { .. })), "{error}");
        // Its keys are locked, and it is tried again and again.
        assert!(database.get(&key(0)).is_err());
        assert!(database.range::<&[u8]>(..).any(|record| record.is_err()));
        disk.heal();
        let records = all(&database);
        assert!(records.len() == 1000 && records.iter().all(|(_, value)| *value == [7; 50]));
        assert!(is_as_before(&database, 0) && is_as_before(&database, 1));
        later(&database);
        assert_eq!(database.get(&key(0)).unwrap().unwrap(), [7; 50]);
        database.put(&key(5), &[7; 50]).unwrap();
        let records = all(&database);
        assert!(records.len() == 1000 && records.iter().all(|(_, value)| *value == [7; 50]));
        drop(reopened(&disk, database));
    }
}

/// One read or write of a page fails, each in turn, in a script of operations with frames for a part of the pages only.
#[test]
fn an_error_that_passes_is_an_error_of_one_call_at_most() {
    let mut failed = 0;
    for (operation, step) in [(DiskOperation::Read, 3), (DiskOperation::Write, 7)] {
        for nth in (1..400).step_by(step) {
            let disk = FaultyDisk::new(nth);
            let database = filled(&disk);
            let mut model: BTreeMap<_, _> = all(&database).into_iter().collect();
            let mut random = fastrand::Rng::with_seed(nth);
            disk.inject(Fault::failing(operation, EIO).in_file("data").nth(nth));
            for _ in 0..60 {
                let (mut one, mut changed) = (database.begin(), model.clone());
                let outcome = (0..4).try_for_each(|_| {
                    let (key, value) = (key(random.u32(..1200)), vec![8; random.usize(..900)]);
                    match random.bool() {
                        true => drop((one.put(&key, &value)?, changed.insert(key, value))),
                        false => drop((one.delete(&key)?, changed.remove(&key))),
                    }
                    Ok::<_, DatabaseError>(())
                });
                let commits = outcome.is_ok() && random.bool();
                let ended = if commits { one.commit() } else { one.rollback() };
                failed += u32::from(outcome.is_err()) + u32::from(ended.is_err());
                if commits {
                    ended.unwrap();
                    model = changed;
                }
            }
            disk.heal();
            assert_eq!(all(&database).into_iter().collect::<BTreeMap<_, _>>(), model, "{operation:?} {nth}");
            database.put(&key(5), b"").unwrap();
            database.checkpoint().unwrap();
            drop(reopened(&disk, database));
        }
    }
    assert!(failed > 50, "{failed}");
}

#[test]
fn damage_that_a_rollback_meets_breaks_the_database() {
    let disk = FaultyDisk::new(0);
    let mut database = filled(&disk);
    let mut one = database.begin();
    one.put(&key(0), b"to be undone").unwrap();
    one.put(&key(900), b"").unwrap();
    database.checkpoint().unwrap();
    // The leaf is no longer in memory.
    (0..5).for_each(|_| assert_eq!(database.range(key(100)..key(900)).count(), 800));
    let bytes = disk.bytes("data").read_all().unwrap();
    let at = bytes.windows(12).position(|bytes| bytes == b"to be undone").unwrap();
    assert!(disk.flip("data", at as u64, 3));
    let is_damaged = |outcome: Result<(), _>| matches!(outcome, Err(DatabaseError::Pool(PoolError::Damaged { .. })));
    // What does not need the page goes on until the transaction ends.
    assert!(is_damaged(database.get(&key(1)).map(drop)) && is_damaged(database.put(&key(1), b"")));
    database.put(&key(500), b"").unwrap();
    assert!(is_broken(one.rollback()) && is_broken(database.put(&key(500), b"")));
    let findings = database.check().unwrap().findings;
    let is_found = |page, what| findings.iter().any(|found| found.page == page && found.what.contains(what));
    assert!(is_found((at / PAGE) as u64, "checksum") && is_found(0, "takes no more changes"), "{findings:?}");
    assert!(is_broken(database.close()));
}

#[test]
fn an_operation_that_cannot_be_undone_ends_its_transaction() {
    let disk = FaultyDisk::new(0);
    let database = filled(&disk);
    let mut one = database.begin();
    one.put(&key(5), b"dirty").unwrap();
    for log in ["log0", "log1"] {
        disk.inject(Fault::failing(DiskOperation::Sync, EIO).in_file(log));
    }
    // The value takes more pages than there are frames: some are written meanwhile, and the log before them.
    assert!(is_broken(one.put(&key(300), &[1; 20_000])));
    // Reading may fail too: pages that are to be evicted cannot be written.
    assert!(database.get(&key(5)).is_err() && database.get(&key(300)).is_err());
    assert!(is_broken(one.put(&key(6), b"")) && is_broken(one.commit()));
    assert!(database.get(&key(5)).is_err() && is_broken(database.delete(&key(6))));
    let database = reopened(&disk, database);
    let records = all(&database);
    assert!(records.len() == 1000 && records.iter().all(|(_, value)| *value == [7; 50]));
}

#[test]
fn pages_that_cannot_be_freed_after_a_commit_are_freed_later() {
    let disk = FaultyDisk::new(0);
    let mut database = filled(&disk);
    let before = database.check().unwrap().used;
    database.put(b"long", &[1; 20_000]).unwrap();
    let mut one = database.begin();
    one.put(b"long", b"short").unwrap();
    // The allocation map is clean, and not in memory any longer after the leaves have been read often.
    database.checkpoint().unwrap();
    for _ in 0..20 {
        assert_eq!(database.range(..key(900)).count(), 900);
        (0..900).for_each(|number| drop(database.get(&key(number)).unwrap()));
    }
    disk.inject(Fault::failing(DiskOperation::Read, EIO).at_page(1).in_file("data").forever());
    one.commit().unwrap();
    assert_eq!(database.get(b"long").unwrap().unwrap(), b"short");
    disk.heal();
    database.delete(b"long").unwrap();
    assert_eq!(database.check().unwrap().used, before);
    let mut database = reopened(&disk, database);
    assert_eq!(database.check().unwrap().used, before);
}

#[test]
fn while_no_page_can_be_written_changes_fail_before_the_log_is_long() {
    let disk = FaultyDisk::new(0);
    let database = DatabaseOptions::new(4096).checkpoint_every(8 << 10).background(false).page_size(PAGE);
    let database = database.open_on(parts(&disk)).unwrap();
    disk.inject(Fault::failing(DiskOperation::Write, EIO).in_file("torn").forever());
    let put = |number: &u32| database.put(&key(*number), &[8; 50]);
    let count = (0..10_000).take_while(|number| put(number).is_ok()).count();
    let stats = database.stats();
    assert!(count > 10 && stats.log_length < 20 << 10, "{count}, {stats:?}");
    assert!(stats.checkpoint_failure.unwrap().contains("Input/output error"));
    assert_eq!(database.get(&key(3)).unwrap().unwrap(), [8; 50]);
    disk.heal();
    // The outcome is its own, not that of a checkpoint before.
    put(&0).unwrap();
    assert_eq!(database.stats().checkpoint_failure, None);
    database.close().unwrap();
}

/// A log on a fast device, pages on a slow one: threads put faster than checkpoints write.
#[test]
fn changes_wait_for_a_checkpoint_while_the_log_is_long() {
    let disk = FaultyDisk::new(0);
    disk.observe(|io| {
        if io.file == "data" && io.operation == DiskOperation::Sync {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let every = 16 << 10;
    let database = DatabaseOptions::new(1000).checkpoint_every(every).page_size(PAGE).durability(Durability::None);
    let database = database.open_on(parts(&disk)).unwrap();
    let longest = (0..20_000).map(|number: u32| {
        database.put(&key(number * 7919 % 5000), &[8; 50]).unwrap();
        database.stats().log_length
    });
    let longest = longest.max().unwrap();
    assert!(longest < 6 * every, "{longest}");
}

/// A page takes 1 ms to read, and 1 ms to write.
#[test]
fn checkpoints_keep_a_recovery_within_its_time() {
    let opened = |disk: &FaultyDisk, within: Option<u64>| {
        let costs = OperationCosts { read: 1000.0, write: 1000.0, unit: Unit::Microseconds };
        let options = DatabaseOptions::new(4096).page_size(PAGE).background(false).pool(move |pool| pool.fixed_costs(costs));
        within.map(Duration::from_millis).into_iter().fold(options, DatabaseOptions::recovery_within).open_on(parts(disk))
    };
    for (within, transactions) in [(None, 2000), (Some(400), 2000), (Some(400), 1)] {
        let disk = FaultyDisk::new(0);
        let database = opened(&disk, within).unwrap();
        (0..5000).for_each(|number| database.put(&key(number), &[7; 50]).unwrap());
        database.checkpoint().unwrap();
        let before = database.stats().checkpoints;
        let mut longest = Duration::ZERO;
        let mut numbers = (0..2000).map(|number| number * 7919 % 5000);
        for _ in 0..transactions {
            let mut one = database.begin();
            for number in numbers.by_ref().take(2000 / transactions) {
                one.put(&key(number), &[8; 50]).unwrap();
                longest = longest.max(database.stats().recovery_estimate);
            }
            one.commit().unwrap();
        }
        let taken = database.stats().checkpoints - before;
        drop(database);
        // The pages that recovery reads, since they do not have all changes.
        let recovered = opened(&disk, None).unwrap().stats();
        let is_within = longest < Duration::from_millis(400) && recovered.recovery.redone <= 200;
        assert_eq!((is_within, taken > 3), (within.is_some(), within.is_some()), "{longest:?}, {taken}, {recovered:?}");
    }
    // One operation that changes many leaves.
    let disk = FaultyDisk::new(0);
    let database = opened(&disk, Some(400)).unwrap();
    (0..5000).for_each(|number| database.put(&key(number), &[7; 50]).unwrap());
    let (mut one, before) = (database.begin(), database.stats().checkpoints);
    let mut longest = Duration::ZERO;
    let mut updated = 0;
    let changed = one.update_range(&key(0), 5000, |_, _| {
        updated += 1;
        longest = longest.max(if updated % 50 == 0 { database.stats().recovery_estimate } else { Duration::ZERO });
        Some(vec![8; 50])
    });
    assert_eq!(changed.unwrap(), 5000);
    assert!(database.stats().checkpoints > before + 3 && longest < Duration::from_millis(400), "{longest:?}");
    drop(one);
    let refused = opened(&FaultyDisk::new(0), Some(9));
    assert!(matches!(refused, Err(DatabaseError::Options(_))));
}

#[test]
fn the_statistics_say_what_recovery_had_to_do() {
    let disk = FaultyDisk::new(0);
    let database = open(&disk).unwrap();
    database.put(b"long", &[1; 20_000]).unwrap();
    database.delete(b"long").unwrap();
    let free = database.free_pages().unwrap();
    assert!(free > 35 && free < database.stats().pages, "{free}");
    database.close().unwrap();
    let read_only = || options().read_only(true).open_on(parts(&disk)).unwrap();
    assert_eq!(read_only().stats().recovery.log_bytes, 0);
    let database = open(&disk).unwrap();
    let mut one = database.begin();
    one.put(b"a", b"1").unwrap();
    one.put(b"b", b"1").unwrap();
    database.put(b"c", b"1").unwrap();
    std::mem::forget(one);
    drop(database);
    for database in [read_only(), open(&disk).unwrap()] {
        let stats = database.stats();
        let recovery = stats.recovery;
        assert!(recovery.log_bytes > 100 && recovery.redone > 2, "{recovery:?}");
        assert_eq!((recovery.rolled_back, recovery.undone), (1, 2));
        assert_eq!(database.free_pages().unwrap(), free);
        database.close().unwrap();
    }
    assert_eq!(open(&disk).unwrap().stats().recovery.rolled_back, 0);
}

#[test]
fn the_oldest_open_transaction_is_in_the_statistics() {
    let disk = FaultyDisk::new(0);
    let database = open(&disk).unwrap();
    let mut reader = database.begin();
    reader.get_for_update(b"a").unwrap();
    assert_eq!(database.stats().oldest_transaction, None);
    let mut open = database.begin();
    open.put(b"b", b"1").unwrap();
    for number in 0..1000 {
        database.put(&key(number % 10), &[8; 50]).unwrap();
    }
    let stats = database.stats();
    let oldest = stats.oldest_transaction.unwrap();
    // It keeps the log, and no change waits for it.
    assert!(oldest.log_bytes > 80_000 && stats.log_length >= oldest.log_bytes, "{stats:?}");
    open.rollback().unwrap();
    assert_eq!(database.stats().oldest_transaction, None);
}
