//! Where the memory of policies lies: [`RegionAllocator`], and the regions of programs from which it takes memory.
//!
//! Policies allocate with the global allocator, mostly vectors, when they are made. A type for the allocator in each of them
//! (`Vec<T, A>` is not stable yet) would change every policy, and their users. So the allocator of the C library decides by
//! what the thread is doing:
//!
//! * While it makes a policy in a region ([`fill`]), it takes memory from the region, the next bytes each time. Only the
//!   latest block can grow or be given back. What no longer fits comes from the system, and is counted as if it had fitted:
//!   so one pass finds how many bytes a policy needs, in a region of no bytes as well.
//! * During a call for a policy in a region ([`using`]) there should be no allocation. If there is one, the system serves it,
//!   and the call reports that: the policy may now point to memory that other processes do not have. A block of the region is
//!   never given to the system.
//! * Otherwise the system serves.
//!
//! Nothing is remembered about regions: a thread's state has the bounds of the region of the call that it is in, which the
//! policy itself stores. So a region that the program has unmapped, and the addresses of which the system has given to
//! something else, cannot be mistaken for a region. Outside of calls nothing points into a region but what lies in it, since
//! such a policy is never dropped.
//!
//! The state is a plain pointer without a destructor, so that threads allocate nothing for it.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;

use crate::error::Failure;
use crate::policy::PolicyHandle;

/// Blocks are aligned to a divisor of it. Cache lines of all processors have at most that size.
const ALIGNMENT: usize = 128;

/// Bytes of the program: aligned ones of a region.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    start: *mut u8,
    size: usize,
}

/// What a thread is doing for a policy in a region.
struct Placement {
    region: Region,
    /// The policy is being made. Otherwise it is used.
    fills: bool,
    /// The offset of the next block, and the highest one so far.
    next: Cell<usize>,
    highest: Cell<usize>,
    /// The latest block and its offset, unless it was given back.
    latest: Cell<Option<(*mut u8, usize)>>,
    /// A block was taken that belongs into no region.
    strayed: Cell<bool>,
}

thread_local! {
    /// Null outside of [`fill`] and [`using`]; otherwise a value on this thread's stack.
    static CURRENT: Cell<*const Placement> = const { Cell::new(ptr::null()) };
}

/// The allocator of the C library, which takes memory from a region while a policy is made there. A Rust program that links the
/// library without its feature `global-allocator` may make it its own, and otherwise makes no policies in regions.
pub struct RegionAllocator;

impl Region {
    /// No bytes.
    pub(crate) const NONE: Region = Region { start: ptr::null_mut(), size: 0 };

    /// The region of `size` bytes at `start`.
    pub(crate) fn new(start: *mut u8, size: usize) -> Result<Self, Failure> {
        if start.is_null() {
            return Err(Failure::invalid("the region is a null pointer"));
        }
        if size > isize::MAX as usize || start.addr().checked_add(size).is_none() {
            return Err(Failure::invalid(format!("no region has {size} bytes")));
        }
        let skipped = start.align_offset(ALIGNMENT).min(size);
        Ok(Region { start: start.wrapping_add(skipped), size: size - skipped })
    }

    pub(crate) fn is_none(self) -> bool {
        self.start.is_null()
    }

    /// Bytes from its start, which is aligned.
    pub(crate) fn size(self) -> usize {
        self.size
    }

    fn contains(self, at: *mut u8) -> bool {
        at.addr().wrapping_sub(self.start.addr()) < self.size
    }
}

/// The result of making a policy.
pub(crate) struct Filled {
    /// The size that a region needs, wherever it begins; 0 if the program has another allocator.
    pub(crate) bytes: usize,
    /// Some of it would lie outside of every region.
    pub(crate) strayed: bool,
}

/// Runs `make`, which takes memory from the region as far as it reaches.
pub(crate) fn fill<R>(region: Region, make: impl FnOnce() -> R) -> (R, Filled) {
    let placement = Placement::new(region, true);
    let made = placement.during(make);
    let filled = Filled {
        bytes: match placement.highest.get() {
            0 => 0,
            highest => highest + ALIGNMENT - 1,
        },
        strayed: placement.strayed.get(),
    };
    (made, filled)
}

/// Runs a call for a policy that lies in the region, or in none. Returns also whether it allocated memory although the policy
/// lies in a region.
pub(crate) fn using<R>(region: Region, call: impl FnOnce() -> R) -> (R, bool) {
    if region.is_none() {
        return (call(), false);
    }
    let placement = Placement::new(region, false);
    let result = placement.during(call);
    (result, placement.strayed.get())
}

/// Runs a function of the program, which may allocate what it likes, within a call.
#[inline]
pub(crate) fn outside<R>(function: impl FnOnce() -> R) -> R {
    CURRENT.with(|current| {
        let before = current.replace(ptr::null());
        let result = function();
        current.set(before);
        result
    })
}

/// Drops a policy that was made in a region and is not used: its memory outside of the region is given back.
///
/// # Safety
///
/// [`fill`] has made it with this region, and nothing uses it.
pub(crate) unsafe fn release(policy: *mut PolicyHandle, region: Region) {
    // SAFETY: the caller vouches for it; it was made from a box.
    using(region, || drop(unsafe { Box::from_raw(policy) }));
}

