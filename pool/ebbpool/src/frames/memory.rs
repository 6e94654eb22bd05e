//! The memory of the frames.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;

/// Frames begin at multiples of this number of bytes, which direct I/O on all known devices accepts.
pub const ALIGNMENT: usize = 4096;

/// Memory of at least this size begins at a multiple of it, so that the system can back it with huge pages. With
/// pages of 4 KiB nearly every fix waits for an address translation.
const HUGE: usize = 2 << 20;

/// The memory of the frames: one block, divided into slots of a page each.
pub struct FrameMemory {
    start: NonNull<u8>,
    layout: Layout,
    page_size: usize,
}

// SAFETY: no other object owns the bytes; the latches decide which thread may access which of them.
unsafe impl Send for FrameMemory {}
// SAFETY: as above.
unsafe impl Sync for FrameMemory {}

impl FrameMemory {
    /// `slots` slots, to be [cleared](Self::clear) before they are used; `None` if there is no memory for them.
    pub(crate) fn new(slots: usize, page_size: usize) -> Option<Self> {
        let size = slots.checked_mul(page_size).filter(|&size| size > 0)?;
        let align = if size < HUGE { ALIGNMENT } else { HUGE };
        let layout = Layout::from_size_align(size, align).ok()?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        ask_for_huge_pages(start, size);
        Some(FrameMemory { start, layout, page_size })
    }

    /// Where the memory begins and its number of bytes, to be registered with a kernel. The bytes may change at any
    /// time.
    pub fn extent(&self) -> (NonNull<u8>, usize) {
        (self.start, self.layout.size())
    }

    /// True if all of the bytes are in this memory.
    pub fn contains(&self, bytes: &[u8]) -> bool {
        let start = self.start.as_ptr() as usize;
        let from = bytes.as_ptr() as usize;
        from >= start && from + bytes.len() <= start + self.layout.size()
    }

    /// Makes slots that no thread uses all zeros.
    pub(crate) fn clear(&self, slots: Range<u32>) {
        let (start, size) = self.part(slots);
        // SAFETY: the bytes are within the block, and no reference to them exists.
        unsafe { start.write_bytes(0, size) };
    }

    /// Gives the memory of slots that no thread uses back to the system. They have to be cleared before they are used again.
    pub(crate) fn release(&self, slots: Range<u32>) {
        let (start, size) = self.part(slots);
        #[cfg(target_os = "linux")]
        {
            use rustix::mm::{Advice, madvise};
            // Whole pages of the system's.
            let skipped = start.as_ptr().align_offset(ALIGNMENT).min(size);
            let size = (size - skipped) / ALIGNMENT * ALIGNMENT;
            // SAFETY: the bytes are within the block, and no reference to them exists.
            let _ = unsafe { madvise(start.add(skipped).as_ptr().cast(), size, Advice::LinuxDontNeed) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (start, size);
    }

    /// Where some slots begin, and their number of bytes.
    fn part(&self, slots: Range<u32>) -> (NonNull<u8>, usize) {
        let at = slots.start as usize * self.page_size;
        let size = slots.len() * self.page_size;
        assert!(at + size <= self.layout.size(), "slots are within the block");
        // SAFETY: as asserted.
        (unsafe { self.start.add(at) }, size)
    }

    pub(super) fn slot(&self, slot: u32) -> NonNull<u8> {
        let at = slot as usize * self.page_size;
        debug_assert!(at < self.layout.size());
        // SAFETY: slots are within the block; `Frames` hands out no other number.
        unsafe { self.start.add(at) }
    }

    /// The bytes of a slot.
    ///
    /// # Safety
    ///
    /// No thread changes them while they are borrowed.
    pub(super) unsafe fn bytes(&self, slot: u32) -> &[u8] {
        // SAFETY: a slot has `page_size` bytes, which were cleared before it is used; the rest is the caller's.
        unsafe { std::slice::from_raw_parts(self.slot(slot).as_ptr(), self.page_size) }
    }

    /// The bytes of a slot.
    ///
    /// # Safety
    ///
    /// No other thread accesses them while they are borrowed.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn bytes_mut(&self, slot: u32) -> &mut [u8] {
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.slot(slot).as_ptr(), self.page_size) }
    }
}

/// Asks for huge pages, before the memory is touched. Without them the pool works too, only slower.
fn ask_for_huge_pages(start: NonNull<u8>, size: usize) {
    #[cfg(target_os = "linux")]
    if size >= HUGE {
        use rustix::mm::{Advice, madvise};
        // SAFETY: the advice changes no byte.
        let _ = unsafe { madvise(start.as_ptr().cast(), size, Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, size);
}

impl Drop for FrameMemory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nothing borrows from it any more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl fmt::Debug for FrameMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameMemory of {} bytes", self.layout.size())
    }
}
