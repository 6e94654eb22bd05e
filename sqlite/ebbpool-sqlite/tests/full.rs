//! A full disk: what is acknowledged stays, and what is refused is not there.

#![allow(unsafe_code)]

mod support;

use ebbpool::storage::{DiskOperation, EIO, Fault, FaultyDisk};
use rusqlite::{Connection, ErrorCode};
use support::cases::{Bench, PATH};
use support::workload::judge;

fn ids(database: &Connection) -> Vec<i64> {
    let mut statement = database.prepare("SELECT id FROM t ORDER BY id").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Inserts rows until some were refused; those that were acknowledged.
fn fill(database: &Connection) -> Vec<i64> {
    let (mut acknowledged, mut refused) = (Vec::new(), 0);
    for id in 1..100_000 {
        let inserted = database.execute("INSERT INTO t VALUES (?1, randomblob(1000))", [id]);
        match inserted {
            Ok(_) => acknowledged.push(id),
            Err(error) => {
                let code = error.sqlite_error_code();
                let is_full = matches!(code, Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure));
                assert!(is_full, "{error}");
                refused += 1;
                if refused > 4 {
                    break;
                }
            }
        }
        assert!(ids_are(database, &acknowledged), "after row {id}");
    }
    assert!(refused > 0, "the disk was never full");
    acknowledged
}

fn ids_are(database: &Connection, expected: &[i64]) -> bool {
    let found = database.query_row("SELECT count(*), coalesce(max(id), 0) FROM t", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    });
    let last = expected.last().copied().unwrap_or(0);
    found.unwrap() == (expected.len() as i64, last)
}

fn table_on(bench: &Bench, disk: &FaultyDisk, mode: &str, options: &str) -> Connection {
    bench.forget();
    bench.machine.insert(disk);
    let _ = bench.instance.set_time(0.0);
    let database = bench.open(options).unwrap();
    let set = format!("PRAGMA journal_mode={mode}");
    database.query_row(&set, [], |_| Ok(())).unwrap();
    database.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, x)").unwrap();
    database
}

/// The memory of the library is larger than the disk.
#[test]
fn what_is_acknowledged_stays_and_what_is_refused_is_not_there() {
    let bench = Bench::new("full");
    for mode in ["wal", "delete", "truncate", "persist", "memory"] {
        for options in ["window=0", "window=30", "window=30&log=wal", "window=0&log=wal"] {
            for checkpoint in ["", "PRAGMA ebbpool_flush"] {
                let when = format!("{mode}, {options}, {checkpoint:?}");
                let disk = FaultyDisk::new(1);
                let database = table_on(&bench, &disk, mode, options);
                database.execute_batch("INSERT INTO t VALUES (0, 1); DELETE FROM t").unwrap();
                let _ = database
                    .prepare(checkpoint)
                    .and_then(|mut flush| flush.query([]).and_then(|mut rows| rows.next().map(|_| ())));
                disk.set_capacity(300_000);
                let acknowledged = fill(&database);
                assert_eq!(ids(&database), acknowledged, "{when}");
                assert!(acknowledged.len() > 10, "{when}: {acknowledged:?}");
                // Closing may find no room; what it could not write waits in the process.
                drop(database);
                disk.heal();
                let again = bench.open(options).unwrap();
                assert_eq!(ids(&again), acknowledged, "{when}: opened again");
                drop(again);
                disk.crash(5);
                disk.restart();
                bench.forget();
                let plain = bench.open_plain().unwrap();
                assert_eq!(ids(&plain), acknowledged, "{when}: plain SQLite");
            }
        }
    }
}