impl Placement {
    fn new(region: Region, fills: bool) -> Self {
        Placement {
            region,
            fills,
            next: Cell::new(0),
            highest: Cell::new(0),
            latest: Cell::new(None),
            strayed: Cell::new(false),
        }
    }

    /// Runs a function while this is what the thread is doing, also where it panics.
    fn during<R>(&self, function: impl FnOnce() -> R) -> R {
        struct Before(*const Placement);
        impl Drop for Before {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _before = Before(CURRENT.replace(self));
        function()
    }

    /// A block of the region, or of the system.
    fn alloc(&self, layout: Layout, zeroed: bool) -> *mut u8 {
        let of_system = || match zeroed {
            // SAFETY: the size is not 0, as callers of an allocator vouch for.
            true => unsafe { System.alloc_zeroed(layout) },
            // SAFETY: as above.
            false => unsafe { System.alloc(layout) },
        };
        if !self.fills || layout.align() > ALIGNMENT {
            self.strayed.set(true);
            return of_system();
        }
        let offset = self.next.get().next_multiple_of(layout.align());
        let Some(end) = offset.checked_add(layout.size()) else {
            return ptr::null_mut();
        };
        self.end_at(end);
        let block = match end <= self.region.size {
            true => self.region.start.wrapping_add(offset),
            false => of_system(),
        };
        if zeroed && self.region.contains(block) {
            // SAFETY: these bytes of the region are no block yet.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        self.latest.set(Some((block, offset)));
        block
    }

    fn end_at(&self, end: usize) {
        self.next.set(end);
        self.highest.set(self.highest.get().max(end));
    }

    /// The offset of a block, if it is the latest.
    fn offset_of_latest(&self, block: *mut u8) -> Option<usize> {
        let latest = self.latest.get();
        latest.and_then(|(at, offset)| (at == block).then_some(offset))
    }

    /// # Safety
    ///
    /// As for [`GlobalAlloc::dealloc`].
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(offset) = self.offset_of_latest(block) {
            self.next.set(offset);
            self.latest.set(None);
        }
        if !self.region.contains(block) {
            // SAFETY: it is no block of the region, and so of the system.
            unsafe { System.dealloc(block, layout) };
        }
    }

    /// # Safety
    ///
    /// As for [`GlobalAlloc::realloc`].
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_of_region = self.region.contains(block);
        // SAFETY: the caller vouches for the size.
        let new_layout = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let latest = self.offset_of_latest(block);
        if let Some(offset) = latest {
            let Some(end) = offset.checked_add(size) else {
                return ptr::null_mut();
            };
            self.end_at(end);
            if is_of_region && end <= self.region.size {
                return block;
            }
        } else if size <= layout.size() {
            if is_of_region {
                return block;
            }
        } else {
            let new = self.alloc(new_layout, false);
            // SAFETY: both blocks are valid, apart, and have these bytes.
            return unsafe { self.moved(block, layout, new) };
        }
        let new = match is_of_region {
            // SAFETY: the size is not 0, as the caller vouches for.
            true => unsafe { System.alloc(new_layout) },
            // SAFETY: a block that is not of the region is of the system.
            false => unsafe { System.realloc(block, layout, size) },
        };
        if is_of_region && !new.is_null() {
            // SAFETY: both blocks are valid, apart, and have these bytes.
            unsafe { ptr::copy_nonoverlapping(block, new, layout.size().min(size)) };
        }
        if let Some(offset) = latest
            && !new.is_null()
        {
            self.latest.set(Some((new, offset)));
        }
        new
    }

    /// Moves the bytes of a block into a larger one.
    ///
    /// # Safety
    ///
    /// The first block has this layout; the second one is null or larger.
    unsafe fn moved(&self, block: *mut u8, layout: Layout, new: *mut u8) -> *mut u8 {
        if !new.is_null() {
            // SAFETY: two blocks do not overlap, and both have these bytes; the first one is not used after that.
            unsafe {
                ptr::copy_nonoverlapping(block, new, layout.size());
                self.dealloc(block, layout);
            }
        }
        new
    }
}

/// What the thread is doing for a policy in a region.
#[inline]
fn current<'a>() -> Option<&'a Placement> {
    // SAFETY: not null, it is on the stack of a function that is running in this thread.
    CURRENT.try_with(|it| unsafe { it.get().as_ref() }).ok()?
}

// SAFETY: each block is the system's, or one of the region that no other block overlaps: blocks follow each other, and only the
// latest grows. A block goes back to where it is from. `alloc` of a placement takes sizes that are not 0.
unsafe impl GlobalAlloc for RegionAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match current() {
            // SAFETY: the caller vouches for it.
            None => unsafe { System.alloc(layout) },
            Some(placement) => placement.alloc(layout, false),
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match current() {
            // SAFETY: the caller vouches for it.
            None => unsafe { System.alloc_zeroed(layout) },
            Some(placement) => placement.alloc(layout, true),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match current() {
            // SAFETY: the caller vouches for it, and outside of calls every block is the system's.
            None => unsafe { System.dealloc(block, layout) },
            // SAFETY: the caller vouches for it.
            Some(placement) => unsafe { placement.dealloc(block, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match current() {
            // SAFETY: as for `dealloc`.
            None => unsafe { System.realloc(block, layout, size) },
            // SAFETY: the caller vouches for it.
            Some(placement) => unsafe { placement.realloc(block, layout, size) },
        }
    }
}
