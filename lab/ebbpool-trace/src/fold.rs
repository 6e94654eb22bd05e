//! Converts pages of one size into pages of another.

use crate::error::TraceError;
use crate::formats::{Decode, OpenedTrace};
use crate::reference::{Batch, PageClasses};

/// Converts `opened` into a trace of pages of `requested` bytes.
///
/// A trace that states no page size is assumed to have this one already. Smaller
/// pages that make up one larger page become that page, and every reference remains a
/// reference. A larger page becomes the smaller pages that it consists of, each
/// referenced once, in order.
pub(crate) fn fold(opened: OpenedTrace, label: &str, requested: u64) -> Result<OpenedTrace, TraceError> {
    let OpenedTrace { decoder, mut metadata, references, notes } = opened;
    let stated = metadata.page_size.replace(requested).unwrap_or(requested);
    let (decoder, references): (Box<dyn Decode>, _) = if stated == requested {
        (decoder, references)
    } else if stated != 0 && requested.is_multiple_of(stated) {
        let pages = requested / stated;
        metadata.database_pages = metadata.database_pages.map(|all| all.div_ceil(pages));
        (Box::new(MergedPages { decoder, pages }), references)
    } else if requested != 0 && stated.is_multiple_of(requested) && stated != 0 {
        let parts = stated / requested;
        let times = |number: u64| number.checked_mul(parts);
        metadata.database_pages = metadata.database_pages.and_then(times);
        let split = SplitPages { decoder, label: label.to_owned(), parts, whole: Batch::new(), at: 0, part: 0 };
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
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.decoder.progress()
    }

    fn classes(&self) -> Option<PageClasses> {
        classes_of(&*self.decoder)
    }

    fn has_requests(&self) -> bool {
        self.decoder.has_requests()
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
}

impl Decode for SplitPages {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        const CHUNK: usize = 1 << 12;
        while batch.len() < max {
            if self.at == self.whole.len() {
                self.whole.clear();
                self.at = 0;
                self.decoder.fill(&mut self.whole, CHUNK)?;
                if self.whole.is_empty() {
                    break;
                }
            }
            let (page, write) = (self.whole.pages[self.at], self.whole.writes[self.at]);
            let first = page
                .checked_mul(self.parts)
                .filter(|first| first.checked_add(self.parts - 1).is_some())
                .ok_or_else(|| TraceError::SplitTooLarge { file: self.label.clone(), page, parts: self.parts })?;
            let room = (max - batch.len()) as u64;
            let end = self.parts.min(self.part.saturating_add(room));
            for part in self.part..end {
                batch.push(first + part, write);
            }
            if let Some(&class) = self.whole.classes.get(self.at) {
                batch.classes.resize(batch.len(), class);
            }
            if let Some(&request) = self.whole.requests.get(self.at) {
                batch.requests.resize(batch.len(), request);
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

    fn has_requests(&self) -> bool {
        self.decoder.has_requests()
    }
}
