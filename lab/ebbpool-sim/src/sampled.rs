//! The references of a trace to a share of its pages.

use std::sync::Arc;

use ebbpool_trace::{
    Batch, Metadata, OptionalColumns, PageClasses, ReadOptions, Reader, ReferenceStream, ReferenceSupplier, Source, TraceError,
};

use crate::PageSample;

/// References read at a time.
const AT_ONCE: usize = 1 << 16;

/// The references of a trace to the pages of a sample.
pub struct SampledReferences {
    label: String,
    source: Source,
    sample: PageSample,
    metadata: Metadata,
}

impl SampledReferences {
    /// Opens the trace for its metadata. The pages of the database become fewer in proportion, so that memory sizes in per
    /// cent have the share of the frames that the sample has of the pages.
    ///
    /// # Errors
    ///
    /// As [`Source::open`].
    pub fn new(source: &Source, sample: PageSample) -> Result<Self, TraceError> {
        let metadata = source.open()?.metadata().clone();
        let whole = metadata.name.as_deref().unwrap_or(source.label());
        let label = format!("{whole}, {} % of the pages", 100.0 * sample.rate);
        let pages = metadata.database_pages;
        let pages = pages.map(|pages| ((pages as f64 * sample.rate).round() as u64).max(1));
        Ok(SampledReferences {
            source: source.clone(),
            sample,
            metadata: Metadata { name: Some(label.clone()), database_pages: pages, ..metadata },
            label,
        })
    }

    /// These references as a trace.
    pub fn into_source(self) -> Source {
        let label = self.label.clone();
        Source::supplied(&label, Arc::new(self), &ReadOptions::default())
    }

    fn stream(&self, reader: Reader) -> Box<dyn ReferenceStream> {
        Box::new(SampledStream { reader, sample: self.sample, read: Batch::new() })
    }
}

impl ReferenceSupplier for SampledReferences {
    fn open(&self) -> Result<Box<dyn ReferenceStream>, TraceError> {
        Ok(self.stream(self.source.open()?))
    }

    fn open_with(&self, columns: OptionalColumns) -> Result<Box<dyn ReferenceStream>, TraceError> {
        Ok(self.stream(self.source.open_with(columns)?))
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn base(&self) -> Option<&Source> {
        Some(&self.source)
    }

    fn key(&self) -> Option<[u8; 32]> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"sample of pages");
        hasher.update(&self.source.content_key().ok()?);
        hasher.update(&self.sample.rate.to_bits().to_le_bytes());
        hasher.update(&self.sample.grain.to_le_bytes());
        Some(*hasher.finalize().as_bytes())
    }
}

struct SampledStream {
    reader: Reader,
    sample: PageSample,
    /// The references of the trace that were read last.
    read: Batch,
}

impl ReferenceStream for SampledStream {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        // Of a chunk all references may be outside of the sample, and an empty batch is the end.
        while batch.is_empty() && self.reader.next_batch(&mut self.read, max.min(AT_ONCE))? {
            let mut trims = self.read.trims.iter().peekable();
            for at in 0..=self.read.len() {
                // A page outside of the sample is never referenced, so its end does no harm.
                while let Some(trim) = trims.next_if(|trim| trim.before <= at) {
                    batch.trim(trim.first, trim.last, trim.time_us);
                }
                if let Some(&page) = self.read.pages.get(at)
                    && self.sample.contains(page)
                {
                    batch.push_like(page, &self.read, at);
                }
            }
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.reader.progress()
    }

    fn classes(&self) -> Option<PageClasses> {
        self.reader.classes()
    }

    fn has_requests(&self) -> bool {
        self.reader.has_requests()
    }

    fn has_operations(&self) -> bool {
        self.reader.has_operations()
    }
}
