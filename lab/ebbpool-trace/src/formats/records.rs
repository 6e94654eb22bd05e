//! Traces of binary records of a fixed size.

use super::requests::{ForeignRequest, PendingRequest};
use super::{Decode, OpenedTrace};
use crate::error::TraceError;
use crate::reference::{Batch, Metadata, OptionalColumns};
use crate::stream::Stream;

/// Parses the records of a format.
pub(super) trait ParseRecord: Send + 'static {
    /// Bytes of a record.
    fn size(&self) -> usize;

    /// The request in a record of that size, `None` if it requests no page, or what is
    /// wrong with the record.
    fn request(&mut self, record: &[u8]) -> Result<Option<ForeignRequest>, String>;

    /// The columns that batches have.
    fn columns(&self) -> OptionalColumns {
        OptionalColumns::default()
    }

    /// The message for a trace that has records but no request; `None` if that is not an
    /// error.
    fn without_requests(&self) -> Option<&'static str> {
        None
    }
}

/// Decodes records into references.
struct RecordDecoder<P> {
    stream: Stream,
    parser: P,
    /// Records decoded so far.
    decoded: u64,
    /// Records that the header promises.
    promised: u64,
    pending: PendingRequest,
    requested: bool,
}

/// A trace of records, ready to be decoded. The records follow a header of `header` bytes,
/// already consumed from the stream, and there are at least `promised` of them.
pub(super) fn opened(
    stream: Stream,
    parser: impl ParseRecord,
    (header, promised): (u64, u64),
    page_size: Option<u64>,
    notes: Vec<String>,
) -> Result<OpenedTrace, TraceError> {
    let columns = parser.columns();
    let decoder =
        RecordDecoder { stream, parser, decoded: 0, promised, pending: PendingRequest::new(columns), requested: false };
    if let Some(bytes) = decoder.stream.length() {
        let size = decoder.parser.size() as u64;
        let bytes = bytes.saturating_sub(header);
        decoder.check_end(bytes / size, bytes % size)?;
    }
    Ok(OpenedTrace {
        metadata: Metadata { page_size, ..Metadata::default() },
        references: None,
        notes,
        decoder: Box::new(decoder),
    })
}

impl<P: ParseRecord> RecordDecoder<P> {
    fn wrong(&self, record: u64, problem: String) -> TraceError {
        TraceError::Record { file: self.stream.label().to_owned(), record, problem }
    }

    /// Refuses a trace that ends too early, after `records` records and `rest` bytes.
    fn check_end(&self, records: u64, rest: u64) -> Result<(), TraceError> {
        if rest > 0 {
            let size = self.parser.size();
            return Err(self
                .wrong(records, format!("cut off after {rest} of {size} bytes; the file is truncated or of another format")));
        }
        if records < self.promised {
            let promised = self.promised;
            return Err(
                self.wrong(records, format!("is missing, of {promised} that the header promises; the file is truncated"))
            );
        }
        Ok(())
    }
}

impl<P: ParseRecord> Decode for RecordDecoder<P> {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let size = self.parser.size();
        while batch.len() < max {
            if self.pending.continue_into(batch, max) {
                continue;
            }
            let Some(record) = self.stream.bytes().get(..size) else {
                if self.stream.fill()? {
                    continue;
                }
                self.check_end(self.decoded, self.stream.bytes().len() as u64)?;
                if !self.requested
                    && self.decoded > 0
                    && let Some(problem) = self.parser.without_requests()
                {
                    return Err(TraceError::NoRequests { file: self.stream.label().to_owned(), problem });
                }
                break;
            };
            let request = match self.parser.request(record) {
                Ok(request) => request,
                Err(problem) => return Err(self.wrong(self.decoded, problem)),
            };
            self.stream.consume(size);
            self.decoded += 1;
            self.requested |= request.is_some();
            self.pending.begin(request);
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.stream.progress()
    }

    fn columns(&self) -> OptionalColumns {
        self.parser.columns()
    }
}

/// `N` bytes of a record from `at` on, zeros where it is shorter.
#[inline]
pub(super) fn bytes<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let field = record.get(at..).and_then(<[u8]>::first_chunk);
    field.copied().unwrap_or([0; N])
}
