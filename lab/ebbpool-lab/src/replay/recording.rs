//! Records the reference string of a running pool as a trace.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ebbpool::policy::PageClass;
use ebbpool_trace::{Batch, Format, Metadata, PageClasses, TraceError, Writer, WrittenTrace};

/// References in one write to the trace.
const BATCH: usize = 1 << 16;

/// Records each fix of a pool.
#[derive(Clone)]
pub struct FixRecorder(Arc<Mutex<Option<OpenTrace>>>);

struct OpenTrace {
    writer: Writer,
    has_classes: bool,
    batch: Batch,
    failure: Option<TraceError>,
}

impl FixRecorder {
    /// Creates a trace in the native format; with the class of each page where `classes` are known.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub fn create(path: &Path, metadata: &Metadata, classes: Option<&PageClasses>) -> Result<Self, TraceError> {
        let open = OpenTrace {
            writer: Writer::create_with_classes(path, Format::Native, metadata, classes, None)?,
            has_classes: classes.is_some(),
            batch: Batch::with_capacity(BATCH),
            failure: None,
        };
        Ok(FixRecorder(Arc::new(Mutex::new(Some(open)))))
    }

    /// The callback that the pool calls for each fix.
    pub fn sink(&self) -> impl FnMut(u64, bool, PageClass) + Send + 'static {
        let shared = Arc::clone(&self.0);
        move |page, write, class| {
            let mut open = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(open) = &mut *open {
                open.batch.push(page, write);
                if open.has_classes {
                    open.batch.classes.push(class);
                }
                if open.batch.len() >= BATCH {
                    open.write();
                }
            }
        }
    }

    /// Names the classes, where their names are known only at the end.
    pub fn name_classes(&self, names: &[String]) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &mut *open {
            open.writer.name_classes(names);
        }
    }

    /// Ends the recording and moves the file to its final path. `None` if it has ended before.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn finish(&self) -> Result<Option<WrittenTrace>, TraceError> {
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

impl OpenTrace {
    fn write(&mut self) {
        if self.failure.is_none() && !self.batch.is_empty() {
            self.failure = self.writer.write(&self.batch).err();
        }
        self.batch.clear();
    }
}
