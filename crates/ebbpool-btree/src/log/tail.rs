//! The end of the log that is not in its file yet.

use std::sync::Arc;

use ebbpool::Lsn;

use super::frame;
use super::record::{Position, Record};

/// A buffer that is longer than this is not kept for later.
const MOST_KEPT: usize = 4 << 20;

/// What was appended and is not written.
pub(super) struct Tail {
    /// What the buffer begins at.
    from: Position,
    bytes: Vec<u8>,
    /// What is being written, and what it begins at.
    leaving: Option<(Position, Arc<Vec<u8>>)>,
    /// For the next buffer, so that its memory is used again.
    spare: Vec<u8>,
}

impl Tail {
    pub(super) fn new(from: Position) -> Self {
        Tail {
            from,
            bytes: Vec::new(),
            leaving: None,
            spare: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a record; answers where it begins and where it ends.
    pub(super) fn append(
        &mut self,
        record: &Record<'_>,
        seed: u64,
    ) -> std::io::Result<(Position, Lsn)> {
        let position = self.from + self.bytes.len() as u64;
        let length = frame::append(record, position, seed, &mut self.bytes)?;
        Ok((position, position + length as u64))
    }

    /// What is to be written; it stays readable here until [`left`](Self::left). Nothing if that is
    /// nothing.
    pub(super) fn leave(&mut self) -> Option<(Position, Arc<Vec<u8>>)> {
        if self.bytes.is_empty() {
            return None;
        }
        let spare = std::mem::take(&mut self.spare);
        let bytes = Arc::new(std::mem::replace(&mut self.bytes, spare));
        let leaving = (self.from, bytes);
        self.from += leaving.1.len() as u64;
        self.leaving = Some(leaving.clone());
        Some(leaving)
    }

    /// What was to be written is in the file.
    pub(super) fn left(&mut self, bytes: Arc<Vec<u8>>) {
        self.leaving = None;
        if let Ok(mut bytes) = Arc::try_unwrap(bytes)
            && bytes.capacity() <= MOST_KEPT
        {
            bytes.clear();
            self.spare = bytes;
        }
    }

    /// Copies the record that begins at a position; false if that is in the file.
    pub(super) fn copy(&self, position: Position, into: &mut Vec<u8>) -> bool {
        let parts = self.leaving.iter().map(|(from, bytes)| (*from, &**bytes));
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
