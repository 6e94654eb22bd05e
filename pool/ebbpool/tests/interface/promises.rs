//! Guarantees that hold for all page numbers, options and threads of callers.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use ebbpool::storage::{DiskOperation, FaultyDisk, MemoryStorage, Read, Storage, Write};
use ebbpool::{OptionsError, Pool, PoolError, PoolOptions, PoolScan};

const PAGE_SIZE: usize = 512;

/// The most readers that a page can have at a time.
const MOST_READERS: usize = 0x7fff;

fn options(frames: u32) -> PoolOptions {
    PoolOptions::new(frames).policy("lru").expect("a policy").background(false).dirty_budget(1.0, Duration::ZERO)
}

fn pool(frames: u32) -> Pool {
    let storage = MemoryStorage::new(PAGE_SIZE);
    options(frames).open(storage).expect("a pool")
}

fn put(pool: &Pool, page: u64, number: u64) -> Result<(), PoolError> {
    pool.fix_write(page)?[..8].copy_from_slice(&number.to_le_bytes());
    Ok(())
}

fn get(pool: &Pool, page: u64) -> u64 {
    let guard = pool.fix_read(page).expect("a page");
    u64::from_le_bytes(guard[..8].try_into().expect("8 bytes"))
}

/// Lets other threads run until the condition holds; it fails after a time that is long enough on any machine.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "{what}: not within a minute");
        thread::yield_now();
    }
}

/// Numbers that Fibonacci hashing maps to neighbouring entries.
fn that_fibonacci_hashing_maps_to_neighbours() -> impl Iterator<Item = u64> {
    let golden: u64 = 0x9e37_79b9_7f4a_7c15;
    // Newton's method: each step doubles the number of right bits.
    let inverse = (0..6).fold(golden, |x, _| x.wrapping_mul(2u64.wrapping_sub(golden.wrapping_mul(x))));
    (1..).map(move |n: u64| inverse.wrapping_mul(n))
}

/// A pool makes its own checkpoints: a parameter that asks for some would have no effect.
#[test]
fn policies_with_checkpoints_of_their_own_are_refused() {
    for spec in ["sqlite:commit=20", "postgres:checkpoint_timeout=30", "postgres:checkpoint_writes=500"] {
        let refused = PoolOptions::new(10).policy(spec);
        let Err(PoolError::Options(OptionsError::Checkpoints { policy })) = refused else {
            panic!("{spec} is no error of an option");
        };
        assert!(policy.starts_with(spec), "{policy}");
    }
    for spec in ["sqlite", "postgres", "innodb"] {
        assert!(PoolOptions::new(10).policy(spec).is_ok(), "{spec}");
    }
}

#[test]
fn no_choice_of_page_numbers_loses_a_change() {
    let strides = [75_025, 121_393, 196_418, 1_346_269, 1 << 32, 1 << 52];
    let mut choices: Vec<Vec<u64>> = strides.iter().map(|stride| (1..=1000).map(|n| n * stride).collect()).collect();
    choices.push(that_fibonacci_hashing_maps_to_neighbours().take(1000).collect());
    for pages in choices {
        let storage = FaultyDisk::new(1);
        let pool = options(1024).open(storage.pages("data", PAGE_SIZE)).expect("a pool");
        for (number, &page) in (1..).zip(&pages) {
            put(&pool, page, number).expect("a page");
        }
        let resident = pool.stats().resident as usize;
        assert_eq!(resident, pages.len(), "a page was loaded twice");
        for (number, &page) in (1..).zip(&pages) {
            assert_eq!(get(&pool, page), number, "page {page}");
        }
    }
}

#[test]
fn a_page_that_was_fixed_for_writing_is_not_allocated() {
    let pool = pool(4);
    put(&pool, 0, 42).expect("a page");
    put(&pool, 5, 43).expect("a page");
    pool.checkpoint().expect("a checkpoint");
    for page in 6..10 {
        assert_eq!(pool.allocate().expect("a page").page(), page);
    }
    assert_eq!((get(&pool, 0), get(&pool, 5)), (42, 43));
    pool.free(7).expect("it is not fixed");
    assert_eq!(pool.allocate().expect("a page").page(), 7);
    put(&pool, 5, 44).expect("a page");
    assert!(pool.free(5).expect("it is not fixed"), "it is dirty");
    assert!(!pool.free(0).expect("it is not fixed"), "it was written");
}

