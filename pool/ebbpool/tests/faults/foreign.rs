//! Foreign code that panics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ebbpool::storage::{DiskOperation, FaultyDisk};
use ebbpool::{Pool, PoolError, PoolOptions};

use ebbpool_policy::{Access, Capabilities, Frame, Page, Policy};

use crate::{PAGE, get, options, pool, put};

// Foreign code that panics.

/// A policy that panics when it is asked for a victim for the third time, or names frames that it does not hold.
struct FailingPolicy {
    calls: u32,
    then: Option<u32>,
}

impl Policy for FailingPolicy {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn hit(&mut self, _: Frame, _: Access) {}
    fn admit(&mut self, _: Frame, _: Page, _: Access) {}
    fn evicted(&mut self, _: Frame) {}
    fn cleaned(&mut self, _: Frame) {}
    fn victim<F: Fn(Frame) -> bool>(&mut self, _: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.calls += 1;
        match (self.calls, self.then) {
            (0..3, _) => (0..4).find(|&frame| may_evict(frame)),
            (_, Some(frame)) => Some(frame),
            (_, None) => panic!("on purpose"),
        }
    }
}

#[test]
fn a_policy_that_fails_is_replaced_and_no_page_is_lost() {
    // It panics, names a frame that does not exist, or names one that is pinned.
    for then in [None, Some(u32::MAX), Some(0)] {
        let disk = FaultyDisk::new(1);
        let pool = options(4).own_policy(FailingPolicy { calls: 0, then }).open(disk.pages("data", PAGE)).unwrap();
        put(&pool, 0, 1).unwrap();
        let pinned = pool.fix_read(0).unwrap();
        for page in 1..100 {
            put(&pool, page, page as u8).unwrap();
        }
        drop(pinned);
        for page in 1..100 {
            assert_eq!(get(&pool, page).unwrap(), page as u8);
        }
        pool.close().unwrap();
    }
}

/// A policy that only says what it asks and does, or panics in place of that.
struct Asking(Option<Capabilities>);

impl Policy for Asking {
    const CAPABILITIES: Capabilities = Capabilities::all();

    fn capabilities(&self) -> Capabilities {
        self.0.expect("what it asks")
    }

    fn hit(&mut self, _: Frame, _: Access) {}
    fn admit(&mut self, _: Frame, _: Page, _: Access) {}
    fn evicted(&mut self, _: Frame) {}
    fn cleaned(&mut self, _: Frame) {}
    fn victim<F: Fn(Frame) -> bool>(&mut self, _: Option<(Page, Access)>, _: F) -> Option<Frame> {
        None
    }
}

#[test]
fn a_policy_that_names_no_victim_is_not_taken_for_pinned_frames() {
    let disk = FaultyDisk::new(1);
    let pool = options(4).own_policy(Asking(Some(Capabilities::empty()))).open(disk.pages("data", PAGE)).unwrap();
    let fixed = pool.fix_read(0).unwrap();
    for page in 1..20 {
        put(&pool, page, page as u8).unwrap();
    }
    drop(fixed);
    assert!((1..20).all(|page| get(&pool, page).unwrap() == page as u8));
}

#[test]
fn a_pool_refuses_an_own_policy_that_asks_for_what_it_cannot_give() {
    let open = |asked| {
        let pages = FaultyDisk::new(1).pages("data", PAGE);
        let pool = options(4).own_policy(Asking(asked)).open(pages);
        pool.map(drop).map_err(|error| error.to_string())
    };
    for (asked, why) in [
        (Capabilities::NEXT_USES, "future references"),
        (Capabilities::PRICES, "future references"),
        (Capabilities::PROBABILITIES, "future references"),
        (Capabilities::CHECKPOINTS, "a pool makes its own"),
        (Capabilities::ERASE_COUNTS, "does not report that"),
        (Capabilities::PADDING, "pages that no caller has changed"),
    ] {
        let refused = open(Some(asked)).expect_err("a pool cannot give it");
        assert!(refused.contains(why), "{asked:?}: {refused}");
    }
    let refused = open(None).expect_err("it does not say what it asks");
    assert!(refused.contains("the policy panicked"), "{refused}");
    let served = Capabilities::LEAVES_HITS_OUT | Capabilities::CLASSES | Capabilities::COSTS;
    assert_eq!(open(Some(served)), Ok(()));
}

#[test]
fn a_listener_that_panics_is_not_called_again() {
    let disk = FaultyDisk::new(1);
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let pool = options(2)
        .on_event(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            panic!("on purpose");
        })
        .open(disk.pages("data", PAGE))
        .unwrap();
    for page in 0..10 {
        put(&pool, page, page as u8).unwrap();
    }
    (0..10).for_each(|page| assert_eq!(get(&pool, page).unwrap(), page as u8));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// A pool whose own functions call it.
