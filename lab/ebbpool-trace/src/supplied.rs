//! References that a caller supplies: arrays in memory, or a stream that can be started again.

use std::time::{Duration, Instant};

use csv::ByteRecord;

use crate::content;
use crate::error::TraceError;
use crate::formats::{Decode, OpenedTrace};
use crate::reference::{Batch, Metadata, OptionalColumns, PageClasses};
use crate::source::Source;

/// References that a caller has or makes; [`Source::supplied`](crate::Source::supplied) is the trace of them.
pub trait ReferenceSupplier: Send + Sync {
    /// Starts from the first reference. A trace is opened any number of times, also by several threads at once.
    ///
    /// # Errors
    ///
    /// If the caller cannot supply the references; [`TraceError::Io`] takes any error.
    fn open(&self) -> Result<Box<dyn ReferenceStream>, TraceError>;

    /// Starts from the first reference, in batches with these columns, as far as the caller knows them.
    ///
    /// # Errors
    ///
    /// As [`open`](ReferenceSupplier::open).
    fn open_with(&self, columns: OptionalColumns) -> Result<Box<dyn ReferenceStream>, TraceError> {
        let _ = columns;
        self.open()
    }

    /// What the caller states besides the references.
    fn metadata(&self) -> Metadata {
        Metadata::default()
    }

    /// The number of references, if it is known.
    fn references(&self) -> Option<u64> {
        None
    }

    /// The trace that the references are from, if they are from one: its notes are also those of this one.
    fn base(&self) -> Option<&Source> {
        None
    }

    /// A key of the references: equal keys stand for equal references. Results over references without a key are
    /// not stored.
    fn key(&self) -> Option<[u8; 32]> {
        None
    }
}

/// The references of a [`ReferenceSupplier`], in order.
pub trait ReferenceStream: Send {
    /// Appends the next references, at most `max`, to a batch that is empty; leaves it empty at the end.
    ///
    /// # Errors
    ///
    /// If the references cannot be supplied.
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError>;

    /// The share of the references that was supplied, 0 to 1.
    fn progress(&self) -> f64;

    /// The classes of the references so far; `None` if the batches have none.
    fn classes(&self) -> Option<PageClasses> {
        None
    }

    /// True if the batches have [requests](Batch::requests), which are then as many as their pages.
    fn has_requests(&self) -> bool {
        false
    }

    /// True if the batches may have [trims or writes of whole pages](Batch::trims).
    fn has_operations(&self) -> bool {
        false
    }
}

/// A table that a caller has or makes; [`Source::table`](crate::Source::table) is the trace of its rows.
pub trait TableSupplier: Send + Sync {
    /// Starts from the first row. A trace is opened any number of times, also by several threads at once.
    ///
    /// # Errors
    ///
    /// If the caller cannot supply the rows; [`TraceError::Io`] takes any error.
    fn open(&self) -> Result<Box<dyn TableRows>, TraceError>;

    /// What the caller states besides the rows.
    fn metadata(&self) -> Metadata {
        Metadata::default()
    }

    /// A key of the references, as [of a `ReferenceSupplier`](ReferenceSupplier::key). `of_rows` reads all rows for one, which
    /// only rows that never change have.
    fn key(&self, of_rows: &dyn Fn() -> Option<[u8; 32]>) -> Option<[u8; 32]> {
        let _ = of_rows;
        None
    }
}

/// The rows of a [`TableSupplier`], in order.
pub trait TableRows: Send {
    /// The names of the columns.
    fn names(&self) -> Vec<String>;

    /// The number of rows, if it is known.
    fn count(&self) -> Option<u64> {
        None
    }

    /// The references, with their classes if these are wanted, where the types of these columns leave no question; the rows are
    /// not read otherwise then.
    fn references(&mut self, columns: PlainColumns, classes: bool) -> Option<Box<dyn ReferenceStream>> {
        let _ = (columns, classes);
        None
    }

    /// Says, before the first row, which columns are read; the fields of others may be empty.
    ///
    /// # Errors
    ///
    /// If one of them has no fields, but lists for example.
    fn choose(&mut self, columns: &[usize]) -> Result<(), TraceError> {
        let _ = columns;
        Ok(())
    }

    /// Appends the fields of the next row, as a CSV would have them, to an empty one; false at the end.
    ///
    /// # Errors
    ///
    /// If the row cannot be supplied.
    fn next(&mut self, row: &mut ByteRecord) -> Result<bool, TraceError>;
}

/// The columns of a table that has page numbers, whether each page is written, and classes, and nothing else that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainColumns {
    /// The index of the column of page numbers.
    pub page: usize,
    /// That of the column in which true or 1 means a write; `None` if all references read.
    pub write: Option<usize>,
    /// That of the column of classes.
    pub class: Option<usize>,
}

