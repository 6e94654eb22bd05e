//! Many threads on few frames: nothing is lost, nothing is torn, and no thread waits for ever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use ebbpool::storage::{MemoryStorage, Storage};
use ebbpool::{HEADER_BYTES, Log, Lsn, Pool, PoolError, PoolOptions};

const PAGE_SIZE: usize = 512;
const PAYLOAD: usize = PAGE_SIZE - HEADER_BYTES;

/// The number of references of each worker.
const STEPS: u32 = 120;

/// Pages whose changes must not be lost.
const COUNTED: u64 = 12;
/// The pages after them are also discarded and freed.
const PAGES: u64 = 18;

fn storage() -> Arc<MemoryStorage> {
    let storage = MemoryStorage::new(PAGE_SIZE);
    storage.grow(PAGES).expect("room");
    Arc::new(storage)
}

fn options(frames: u32) -> PoolOptions {
    PoolOptions::new(frames).batch(4)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

/// The number on a page, which holds the same number many times.
fn counter(payload: &[u8]) -> u64 {
    let first = number(&payload[..8]);
    let torn = payload.chunks(8).find(|chunk| number(chunk) != first);
    assert_eq!(torn.map(number), None, "torn: begins with {first}");
    first
}

fn increment(payload: &mut [u8]) {
    let next = counter(payload) + 1;
    for chunk in payload.chunks_mut(8) {
        chunk.copy_from_slice(&next.to_le_bytes());
    }
}

fn sum(pool: &Pool) -> u64 {
    let count = |page| counter(&pool.fix_read(page).expect("a page"));
    (0..COUNTED).map(count).sum()
}

/// Reads and increments pages; returns the number of increments of the counted pages.
fn reads_and_increments(pool: &Pool, steps: u32, seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut increments = 0;
    for _ in 0..steps {
        let page = random.u64(..PAGES);
        match random.u8(..5) {
            0 | 1 => {
                let mut guard = pool.fix_write(page).expect("a page");
                increment(&mut guard);
                increments += u64::from(page < COUNTED);
                if random.bool() {
                    counter(&guard.downgrade());
                }
            }
            2 | 3 => {
                let guard = pool.fix_read(page).expect("a page");
                assert_eq!(guard.page(), page);
                counter(&guard);
            }
            _ => {
                let mut copy = [0; PAYLOAD];
                if let Some(page) = pool.read_optimistically(page)
                    && page.read(0, &mut copy)
                    && page.validate()
                {
                    counter(&copy);
                }
            }
        }
    }
    increments
}

/// Calls all other functions of a pool.
fn disturbs(pool: &Pool, stop: &AtomicBool, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    while !stop.load(Ordering::Relaxed) {
        match random.u8(..5) {
            0 => pool.flush(random.u64(..PAGES)).expect("a flush"),
            1 => _ = pool.checkpoint().expect("a checkpoint"),
            2 => pool.discard(random.u64(COUNTED..PAGES)).expect("a discard"),
            3 => {
                pool.free(random.u64(COUNTED..PAGES)).expect("a free page");
                let guard = pool.allocate().expect("the page, or another");
                assert!((COUNTED..PAGES).contains(&guard.page()));
                assert_eq!(counter(&guard), 0);
            }
            _ => _ = pool.stats(),
        }
        thread::yield_now();
    }
}

/// Runs four threads on one pool, and checks the pool afterwards.
fn stressed(what: &str, pool: Pool, storage: Arc<MemoryStorage>) {
    let stop = AtomicBool::new(false);
    let increments: u64 = thread::scope(|scope| {
        let (pool, stop) = (&pool, &stop);
        let disturber = scope.spawn(move || disturbs(pool, stop, 99));
        let workers = [1, 2, 3].map(|seed| scope.spawn(move || reads_and_increments(pool, STEPS, seed)));
        let increments = workers.map(|worker| worker.join());
        stop.store(true, Ordering::Relaxed);
        disturber.join().expect("the disturber");
        let counted = increments.into_iter().map(|each| each.expect("a worker"));
        counted.sum()
    });
    assert_eq!(sum(&pool), increments, "{what}");
    let stats = pool.stats();
    assert_eq!(stats.failed_reads + stats.failed_writes, 0, "{what}");
    pool.close().expect(what);
    let reopened = options(3).open(storage).expect("a pool");
    assert_eq!(sum(&reopened), increments, "{what}, reopened");
}

#[test]
fn nothing_is_lost_or_torn() {
    for policy in ["casa", "lru", "cfdc:cluster=4", "fd-buffer:interval=50", "arc", "bplru:block=4"] {
        for frames in [1, 2, 5, 8] {
            for background in [false, true] {
                let storage = storage();
                let pool = options(frames)
                    .policy(policy)
                    .expect("a policy")
                    .background(background)
                    .open(Arc::clone(&storage))
                    .expect("a pool");
                let what = format!("{policy}, {frames} frames, background {background}");
                stressed(&what, pool, storage);
            }
        }
    }
}

#[test]
fn nothing_is_lost_with_a_small_dirty_budget() {
    for background in [false, true] {
        for dense in [0, 7] {
            let storage = storage();
            let pool = options(4)
                .dirty_budget(0.0, Duration::from_micros(100))
                .max_dirty_age(Duration::from_millis(4))
                .clean_reserve(2)
                .dense_pages(dense)
                .background(background)
                .open(Arc::clone(&storage))
                .expect("a pool");
            stressed(&format!("background {background}"), pool, storage);
        }
    }
}

#[test]
fn a_pool_full_of_dirty_pages_fetches_others() {
    let storage = storage();
    let pool = options(4).dirty_budget(1.0, Duration::ZERO).background(false).open(Arc::clone(&storage)).expect("a pool");
    for round in 0..3 {
        for page in 0..COUNTED {
            let mut guard = pool.fix_write(page).expect("a page");
            assert_eq!(counter(&guard), round);
            increment(&mut guard);
        }
        assert_eq!(pool.stats().dirty, 4);
    }
    assert_eq!(pool.stats().writes(), 3 * COUNTED - 4);
    assert_eq!(pool.checkpoint().expect("a checkpoint").pages, 4);
    assert_eq!(sum(&pool), 3 * COUNTED);
}

#[test]
fn a_fix_fails_while_all_frames_are_pinned_and_succeeds_later() {
    let pool = options(2).patience(Duration::from_millis(20)).open(storage()).expect("a pool");
    let mut changed = pool.fix_write(0).expect("a page");
    let read = pool.fix_read(1).expect("a page");
    for _ in 0..2 {
        match pool.fix_read(2).err() {
            Some(PoolError::AllPinned { frames: 2, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert!(matches!(pool.fix_write(3), Err(PoolError::AllPinned { .. })));
    }
    assert!(pool.stats().waits_for_frames >= 4);
    increment(&mut changed);
    drop(read);
    assert_eq!(counter(&pool.fix_read(2).expect("a page")), 0);
    drop(changed);
    drop(pool.fix_read(3).expect("a page"));
    assert_eq!(counter(&pool.fix_read(0).expect("a page")), 1);
}

#[test]
fn a_thread_that_waits_for_a_frame_gets_the_first_that_is_unpinned() {
    let pool = options(2).open(storage()).expect("a pool");
    let pinned = [0, 1].map(|page| pool.fix_read(page).expect("a page"));
    thread::scope(|scope| {
        let waits = scope.spawn(|| counter(&pool.fix_write(2).expect("a frame")));
        while pool.stats().waits_for_frames == 0 {
            thread::yield_now();
        }
        let [first, _second] = pinned;
        drop(first);
        assert_eq!(waits.join().expect("a frame"), 0);
    });
}

#[test]
fn a_thread_that_waits_for_its_own_guard_gets_an_error() {
    let pool = options(2).patience(Duration::from_millis(20)).open(storage()).expect("a pool");
    let read = pool.fix_read(0).expect("a page");
    assert!(matches!(pool.fix_write(0), Err(PoolError::Latched { page: 0, .. })));
    // The writer that gave up does not block readers.
    assert_eq!(counter(&pool.fix_read(0).expect("a page")), 0);
    assert!(matches!(pool.discard(0), Err(PoolError::Latched { page: 0, .. })));
    drop(read);
    increment(&mut pool.fix_write(0).expect("a page"));
    let _changed = pool.fix_write(0).expect("a page");
    assert!(matches!(pool.fix_read(0), Err(PoolError::Latched { page: 0, .. })));
}

#[test]
fn a_page_that_a_panic_left_half_changed_is_never_read() {
    let pool = options(4).open(storage()).expect("a pool");
    increment(&mut pool.fix_write(0).expect("a page"));
    pool.flush(0).expect("a flush");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // Other threads wait for the page meanwhile, and use the other frames afterwards.
        let others = [1, 2].map(|seed| {
            let (pool, stop) = (&pool, &stop);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut refused = 0;
                while !stop.load(Ordering::Relaxed) {
                    match pool.fix_read(random.u64(..6)) {
                        Ok(guard) => _ = counter(&guard),
                        Err(PoolError::Abandoned { page: 0 }) => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                    thread::yield_now();
                }
                refused
            })
        });
        let died = scope
            .spawn(|| {
                let mut guard = pool.fix_write(0).expect("a page");
                guard[..8].fill(9);
                panic!("meant to happen");
            })
            .join();
        assert!(died.is_err());
        for _ in 0..20 {
            assert!(matches!(pool.fix_read(0), Err(PoolError::Abandoned { page: 0 })));
            assert!(matches!(pool.fix_write(0), Err(PoolError::Abandoned { page: 0 })));
            assert!(pool.read_optimistically(0).is_none());
            assert!(matches!(pool.checkpoint(), Err(PoolError::Abandoned { page: 0 })));
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        for other in others {
            other.join().expect("a reader");
        }
    });
    pool.discard(0).expect("a discard");
    assert_eq!(counter(&pool.fix_read(0).expect("a page")), 1);
}

#[test]
fn a_panic_while_reading_or_before_the_fix_abandons_no_page() {
    struct Fixes<'p>(&'p Pool);
    impl Drop for Fixes<'_> {
        fn drop(&mut self) {
            increment(&mut self.0.fix_write(1).expect("a page"));
        }
    }
    let pool = options(4).open(storage()).expect("a pool");
    let died = catch_unwind(AssertUnwindSafe(|| {
        let _cleans_up = Fixes(&pool);
        let _read = pool.fix_read(0).expect("a page");
        panic!("meant to happen");
    }));
    assert!(died.is_err());
    increment(&mut pool.fix_write(0).expect("a page"));
    assert_eq!(sum(&pool), 2);
}

