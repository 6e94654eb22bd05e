//! Compares pages with vectors under random changes, and reads pages with arbitrary bytes.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::page::PageKind;
use crate::page::cell::{
    Value, most_inline_cell, most_key_bytes, read_inner_cell, read_leaf_cell, write_inner_cell, write_leaf_cell,
};
use crate::page::node::{Node, SLOT};

const PAGE: u64 = 5;

/// A key, and a leaf's value or an inner node's child.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cell {
    Inline(Vec<u8>, Vec<u8>),
    Long(Vec<u8>, u64, u32),
    Child(Vec<u8>, u64),
}

impl Cell {
    fn key(&self) -> &[u8] {
        match self {
            Cell::Inline(key, _) | Cell::Long(key, ..) | Cell::Child(key, _) => key,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Cell::Inline(key, value) => write_leaf_cell(key, Value::Inline(value), &mut bytes),
            &Cell::Long(ref key, first, length) => {
                write_leaf_cell(key, Value::Overflow { first, length }, &mut bytes);
            }
            Cell::Child(key, child) => write_inner_cell(key, *child, &mut bytes),
        }
        bytes
    }
}

fn bytes_of(cells: &[Cell]) -> Vec<u8> {
    cells.iter().flat_map(Cell::bytes).collect()
}

/// The cells of a node, read with all of its accessors.
fn read(node: &Node<'_>) -> Vec<Cell> {
    let cell = |slot| {
        let key = node.key(slot).unwrap().to_vec();
        let cell = node.cell(slot).unwrap();
        match node.is_leaf() {
            true => {
                let value = node.value(slot).unwrap();
                assert_eq!(read_leaf_cell(cell).unwrap(), (&key[..], value, cell.len()));
                assert!(node.child(slot).is_err());
                match value {
                    Value::Inline(value) => Cell::Inline(key, value.to_vec()),
                    Value::Overflow { first, length } => Cell::Long(key, first, length),
                }
            }
            false => {
                let child = node.child(slot).unwrap();
                assert_eq!(read_inner_cell(cell).unwrap(), (&key[..], child, cell.len()));
                assert!(node.value(slot).is_err());
                Cell::Child(key, child)
            }
        }
    };
    (0..node.count()).map(cell).collect()
}

/// One step of a script, in sizes relative to the page's.
#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    at: Index,
    key: Index,
    value: Index,
    fill: u8,
}

prop_compose! {
    fn step()(
        kind in 0..12u8, at: Index, key: Index, value: Index, fill: u8
    ) -> Step {
        Step { kind, at, key, value, fill }
    }
}

/// One of 60 keys of a script, of all lengths.
fn key(index: Index, payload: usize) -> Vec<u8> {
    let number = index.index(60);
    let mut key = vec![b'a' + (number % 26) as u8];
    key.resize(1 + number % most_key_bytes(payload), number as u8);
    key.resize(key.len().max(2), number as u8);
    key
}

fn cell(level: u8, step: &Step, key: Vec<u8>, payload: usize) -> Cell {
    if level > 0 {
        return Cell::Child(key, u64::from(step.fill) << 40 | 1);
    }
    if step.fill.is_multiple_of(8) {
        return Cell::Long(key, step.value.index(1 << 30) as u64, 70_000);
    }
    let room = most_inline_cell(payload) - 6 - key.len();
    // Most values are short, so that a node has many.
    let most = if step.fill.is_multiple_of(3) { room } else { room.min(40) };
    let length = step.value.index(most + 1);
    Cell::Inline(key, vec![step.fill; length])
}

