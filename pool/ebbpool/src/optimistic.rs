//! Reading a page as of one moment, with a latch only for the time of each copy.

use std::cell::Cell;

use crate::core::PoolShared;

/// A resident page as of one moment. Reading it is not reported to the policy, and makes no other thread wait for
/// long: each [`read`](Optimistic::read) latches the page only while it copies bytes, and compares the page's version
/// to find out whether the page has changed since the first read.
pub struct Optimistic<'p> {
    core: &'p PoolShared,
    frame: u32,
    version: u32,
    payload: usize,
    disturbed: Cell<bool>,
}

impl<'p> Optimistic<'p> {
    pub(crate) fn begin(core: &'p PoolShared, page: u64) -> Option<Self> {
        let frame = core.table.find(page, &core.frames)?;
        let version = core.frames.version(frame).ok()?;
        let begun = Optimistic { core, frame, version, payload: core.transfer.format().payload(), disturbed: Cell::new(false) };
        // The page number, too, may have changed before the version was read.
        (core.frames.page_in(frame) == page && begun.validate()).then_some(begun)
    }

    /// Goes on as of an earlier moment; `None` if the page has changed, is being changed, or was evicted since.
    pub(crate) fn resume(core: &'p PoolShared, page: u64, stamp: u64) -> Option<Self> {
        let frame = ((stamp >> 32) as u32).checked_sub(1)?;
        let payload = core.transfer.format().payload();
        let resumed = Optimistic { core, frame, version: stamp as u32, payload, disturbed: Cell::new(false) };
        (frame < core.frames.count() && core.frames.page_in(frame) == page && resumed.validate()).then_some(resumed)
    }

    /// A number for this moment, by which [`Pool::read_as_of`](crate::Pool::read_as_of) goes on reading; never 0.
    pub fn stamp(&self) -> u64 {
        u64::from(self.frame + 1) << 32 | u64::from(self.version)
    }

    /// Copies bytes from `from` on; false, and nothing copied, if they are not within the page, or the page has
    /// changed, is being changed, or was evicted.
    pub fn read(&self, from: usize, into: &mut [u8]) -> bool {
        let from = from.checked_add(self.payload);
        let Some((from, end)) = from.and_then(|from| Some((from, from.checked_add(into.len())?))) else {
            return false;
        };
        if end > self.core.transfer.storage().page_size() {
            return false;
        }
        let latched = self.core.frames.share(self.frame, false).ok();
        // The version does not change while the latch is held, and the same version means the same bytes
        // (`word.rs`, 5).
        let same = latched.filter(|_| self.core.frames.version_now(self.frame) == self.version);
        match same.as_ref().and_then(|(latch, _)| latch.bytes().get(from..end)) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => self.disturbed.set(true),
        }
        !self.disturbed.get()
    }

    /// True if the page is as it was when it was first read.
    pub fn validate(&self) -> bool {
        !self.disturbed.get() && self.core.frames.version(self.frame) == Ok(self.version)
    }
}
