//! Reading a trace from its first reference to its last.

use std::fmt;
use std::time::{Duration, Instant};

use crate::error::TraceError;
use crate::formats::{Decode, OpenedTrace};
use crate::reference::{Batch, Metadata, OptionalColumns, PageClasses};
use crate::source::ReadOptions;
use crate::supplied::LONGEST_FILL;

/// Streams a trace's references.
pub struct Reader {
    decoder: Box<dyn Decode>,
    metadata: Metadata,
    references: Option<u64>,
    notes: Vec<String>,
    /// References still to skip.
    to_skip: u64,
    /// The number of references to return, if there is a limit.
    limit: Option<u64>,
    /// True if each write replaces all of its page, and the batches say so.
    whole_writes: bool,
    returned: u64,
    /// True after the end or an error: there are no more references.
    ended: bool,
}

impl Reader {
    pub(crate) fn new(opened: OpenedTrace, options: &ReadOptions, columns: OptionalColumns) -> Reader {
        let rest = |all: u64| {
            let rest = all.saturating_sub(options.skip);
            options.limit.map_or(rest, |limit| rest.min(limit))
        };
        Reader {
            decoder: opened.decoder,
            metadata: opened.metadata,
            references: opened.references.map(rest),
            notes: opened.notes,
            to_skip: options.skip,
            limit: options.limit,
            whole_writes: options.whole_writes && columns.operations,
            returned: 0,
            ended: false,
        }
    }

    /// What the trace states besides its references.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The classes of the references read so far; `None` if the batches have none. Formats that name classes where they
    /// appear know all names only at the end.
    pub fn classes(&self) -> Option<PageClasses> {
        self.decoder.classes()
    }

    /// True if the batches have [requests](Batch::requests): the trace has times or rings, and the reader was opened with
    /// them.
    pub fn has_requests(&self) -> bool {
        self.decoder.columns().requests
    }

    /// True if the batches may have [trims or writes of whole pages](Batch::trims), and the reader was opened with them.
    pub fn has_operations(&self) -> bool {
        Decode::columns(self).operations
    }

    /// The columns that the batches may have, of those that the reader was opened with.
    pub fn columns(&self) -> OptionalColumns {
        Decode::columns(self)
    }

    /// The total number of references, if it is known beforehand: for Parquet,
    /// uncompressed u32 and generators.
    pub fn references(&self) -> Option<u64> {
        self.references
    }

    /// Notes to print on standard error, one line each: a format that was guessed, or that
    /// differs from the user's. [`Source::late_notes`](crate::Source::late_notes) has the notes that arise later.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Clears `batch` and fills it with the next `max` references (1 if `max` is 0), fewer
    /// only at the end and where a [supplier](crate::ReferenceSupplier) is slow. False, with an empty batch, if there are no more.
    ///
    /// # Errors
    ///
    /// A [`TraceError`] with file and line or row. The batch is then empty, and
    /// nothing more can be read.
    pub fn next_batch(&mut self, batch: &mut Batch, max: usize) -> Result<bool, TraceError> {
        batch.clear();
        if self.ended {
            return Ok(false);
        }
        let filled = self.fill(batch, max.max(1));
        if filled.is_err() {
            batch.clear();
        }
        self.returned += batch.len() as u64;
        self.ended = batch.is_empty();
        filled.map(|()| !self.ended)
    }

    /// Skips references of those that the options leave out, for a short time, clearing `batch`. True if some are left, so that
    /// the caller may stop; [`next_batch`](Self::next_batch) skips all that are left.
    ///
    /// # Errors
    ///
    /// As of `next_batch`.
    pub fn skip_some(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let start = Instant::now();
        batch.clear();
        while self.to_skip > 0 && !self.ended && self.limit != Some(0) {
            if start.elapsed() >= LONGEST_FILL {
                return Ok(true);
            }
            let skipped = self.skip_at_once(batch);
            self.ended = !matches!(skipped, Ok(true));
            skipped?;
        }
        Ok(false)
    }

    /// False if there are no more references.
    fn skip_at_once(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        const SKIPPED_AT_ONCE: usize = 1 << 14;
        let skipped = self.decoder.fill(batch, at_most(self.to_skip, SKIPPED_AT_ONCE));
        self.to_skip -= batch.len() as u64;
        let has_more = !batch.is_empty();
        batch.clear();
        skipped.map(|()| has_more)
    }

    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let left = self.limit.map_or(u64::MAX, |limit| limit - self.returned);
        if left == 0 {
            return Ok(());
        }
        while self.to_skip > 0 {
            if !self.skip_at_once(batch)? {
                return Ok(());
            }
        }
        self.decoder.fill(batch, at_most(left, max))?;
        if self.whole_writes {
            batch.whole.clone_from(&batch.writes);
        }
        Ok(())
    }

    /// The share of the trace read so far, 0 to 1, by rows or by bytes of the (compressed)
    /// file.
    pub fn progress(&self) -> f64 {
        if self.ended {
            return 1.0;
        }
        let decoded = self.decoder.progress();
        match self.limit {
            Some(limit) => decoded.max(self.returned as f64 / limit.max(1) as f64),
            None => decoded,
        }
    }
}

fn at_most(references: u64, most: usize) -> usize {
    usize::try_from(references).map_or(most, |references| references.min(most))
}

impl From<Reader> for OpenedTrace {
    fn from(reader: Reader) -> Self {
        OpenedTrace {
            metadata: reader.metadata.clone(),
            references: reader.references,
            notes: reader.notes.clone(),
            decoder: Box::new(reader),
        }
    }
}

impl Decode for Reader {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        self.next_batch(batch, max).map(drop)
    }

    fn progress(&self) -> f64 {
        Reader::progress(self)
    }

    fn classes(&self) -> Option<PageClasses> {
        Reader::classes(self)
    }

    fn columns(&self) -> OptionalColumns {
        let columns = self.decoder.columns();
        OptionalColumns { operations: columns.operations || self.whole_writes, ..columns }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Reader")
            .field("metadata", &self.metadata)
            .field("references", &self.references)
            .field("progress", &self.progress())
            .finish_non_exhaustive()
    }
}

/// References, and the time in which they arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordedArrivals {
    /// References after the start.
    pub references: u64,
    /// From the start to the last reference.
    pub time: Duration,
}

impl RecordedArrivals {
    /// Counts the arrivals that a reader with requests yields, and takes its references off the warm-up. `None` if the
    /// times do not grow.
    pub(crate) fn read(reader: &mut Reader, warmup: &mut u64) -> Result<Option<RecordedArrivals>, TraceError> {
        const BATCH: usize = 1 << 14;
        if !reader.has_requests() {
            return Ok(None);
        }
        let mut batch = Batch::with_capacity(BATCH);
        let (mut began, mut start, mut last, mut references) = (None, 0, 0, 0);
        while reader.next_batch(&mut batch, BATCH)? {
            for request in &batch.requests {
                last = request.time_us;
                if began.is_none() {
                    began = Some(last);
                    start = last;
                }
                if *warmup > 0 {
                    *warmup -= 1;
                    start = last;
                } else if last > start {
                    references += 1;
                }
            }
        }
        let time = Duration::from_micros(last - start);
        Ok(began.filter(|began| last > *began).map(|_| RecordedArrivals { references, time }))
    }
}
