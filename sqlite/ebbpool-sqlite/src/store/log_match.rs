//! Whether a log of deltas belongs to a database in place.

use super::{fingerprint, is_marked, is_plain, marked_generation};
use crate::delta_log::{self, Header, PageDelta, Record};

/// Looks at the records of a log, one after the other.
///
/// The database in place is that on which the log began, or that after a record: a checkpoint has begun. Records up to that one
/// change nothing in it. The number in the mark says which one it is, so that neither an older copy of the database belongs to the
/// log, nor an older or damaged log, which lacks that record, to the database.
///
/// In version 2 the number does not say which record that is. There it is the last one; or, after a checkpoint that failed, that
/// before a record which says so.
pub(crate) struct LogMatch {
    /// The fingerprint of the database in place.
    print: u64,
    is_plain: bool,
    is_marked: bool,
    /// The number in the mark.
    generation: u64,
    /// Page 1 as the records make it from that in place.
    first: Vec<u8>,
    /// True if a record has changed page 1: otherwise its fingerprint is that in place, whatever the database is.
    has_changed: bool,
    is_of_a_checkpoint: bool,
    /// True if the mark has the number of the generation that begins after one of the records.
    names_record: bool,
}

impl LogMatch {
    /// A check for the database that begins with `first`, at least a page.
    pub(crate) fn new(first: &[u8]) -> LogMatch {
        LogMatch {
            print: fingerprint(first),
            is_plain: is_plain(first),
            is_marked: !is_plain(first) || is_marked(first),
            generation: marked_generation(first),
            first: first.to_vec(),
            has_changed: false,
            is_of_a_checkpoint: false,
            names_record: false,
        }
    }

    /// Takes the next record of a log.
    pub(crate) fn add(&mut self, header: &Header, record: &Record, sections: &[PageDelta], bytes: &[u8]) {
        self.names_record |= header.generation_after(record.checksum) == self.generation;
        self.is_of_a_checkpoint |= record.follows_checkpoint && self.is_last_state();
        if let Some(section) = sections.iter().find(|section| section.page == 1) {
            if section.fresh {
                self.first.fill(0);
            }
            delta_log::apply(section.runs(bytes), &mut self.first);
            self.has_changed = true;
        }
    }

    fn is_last_state(&self) -> bool {
        self.has_changed && fingerprint(&self.first) == self.print
    }

    /// True if the database has the mark that keeps other programs from writing it: it was durable before the first record.
    pub(crate) fn is_marked(&self) -> bool {
        self.is_marked
    }

    /// The number of the generation that the mark in the database names; 0 without one.
    pub(crate) fn marked_generation(&self) -> u64 {
        match self.is_plain && self.is_marked {
            true => self.generation,
            false => 0,
        }
    }

    /// True if the database needs no log but this one, which has no record: the number in the mark belongs to it; or a power cut
    /// has hit the mark, which was being written to the database on which the log began.
    pub(crate) fn needs_no_other(&self, header: &Header) -> bool {
        let generation = self.marked_generation();
        generation == 0 || !header.is_numbered() || header.may_begin(generation) || self.print == header.base
    }

    /// True if the database is that on which the log began.
    pub(crate) fn is_base(&self, header: &Header) -> bool {
        self.print == header.base && (!header.is_numbered() || self.generation == header.generation)
    }

    /// True if the log belongs to the database, which is marked.
    pub(crate) fn fits(&self, header: &Header) -> bool {
        let is_after_record = match header.says_record() {
            true => self.names_record,
            false => (self.names_record || !header.is_numbered()) && self.is_some_state(header),
        };
        self.is_base(header) || is_after_record
    }

    /// True if the fingerprint is that of a state which a checkpoint may have brought in place.
    fn is_some_state(&self, header: &Header) -> bool {
        // Where no record has changed page 1, the state begins as the base does.
        self.print == header.base || self.is_last_state() || self.is_of_a_checkpoint
    }
}
