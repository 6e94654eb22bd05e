//! The classes of pages reach the policy and the recorder.

use std::sync::{Arc, Mutex};

use ebbpool::policy::{Access, Capabilities, Frame, Ghost, Page, PageClass, Policy, UNKNOWN_CLASS};
use ebbpool::storage::{MemoryStorage, Storage};
use ebbpool::{Pool, PoolOptions, PoolScan};

/// A miss, with the class that was reported before it.
type Miss = (Page, Option<PageClass>);

/// A policy that evicts the page with the smallest frame, and notes the misses.
struct NotesClasses {
    asks: bool,
    class: Option<PageClass>,
    misses: Arc<Mutex<Vec<Miss>>>,
}

impl Policy for NotesClasses {
    const CAPABILITIES: Capabilities = Capabilities::CLASSES;

    fn hit(&mut self, _frame: Frame, _access: Access) {}

    fn miss(&mut self, page: Page, _ghost: Option<Ghost>, _access: Access) {
        let miss = (page, self.class.take());
        self.misses.lock().expect("a lock").push(miss);
    }

    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        (0..4).find(|&frame| may_evict(frame))
    }

    fn admit(&mut self, _frame: Frame, _page: Page, _access: Access) {}

    fn evicted(&mut self, _frame: Frame) {}

    fn cleaned(&mut self, _frame: Frame) {}

    fn capabilities(&self) -> Capabilities {
        let mut found = Self::CAPABILITIES;
        found.set(Capabilities::CLASSES, self.asks);
        found
    }

    fn class(&mut self, class: PageClass) {
        assert!(self.asks, "the policy does not ask");
        self.class = Some(class);
    }
}

/// A pool of four frames over 20 pages, and the misses that its policy sees.
fn pool(options: PoolOptions, asks: bool) -> (Pool, Arc<Mutex<Vec<Miss>>>) {
    let misses = Arc::new(Mutex::new(Vec::new()));
    let policy = NotesClasses { asks, class: None, misses: Arc::clone(&misses) };
    let storage = MemoryStorage::new(512);
    storage.grow(20).expect("room");
    let pool = options.background(false).own_policy(policy).open(storage);
    (pool.expect("a pool"), misses)
}

/// Fixes pages in every way, some with a class.
fn fix(pool: &Pool) {
    let of = |class| pool.of_class(class);
    drop(of(7).fix_read(1).expect("a page"));
    drop(of(8).fix_write(2).expect("a page"));
    drop(pool.fix_read(3).expect("a page"));
    // A hit has no class.
    drop(of(9).fix_read(1).expect("a page"));
    drop(of(u32::MAX).fix_new(4).expect("a page"));
    drop(of(5).fix_scan(5, &mut PoolScan::new()).expect("a page"));
    let allocated = of(6).allocate().expect("a page");
    assert_eq!(allocated.page(), 20);
    drop(allocated);
    drop(pool.fix_write(6).expect("a page"));
}

#[test]
fn a_policy_that_asks_receives_the_classes_of_misses() {
    let (pool, misses) = pool(PoolOptions::new(4), true);
    fix(&pool);
    let expected = [(1, Some(7)), (2, Some(8)), (3, None), (4, Some(u32::MAX)), (5, Some(5)), (20, Some(6)), (6, None)];
    assert_eq!(*misses.lock().expect("a lock"), expected);
}

#[test]
fn another_policy_receives_none() {
    let (pool, misses) = pool(PoolOptions::new(4), false);
    fix(&pool);
    let misses = misses.lock().expect("a lock");
    assert_eq!(misses.len(), 7);
    assert!(misses.iter().all(|miss| miss.1.is_none()));
}

#[test]
fn the_recorder_receives_the_classes_of_all_fixes() {
    let fixes = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&fixes);
    let options = PoolOptions::new(4).on_classed_fix(move |page, write, class| {
        sink.lock().expect("a lock").push((page, write, class));
    });
    let (pool, _) = pool(options, false);
    fix(&pool);
    let fixes = fixes.lock().expect("a lock");
    let expected = [
        (1, false, 7),
        (2, true, 8),
        (3, false, UNKNOWN_CLASS),
        (1, false, 9),
        (4, true, u32::MAX),
        (5, false, 5),
        (20, true, 6),
        (6, true, UNKNOWN_CLASS),
    ];
    assert_eq!(*fixes, expected);
}
