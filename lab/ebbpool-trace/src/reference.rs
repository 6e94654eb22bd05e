//! The data that every format and generator produces.

/// Consecutive references as two columns of the same length: reference `i` is to page
/// `pages[i]`, and is a write if `writes[i]`.
///
/// These are columns rather than a list of pairs because Parquet stores columns and a
/// simulator reads columns fastest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Page numbers, any `u64`.
    pub pages: Vec<u64>,
    /// True where the page is written, false where it is only read.
    pub writes: Vec<bool>,
    /// The class of each reference's page, see [`PageClasses`]; 0 where it is unknown. Empty if the trace has no classes,
    /// or if the reader was not opened [with them](crate::Source::open_with).
    pub classes: Vec<u32>,
    /// When each reference was made, and through which ring. Empty if the trace has neither times nor rings, or if the
    /// reader was not opened [with them](crate::Source::open_with).
    pub requests: Vec<RequestDetail>,
    /// True where a write replaces all of its page, so that a miss reads nothing; references behind the end of this column
    /// do not. Empty if the reader was not opened [with operations](OptionalColumns::operations).
    pub whole: Vec<bool>,
    /// The trims between the references, in their order. Empty if the reader was not opened with operations.
    pub trims: Vec<Trim>,
}

/// The end of pages: nothing reads what they hold, so that it need not be written. A later reference to such a page is to a
/// new page of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trim {
    /// The reference of the batch that follows; the length of the batch after the last one.
    pub before: usize,
    /// The first of the pages.
    pub first: u64,
    /// The last of the pages, not below the first.
    pub last: u64,
    /// When the pages ended, as of a [reference](RequestDetail::time_us); 0 where the batch has no requests.
    pub time_us: u64,
}

/// What a trace says of one reference besides page and write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestDetail {
    /// When the reference was made, in µs from any moment on; readers yield times that never run backwards. 0 in all
    /// references of a trace without times.
    pub time_us: u64,
    /// The code of the request's ring, see [`Ring::from_code`](crate::Ring::from_code); 0 for a request through the buffer.
    pub bypass: u32,
}

/// The optional columns that a reader yields, where the trace has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OptionalColumns {
    /// The classes of the pages, [`Batch::classes`].
    pub classes: bool,
    /// Times and rings, [`Batch::requests`].
    pub requests: bool,
    /// Trims and writes of whole pages, [`Batch::trims`] and [`Batch::whole`].
    pub operations: bool,
}

impl OptionalColumns {
    /// All columns.
    pub const ALL: OptionalColumns = OptionalColumns { classes: true, requests: true, operations: true };
    /// Only trims and writes of whole pages.
    pub const OPERATIONS: OptionalColumns = OptionalColumns { classes: false, requests: false, operations: true };
}

impl Batch {
    /// An empty batch that holds no memory yet.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// An empty batch with room for `references` references.
    pub fn with_capacity(references: usize) -> Batch {
        Batch { pages: Vec::with_capacity(references), writes: Vec::with_capacity(references), ..Batch::default() }
    }

    /// Removes the references without freeing the memory.
    pub fn clear(&mut self) {
        self.pages.clear();
        self.writes.clear();
        self.classes.clear();
        self.requests.clear();
        self.whole.clear();
        self.trims.clear();
    }

    /// Moves the references of `other` to the end, and leaves `other` empty. Both have the same columns.
    pub fn append(&mut self, other: &mut Batch) {
        let before = self.len();
        if !(self.whole.is_empty() && other.whole.is_empty()) {
            self.whole.resize(before, false);
            self.whole.append(&mut other.whole);
        }
        self.trims.extend(other.trims.drain(..).map(|trim| Trim { before: before + trim.before, ..trim }));
        self.pages.append(&mut other.pages);
        self.writes.append(&mut other.writes);
        self.classes.append(&mut other.classes);
        self.requests.append(&mut other.requests);
    }

