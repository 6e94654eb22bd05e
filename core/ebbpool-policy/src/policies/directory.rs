//! The cache directory of ARC and CAR: resident pages referenced once (T1) and more often (T2), and
//! as many page numbers again of pages evicted from each (B1, B2).

use std::hint::black_box;

use crate::ghost_queues::GhostQueues;
use crate::lists::FrameLists;
use crate::policy::{Frame, Ghost, Page};

pub(crate) const T1: usize = 0;
pub(crate) const T2: usize = 1;
const B1: usize = T1;
const B2: usize = T2;

/// The four lists, and p, the target size of T1.
///
/// T1 and B1 together hold at most as many pages as there are frames, all four at most twice as
/// many. A page that cannot be admitted because every frame is pinned stays in B1 or B2.
pub(crate) struct Directory {
    pub(crate) lists: FrameLists<2>,
    in_t2: Vec<bool>,
    pages: Vec<Page>,
    remembered: GhostQueues<3>,
    /// Where the page missed last is remembered, until it is admitted.
    missed: Option<(Ghost, usize)>,
    frames: u32,
    /// p, in pages, not rounded.
    target: f64,
}

impl Directory {
    pub(crate) fn new(frames: u32) -> Self {
        Directory {
            lists: FrameLists::new(frames),
            in_t2: vec![false; frames as usize],
            pages: vec![0; frames as usize],
            // The victim is remembered before room is made among the ghosts.
            remembered: GhostQueues::new(frames + 1),
            missed: None,
            frames,
            target: 0.0,
        }
    }

    /// p, the target size of T1 in pages.
    #[inline]
    pub(crate) fn target(&self) -> f64 {
        self.target
    }

    /// [`T1`] or [`T2`].
    #[inline]
    pub(crate) fn list_of(&self, frame: Frame) -> usize {
        usize::from(self.in_t2[frame as usize])
    }

    /// Every ghost is below it.
    pub(crate) fn most_ghosts(&self) -> u32 {
        self.remembered.capacity()
    }

    /// `page` is missed: looks it up in B1 and B2.
    #[inline]
    pub(crate) fn miss(&mut self, page: Page, ghost: Option<Ghost>) {
        self.missed = ghost.and_then(|ghost| {
            let queue = self.remembered.queue_of(ghost, page)?;
            Some((ghost, queue))
        });
    }

    /// True if B2 remembers the page missed last.
    #[inline]
    pub(crate) fn missed_is_in_b2(&self) -> bool {
        matches!(self.missed, Some((_, B2)))
    }

    /// Moves p according to the page missed last: up if it is in B1, down if in B2, by the ratio of
    /// their sizes but at least by one page.
    #[inline]
    pub(crate) fn adapt(&mut self) {
        let Some((_, queue)) = self.missed else {
            return;
        };
        let b1 = f64::from(self.remembered.len(B1));
        let b2 = f64::from(self.remembered.len(B2));
        self.target = if queue == B1 {
            (self.target + (b2 / b1).max(1.0)).min(f64::from(self.frames))
        } else {
            (self.target - (b1 / b2).max(1.0)).max(0.0)
        };
    }

    /// Moves the page to T2's MRU end.
    #[inline]
    pub(crate) fn move_to_t2(&mut self, frame: Frame) {
        self.lists.remove(self.list_of(frame), frame);
        self.lists.push_mru(T2, frame);
        self.in_t2[frame as usize] = true;
    }

    /// Admits the page missed last: to T2 if it was remembered, else to T1, for which B1 or B2
    /// forgets its oldest page if the directory is full.
    #[inline]
    pub(crate) fn admit(&mut self, frame: Frame, page: Page) {
        let missed = self.missed.take();
        match missed {
            Some((ghost, _)) => self.remembered.forget(ghost, page),
            None => self.make_room(),
        }
        self.in_t2[frame as usize] = missed.is_some();
        self.pages[frame as usize] = page;
        self.lists.push_mru(self.list_of(frame), frame);
    }

    #[inline]
    fn make_room(&mut self) {
        let once = self.lists.len(T1) + self.remembered.len(B1);
        let more = self.lists.len(T2) + self.remembered.len(B2);
        if once >= self.frames {
            self.remembered.forget_oldest(B1);
        } else if u64::from(once) + u64::from(more) >= 2 * u64::from(self.frames) {
            self.remembered.forget_oldest(B2);
        }
    }

    /// Gives up admitting the page missed last, and returns its ghost if the directory remembers it.
    pub(crate) fn not_admitted(&mut self) -> Option<Ghost> {
        self.missed.take().map(|(ghost, _)| ghost)
    }

    /// Remembers the page in `frame`, which is about to be evicted, in B1 or B2; returns its ghost.
    #[inline]
    pub(crate) fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        let queue = self.list_of(frame);
        self.remembered.put(queue, self.pages[frame as usize])
    }

    /// Removes the frame of an evicted page from T1 or T2.
    #[inline]
    pub(crate) fn evicted(&mut self, frame: Frame) {
        self.lists.remove(self.list_of(frame), frame);
    }

    /// Loads what a hit of the page in `frame` reads into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, frame: Frame) {
        black_box(self.in_t2[frame as usize]);
        self.lists.prefetch(frame);
    }

    /// Loads what a miss of a remembered page reads into the processor's cache.
    #[inline]
    pub(crate) fn prefetch_ghost(&self, ghost: Ghost) {
        self.remembered.prefetch(ghost);
    }
}
