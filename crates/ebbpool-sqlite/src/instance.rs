//! One VFS of SQLite's, its databases, and the thread that ends their windows.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::code::{Answer, Code};
use crate::disk::{BaseFile, BaseVfs};
use crate::encrypted;
use crate::family::{self, Family};
use crate::ffi::{self, Api};
use crate::mirror::{self, Shadow};
use crate::options::Options;

/// How long a thread waits for a database while the process ends, or after a fork, where the thread that has it may be
/// gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// The state of a database: opened, and from the first lock on owned.
pub(crate) enum State {
    /// The real file, not locked yet.
    Opened(BaseFile),
    /// The files belong to this process.
    Owned(Box<Family>),
    /// Taking the database over has failed, and the file is closed.
    Lost,
}

/// A database that handles of this process share.
pub(crate) struct Shared {
    pub(crate) path: String,
    pub(crate) options: Options,
    /// The process that opened it.
    process: u32,
    pub(crate) handles: AtomicU32,
    pub(crate) state: Mutex<State>,
}

/// A VFS that is registered with SQLite. It lives until the process ends.
pub struct Instance {
    pub(crate) base: BaseVfs,
    pub(crate) api: Api,
    pub(crate) name: &'static std::ffi::CStr,
    families: Mutex<Families>,
    handles: AtomicU64,
    clock: Clock,
    timer: Mutex<Timer>,
    wake: Condvar,
}

#[derive(Default)]
struct Families {
    process: u32,
    by_path: HashMap<String, Arc<Shared>>,
}

/// Seconds: of the machine, or set by [`Instance::set_time`].
struct Clock {
    begin: Instant,
    /// Bits of a number of seconds; `NEVER` where the machine's clock counts.
    manual: AtomicU64,
}

const NEVER: u64 = u64::MAX;

#[derive(Default)]
struct Timer {
    is_running: bool,
    next: Option<Instant>,
}

impl Shared {
    /// The state, for the process that opened the database.
    ///
    /// # Errors
    ///
    /// `MISUSE` in a child that inherited the handle.
    pub(crate) fn lock(&self) -> Answer<MutexGuard<'_, State>> {
        if self.process != std::process::id() {
            return Err(Code::MISUSE);
        }
        Ok(self.state.lock())
    }

    /// True if another file has the database's name by now, or none.
    fn has_moved(&self) -> Answer<bool> {
        Ok(match &mut *self.lock()? {
            State::Opened(file) => file.has_moved(),
            State::Owned(family) => family.has_moved(),
            State::Lost => false,
        })
    }
}

impl Instance {
    pub(crate) fn new(base: BaseVfs, api: Api, name: &'static std::ffi::CStr) -> Instance {
        Instance {
            base,
            api,
            name,
            families: Mutex::default(),
            handles: AtomicU64::new(1),
            clock: Clock {
                begin: Instant::now(),
                manual: AtomicU64::new(NEVER),
            },
            timer: Mutex::default(),
            wake: Condvar::new(),
        }
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

    /// Stops the clock, sets it to a time in seconds, and makes the epochs that are due then: for simulations, in which
    /// hours pass in minutes.
    ///
    /// # Errors
    ///
    /// The first error of an epoch; all databases are tried.
    pub fn set_time(&self, seconds: f64) -> Answer<()> {
        self.clock
            .manual
            .store(seconds.to_bits(), Ordering::Relaxed);
        self.end_windows()
    }

    fn families(&self) -> Option<MutexGuard<'_, Families>> {
        let process = std::process::id();
        let mut families = self.families.try_lock_for(PATIENCE)?;
        if families.process != process {
            // A child has none of its parent's databases. Closing them here would write its parent's files.
            std::mem::forget(std::mem::take(&mut families.by_path));
            families.process = process;
            self.timer.try_lock_for(PATIENCE)?.is_running = false;
        }
        Some(families)
    }

