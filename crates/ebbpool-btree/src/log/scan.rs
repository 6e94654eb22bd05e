//! Reading a file of a log from one record to the next, and finding where it ends.

use std::io;

use ebbpool::Lsn;

use super::file::LogFile;
use super::frame;
use super::header;
use super::record::{Position, Record};

/// So much is read at once.
const CHUNK: usize = 256 << 10;

/// The records of one file, as far as they are whole.
pub(super) struct Frames<'f> {
    file: &'f dyn LogFile,
    seed: u64,
    /// What the file begins at.
    start: Position,
    /// What the next record begins at.
    next: Position,
    /// There is nothing from here on.
    limit: Position,
    /// Bytes of the file.
    window: Vec<u8>,
    /// What these begin at.
    window_from: Position,
}

impl<'f> Frames<'f> {
    /// Of a file whose first record begins at `start`.
    pub(super) fn new(file: &'f dyn LogFile, seed: u64, start: Position) -> io::Result<Self> {
        let bytes = file.len()?.saturating_sub(header::LENGTH);
        Ok(Frames {
            file,
            seed,
            start,
            next: start,
            limit: start.saturating_add(bytes),
            window: Vec::new(),
            window_from: start,
        })
    }

    /// Only the records that end at `end` or before.
    pub(super) fn up_to(mut self, end: Position) -> Self {
        self.limit = self.limit.min(end);
        self
    }

    /// What the next record begins at: after the last one, where the first one that is not whole
    /// would begin.
    pub(super) fn position(&self) -> Position {
        self.next
    }

    /// The next record; nothing if there is none that is whole.
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

    /// The largest position up to which a record behind the end says that the log was durable, if
    /// that is behind the end too: what is missing there was not torn by a crash.
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

    /// The first place from the next position on that claims to be a record's.
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

    /// How long the record is that begins at a position; nothing if none does that is whole.
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

    /// Sees to it that the window has so many bytes from a position on; false if the file has not.
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
        let there = self.file.read_at(offset, &mut self.window)?;
        self.window.truncate(there);
        Ok(there >= length)
    }

    /// Bytes of the window; none if it has them not all.
    fn part(&self, position: Position, length: usize) -> &[u8] {
        let at = position.checked_sub(self.window_from);
        let at = at.and_then(|at| usize::try_from(at).ok());
        let range = at.and_then(|at| Some(at..at.checked_add(length)?));
        range
            .and_then(|range| self.window.get(range))
            .unwrap_or_default()
    }
}
