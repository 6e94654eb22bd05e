use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use ebbpool::storage::{DiskOperation, EIO, Fault, FaultyDisk, FaultyFile};
use parking_lot::{Condvar, Mutex};

use super::*;

/// A file whose syncs wait, once the gate is shut, until all threads have appended.
struct GatedFile {
    file: FaultyFile,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    shut: AtomicBool,
    appended: Mutex<usize>,
    more: Condvar,
}

const THREADS: usize = 8;

impl LogFile for GatedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        if self.gate.shut.load(Ordering::Acquire) {
            let mut appended = self.gate.appended.lock();
            while *appended < THREADS {
                self.gate.more.wait(&mut appended);
            }
        }
        self.file.sync()
    }
}

/// Each thread appends a commit and syncs it; returns the results. No sync ends before all threads have
/// appended, since threads append while another one syncs.
fn all_commit_at_once(disk: &FaultyDisk, fault: Option<Fault>) -> (Wal, Vec<Result<(), DatabaseError>>) {
    let gate = Arc::new(Gate::default());
    let files = NAMES.map(|name| Box::new(GatedFile { file: disk.bytes(name), gate: gate.clone() }) as Box<dyn LogFile>);
    let wal = Wal::create(files, IDENTITY, 1000).unwrap();
    fault.into_iter().for_each(|fault| disk.inject(fault));
    gate.shut.store(true, Ordering::Release);
    let one = |txn| {
        let (_, lsn, _) = append(&wal, &commit(&wal, txn)).unwrap();
        *gate.appended.lock() += 1;
        gate.more.notify_all();
        wal.sync(lsn)?;
        assert!(wal.durable_lsn() >= lsn);
        Ok(())
    };
    let outcomes = thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS as u64)
            .map(|txn| {
                let one = &one;
                scope.spawn(move || one(txn))
            })
            .collect();
        let outcomes = threads.into_iter().map(|thread| thread.join().unwrap());
        outcomes.collect()
    });
    (wal, outcomes)
}

#[test]
fn threads_that_wait_for_another_ones_sync_share_the_next_sync() {
    let disk = FaultyDisk::new(0);
    let (wal, outcomes) = all_commit_at_once(&disk, None);
    assert!(outcomes.iter().all(Result::is_ok));
    let making = 2;
    assert!((1..=2).contains(&(wal.syncs() - making)));
    disk.crash(1);
    disk.restart();
    assert_eq!(found(&open(&disk, 1000).unwrap()).len(), THREADS);
}

#[test]
fn all_threads_that_wait_for_a_failing_sync_get_its_error() {
    let disk = FaultyDisk::new(0);
    let fault = Fault::failing(DiskOperation::Sync, EIO);
    let (wal, outcomes) = all_commit_at_once(&disk, Some(fault));
    let failed = |outcome: &Result<(), DatabaseError>| matches!(outcome, Err(DatabaseError::Log { .. }));
    assert!(outcomes.iter().all(failed), "{outcomes:?}");
    assert_eq!(wal.durable_lsn(), FIRST);
}

#[test]
fn threads_append_read_sync_and_truncate_at_once() {
    const EACH: u64 = 400;
    let disk = FaultyDisk::new(0);
    let wal = create(&disk, 20_000).unwrap();
    // What each thread still needs.
    let needed: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(FIRST)).collect();
    let together = Barrier::new(needed.len());
    let work = |thread: u64| {
        let mut random = fastrand::Rng::with_seed(thread);
        for n in 0..EACH {
            let txn = thread * EACH + n + 1;
            needed[thread as usize].store(wal.end_lsn(), Ordering::SeqCst);
            if n % 40 == 0 {
                together.wait();
            }
            if n % 40 == 0 && thread == 0 {
                let needed = needed.iter().map(|needed| needed.load(Ordering::SeqCst));
                wal.truncate(needed.min().unwrap()).unwrap();
            }
            let key = vec![thread as u8; random.usize(..500)];
            let record = update(txn, &key);
            let (position, lsn, _) = append(&wal, &record).unwrap();
            if random.u8(..4) == 0 {
                wal.sync(lsn).unwrap();
            }
            let mut buffer = Vec::new();
            assert_eq!(wal.read(position, &mut buffer).unwrap(), record);
        }
    };
    thread::scope(|scope| {
        for thread in 0..needed.len() as u64 {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
    assert!(wal.begin() > FIRST);
    wal.sync(wal.end_lsn()).unwrap();
    disk.crash(0);
    disk.restart();
    let reopened = open(&disk, 20_000).unwrap();
    let found = found(&reopened);
    assert!(found.windows(2).all(|pair| pair[0].1 == pair[1].0));
    assert_eq!(found.last().unwrap().1, wal.end_lsn());
    let mut by_thread: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (_, _, txn) in found {
        by_thread.entry((txn - 1) / EACH).or_default().push(txn);
    }
    for txns in by_thread.into_values() {
        assert!(txns.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    }
}
