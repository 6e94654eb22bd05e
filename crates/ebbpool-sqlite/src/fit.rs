//! Whether a log of deltas belongs to a database in place.

use crate::delta_log::{self, Header, Record, Section, next_generation};
use crate::store::{fingerprint, is_marked, is_plain, marked_generation};

/// Looks at the records of a log, one after the other.
///
/// The database in place is that on which the log began; or, after a crash in a checkpoint, that of the last record; or,
/// after a checkpoint that failed, that before a record which says so. Records up to that state change nothing in it. The mark
/// of the first has the number of the log's generation, and that of the others the number of the next one, so that a copy of
/// the database from before is none of them.
pub(crate) struct FitCheck {
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
}

impl FitCheck {
    /// A check for the database that begins with `first`, at least a page.
    pub(crate) fn new(first: &[u8]) -> FitCheck {
        FitCheck {
            print: fingerprint(first),
            is_plain: is_plain(first),
            is_marked: !is_plain(first) || is_marked(first),
            generation: marked_generation(first),
            first: first.to_vec(),
            has_changed: false,
            is_of_a_checkpoint: false,
        }
    }

    /// Takes the next record.
    pub(crate) fn add(&mut self, record: &Record, sections: &[Section], bytes: &[u8]) {
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
        generation == 0
            || !header.is_numbered()
            || header.belongs_to(generation)
            || self.print == header.base
    }

    /// True if the database is that on which the log began.
    pub(crate) fn is_base(&self, header: &Header) -> bool {
        self.print == header.base && (!header.is_numbered() || self.generation == header.generation)
    }

    /// True if the log belongs to the database, which is marked.
    pub(crate) fn fits(&self, header: &Header) -> bool {
        let is_checkpoint =
            !header.is_numbered() || self.generation == next_generation(header.generation);
        // Where no record has changed page 1, the state that a checkpoint has brought in place begins as the base does.
        let is_state = self.print == header.base || self.is_last_state() || self.is_of_a_checkpoint;
        self.is_base(header) || (is_checkpoint && is_state)
    }
}
