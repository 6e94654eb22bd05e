//! Describes the references of a trace.

use ebbpool_sim::{ResultStore, SimError};
use ebbpool_trace::stats::{Collector, TraceStatistics};
use ebbpool_trace::{Batch, OptionalColumns, Reader, Source};

use crate::error::LabError;
use crate::lab::Lab;

/// References in one batch.
const BATCH: usize = 1 << 16;

impl Lab<'_> {
    /// Reads a trace to its end and describes it. The caller receives the reader's notes.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read, or the caller stops.
    pub fn describe(&self, source: &Source) -> Result<TraceStatistics, LabError> {
        let reader = source.open_with(OptionalColumns::ALL)?;
        self.notes(reader.notes());
        let info = self.figures(reader, source.label())?;
        self.notes(&source.late_notes());
        Ok(info)
    }

    fn figures(&self, mut reader: Reader, label: &str) -> Result<TraceStatistics, LabError> {
        let mut collector = Collector::new();
        self.for_each_batch(&mut reader, label, |batch| collector.add(batch))?;
        let mut info = collector.info(reader.metadata().database_pages);
        info.name_classes(&reader.classes().unwrap_or_default());
        Ok(info)
    }

    /// Passes a trace to `take` batch by batch, until its end or until the caller stops.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read, `take` fails, or the caller stops.
    pub fn for_each_batch<E>(
        &self,
        reader: &mut Reader,
        label: &str,
        mut take: impl FnMut(&Batch) -> Result<(), E>,
    ) -> Result<(), LabError>
    where
        LabError: From<E>,
    {
        let mut batch = Batch::with_capacity(BATCH);
        while reader.next_batch(&mut batch, BATCH)? {
            self.check_stopped()?;
            take(&batch)?;
            self.events.progress(label, reader.progress());
        }
        self.events.progress(label, 1.0);
        Ok(())
    }

    /// The description from the store, or computed and then stored; `None` if the caller stops.
    pub(crate) fn stored_info(&self, source: &Source, store: &dyn ResultStore) -> Result<Option<TraceStatistics>, LabError> {
        const KEY: &str = "trace info";
        let stored = store.get(KEY);
        if let Some(info) = stored.and_then(|json| serde_json::from_slice(&json).ok()) {
            return Ok(Some(info));
        }
        let info = match self.figures(source.open_with(OptionalColumns::OPERATIONS)?, source.label()) {
            Err(LabError::Sim(SimError::Interrupted)) => return Ok(None),
            info => info?,
        };
        if let Ok(value) = serde_json::to_vec(&info) {
            store.put(KEY, &value);
        }
        Ok(Some(info))
    }
}
