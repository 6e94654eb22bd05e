//! Every kind of failure of a disk or a program, one at a time.

#[path = "crash/wal.rs"]
mod wal;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ebbpool::storage::{
    DiskOperation, EINTR, EIO, ENOSPC, Fault, FaultyDisk, PowerOff, SECTOR, Violation, page_lsn,
};
use ebbpool::{Damage, Log, Lsn, PageFormat, Pool, PoolError, PoolOptions};

use ebbpool_policy::{Access, Frame, Page, Policy};

use wal::{Record, Wal};

const PAGE: usize = 2048;

fn options(frames: u32) -> PoolOptions {
    let patience = Duration::from_secs(10);
    PoolOptions::new(frames)
        .policy("lru")
        .unwrap()
        .background(false)
        .dirty_budget(1.0, Duration::ZERO)
        .patience(patience)
}

fn pool(disk: &FaultyDisk, frames: u32) -> Pool {
    options(frames).open(disk.pages("data", PAGE)).unwrap()
}

fn put(pool: &Pool, page: u64, byte: u8) -> Result<(), PoolError> {
    pool.fix_write(page)?.fill(byte);
    Ok(())
}

/// Changes a page with an LSN, so that the pool can find a lost write.
fn put_at(pool: &Pool, page: u64, byte: u8, lsn: Lsn) {
    let mut fixed = pool.fix_write(page).unwrap();
    fixed.fill(byte);
    fixed.set_lsn(lsn);
}

/// The byte that fills the page.
fn get(pool: &Pool, page: u64) -> Result<u8, PoolError> {
    let fixed = pool.fix_read(page)?;
    assert!(
        fixed.iter().all(|byte| *byte == fixed[0]),
        "page {page} is mixed"
    );
    Ok(fixed[0])
}

fn errno(error: &PoolError) -> Option<i32> {
    match error {
        PoolError::Write { source, .. }
        | PoolError::Read { source, .. }
        | PoolError::Storage { source, .. } => source.raw_os_error(),
        _ => None,
    }
}

fn restarted(disk: &FaultyDisk, seed: u64) {
    disk.heal();
    disk.crash(seed);
    disk.restart();
}

// 1. Crashes, also during recovery, are in tests/crash.

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
                assert!(
                    found >= done[page as usize],
                    "seed {seed}, change {k}, page {page}"
                );
            }
        }
    }
}

// 2.

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
            let record = Record {
                page,
                offset: 0,
                value,
            };
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
    assert!(
        survived > 100 && ahead_of_page > 100,
        "{survived}, {ahead_of_page}"
    );
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

// 3.

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
                false => assert!(matches!(
                    found,
                    Err(PoolError::Damaged {
                        page: 5,
                        damage: Damage::Checksum
                    })
                )),
            }
        }
    }
}

// 4. Faults of single requests to a kernel are in tests/storage*.rs; these tests are about the pool above.

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

// 5.

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
        disk.inject(Fault::sync_that_drops(EIO).of(file));
        assert!(pool.flush(0).is_err());
        let writes = disk.counts().writes;
        assert!(matches!(pool.flush(0), Err(PoolError::Poisoned { .. })));
        assert!(matches!(pool.checkpoint(), Err(PoolError::Poisoned { .. })));
        assert!(matches!(pool.fix_write(1), Err(PoolError::Poisoned { .. })));
        assert!(matches!(pool.allocate(), Err(PoolError::Poisoned { .. })));
        assert!(pool.stats().poisoned.is_some());
        assert_eq!(get(&pool, 0).unwrap(), 2, "reading goes on");
        assert_eq!(get(&pool, 9).unwrap(), 0, "reading goes on");
        let (pool, error) = pool.close().unwrap_err();
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
    let calls: [Acknowledges; 2] = [
        |pool| pool.flush(0).is_ok(),
        |pool| pool.checkpoint().is_ok(),
    ];
    let (mut lost, mut refused) = (0, 0);
    for (seed, call) in (0..24).zip(calls.into_iter().cycle()) {
        let disk = FaultyDisk::new(seed);
        let pool = Arc::new(self::pool(&disk, 4));
        put(&pool, 0, 1).unwrap();
        pool.flush(0).unwrap();
        put(&pool, 0, 2).unwrap();
        put(&pool, 1, 2).unwrap();
        disk.inject(Fault::sync_that_drops(EIO).of("data"));
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

// 6.

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
            disk.inject(Fault::torn_write(EIO).of("data").forever());
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
                pool.close().map_err(|(_, error)| error).unwrap();
                restarted(&disk, n);
                let pool = self::pool(&disk, 2);
                (0..8).for_each(|page| assert_eq!(get(&pool, page).unwrap(), page as u8 + 1));
            }
        }
    }
}

