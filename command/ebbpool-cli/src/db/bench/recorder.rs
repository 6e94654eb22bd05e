//! Records the reference string of the workload, without the fixes before it.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ebbpool_btree::PAGE_CLASSES;
use ebbpool_lab::replay::FixRecorder;
use ebbpool_trace::{Metadata, PageClasses, TraceError};

type Sink = Box<dyn FnMut(u64, bool, u32) + Send>;

/// A recorder that the pool calls for each fix. It records nothing before `begin`.
#[derive(Clone, Default)]
pub(super) struct WorkloadRecorder(Arc<OnceLock<(FixRecorder, Mutex<Sink>)>>);

impl WorkloadRecorder {
    /// The callback for the pool. It ignores the first page, which is not part of the workload: only
    /// checkpoints fix it.
    pub(super) fn sink(&self) -> impl FnMut(u64, bool, u32) + Send + 'static {
        let shared = Arc::clone(&self.0);
        move |page, write, class| {
            if page > 0
                && let Some((_, sink)) = shared.get()
            {
                sink.lock().unwrap_or_else(PoisonError::into_inner)(page, write, class);
            }
        }
    }

    /// Starts the recording into this file.
    pub(super) fn begin(&self, file: &Path, metadata: &Metadata) -> Result<(), TraceError> {
        let classes = PageClasses::named(PAGE_CLASSES.map(str::to_owned).to_vec());
        let recording = FixRecorder::create(file, metadata, Some(&classes))?;
        let sink: Sink = Box::new(recording.sink());
        // `begin` is called once, so the cell is empty.
        let _ = self.0.set((recording, Mutex::new(sink)));
        Ok(())
    }

    /// Ends the recording and moves the file to its final path.
    pub(super) fn finish(&self) -> Result<(), TraceError> {
        match self.0.get() {
            Some((recording, _)) => recording.finish().map(|_| ()),
            None => Ok(()),
        }
    }
}
