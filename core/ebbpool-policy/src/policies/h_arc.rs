//! Hierarchical adaptive replacement cache.

use std::hint::black_box;

use crate::ghost_queues::GhostQueues;
use crate::lists::FrameLists;
use crate::policy::{Access, Capabilities, Frame, Gauges, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry, text_beside};

const CLEAN: usize = 0;
const DIRTY: usize = 1;

/// Each side has a list of pages referenced once and a list of pages referenced more often.
const ONCE: usize = 0;
const OFTEN: usize = 1;

/// The number of a side's list; the ghosts of the list are in the queue of the same number.
#[inline]
fn list(side: usize, part: usize) -> usize {
    2 * side + part
}

/// ARC twice, for clean pages and for dirty ones, under an ARC that divides the frames between
/// them.
///
/// Built after the authors' simulator where the paper can be read in two ways: sizes and steps are
/// whole numbers, shares are not rounded. If no page of the list or side that the victim should be
/// taken from may be evicted, the victim is from the other one, a case that their code leaves
/// undefined.
pub struct HArc {
    lists: FrameLists<4>,
    list_of: Vec<u8>,
    pages: Vec<Page>,
    ghosts: GhostQueues<5>,
    frames: u32,
    /// The target number of clean pages.
    target: u32,
    /// The target share of each list of pages referenced once in its side.
    once_share: [f64; 2],
    missed: MissedPage,
}

/// Whether the page missed last is remembered.
#[derive(Clone, Copy, PartialEq)]
enum MissedPage {
    New,
    Ghost { side: usize },
}

impl RegisteredPolicy for HArc {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "h-arc",
        aliases: &[],
        params: &[],
        summary: "ARC for clean pages and ARC for dirty ones, under an ARC that divides the frames between them.",
        how: text_beside!("h_arc.md"),
        when: "Use it where both reads and writes return to the same pages. It saves against lru where writes cost more than reads, on some traces also where they do not. It does not know R and counts a remembered dirty page twice whatever a write costs, so that policies that weigh R, such as acr, pass it as R grows. Source: Fan, Du and Voigt.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(17).with_ghosts(17),
        source: "Fan, Du and Voigt, MSST 2014, and the authors' simulator",
    };

    // Writes from samples are off by more than their error in one of eight cases (docs/curves.md).
    const HAS_MINIATURE: bool = false;

    fn new(_config: (), frames: u32) -> Self {
        HArc {
            lists: FrameLists::new(frames),
            list_of: vec![0; frames as usize],
            pages: vec![0; frames as usize],
            ghosts: GhostQueues::new(frames),
            frames,
            target: 0,
            once_share: [0.0; 2],
            missed: MissedPage::New,
        }
    }
}

impl HArc {
    #[inline]
    fn list_of(&self, frame: Frame) -> usize {
        usize::from(self.list_of[frame as usize])
    }

    #[inline]
    fn is_dirty(&self, frame: Frame) -> bool {
        self.list_of(frame) >= list(DIRTY, ONCE)
    }

    #[inline]
    fn enter(&mut self, frame: Frame, list: usize) {
        self.list_of[frame as usize] = list as u8;
        self.lists.push_mru(list, frame);
    }

    #[inline]
    fn move_to(&mut self, frame: Frame, list: usize) {
        self.lists.remove(self.list_of(frame), frame);
        self.enter(frame, list);
    }

    #[inline]
    fn resident(&self, side: usize) -> u32 {
        self.lists.len(list(side, ONCE)) + self.lists.len(list(side, OFTEN))
    }

    #[inline]
    fn remembered(&self, side: usize) -> u32 {
        self.ghosts.len(list(side, ONCE)) + self.ghosts.len(list(side, OFTEN))
    }

    /// The target number of frames of the side.
    #[inline]
    fn size(&self, side: usize) -> u32 {
        match side {
            CLEAN => self.target,
            _ => self.frames - self.target,
        }
    }

    /// True if the evicted page is not remembered: the missed page is new, and the clean side,
    /// which remembers no more pages than fit beside its resident ones, has all frames.
    #[inline]
    fn forgets(&self) -> bool {
        self.missed == MissedPage::New && self.resident(CLEAN) == self.frames
    }

