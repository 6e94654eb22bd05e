//! Traces of binary records of one size.

use super::requests::{Pending, Request};
use super::{Decode, Opened};
use crate::error::TraceError;
use crate::reference::{Batch, Metadata};
use crate::stream::Stream;

/// Understands the records of a format.
pub(super) trait ParseRecord: Send + 'static {
    /// Bytes of a record.
    fn size(&self) -> usize;

    /// The request in a record of that size, none if it asks for no page, or what
    /// is wrong with it.
    fn request(&mut self, record: &[u8]) -> Result<Option<Request>, String>;

    /// What to say of a trace that has records and not one request, if that is an
    /// error.
    fn without_requests(&self) -> Option<&'static str> {
        None
    }
}

/// Decodes records that are requests.
struct RecordDecoder<P> {
    stream: Stream,
    parser: P,
    /// Records that were decoded.
    decoded: u64,
    /// Records that the header promises.
    promised: u64,
    pending: Pending,
    requested: bool,
}

/// A trace of records, ready to be decoded. The records follow what was taken
/// from the stream, `header` bytes, and there are at least `promised`.
pub(super) fn opened(
    stream: Stream,
    parser: impl ParseRecord,
    (header, promised): (u64, u64),
    page_size: Option<u64>,
    notes: Vec<String>,
) -> Result<Opened, TraceError> {
    let decoder = RecordDecoder {
        stream,
        parser,
        decoded: 0,
        promised,
        pending: Pending::default(),
        requested: false,
    };
    if let Some(bytes) = decoder.stream.length() {
        let size = decoder.parser.size() as u64;
        let bytes = bytes.saturating_sub(header);
        decoder.check_end(bytes / size, bytes % size)?;
    }
    Ok(Opened {
        metadata: Metadata {
            page_size,
            ..Metadata::default()
        },
        references: None,
        notes,
        decoder: Box::new(decoder),
    })
}

impl<P: ParseRecord> RecordDecoder<P> {
    fn wrong(&self, record: u64, problem: String) -> TraceError {
        TraceError::Record {
            file: self.stream.label().to_owned(),
            record,
            problem,
        }
    }

    /// Complains of a trace that ends after so many records and `rest` bytes.
    fn check_end(&self, records: u64, rest: u64) -> Result<(), TraceError> {
        if rest > 0 {
            let size = self.parser.size();
            return Err(self.wrong(
                records,
                format!(
                    "cut off after {rest} of {size} bytes; the file is truncated or of another format"
                ),
            ));
        }
        if records < self.promised {
            let promised = self.promised;
            return Err(self.wrong(
                records,
                format!("is missing, of {promised} that the header tells; the file is truncated"),
            ));
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
                    return Err(TraceError::NoRequests {
                        file: self.stream.label().to_owned(),
                        problem,
                    });
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
}

/// `N` bytes of a record from `at` on, zeros where it is shorter.
#[inline]
pub(super) fn bytes<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let field = record.get(at..).and_then(<[u8]>::first_chunk);
    field.copied().unwrap_or([0; N])
}
