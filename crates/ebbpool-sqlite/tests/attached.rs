//! Transactions over two files: a power cut leaves each file whole, as SQLite promises for databases with a WAL.

#![allow(unsafe_code)]

mod support;

use ebbpool::storage::{DiskOperation, Fault, FaultyDisk};
use fastrand::Rng;
use rusqlite::Connection;
use support::cases::{Bench, PATH};

const OTHER: &str = "/other.db";

fn work(bench: &Bench, random: &mut Rng, disk: &FaultyDisk, options: &str) -> rusqlite::Result<()> {
    let database = bench.open(options)?;
    database.execute_batch(&format!("ATTACH 'file:{OTHER}?{options}' AS other"))?;
    let mode = ["delete", "truncate", "persist", "wal"][random.usize(0..4)];
    for name in ["main", "other"] {
        database.query_row(
            &format!("PRAGMA {name}.journal_mode={mode}"),
            [],
            |_| Ok(()),
        )?;
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
    let ok: String = database
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(|error| error.to_string())?;
    if ok != "ok" {
        return Err(ok);
    }
    let tables = database.query_row(
        "SELECT count(*) FROM sqlite_master WHERE name='t'",
        [],
        |row| row.get::<_, i64>(0),
    );
    if tables.map_err(|error| error.to_string())? == 0 {
        return Ok(0);
    }
    let row = database.query_row("SELECT count(*), coalesce(max(n), 0) FROM t", [], |row| {
        Ok((row.get(0)?, row.get(1)?))
    });
    let (count, last): (i64, i64) = row.map_err(|error| error.to_string())?;
    if count == last {
        Ok(count)
    } else {
        Err(format!("{count} rows up to {last}"))
    }
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
                let disk = FaultyDisk::new(others);
                bench.machine.insert(&disk);
                bench.instance.be_killed();
                let _ = bench.instance.set_time(0.0);
                let options = format!("window=5&log={log}");
                let database = bench.open(&options).unwrap();
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
                run(
                    &database,
                    "BEGIN; UPDATE main.t SET v=v-50; UPDATE other.t SET v=v+50; COMMIT",
                );
                // The window of the older commit has ended, and that of the transaction has not.
                bench.instance.set_time(6.0).unwrap();
                disk.crash(others);
                drop(database);
                disk.restart();
                bench.instance.be_killed();
                let values = [PATH, OTHER].map(|path| {
                    let database = bench.open_at(path, &options).unwrap();
                    database
                        .query_row("SELECT v FROM t", [], |row| row.get::<_, i64>(0))
                        .unwrap()
                });
                assert_eq!(values, [50, 50], "{mode}, {log}, {others}");
            }
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
