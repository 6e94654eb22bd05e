//! Damaged, cut off, empty and foreign files with the name of the log: nothing is lost in silence.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ebbpool_sqlite::discard::{discard_log, remove_empty_log};
use ebbpool_sqlite::inspect::{LogFit, commits_before_damage, epoch_behind_damage, inspect, write_recovered};
use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;

use crate::support::real::{beside, copy_of, count, directory, error_code, integrity, open, plain, try_count};

/// Where the two headers are, and their bytes.
const SLOTS: [usize; 2] = [0, 512];
const HEADER: usize = 64;
/// Where the records begin.
const RECORDS: usize = 1024;
const ROWS: i64 = 6;

/// What a killed process leaves: a row in place, and others in the log, an epoch each.
struct Left {
    database: Vec<u8>,
    log: Vec<u8>,
    directory: TempDir,
}

impl Left {
    fn new() -> Left {
        Left::of_version(1)
    }

    /// Databases of several versions have several fingerprints.
    fn of_version(version: u32) -> Left {
        let (_directory, path) = directory();
        let database = open(&path, "window=0").unwrap();
        database
            .execute_batch(&format!("BEGIN; PRAGMA user_version={version}; CREATE TABLE t (id INTEGER PRIMARY KEY, v); COMMIT"))
            .unwrap();
        for row in 0..ROWS {
            insert(&database, row);
        }
        let left = Left::of(&path);
        drop(database);
        left
    }

    fn of(path: &Path) -> Left {
        let (directory, copy) = copy_of(path);
        let inspection = inspect(&copy).unwrap();
        assert!(inspection.header.as_ref().unwrap().has_generation);
        let log = inspection.log.unwrap();
        assert_eq!(log.fit, LogFit::Fits);
        Left {
            database: std::fs::read(&copy).unwrap(),
            log: std::fs::read(beside(&copy, "-ebb")).unwrap()[..log.used_bytes as usize].to_vec(),
            directory,
        }
    }

    /// The files again, with another log.
    fn with(&self, log: &[u8]) -> PathBuf {
        let path = self.directory.path().join("home.db");
        for suffix in ["-wal", "-ebb.stale"] {
            let _ = std::fs::remove_file(beside(&path, suffix));
        }
        std::fs::write(&path, &self.database).unwrap();
        std::fs::write(beside(&path, "-ebb"), log).unwrap();
        path
    }

    /// Where the records begin and end.
    fn records(&self) -> Vec<std::ops::Range<usize>> {
        let mut records = Vec::new();
        let mut at = RECORDS;
        while at < self.log.len() {
            let length = u32::from_le_bytes(self.log[at..at + 4].try_into().unwrap());
            records.push(at..at + length as usize);
            at += length as usize;
        }
        records
    }
}

fn insert(database: &Connection, row: i64) {
    database.execute("INSERT INTO t (v) VALUES (?1)", [row]).unwrap();
}

fn flipped(log: &[u8], bits: &[usize]) -> Vec<u8> {
    let mut log = log.to_vec();
    for bit in bits {
        log[bit / 8] ^= 1 << (bit % 8);
    }
    log
}

/// The database is refused, a check says why, and nothing is changed.
fn assert_refused(left: &Left, log: &[u8], case: &str) {
    let path = left.with(log);
    let findings = inspect(&path).unwrap().findings();
    assert_eq!(findings.len(), 1, "{case}: {findings:?}");
    let refused = open(&path, "").unwrap();
    let code = error_code(try_count(&refused));
    assert_eq!(code, Some(ErrorCode::CannotOpen), "{case}");
    drop(refused);
    assert!(std::fs::read(beside(&path, "-ebb")).unwrap() == log, "{case}");
    assert!(std::fs::read(&path).unwrap() == left.database, "{case}");
}

#[test]
fn a_damaged_header_is_healed_by_the_other_one() {
    let left = Left::new();
    for (damaged, other) in [(0, 1), (1, 0)] {
        let path = left.with(&flipped(&left.log, &[SLOTS[damaged] * 8 + 100]));
        let database = open(&path, "window=0").unwrap();
        insert(&database, 7);
        let healed = Left::of(&path);
        let path = healed.with(&flipped(&healed.log, &[SLOTS[other] * 8 + 100]));
        let recovered = open(&path, "").unwrap();
        assert_eq!(count(&recovered), ROWS + 1);
        assert_eq!(integrity(&recovered), "ok");
    }
}