/// The change of a step, the cells after it, and the next leaf.
fn plan(step: &Step, level: u8, payload: usize, cells: &[Cell]) -> (Planned, Vec<Cell>, u64) {
    let mut after = cells.to_vec();
    // The first cell of an inner node does not change.
    let fixed = usize::from(level > 0);
    let next = u64::from(step.fill) * u64::from(level == 0);
    let cell = cell(level, step, key(step.key, payload), payload);
    match step.kind {
        0..=5 => {
            let found = after.binary_search_by(|other| other.key().cmp(cell.key()));
            match found {
                Ok(slot) => after[slot] = cell.clone(),
                Err(slot) => after.insert(slot, cell.clone()),
            }
            let planned = match found {
                Ok(slot) => Planned::Replace(slot, cell.bytes()),
                Err(slot) => Planned::Insert(slot, cell.bytes()),
            };
            (planned, after, next)
        }
        6..=9 if after.len() > fixed => {
            let slot = fixed + step.at.index(after.len() - fixed);
            after.remove(slot);
            (Planned::Remove(slot), after, next)
        }
        10 => {
            let count = fixed + step.at.index(after.len() + 1 - fixed);
            after.truncate(count);
            (Planned::Truncate(count), after, next)
        }
        _ => {
            let last = after.last().map_or(vec![], |cell| cell.key().to_vec());
            let mut more: Vec<Cell> = Vec::new();
            for number in 1..=step.fill % 4 {
                let mut key = last.clone();
                key.truncate(most_key_bytes(payload) - 1);
                key.push(255);
                key.push(number);
                key.truncate(most_key_bytes(payload));
                let before = more.last().map_or(&last[..], |cell| cell.key());
                if before < &key[..] {
                    more.push(self::cell(level, step, key, payload));
                }
            }
            after.extend(more.iter().cloned());
            (Planned::Append(bytes_of(&more)), after, next)
        }
    }
}

enum Planned {
    Insert(usize, Vec<u8>),
    Replace(usize, Vec<u8>),
    Remove(usize),
    Truncate(usize),
    Append(Vec<u8>),
}

impl Planned {
    fn change(&self, next: u64) -> Change<'_> {
        match self {
            Planned::Insert(slot, cell) => Change::Insert { slot: *slot as u16, cell },
            Planned::Replace(slot, cell) => Change::Replace { slot: *slot as u16, cell },
            Planned::Remove(slot) => Change::Remove { slot: *slot as u16 },
            Planned::Truncate(count) => Change::Truncate { count: *count as u16, next },
            Planned::Append(cells) => Change::Append { cells, next },
        }
    }

    fn sets_next(&self) -> bool {
        matches!(self, Planned::Truncate(_) | Planned::Append(_))
    }
}

fn payload_sizes() -> impl Strategy<Value = usize> {
    (9..=15u32).prop_map(|bits| (1 << bits) - ebbpool::HEADER_BYTES)
}

fn first_cells(level: u8) -> Vec<Cell> {
    match level {
        0 => vec![],
        _ => vec![Cell::Child(vec![], 77)],
    }
}

fn format(level: u8, next: u64, cells: &[Cell], payload: &mut [u8]) -> Result<(), DatabaseError> {
    let cells = bytes_of(cells);
    let content = Content::Node { level, next, cells: &cells };
    Change::Format(content).apply(PAGE, payload)
}

/// Calls all functions that read a page.
fn read_anything(payload: &[u8]) {
    let maps = AllocationMaps::new(payload.len());
    for page in [0, 1, PAGE, maps.span + 1, u64::MAX] {
        let _ = maps.used(page, payload);
        let _ = maps.is_used(page, payload, 3);
    }
    let _ = MetaPage::read(payload);
    let _ = OverflowPart::read(PAGE, payload);
    let Ok(node) = Node::open(PAGE, payload) else {
        return;
    };
    let _ = (node.next(), node.verify(), node.cells(0..node.count()));
    assert_eq!(node.used() + node.free(), Node::capacity(payload.len()));
    for slot in [0, 1, node.count().wrapping_sub(1), node.count(), usize::MAX] {
        let _ = (node.key(slot), node.value(slot), node.child(slot), node.cell(slot));
    }
    for key in [&b""[..], b"m", &[255; 300]] {
        let _ = (node.search(key), node.slot_for(key));
    }
}

