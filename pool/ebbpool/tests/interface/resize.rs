//! The number of frames changes while the pool is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ebbpool::storage::MemoryStorage;
use ebbpool::{OptionsError, Pool, PoolError, PoolOptions};
use ebbpool_policy::{Access, Capabilities, Frame, Page, Policy, registry};

/// The policies whose number of frames may change.
fn resizable() -> Vec<&'static str> {
    let all = registry::entries().iter();
    all.filter(|entry| entry.capabilities.contains(Capabilities::RESIZES)).map(|entry| entry.name).collect()
}

fn pool(policy: &str, frames: u32, most: u32) -> Pool {
    let options = PoolOptions::new(frames).policy(policy).expect("a policy").most_frames(most).background(false);
    options.exact_hits(true).open(MemoryStorage::new(512)).expect("a pool")
}

#[test]
fn pages_stay_that_the_policy_would_keep_and_none_is_written_because_it_moves() {
    let pool = pool("lru", 8, 16);
    for page in 0..8 {
        pool.fix_write(page).expect("a page")[0] = page as u8 + 1;
    }
    // The last frames have the pages that were fixed last; then those of the first ones are fixed once more.
    for page in [0, 1] {
        drop(pool.fix_read(page).expect("a page"));
    }
    pool.resize(4).expect("fewer frames");
    let stats = pool.stats();
    assert_eq!((pool.frames(), stats.frames, stats.resident), (4, 4, 4));
    assert_eq!((stats.dirty, stats.writes()), (4, 4), "only the victims were written");
    for page in [6, 7, 0, 1] {
        assert_eq!(pool.try_fix_read(page).expect("no error").expect("it is resident")[0], page as u8 + 1);
    }
    assert!((2..6).all(|page| pool.try_fix_read(page).expect("no error").is_none()));
    pool.resize(16).expect("more frames");
    let misses = pool.stats().misses;
    for page in (0..16).chain(0..16) {
        let expected = if page < 8 { page as u8 + 1 } else { 0 };
        assert_eq!(pool.fix_read(page).expect("a page")[0], expected);
    }
    assert_eq!(pool.stats().misses - misses, 12, "all pages fit into 16 frames");
    pool.close().expect("it is closed");
}