/// A number that is none, such as one that a damaged pointer has, must not leave the pool without numbers for others.
#[test]
fn a_page_that_is_dropped_is_no_longer_the_last() {
    const STRAY: u64 = 1 << 40;
    for (stray, by_free) in [(STRAY, false), (STRAY, true), (u64::MAX, false), (u64::MAX - 1, true)] {
        let pool = pool(4);
        let drop_it = |page: u64| match by_free {
            true => pool.free(page).map(drop),
            false => pool.discard(page),
        };
        let allocated = || pool.allocate().expect("a page").page();
        put(&pool, 3, 1).expect("a page");
        drop(pool.fix_write(stray).expect("a page"));
        drop(pool.fix_write(stray - 1).expect("a page"));
        drop_it(stray - 1).expect("it is not fixed");
        assert!(matches!(pool.allocate(), Err(PoolError::Grow { .. })), "{stray} is in use");
        // Pages that are neither in memory nor allocated are in use, and so are those that wait to be redone.
        put(&pool, 9, 2).expect("a page");
        (20..24).for_each(|page| assert_eq!(get(&pool, page), 0));
        drop_it(stray).expect("it is not fixed");
        assert_eq!(allocated(), 10);
        let mut logged = pool.fix_write(15).expect("a page");
        logged.set_lsn(7);
        drop(logged);
        pool.discard(15).expect("it is not fixed");
        assert_eq!(allocated(), 16);
        // A page behind the last one was never in use.
        drop_it(STRAY).expect("it is not fixed");
        assert_eq!(allocated(), 17);
        assert_eq!((get(&pool, 3), get(&pool, 9)), (1, 2));
    }
}

#[test]
fn a_page_beyond_the_most_is_refused() {
    let pool = options(4).most_pages(6).open(MemoryStorage::new(PAGE_SIZE)).expect("a pool");
    let fixed = [pool.fix_read(6).map(drop), put(&pool, 6, 1), pool.fix_new(u64::MAX).map(drop)];
    for refused in fixed {
        assert!(matches!(refused, Err(PoolError::NoPage { most: 6, .. })), "{refused:?}");
    }
    put(&pool, 4, 1).expect("a page");
    assert_eq!(pool.allocate().expect("a page").page(), 5);
    for _ in 0..2 {
        assert!(matches!(pool.allocate(), Err(PoolError::Grow { pages: 7, .. })));
    }
    assert!(matches!(pool.grow(7), Err(PoolError::Grow { pages: 7, .. })));
    assert_eq!(pool.pages(), 6);
}

#[test]
fn allocation_fails_if_the_last_page_number_is_in_use() {
    // The storage accepts any page number.
    let disk = FaultyDisk::new(1);
    let pool = options(4).open(disk.pages("data", PAGE_SIZE)).expect("a pool");
    drop(pool.fix_new(u64::MAX).expect("a page"));
    for _ in 0..2 {
        assert!(matches!(pool.allocate(), Err(PoolError::Grow { .. })));
    }
}

/// The block is written whole: a page of it is read for that. Another page is fixed for reading, so that it stays
/// resident and a copy of it is written. There is room for one copy.
/// A storage that returns early while it is away, as one does whose connection is lost, and sets no outcome.
struct Away {
    memory: MemoryStorage,
    is_away: Arc<AtomicBool>,
}

impl Storage for Away {
    fn page_size(&self) -> usize {
        self.memory.page_size()
    }
    fn pages(&self) -> io::Result<u64> {
        self.memory.pages()
    }
    fn grow(&self, pages: u64) -> io::Result<()> {
        self.memory.grow(pages)
    }
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        match self.is_away.load(Ordering::SeqCst) {
            true => None,
            false => self.memory.read(reads),
        }
    }
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        match self.is_away.load(Ordering::SeqCst) {
            true => None,
            false => self.memory.write(writes),
        }
    }
    fn sync(&self) -> io::Result<()> {
        self.memory.sync()
    }
    fn describe(&self) -> String {
        "memory that may be away".into()
    }
}

#[test]
fn a_storage_that_sets_no_outcome_has_failed() {
    let is_away = Arc::new(AtomicBool::new(false));
    let storage = Away { memory: MemoryStorage::new(PAGE_SIZE), is_away: Arc::clone(&is_away) };
    let pool = options(8).open(storage).expect("a pool");
    for page in 0..50 {
        put(&pool, page, page + 100).expect("a page");
    }
    for page in 0..50 {
        pool.flush(page).expect("a flush");
    }
    put(&pool, 1, 77).expect("a page");
    is_away.store(true, Ordering::SeqCst);
    let read = pool.fix_read(5).map(drop).expect_err("nothing was read");
    assert!(read.to_string().contains("set no outcome"), "{read}");
    let written = pool.flush(1).expect_err("nothing was written");
    assert!(written.to_string().contains("set no outcome"), "{written}");
    is_away.store(false, Ordering::SeqCst);
    for page in 0..50 {
        let number = if page == 1 { 77 } else { page + 100 };
        assert_eq!(get(&pool, page), number, "{page}");
    }
}

