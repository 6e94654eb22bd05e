use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ebbpool::storage::{DiskOperation, EIO, ENOSPC, Fault, FaultyDisk};

use super::*;

fn check_that_records_are_read_and_scanned(files: impl Fn() -> [Box<dyn LogFile>; 2]) {
    let wal = Wal::create(files(), IDENTITY, 4000).unwrap();
    assert_eq!((wal.begin(), wal.end_lsn(), wal.durable_lsn()), (64, 64, 64));
    let key = vec![7; 9000];
    let mut appended = Vec::new();
    for txn in 1..=60 {
        let key = &key[..txn as usize * 37 % 5000 + txn as usize * 60];
        appended.push(append(&wal, &update(txn, key)).unwrap());
        match txn % 7 {
            0 => wal.sync(wal.end_lsn()).unwrap(),
            3 => wal.write().unwrap(),
            5 => wal.truncate(appended[appended.len() * 2 / 3].0).unwrap(),
            _ => {}
        }
        for (position, _, txn) in remaining(&wal, &appended) {
            let mut buffer = Vec::new();
            assert_eq!(number(&wal.read(position, &mut buffer).unwrap()), txn);
        }
    }
    assert!(wal.begin() > 64);
    let there = remaining(&wal, &appended);
    assert_eq!(found(&wal), there);
    assert_eq!(wal.end_lsn(), appended[59].1);
    drop(wal);
    let (wal, identity) = Wal::open(files(), 4000, DamagePolicy::Refuse).unwrap().expect("a log");
    assert_eq!((identity, found(&wal)), (IDENTITY, there));
    assert_eq!(wal.durable_lsn(), wal.end_lsn());
    let next = wal.append(&update(61, b"key")).unwrap();
    assert_eq!(next.position, appended[59].1);
}

#[test]
fn records_are_read_from_memory_from_files_and_after_reopening() {
    let disk = FaultyDisk::new(0);
    check_that_records_are_read_and_scanned(|| files(&disk));
}

#[test]
fn records_are_read_from_real_files() {
    let directory = tempfile::tempdir().unwrap();
    check_that_records_are_read_and_scanned(|| {
        NAMES.map(|name| {
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = options.open(directory.path().join(name)).unwrap();
            Box::new(file) as Box<dyn LogFile>
        })
    });
}

#[test]
fn the_log_continues_in_the_other_file_when_that_is_not_needed_and_this_one_is_long() {
    let disk = FaultyDisk::new(0);
    let wal = create(&disk, 1000).unwrap();
    let long = |txn| append(&wal, &update(txn, &[1; 600])).unwrap().0;
    let first = long(1);
    wal.truncate(wal.end_lsn()).unwrap();
    assert_eq!(bytes(&disk)[1].len() as u64, header::LENGTH);
    let second = long(2);
    wal.truncate(second).unwrap();
    let turned = long(3);
    long(4);
    wal.truncate(turned - 1).unwrap();
    assert_eq!(wal.begin(), first);
    wal.truncate(turned).unwrap();
    assert_eq!(wal.begin(), turned);
    assert!(matches!(wal.read(first, &mut Vec::new()), Err(DatabaseError::LogDamaged { .. })));
    long(5);
    wal.write().unwrap();
    // The bytes of the file beyond its limit are freed.
    assert_eq!(bytes(&disk)[0].len() as u64, header::LENGTH + 1000);
}

#[test]
fn many_unwritten_bytes_are_written_without_a_request() {
    let disk = FaultyDisk::new(0);
    let wal = create(&disk, 1 << 30).unwrap();
    let before = wal.bytes_written();
    let key = vec![1; WRITE_AT / 2];
    wal.append(&update(1, &key)).unwrap();
    assert_eq!(wal.bytes_written(), before);
    wal.append(&update(2, &key)).unwrap();
    assert_eq!(wal.bytes_written(), before + wal.end_lsn() - FIRST);
    assert_eq!(wal.durable_lsn(), FIRST);
}

#[test]
fn a_record_that_is_too_long_is_refused_and_later_ones_are_appended() {
    let disk = FaultyDisk::new(0);
    let wal = create(&disk, 1 << 30).unwrap();
    let error = wal.append(&update(1, &vec![0; frame::LONGEST])).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    let logged = append(&wal, &update(2, b"key")).unwrap();
    assert_eq!(found(&wal), [logged]);
}

