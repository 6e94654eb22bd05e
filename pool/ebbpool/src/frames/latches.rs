//! Latches, which give the only access to a frame's bytes.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::{ptr, thread};

use super::{FrameState, Frames, HitStatus, LatchRefusal};
use crate::log::Lsn;
use crate::sync::Ordering;

/// A shared latch: the page stays resident and does not change. `F` is how it has the frames.
pub(crate) struct Shared<F: Deref<Target = Frames>> {
    frames: F,
    frame: u32,
}

pub(crate) type SharedLatch<'f> = Shared<&'f Frames>;

/// The exclusive latch of a page that is being changed. A thread that panics while it has one may leave the page half
/// changed: then the page is abandoned.
pub(crate) struct Exclusive<F: Deref<Target = Frames>> {
    frames: F,
    held: LatchedFrame,
}

pub(crate) type ExclusiveLatch<'f> = Exclusive<&'f Frames>;

/// A frame, and whether the thread was already panicking when it took the latch, and so uses the page to clean up.
/// Both are in one word, so that a latch is passed between functions in registers.
#[derive(Clone, Copy)]
struct LatchedFrame(u32);

impl LatchedFrame {
    const PANICKING: u32 = 1 << 31;

    #[inline]
    fn new(frame: u32) -> Self {
        debug_assert!(frame < Self::PANICKING, "there are fewer frames");
        match thread::panicking() {
            true => LatchedFrame(frame | Self::PANICKING),
            false => LatchedFrame(frame),
        }
    }

    #[inline]
    fn frame(self) -> u32 {
        self.0 & !Self::PANICKING
    }

    fn was_panicking(self) -> bool {
        self.0 & Self::PANICKING != 0
    }
}

/// The exclusive latch of a frame whose page is being evicted or loaded. It is released by one of the methods that
/// consume it.
#[must_use]
pub(crate) struct ClaimedFrame<'f> {
    frames: &'f Frames,
    frame: u32,
}

impl Frames {
    /// Fetches a frame's header, and the byte of its page at `offset`, into the processor's cache.
    pub(crate) fn prefetch(&self, frame: u32, offset: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let header: *const super::FrameHeader = self.header(frame);
            let byte = self.memory.slot(frame).as_ptr().wrapping_add(offset);
            // SAFETY: it reads nothing, whatever the address, and SSE is in every processor of this kind.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(header.cast());
                _mm_prefetch::<_MM_HINT_T0>(byte.cast());
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (frame, offset);
    }

    /// A shared latch, and true if the page is fresh. A `polite` reader lets waiting writers go first.
    pub(crate) fn share(&self, frame: u32, polite: bool) -> Result<(SharedLatch<'_>, bool), LatchRefusal> {
        let fresh = self.header(frame).word.share(polite)?;
        let frames = self;
        Ok((SharedLatch { frames, frame }, fresh))
    }

    /// A shared latch for a caller that fixes the page. A `polite` reader lets waiting writers go first.
    #[inline]
    pub(crate) fn fix(&self, frame: u32, polite: bool) -> Result<(SharedLatch<'_>, HitStatus), LatchRefusal> {
        let fixed = self.header(frame).word.fix(polite, self.epoch())?;
        let frames = self;
        Ok((SharedLatch { frames, frame }, fixed))
    }

    /// The exclusive latch, to change the page. A thread that is not `in_turn` lets an elder go first that
    /// has its turn.
    #[inline]
    pub(crate) fn exclude(&self, frame: u32, in_turn: bool) -> Result<(ExclusiveLatch<'_>, HitStatus), LatchRefusal> {
        let excluded = self.header(frame).word.exclude(in_turn, self.epoch())?;
        if excluded.was_clean {
            self.became_dirty(frame);
        }
        Ok((ExclusiveLatch::new(self, frame), excluded.fixed))
    }

    /// Notes that a page that was read ahead, in a frame that the caller has latched, is fixed now: true for the
    /// first caller.
    pub(crate) fn take_fresh(&self, frame: u32) -> bool {
        self.header(frame).word.take_fresh()
    }

    /// Latches an empty frame for a page to be loaded.
    pub(crate) fn claim(&self, frame: u32) -> Option<ClaimedFrame<'_>> {
        let claimed = self.header(frame).word.claim();
        claimed.then_some(ClaimedFrame { frames: self, frame })
    }

    /// Latches a page that is to be evicted, if it is unpinned; returns also whether it is dirty.
    pub(crate) fn claim_victim(&self, frame: u32) -> Option<(ClaimedFrame<'_>, bool)> {
        let dirty = self.header(frame).word.claim_victim()?;
        Some((ClaimedFrame { frames: self, frame }, dirty))
    }

    /// Latches a page that is to be dropped as it is.
    pub(crate) fn claim_to_drop(&self, frame: u32) -> Result<ClaimedFrame<'_>, LatchRefusal> {
        self.header(frame).word.claim_to_drop()?;
        Ok(ClaimedFrame { frames: self, frame })
    }
}