#[test]
fn a_block_is_written_whole_with_room_for_one_copy() {
    let storage = MemoryStorage::new(PAGE_SIZE);
    storage.grow(16).expect("memory");
    let options = options(3).policy("bplru:padding=true,block=4");
    let options = options.expect("a policy").batch(1).double_write(MemoryStorage::new(PAGE_SIZE));
    let pool = options.open(storage);
    let pool = Arc::new(pool.expect("a pool"));
    put(&pool, 0, 42).expect("a page");
    put(&pool, 1, 43).expect("a page");
    let (misses, stays) = (Arc::clone(&pool), pool.fix_read(1).expect("a page"));
    let thread = thread::spawn(move || {
        put(&misses, 8, 44).expect("a page");
        put(&misses, 12, 45).expect("a page");
    });
    wait_until("a miss", || thread.is_finished());
    thread.join().expect("no panic");
    drop(stays);
    assert_eq!([0, 1, 8, 12].map(|page| get(&pool, page)), [42, 43, 44, 45]);
}

/// A storage that holds up writes of one page, or, without one, cuts.
struct HoldsUp {
    memory: Arc<MemoryStorage>,
    page: Option<u64>,
    is_closed: Arc<AtomicBool>,
    is_waiting: Arc<AtomicBool>,
}

impl HoldsUp {
    fn while_closed(&self) {
        while self.is_closed.load(Ordering::SeqCst) {
            self.is_waiting.store(true, Ordering::SeqCst);
            thread::yield_now();
        }
    }
}

impl Storage for HoldsUp {
    fn page_size(&self) -> usize {
        self.memory.page_size()
    }
    fn pages(&self) -> io::Result<u64> {
        self.memory.pages()
    }
    fn grow(&self, pages: u64) -> io::Result<()> {
        self.memory.grow(pages)
    }
    fn truncate(&self, pages: u64) -> io::Result<()> {
        if self.page.is_none() {
            self.while_closed();
        }
        self.memory.truncate(pages)
    }
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        self.memory.read(reads)
    }
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        if writes.iter().any(|write| Some(write.page) == self.page) {
            self.while_closed();
        }
        self.memory.write(writes)
    }
    fn sync(&self) -> io::Result<()> {
        self.memory.sync()
    }
    fn describe(&self) -> String {
        "holds up writes".into()
    }
}

/// A block that is written whole has free pages, which no frame has.
#[test]
fn no_page_that_is_cut_off_is_written_afterwards() {
    let memory = Arc::new(MemoryStorage::new(PAGE_SIZE));
    memory.grow(12).expect("memory");
    let (is_closed, is_waiting) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
    let storage = HoldsUp {
        memory: Arc::clone(&memory),
        page: Some(10),
        is_closed: Arc::clone(&is_closed),
        is_waiting: Arc::clone(&is_waiting),
    };
    let options = options(3).policy("bplru:padding=true,block=4").expect("a policy");
    let pool = options.double_write(MemoryStorage::new(PAGE_SIZE)).open(storage).expect("a pool");
    (9..12).for_each(|page| assert!(page < 12 && pool.free(page).is_ok()));
    is_closed.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        scope.spawn(|| [8, 0, 4, 0, 4, 1, 5].map(|page| put(&pool, page, page).expect("a page")));
        wait_until("a write of the block", || is_waiting.load(Ordering::SeqCst));
        let truncated = scope.spawn(|| pool.truncate(9));
        // Or else it would be done by then.
        thread::sleep(Duration::from_millis(50));
        is_closed.store(false, Ordering::SeqCst);
        truncated.join().expect("no panic").expect("it is cut off");
    });
    pool.checkpoint().expect("all is written");
    assert_eq!((pool.pages(), memory.pages().expect("a length")), (9, 9));
    assert_eq!(get(&pool, 8), 8);
}

