//! Crashes, torn writes, transfers and syncs that fail, and damaged pages.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebbpool::storage::{DiskOperation, EINTR, EIO, ENOSPC, Fault, FaultyDisk, SECTOR, page_lsn};
use ebbpool::{Damage, Log, PageFormat, Pool, PoolError};

use crate::wal::{Record, Wal};
use crate::{PAGE, errno, get, options, pool, put, put_at, restarted};

// Crashes, also during recovery, are in tests/crash.

#[test]
fn flushed_pages_survive_a_crash_at_every_io() {
    let script = |pool: &Pool, done: &mut [u8; 4]| -> Result<(), PoolError> {
        for (page, byte) in [(0, 1), (1, 2), (2, 3), (0, 4), (3, 5), (1, 6)] {
            put(pool, page, byte)?;
            pool.flush(page)?;
            done[page as usize] = byte;
        }
        pool.checkpoint().map(drop)
    };
    let disk = FaultyDisk::new(1);
    script(&pool(&disk, 2), &mut [0; 4]).unwrap();
    let changes = disk.counts().changes();
    assert!(changes >= 12);
    for seed in 0..20 {
        for k in 1..=changes {
            let disk = FaultyDisk::new(seed);
            disk.inject(Fault::crash(DiskOperation::Change, seed).nth(k));
            let area = disk.pages("area", PAGE);
            let opened = options(2).double_write(area).open(disk.pages("data", PAGE));
            let mut done = [0; 4];
            if let Ok(pool) = opened {
                let outcome = script(&pool, &mut done);
                assert_eq!(outcome.is_err(), disk.is_off(), "seed {seed}, change {k}");
            }
            restarted(&disk, seed);
            let area = disk.pages("area", PAGE);
            let pool = options(2).double_write(area);
            let pool = pool.open(disk.pages("data", PAGE)).unwrap();
            for page in 0..4 {
                let found = get(&pool, page).unwrap();
                assert!(found >= done[page as usize], "seed {seed}, change {k}, page {page}");
            }
        }
    }
}

