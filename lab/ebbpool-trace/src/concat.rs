//! Several traces as one: one after the other, or merged by time.

use std::time::Instant;

use crate::classes::CommonClasses;
use crate::error::TraceError;
use crate::formats::{Decode, OpenedTrace};
use crate::reference::{Batch, Metadata, OptionalColumns, PageClasses, RequestDetail, Trim};
use crate::ring::Ring;
use crate::supplied::LONGEST_FILL;

/// Opens the part with the given number.
pub(crate) type OpenPart = Box<dyn Fn(usize) -> Result<OpenedTrace, TraceError> + Send>;

/// How several traces become one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joining {
    /// The number of parts.
    pub(crate) parts: usize,
    /// True if no page of one part is one of another.
    pub(crate) apart: bool,
    /// True if all parts are the same trace.
    pub(crate) is_one: bool,
    /// True if the references come in the order of their times, and not part by part.
    pub(crate) by_time: bool,
    /// True if the caller asks for times and rings.
    pub(crate) requests: bool,
}

/// Parts of several databases, at most 64: the pages of each begin at a multiple of this.
const PART: u64 = 1 << 58;

/// One trace of several parts.
///
/// Metadata on which not all parts agree is dropped, with a note. Every part is
/// opened once at the beginning, so that a missing part, or one damaged at its head,
/// is reported before hours of work.
pub(crate) fn concat(joining: Joining, open: OpenPart) -> Result<OpenedTrace, TraceError> {
    let Joining { parts, apart, is_one, by_time, requests } = joining;
    let mut first = open(0)?;
    if apart && parts as u64 > u64::MAX / PART + 1 {
        return Err(of_parts(format!("there are {parts}; at most 64 databases can be kept side by side (--apart)")));
    }
    let mut pages = first.metadata.database_pages;
    let mut dropped: Vec<&str> = Vec::new();
    let mut classes = ConcatenatedClasses::new(first.decoder.classes(), apart);
    let mut columns = first.decoder.columns();
    let mut timed = vec![columns.requests];
    let mut others: Vec<Box<dyn Decode>> = Vec::new();
    for part in 1..parts {
        let next = open(part)?;
        classes.add(next.decoder.classes());
        let next_columns = next.decoder.columns();
        timed.push(next_columns.requests);
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
        if by_time {
            others.push(next.decoder);
        }
    }
    if first.metadata.own_numbers && !apart && !is_one {
        return Err(of_parts(
            "their pages are numbered by names in the order in which these appeared in each part, so that the same numbers may be of different devices, files or keys; put the original files together, or keep the parts apart (--apart)",
        ));
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
    let common = CommonParts { apart, classes };
    let decoder: Box<dyn Decode> = match by_time {
        true => {
            if let Some(part) = timed.iter().position(|timed| !timed) {
                return Err(of_parts(format!(
                    "part {} has no times, by which they could be merged (a table has them with time=COLUMN:UNIT in --columns)",
                    part + 1
                )));
            }
            columns.requests = requests;
            let decoders = std::iter::once(first.decoder).chain(others);
            let merged = MergedParts::new(decoders.collect(), common, columns)?;
            first.notes.push(merged.clocks()?);
            Box::new(merged)
        }
        false => Box::new(ConcatenatedParts {
            common,
            current: first.decoder,
            number: 0,
            parts,
            open,
            requests: columns.requests.then(ConcatenatedRequests::default),
            columns,
        }),
    };
    Ok(OpenedTrace { decoder, ..first })
}

/// The error of several parts.
pub(crate) fn of_parts(problem: impl Into<String>) -> TraceError {
    TraceError::Columns { file: "the parts".to_owned(), problem: problem.into() }
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

/// What makes the references of each part those of the whole.
struct CommonParts {
    /// True if no page of a part is one of another.
    apart: bool,
    classes: ConcatenatedClasses,
}

impl CommonParts {
    /// Gives the references of a part their common classes and pages.
    fn take(&mut self, part: usize, decoder: &dyn Decode, piece: &mut Batch) -> Result<(), TraceError> {
        if let ConcatenatedClasses::Common(common) = &mut self.classes {
            piece.classes.resize(piece.len(), 0);
            common.renumber(part, &mut piece.classes, || decoder.classes());
        }
        if self.apart {
            let first = part as u64 * PART;
            if let Some(page) = piece.pages.iter().find(|page| **page >= PART) {
                let problem = format!("has page {page}; with --apart a part has pages below 2^58, and at most 1024 volumes");
                return Err(TraceError::Columns { file: format!("part {}", part + 1), problem });
            }
            piece.pages.iter_mut().for_each(|page| *page += first);
            piece.trims.retain(|trim| trim.first < PART);
            for trim in &mut piece.trims {
                (trim.first, trim.last) = (trim.first + first, trim.last.min(PART - 1) + first);
            }
        }
        Ok(())
    }

    fn classes(&self) -> Option<PageClasses> {
        match &self.classes {
            ConcatenatedClasses::Same(same) => same.clone(),
            ConcatenatedClasses::Common(common) => Some(common.classes()),
        }
    }
}

/// The parts one after the other.
struct ConcatenatedParts {
    common: CommonParts,
    current: Box<dyn Decode>,
    number: usize,
    parts: usize,
    open: OpenPart,
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

    /// Gives a moment of the current part its common time.
    fn place(&mut self, time_us: &mut u64) {
        if let Some((own, common)) = &mut self.began {
            let own = *own.get_or_insert(*time_us);
            *time_us = common.saturating_add(time_us.saturating_sub(own));
        }
        self.now = self.now.max(*time_us);
    }

    /// Gives the current part's next requests their common times and rings.
    fn renumber(&mut self, requests: &mut [RequestDetail], trims: &mut [Trim]) {
        let (first, others) = trims.split_at_mut(trims.partition_point(|trim| trim.before == 0));
        first.iter_mut().for_each(|trim| self.place(&mut trim.time_us));
        for request in requests {
            self.place(&mut request.time_us);
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
        others.iter_mut().for_each(|trim| self.place(&mut trim.time_us));
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
                self.requests.iter_mut().for_each(ConcatenatedRequests::next_part);
            } else {
                if let Some(common) = &mut self.requests {
                    piece.requests.resize(piece.pages.len(), RequestDetail::default());
                    common.renumber(&mut piece.requests, &mut piece.trims);
                }
                self.common.take(self.number, &*self.current, &mut piece)?;
                batch.append(&mut piece);
            }
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        (self.number as f64 + self.current.progress()) / self.parts as f64
    }

    fn classes(&self) -> Option<PageClasses> {
        self.common.classes()
    }

    fn columns(&self) -> OptionalColumns {
        self.columns
    }
}

/// The parts in the order of their times; of equal times those of the earlier part first.
struct MergedParts {
    common: CommonParts,
    parts: Vec<MergedPart>,
    columns: OptionalColumns,
}

struct MergedPart {
    decoder: Box<dyn Decode>,
    /// The next references; empty at the end.
    piece: Batch,
    /// The next reference, and the next trim, of the piece.
    at: usize,
    trims: usize,
}

impl MergedPart {
    /// The trim that comes next, if one does.
    fn next_trim(&self) -> Option<&Trim> {
        self.piece.trims.get(self.trims).filter(|trim| trim.before <= self.at)
    }

    /// The time of what comes next, in µs; `None` at the end.
    fn next_time(&self) -> Option<u64> {
        let next = self.piece.requests.get(self.at).map(|request| request.time_us);
        self.next_trim().map(|trim| trim.time_us).or(next)
    }
}

impl MergedParts {
    /// References that are read of a part at once.
    const PIECE: usize = 4096;

    fn new(decoders: Vec<Box<dyn Decode>>, common: CommonParts, columns: OptionalColumns) -> Result<MergedParts, TraceError> {
        let part = |decoder| MergedPart { decoder, piece: Batch::new(), at: 0, trims: 0 };
        let mut merged = MergedParts { common, parts: decoders.into_iter().map(part).collect(), columns };
        for part in 0..merged.parts.len() {
            merged.read(part)?;
        }
        Ok(merged)
    }

    /// Reads the next piece of a part.
    fn read(&mut self, number: usize) -> Result<(), TraceError> {
        let of_all = self.parts.len();
        let part = &mut self.parts[number];
        (part.at, part.trims) = (0, 0);
        part.piece.clear();
        part.decoder.fill(&mut part.piece, Self::PIECE)?;
        for request in &mut part.piece.requests {
            if let Some(mut ring) = Ring::from_code(request.bypass) {
                // Where the numbers are used up, two parts share rings.
                let own = u64::from(ring.number - 1) * of_all as u64 + number as u64 + 1;
                if own <= u64::from(Ring::MOST) {
                    ring.number = own as u32;
                    request.bypass = ring.code();
                }
            }
        }
        self.common.take(number, &*part.decoder, &mut part.piece)
    }

    /// A note on when the parts begin.
    ///
    /// # Errors
    ///
    /// If they cannot be of one clock: some count from 1601, 1970 or their own begin, and others do not.
    fn clocks(&self) -> Result<String, TraceError> {
        /// µs of 30 years, from 1970 to 2000: no recording is so long.
        const LONGEST: u64 = 946_684_800_000_000;
        let begins = || self.parts.iter().zip(1..).filter_map(|(part, number)| Some((part.next_time()?, number)));
        let (first, last) = (begins().min().unwrap_or((0, 1)), begins().max().unwrap_or((0, 1)));
        let seconds = |time: u64| time as f64 / 1e6;
        if last.0 - first.0 >= LONGEST {
            return Err(of_parts(format!(
                "part {} begins at {} s, part {} at {} s, more than 30 years later: they have no common clock by which they could be merged; --concat puts them one after the other",
                first.1,
                seconds(first.0),
                last.1,
                seconds(last.0),
            )));
        }
        Ok(format!(
            "merged by time, as times of one clock: part {} begins first, part {} last, {} s later",
            first.1,
            last.1,
            seconds(last.0 - first.0)
        ))
    }
}

impl Decode for MergedParts {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let start = Instant::now();
        while batch.len() < max && (batch.is_empty() || start.elapsed() < LONGEST_FILL) {
            let (mut next, mut until) = (None, None);
            for (number, part) in self.parts.iter().enumerate() {
                let Some(time) = part.next_time() else {
                    continue;
                };
                if next.is_none_or(|next| (time, number) < next) {
                    until = next.replace((time, number));
                } else if until.is_none_or(|until| (time, number) < until) {
                    until = Some((time, number));
                }
            }
            let Some((_, number)) = next else {
                break;
            };
            // Up to the first reference that is behind one of another part.
            let part = &mut self.parts[number];
            while batch.len() < max {
                let Some(time) = part.next_time() else {
                    break;
                };
                if until.is_some_and(|until| (time, number) > until) {
                    break;
                }
                if let Some(&Trim { first, last, time_us, .. }) = part.next_trim() {
                    batch.trim(first, last, time_us);
                    part.trims += 1;
                } else {
                    batch.push_like(part.piece.pages[part.at], &part.piece, part.at);
                    part.at += 1;
                }
            }
            if part.next_time().is_none() {
                self.read(number)?;
            }
        }
        if !self.columns.requests {
            batch.requests.clear();
            batch.trims.iter_mut().for_each(|trim| trim.time_us = 0);
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        let all: f64 = self.parts.iter().map(|part| part.decoder.progress()).sum();
        all / self.parts.len() as f64
    }

    fn classes(&self) -> Option<PageClasses> {
        self.common.classes()
    }

    fn columns(&self) -> OptionalColumns {
        self.columns
    }
}
