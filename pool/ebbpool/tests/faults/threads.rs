//! Threads that use a page while it is written or evicted, panics, and pools without memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ebbpool::storage::{DiskOperation, FaultyDisk, page_lsn};
use ebbpool::{Log, PoolError};

use crate::wal::{Record, Wal};
use crate::{PAGE, during_the_write_of, get, joined, options, pool, put, restarted};

#[test]
fn a_page_changed_while_it_is_written_is_written_again() {
    let disk = FaultyDisk::new(1);
    let pool = Arc::new(self::pool(&disk, 2));
    put(&pool, 0, 1).unwrap();
    let other = Arc::clone(&pool);
    let thread = during_the_write_of(&disk, 0, move |go_on| {
        put(&other, 0, 2).unwrap();
        go_on();
    });
    pool.flush(0).unwrap();
    joined(&thread);
    assert_eq!(pool.stats().dirty, 1);
    assert_eq!(disk.violations(), []);
    disk.observe_no_more();
    let halfway = disk.fork(1);
    restarted(&halfway, 1);
    assert_eq!(get(&self::pool(&halfway, 1), 0).unwrap(), 1);
    pool.flush(0).unwrap();
    restarted(&disk, 1);
    assert_eq!(get(&self::pool(&disk, 1), 0).unwrap(), 2);
}

#[test]
fn fixing_a_page_during_its_eviction_returns_its_latest_bytes() {
    for frames in [1, 2] {
        let disk = FaultyDisk::new(1);
        let pool = Arc::new(self::pool(&disk, frames));
        (0..u64::from(frames)).for_each(|page| put(&pool, page, 1).unwrap());
        let other = Arc::clone(&pool);
        let thread = during_the_write_of(&disk, 0, move |go_on| {
            let waits = std::thread::scope(|scope| {
                let fixer = scope.spawn(|| get(&other, 0));
                std::thread::sleep(Duration::from_millis(5));
                go_on();
                fixer.join().unwrap()
            });
            assert_eq!(waits.unwrap(), 1);
        });
        assert_eq!(get(&pool, 100).unwrap(), 0);
        joined(&thread);
        assert_eq!(disk.violations(), []);
        disk.observe_no_more();
    }
}

#[test]
fn a_checkpoint_waits_for_an_eviction_that_is_under_way() {
    let disk = FaultyDisk::new(1);
    let pool = Arc::new(self::pool(&disk, 1));
    put(&pool, 0, 1).unwrap();
    let (other, copy) = (Arc::clone(&pool), disk.clone());
    let thread = during_the_write_of(&disk, 0, move |go_on| {
        std::thread::scope(|scope| {
            let checkpoint = scope.spawn(|| {
                other.checkpoint().unwrap();
                copy.fork(1)
            });
            std::thread::sleep(Duration::from_millis(5));
            go_on();
            let crashed = checkpoint.join().unwrap();
            restarted(&crashed, 3);
            assert_eq!(get(&self::pool(&crashed, 1), 0).unwrap(), 1);
        });
    });
    assert_eq!(get(&pool, 100).unwrap(), 0);
    joined(&thread);
    disk.observe_no_more();
}

#[test]
fn pools_of_one_and_two_frames_count_right_with_many_threads() {
    for frames in [1, 2] {
        let disk = FaultyDisk::new(1);
        let wal = Arc::new(Wal::open(disk.bytes("log")).unwrap().0);
        let log: Arc<dyn Log> = wal.clone();
        disk.watch(&log, page_lsn);
        disk.observe(|io| {
            if io.operation == DiskOperation::Write {
                std::thread::yield_now();
            }
        });
        let area = disk.pages("area", PAGE);
        let pool = options(frames).log(log).double_write(area).background(true);
        let pool = pool.open(disk.pages("data", PAGE)).unwrap();
        let work = |thread: u64| {
            for turn in 0..300 {
                let page = (thread * 7 + turn * 3) % 5;
                let mut fixed = pool.fix_write(page).unwrap();
                let count = u64::from_le_bytes(fixed[..8].try_into().unwrap()) + 1;
                fixed[..8].copy_from_slice(&count.to_le_bytes());
                let record = Record { page, offset: 0, value: count };
                fixed.set_lsn(wal.append(record));
                drop(fixed);
                if turn % 50 == 49 {
                    pool.checkpoint().unwrap();
                }
            }
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|thread| _ = scope.spawn(move || work(thread)));
        });
        let counts = (0..5).map(|page| {
            let fixed = pool.fix_read(page).unwrap();
            u64::from_le_bytes(fixed[..8].try_into().unwrap())
        });
        assert_eq!(counts.sum::<u64>(), 4 * 300);
        assert_eq!(disk.violations(), []);
        disk.observe_no_more();
    }
}

