//! Pages of one size as pages of another.

use crate::error::TraceError;
use crate::formats::{Decode, Opened};
use crate::reference::Batch;

/// Makes `opened` a trace of pages of `wanted` bytes.
///
/// A trace that states no page size is taken to have this one already. Smaller
/// pages that make up one larger page become that page, each reference staying a
/// reference of its own; a larger page becomes the smaller pages it is made of, in
/// order, each referenced once.
pub(crate) fn fold(opened: Opened, label: &str, wanted: u64) -> Result<Opened, TraceError> {
    let Opened {
        decoder,
        mut metadata,
        references,
        notes,
    } = opened;
    let stated = metadata.page_size.replace(wanted).unwrap_or(wanted);
    let (decoder, references): (Box<dyn Decode>, _) = if stated == wanted {
        (decoder, references)
    } else if stated != 0 && wanted.is_multiple_of(stated) {
        let pages = wanted / stated;
        metadata.database_pages = metadata.database_pages.map(|all| all.div_ceil(pages));
        (Box::new(Merged { decoder, pages }), references)
    } else if wanted != 0 && stated.is_multiple_of(wanted) && stated != 0 {
        let parts = stated / wanted;
        let times = |number: u64| number.checked_mul(parts);
        metadata.database_pages = metadata.database_pages.and_then(times);
        let split = Split {
            decoder,
            label: label.to_owned(),
            parts,
            whole: Batch::new(),
            at: 0,
            part: 0,
        };
        (Box::new(split), references.and_then(times))
    } else {
        return Err(TraceError::Fold {
            file: label.to_owned(),
            stated,
            wanted,
        });
    };
    Ok(Opened {
        decoder,
        metadata,
        references,
        notes,
    })
}

/// So many pages become one.
struct Merged {
    decoder: Box<dyn Decode>,
    pages: u64,
}

impl Decode for Merged {
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
}

/// A page becomes so many.
struct Split {
    decoder: Box<dyn Decode>,
    label: String,
    parts: u64,
    /// References as the trace has them, handed on up to part `part` of the one at
    /// `at`.
    whole: Batch,
    at: usize,
    part: u64,
}

impl Decode for Split {
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
                .ok_or_else(|| TraceError::SplitTooLarge {
                    file: self.label.clone(),
                    page,
                    parts: self.parts,
                })?;
            let room = (max - batch.len()) as u64;
            let end = self.parts.min(self.part.saturating_add(room));
            for part in self.part..end {
                batch.push(first + part, write);
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
}
