//! An LRU list cut in two: the pages used most recently, and the window at the LRU end in which a
//! policy looks for victims (CFLRU and its variants).

use std::hint::black_box;

use crate::heap::IndexedHeap;
use crate::lists::{CleanCursor, FrameLists, LOOK_AHEAD};
use crate::policy::{Access, Frame};

const WORKING: usize = 0;
const WINDOW: usize = 1;

/// The two regions. While the buffer is full the window holds exactly its share of the frames.
struct Regions {
    lists: FrameLists<2>,
    in_window: Vec<bool>,
    working_size: u32,
}

impl Regions {
    /// Regions over `frames` frames, `window` of them in the window.
    pub(crate) fn new(frames: u32, window: u32) -> Self {
        Regions {
            lists: FrameLists::new(frames),
            in_window: vec![false; frames as usize],
            working_size: frames - window.min(frames),
        }
    }

    /// Loads what a hit of the page in `frame` reads into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, frame: Frame) {
        black_box(self.in_window[frame as usize]);
        self.lists.prefetch(frame);
    }

    #[inline]
    pub(crate) fn in_window(&self, frame: Frame) -> bool {
        self.in_window[frame as usize]
    }

    /// A hit in the working region.
    #[inline]
    pub(crate) fn touch(&mut self, frame: Frame) {
        self.lists.move_to_mru(WORKING, frame);
    }

    /// `frame` enters the working region; returns the frame that this pushes out to the window,
    /// which is `frame` itself if the working region has no room at all.
    #[inline]
    pub(crate) fn enter(&mut self, frame: Frame) -> Option<Frame> {
        self.lists.push_mru(WORKING, frame);
        self.in_window[frame as usize] = false;
        if self.lists.len(WORKING) <= self.working_size {
            return None;
        }
        let demoted = self.lists.lru(WORKING)?;
        self.lists.remove(WORKING, demoted);
        self.lists.push_mru(WINDOW, demoted);
        self.in_window[demoted as usize] = true;
        Some(demoted)
    }

    /// `frame` leaves its region.
    #[inline]
    pub(crate) fn leave(&mut self, frame: Frame) {
        let region = if self.in_window(frame) { WINDOW } else { WORKING };
        self.lists.remove(region, frame);
    }

    /// The page in `from` is in `to` now.
    fn moved(&mut self, from: Frame, to: Frame) {
        self.lists.replace(from, to);
        self.in_window[to as usize] = self.in_window[from as usize];
    }

    /// From now on there are that many frames, `window` of them in the window.
    fn resize(&mut self, frames: u32, window: u32) {
        self.lists.resize(frames);
        self.in_window.resize(frames as usize, false);
        self.working_size = frames - window.min(frames);
        while self.lists.len(WORKING) > self.working_size
            && let Some(demoted) = self.lists.lru(WORKING)
        {
            self.lists.remove(WORKING, demoted);
            self.lists.push_mru(WINDOW, demoted);
            self.in_window[demoted as usize] = true;
        }
        while self.lists.len(WORKING) < self.working_size
            && let Some(promoted) = self.lists.mru(WINDOW)
        {
            self.lists.remove(WINDOW, promoted);
            self.lists.push_lru(WORKING, promoted);
            self.in_window[promoted as usize] = false;
        }
    }

    /// The frame nearest the LRU end of the whole list that may be evicted.
    #[inline]
    pub(crate) fn lru(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.lists.find_from_lru(WINDOW, &may_evict).or_else(|| self.working_lru(may_evict))
    }

    /// The frame nearest the LRU end of the working region that may be evicted.
    #[inline]
    pub(crate) fn working_lru(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.lists.find_from_lru(WORKING, may_evict)
    }
}

/// The regions of policies that evict the clean page nearest the LRU end of the window first.
pub(crate) struct CleanFirst {
    regions: Regions,
    cursor: CleanCursor,
    dirty: Vec<bool>,
}

impl CleanFirst {
    /// Regions over `frames` frames, `window` of them in the window.
    pub(crate) fn new(frames: u32, window: u32) -> Self {
        CleanFirst {
            regions: Regions::new(frames, window),
            cursor: CleanCursor::default(),
            dirty: vec![false; frames as usize],
        }
    }