fn any_change(planned: &Planned, step: &Step) -> Vec<u8> {
    // As the log stores it: a change must read as it was written.
    let change = planned.change(step.fill.into());
    postcard::to_allocvec(&change).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn changes_of_a_page_equal_changes_of_a_vector(
        length in payload_sizes(),
        level in 0..3u8,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut cells = first_cells(level);
        let mut payload = vec![0xee; length];
        let mut next = 0;
        format(level, next, &cells, &mut payload).unwrap();
        let mut redone = vec![0; length];
        format(level, next, &cells, &mut redone).unwrap();
        prop_assert_eq!(&payload, &redone);
        for step in &steps {
            let (planned, after, new_next) = plan(step, level, length, &cells);
            let fits = bytes_of(&after).len() + after.len() * SLOT <= Node::capacity(length);
            let before = payload.clone();
            let logged = any_change(&planned, &Step { fill: new_next as u8, ..step.clone() });
            let change: Change<'_> = postcard::from_bytes(&logged).unwrap();
            prop_assert_eq!(&change, &planned.change(new_next));
            let free = Node::open(PAGE, &payload).unwrap().free();
            match planned.change(new_next).apply(PAGE, &mut payload) {
                Ok(()) => {
                    prop_assert!(fits);
                    cells = after;
                    if planned.sets_next() {
                        next = new_next;
                    }
                    change.apply(PAGE, &mut redone).unwrap();
                }
                Err(_) => prop_assert!(!fits && before == payload, "{free} were free"),
            }
            prop_assert_eq!(&payload, &redone);
            let node = Node::open(PAGE, &payload).unwrap();
            node.verify().unwrap();
            prop_assert_eq!(read(&node), &cells[..]);
            prop_assert_eq!(node.level(), level);
            prop_assert_eq!(node.next().unwrap_or(0), next);
            prop_assert_eq!(node.used(), bytes_of(&cells).len() + cells.len() * SLOT);
            prop_assert_eq!(node.cells(0..cells.len()).unwrap(), bytes_of(&cells));
            let requested = key(step.key, length);
            let expected = cells.binary_search_by(|cell| cell.key().cmp(&requested));
            prop_assert_eq!(node.search(&requested).unwrap(), expected);
            if level > 0 {
                let slot = node.slot_for(&requested).unwrap();
                prop_assert!(cells[slot].key() <= &requested[..]);
                prop_assert!(cells.get(slot + 1).is_none_or(|cell| cell.key() > &requested[..]));
            }
        }
        let mut anew = vec![1; length];
        format(level, next, &cells, &mut anew).unwrap();
        prop_assert_eq!(read(&Node::open(PAGE, &anew).unwrap()), cells);
    }

    #[test]
    fn arbitrary_pages_cause_no_panic(
        mut payload in prop::collection::vec(any::<u8>(), 0..600),
        kind in 0..6u8,
        steps in prop::collection::vec(step(), 1..10),
    ) {
        if let Some(first) = payload.first_mut() {
            *first = kind;
        }
        if payload.len() > 8 && kind == PageKind::Node as u8 {
            // A header that is possible, at least.
            let heap = payload.len() / 2;
            payload[2..4].copy_from_slice(&((heap / 4) as u16).to_le_bytes());
            payload[4..6].copy_from_slice(&(heap as u16).to_le_bytes());
            payload[7] = 0;
        }
        change_anything(payload, &steps)?;
    }

    #[test]
    fn damaged_pages_cause_no_panic(
        level in 0..2u8,
        fill in prop::collection::vec(step(), 20..80),
        damage in prop::collection::vec((any::<Index>(), 0..64usize, any::<u8>()), 1..4),
        steps in prop::collection::vec(step(), 1..20),
    ) {
        let length = 480;
        let mut payload = vec![0; length];
        let mut cells = first_cells(level);
        format(level, 0, &cells, &mut payload).unwrap();
        for step in &fill {
            let (planned, after, next) = plan(step, level, length, &cells);
            if planned.change(next).apply(PAGE, &mut payload).is_ok() {
                cells = after;
            }
        }
        for (anywhere, at, xor) in damage {
            // Half of the damage is in the header and the slots.
            let at = if xor % 2 == 0 { anywhere.index(length) } else { at };
            payload[at] ^= xor;
        }
        change_anything(payload, &steps)?;
    }

    #[test]
    fn a_format_overwrites_the_whole_page(bytes: Vec<u8>, fill: u8) {
        let contents = [
            Content::Overflow { next: 3, bytes: &bytes },
            Content::Meta { page_size: 512, identity: 9 },
            Content::Map,
            Content::Node { level: 0, next: 4, cells: &[] },
        ];
        for content in contents {
            let page = if content == Content::Map { 1 } else { PAGE };
            let (mut zeros, mut other) = (vec![0; 480], vec![fill; 480]);
            let change = Change::Format(content);
            change.apply(page, &mut zeros).unwrap();
            change.apply(page, &mut other).unwrap();
            prop_assert_eq!(zeros, other);
        }
    }
}

