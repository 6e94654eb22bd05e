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
}

impl Batch {
    /// An empty batch that holds no memory yet.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// An empty batch with room for `references` references.
    pub fn with_capacity(references: usize) -> Batch {
        Batch {
            pages: Vec::with_capacity(references),
            writes: Vec::with_capacity(references),
        }
    }

    /// Removes the references without freeing the memory.
    pub fn clear(&mut self) {
        self.pages.clear();
        self.writes.clear();
    }

    /// Number of references.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// True if there are no references.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Appends one reference.
    #[inline]
    pub fn push(&mut self, page: u64, write: bool) {
        self.pages.push(page);
        self.writes.push(write);
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
        Batch { pages, writes }
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
}

impl Metadata {
    /// True if nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Metadata::default()
    }
}