#[test]
fn pages_that_stay_are_not_written() {
    for policy in resizable() {
        let pool = pool(policy, 64, 64);
        for page in 0..20 {
            pool.fix_write(page).expect("a page")[0] = 1;
        }
        for page in 20..64 {
            drop(pool.fix_read(page).expect("a page"));
        }
        for page in 0..20 {
            pool.fix_write(page).expect("a page")[0] = 2;
        }
        pool.resize(40).expect("fewer frames");
        let (dirty, written) = (pool.stats().dirty, pool.stats().writes());
        assert_eq!(u64::from(dirty) + written, 20, "{policy}: each page is dirty or was written once");
        assert!(policy == "fifo" || policy == "clock" || policy == "gclock" || written == 0, "{policy}: {written} written");
        assert_eq!(pool.checkpoint().expect("a checkpoint").pages, dirty as usize);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |result: Result<(), PoolError>| match result {
        Err(PoolError::Options(error)) => error,
        other => panic!("it is refused: {other:?}"),
    };
    let fixed = PoolOptions::new(4).open(MemoryStorage::new(512)).expect("a pool");
    let error = refused(fixed.resize(3));
    assert_eq!(error, OptionsError::ResizeTo { frames: 3, most: None });
    assert!(error.to_string().contains("most_frames"), "{error}");
    let pool = pool("lru", 4, 9);
    for frames in [0, 10, u32::MAX] {
        assert_eq!(refused(pool.resize(frames)), OptionsError::ResizeTo { frames, most: Some(9) });
    }
    let cannot =
        registry::entries().iter().filter(|entry| !entry.capabilities.contains(Capabilities::RESIZES) && entry.online());
    for entry in cannot {
        let options = PoolOptions::new(4).policy(entry.name).expect("a policy").most_frames(4);
        let opened = options.open(MemoryStorage::new(512));
        assert!(matches!(opened, Err(PoolError::Options(OptionsError::Resize { .. } | OptionsError::EraseCounts { .. }))));
    }
    let clustered = PoolOptions::new(4).policy("lru:cluster=4").expect("a policy").most_frames(4);
    assert!(matches!(clustered.open(MemoryStorage::new(512)), Err(PoolError::Options(OptionsError::Resize { .. }))));
    let fewer = PoolOptions::new(4).most_frames(3).open(MemoryStorage::new(512));
    assert!(matches!(fewer, Err(PoolError::Options(OptionsError::MostFrames { most: 3, frames: 4 }))));
}

#[test]
fn a_page_that_is_fixed_for_long_leaves_the_pool_as_it_was() {
    for policy in resizable() {
        let options = PoolOptions::new(8).policy(policy).expect("a policy").most_frames(8).background(false);
        let options = options.patience(Duration::from_millis(20));
        let pool = options.open(MemoryStorage::new(512)).expect("a pool");
        for page in 0..8 {
            pool.fix_write(page).expect("a page")[0] = 7;
        }
        let held: Vec<_> = (0..8).map(|page| pool.fix_read(page).expect("a page")).collect();
        let resized = pool.resize(7);
        assert!(matches!(resized, Err(PoolError::Latched { .. } | PoolError::AllPinned { .. })), "{policy}: {resized:?}");
        assert_eq!(pool.frames(), 8);
        drop(held);
        // Every frame is used again.
        let all: Vec<_> = (10..18).map(|page| pool.fix_read(page).expect("a page")).collect();
        assert_eq!(all.len(), 8);
        drop(all);
        pool.resize(1).expect("fewer frames");
        assert!((0..8).all(|page| pool.fix_read(page).expect("a page")[0] == 7));
    }
}

#[test]
fn threads_use_the_pool_meanwhile() {
    const PAGES: u64 = 200;
    const THREADS: u64 = 4;
    for policy in resizable() {
        let storage = Arc::new(MemoryStorage::new(512));
        let options = PoolOptions::new(60).policy(policy).expect("a policy").most_frames(150);
        let pool = options.open(Arc::clone(&storage)).expect("a pool");
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            let clients: Vec<_> = (0..THREADS)
                .map(|own| {
                    let (pool, ends) = (&pool, &ends);
                    scope.spawn(move || {
                        // Each thread changes its own bytes of all pages.
                        let mut counts = [0u8; PAGES as usize];
                        let mut at = own;
                        while !ends.load(Ordering::Relaxed) {
                            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                            let page = (at >> 33) % PAGES * ((at >> 20) % 3) / 2;
                            let count = &mut counts[page as usize];
                            if at >> 60 < 5 {
                                *count = count.wrapping_add(1);
                                pool.fix_write(page).expect("a page")[own as usize] = *count;
                            } else {
                                assert_eq!(pool.fix_read(page).expect("a page")[own as usize], *count, "{policy}");
                            }
                        }
                        counts
                    })
                })
                .collect();
            let checkpoints = scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    pool.checkpoint().expect("a checkpoint");
                }
            });
            for frames in [150, 20, 90, 8, 150, 40, 41, 12, 100, 60].into_iter().cycle().take(40) {
                pool.resize(frames).expect("another number");
                assert_eq!(pool.frames(), frames);
                thread::sleep(Duration::from_millis(2));
            }
            ends.store(true, Ordering::Relaxed);
            checkpoints.join().expect("checkpoints");
            let counts: Vec<_> = clients.into_iter().map(|client| client.join().expect("a client")).collect();
            assert!(pool.stats().resident <= 60);
            pool.checkpoint().expect("a checkpoint");
            let reopened = PoolOptions::new(60).open(Arc::clone(&storage)).expect("a pool");
            for page in 0..PAGES {
                let found = reopened.fix_read(page).expect("a page");
                for (own, counts) in counts.iter().enumerate() {
                    assert_eq!(found[own], counts[page as usize], "{policy}: page {page}");
                }
            }
        });
    }
}

/// Misses of skewed references, after some to warm up.
fn misses(pool: &Pool, warm_up: u64, references: u64) -> u64 {
    let mut at = 1u64;
    let mut before = 0;
    for count in 0..warm_up + references {
        if count == warm_up {
            before = pool.stats().misses;
        }
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = (at >> 11) as f64 / (1u64 << 53) as f64;
        let page = (20_000f64.powf(uniform) - 1.0) as u64;
        drop(pool.fix_read(page).expect("a page"));
    }
    pool.stats().misses - before
}

/// It learns anew what depends on the number of frames: the classes of pages, and which of two policies leads.
#[test]
fn ebb_is_soon_as_good_as_one_that_began_with_as_many_frames() {
    for (before, after) in [(100, 3000), (6000, 1500)] {
        let begun = misses(&pool("ebb", after, after), 60_000, 60_000);
        let resized = pool("ebb", before, before.max(after));
        misses(&resized, 30_000, 1);
        resized.resize(after).expect("another number");
        let resized = misses(&resized, 60_000, 60_000);
        assert!(resized as f64 <= 1.03 * begun as f64, "{before} to {after}: {resized} misses, and {begun}");
    }
}

/// First in, first out, which says what it evicts next and counts how often it is asked.
struct CountsSearches {
    frames: Vec<Frame>,
    searches: Arc<AtomicU64>,
}

impl Policy for CountsSearches {
    const CAPABILITIES: Capabilities = Capabilities::RESIZES;

