//! Files that others have left beside a database, taken away, or written.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::support::between::{Between, FileKind};
use crate::support::real::{beside, set_journal};

fn open(path: &Path) -> Connection {
    open_with(path, "window=5")
}

fn open_with(path: &Path, options: &str) -> Connection {
    ebbpool_sqlite::register(false).unwrap();
    let name = format!("file:{}?vfs=ebbpool&{options}", path.display());
    Connection::open_with_flags(name, OpenFlags::default()).unwrap()
}

/// Waits for a sync of the library, which takes longer than SQLite's usual five seconds on a disk that other tests use.
fn plain(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    database.busy_timeout(Duration::from_secs(60)).unwrap();
    database
}

fn numbers(database: &Connection) -> Vec<i64> {
    let mut statement = database.prepare("SELECT a FROM t ORDER BY a").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn a_persistent_journal_of_plain_sqlite_is_no_hindrance() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let sqlite = plain(&path);
    let setup = "PRAGMA journal_mode=PERSIST; CREATE TABLE t (a); INSERT INTO t VALUES (1);";
    sqlite.execute_batch(setup).unwrap();
    sqlite.close().unwrap();
    assert!(directory.path().join("x.db-journal").exists());
    let database = open(&path);
    database.execute("INSERT INTO t VALUES (2)", []).unwrap();
    assert_eq!(numbers(&database), [1, 2]);
    database.close().unwrap();
    assert_eq!(numbers(&plain(&path)), [1, 2]);
}

#[test]
fn a_database_made_anew_is_not_the_one_that_was_deleted_while_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let before = open(&path);
    let setup = "CREATE TABLE t (a); INSERT INTO t VALUES (1);";
    before.execute_batch(setup).unwrap();
    std::fs::remove_file(&path).unwrap();
    let after = open(&path);
    after.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (2);").unwrap();
    assert!(before.execute("INSERT INTO t VALUES (3)", []).is_err());
    drop(before);
    assert_eq!(numbers(&after), [2]);
    after.close().unwrap();
    assert_eq!(numbers(&plain(&path)), [2]);
}

/// SQLite uses the index of its WAL until it unmaps it.
#[test]
fn closing_leaves_the_index_of_the_wal_to_a_handle_whose_database_was_moved() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let before = open(&path);
    set_journal(&before, "wal");
    before
        .execute_batch(
            "PRAGMA cache_size=1; PRAGMA cache_spill=1; CREATE TABLE t (a);
            BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
            INSERT INTO t SELECT hex(zeroblob(1000)) FROM n",
        )
        .unwrap();
    std::fs::rename(&path, path.with_extension("old")).unwrap();
    let after = open(&path);
    after.execute_batch("CREATE TABLE t (a)").unwrap();
    let _ = before.execute_batch("ROLLBACK");
    drop(before);
    assert!(numbers(&after).is_empty());
}

/// Files of a rotated database, and those of the one that has its name by now.
#[test]
fn closing_a_moved_database_leaves_the_logs_of_a_new_one_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let before = open(&path);
    before.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1); PRAGMA ebbpool_checkpoint").unwrap();
    before.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    let moved = path.with_extension("old");
    std::fs::rename(&path, &moved).unwrap();
    let after = plain(&path);
    set_journal(&after, "wal");
    after.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (3)").unwrap();
    let foreign = path.with_extension("db-ebb");
    // Another file, and not the one that the moved database has open.
    let _ = std::fs::remove_file(&foreign);
    std::fs::write(&foreign, "of another database").unwrap();
    drop(before);
    assert_eq!(numbers(&plain(&moved)), [1, 2]);
    assert!(path.with_extension("db-wal").exists());
    assert!(foreign.exists());
    assert_eq!(numbers(&plain(&path)), [3]);
}

#[test]
fn a_database_whose_directory_is_renamed_keeps_its_commits() {
    for (window, mode) in [(0, "wal"), (5, "wal"), (0, "delete"), (5, "delete")] {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let database = open(&inner.join("x.db"));
        let sql = format!("PRAGMA ebbpool_window={window}");
        database.query_row(&sql, [], |_| Ok(())).unwrap();
        set_journal(&database, mode);
        database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)").unwrap();
        let moved = directory.path().join("moved");
        std::fs::rename(&inner, &moved).unwrap();
        let mut expected = vec![1, 2];
        for number in 3..20 {
            if database.execute("INSERT INTO t VALUES (?1)", [number]).is_ok() {
                expected.push(number);
            }
        }
        drop(database);
        let found = numbers(&plain(&moved.join("x.db")));
        assert_eq!(found, expected, "{window}, {mode}");
    }
}