#[test]
fn a_page_that_is_fixed_while_it_is_cut_off_has_no_old_content() {
    let memory = Arc::new(MemoryStorage::new(PAGE_SIZE));
    let (is_closed, is_waiting) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
    let storage = HoldsUp {
        memory: Arc::clone(&memory),
        page: None,
        is_closed: Arc::clone(&is_closed),
        is_waiting: Arc::clone(&is_waiting),
    };
    let pool = options(16).open(storage).expect("a pool");
    (0..4).for_each(|page| put(&pool, page, 40 + page).expect("a page"));
    pool.checkpoint().expect("all is written");
    (2..4).for_each(|page| assert!(pool.free(page).is_ok()));
    is_closed.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        let truncated = scope.spawn(|| pool.truncate(2));
        wait_until("the cut", || is_waiting.load(Ordering::SeqCst));
        let seen = [2, 3].map(|page| get(&pool, page));
        let stays = pool.fix_read(2).expect("a page");
        is_closed.store(false, Ordering::SeqCst);
        truncated.join().expect("no panic").expect("it is cut off");
        drop(stays);
        assert_eq!(seen, [0, 0]);
    });
    pool.grow(4).expect("memory");
    assert_eq!([0, 1, 2, 3].map(|page| get(&pool, page)), [40, 41, 0, 0]);
}

#[test]
fn a_scan_goes_on_in_another_pool() {
    let (large, small) = (pool(1024), pool(8));
    let mut scan = PoolScan::new();
    for (pool, pages) in [(&large, 40), (&small, 100), (&large, 40)] {
        for page in 0..pages {
            drop(pool.fix_scan(page, &mut scan).expect("a page"));
        }
    }
}

#[test]
fn times_may_be_as_long_as_possible() {
    let pool = options(2)
        .patience(Duration::MAX)
        .dirty_budget(0.0, Duration::MAX)
        .max_dirty_age(Duration::MAX)
        .open(MemoryStorage::new(PAGE_SIZE))
        .expect("a pool");
    put(&pool, 0, 1).expect("a page");
    assert_eq!(get(&pool, 0), 1);
    pool.checkpoint().expect("a checkpoint");
}

/// A writer fixes a page that readers hold at any time.
#[test]
fn a_writer_gets_a_page_that_is_never_without_readers() {
    let pool = pool(4);
    drop(pool.fix_read(1).expect("a page"));
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    // Each reader holds the page until the other one has it too, so that the page always has a reader, unless readers
    // let a writer go first.
    let turns = [AtomicU64::new(0), AtomicU64::new(0)];
    thread::scope(|scope| {
        for own in 0..2 {
            let (pool, stop, turns) = (&pool, &stop, &turns);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let guard = pool.fix_read(1).expect("a page");
                    turns[own].fetch_add(1, Ordering::Relaxed);
                    let other = turns[1 - own].load(Ordering::Relaxed);
                    let mut yields = 0..1000;
                    while turns[1 - own].load(Ordering::Relaxed) == other && yields.next().is_some() {
                        thread::yield_now();
                    }
                    drop(guard);
                }
            });
        }
        for n in 1..=20 {
            put(&pool, 1, n).expect("readers let the writer go first");
            written.store(n, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(get(&pool, 1), 20);
}

/// A thread that changes a page without a break fixes it again sooner than one that sleeps can latch it.
#[test]
fn a_page_is_discarded_beside_a_thread_that_changes_it_without_a_break() {
    let patient = options(4).patience(Duration::from_secs(2));
    let pool = patient.open(MemoryStorage::new(512)).expect("a pool");
    let (stop, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let mut page = pool.fix_write(1).expect("a page");
                page[0] = page[0].wrapping_add(1);
                changes.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(10));
            }
        });
        let discarded = (0..5).map(|_| {
            let before = changes.load(Ordering::Relaxed);
            wait_until("the page is changed", || changes.load(Ordering::Relaxed) > before);
            pool.discard(1)
        });
        let discarded: Result<Vec<()>, PoolError> = discarded.collect();
        stop.store(true, Ordering::Relaxed);
        discarded.expect("it has its turn");
    });
}

/// A thread fixes a page for reading that it has fixed for reading, beside a writer that waits.
#[test]
fn a_page_is_fixed_for_reading_twice_beside_a_writer_that_waits() {
    let pool = options(4).patience(Duration::MAX).open(MemoryStorage::new(PAGE_SIZE)).expect("a pool");
    let pool = Arc::new(pool);
    let first = pool.fix_read(1).expect("a page");
    let writer = writer_that_waits(&pool, 1);
    let reader = Arc::clone(&pool);
    let second = thread::spawn(move || reader.fix_read(1).map(drop));
    wait_until("the second fix", || second.is_finished());
    drop(first);
    wait_until("the writer", || writer.is_finished());
}

fn writer_that_waits(pool: &Arc<Pool>, page: u64) -> thread::JoinHandle<()> {
    let waits = pool.stats().waits_for_latches;
    let writes = Arc::clone(pool);
    let writer = thread::spawn(move || put(&writes, page, 1).expect("a page"));
    wait_until("a writer that waits", || pool.stats().waits_for_latches > waits);
    writer
}

