//! Hierarchical adaptive replacement cache.

use std::hint::black_box;

use crate::ghost_queues::GhostQueues;
use crate::lists::Lists;
use crate::policy::{Access, Frame, Gauges, Ghost, Page, Policy};
use crate::registry::Build;
use crate::spec::{Entry, Memory, PolicySpec};

const CLEAN: usize = 0;
const DIRTY: usize = 1;

/// Each side has a list of pages referenced once and one of pages referenced more often.
const ONCE: usize = 0;
const OFTEN: usize = 1;

/// The list of a side; its ghosts are in the queue of the same number.
#[inline]
fn list(side: usize, part: usize) -> usize {
    2 * side + part
}

/// ARC twice, for clean pages and for dirty ones, under an ARC that divides the frames between
/// them.
///
/// Built after the authors' simulator where the paper can be read in two ways: sizes and steps are
/// whole numbers, shares are not rounded. Where a list or a side that should give has no page that
/// may go, the other one gives, which their code leaves to chance.
pub struct HArc {
    lists: Lists<4>,
    list_of: Vec<u8>,
    pages: Vec<Page>,
    ghosts: GhostQueues<5>,
    frames: u32,
    /// The number of clean pages wanted.
    target: u32,
    /// The share of its side that each list of pages referenced once should have.
    once_share: [f64; 2],
    missed: Missed,
}

/// What is known of the page missed last.
#[derive(Clone, Copy, PartialEq)]
enum Missed {
    New,
    Ghost { side: usize },
}

impl Build for HArc {
    const ENTRY: Entry = Entry {
        name: "h-arc",
        aliases: &[],
        params: &[],
        summary: "ARC for clean pages and ARC for dirty ones, under an ARC that divides the frames between them.",
        how: "Clean and dirty pages are each in a list of pages referenced once and a list of pages referenced more often; the numbers of pages that left a list are kept, as many in all as there are frames. A hit moves a page to the list for more often, of the dirty pages if it is or becomes dirty. A remembered clean page raises the number of clean pages wanted by 1, a remembered dirty one lowers it by 2 or, if fewer dirty pages are remembered, by twice their ratio; likewise the share of its side that pages referenced once should have grows or shrinks. Clean pages give while there are more than wanted, else dirty ones; within a side the list for once gives while it has its share. With clean pages only, a new page pushes one out that is not remembered.",
        when: "Where reads and writes both come back often: on the samples at R = 1 and 3 % it saves 12.0 % on pg-tatp, but costs 8.4 % more than lru on pg-tpcc. At R = 32 and 3 % it saves 13.4 % (pg-tpcc), 8.5 % (pg-tpcb) and 23.2 % (pg-tatp). It is not told R, and counts a remembered dirty page twice whatever a write costs: at R = 128 and 3 % it saves 24.8 % on pg-tatp, where acr saves 43.4 %.",
        memory: Memory::of(17).with_ghosts(17),
        source: "Fan, Du and Voigt, MSST 2014, and the authors' simulator",
        online: true,
        looks_at_costs: false,
        asks_erase_counts: false,
    };

    fn build(_spec: &PolicySpec, frames: u32) -> Self {
        HArc {
            lists: Lists::new(frames),
            list_of: vec![0; frames as usize],
            pages: vec![0; frames as usize],
            ghosts: GhostQueues::new(frames),
            frames,
            target: 0,
            once_share: [0.0; 2],
            missed: Missed::New,
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

    /// Frames the side should have.
    #[inline]
    fn size(&self, side: usize) -> u32 {
        match side {
            CLEAN => self.target,
            _ => self.frames - self.target,
        }
    }

    /// True if who leaves is not remembered: a page of which nothing is known comes, and the clean
    /// side, which remembers no more than fits beside its resident pages, has all frames.
    #[inline]
    fn forgets(&self) -> bool {
        self.missed == Missed::New && self.resident(CLEAN) == self.frames
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

    /// A page that left `queue` is missed.
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
    fn victim_of(&self, side: usize, may_go: impl Fn(Frame) -> bool) -> Option<Frame> {
        let wanted = self.once_share[side] * f64::from(self.size(side));
        let gives = f64::from(self.lists.len(list(side, ONCE))) >= wanted.floor();
        let first = if gives || self.forgets() { ONCE } else { OFTEN };
        self.lists
            .find_from_lru(list(side, first), &may_go)
            .or_else(|| self.lists.find_from_lru(list(side, 1 - first), may_go))
    }
}

impl Policy for HArc {
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
            self.missed = Missed::Ghost { side: queue / 2 };
        } else {
            self.missed = Missed::New;
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
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        _incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        let clean = self.resident(CLEAN);
        let was_dirty = self.missed == Missed::Ghost { side: DIRTY };
        let from_clean = clean > self.target || (clean == self.target && was_dirty);
        let first = if from_clean { CLEAN } else { DIRTY };
        self.victim_of(first, &may_go)
            .or_else(|| self.victim_of(1 - first, may_go))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        let part = match self.missed {
            Missed::New => ONCE,
            Missed::Ghost { .. } => OFTEN,
        };
        self.missed = Missed::New;
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
        Gauges {
            target: Some(f64::from(self.target)),
            ..Gauges::default()
        }
    }
}