/// With a window there is room for what was acknowledged, so that a kill loses no more than usual.
#[test]
fn the_window_ends_on_a_full_disk() {
    let bench = Bench::new("full-window");
    for mode in ["wal", "delete"] {
        for log in ["deltas", "wal"] {
            let options = format!("window=30&log={log}");
            let disk = FaultyDisk::new(2);
            let database = table_on(&bench, &disk, mode, &options);
            for second in 1..3 {
                database.execute("INSERT INTO t VALUES (?1, 1)", [-second]).unwrap();
                bench.instance.set_time(f64::from(second) * 40.0).unwrap();
            }
            database.execute_batch("DELETE FROM t").unwrap();
            disk.set_capacity(300_000);
            let acknowledged = fill(&database);
            let ended = bench.instance.set_time(1000.0);
            disk.crash(6);
            drop(database);
            disk.heal();
            disk.restart();
            bench.forget();
            let recovered = bench.open(&options).unwrap();
            let found = ids(&recovered);
            assert_eq!(found, acknowledged, "{mode}, {log}, the window: {ended:?}");
        }
    }
}

/// Syncs fail for good: closing reports nothing, and loses nothing.
#[test]
fn what_closing_could_not_sync_waits_in_the_process() {
    let bench = Bench::new("no-sync");
    for mode in ["wal", "delete"] {
        for log in ["deltas", "wal"] {
            for rounds in [0, 3] {
                let options = format!("window=30&log={log}");
                let disk = FaultyDisk::new(3);
                let database = table_on(&bench, &disk, mode, &options);
                for second in 1..=rounds {
                    database.execute("INSERT INTO t VALUES (?1, 1)", [second]).unwrap();
                    bench.instance.set_time(f64::from(second) * 40.0).unwrap();
                }
                disk.inject(Fault::failing(DiskOperation::Sync, EIO).forever());
                let mut expected: Vec<i64> = (1..=i64::from(rounds)).collect();
                for id in 10..20 {
                    database.execute("INSERT INTO t VALUES (?1, 1)", [id]).unwrap();
                    expected.push(id);
                }
                database.close().unwrap();
                for id in 20..23 {
                    let again = bench.open(&options).unwrap();
                    assert_eq!(ids(&again), expected, "{mode}, {log}: while syncs fail");
                    again.execute("INSERT INTO t VALUES (?1, 1)", [id]).unwrap();
                    expected.push(id);
                    drop(again);
                }
                disk.heal();
                // The timer of the library tries again; here the clock stands still.
                drop(bench.open(&options).map(|again| assert_eq!(ids(&again), expected)));
                assert!(disk.bytes(&format!("{PATH}-ebb")).is_empty().unwrap());
                disk.crash(7);
                disk.restart();
                bench.forget();
                let plain = bench.open_plain().unwrap();
                assert_eq!(ids(&plain), expected, "{mode}, {log}");
                assert!(judge(&plain).is_ok());
            }
        }
    }
}

/// Time goes on after a database was closed that could not be written.
#[test]
fn closing_is_tried_again_by_itself() {
    let bench = Bench::new("again");
    let disk = FaultyDisk::new(4);
    let database = table_on(&bench, &disk, "wal", "window=30");
    database.execute_batch("INSERT INTO t VALUES (1, 1)").unwrap();
    disk.inject(Fault::failing(DiskOperation::Sync, EIO).forever());
    database.close().unwrap();
    disk.heal();
    for second in 1..10 {
        let _ = bench.instance.set_time(f64::from(second));
    }
    disk.crash(8);
    disk.restart();
    bench.forget();
    let plain = bench.open_plain().unwrap();
    assert_eq!(ids(&plain), [1]);
    plain.execute_batch("INSERT INTO t VALUES (2, 2)").unwrap();
}

