//! What each handle asks for: its window, reading only, its options.

#![allow(unsafe_code)]

use std::path::Path;
use std::time::{Duration, Instant};

use ebbpool_sqlite::inspect::published_health;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::support::real::{
    beside, copy_of, count, database_of_victim, directory, error_code, is_alone, kill_myself, open, plain, run_alone,
    run_victim, set_journal, status, try_count, uri,
};

fn insert(database: &Connection) {
    database.execute_batch("INSERT INTO t VALUES (1)").unwrap();
}

fn window(database: &Connection) -> String {
    database.query_row("PRAGMA ebbpool_window", [], |row| row.get(0)).unwrap()
}

/// The rows that a killed process would leave.
fn rows_after_a_kill(path: &Path) -> i64 {
    let (_copies, copy) = copy_of(path);
    let recovered = open(&copy, "").unwrap();
    try_count(&recovered).unwrap_or(0)
}

#[test]
fn the_smallest_window_counts() {
    for mode in ["delete", "wal"] {
        let (_directory, path) = directory();
        let usual = open(&path, "window=1000").unwrap();
        set_journal(&usual, mode);
        usual.execute_batch("CREATE TABLE t (a)").unwrap();
        let careful = open(&path, "window=0").unwrap();
        assert_eq!(window(&careful), "0", "{mode}");
        insert(&careful);
        assert_eq!(rows_after_a_kill(&path), 1, "{mode}");
        // What one of them promises holds for the commits of all.
        insert(&usual);
        assert_eq!(rows_after_a_kill(&path), 2, "{mode}");
        let third = open(&path, "window=50").unwrap();
        insert(&third);
        assert_eq!(rows_after_a_kill(&path), 3, "{mode}");
        drop(careful);
        assert_eq!(window(&third), "50", "{mode}");
        insert(&third);
        assert_eq!(rows_after_a_kill(&path), 3, "{mode}");
        drop(third);
        assert_eq!(window(&usual), "1000", "{mode}");
    }
}

#[test]
fn a_handle_with_a_shorter_window_ends_the_one_that_runs() {
    const NAME: &str = "handles::a_handle_with_a_shorter_window_ends_the_one_that_runs";
    // Where another test's connection sets the library's clock going, this one's need not.
    if let Some(path) = database_of_victim(NAME) {
        let usual = open(&path, "window=1000").unwrap();
        usual.execute_batch("CREATE TABLE t (a)").unwrap();
        insert(&usual);
        let _hasty = open(&path, "window=0.1").unwrap();
        std::thread::sleep(Duration::from_millis(600));
        kill_myself();
    }
    let (_directory, path) = directory();
    run_victim(NAME, &path);
    assert_eq!(count(&open(&path, "").unwrap()), 1);
}

