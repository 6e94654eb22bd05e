//! LIRS's stack and queue (Jiang and Zhang 2002), which LIRS and LIRS-WSR share.

use prefetch_index::prefetch_index;

use crate::ghost_queues::GhostQueues;
use crate::lists::FrameLists;
use crate::policy::{Frame, Ghost, MOST_GHOSTS, Page};
use crate::spec::{ParameterKind, PolicyParameter};

/// The share of the frames for pages of high inter-reference recency.
pub(super) const HIR: PolicyParameter = PolicyParameter {
    name: "hir",
    kind: ParameterKind::Share,
    default: "0.01",
    about: "share of the frames, at least one, for pages of high inter-reference recency",
};

const ALL: usize = 0;

/// The pages of low inter-reference recency (LIR), those of high (HIR), and ghosts.
///
/// The stack holds, in order of their last reference, the LIR pages, and those HIR pages and
/// ghosts that were referenced after the LIR page at its bottom; it is empty if there are no LIR
/// pages. The queue holds the HIR pages. A page referenced while it is in the stack becomes LIR.
pub(super) struct RecencySets {
    /// Frames, and behind them ghosts, from the bottom to the top.
    stack: FrameLists<1>,
    queue: FrameLists<1>,
    status: Vec<Status>,
    pages: Vec<Page>,
    /// In order of eviction.
    ghosts: GhostQueues<2>,
    /// The ghost of the page missed last.
    incoming: Option<Ghost>,
    frames: u32,
    lir: u32,
    most_lir: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Lir,
    HirInStack,
    Hir,
}

impl RecencySets {
    /// Empty sets over `frames` frames, `hir` of them for HIR pages.
    pub(super) fn new(frames: u32, hir: u32) -> Self {
        let ghosts = frames.saturating_mul(2).min(MOST_GHOSTS);
        RecencySets {
            stack: FrameLists::new(frames + ghosts),
            queue: FrameLists::new(frames),
            status: vec![Status::Hir; frames as usize],
            pages: vec![0; frames as usize],
            ghosts: GhostQueues::new(ghosts),
            incoming: None,
            frames,
            lir: 0,
            most_lir: frames - hir.clamp(1, frames),
        }
    }

    #[inline]
    pub(super) fn hit(&mut self, frame: Frame) {
        match self.status[frame as usize] {
            Status::Lir => {
                self.stack.move_to_mru(ALL, frame);
                self.prune();
            }
            Status::HirInStack => self.promote(frame, |_| true),
            Status::Hir => {
                self.queue.move_to_mru(ALL, frame);
                self.enter_stack(frame);
            }
        }
    }

    /// Every ghost is below it.
    pub(super) fn most_ghosts(&self) -> u32 {
        self.ghosts.capacity()
    }

    #[inline]
    pub(super) fn miss(&mut self, page: Page, ghost: Option<Ghost>) {
        self.incoming = ghost.filter(|&ghost| self.ghosts.queue_of(ghost, page).is_some());
    }

    #[inline]
    pub(super) fn prefetch(&self, frame: Frame) {
        prefetch_index(&self.status, frame as usize);
        self.stack.prefetch(frame);
    }

    #[inline]
    pub(super) fn prefetch_ghost(&self, ghost: Ghost) {
        self.ghosts.prefetch(ghost);
        self.stack.prefetch(self.frames + ghost);
    }

    /// The HIR page that entered the queue first, or the lowest LIR page if none of the queue may
    /// be evicted.
    #[inline]
    pub(super) fn victim(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.queue.find_from_lru(ALL, &may_evict).or_else(|| self.lowest_lir(may_evict))
    }

    #[inline]
    pub(super) fn admit(&mut self, frame: Frame, page: Page) {
        self.pages[frame as usize] = page;
        self.status[frame as usize] = Status::Hir;
        self.queue.push_mru(ALL, frame);
        let ghost = self.incoming.take();
        let ghost = ghost.filter(|&ghost| self.ghosts.queue_of(ghost, page).is_some());
        if let Some(ghost) = ghost {
            self.forget(ghost);
        }
        if ghost.is_some() || self.lir < self.most_lir {
            self.promote(frame, |_| true);
        } else {
            self.enter_stack(frame);
        }
    }

