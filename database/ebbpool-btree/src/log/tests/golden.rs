//! A golden log: the two files as the first release writes them, in `tests/golden/`, with a record of each
//! kind.
//!
//! Every later release has to read them, so a file in that directory never changes after its release. After
//! a deliberate change of the format, the new format has a new number and golden files of its own, under
//! new names, which this command writes:
//!
//! ```text
//! cargo test -p ebbpool-btree --lib golden -- --ignored
//! ```
//!
//! It writes the files that do not exist. `docs/formats.md` draws the format.

use std::fs;
use std::path::{Path, PathBuf};

use ebbpool::storage::FaultyDisk;

use super::super::header::{BLOCK, LENGTH};
use super::super::witness::Witness;
use super::*;
use crate::change::{Change, Content};
use crate::page::cell::{Value, write_inner_cell, write_leaf_cell};

/// The names of the files in `tests/golden/`.
const GOLDEN: [&str; 2] = ["log-1.log0", "log-1.log1"];

/// The log continues in the other file as soon as no earlier record is needed.
const TURN: u64 = 64;

type WholeRecord = (Position, Lsn, Record<'static>);

fn leaf(key: &str, value: Value<'_>) -> &'static [u8] {
    let mut cell = Vec::new();
    write_leaf_cell(key.as_bytes(), value, &mut cell);
    cell.leak()
}

fn inner(key: &str, child: u64) -> &'static [u8] {
    let mut cell = Vec::new();
    write_inner_cell(key.as_bytes(), child, &mut cell);
    cell.leak()
}

/// A change of each kind.
fn changes() -> Vec<(u64, Change<'static>)> {
    let (page_size, identity) = (IDENTITY.page_size, IDENTITY.number);
    let long = Value::Overflow { first: 3, length: 5000 };
    let node = |level, next, cells| Content::Node { level, next, cells };
    let overflow = Content::Overflow { next: 4, bytes: b"part of a long value" };
    let mark = |first, count, used| Change::Mark { first, count, used };
    vec![
        (0, Change::Format(Content::Meta { page_size, identity })),
        (1, Change::Format(Content::Map)),
        (1, mark(3, 2, true)),
        (1, mark(300, 1, false)),
        (2, Change::Format(node(1, 0, inner("", 5)))),
        (3, Change::Format(overflow)),
        (5, Change::Format(node(0, 6, leaf("fig", Value::Inline(b"blue"))))),
        (5, Change::Insert { slot: 0, cell: leaf("apple", Value::Inline(b"red")) }),
        (5, Change::Replace { slot: 1, cell: leaf("fig", long) }),
        (5, Change::Remove { slot: 0 }),
        (5, Change::Truncate { count: 1, next: 0 }),
        (5, Change::Append { cells: leaf("kiwi", Value::Inline(b"")), next: 7 }),
    ]
}

/// Writes a log with a record of each kind: all but the last two are in the first file.
fn write_log(disk: &FaultyDisk) -> Result<Vec<WholeRecord>, DatabaseError> {
    let wal = create(disk, TURN)?;
    let mut written: Vec<WholeRecord> = Vec::new();
    let mut append = |record: Record<'static>| -> Result<Position, DatabaseError> {
        let AppendedRecord { position, lsn } = wal.append(&record)?;
        written.push((position, lsn, record));
        Ok(position)
    };
    append(Record::Structure { changes: changes() })?;
    let mut previous = None;
    for undo in [
        Undo::Remove { key: b"apple" },
        Undo::Restore { cell: leaf("fig", Value::Inline(b"blue")) },
        Undo::Free { first: 3, count: 2 },
        Undo::Empty,
    ] {
        let changes = Vec::new();
        let update = Record::Update { txn: 1, previous, undo, changes };
        previous = Some(append(update)?);
    }
    let changes = vec![(5, Change::Remove { slot: 0 })];
    append(Record::Compensation { txn: 2, undo_next: previous, changes })?;
    append(Record::Compensation { txn: 2, undo_next: None, changes: Vec::new() })?;
    wal.sync(wal.end_lsn())?;
    let durable = wal.durable_lsn();
    append(Record::Commit { txn: 1, durable, frees: vec![3, 4, 300] })?;
    wal.sync(wal.end_lsn())?;
    append(Record::Checkpoint { redo_from: durable })?;
    wal.truncate(durable)?;
    append(Record::Freed { txn: 1, done: 3, changes: changes_of_maps() })?;
    append(Record::End { txn: 2 })?;
    wal.sync(wal.end_lsn())?;
    Ok(written)
}

