//! Power cuts at every change of a simulated disk, judged by plain SQLite.

#![allow(unsafe_code)]

use ebbpool::storage::{DiskOperation, Fault, FaultyDisk};

use crate::support::cases::{Bench, Case, PATH, run};

/// How many cases run: `EBBPOOL_CRASHES=100000` runs more than the usual number, from `EBBPOOL_SEED` on.
fn cases() -> std::ops::Range<u64> {
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let usual = if std::env::var_os("EBBPOOL_WHOLE").is_some() { 5000 } else { 250 };
    let from = number("EBBPOOL_SEED", 1);
    from..from + number("EBBPOOL_CRASHES", usual)
}

#[test]
fn a_power_cut_damages_nothing_and_loses_no_more_than_the_window() {
    judge_all("crash", cases(), Case::new);
}

#[test]
fn after_failing_writes_and_syncs_nothing_is_damaged_or_lost() {
    let cases = cases();
    judge_all("fault", cases.start..cases.start + (cases.end - cases.start) / 4, Case::with_faults);
}

#[test]
fn on_a_disk_that_stays_full_nothing_acknowledged_is_lost() {
    let cases = cases();
    judge_all("full", cases.start..cases.start + (cases.end - cases.start) / 4, Case::with_trouble);
}

/// A mark of which a sync has failed counted as durable; SQLite's cache had pages of a refused transaction; and pages that were to
/// go beyond the end of a full disk did not take the room that `-wal` had; and a mark without a number could get one where a sync had
/// failed.
#[test]
fn cases_that_have_failed_are_run_again() {
    let bench = Bench::new("again");
    let cases = [3_000_804, 3_003_080, 3_000_765, 3_002_919, 10_004_868]
        .map(Case::with_faults)
        .into_iter()
        .chain([1259, 30_001_133, 30_014_413, 30_023_401].map(Case::with_trouble));
    for case in cases {
        run(&bench, &case).unwrap_or_else(|why| panic!("{why}: {case:?}"));
    }
}

/// SQLite before 3.7.0 wrote no valid size into the header: then the length of the file is the size of the database.
#[test]
fn a_power_cut_in_a_bulk_load_adds_no_pages_to_a_database_without_a_size() {
    let bench = Bench::new("without-size");
    let mut loaded = 0;
    for change in 1..60 {
        let disk = FaultyDisk::new(change);
        bench.machine.insert(&disk);
        let plain = bench.open_plain().unwrap();
        plain.execute_batch("PRAGMA page_size=1024; CREATE TABLE t (a)").unwrap();
        drop(plain);
        let file = disk.bytes(PATH);
        file.write_at(92, &[0; 4]).unwrap();
        file.sync().unwrap();
        disk.inject(Fault::crash(DiskOperation::Change, change).nth(change));
        let load = || -> rusqlite::Result<()> {
            bench.open("window=0&log_limit=20k&memory=1M")?.execute_batch(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
                 INSERT INTO t SELECT zeroblob(900) FROM n",
            )
        };
        // The power fails in one of the calls, or afterwards.
        let _ = load();
        bench.instance.be_killed();
        disk.restart();
        // The library recovers what has become durable; the second time because a late cut may hit the first.
        for _ in 0..2 {
            let recovered =
                bench.open("window=0").and_then(|database| database.query_row("SELECT count(*) FROM t", [], |_| Ok(())));
            assert!(recovered.is_ok() || disk.is_off(), "change {change}");
            drop(recovered);
            bench.instance.be_killed();
            disk.restart();
        }
        let plain = bench.open_plain().unwrap();
        let rows: i64 = plain.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        let pages: i64 = plain.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let ok: String = plain.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(ok, "ok", "change {change}, {rows} rows on {pages} pages");
        assert!(rows == 200 || (rows, pages) == (0, 2), "{rows}, {pages}");
        loaded += i64::from(rows == 200);
    }
    assert!((1..59).contains(&loaded), "{loaded}");
}

