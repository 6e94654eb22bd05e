//! A program's own limits and habits, each in a process of its own: exit handlers, signals, threads, memory.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

mod support;

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use support::real::{beside, count, database_of_victim, directory, integrity, is_alone, open, plain, run_alone, set_journal};

static OPEN: Mutex<Option<Connection>> = Mutex::new(None);

extern "C" fn write_at_the_end() {
    let database = OPEN.lock().unwrap().take().unwrap();
    database.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    match std::env::var_os("EBBPOOL_TEST_FORGET") {
        Some(_) => std::mem::forget(database),
        None => database.close().unwrap(),
    }
}

/// An exit handler that was there before the library, as destructors of a C++ program are, runs after the library's.
#[test]
fn an_exit_handler_of_the_program_may_use_its_database() {
    const NAME: &str = "an_exit_handler_of_the_program_may_use_its_database";
    if let Some(path) = database_of_victim(NAME) {
        // SAFETY: the function may be called when the process ends.
        unsafe { libc::atexit(write_at_the_end) };
        let database = open(&path, "window=1000").unwrap();
        set_journal(&database, &std::env::var("EBBPOOL_TEST_MODE").unwrap());
        database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
        *OPEN.lock().unwrap() = Some(database);
        std::process::exit(0);
    }
    for mode in ["wal", "delete"] {
        for forgets in [false, true] {
            let (_directory, path) = directory();
            let forget: &[(&str, &str)] = match forgets {
                true => &[("EBBPOOL_TEST_MODE", mode), ("EBBPOOL_TEST_FORGET", "1")],
                false => &[("EBBPOOL_TEST_MODE", mode)],
            };
            let (status, output) = run_alone(NAME, &path, forget);
            assert!(status.success(), "{mode}: {status}\n{output}");
            assert!(!beside(&path, "-ebb").exists(), "{mode}");
            assert_eq!(count(&plain(&path)), 2, "{mode}, {forgets}");
        }
    }
}

/// What another thread commits while the process ends is durable when it is acknowledged.
#[test]
fn what_is_committed_while_the_process_ends_is_there_afterwards() {
    const NAME: &str = "what_is_committed_while_the_process_ends_is_there_afterwards";
    if let Some(path) = database_of_victim(NAME) {
        let mut acknowledged = std::fs::File::create(beside(&path, "-acknowledged")).unwrap();
        let database = open(&path, "window=1000").unwrap();
        set_journal(&database, "wal");
        database.execute_batch("CREATE TABLE t (a)").unwrap();
        std::thread::spawn(move || {
            for number in 0.. {
                let added = database.execute("INSERT INTO t VALUES (?1)", [number]);
                if added.is_ok() {
                    std::io::Write::write_all(&mut acknowledged, b"1").unwrap();
                }
            }
        });
        std::thread::sleep(Duration::from_millis(200));
        std::process::exit(0);
    }
    for _ in 0..5 {
        let (_directory, path) = directory();
        let (status, output) = run_alone(NAME, &path, &[]);
        assert!(status.success(), "{status}\n{output}");
        let acknowledged = std::fs::metadata(beside(&path, "-acknowledged")).unwrap().len();
        let rows = count(&open(&path, "").unwrap());
        assert!(rows >= acknowledged as i64, "{rows} of {acknowledged}");
        assert!(acknowledged > 0);
    }
}

extern "C" fn exit_at_once(_signal: i32) {
    // SAFETY: POSIX does not allow it in a signal handler, and daemons do it all the same.
    unsafe { libc::exit(0) };
}

