//! Logs that lost their end in various ways.

use ebbpool::storage::FaultyDisk;

use super::*;

const TURN: u64 = 1200;

/// A log with both files in use and all records durable, closed as a database closes it.
fn closed(records: u64) -> (FaultyDisk, Vec<Logged>) {
    let disk = FaultyDisk::new(0);
    let wal = create(&disk, TURN).unwrap();
    let mut appended = Vec::new();
    for txn in 1..=records {
        appended.push(append(&wal, &update(txn, &[txn as u8; 200])).unwrap());
        wal.truncate(wal.end_lsn()).unwrap();
    }
    wal.sync(wal.end_lsn()).unwrap();
    wal.witness_in_both().unwrap();
    let there = remaining(&wal, &appended);
    (disk, there)
}

/// Replaces the content of a file, as another program might.
fn replace(disk: &FaultyDisk, name: &str, bytes: &[u8]) {
    let file = disk.bytes(name);
    file.set_len(0).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
}

fn salvaged(disk: &FaultyDisk) -> Wal {
    let opened = Wal::open(files(disk), TURN, DamagePolicy::Salvage).unwrap();
    opened.expect("a log").0
}

/// Checks that opening the log fails and changes nothing, and that a salvaged log has consecutive records
/// of the old ones and reports what is missing.
fn is_refused(disk: &FaultyDisk, all: &[Logged]) {
    let before = bytes(disk);
    let end = all.last().expect("records").1;
    match open(disk, TURN).map(drop) {
        Err(DatabaseError::LogCut { end: at, durable }) => assert!(at < durable && durable == end),
        Err(DatabaseError::LogDamaged { position, durable }) => assert!(position < durable),
        Err(DatabaseError::Log { source, .. }) => {
            assert_eq!(source.kind(), io::ErrorKind::InvalidData)
        }
        outcome => panic!("{outcome:?}"),
    }
    assert_eq!(bytes(disk), before);
    let wal = salvaged(&disk.fork(0));
    let lost = wal.lost().expect("something is missing");
    assert_eq!(lost.end, wal.end_lsn());
    let found = found(&wal);
    assert!(all.windows(found.len().max(1)).any(|it| it == found) || found.is_empty());
}

#[test]
fn a_file_cut_anywhere_is_detected() {
    for records in [3, 27] {
        let (disk, all) = closed(records);
        let whole = bytes(&disk);
        let mut cuts = 0;
        for (name, whole) in NAMES.iter().zip(&whole) {
            let last = all.iter().rposition(|record| {
                let layout = *open(&disk.fork(0), TURN).unwrap().layout.read();
                NAMES[layout.locate(record.0).0] == *name
            });
            // A file may be longer than its part of the log.
            let needed = last.map_or(header::LENGTH, |at| {
                let layout = *open(&disk.fork(0), TURN).unwrap().layout.read();
                let (_, offset) = layout.locate(all[at].0);
                offset + (all[at].1 - all[at].0)
            });
            for length in (0..whole.len()).filter(|&length| (length as u64) < needed) {
                // Before the records, not every length is tried.
                if length < header::LENGTH as usize && length % 256 > 1 {
                    continue;
                }
                let disk = disk.fork(0);
                replace(&disk, name, &whole[..length]);
                if (length as u64) < header::LENGTH && open(&disk.fork(0), TURN).is_ok() {
                    // The file still has header and witness, and had no records.
                    assert!(last.is_none());
                    continue;
                }
                is_refused(&disk, &all);
                // Zeros in place of the missing bytes.
                let mut zeros = whole[..length].to_vec();
                zeros.resize(whole.len(), 0);
                // The last byte of a record is a zero anyway.
                if length as u64 >= header::LENGTH && length as u64 + 1 < needed {
                    replace(&disk, name, &zeros);
                    is_refused(&disk, &all);
                }
                cuts += 1;
            }
        }
        assert!(cuts > 200, "{cuts}");
    }
}

#[test]
fn the_witness_of_either_file_is_enough_and_a_log_without_any_opens() {
    let (disk, all) = closed(27);
    let layout = *open(&disk.fork(0), TURN).unwrap().layout.read();
    let (file, offset) = layout.locate(all[all.len() - 1].0);
    let without = |disk: &FaultyDisk, name: &str| {
        for place in witness::OFFSETS {
            let sector = [0; header::SECTOR as usize];
            disk.bytes(name).write_at(place, &sector).unwrap();
        }
    };
    for name in NAMES {
        let disk = disk.fork(0);
        without(&disk, name);
        assert_eq!(found(&open(&disk.fork(0), TURN).unwrap()), all);
        disk.bytes(NAMES[file]).set_len(offset + 30).unwrap();
        is_refused(&disk, &all);
    }
    let disk = disk.fork(0);
    NAMES.iter().for_each(|name| without(&disk, name));
    disk.bytes(NAMES[file]).set_len(offset + 30).unwrap();
    let wal = open(&disk, TURN).unwrap();
    assert_eq!(found(&wal), all[..all.len() - 1]);
    assert_eq!(wal.lost(), None);
}

#[test]
fn a_witness_of_another_database_is_ignored() {
    let (disk, _) = closed(27);
    let foreign = bytes(&disk);
    let disk = FaultyDisk::new(0);
    let mut identity = IDENTITY;
    identity.number += 1;
    Wal::create(files(&disk), identity, TURN).unwrap();
    for (name, foreign) in NAMES.iter().zip(foreign) {
        for place in witness::OFFSETS {
            let range = place as usize..place as usize + witness::BYTES;
            disk.bytes(name).write_at(place, &foreign[range]).unwrap();
        }
    }
    let opened = Wal::open(files(&disk), TURN, DamagePolicy::Refuse).unwrap();
    assert_eq!(opened.expect("a log").0.end_lsn(), FIRST);
}

#[test]
fn an_old_copy_of_one_file_is_detected() {
    let disk = FaultyDisk::new(0);
    let wal = create(&disk, TURN).unwrap();
    let mut all = Vec::new();
    let mut copies = Vec::new();
    for txn in 1..=30 {
        all.push(append(&wal, &update(txn, &[txn as u8; 200])).unwrap());
        wal.truncate(wal.end_lsn()).unwrap();
        wal.sync(wal.end_lsn()).unwrap();
        copies.push(bytes(&disk));
    }
    let all = remaining(&wal, &all);
    drop(wal);
    let mut refused = 0;
    for copy in &copies {
        for (file, name) in NAMES.iter().enumerate() {
            let disk = disk.fork(0);
            replace(&disk, name, &copy[file]);
            // The records that the copy lacks may not be needed, and it may still have records that are no
            // longer needed.
            match open(&disk.fork(0), TURN) {
                Ok(wal) => assert!(found(&wal).ends_with(&all)),
                Err(_) => {
                    assert!(salvaged(&disk).lost().is_some());
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 25, "{refused}");
}

#[test]
fn without_its_witness_nothing_is_durable_until_it_is_written() {
    use ebbpool::storage::{DiskOperation, EIO, Fault};

    let disk = FaultyDisk::new(0);
    let wal = create(&disk, TURN).unwrap();
    append(&wal, &update(1, b"key")).unwrap();
    disk.inject(Fault::failing(DiskOperation::Write, EIO).in_file("log1").forever());
    assert!(matches!(wal.sync(wal.end_lsn()), Err(DatabaseError::Log { .. })));
    assert_eq!(wal.durable_lsn(), FIRST);
    append(&wal, &update(2, b"key")).unwrap();
    disk.heal();
    wal.sync(wal.end_lsn()).unwrap();
    assert_eq!(wal.durable_lsn(), wal.end_lsn());
}