    /// Loads what a hit of the page in `frame` reads into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, frame: Frame) {
        black_box(self.dirty[frame as usize]);
        self.regions.prefetch(frame);
    }

    #[inline]
    pub(crate) fn in_window(&self, frame: Frame) -> bool {
        self.regions.in_window(frame)
    }

    #[inline]
    pub(crate) fn is_dirty(&self, frame: Frame) -> bool {
        self.dirty[frame as usize]
    }

    /// A hit in the working region.
    #[inline]
    pub(crate) fn touch(&mut self, frame: Frame, access: Access) {
        self.dirty[frame as usize] |= access.is_write();
        self.regions.touch(frame);
    }

    /// A page that was in no region, `dirty` or not, enters the working region. Returns the frame
    /// that this pushes out to the window.
    #[inline]
    pub(crate) fn enter(&mut self, frame: Frame, dirty: bool) -> Option<Frame> {
        self.dirty[frame as usize] = dirty;
        let demoted = self.regions.enter(frame)?;
        self.cursor.entered(demoted);
        Some(demoted)
    }

    /// `frame` leaves its region.
    #[inline]
    pub(crate) fn leave(&mut self, frame: Frame) {
        if self.regions.in_window(frame) {
            self.cursor.before_unlink(&self.regions.lists, frame, self.dirty[frame as usize]);
        }
        self.regions.leave(frame);
    }

    /// The page in `from` is in `to` now.
    pub(crate) fn moved(&mut self, from: Frame, to: Frame) {
        self.regions.moved(from, to);
        self.cursor.moved(from, to);
        self.dirty[to as usize] = self.dirty[from as usize];
    }

    /// From now on there are that many frames, `window` of them in the window.
    pub(crate) fn resize(&mut self, frames: u32, window: u32) {
        self.regions.resize(frames, window);
        self.cursor = CleanCursor::at(self.regions.lists.lru(WINDOW));
        self.dirty.resize(frames as usize, false);
    }

    /// The clean frame nearest the LRU end of the window that may be evicted.
    #[inline]
    pub(crate) fn clean(&mut self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let dirty = |frame: Frame| self.dirty[frame as usize];
        self.cursor.find(&self.regions.lists, dirty, may_evict)
    }

    /// The frame nearest the LRU end of the whole list that may be evicted.
    #[inline]
    pub(crate) fn lru(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.regions.lru(may_evict)
    }

    /// The page in `frame` became dirty and stays where it is: the cursor passes over it.
    pub(crate) fn wrote(&mut self, frame: Frame) {
        self.dirty[frame as usize] = true;
    }

    /// The frames in the order in which they would be evicted.
    pub(crate) fn coming(&self) -> impl Iterator<Item = Frame> {
        let lists = &self.regions.lists;
        let in_window = |dirty: bool| {
            let frames = lists.frames(WINDOW).take(LOOK_AHEAD);
            frames.filter(move |&frame| self.dirty[frame as usize] == dirty)
        };
        in_window(false).chain(in_window(true)).chain(lists.frames(WORKING))
    }

    /// The page in `frame` was written back and stays resident.
    pub(crate) fn cleaned(&mut self, frame: Frame) {
        self.dirty[frame as usize] = false;
        if self.regions.in_window(frame) {
            self.cursor.cleaned(&self.regions.lists, WINDOW);
        }
    }
}

/// The regions of policies that, where the window has no clean page, evict its dirty page with the
/// least count of something, among equals the one nearest the LRU end.
pub(crate) struct CleanThenLeast {
    regions: CleanFirst,
    counts: Vec<u32>,
    /// The window's dirty pages by (count, order of entry).
    least: IndexedHeap<(u32, u64)>,
    entries: u64,
}

impl CleanThenLeast {
    /// Regions over `frames` frames, `window` of them, at least one, in the window.
    pub(crate) fn new(frames: u32, window: u32) -> Self {
        let window = window.max(1);
        CleanThenLeast {
            regions: CleanFirst::new(frames, window),
            counts: vec![0; frames as usize],
            least: IndexedHeap::new(frames, window),
            entries: 0,
        }
    }

    /// Loads what a hit of the page in `frame` reads into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, frame: Frame) {
        self.regions.prefetch(frame);
    }

    #[inline]
    pub(crate) fn count(&self, frame: Frame) -> u32 {
        self.counts[frame as usize]
    }

    /// Sets the count of `frame`.
    #[inline]
    pub(crate) fn set_count(&mut self, frame: Frame, count: u32) {
        self.counts[frame as usize] = count;
        if let Some((_, entry)) = self.least.key(frame) {
            self.least.set(frame, (count, entry));
        }
    }

    /// A page that was in no region, `dirty` or not, becomes the most recent.
    #[inline]
    pub(crate) fn enter(&mut self, frame: Frame, dirty: bool) {
        if let Some(demoted) = self.regions.enter(frame, dirty) {
            self.entries += 1;
            if self.regions.is_dirty(demoted) {
                let key = (self.counts[demoted as usize], self.entries);
                self.least.set(demoted, key);
            }
        }
    }

    /// `frame` leaves its region.
    #[inline]
    pub(crate) fn leave(&mut self, frame: Frame) {
        self.least.remove(frame);
        self.regions.leave(frame);
    }

    #[inline]
    pub(crate) fn hit(&mut self, frame: Frame, access: Access) {
        if self.regions.in_window(frame) {
            let dirty = self.regions.is_dirty(frame) || access.is_write();
            self.leave(frame);
            self.enter(frame, dirty);
        } else {
            self.regions.touch(frame, access);
        }
    }

    #[inline]
    pub(crate) fn victim(&mut self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.regions.clean(&may_evict).or_else(|| self.least.least_where(&may_evict)).or_else(|| self.regions.lru(may_evict))
    }

    /// The page in `frame` was written back and stays resident.
    pub(crate) fn cleaned(&mut self, frame: Frame) {
        self.least.remove(frame);
        self.regions.cleaned(frame);
    }
}
