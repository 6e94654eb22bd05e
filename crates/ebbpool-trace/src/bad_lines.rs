//! Malformed lines that are left out, up to a number.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::TraceError;

/// What was left out so far: how many lines, and what was wrong with the first.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    count: u64,
    first: String,
}

impl LeftOut {
    /// A line for people, if anything was left out.
    pub(crate) fn note(&self) -> Option<String> {
        match self.count {
            0 => None,
            1 => Some(format!("left out 1 bad line: {}", self.first)),
            count => Some(format!(
                "left out {count} bad lines, the first: {}",
                self.first
            )),
        }
    }
}

/// Counts one reading's bad lines.
#[derive(Debug, Clone)]
pub(crate) struct BadLines {
    allowed: u64,
    count: Arc<Mutex<u64>>,
    /// Of the reading of the trace that came furthest.
    most: Arc<Mutex<LeftOut>>,
}

impl BadLines {
    /// For a new reading, of which at most `allowed` lines may be left out.
    pub(crate) fn new(allowed: u64, most: &Arc<Mutex<LeftOut>>) -> BadLines {
        BadLines {
            allowed,
            count: Arc::default(),
            most: Arc::clone(most),
        }
    }

    /// Leaves a line out, for which `error` is the reason; an error if that is one
    /// line too many.
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
