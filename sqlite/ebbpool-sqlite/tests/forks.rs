//! `fork()` in any state: parent and child behave as with plain SQLite, or the child gets an error at its first use.

#![allow(unsafe_code)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use support::real::{
    Child, PATIENCE, beside, copy_of, count, directory, error_code, integrity, is_alone, kill_myself, open, plain, run_victim,
    set_journal, status, try_count,
};

/// How long a child may take. What takes longer hangs.
const SOON: Duration = Duration::from_secs(20);

/// Syncs wait while it is closed.
static GATE_IS_CLOSED: AtomicBool = AtomicBool::new(false);
static WAITING: AtomicU32 = AtomicU32::new(0);

fn pass_gate() {
    if GATE_IS_CLOSED.load(Ordering::SeqCst) {
        WAITING.fetch_add(1, Ordering::SeqCst);
        while GATE_IS_CLOSED.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes the place of the C library's function in this program.
#[unsafe(no_mangle)]
extern "C" fn fsync(descriptor: libc::c_int) -> libc::c_int {
    pass_gate();
    // SAFETY: the call is the system's.
    unsafe { libc::syscall(libc::SYS_fsync, descriptor) as libc::c_int }
}

/// Takes the place of the C library's function in this program, which waits at the gate as `fsync` does.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(descriptor: libc::c_int) -> libc::c_int {
    pass_gate();
    // SAFETY: the call is the system's.
    unsafe { libc::syscall(libc::SYS_fdatasync, descriptor) as libc::c_int }
}

fn insert(database: &Connection) -> rusqlite::Result<()> {
    database.execute_batch("INSERT INTO t VALUES (1)")
}

fn with_table(database: &Connection) {
    database.execute_batch("CREATE TABLE IF NOT EXISTS t (a)").unwrap();
}

/// Opens a database and inserts, again and again until that works or takes too long.
fn insert_patiently(path: &std::path::Path, options: &str) -> rusqlite::Result<()> {
    let begin = Instant::now();
    loop {
        let inserted = open(path, options).and_then(|database| insert(&database));
        if inserted.is_ok() || begin.elapsed() > SOON / 2 {
            return inserted;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_child_uses_what_its_parent_has_closed() {
    if !is_alone("a_child_uses_what_its_parent_has_closed") {
        return;
    }
    for window in ["0", "2", "0.05"] {
        let (_directory, path) = directory();
        let options = format!("window={window}");
        let database = open(&path, &options).unwrap();
        with_table(&database);
        database.close().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let child = Child::fork(|| {
            let database = open(&path, &options).unwrap();
            for _ in 0..3 {
                insert(&database).unwrap();
                std::thread::sleep(Duration::from_millis(60));
            }
            database.close().unwrap();
            0
        });
        assert_eq!(child.wait(SOON), Some(0), "window {window}");
        assert_eq!(count(&plain(&path)), 3);
        insert(&open(&path, &options).unwrap()).unwrap();
    }
}

#[test]
fn the_window_of_a_child_ends_by_time() {
    if !is_alone("the_window_of_a_child_ends_by_time") {
        return;
    }
    let (_directory, path) = directory();
    let database = open(&path, "window=0.2").unwrap();
    with_table(&database);
    database.close().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let child = Child::fork(|| {
        let database = open(&path, "window=0.2").unwrap();
        insert(&database).unwrap();
        let begin = Instant::now();
        while !status(&database)["oldest_unsaved_seconds"].is_null() {
            assert!(begin.elapsed() < SOON, "no epoch");
            std::thread::sleep(Duration::from_millis(20));
        }
        let (_copies, copy) = copy_of(&path);
        i32::from(count(&open(&copy, "").unwrap()) != 1)
    });
    assert_eq!(child.wait(SOON * 2), Some(0));
}

/// What a child may do with a database that its parent has open, and with another one.
fn use_what_the_parent_has(inherited: Connection, path: &std::path::Path, options: &str) -> i32 {
    let is_misuse = |answer: rusqlite::Result<()>| error_code(answer) == Some(ErrorCode::ApiMisuse);
    assert!(is_misuse(try_count(&inherited).map(drop)), "a read");
    assert!(is_misuse(insert(&inherited)), "a write");
    drop(inherited);
    let new = open(path, options);
    let used = new.and_then(|new| insert(&new));
    assert_eq!(error_code(used), Some(ErrorCode::DatabaseBusy));
    let other = beside(path, ".child");
    let own = open(&other, options).unwrap();
    with_table(&own);
    for _ in 0..5 {
        insert(&own).unwrap();
    }
    own.close().unwrap();
    assert_eq!(count(&plain(&other)), 5);
    0
}

#[test]
fn a_child_has_a_database_as_soon_as_its_parent_has_closed_it() {
    if !is_alone("a_child_has_a_database_as_soon_as_its_parent_has_closed_it") {
        return;
    }
    for options in ["window=0", "window=2", "window=0.05", "window=0&log=wal"] {
        let (directory, path) = directory();
        let database = open(&path, options).unwrap();
        with_table(&database);
        for _ in 0..3 {
            insert(&database).unwrap();
        }
        let (used, closed) = (directory.path().join("used"), directory.path().join("closed"));
        let child = Child::fork(|| {
            // SAFETY: the child gives its copy of the connection up, and never drops the original.
            let inherited = unsafe { std::ptr::read(&database) };
            use_what_the_parent_has(inherited, &path, options);
            std::fs::write(&used, "").unwrap();
            while !closed.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            insert_patiently(&path, options).unwrap();
            0
        });
        let begin = Instant::now();
        while !used.exists() && begin.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(5));
        }
        insert(&database).unwrap();
        database.close().unwrap();
        std::fs::write(&closed, "").unwrap();
        assert_eq!(child.wait(SOON), Some(0), "{options}");
        assert_eq!(count(&plain(&path)), 5, "{options}");
    }
}

/// SQLite's own VFS serves a connection that only reads, and a child has that one's table of locks.
#[test]
fn a_child_has_a_database_as_soon_as_its_parent_that_reads_has_closed_it() {
    if !is_alone("a_child_has_a_database_as_soon_as_its_parent_that_reads_has_closed_it") {
        return;
    }
    for mode in ["wal", "delete"] {
        let (directory, path) = directory();
        let database = plain(&path);
        set_journal(&database, mode);
        with_table(&database);
        insert(&database).unwrap();
        drop(database);
        let reader = open(&path, "mode=ro").unwrap();
        if mode == "delete" {
            // Without a WAL it has a lock only in a transaction.
            reader.execute_batch("BEGIN").unwrap();
        }
        assert_eq!(count(&reader), 1);
        let closed = directory.path().join("closed");
        let child = Child::fork(|| {
            // SAFETY: the child gives its copy of the connection up, and never drops the original.
            let inherited = unsafe { std::ptr::read(&reader) };
            let own = open(&path, "window=0").unwrap();
            assert_eq!(error_code(insert(&own)), Some(ErrorCode::DatabaseBusy), "beside the parent");
            let read = error_code(try_count(&inherited));
            // In a transaction SQLite answers from its cache.
            assert!(mode == "delete" || read == Some(ErrorCode::ApiMisuse));
            while !closed.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            insert(&own).unwrap();
            drop(inherited);
            insert(&own).unwrap();
            own.close().unwrap();
            insert_patiently(&path, "window=0").unwrap();
            0
        });
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(count(&reader), 1);
        drop(reader);
        std::fs::write(&closed, "").unwrap();
        assert_eq!(child.wait(SOON), Some(0), "{mode}");
        assert_eq!(count(&plain(&path)), 4, "{mode}");
    }
}

#[test]
fn a_daemon_opens_its_database_again() {
    const NAME: &str = "a_daemon_opens_its_database_again";
    if let Some(path) = support::real::database_of_victim(NAME) {
        let database = open(&path, "window=0").unwrap();
        with_table(&database);
        insert(&database).unwrap();
        let (child, daemon) = (beside(&path, ".child"), beside(&path, ".daemon"));
        // SAFETY: the processes end without running destructors.
        unsafe {
            if libc::fork() == 0 {
                if libc::fork() == 0 {
                    while !child.exists() {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    let used = insert(&database);
                    let is_misuse = error_code(used) == Some(ErrorCode::ApiMisuse);
                    let inserted = insert_patiently(&path, "window=0");
                    let text = format!("{is_misuse} {inserted:?}");
                    let written = beside(&path, ".written");
                    std::fs::write(&written, text).unwrap();
                    std::fs::rename(&written, &daemon).unwrap();
                }
                libc::_exit(0);
            }
        }
        kill_myself();
    }
    let (_directory, path) = directory();
    run_victim(NAME, &path);
    // Only now the first process has ended.
    std::fs::write(beside(&path, ".child"), "").unwrap();
    let (daemon, begin) = (beside(&path, ".daemon"), Instant::now());
    while !daemon.exists() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(std::fs::read_to_string(&daemon).unwrap(), "true Ok(())");
    assert_eq!(count(&plain(&path)), 2);
}

#[test]
fn a_lock_ends_with_the_parent_though_a_child_lives_on() {
    const NAME: &str = "a_lock_ends_with_the_parent_though_a_child_lives_on";
    if let Some(path) = support::real::database_of_victim(NAME) {
        let database = open(&path, "window=0").unwrap();
        with_table(&database);
        insert(&database).unwrap();
        let end = beside(&path, ".end");
        // SAFETY: the child ends without running destructors.
        unsafe {
            if libc::fork() == 0 {
                let begin = Instant::now();
                while !end.exists() && begin.elapsed() < PATIENCE {
                    std::thread::sleep(Duration::from_millis(5));
                }
                libc::_exit(0);
            }
        }
        kill_myself();
    }
    let (_directory, path) = directory();
    run_victim(NAME, &path);
    let inserted = insert_patiently(&path, "");
    std::fs::write(beside(&path, ".end"), "").unwrap();
    inserted.unwrap();
    assert_eq!(count(&plain(&path)), 2);
}

#[test]
fn a_child_that_exits_leaves_its_parent_all() {
    if !is_alone("a_child_that_exits_leaves_its_parent_all") {
        return;
    }
    let (_directory, path) = directory();
    let database = open(&path, "window=1000").unwrap();
    with_table(&database);
    insert(&database).unwrap();
    // SAFETY: the child has one thread, and runs what a process runs at its end.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::exit(0) };
    }
    let mut state = 0;
    // SAFETY: the child is one of this process's.
    unsafe { libc::waitpid(child, &mut state, 0) };
    assert_eq!(state, 0);
    let other = Child::fork(|| {
        let by_library = open(&path, "").and_then(|database| insert(&database));
        let plain = insert(&plain(&path));
        let is_busy = |answer: rusqlite::Result<()>| error_code(answer) == Some(ErrorCode::DatabaseBusy);
        i32::from(!(is_busy(by_library) && is_busy(plain)))
    });
    assert_eq!(other.wait(SOON), Some(0));
    insert(&database).unwrap();
    database.close().unwrap();
    assert_eq!(count(&plain(&path)), 2);
}

/// Another thread is in the middle of an epoch when the process forks.
#[test]
fn a_process_may_fork_in_the_middle_of_a_sync() {
    if !is_alone("a_process_may_fork_in_the_middle_of_a_sync") {
        return;
    }
    for (options, work) in [
        ("window=0", "INSERT INTO t VALUES (2)"),
        ("window=0.05", "INSERT INTO t VALUES (2)"),
        ("window=0", "PRAGMA ebbpool_checkpoint"),
        ("window=0&log=wal", "INSERT INTO t VALUES (2)"),
    ] {
        let (_directory, path) = directory();
        let database = open(&path, options).unwrap();
        with_table(&database);
        insert(&database).unwrap();
        insert(&database).unwrap();
        GATE_IS_CLOSED.store(true, Ordering::SeqCst);
        let database = std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let mut statement = database.prepare(work).unwrap();
                let _ = statement.query([]).unwrap().next().unwrap();
                drop(statement);
                database
            });
            let begin = Instant::now();
            while WAITING.load(Ordering::SeqCst) == 0 && begin.elapsed() < SOON {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(WAITING.load(Ordering::SeqCst) > 0, "{options}: no sync");
            // SAFETY: the child has a copy of the path only.
            let children: Vec<Child> = (0..3)
                .map(|_| {
                    Child::fork(|| {
                        GATE_IS_CLOSED.store(false, Ordering::SeqCst);
                        let own = beside(&path, &format!(".{}", std::process::id()));
                        let own = open(&own, options).unwrap();
                        with_table(&own);
                        insert(&own).unwrap();
                        own.close().unwrap();
                        let same = open(&path, options).and_then(|same| insert(&same));
                        i32::from(error_code(same) != Some(ErrorCode::DatabaseBusy))
                    })
                })
                .collect();
            let ends: Vec<_> = children.into_iter().map(|child| child.wait(SOON)).collect();
            GATE_IS_CLOSED.store(false, Ordering::SeqCst);
            let database = worker.join().unwrap();
            assert_eq!(ends, [Some(0); 3], "{options}, {work}");
            database
        });
        insert(&database).unwrap();
        database.close().unwrap();
        let plain = plain(&path);
        assert_eq!(integrity(&plain), "ok");
        assert_eq!(count(&plain), 3 + i64::from(work.starts_with("INSERT")));
    }
}