#[test]
fn a_pool_may_be_dropped_at_any_time() {
    for round in 0..20 {
        let storage = storage();
        let pool = options(6)
            .max_dirty_age(Duration::from_millis(4))
            .dirty_budget(0.2, Duration::from_micros(50))
            .read_ahead(4)
            .open(Arc::clone(&storage))
            .expect("a pool");
        let pool = Arc::new(pool);
        let written = Arc::new(AtomicU64::new(0));
        let threads = [0, 1].map(|half| {
            let (pool, written) = (Arc::clone(&pool), Arc::clone(&written));
            thread::spawn(move || {
                // In sequence, so that pages are read ahead.
                for page in (0..round + 5).map(|step| (half * 9 + step) % PAGES) {
                    increment(&mut pool.fix_write(page).expect("a page"));
                    written.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        drop(pool);
        for thread in threads {
            thread.join().expect("a thread");
        }
        // Changes that were not written are lost; pages that were written are whole, and have no more increments than
        // were made.
        let reopened = options(3).open(storage).expect("a pool");
        let found: u64 = (0..PAGES).map(|page| counter(&reopened.fix_read(page).expect("a page"))).sum();
        assert!(found <= written.load(Ordering::Relaxed));
    }
}

/// Tests that are small enough for valgrind, under which `./test --all` runs them: it reports frames that overlap or are
/// used after they were freed.
mod frame_memory {
    use super::*;

    #[test]
    fn frames_do_not_overlap() {
        let pool = options(5).open(storage()).expect("a pool");
        let mut guards: Vec<_> = (0..5).map(|page| pool.fix_write(page).expect("a page")).collect();
        for guard in &mut guards {
            let page = guard.page() as u8;
            assert_eq!(guard.len(), PAYLOAD);
            guard.fill(page + 1);
        }
        for guard in guards.iter().rev() {
            let page = guard.page() as u8;
            assert!(guard.iter().all(|&byte| byte == page + 1));
        }
    }

    #[test]
    fn an_optimistic_read_ends_with_the_page() {
        let pool = options(1).open(storage()).expect("a pool");
        pool.fix_write(3).expect("a page").fill(7);
        let page = pool.read_optimistically(3).expect("it is resident");
        let mut bytes = [0; PAYLOAD];
        assert!(page.read(0, &mut bytes) && page.read(PAYLOAD - 1, &mut bytes[..1]));
        assert!(page.read(PAYLOAD, &mut []) && page.validate());
        assert_eq!(bytes, [7; PAYLOAD]);
        assert!(!page.read(1, &mut bytes));
        assert!(!page.read(PAYLOAD, &mut bytes[..1]));
        assert!(!page.read(usize::MAX, &mut bytes[..1]));
    }

    #[test]
    fn copies_in_flight_have_memory_of_their_own() {
        let storage = storage();
        let pool = options(3).batch(2).open(Arc::clone(&storage)).expect("a pool");
        for round in 1..=3 {
            for page in 0..PAGES {
                pool.fix_write(page).expect("a page").fill(round);
            }
            pool.checkpoint().expect("a checkpoint");
        }
        drop(pool);
        let pool = options(1).open(storage).expect("a pool");
        for page in 0..PAGES {
            assert_eq!(pool.fix_read(page).expect("a page")[..], [3; PAYLOAD]);
        }
    }

    #[test]
    fn all_threads_have_ended_before_the_memory_is_freed() {
        let pool = options(3).max_dirty_age(Duration::from_millis(2)).open(storage()).expect("a pool");
        thread::scope(|scope| {
            let workers = [1, 2].map(|seed| {
                scope.spawn({
                    let pool = &pool;
                    move || reads_and_increments(pool, 60, seed)
                })
            });
            let increments = workers.map(|worker| worker.join().expect("a worker"));
            assert_eq!(sum(&pool), increments.iter().sum::<u64>());
        });
    }
}

/// A log that has a reference to its pool while it is forced, and drops the last one.
#[derive(Default)]
struct LogWithPool {
    pool: Mutex<Weak<Pool>>,
    is_forced: AtomicBool,
    may_go_on: AtomicBool,
    has_panicked: AtomicBool,
}

impl Log for LogWithPool {
    fn durable_lsn(&self) -> Lsn {
        0
    }

    fn end_lsn(&self) -> Lsn {
        1
    }

    fn force(&self, _: Lsn) -> std::io::Result<()> {
        let pool = self.pool.lock().expect("a pool").upgrade();
        self.is_forced.store(true, Ordering::SeqCst);
        while !self.may_go_on.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(pool)));
        self.has_panicked.store(dropped.is_err(), Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn a_thread_of_the_pool_may_drop_the_last_reference_to_it() {
    let log = Arc::new(LogWithPool::default());
    let storage = storage();
    let opened = options(16).max_dirty_age(Duration::from_millis(4)).log(log.clone()).open(Arc::clone(&storage));
    let pool = Arc::new(opened.expect("a pool"));
    *log.pool.lock().expect("a pool") = Arc::downgrade(&pool);
    pool.fix_write(1).expect("a page").set_lsn(1);
    let wait_until = |condition: &dyn Fn() -> bool| {
        while !condition() {
            thread::yield_now();
        }
    };
    wait_until(&|| log.is_forced.load(Ordering::SeqCst));
    drop(pool);
    log.may_go_on.store(true, Ordering::SeqCst);
    // The thread ends, and drops what is left of the pool.
    wait_until(&|| Arc::strong_count(&storage) == 1);
    assert!(!log.has_panicked.load(Ordering::SeqCst));
}
