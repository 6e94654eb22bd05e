//! What readings of a trace leave out or find only at its end, for notes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::TraceError;

/// The lines left out so far: their number, and what was wrong with the first; and notes on what was found at the end.
#[derive(Debug, Default)]
pub(crate) struct LeftOutLines {
    count: u64,
    first: String,
    at_end: Vec<String>,
}

impl LeftOutLines {
    /// Notes for the user.
    pub(crate) fn notes(&self) -> Vec<String> {
        let left_out = match self.count {
            0 => None,
            1 => Some(format!("left out 1 bad line: {}", self.first)),
            count => Some(format!(
                "left out {count} bad lines, the first: {}",
                self.first
            )),
        };
        left_out.into_iter().chain(self.at_end.clone()).collect()
    }
}

/// Counts the bad lines of one reading of a trace.
#[derive(Debug, Clone)]
pub(crate) struct BadLines {
    allowed: u64,
    count: Arc<Mutex<u64>>,
    /// The lines left out by the reading that got furthest.
    most: Arc<Mutex<LeftOutLines>>,
}

impl BadLines {
    /// For a new reading, which may leave out at most `allowed` lines.
    pub(crate) fn new(allowed: u64, most: &Arc<Mutex<LeftOutLines>>) -> BadLines {
        BadLines {
            allowed,
            count: Arc::default(),
            most: Arc::clone(most),
        }
    }

    /// Notes, once, what a reading found at the end of a part.
    pub(crate) fn note_at_end(&self, note: String) {
        let mut most = lock(&self.most);
        if !most.at_end.contains(&note) {
            most.at_end.push(note);
        }
    }

    /// Leaves out the line that `error` is about; fails if that is one line too many.
    pub(crate) fn leave_out(&self, error: TraceError) -> Result<(), TraceError> {
        if self.allowed == 0 {
            return Err(error);
        }
        let mut count = lock(&self.count);
        if *count == self.allowed {
            return Err(TraceError::TooManyBadLines {
                allowed: self.allowed,
                error: Box::new(error),
            });
        }
        *count += 1;
        let mut most = lock(&self.most);
        if most.count == 0 {
            most.first = error.to_string();
        }
        most.count = most.count.max(*count);
        Ok(())
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
