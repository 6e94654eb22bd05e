//! Databases in real files, and processes.

#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde_json::Value;
use tempfile::TempDir;

/// The test that a process of its own runs, and the database that it is to use.
const ALONE: &str = "EBBPOOL_TEST_ALONE";
const DATABASE: &str = "EBBPOOL_TEST_DATABASE";

/// What takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn uri(path: &Path, options: &str) -> String {
    ebbpool_sqlite::register(false).unwrap();
    format!("file:{}?vfs=ebbpool&{options}", path.display())
}

/// Opens a database through the library; it waits for no lock.
pub fn open(path: &Path, options: &str) -> rusqlite::Result<Connection> {
    let database = Connection::open_with_flags(uri(path, options), OpenFlags::default())?;
    database.busy_timeout(Duration::ZERO)?;
    Ok(database)
}

/// Opens a database without the library.
pub fn plain(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    database.busy_timeout(Duration::ZERO).unwrap();
    database
}

/// A directory of a test that does not look at the disk, in memory where the system has room there: no sync waits for a disk.
/// `TMPDIR` names another place. Tests that take `tempfile::tempdir` run on the disk.
pub fn scratch() -> TempDir {
    const ROOM: u64 = 2 << 30;
    let memory = c"/dev/shm";
    // SAFETY: the name ends with a zero, and the call writes the structure, for which zeros are a value.
    let free = unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(memory.as_ptr(), &mut found) == 0 { found.f_bavail as u64 * found.f_frsize as u64 } else { 0 }
    };
    let in_memory = (free >= ROOM && std::env::var_os("TMPDIR").is_none()).then(|| tempfile::tempdir_in("/dev/shm"));
    in_memory.and_then(Result::ok).unwrap_or_else(|| tempfile::tempdir().unwrap())
}

pub fn directory() -> (TempDir, PathBuf) {
    let directory = scratch();
    let path = directory.path().join("home.db");
    (directory, path)
}

pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// Copies the files as a killed process would leave them.
pub fn copy_of(path: &Path) -> (TempDir, PathBuf) {
    let (directory, copy) = directory();
    for suffix in ["", "-wal", "-ebb", "-journal"] {
        let from = beside(path, suffix);
        if from.exists() {
            std::fs::copy(from, beside(&copy, suffix)).unwrap();
        }
    }
    (directory, copy)
}

pub fn status(database: &Connection) -> Value {
    let text: String = database.query_row("PRAGMA ebbpool_status", [], |row| row.get(0)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The rows of table `t`.
pub fn count(database: &Connection) -> i64 {
    try_count(database).unwrap()
}

pub fn try_count(database: &Connection) -> rusqlite::Result<i64> {
    database.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
}

pub fn set_journal(database: &Connection, mode: &str) {
    database.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
}

pub fn integrity(database: &Connection) -> String {
    database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
}

/// The byte of the header that keeps plain SQLite from writing, where it is not 1 or 2.
pub fn write_version(path: &Path) -> u8 {
    std::fs::read(path).unwrap()[18]
}

pub fn error_code<T>(answer: rusqlite::Result<T>) -> Option<ErrorCode> {
    answer.err().and_then(|error| error.sqlite_error_code())
}

/// True in a process of its own, which the first call starts, for a test that forks or changes the process.
pub fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some_and(|name| name == *test) {
        return true;
    }
    let (status, output) = run_alone(test, Path::new(""), &[]);
    // The harness succeeds also where it finds no test of that name.
    assert!(status.success() && output.contains(" 1 passed"), "{status}\n{output}");
    false
}

/// The database of a process that [`run_alone`] has started for a test.
pub fn database_of_victim(test: &str) -> Option<PathBuf> {
    let is_mine = std::env::var_os(ALONE).is_some_and(|name| name == *test);
    is_mine.then(|| PathBuf::from(std::env::var_os(DATABASE).unwrap_or_default()))
}

/// Runs one test of this program in a process of its own, and returns how that ended, and what it has printed.
pub fn run_alone(test: &str, path: &Path, environment: &[(&str, &str)]) -> (ExitStatus, String) {
    let output = tempfile::NamedTempFile::new().unwrap();
    // Both write at one place, so that neither covers what the other has written.
    let written = output.reopen().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ALONE, test)
        .env(DATABASE, path)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(written.try_clone().unwrap())
        .stderr(written)
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begin.elapsed() > PATIENCE => {
                child.kill().unwrap();
                break child.wait().unwrap();
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    (status, std::fs::read_to_string(output.path()).unwrap())
}

/// Runs a test in a process of its own, which kills itself.
pub fn run_victim(test: &str, path: &Path) {
    use std::os::unix::process::ExitStatusExt;

    let begin = Instant::now();
    let (status, output) = run_alone(test, path, &[]);
    let is_killed = status.signal() == Some(libc::SIGKILL) && begin.elapsed() < PATIENCE;
    assert!(is_killed, "{status}\n{output}");
}

/// Ends this process as a power cut of only this process would.
pub fn kill_myself() -> ! {
    // SAFETY: a signal to this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!()
}

/// A process made by `fork`. It is killed when it is dropped.
pub struct Child(libc::pid_t);

impl Child {
    /// Forks. The child does `work`, and ends with the number that it answers, or 101 after a panic.
    pub fn fork(work: impl FnOnce() -> i32) -> Child {
        // SAFETY: the child ends without running destructors of other threads.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(answer.unwrap_or(101)) };
        }
        Child(child)
    }

    /// The number with which it ends; `None` if it hangs, or a signal has ended it.
    pub fn wait(mut self, patience: Duration) -> Option<i32> {
        let begin = Instant::now();
        while begin.elapsed() < patience {
            let mut state = 0;
            // SAFETY: the child is one of this process's.
            let ended = unsafe { libc::waitpid(self.0, &mut state, libc::WNOHANG) };
            if ended == self.0 {
                self.0 = 0;
                return libc::WIFEXITED(state).then(|| libc::WEXITSTATUS(state));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.0 > 0 {
            // SAFETY: the child is one of this process's.
            unsafe {
                libc::kill(self.0, libc::SIGKILL);
                libc::waitpid(self.0, std::ptr::null_mut(), 0);
            }
        }
    }
}
