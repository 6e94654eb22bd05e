use std::sync::Arc;

use ebbpool::storage::FaultyDisk;

use super::*;

fn refused(disk: &FaultyDisk) -> DatabaseError {
    let before = bytes(disk);
    let opened = Wal::open(files(disk), 1000, DamagePolicy::Refuse);
    let Err(error) = opened else {
        panic!("{disk:?} was opened");
    };
    assert_eq!(bytes(disk), before);
    error
}

fn log_of(records: u64) -> FaultyDisk {
    let disk = FaultyDisk::new(0);
    let wal = create(&disk, 1000).unwrap();
    for txn in 1..=records {
        append(&wal, &update(txn, &[1; 100])).unwrap();
        wal.truncate(wal.end_lsn()).unwrap();
    }
    wal.write().unwrap();
    disk
}

#[test]
fn empty_files_and_partly_written_headers_are_an_unfinished_log() {
    let disk = FaultyDisk::new(0);
    assert!(Wal::open(files(&disk), 1000, DamagePolicy::Refuse).unwrap().is_none());
    for length in [0, 512, 4096, header::LENGTH] {
        let disk = log_of(0);
        let second = disk.bytes("log1");
        second.set_len(0).unwrap();
        second.set_len(length).unwrap();
        assert!(Wal::open(files(&disk), 1000, DamagePolicy::Refuse).unwrap().is_none());
        let wal = create(&disk, 1000).unwrap();
        assert_eq!(found(&wal), []);
    }
    let wal = open(&log_of(0), 1000).unwrap();
    assert_eq!((found(&wal), wal.end_lsn()), (vec![], FIRST));
    // A second creation was interrupted before it had written the first file.
    let disk = log_of(0);
    disk.bytes("log0").set_len(0).unwrap();
    assert!(Wal::open(files(&disk), 1000, DamagePolicy::Refuse).unwrap().is_none());
}

#[test]
fn files_of_other_programs_are_refused() {
    for foreign in [&b"dear diary"[..], &[7; 9000], &[7; 12 << 10]] {
        for name in NAMES {
            let disk = FaultyDisk::new(0);
            disk.bytes(name).append(foreign).unwrap();
            let error = refused(&disk).to_string();
            assert!(error.contains("header"), "{error}");
        }
    }
}

#[test]
fn a_log_without_one_of_its_files_is_refused() {
    for (records, name) in [(3, "log1"), (40, "log0"), (40, "log1")] {
        let disk = log_of(records);
        disk.bytes(name).set_len(0).unwrap();
        let error = refused(&disk).to_string();
        assert!(error.contains("one of its two files"), "{error}");
    }
}

#[test]
fn files_of_different_logs_are_refused() {
    let disk = log_of(3);
    let mut identity = IDENTITY;
    identity.number += 1;
    let header = LogHeader { identity, turn: 0, start: FIRST };
    disk.bytes("log1").write_at(0, &header.block()).unwrap();
    let error = refused(&disk).to_string();
    assert!(error.contains("different databases"), "{error}");

    // An old copy of one of the files.
    let old = log_of(15).bytes("log1").read_all().unwrap();
    let disk = log_of(60);
    disk.bytes("log1").write_at(0, &old).unwrap();
    assert!(matches!(refused(&disk), DatabaseError::LogDamaged { .. }));
}

#[test]
fn a_newer_format_is_reported_and_not_changed() {
    let disk = log_of(3);
    let mut header = [0; header::BYTES];
    disk.bytes("log0").read_at(0, &mut header).unwrap();
    header[8] = 9;
    header::seal(&mut header);
    disk.bytes("log0").write_at(0, &header).unwrap();
    let error = refused(&disk);
    assert!(matches!(error, DatabaseError::Newer { found: 9, supported: 1, .. }));
    assert!(error.to_string().contains("take a newer ebbpool"), "{error}");
}

#[test]
fn a_header_with_an_impossible_position_is_refused() {
    let disk = log_of(3);
    let far = LogHeader { identity: IDENTITY, turn: u64::MAX, start: u64::MAX - 3 };
    disk.bytes("log0").write_at(0, &far.block()).unwrap();
    assert!(matches!(refused(&disk), DatabaseError::Log { .. }));
}

#[test]
fn the_pool_can_force_the_log() {
    let disk = FaultyDisk::new(0);
    let wal: Arc<dyn Log> = Arc::new(create(&disk, 1000).unwrap());
    wal.force(FIRST).unwrap();
    assert!(wal.force(FIRST + 1).is_err());
}
