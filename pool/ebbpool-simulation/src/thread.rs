//! Simulated threads. Outside a run they are plain ones.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

pub use std::thread::{Result, panicking};

use crate::time::Instant;
use crate::world::{self, BlockedOn, step};

/// Starts threads, used as `std::thread::Builder` is.
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
}

/// A started thread, for whose end its owner may wait.
pub struct JoinHandle<T>(Handle<T>);

enum Handle<T> {
    Plain(std::thread::JoinHandle<T>),
    Simulated { task: usize, answer: Arc<Mutex<Option<T>>> },
}

thread_local! {
    /// The number of threads that the calling thread can still start before one is refused; `None` if none is.
    static REFUSED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Does `work`. Of the threads that it starts in the calling thread, the one with this number, counted from 0, cannot be
/// started, as if the system had no threads left.
pub fn refusing<R>(number: u64, work: impl FnOnce() -> R) -> R {
    REFUSED.set(Some(number));
    let outcome = catch_unwind(AssertUnwindSafe(work));
    REFUSED.set(None);
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// True if the calling thread cannot start the thread that it is about to start.
fn is_refused() -> bool {
    let left = REFUSED.get();
    REFUSED.set(left.and_then(|left| left.checked_sub(1)));
    left == Some(0)
}

impl Builder {
    /// A thread without a name.
    pub fn new() -> Self {
        Builder::default()
    }

    /// The thread's name, for reports.
    pub fn name(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    /// Starts the thread. If it ends with a panic, the run fails.
    ///
    /// # Errors
    ///
    /// If the system has no threads left, or the thread is to be [refused](refusing).
    pub fn spawn<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
        if is_refused() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let Some(run) = world::blocking() else {
            let plain = std::thread::Builder::new();
            let plain = match self.name {
                Some(name) => plain.name(name),
                None => plain,
            };
            return plain.spawn(work).map(|it| JoinHandle(Handle::Plain(it)));
        };
        let answer = Arc::new(Mutex::new(None));
        let into = Arc::clone(&answer);
        let work = move || {
            let found = work();
            *into.lock() = Some(found);
        };
        let name = self.name.as_deref().unwrap_or("without a name");
        let task = run.start(name, Box::new(work))?;
        step();
        Ok(JoinHandle(Handle::Simulated { task, answer }))
    }
}

/// Starts a thread.
///
/// # Panics
///
/// If the system has no threads left.
pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(work).expect("a thread can be started")
}

impl<T> JoinHandle<T> {
    /// Waits for the thread's end; returns its value.
    ///
    /// # Errors
    ///
    /// If the thread ended with a panic.
    #[track_caller]
    pub fn join(self) -> Result<T> {
        match self.0 {
            Handle::Plain(plain) => plain.join(),
            Handle::Simulated { task, answer } => {
                wait_for_end(task, Location::caller());
                let answer = answer.lock().take();
                answer.ok_or_else(|| Box::new("its run has failed") as Box<dyn Any + Send>)
            }
        }
    }

    /// True if it has ended.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Handle::Plain(plain) => plain.is_finished(),
            Handle::Simulated { task, .. } => {
                step();
                world::blocking().is_none_or(|run| run.has_ended(*task))
            }
        }
    }
}

fn wait_for_end(task: usize, at: &'static Location<'static>) {
    step();
    while let Some(run) = world::blocking() {
        if run.has_ended(task) {
            return;
        }
        run.block(BlockedOn::End(task), None, at);
    }
}

/// Suspends the calling thread for a time, by the run's clock.
#[track_caller]
pub fn sleep(time: Duration) {
    let Some(run) = world::blocking() else {
        return std::thread::sleep(time);
    };
    let until = Instant::now().checked_add(time).map(Instant::since_begin);
    run.block(BlockedOn::Time, until, Location::caller());
}

/// Takes a step, after which any thread may go on.
#[track_caller]
pub fn yield_now() {
    sleep(Duration::ZERO);
}

/// Threads that may borrow from their surrounding scope. See [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    plain: &'scope std::thread::Scope<'scope, 'env>,
    tasks: RefCell<Vec<usize>>,
}

/// A thread started in a [`Scope`], for whose end its owner may wait.
pub struct ScopedJoinHandle<'scope, T> {
    plain: std::thread::ScopedJoinHandle<'scope, Option<T>>,
    task: Option<usize>,
}

/// Calls `work`, which may start threads that borrow from outside it, and waits for their end. Only the calling thread may
/// spawn. These threads are not reused, and starting them takes longer than a short run: for many runs, use [`spawn`].
#[track_caller]
pub fn scope<'env, R>(work: impl for<'scope> FnOnce(&Scope<'scope, 'env>) -> R) -> R {
    let at = Location::caller();
    std::thread::scope(|plain| {
        let scope = Scope { plain, tasks: RefCell::default() };
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&scope)));
        for task in scope.tasks.take() {
            wait_for_end(task, at);
        }
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread.
    pub fn spawn<T: Send + 'scope>(&self, work: impl FnOnce() -> T + Send + 'scope) -> ScopedJoinHandle<'scope, T> {
        let adopted = world::blocking().map(|run| run.adopt("scoped"));
        let task = adopted.as_ref().map(|adopted| adopted.task);
        self.tasks.borrow_mut().extend(task);
        let plain = self.plain.spawn(move || match adopted {
            None => Some(work()),
            Some(adopted) => {
                let mut answer = None;
                adopted.run(|| answer = Some(work()));
                answer
            }
        });
        step();
        ScopedJoinHandle { plain, task }
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the thread's end; returns its value.
    ///
    /// # Errors
    ///
    /// If the thread ended with a panic.
    #[track_caller]
    pub fn join(self) -> Result<T> {
        if let Some(task) = self.task {
            wait_for_end(task, Location::caller());
        }
        let answer = self.plain.join()?;
        answer.ok_or_else(|| Box::new("its run has failed") as Box<dyn Any + Send>)
    }
}
