//! Several traces as one, in order.

use std::time::Instant;

use crate::classes::CommonClasses;
use crate::error::TraceError;
use crate::formats::{Decode, OpenedTrace};
use crate::reference::{Batch, Metadata, OptionalColumns, PageClasses, RequestDetail};
use crate::ring::Ring;
use crate::supplied::LONGEST_FILL;

/// Opens the part with the given number.
pub(crate) type OpenPart = Box<dyn Fn(usize) -> Result<OpenedTrace, TraceError> + Send>;

/// Parts of several databases, at most 64: the pages of each begin at a multiple of this.
const PART: u64 = 1 << 58;

/// One trace of `parts` parts; `apart` if no page of one is one of another, and `is_one` if all are the same trace.
///
/// Metadata on which not all parts agree is dropped, with a note. Every part is
/// opened once at the beginning, so that a missing part, or one damaged at its head,
/// is reported before hours of work.
pub(crate) fn concat((parts, apart, is_one): (usize, bool, bool), open: OpenPart) -> Result<OpenedTrace, TraceError> {
    let mut first = open(0)?;
    if apart && parts as u64 > u64::MAX / PART + 1 {
        let problem = format!("has {parts} parts; at most 64 databases can be kept side by side (--apart)");
        return Err(TraceError::Columns { file: "the trace".to_owned(), problem });
    }
    let mut pages = first.metadata.database_pages;
    let mut dropped: Vec<&str> = Vec::new();
    let mut classes = ConcatenatedClasses::new(first.decoder.classes(), apart);
    let mut columns = first.decoder.columns();
    for part in 1..parts {
        let next = open(part)?;
        classes.add(next.decoder.classes());
        let next_columns = next.decoder.columns();
        columns.requests |= next_columns.requests;
        columns.operations |= next_columns.operations;
        first.references = first.references.zip(next.references).and_then(|(before, more)| before.checked_add(more));
        first.notes.extend(next.notes);
        pages = pages.zip(next.metadata.database_pages).and_then(|(before, more)| before.checked_add(more));
        let Metadata { name, page_size, database_pages, below_cache, own_numbers } = &mut first.metadata;
        *below_cache |= next.metadata.below_cache;
        *own_numbers |= next.metadata.own_numbers;
        for (differs, what) in [
            (drop_different(name, next.metadata.name), "the name"),
            (drop_different(page_size, next.metadata.page_size), "the page size"),
            (!apart && drop_different(database_pages, next.metadata.database_pages), "the database's pages"),
        ] {
            if differs && !dropped.contains(&what) {
                dropped.push(what);
            }
        }
    }
    if first.metadata.own_numbers && !apart && !is_one {
        let problem = "has pages that are numbered by names in the order in which these appeared in each part, so that the same numbers may be of different devices, files or keys; put the original files together (trace convert --concat), or keep the parts apart (--apart)";
        return Err(TraceError::Columns { file: "the trace".to_owned(), problem: problem.to_owned() });
    }
    if !dropped.is_empty() {
        first.notes.push(format!("the parts do not agree on {}, which is dropped", dropped.join(" and ")));
    }
    match apart {
        true => first.metadata.database_pages = pages,
        false => first.notes.push(
            "equal page numbers in the parts are one page, as in parts of one recording (--apart if they are of several databases)"
                .to_owned(),
        ),
    }
    Ok(OpenedTrace {
        decoder: Box::new(ConcatenatedParts {
            apart,
            current: first.decoder,
            number: 0,
            parts,
            open,
            classes,
            requests: columns.requests.then(ConcatenatedRequests::default),
            columns,
        }),
        ..first
    })
}

/// Drops a value that differs in another part; true if either part had one.
fn drop_different<T: PartialEq>(value: &mut Option<T>, other: Option<T>) -> bool {
    let differs = *value != other;
    let had = value.is_some() || other.is_some();
    if differs {
        *value = None;
    }
    differs && had
}

/// The classes of several parts.
enum ConcatenatedClasses {
    /// Those of each part.
    Same(Option<PageClasses>),
    Common(CommonClasses),
}

impl ConcatenatedClasses {
    fn new(first: Option<PageClasses>, apart: bool) -> ConcatenatedClasses {
        match first {
            // These are complete before the first reference. Ranges of pages are those of one part.
            Some(classes) if apart || classes.ranges().is_empty() => {
                let mut common = CommonClasses::default();
                common.enter(&classes);
                ConcatenatedClasses::Common(common)
            }
            first => ConcatenatedClasses::Same(first),
        }
    }

