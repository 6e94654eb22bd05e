//! Fixes that do not wait, upgrades, and guards that own their pool.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use ebbpool::storage::{FileOptions, FileStorage, MemoryStorage, Storage};
use ebbpool::{OwnedReadGuard, OwnedWriteGuard, Pool, PoolError, PoolOptions, ReadGuard};

/// A pool whose fixes wait for longer than any test may take.
fn options(frames: u32) -> PoolOptions {
    let options = PoolOptions::new(frames).policy("lru").expect("a policy").background(false);
    options.dirty_budget(1.0, Duration::ZERO).patience(Duration::MAX)
}

fn pool(frames: u32) -> Pool {
    options(frames).open(MemoryStorage::new(512)).expect("a pool")
}

#[test]
fn a_fix_that_must_not_wait_takes_only_what_is_there() {
    let pool = pool(4);
    let tried = |page| pool.try_fix_read(page).expect("no error").map(|page| page[0]);
    let tried_to_write = |page| pool.try_fix_write(page).expect("no error").is_some();
    assert_eq!(tried(3), None);
    assert!(!tried_to_write(3));
    assert_eq!(pool.stats().misses, 0, "it reads nothing");
    pool.fix_write(3).expect("a page")[0] = 7;
    assert_eq!(tried(3), Some(7));
    assert!(tried_to_write(3));
    let read = pool.fix_read(3).expect("a page");
    assert_eq!(tried(3), Some(7));
    assert!(!tried_to_write(3));
    drop(read);
    let written = pool.fix_write(3).expect("a page");
    assert_eq!(tried(3), None);
    assert!(!tried_to_write(3));
    drop(written);
    let panics = thread::scope(|scope| {
        let panics = scope.spawn(|| {
            let _page = pool.fix_write(3).expect("a page");
            panic!("on purpose");
        });
        panics.join().is_err()
    });
    assert!(panics);
    assert!(matches!(pool.try_fix_read(3), Err(PoolError::Abandoned { page: 3 })));
    assert!(matches!(pool.try_fix_write(3), Err(PoolError::Abandoned { page: 3 })));
}

#[test]
fn a_fix_waits_no_longer_than_its_own_patience() {
    let pool = pool(2);
    let hurried = pool.within(Duration::ZERO);
    let held = hurried.fix_write(1).expect("a frame is free");
    assert!(matches!(hurried.fix_read(1), Err(PoolError::Latched { page: 1, .. })));
    assert!(matches!(hurried.within(Duration::from_millis(2)).fix_write(1), Err(PoolError::Latched { page: 1, .. })));
    let other = pool.of_class(7).within(Duration::ZERO).fix_read(9).expect("a frame is free");
    assert!(matches!(hurried.fix_read(3), Err(PoolError::AllPinned { .. })));
    assert!(matches!(hurried.allocate(), Err(PoolError::AllPinned { .. })));
    drop((held, other));
    assert_eq!(hurried.fix_read(3).expect("a frame is free")[0], 0, "it is read from storage");
}

#[test]
fn a_read_guard_becomes_a_write_guard_if_it_is_the_only_one() {
    let fixes = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&fixes);
    let options = options(4).on_fix(move |page, write| noted.lock().expect("a lock").push((page, write)));
    let pool = options.open(MemoryStorage::new(512)).expect("a pool");
    pool.fix_write(1).expect("a page")[0] = 1;
    pool.flush(1).expect("it is written");
    let (page, other) = (pool.fix_read(1).expect("a page"), pool.fix_read(1).expect("a page"));
    let Err((page, PoolError::Latched { page: 1, .. })) = pool.upgrade(page) else {
        panic!("another guard has the page");
    };
    assert_eq!((page[0], pool.stats().dirty), (1, 0));
    drop(other);
    let mut page = pool.upgrade(page).map_err(|(_, why)| why).expect("no other guard has the page");
    assert_eq!((page.page(), page[0], pool.stats().dirty), (1, 1, 1));
    page[0] = 2;
    assert!(pool.try_fix_read(1).expect("no error").is_none());
    let page = page.downgrade();
    assert_eq!(pool.fix_read(1).expect("a page")[0], 2);
    drop(page);
    assert_eq!(pool.checkpoint().expect("a checkpoint").pages, 1);
    // Each of them is a fix: four for reading, two tries to upgrade.
    let fixes = fixes.lock().expect("a lock").clone();
    let writes: Vec<bool> = fixes.iter().map(|(_, write)| *write).collect();
    assert_eq!(writes, [true, false, false, true, true, false]);
    let stats = pool.stats();
    assert_eq!(stats.hits + stats.misses, 5, "the refused one is none");
}