#[test]
fn a_write_that_failed_is_repeated_at_its_place() {
    for fault in [Fault::failing(DiskOperation::Write, ENOSPC), Fault::torn_write(EIO)] {
        let disk = FaultyDisk::new(0);
        let wal = create(&disk, 1000).unwrap();
        let mut appended = vec![append(&wal, &update(1, b"key")).unwrap()];
        wal.sync(appended[0].1).unwrap();
        appended.push(append(&wal, &update(2, &[2; 3000])).unwrap());
        disk.inject(fault.forever());
        assert!(wal.sync(appended[1].1).is_err() && wal.write().is_err());
        appended.push(append(&wal, &update(3, b"key")).unwrap());
        assert!(wal.sync(appended[2].1).is_err() && !wal.has_failed());
        assert_eq!(wal.durable_lsn(), appended[0].1);
        for (position, _, txn) in appended.clone() {
            assert_eq!(number(&wal.read(position, &mut Vec::new()).unwrap()), txn);
        }
        disk.heal();
        wal.sync(appended[2].1).unwrap();
        disk.crash(0);
        disk.restart();
        assert_eq!(found(&open(&disk, 1000).unwrap()), appended);
    }
}

#[test]
fn nothing_is_logged_after_a_sync_that_failed() {
    for fault in [Fault::failing(DiskOperation::Sync, EIO), Fault::sync_that_drops(EIO)] {
        let disk = FaultyDisk::new(0);
        let wal = create(&disk, 1000).unwrap();
        let durable = append(&wal, &update(1, b"key")).unwrap();
        wal.sync(durable.1).unwrap();
        let (_, lsn, _) = append(&wal, &update(2, &[2; 3000])).unwrap();
        let position = durable.1;
        disk.inject(fault);
        assert!(matches!(wal.sync(lsn), Err(DatabaseError::Log { .. })));
        let refused = [wal.sync(lsn), wal.write(), wal.append(&update(3, b"key")).map(drop), wal.truncate(lsn)];
        for refused in refused {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("failed before"), "{error}");
        }
        assert!(wal.force(lsn).is_err());
        wal.sync(durable.1).unwrap();
        assert_eq!(wal.durable_lsn(), durable.1);
        // A rollback in memory still finds the records that it undoes.
        let mut buffer = Vec::new();
        assert_eq!(number(&wal.read(position, &mut buffer).unwrap()), 2);
    }
}

#[test]
fn an_lsn_beyond_the_end_cannot_be_synced() {
    let disk = FaultyDisk::new(0);
    let wal = create(&disk, 1000).unwrap();
    let (_, lsn, _) = append(&wal, &update(1, b"key")).unwrap();
    let error = wal.sync(lsn + 1).unwrap_err().to_string();
    assert!(error.contains("ends at"), "{error}");
    wal.append(&update(2, b"key")).unwrap();
}

/// A file that panics at the next write or sync, once.
struct PanickingFile(ebbpool::storage::FaultyFile, Arc<[AtomicBool; 2]>);

impl PanickingFile {
    fn may_panic(&self, what: usize) {
        assert!(!self.1[what].swap(false, Ordering::Relaxed), "in a file");
    }
}

impl LogFile for PanickingFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.may_panic(0);
        self.0.write_at(offset, bytes)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.may_panic(1);
        self.0.sync()
    }
}

#[test]
fn a_log_whose_file_panics_has_no_hole() {
    for what in [0, 1] {
        let disk = FaultyDisk::new(0);
        let armed: Arc<[AtomicBool; 2]> = Arc::default();
        let file = |name| Box::new(PanickingFile(disk.bytes(name), Arc::clone(&armed))) as _;
        let wal = Wal::create(NAMES.map(file), IDENTITY, 1000).unwrap();
        let first = append(&wal, &update(1, b"key")).unwrap();
        wal.sync(first.1).unwrap();
        append(&wal, &update(2, b"key")).unwrap();
        armed[what].store(true, Ordering::Relaxed);
        let sync = || wal.sync(wal.end_lsn());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(sync));
        assert!(panicked.is_err());
        // If this record were written, there would be a gap before it.
        let third = append(&wal, &update(3, b"key"));
        assert!(matches!(third, Err(DatabaseError::Log { .. })));
        assert!(matches!(sync(), Err(DatabaseError::Log { .. })));
        assert_eq!(wal.durable_lsn(), first.1);
        drop(wal);
        assert_eq!(found(&open(&disk, 1000).unwrap())[0], first);
    }
}
