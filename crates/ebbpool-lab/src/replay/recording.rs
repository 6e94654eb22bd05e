//! The reference string of the running pool, written as a trace.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ebbpool_trace::{Batch, Format, Metadata, TraceError, Writer, Written};

/// References that are written at a time.
const BATCH: usize = 1 << 16;

/// Shared with the pool, which tells of each fix.
#[derive(Clone)]
pub struct FixRecorder(Arc<Mutex<Option<Open>>>);

struct Open {
    writer: Writer,
    batch: Batch,
    failure: Option<TraceError>,
}

impl FixRecorder {
    /// A trace in the native format.
    ///
    /// # Errors
    ///
    /// If the file cannot be made.
    pub fn create(path: &Path, metadata: &Metadata) -> Result<Self, TraceError> {
        let open = Open {
            writer: Writer::create(path, Format::Native, metadata)?,
            batch: Batch::with_capacity(BATCH),
            failure: None,
        };
        Ok(FixRecorder(Arc::new(Mutex::new(Some(open)))))
    }

    /// What the pool calls for each fix.
    pub fn sink(&self) -> impl FnMut(u64, bool) + Send + 'static {
        let shared = Arc::clone(&self.0);
        move |page, write| {
            let mut open = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(open) = &mut *open {
                open.batch.push(page, write);
                if open.batch.len() >= BATCH {
                    open.write();
                }
            }
        }
    }

    /// Puts the file in place.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn finish(&self) -> Result<Option<Written>, TraceError> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut open) = open else {
            return Ok(None);
        };
        open.write();
        match open.failure {
            Some(failure) => Err(failure),
            None => open.writer.finish().map(Some),
        }
    }
}

impl Open {
    fn write(&mut self) {
        if self.failure.is_none() && !self.batch.is_empty() {
            self.failure = self.writer.write(&self.batch).err();
        }
        self.batch.clear();
    }
}