/// The key of the references that a stream yields, of their classes, and of whatever else is in the batches.
///
/// # Errors
///
/// As [`fill`](ReferenceStream::fill).
pub fn key_of(stream: Box<dyn ReferenceStream>) -> Result<[u8; 32], TraceError> {
    content::key_of(&mut SuppliedDecoder(stream))
}

/// Decodes what a caller supplies.
pub(crate) struct SuppliedDecoder(pub(crate) Box<dyn ReferenceStream>);

impl SuppliedDecoder {
    pub(crate) fn open(supplier: &dyn ReferenceSupplier, columns: OptionalColumns) -> Result<OpenedTrace, TraceError> {
        let stream = match columns == OptionalColumns::default() {
            true => supplier.open()?,
            false => supplier.open_with(columns)?,
        };
        Ok(OpenedTrace {
            decoder: Box::new(SuppliedDecoder(stream)),
            metadata: supplier.metadata(),
            references: supplier.references(),
            notes: Vec::new(),
        })
    }
}

/// After this time the references of a slow supplier go on, however few they are.
pub(crate) const LONGEST_FILL: Duration = Duration::from_millis(50);

impl Decode for SuppliedDecoder {
    /// Fills the batch up to `max`, as other decoders do, also where the caller supplies less at a time; but not longer than
    /// [`LONGEST_FILL`], because the work can stop only between batches.
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let start = Instant::now();
        self.0.fill(batch, max)?;
        if batch.is_empty() {
            return Ok(());
        }
        let mut piece = Batch::new();
        while batch.len() < max && start.elapsed() < LONGEST_FILL {
            self.0.fill(&mut piece, max - batch.len())?;
            if piece.is_empty() {
                break;
            }
            batch.append(&mut piece);
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.0.progress()
    }

    fn classes(&self) -> Option<PageClasses> {
        self.0.classes()
    }

    fn columns(&self) -> OptionalColumns {
        OptionalColumns { requests: self.0.has_requests(), operations: self.0.has_operations(), classes: false }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{ReadOptions, Source};

    /// The pages from 0 up to a number, of which every third is written.
    struct Ascending {
        pages: u64,
        /// The most references supplied at a time.
        most: usize,
        key: Option<[u8; 32]>,
    }

    struct AscendingStream {
        classes: bool,
        next: u64,
        pages: u64,
        most: usize,
    }

    impl ReferenceSupplier for Ascending {
        fn open(&self) -> Result<Box<dyn ReferenceStream>, TraceError> {
            Ok(Box::new(AscendingStream { classes: false, next: 0, pages: self.pages, most: self.most }))
        }

        fn open_with(&self, columns: OptionalColumns) -> Result<Box<dyn ReferenceStream>, TraceError> {
            Ok(Box::new(AscendingStream { classes: columns.classes, next: 0, pages: self.pages, most: self.most }))
        }

        fn references(&self) -> Option<u64> {
            Some(self.pages)
        }

        fn key(&self) -> Option<[u8; 32]> {
            self.key
        }
    }

    impl ReferenceStream for AscendingStream {
        fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
            for _ in 0..max.min(self.most) {
                if self.next == self.pages {
                    break;
                }
                batch.push(self.next, self.next.is_multiple_of(3));
                if self.classes {
                    batch.classes.push(1 + (self.next % 2) as u32);
                }
                self.next += 1;
            }
            Ok(())
        }

        fn progress(&self) -> f64 {
            self.next as f64 / self.pages as f64
        }

        fn classes(&self) -> Option<PageClasses> {
            let names = || vec!["even".into(), "odd".into()];
            self.classes.then(|| PageClasses::named(names()))
        }
    }

    fn source(pages: u64, key: Option<[u8; 32]>, options: &ReadOptions) -> Source {
        let supplier = Ascending { pages, most: 7, key };
        Source::supplied("ascending", Arc::new(supplier), options)
    }

    fn references(source: &Source) -> Vec<(u64, bool)> {
        let mut reader = source.open().expect("it opens");
        let (mut batch, mut all) = (Batch::new(), Vec::new());
        while reader.next_batch(&mut batch, 10).expect("references") {
            all.extend(batch.iter());
        }
        assert_eq!(reader.progress(), 1.0);
        all
    }

    #[test]
    fn supplied_references_are_read_any_number_of_times() {
        let source = source(25, None, &ReadOptions::default());
        let expected: Vec<(u64, bool)> = (0..25u64).map(|page| (page, page % 3 == 0)).collect();
        for _ in 0..2 {
            assert_eq!(references(&source), expected);
        }
        assert_eq!(source.open().expect("it opens").references(), Some(25));
        assert_eq!(source.label(), "ascending");
        assert_eq!(source.formats().expect("no file"), [None]);
        assert!(source.files().is_empty());
    }

    /// A batch of one reference takes 20 ms.
    struct Slow(u64);

    impl ReferenceSupplier for Slow {
        fn open(&self) -> Result<Box<dyn ReferenceStream>, TraceError> {
            Ok(Box::new(Slow(self.0)))
        }

        fn references(&self) -> Option<u64> {
            None
        }

