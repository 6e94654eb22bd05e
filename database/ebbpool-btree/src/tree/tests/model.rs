//! Compares random scripts of changes with a `BTreeMap`.

use std::ops::Bound;

use proptest::prelude::*;

use super::fixture::{Fixture, TransactionLogger, down, get, put, up};
use super::walk::compare_with_log;

#[derive(Clone, Debug)]
enum Step {
    Put { key: u16, length: u16 },
    Remove { key: u16 },
    Get { key: u16 },
    Up { key: u16, included: bool },
    Down { key: u16, included: bool },
}

/// One of 400 keys of all lengths, many of them with long common prefixes.
fn key_of(number: u16, most: usize) -> Vec<u8> {
    let number = number % 400;
    let mut key = match number % 4 {
        0 => Vec::new(),
        1 => vec![b'a'; most - 2],
        2 => vec![b'a'; usize::from(number) % (most - 1)],
        _ => vec![number as u8],
    };
    match number {
        0 => {}
        _ => key.extend_from_slice(&number.to_be_bytes()),
    }
    key.truncate(most);
    key
}

/// A value: mostly short, sometimes the longest that a leaf takes, sometimes of several pages.
fn value_of(fixture: &Fixture, key: &[u8], length: u16) -> Vec<u8> {
    let inline = fixture.most_inline(key);
    let length = match length % 16 {
        0 => 0,
        1 => inline,
        2 => inline + 1,
        3 => usize::from(length) % (fixture.payload() * 4),
        4..8 => usize::from(length) % (inline + 1),
        _ => usize::from(length) % 24,
    };
    vec![length as u8 ^ 0x5a; length]
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => any::<(u16, u16)>().prop_map(|(key, length)| Step::Put { key, length }),
        6 => any::<u16>().prop_map(|key| Step::Remove { key }),
        2 => any::<u16>().prop_map(|key| Step::Get { key }),
        1 => any::<(u16, bool)>().prop_map(|(key, included)| Step::Up { key, included }),
        1 => any::<(u16, bool)>().prop_map(|(key, included)| Step::Down { key, included }),
    ];
    prop::collection::vec(step, 0..most)
}

fn bound(key: &[u8], included: bool) -> Bound<&[u8]> {
    match included {
        true => Bound::Included(key),
        false => Bound::Excluded(key),
    }
}

fn run(fixture: &mut Fixture, step: &Step) {
    let most = fixture.most_key_bytes();
    match *step {
        Step::Put { key, length } => {
            let key = key_of(key, most);
            let value = value_of(fixture, &key, length);
            fixture.put(&key, &value).unwrap();
        }
        Step::Remove { key } => fixture.remove(&key_of(key, most)).unwrap(),
        Step::Get { key } => {
            let key = key_of(key, most);
            let found = get(&fixture.tree, &key).unwrap();
            assert_eq!(found.as_ref(), fixture.model.get(&key));
        }
        Step::Up { key, included } => {
            let key = key_of(key, most);
            let from = bound(&key, included);
            let range = fixture.model.range::<[u8], _>((from, Bound::Unbounded));
            let expected: Vec<_> = range.map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_eq!(up(&fixture.tree, from), expected);
        }
        Step::Down { key, included } => {
            let key = key_of(key, most);
            let to = bound(&key, included);
            let range = fixture.model.range::<[u8], _>((Bound::Unbounded, to));
            let expected: Vec<_> = range.rev().map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_eq!(down(&fixture.tree, to), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_tree_has_the_records_of_a_map(bits in 9..=12u32, frames in 16..80u32, steps in steps(600)) {
        let mut fixture = Fixture::new(1 << bits, frames);
        for (number, step) in steps.iter().enumerate() {
            run(&mut fixture, step);
            if number % 100 == 99 {
                fixture.verify();
            }
        }
        fixture.verify();
        compare_with_log(&fixture.tree);
        let keys: Vec<_> = fixture.model.keys().cloned().collect();
        for key in keys {
            fixture.remove(&key).unwrap();
        }
        let left = fixture.verify();
        prop_assert_eq!(left.pages.len(), 1);
    }

    #[test]
    fn a_rollback_restores_the_tree(
        bits in 9..=11u32,
        before in steps(300),
        after in steps(200),
    ) {
        let mut fixture = Fixture::new(1 << bits, 32);
        for step in &before {
            run(&mut fixture, step);
        }
        let tree = &fixture.tree;
        let mut logger = TransactionLogger::default();
        let most = fixture.most_key_bytes();
        for step in &after {
            match *step {
                Step::Put { key, length } => {
                    let key = key_of(key, most);
                    put(tree, &key, &value_of(&fixture, &key, length), &mut logger).unwrap();
                }
                Step::Remove { key } => {
                    tree.remove(&key_of(key, most), &mut logger).unwrap();
                }
                _ => {}
            }
        }
        logger.roll_back(tree).unwrap();
        fixture.verify();
        compare_with_log(tree);
    }
}
