//! Age times gain over cost: a block's age x (1 - u) / 2u, where u is its share of valid pages.

use super::valid_page_buckets::ValidPageBuckets;
use super::{Cleaning, VictimView};

/// Age is the number of host writes since a page of the block became invalid, or since the block was
/// closed. Within a bucket the oldest block has the best score, so one candidate per bucket suffices.
#[derive(Clone)]
pub(super) struct CostBenefit {
    closed: ValidPageBuckets,
    touched: Vec<u64>,
    pages_per_block: u32,
}

impl CostBenefit {
    pub(super) fn new(blocks: u32, pages_per_block: u32) -> Self {
        Self { closed: ValidPageBuckets::new(blocks, pages_per_block), touched: vec![0; blocks as usize], pages_per_block }
    }
}

impl Cleaning for CostBenefit {
    fn add(&mut self, block: u32, valid: u32, now: u64) {
        self.touched[block as usize] = now;
        self.closed.add(block, valid);
    }

    #[inline]
    fn page_invalidated(&mut self, block: u32, valid: u32, now: u64) {
        self.touched[block as usize] = now;
        self.closed.page_invalidated(block, valid);
    }

    fn remove(&mut self, block: u32, valid: u32) {
        self.closed.remove(block, valid);
    }

    fn victim(&mut self, view: &VictimView<'_>) -> Option<u32> {
        let lowest = self.closed.lowest()?;
        if lowest == 0 {
            return self.closed.oldest(0);
        }
        let score = |valid: u32, block: u32| {
            let age = view.now.saturating_sub(self.touched[block as usize]) + 1;
            age as f64 * f64::from(self.pages_per_block - valid) / f64::from(2 * valid)
        };
        let mut best = None;
        for (valid, block) in self.closed.oldest_per_bucket() {
            let score = score(valid, block);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, block));
            }
        }
        best.map(|(_, block)| block)
    }
}