#[test]
fn a_database_that_is_moved_while_open_takes_its_commits_along() {
    let directory = tempfile::tempdir().unwrap();
    let (path, moved) = (directory.path().join("x.db"), directory.path().join("moved.db"));
    let before = open(&path);
    let setup = "CREATE TABLE t (a); INSERT INTO t VALUES (1);";
    before.execute_batch(setup).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    let after = open(&path);
    after.execute_batch("CREATE TABLE other (b)").unwrap();
    assert_eq!(numbers(&plain(&moved)), [1]);
    drop(before);
}

/// As a web page's button "restore" does, or `cp`. Plain SQLite goes on with the backup in a rollback mode, and damages it in WAL mode.
#[test]
fn a_backup_that_is_copied_over_an_open_database_stays() {
    for options in ["window=0", "window=30", "window=0&log=wal", "window=30&log=wal"] {
        for (journal, rows) in [("delete", 400), ("wal", 400), ("delete", 1), ("wal", 399), ("delete", 2)] {
            let context = format!("{options} {journal} {rows}");
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("x.db");
            let database = plain(&path);
            let setup = "CREATE TABLE t (a INTEGER PRIMARY KEY, v); CREATE INDEX i ON t (v);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
                INSERT INTO t SELECT i, randomblob(900) FROM n";
            database.execute_batch(setup).unwrap();
            database.close().unwrap();
            let backup = std::fs::read(&path).unwrap();

            let database = open_with(&path, options);
            set_journal(&database, journal);
            let insert = "INSERT INTO t (v) VALUES (randomblob(900))";
            for row in 0..rows {
                database.execute(insert, []).unwrap();
                if row == 0 {
                    // A backup that is as the file in place would change nothing but its times.
                    database.query_row("PRAGMA ebbpool_checkpoint", [], |_| Ok(())).unwrap();
                }
            }
            // In place, as it was opened, and longer than the system's clock ticks after the last change.
            std::thread::sleep(Duration::from_millis(20));
            let mut file = std::fs::OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
            file.write_all(&backup).unwrap();
            let read = || database.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).map(drop);
            let error = if rows % 2 == 0 { read().err() } else { database.execute(insert, []).err() };
            let code = error.and_then(|error| error.sqlite_error_code());
            assert_eq!(code, Some(rusqlite::ErrorCode::SystemIoFailure), "{context}");
            assert!(read().is_err(), "{context}");
            assert!(database.execute(insert, []).is_err(), "{context}");

            // Who opens it again has the backup, also while the other handle is there.
            let again = open_with(&path, options);
            again.execute(insert, []).unwrap_or_else(|error| panic!("{context}: {error}"));
            drop(database);
            again.execute(insert, []).unwrap();
            again.close().unwrap();
            let judge = plain(&path);
            let found: String = judge.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(found, "ok", "{context}");
            let found: i64 = judge.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!(found, 602, "{context}");
            judge.close().unwrap();
            let left = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let others: Vec<_> = left.filter(|name| name != "x.db" && !name.to_string_lossy().contains(".stale")).collect();
            assert_eq!(others, [] as [&str; 0], "{context}");
        }
    }
}

/// The file is as SQLite has made it: nothing but its times has changed.
#[test]
fn who_reads_an_open_database_does_it_no_harm() {
    for (options, journal) in
        [("window=0", "delete"), ("window=30", "delete"), ("window=0", "wal"), ("window=30&log=wal", "wal")]
    {
        for before in 0..3 {
            let context = format!("{options} {journal} {before}");
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("x.db");
            plain(&path).execute_batch("CREATE TABLE t (a)").unwrap();
            let database = open_with(&path, options);
            set_journal(&database, journal);
            // Without a record, with a plain file that was asked for, and with records.
            for number in 0..before {
                database.execute("INSERT INTO t VALUES (?1)", [number]).unwrap();
                if number == 0 {
                    database.query_row("PRAGMA ebbpool_checkpoint", [], |_| Ok(())).unwrap();
                }
            }
            std::thread::sleep(Duration::from_millis(20));
            // A copy, other rights, another time, and another name.
            std::fs::copy(&path, directory.path().join("copy")).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            std::fs::hard_link(&path, directory.path().join("link")).unwrap();
            let touch =
                || std::fs::File::options().append(true).open(&path).unwrap().set_modified(std::time::SystemTime::now());
            for number in before..before + 4 {
                touch().unwrap();
                let inserted = database.execute("INSERT INTO t VALUES (?1)", [number]);
                inserted.unwrap_or_else(|error| panic!("{context}: {error}"));
                std::thread::sleep(Duration::from_millis(20));
            }
            touch().unwrap();
            assert_eq!(numbers(&database), Vec::from_iter(0..before + 4), "{context}");
            database.close().unwrap();
            assert_eq!(numbers(&plain(&path)), Vec::from_iter(0..before + 4), "{context}");
        }
    }
}

