//! The end of the log, which is not in its file yet.

use std::sync::Arc;

use ebbpool::Lsn;

use super::frame;
use super::record::{Position, Record};

/// A buffer that is longer than this is not used again.
const MOST_SPARE_BYTES: usize = 4 << 20;

/// Records that were appended and are not written yet.
pub(super) struct LogTail {
    /// The position at which the buffer begins.
    from: Position,
    bytes: Vec<u8>,
    /// The bytes that are being written, or whose write has failed, and the position at which they begin.
    in_flight: Option<(Position, Arc<Vec<u8>>)>,
    /// An empty buffer whose memory is used again.
    spare: Vec<u8>,
}

impl LogTail {
    pub(super) fn new(from: Position) -> Self {
        LogTail { from, bytes: Vec::new(), in_flight: None, spare: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a record; returns where it begins and where it ends.
    pub(super) fn append(&mut self, record: &Record<'_>, seed: u64) -> std::io::Result<(Position, Lsn)> {
        let position = self.from + self.bytes.len() as u64;
        let length = frame::append(record, position, seed, &mut self.bytes)?;
        Ok((position, position + length as u64))
    }

    /// Returns the bytes to be written, which can be read here until [`end_write`](Self::end_write): those whose write
    /// has failed come first, again at the same position. Nothing if there are none.
    pub(super) fn begin_write(&mut self) -> Option<(Position, Arc<Vec<u8>>)> {
        if self.in_flight.is_some() || self.bytes.is_empty() {
            return self.in_flight.clone();
        }
        let spare = std::mem::take(&mut self.spare);
        let bytes = Arc::new(std::mem::replace(&mut self.bytes, spare));
        let in_flight = (self.from, bytes);
        self.from += in_flight.1.len() as u64;
        self.in_flight = Some(in_flight.clone());
        Some(in_flight)
    }

    /// Notes that the bytes are in the file.
    pub(super) fn end_write(&mut self, bytes: Arc<Vec<u8>>) {
        self.in_flight = None;
        if let Ok(mut bytes) = Arc::try_unwrap(bytes)
            && bytes.capacity() <= MOST_SPARE_BYTES
        {
            bytes.clear();
            self.spare = bytes;
        }
    }

    /// Copies the record that begins at a position. Returns false if the record is in the file.
    pub(super) fn copy(&self, position: Position, into: &mut Vec<u8>) -> bool {
        let parts = self.in_flight.iter().map(|(from, bytes)| (*from, &**bytes));
        let mut parts = parts.chain([(self.from, &self.bytes)]);
        let part = parts.find_map(|(from, bytes)| {
            let at = usize::try_from(position.checked_sub(from)?).ok()?;
            bytes.get(at..).filter(|rest| !rest.is_empty())
        });
        let Some(part) = part else {
            return false;
        };
        let length = frame::length(part, position, part.len() as u64);
        into.clear();
        into.extend_from_slice(&part[..length.unwrap_or(0)]);
        true
    }
}