    fn forget_oldest(&mut self, side: usize) {
        let part = match self.ghosts.len(list(side, ONCE)) {
            0 => OFTEN,
            _ => ONCE,
        };
        self.ghosts.forget_oldest(list(side, part));
    }

    /// The clean side remembers no more pages than fit beside its resident ones.
    #[inline]
    fn trim(&mut self) {
        while self.resident(CLEAN) + self.remembered(CLEAN) > self.frames {
            self.forget_oldest(CLEAN);
        }
    }

    /// A page remembered in `queue` is missed.
    fn adapt(&mut self, queue: usize) {
        let (side, part) = (queue / 2, queue % 2);
        self.target = match side {
            CLEAN => (self.target + 1).min(self.frames),
            _ => {
                let step = (2 * self.remembered(CLEAN) / self.remembered(DIRTY)).max(2);
                self.target.saturating_sub(step)
            }
        };
        let other = self.ghosts.len(list(side, 1 - part));
        let step = (other / self.ghosts.len(queue)).max(1);
        let change = f64::from(step) / f64::from(self.size(side));
        let share = &mut self.once_share[side];
        *share = match part {
            ONCE => (*share + change).min(1.0),
            _ => (*share - change).max(0.0),
        };
    }

    #[inline]
    fn victim_of(&self, side: usize, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let target = self.once_share[side] * f64::from(self.size(side));
        let has_share = f64::from(self.lists.len(list(side, ONCE))) >= target.floor();
        let first = if has_share || self.forgets() { ONCE } else { OFTEN };
        self.lists
            .find_from_lru(list(side, first), &may_evict)
            .or_else(|| self.lists.find_from_lru(list(side, 1 - first), may_evict))
    }
}

impl Policy for HArc {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn most_ghosts(&self) -> u32 {
        self.ghosts.capacity()
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        let dirty = access.is_write() || self.is_dirty(frame);
        self.move_to(frame, list(usize::from(dirty), OFTEN));
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, _access: Access) {
        let remembered = ghost.and_then(|ghost| Some((ghost, self.ghosts.queue_of(ghost, page)?)));
        if let Some((ghost, queue)) = remembered {
            self.adapt(queue);
            self.ghosts.forget(ghost, page);
            self.missed = MissedPage::Ghost { side: queue / 2 };
        } else {
            self.missed = MissedPage::New;
            let clean = self.resident(CLEAN) + self.remembered(CLEAN);
            let dirty = self.resident(DIRTY) + self.remembered(DIRTY);
            if clean == self.frames {
                self.forget_oldest(CLEAN);
            } else if u64::from(clean) + u64::from(dirty) == 2 * u64::from(self.frames) {
                self.forget_oldest(DIRTY);
            }
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        black_box((self.list_of[frame as usize], self.pages[frame as usize]));
        self.lists.prefetch(frame);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.ghosts.prefetch(ghost);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let clean = self.resident(CLEAN);
        let was_dirty = self.missed == MissedPage::Ghost { side: DIRTY };
        let from_clean = clean > self.target || (clean == self.target && was_dirty);
        let first = if from_clean { CLEAN } else { DIRTY };
        self.victim_of(first, &may_evict).or_else(|| self.victim_of(1 - first, may_evict))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        let part = match self.missed {
            MissedPage::New => ONCE,
            MissedPage::Ghost { .. } => OFTEN,
        };
        self.missed = MissedPage::New;
        self.pages[frame as usize] = page;
        self.enter(frame, list(usize::from(access.is_write()), part));
        self.trim();
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        if self.forgets() {
            return None;
        }
        let queue = self.list_of(frame);
        self.ghosts.put(queue, self.pages[frame as usize])
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.lists.remove(self.list_of(frame), frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        let part = self.list_of(frame) % 2;
        self.move_to(frame, list(CLEAN, part));
        self.trim();
    }

    fn gauges(&self) -> Gauges {
        Gauges { target: Some(f64::from(self.target)), ..Gauges::default() }
    }
}