    /// The database with a path, if a handle has it open.
    pub(crate) fn find(&self, path: &str) -> Option<Arc<Shared>> {
        self.families()?.by_path.get(path).cloned()
    }

    /// The database with a path, for another handle; `open` opens its file.
    pub(crate) fn share(
        &self,
        path: &str,
        open: impl FnOnce() -> Answer<Option<(BaseFile, Options)>>,
    ) -> Answer<Option<Arc<Shared>>> {
        let mut families = self.families().ok_or(Code::MISUSE)?;
        let known = families.by_path.get(path).cloned();
        let mut moved = None;
        if let Some(shared) = known {
            if !shared.has_moved()? {
                shared.handles.fetch_add(1, Ordering::Relaxed);
                return Ok(Some(shared));
            }
            moved = Some(shared);
        }
        let Some((file, options)) = open()? else {
            return Ok(None);
        };
        if let Some(moved) = moved {
            // Only now: SQLite makes no log beside a database that does not exist.
            self.give_up(&moved)?;
        }
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            options,
            process: families.process,
            handles: AtomicU32::new(1),
            state: Mutex::new(State::Opened(file)),
        });
        families
            .by_path
            .insert(path.to_owned(), Arc::clone(&shared));
        Ok(Some(shared))
    }

    /// Closes a database whose file was deleted, moved or replaced while it was open. Its commits go to where the file is now,
    /// and its handles, which can do nothing for the file of that name, are good for nothing more.
    fn give_up(&self, shared: &Shared) -> Answer<()> {
        let text = format!("{} was deleted or moved while it was open", shared.path);
        self.log(Code::CANT_OPEN, &text);
        let state = std::mem::replace(&mut *shared.lock()?, State::Lost);
        if let State::Owned(mut family) = state {
            family.now = self.now();
            if let Err(code) = family.leave() {
                self.log(code, "its last commits could not be made durable");
            }
        }
        Ok(())
    }

    /// A handle goes; the last one closes the database and leaves plain files behind.
    pub(crate) fn leave(&self, shared: &Arc<Shared>) -> Answer<()> {
        let mut families = self.families().ok_or(Code::MISUSE)?;
        if shared.process != families.process {
            return Err(Code::MISUSE);
        }
        if shared.handles.fetch_sub(1, Ordering::Relaxed) > 1 {
            return Ok(());
        }
        let known = families.by_path.get(&shared.path);
        if known.is_some_and(|known| Arc::ptr_eq(known, shared)) {
            families.by_path.remove(&shared.path);
        }
        // The lock on all databases is held, so that a handle that opens this one waits until its files are closed.
        let state = std::mem::replace(&mut *shared.state.lock(), State::Lost);
        match state {
            State::Owned(mut family) => {
                family.now = self.now();
                family.leave()
            }
            State::Opened(_) | State::Lost => Ok(()),
        }
    }

    /// Calls `with` for a database whose files belong to this process, and takes them over before the first time.
    ///
    /// # Errors
    ///
    /// Those of taking over, and of `with`.
    pub(crate) fn with_family<R>(
        &self,
        shared: &Shared,
        with: impl FnOnce(&mut Family) -> Answer<R>,
    ) -> Answer<R> {
        let mut state = shared.lock()?;
        if let State::Opened(_) = &*state {
            self.own(shared, &mut state)?;
        }
        let State::Owned(family) = &mut *state else {
            return Err(Code::CANT_OPEN);
        };
        family.now = self.now();
        let before = family.next_work().unwrap_or(f64::INFINITY);
        let answer = with(family);
        let due = family.next_work();
        drop(state);
        if let Some(due) = due.filter(|due| *due < before) {
            self.arm(due);
        }
        answer
    }

    /// Makes the files this process's alone, after SQLite has brought them to a state without journal and WAL.
    fn own(&self, shared: &Shared, state: &mut State) -> Answer<()> {
        let (journal, wal) = (
            format!("{}-journal", shared.path),
            format!("{}-wal", shared.path),
        );
        let is_left = || Ok(self.has_hot_journal(&journal)? || self.base.exists(&wal)?);
        let mut recovered = Ok(());
        let mut has_recovered = false;
        for _ in 0..3 {
            if is_left()? {
                recovered = self.recover(&shared.path);
                has_recovered = true;
            }
            let State::Opened(file) = &mut *state else {
                return Err(Code::CANT_OPEN);
            };
            file.lock_exclusively().map_err(|_| Code::BUSY)?;
            encrypted::take_in_wal(self.base, &shared.path, file)?;
            if is_left()? {
                // Another process was here in between.
                file.unlock();
                continue;
            }
            if has_recovered {
                self.forget_recovered(&journal, &wal)
                    .inspect_err(|_| file.unlock())?;
            }
            let State::Opened(file) = std::mem::replace(state, State::Lost) else {
                return Err(Code::CANT_OPEN);
            };
            return self.take_over(shared, state, file);
        }
        recovered.and(Err(Code::BUSY))
    }

    /// Makes it durable that SQLite has deleted a journal and a WAL: after a power cut they would be taken in once more,
    /// although the database in place has become newer. The caller holds the database locked.
    fn forget_recovered(&self, journal: &str, wal: &str) -> Answer<()> {
        for (path, kind) in [(journal, ffi::OPEN_MAIN_JOURNAL), (wal, ffi::OPEN_WAL)] {
            let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | kind;
            let mut file = BaseFile::open(self.base, path, flags)?;
            file.truncate(0)?;
            file.sync()?;
            drop(file);
            self.base.delete(path, true)?;
        }
        Ok(())
    }

    /// True if a journal would roll a transaction back. Other journals stay where SQLite is to make them persist.
    fn has_hot_journal(&self, journal: &str) -> Answer<bool> {
        if !self.base.exists(journal)? {
            return Ok(false);
        }
        let mut first = [0];
        BaseFile::open(
            self.base,
            journal,
            ffi::OPEN_READONLY | ffi::OPEN_MAIN_JOURNAL,
        )?
        .read(0, &mut first)?;
        Ok(first != [0])
    }

    fn take_over(&self, shared: &Shared, state: &mut State, file: BaseFile) -> Answer<()> {
        let mut random = [0u8; 8];
        self.base.randomness(&mut random);
        let random = u64::from_le_bytes(random);
        let (base, path, file, shadow) = match mirror::divide(self.base, &shared.path, file) {
            Ok(divided) => divided,
            Err((mut file, error)) => {
                file.unlock();
                *state = State::Opened(file);
                return Err(error);
            }
        };
        match family::take_over(base, &path, file, shared.options, random, self.now()) {
            Ok(mut family) => {
                family.shadow = shadow;
                *state = State::Owned(Box::new(family));
                Ok(())
            }
            Err((file, error)) => {
                if error == Code::CANT_OPEN {
                    self.log(
                        error,
                        &format!(
                            "{0}-ebb belongs to another version of {0}, or a later release of Ebbpool has written it; see: ebbpool sqlite check {0}",
                            shared.path
                        ),
                    );
                }
                let real = shadow.and_then(Shadow::into_real);
                if let Some(mut file) = real.or(file) {
                    file.unlock();
                    *state = State::Opened(file);
                }
                Err(error)
            }
        }
    }

    /// Has SQLite itself roll a journal back and take a WAL in, on the VFS below.
    #[allow(unsafe_code)]
    fn recover(&self, path: &str) -> Answer<()> {
        let Ok(path) = std::ffi::CString::new(path) else {
            return Err(Code::CANT_OPEN);
        };
        let statements = c"PRAGMA locking_mode=EXCLUSIVE; SELECT 1 FROM sqlite_master LIMIT 1; PRAGMA wal_checkpoint(TRUNCATE);";
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_PRIVATECACHE;
        let (api, null) = (&self.api, std::ptr::null());
        let mut database = std::ptr::null_mut();
        // SAFETY: these are SQLite's own functions; the texts end with a zero, and the connection is closed once, also where
        // opening it failed, as SQLite asks for.
        unsafe {
            let vfs = (*self.base.0).zName;
            let mut code = (api.open_v2)(path.as_ptr(), &mut database, flags, vfs);
            if code == ffi::OK {
                code = (api.exec)(database, statements.as_ptr(), null, null, null);
            }
            (api.close)(database);
            Code::check(code)
        }
    }

    /// Writes a line to SQLite's error log.
    #[allow(unsafe_code)]
    pub(crate) fn log(&self, code: Code, text: &str) {
        tracing::warn!(code = code.0, "{text}");
        if let Ok(text) = std::ffi::CString::new(text) {
            // SAFETY: the format takes one text, which ends with a zero.
            unsafe { (self.api.log)(code.0, c"ebbpool: %s".as_ptr(), text.as_ptr()) };
        }
    }

    // Time.

    /// Makes the epochs that are due.
    ///
    /// # Errors
    ///
    /// The first error; all databases are tried.
    fn end_windows(&self) -> Answer<()> {
        let shared: Vec<Arc<Shared>> = match self.families() {
            Some(families) => families.by_path.values().cloned().collect(),
            None => return Err(Code::MISUSE),
        };
        let mut answer = Ok(());
        for shared in shared {
            if let State::Owned(family) = &mut *shared.lock()? {
                family.now = self.now();
                answer = answer.and(family.work());
            }
        }
        answer
    }

    /// Sees to it that the thread wakes when an epoch is due.
    fn arm(&self, due: f64) {
        if self.clock.manual.load(Ordering::Relaxed) != NEVER {
            return;
        }
        let due = self.clock.begin + Duration::from_secs_f64(due);
        let mut timer = self.timer.lock();
        if timer.next.is_none_or(|next| due < next) {
            timer.next = Some(due);
            self.wake.notify_one();
        }
    }

    /// Starts the thread that ends windows, unless it runs.
    pub(crate) fn start_timer(&'static self) {
        let mut timer = self.timer.lock();
        if timer.is_running {
            return;
        }
        let thread = std::thread::Builder::new().name("ebbpool-sqlite".into());
        match thread.spawn(move || self.run_timer()) {
            Ok(_) => timer.is_running = true,
            Err(error) => {
                tracing::error!(%error, "no thread ends the windows: commits wait for the next one")
            }
        }
    }

    fn run_timer(&self) {
        loop {
            let mut timer = self.timer.lock();
            loop {
                match timer.next {
                    Some(next) if next <= Instant::now() => break,
                    Some(next) => {
                        self.wake.wait_until(&mut timer, next);
                    }
                    None => self.wake.wait(&mut timer),
                }
            }
            timer.next = None;
            drop(timer);
            if let Err(code) = self.end_windows() {
                self.log(
                    code,
                    "an epoch could not be made durable; the next commit tries again",
                );
                self.arm(self.now() + 1.0);
            }
            if let Some(due) = self.next_due() {
                self.arm(due);
            }
        }
    }

    fn next_due(&self) -> Option<f64> {
        let families = self.families()?;
        let due = |shared: &Arc<Shared>| match &*shared.lock().ok()? {
            State::Owned(family) => family.next_work().filter(|due| *due > self.now()),
            _ => None,
        };
        families.by_path.values().filter_map(due).reduce(f64::min)
    }

    /// The process ends: makes durable what is committed.
    pub(crate) fn end(&self) {
        let Some(families) = self.families() else {
            return;
        };
        for shared in families.by_path.values() {
            let Some(mut state) = shared.state.try_lock_for(PATIENCE) else {
                continue;
            };
            if let State::Owned(family) = &mut *state
                && let Err(code) = family.epoch()
            {
                self.log(code, "the last epoch could not be made durable");
            }
        }
    }
}