    /// Number of references.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// True if there are neither references nor trims.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.trims.is_empty()
    }

    /// True if the reference at `at` replaces all of its page.
    #[inline]
    pub fn is_whole(&self, at: usize) -> bool {
        self.whole.get(at).is_some_and(|&whole| whole)
    }

    /// Appends one reference.
    #[inline]
    pub fn push(&mut self, page: u64, write: bool) {
        self.pages.push(page);
        self.writes.push(write);
    }

    /// Appends a write that replaces all of its page.
    #[inline]
    pub fn push_whole(&mut self, page: u64) {
        self.whole.resize(self.len(), false);
        self.whole.push(true);
        self.push(page, true);
    }

    /// Appends a reference like the one at `at` of `other`, to a page that may be another one.
    pub fn push_like(&mut self, page: u64, other: &Batch, at: usize) {
        match other.is_whole(at) {
            true => self.push_whole(page),
            false => self.push(page, other.writes[at]),
        }
        self.classes.extend(other.classes.get(at));
        self.requests.extend(other.requests.get(at));
    }

    /// Appends the end of these pages at this time, in µs.
    pub fn trim(&mut self, first: u64, last: u64, time_us: u64) {
        self.trims.push(Trim { before: self.len(), first, last, time_us });
    }

    /// Makes room for `references` more references.
    pub fn reserve(&mut self, references: usize) {
        self.pages.reserve(references);
        self.writes.reserve(references);
    }

    /// The references in order, as (page, write).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, bool)> + '_ {
        self.pages.iter().copied().zip(self.writes.iter().copied())
    }
}

impl FromIterator<(u64, bool)> for Batch {
    fn from_iter<I: IntoIterator<Item = (u64, bool)>>(references: I) -> Batch {
        let (pages, writes) = references.into_iter().unzip();
        Batch { pages, writes, ..Batch::default() }
    }
}

/// What is known of a trace's classes: kinds of pages that are used alike, such as the pages of a relation, of a volume,
/// or the leaves of an index. Classes are numbered from 1; a page of class 0 is of no known class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageClasses {
    names: Vec<String>,
    ranges: Vec<(u64, u32)>,
}

impl PageClasses {
    /// Classes with these names, the first of class 1. There may be more classes than names.
    pub fn named(names: Vec<String>) -> PageClasses {
        PageClasses { names, ranges: Vec::new() }
    }

    /// Classes that follow from the page number. A range is its first page and the class of its pages, and ends before the
    /// next range; pages before the first range are of class 0. `None` if the first pages do not ascend.
    pub fn from_ranges(names: Vec<String>, ranges: Vec<(u64, u32)>) -> Option<PageClasses> {
        let ascending = ranges.is_sorted_by(|one, next| one.0 < next.0);
        ascending.then_some(PageClasses { names, ranges })
    }

    /// The classes from ranges of pages, each in at most one class: first page, the page after the last, and class. `None`
    /// if some share pages.
    pub fn from_single_pages(names: Vec<String>, mut pages: Vec<(u64, u64, u32)>) -> Option<PageClasses> {
        pages.retain(|&(first, end, _)| first < end);
        pages.sort_unstable();
        let mut ranges: Vec<(u64, u32)> = Vec::with_capacity(pages.len() + 1);
        let mut last_end = 0;
        for (first, end, class) in pages {
            if first < last_end {
                return None;
            }
            if first > last_end && !ranges.is_empty() {
                ranges.push((last_end, 0));
            }
            ranges.push((first, class));
            last_end = end;
        }
        if !ranges.is_empty() && last_end < u64::MAX {
            ranges.push((last_end, 0));
        }
        PageClasses::from_ranges(names, ranges)
    }

    /// The name of a class, if it has one.
    pub fn name(&self, class: u32) -> Option<&str> {
        let at = usize::try_from(class).ok()?.checked_sub(1)?;
        self.names.get(at).map(String::as_str)
    }

    /// The names of the classes 1, 2, 3, … as far as they have names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The ranges of pages from which the classes follow; none if each reference has a class of its own.
    pub fn ranges(&self) -> &[(u64, u32)] {
        &self.ranges
    }
}

/// What a trace states besides its references; every field may be unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// A name for display.
    pub name: Option<String>,
    /// Bytes in a page.
    pub page_size: Option<u64>,
    /// Pages in the whole database, referenced or not; frame counts given in
    /// percent are percent of this.
    pub database_pages: Option<u64>,
    /// True if the trace was captured below a cache: it has only the references that the cache did not answer.
    pub below_cache: bool,
    /// True if pages have their numbers because names of devices, files or keys were numbered as they appeared: in another trace the
    /// same names have other numbers.
    pub own_numbers: bool,
}

impl Metadata {
    /// True if nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Metadata::default()
    }
}