// 7.

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
    let lost = Damage::Lost {
        found: 10,
        written: 20,
    };
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
        let lost = Damage::Lost {
            found: lsn,
            written: lsn + 1,
        };
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
        disk.bytes("data")
            .write_at(3 * PAGE as u64, &zeros)
            .unwrap();
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
    assert!(matches!(
        get(&pool, 0),
        Err(PoolError::Damaged {
            page: 0,
            damage: Damage::Zeros
        })
    ));
}

// 8.

/// Runs `work` in a thread of its own when the page is first written, and blocks the write until `work` calls its
/// argument.
fn during_the_write_of(
    disk: &FaultyDisk,
    page: u64,
    work: impl FnOnce(&dyn Fn()) + Send + 'static,
) -> Arc<Mutex<Option<JoinHandle<()>>>> {
    let thread = Arc::new(Mutex::new(None));
    let (begun, work) = (Arc::clone(&thread), Mutex::new(Some(work)));
    disk.observe(move |io| {
        if io.operation != DiskOperation::Write || io.page != Some(page) {
            return;
        }
        if let Some(work) = work.lock().unwrap().take() {
            let (go_on, blocked) = channel();
            let spawned = std::thread::spawn(move || {
                work(&|| {
                    let _ = go_on.send(());
                });
            });
            *begun.lock().unwrap() = Some(spawned);
            let _ = blocked.recv();
        }
    });
    thread
}

fn joined(thread: &Mutex<Option<JoinHandle<()>>>) {
    let thread = thread.lock().unwrap().take();
    thread.expect("the page was written").join().unwrap();
}

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
                let record = Record {
                    page,
                    offset: 0,
                    value: count,
                };
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
    for policy in [
        "casa",
        "cfdc:cluster=4",
        "ad-lru",
        "fd-buffer:group=1",
        "lru-wsr",
    ] {
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

// 9.

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
    assert!(matches!(
        get(&pool, 0),
        Err(PoolError::Abandoned { page: 0 })
    ));
    assert!(matches!(
        put(&pool, 0, 3),
        Err(PoolError::Abandoned { page: 0 })
    ));
    assert!(matches!(
        pool.flush(0),
        Err(PoolError::Abandoned { page: 0 })
    ));
    (1..5).for_each(|page| put(&pool, page, 4).unwrap());
    // All other pages are in storage then. Without a log the changes of this page are nowhere else.
    let checkpoint = pool.checkpoint();
    assert!(matches!(checkpoint, Err(PoolError::Abandoned { page: 0 })));
    assert_eq!(pool.stats().dirty, 1);
    let Err((pool, PoolError::Abandoned { page: 0 })) = pool.close() else {
        panic!("the pool closed although a page is abandoned");
    };
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
        let pool = options(8)
            .background(true)
            .dirty_budget(0.1, Duration::ZERO)
            .open(disk.pages("data", PAGE))
            .unwrap();
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
        match options(10)
            .dense_pages(pages)
            .open(disk.pages("data", PAGE))
        {
            Err(PoolError::TableMemory { pages: found }) => assert_eq!(found, pages),
            other => panic!("{other:?}"),
        }
    }
}

// 10.

/// A log whose `force` fails, or succeeds without an effect.
struct LyingLog {
    durable: AtomicU64,
    fails: bool,
}

impl Log for LyingLog {
    fn durable_lsn(&self) -> Lsn {
        self.durable.load(Ordering::SeqCst)
    }

    fn force(&self, _: Lsn) -> io::Result<()> {
        match self.fails {
            true => Err(io::Error::from_raw_os_error(ENOSPC)),
            false => Ok(()),
        }
    }

    fn end_lsn(&self) -> Lsn {
        100
    }
}

