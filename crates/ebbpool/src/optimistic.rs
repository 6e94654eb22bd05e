//! Reading without a latch: nothing is written to shared memory, and whoever was disturbed tries
//! again.

use crate::core::Core;
use crate::sync::{Ordering, fence};

/// A resident page as of a moment, to be read without a latch.
///
/// Bytes that [`read`](Optimistic::read) copies may be of a page that is being changed, or of
/// another one. They mean something only if [`validate`](Optimistic::validate) is true afterwards;
/// until then, follow no length or offset among them without checking it.
pub struct Optimistic<'p> {
    core: &'p Core,
    frame: u32,
    version: u32,
    payload: usize,
}

impl<'p> Optimistic<'p> {
    pub(crate) fn begin(core: &'p Core, page: u64) -> Option<Self> {
        let frame = core.table.find(page, &core.frames)?;
        let version = core.frames.version(frame).ok()?;
        let begun = Optimistic {
            core,
            frame,
            version,
            payload: core.transfer.format().payload(),
        };
        // The number is one of the things that may have changed before the version was read.
        (core.frames.page_in(frame) == page && begun.validate()).then_some(begun)
    }

    /// Copies bytes from `from` on; false, and nothing copied, if they are not within the page.
    pub fn read(&self, from: usize, into: &mut [u8]) -> bool {
        let page_size = self.core.transfer.storage().page_size();
        let end = from.checked_add(self.payload + into.len());
        if end.is_none_or(|end| end > page_size) {
            return false;
        }
        self.core
            .frames
            .copy_unlatched(self.frame, self.payload + from, into);
        true
    }

    /// True if all that was read so far was the page's, as it was at one moment.
    pub fn validate(&self) -> bool {
        // What was read before must not be read after the version.
        fence(Ordering::Acquire);
        self.core.frames.version(self.frame) == Ok(self.version)
    }
}
