//! The memory of the frames.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ptr::NonNull;

/// Frames begin at multiples of this, as direct I/O asks on every device known.
pub const ALIGNMENT: usize = 4096;

/// Where there are that many bytes they begin at a multiple of this, so that the system can back them
/// with pages of its own of this size: with 4 KiB ones nearly every fix waits for an address to be
/// translated.
const HUGE: usize = 2 << 20;

/// One block of memory, cut into slots of a page each.
pub struct Memory {
    start: NonNull<u8>,
    layout: Layout,
    page_size: usize,
}

// SAFETY: it is bytes that nobody else owns; who may look at which is for the latches to say.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// So many slots, all zeros; nothing if there is no memory for them.
    pub(crate) fn new(slots: usize, page_size: usize) -> Option<Self> {
        let size = slots.checked_mul(page_size).filter(|&size| size > 0)?;
        let align = if size < HUGE { ALIGNMENT } else { HUGE };
        let layout = Layout::from_size_align(size, align).ok()?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        ask_for_huge_pages(start, size);
        // SAFETY: so many bytes were allocated, and nobody has them yet.
        unsafe { start.write_bytes(0, size) };
        Some(Memory {
            start,
            layout,
            page_size,
        })
    }

    /// Where it begins and how many bytes it has, to be registered with a kernel. Its bytes may
    /// change at any time.
    pub fn extent(&self) -> (NonNull<u8>, usize) {
        (self.start, self.layout.size())
    }

    /// True if all of the bytes are in it.
    pub fn contains(&self, bytes: &[u8]) -> bool {
        let start = self.start.as_ptr() as usize;
        let from = bytes.as_ptr() as usize;
        from >= start && from + bytes.len() <= start + self.layout.size()
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
    /// Nobody changes them for as long as they are borrowed.
    pub(super) unsafe fn bytes(&self, slot: u32) -> &[u8] {
        // SAFETY: a slot has `page_size` bytes, which were zeroed at first; the rest is the caller's.
        unsafe { std::slice::from_raw_parts(self.slot(slot).as_ptr(), self.page_size) }
    }

    /// The bytes of a slot.
    ///
    /// # Safety
    ///
    /// Nobody else looks at them for as long as they are borrowed.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn bytes_mut(&self, slot: u32) -> &mut [u8] {
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.slot(slot).as_ptr(), self.page_size) }
    }
}

/// Before the memory is touched. It does as well without, only slower.
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

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nothing borrows from it any more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory of {} bytes", self.layout.size())
    }
}
