//! Page buffers with the alignment that storages require.

use crate::frames::ALIGNMENT;

/// Zeroed pages, each of them aligned to [`ALIGNMENT`], or to its size if that is less.
pub(super) struct AlignedPages {
    bytes: Vec<u8>,
    start: usize,
    page_size: usize,
}

impl AlignedPages {
    pub(super) fn new(count: usize, page_size: usize) -> Self {
        let bytes = vec![0; count * page_size + ALIGNMENT];
        // The bytes are never moved, since the vector does not grow.
        let start = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        AlignedPages { bytes, start, page_size }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes[self.start..self.bytes.len() - (ALIGNMENT - self.start)].chunks_exact(self.page_size)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let end = self.bytes.len() - (ALIGNMENT - self.start);
        self.bytes[self.start..end].chunks_exact_mut(self.page_size)
    }
}
