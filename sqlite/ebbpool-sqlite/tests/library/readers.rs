//! While a sync takes long, only those wait that have to: writers of the same database.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use crate::support::between::{Between, FileKind};
use crate::support::real::{count, directory, integrity, plain, set_journal};
use crate::support::shim::leaked;

/// How long those may take who need not wait.
const SOON: Duration = Duration::from_secs(10);

/// Syncs of one database wait while it is closed.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    closed_for: Option<String>,
    /// Syncs that pass all the same.
    passes: usize,
    waiting: usize,
}

impl Gate {
    fn close(&self, path: &Path) {
        self.state.lock().unwrap().closed_for = Some(path.display().to_string());
    }

    /// Closes it behind some syncs.
    fn close_behind(&self, path: &Path, passes: usize) {
        self.close(path);
        self.state.lock().unwrap().passes = passes;
    }

    fn open(&self) {
        self.state.lock().unwrap().closed_for = None;
        self.changed.notify_all();
    }

    /// A sync of a file passes when it may.
    fn pass(&self, path: &str) {
        let mut state = self.state.lock().unwrap();
        let is_closed = |state: &GateState| {
            let closed_for = state.closed_for.as_deref();
            closed_for.is_some_and(|closed| path.starts_with(closed))
        };
        if is_closed(&state) && state.passes > 0 {
            state.passes -= 1;
        } else if is_closed(&state) {
            state.waiting += 1;
            self.changed.notify_all();
            while is_closed(&state) {
                state = self.changed.wait(state).unwrap();
            }
            state.waiting -= 1;
        }
    }

    /// Waits until a sync waits.
    fn wait_for_a_sync(&self) {
        let state = self.state.lock().unwrap();
        let (state, _) = self.changed.wait_timeout_while(state, SOON, |state| state.waiting == 0).unwrap();
        assert!(state.waiting > 0, "nothing is synced");
    }
}

/// The library over a VFS whose syncs have a gate.
#[derive(Clone)]
struct Slow {
    vfs: &'static CStr,
    below: &'static Between,
    gate: Arc<Gate>,
}

impl Slow {
    fn new(name: &str) -> Slow {
        let gate = Arc::new(Gate::default());
        let vfs = leaked(&format!("ebbpool-slow-{name}"));
        let below = Between::under_the_library(vfs);
        let passed = Arc::clone(&gate);
        below.observe(move |call| {
            if call.method == "xSync" {
                passed.pass(call.path);
            }
            None
        });
        Slow { vfs, below, gate }
    }

    fn open(&self, path: &Path, options: &str) -> Connection {
        let name = format!("file:{}?{options}", path.display());
        let flags = OpenFlags::default();
        let database = Connection::open_with_flags_and_vfs(name, flags, self.vfs).unwrap();
        database.busy_timeout(Duration::ZERO).unwrap();
        database.execute_batch("PRAGMA cache_size=5").unwrap();
        database
    }

    /// Does `slow` in a thread, whose first sync of the database waits, and meanwhile `others` in another thread.
    fn meanwhile<R: Send + 'static>(
        &self,
        path: &Path,
        slow: impl FnOnce() + Send + 'static,
        others: impl FnOnce() -> R + Send + 'static,
    ) -> R {
        self.gate.close(path);
        let worker = std::thread::spawn(slow);
        self.gate.wait_for_a_sync();
        let (sender, receiver) = mpsc::channel();
        let other = std::thread::spawn(move || sender.send(others()));
        let answer = receiver.recv_timeout(SOON);
        self.gate.open();
        let (worked, _) = (worker.join(), other.join());
        worked.unwrap();
        answer.expect("those who need not wait for the sync have waited, or failed")
    }
}

fn filled(slow: &Slow, path: &Path, mode: &str, options: &str) -> Connection {
    let database = slow.open(path, options);
    set_journal(&database, mode);
    database
        .execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
            INSERT INTO t SELECT i, zeroblob(500) FROM n; UPDATE t SET a=zeroblob(501) WHERE id=1",
        )
        .unwrap();
    database
}

/// Reads all of a database several times.
fn read(database: &Connection) -> i64 {
    (0..5).map(|_| count(database)).sum::<i64>() / 5
}

