//! Operations on damaged pages end, and return errors.

use std::ops::{Bound, ControlFlow};
use std::time::Duration;

use ebbpool::storage::Storage;
use proptest::prelude::*;

use super::fixture::{Fixture, TransactionLogger, get, put};
use crate::change::{Change, Content};
use crate::error::DatabaseError;
use crate::page::ROOT;
use crate::page::cell::{Value, write_inner_cell};
use crate::tree::Tree;

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn small_tree(page_size: usize, records: u32) -> Fixture {
    let mut fixture = Fixture::with(page_size, 64, |options| options.patience(Duration::from_millis(2)));
    for number in 0..records {
        let length = if number % 40 == 7 { 1500 } else { 20 };
        fixture.put(&key(number * 3), &vec![number as u8; length]).unwrap();
    }
    fixture
}

fn format(tree: &Tree, page: u64, level: u8, next: u64, cells: &[u8]) {
    let mut guard = tree.pool.fix_write(page).unwrap();
    let content = Content::Node { level, next, cells };
    Change::Format(content).apply(page, &mut guard).unwrap();
}

/// Runs all operations of a tree, and returns their errors.
fn use_everything(tree: &Tree, number: u32) -> Vec<DatabaseError> {
    let logger = &mut TransactionLogger::default();
    let key = &key(number)[..];
    let mut left = 20_000;
    let mut each = |_: &[u8], value: Value<'_>| {
        left -= 1;
        tree.read_value(value)?;
        Ok(match left {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
    };
    let mut outcomes = vec![
        tree.ascend(Bound::Included(key), &mut each),
        tree.ascend(Bound::Unbounded, &mut each),
        tree.descend(Bound::Excluded(key), &mut each),
        tree.descend(Bound::Unbounded, &mut each),
    ];
    assert!(left > 0, "it does not end");
    let update = &mut |_: &[u8], value: Value<'_>| {
        Ok(ControlFlow::Continue(match value {
            Value::Inline(bytes) => Some(bytes.to_vec()),
            Value::Overflow { .. } => None,
        }))
    };
    outcomes.push(get(tree, key).map(drop));
    outcomes.push(tree.update_leaf(key, update, logger).map(drop));
    outcomes.push(put(tree, key, &[1; 60], logger).map(drop));
    outcomes.push(put(tree, key, &[1; 1000], logger).map(drop));
    outcomes.push(tree.remove(key, logger).map(drop));
    outcomes.push(tree.remove(&[key, b"x"].concat(), logger).map(drop));
    outcomes.into_iter().filter_map(Result::err).collect()
}

#[test]
fn circles_are_detected() {
    // Leaf to leaf.
    let fixture = small_tree(512, 400);
    let tree = &fixture.tree;
    let leaves: Vec<u64> = fixture.verify().leaves.iter().map(|leaf| leaf.0).collect();
    for length in [1, 2, 3, leaves.len() - 1] {
        let mut guard = tree.pool.fix_write(leaves[length]).unwrap();
        let before = guard[8..16].to_vec();
        guard[8..16].copy_from_slice(&leaves[0].to_le_bytes());
        drop(guard);
        let mut steps = 0;
        let each = &mut |_: &[u8], _: Value<'_>| {
            steps += 1;
            Ok(ControlFlow::Continue(()))
        };
        let found = tree.ascend(Bound::Unbounded, each);
        assert!(matches!(found, Err(DatabaseError::Corrupt { .. })), "{found:?}");
        assert!(steps < 5000, "{steps}");
        tree.pool.fix_write(leaves[length]).unwrap()[8..16].copy_from_slice(&before);
    }
    // From an inner node to itself, to the root, and to one of its own level.
    let inner: Vec<u64> = fixture.verify().inner.iter().map(|node| node.0).collect();
    for child in [inner[1], ROOT, inner[2], leaves[0]] {
        let fixture = small_tree(512, 400);
        let mut cells = Vec::new();
        write_inner_cell(b"", child, &mut cells);
        write_inner_cell(&[0], child, &mut cells);
        let level = if child == leaves[0] { 2 } else { 1 };
        format(&fixture.tree, inner[1], level, 0, &cells);
        let errors = use_everything(&fixture.tree, 3);
        let corrupt = errors.iter().filter(|error| matches!(error, DatabaseError::Corrupt { .. }));
        assert_eq!(corrupt.count(), errors.len(), "{errors:?}");
        assert!(errors.len() >= 6, "{errors:?}");
    }
    // From a part of a value to the one before it.
    let long = tree.look_up(&key(21), |value| {
        Ok(match value {
            Some(Value::Overflow { first, .. }) => first,
            _ => panic!("{value:?}"),
        })
    });
    let pages = tree.overflow_pages(long.unwrap()).unwrap();
    assert_eq!(pages.len(), 4);
    tree.pool.fix_write(pages[2]).unwrap()[8..16].copy_from_slice(&pages[1].to_le_bytes());
    let value = Value::Overflow { first: pages[0], length: 1500 };
    assert!(matches!(tree.read_value(value), Err(DatabaseError::Corrupt { .. })));
    assert!(matches!(tree.overflow_pages(pages[0]), Err(DatabaseError::Corrupt { .. })));
}

#[test]
fn a_child_beyond_the_end_creates_no_page() {
    let fixture = small_tree(512, 10);
    let pages = fixture.tree.pool.pages();
    for child in [0, 1, ROOT, pages + 1000, u64::MAX] {
        let mut cells = Vec::new();
        write_inner_cell(b"", child, &mut cells);
        format(&fixture.tree, ROOT, 1, 0, &cells);
        let errors = use_everything(&fixture.tree, 3);
        assert_eq!(errors.len(), 10, "{errors:?}");
        assert!(errors.iter().all(|error| matches!(error, DatabaseError::Corrupt { page: ROOT, .. })));
    }
    fixture.tree.pool.checkpoint().unwrap();
    let length = fixture.disk.pages("data", 512).pages().unwrap();
    assert!(length < pages + 100, "{length}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn operations_on_arbitrary_pages_end_without_a_panic(
        damage in prop::collection::vec((any::<u16>(), any::<u16>(), any::<u8>()), 1..12),
        wholly in 0..4u8,
        number in 0..1200u32,
    ) {
        let fixture = small_tree(512, 400);
        let pages = fixture.tree.pool.pages();
        for (page, byte, new) in damage {
            let page = ROOT + u64::from(page) % (pages - ROOT);
            let mut guard = fixture.tree.pool.fix_write(page).unwrap();
            let length = guard.len();
            // Most damage is in the header and the first slots.
            let byte = match wholly {
                0 => usize::from(byte) % length,
                _ => usize::from(byte) % 48,
            };
            guard[byte] = new;
        }
        for number in [number, number / 2, 0] {
            for error in use_everything(&fixture.tree, number) {
                let expected = matches!(
                    error,
                    DatabaseError::Corrupt { .. } | DatabaseError::Pool(_) | DatabaseError::ValueTooLong { .. } | DatabaseError::KeyTooLong { .. }
                );
                prop_assert!(expected, "{error}");
            }
        }
    }
}