/// Two threads fix two pages for reading in opposite orders, and a writer waits for each.
#[test]
fn readers_in_opposite_orders_do_not_wait_for_each_others_writers_for_ever() {
    let pool = options(4).patience(Duration::MAX).open(MemoryStorage::new(PAGE_SIZE)).expect("a pool");
    let pool = Arc::new(pool);
    let both = Arc::new(Barrier::new(2));
    let readers = [(1, 2), (2, 1)].map(|(first, second)| {
        let (pool, both) = (Arc::clone(&pool), Arc::clone(&both));
        thread::spawn(move || {
            let guard = pool.fix_read(first).expect("a page");
            both.wait();
            let writer = writer_that_waits(&pool, first);
            both.wait();
            drop(pool.fix_read(second).expect("a page"));
            drop(guard);
            wait_until("the writer", || writer.is_finished());
        })
    });
    for reader in readers {
        wait_until("a reader", || reader.is_finished());
        reader.join().expect("no panic");
    }
}

#[test]
fn a_reader_gets_one_of_all_pins_when_two_are_dropped() {
    let pool = pool(2);
    let guards: Vec<_> = (0..MOST_READERS).map(|_| pool.fix_read(1).expect("a page")).collect();
    let waits = pool.stats().waits_for_latches;
    thread::scope(|scope| {
        let reader = scope.spawn(|| pool.fix_read(1).map(drop));
        while pool.stats().waits_for_latches == waits {
            thread::yield_now();
        }
        // It is woken by the first pin that is dropped after it began to sleep.
        let mut guards = guards;
        while !reader.is_finished() {
            guards.truncate(MOST_READERS - 2);
            thread::yield_now();
        }
        reader.join().expect("a reader").expect("a pin");
    });
}

/// Writers wait for pages, some of which are evicted meanwhile; afterwards a single thread reads without waiting.
#[test]
fn no_reader_waits_after_all_writers_have_ended() {
    for seed in 0..60u64 {
        let disk = FaultyDisk::new(seed);
        disk.observe(|io| {
            if io.operation == DiskOperation::Write {
                thread::sleep(Duration::from_micros(20));
            }
        });
        let pool = options(5).open(disk.pages("data", PAGE_SIZE)).expect("a pool");
        thread::scope(|scope| {
            for n in 0..6 {
                let pool = &pool;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed * 10 + n);
                    for _ in 0..200 {
                        let page = random.u64(0..8);
                        match random.u8(0..20) {
                            0..10 => drop(pool.fix_write(page).expect("a page")),
                            10..19 => drop(pool.fix_read(page).expect("a page")),
                            _ => pool.flush(page).expect("a flush"),
                        }
                    }
                });
            }
        });
        let waits = pool.stats().waits_for_latches;
        for page in (0..8).filter(|&page| pool.read_optimistically(page).is_some()) {
            drop(pool.fix_read(page).expect("a page"));
        }
        assert_eq!(pool.stats().waits_for_latches, waits, "seed {seed}");
    }
}

#[test]
fn fixes_for_reading_and_for_writing_are_both_read_ahead_of() {
    for write in [false, true] {
        let storage = MemoryStorage::new(PAGE_SIZE);
        storage.grow(20_000).expect("room");
        let pool =
            PoolOptions::new(4096).policy("lru").expect("a policy").read_ahead(32).open(Arc::new(storage)).expect("a pool");
        for page in 0..2000 {
            match write {
                true => drop(pool.fix_write(page).expect("a page")),
                false => drop(pool.fix_read(page).expect("a page")),
            }
            // Three neighbours are a sequence.
            if page >= 2 {
                let next_came = || pool.read_optimistically(page + 1).is_some();
                wait_until(&format!("page {} is read, write {write}", page + 1), next_came);
            }
        }
        assert_eq!(pool.stats().misses, 3, "write {write}");
    }
}

/// What docs/pool.md says of threads.
#[test]
fn pool_and_guards_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    fn moved<T: Send>() {}
    shared::<Pool>();
    shared::<ebbpool::Stats>();
    shared::<ebbpool::PoolError>();
    shared::<ebbpool::storage::FileStorage>();
    shared::<MemoryStorage>();
    shared::<PoolScan>();
    shared::<ebbpool::ReadGuard<'_>>();
    shared::<ebbpool::WriteGuard<'_>>();
    moved::<ebbpool::Optimistic<'_>>();
    moved::<PoolOptions>();
}