/// A signal handler may end the process in the middle of any call.
#[test]
fn a_process_ends_whose_signal_handler_calls_exit() {
    const NAME: &str = "a_process_ends_whose_signal_handler_calls_exit";
    if let Some(path) = database_of_victim(NAME) {
        let database = open(&path, "window=1000").unwrap();
        set_journal(&database, "wal");
        database
            .execute_batch(
                "PRAGMA cache_size=1; CREATE TABLE t (a);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
                INSERT INTO t SELECT zeroblob(200) FROM n; PRAGMA ebbpool_flush",
            )
            .unwrap();
        // SAFETY: the handler is a function that lives as long as the process.
        unsafe { libc::signal(libc::SIGALRM, exit_at_once as *const () as usize) };
        let milliseconds = std::env::var("EBBPOOL_TEST_ALARM").unwrap();
        let timer = libc::itimerval {
            it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
            it_value: libc::timeval { tv_sec: 0, tv_usec: milliseconds.parse::<i64>().unwrap() * 1000 },
        };
        // SAFETY: the call takes a structure that is there.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
        loop {
            count(&database);
        }
    }
    for milliseconds in (50..=400).step_by(50) {
        let (_directory, path) = directory();
        let milliseconds = milliseconds.to_string();
        let begin = Instant::now();
        let environment = [("EBBPOOL_TEST_ALARM", milliseconds.as_str())];
        let (status, output) = run_alone(NAME, &path, &environment);
        assert!(status.success(), "{status}\n{output}");
        assert!(begin.elapsed() < Duration::from_secs(30), "{output}");
        assert_eq!(count(&open(&path, "").unwrap()), 5000);
    }
}

/// As after `pthread_exit` in `main`, the library's thread is the last one.
#[test]
fn a_process_ends_whose_own_threads_have_ended() {
    const NAME: &str = "a_process_ends_whose_own_threads_have_ended";
    if let Some(path) = database_of_victim(NAME) {
        let child = support::real::Child::fork(move || {
            let database = open(&path, "window=1000").unwrap();
            database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
            std::mem::forget(database);
            // SAFETY: the call ends this thread, the first one of the process, and no other.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            1
        });
        assert_eq!(child.wait(Duration::from_secs(20)), Some(0));
        return;
    }
    let (_directory, path) = directory();
    let (status, output) = run_alone(NAME, &path, &[]);
    assert!(status.success(), "{output}");
    assert_eq!(count(&open(&path, "").unwrap()), 1);
}

#[test]
fn a_thread_may_be_cancelled_that_commits() {
    const NAME: &str = "a_thread_may_be_cancelled_that_commits";
    unsafe extern "C" {
        fn pthread_cancel(thread: libc::pthread_t) -> i32;
    }
    extern "C" fn commit_for_ever(path: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the thread was made with this path.
        let path = unsafe { &*path.cast::<PathBuf>() };
        // What a thread that is cancelled leaves is open for ever.
        let database = std::mem::ManuallyDrop::new(open(path, "window=0").unwrap());
        loop {
            let _ = database.execute_batch("INSERT INTO t VALUES (1)");
        }
    }
    if let Some(path) = database_of_victim(NAME) {
        let database = open(&path, "window=0").unwrap();
        database.execute_batch("CREATE TABLE t (a)").unwrap();
        // It is a number with one C library, and an address with another.
        let mut thread = std::mem::MaybeUninit::uninit();
        let argument = (&raw const path).cast_mut().cast();
        // SAFETY: the path lives until the thread has ended. The thread's own frames have nothing to drop.
        unsafe {
            assert_eq!(libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), commit_for_ever, argument), 0);
            std::thread::sleep(Duration::from_millis(200));
            pthread_cancel(thread.assume_init());
        }
        std::thread::sleep(Duration::from_millis(200));
        std::process::exit(7);
    }
    let (_directory, path) = directory();
    let (status, output) = run_alone(NAME, &path, &[]);
    assert_eq!(status.code(), Some(7), "{output}");
    assert!(count(&open(&path, "").unwrap()) > 0);
}