/// As `dd` or a hexadecimal editor does. Neither the length nor the header shows that.
#[test]
fn what_is_written_into_the_middle_of_an_open_database_stays() {
    for options in ["window=0", "window=30"] {
        for records in [0, 5] {
            let context = format!("{options} {records}");
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("x.db");
            plain(&path).execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
            let database = open_with(&path, options);
            for number in 0..records {
                database.execute("INSERT INTO t VALUES (?1)", [number]).unwrap();
            }
            numbers(&database);
            std::thread::sleep(Duration::from_millis(20));
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, b"foreign", 4096 + 100).unwrap();
            let after = std::fs::read(&path).unwrap();
            let error = database.execute("INSERT INTO t VALUES (2)", []).err();
            let code = error.and_then(|error| error.sqlite_error_code());
            assert_eq!(code, Some(rusqlite::ErrorCode::SystemIoFailure), "{context}");
            drop(database);
            assert_eq!(std::fs::read(&path).unwrap(), after, "{context}");
        }
    }
}

/// As `sed -i`, `rsync`, and an editor do: another file, with the mark of the log, gets the name of the database.
#[test]
fn a_copy_that_takes_the_name_of_an_open_database_has_its_log() {
    for options in ["window=0", "window=30"] {
        for (records, changes) in [(5, false), (5, true), (0, false)] {
            for closes in [false, true] {
                let context = format!("{options} {records} {changes} {closes}");
                let directory = tempfile::tempdir().unwrap();
                let path = directory.path().join("x.db");
                plain(&path).execute_batch("CREATE TABLE t (a)").unwrap();
                let database = open_with(&path, options);
                for number in 0..records {
                    database.execute("INSERT INTO t VALUES (?1)", [number]).unwrap();
                    database.query_row("PRAGMA ebbpool_flush", [], |_| Ok(())).unwrap();
                }
                let copy = directory.path().join("copy");
                let mut content = std::fs::read(&path).unwrap();
                if changes {
                    content[4096 + 100] ^= 1;
                }
                std::fs::write(&copy, content).unwrap();
                std::fs::rename(&copy, &path).unwrap();
                if !closes {
                    let inserted = database.execute("INSERT INTO t VALUES (99)", []);
                    assert!(inserted.is_err(), "{context}");
                }
                drop(database);
                let again = open_with(&path, options);
                let found = again.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
                if changes {
                    // The log is there, and under its name it makes the copy one that nothing can read.
                    assert!(found.is_err(), "{context}");
                    assert!(directory.path().join("x.db-ebb.stale").exists(), "{context}");
                } else {
                    assert_eq!(found.ok(), Some(records), "{context}");
                    again.execute("INSERT INTO t VALUES (100)", []).unwrap();
                    again.close().unwrap();
                    assert_eq!(numbers(&plain(&path)).len() as i64, records + 1, "{context}");
                }
            }
        }
    }
}

