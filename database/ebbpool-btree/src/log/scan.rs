//! Reading a file of a log from one record to the next, and finding where it ends.

use std::io;

use ebbpool::Lsn;

use super::file::LogFile;
use super::frame;
use super::header;
use super::record::{Position, Record};

/// The number of bytes that one read requests.
const CHUNK: usize = 256 << 10;

/// Reads the records of one file, as far as they are whole.
pub(super) struct RecordReader<'f> {
    file: &'f dyn LogFile,
    seed: u64,
    /// The position of the file's first record.
    start: Position,
    /// The position of the next record.
    next: Position,
    /// The position at which the records end at the latest.
    limit: Position,
    /// Bytes of the file that were read.
    window: Vec<u8>,
    /// The position of the first of these bytes.
    window_from: Position,
}

impl<'f> RecordReader<'f> {
    /// Reads a file whose first record begins at `start`.
    pub(super) fn new(file: &'f dyn LogFile, seed: u64, start: Position) -> io::Result<Self> {
        let bytes = file.len()?.saturating_sub(header::LENGTH);
        Ok(RecordReader {
            file,
            seed,
            start,
            next: start,
            limit: start.saturating_add(bytes),
            window: Vec::new(),
            window_from: start,
        })
    }

    /// Limits the records to those that end at `end` or before.
    pub(super) fn up_to(mut self, end: Position) -> Self {
        self.limit = self.limit.min(end);
        self
    }

    /// The position of the next record; after the last one, where the first record that is not whole would
    /// begin.
    pub(super) fn position(&self) -> Position {
        self.next
    }

    /// The next record; nothing if there is no whole one.
    pub(super) fn next(&mut self) -> io::Result<Option<(Position, Lsn, Record<'_>)>> {
        let position = self.next;
        let Some(length) = self.whole(position)? else {
            return Ok(None);
        };
        self.next += length as u64;
        let frame = self.part(position, length);
        let body = frame.get(frame::HEAD..).unwrap_or_default();
        Ok(Some((position, self.next, frame::decode(body, position)?)))
    }

    /// The largest position up to which a record after the end says that the log was durable, if that
    /// position is after the end too. In this case no crash tore the missing records: they are damaged.
    pub(super) fn durable_behind(&mut self) -> io::Result<Option<Lsn>> {
        let end = self.next;
        let mut durable = None;
        while let Some(position) = self.find()? {
            let Some(length) = self.whole(position)? else {
                self.next = position + 1;
                continue;
            };
            self.next = position + length as u64;
            let body = self.part(position, length).get(frame::HEAD..);
            let record = frame::decode(body.unwrap_or_default(), position);
            let up_to = record.ok().and_then(|record| record.durable());
            durable = durable.max(up_to.filter(|&up_to| up_to > end));
        }
        self.next = end;
        Ok(durable)
    }

    /// The first position from the next one on whose bytes claim to be a record.
    fn find(&mut self) -> io::Result<Option<Position>> {
        while self.fill(self.next, frame::HEAD)? {
            let at = (self.next - self.window_from) as usize;
            let window = self.window.get(at..).unwrap_or_default();
            let places = window.windows(frame::HEAD).zip(self.next..);
            let mut claims = places.filter(|(head, position)| frame::stands_at(head, *position));
            match claims.next() {
                Some((_, position)) => return Ok(Some(position)),
                None => self.next += (window.len() - frame::HEAD + 1) as u64,
            }
        }
        Ok(None)
    }

    /// The length of the record that begins at a position; nothing if no whole record does.
    fn whole(&mut self, position: Position) -> io::Result<Option<usize>> {
        if !self.fill(position, frame::HEAD)? {
            return Ok(None);
        }
        let head = self.part(position, frame::HEAD);
        let room = self.limit - position;
        let Some(length) = frame::length(head, position, room) else {
            return Ok(None);
        };
        if !self.fill(position, length)? {
            return Ok(None);
        }
        let whole = frame::body(self.part(position, length), self.seed).is_some();
        Ok(whole.then_some(length))
    }

    /// Reads until the window has `length` bytes from a position on. Returns false if the file ends before.
    fn fill(&mut self, position: Position, length: usize) -> io::Result<bool> {
        let end = position.checked_add(length as u64);
        if end.is_none_or(|end| end > self.limit) {
            return Ok(false);
        }
        if self.part(position, length).len() == length {
            return Ok(true);
        }
        let room = usize::try_from(self.limit - position).unwrap_or(usize::MAX);
        self.window.resize(length.max(CHUNK).min(room), 0);
        self.window_from = position;
        let offset = header::LENGTH + (position - self.start);
        let length_read = self.file.read_at(offset, &mut self.window)?;
        self.window.truncate(length_read);
        Ok(length_read >= length)
    }

    /// Bytes of the window; none unless it has all of them.
    fn part(&self, position: Position, length: usize) -> &[u8] {
        let at = position.checked_sub(self.window_from);
        let at = at.and_then(|at| usize::try_from(at).ok());
        let range = at.and_then(|at| Some(at..at.checked_add(length)?));
        range.and_then(|range| self.window.get(range)).unwrap_or_default()
    }
}
