//! Pages that cannot be written, and others that only need a frame.

use std::sync::{Arc, Mutex};

use ebbpool::storage::{DiskOperation, EIO, ENOSPC, Fault, FaultyDisk};
use ebbpool::{OptionsError, Pool, PoolError, ReplacementEvent};

use crate::{PAGE, get, options, pool, put, restarted};

// Pages that cannot be written, and others that only need a frame.

#[test]
fn pages_are_read_while_others_cannot_be_written() {
    let disk = FaultyDisk::new(1);
    let pool = pool(&disk, 64);
    for page in 0..4 {
        put(&pool, page, 1).unwrap();
        disk.inject(Fault::failing(DiskOperation::Write, ENOSPC).at_page(page).forever());
    }
    for page in 100..1000 {
        assert_eq!(get(&pool, page).unwrap(), 0);
    }
    assert_eq!(pool.stats().dirty, 4);
    disk.heal();
    pool.close().unwrap();
    let pool = self::pool(&disk, 2);
    (0..4).for_each(|page| assert_eq!(get(&pool, page).unwrap(), 1));
}

#[test]
fn no_read_fails_with_another_pages_error_while_there_are_clean_pages() {
    for policy in ["lru", "ebb"] {
        let disk = FaultyDisk::new(1);
        let pool = options(256).policy(policy).unwrap();
        let pool = pool.open(disk.pages("data", PAGE)).unwrap();
        for page in 0..100 {
            put(&pool, page, 1).unwrap();
        }
        disk.inject(Fault::failing(DiskOperation::Write, ENOSPC).forever());
        for page in 1000..3000 {
            assert_eq!(get(&pool, page).unwrap(), 0, "{policy}");
        }
        assert_eq!(pool.stats().dirty, 100);
        disk.heal();
        pool.close().unwrap();
    }
}

#[test]
fn after_a_failed_sync_pages_are_read_while_there_are_clean_pages() {
    for policy in ["lru", "ebb", "clock"] {
        let disk = FaultyDisk::new(1);
        let pool = options(256).policy(policy).unwrap();
        let pool = pool.open(disk.pages("data", PAGE)).unwrap();
        (0..100).for_each(|page| put(&pool, page, 1).unwrap());
        disk.inject(Fault::failing(DiskOperation::Sync, EIO));
        pool.flush(0).unwrap_err();
        for page in 1000..3000 {
            assert_eq!(get(&pool, page).unwrap(), 0, "{policy}");
        }
    }
}

#[test]
fn a_frame_is_evicted_again_after_its_unwritable_page_was_freed() {
    let disk = FaultyDisk::new(1);
    let pool = pool(&disk, 4);
    put(&pool, 1, 1).unwrap();
    disk.inject(Fault::failing(DiskOperation::Write, EIO));
    for page in 2..8 {
        get(&pool, page).unwrap();
    }
    assert_eq!(pool.stats().failed_writes, 1);
    pool.free(1).unwrap();
    for page in 100..120 {
        get(&pool, page).unwrap();
    }
    assert!(pool.read_optimistically(100).is_none());
}

/// At first ebb evicts what LRU does.
#[test]
fn dirty_pages_that_stayed_because_another_could_not_be_written_are_evicted_in_turn() {
    let evicted = |policy| {
        let disk = FaultyDisk::new(1);
        let pages = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&pages);
        let pool = options(200).policy(policy).unwrap().on_event(move |event| {
            if let ReplacementEvent::Evict(page) = event {
                noted.lock().unwrap().push(page);
            }
        });
        let pool = pool.open(disk.pages("data", PAGE)).unwrap();
        (0..100).for_each(|page| put(&pool, page, 1).unwrap());
        (100..200).for_each(|page| assert_eq!(get(&pool, page).unwrap(), 0));
        // The youngest pages are clean, and have frames beside those of old dirty ones.
        (100..128).for_each(|page| assert_eq!(get(&pool, page).unwrap(), 0));
        disk.inject(Fault::failing(DiskOperation::Write, EIO));
        (200..300).for_each(|page| assert_eq!(get(&pool, page).unwrap(), 0));
        let pages = pages.lock().unwrap();
        pages.clone()
    };
    let of_lru = evicted("lru");
    assert_eq!(of_lru[..4], [0, 128, 1, 2]);
    assert_eq!(evicted("ebb"), of_lru);
}

/// Page 0 is changed and evicted, and with it pages 1 to 3 are written, which no caller has changed.
fn pads_a_block(pool: &Pool) -> Vec<PoolError> {
    put(pool, 0, 9).unwrap();
    (8..40).filter_map(|page| get(pool, page).err()).collect()
}