#[test]
fn no_page_is_written_before_its_log_is_durable_even_if_the_log_lies() {
    for fails in [false, true] {
        let disk = FaultyDisk::new(1);
        let lying = Arc::new(LyingLog {
            durable: AtomicU64::new(10),
            fails,
        });
        let log: Arc<dyn Log> = lying.clone();
        disk.watch(&log, page_lsn);
        let pool = options(1).log(log).open(disk.pages("data", PAGE)).unwrap();
        put_at(&pool, 0, 1, 11);
        let refused = |error| match fails {
            true => matches!(error, PoolError::Log { lsn: 11, .. }),
            false => matches!(
                error,
                PoolError::WriteAhead {
                    page: 0,
                    lsn: 11,
                    durable: 10
                }
            ),
        };
        assert!(refused(pool.flush(0).unwrap_err()));
        assert!(refused(pool.checkpoint().unwrap_err()));
        assert!(
            refused(get(&pool, 7).unwrap_err()),
            "page 0 had to be evicted"
        );
        assert_eq!(get(&pool, 0).unwrap(), 1);
        assert_eq!(disk.violations(), []);
        lying.durable.store(11, Ordering::SeqCst);
        pool.checkpoint().unwrap();
        assert_eq!(get(&pool, 7).unwrap(), 0);
    }
}

#[test]
fn a_page_that_is_ahead_of_the_log_is_damaged() {
    let disk = FaultyDisk::new(1);
    let pool = self::pool(&disk, 2);
    for (page, lsn) in [(3, 100), (4, 101)] {
        put_at(&pool, page, 7, lsn);
    }
    pool.close().unwrap();
    let log = LyingLog {
        durable: AtomicU64::new(100),
        fails: false,
    };
    let log: Arc<dyn Log> = Arc::new(log);
    let pool = options(2).log(log).open(disk.pages("data", PAGE)).unwrap();
    assert_eq!(get(&pool, 3).unwrap(), 7);
    let ahead = Damage::Ahead {
        found: 101,
        end: 100,
    };
    for _ in 0..2 {
        let error = get(&pool, 4).unwrap_err();
        assert!(
            matches!(error, PoolError::Damaged { page: 4, damage } if damage == ahead),
            "{error}"
        );
    }
    // Its content does not matter to a caller that writes the whole page.
    pool.fix_new(4).unwrap().fill(8);
    assert_eq!(get(&pool, 4).unwrap(), 8);
}

#[test]
fn the_disk_itself_notices_a_page_ahead_of_its_log() {
    let disk = FaultyDisk::new(1);
    let honest: Arc<dyn Log> = Arc::new(LyingLog {
        durable: AtomicU64::new(10),
        fails: false,
    });
    disk.watch(&honest, page_lsn);
    // Without a log the pool writes any page.
    let pool = self::pool(&disk, 2);
    put_at(&pool, 4, 1, 11);
    pool.flush(4).unwrap();
    let ahead = Violation::WriteAhead {
        file: "data".into(),
        page: 4,
        lsn: 11,
        durable: 10,
    };
    assert_eq!(disk.violations(), [ahead]);
}

#[test]
fn after_a_power_failure_every_call_reports_it() {
    let disk = FaultyDisk::new(1);
    let pool = self::pool(&disk, 2);
    put(&pool, 0, 1).unwrap();
    disk.crash(1);
    let off = |error: PoolError| match error {
        PoolError::Read { source, .. }
        | PoolError::Write { source, .. }
        | PoolError::Grow { source, .. } => PowerOff::caused(&source),
        _ => false,
    };
    assert!(off(get(&pool, 5).unwrap_err()));
    assert!(off(pool.flush(0).unwrap_err()));
    assert!(off(pool.allocate().map(drop).unwrap_err()));
}

// 11. A thread panics while a copy of its page is in flight.

fn panics_while_changing(pool: &Pool, page: u64) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut fixed = pool.fix_write(page).unwrap();
        fixed[0] = 77;
        panic!("on purpose");
    }));
    assert!(outcome.is_err());
}

