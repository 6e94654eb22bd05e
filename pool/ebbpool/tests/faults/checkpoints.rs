//! What logs and checkpoints promise.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebbpool::storage::{DiskOperation, EIO, ENOSPC, Fault, FaultyDisk, PowerOff, Violation, page_lsn};
use ebbpool::{Damage, Log, Lsn, Pool, PoolError};

use crate::{PAGE, during_the_write_of, get, joined, options, pool, put, put_at};

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
        let lying = Arc::new(LyingLog { durable: AtomicU64::new(10), fails });
        let log: Arc<dyn Log> = lying.clone();
        disk.watch(&log, page_lsn);
        let pool = options(1).log(log).open(disk.pages("data", PAGE)).unwrap();
        put_at(&pool, 0, 1, 11);
        let refused = |error| match fails {
            true => matches!(error, PoolError::Log { lsn: 11, .. }),
            false => matches!(error, PoolError::WriteAhead { page: 0, lsn: 11, durable: 10 }),
        };
        assert!(refused(pool.flush(0).unwrap_err()));
        assert!(refused(pool.checkpoint().unwrap_err()));
        assert!(refused(get(&pool, 7).unwrap_err()), "page 0 had to be evicted");
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
    let log = LyingLog { durable: AtomicU64::new(100), fails: false };
    let log: Arc<dyn Log> = Arc::new(log);
    let pool = options(2).log(log).open(disk.pages("data", PAGE)).unwrap();
    assert_eq!(get(&pool, 3).unwrap(), 7);
    let ahead = Damage::Ahead { found: 101, end: 100 };
    for _ in 0..2 {
        let error = get(&pool, 4).unwrap_err();
        assert!(matches!(error, PoolError::Damaged { page: 4, damage } if damage == ahead), "{error}");
    }
    // Its content does not matter to a caller that writes the whole page.
    pool.fix_new(4).unwrap().fill(8);
    assert_eq!(get(&pool, 4).unwrap(), 8);
}

#[test]
fn the_disk_itself_notices_a_page_ahead_of_its_log() {
    let disk = FaultyDisk::new(1);
    let honest: Arc<dyn Log> = Arc::new(LyingLog { durable: AtomicU64::new(10), fails: false });
    disk.watch(&honest, page_lsn);
    // Without a log the pool writes any page.
    let pool = self::pool(&disk, 2);
    put_at(&pool, 4, 1, 11);
    pool.flush(4).unwrap();
    let ahead = Violation::WriteAhead { file: "data".into(), page: 4, lsn: 11, durable: 10 };
    assert_eq!(disk.violations(), [ahead]);
}

#[test]
fn after_a_power_failure_every_call_reports_it() {
    let disk = FaultyDisk::new(1);
    let pool = self::pool(&disk, 2);
    put(&pool, 0, 1).unwrap();
    disk.crash(1);
    let off = |error: PoolError| match error {
        PoolError::Read { source, .. } | PoolError::Write { source, .. } | PoolError::Grow { source, .. } => {
            PowerOff::caused(&source)
        }
        _ => false,
    };
    assert!(off(get(&pool, 5).unwrap_err()));
    assert!(off(pool.flush(0).unwrap_err()));
    assert!(off(pool.allocate().map(drop).unwrap_err()));
}

// A thread panics while a copy of its page is in flight.

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

// The changes that a checkpoint covers.

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
    std::thread::spawn(move || sender.send(pool.close().map_err(PoolError::from)));
    receiver.recv_timeout(Duration::from_secs(60)).expect("it ends")
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

#[test]
fn a_log_that_has_no_record_yet_covers_no_change() {
    let disk = FaultyDisk::new(1);
    let (pool, log) = pool_with_log(&disk, 0);
    assert_eq!(covered(&pool), 0);
    log.0.store(9, Ordering::SeqCst);
    put_at(&pool, 1, 1, 9);
    assert_eq!(covered(&pool), 9);
    closed(pool).unwrap();
    // The log is emptied, or made anew: each page that it has changed is ahead of it.
    let (pool, _) = pool_with_log(&disk, 0);
    let damaged = get(&pool, 1).expect_err("the page is ahead");
    assert!(matches!(damaged, PoolError::Damaged { page: 1, damage: Damage::Ahead { found: 9, end: 0 } }), "{damaged}");
    // Without a log a checkpoint covers everything.
    let pool = self::pool(&disk, 2);
    assert_eq!((get(&pool, 1).unwrap(), covered(&pool)), (1, Lsn::MAX));
}

#[test]
fn a_stray_page_number_takes_no_page_from_others() {
    let disk = FaultyDisk::new(1);
    let options = options(2).patience(Duration::from_millis(20));
    let pool = options.open(disk.pages("data", PAGE)).unwrap();
    let (one, other) = (pool.fix_write(0).unwrap(), pool.fix_write(1).unwrap());
    for stray in [1 << 40, u64::MAX, 1 << 52] {
        assert!(pool.fix_write(stray).is_err() && pool.fix_new(stray).is_err());
    }
    drop((one, other));
    assert_eq!(pool.allocate().unwrap().page(), 2);
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