type Recursive = Arc<OnceLock<Arc<Pool>>>;

fn opened(options: PoolOptions, its: &Recursive) -> Arc<Pool> {
    let pool = Arc::new(options.open(FaultyDisk::new(1).pages("data", PAGE)).unwrap());
    assert!(its.set(Arc::clone(&pool)).is_ok());
    pool
}

#[test]
fn a_sink_of_fixes_that_fixes_a_page_gets_an_error() {
    let its = Recursive::default();
    let calls = Arc::clone(&its);
    let refused = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&refused);
    let options = options(4).on_fix(move |page, _| {
        let Some(pool) = calls.get() else { return };
        let fixed = [
            pool.fix_read(page).map(drop),
            put(pool, page + 1, 1),
            pool.allocate().map(drop),
            pool.flush(page),
            pool.checkpoint().map(drop),
            pool.discard(page),
            pool.free(page).map(drop),
            pool.resize(2),
        ];
        counted.fetch_add(fixed.iter().filter(|it| matches!(it, Err(PoolError::InCallback))).count() as u64, Ordering::Relaxed);
        assert_eq!(pool.stats().frames, 4);
    });
    let pool = opened(options, &its);
    put(&pool, 0, 5).unwrap();
    assert_eq!(get(&pool, 0).unwrap(), 5);
    assert_eq!(refused.load(Ordering::Relaxed), 16);
}

#[test]
fn a_listener_that_calls_the_pool_gets_an_error_and_one_that_asks_for_figures_panics() {
    for figures in [false, true] {
        let its = Recursive::default();
        let calls = Arc::clone(&its);
        let answered = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&answered);
        let options = options(2).on_event(move |_| {
            let Some(pool) = calls.get() else { return };
            if figures {
                counted.fetch_add(1, Ordering::Relaxed);
                pool.stats();
            }
            let called = [
                pool.fix_read(99).map(drop),
                put(pool, 98, 1),
                pool.flush(0),
                pool.discard(0),
                pool.free(0).map(drop),
                pool.checkpoint().map(drop),
                pool.resize(2),
            ];
            assert!(called.iter().all(|it| matches!(it, Err(PoolError::InCallback))), "{called:?}");
            pool.throttle();
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let pool = opened(options, &its);
        for page in 0..10 {
            put(&pool, page, page as u8).unwrap();
        }
        (0..10).for_each(|page| assert_eq!(get(&pool, page).unwrap(), page as u8));
        assert_eq!(answered.load(Ordering::Relaxed) > 1, !figures);
    }
}

/// FIFO among four frames, which asks the pool for its figures.
struct Asks(Recursive);

impl Policy for Asks {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn hit(&mut self, _: Frame, _: Access) {}
    fn admit(&mut self, _: Frame, _: Page, _: Access) {}
    fn evicted(&mut self, _: Frame) {}
    fn cleaned(&mut self, _: Frame) {}
    fn victim<F: Fn(Frame) -> bool>(&mut self, _: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.0.get().unwrap().stats();
        (0..4).find(|&frame| may_evict(frame))
    }
}

#[test]
fn a_policy_that_calls_the_pool_is_replaced() {
    let its = Recursive::default();
    let pool = opened(options(4).own_policy(Asks(Arc::clone(&its))), &its);
    for page in 0..10 {
        put(&pool, page, page as u8).unwrap();
    }
    assert!((0..10).all(|page| get(&pool, page).unwrap() == page as u8));
}

#[test]
fn a_storage_that_panics_fails_and_no_frame_stays_claimed() {
    for operation in [DiskOperation::Read, DiskOperation::Write, DiskOperation::Sync] {
        let disk = FaultyDisk::new(1);
        let pool = self::pool(&disk, 2);
        put(&pool, 0, 1).unwrap();
        put(&pool, 1, 2).unwrap();
        let panics = Arc::new(AtomicBool::new(true));
        let theirs = Arc::clone(&panics);
        disk.observe(move |io| {
            assert!(io.operation != operation || !theirs.load(Ordering::Relaxed));
        });
        for page in 5..9 {
            let fixed = pool.fix_read(page).map(drop);
            assert_eq!(fixed.is_err(), operation != DiskOperation::Sync, "{operation:?}");
        }
        put(&pool, 1, 3).unwrap();
        assert_eq!(pool.flush(1).is_err(), operation != DiskOperation::Read);
        panics.store(false, Ordering::Relaxed);
        assert_eq!(get(&pool, 5).unwrap(), 0);
        assert_eq!(get(&pool, 1).unwrap(), 3);
        // A sync that panicked may have lost what was written.
        assert_eq!(pool.checkpoint().is_err(), operation == DiskOperation::Sync);
    }
}