#[test]
fn a_page_abandoned_in_flight_is_discarded_when_its_copy_has_landed() {
    for errno in [None, Some(EIO)] {
        let disk = FaultyDisk::new(1);
        let pool = Arc::new(pool(&disk, 1));
        put(&pool, 0, 5).unwrap();
        if let Some(errno) = errno {
            disk.inject(Fault::failing(DiskOperation::Write, errno));
        }
        let theirs = Arc::clone(&pool);
        let thread = during_the_write_of(&disk, 0, move |go_on| {
            panics_while_changing(&theirs, 0);
            let waits = theirs.stats().waits_for_latches;
            std::thread::scope(|scope| {
                let discards = scope.spawn(|| theirs.discard(0));
                while theirs.stats().waits_for_latches == waits {
                    std::thread::yield_now();
                }
                assert!(!discards.is_finished(), "the old copy has not landed yet");
                go_on();
                discards.join().unwrap().unwrap();
            });
        });
        let flushed = pool.flush(0);
        assert_eq!(flushed.is_err(), errno.is_some());
        joined(&thread);
        // The copy is in storage, and it does not overwrite later changes.
        assert_eq!(get(&pool, 0).unwrap(), if errno.is_some() { 0 } else { 5 });
        put(&pool, 0, 6).unwrap();
        pool.flush(0).unwrap();
        pool.discard(0).unwrap();
        assert_eq!(get(&pool, 0).unwrap(), 6, "an acknowledged flush is lost");
        put(&pool, 1, 9).unwrap();
        assert_eq!(pool.stats().dirty, 1, "another page's copy made it clean");
        assert_eq!(get(&pool, 1).unwrap(), 9);
    }
}

// 12. The changes that a checkpoint covers.

/// A log that is always durable, and ends where the test says.
#[derive(Default)]
struct LogWithEnd(AtomicU64);

impl Log for LogWithEnd {
    fn durable_lsn(&self) -> Lsn {
        Lsn::MAX
    }
    fn force(&self, _: Lsn) -> io::Result<()> {
        Ok(())
    }
    fn end_lsn(&self) -> Lsn {
        self.0.load(Ordering::SeqCst)
    }
}

fn pool_with_log(disk: &FaultyDisk, end: Lsn) -> (Pool, Arc<LogWithEnd>) {
    let end = Arc::new(LogWithEnd(AtomicU64::new(end)));
    let log: Arc<dyn Log> = end.clone();
    let pool = options(4).log(log).open(disk.pages("data", PAGE)).unwrap();
    (pool, end)
}

/// In a thread of its own, so that a close that never ends fails the test.
fn closed(pool: Pool) -> Result<(), PoolError> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(pool.close().map_err(|(_, error)| error)));
    receiver
        .recv_timeout(Duration::from_secs(60))
        .expect("it ends")
}

#[test]
fn a_pool_closes_after_the_page_of_the_logs_first_record_was_discarded() {
    for panics in [true, false] {
        let disk = FaultyDisk::new(1);
        let (pool, log) = pool_with_log(&disk, 0);
        put(&pool, 1, 1).unwrap();
        pool.flush(1).unwrap();
        log.0.store(1, Ordering::SeqCst);
        match panics {
            true => panics_while_changing(&pool, 1),
            false => put_at(&pool, 1, 2, 1),
        }
        pool.discard(1).unwrap();
        assert_eq!(covered(&pool), 0);
        closed(pool).unwrap();
    }
}

fn covered(pool: &Pool) -> Lsn {
    pool.checkpoint().unwrap().covered
}

#[test]
fn a_checkpoint_covers_no_change_of_an_abandoned_page() {
    for sets_lsn in [false, true] {
        let disk = FaultyDisk::new(1);
        let (pool, end) = pool_with_log(&disk, 50);
        assert_eq!(covered(&pool), 50);
        end.0.store(55, Ordering::SeqCst);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut fixed = pool.fix_write(3).unwrap();
            end.0.store(60, Ordering::SeqCst); // appended
            fixed[0] = 1;
            if sets_lsn {
                fixed.set_lsn(60);
            }
            panic!("on purpose");
        }));
        assert!(outcome.is_err());
        end.0.store(70, Ordering::SeqCst);
        assert!(covered(&pool) < 60, "abandoned");
        pool.discard(3).unwrap();
        assert!(covered(&pool) < 60, "discarded");
        put_at(&pool, 3, 1, 60);
        assert!(covered(&pool) < 60, "not all of it may be redone yet");
        pool.fix_write(3).unwrap().redone();
        assert_eq!(covered(&pool), 70);
    }
}

