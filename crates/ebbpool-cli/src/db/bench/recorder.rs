//! The reference string of the workload, without what was fixed before it.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ebbpool_lab::replay::FixRecorder;
use ebbpool_trace::{Metadata, TraceError};

type Sink = Box<dyn FnMut(u64, bool) + Send>;

/// Shared with the pool, which tells of each fix from the start.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<OnceLock<(FixRecorder, Mutex<Sink>)>>);

impl Recorder {
    /// What the pool is to tell of a fix. The first page is no part of the workload: only checkpoints fix
    /// it.
    pub(super) fn sink(&self) -> impl FnMut(u64, bool) + Send + 'static {
        let shared = Arc::clone(&self.0);
        move |page, write| {
            if page > 0
                && let Some((_, sink)) = shared.get()
            {
                sink.lock().unwrap_or_else(PoisonError::into_inner)(page, write);
            }
        }
    }

    /// From now on fixes are written.
    pub(super) fn begin(&self, file: &Path, metadata: &Metadata) -> Result<(), TraceError> {
        let recording = FixRecorder::create(file, metadata)?;
        let sink: Sink = Box::new(recording.sink());
        // There is one beginning.
        let _ = self.0.set((recording, Mutex::new(sink)));
        Ok(())
    }

    /// Puts the file in place; nothing more is written.
    pub(super) fn finish(&self) -> Result<(), TraceError> {
        match self.0.get() {
            Some((recording, _)) => recording.finish().map(|_| ()),
            None => Ok(()),
        }
    }
}
