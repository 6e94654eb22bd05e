//! Work of the lab, followed by the thread that called from Python: it sees Ctrl-C and reports progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ebbpool_lab::{LabError, LabEvents, Note};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::calls::Calls;
use crate::errors::lab_error;

/// How long Ctrl-C and progress wait.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The stack of the thread that works; as large as that of a program's first thread, for which the lab is tested.
const STACK: usize = 8 << 20;

/// Receives the lab's events.
#[derive(Default)]
pub(crate) struct Watch {
    stop: AtomicBool,
    /// The bits of the share.
    share: AtomicU64,
    notes: Mutex<Vec<String>>,
    /// Why the work stops before its end.
    failure: Mutex<Option<PyErr>>,
}

impl LabEvents for Watch {
    fn progress(&self, _work: &str, share: f64) {
        self.share.store(share.to_bits(), Ordering::Relaxed);
    }

    fn note(&self, note: &Note) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let note = note.to_string();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    fn stop(&self) -> &AtomicBool {
        &self.stop
    }
}

impl Watch {
    /// Stops the work before it begins, so that it takes only what is stored.
    pub(crate) fn stop_if(&self, stored: bool) {
        self.stop.store(stored, Ordering::Relaxed);
    }

    /// Stops the work, which then ends with this exception.
    pub(crate) fn stop_with(&self, exception: PyErr) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(exception);
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The outcome of watched work.
pub(crate) struct Watched<T> {
    /// The lab's answer.
    pub(crate) answer: Result<T, LabError>,
    /// The exception that stopped the work: that of a signal, or of the caller's function for progress.
    pub(crate) exception: Option<PyErr>,
    /// The notes for the user.
    pub(crate) notes: Vec<String>,
}

impl<T> Watched<T> {
    /// True if the work ended because it was stopped.
    pub(crate) fn lacks_results(&self) -> bool {
        let interrupted = self.answer.as_ref().is_err_and(LabError::is_interrupted);
        interrupted && self.exception.is_none()
    }

    /// The answer and the notes, or the exception.
    pub(crate) fn finish(self, py: Python<'_>) -> PyResult<(T, Vec<String>)> {
        match (self.exception, self.answer) {
            (Some(exception), _) => Err(exception),
            (None, Ok(answer)) => Ok((answer, self.notes)),
            (None, Err(error)) => Err(lab_error(py, error)),
        }
    }
}

/// Does work without policies of the caller; see [`watched_with`].
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Watch) -> Result<T, LabError> + Send,
) -> Watched<T> {
    watched_with(py, &Calls::new(), progress, work)
}

/// Does work in a thread of its own without the interpreter's lock, while this thread waits for it, looks for signals,
/// and calls `progress` with the share done. An exception of either ends the calls of policies.
pub(crate) fn watched_with<T: Send>(
    py: Python<'_>,
    calls: &Arc<Calls>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Watch) -> Result<T, LabError> + Send,
) -> Watched<T> {
    let watch = Watch::default();
    let (answer, exception) = py.detach(|| {
        thread::scope(|scope| {
            let (sender, receiver) = channel::<()>();
            let watch = &watch;
            let worker = thread::Builder::new().stack_size(STACK);
            let worker = worker.spawn_scoped(scope, move || {
                // Hung up when the work ends, also by a panic.
                let _sender = sender;
                work(watch)
            });
            let worker = match worker {
                Ok(worker) => worker,
                Err(error) => {
                    let error = LabError::Output { what: "to a thread".into(), source: error };
                    return (Err(error), None);
                }
            };
            let mut exception = None;
            let mut shown = 0.0;
            while receiver.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let share = f64::from_bits(watch.share.load(Ordering::Relaxed));
                Python::attach(|py| {
                    if exception.is_none() {
                        exception = show_progress(py, calls, progress, share, &mut shown).err();
                    }
                    if exception.is_some() {
                        // First, so that no policy that fails because of this counts as failed.
                        watch.stop.store(true, Ordering::Relaxed);
                        calls.stop(py);
                    }
                });
            }
            let answer = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (answer, exception)
        })
    });
    let failure = watch.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    let exception = exception.or(failure).or_else(|| match progress {
        Some(progress) if answer.is_ok() => progress.call1(py, (1.0,)).err(),
        _ => None,
    });
    let notes = watch.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
    Watched { answer, exception, notes }
}

fn show_progress(py: Python<'_>, calls: &Calls, progress: Option<&Py<PyAny>>, share: f64, shown: &mut f64) -> PyResult<()> {
    py.check_signals()?;
    if calls.stopped_outside() {
        return Err(PyKeyboardInterrupt::new_err("interrupted"));
    }
    if let Some(progress) = progress
        && share != *shown
    {
        *shown = share;
        progress.call1(py, (share,))?;
    }
    Ok(())
}