#[test]
fn redone_changes_are_covered_only_once_they_are_in_storage() {
    let disk = FaultyDisk::new(1);
    let (pool, _) = pool_with_log(&disk, 70);
    put_at(&pool, 3, 1, 60);
    put_at(&pool, 3, 2, 65);
    pool.discard(3).unwrap();
    assert!(covered(&pool) < 60);
    // Redo gives the page the LSN of the last record only.
    let mut fixed = pool.fix_write(3).unwrap();
    fixed.fill(2);
    fixed.set_lsn(65);
    fixed.redone();
    drop(fixed);
    disk.inject(Fault::failing(DiskOperation::Write, EIO));
    assert!(pool.checkpoint().is_err());
    let first = catch_unwind(AssertUnwindSafe(|| {
        let _fixed = pool.fix_write(3).unwrap();
        panic!("on purpose, so that the page cannot be written");
    }));
    assert!(first.is_err());
    assert!(covered(&pool) < 60);
}

/// A checkpoint skips page 3, since it is abandoned, and is blocked at page 5. Meanwhile page 3 is redone. Its write
/// begins, and ends only after the checkpoint.
#[test]
fn changes_redone_during_a_checkpoint_are_not_covered_while_they_are_written() {
    let disk = FaultyDisk::new(1);
    let (pool, _) = pool_with_log(&disk, 70);
    let pool = Arc::new(pool);
    let abandoned = catch_unwind(AssertUnwindSafe(|| {
        let mut fixed = pool.fix_write(3).unwrap();
        fixed.set_lsn(60);
        panic!("on purpose");
    }));
    assert!(abandoned.is_err());
    put_at(&pool, 5, 1, 65);
    let (begins, begun) = channel();
    let (checkpoint_ended, end) = channel::<()>();
    let (begun, end) = (Mutex::new(begun), Mutex::new(end));
    let flusher = Arc::new(Mutex::new(None));
    let (other, started) = (Arc::clone(&pool), Arc::clone(&flusher));
    disk.observe(move |io| {
        if io.operation == DiskOperation::Write && io.page == Some(3) {
            begins.send(()).unwrap();
            let _ = end.lock().unwrap().recv();
        }
        if io.operation == DiskOperation::Write && io.page == Some(5) {
            let other = Arc::clone(&other);
            let thread = std::thread::spawn(move || {
                other.discard(3).unwrap();
                put_at(&other, 3, 1, 60);
                other.fix_write(3).unwrap().redone();
                other.flush(3).unwrap();
            });
            *started.lock().unwrap() = Some(thread);
            begun.lock().unwrap().recv().unwrap();
        }
    });
    assert!(covered(&pool) < 60);
    checkpoint_ended.send(()).unwrap();
    joined(&flusher);
    disk.observe_no_more();
    assert_eq!(covered(&pool), 70);
}

#[test]
fn a_freed_page_need_not_be_redone() {
    let disk = FaultyDisk::new(1);
    let (pool, _) = pool_with_log(&disk, 70);
    put_at(&pool, 3, 1, 60);
    pool.discard(3).unwrap();
    pool.free(3).unwrap();
    assert_eq!(covered(&pool), 70);
}

// 13. Pages that cannot be written, and others that only need a frame.

