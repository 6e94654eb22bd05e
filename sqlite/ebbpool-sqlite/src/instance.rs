//! One VFS of SQLite's, its databases, and the threads that end their windows.

mod recovery;

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::code::guarded;
use crate::code::{SqliteCode, SqliteResult};
use crate::database_state::DatabaseState;
use crate::disk::BaseVfs;
use crate::disk::FileIdentity;
use crate::ffi::{self, Api};
use crate::options::Options;
use crate::shared::{Ownership, SharedDatabase};
use crate::store::DurableFiles;
use crate::sync::{lock, lock_within};

/// How long the end of the process waits for a disk that is slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it waits where a signal handler that has interrupted a call of the library ends the process: the locks of that call
/// stay.
const PATIENCE_INSIDE: Duration = Duration::from_secs(2);
/// How often the thread looks whether it is the last one of the process.
const LOOK: Duration = Duration::from_secs(2);
/// The number of no handle, under which the end of the process asks for no window.
const END: u64 = 0;
/// How often closing a database is tried again that could not be closed.
const RETRY: f64 = 1.0;

/// A VFS that is registered with SQLite. It lives until the process ends.
pub struct Instance {
    pub(crate) base: BaseVfs,
    pub(crate) api: Api,
    pub(crate) name: &'static std::ffi::CStr,
    databases: Mutex<Databases>,
    handles: AtomicU64,
    clock: Clock,
    timer: Mutex<Timer>,
    wake: Condvar,
    /// False while the thread does what the end of the process has asked for.
    has_ended: AtomicBool,
}

/// The databases of this process, by their paths. No thread does I/O while it has the lock of the table.
#[derive(Default)]
pub(crate) struct Databases {
    by_path: HashMap<String, Arc<SharedDatabase>>,
    /// Those that take part in a transaction over several files, by the name of its super-journal.
    together: HashMap<String, Vec<Arc<SharedDatabase>>>,
    /// Handles that SQLite's own VFS serves.
    passed: Vec<PassedHandle>,
    /// Those that a child of `fork` has inherited.
    inherited: Vec<PassedHandle>,
}

/// A handle of the VFS below that may have locks, and the path of its database.
struct PassedHandle {
    path: String,
    file: *mut ffi::File,
}

// SAFETY: only a child uses the handle, while it is in the table, and its other uses there are refused.
#[allow(unsafe_code)]
unsafe impl Send for PassedHandle {}

impl Databases {
    /// Forgets all databases, in a child of `fork`: closing them would write the parent's files.
    pub(crate) fn forget(&mut self) {
        let mut inherited = std::mem::take(&mut self.inherited);
        inherited.append(&mut self.passed);
        std::mem::forget(std::mem::take(self));
        self.inherited = inherited;
    }

    /// Notes a handle that the VFS below serves from now on.
    pub(crate) fn note_passed(&mut self, path: &str, file: *mut ffi::File) {
        let path = path.to_owned();
        self.passed.push(PassedHandle { path, file });
    }

    /// The VFS below does not serve a handle any more, or it is closed.
    pub(crate) fn forget_passed(&mut self, file: *mut ffi::File) {
        for handles in [&mut self.passed, &mut self.inherited] {
            handles.retain(|handle| handle.file != file);
        }
    }

    /// Gives up the locks of a database that the VFS below counts for handles which this process has inherited, and which can do nothing
    /// any more: the system has none of them for a child.
    #[allow(unsafe_code)]
    fn give_up_inherited(&mut self, path: &str) {
        for handle in self.inherited.extract_if(.., |handle| handle.path == path) {
            // SAFETY: the handle is open, because closing takes it out of the table.
            unsafe { ((*(*handle.file).methods).xUnlock)(handle.file, 0) };
        }
    }

    /// Has a database take part in no transaction over several.
    fn part(&mut self, shared: &SharedDatabase) {
        self.together.retain(|_, together| {
            together.retain(|known| !std::ptr::eq(&raw const **known, shared));
            !together.is_empty()
        });
    }
}

/// Seconds: of the machine, or set by [`Instance::set_time`].
struct Clock {
    begin: Instant,
    /// Bits of a number of seconds; `NEVER` where the machine's clock counts.
    manual: AtomicU64,
}

const NEVER: u64 = u64::MAX;

/// The thread that wakes when there is something to do.
#[derive(Default)]
pub(crate) struct Timer {
    is_running: bool,
    next: Option<Instant>,
    /// The end of the process has begun, and waits this long for each database.
    end: Option<Duration>,
}

