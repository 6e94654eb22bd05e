//! What `PRAGMA ebbpool_status` answers, and what a recorder of metrics gets.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ebbpool_sqlite::ffi;
use ebbpool_sqlite::inspect::published_health;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::support::between::Between;
use crate::support::cases::Bench;
use crate::support::real::{directory, open, set_journal};

fn status(database: &Connection, value: &str) -> rusqlite::Result<Value> {
    let sql = format!("PRAGMA ebbpool_status{value}");
    let text = database.query_row(&sql, [], |row| row.get::<_, String>(0))?;
    Ok(serde_json::from_str(&text).unwrap())
}

#[test]
fn years_of_a_card_follow_from_what_is_written() {
    let bench = Bench::new("status");
    let database = bench.open("window=30").unwrap();
    let status = |value: &str| status(&database, value);
    bench.instance.set_time(0.0).unwrap();
    database.execute_batch("CREATE TABLE t (a)").unwrap();
    for n in 0..100 {
        database.execute("INSERT INTO t VALUES (?1)", [n]).unwrap();
    }
    bench.instance.set_time(59.0).unwrap();
    let early = status("").unwrap();
    assert_eq!((&early["seconds"], &early["written"]["card_years"]), (&59.0.into(), &Value::Null));
    bench.instance.set_time(3600.0).unwrap();
    let usual = status("").unwrap();
    assert_eq!(usual["card"], "sd-a1");
    let figure = |status: &Value, part: &str, name: &str| status[part][name].as_f64().unwrap();
    // Years times bytes is the endurance.
    let endurance =
        ["written", "without_ebbpool"].map(|part| figure(&usual, part, "card_years") * figure(&usual, part, "bytes"));
    assert!((endurance[0] / endurance[1] - 1.0).abs() < 1e-9);
    assert!(figure(&usual, "written", "card_years") > figure(&usual, "without_ebbpool", "card_years"));
    let other = status("='emmc-5.1'").unwrap();
    assert_eq!(other["card"], "emmc-5.1");
    assert_ne!(figure(&other, "written", "card_years"), figure(&usual, "written", "card_years"));
    for (value, why) in [("='hdd1'", "magnetic"), ("='nosuch'", "is no device")] {
        let error = status(value).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_bulk_load_writes_each_page_once() {
    let bench = Bench::new("bulk");
    let database = bench.open("window=0&log_limit=1M&memory=1M").unwrap();
    database.execute_batch("CREATE TABLE t (a)").unwrap();
    let written = || {
        let status = status(&database, "").unwrap();
        let [all, temporary] = ["bytes", "temporary_bytes"].map(|name| status["written"][name].as_u64().unwrap());
        all - temporary
    };
    let before = written();
    let pages = || database.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0));
    let pages_before = pages().unwrap();
    database
        .execute_batch("INSERT INTO t SELECT zeroblob(900) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8000) SELECT i FROM n)")
        .unwrap();
    let new = (pages().unwrap() - pages_before) as u64 * 4096;
    assert!(new > 7 << 20, "{new}");
    let bytes = written() - before;
    // The pages that were there go to `-wal`, and from there in place.
    assert!((new..new + (1 << 16)).contains(&bytes), "{bytes} for {new}");
}

/// Counters by name and labels.
#[derive(Default)]
struct RecordedCounters(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl RecordedCounters {
    fn get(&self, name: &str) -> u64 {
        self.0.lock().unwrap()[name].load(Ordering::Relaxed)
    }
}

impl Recorder for RecordedCounters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key.labels().map(|label| format!(" {}", label.value()));
        let name = key.name().to_owned() + &labels.collect::<String>();
        Counter::from_arc(self.0.lock().unwrap().entry(name).or_default().clone())
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn metrics_count_on_when_a_database_is_opened_again() {
    let bench = Bench::new("metrics");
    let recorded = RecordedCounters::default();
    let mut expected = [0; 3];
    metrics::with_local_recorder(&recorded, || {
        for round in 0..3 {
            let database = bench.open("window=0").unwrap();
            database.execute_batch("CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (1)").unwrap();
            let status = status(&database, "").unwrap();
            let figure = |part: &str, name: &str| status[part][name].as_u64().unwrap();
            let commits = status["commits"].as_u64().unwrap();
            assert!(commits > 0, "{round}: {status}");
            expected[0] += commits;
            expected[1] += figure("without_ebbpool", "bytes");
            expected[2] += figure("written", "bytes");
        }
    });
    let counter = |name: &str| recorded.get(&format!("ebbpool_sqlite_{name}"));
    assert_eq!(counter("commits_total /x.db"), expected[0]);
    assert_eq!(counter("requested_bytes_total /x.db"), expected[1]);
    // Closing brings the log in place, which no status has.
    let written = ["log", "database"].map(|to| counter(&format!("written_bytes_total /x.db {to}")));
    assert!(written.iter().sum::<u64>() > expected[2], "{written:?}, {expected:?}");
    assert_eq!(counter("checkpoints_total /x.db"), 4);
}

#[test]
fn no_acknowledged_commit_is_called_durable_before_it_is() {
    for mode in ["delete", "wal"] {
        let (_directory, path) = directory();
        let database = open(&path, "window=300").unwrap();
        set_journal(&database, mode);
        database.execute_batch("CREATE TABLE t (a)").unwrap();
        let unsaved = || published_health(&path).unwrap().unwrap().database.unsaved_commits;
        for round in 0..10 {
            let sql = "PRAGMA ebbpool_flush";
            database.query_row(sql, [], |_| Ok(())).unwrap();
            assert_eq!(unsaved(), 0, "{mode}, {round}");
            database.execute_batch("INSERT INTO t VALUES (1)").unwrap();
            assert_eq!(unsaved(), 1, "{mode}, {round}");
        }
    }
}

/// As on a card that has become read-only: SQLite takes each refused transaction back, after which nothing is left to be written.
#[test]
fn an_epoch_counts_as_failed_until_one_was_written() {
    let below = Between::under_the_library(c"over-read-only");
    for mode in ["delete", "wal"] {
        let (_directory, path) = directory();
        let name = format!("file:{}?vfs=over-read-only&window=0", path.display());
        let database = Connection::open_with_flags(name, OpenFlags::default()).unwrap();
        set_journal(&database, mode);
        database.execute_batch("CREATE TABLE t (a)").unwrap();
        let insert = || database.execute("INSERT INTO t VALUES (1)", []);
        let succeeded = || published_health(&path).unwrap().unwrap().database.last_epoch_succeeded;
        insert().unwrap();
        assert!(succeeded(), "{mode}");
        let changes = ["xWrite", "xTruncate", "xSync", "xDelete"];
        below.observe(move |call| changes.contains(&call.method).then_some(ffi::IOERR_WRITE));
        for _ in 0..4 {
            assert!(insert().is_err(), "{mode}");
            assert!(!succeeded(), "{mode}");
        }
        below.observe_no_more();
        insert().unwrap();
        assert!(succeeded(), "{mode}");
    }
}
