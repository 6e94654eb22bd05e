//! fd-static with every size of its clean pool, from one pass.

use crate::policies::two_stack::TwoStack;
use crate::policy::{Access, Frame};

/// References after which the counters are emptied: they have 32 bits.
const WINDOW: u64 = 1 << 31;

/// Estimates what fd-static does with a number of frames at every size of its clean pool, by the
/// Two-Stack algorithm (FD-Buffer, section 4.3; FD-Buffer TC, section 4.3).
///
/// An estimate, because Two-Stack takes the pools to have their target sizes, which they have once
/// the buffer is full, and because it follows a page through both pools only roughly.
pub struct CleanPools {
    frames: u32,
    stacks: TwoStack,
    references: u64,
    writes: u64,
    /// By least pool size: hits in the clean pool, in the dirty pool, and of the latter by writes.
    hits: [Vec<u64>; 3],
    /// Dirty pages when counting began, by the least size of their pool.
    dirty_at_start: Vec<u64>,
}

/// What fd-static does with one size of its clean pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolTraffic {
    /// Target size of the clean pool.
    pub clean: u64,
    /// Page reads.
    pub reads: u64,
    /// Page writes.
    pub writes: u64,
    /// Dirty pages resident at the end and not written.
    pub dirty_left: u64,
}

impl CleanPools {
    /// Of a buffer of so many frames, at least 1.
    pub fn new(frames: u32) -> Self {
        let sizes = frames as usize + 1;
        CleanPools {
            frames,
            stacks: TwoStack::of_pages(frames),
            references: 0,
            writes: 0,
            hits: [(); 3].map(|()| vec![0; sizes]),
            dirty_at_start: vec![0; sizes],
        }
    }

    /// A reference to a page. Pages are numbered densely: 16 bytes are kept of each.
    pub fn reference(&mut self, page: Frame, access: Access) {
        self.stacks.grow_to(page);
        self.stacks.observe_hit(page, access);
        self.references += 1;
        self.writes += u64::from(access.is_write());
        if self.stacks.references() == WINDOW {
            self.empty_counters();
        }
    }

    /// What came so far was warm-up.
    pub fn start_counting(&mut self) {
        self.empty_counters();
        self.hits.iter_mut().for_each(|hits| hits.fill(0));
        self.references = 0;
        self.writes = 0;
        self.dirty_at_start = self.stacks.dirty_pages();
    }

    fn empty_counters(&mut self) {
        for (hits, more) in self.hits.iter_mut().zip(self.stacks.take_hits()) {
            for (hits, more) in hits.iter_mut().zip(more) {
                *hits += u64::from(more);
            }
        }
    }

    /// What fd-static does with each size of its clean pool, from 1 to all but one frame.
    pub fn finish(mut self) -> Vec<PoolTraffic> {
        self.empty_counters();
        let [clean, dirty, dirty_writes] = self.hits.each_ref().map(|hits| sums(hits));
        let at_start = sums(&self.dirty_at_start);
        let at_end = sums(&self.stacks.dirty_pages());
        let of = |clean_size: u32| {
            let (mc, md) = (clean_size as usize, (self.frames - clean_size) as usize);
            // A page enters the dirty pool with each write that does not find it there, and leaves
            // with a write-back.
            let entered = self.writes - dirty_writes[md] + at_start[md];
            PoolTraffic {
                clean: u64::from(clean_size),
                reads: self.references.saturating_sub(clean[mc] + dirty[md]),
                writes: entered.saturating_sub(at_end[md]),
                dirty_left: at_end[md],
            }
        };
        (1..self.frames).map(of).collect()
    }
}

/// The sum up to each.
fn sums(values: &[u64]) -> Vec<u64> {
    let add = |sum: &mut u64, value: &u64| {
        *sum += value;
        Some(*sum)
    };
    values.iter().scan(0, add).collect()
}
