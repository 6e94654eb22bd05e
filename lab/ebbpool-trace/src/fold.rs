//! Converts pages of one size into pages of another.

use crate::error::TraceError;
use crate::formats::{Decode, OpenedTrace};
use crate::reference::{Batch, OptionalColumns, PageClasses};

/// Converts `opened` into a trace of pages of `requested` bytes.
///
/// A trace that states no page size is assumed to have this one already. Smaller
/// pages that make up one larger page become that page, and every reference remains a
/// reference. A larger page becomes the smaller pages that it consists of, each
/// referenced once, in order.
pub(crate) fn fold(opened: OpenedTrace, label: &str, requested: u64) -> Result<OpenedTrace, TraceError> {
    let OpenedTrace { decoder, mut metadata, references, mut notes } = opened;
    let stated = metadata.page_size.replace(requested).unwrap_or(requested);
    let (decoder, references): (Box<dyn Decode>, _) = if stated == requested {
        (decoder, references)
    } else if stated != 0 && requested.is_multiple_of(stated) {
        let pages = requested / stated;
        if decoder.columns().operations {
            notes.push(format!(
                "{label}: pages of {stated} bytes become parts of pages of {requested}: no write replaces all of its page (--whole-writes if each does), and a trim ends the pages that it covers as a whole"
            ));
        }
        metadata.database_pages = metadata.database_pages.map(|all| all.div_ceil(pages));
        (Box::new(MergedPages { decoder, pages }), references)
    } else if requested != 0 && stated.is_multiple_of(requested) && stated != 0 {
        let parts = stated / requested;
        let times = |number: u64| number.checked_mul(parts);
        metadata.database_pages = metadata.database_pages.and_then(times);
        let split = SplitPages { decoder, label: label.to_owned(), parts, whole: Batch::new(), at: 0, part: 0, trim: 0 };
        (Box::new(split), references.and_then(times))
    } else {
        return Err(TraceError::Fold { file: label.to_owned(), stated, requested });
    };
    Ok(OpenedTrace { decoder, metadata, references, notes })
}

/// Merges every `pages` consecutive pages into one.
struct MergedPages {
    decoder: Box<dyn Decode>,
    pages: u64,
}

impl Decode for MergedPages {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let start = batch.len();
        self.decoder.fill(batch, max)?;
        for page in batch.pages.iter_mut().skip(start) {
            *page /= self.pages;
        }
        // A part of a page is not the page.
        batch.whole.clear();
        batch.trims.retain_mut(|trim| {
            let end = (u128::from(trim.last) + 1) / u128::from(self.pages);
            let first = trim.first.div_ceil(self.pages);
            let last = end.checked_sub(1).and_then(|last| u64::try_from(last).ok());
            let Some(last) = last.filter(|&last| first <= last) else {
                return false;
            };
            (trim.first, trim.last) = (first, last);
            true
        });
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.decoder.progress()
    }

    fn classes(&self) -> Option<PageClasses> {
        classes_of(&*self.decoder)
    }

    fn columns(&self) -> OptionalColumns {
        self.decoder.columns()
    }
}

/// The classes of the references of `decoder`. They no longer follow from the page number: pages of two classes may be
/// parts of one page.
fn classes_of(decoder: &dyn Decode) -> Option<PageClasses> {
    let classes = decoder.classes()?;
    Some(PageClasses::named(classes.names().to_vec()))
}

/// Splits every page into `parts` pages.
struct SplitPages {
    decoder: Box<dyn Decode>,
    label: String,
    parts: u64,
    /// References as the trace has them. They are passed on up to part `part` of the one
    /// at `at`.
    whole: Batch,
    at: usize,
    part: u64,
    /// The next of the trims.
    trim: usize,
}

impl SplitPages {
    /// The first part of a page.
    fn first_part(&self, page: u64) -> Result<u64, TraceError> {
        page.checked_mul(self.parts)
            .filter(|first| first.checked_add(self.parts - 1).is_some())
            .ok_or_else(|| TraceError::SplitTooLarge { file: self.label.clone(), page, parts: self.parts })
    }
}

impl Decode for SplitPages {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        const CHUNK: usize = 1 << 12;
        while batch.len() < max {
            while let Some(trim) = self.whole.trims.get(self.trim).filter(|trim| trim.before <= self.at) {
                // Pages beyond the last number have no parts.
                if let Ok(first) = self.first_part(trim.first) {
                    let last = self.first_part(trim.last).map_or(u64::MAX, |last| last + (self.parts - 1));
                    batch.trim(first, last, trim.time_us);
                }
                self.trim += 1;
            }
            if self.at == self.whole.len() {
                self.whole.clear();
                (self.at, self.trim) = (0, 0);
                self.decoder.fill(&mut self.whole, CHUNK)?;
                if self.whole.is_empty() {
                    break;
                }
                continue;
            }
            let first = self.first_part(self.whole.pages[self.at])?;
            let room = (max - batch.len()) as u64;
            let end = self.parts.min(self.part.saturating_add(room));
            for part in self.part..end {
                batch.push_like(first + part, &self.whole, self.at);
            }
            self.part = end;
            if self.part == self.parts {
                self.part = 0;
                self.at += 1;
            }
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.decoder.progress()
    }

    fn classes(&self) -> Option<PageClasses> {
        classes_of(&*self.decoder)
    }

    fn columns(&self) -> OptionalColumns {
        self.decoder.columns()
    }
}