fn run(database: &Connection, sql: &str) {
    let mut statement = database.prepare(sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    while rows.next().unwrap().is_some() {}
}

/// The commands after which a sync takes long, and the database's journal mode.
const SLOW_WORK: [(&str, &str); 5] = [
    ("wal", "INSERT INTO t (a) VALUES (1)"),
    ("wal", "PRAGMA ebbpool_checkpoint"),
    ("wal", "PRAGMA wal_checkpoint(TRUNCATE)"),
    ("wal", "UPDATE t SET a=zeroblob(502)"),
    ("delete", "PRAGMA ebbpool_checkpoint"),
];

#[test]
fn readers_go_on_while_a_commit_or_a_checkpoint_is_synced() {
    let slow = Slow::new("readers");
    for (mode, work) in SLOW_WORK {
        for options in ["window=0", "window=0&log=wal", "window=0&log_limit=20k"] {
            let (_directory, path) = directory();
            let writer = filled(&slow, &path, mode, options);
            let reader = slow.open(&path, options);
            assert_eq!(read(&reader), 500);
            let found = slow.meanwhile(&path, move || run(&writer, work), move || (read(&reader), reader));
            assert!((500..=501).contains(&found.0), "{mode}, {work}, {options}");
            drop(found);
            let plain = plain(&path);
            assert_eq!(integrity(&plain), "ok");
        }
    }
}

thread_local! {
    /// True in a thread whose syncs are those of commits.
    static COMMITS: Cell<bool> = const { Cell::new(false) };
}

/// Counts how often commits come in between writes of a checkpoint, which are in runs of many pages. After each time the next write
/// waits until another commit has begun, and gives it the time to ask for the files, which the checkpoint has during its writes.
fn count_turns(slow: &Slow, begun: &Arc<AtomicU64>) -> Arc<AtomicU64> {
    const TIME_TO_ASK: Duration = Duration::from_millis(30);
    let turns = Arc::new(AtomicU64::new(0));
    let (begun, turned) = (Arc::clone(begun), Arc::clone(&turns));
    let (synced, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    slow.below.observe(move |call| {
        if call.method == "xSync" && COMMITS.get() {
            synced.store(begun.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        let is_checkpoint =
            call.method == "xWrite" && call.count == 1 << 16 && matches!(call.kind, FileKind::Main | FileKind::Wal);
        let now = synced.load(Ordering::SeqCst);
        if is_checkpoint && seen.swap(now, Ordering::SeqCst) != now {
            turned.fetch_add(1, Ordering::SeqCst);
            let start = Instant::now();
            while begun.load(Ordering::SeqCst) == now && start.elapsed() < SOON {
                std::thread::yield_now();
            }
            std::thread::sleep(TIME_TO_ASK);
        }
        None
    });
    turns
}

/// A commit that has to be durable at once waits for a slice of a checkpoint, and not for all of it.
#[test]
fn commits_go_on_between_the_slices_of_a_checkpoint() {
    let slow = Slow::new("slices");
    for log in ["deltas", "wal"] {
        let options = format!("window=0&log_limit=64M&log={log}");
        let (_directory, path) = directory();
        let writer = slow.open(&path, &options);
        set_journal(&writer, "wal");
        run(&writer, "PRAGMA cache_size=5000");
        writer
            .execute_batch(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
                INSERT INTO t SELECT i, zeroblob(4000), 0 FROM n;
                PRAGMA ebbpool_checkpoint; UPDATE t SET b=b+1; UPDATE t SET b=b+1",
            )
            .unwrap();
        let begun = Arc::new(AtomicU64::new(0));
        let turns = count_turns(&slow, &begun);
        let is_done = Arc::new(AtomicBool::new(false));
        let (done, commits) = (Arc::clone(&is_done), Arc::clone(&begun));
        let other = slow.open(&path, &options);
        let committing = std::thread::spawn(move || {
            COMMITS.set(true);
            other.busy_timeout(SOON).unwrap();
            while !done.load(Ordering::SeqCst) {
                commits.fetch_add(1, Ordering::SeqCst);
                run(&other, "UPDATE t SET b=b+1 WHERE id=1");
            }
        });
        while begun.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        run(&writer, "PRAGMA ebbpool_checkpoint");
        is_done.store(true, Ordering::SeqCst);
        committing.join().unwrap();
        let turns = turns.load(Ordering::SeqCst);
        assert!(turns >= 5, "{log}: commits came in {turns} times");
        drop(writer);
        slow.below.observe_no_more();
        let plain = plain(&path);
        assert_eq!(integrity(&plain), "ok");
        let sum: i64 = plain.query_row("SELECT sum(b) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(sum as u64, 8000 + begun.load(Ordering::SeqCst));
    }
}

#[test]
fn readers_go_on_while_the_window_ends() {
    let slow = Slow::new("window");
    for mode in ["wal", "delete"] {
        let (_directory, path) = directory();
        let writer = filled(&slow, &path, mode, "window=0.1");
        let reader = slow.open(&path, "window=0.1");
        // The first epoch goes to `-wal`, and the next commit begins `-ebb`, which takes syncs of its own.
        run(&writer, "PRAGMA ebbpool_flush");
        run(&writer, "INSERT INTO t (a) VALUES (0)");
        run(&writer, "PRAGMA ebbpool_flush");
        let found = slow.meanwhile(
            &path,
            move || {
                run(&writer, "INSERT INTO t (a) VALUES (1)");
                std::thread::sleep(Duration::from_millis(300));
            },
            move || (read(&reader), reader),
        );
        assert_eq!(found.0, 502);
    }
}

/// A program with a connection for each request.
#[test]
fn a_database_is_opened_and_read_while_it_is_synced() {
    let slow = Slow::new("opening");
    for (mode, work) in SLOW_WORK {
        let (_directory, path) = directory();
        let writer = filled(&slow, &path, mode, "window=0");
        let (opening, same) = (slow.clone(), path.clone());
        let found = slow.meanwhile(&path, move || run(&writer, work), move || read(&opening.open(&same, "window=0")));
        assert!((500..=501).contains(&found), "{mode}, {work}");
    }
}

/// Nothing that is older than a window is acknowledged and not durable for long: then a commit waits.
#[test]
fn a_commit_waits_where_a_checkpoint_keeps_the_epoch_of_an_earlier_one_waiting() {
    let slow = Slow::new("late");
    let (_directory, path) = directory();
    let options = "window=0.2";
    let writer = filled(&slow, &path, "wal", options);
    run(&writer, "PRAGMA ebbpool_flush");
    run(&writer, "INSERT INTO t (a) VALUES (0)");
    let other = slow.open(&path, options);
    other.busy_timeout(SOON).unwrap();
    slow.gate.close(&path);
    let worker = std::thread::spawn(move || run(&writer, "PRAGMA ebbpool_checkpoint"));
    slow.gate.wait_for_a_sync();
    let (sender, receiver) = mpsc::channel();
    let late = std::thread::spawn(move || {
        run(&other, "INSERT INTO t (a) VALUES (1)");
        std::thread::sleep(Duration::from_millis(500));
        run(&other, "INSERT INTO t (a) VALUES (2)");
        sender.send(()).unwrap();
    });
    let early = receiver.recv_timeout(Duration::from_millis(1200));
    slow.gate.open();
    assert!(early.is_err(), "the commit did not wait");
    receiver.recv_timeout(SOON).unwrap();
    worker.join().unwrap();
    late.join().unwrap();
    assert_eq!(count(&plain(&path)), 503);
}

#[test]
fn a_commit_waits_where_the_epoch_of_an_earlier_one_takes_longer_than_the_window() {
    let slow = Slow::new("flight");
    let (_directory, path) = directory();
    let writer = filled(&slow, &path, "wal", "window=0.2");
    for _ in 0..2 {
        // The second epoch begins `-ebb`, and has room.
        run(&writer, "INSERT INTO t (a) VALUES (0)");
        run(&writer, "PRAGMA ebbpool_flush");
    }
    slow.gate.close(&path);
    run(&writer, "INSERT INTO t (a) VALUES (0)");
    slow.gate.wait_for_a_sync();
    std::thread::sleep(Duration::from_millis(500));
    let (sender, receiver) = mpsc::channel();
    let late = std::thread::spawn(move || {
        run(&writer, "INSERT INTO t (a) VALUES (1)");
        sender.send(()).unwrap();
    });
    let early = receiver.recv_timeout(Duration::from_millis(500));
    slow.gate.open();
    assert!(early.is_err(), "the commit did not wait");
    receiver.recv_timeout(SOON).unwrap();
    late.join().unwrap();
    assert_eq!(count(&plain(&path)), 504);
}

/// A commit has no room in a log whose room the epoch before has taken: on a full disk it would be acknowledged and lost.
#[test]
fn a_commit_waits_for_room_while_the_first_epoch_goes_in_place() {
    let slow = Slow::new("first");
    let (_directory, path) = directory();
    drop(filled(&slow, &path, "wal", "window=1000"));
    let writer = slow.open(&path, "window=1000");
    let other = slow.open(&path, "window=1000");
    run(&writer, "INSERT INTO t (a) VALUES (0)");
    // The first sync is that of `-wal`, the second that of the pages in place.
    slow.gate.close_behind(&path, 1);
    let worker = std::thread::spawn(move || run(&writer, "PRAGMA ebbpool_flush"));
    slow.gate.wait_for_a_sync();
    let (sender, receiver) = mpsc::channel();
    let committer = std::thread::spawn(move || {
        run(&other, "INSERT INTO t (a) VALUES (1)");
        sender.send(()).unwrap();
    });
    let early = receiver.recv_timeout(Duration::from_millis(300));
    slow.gate.open();
    assert!(early.is_err(), "the commit did not look for room");
    receiver.recv_timeout(SOON).unwrap();
    worker.join().unwrap();
    committer.join().unwrap();
    assert_eq!(count(&plain(&path)), 502);
}

#[test]
fn other_databases_go_on() {
    let slow = Slow::new("others");
    for (mode, work) in SLOW_WORK {
        let (_directory, path) = directory();
        let (_other_directory, other) = directory();
        let writer = filled(&slow, &path, mode, "window=0");
        let used = filled(&slow, &other, mode, "window=0");
        let third = other.with_file_name("third.db");
        let opening = slow.clone();
        let found = slow.meanwhile(
            &path,
            move || run(&writer, work),
            move || {
                for _ in 0..3 {
                    run(&used, "INSERT INTO t (a) VALUES (1)");
                }
                let third = filled(&opening, &third, "wal", "window=0");
                (read(&used), read(&third))
            },
        );
        assert_eq!(found, (503, 500), "{mode}, {work}");
    }
}

/// A database is closed on a slow card. Nothing of another one is taken for a file that is not the library's.
#[test]
fn other_databases_are_opened_used_and_closed_while_one_closes() {
    let slow = Slow::new("closing");
    for (mode, window) in [("delete", "0"), ("wal", "0"), ("delete", "30"), ("wal", "30")] {
        let options = format!("window={window}");
        let (_directory, path) = directory();
        let (_other_directory, other) = directory();
        let closing = filled(&slow, &path, mode, &options);
        run(&closing, "INSERT INTO t (a) VALUES (1)");
        let used = filled(&slow, &other, mode, &options);
        let (opening, third) = (slow.clone(), other.with_file_name("third.db"));
        let beside: Vec<PathBuf> =
            ["-journal", "-wal"].map(|suffix| PathBuf::from(format!("{}{suffix}", other.display()))).into();
        let found = slow.meanwhile(
            &path,
            move || drop(closing),
            move || {
                for _ in 0..5 {
                    run(&used, "BEGIN; ");
                    run(&used, "INSERT INTO t (a) VALUES (1)");
                    let real = beside[0].exists();
                    assert!(!real, "the library's journal is a real file");
                    run(&used, "COMMIT");
                }
                drop(filled(&opening, &third, mode, "window=0"));
                let again = opening.open(&third, "window=0");
                (read(&used), read(&again))
            },
        );
        assert_eq!(found, (505, 500), "{mode}, window {window}");
        assert_eq!(count(&plain(&path)), 501);
        assert_eq!(count(&plain(&other)), 505);
    }
}

/// Who opens the database that is closing waits for it, and has all of it.
#[test]
fn a_database_that_closes_is_opened_again() {
    let slow = Slow::new("again");
    for window in ["0", "30"] {
        let options = format!("window={window}");
        let (_directory, path) = directory();
        let closing = filled(&slow, &path, "wal", &options);
        run(&closing, "INSERT INTO t (a) VALUES (1)");
        slow.gate.close(&path);
        let worker = std::thread::spawn(move || drop(closing));
        slow.gate.wait_for_a_sync();
        let (opening, same, again) = (slow.clone(), path.clone(), options.clone());
        let (sender, receiver) = mpsc::channel();
        let opener = std::thread::spawn(move || {
            let database = opening.open(&same, &again);
            database.busy_timeout(SOON).unwrap();
            run(&database, "INSERT INTO t (a) VALUES (2)");
            sender.send(count(&database)).unwrap();
        });
        std::thread::sleep(Duration::from_millis(100));
        slow.gate.open();
        worker.join().unwrap();
        assert_eq!(receiver.recv_timeout(SOON).ok(), Some(502), "{window}");
        opener.join().unwrap();
        assert_eq!(count(&plain(&path)), 502);
    }
}