impl Timer {
    /// Forgets the thread, which a child of `fork` does not have.
    pub(crate) fn forget(&mut self) {
        *self = Timer::default();
    }
}

impl Instance {
    pub(crate) fn new(base: BaseVfs, api: Api, name: &'static std::ffi::CStr) -> Instance {
        Instance {
            base,
            api,
            name,
            databases: Mutex::default(),
            handles: AtomicU64::new(1),
            clock: Clock { begin: Instant::now(), manual: AtomicU64::new(NEVER) },
            timer: Mutex::default(),
            wake: Condvar::new(),
            has_ended: AtomicBool::new(true),
        }
    }

    /// The table of databases.
    pub(crate) fn lock_databases(&self) -> MutexGuard<'_, Databases> {
        lock(&self.databases)
    }

    /// The timer.
    pub(crate) fn lock_timer(&self) -> MutexGuard<'_, Timer> {
        lock(&self.timer)
    }

    /// A number for the next handle.
    pub(crate) fn next_handle(&self) -> u64 {
        self.handles.fetch_add(1, Ordering::Relaxed)
    }

    /// Seconds.
    pub(crate) fn now(&self) -> f64 {
        match self.clock.manual.load(Ordering::Relaxed) {
            NEVER => self.clock.begin.elapsed().as_secs_f64(),
            bits => f64::from_bits(bits),
        }
    }

    /// True if the clock is set by hand: then no thread works by itself.
    pub(crate) fn is_simulated(&self) -> bool {
        self.clock.manual.load(Ordering::Relaxed) != NEVER
    }

    /// Stops the clock, sets it to a time in seconds, and makes the epochs that are due then: for simulations, in which
    /// hours pass in minutes.
    ///
    /// # Errors
    ///
    /// The first error of an epoch; all databases are tried.
    pub fn set_time(&self, seconds: f64) -> SqliteResult<()> {
        self.clock.manual.store(seconds.to_bits(), Ordering::Relaxed);
        let mut answer = Ok(());
        for shared in self.all() {
            answer = answer.and(self.work(&shared));
        }
        answer
    }

    /// Forgets all databases as a process does that is killed: for simulations. Their handles are good for nothing more.
    #[cfg(feature = "test-kit")]
    pub fn be_killed(&self) {
        for shared in self.all() {
            if let Ok(mut writer) = shared.writer()
                && let Ok(mut inner) = shared.lock()
            {
                inner.state = Ownership::Lost(SqliteCode::CANT_OPEN);
                *writer = None;
            }
        }
        *self.lock_databases() = Databases::default();
    }

    fn all(&self) -> Vec<Arc<SharedDatabase>> {
        self.lock_databases().by_path.values().cloned().collect()
    }

    /// The database with a path, if a handle has it open, or one could not be closed.
    pub(crate) fn find(&self, path: &str) -> Option<Arc<SharedDatabase>> {
        self.lock_databases().by_path.get(path).cloned()
    }

    /// The database with a path, for another handle; `options` are those of the handle.
    pub(crate) fn share(&self, path: &str, options: Options) -> SqliteResult<Arc<SharedDatabase>> {
        loop {
            let (shared, is_known) = {
                let mut databases = self.lock_databases();
                databases.give_up_inherited(path);
                let known = databases.by_path.get(path).cloned();
                let is_known = known.is_some();
                let shared = known.unwrap_or_else(|| Arc::new(SharedDatabase::new(path, options, std::process::id())));
                shared.handles.fetch_add(1, Ordering::AcqRel);
                databases.by_path.entry(path.to_owned()).or_insert_with(|| Arc::clone(&shared));
                (shared, is_known)
            };
            // An error of reading is one of what the handle does next.
            let _ = self.look_for_foreign(&shared);
            let is_lost = shared.is_lost();
            if !is_known || (!is_lost && !self.has_moved(&shared)?) {
                self.warn_of_contradiction(&shared, &options);
                return Ok(shared);
            }
            // A later handle finds the file that has the name now.
            if !is_lost {
                self.give_up(&shared)?;
            }
            shared.handles.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn warn_of_contradiction(&self, shared: &SharedDatabase, options: &Options) {
        let window = shared.options.window;
        if shared.options != (Options { window, ..*options }) {
            let text = format!(
                "{}: this connection asks for other options than the first one, which stay, but for the window",
                shared.path
            );
            self.log(SqliteCode(ffi::WARNING), &text);
        }
    }

    /// True if another file has the database's name by now, or none.
    fn has_moved(&self, shared: &SharedDatabase) -> SqliteResult<bool> {
        let identity = {
            let mut inner = shared.lock()?;
            let identity = inner.identity;
            match &mut inner.state {
                Ownership::Owned(state) => match &mut state.shadow {
                    Some(shadow) => return Ok(shadow.has_moved()),
                    None => identity,
                },
                _ => return Ok(false),
            }
        };
        Ok(FileIdentity::is_other(&shared.path, &identity))
    }

    /// Closes a database whose file was deleted, moved or replaced while it was open. Its commits go to where the file is now,
    /// and its handles, which can do nothing for the file of that name, are good for nothing more.
    fn give_up(&self, shared: &Arc<SharedDatabase>) -> SqliteResult<()> {
        let text = format!("{} was deleted or moved while it was open: its commits go to the file that it was", shared.path);
        match shared.with_state(self.now(), |state| Ok(state.oldest())) {
            Ok(Some(_)) => self.say(SqliteCode::CANT_OPEN, &text),
            _ => self.log(SqliteCode::CANT_OPEN, &text),
        }
        let mut writer = shared.writer()?;
        if let Some(store) = writer.as_mut()
            && let Err(code) = self.leave_files(shared, store)
        {
            self.log(code, "its last commits could not be made durable");
        }
        if !shared.is_lost() {
            shared.lock()?.state = Ownership::Lost(SqliteCode::CANT_OPEN);
        }
        *writer = None;
        drop(writer);
        self.forget(shared);
        Ok(())
    }

    /// Has the next handle of a database find the file that has the name then.
    pub(crate) fn forget(&self, shared: &SharedDatabase) {
        let mut databases = self.lock_databases();
        databases.part(shared);
        let known = databases.by_path.get(&shared.path);
        if known.is_some_and(|known| std::ptr::eq(&raw const **known, shared)) {
            databases.by_path.remove(&shared.path);
        }
    }

    /// A handle goes; the last one closes the database and leaves plain files behind. Where that fails the process keeps the
    /// database, tries again, and gives it to the next handle.
    ///
    /// # Errors
    ///
    /// Why the files could not be closed.
    pub(crate) fn leave(&self, shared: &Arc<SharedDatabase>, handle: u64) -> SqliteResult<()> {
        shared.set_window(handle, None)?;
        if shared.handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return Ok(());
        }
        self.close_unused(shared)
    }

    /// Closes a database that no handle uses.
    pub(crate) fn close_unused(&self, shared: &Arc<SharedDatabase>) -> SqliteResult<()> {
        let mut writer = shared.writer()?;
        let is_unused = || shared.handles.load(Ordering::Acquire) == 0;
        if !is_unused() {
            return Ok(());
        }
        let mut closed = Ok(());
        if shared.is_lost() {
            *writer = None;
        }
        if let Some(store) = writer.as_mut() {
            closed = self.leave_files(shared, store);
            match closed {
                Ok(()) => {
                    // In this order: no handle has a lock of the VFS below before the one of this process has gone.
                    *writer = None;
                    shared.lock()?.state = Ownership::Free;
                }
                Err(_) if shared.is_lost() => *writer = None,
                Err(code) => {
                    shared.set_due(Some(self.now() + RETRY));
                    self.log(
                        code,
                        &format!(
                            "{} could not be closed; what is not durable stays in memory and is tried again every second, until the process ends",
                            shared.path
                        ),
                    );
                    self.arm_for(shared);
                }
            }
        }
        drop(writer);
        if closed.is_ok() {
            let mut databases = self.lock_databases();
            let known = databases.by_path.get(&shared.path);
            if is_unused() && known.is_some_and(|known| Arc::ptr_eq(known, shared)) {
                databases.by_path.remove(&shared.path);
                databases.part(shared);
            }
        }
        closed
    }

    /// Makes a database's files plain ones. The state stays; its handles wait meanwhile.
    fn leave_files(&self, shared: &SharedDatabase, store: &mut DurableFiles) -> SqliteResult<()> {
        let closing = |is_closing| {
            shared.with_state(self.now(), |state| {
                state.is_closing = is_closing;
                Ok(())
            })
        };
        closing(true)?;
        store.is_closing = true;
        let left = self
            .last_epoch(shared, store)
            .and_then(|()| self.bring_in_place(shared, store, false))
            .and_then(|()| store.leave());
        shared.with_state(self.now(), |state| {
            state.publish();
            Ok(())
        })?;
        if left.is_err() {
            store.is_closing = false;
            closing(false)?;
        }
        left
    }

    /// Leaves a database to SQLite's own VFS where no logs can be made beside it, or would not stay.
    pub(crate) fn refuse_if_logs_have_no_place(&self, shared: &SharedDatabase) -> SqliteResult<()> {
        let Some(why) = why_logs_have_no_place(std::path::Path::new(&shared.path)) else {
            return Ok(());
        };
        if self.base.exists(&format!("{}-ebb", shared.path))? {
            return Ok(());
        }
        let mut inner = shared.lock()?;
        if matches!(inner.state, Ownership::Free) && inner.refusal.is_none() {
            inner.refusal = Some(why);
            drop(inner);
            self.log(SqliteCode(ffi::NOTICE), &format!("{}: {why}, so that SQLite's own VFS serves it", shared.path));
        }
        Ok(())
    }

    /// Calls `with` for a database whose files belong to this process, and takes them over before the first time.
    ///
    /// # Errors
    ///
    /// Those of taking over, and of `with`.
    pub(crate) fn with_state<R>(
        &self,
        shared: &SharedDatabase,
        with: impl FnOnce(&mut DatabaseState) -> SqliteResult<R>,
    ) -> SqliteResult<R> {
        loop {
            let mut inner = shared.lock()?;
            match &mut inner.state {
                Ownership::Owned(state) if !state.is_closing => {
                    state.now = self.now();
                    let answer = with(state);
                    shared.set_due(state.next_work());
                    drop(inner);
                    self.arm_for(shared);
                    return answer;
                }
                Ownership::Owned(_) => {
                    drop(inner);
                    shared.wait_for_writer()?;
                }
                Ownership::Free => {
                    drop(inner);
                    self.own(shared)?;
                }
                Ownership::Lost(code) => return Err(*code),
            }
        }
    }

    /// Writes a line to SQLite's error log.
    #[allow(unsafe_code)]
    pub(crate) fn log(&self, code: SqliteCode, text: &str) {
        tracing::warn!(code = code.0, "{text}");
        if let Ok(text) = std::ffi::CString::new(text) {
            // SAFETY: the format takes one text, which ends with a zero.
            unsafe { (self.api.log)(code.0, c"ebbpool: %s".as_ptr(), text.as_ptr()) };
        }
    }

    /// Writes a line to SQLite's error log, and to standard error. Where that is closed, or its reader is gone, it goes nowhere.
    pub(crate) fn say(&self, code: SqliteCode, text: &str) {
        self.log(code, text);
        print(text);
    }

    // Transactions over several databases.

    /// Notes that a database takes part in the transaction of a super-journal, and no longer in another one.
    pub(crate) fn join(&self, super_journal: &str, shared: &Arc<SharedDatabase>) {
        let mut databases = self.lock_databases();
        databases.part(shared);
        let together = databases.together.entry(super_journal.to_owned());
        together.or_default().push(Arc::clone(shared));
    }

    /// A database has committed its part of a transaction over several: their next epochs are due at the same time.
    pub(crate) fn commit_together(&self, super_journal: &str) {
        let together = match self.lock_databases().together.get(super_journal) {
            Some(together) => together.clone(),
            None => return,
        };
        let mut oldest = self.now();
        for shared in &together {
            // One that is closed meanwhile is durable.
            let _ = shared.with_state(self.now(), |state| {
                let due = state.due();
                oldest = oldest.min(due.map_or(oldest, |due| due - state.options.window));
                Ok(())
            });
        }
        for shared in &together {
            let _ = shared.with_state(self.now(), |state| {
                state.be_due_with(oldest);
                Ok(())
            });
            self.arm_for(shared);
        }
    }

    // Time.

    /// Sees to it that the thread wakes when there is something to do.
    pub(crate) fn arm(&self, due: f64) {
        if self.is_simulated() || !due.is_finite() {
            return;
        }
        let due = self.clock.begin + Duration::from_secs_f64(due.max(0.0));
        let mut timer = self.lock_timer();
        if timer.next.is_none_or(|next| due < next) {
            timer.next = Some(due);
            self.wake.notify_one();
        }
    }

    /// Sees to it that the thread wakes when there is something to do for a database.
    pub(crate) fn arm_for(&self, shared: &SharedDatabase) {
        if shared.needs_timer() {
            self.arm(shared.due());
        }
    }

    /// Says to other processes that a database has changed: now, or in a moment, also if nothing happens until then.
    pub(crate) fn publish_commit(&self, shared: &SharedDatabase) {
        if let Some(due) = shared.publish_commit(self.now()) {
            self.arm(due);
        }
    }

    /// Notes the window in seconds that a handle asks for, and sees to it that the thread wakes for commits that were made with a
    /// longer one. Returns the database's window.
    pub(crate) fn ask_for_window(&self, shared: &SharedDatabase, handle: u64, seconds: f64) -> SqliteResult<f64> {
        let window = shared.set_window(handle, Some(seconds))?;
        self.arm_for(shared);
        Ok(window)
    }

    /// Starts the thread that ends windows, unless it runs.
    pub(crate) fn start_timer(&'static self) {
        let mut timer = self.lock_timer();
        if timer.is_running {
            return;
        }
        match spawn("ebbpool-sqlite", move || self.run_timer()) {
            Ok(_) => timer.is_running = true,
            Err(error) => {
                tracing::error!(%error, "no thread ends the windows: the next commit after a window does")
            }
        }
    }

    fn run_timer(&'static self) {
        loop {
            let mut timer = self.lock_timer();
            loop {
                if let Some(patience) = timer.end.take() {
                    drop(timer);
                    guarded(|| {
                        self.end(patience);
                        Ok(())
                    });
                    self.has_ended.store(true, Ordering::Release);
                    timer = self.lock_timer();
                }
                let now = Instant::now();
                if timer.next.is_some_and(|next| next <= now) {
                    break;
                }
                let patience = timer.next.map_or(LOOK, |next| LOOK.min(next - now));
                timer = self.wake.wait_timeout(timer, patience).unwrap_or_else(std::sync::PoisonError::into_inner).0;
                if now.elapsed() >= LOOK && is_last_thread() {
                    // The end of this thread is that of the process.
                    timer.is_running = false;
                    drop(timer);
                    return self.end(PATIENCE);
                }
            }
            timer.next = None;
            drop(timer);
            for shared in self.all() {
                shared.forget_timer();
                if let Some(due) = shared.publish_what_is_unsaid(self.now()) {
                    self.arm(due);
                }
                if shared.due() <= self.now() {
                    self.start_work(&shared);
                } else {
                    self.arm_for(&shared);
                }
            }
        }
    }

    /// Has a thread of its own work for a database, so that a slow disk delays the windows of no other one.
    fn start_work(&'static self, shared: &Arc<SharedDatabase>) {
        if shared.is_at_work.swap(true, Ordering::AcqRel) {
            return;
        }
        let worker = Arc::clone(shared);
        if spawn("ebbpool-epoch", move || self.work_guarded(&worker)).is_err() {
            // Other databases wait meanwhile.
            self.work_guarded(shared);
        }
    }

    fn work_guarded(&self, shared: &Arc<SharedDatabase>) {
        // A panic must not end the windows.
        let code = guarded(|| self.work(shared));
        if code != ffi::OK {
            self.log(SqliteCode(code), "an epoch or checkpoint has failed, and is tried again");
            let retry = self.now() + RETRY;
            shared.set_due(Some(shared.due().max(retry)));
        }
        shared.is_at_work.store(false, Ordering::Release);
        shared.forget_timer();
        self.arm_for(shared);
    }

    /// Makes the epoch and the checkpoint of a database that are due, and closes one that could not be closed before.
    fn work(&self, shared: &Arc<SharedDatabase>) -> SqliteResult<()> {
        if !shared.is_own() {
            return Ok(());
        }
        if shared.handles.load(Ordering::Acquire) == 0 {
            return self.close_unused(shared);
        }
        loop {
            let mut writer = shared.writer_for_work()?;
            let Some(store) = writer.as_mut() else {
                return Ok(());
            };
            if self.do_what_is_due(shared, store)? {
                return Ok(());
            }
            drop(writer);
            shared.let_commits_in();
        }
    }

    /// The process ends, in an exit handler. The library's thread does what is to be done: with `is_inside` a signal handler ends
    /// the process that has interrupted a call of the library, with whatever locks that has.
    pub(crate) fn end_of_process(&self, is_inside: bool) {
        if !self.has_ended.swap(false, Ordering::AcqRel) {
            // It has been too long for an earlier exit handler.
            return;
        }
        let patience = match is_inside {
            true => PATIENCE_INSIDE,
            false => PATIENCE,
        };
        let has_thread = lock_within(&self.timer, PATIENCE_INSIDE).map(|mut timer| {
            timer.end = timer.is_running.then_some(patience);
            self.wake.notify_one();
            timer.is_running
        });
        if has_thread == Some(false) && !is_inside {
            self.end(patience);
            return self.has_ended.store(true, Ordering::Release);
        }
        // Once for another thread, and once for the disk.
        let end = Instant::now() + 2 * patience;
        while has_thread == Some(true) && Instant::now() < end {
            if self.has_ended.load(Ordering::Acquire) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        print("the process ends in the middle of a commit or a sync: commits of the last window may be lost");
    }

    /// Leaves plain files of the databases that no handle reads or writes, and makes durable what is committed in others. Their
    /// handles go on: exit handlers of the program, and its other threads, may still use them. What they commit is durable at
    /// once.
    fn end(&self, patience: Duration) {
        for shared in self.all() {
            if !shared.is_own() || shared.is_lost() {
                continue;
            }
            let _ = shared.set_window(END, Some(0.0));
            let Some(mut writer) = shared.writer_within(patience) else {
                print(&format!(
                    "{}: the process ends while another thread writes its log: commits of the last window may be lost",
                    shared.path
                ));
                continue;
            };
            let Some(store) = writer.as_mut() else {
                continue;
            };
            let is_idle = shared.with_state(self.now(), |state| Ok(state.is_idle()));
            let ended = match is_idle {
                Ok(true) => self.leave_files(&shared, store),
                _ => self.last_epoch(&shared, store),
            };
            match ended {
                Ok(()) => {
                    store.is_closing = false;
                    let _ = shared.with_state(self.now(), |state| {
                        state.is_closing = false;
                        Ok(())
                    });
                }
                Err(code) => {
                    store.abandon();
                    let unsaved = shared.with_state(self.now(), |state| Ok(state.oldest()));
                    let why = match unsaved {
                        Ok(None) => "every commit is durable; the next program that opens it has to bring the log in place",
                        _ => "its last commits are not durable, and lost",
                    };
                    let text = format!("{}: the process ends: {why}", shared.path);
                    match shared.has_said_end.swap(true, Ordering::Relaxed) {
                        true => self.log(code, &text),
                        false => self.say(code, &format!("{text}: {code}")),
                    }
                }
            }
        }
    }
}

/// Writes a line to standard error, unless that is closed, or its reader is gone.
fn print(text: &str) {
    let _ = writeln!(std::io::stderr(), "ebbpool: {text}");
}

/// Why the logs of a database cannot be in its directory; `None` if they can, or it is no file of the system.
#[allow(unsafe_code)]
fn why_logs_have_no_place(path: &std::path::Path) -> Option<&'static str> {
    let directory = path.parent().filter(|_| path.is_file())?;
    let text = std::ffi::CString::new(directory.as_os_str().as_encoded_bytes()).ok()?;
    // SAFETY: the path ends with a zero.
    if unsafe { libc::faccessat(libc::AT_FDCWD, text.as_ptr(), libc::W_OK, libc::AT_EACCESS) } != 0 {
        return Some("its directory cannot be written");
    }
    match (mount_of(path), mount_of(directory)) {
        (Some(own), Some(other)) if own != other => Some(
            "it is mounted without its directory, as a single file into a container, so that logs beside it may go with the container; mount the directory",
        ),
        _ => None,
    }
}

/// The number of the mount that a file is on, if the system has such numbers (Linux 5.8).
#[cfg(target_os = "linux")]
fn mount_of(path: &std::path::Path) -> Option<u64> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

#[cfg(not(target_os = "linux"))]
fn mount_of(_path: &std::path::Path) -> Option<u64> {
    None
}

/// True if all threads of the program have ended, and the first of them by `pthread_exit`.
fn is_last_thread() -> bool {
    let first = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have any character.
    let state = first.rsplit(')').next().map(str::trim_start);
    let is_gone = state.is_some_and(|state| state.starts_with('Z'));
    is_gone && std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 2)
}

/// Starts a thread that takes no signals of the program.
#[allow(unsafe_code)]
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    // SAFETY: both sets are values of the structure, which the functions fill.
    let before = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    };
    let thread = std::thread::Builder::new().name(name.into()).spawn(run);
    // SAFETY: the set is the one that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    thread.map(drop)
}
