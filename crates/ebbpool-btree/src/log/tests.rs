use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use ebbpool::storage::{EIO, Fault, FaultyDisk, FaultyFile, Operation, PowerOff};
use parking_lot::Condvar;

use super::*;

const IDENTITY: Identity = Identity {
    page_size: 4096,
    number: 0x1234_5678_9abc_def0,
};

fn files(disk: &FaultyDisk) -> [Box<dyn LogFile>; 2] {
    ["log0", "log1"].map(|name| Box::new(disk.bytes(name)) as Box<dyn LogFile>)
}

fn create(disk: &FaultyDisk, turn_bytes: u64) -> Result<Wal, Error> {
    Wal::create(files(disk), IDENTITY, turn_bytes)
}

fn open(disk: &FaultyDisk, turn_bytes: u64) -> Result<Wal, Error> {
    let (wal, identity) = Wal::open(files(disk), turn_bytes)?.expect("a log");
    assert_eq!(identity, IDENTITY);
    Ok(wal)
}

fn update(txn: TxnId, key: &[u8]) -> Record<'_> {
    Record::Update {
        txn,
        previous: None,
        undo: Undo::Remove { key },
        changes: Vec::new(),
    }
}

/// Transaction numbers, with where the records begin and end.
fn found(wal: &Wal) -> Vec<(Position, Lsn, TxnId)> {
    let mut found = Vec::new();
    wal.scan(&mut |position, lsn, record| {
        found.push((position, lsn, number(record)));
        Ok(())
    })
    .expect("a log that can be read");
    found
}

fn number(record: &Record<'_>) -> TxnId {
    match record {
        Record::Update { txn, .. } | Record::Commit { txn, .. } => *txn,
        other => panic!("{other:?} was never logged"),
    }
}

#[test]
fn what_is_appended_is_read_from_memory_and_from_files_and_found_again() {
    let disk = FaultyDisk::new(0);
    let wal = create(&disk, 4000).unwrap();
    assert_eq!(
        (wal.begin(), wal.end_lsn(), wal.durable_lsn()),
        (64, 64, 64)
    );
    let key = vec![7; 9000];
    let mut appended = Vec::new();
    for txn in 1..=60 {
        let key = &key[..txn as usize * 37 % 5000 + txn as usize * 60];
        let Appended { position, lsn } = wal.append(&update(txn, key)).unwrap();
        appended.push((position, lsn, txn));
        match txn % 7 {
            0 => wal.sync(lsn).unwrap(),
            3 => wal.write().unwrap(),
            5 => wal.truncate(appended[appended.len() * 2 / 3].0).unwrap(),
            _ => {}
        }
        for &(position, _, txn) in appended.iter().filter(|record| record.0 >= wal.begin()) {
            let mut buffer = Vec::new();
            assert_eq!(number(&wal.read(position, &mut buffer).unwrap()), txn);
        }
    }
    assert!(wal.begin() > 64);
    assert_eq!(wal.end_lsn(), appended[59].1);
    wal.write().unwrap();
    appended.retain(|record| record.0 >= wal.begin());
    assert_eq!(found(&wal), appended);
    drop(wal);
    let wal = open(&disk, 4000).unwrap();
    assert_eq!(found(&wal), appended);
    assert_eq!(wal.durable_lsn(), wal.end_lsn());
    let next = wal.append(&update(61, b"key")).unwrap();
    assert_eq!(next.position, appended.last().unwrap().1);
}