/// SQLite leaves the frames of a transaction that was refused in its WAL. The next connection does not take them for a commit.
#[test]
fn a_refused_commit_is_not_there_for_the_next_connection() {
    let bench = Bench::new("refused");
    let mut failures = Vec::new();
    for operation in [DiskOperation::Write, DiskOperation::Sync] {
        for options in ["window=0", "window=30", "window=0&log=wal", "window=30&log=wal"] {
            for rounds in [0, 1, 3] {
                for stays in [false, true] {
                    let refused = refused_commits(&bench, operation, options, rounds, stays);
                    if let Err(why) = refused {
                        failures.push(format!("{operation:?}, {options}, {rounds}, a connection stays: {stays}: {why}"));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn refused_commits(bench: &Bench, operation: DiskOperation, options: &str, rounds: i64, stays: bool) -> Result<(), String> {
    let disk = FaultyDisk::new(5);
    let database = table_on(bench, &disk, "wal", options);
    let mut expected = Vec::new();
    for round in 0..rounds {
        let insert = "INSERT INTO t VALUES (?1, zeroblob(9000))";
        database.execute(insert, [round]).unwrap();
        expected.push(round);
    }
    let other = stays.then(|| bench.open(options).unwrap());
    disk.inject(Fault::failing(operation, EIO).forever());
    for (id, changes) in [
        (10, "INSERT INTO t VALUES (10, 1)"),
        (11, "INSERT INTO t VALUES (11, 1)"),
        (12, "INSERT INTO t VALUES (12, zeroblob(90000))"),
    ] {
        match database.execute_batch(&format!("BEGIN; {changes}; COMMIT")) {
            Ok(()) => expected.push(id),
            Err(_) if database.is_autocommit() => {}
            Err(_) => database.execute_batch("ROLLBACK").unwrap(),
        }
        check_ids(&database, &expected, changes)?;
    }
    // The window has ended for long, and the epoch is late.
    let _ = bench.instance.set_time(1000.0);
    drop(database);
    disk.heal();
    let again = bench.open(options).map_err(|error| error.to_string())?;
    check_ids(&again, &expected, "opened again")?;
    again.execute_batch("INSERT INTO t VALUES (20, 1)").unwrap();
    expected.push(20);
    drop((again, other));
    disk.crash(9);
    disk.restart();
    bench.forget();
    let plain = bench.open_plain().unwrap();
    check_ids(&plain, &expected, "plain SQLite")?;
    check_pages(&plain)
}

fn check_pages(database: &Connection) -> Result<(), String> {
    let answer = database.query_row("PRAGMA integrity_check", [], |row| row.get(0));
    match answer {
        Ok(ok) if ok == "ok" => Ok(()),
        other => Err(other.unwrap_or_else(|error: rusqlite::Error| error.to_string())),
    }
}

fn check_ids(database: &Connection, expected: &[i64], when: &str) -> Result<(), String> {
    let mut statement = database.prepare("SELECT id FROM t ORDER BY id").map_err(|error| format!("{when}: {error}"))?;
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    let found: Vec<i64> = rows.collect::<rusqlite::Result<_>>().map_err(|error| format!("{when}: {error}"))?;
    match found == expected {
        true => Ok(()),
        false => Err(format!("{when}: {found:?}, not {expected:?}")),
    }
}

/// Reading needs no room: also for the first connection, and after a transaction was refused.
#[test]
fn what_was_refused_does_not_keep_readers_away() {
    let bench = Bench::new("readers-of-full");
    for mode in ["wal", "delete", "truncate", "persist", "memory"] {
        for window in [0, 30] {
            for log in ["deltas", "wal"] {
                let when = format!("{mode}, window={window}, {log}");
                let options = format!("window={window}&log={log}&memory=1M");
                let disk = FaultyDisk::new(6);
                let database = table_on(&bench, &disk, mode, &options);
                // Pages of the list of free ones, which SQLite does not write into its journal.
                database
                    .execute_batch(
                        "INSERT INTO t VALUES (1, zeroblob(100000)); INSERT INTO t VALUES (2, zeroblob(100000));
                        DELETE FROM t WHERE id=2; UPDATE t SET x=zeroblob(100001)",
                    )
                    .unwrap();
                bench.instance.set_time(100.0).unwrap();
                database.execute_batch("UPDATE t SET x=zeroblob(100002)").unwrap();
                disk.set_capacity(disk.used());
                let big = "INSERT INTO t VALUES (3, randomblob(90000)); INSERT INTO t VALUES (4, randomblob(300000))";
                let refused = database.execute_batch(big);
                assert!(refused.is_err(), "{when}: the disk is not full");
                let found = ids(&database);
                assert!(found == [1] || found == [1, 3], "{when}: {found:?}");
                let second = bench.open(&options).unwrap();
                assert_eq!(ids(&second), found, "{when}: a second connection");
                drop((database, second));
                let next = bench.open(&options).unwrap();
                assert_eq!(ids(&next), found, "{when}: the next connection");
            }
        }
    }
}

/// SQLite takes the `-wal` of a crash in, and the sync after that fails: the next opening finds no `-wal`, and the disk still has it.
#[test]
fn a_recovery_whose_sync_has_failed_is_made_durable_by_the_next_opening() {
    let bench = Bench::new("recovery");
    let mut failures = Vec::new();
    for before in ["plain", "window=0", "window=0&log=wal"] {
        for after in ["window=0", "window=0&log=wal"] {
            for nth in 1..6 {
                for is_killed in [false, true] {
                    for (rows, is_closed) in [(0, true), (2, true), (2, false)] {
                        for seed in 1..5 {
                            let recovery = Recovery { before, after, nth, is_killed, rows, is_closed, seed };
                            if let Err(why) = recovery.run(&bench) {
                                failures.push(format!("{recovery:?}: {why}"));
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A database that is recovered twice.
#[derive(Debug)]
struct Recovery {
    /// Options of the connection before the crash, or `plain`.
    before: &'static str,
    /// Options of those after it.
    after: &'static str,
    /// The sync of the first recovery that fails.
    nth: u64,
    /// The process ends then.
    is_killed: bool,
    /// Rows that are inserted after the second recovery.
    rows: i64,
    /// The database is closed before the power fails again.
    is_closed: bool,
    /// Which changes that are in no sync survive the second crash.
    seed: u64,
}

impl Recovery {
    fn run(&self, bench: &Bench) -> Result<(), String> {
        let disk = FaultyDisk::new(10);
        let first = match self.before {
            "plain" => plain_on(bench, &disk),
            options => table_on(bench, &disk, "wal", options),
        };
        for id in 0..3 {
            first.execute("INSERT INTO t VALUES (?1, 1)", [id]).unwrap();
        }
        crash(bench, &disk, 11, Some(first));
        disk.inject(Fault::failing(DiskOperation::Sync, EIO).nth(self.nth));
        let _ = bench.open(self.after).map(|database| check_pages(&database));
        disk.heal();
        if self.is_killed {
            bench.forget();
        }
        let expected: Vec<i64> = (0..3 + self.rows).collect();
        let text = |error: rusqlite::Error| error.to_string();
        let second = bench.open(self.after).map_err(text)?;
        for id in 3..3 + self.rows {
            second.execute("INSERT INTO t VALUES (?1, 1)", [id]).map_err(text)?;
        }
        check_ids(&second, &expected, "recovered")?;
        if self.is_closed {
            drop(second);
            crash(bench, &disk, self.seed, None);
            let plain = bench.open_plain().map_err(text)?;
            check_ids(&plain, &expected, "closed")?;
            check_pages(&plain)?;
            return plain.execute_batch("DELETE FROM t").map_err(text);
        }
        crash(bench, &disk, self.seed, Some(second));
        let third = bench.open(self.after).map_err(text)?;
        check_ids(&third, &expected, "recovered after a second crash")?;
        check_pages(&third)
    }
}

fn crash(bench: &Bench, disk: &FaultyDisk, seed: u64, open: Option<Connection>) {
    disk.crash(seed);
    drop(open);
    disk.restart();
    bench.forget();
}

fn plain_on(bench: &Bench, disk: &FaultyDisk) -> Connection {
    bench.forget();
    bench.machine.insert(disk);
    let plain = bench.open_plain().unwrap();
    plain.execute_batch("PRAGMA synchronous=FULL; CREATE TABLE t (id INTEGER PRIMARY KEY, x)").unwrap();
    plain.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    plain
}