    pub(super) fn not_admitted(&mut self) -> Option<Ghost> {
        self.incoming.take()
    }

    #[inline]
    pub(super) fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        if self.status[frame as usize] != Status::HirInStack || !self.ghosts.has_room() {
            return None;
        }
        let ghost = self.ghosts.put(ALL, self.pages[frame as usize])?;
        self.stack.replace(frame, self.frames + ghost);
        self.status[frame as usize] = Status::Hir;
        Some(ghost)
    }

    #[inline]
    pub(super) fn evicted(&mut self, frame: Frame) {
        let status = self.status[frame as usize];
        if status == Status::Lir {
            self.lir -= 1;
        } else {
            self.queue.remove(ALL, frame);
        }
        if status != Status::Hir {
            self.stack.remove(ALL, frame);
            self.prune();
        }
    }

    /// The page that was to be evicted stays, as an LIR page on top of the stack. Pages for which
    /// `may_evict` is false keep their positions.
    #[inline]
    pub(super) fn spare(&mut self, frame: Frame, may_evict: impl Fn(Frame) -> bool) {
        if self.status[frame as usize] == Status::Lir {
            self.stack.move_to_mru(ALL, frame);
            self.prune();
        } else {
            self.promote(frame, may_evict);
        }
    }

    /// An HIR page becomes LIR, on top of the stack. If that makes too many LIR pages, the lowest
    /// that may be evicted becomes HIR and moves to the end of the queue.
    #[inline]
    fn promote(&mut self, frame: Frame, may_evict: impl Fn(Frame) -> bool) {
        if self.status[frame as usize] == Status::HirInStack {
            self.stack.move_to_mru(ALL, frame);
        } else {
            self.stack.push_mru(ALL, frame);
        }
        self.queue.remove(ALL, frame);
        self.status[frame as usize] = Status::Lir;
        self.lir += 1;
        if self.lir > self.most_lir
            && let Some(lowest) = self.lowest_lir(may_evict)
        {
            self.stack.remove(ALL, lowest);
            self.queue.push_mru(ALL, lowest);
            self.status[lowest as usize] = Status::Hir;
            self.lir -= 1;
        }
        self.prune();
        self.limit();
    }

    /// An HIR page that is not in the stack enters it on top.
    #[inline]
    fn enter_stack(&mut self, frame: Frame) {
        if self.lir == 0 {
            return;
        }
        self.stack.push_mru(ALL, frame);
        self.status[frame as usize] = Status::HirInStack;
        self.limit();
    }

    #[inline]
    fn lowest_lir(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.stack.find_from_lru(ALL, |at| self.is_lir(at) && may_evict(at))
    }

    #[inline]
    fn is_lir(&self, at: u32) -> bool {
        at < self.frames && self.status[at as usize] == Status::Lir
    }

    /// Removes everything below the lowest LIR page from the stack.
    #[inline]
    fn prune(&mut self) {
        while let Some(bottom) = self.stack.lru(ALL)
            && !self.is_lir(bottom)
        {
            if bottom < self.frames {
                self.stack.remove(ALL, bottom);
                self.status[bottom as usize] = Status::Hir;
            } else {
                self.forget(bottom - self.frames);
            }
        }
    }

    /// Removes ghosts from the stack, in order of eviction, until it has at most twice as many
    /// pages as there are frames.
    #[inline]
    fn limit(&mut self) {
        while self.stack.len(ALL) > self.frames.saturating_mul(2)
            && let Some(oldest) = self.ghosts.oldest(ALL)
        {
            self.forget(oldest);
        }
    }

    #[inline]
    fn forget(&mut self, ghost: Ghost) {
        self.stack.remove(ALL, self.frames + ghost);
        self.ghosts.release(ghost);
    }
}
