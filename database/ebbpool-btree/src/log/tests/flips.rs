//! Logs in which one bit is flipped, and logs that are cut.

use ebbpool::storage::FaultyDisk;

use super::*;

const TURN: u64 = 1200;

/// A log with both files in use, which were both overwritten once. No record says that its last records are
/// durable.
fn make(disk: &FaultyDisk) -> (Vec<Logged>, Position, Lsn) {
    let wal = create(disk, TURN).unwrap();
    let mut appended = Vec::new();
    for txn in 1..=27 {
        appended.push(append(&wal, &update(txn, &[txn as u8; 200])).unwrap());
        wal.truncate(wal.end_lsn()).unwrap();
    }
    wal.sync(wal.end_lsn()).unwrap();
    let durable = wal.durable_lsn();
    appended.push(append(&wal, &commit(&wal, 28)).unwrap());
    appended.push(append(&wal, &update(29, b"key")).unwrap());
    wal.write().unwrap();
    let turned = wal.layout.read().current_start();
    assert!(wal.begin() > FIRST && turned < durable);
    (remaining(&wal, &appended), turned, durable)
}

#[test]
fn a_flip_in_the_durable_part_is_damage_and_one_after_it_shortens_the_log() {
    let disk = FaultyDisk::new(0);
    let (all, turned, durable) = make(&disk);
    let layout = *open(&disk.fork(0), TURN).unwrap().layout.read();
    let (mut damaged, mut shortened, mut harmless) = (0, 0, 0);
    for (file, name) in NAMES.iter().enumerate() {
        for byte in 0..bytes(&disk)[file].len() as u64 {
            let disk = disk.fork(0);
            assert!(disk.flip(name, byte, byte as u8 % 8));
            let before = bytes(&disk);
            let opened = open(&disk, TURN);
            let Some(within) = byte.checked_sub(header::LENGTH) else {
                match opened {
                    Ok(wal) => assert_eq!(found(&wal), all),
                    Err(DatabaseError::LogDamaged { .. }) => assert_eq!(bytes(&disk), before),
                    Err(error) => panic!("byte {byte}: {error}"),
                }
                continue;
            };
            let flipped = layout.starts[file] + within;
            let hit = all.iter().find(|record| record.0 <= flipped && flipped < record.1);
            let hit = hit.filter(|_| file == layout.current || flipped < turned);
            match (hit, opened) {
                (None, Ok(wal)) => {
                    assert_eq!(found(&wal), all);
                    harmless += 1;
                }
                (Some(hit), Err(DatabaseError::LogDamaged { position, durable: up_to })) => {
                    assert!(hit.0 < durable);
                    assert_eq!(position, hit.0);
                    assert_eq!(up_to, if hit.0 < turned { turned } else { durable });
                    assert_eq!(bytes(&disk), before);
                    damaged += 1;
                }
                (Some(hit), Ok(wal)) => {
                    assert!(hit.0 >= durable);
                    assert_eq!(wal.end_lsn(), hit.0);
                    assert_eq!(found(&wal)[..], all[..all.iter().position(|r| r == hit).unwrap()]);
                    shortened += 1;
                }
                (hit, opened) => panic!("{hit:?} gave {:?}", opened.map(drop)),
            }
        }
    }
    for count in [damaged, shortened, harmless] {
        assert!(count > 50, "{:?}", (damaged, shortened, harmless));
    }
}

#[test]
fn a_file_cut_within_its_durable_part_is_damaged() {
    let disk = FaultyDisk::new(0);
    let (all, turned, durable) = make(&disk);
    let layout = *open(&disk.fork(0), TURN).unwrap().layout.read();
    for (position, _, _) in all {
        let disk = disk.fork(0);
        let (file, offset) = layout.locate(position);
        disk.bytes(NAMES[file]).set_len(offset + 9).unwrap();
        match open(&disk, TURN) {
            Err(DatabaseError::LogDamaged { .. }) => assert!(position < turned),
            Err(DatabaseError::LogCut { end, durable: up_to }) => {
                assert!(turned <= position && position < durable);
                assert_eq!((end, up_to), (position, durable));
            }
            outcome => {
                assert!(durable <= position);
                assert_eq!(outcome.unwrap().end_lsn(), position);
            }
        }
    }
    assert!(turned < durable);
}