/// As an update by `rename` does. With a journal SQLite refuses such commits itself.
#[test]
fn commits_to_a_file_without_a_name_are_refused_while_another_has_its_name() {
    for options in ["window=0", "window=30", "window=30&log=wal"] {
        for journal in ["delete", "wal", "memory"] {
            let context = format!("{options} {journal}");
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("x.db");
            plain(&path).execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
            let database = open_with(&path, options);
            set_journal(&database, journal);
            database.execute("INSERT INTO t VALUES (2)", []).unwrap();
            let other = directory.path().join("other.db");
            plain(&other).execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (7)").unwrap();
            std::fs::rename(&other, &path).unwrap();
            // Readers go on, as with plain SQLite.
            assert_eq!(numbers(&database), [1, 2], "{context}");
            let code = database.execute("INSERT INTO t VALUES (3)", []).unwrap_err().sqlite_error_code();
            assert_eq!(code, Some(rusqlite::ErrorCode::ReadOnly), "{context}");
            // Were the process killed now, any SQLite would take what is beside the other file for that file's.
            let logs = ["-wal", "-ebb"].map(|suffix| beside(&path, suffix).exists());
            assert_eq!(logs, [false; 2], "{context}");
            assert_eq!(numbers(&plain(&path)), [7], "{context}");
            let again = open_with(&path, options);
            again.execute("INSERT INTO t VALUES (8)", []).unwrap();
            drop(database);
            again.close().unwrap();
            assert_eq!(numbers(&plain(&path)), [7, 8], "{context}");
        }
    }
    // Who deletes the file that he uses has it to himself.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let database = open_with(&path, "window=0");
    set_journal(&database, "wal");
    database.execute_batch("CREATE TABLE t (a)").unwrap();
    std::fs::remove_file(&path).unwrap();
    database.execute("INSERT INTO t VALUES (3)", []).unwrap();
    assert_eq!(numbers(&database), [3]);
}

/// Between what a checkpoint has logged and what it writes in place, at a sync that takes long on a card.
#[test]
fn a_backup_that_is_copied_over_in_the_middle_of_a_checkpoint_stays() {
    let below = Between::under_the_library(c"over-checkpoint");
    // The close at once; the checkpoint in slices, between which the library looks anyway.
    for way in ["close", "PRAGMA ebbpool_checkpoint"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        let setup = "CREATE TABLE t (a INTEGER PRIMARY KEY, v); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
            INSERT INTO t SELECT i, randomblob(900) FROM n";
        plain(&path).execute_batch(setup).unwrap();
        let backup = std::fs::read(&path).unwrap();
        let name = format!("file:{}?window=0", path.display());
        let database = Connection::open_with_flags_and_vfs(name, OpenFlags::default(), c"over-checkpoint").unwrap();
        set_journal(&database, "wal");
        for row in (1..600).step_by(7) {
            database.execute("UPDATE t SET v = randomblob(900) WHERE a = ?1", [row]).unwrap();
        }
        let (restored, content) = (path.clone(), backup.clone());
        let is_done = AtomicBool::new(false);
        below.observe(move |call| {
            if call.method == "xSync" && call.kind == FileKind::Wal && !is_done.swap(true, Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                std::fs::write(&restored, &content).unwrap();
            }
            None
        });
        if way != "close" {
            let _ = database.query_row(way, [], |_| Ok(()));
            assert!(database.execute("INSERT INTO t (v) VALUES (1)", []).is_err(), "{way}");
        }
        drop(database);
        below.observe_no_more();
        assert!(std::fs::read(&path).unwrap() == backup, "{way}: the backup has changed");
    }
}

/// What was cut off cannot be made good with what is older: the file stays as it was when the log began.
#[test]
fn a_database_whose_log_is_cut_off_is_no_mixture() {
    for (options, journal) in [("window=0&memory=1M", "delete"), ("window=30&memory=1M", "wal")] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        let setup = "CREATE TABLE t (a INTEGER PRIMARY KEY, v); CREATE INDEX i ON t (v);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) INSERT INTO t SELECT i, randomblob(900) FROM n";
        plain(&path).execute_batch(setup).unwrap();
        let database = open_with(&path, options);
        set_journal(&database, journal);
        database.execute_batch("PRAGMA cache_size=10").unwrap();
        let update = |row| database.execute("UPDATE t SET v = randomblob(900) WHERE a = ?1", [row]);
        for row in (1..4000).step_by(3) {
            update(row).unwrap();
        }
        database.query_row("PRAGMA ebbpool_flush", [], |_| Ok(())).unwrap();
        let log = directory.path().join("x.db-ebb");
        std::fs::File::options().write(true).open(&log).unwrap().set_len(100).unwrap();
        let updated: Vec<_> = (1..20).map(|row| update(row).is_ok()).collect();
        drop(database);
        assert!(updated.contains(&false), "{options}: {updated:?}");
        assert!(
            ebbpool_sqlite::inspect::inspect(&path).unwrap().findings().iter().any(|finding| finding.contains("-ebb.stale"))
        );
        let mut content = std::fs::read(&path).unwrap();
        // As `recover --discard-log` leaves it.
        content[18] = content[19];
        content[72..80].fill(0);
        let recovered = directory.path().join("recovered.db");
        std::fs::write(&recovered, content).unwrap();
        let found: String = plain(&recovered).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(found, "ok", "{options}");
    }
}
