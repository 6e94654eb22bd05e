//! The page traffic of fd-static at every size of its clean pool, from one pass over the trace.

use crate::policies::two_stack::TwoStack;
use crate::policy::{Access, Frame};

/// References after which the counters are emptied: they have 32 bits.
const WINDOW: u64 = 1 << 31;

/// Estimates the page reads and writes of fd-static over a number of frames at every size of its
/// clean pool, by the Two-Stack algorithm (FD-Buffer, section 4.3; FD-Buffer TC, section 4.3).
///
/// It is an estimate for two reasons: Two-Stack assumes that the pools have their target sizes,
/// which is true once the buffer is full, and it follows a page through both pools only roughly.
pub struct CleanPools {
    frames: u32,
    stacks: TwoStack,
    references: u64,
    writes: u64,
    /// Hits in the clean pool, in the dirty pool, and hits by writes in the dirty pool, each by the
    /// least pool size at which it is a hit.
    hits: [Vec<u64>; 3],
    /// Dirty pages when counting began, by the least size of their pool.
    dirty_at_start: Vec<u64>,
}

/// The page traffic of fd-static with one size of its clean pool.
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
    /// Pages that were dirty when the counting began.
    pub dirty_before: u64,
}

impl CleanPools {
    /// For a buffer of `frames` frames, at least 1.
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

    /// Counts a reference to a page. Pages are numbered densely; each takes 16 bytes.
    pub fn reference(&mut self, page: Frame, access: Access) {
        self.stacks.grow_to(page);
        self.stacks.observe_hit(page, access);
        self.references += 1;
        self.writes += u64::from(access.is_write());
        if self.stacks.references() == WINDOW {
            self.empty_counters();
        }
    }

    /// Starts counting: all references so far were warm-up.
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

    /// The page traffic with each size of the clean pool, from 1 to all but one frame.
    pub fn finish(mut self) -> Vec<PoolTraffic> {
        self.empty_counters();
        let [clean, dirty, dirty_writes] = self.hits.each_ref().map(|hits| sums(hits));
        let at_start = sums(&self.dirty_at_start);
        let at_end = sums(&self.stacks.dirty_pages());
        let of = |clean_size: u32| {
            let (mc, md) = (clean_size as usize, (self.frames - clean_size) as usize);
            // A page enters the dirty pool with each write that does not find it there, and leaves
            // it with a write-back.
            let entered = self.writes - dirty_writes[md] + at_start[md];
            PoolTraffic {
                clean: u64::from(clean_size),
                reads: self.references.saturating_sub(clean[mc] + dirty[md]),
                writes: entered.saturating_sub(at_end[md]),
                dirty_left: at_end[md],
                dirty_before: at_start[md],
            }
        };
        (1..self.frames).map(of).collect()
    }
}

/// Two-Stack's estimates for a clean and a dirty pool, window by window (FD-Buffer, section 4.3).
pub struct PoolEstimator {
    stacks: TwoStack,
    frames: u32,
    writes: u64,
    present_conditions: bool,
}

impl PoolEstimator {
    /// For two pools of `frames` frames together, at least 1. Without present conditions a page
    /// counts as present in every pool whose stack holds it near enough to the top.
    pub fn new(frames: u32, present_conditions: bool) -> Self {
        PoolEstimator { stacks: TwoStack::of_pages(frames), frames, writes: 0, present_conditions }
    }

    /// Counts a reference to a page. Pages are numbered densely; each takes 16 bytes.
    pub fn reference(&mut self, page: Frame, access: Access) {
        self.stacks.grow_to(page);
        self.stacks.observe_hit(page, access);
        if !self.present_conditions {
            self.stacks.drop_conditions(page);
        }
        self.writes += u64::from(access.is_write());
    }

    /// The miss ratios Pc and Pd of the two pools, and Pdw of the dirty pool's writes alone, over
    /// the references since the last call, where the clean pool has `clean` frames. `None` if there
    /// were no references, or no writes. Starts a new window.
    pub fn estimates(&mut self, clean: u32) -> Option<[f64; 3]> {
        let references = self.stacks.references();
        let hits = self.stacks.take_hits();
        let writes = std::mem::take(&mut self.writes);
        let dirty = self.frames.saturating_sub(clean);
        let missed = |hits: &[u32], frames: u32, of: u64| {
            let hits: u64 = hits.iter().take(frames as usize + 1).map(|&hits| u64::from(hits)).sum();
            (of > 0).then(|| 1.0 - hits as f64 / of as f64)
        };
        Some([missed(&hits[0], clean, references)?, missed(&hits[1], dirty, references)?, missed(&hits[2], dirty, writes)?])
    }
}

/// The prefix sums: for each value the sum of all values up to it.
fn sums(values: &[u64]) -> Vec<u64> {
    let add = |sum: &mut u64, value: &u64| {
        *sum += value;
        Some(*sum)
    };
    values.iter().scan(0, add).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Page 1 is written, then pushed down by two other writes, then read twice.
    fn estimates_after_a_read_from_far_down(present_conditions: bool, clean: u32) -> Option<[f64; 3]> {
        let mut pools = PoolEstimator::new(4, present_conditions);
        for page in [1, 2, 3] {
            pools.reference(page, Access::Write);
        }
        pools.reference(1, Access::Read);
        pools.estimates(clean);
        pools.reference(1, Access::Read);
        pools.reference(4, Access::Write);
        pools.estimates(clean)
    }

    #[test]
    fn a_page_is_present_in_one_pool_with_conditions_and_in_both_without() {
        // Its distance was 3: with 1 dirty frame it moved to the clean pool, with 3 it stayed.
        assert_eq!(estimates_after_a_read_from_far_down(true, 3), Some([0.5, 1.0, 1.0]));
        assert_eq!(estimates_after_a_read_from_far_down(true, 1), Some([1.0, 0.5, 1.0]));
        assert_eq!(estimates_after_a_read_from_far_down(false, 3), Some([0.5, 0.5, 1.0]));
        assert_eq!(estimates_after_a_read_from_far_down(false, 1), Some([0.5, 0.5, 1.0]));
    }

    #[test]
    fn a_window_without_writes_has_no_estimate() {
        let mut pools = PoolEstimator::new(4, true);
        assert_eq!(pools.estimates(2), None);
        pools.reference(1, Access::Read);
        assert_eq!(pools.estimates(2), None);
    }
}
