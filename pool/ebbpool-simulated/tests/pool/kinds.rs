//! Kinds of cases that cannot be written as scripts.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ebbpool::storage::{
    DiskOperation, EIO, Engine, Fault, FaultyDisk, FaultyStorage, FileOptions, FileStorage, MemoryStorage, Read, Storage, Write,
};
use ebbpool::{Pool, PoolError, PoolOptions};
use ebbpool_simulation::{Instant, random, step, steps_so_far, thread, undisturbed};

use crate::case::Case;
use crate::model::Tally;
use crate::policies::{policies, spec};

fn options(frames: u32) -> PoolOptions {
    PoolOptions::new(frames).background(false)
}

/// A page always has some readers, which hold it for a few milliseconds each, or for longer than readers are polite at
/// least: a writer gets its turn nevertheless.
pub fn a_writer_among_readers(case: &Case) -> Tally {
    let disk = FaultyDisk::new(case.seed);
    let (most_readers, shortest_ms, patience_ms) = match random() % 2 {
        0 => (4, 1, 300),
        _ => (16, 120, 5000),
    };
    let patience = Duration::from_millis(patience_ms);
    let pool = options(4).patience(patience).open(disk.pages("data", 512));
    let pool = Arc::new(pool.expect("the pool can be opened"));
    let over = Arc::new(AtomicBool::new(false));
    let readers = (0..2 + random() % (most_readers - 1)).map(|reader| {
        let (pool, over) = (Arc::clone(&pool), Arc::clone(&over));
        thread::spawn(move || {
            thread::sleep(Duration::from_micros(reader * 700));
            while !over.load(Ordering::SeqCst) {
                match pool.fix_read(1) {
                    Ok(_guard) => {
                        let longest_more = 4000 * shortest_ms.min(30);
                        let held = 1000 * shortest_ms + random() % longest_more;
                        thread::sleep(Duration::from_micros(held));
                    }
                    Err(error) => panic!("a reader among readers: {error}"),
                }
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(10));
        if let Err(error) = pool.fix_write(1) {
            over.store(true, Ordering::SeqCst);
            panic!("a writer among readers: {error}");
        }
    }
    over.store(true, Ordering::SeqCst);
    readers.into_iter().for_each(|reader| reader.join().expect("a panic ends the run"));
    Tally::default()
}

/// All pins of a page are taken: when two of them are dropped, a thread that waits gets one.
pub fn all_pins(case: &Case) -> Tally {
    const MOST: usize = 32_767;
    let disk = FaultyDisk::new(case.seed);
    let pool = options(2).patience(Duration::from_secs(1)).open(disk.pages("data", 512));
    let pool = Arc::new(pool.expect("the pool can be opened"));
    let mut guards: Vec<_> = undisturbed(|| {
        let fixed = (0..MOST).map(|_| pool.fix_read(1).expect("there are pins left"));
        fixed.collect()
    });
    let theirs = Arc::clone(&pool);
    let waiter = thread::spawn(move || {
        if let Err(error) = theirs.fix_read(1) {
            panic!("a waiter for a pin: {error}");
        }
    });
    thread::sleep(Duration::from_millis(random() % 200));
    guards.pop();
    guards.pop();
    waiter.join().expect("a panic ends the run");
    undisturbed(|| drop(guards));
    Tally::default()
}

/// A storage that takes no writes.
struct TakesNone(MemoryStorage);

impl Storage for TakesNone {
    fn page_size(&self) -> usize {
        self.0.page_size()
    }
    fn pages(&self) -> io::Result<u64> {
        self.0.pages()
    }
    fn writable(&self) -> bool {
        false
    }
    fn grow(&self, _pages: u64) -> io::Result<()> {
        panic!("the storage takes no writes, and grows");
    }
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        self.0.read(reads)
    }
    fn write(&self, _writes: &mut [Write<'_>]) -> Option<f64> {
        panic!("the storage takes no writes, and gets one");
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn describe(&self) -> String {
        "takes no writes".into()
    }
}

/// Every page is read, whatever changes were tried before, and the pool is closed.
pub fn read_only(case: &Case) -> Tally {
    const PAGES: u64 = 12;
    let storage = MemoryStorage::new(512);
    storage.grow(PAGES).expect("there is memory");
    let frames = 4 + (random() % 8) as u32;
    let options = PoolOptions::new(frames).background(random().is_multiple_of(2)).policy(in_sequence_policy(case));
    let pool = Arc::new(options.and_then(|it| it.open(TakesNone(storage))).expect("the pool can be opened"));
    let clients = (0..3).map(|_| {
        let pool = Arc::clone(&pool);
        thread::spawn(move || {
            for _ in 0..40 {
                let page = random() % PAGES;
                let refused = match random() % 6 {
                    0 => pool.fix_write(page).map(drop),
                    1 => pool.fix_new(page).map(drop),
                    2 => pool.try_fix_write(page).map(drop),
                    3 => pool.fix_read(page).and_then(|guard| pool.upgrade(guard).map(drop).map_err(|(_, error)| error)),
                    4 => pool.allocate().map(drop),
                    _ => {
                        pool.fix_read(page).unwrap_or_else(|error| panic!("page {page} is not read: {error}"));
                        continue;
                    }
                };
                assert!(matches!(refused, Err(PoolError::ReadOnly)), "a change is not refused: {refused:?}");
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    clients.into_iter().for_each(|client| client.join().expect("a panic ends the run"));
    let pool = Arc::into_inner(pool).expect("the threads have ended");
    pool.close().map_err(PoolError::from).expect("there is nothing to write");
    Tally::default()
}

/// Another program cuts a file off, which is a real one: each page has its content, or cannot be read. The pool that reads them
/// has not written them, and so does not know that they are no new ones.
pub fn cut_file(case: &Case) -> Tally {
    const PAGES: u64 = 24;
    const SIZE: u64 = 512;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pages");
    // The calling thread carries out each of its transfers, in order.
    let file = FileOptions::new().page_size(SIZE as usize).create(true).engine(Engine::Threads).direct(false).queue_depth(1);
    let frames = 4 + (random() % 8) as u32;
    let open = || {
        let storage = FileStorage::open(&path, &file).expect("the file can be opened");
        let pool = options(frames).policy(in_sequence_policy(case)).and_then(|it| it.open(storage));
        pool.expect("the pool can be opened")
    };
    let pool = open();
    for page in 0..PAGES {
        pool.fix_write(page).expect("nothing goes wrong")[0] = 1 + page as u8;
    }
    pool.close().map_err(PoolError::from).expect("nothing goes wrong");
    let pool = Arc::new(open());
    let left = random() % (PAGES * SIZE);
    File::options().write(true).open(&path).and_then(|file| file.set_len(left)).expect("the file can be cut off");
    let clients = (0..2).map(|_| {
        let pool = Arc::clone(&pool);
        thread::spawn(move || {
            for _ in 0..30 {
                let page = random() % PAGES;
                match pool.fix_read(page) {
                    Ok(guard) => assert_eq!(guard[0], 1 + page as u8, "page {page} of a file that has {left} bytes left"),
                    Err(error) => assert!((page + 1) * SIZE > left, "page {page} is in the {left} bytes left: {error}"),
                }
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    clients.into_iter().for_each(|client| client.join().expect("a panic ends the run"));
    Tally::default()
}

/// Policies that evict no page before all frames hold one.
fn in_sequence_policy(case: &Case) -> &'static str {
    let policies = ["lru", "ebb", "clock", "arc", "2q", "lirs", "sieve", "cfdc:cluster=4"];
    policies[case.seed as usize % policies.len()]
}

/// A thread fixes pages in sequence, slower than the storage reads: nearly all pages are read ahead.
pub fn in_sequence(case: &Case) -> Tally {
    const PAGES: u64 = 300;
    let storage = MemoryStorage::new(512);
    storage.grow(PAGES).expect("there is memory");
    let pool = PoolOptions::new(512).read_ahead(32).policy(in_sequence_policy(case)).and_then(|it| it.open(storage));
    let pool = pool.expect("the pool can be opened");
    let writes = random().is_multiple_of(2);
    for page in 0..PAGES {
        let fixed = match writes {
            true => pool.fix_write(page).map(drop),
            false => pool.fix_read(page).map(drop),
        };
        fixed.expect("nothing goes wrong");
        thread::sleep(Duration::from_millis(50));
    }
    let stats = pool.stats();
    assert!(stats.misses <= PAGES / 8, "{} of {PAGES} fixes in sequence found no page that was read ahead", stats.misses);
    assert_eq!(stats.hits + stats.misses, PAGES, "hits and misses are the fixes");
    Tally::default()
}

/// A writer waits for a page that is read. When the page has left its frame, the writer waits for a frame. Meanwhile a
/// thread reads the page that is in the frame by now, which no writer wants, and need not wait.
pub fn a_writer_that_goes_on_to_wait(case: &Case) -> Tally {
    let disk = FaultyDisk::new(case.seed);
    let pool = options(2).open(disk.pages("data", 512));
    let pool = Arc::new(pool.expect("the pool can be opened"));
    for round in 0..10 {
        let held = Arc::new(AtomicU64::new(0));
        let pinned = pool.fix_read(2).expect("a frame is free");
        let first = pool.fix_read(1).expect("a frame is free");
        let holders = (0..3).map(|holder| {
            let (pool, held) = (Arc::clone(&pool), Arc::clone(&held));
            thread::spawn(move || {
                let page = 10 + round * 3 + holder;
                let _guard = pool.fix_read(page)?;
                held.store(page, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(200));
                Ok::<_, PoolError>(())
            })
        });
        let holders: Vec<_> = holders.collect();
        thread::sleep(Duration::from_micros(random() % 3000));
        let theirs = Arc::clone(&pool);
        let writer = thread::spawn(move || theirs.fix_write(1).map(drop));
        // The writer waits already when the page can be evicted, or is about to.
        match random().is_multiple_of(2) {
            true => thread::sleep(Duration::from_micros(random() % 3000)),
            false => (0..random() % 40).for_each(|_| step()),
        }
        drop(first);
        thread::sleep(Duration::from_millis(15));
        let page = held.load(Ordering::SeqCst);
        if page > 0 && !writer.is_finished() {
            let begin = Instant::now();
            drop(pool.fix_read(page).expect("it is fixed for reading only"));
            let took = begin.elapsed();
            assert!(
                took < Duration::from_millis(50),
                "page {page} is fixed for reading only, and another reader waits {took:?} for it"
            );
        }
        drop(pinned);
        let ended = |outcome: Result<Result<(), PoolError>, _>| {
            if let Err(error) = outcome.expect("a panic ends the run") {
                panic!("each frame is free after a time: {error}");
            }
        };
        ended(writer.join());
        holders.into_iter().for_each(|holder| ended(holder.join()));
    }
    Tally::default()
}

/// Some pages cannot be written, and most frames have clean ones: no thread that reads a page gets the error of another.
pub fn unwritable_pages(case: &Case) -> Tally {
    let disk = FaultyDisk::new(case.seed);
    let frames = 24 + random() % 40;
    let unwritable = 1 + random() % (frames / 2);
    for page in 0..unwritable {
        let fails = Fault::failing(DiskOperation::Write, EIO).in_file("data");
        disk.inject(fails.at_page(page).forever());
    }
    let mut policies = policies();
    policies.retain(|policy| !spec(policy).pads() && !spec(policy).asks_erase_counts());
    let policy = &policies[random() as usize % policies.len()];
    let pool = PoolOptions::new(frames as u32)
        .background(random().is_multiple_of(2))
        .policy(policy)
        .and_then(|it| it.open(disk.pages("data", 512)));
    let pool = Arc::new(pool.expect("the pool can be opened"));
    for page in 0..unwritable {
        let mut guard = pool.fix_write(page).expect("a frame is free");
        guard[0] = 1;
    }
    let policy: Arc<str> = policy.as_str().into();
    let readers = (0..1 + random() % 3).map(|_| {
        let (pool, policy) = (Arc::clone(&pool), Arc::clone(&policy));
        thread::spawn(move || {
            for _ in 0..3 * frames {
                let page = 1000 + random() % (3 * frames);
                if let Err(error) = pool.fix_read(page) {
                    panic!(
                        "under {policy}, {unwritable} of {frames} pages cannot be written, and page {page} is not read: {error}"
                    );
                }
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    readers.into_iter().for_each(|reader| reader.join().expect("a panic ends the run"));
    disk.heal();
    pool.checkpoint().expect("all pages can be written");
    for page in 0..unwritable {
        assert_eq!(pool.fix_read(page).expect("a page")[0], 1, "page {page}");
    }
    Tally::default()
}

/// A storage whose writes take a while.
struct SlowWrites(FaultyStorage);

impl Storage for SlowWrites {
    fn page_size(&self) -> usize {
        self.0.page_size()
    }
    fn pages(&self) -> io::Result<u64> {
        self.0.pages()
    }
    fn grow(&self, pages: u64) -> io::Result<()> {
        self.0.grow(pages)
    }
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        self.0.read(reads)
    }
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        thread::sleep(Duration::from_micros(500));
        self.0.write(writes)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// Threads change a page all the time: it is written and synced within its loss window, and not much more often, and a reader
/// waits for a few of them only, as a thread does that discards the page. In some cases another page cannot be written, and in
/// others a thread changes other pages, whose evictions wake the writer all the time.
pub fn busy_page(case: &Case) -> Tally {
    const WINDOW: Duration = Duration::from_millis(200);
    const WINDOWS: u32 = 20;
    let disk = FaultyDisk::new(case.seed);
    let beside = random() % 3;
    let evicts = beside == 1;
    let pool = PoolOptions::new(4)
        .clean_reserve(u32::from(evicts))
        .dirty_budget(1.0, Duration::ZERO)
        .max_dirty_age(WINDOW)
        .open(SlowWrites(disk.pages("data", 512)));
    let pool = Arc::new(pool.expect("the pool can be opened"));
    let over = Arc::new(AtomicBool::new(false));
    let writes = Arc::new(AtomicU64::new(0));
    disk.observe({
        let writes = Arc::clone(&writes);
        move |io| {
            if io.operation == DiskOperation::Write && io.page == Some(1) {
                writes.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    if beside == 0 {
        let fails = Fault::failing(DiskOperation::Write, EIO).in_file("data");
        disk.inject(fails.at_page(2).forever());
        pool.fix_write(2).expect("nothing goes wrong")[0] = 1;
    }
    // A page is rarely free by chance that one thread holds for long.
    let (most, hold, pause) = match evicts {
        true => (1, 15_000 + random() % 5000, 0),
        false => (4, 500 + random() % 3000, random() % 2 * (random() % 3000)),
    };
    let evictor = evicts.then(|| {
        let (pool, over) = (Arc::clone(&pool), Arc::clone(&over));
        thread::spawn(move || {
            let mut pages = (10..30).cycle();
            while !over.load(Ordering::SeqCst) {
                let page = pages.next().expect("it has no end");
                drop(pool.fix_write(page).expect("a page can be evicted"));
                thread::sleep(Duration::from_micros(random() % 200));
            }
        })
    });
    let writers = (0..1 + random() % most).map(|_| {
        let (pool, over) = (Arc::clone(&pool), Arc::clone(&over));
        thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                let mut page = pool.fix_write(1).expect("nothing goes wrong");
                page[0] = page[0].wrapping_add(1);
                thread::sleep(Duration::from_micros(hold));
                drop(page);
                thread::sleep(Duration::from_micros(pause));
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let end = Instant::now() + WINDOW * WINDOWS;
    while Instant::now() < end {
        let begin = Instant::now();
        drop(pool.fix_read(1).expect("nothing goes wrong"));
        let waited = begin.elapsed();
        // The writers that were elders before it, and what the simulation adds to each pause. Where pages are evicted, these are
        // the holder, the writer that fixes the page again, and once more that one if the page is evicted in between.
        let longest = match evicts {
            true => Duration::from_micros(3 * hold + 5000),
            false => Duration::from_millis(50),
        };
        assert!(waited < longest, "a reader waited for {waited:?}");
        thread::sleep(Duration::from_millis(random() % 20));
    }
    let stats = pool.stats();
    let written = writes.load(Ordering::SeqCst);
    let begin = Instant::now();
    pool.discard(1).expect("nothing goes wrong");
    let waited = begin.elapsed();
    over.store(true, Ordering::SeqCst);
    assert!(waited < Duration::from_millis(100), "a thread that discards the page waited for {waited:?}");
    writers.into_iter().chain(evictor).for_each(|writer| writer.join().expect("a panic ends the run"));
    // The writer begins after three quarters of a window, and waits for its turn for half a window at most.
    let fewest = u64::from(WINDOWS) / 2;
    let most = 2 * u64::from(WINDOWS);
    assert!(
        stats.syncs >= fewest && (fewest..=most).contains(&written),
        "in {WINDOWS} windows a page that changes all the time is written {written} times and synced {} times",
        stats.syncs
    );
    Tally::default()
}

/// A pool in which nothing happens does little, whatever its reserve and its loss window.
pub fn idle(case: &Case) -> Tally {
    let (frames, reserve, age) = match case.seed % 3 {
        0 => (4, 2, Some(Duration::ZERO)),
        1 => (4, 2, Some(Duration::from_micros(1))),
        _ => (2000, 2000, None),
    };
    let mut idle = PoolOptions::new(frames)
        .policy(in_sequence_policy(case))
        .expect("the policy is known")
        .clean_reserve(reserve)
        .dirty_budget(1.0, Duration::ZERO);
    if let Some(age) = age {
        idle = idle.max_dirty_age(age);
    }
    let pool = idle.open(MemoryStorage::new(512)).expect("the pool can be opened");
    undisturbed(|| {
        for page in 0..u64::from(frames) {
            let fixed = match page % 4 {
                0 => pool.fix_write(page).map(drop),
                _ => pool.fix_read(page).map(drop),
            };
            fixed.expect("a frame is free");
        }
    });
    let before = steps_so_far();
    thread::sleep(Duration::from_millis(500));
    let steps = steps_so_far() - before;
    // Every millisecond at the most the writer looks what there is to do, and every 50 ms at each frame a few times.
    let most = 500 * 200 + 10 * 100 * u64::from(frames);
    assert!(steps < most, "a pool in which nothing happens takes {steps} steps in half a second");
    Tally::default()
}

struct Session {
    pool: Arc<Pool>,
    panicked: Arc<AtomicBool>,
}

impl Drop for Session {
    fn drop(&mut self) {
        let pool = &self.pool;
        let noted = catch_unwind(AssertUnwindSafe(|| pool.fix_write(1).map(|mut page| page[0] += 1)));
        self.panicked.store(noted.is_err(), Ordering::SeqCst);
    }
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// The destructor of a thread-local notes in a page that its thread ends. It runs after the end of the simulated
/// thread, so no other thread may run then.
pub fn farewell() -> Tally {
    let pool = options(8).open(MemoryStorage::new(512)).expect("the pool can be opened");
    let pool = Arc::new(pool);
    let panicked = Arc::new(AtomicBool::new(false));
    drop(pool.fix_write(1).expect("nothing goes wrong"));
    thread::scope(|scope| {
        let session = Session { pool: Arc::clone(&pool), panicked: Arc::clone(&panicked) };
        let ended = scope.spawn(|| {
            SESSION.with_borrow_mut(|it| *it = Some(session));
            drop(pool.fix_read(1).expect("nothing goes wrong"));
        });
        ended.join().expect("a panic ends the run");
    });
    assert!(!panicked.load(Ordering::SeqCst), "a fix panics in the destructor of a thread-local");
    Tally::default()
}