/// A connection's commits keep its window when it is closed.
#[test]
fn a_handle_with_a_shorter_window_leaves_it_to_its_commits() {
    for closes in [true, false] {
        let (_directory, path) = directory();
        let usual = open(&path, "window=1000").unwrap();
        set_journal(&usual, "wal");
        usual.execute_batch("CREATE TABLE t (a); PRAGMA ebbpool_flush").unwrap();
        let hasty = open(&path, "window=0.3").unwrap();
        insert(&hasty);
        match closes {
            true => drop(hasty),
            false => hasty.execute_batch("PRAGMA ebbpool_window=1000").unwrap(),
        }
        let begin = Instant::now();
        while rows_after_a_kill(&path) != 1 {
            assert!(begin.elapsed() < Duration::from_secs(20), "no epoch");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The names of SQLite's journal and of the library's log are longer.
#[test]
fn a_name_that_is_too_long_for_a_journal_is_left_to_sqlite() {
    let (_directory, path) = directory();
    for length in [247, 248, 251] {
        let path = path.with_file_name("n".repeat(length));
        let answer = |database: Connection| {
            let made = database.execute_batch("CREATE TABLE t (a)");
            error_code(made)
        };
        let ours = answer(open(&path, "window=0").unwrap());
        let _ = std::fs::remove_file(&path);
        assert_eq!(ours, answer(plain(&path)), "{length}");
        assert_eq!(ours.is_none(), length == 247, "{length}");
    }
}

fn open_with(path: &Path, options: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::default();
    let database = Connection::open_with_flags(uri(path, options), flags)?;
    database.busy_timeout(Duration::from_millis(200))?;
    Ok(database)
}

/// In one process: a connection that only reads, one that writes, and others that come later. All work, as with plain SQLite.
#[test]
fn connections_that_only_read_work_beside_a_writer() {
    for mode in ["delete", "wal"] {
        for options in ["window=0", "window=1000"] {
            let (_directory, path) = directory();
            let made = plain(&path);
            set_journal(&made, mode);
            made.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
            made.close().unwrap();
            let when = format!("{mode}, {options}");
            let before = open_with(&path, "mode=ro").unwrap();
            assert_eq!(count(&before), 1, "{when}");
            let writer = open_with(&path, options).unwrap();
            for rows in 2..5 {
                insert(&writer);
                assert_eq!(count(&writer), rows, "{when}");
                assert_eq!(count(&before), rows, "{when}: opened before");
                let later = open_with(&path, "mode=ro").unwrap();
                assert_eq!(count(&later), rows, "{when}: opened later");
                let refused = error_code(later.execute_batch("INSERT INTO t VALUES (9)"));
                assert_eq!(refused, Some(ErrorCode::ReadOnly), "{when}");
            }
            // These read the file as it is, which may be older.
            for peculiar in ["immutable=1", "nolock=1&mode=ro"] {
                let other = open_with(&path, peculiar).unwrap();
                let found = error_code(try_count(&other));
                // Without locks SQLite opens no WAL.
                let expected = (peculiar != "immutable=1" && mode == "wal").then_some(ErrorCode::CannotOpen);
                assert_eq!(found, expected, "{when}, {peculiar}");
            }
            writer.close().unwrap();
            assert_eq!(count(&before), 4, "{when}: after the writer");
            let another = open_with(&path, options).unwrap();
            insert(&another);
            assert_eq!(count(&before), 5, "{when}: beside another writer");
            drop(another);
            drop(before);
            assert_eq!(count(&plain(&path)), 5, "{when}");
        }
    }
}

/// In WAL mode the reader has its index as long as it is open, so that the library cannot have the files.
#[test]
fn a_writer_behind_a_connection_that_only_reads_says_who_serves_it() {
    let (_directory, path) = directory();
    let made = plain(&path);
    set_journal(&made, "wal");
    made.execute_batch("CREATE TABLE t (a)").unwrap();
    made.close().unwrap();
    let reader = open_with(&path, "mode=ro").unwrap();
    assert_eq!(count(&reader), 0);
    let writer = open_with(&path, "window=1000").unwrap();
    insert(&writer);
    let said = published_health(&path).unwrap().unwrap().database.passed.unwrap();
    assert!(said.contains("opened it for reading only"), "{said}");
    for name in ["flush", "checkpoint", "status", "window"] {
        let sql = format!("PRAGMA ebbpool_{name}");
        let error = writer.query_row(&sql, [], |_| Ok(())).unwrap_err();
        assert_eq!(error_code::<()>(Err(error)), Some(ErrorCode::DatabaseBusy));
        let error = writer.query_row(&sql, [], |_| Ok(())).unwrap_err();
        let remedy = "opened it for reading only; close that one first";
        assert!(error.to_string().contains(remedy), "{error}");
    }
    drop(reader);
    // The writer's own index is SQLite's until it is closed, too.
    drop(writer);
    let writer = open_with(&path, "window=1000").unwrap();
    insert(&writer);
    assert_eq!(published_health(&path).unwrap().unwrap().database.passed, None);
}

/// A writer first, readers that stay longer.
#[test]
fn a_connection_that_only_reads_may_be_the_last() {
    for mode in ["delete", "wal"] {
        let (_directory, path) = directory();
        let writer = open_with(&path, "window=1000").unwrap();
        set_journal(&writer, mode);
        writer.execute_batch("CREATE TABLE t (a)").unwrap();
        insert(&writer);
        let reader = open_with(&path, "mode=ro").unwrap();
        assert_eq!(count(&reader), 1);
        drop(writer);
        assert_eq!(count(&reader), 1);
        drop(reader);
        let plain = plain(&path);
        assert_eq!(count(&plain), 1);
        plain.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        assert!(!beside(&path, "-ebb").exists());
    }
}

#[test]
fn parameters_that_nothing_knows_are_refused() {
    let (_directory, path) = directory();
    for options in ["windwo=0", "Window=0", "windows=0", "memroy=8M", "x=1"] {
        let refused = error_code(open(&path, options).map(drop));
        assert_eq!(refused, Some(ErrorCode::CannotOpen), "{options}");
    }
    for options in ["mode=rwc", "cache=private", "psow=1", "modeof=/dev/null", "window=0&log=wal"] {
        let opened = open(&path, options);
        assert!(opened.is_ok(), "{options}: {opened:?}");
    }
}

#[test]
fn the_clock_is_for_tests_only() {
    const NAME: &str = "handles::the_clock_is_for_tests_only";
    if let Some(path) = database_of_victim(NAME).filter(|path| path.is_absolute()) {
        let database = open(&path, "window=0.2").unwrap();
        database.execute_batch("CREATE TABLE t (a)").unwrap();
        let set = "PRAGMA ebbpool_clock=0";
        let answer = database.query_row(set, [], |row| row.get::<_, String>(0));
        if std::env::var_os("EBBPOOL_SQLITE_CLOCK").is_some() {
            assert_eq!(answer.unwrap(), "ok");
            insert(&database);
            std::thread::sleep(Duration::from_millis(600));
            assert_eq!(rows_after_a_kill(&path), 0);
            return;
        }
        assert!(answer.is_err(), "{answer:?}");
        insert(&database);
        let begin = Instant::now();
        while !status(&database)["oldest_unsaved_seconds"].is_null() {
            assert!(begin.elapsed() < Duration::from_secs(20), "no epoch");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(rows_after_a_kill(&path), 1);
        return;
    }
    for environment in [&[][..], &[("EBBPOOL_SQLITE_CLOCK", "1")]] {
        let (_directory, path) = directory();
        let (status, output) = run_alone(NAME, &path, environment);
        assert!(status.success(), "{environment:?}: {output}");
    }
}

/// What a user who may write a file, and not its directory, gets: the same as from plain SQLite.
fn try_to_write(path: &Path, database: rusqlite::Result<Connection>, mode: &str) -> Vec<String> {
    let mut answers = Vec::new();
    let mut note = |answer: rusqlite::Result<String>| {
        answers.push(match answer {
            Ok(text) => text,
            Err(error) => format!("{:?}", error.sqlite_error_code()),
        });
    };
    match database {
        Err(error) => note(Err(error)),
        Ok(database) => {
            for sql in [
                &format!("PRAGMA journal_mode={mode}"),
                "SELECT count(*) FROM t",
                "INSERT INTO t VALUES (2)",
                "INSERT INTO t VALUES (3)",
                "SELECT count(*) FROM t",
                "BEGIN",
                "DELETE FROM t WHERE a=2",
                "COMMIT",
                "SELECT count(*) FROM t",
            ] {
                let mut statement = match database.prepare(sql) {
                    Ok(statement) => statement,
                    Err(error) => {
                        note(Err(error));
                        continue;
                    }
                };
                let mut rows = statement.query([]).unwrap();
                note(rows.next().map(|row| match row {
                    Some(row) => format!("{:?}", row.get::<_, rusqlite::types::Value>(0).unwrap()),
                    None => "done".into(),
                }));
            }
        }
    }
    let rows = try_count(&plain(path)).map_err(|error| error.sqlite_error_code());
    answers.push(format!("{rows:?}, version {}", crate::support::real::write_version(path)));
    answers
}

#[test]
fn a_directory_that_cannot_be_written_is_left_to_sqlite() {
    use std::os::unix::fs::PermissionsExt;

    if !is_alone("handles::a_directory_that_cannot_be_written_is_left_to_sqlite") {
        return;
    }
    let (directory, path) = directory();
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mut pairs = Vec::new();
    for existing in ["delete", "wal"] {
        for mode in ["delete", "memory", "off", "wal", "truncate"] {
            for window in ["0", "30"] {
                let files = ["ours", "plain"].map(|name| beside(&path, &format!(".{existing}.{mode}.{window}.{name}")));
                for file in &files {
                    let database = plain(file);
                    set_journal(&database, existing);
                    database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
                    drop(database);
                    set_mode(file, 0o666);
                }
                pairs.push((files, mode, window));
            }
        }
    }
    set_mode(directory.path(), 0o555);
    // SAFETY: this process does nothing else. Permissions do not bind root.
    let is_root = unsafe { libc::geteuid() } == 0;
    let other_user = 65_534;
    // SAFETY: as above.
    if is_root && unsafe { libc::setegid(other_user) != 0 || libc::seteuid(other_user) != 0 } {
        println!("skipped: permissions do not bind this user, who cannot be another one");
        return;
    }
    let mut different = Vec::new();
    for ([ours, by_plain], mode, window) in &pairs {
        let with = try_to_write(ours, open(ours, &format!("window={window}")), mode);
        let without = try_to_write(by_plain, Connection::open(by_plain), mode);
        if with != without {
            different.push(format!("{ours:?}:\n  {with:?}\n  {without:?}"));
        }
    }
    // SAFETY: as above; so that the directory can be removed.
    unsafe { libc::seteuid(0) };
    set_mode(directory.path(), 0o755);
    assert!(different.is_empty(), "{}", different.join("\n"));
}