#[test]
fn pages_are_read_while_others_cannot_be_written() {
    let disk = FaultyDisk::new(1);
    let pool = pool(&disk, 64);
    for page in 0..4 {
        put(&pool, page, 1).unwrap();
        disk.inject(
            Fault::failing(DiskOperation::Write, ENOSPC)
                .at_page(page)
                .forever(),
        );
    }
    for page in 100..1000 {
        assert_eq!(get(&pool, page).unwrap(), 0);
    }
    assert_eq!(pool.stats().dirty, 4);
    disk.heal();
    pool.close().map_err(|(_, error)| error).unwrap();
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
        pool.close().map_err(|(_, error)| error).unwrap();
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
    pool.close().map_err(|(_, error)| error).unwrap();
    for (nth, flushed) in [(1, true), (1, false), (2, false)] {
        let pool = open("area");
        let torn = Fault::torn_write(EIO).of("data").at_page(2);
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
    disk.inject(Fault::torn_write(EIO).of("data").at_page(2));
    assert!(pads_a_block(&pool).is_empty());
    drop(pool);
    restarted(&disk, 3);
    let pool = open("area");
    (1..64).for_each(|page| assert_eq!(get(&pool, page).unwrap(), page as u8));
}

#[test]
fn a_policy_that_pads_needs_a_double_write_area() {
    for policy in [
        "bplru:block=4,padding=true",
        "ace:policy=(bplru:block=4,padding=true),batch=3",
    ] {
        let disk = FaultyDisk::new(1);
        let with = || options(8).policy(policy).unwrap();
        match with().open(disk.pages("data", PAGE)) {
            Err(PoolError::Options(why)) => assert!(why.contains("double-write area"), "{why}"),
            other => panic!("{other:?}"),
        }
        let area = disk.pages("area", PAGE);
        with()
            .double_write(area)
            .open(disk.pages("data", PAGE))
            .unwrap();
        with()
            .padding_at_risk(true)
            .open(disk.pages("data", PAGE))
            .unwrap();
    }
}

// 14. Foreign code that panics.

/// A policy that panics when it is asked for a victim for the third time, or names frames that it does not hold.
struct FailingPolicy {
    calls: u32,
    then: Option<u32>,
}

impl Policy for FailingPolicy {
    fn hit(&mut self, _: Frame, _: Access) {}
    fn admit(&mut self, _: Frame, _: Page, _: Access) {}
    fn evicted(&mut self, _: Frame) {}
    fn cleaned(&mut self, _: Frame) {}
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        _: Option<(Page, Access)>,
        may_evict: F,
    ) -> Option<Frame> {
        self.calls += 1;
        match (self.calls, self.then) {
            (0..3, _) => (0..4).find(|&frame| may_evict(frame)),
            (_, Some(frame)) => Some(frame),
            (_, None) => panic!("on purpose"),
        }
    }
}

#[test]
fn a_policy_that_fails_is_replaced_and_no_page_is_lost() {
    // It panics, names a frame that does not exist, or names one that is pinned.
    for then in [None, Some(u32::MAX), Some(0)] {
        let disk = FaultyDisk::new(1);
        let pool = options(4)
            .own_policy(FailingPolicy { calls: 0, then })
            .open(disk.pages("data", PAGE))
            .unwrap();
        put(&pool, 0, 1).unwrap();
        let pinned = pool.fix_read(0).unwrap();
        for page in 1..100 {
            put(&pool, page, page as u8).unwrap();
        }
        drop(pinned);
        for page in 1..100 {
            assert_eq!(get(&pool, page).unwrap(), page as u8);
        }
        pool.close().map_err(|(_, error)| error).unwrap();
    }
}

#[test]
fn a_listener_that_panics_is_not_called_again() {
    let disk = FaultyDisk::new(1);
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let pool = options(2)
        .on_event(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            panic!("on purpose");
        })
        .open(disk.pages("data", PAGE))
        .unwrap();
    for page in 0..10 {
        put(&pool, page, page as u8).unwrap();
    }
    (0..10).for_each(|page| assert_eq!(get(&pool, page).unwrap(), page as u8));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn a_storage_that_panics_fails_and_no_frame_stays_claimed() {
    for operation in [
        DiskOperation::Read,
        DiskOperation::Write,
        DiskOperation::Sync,
    ] {
        let disk = FaultyDisk::new(1);
        let pool = self::pool(&disk, 2);
        put(&pool, 0, 1).unwrap();
        put(&pool, 1, 2).unwrap();
        let panics = Arc::new(AtomicBool::new(true));
        let theirs = Arc::clone(&panics);
        disk.observe(move |io| {
            assert!(io.operation != operation || !theirs.load(Ordering::Relaxed));
        });
        for page in 5..9 {
            let fixed = pool.fix_read(page).map(drop);
            assert_eq!(
                fixed.is_err(),
                operation != DiskOperation::Sync,
                "{operation:?}"
            );
        }
        put(&pool, 1, 3).unwrap();
        assert_eq!(pool.flush(1).is_err(), operation != DiskOperation::Read);
        panics.store(false, Ordering::Relaxed);
        assert_eq!(get(&pool, 5).unwrap(), 0);
        assert_eq!(get(&pool, 1).unwrap(), 3);
        // A sync that panicked may have lost what was written.
        assert_eq!(pool.checkpoint().is_err(), operation == DiskOperation::Sync);
    }
}
