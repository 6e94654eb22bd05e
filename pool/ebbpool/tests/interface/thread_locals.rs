//! A thread whose thread-locals are being destroyed goes on using the pool.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread;

use ebbpool::storage::MemoryStorage;
use ebbpool::{Pool, PoolOptions};

/// Notes in two pages that its thread has ended: twice in a resident one, and once in one that is not.
struct Session(Arc<Pool>);

impl Drop for Session {
    fn drop(&mut self) {
        for page in [1, 1, 2] {
            if let Ok(mut page) = self.0.fix_write(page) {
                page[0] += 1;
            }
            drop(self.0.fix_read(page));
        }
    }
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// A panic in such a destructor aborts the process, and this test with it.
#[test]
fn a_page_is_fixed_in_a_destructor() {
    for exact in [false, true] {
        for before_the_pool_is_used in [false, true] {
            let options = PoolOptions::new(8).background(false).exact_hits(exact);
            let pool = options.open(MemoryStorage::new(512)).expect("a pool");
            let pool = Arc::new(pool);
            let theirs = Arc::clone(&pool);
            let thread = thread::spawn(move || {
                let register = || SESSION.set(Some(Session(Arc::clone(&theirs))));
                // Destructors run in the opposite order, so the pool's runs last or first.
                if before_the_pool_is_used {
                    register();
                }
                drop(theirs.fix_read(1).expect("a page"));
                drop(theirs.fix_read(1).expect("a page"));
                if !before_the_pool_is_used {
                    register();
                }
            });
            thread.join().expect("the thread ends");
            let stats = pool.stats();
            assert_eq!((stats.hits, stats.misses), (6, 2));
            assert_eq!(pool.fix_read(1).expect("a page")[0], 2);
            assert_eq!(pool.fix_read(2).expect("a page")[0], 1);
        }
    }
}

/// Numbers of threads that have ended are used again, and what they noted is not lost.
#[test]
fn many_threads_one_after_the_other() {
    let options = PoolOptions::new(8).background(false);
    let pool = options.open(MemoryStorage::new(512)).expect("a pool");
    for _ in 0..200 {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for page in [1, 1, 2] {
                        drop(pool.fix_read(page).expect("a page"));
                    }
                });
            }
        });
    }
    let stats = pool.stats();
    assert_eq!(stats.hits + stats.misses, 200 * 3 * 3);
}