#[test]
fn no_page_survives_a_crash_without_its_log() {
    let (mut ahead_of_page, mut survived) = (0, 0);
    for seed in 0..300 {
        let disk = FaultyDisk::new(seed);
        let wal = Arc::new(Wal::open(disk.bytes("log")).unwrap().0);
        let log: Arc<dyn Log> = wal.clone();
        disk.watch(&log, page_lsn);
        let pool = options(1).log(log).open(disk.pages("data", PAGE)).unwrap();
        for value in 1..=6 {
            let page = value % 3;
            let mut fixed = pool.fix_write(page).unwrap();
            fixed.fill(value as u8);
            let record = Record { page, offset: 0, value };
            fixed.set_lsn(wal.append(record));
        }
        wal.write().unwrap();
        drop(pool);
        assert_eq!(disk.violations(), []);
        restarted(&disk, seed);
        let (_, records) = Wal::open(disk.bytes("log")).unwrap();
        assert!(records.len() >= 5, "pages were written that need them");
        let pool = self::pool(&disk, 1);
        for page in 0..3 {
            let found = match pool.fix_read(page) {
                Ok(fixed) => u64::from(fixed[0]),
                Err(PoolError::Damaged { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            assert!(found <= records.len() as u64);
            let mut logged = records.iter().filter(|record| record.page == page);
            let last = logged.next_back().map_or(0, |record| record.value);
            survived += u32::from(found > 0);
            ahead_of_page += u32::from(last > found);
        }
    }
    assert!(survived > 100 && ahead_of_page > 100, "{survived}, {ahead_of_page}");
}

#[test]
fn a_page_whose_file_did_not_grow_before_a_crash_reads_as_never_written() {
    let mut lost = 0;
    for seed in 0..100 {
        let disk = FaultyDisk::new(seed);
        let pool = self::pool(&disk, 4);
        let mut page = pool.allocate().unwrap();
        page.fill(9);
        drop(page);
        drop(pool);
        restarted(&disk, seed);
        let pool = self::pool(&disk, 4);
        lost += u32::from(pool.allocate().unwrap().page() == 0);
        assert_eq!(get(&pool, 0).unwrap(), 0);
    }
    assert!((20..90).contains(&lost), "{lost} of 100");
}

#[test]
fn a_page_without_room_is_allocated_once_the_storage_grows() {
    let disk = FaultyDisk::new(1);
    let pool = self::pool(&disk, 4);
    drop(pool.allocate().unwrap());
    for _ in 0..2 {
        disk.inject(Fault::failing(DiskOperation::Resize, ENOSPC));
        let full = pool.allocate().map(drop).unwrap_err();
        assert!(matches!(full, PoolError::Grow { pages: 2, .. }), "{full}");
        assert_eq!(pool.pages(), 1);
    }
    disk.heal();
    assert_eq!(pool.allocate().unwrap().page(), 1);
    assert_eq!(disk.bytes("data").len().unwrap(), 2 * PAGE as u64);
    pool.grow(5).unwrap();
    assert_eq!(pool.pages(), 5);
    assert_eq!(pool.allocate().unwrap().page(), 5);
    pool.free(3).unwrap();
    assert_eq!(pool.allocate().unwrap().page(), 3);
}

#[test]
fn a_torn_page_is_reported_or_restored() {
    let sectors = PAGE / SECTOR;
    for pattern in 1..(1_u32 << sectors) - 1 {
        for with_area in [false, true] {
            let disk = FaultyDisk::new(1);
            let open = || {
                let options = match with_area {
                    true => options(2).double_write(disk.pages("area", PAGE)),
                    false => options(2),
                };
                options.open(disk.pages("data", PAGE)).unwrap()
            };
            let pool = open();
            put(&pool, 5, 1).unwrap();
            pool.flush(5).unwrap();
            let old = disk.bytes("data").read_all().unwrap();
            put(&pool, 5, 2).unwrap();
            pool.flush(5).unwrap();
            drop(pool);
            let data = disk.bytes("data");
            for sector in (0..sectors).filter(|sector| pattern >> sector & 1 == 1) {
                let at = 5 * PAGE + sector * SECTOR;
                data.write_at(at as u64, &old[at..at + SECTOR]).unwrap();
            }
            let found = get(&open(), 5);
            match with_area {
                true => assert_eq!(found.unwrap(), 2),
                false => assert!(matches!(found, Err(PoolError::Damaged { page: 5, damage: Damage::Checksum }))),
            }
        }
    }
}

// Faults of single requests to a kernel are in tests/storage*.rs; these tests are about the pool above.

#[test]
fn after_interrupted_and_partial_transfers_nothing_is_lost() {
    for seed in 0..50 {
        let disk = FaultyDisk::new(seed);
        let pool = self::pool(&disk, 2);
        put(&pool, 0, 1).unwrap();
        disk.inject(Fault::torn_write(EINTR).at_page(0));
        assert_eq!(errno(&pool.flush(0).unwrap_err()), Some(EINTR));
        assert_eq!(pool.stats().dirty, 1);
        pool.flush(0).unwrap();
        assert_eq!(pool.stats().dirty, 0);
        restarted(&disk, seed);
        let pool = self::pool(&disk, 2);
        disk.inject(Fault::failing(DiskOperation::Read, EINTR));
        assert_eq!(errno(&get(&pool, 0).unwrap_err()), Some(EINTR));
        assert_eq!(get(&pool, 0).unwrap(), 1);
    }
}

#[test]
fn only_the_failed_pages_of_a_batch_stay_dirty() {
    let disk = FaultyDisk::new(1);
    let pool = self::pool(&disk, 8);
    (0..8).for_each(|page| put(&pool, page, 7).unwrap());
    disk.inject(Fault::torn_write(EIO).at_page(3));
    disk.inject(Fault::failing(DiskOperation::Write, EIO).at_page(6));
    assert_eq!(errno(&pool.checkpoint().unwrap_err()), Some(EIO));
    assert_eq!(pool.stats().dirty, 2);
    pool.checkpoint().unwrap();
    assert_eq!(pool.stats().dirty, 0);
    restarted(&disk, 1);
    let pool = self::pool(&disk, 8);
    (0..8).for_each(|page| assert_eq!(get(&pool, page).unwrap(), 7));
}

#[test]
fn a_failed_sync_poisons_the_pool_although_later_ones_would_succeed() {
    for (seed, file) in (0..40).zip(["data", "area"].into_iter().cycle()) {
        let disk = FaultyDisk::new(seed);
        let area = disk.pages("area", PAGE);
        let pool = options(4).double_write(area);
        let pool = pool.open(disk.pages("data", PAGE)).unwrap();
        put(&pool, 0, 1).unwrap();
        pool.flush(0).unwrap();
        put(&pool, 0, 2).unwrap();
        disk.inject(Fault::sync_that_drops(EIO).in_file(file));
        assert!(pool.flush(0).is_err());
        let writes = disk.counts().writes;
        assert!(matches!(pool.flush(0), Err(PoolError::Poisoned { .. })));
        assert!(matches!(pool.checkpoint(), Err(PoolError::Poisoned { .. })));
        assert!(matches!(pool.fix_write(1), Err(PoolError::Poisoned { .. })));
        assert!(matches!(pool.allocate(), Err(PoolError::Poisoned { .. })));
        assert!(pool.stats().poisoned.is_some());
        assert_eq!(get(&pool, 0).unwrap(), 2, "reading goes on");
        assert_eq!(get(&pool, 9).unwrap(), 0, "reading goes on");
        let (pool, error) = pool.close().unwrap_err().into_parts();
        assert!(matches!(error, PoolError::Poisoned { .. }));
        drop(pool);
        assert_eq!(disk.counts().writes, writes, "it wrote on");
        restarted(&disk, seed);
        let area = disk.pages("area", PAGE);
        let pool = options(4).double_write(area);
        let pool = pool.open(disk.pages("data", PAGE)).unwrap();
        assert!((1..=2).contains(&get(&pool, 0).unwrap()));
    }
}

#[test]
fn a_sync_that_succeeds_beside_one_that_failed_acknowledges_nothing() {
    type Acknowledges = fn(&Pool) -> bool;
    let calls: [Acknowledges; 2] = [|pool| pool.flush(0).is_ok(), |pool| pool.checkpoint().is_ok()];
    let (mut lost, mut refused) = (0, 0);
    for (seed, call) in (0..24).zip(calls.into_iter().cycle()) {
        let disk = FaultyDisk::new(seed);
        let pool = Arc::new(self::pool(&disk, 4));
        put(&pool, 0, 1).unwrap();
        pool.flush(0).unwrap();
        put(&pool, 0, 2).unwrap();
        put(&pool, 1, 2).unwrap();
        disk.inject(Fault::sync_that_drops(EIO).in_file("data"));
        let other = Arc::new(Mutex::new(None));
        let (begun, shared) = (Arc::clone(&other), Arc::clone(&pool));
        disk.observe(move |io| {
            let mut begun = begun.lock().unwrap();
            if io.operation != DiskOperation::Sync || begun.is_some() {
                return;
            }
            // The kernel has dropped writes, and has not reported that yet.
            let pool = Arc::clone(&shared);
            let (ended, end) = channel();
            let thread = std::thread::spawn(move || {
                let acknowledged = call(&pool);
                let _ = ended.send(());
                acknowledged
            });
            *begun = Some(thread);
            drop(begun);
            // If syncs could overlap, the other one would end now.
            let _ = end.recv_timeout(Duration::from_millis(10));
        });
        assert!(pool.flush(1).is_err());
        let other = other.lock().unwrap().take();
        let acknowledged = other.expect("it was synced").join().unwrap();
        disk.observe_no_more();
        assert!(pool.stats().poisoned.is_some());
        assert!(matches!(pool.checkpoint(), Err(PoolError::Poisoned { .. })));
        drop(pool);
        restarted(&disk, seed);
        let found = get(&self::pool(&disk, 4), 0);
        let is_lost = !matches!(found, Ok(2));
        assert!(!(acknowledged && is_lost), "seed {seed}: {found:?}");
        lost += u32::from(is_lost);
        refused += u32::from(!acknowledged);
    }
    assert!(lost > 5 && refused == 24, "{lost}, {refused}");
}

#[test]
fn a_page_torn_by_a_failed_write_is_restored_from_the_area_after_a_crash() {
    for seed in 0..40 {
        for failing in [1, 3] {
            let disk = FaultyDisk::new(seed);
            let open = |disk: &FaultyDisk| {
                let options = options(8).double_write(disk.pages("area", PAGE)).batch(4);
                options.open(disk.pages("data", PAGE)).unwrap()
            };
            let pool = open(&disk);
            (0..failing).for_each(|page| put(&pool, page, 1).unwrap());
            pool.checkpoint().unwrap();
            (0..failing).for_each(|page| put(&pool, page, 2).unwrap());
            disk.inject(Fault::torn_write(EIO).in_file("data").forever());
            assert!(pool.checkpoint().is_err());
            disk.heal();
            // Meanwhile images of other pages fill the area several times.
            for turn in 0..20 {
                let page = 3 + turn % 4;
                put(&pool, page, 9).unwrap();
                pool.flush(page).unwrap();
            }
            drop(pool);
            restarted(&disk, seed);
            let pool = open(&disk);
            for page in 0..failing {
                let found = get(&pool, page);
                assert!(matches!(found, Ok(1 | 2)), "seed {seed}: {found:?}");
            }
        }
    }
}

#[test]
fn if_a_page_cannot_be_written_another_one_is_evicted() {
    for errno in [EIO, ENOSPC] {
        for n in 1..=4 {
            for forever in [false, true] {
                let disk = FaultyDisk::new(n);
                let pool = self::pool(&disk, 2);
                let fault = Fault::failing(DiskOperation::Write, errno).nth(n);
                disk.inject(if forever { fault.forever() } else { fault });
                let mut refused = 0;
                for page in 0..8 {
                    while let Err(error) = put(&pool, page, page as u8 + 1) {
                        assert!(matches!(&error, PoolError::Write { .. }));
                        assert_eq!(self::errno(&error), Some(errno));
                        assert_eq!(pool.stats().dirty, 2);
                        refused += 1;
                        if refused == 3 {
                            disk.heal();
                        }
                    }
                }
                // The other page of the two can be written.
                assert_eq!(refused, if forever { 3 } else { 0 });
                pool.close().unwrap();
                restarted(&disk, n);
                let pool = self::pool(&disk, 2);
                (0..8).for_each(|page| assert_eq!(get(&pool, page).unwrap(), page as u8 + 1));
            }
        }
    }
}

#[test]
fn damage_is_reported_and_never_returned() {
    let disk = FaultyDisk::new(1);
    let pool = self::pool(&disk, 1);
    for page in 0..6 {
        put_at(&pool, page, 1, 10);
    }
    let damage = |page| match pool.fix_read(page).map(drop) {
        Err(PoolError::Damaged { page: of, damage }) if of == page => Some(damage),
        Ok(()) => None,
        Err(error) => panic!("{error}"),
    };
    pool.flush(5).unwrap();
    assert!(disk.flip("data", 2 * PAGE as u64 + 999, 3));
    assert_eq!(damage(2), Some(Damage::Checksum));
    disk.inject(Fault::misplaced_write(3).at_page(4));
    put_at(&pool, 4, 2, 20);
    pool.flush(4).unwrap();
    assert_eq!(damage(3), Some(Damage::Misplaced(4)));
    let lost = Damage::Lost { found: 10, written: 20 };
    assert_eq!(damage(4), Some(lost));
    disk.inject(Fault::lost_write().at_page(0));
    put_at(&pool, 0, 2, 20);
    pool.flush(0).unwrap();
    assert_eq!(damage(1), None);
    assert_eq!(damage(0), Some(lost));
    disk.inject(Fault::flipped_read());
    assert!(damage(5).is_some(), "a flipped bit passed");
    assert_eq!(damage(5), None, "it was only read wrongly");
}

#[test]
fn a_page_that_is_allocated_again_may_have_a_smaller_lsn() {
    for lsn in [0, 3] {
        let disk = FaultyDisk::new(1);
        let pool = self::pool(&disk, 2);
        let page = pool.allocate().unwrap().page();
        put_at(&pool, page, 1, 100);
        pool.checkpoint().unwrap();
        pool.free(page).unwrap();
        assert_eq!(pool.allocate().unwrap().page(), page);
        put_at(&pool, page, 2, lsn);
        pool.checkpoint().unwrap();
        pool.discard(page).unwrap();
        assert_eq!(get(&pool, page).unwrap(), 2);
        // Lost writes of the page are found as before.
        disk.inject(Fault::lost_write().at_page(page));
        put_at(&pool, page, 3, lsn + 1);
        pool.flush(page).unwrap();
        pool.discard(page).unwrap();
        let lost = Damage::Lost { found: lsn, written: lsn + 1 };
        match get(&pool, page) {
            Err(PoolError::Damaged { damage, .. }) => assert_eq!(damage, lost),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_failed_write_that_reached_the_storage_is_no_damage() {
    let disk = FaultyDisk::new(1);
    let pool = self::pool(&disk, 2);
    put_at(&pool, 0, 1, 100);
    pool.flush(0).unwrap();
    let old = disk.bytes("data").read_all().unwrap();
    pool.free(0).unwrap();
    pool.fix_new(0).unwrap().fill(2);
    // The write fails, and the page before it is in storage.
    disk.inject(Fault::failing(DiskOperation::Write, EIO));
    assert!(pool.flush(0).is_err());
    pool.discard(0).unwrap();
    assert_eq!(get(&pool, 0).unwrap(), 1);
    put_at(&pool, 0, 3, 7);
    pool.flush(0).unwrap();
    let new = disk.bytes("data").read_all().unwrap();
    put_at(&pool, 0, 1, 100);
    pool.flush(0).unwrap();
    assert_eq!(disk.bytes("data").read_all().unwrap(), old);
    put_at(&pool, 0, 3, 7);
    disk.inject(Fault::failing(DiskOperation::Write, EIO));
    assert!(pool.flush(0).is_err());
    disk.bytes("data").write_at(0, &new).unwrap();
    pool.discard(0).unwrap();
    assert_eq!(get(&pool, 0).unwrap(), 3);
}

#[test]
fn raw_pages_with_lsns_are_read_again() {
    let disk = FaultyDisk::new(1);
    let pool = options(2).format(PageFormat::Raw);
    let pool = pool.open(disk.pages("data", PAGE)).unwrap();
    put_at(&pool, 7, 1, 100);
    put_at(&pool, 8, 0, 101);
    pool.checkpoint().unwrap();
    pool.discard(7).unwrap();
    pool.discard(8).unwrap();
    assert_eq!(get(&pool, 7).unwrap(), 1);
    assert_eq!(get(&pool, 8).unwrap(), 0, "zeros are what was written");
}

#[test]
fn a_page_that_was_written_and_is_zeros_is_damaged() {
    for lsn in [0, 20] {
        let disk = FaultyDisk::new(1);
        let pool = self::pool(&disk, 2);
        put_at(&pool, 3, 0, lsn);
        pool.flush(3).unwrap();
        pool.discard(3).unwrap();
        assert_eq!(get(&pool, 3).unwrap(), 0);
        pool.discard(3).unwrap();
        let zeros = [0; PAGE];
        disk.bytes("data").write_at(3 * PAGE as u64, &zeros).unwrap();
        let damage = match get(&pool, 3) {
            Err(PoolError::Damaged { page: 3, damage }) => damage,
            other => panic!("{other:?}"),
        };
        match lsn {
            0 => assert_eq!(damage, Damage::Zeros),
            written => assert_eq!(damage, Damage::Lost { found: 0, written }),
        }
        // It can be filled anew, and a page that was never written is zeros.
        pool.fix_new(3).unwrap().fill(4);
        pool.flush(3).unwrap();
        assert_eq!(get(&pool, 3).unwrap(), 4);
        assert_eq!(get(&pool, 2).unwrap(), 0);
    }
}

#[test]
fn a_lost_first_write_of_a_page_without_lsn_is_found() {
    let disk = FaultyDisk::new(1);
    let pool = self::pool(&disk, 2);
    disk.inject(Fault::lost_write().at_page(0));
    put(&pool, 0, 1).unwrap();
    pool.flush(0).unwrap();
    pool.discard(0).unwrap();
    assert!(matches!(get(&pool, 0), Err(PoolError::Damaged { page: 0, damage: Damage::Zeros })));
}