        fn key(&self) -> Option<[u8; 32]> {
            None
        }
    }

    impl ReferenceStream for Slow {
        fn fill(&mut self, batch: &mut Batch, _: usize) -> Result<(), TraceError> {
            if self.0 > 0 {
                self.0 -= 1;
                std::thread::sleep(Duration::from_millis(20));
                batch.push(self.0, false);
            }
            Ok(())
        }

        fn progress(&self) -> f64 {
            0.0
        }
    }

    /// The work can stop between batches, also in a sequence of traces and while references are skipped.
    #[test]
    fn slow_references_go_on_a_few_at_a_time() {
        let slow = || Source::supplied("slow", Arc::new(Slow(20)), &ReadOptions::default());
        let fast = source(3, None, &ReadOptions::default());
        let all = |first: &Source, second: &Source| {
            let parts = [first.clone(), second.clone()];
            Source::sequence(&parts, &ReadOptions::default())
        };
        for source in [slow(), all(&fast, &slow()), all(&slow(), &fast)] {
            let mut reader = source.open().expect("it opens");
            let (mut batch, mut references) = (Batch::new(), 0);
            while reader.next_batch(&mut batch, 1000).expect("references") {
                assert!(batch.len() <= 10, "{}", batch.len());
                references += batch.len();
            }
            assert!([20, 23].contains(&references));
        }
        let options = ReadOptions { skip: 18, ..ReadOptions::default() };
        let skipping = Source::supplied("slow", Arc::new(Slow(20)), &options);
        let mut reader = skipping.open().expect("it opens");
        let (mut batch, mut pauses) = (Batch::new(), 0);
        while reader.skip_some(&mut batch).expect("references") {
            assert!(batch.is_empty());
            pauses += 1;
        }
        assert!((3..19).contains(&pauses), "{pauses}");
        assert!(reader.next_batch(&mut batch, 1).expect("references"));
        assert_eq!(batch.pages, [1]);
        let mut reader = skipping.open().expect("it opens");
        assert!(reader.skip_some(&mut batch).expect("references"));
        assert!(reader.next_batch(&mut batch, 1).expect("references"));
        assert_eq!(batch.pages, [1]);
    }

    #[test]
    fn supplied_classes_are_read_where_they_are_requested() {
        let options = |skip| ReadOptions { skip, ..ReadOptions::default() };
        let parts = [source(9, None, &options(1)), source(3, None, &options(0))];
        let sequence = Source::sequence(&parts, &options(0));
        let mut reader = sequence.open_with_classes().expect("it opens");
        let (mut batch, mut classes) = (Batch::new(), Vec::new());
        while reader.next_batch(&mut batch, 10).expect("references") {
            classes.extend_from_slice(&batch.classes);
        }
        assert_eq!(classes, [2, 1, 2, 1, 2, 1, 2, 1, 1, 2, 1]);
        let names = reader.classes().expect("classes");
        assert_eq!(names.names(), ["even", "odd"]);
        let mut reader = sequence.open().expect("it opens");
        assert!(reader.next_batch(&mut batch, 10).expect("references"));
        assert!(batch.classes.is_empty() && reader.classes().is_none());
    }

    #[test]
    fn options_apply_to_supplied_references() {
        let options = ReadOptions { skip: 4, limit: Some(3), ..ReadOptions::default() };
        let cut = source(25, None, &options);
        assert_eq!(references(&cut), [(4, false), (5, false), (6, true)]);
        let paged = ReadOptions { page_size: std::num::NonZeroU64::new(8192), ..ReadOptions::default() };
        let paged = source(25, None, &paged);
        let reader = paged.open().expect("it opens");
        assert_eq!(reader.metadata().page_size, Some(8192));
    }

    #[test]
    fn a_sequence_has_the_references_of_its_parts_in_order() {
        let options = |skip| ReadOptions { skip, ..ReadOptions::default() };
        let parts = [source(5, None, &options(3)), source(2, None, &options(0))];
        let sequence = Source::sequence(&parts, &options(1));
        assert_eq!(references(&sequence), [(4, false), (0, true), (1, false)]);
        assert_eq!(sequence.label(), "ascending + ascending");
        assert_eq!(sequence.open().expect("it opens").references(), Some(3));
    }

    #[test]
    fn the_key_of_a_source_is_that_of_its_references_and_options() {
        let key = |pages, key, skip| {
            let options = ReadOptions { skip, ..ReadOptions::default() };
            source(pages, key, &options).content_key()
        };
        let refused = key(5, None, 0).expect_err("no key").to_string();
        assert!(refused.contains("have no key"), "{refused}");
        let first = key(5, Some([1; 32]), 0).expect("a key");
        assert_eq!(first, key(5, Some([1; 32]), 0).expect("a key"));
        assert_ne!(first, key(5, Some([2; 32]), 0).expect("a key"));
        assert_ne!(first, key(5, Some([1; 32]), 1).expect("a key"));
    }
}
