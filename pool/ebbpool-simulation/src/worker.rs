//! Threads of the operating system, which are reused from run to run: starting one takes longer than a short run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;

use parking_lot::Mutex;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs only while it has the turn.
pub(crate) struct Worker {
    thread: Mutex<Option<Thread>>,
    /// It waits for another job after each one.
    lasts: bool,
    granted: AtomicBool,
    /// The number of steps granted with the turn.
    stretch: AtomicU64,
    job: Mutex<Option<Job>>,
}

static IDLE: Mutex<Vec<Arc<Worker>>> = Mutex::new(Vec::new());

impl Worker {
    /// A worker for a thread that is started elsewhere.
    pub(crate) fn unbound() -> Arc<Self> {
        Self::new(false)
    }

    fn new(lasts: bool) -> Arc<Self> {
        Arc::new(Worker {
            thread: Mutex::new(None),
            lasts,
            granted: AtomicBool::new(false),
            stretch: AtomicU64::new(0),
            job: Mutex::new(None),
        })
    }

    /// Binds the calling thread to this worker.
    pub(crate) fn bind(&self) {
        *self.thread.lock() = Some(std::thread::current());
    }

    /// A worker that does `job` once it gets the turn.
    pub(crate) fn with_job(job: Job) -> std::io::Result<Arc<Self>> {
        let worker = match IDLE.lock().pop() {
            Some(worker) => worker,
            None => Self::start()?,
        };
        *worker.job.lock() = Some(job);
        Ok(worker)
    }

    fn start() -> std::io::Result<Arc<Self>> {
        let worker = Self::new(true);
        let own = Arc::clone(&worker);
        let started = std::thread::Builder::new().name("simulated".into()).spawn(move || {
            loop {
                own.wait_for_turn();
                let job = own.job.lock().take();
                if let Some(job) = job {
                    job();
                }
            }
        })?;
        *worker.thread.lock() = Some(started.thread().clone());
        Ok(worker)
    }

    /// Makes the worker available for another job, if it waits for one.
    pub(crate) fn give_back(self: Arc<Self>) {
        if self.lasts {
            IDLE.lock().push(self);
        }
    }

    pub(crate) fn grant(&self, stretch: u64) {
        self.stretch.store(stretch, Ordering::Relaxed);
        self.granted.store(true, Ordering::Release);
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }

    /// Sleeps until the turn is granted; returns the number of steps granted with it.
    pub(crate) fn wait_for_turn(&self) -> u64 {
        while !self.granted.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
        self.stretch.load(Ordering::Relaxed)
    }

    pub(crate) fn stretch(&self) -> u64 {
        self.stretch.load(Ordering::Relaxed)
    }
}