#[test]
fn without_a_valid_header_the_database_is_refused() {
    let left = Left::new();
    for bit in [3, 60, 70, 130, 200, 260, 330, 390, 450, 511] {
        let log = flipped(&left.log, &[SLOTS[0] * 8 + bit, SLOTS[1] * 8 + bit]);
        assert_refused(&left, &log, &format!("bit {bit}"));
    }
    for log in [&[0; 4096][..], b"something else", &[0xff; 70_000]] {
        assert_refused(&left, log, "foreign bytes");
    }
    // A log of another database that has no record either.
    let another = Left::of_version(2);
    assert_refused(&left, &another.log[..RECORDS], "another one");
    // Giving it up deletes nothing.
    let log = flipped(&left.log, &[100, 512 * 8 + 100]);
    let path = left.with(&log);
    let stale = beside(&path, "-ebb.stale");
    discard_log(&path, Some(&stale)).unwrap();
    assert_eq!(std::fs::read(&stale).unwrap(), log);
    assert_eq!(inspect(&path).unwrap().findings(), [""; 0]);
    plain(&path).execute_batch("INSERT INTO t (v) VALUES (1)").unwrap();
}

#[test]
fn an_empty_log_is_none() {
    let (_directory, path) = directory();
    let database = plain(&path);
    database.execute_batch("CREATE TABLE t (v)").unwrap();
    drop(database);
    let ebb = beside(&path, "-ebb");
    std::fs::write(&ebb, "").unwrap();
    let inspection = inspect(&path).unwrap();
    assert!(inspection.is_plain() && inspection.has_empty_log);
    assert_eq!(inspection.findings(), [""; 0]);
    let database = open(&path, "window=0").unwrap();
    assert_eq!(count(&database), 0);
    drop(database);
    assert!(!ebb.exists());
    std::fs::write(&ebb, "").unwrap();
    remove_empty_log(&path).unwrap();
    assert!(!ebb.exists());
    // Beside a database that needs its log, the log is gone.
    let left = Left::new();
    assert_refused(&left, &[], "an empty log");
    let path = left.with(&[]);
    let inspection = inspect(&path).unwrap();
    assert!(inspection.lacks_log() && inspection.has_empty_log);
    discard_log(&path, None).unwrap();
    remove_empty_log(&path).unwrap();
    assert!(inspect(&path).unwrap().is_plain());
}

#[test]
fn a_foreign_file_is_moved_aside() {
    for foreign in [&b"letters of another program"[..], &[0xff; 5000], b"ebb"] {
        let (_directory, path) = directory();
        let database = plain(&path);
        database.execute_batch("CREATE TABLE t (v); INSERT INTO t VALUES (1)").unwrap();
        drop(database);
        std::fs::write(beside(&path, "-ebb"), foreign).unwrap();
        std::fs::write(beside(&path, "-ebb.stale"), "earlier").unwrap();
        let inspection = inspect(&path).unwrap();
        assert_eq!(inspection.log.as_ref().unwrap().fit, LogFit::Foreign);
        assert_eq!(inspection.findings(), [""; 0]);
        let database = open(&path, "window=0").unwrap();
        insert(&database, 2);
        insert(&database, 3);
        assert_eq!(count(&database), 3);
        drop(database);
        let stale = std::fs::read(beside(&path, "-ebb.stale")).unwrap();
        assert_eq!(stale, b"earlier");
        let moved = std::fs::read(beside(&path, "-ebb.stale.2")).unwrap();
        assert_eq!(moved, foreign);
        assert!(!beside(&path, "-ebb").exists());
    }
}