/// Beside a reader, so that what the files have must stay for its snapshot, and between transactions that are rolled back.
#[test]
fn a_power_cut_leaves_all_or_nothing_of_a_transaction_larger_than_memory() {
    let bench = Bench::new("larger");
    let version_of = |database: &rusqlite::Connection| -> rusqlite::Result<i64> {
        let sql = "SELECT min(v), max(v), count(*) FROM t";
        let (least, most, count) = database.query_row(sql, [], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get(2)?)))?;
        assert_eq!((least, count), (most, 1500));
        Ok(most)
    };
    let mut ended = 0;
    let mut change = 1;
    while ended < 3 {
        change += if std::env::var_os("EBBPOOL_WHOLE").is_some() { 1 } else { 7 };
        let disk = FaultyDisk::new(change);
        bench.machine.insert(&disk);
        bench
            .open_plain()
            .unwrap()
            .execute_batch(
                "PRAGMA page_size=1024; CREATE TABLE t (id INTEGER PRIMARY KEY, v INT, a);
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
                 INSERT INTO t SELECT i, 0, zeroblob(900) FROM n",
            )
            .unwrap();
        disk.inject(Fault::crash(DiskOperation::Change, change).nth(change));
        let mut acknowledged = 0;
        let mut work = || -> rusqlite::Result<()> {
            let [database, reader] = ["window=0&memory=1M&log_limit=100k"; 2].map(|options| bench.open(options));
            let (database, reader) = (database?, reader?);
            database.execute_batch("PRAGMA cache_size=20; PRAGMA journal_mode=wal")?;
            for version in 1..4 {
                reader.execute_batch("BEGIN")?;
                let before = version_of(&reader)?;
                database.execute_batch("BEGIN; UPDATE t SET v=100 WHERE id % 5; ROLLBACK")?;
                database.execute("UPDATE t SET v=?1", [version])?;
                acknowledged = version;
                database.execute_batch("BEGIN; UPDATE t SET v=100 WHERE id % 2; ROLLBACK; UPDATE t SET a=1 WHERE id=7")?;
                assert_eq!((version_of(&reader)?, version_of(&database)?), (before, version));
                reader.execute_batch("COMMIT")?;
                if version == 2 {
                    database.query_row("PRAGMA wal_checkpoint", [], |_| Ok(()))?;
                }
            }
            Ok(())
        };
        let worked = work();
        assert!(worked.is_ok() || disk.is_off(), "change {change}: {worked:?}");
        ended += i64::from(!disk.is_off());
        bench.instance.be_killed();
        disk.restart();
        disk.heal();
        let found = version_of(&bench.open("window=0").unwrap()).unwrap();
        assert!((acknowledged..acknowledged + 2).contains(&found), "change {change}: {found} after {acknowledged}");
        let plain = bench.open_plain().unwrap();
        let ok: String = plain.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!((ok.as_str(), version_of(&plain).unwrap()), ("ok", found), "change {change}");
    }

    assert!(change > 40, "{change}");
}

/// A log of an earlier version goes on in it; the next generation is of the latest version, in the same file. In the first version it
/// has no second header.
#[test]
fn a_power_cut_while_a_log_of_an_earlier_version_is_replaced_loses_nothing() {
    for version in [1, 2] {
        replace_log_of(version);
    }
}

fn replace_log_of(version: u32) {
    let bench = Bench::new(&format!("version-{version}"));
    let golden = |suffix: &str| {
        let name = format!("tests/golden/home-{version}.db{suffix}");
        std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
    };
    let count = |database: &rusqlite::Connection| {
        let sql = "SELECT count(*) FROM t WHERE id<=7 OR id=100";
        database.query_row(sql, [], |row| row.get::<_, i64>(0))
    };
    let mut ended = 0;
    for change in 1..200 {
        let disk = FaultyDisk::new(change);
        bench.machine.insert(&disk);
        for suffix in ["", "-ebb"] {
            let file = disk.bytes(&format!("{PATH}{suffix}"));
            file.write_at(0, &golden(suffix)).unwrap();
            file.sync().unwrap();
        }
        disk.inject(Fault::crash(DiskOperation::Change, change).nth(change));
        let work = || -> rusqlite::Result<()> {
            let database = bench.open("window=0")?;
            for row in 200..210 {
                database.execute("INSERT INTO t VALUES (?1, 'more')", [row])?;
                if row % 4 == 0 {
                    database.query_row("PRAGMA ebbpool_checkpoint", [], |_| Ok(()))?;
                }
            }
            Ok(())
        };
        let worked = work();
        assert!(worked.is_ok() || disk.is_off(), "version {version}, change {change}");
        ended += i64::from(!disk.is_off());
        bench.instance.be_killed();
        disk.restart();
        disk.heal();
        let recovered = bench.open("window=0").unwrap();
        assert_eq!(count(&recovered).unwrap(), 8, "version {version}, change {change}");
        drop(recovered);
        bench.instance.be_killed();
        let plain = bench.open_plain().unwrap();
        assert_eq!(count(&plain).unwrap(), 8, "version {version}, change {change}");
        let check = plain.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
        assert_eq!(check.unwrap(), "ok", "version {version}, change {change}");
    }
    assert!((1..150).contains(&ended), "{ended}");
}

fn judge_all(name: &str, cases: std::ops::Range<u64>, case_of: fn(u64) -> Case) {
    let count = cases.end - cases.start;
    let threads = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    let failures: Vec<String> = std::thread::scope(|scope| {
        let cases = &cases;
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    let bench = Bench::new(&format!("{name}-{worker}"));
                    let mine = cases.clone().filter(|seed| seed % threads == worker);
                    let failed = mine.filter_map(|seed| {
                        let case = case_of(seed);
                        run(&bench, &case).err().map(|why| format!("{why}: {case:?}"))
                    });
                    failed.collect::<Vec<String>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let shown = failures
        .iter()
        .take(if std::env::var_os("EBBPOOL_SHOW_ALL").is_some() { 500 } else { 5 })
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(failures.is_empty(), "{} of {count} crashes:\n{shown}", failures.len());
}
