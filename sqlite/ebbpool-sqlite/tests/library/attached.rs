//! Transactions over two files: a power cut leaves each file whole, as SQLite promises for databases with a WAL.

#![allow(unsafe_code)]

use ebbpool::storage::{DiskOperation, ENOSPC, Fault, FaultyDisk};
use fastrand::Rng;
use rusqlite::Connection;

use crate::support::cases::{Bench, PATH};

const OTHER: &str = "/other.db";

fn work(bench: &Bench, random: &mut Rng, disk: &FaultyDisk, options: &str) -> rusqlite::Result<()> {
    let database = bench.open(options)?;
    database.execute_batch(&format!("ATTACH 'file:{OTHER}?{options}' AS other"))?;
    let mode = ["delete", "truncate", "persist", "wal"][random.usize(0..4)];
    for name in ["main", "other"] {
        database.query_row(&format!("PRAGMA {name}.journal_mode={mode}"), [], |_| Ok(()))?;
        database.execute_batch(&format!(
            "PRAGMA {name}.cache_size=5; CREATE TABLE {name}.t (n INTEGER PRIMARY KEY, f BLOB); CREATE INDEX {name}.t_f ON t(f);"
        ))?;
    }
    for n in 1..5000 {
        database.execute_batch(&format!(
            "BEGIN; INSERT INTO main.t VALUES ({n}, zeroblob({n} % 400)); INSERT INTO other.t VALUES ({n}, zeroblob(700)); COMMIT"
        ))?;
        let _ = bench.instance.set_time(f64::from(n));
        if disk.is_off() {
            break;
        }
    }
    Ok(())
}

/// The number of transactions in a file that is whole.
fn found(database: &Connection) -> Result<i64, String> {
    let ok: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(|error| error.to_string())?;
    if ok != "ok" {
        return Err(ok);
    }
    let tables = database.query_row("SELECT count(*) FROM sqlite_master WHERE name='t'", [], |row| row.get::<_, i64>(0));
    if tables.map_err(|error| error.to_string())? == 0 {
        return Ok(0);
    }
    let row = database.query_row("SELECT count(*), coalesce(max(n), 0) FROM t", [], |row| Ok((row.get(0)?, row.get(1)?)));
    let (count, last): (i64, i64) = row.map_err(|error| error.to_string())?;
    if count == last { Ok(count) } else { Err(format!("{count} rows up to {last}")) }
}

#[test]
fn both_files_are_whole_after_a_power_cut() {
    let bench = Bench::new("attached");
    let mut different = 0;
    for seed in 0..200 {
        let mut random = Rng::with_seed(seed);
        let disk = FaultyDisk::new(seed);
        bench.machine.insert(&disk);
        bench.machine.seed(seed);
        disk.inject(Fault::crash(DiskOperation::Change, seed).nth(random.u64(8..150)));
        let log = ["deltas", "wal"][random.usize(0..2)];
        let options = format!("window=3&log={log}&log_limit=50000&memory=1M");
        let _ = bench.instance.set_time(0.0);
        if let Err(error) = work(&bench, &mut random, &disk, &options) {
            println!("{error}");
        }
        assert!(disk.is_off(), "seed {seed}: the power did not fail");
        bench.instance.be_killed();
        disk.restart();
        let transactions = [PATH, OTHER].map(|path| {
            let database = bench.open_at(path, &options).unwrap();
            found(&database).unwrap_or_else(|why| panic!("seed {seed}, {path}, {options}: {why}"))
        });
        different += u32::from(transactions[0] != transactions[1]);
    }
    println!("in {different} of 200 cases the files are at different transactions");
}

/// The first commit of one of the files is older: its window ends before that of the other one.
#[test]
fn files_that_commit_together_get_their_epochs_together() {
    let bench = Bench::new("together");
    for mode in ["delete", "truncate", "persist"] {
        for log in ["deltas", "wal"] {
            for others in 0..3 {
                let options = format!("window=5&log={log}");
                let (disk, database) = on_new_disk(&bench, others, &options);
                let mut work = format!(
                    "ATTACH 'file:{OTHER}?{options}' AS other; PRAGMA main.journal_mode={mode}; PRAGMA other.journal_mode={mode};
                    CREATE TABLE main.t (v); CREATE TABLE other.t (v);
                    INSERT INTO main.t VALUES (100); INSERT INTO other.t VALUES (0);"
                );
                for _ in 0..others {
                    work += "PRAGMA main.ebbpool_flush; PRAGMA other.ebbpool_flush;";
                    work += "UPDATE main.t SET v=v+0; UPDATE other.t SET v=v+0;";
                }
                work += "PRAGMA main.ebbpool_flush; PRAGMA other.ebbpool_flush; CREATE TABLE main.older (x)";
                run(&database, &work);
                bench.instance.set_time(3.0).unwrap();
                run(&database, "BEGIN; UPDATE main.t SET v=v-50; UPDATE other.t SET v=v+50; COMMIT");
                // The window of the older commit has ended, and that of the transaction has not.
                bench.instance.set_time(6.0).unwrap();
                disk.crash(others);
                drop(database);
                disk.restart();
                bench.instance.be_killed();
                let values = [PATH, OTHER].map(|path| {
                    let database = bench.open_at(path, &options).unwrap();
                    database.query_row("SELECT v FROM t", [], |row| row.get::<_, i64>(0)).unwrap()
                });
                assert_eq!(values, [50, 50], "{mode}, {log}, {others}");
            }
        }
    }
}

