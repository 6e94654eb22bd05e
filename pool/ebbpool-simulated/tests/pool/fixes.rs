//! Counts of fixes, to compare with those that the pool's sink receives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebbpool::PoolError;

/// The fixes of a life: those that the pool's sink has received, those that succeeded, and all that were tried.
#[derive(Default)]
pub struct FixCounts {
    pub noted: Arc<AtomicU64>,
    succeeded: AtomicU64,
    tried: AtomicU64,
}

impl FixCounts {
    pub fn of<G>(&self, fix: impl FnOnce() -> Result<G, PoolError>) -> Result<G, PoolError> {
        self.tried(fix(), Result::is_ok)
    }

    /// Counts a fix that was tried.
    pub fn tried<R>(&self, fix: R, succeeded: impl FnOnce(&R) -> bool) -> R {
        self.tried.fetch_add(1, Ordering::Relaxed);
        self.succeeded.fetch_add(u64::from(succeeded(&fix)), Ordering::Relaxed);
        fix
    }

    /// The sink has received every fix that succeeded, and none that was not tried.
    pub fn check(&self) {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (noted, succeeded, tried) = (get(&self.noted), get(&self.succeeded), get(&self.tried));
        assert!(
            (succeeded..=tried).contains(&noted),
            "the sink has received {noted} fixes, of {succeeded} that succeeded and {tried} that were tried"
        );
    }
}
