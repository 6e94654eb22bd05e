mod appending;
mod crashes;
mod flips;
mod golden;
mod headers;
mod records;
mod threads;
mod witnesses;

use ebbpool::storage::FaultyDisk;

use super::*;

const IDENTITY: LogIdentity = LogIdentity { page_size: 4096, number: 0x1234_5678_9abc_def0 };

const NAMES: [&str; 2] = ["log0", "log1"];

/// A record in a log: where it begins and ends, and its transaction.
type Logged = (Position, Lsn, TxnId);

fn files(disk: &FaultyDisk) -> [Box<dyn LogFile>; 2] {
    NAMES.map(|name| Box::new(disk.bytes(name)) as Box<dyn LogFile>)
}

fn bytes(disk: &FaultyDisk) -> [Vec<u8>; 2] {
    NAMES.map(|name| disk.bytes(name).read_all().unwrap())
}

fn create(disk: &FaultyDisk, turn_bytes: u64) -> Result<Wal, DatabaseError> {
    Wal::create(files(disk), IDENTITY, turn_bytes)
}

fn open(disk: &FaultyDisk, turn_bytes: u64) -> Result<Wal, DatabaseError> {
    let (wal, identity) = Wal::open(files(disk), turn_bytes, DamagePolicy::Refuse)?.expect("a log");
    assert_eq!(identity, IDENTITY);
    Ok(wal)
}

fn update(txn: TxnId, key: &[u8]) -> Record<'_> {
    Record::Update { txn, previous: None, undo: Undo::Remove { key }, changes: Vec::new() }
}

fn commit(wal: &Wal, txn: TxnId) -> Record<'static> {
    Record::Commit { txn, durable: wal.durable_lsn(), frees: Vec::new() }
}

fn append(wal: &Wal, record: &Record<'_>) -> Result<Logged, DatabaseError> {
    let AppendedRecord { position, lsn } = wal.append(record)?;
    Ok((position, lsn, number(record)))
}

fn number(record: &Record<'_>) -> TxnId {
    match record {
        Record::Update { txn, .. } | Record::Commit { txn, .. } => *txn,
        other => panic!("{other:?} was never logged"),
    }
}

fn found(wal: &Wal) -> Vec<Logged> {
    let mut found = Vec::new();
    wal.scan(&mut |position, lsn, record| {
        found.push((position, lsn, number(record)));
        Ok(())
    })
    .expect("a log that can be read");
    found
}

/// The appended records that the log still has.
fn remaining(wal: &Wal, appended: &[Logged]) -> Vec<Logged> {
    let there = appended.iter().filter(|record| record.0 >= wal.begin());
    there.copied().collect()
}