/// A program that waits for a signal finds it, and no thread of the library takes it.
#[test]
fn threads_of_the_library_take_no_signals() {
    if !is_alone("threads_of_the_library_take_no_signals") {
        return;
    }
    let (_directory, path) = directory();
    let database = open(&path, "window=0.01").unwrap();
    database.execute_batch("CREATE TABLE t (a)").unwrap();
    // A thread names itself when it has begun.
    let begin = Instant::now();
    let mut found = 0;
    while found == 0 && begin.elapsed() < Duration::from_secs(10) {
        for task in std::fs::read_dir("/proc/self/task").unwrap() {
            let status = std::fs::read_to_string(task.unwrap().path().join("status"));
            // A thread may have ended meanwhile.
            let Ok(status) = status else {
                continue;
            };
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_default().trim().to_owned()
            };
            if field("Name:").starts_with("ebbpool") {
                let blocked = u64::from_str_radix(&field("SigBlk:"), 16).unwrap();
                // SIGTERM has the number 15; 9 and 19 cannot be blocked.
                assert!(blocked >> 14 & 1 == 1, "{status}");
                found += 1;
            }
        }
    }
    assert!(found > 0, "the library has no thread");
}

/// As where systemd limits the number of tasks.
#[test]
fn a_window_ends_where_no_thread_can_be_made() {
    const NAME: &str = "a_window_ends_where_no_thread_can_be_made";
    if let Some(path) = database_of_victim(NAME) {
        let database = open(&path, "window=0.05").unwrap();
        database.execute_batch("CREATE TABLE t (a)").unwrap();
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls take numbers, and a structure that is there. The limit is not one of root's.
        let limited = unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &none) == 0 && libc::setuid(65_534) == 0 };
        if !limited || std::thread::Builder::new().spawn(|| ()).is_ok() {
            println!("skipped: the number of threads cannot be limited, which needs root");
            std::process::exit(0);
        }
        for number in 0..20 {
            database.execute("INSERT INTO t VALUES (?1)", [number]).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(500));
        println!("still open");
        // SAFETY: the process ends here, and closes nothing.
        unsafe { libc::_exit(3) };
    }
    let (_directory, path) = directory();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(path.parent().unwrap(), all).unwrap();
    let (status, output) = run_alone(NAME, &path, &[]);
    if let Some(why) = output.lines().find(|line| line.contains("skipped: ")) {
        println!("{why}");
        return;
    }
    assert_eq!(status.code(), Some(3), "{output}");
    assert_eq!(count(&open(&path, "").unwrap()), 20);
}

fn highest_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() << 10
}

#[test]
fn a_transaction_larger_than_memory_goes_to_the_temporary_file() {
    if !is_alone("a_transaction_larger_than_memory_goes_to_the_temporary_file") {
        return;
    }
    for mode in ["wal", "delete"] {
        let (_directory, path) = directory();
        let database = open(&path, "window=1000&memory=2M").unwrap();
        set_journal(&database, mode);
        database
            .execute_batch(
                "PRAGMA cache_size=100; CREATE TABLE t (id INTEGER PRIMARY KEY, a, b INT);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
                INSERT INTO t SELECT i, zeroblob(4000), 0 FROM n",
            )
            .unwrap();
        let before = highest_memory();
        database.execute_batch("UPDATE t SET b=1").unwrap();
        let more = highest_memory() - before;
        assert!(more < 16 << 20, "{mode}: {more} bytes more for 48 MB");
    }
}