/// What is in the file of the rows that a transaction changes.
fn rows(database: &Connection) -> rusqlite::Result<Vec<(i64, Vec<u8>)>> {
    let mut statement = database.prepare("SELECT n, f FROM main.t ORDER BY n")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// A database on a new disk, with a process that has just begun.
fn on_new_disk(bench: &Bench, seed: u64, options: &str) -> (FaultyDisk, Connection) {
    let disk = FaultyDisk::new(seed);
    bench.machine.insert(&disk);
    bench.instance.be_killed();
    let _ = bench.instance.set_time(0.0);
    let database = bench.open(options).unwrap();
    (disk, database)
}

/// What plain SQLite finds after a crash, in a file that it finds sound.
fn rows_of_plain(bench: &Bench, disk: &FaultyDisk, seed: u64, when: &str) -> Vec<(i64, Vec<u8>)> {
    disk.crash(seed);
    disk.restart();
    bench.forget();
    let plain = bench.open_plain().unwrap();
    let ok: String = plain.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(ok, "ok", "{when}");
    rows(&plain).unwrap()
}

/// Has a transaction over two files refused from a write on, after which the disk is full; false if the disk had room for it.
fn is_refused(bench: &Bench, mode: &str, lock: &str, options: &str, nth: u64) -> bool {
    let when = format!("{mode}, {lock}, {options}, write {nth}");
    let (disk, database) = on_new_disk(bench, nth, options);
    run(
        &database,
        &format!(
            "PRAGMA auto_vacuum=1; PRAGMA locking_mode={lock}; PRAGMA journal_mode={mode};
            CREATE TABLE t (n INTEGER PRIMARY KEY, f BLOB); CREATE INDEX t_f ON t(f);
            ATTACH 'file:{OTHER}?{options}' AS other; PRAGMA other.journal_mode=wal; CREATE TABLE other.t (f)"
        ),
    );
    for n in 0..20 {
        run(&database, &format!("INSERT INTO main.t VALUES ({n}, randomblob(1500))"));
    }
    run(
        &database,
        "PRAGMA main.ebbpool_flush; PRAGMA other.ebbpool_flush; UPDATE main.t SET f=f WHERE n=1; UPDATE main.t SET f=randomblob(1500) WHERE n=1",
    );
    let before = rows(&database).unwrap();
    disk.inject(Fault::failing(DiskOperation::Write, ENOSPC).nth(nth).forever());
    let committed = database.execute_batch(
        "BEGIN; DELETE FROM main.t WHERE n=5; INSERT INTO main.t VALUES (5, randomblob(1500));
        UPDATE main.t SET f=randomblob(1500) WHERE n=9; INSERT INTO other.t VALUES (zeroblob(90000)); COMMIT",
    );
    if committed.is_ok() {
        return false;
    }
    if !database.is_autocommit() {
        database.execute_batch("ROLLBACK").unwrap();
    }
    let reads = rows(&database).map_err(|error| error.to_string());
    assert_eq!(reads.as_ref(), Ok(&before), "{when}: on the full disk");
    disk.heal();
    let _ = bench.instance.set_time(1000.0);
    run(&database, "INSERT INTO main.t VALUES (100, x'01')");
    let mut expected = before;
    expected.push((100, vec![1]));
    drop(database);
    assert_eq!(rows_of_plain(bench, &disk, nth, &when), expected, "{when}: after a clean close");
    true
}

/// With a window of 0 one file has its part on the disk already when the other one is refused, and the disk has no room to take it
/// back.
#[test]
fn what_an_attached_database_refuses_is_taken_back_on_a_full_disk() {
    let bench = Bench::new("refused-attached");
    for mode in ["delete", "truncate", "persist"] {
        for lock in ["exclusive", "normal"] {
            for window in [0, 30] {
                for log in ["deltas", "wal"] {
                    let options = format!("window={window}&log={log}");
                    let refused = (0..).take_while(|nth| is_refused(&bench, mode, lock, &options, *nth));
                    assert!(refused.count() > 1, "{mode}, {lock}, {options}");
                }
            }
        }
    }
}

/// A commit that makes an auto-vacuum database smaller is refused by the other file: SQLite's journal has no copy of the pages that
/// it would have cut off.
#[test]
fn what_a_refused_commit_would_have_cut_off_is_there() {
    let bench = Bench::new("cut-off");
    for mode in ["delete", "truncate", "persist", "memory"] {
        for window in [0, 30] {
            for log in ["deltas", "wal"] {
                let when = format!("{mode}, window={window}, {log}");
                let options = format!("window={window}&log={log}");
                let (disk, database) = on_new_disk(&bench, 1, &options);
                run(
                    &database,
                    &format!(
                        "PRAGMA auto_vacuum=1; PRAGMA journal_mode={mode}; CREATE TABLE t (n INTEGER PRIMARY KEY, f BLOB);
                        ATTACH 'file:{OTHER}?{options}' AS other; PRAGMA other.journal_mode=wal; CREATE TABLE other.t (f)"
                    ),
                );
                for n in 0..20 {
                    let insert = format!("INSERT INTO main.t VALUES ({n}, randomblob(7000 + 50 * {n}))");
                    run(&database, &insert);
                }
                run(&database, "PRAGMA main.ebbpool_flush; PRAGMA other.ebbpool_flush");
                let before = rows(&database).unwrap();
                let full = Fault::failing(DiskOperation::Write, ENOSPC);
                disk.inject(full.in_file(&format!("{OTHER}-ebb")).forever());
                let full = Fault::failing(DiskOperation::Write, ENOSPC);
                disk.inject(full.in_file(&format!("{OTHER}-wal")).forever());
                let committed = database.execute_batch(
                    "BEGIN; DELETE FROM main.t WHERE n<15; INSERT INTO other.t VALUES (zeroblob(90000)); COMMIT",
                );
                assert!(committed.is_err(), "{when}: the other file has room");
                if !database.is_autocommit() {
                    database.execute_batch("ROLLBACK").unwrap();
                }
                assert_eq!(rows(&database).as_ref(), Ok(&before), "{when}");
                disk.heal();
                run(&database, "DELETE FROM main.t WHERE n=3");
                let expected: Vec<_> = before.into_iter().filter(|(n, _)| *n != 3).collect();
                drop(database);
                assert_eq!(rows_of_plain(&bench, &disk, 2, &when), expected, "{when}: after a close");
            }
        }
    }
}

/// With an exclusive lock SQLite says nothing when it has rolled back: what it has restored is committed nevertheless, and the next
/// rollback goes back to it, although an epoch has what was refused first.
#[test]
fn a_second_refused_commit_brings_nothing_of_the_first_one_back() {
    let bench = Bench::new("refused-twice");
    for mode in ["delete", "truncate", "persist"] {
        for log in ["deltas", "wal"] {
            let when = format!("{mode}, {log}");
            // So short that a transaction needs an epoch at once, and what its rollback restores does not.
            let options = format!("window=30&log={log}&log_limit=20000");
            let (disk, database) = on_new_disk(&bench, 1, &options);
            run(
                &database,
                &format!(
                    "PRAGMA locking_mode=exclusive; PRAGMA journal_mode={mode}; CREATE TABLE t (n INTEGER PRIMARY KEY, f BLOB);
                    ATTACH 'file:{OTHER}?{options}' AS other; PRAGMA other.journal_mode={mode}; CREATE TABLE other.t (f)"
                ),
            );
            for n in 0..20 {
                let insert = format!("INSERT INTO main.t VALUES ({n}, randomblob(1500))");
                run(&database, &insert);
            }
            let before = rows(&database).unwrap();
            let fill = |path: &str| {
                for file in [path.to_owned(), format!("{path}-ebb"), format!("{path}-wal")] {
                    let full = Fault::failing(DiskOperation::Write, ENOSPC);
                    disk.inject(full.in_file(&file).forever());
                }
            };
            for (path, n) in [(OTHER, 5), (PATH, 9)] {
                fill(path);
                let committed = database.execute_batch(&format!(
                    "BEGIN; UPDATE main.t SET f=randomblob(1500) WHERE n={n}; INSERT INTO main.t VALUES (100, randomblob(12000)); INSERT INTO other.t VALUES (zeroblob(90000)); COMMIT"
                ));
                assert!(committed.is_err(), "{when}, {path}: there is room");
                if !database.is_autocommit() {
                    database.execute_batch("ROLLBACK").unwrap();
                }
                run(&database, "PRAGMA shrink_memory");
                assert_eq!(rows(&database).as_ref(), Ok(&before), "{when}, {path}");
            }
            disk.heal();
            drop(database);
            assert_eq!(rows_of_plain(&bench, &disk, 2, &when), before, "{when}: after a close");
        }
    }
}

/// Runs statements, some of which answer with rows.
fn run(database: &Connection, sql: &str) {
    for statement in sql.split(';').filter(|text| !text.trim().is_empty()) {
        let mut statement = database.prepare(statement).unwrap();
        let mut rows = statement.query([]).unwrap();
        while rows.next().unwrap().is_some() {}
    }
}
