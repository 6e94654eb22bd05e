//! The structure of the tree after inserts and removals in order and at random.

use std::ops::ControlFlow;
use std::sync::Arc;

use ebbpool::Log;
use parking_lot::Mutex;

use super::fixture::{Fixture, TransactionLogger, get};
use super::walk::Walk;
use crate::error::DatabaseError;
use crate::page::ROOT;
use crate::page::cell::Value;
use crate::page::node::Node;

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn fill(fixture: &mut Fixture, numbers: &[u32]) -> Walk {
    for &number in numbers {
        fixture.put(&key(number), &[number as u8; 20]).unwrap();
    }
    fixture.verify()
}

fn empty(fixture: &mut Fixture, numbers: &[u32]) {
    for (done, &number) in numbers.iter().enumerate() {
        fixture.remove(&key(number)).unwrap();
        if done % 500 == 0 {
            fixture.verify();
        }
    }
    let left = fixture.verify();
    assert_eq!(left.height, 1);
    assert_eq!(left.pages.into_iter().collect::<Vec<_>>(), [ROOT]);
    // Freed pages are used again before the storage grows.
    let pages = fixture.tree.pool.pages();
    let taken = fixture.tree.pool.allocate().unwrap();
    assert_eq!(taken.page(), 3);
    assert_eq!(fixture.tree.pool.pages(), pages);
}

fn shares(walk: &Walk, capacity: usize) -> Vec<f64> {
    let share = |&(_, used, _): &(_, usize, _)| used as f64 / capacity as f64;
    walk.leaves.iter().map(share).collect()
}

fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut numbers);
    numbers
}

#[test]
fn ascending_keys_fill_their_leaves() {
    let mut fixture = Fixture::new(512, 64);
    let numbers: Vec<u32> = (0..3000).collect();
    let walk = fill(&mut fixture, &numbers);
    assert!(walk.height >= 3, "{}", walk.height);
    let capacity = Node::capacity(fixture.payload());
    let shares = shares(&walk, capacity);
    let (_, full) = shares.split_last().unwrap();
    let room_for_one = 1.0 - 32.0 / capacity as f64;
    assert!(full.iter().all(|&share| share > room_for_one), "{full:?}");
    // Inner nodes are full too, except those on the right edge.
    let lowest: Vec<_> = walk.inner.iter().filter(|(_, level, _)| *level == 1).collect();
    let most = lowest.iter().map(|(_, _, keys)| keys.len()).max().unwrap();
    let sparse = lowest.iter().filter(|(_, _, keys)| keys.len() < most - 2).count();
    assert!(sparse <= 1, "{sparse} of {}", lowest.len());
    empty(&mut fixture, &numbers);
}

#[test]
fn descending_and_random_keys_leave_leaves_half_full_at_least() {
    for (seed, page_size) in [(0, 512), (1, 1024), (2, 512), (3, 4096)] {
        let mut fixture = Fixture::new(page_size, 64);
        let numbers = match seed {
            0 => (0..3000).rev().collect(),
            _ => shuffled(3000, seed),
        };
        let walk = fill(&mut fixture, &numbers);
        let shares = shares(&walk, Node::capacity(fixture.payload()));
        assert!(shares.iter().all(|&share| share > 0.4), "{shares:?}");
        empty(&mut fixture, &shuffled(3000, seed + 10));
    }
}

#[test]
fn leaves_are_merged_in_any_order_of_removals() {
    for backwards in [false, true] {
        let mut fixture = Fixture::new(512, 64);
        fill(&mut fixture, &shuffled(3000, 7));
        let mut numbers: Vec<u32> = (0..3000).collect();
        if backwards {
            numbers.reverse();
        }
        empty(&mut fixture, &numbers);
    }
    // Seven of eight records are removed: the rest is in far fewer leaves.
    let mut fixture = Fixture::new(512, 64);
    let before = fill(&mut fixture, &shuffled(4000, 8)).leaves.len();
    for number in (0..4000).filter(|number| number % 8 != 0) {
        fixture.remove(&key(number)).unwrap();
    }
    let after = fixture.verify().leaves.len();
    assert!(after * 3 < before, "{after} of {before}");
}

#[test]
fn separators_are_as_short_as_possible() {
    let mut fixture = Fixture::new(1024, 64);
    let most = fixture.most_key_bytes();
    for number in shuffled(2000, 3) {
        // The keys differ in the first four bytes.
        let mut key = key(number * 7919);
        key.resize(most, b'x');
        fixture.put(&key, b"v").unwrap();
    }
    let walk = fixture.verify();
    let longest = walk.inner.iter().flat_map(|(_, _, keys)| keys).map(Vec::len).max();
    assert!(longest <= Some(4), "{longest:?}");
}

#[test]
fn a_value_of_the_same_length_is_replaced_by_one_small_record() {
    let mut fixture = Fixture::new(4096, 64);
    fill(&mut fixture, &shuffled(300, 1));
    let pages = fixture.tree.pool.pages();
    let before = fixture.tree.wal.end_lsn();
    fixture.put(&key(7), &[9; 20]).unwrap();
    let record = fixture.tree.wal.end_lsn() - before;
    // The record has the old cell, the new cell, and a frame.
    assert!(record < 2 * 30 + 50, "{record}");
    assert_eq!(fixture.tree.pool.pages(), pages);
    fixture.verify();
}