    /// Adds those of the next part.
    fn add(&mut self, next: Option<PageClasses>) {
        if let ConcatenatedClasses::Same(same) = self {
            if *same == next {
                return;
            }
            let mut common = CommonClasses::default();
            common.enter(&same.take().unwrap_or_default());
            *self = ConcatenatedClasses::Common(common);
        }
        if let ConcatenatedClasses::Common(common) = self {
            common.enter(&next.unwrap_or_default());
        }
    }
}

struct ConcatenatedParts {
    /// True if no page of a part is one of another.
    apart: bool,
    current: Box<dyn Decode>,
    number: usize,
    parts: usize,
    open: OpenPart,
    classes: ConcatenatedClasses,
    /// `None` if no part has times or rings, or they are not asked for.
    requests: Option<ConcatenatedRequests>,
    columns: OptionalColumns,
}

/// Times and rings of several parts: a part begins when the one before ends, and has rings of its own.
#[derive(Default)]
struct ConcatenatedRequests {
    /// The time of the last reference, in µs.
    now: u64,
    /// The time of the current part's first reference by its own clock, and by the common one; `None` in the first part.
    began: Option<(Option<u64>, u64)>,
    /// The highest number of a ring so far, and in the parts before.
    highest_ring: u32,
    rings_before: u32,
}

impl ConcatenatedRequests {
    fn next_part(&mut self) {
        self.began = Some((None, self.now));
        self.rings_before = self.highest_ring;
    }

    /// Gives the current part's next requests their common times and rings.
    fn renumber(&mut self, requests: &mut [RequestDetail]) {
        for request in requests {
            if let Some((own, common)) = &mut self.began {
                let own = *own.get_or_insert(request.time_us);
                let since = request.time_us.saturating_sub(own);
                request.time_us = common.saturating_add(since);
            }
            self.now = self.now.max(request.time_us);
            let Some(mut ring) = Ring::from_code(request.bypass) else {
                continue;
            };
            let number = ring.number.saturating_add(self.rings_before);
            // Where the numbers are used up, two parts share rings.
            if number <= Ring::MOST {
                ring.number = number;
                request.bypass = ring.code();
                self.highest_ring = self.highest_ring.max(number);
            }
        }
    }
}

impl Decode for ConcatenatedParts {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let start = Instant::now();
        let mut piece = Batch::new();
        while batch.len() < max && (batch.is_empty() || start.elapsed() < LONGEST_FILL) {
            self.current.fill(&mut piece, max - batch.len())?;
            if piece.is_empty() {
                if self.number + 1 == self.parts {
                    break;
                }
                self.number += 1;
                self.current = (self.open)(self.number)?.decoder;
                if let ConcatenatedClasses::Common(common) = &mut self.classes {
                    common.next_part();
                }
                self.requests.iter_mut().for_each(ConcatenatedRequests::next_part);
            } else {
                if let ConcatenatedClasses::Common(common) = &mut self.classes {
                    piece.classes.resize(piece.len(), 0);
                    let current = &self.current;
                    common.renumber(&mut piece.classes, || current.classes());
                }
                if let Some(common) = &mut self.requests {
                    piece.requests.resize(piece.pages.len(), RequestDetail::default());
                    common.renumber(&mut piece.requests);
                }
                if self.apart {
                    let first = self.number as u64 * PART;
                    if let Some(page) = piece.pages.iter().find(|page| **page >= PART) {
                        let problem =
                            format!("has page {page}; with --apart a part has pages below 2^58, and at most 1024 volumes");
                        return Err(TraceError::Columns { file: format!("part {}", self.number + 1), problem });
                    }
                    piece.pages.iter_mut().for_each(|page| *page += first);
                    piece.trims.retain(|trim| trim.first < PART);
                    for trim in &mut piece.trims {
                        (trim.first, trim.last) = (trim.first + first, trim.last.min(PART - 1) + first);
                    }
                }
                batch.append(&mut piece);
            }
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        (self.number as f64 + self.current.progress()) / self.parts as f64
    }

    fn classes(&self) -> Option<PageClasses> {
        match &self.classes {
            ConcatenatedClasses::Same(same) => same.clone(),
            ConcatenatedClasses::Common(common) => Some(common.classes()),
        }
    }

    fn columns(&self) -> OptionalColumns {
        self.columns
    }
}