/// No file may become longer than some MiB from now on.
fn limit_files() {
    // SAFETY: the limit is one of this process; without a handler for its signal a write fails.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: 4 << 20, rlim_max: 4 << 20 };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

/// A log is as long as SQLite's WAL would be while a reader needs that. SQLite's VFS calls the limit, as a quota, an I/O error.
#[test]
fn a_log_that_gets_no_more_bytes_is_brought_in_place_beside_a_reader() {
    if !is_alone("a_log_that_gets_no_more_bytes_is_brought_in_place_beside_a_reader") {
        return;
    }
    limit_files();
    for log in ["deltas", "wal"] {
        let (_directory, path) = directory();
        let options = format!("window=0&log={log}&log_limit=1M");
        let writer = open(&path, &options).unwrap();
        set_journal(&writer, "wal");
        writer.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (0)").unwrap();
        let reader = open(&path, &options).unwrap();
        reader.execute_batch("BEGIN").unwrap();
        assert_eq!(count(&reader), 1);
        for commit in 0..5000 {
            let updated = writer.execute("UPDATE t SET a = randomblob(3000)", []);
            updated.unwrap_or_else(|error| panic!("{log}, commit {commit}: {error}"));
        }
        drop((reader, writer));
        assert_eq!(integrity(&plain(&path)), "ok");
    }
}

/// A reader keeps SQLite's WAL from beginning anew, and no file may become longer than some MiB.
#[test]
fn commits_go_on_when_a_long_reader_has_ended_whose_temporary_file_was_full() {
    if !is_alone("commits_go_on_when_a_long_reader_has_ended_whose_temporary_file_was_full") {
        return;
    }
    limit_files();
    let (_directory, path) = directory();
    let options = "window=0&memory=1M&log_limit=1M";
    let writer = open(&path, options).unwrap();
    set_journal(&writer, "wal");
    let rows = "CREATE TABLE t (k INTEGER PRIMARY KEY, a INT, b); WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 899)
        INSERT INTO t SELECT i, 0, randomblob(3000) FROM n";
    writer.execute_batch(rows).unwrap();
    let add = |commits: i64| writer.execute("UPDATE t SET a = a + 1, b = randomblob(3000) WHERE k = ?1", [commits % 900]);
    let sum = |database: &Connection| database.query_row("SELECT sum(a) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
    // Of these frames the pool has the pages.
    writer.execute_batch("PRAGMA wal_autocheckpoint=0; UPDATE t SET a = 1; PRAGMA wal_autocheckpoint=1000").unwrap();
    let (mut commits, mut readers) = (900, Vec::new());
    while readers.len() < 2 {
        let (reader, before) = (open(&path, options).unwrap(), commits);
        reader.execute_batch("BEGIN").unwrap();
        assert_eq!(sum(&reader), before);
        readers.push((reader, before));
        // The snapshot keeps an earlier version of each page that changes.
        while commits < before + 900 && add(commits).is_ok() {
            commits += 1;
        }
    }
    assert!(writer.execute("UPDATE t SET a = a + 1", []).is_err(), "nothing is full after {commits} commits");
    assert!(readers.iter().all(|(reader, before)| sum(reader) == *before));
    drop(readers);
    for _ in 0..100 {
        add(commits).unwrap();
        commits += 1;
    }
    assert_eq!(sum(&writer), commits);
    drop(writer);
    assert_eq!(integrity(&plain(&path)), "ok");
}

/// A backup is copied over the database of a program whose standard error goes to a program that has ended.
#[test]
fn a_foreign_write_is_survived_whose_words_no_program_reads() {
    if !is_alone("a_foreign_write_is_survived_whose_words_no_program_reads") {
        return;
    }
    let (_directory, path) = directory();
    plain(&path).execute_batch("CREATE TABLE t (a INT)").unwrap();
    let backup = std::fs::read(&path).unwrap();
    let database = open(&path, "window=0").unwrap();
    let insert = "INSERT INTO t VALUES (1)";
    database.execute_batch(&format!("{insert}; {insert}")).unwrap();
    let mut ends = [0; 2];
    // SAFETY: the descriptors are those that the call has made, and standard error, which this process alone has.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        libc::dup2(ends[1], 2);
        libc::close(ends[0]);
    }
    std::fs::write(&path, &backup).unwrap();
    assert!(database.execute_batch(insert).is_err());
    let again = open(&path, "window=0").unwrap();
    again.execute_batch(insert).unwrap();
    assert_eq!(count(&again), 1);
}

/// Half of what musl gives a thread.
#[test]
fn a_thread_with_a_small_stack_uses_a_database() {
    let (_directory, path) = directory();
    let used: PathBuf = path.clone();
    let thread = std::thread::Builder::new().stack_size(64 << 10);
    let using = thread.spawn(move || {
        let database = open(&used, "window=0").unwrap();
        set_journal(&database, "wal");
        database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
        count(&database)
    });
    assert_eq!(using.unwrap().join().unwrap(), 1);
}
