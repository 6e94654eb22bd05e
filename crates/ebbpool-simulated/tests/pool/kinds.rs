//! Kinds of cases that cannot be written as scripts.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ebbpool::storage::{FaultyDisk, MemoryStorage, Storage};
use ebbpool::{Pool, PoolOptions};
use ebbpool_simulation::{random, thread, undisturbed};

use crate::case::Case;
use crate::model::Tally;

fn options(frames: u32) -> PoolOptions {
    PoolOptions::new(frames).background(false)
}

/// A page always has some readers, which hold it for a few milliseconds each: a writer gets its turn nevertheless.
pub fn a_writer_among_readers(case: &Case) -> Tally {
    let disk = FaultyDisk::new(case.seed);
    let patience = Duration::from_millis(300);
    let pool = options(4).patience(patience).open(disk.pages("data", 512));
    let pool = Arc::new(pool.expect("the pool can be opened"));
    let over = Arc::new(AtomicBool::new(false));
    let readers = (0..2 + random() % 3).map(|reader| {
        let (pool, over) = (Arc::clone(&pool), Arc::clone(&over));
        thread::spawn(move || {
            thread::sleep(Duration::from_micros(reader * 700));
            while !over.load(Ordering::SeqCst) {
                match pool.fix_read(1) {
                    Ok(_guard) => thread::sleep(Duration::from_micros(1000 + random() % 4000)),
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
    readers
        .into_iter()
        .for_each(|reader| reader.join().expect("a panic ends the run"));
    Tally::default()
}

/// All pins of a page are taken: when two of them are dropped, a thread that waits gets one.
pub fn all_pins(case: &Case) -> Tally {
    const MOST: usize = 65_535;
    let disk = FaultyDisk::new(case.seed);
    let pool = options(2)
        .patience(Duration::from_secs(1))
        .open(disk.pages("data", 512));
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

/// A thread fixes pages in sequence, slower than the storage reads: nearly all pages are read ahead.
pub fn in_sequence(case: &Case) -> Tally {
    const PAGES: u64 = 300;
    let storage = MemoryStorage::new(512);
    storage.grow(PAGES).expect("there is memory");
    let pool = PoolOptions::new(512)
        .read_ahead(32)
        .policy(case.policy)
        .and_then(|it| it.open(storage));
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
    assert!(
        stats.misses <= PAGES / 8,
        "{} of {PAGES} fixes in sequence found no page that was read ahead",
        stats.misses
    );
    assert_eq!(
        stats.hits + stats.misses,
        PAGES,
        "hits and misses are the fixes"
    );
    Tally::default()
}

struct Session {
    pool: Arc<Pool>,
    panicked: Arc<AtomicBool>,
}

impl Drop for Session {
    fn drop(&mut self) {
        let pool = &self.pool;
        let noted = catch_unwind(AssertUnwindSafe(|| {
            pool.fix_write(1).map(|mut page| page[0] += 1)
        }));
        self.panicked.store(noted.is_err(), Ordering::SeqCst);
    }
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// The destructor of a thread-local notes in a page that its thread ends. It runs after the end of the simulated
/// thread, so no other thread may run then.
pub fn farewell() -> Tally {
    let pool = options(8)
        .open(MemoryStorage::new(512))
        .expect("the pool can be opened");
    let pool = Arc::new(pool);
    let panicked = Arc::new(AtomicBool::new(false));
    drop(pool.fix_write(1).expect("nothing goes wrong"));
    thread::scope(|scope| {
        let session = Session {
            pool: Arc::clone(&pool),
            panicked: Arc::clone(&panicked),
        };
        let ended = scope.spawn(|| {
            SESSION.with_borrow_mut(|it| *it = Some(session));
            drop(pool.fix_read(1).expect("nothing goes wrong"));
        });
        ended.join().expect("a panic ends the run");
    });
    assert!(
        !panicked.load(Ordering::SeqCst),
        "a fix panics in the destructor of a thread-local"
    );
    Tally::default()
}