#[test]
fn a_page_of_a_storage_that_takes_no_writes_is_not_upgraded() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let storage = FileStorage::open(file.path(), &FileOptions::new().read_only(true)).expect("it opens");
    let size = storage.page_size();
    let pool = options(4).open(storage).expect("a pool");
    let Err((page, PoolError::ReadOnly)) = pool.upgrade(pool.fix_read(0).expect("a page")) else {
        panic!("the storage takes no writes");
    };
    assert_eq!(page.len(), size - 32);
}

/// Two threads read, and then change what they read. A thread that cannot upgrade drops its guard, and neither waits for the other.
#[test]
fn threads_that_upgrade_lose_no_change_and_do_not_wait_for_each_other() {
    const ROUNDS: u64 = 2000;
    let pool = pool(4);
    let begin = Barrier::new(2);
    let refused = AtomicU64::new(0);
    let count = |page: &[u8]| u64::from_le_bytes(page[..8].try_into().expect("8 bytes"));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                begin.wait();
                for _ in 0..ROUNDS {
                    loop {
                        let page = pool.fix_read(1).expect("a page");
                        let next = count(&page) + 1;
                        match pool.upgrade(page) {
                            Ok(mut page) => {
                                page[..8].copy_from_slice(&next.to_le_bytes());
                                break;
                            }
                            Err((_, PoolError::Latched { .. })) => refused.fetch_add(1, Ordering::Relaxed),
                            Err((_, error)) => panic!("{error}"),
                        };
                        thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(count(&pool.fix_read(1).expect("a page")), 2 * ROUNDS);
}

#[test]
#[should_panic(expected = "the page is of another pool")]
fn a_page_of_another_pool_is_not_upgraded() {
    let (one, other) = (pool(2), pool(2));
    let _ = one.upgrade(other.fix_read(0).expect("a page"));
}

/// A cursor as an engine has it: its pool, and the page that it is at.
struct Cursor {
    pool: Arc<Pool>,
    page: OwnedReadGuard,
}

impl Cursor {
    fn new(pool: &Arc<Pool>, page: u64) -> Self {
        Cursor { pool: Arc::clone(pool), page: pool.fix_read(page).expect("a page").into_owned(pool) }
    }

    fn next(&mut self) {
        self.page = self.pool.fix_read(self.page.page() + 1).expect("a page").into_owned(&self.pool);
    }
}

#[test]
fn a_guard_may_own_its_pool() {
    let pool = Arc::new(pool(4));
    (0..4).for_each(|page| pool.fix_write(page).expect("a page")[0] = page as u8);
    let mut cursor = Cursor::new(&pool, 0);
    cursor.next();
    assert!(pool.try_fix_write(0).expect("no error").is_some(), "the cursor has left it");
    assert!(pool.try_fix_write(1).expect("no error").is_none());
    drop(pool);
    let Cursor { pool, page } = thread::spawn(move || cursor).join().expect("no panic");
    assert_eq!(page[0], 1);
    let mut page: OwnedWriteGuard = pool.upgrade(page).map_err(|(_, why)| why).expect("no other guard has the page");
    page[0] = 9;
    let page = page.downgrade();
    let weak = Arc::downgrade(&pool);
    drop(pool);
    assert_eq!((page[0], weak.strong_count()), (9, 1));
    drop(page);
    assert!(weak.upgrade().is_none(), "the guard had the last reference");
}

#[test]
fn an_owned_guard_that_a_panic_drops_abandons_its_page() {
    let pool = Arc::new(pool(4));
    let mut page = pool.fix_new(2).expect("a page").into_owned(&pool);
    page.set_lsn(3);
    let panics = thread::spawn(move || {
        page[0] = 1;
        panic!("on purpose");
    });
    assert!(panics.join().is_err());
    assert!(matches!(pool.fix_read(2), Err(PoolError::Abandoned { page: 2 })));
    pool.discard(2).expect("it is not fixed");
    let page: ReadGuard<'_> = pool.fix_read(2).expect("a page");
    assert_eq!(page[0], 0);
}

#[test]
#[should_panic(expected = "the page is of another pool")]
fn a_guard_does_not_own_another_pool() {
    let (one, other) = (pool(2), Arc::new(pool(2)));
    let _ = one.fix_write(0).expect("a page").into_owned(&other);
}
