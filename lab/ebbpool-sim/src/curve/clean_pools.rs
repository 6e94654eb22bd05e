//! fd-static at every size of its clean pool.

use ebbpool_policy::{Access, CleanPools, PoolTraffic};
use ebbpool_trace::OptionalColumns;

use super::{Curves, TraceStep, Traffic, for_each_part};
use crate::engine::AtEnd;
use crate::error::SimError;
use crate::stream::{MOST_PAGES, PassControl};

/// The estimated page traffic of fd-static with one size of its clean pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanPool {
    /// Target size of the clean pool, in pages.
    pub clean: u64,
    /// The traffic of fd-static with that size.
    pub traffic: Traffic,
}

impl Curves<'_> {
    /// The page traffic of fd-static over `frames` frames at every size of its clean pool, from 1
    /// to all but one frame, estimated in one pass by the Two-Stack algorithm.
    ///
    /// # Errors
    ///
    /// The errors of reading the trace; [`SimError::CleanPoolsWithCheckpoints`] and
    /// [`SimError::CleanPoolsWithOperations`].
    pub fn clean_pools(&self, frames: u64, progress: &PassControl) -> Result<Vec<CleanPool>, SimError> {
        if self.options.checkpoints.is_some() {
            return Err(SimError::CleanPoolsWithCheckpoints);
        }
        let frames = frames.min(self.lru.distinct_pages()).clamp(1, MOST_PAGES);
        let mut pools = CleanPools::new(frames as u32);
        for_each_part(self.source, &self.options, progress, OptionalColumns::default(), |step| {
            match step {
                TraceStep::Serve(chunk) if !chunk.whole.is_empty() || !chunk.trims.is_empty() => {
                    return Err(SimError::CleanPoolsWithOperations);
                }
                TraceStep::Serve(chunk) => {
                    for &reference in chunk.references {
                        pools.reference(reference >> 1, Access::from_write(reference & 1 == 1));
                    }
                }
                TraceStep::StartCounting => pools.start_counting(),
            }
            Ok(())
        })?;
        let traffic = |pool: &PoolTraffic| match self.options.at_end {
            AtEnd::Free => Traffic {
                reads: pool.reads,
                writes: pool.writes,
                dirty_left: pool.dirty_left,
                dirty_before: pool.dirty_before,
                ..Traffic::default()
            },
            AtEnd::Flush => Traffic {
                reads: pool.reads,
                writes: (pool.writes + pool.dirty_left).saturating_sub(pool.dirty_before),
                end_writes: pool.dirty_left,
                dirty_before: pool.dirty_before,
                ..Traffic::default()
            },
        };
        let found = pools.finish().into_iter().map(|pool| CleanPool { clean: pool.clean, traffic: traffic(&pool) });
        Ok(found.collect())
    }
}