    fn hit(&mut self, _: Frame, _: Access) {}
    fn admit(&mut self, frame: Frame, _: Page, _: Access) {
        self.frames.push(frame);
    }
    fn evicted(&mut self, frame: Frame) {
        self.frames.retain(|&it| it != frame);
    }
    fn cleaned(&mut self, _: Frame) {}
    fn victim<F: Fn(Frame) -> bool>(&mut self, _: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.searches.fetch_add(1, Ordering::Relaxed);
        self.frames.iter().copied().find(|&frame| may_evict(frame))
    }
    fn coming_victims(&self, may_evict: &dyn Fn(Frame) -> bool, coming: &mut [Frame]) -> Option<usize> {
        self.searches.fetch_add(1, Ordering::Relaxed);
        let next = self.frames.iter().filter(|&&frame| may_evict(frame));
        Some(coming.iter_mut().zip(next).map(|(place, &frame)| *place = frame).count())
    }
    fn moved(&mut self, from: Frame, to: Frame) {
        self.frames.iter_mut().filter(|frame| **frame == from).for_each(|frame| *frame = to);
    }
}

/// A policy that says that it evicts next what it must not keeps no shrinking pool waiting.
#[test]
fn a_policy_that_names_pages_in_use_first_is_asked_for_others() {
    struct NamesAny(CountsSearches);

    impl Policy for NamesAny {
        const CAPABILITIES: Capabilities = Capabilities::RESIZES;

        fn hit(&mut self, _: Frame, _: Access) {}
        fn admit(&mut self, frame: Frame, page: Page, access: Access) {
            self.0.admit(frame, page, access);
        }
        fn evicted(&mut self, frame: Frame) {
            self.0.evicted(frame);
        }
        fn cleaned(&mut self, _: Frame) {}
        fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
            self.0.victim(incoming, may_evict)
        }
        fn coming_victims(&self, _: &dyn Fn(Frame) -> bool, coming: &mut [Frame]) -> Option<usize> {
            coming.fill(0);
            // More than there is room for, too.
            Some(coming.len() + 1)
        }
        fn moved(&mut self, from: Frame, to: Frame) {
            Policy::moved(&mut self.0, from, to);
        }
    }

    let policy = NamesAny(CountsSearches { frames: Vec::new(), searches: Arc::default() });
    let options = PoolOptions::new(20).most_frames(20).background(false).own_policy(policy);
    let pool = options.open(MemoryStorage::new(512)).expect("a pool");
    let held = pool.fix_read(0).expect("a page");
    (1..20).for_each(|page| drop(pool.fix_read(page).expect("a page")));
    pool.resize(3).expect("fewer frames");
    drop(held);
    assert_eq!((pool.frames(), pool.stats().resident), (3, 3));
}

/// A search may look at all frames.
#[test]
fn a_smaller_pool_takes_few_searches_for_victims() {
    let searches = Arc::new(AtomicU64::new(0));
    for policy in ["lru", "its own"] {
        let options = PoolOptions::new(6000).most_frames(6000).background(false);
        let options = match policy {
            "lru" => options.policy(policy).expect("a policy"),
            _ => options.own_policy(CountsSearches { frames: Vec::new(), searches: Arc::clone(&searches) }),
        };
        let pool = options.open(MemoryStorage::new(512)).expect("a pool");
        for page in 0..6000 {
            drop(pool.fix_read(page).expect("a page"));
        }
        pool.resize(100).expect("fewer frames");
        assert!((5900..6000).all(|page| pool.try_fix_read(page).expect("no error").is_some()), "{policy}");
    }
    let searches = searches.load(Ordering::Relaxed);
    assert!(searches < 600, "{searches} searches for 5,900 victims");
}

/// Guards that are dropped after the resizing began are no longer in the way, wherever their pages are; meanwhile there are as many
/// frames for others as guards leave.
#[test]
fn a_smaller_pool_waits_for_guards_and_leaves_others_the_rest() {
    let options = PoolOptions::new(100).policy("lru").expect("a policy").most_frames(100).background(false);
    let pool = options.patience(Duration::from_secs(30)).open(MemoryStorage::new(512)).expect("a pool");
    let fix = |page| pool.fix_read(page).expect("a page");
    (0..40).for_each(|page| drop(fix(page)));
    let held: Vec<_> = (40..100).map(fix).collect();
    thread::scope(|scope| {
        let resized = scope.spawn(|| pool.resize(50));
        thread::sleep(Duration::from_millis(50));
        assert!(!resized.is_finished());
        drop(fix(1000));
        drop(held);
        resized.join().expect("no panic").expect("fewer frames");
    });
    assert_eq!((pool.frames(), pool.stats().resident), (50, 50));
}
