use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::change::{Change, Content};

/// Bytes that live as long as the tests.
fn bytes() -> impl Strategy<Value = &'static [u8]> {
    vec(any::<u8>(), 0..300).prop_map(|bytes| &*bytes.leak())
}

fn content() -> impl Strategy<Value = Content<'static>> {
    prop_oneof![
        (any::<u8>(), any::<u64>(), bytes()).prop_map(|(level, next, cells)| Content::Node { level, next, cells }),
        (any::<u64>(), bytes()).prop_map(|(next, bytes)| Content::Overflow { next, bytes }),
        Just(Content::Map),
        (any::<u32>(), any::<u64>()).prop_map(|(page_size, identity)| Content::Meta { page_size, identity }),
    ]
}

fn change() -> impl Strategy<Value = Change<'static>> {
    let slot = any::<u16>;
    let page = any::<u64>;
    prop_oneof![
        content().prop_map(Change::Format),
        (slot(), bytes()).prop_map(|(slot, cell)| Change::Insert { slot, cell }),
        (slot(), bytes()).prop_map(|(slot, cell)| Change::Replace { slot, cell }),
        slot().prop_map(|slot| Change::Remove { slot }),
        (slot(), page()).prop_map(|(count, next)| Change::Truncate { count, next }),
        (bytes(), page()).prop_map(|(cells, next)| Change::Append { cells, next }),
        (page(), any::<u32>(), any::<bool>()).prop_map(|(first, count, used)| Change::Mark { first, count, used }),
    ]
}

fn undo() -> impl Strategy<Value = Undo<'static>> {
    prop_oneof![
        bytes().prop_map(|key| Undo::Remove { key }),
        bytes().prop_map(|cell| Undo::Restore { cell }),
        (any::<u64>(), any::<u32>()).prop_map(|(first, count)| Undo::Free { first, count }),
        Just(Undo::Empty),
    ]
}

fn record() -> impl Strategy<Value = Record<'static>> {
    let txn = any::<u64>;
    let position = any::<Option<u64>>;
    let changes = || vec((any::<u64>(), change()), 0..4);
    prop_oneof![
        (txn(), position(), undo(), changes())
            .prop_map(|(txn, previous, undo, changes)| { Record::Update { txn, previous, undo, changes } }),
        changes().prop_map(|changes| Record::Structure { changes }),
        (txn(), position(), changes())
            .prop_map(|(txn, undo_next, changes)| { Record::Compensation { txn, undo_next, changes } }),
        (txn(), any::<u64>(), vec(any::<u64>(), 0..20))
            .prop_map(|(txn, durable, frees)| { Record::Commit { txn, durable, frees } }),
        (txn(), any::<u32>(), changes()).prop_map(|(txn, done, changes)| Record::Freed { txn, done, changes }),
        txn().prop_map(|txn| Record::End { txn }),
        any::<u64>().prop_map(|redo_from| Record::Checkpoint { redo_from }),
    ]
}

/// The record that a frame holds, if it is one at this position.
fn read(frame: &[u8], position: Position, seed: u64) -> Option<Record<'_>> {
    let length = frame::length(frame, position, frame.len() as u64)?;
    let body = frame::body(&frame[..length], seed)?;
    frame::decode(body, position).ok()
}

proptest! {
    #[test]
    fn records_read_as_they_were_logged(
        records in vec(record(), 1..10),
        position in 0..u64::MAX / 2,
        seed: u64,
    ) {
        let mut bytes = Vec::new();
        let mut offsets = Vec::new();
        for record in &records {
            let at = bytes.len();
            let length = frame::append(record, position + at as u64, seed, &mut bytes).unwrap();
            prop_assert_eq!(at + length, bytes.len());
            offsets.push(at);
        }
        for (record, at) in records.iter().zip(offsets) {
            let (frame, position) = (&bytes[at..], position + at as u64);
            let back = read(frame, position, seed);
            prop_assert_eq!(back.as_ref(), Some(record));
            prop_assert_eq!(read(frame, position + 1, seed), None);
            prop_assert_eq!(read(frame, position, seed + 1), None);
        }
    }

    #[test]
    fn a_log_returns_any_record(records in vec(record(), 1..20), turn_bytes in 0..2000_u64) {
        let disk = FaultyDisk::new(0);
        let wal = create(&disk, turn_bytes).unwrap();
        for record in &records {
            let AppendedRecord { position, .. } = wal.append(record).unwrap();
            let mut buffer = Vec::new();
            prop_assert_eq!(&wal.read(position, &mut buffer).unwrap(), record);
            wal.truncate(FIRST).unwrap();
            prop_assert_eq!(&wal.read(position, &mut buffer).unwrap(), record);
        }
        wal.write().unwrap();
        drop(wal);
        let mut expected = records.iter();
        let each = &mut |_, _, record: &Record<'_>| {
            assert_eq!(Some(record), expected.next());
            Ok(())
        };
        open(&disk, turn_bytes).unwrap().scan(each).unwrap();
        prop_assert_eq!(expected.next(), None);
    }

    #[test]
    fn arbitrary_bytes_are_a_record_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(record) = frame::decode(&bytes, 0) {
            let mut again = Vec::new();
            frame::append(&record, 64, 1, &mut again).unwrap();
            prop_assert_eq!(read(&again, 64, 1), Some(record));
        }
    }

    #[test]
    fn mutated_records_are_records_or_errors(
        record in record(),
        flips in vec((any::<prop::sample::Index>(), 0..8), 1..4),
        cut: prop::sample::Index,
        cuts: bool,
    ) {
        let mut bytes = Vec::new();
        frame::append(&record, 64, 1, &mut bytes).unwrap();
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        // Flips may cancel each other.
        if let Some(read) = read(&bytes, 64, 1) {
            prop_assert_eq!(&read, &record);
        }
        let _ = frame::decode(bytes.get(frame::HEAD..).unwrap_or_default(), 64);
    }
}