macro_rules! latch {
    ([$($generics:tt)*] $latch:ty) => {
        impl<$($generics)*> $latch {
            #[inline]
            pub(crate) fn page(&self) -> u64 {
                self.frames.page_in(self.frame())
            }

            /// The LSN of the page's latest change.
            pub(crate) fn lsn(&self) -> Lsn {
                self.frames.details(self.frame()).lsn.load(Ordering::Relaxed)
            }
        }
    };
}

latch!([F: Deref<Target = Frames>] Shared<F>);
latch!([F: Deref<Target = Frames>] Exclusive<F>);
latch!([] ClaimedFrame<'_>);

impl<F: Deref<Target = Frames>> Shared<F> {
    /// Other holders of the latch may begin to write the page, or end writing it.
    pub(crate) fn state(&self) -> FrameState {
        self.frames.state(self.frame)
    }

    #[inline]
    pub(crate) fn frame(&self) -> u32 {
        self.frame
    }

    pub(crate) fn is_of(&self, frames: &Frames) -> bool {
        ptr::eq(&*self.frames, frames)
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the thread that changes the bytes has the exclusive latch, which excludes this one (`word.rs`, 1).
        unsafe { self.frames.memory.bytes(self.frame) }
    }
}

impl<F: Deref<Target = Frames>> Shared<F> {
    /// The parts of the latch, which stays held.
    fn into_parts(self) -> (F, u32) {
        let held = ManuallyDrop::new(self);
        // SAFETY: the latch is not dropped, and so what it has is moved out once.
        (unsafe { ptr::read(&raw const held.frames) }, held.frame)
    }

    /// The same latch, which has the same frames in another way.
    pub(crate) fn with<G: Deref<Target = Frames>>(self, frames: G) -> Shared<G> {
        assert!(self.is_of(&frames), "the page is of another pool");
        let (_, frame) = self.into_parts();
        Shared { frames, frame }
    }

    /// Makes this the exclusive latch, to change the page, if there is no other latch.
    pub(crate) fn upgrade(self) -> Result<(Exclusive<F>, HitStatus), Self> {
        let Ok(excluded) = self.frames.header(self.frame).word.upgrade(self.frames.epoch()) else {
            return Err(self);
        };
        if excluded.was_clean {
            self.frames.became_dirty(self.frame);
        }
        let (frames, frame) = self.into_parts();
        Ok((Exclusive::new(frames, frame), excluded.fixed))
    }
}

impl<F: Deref<Target = Frames>> Drop for Shared<F> {
    #[inline]
    fn drop(&mut self) {
        if self.frames.header(self.frame).word.unshare() {
            self.frames.wake(self.frame);
        }
    }
}

impl<F: Deref<Target = Frames>> Exclusive<F> {
    #[inline]
    fn new(frames: F, frame: u32) -> Self {
        let held = LatchedFrame::new(frame);
        Exclusive { frames, held }
    }

    #[inline]
    fn frame(&self) -> u32 {
        self.held.frame()
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the latch is exclusive, and changing the bytes borrows it mutably.
        unsafe { self.frames.memory.bytes(self.frame()) }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the latch is exclusive, and it is borrowed for as long as the bytes.
        unsafe { self.frames.memory.bytes_mut(self.frame()) }
    }

    /// The page was changed, and the log has the change at `lsn`.
    pub(crate) fn set_lsn(&mut self, lsn: Lsn) {
        let details = self.frames.details(self.frame());
        details.lsn.store(lsn, Ordering::Relaxed);
        self.frames.note_first_lsn(self.frame(), lsn);
    }

    /// The changes of the page that were discarded have been redone.
    pub(crate) fn redone(&mut self) {
        let (page, discarded) = (self.page(), &self.frames.discarded);
        if let Some(first) = discarded.first_of(page) {
            // The changes are not in storage, whatever their LSNs are. A checkpoint finds the LSN in one place or the
            // other.
            self.frames.note_first_lsn(self.frame(), first);
            discarded.forget(page);
        }
    }

    /// Makes this a shared latch, so that other threads may read.
    pub(crate) fn downgrade(self) -> Shared<F> {
        let (frames, held) = self.into_parts();
        let frame = held.frame();
        if frames.header(frame).word.downgrade() {
            frames.wake(frame);
        }
        Shared { frames, frame }
    }

    /// The parts of the latch, which stays held.
    fn into_parts(self) -> (F, LatchedFrame) {
        let latch = ManuallyDrop::new(self);
        // SAFETY: the latch is not dropped, and so what it has is moved out once.
        (unsafe { ptr::read(&raw const latch.frames) }, latch.held)
    }

    /// The same latch, which has the same frames in another way.
    pub(crate) fn with<G: Deref<Target = Frames>>(self, frames: G) -> Exclusive<G> {
        assert!(ptr::eq(&*self.frames, &*frames), "the page is of another pool");
        let (_, held) = self.into_parts();
        Exclusive { frames, held }
    }

    /// Marks the page abandoned, before the latch is released: a checkpoint that waits for the latch reads the first
    /// LSN then.
    #[cold]
    fn abandon(&self) {
        if !self.held.was_panicking() {
            self.frames.note_unknown_lsn(self.frame());
            self.frames.header(self.frame()).word.abandon();
        }
    }
}

impl<F: Deref<Target = Frames>> Drop for Exclusive<F> {
    #[inline]
    fn drop(&mut self) {
        if thread::panicking() {
            self.abandon();
        }
        let frame = self.frame();
        if self.frames.header(frame).word.unexclude() {
            self.frames.wake(frame);
        }
    }
}

impl<'f> ClaimedFrame<'f> {
    pub(crate) fn frame(&self) -> u32 {
        self.frame
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the latch is exclusive, and it is borrowed for as long as the bytes.
        unsafe { self.frames.memory.bytes_mut(self.frame) }
    }

    /// The page in the frame was evicted; `page` is about to be loaded.
    pub(crate) fn begin_load(&mut self, page: u64) {
        let header = self.frames.header(self.frame);
        let details = self.frames.details(self.frame);
        header.word.begin_load();
        self.frames.became_clean(self.frame);
        self.frames.changes[self.frame as usize].forget();
        header.page.store(page, Ordering::Relaxed);
        details.lsn.store(0, Ordering::Relaxed);
        details.admissions.fetch_add(1, Ordering::Relaxed);
    }

    /// Undoes an eviction: `page` is in the frame again, and as dirty as it was.
    pub(crate) fn undo_load(&mut self, page: u64, lsn: Lsn, first_lsn: Lsn) {
        let header = self.frames.header(self.frame);
        let details = self.frames.details(self.frame);
        header.page.store(page, Ordering::Relaxed);
        details.lsn.store(lsn, Ordering::Relaxed);
        details.admissions.fetch_add(1, Ordering::Relaxed);
        header.word.loaded(false);
        header.word.change();
        // The age of its changes is as before.
        self.frames.dirty.insert(self.frame);
        self.frames.changes[self.frame as usize].set_first(first_lsn);
    }

    /// The page of another frame is in this one from now on, as it is there, and that one is about to be emptied. A list of dirty
    /// frames that is made meanwhile may lack the page.
    pub(crate) fn take_over(&mut self, from: &mut ClaimedFrame<'_>) {
        let (page, frames) = (from.page(), self.frames);
        self.begin_load(page);
        self.bytes_mut().copy_from_slice(from.bytes_mut());
        frames.details(self.frame).lsn.store(from.lsn(), Ordering::Relaxed);
        frames.changes[self.frame as usize].take_over(&frames.changes[from.frame as usize]);
        frames.header(self.frame).word.settle(&frames.header(from.frame).word);
        if frames.state(self.frame).is_changed() {
            frames.dirty.insert(self.frame);
        }
    }

    /// The page is loaded, with the LSN that it was written with.
    pub(crate) fn loaded(&mut self, lsn: Lsn, fresh: bool) {
        let header = self.frames.header(self.frame);
        let details = self.frames.details(self.frame);
        details.lsn.store(lsn, Ordering::Relaxed);
        header.word.loaded(fresh);
    }

    /// The page is loaded, and dirty, because it is not as in storage, although no caller has changed it.
    pub(crate) fn loaded_dirty(&mut self, lsn: Lsn) {
        self.loaded(lsn, false);
        if self.frames.header(self.frame).word.change() {
            self.frames.became_dirty(self.frame);
        }
    }

    /// Makes this a shared latch: the caller and other threads may read the page.
    pub(crate) fn into_shared(self) -> SharedLatch<'f> {
        ExclusiveLatch::new(self.frames, self.frame).downgrade()
    }

    /// Makes this an exclusive latch to change the page.
    pub(crate) fn into_exclusive(self) -> ExclusiveLatch<'f> {
        if self.frames.header(self.frame).word.change() {
            self.frames.became_dirty(self.frame);
        }
        ExclusiveLatch::new(self.frames, self.frame)
    }

    /// Releases the latch.
    pub(crate) fn release(self) {
        drop(ExclusiveLatch::new(self.frames, self.frame));
    }

    /// Empties the frame.
    pub(crate) fn vacate(self) {
        self.frames.changes[self.frame as usize].forget();
        let wake = self.frames.header(self.frame).word.vacate();
        self.frames.became_clean(self.frame);
        if wake {
            self.frames.wake(self.frame);
        }
    }
}