/// As `multiprocessing` with fork, and gunicorn with preload: workers of a process that has a database open.
#[test]
fn workers_have_databases_of_their_own() {
    if !is_alone("workers_have_databases_of_their_own") {
        return;
    }
    for window in ["0", "1"] {
        let (_directory, path) = directory();
        let options = format!("window={window}");
        let database = open(&path, &options).unwrap();
        with_table(&database);
        let workers: Vec<Child> = (0..4)
            .map(|worker| {
                let own = beside(&path, &format!(".{worker}"));
                let options = &options;
                Child::fork(move || {
                    let own = open(&own, options).unwrap();
                    with_table(&own);
                    for _ in 0..20 {
                        insert(&own).unwrap();
                    }
                    let found = count(&own);
                    own.close().unwrap();
                    i32::from(found != 20)
                })
            })
            .collect();
        for worker in workers {
            assert_eq!(worker.wait(SOON), Some(0), "window {window}");
        }
        insert(&database).unwrap();
    }
}

/// A process that another thread starts has all descriptors until it runs its program, and nothing of this library runs there.
#[test]
fn a_process_that_is_being_started_has_no_lock() {
    if !is_alone("a_process_that_is_being_started_has_no_lock") {
        return;
    }
    for options in ["window=0", "window=0&log=wal", "window=1000"] {
        let (_directory, path) = directory();
        let database = open(&path, options).unwrap();
        with_table(&database);
        insert(&database).unwrap();
        insert(&database).unwrap();
        // SAFETY: a copy of this process, as `posix_spawn` makes one, without what runs in a child of `fork`.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if child == 0 {
            // SAFETY: the copy only waits, until it is killed.
            unsafe {
                libc::sleep(20);
                libc::_exit(0);
            }
        }
        database.close().unwrap();
        let by_plain = try_count(&plain(&path)).map_err(|error| error.to_string());
        let by_library = open(&path, options).and_then(|again| insert(&again));
        let by_library = by_library.map_err(|error| error.to_string());
        // SAFETY: the child is one of this process's.
        unsafe {
            libc::kill(child as libc::pid_t, libc::SIGKILL);
            libc::waitpid(child as libc::pid_t, std::ptr::null_mut(), 0);
        }
        assert_eq!((by_plain, by_library), (Ok(2), Ok(())), "{options}");
    }
}

/// A program has closed descriptors that it does not know, and opened its own files.
#[test]
fn a_child_keeps_the_files_that_have_the_numbers_of_the_librarys() {
    const NAME: &str = "a_child_keeps_the_files_that_have_the_numbers_of_the_librarys";
    if let Some(path) = support::real::database_of_victim(NAME) {
        let database = open(&path, "").unwrap();
        database.execute_batch("CREATE TABLE t (a)").unwrap();
        // By its number, since the crate libc has the function for glibc only.
        // SAFETY: what is closed is used no more: the process is killed.
        unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
        let files: Vec<_> = (0..20).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let child = Child::fork(|| {
            let open = files.iter().filter(|file| file.metadata().is_ok());
            open.count() as i32
        });
        assert_eq!(child.wait(SOON), Some(20));
        kill_myself();
    }
    let (_directory, path) = directory();
    run_victim(NAME, &path);
}