#[test]
fn a_page_made_dirty_by_a_thread_that_has_ended_is_written_under_any_policy() {
    for policy in ["casa", "cfdc:cluster=4", "ad-lru", "fd-buffer:group=1", "lru-wsr"] {
        let disk = FaultyDisk::new(1);
        let pool = options(4).policy(policy).unwrap();
        let pool = pool.open(disk.pages("data", PAGE)).unwrap();
        assert_eq!(get(&pool, 0).unwrap(), 0);
        std::thread::scope(|scope| _ = scope.spawn(|| put(&pool, 0, 1).unwrap()));
        pool.checkpoint().unwrap();
        (1..20).for_each(|page| put(&pool, page, 1).unwrap());
        assert_eq!(get(&pool, 0).unwrap(), 1);
    }
}

#[test]
fn a_fix_fails_if_all_frames_are_pinned_and_succeeds_if_all_are_dirty() {
    let disk = FaultyDisk::new(1);
    let patience = Duration::from_millis(20);
    let pool = options(2).patience(patience);
    let pool = pool.open(disk.pages("data", PAGE)).unwrap();
    let pinned = [pool.fix_read(0).unwrap(), pool.fix_read(1).unwrap()];
    match pool.fix_read(2).map(drop) {
        Err(PoolError::AllPinned { frames: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    drop(pinned);
    for page in 0..20 {
        put(&pool, page, 1).unwrap();
    }
    assert_eq!(pool.stats().dirty, 2);
    pool.checkpoint().unwrap();
}

#[test]
fn a_page_that_a_panic_left_half_changed_is_neither_read_nor_written() {
    let disk = FaultyDisk::new(1);
    let pool = self::pool(&disk, 2);
    put(&pool, 0, 1).unwrap();
    pool.flush(0).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut fixed = pool.fix_write(0).unwrap();
        fixed[..100].fill(2);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert!(matches!(get(&pool, 0), Err(PoolError::Abandoned { page: 0 })));
    assert!(matches!(put(&pool, 0, 3), Err(PoolError::Abandoned { page: 0 })));
    assert!(matches!(pool.flush(0), Err(PoolError::Abandoned { page: 0 })));
    (1..5).for_each(|page| put(&pool, page, 4).unwrap());
    // All other pages are in storage then. Without a log the changes of this page are nowhere else.
    let checkpoint = pool.checkpoint();
    assert!(matches!(checkpoint, Err(PoolError::Abandoned { page: 0 })));
    assert_eq!(pool.stats().dirty, 1);
    let error = pool.close().expect_err("a page is abandoned");
    assert!(matches!(error.error(), PoolError::Abandoned { page: 0 }));
    let pool = error.into_pool();
    pool.discard(0).unwrap();
    assert_eq!(get(&pool, 0).unwrap(), 1);
    pool.checkpoint().unwrap();
    drop(pool);
    restarted(&disk, 1);
    assert_eq!(get(&self::pool(&disk, 2), 0).unwrap(), 1);
}

#[test]
fn dropping_a_pool_waits_for_its_io_and_starts_no_more() {
    for seed in 0..20 {
        let disk = FaultyDisk::new(seed);
        let writing = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&writing);
        disk.observe(move |io| {
            if io.operation == DiskOperation::Write {
                seen.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let pool = options(8).background(true).dirty_budget(0.1, Duration::ZERO).open(disk.pages("data", PAGE)).unwrap();
        let mut page = 0;
        while !writing.load(Ordering::SeqCst) {
            put(&pool, page % 8, 1).unwrap();
            page += 1;
        }
        drop(pool);
        let counts = disk.counts();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(disk.counts(), counts);
        assert_eq!(disk.violations(), []);
        disk.observe_no_more();
    }
}

#[test]
fn too_many_frames_for_the_memory_are_an_error() {
    let disk = FaultyDisk::new(1);
    for page_size in [1 << 46, 1 << 62] {
        match options(1000).open(disk.pages("data", page_size)) {
            Err(PoolError::Memory { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn too_many_dense_pages_for_the_memory_are_an_error() {
    let disk = FaultyDisk::new(1);
    for pages in [usize::MAX, 1 << 56] {
        match options(10).dense_pages(pages).open(disk.pages("data", PAGE)) {
            Err(PoolError::TableMemory { pages: found }) => assert_eq!(found, pages),
            other => panic!("{other:?}"),
        }
    }
}