fn changes_of_maps() -> Vec<(u64, Change<'static>)> {
    let mut changes = changes();
    changes.retain(|(_, change)| matches!(change, Change::Mark { .. }));
    changes
}

fn path(name: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(name)
}

fn golden() -> [Vec<u8>; 2] {
    GOLDEN.map(|name| fs::read(path(name)).unwrap_or_else(|error| panic!("tests/golden/{name}: {error}")))
}

#[test]
fn a_log_of_the_first_release_is_read() {
    let expected = write_log(&FaultyDisk::new(0)).expect("a log");
    let [first, second] = golden();
    let disk = FaultyDisk::new(0);
    for (name, bytes) in NAMES.iter().zip([&first, &second]) {
        disk.bytes(name).append(bytes).expect("a copy");
    }
    let headers = files(&disk).map(|file| LogHeader::find(&*file).expect("it is read"));
    let turn_over = expected[expected.len() - 3].1;
    let header = |turn, start| Some(LogHeader { identity: IDENTITY, turn, start });
    assert_eq!(headers, [header(1, FIRST), header(2, turn_over)]);
    // The witness in the file that is not current says how far the other one is durable.
    let witnessed = files(&disk).map(|file| {
        let witness = Witness::find(&*file, IDENTITY.number);
        witness.expect("it is read").durable()
    });
    let end = expected[expected.len() - 1].1;
    assert_eq!(witnessed, [end, turn_over]);
    let wal = open(&disk, TURN).expect("it opens");
    let mut found = 0;
    wal.scan(&mut |position, lsn, record| {
        let (at, end, expected) = &expected[found];
        assert_eq!((position, lsn, record), (*at, *end, expected));
        found += 1;
        Ok(())
    })
    .expect("it is read");
    assert_eq!(found, expected.len());
}

#[test]
fn a_log_of_the_first_release_has_these_bytes() {
    let [first, second] = golden();
    let header = b"EBBPLOG\n\x01\0\0\0\0\x10\0\0\xf0\xde\xbc\x9a\x78\x56\x34\x12";
    for (bytes, turn) in [(&first, 1u64), (&second, 2)] {
        let place = (turn / 2 % 2 * BLOCK) as usize;
        assert_eq!(bytes[place..place + 24], header[..]);
        assert_eq!(bytes[place + 24..place + 32], turn.to_le_bytes());
    }
    // The last record: its checksum, where it begins, the length of its body, and the body.
    let end = second.len();
    let begins = write_log(&FaultyDisk::new(0)).expect("a log").pop().expect("records").0;
    assert_eq!(second[end - 14..end - 6], begins.to_le_bytes());
    assert_eq!(second[end - 6..], *b"\x02\0\0\0\x05\x02");
    assert!(first.len() as u64 > LENGTH);
}

#[test]
fn the_golden_log_equals_a_log_written_today() {
    let disk = FaultyDisk::new(0);
    write_log(&disk).expect("a log");
    assert!(
        bytes(&disk) == golden(),
        "tests/golden/log-1.* are not what is written today: if the format changed on purpose, give it a new number \
         and files of its own, and keep these to be read (src/log/tests/golden.rs says how)"
    );
}

#[test]
#[ignore = "writes the golden files that do not exist"]
fn write_golden_files() {
    let disk = FaultyDisk::new(0);
    write_log(&disk).expect("a log");
    for (name, bytes) in GOLDEN.iter().zip(bytes(&disk)) {
        if !path(name).exists() {
            fs::write(path(name), bytes).expect("the file is written");
        }
    }
}