#[test]
fn values_are_replaced_in_full_leaves_and_shorter_ones_merge_leaves() {
    let mut fixture = Fixture::new(512, 64);
    let numbers: Vec<u32> = (0..2000).collect();
    for &number in &numbers {
        fixture.put(&key(number), &[2; 60]).unwrap();
    }
    let before = fixture.verify().leaves.len();
    for &number in &numbers {
        fixture.put(&key(number), &[3; 60]).unwrap();
    }
    assert_eq!(fixture.verify().leaves.len(), before);
    for &number in &numbers {
        fixture.put(&key(number), b"").unwrap();
    }
    let after = fixture.verify().leaves.len();
    assert!(after * 2 < before, "{after} of {before}");
}

#[test]
fn update_goes_from_leaf_to_leaf() {
    let mut fixture = Fixture::new(512, 64);
    fill(&mut fixture, &shuffled(1000, 4));
    let mut logger = TransactionLogger::default();
    let (mut from, mut seen, mut rounds) = (Some(key(100)), 0u32, 0);
    while let Some(begin) = from {
        rounds += 1;
        let update = &mut |found: &[u8], value: Value<'_>| {
            assert_eq!(found, key(100 + seen));
            let Value::Inline(value) = value else { panic!() };
            assert_eq!(value[0], (100 + seen) as u8);
            if seen == 600 {
                return Ok(ControlFlow::Break(()));
            }
            seen += 1;
            Ok(ControlFlow::Continue((seen % 2 == 0).then(|| vec![1; 20])))
        };
        let next = fixture.tree.update_leaf(&begin, update, &mut logger).unwrap();
        from = next.filter(|_| seen < 600);
    }
    assert!(rounds > 20, "{rounds}");
    for number in (100..700).filter(|number| number % 2 == 1) {
        fixture.model.insert(key(number), vec![1; 20]);
    }
    fixture.verify();
    // The last leaf has no next one.
    let each = &mut |_: &[u8], _: Value<'_>| Ok(ControlFlow::Continue(None));
    assert_eq!(fixture.tree.update_leaf(&key(999), each, &mut logger).unwrap(), None);
    // Another length is refused, and changes nothing.
    let each = &mut |_: &[u8], _: Value<'_>| Ok(ControlFlow::Continue(Some(vec![1; 19])));
    let refused = fixture.tree.update_leaf(&key(5), each, &mut logger);
    assert!(matches!(refused, Err(DatabaseError::ValueTooLong { length: 19, most: 20 })));
    assert_eq!(get(&fixture.tree, &key(5)).unwrap(), Some(vec![5; 20]));
    logger.roll_back(&fixture.tree).unwrap();
    for number in (100..700).filter(|number| number % 2 == 1) {
        fixture.model.insert(key(number), vec![number as u8; 20]);
    }
    fixture.verify();
}

#[test]
fn keys_and_values_that_are_too_long_are_refused() {
    let mut fixture = Fixture::new(512, 16);
    let most = fixture.most_key_bytes();
    let logger = &mut TransactionLogger::default();
    let long = vec![1; most + 1];
    let refused = fixture.tree.put(&long, Value::Inline(b""), logger);
    assert!(matches!(refused, Err(DatabaseError::KeyTooLong { length, most: m }) if length == most + 1 && m == most));
    let inline = fixture.most_inline(b"key");
    let refused = fixture.tree.put(b"key", Value::Inline(&vec![1; inline + 1]), logger);
    assert!(matches!(refused, Err(DatabaseError::ValueTooLong { most, .. }) if most == inline));
    assert!(fixture.tree.overflows(b"key", &vec![1; inline + 1]));
    assert!(!fixture.tree.overflows(b"key", &vec![1; inline]));
    fixture.put(b"key", &vec![1; inline]).unwrap();
    fixture.verify();
}

#[test]
fn a_node_is_fixed_once_on_the_way_down() {
    let fixes = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&fixes);
    let mut fixture = Fixture::with(512, 64, |options| options.on_fix(move |page, write| sink.lock().push((page, write))));
    let walk = fill(&mut fixture, &shuffled(3000, 4));
    let height = usize::from(walk.height);
    assert!(height >= 3);
    let expect = |fixture: &Fixture, write: bool| {
        // The pool reports fixes in batches.
        fixture.tree.pool.checkpoint().unwrap();
        let seen = std::mem::take(&mut *fixes.lock());
        assert_eq!(seen.len(), height, "{seen:?}");
        assert_eq!(seen[0], (ROOT, false));
        assert_eq!(seen.iter().filter(|fix| fix.1).count(), usize::from(write));
        assert_eq!(seen[height - 1].1, write);
    };
    fixes.lock().clear();
    get(&fixture.tree, &key(77)).unwrap();
    expect(&fixture, false);
    fixture.put(&key(77), &[8; 20]).unwrap();
    expect(&fixture, true);
    get(&fixture.tree, b"missing").unwrap();
    expect(&fixture, false);
}