/// Reads and changes a page with arbitrary content. A change that fails changes nothing.
fn change_anything(mut payload: Vec<u8>, steps: &[Step]) -> Result<(), TestCaseError> {
    for step in steps {
        read_anything(&payload);
        let cell = cell(step.fill % 2, step, key(step.key, 480), 480).bytes();
        let slot = step.at.index(80) as u16;
        let next = step.fill.into();
        let change = match step.kind {
            0..=2 => Change::Insert { slot, cell: &cell },
            3..=5 => Change::Replace { slot, cell: &cell },
            6..=7 => Change::Remove { slot },
            8 => Change::Truncate { count: slot, next },
            9 => Change::Append { cells: &cell, next },
            // Cells that are cut off.
            10 => Change::Append { cells: &cell[..step.value.index(cell.len())], next },
            _ => {
                Change::Mark { first: u64::from(step.fill).wrapping_sub(9), count: step.fill.into(), used: step.fill % 3 == 0 }
            }
        };
        let page = if step.fill % 2 == 0 { 1 } else { PAGE };
        let before = payload.clone();
        if change.apply(page, &mut payload).is_err() {
            prop_assert_eq!(before, payload.clone());
        }
    }
    read_anything(&payload);
    Ok(())
}

#[test]
fn changes_that_do_not_fit_change_nothing() {
    let mut payload = vec![0; 480];
    format(0, 0, &[], &mut payload).unwrap();
    let before = payload.clone();
    let cell = Cell::Inline(b"key".to_vec(), vec![1; 460]).bytes();
    let cell = &cell[..];
    let next = 0;
    for change in [
        Change::Insert { slot: 0, cell },
        Change::Insert { slot: 1, cell: &[] },
        Change::Insert { slot: 0, cell: &cell[..40] },
        Change::Replace { slot: 0, cell },
        Change::Remove { slot: 0 },
        Change::Truncate { count: 1, next },
        Change::Append { cells: cell, next },
        Change::Format(Content::Node { level: 0, next, cells: cell }),
        Change::Format(Content::Overflow { next, bytes: cell }),
        Change::Format(Content::Map),
        Change::Mark { first: 4, count: 1, used: true },
    ] {
        assert!(change.apply(PAGE, &mut payload).is_err(), "{change:?}");
        assert_eq!(payload, before);
    }
}

#[test]
fn marks_beyond_all_pages_are_refused() {
    let mut payload = vec![0; 480];
    Change::Format(Content::Map).apply(1, &mut payload).unwrap();
    let mark = Change::Mark { first: u64::MAX, count: 2, used: true };
    assert!(mark.apply(1, &mut payload).is_err());
}

#[test]
fn verify_finds_inconsistencies() {
    let cells = [Cell::Inline(b"a".to_vec(), vec![1; 20]), Cell::Inline(b"b".to_vec(), vec![2; 20])];
    let mut payload = vec![0; 480];
    format(0, 0, &cells, &mut payload).unwrap();
    let found = |change: &dyn Fn(&mut [u8])| {
        let mut payload = payload.clone();
        change(&mut payload);
        let node = Node::open(PAGE, &payload).unwrap();
        node.verify().unwrap_err().to_string()
    };
    // The slots begin at 16, and the cells, of 27 bytes each, at 426.
    assert!(found(&|payload| payload[6] = 1).contains("54 bytes of 54"));
    assert!(found(&|payload| payload.swap(16, 18)).contains("not greater"));
    assert!(found(&|payload| payload[18] = payload[16]).contains("overlap"));
    assert!(found(&|payload| payload[16] -= 1).contains("slot 0"));
    assert!(found(&|payload| payload[426] = 255).contains("slot 0"));
    format(1, 0, &[Cell::Child(vec![], 3)], &mut payload).unwrap();
    let found = |change: &dyn Fn(&mut [u8])| {
        let mut payload = payload.clone();
        change(&mut payload);
        Node::open(PAGE, &payload).and_then(|node| node.verify())
    };
    assert!(found(&|_| {}).is_ok());
    assert!(found(&|payload| payload[8] = 1).is_err());
    let childless = |payload: &mut [u8]| format(1, 0, &[], payload).unwrap();
    assert!(found(&childless).unwrap_err().to_string().contains("without children"));
    let named = |payload: &mut [u8]| {
        format(1, 0, &[Cell::Child(b"k".to_vec(), 3)], payload).unwrap();
    };
    assert!(found(&named).unwrap_err().to_string().contains("not empty"));
}