#[test]
fn a_check_finds_epochs_behind_a_damaged_record() {
    let left = Left::new();
    let behind = |log: &[u8]| {
        let inspection = inspect(&left.with(log)).unwrap();
        epoch_behind_damage(&inspection).unwrap()
    };
    assert_eq!(behind(&left.log), None);
    let records = left.records();
    let last = records.len() - 1;
    for (index, record) in records.iter().enumerate() {
        for bit in (record.start * 8..record.end * 8).step_by(3) {
            let found = behind(&flipped(&left.log, &[bit]));
            // The last one may have been torn.
            let expected = (index < last).then_some(index as u32 + 2);
            assert_eq!(found, expected, "bit {bit}");
        }
    }
    // A power cut leaves any part of the last record, and what was there before in the rest.
    for cut in records[last].clone().step_by(8) {
        for rest in [0, 0xa5] {
            let mut log = left.log.clone();
            log[cut..].fill(rest);
            log.extend_from_slice(&left.log[RECORDS..cut]);
            assert_eq!(behind(&log), None, "{cut}");
        }
    }
}

/// Records of older generations look whole behind the end of the log, at the same offsets.
#[test]
fn a_check_does_not_take_older_generations_for_the_log() {
    let (_directory, path) = directory();
    let database = open(&path, "window=0").unwrap();
    database.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, v)").unwrap();
    insert(&database, 0);
    for rows in (1..20).rev() {
        for row in 0..rows {
            database.execute("UPDATE t SET v=?1", [row % 2 + 10]).unwrap();
        }
        let (_copies, copy) = copy_of(&path);
        let inspection = inspect(&copy).unwrap();
        assert_eq!(inspection.findings(), [""; 0]);
        assert_eq!(epoch_behind_damage(&inspection).unwrap(), None, "{rows}");
        database.query_row("PRAGMA ebbpool_checkpoint", [], |_| Ok(())).unwrap();
    }
}

/// A record that says it is 4 GiB long costs no memory.
/// Closing cuts `-wal` off, and deletes it; a power cut soon afterwards takes the deletion back.
#[test]
fn a_check_does_not_take_a_wal_that_was_cut_off_for_a_damaged_one() {
    let (_directory, path) = directory();
    let database = open(&path, "window=0&log=wal").unwrap();
    database.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, v)").unwrap();
    for row in 0..ROWS {
        insert(&database, row);
    }
    let mut wal = std::fs::read(beside(&path, "-wal")).unwrap();
    database.close().unwrap();
    let mut behind = |header: u8| {
        wal[..32].fill(header);
        std::fs::write(beside(&path, "-wal"), &wal).unwrap();
        commits_before_damage(&inspect(&path).unwrap()).unwrap()
    };
    assert_eq!(behind(0), None);
    assert_eq!(behind(1), Some(0), "a damaged header is another matter");
}

#[test]
fn a_check_goes_over_the_holes_of_a_long_wal() {
    let (_directory, path) = directory();
    let database = plain(&path);
    database.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t (a)").unwrap();
    for _ in 0..3 {
        database.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    }
    let bytes = std::fs::read(beside(&path, "-wal")).unwrap();
    let frame = 24 + 4096;
    let (_copies, copy) = directory();
    std::fs::copy(&path, &copy).unwrap();
    let behind = |hole: u64, is_damaged: bool| {
        let name = beside(&copy, "-wal");
        std::fs::write(&name, &bytes[..bytes.len() - 2 * frame]).unwrap();
        let wal = std::fs::OpenOptions::new().write(true).open(name).unwrap();
        if is_damaged {
            let at = bytes.len() as u64 + hole * frame as u64;
            wal.write_all_at(&bytes[bytes.len() - 2 * frame..], at).unwrap();
        }
        wal.set_len(4 << 40).unwrap();
        commits_before_damage(&inspect(&copy).unwrap()).unwrap()
    };
    assert_eq!(behind(0, false), None);
    // Its first frame is behind one that says so, as no frame in a hole does.
    assert_eq!(behind(10_000_000, true), Some(1 + 1));
}

