//! A database that handles of this process share, and its locks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::code::{SqliteCode, SqliteResult};
use crate::database_state::DatabaseState;
use crate::disk::FileIdentity;
use crate::health::{DatabaseHealth, HealthEntry};
use crate::options::Options;
use crate::store::DurableFiles;
use crate::sync::{lock, lock_within};

/// Seconds after which commits are published again.
const HEALTH_EVERY: f64 = 0.5;

/// How long, and how often, a commit lets the thread go first that does what is due.
const WAIT: Duration = Duration::from_micros(50);
const MOST_WAITS: u32 = 200;

/// Why SQLite's own VFS serves a handle that writes, although the library could.
const PASSED_BESIDE_A_READER: &str = "another connection of the process has opened it for reading only";

/// Whose the files of a database are.
pub(crate) enum Ownership {
    /// No process's, as far as this one knows.
    Free,
    /// This process's.
    Owned(Box<DatabaseState>),
    /// The file has lost its name while it was open, or another program has written it, and the handles are good for nothing more:
    /// they get this code.
    Lost(SqliteCode),
}

/// What the lock of a database protects. No thread has it while it reads, writes or syncs a log or the database.
pub(crate) struct Inner {
    pub(crate) state: Ownership,
    /// True while a thread takes the files over.
    pub(crate) is_owning: bool,
    /// Handles that SQLite's own VFS serves at the moment, with a lock or an index of the WAL.
    pub(crate) passing: u32,
    /// The windows that the handles have asked for, in seconds.
    windows: HashMap<u64, f64>,
    /// The file that this process has taken over; `None` on a simulated disk.
    pub(crate) identity: Option<FileIdentity>,
    /// Why the database is left to SQLite's own VFS.
    pub(crate) refusal: Option<&'static str>,
}

/// A database that handles of this process share.
///
/// A thread that needs both locks takes that of the writer first.
pub(crate) struct SharedDatabase {
    pub(crate) path: String,
    pub(crate) options: Options,
    /// The process that opened it.
    process: u32,
    pub(crate) handles: AtomicU32,
    inner: Mutex<Inner>,
    /// The files, for the one thread that writes them, while the state is `Owned`.
    writer: Mutex<Option<DurableFiles>>,
    /// Bits of the seconds at which there is something to do.
    due: AtomicU64,
    /// Bits of the seconds for which the timer is set.
    armed: AtomicU64,
    /// True while a thread that does it waits for the files.
    work_waits: AtomicBool,
    /// Commits that wait for the files, and those that have got them.
    waiting_commits: AtomicU32,
    admitted_commits: AtomicU64,
    /// True while a thread does it.
    pub(crate) is_at_work: AtomicBool,
    /// True when an exit handler has said what is lost. A later one tries again.
    pub(crate) has_said_end: AtomicBool,
    /// True if it was said that commits are refused, because the file has lost its name.
    pub(crate) has_said_nameless: AtomicBool,
    /// What other processes get to know.
    health: HealthEntry,
    /// True if what they know is that every commit is durable. A thread has the lock, before that of the state, while it reads
    /// and publishes the state, so that no older one replaces a newer one.
    says_all_durable: Mutex<bool>,
    /// Bits of the seconds at which they last did.
    said_at: AtomicU64,
    /// True if commits were made since, of which they do not know.
    has_unsaid: AtomicBool,
    /// Bits of the seconds at which a connection that reads has looked whether another program has written the file.
    looked_at: AtomicU64,
}

impl SharedDatabase {
    /// A database that this process, with the number `process`, opens.
    pub(crate) fn new(path: &str, options: Options, process: u32) -> SharedDatabase {
        SharedDatabase {
            path: path.to_owned(),
            options,
            process,
            handles: AtomicU32::new(0),
            inner: Mutex::new(Inner {
                state: Ownership::Free,
                is_owning: false,
                passing: 0,
                windows: HashMap::new(),
                identity: None,
                refusal: None,
            }),
            writer: Mutex::new(None),
            due: AtomicU64::new(f64::INFINITY.to_bits()),
            armed: AtomicU64::new(f64::INFINITY.to_bits()),
            work_waits: AtomicBool::new(false),
            waiting_commits: AtomicU32::new(0),
            admitted_commits: AtomicU64::new(0),
            is_at_work: AtomicBool::new(false),
            has_said_end: AtomicBool::new(false),
            has_said_nameless: AtomicBool::new(false),
            health: HealthEntry::new(),
            says_all_durable: Mutex::new(false),
            said_at: AtomicU64::new(f64::NEG_INFINITY.to_bits()),
            has_unsaid: AtomicBool::new(false),
            looked_at: AtomicU64::new(f64::NEG_INFINITY.to_bits()),
        }
    }

