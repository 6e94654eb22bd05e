//! Belady's algorithm, which knows the future.

use std::collections::BinaryHeap;

use prefetch_index::prefetch_index;

use crate::policy::{Access, Capabilities, Frame, NextUse, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry};

/// Stand for the next use of a page that has none. The position of a next use is below both, and
/// not 0.
const DEAD_AND_CLEAN: u64 = u64::MAX;
const DEAD_AND_DIRTY: u64 = u64::MAX - 1;

/// Stands for the next use of an empty frame.
const EMPTY: u64 = 0;

/// The order of eviction, the greatest first: by the next use, and among pages never used again by
/// the page number, reversed.
type EvictionKey = (u64, Page);

/// Evicts the page whose next use is farthest; pages never used again first, among them clean
/// before dirty, then the lowest page number. It has the fewest misses of all policies, but not the
/// smallest bill (FD-Buffer, table 2).
pub struct Belady {
    next_use: u64,
    pages: Vec<Page>,
    dirty: Vec<bool>,
    next_uses: Vec<u64>,
    /// The pages whose key is above `bound`, and outdated keys among them. The next use of a page
    /// that is hit was the nearest of all, so pages that are not about to be evicted need not be in
    /// order.
    farthest: BinaryHeap<(EvictionKey, Frame)>,
    /// The largest number of entries of `farthest`.
    most: usize,
    bound: EvictionKey,
    passed_over: Vec<(EvictionKey, Frame)>,
}

impl RegisteredPolicy for Belady {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "belady",
        aliases: &[],
        params: &[],
        summary: "Evicts the page whose next use is farthest in the future (offline).",
        how: "It knows for every page when it is used next, and evicts the page whose next use lies farthest ahead. Pages never used again are evicted before all others, clean ones before dirty ones, then by page number.",
        when: "A bound, not a choice: it requires the future, and no policy reads fewer pages. Its bill is not the least possible, as FD-Buffer, table 2 shows, because it does not weigh writes; a write-aware online policy can be cheaper. The simulator stores the positions of next uses in memory for it.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(23),
        source: "Belady 1966; FD-Buffer, table 2",
    };

    fn new(_config: (), frames: u32) -> Self {
        let count = frames as usize;
        let most = (count / 4).max(16);
        Belady {
            next_use: NextUse::NEVER,
            pages: vec![0; count],
            dirty: vec![false; count],
            next_uses: vec![EMPTY; count],
            farthest: BinaryHeap::with_capacity(most),
            most,
            bound: (EMPTY, 0),
            passed_over: Vec::new(),
        }
    }
}

impl Belady {
    #[inline]
    fn eviction_key(&self, frame: Frame) -> EvictionKey {
        match self.next_uses[frame as usize] {
            dead @ DEAD_AND_DIRTY.. => (dead, !self.pages[frame as usize]),
            next_use => (next_use, 0),
        }
    }

    /// The page in `frame` is used next at `self.next_use`.
    #[inline]
    fn place(&mut self, frame: Frame) {
        self.next_uses[frame as usize] = match (self.next_use, self.dirty[frame as usize]) {
            (NextUse::NEVER, false) => DEAD_AND_CLEAN,
            (NextUse::NEVER, true) => DEAD_AND_DIRTY,
            (position, _) => position.clamp(EMPTY + 1, DEAD_AND_DIRTY - 1),
        };
        self.enter(frame);
    }

    #[inline]
    fn enter(&mut self, frame: Frame) {
        let eviction_key = self.eviction_key(frame);
        if eviction_key <= self.bound {
            return;
        }
        if self.farthest.len() < self.most {
            self.farthest.push((eviction_key, frame));
        } else {
            self.gather();
        }
    }

    /// Refills `farthest` with the farthest pages, until it is at least half full or has all pages.
    fn gather(&mut self) {
        let mut farthest = std::mem::take(&mut self.farthest).into_vec();
        farthest.clear();
        self.bound = (EMPTY, 0);
        for frame in 0..self.next_uses.len() as Frame {
            if self.next_uses[frame as usize] < self.bound.0 {
                continue;
            }
            if farthest.len() == self.most {
                let half = self.most / 2;
                let (_, &mut (bound, _), _) = farthest.select_nth_unstable_by(half, |one, other| other.cmp(one));
                farthest.truncate(half);
                self.bound = bound;
            }
            let eviction_key = self.eviction_key(frame);
            if eviction_key > self.bound {
                farthest.push((eviction_key, frame));
            }
        }
        self.farthest = farthest.into();
    }

    /// The farthest page, if any page is resident.
    #[inline]
    fn farthest(&mut self) -> Option<Frame> {
        loop {
            while let Some(&(eviction_key, frame)) = self.farthest.peek() {
                if eviction_key == self.eviction_key(frame) {
                    return Some(frame);
                }
                self.farthest.pop();
            }
            self.gather();
            if self.farthest.is_empty() {
                return None;
            }
        }
    }

    /// The farthest page that may be evicted, where the farthest of all is pinned.
    #[cold]
    fn farthest_where(&mut self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let mut found = None;
        while let Some(entry) = self.farthest.pop() {
            let (eviction_key, frame) = entry;
            if eviction_key == self.eviction_key(frame) {
                self.passed_over.push(entry);
                if may_evict(frame) {
                    found = Some(frame);
                    break;
                }
            }
        }
        self.farthest.extend(self.passed_over.drain(..));
        found.or_else(|| {
            (0..self.next_uses.len() as Frame)
                .filter(|&frame| self.next_uses[frame as usize] != EMPTY && may_evict(frame))
                .max_by_key(|&frame| self.eviction_key(frame))
        })
    }
}

impl Policy for Belady {
    const CAPABILITIES: Capabilities = Capabilities::NEXT_USES;

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.dirty[frame as usize] |= access.is_write();
        self.place(frame);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        prefetch_index(&self.next_uses, frame as usize);
        prefetch_index(&self.dirty, frame as usize);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        match self.farthest()? {
            frame if may_evict(frame) => Some(frame),
            _ => self.farthest_where(may_evict),
        }
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.pages[frame as usize] = page;
        self.dirty[frame as usize] = access.is_write();
        self.place(frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.next_uses[frame as usize] = EMPTY;
    }

    fn cleaned(&mut self, frame: Frame) {
        self.dirty[frame as usize] = false;
        if self.next_uses[frame as usize] == DEAD_AND_DIRTY {
            self.next_uses[frame as usize] = DEAD_AND_CLEAN;
            self.enter(frame);
        }
    }

    #[inline]
    fn next_use(&mut self, next: NextUse) {
        self.next_use = next.reference;
    }
}