/// SQLite takes commits of another database in, if it finds them there; a check says what comes of it.
#[test]
fn a_check_says_what_sqlite_makes_of_the_wal_of_another_database() {
    let (_directory, path) = directory();
    let (_others, other) = directory();
    for (path, page_size) in [(&path, 4096), (&other, 8192)] {
        let text = format!(
            "PRAGMA page_size={page_size}; PRAGMA journal_mode=wal; CREATE TABLE t (a, b);
             WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 200)
             INSERT INTO t SELECT n, randomblob(300) FROM c; PRAGMA wal_checkpoint(TRUNCATE)"
        );
        plain(path).execute_batch(&text).unwrap();
    }
    let database = plain(&other);
    database.execute_batch("INSERT INTO t VALUES (1, randomblob(300))").unwrap();
    std::fs::copy(beside(&other, "-wal"), beside(&path, "-wal")).unwrap();
    let copy = beside(&path, "-copy");
    write_recovered(&inspect(&path).unwrap(), &copy).unwrap();
    let judged = |path: &Path| {
        let judged = plain(path).query_row("PRAGMA integrity_check", [], |row| row.get(0));
        judged.map_err(|error| error.to_string()) as Result<String, String>
    };
    assert_ne!(judged(&copy), Ok("ok".into()));
    assert_eq!(judged(&copy), judged(&path));
}

/// A program may have databases `a` and `a-ebb`.
#[test]
fn another_database_that_has_the_name_of_the_log_stays() {
    let (_directory, path) = directory();
    let other = beside(&path, "-ebb");
    plain(&other).execute_batch("CREATE TABLE t (a)").unwrap();
    plain(&path).execute_batch("CREATE TABLE t (a)").unwrap();
    let refused = try_count(&open(&path, "").unwrap());
    assert_eq!(error_code(refused), Some(ErrorCode::CannotOpen));
    assert_eq!((count(&plain(&path)), count(&plain(&other))), (0, 0));
}

mod slow {
    use super::*;

    #[test]
    fn a_flipped_bit_of_a_header_loses_nothing() {
        let left = Left::new();
        for slot in SLOTS {
            for bit in slot * 8..(slot + HEADER) * 8 {
                let path = left.with(&flipped(&left.log, &[bit]));
                let inspection = inspect(&path).unwrap();
                let found = inspection.log.as_ref().unwrap();
                assert_eq!(found.fit, LogFit::Fits, "bit {bit}");
                assert_eq!(inspection.findings(), [""; 0], "bit {bit}");
                let copy = beside(&path, ".copy");
                // It goes into no file that is there.
                let _ = std::fs::remove_file(&copy);
                write_recovered(&inspection, &copy).unwrap();
                assert_eq!(count(&plain(&copy)), ROWS, "bit {bit}");
                let database = open(&path, "").unwrap();
                assert_eq!(count(&database), ROWS, "bit {bit}");
                drop(database);
                assert_eq!(count(&plain(&path)), ROWS, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_log_that_was_cut_off_is_refused_or_ends_there() {
        let left = Left::new();
        for length in 0..RECORDS {
            assert_refused(&left, &left.log[..length], &format!("{length} bytes"));
        }
        let records = left.records();
        let first = ROWS - records.len() as i64;
        for length in RECORDS..=left.log.len() {
            let path = left.with(&left.log[..length]);
            let database = open(&path, "").unwrap();
            let whole = records.iter().filter(|record| record.end <= length).count();
            // The first epoch has made the table, or a row of it.
            let rows = try_count(&database).unwrap_or(0);
            assert_eq!(rows, (first + whole as i64).max(0), "{length} bytes");
            drop(database);
            assert_eq!(integrity(&plain(&path)), "ok", "{length} bytes");
        }
    }

    #[test]
    fn a_sparse_log_of_5_gib_takes_no_memory() {
        if !crate::support::real::is_alone("damaged::slow::a_sparse_log_of_5_gib_takes_no_memory") {
            return;
        }
        let left = Left::new();
        let mut log = left.log.clone();
        let last = left.records().pop().unwrap();
        log[last.start..last.start + 4].copy_from_slice(&0xffff_fff8u32.to_le_bytes());
        let path = left.with(&log);
        let file = std::fs::OpenOptions::new().write(true).open(beside(&path, "-ebb")).unwrap();
        file.set_len(5 << 30).unwrap();
        let inspection = inspect(&path).unwrap();
        assert_eq!(inspection.findings(), [""; 0]);
        let database = open(&path, "").unwrap();
        assert_eq!(count(&database), ROWS - 1);
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = text.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = peak.unwrap().split_whitespace().nth(1).unwrap();
        assert!(kilobytes.parse::<u64>().unwrap() < 200_000, "{peak:?}");
    }
}