    /// True if the database is one of this process, and not of its parent.
    pub(crate) fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    pub(crate) fn check_process(&self) -> SqliteResult<()> {
        match self.is_own() {
            true => Ok(()),
            false => Err(SqliteCode::MISUSE),
        }
    }

    /// The state.
    ///
    /// # Errors
    ///
    /// `MISUSE` in a child that inherited the handle; `IO` after a panic in the middle of a change.
    pub(crate) fn lock(&self) -> SqliteResult<MutexGuard<'_, Inner>> {
        self.check_process()?;
        self.inner.lock().map_err(|_| SqliteCode::IO)
    }

    /// True if the database was given up, so that its handles are good for nothing more.
    pub(crate) fn is_lost(&self) -> bool {
        self.lock().is_ok_and(|inner| matches!(inner.state, Ownership::Lost(_)))
    }

    /// The files.
    ///
    /// # Errors
    ///
    /// `MISUSE` in a child that inherited the handle; `IO` after a panic in the middle of a change.
    pub(crate) fn writer(&self) -> SqliteResult<MutexGuard<'_, Option<DurableFiles>>> {
        self.check_process()?;
        self.writer.lock().map_err(|_| SqliteCode::IO)
    }

    /// The files, for the thread that does what is due: others that have had them wait until it has begun.
    ///
    /// # Errors
    ///
    /// `MISUSE` in a child that inherited the handle; `IO` after a panic in the middle of a change.
    pub(crate) fn writer_for_work(&self) -> SqliteResult<MutexGuard<'_, Option<DurableFiles>>> {
        self.work_waits.store(true, Ordering::Release);
        let writer = self.writer();
        self.work_waits.store(false, Ordering::Release);
        writer
    }

    /// The files, for a commit: a thread that commits again and again must not keep a checkpoint waiting.
    ///
    /// # Errors
    ///
    /// `MISUSE` in a child that inherited the handle; `IO` after a panic in the middle of a change.
    pub(crate) fn writer_for_commit(&self) -> SqliteResult<MutexGuard<'_, Option<DurableFiles>>> {
        self.waiting_commits.fetch_add(1, Ordering::AcqRel);
        for _ in 0..MOST_WAITS {
            if !self.work_waits.load(Ordering::Acquire) {
                break;
            }
            std::thread::sleep(WAIT);
        }
        let writer = self.writer();
        self.admitted_commits.fetch_add(1, Ordering::AcqRel);
        self.waiting_commits.fetch_sub(1, Ordering::AcqRel);
        writer
    }

    /// Waits until a commit has got the files, if one waits for them: a thread that asks for them again and again would keep them.
    pub(crate) fn let_commits_in(&self) {
        let admitted = self.admitted_commits.load(Ordering::Acquire);
        for _ in 0..MOST_WAITS {
            let is_next = self.admitted_commits.load(Ordering::Acquire) != admitted;
            if is_next || self.waiting_commits.load(Ordering::Acquire) == 0 {
                break;
            }
            std::thread::sleep(WAIT);
        }
    }

    /// The files, if no other thread has them all the time.
    pub(crate) fn writer_within(&self, patience: Duration) -> Option<MutexGuard<'_, Option<DurableFiles>>> {
        lock_within(&self.writer, patience)
    }

    /// Waits until the thread that has the files is done.
    pub(crate) fn wait_for_writer(&self) -> SqliteResult<()> {
        self.writer().map(drop)
    }

    /// Calls `with` for the state of the database.
    ///
    /// # Errors
    ///
    /// `CANT_OPEN` if the files are not this process's, and those of `with`.
    pub(crate) fn with_state<R>(&self, now: f64, with: impl FnOnce(&mut DatabaseState) -> SqliteResult<R>) -> SqliteResult<R> {
        let mut inner = self.lock()?;
        let Ownership::Owned(state) = &mut inner.state else {
            return Err(SqliteCode::CANT_OPEN);
        };
        state.now = now;
        let answer = with(state);
        self.set_due(state.next_work());
        answer
    }

    /// Notes the window that a handle asks for: the smallest one is that of the database. Returns that one.
    pub(crate) fn set_window(&self, handle: u64, seconds: Option<f64>) -> SqliteResult<f64> {
        let mut inner = self.lock()?;
        match seconds {
            Some(seconds) => inner.windows.insert(handle, seconds),
            None => inner.windows.remove(&handle),
        };
        let smallest = inner.windows.values().copied().reduce(f64::min);
        let Some(window) = smallest else {
            return Ok(self.options.window);
        };
        if let Ownership::Owned(state) = &mut inner.state {
            state.options.window = window;
            self.set_due(state.next_work());
        }
        Ok(window)
    }

    /// Why a PRAGMA cannot have the files: for people, with what to do about it. `None` if this process leaves them to no other VFS.
    pub(crate) fn passed_text(&self) -> Option<String> {
        let inner = self.lock().ok()?;
        let is_passed = matches!(inner.state, Ownership::Free) && inner.passing > 0;
        is_passed.then(|| format!("SQLite's own VFS serves it, because {PASSED_BESIDE_A_READER}; close that one first"))
    }

    /// Publishes how the database is, for other processes.
    pub(crate) fn publish_health(&self, now: f64) {
        // A thread that a child of `fork` does not have may have the lock below.
        if !self.is_own() {
            return;
        }
        let identity = FileIdentity::for_path(&self.path);
        let mut says_all_durable = lock(&self.says_all_durable);
        self.said_at.store(now.to_bits(), Ordering::Relaxed);
        // Before the state is read: a commit from now on is one that it may lack.
        self.has_unsaid.store(false, Ordering::SeqCst);
        let Ok(inner) = self.lock() else {
            return;
        };
        let mut health = match &inner.state {
            Ownership::Owned(state) => state.health(),
            state => DatabaseHealth {
                last_epoch_succeeded: !matches!(state, Ownership::Lost(SqliteCode::IO)),
                ..DatabaseHealth::default()
            },
        };
        let is_passed = matches!(inner.state, Ownership::Free) && inner.passing > 0;
        let beside_a_reader = is_passed.then_some(PASSED_BESIDE_A_READER);
        health.passed = inner.refusal.or(beside_a_reader).map(str::to_owned);
        drop(inner);
        health.path = self.path.clone();
        (health.device, health.inode) = identity.map_or((0, 0), |identity| (identity.device, identity.inode));
        *says_all_durable = health.oldest_unsaved.is_none();
        self.health.publish(&health);
    }

    /// True if other processes know that every commit is durable, and one is not.
    fn calls_durable_what_is_not(&self) -> bool {
        if !self.is_own() {
            return false;
        }
        let says_all_durable = lock(&self.says_all_durable);
        *says_all_durable
            && self.lock().is_ok_and(|inner| match &inner.state {
                Ownership::Owned(state) => state.oldest().is_some(),
                _ => false,
            })
    }

    /// Notes that the database has changed, and publishes how it is, unless that was done a moment ago and did not call every
    /// commit durable. Returns the seconds at which [`SharedDatabase::publish_what_is_unsaid`] then has to follow, the first time.
    pub(crate) fn publish_commit(&self, now: f64) -> Option<f64> {
        let is_first = !self.has_unsaid.swap(true, Ordering::SeqCst);
        if self.calls_durable_what_is_not() {
            self.publish_health(now);
            return None;
        }
        let due = self.publish_what_is_unsaid(now);
        due.filter(|_| is_first)
    }

    /// Publishes how the database is, if that has changed and it is time. Returns the seconds at which it is.
    pub(crate) fn publish_what_is_unsaid(&self, now: f64) -> Option<f64> {
        let due = f64::from_bits(self.said_at.load(Ordering::Relaxed)) + HEALTH_EVERY;
        if !self.has_unsaid.load(Ordering::SeqCst) {
            return None;
        }
        if now < due {
            return Some(due);
        }
        self.publish_health(now);
        None
    }

    /// True if a connection has looked at the file within the last seconds. Otherwise the caller is to look now.
    pub(crate) fn has_looked_within(&self, seconds: f64, now: f64) -> bool {
        let has_looked = now < f64::from_bits(self.looked_at.load(Ordering::Relaxed)) + seconds;
        if !has_looked {
            self.looked_at.store(now.to_bits(), Ordering::Relaxed);
        }
        has_looked
    }

    /// Seconds at which there is something to do; infinity if never.
    pub(crate) fn due(&self) -> f64 {
        f64::from_bits(self.due.load(Ordering::Acquire))
    }

    /// True if the timer has to be set for what there is to do, which then counts as done.
    pub(crate) fn needs_timer(&self) -> bool {
        let due = self.due();
        let is_earlier = due < f64::from_bits(self.armed.load(Ordering::Acquire));
        if is_earlier {
            self.armed.store(due.to_bits(), Ordering::Release);
        }
        is_earlier
    }

    /// The timer looks at the database now.
    pub(crate) fn forget_timer(&self) {
        self.armed.store(f64::INFINITY.to_bits(), Ordering::Release);
    }

    pub(crate) fn set_due(&self, due: Option<f64>) {
        let due = due.unwrap_or(f64::INFINITY);
        self.due.store(due.to_bits(), Ordering::Release);
    }
}

impl Inner {
    /// The smallest window of the handles, in seconds.
    pub(crate) fn window(&self) -> Option<f64> {
        self.windows.values().copied().reduce(f64::min)
    }
}