#[test]
fn a_page_that_pads_a_block_and_could_not_be_written_stays_in_memory_until_it_is_written() {
    let disk = FaultyDisk::new(1);
    let open = |area| {
        let pool = options(8).policy("bplru:block=4,padding=true").unwrap();
        let pool = pool.double_write(disk.pages(area, PAGE));
        pool.open(disk.pages("data", PAGE)).unwrap()
    };
    let pool = open("area");
    (0..64).for_each(|page| put(&pool, page, page as u8).unwrap());
    pool.close().unwrap();
    for (nth, flushed) in [(1, true), (1, false), (2, false)] {
        let pool = open("area");
        let torn = Fault::torn_write(EIO).in_file("data").at_page(2);
        disk.inject(torn.clone());
        assert!(pads_a_block(&pool).is_empty());
        assert_eq!(pool.stats().failed_writes, 1);
        if nth == 2 {
            disk.inject(torn.forever());
            let error = pool.checkpoint().unwrap_err();
            assert!(matches!(error, PoolError::Write { page: 2, .. }), "{error}");
            disk.heal();
        }
        if flushed {
            pool.flush(2).unwrap();
        } else {
            pool.checkpoint().unwrap();
        }
        assert_eq!(get(&pool, 2).unwrap(), 2);
        drop(pool);
        // Without the area: the page in place is whole.
        let pool = self::pool(&disk, 8);
        assert_eq!(get(&pool, 2).unwrap(), 2);
        drop(pool);
    }
    // The power fails before the page is written again.
    let pool = open("area");
    disk.inject(Fault::torn_write(EIO).in_file("data").at_page(2));
    assert!(pads_a_block(&pool).is_empty());
    drop(pool);
    restarted(&disk, 3);
    let pool = open("area");
    (1..64).for_each(|page| assert_eq!(get(&pool, page).unwrap(), page as u8));
}

/// A pool in which page 2 pads a block that could not be written once, and page 10 the block of page 8, which the eviction of page
/// 8 writes.
fn with_a_torn_page(disk: &FaultyDisk, others: u64, page_10: Fault) -> Pool {
    let pool = self::pool(disk, 8);
    (0..64).for_each(|page| put(&pool, page, page as u8).unwrap());
    pool.close().unwrap();
    let pool = options(8).policy("bplru:block=4,padding=true").unwrap();
    let pool = pool.double_write(disk.pages("area", PAGE));
    let pool = pool.open(disk.pages("data", PAGE)).unwrap();
    disk.inject(Fault::torn_write(EIO).in_file("data").at_page(2));
    disk.inject(page_10);
    put(&pool, 0, 0).unwrap();
    (20..29).for_each(|page| drop(get(&pool, page)));
    put(&pool, 8, 8).unwrap();
    (30..30 + others).for_each(|page| drop(get(&pool, page)));
    pool
}

#[test]
fn a_pool_is_not_closed_while_a_page_that_its_checkpoint_tore_is_only_in_memory() {
    let mut torn_by_a_checkpoint = 0;
    for others in 0..8 {
        let disk = FaultyDisk::new(1);
        let torn = Fault::torn_write(EIO).in_file("data").at_page(10);
        let pool = with_a_torn_page(&disk, others, torn.clone());
        let before = pool.stats().failed_writes;
        // To fetch page 2 it may evict page 8.
        pool.checkpoint().unwrap();
        let after = pool.stats().failed_writes;
        torn_by_a_checkpoint += after - before;
        pool.close().unwrap();
        let pool = self::pool(&disk, 8);
        (0..64).for_each(|page| assert_eq!(get(&pool, page).unwrap(), page as u8));

        let disk = FaultyDisk::new(1);
        let pool = with_a_torn_page(&disk, others, torn.forever());
        let closed = pool.close().map_err(PoolError::from);
        let is_torn = matches!(closed, Err(PoolError::Write { page: 10, .. }));
        assert_eq!(is_torn, after == 2, "{others}: {closed:?}");
    }
    assert!(torn_by_a_checkpoint > 0);
}

#[test]
fn a_policy_that_pads_needs_a_double_write_area() {
    for policy in ["bplru:block=4,padding=true", "ace:policy=(bplru:block=4,padding=true),batch=3"] {
        let disk = FaultyDisk::new(1);
        let with = || options(8).policy(policy).unwrap();
        match with().open(disk.pages("data", PAGE)) {
            Err(PoolError::Options(OptionsError::Padding { .. })) => {}
            other => panic!("{other:?}"),
        }
        let area = disk.pages("area", PAGE);
        with().double_write(area).open(disk.pages("data", PAGE)).unwrap();
        with().padding_at_risk(true).open(disk.pages("data", PAGE)).unwrap();
    }
}
