//! Several threads write while others scan.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::fixture::{Fixture, TransactionLogger, get, put};
use super::walk::compare_with_log;
use crate::page::cell::Value;
use crate::tree::{OldValue, Tree};

const WRITERS: u32 = 4;

/// Neighbouring keys belong to different writers.
fn key(writer: u32, number: u32) -> Vec<u8> {
    (number * WRITERS + writer).to_be_bytes().to_vec()
}

fn write(tree: &Tree, writer: u32, steps: u32) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(writer.into());
    let mut model = BTreeMap::new();
    for step in 0..steps {
        let key = key(writer, random.u32(..400));
        let logger = &mut TransactionLogger::default();
        // The tree grows, shrinks, and grows again.
        let grows = (step * 5 / steps).is_multiple_of(2);
        let old = match random.u8(..10) < if grows { 7 } else { 2 } {
            true => {
                let length = if random.u8(..20) == 0 { 600 } else { random.usize(..60) };
                let value = vec![random.u8(..); length];
                let old = put(tree, &key, &value, logger).unwrap();
                assert_eq!(old.is_some(), model.insert(key, value).is_some());
                old
            }
            false => {
                let old = tree.remove(&key, logger).unwrap();
                assert_eq!(old.is_some(), model.remove(&key).is_some());
                old
            }
        };
        if let Some(OldValue::Overflow { first }) = old {
            let pages = tree.overflow_pages(first).unwrap();
            tree.allocation.free(&tree.pool, &tree.wal, &pages, logger).unwrap();
        }
        let key = self::key(writer, random.u32(..400));
        assert_eq!(get(tree, &key).unwrap().as_ref(), model.get(&key));
    }
    model
}

/// Scans both ways, and expects keys in order, and all keys that no thread changes.
fn scan(tree: &Tree, fixed: &[Vec<u8>], stop: &AtomicBool) -> u32 {
    let mut scans = 0;
    while !stop.load(Ordering::Relaxed) {
        for up in [true, false] {
            let (mut last, mut seen): (Option<Vec<u8>>, usize) = (None, 0);
            let each = &mut |key: &[u8], value: Value<'_>| {
                if let Some(last) = &last {
                    assert_eq!(&last[..] < key, up, "{last:?} {key:?}");
                }
                last = Some(key.to_vec());
                if key.len() == 5 {
                    seen += 1;
                    assert_eq!(tree.read_value(value)?, [key[3]; 700]);
                }
                tree.read_value(value)?;
                Ok(ControlFlow::Continue(()))
            };
            match up {
                true => tree.ascend(Bound::Unbounded, each).unwrap(),
                false => tree.descend(Bound::Unbounded, each).unwrap(),
            }
            assert_eq!(seen, fixed.len());
            scans += 1;
        }
    }
    scans
}

#[test]
fn writers_and_scans_at_once_on_few_frames() {
    let mut fixture = Fixture::with(512, 24, |options| options.background(true));
    let fixed: Vec<Vec<u8>> = (0..40u32).map(|number| [&(number * 41).to_be_bytes()[..], b"f"].concat()).collect();
    for key in &fixed {
        fixture.put(key, &[key[3]; 700]).unwrap();
    }
    let (tree, stop) = (&fixture.tree, &AtomicBool::new(false));
    let models: Vec<_> = thread::scope(|scope| {
        let scans: Vec<_> = (0..2).map(|_| scope.spawn(|| scan(tree, &fixed, stop))).collect();
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(tree, writer, 4000))).collect();
        let models = writers.into_iter().map(|writer| writer.join()).collect::<Vec<_>>();
        stop.store(true, Ordering::Relaxed);
        for scan in scans {
            assert!(scan.join().unwrap() > 0);
        }
        models.into_iter().map(Result::unwrap).collect()
    });
    for model in models {
        fixture.model.extend(model);
    }
    let walk = fixture.verify();
    assert!(walk.height > 1);
    compare_with_log(&fixture.tree);
    // After all threads have removed their records at the same time, the tree is empty.
    let (tree, model) = (&fixture.tree, &fixture.model);
    thread::scope(|scope| {
        for part in 0..WRITERS as usize {
            scope.spawn(move || {
                let own = model.keys().skip(part).step_by(WRITERS as usize);
                for key in own {
                    let logger = &mut TransactionLogger::default();
                    let old = tree.remove(key, logger).unwrap();
                    if let Some(OldValue::Overflow { first }) = old {
                        let pages = tree.overflow_pages(first).unwrap();
                        tree.allocation.free(&tree.pool, &tree.wal, &pages, logger).unwrap();
                    }
                }
            });
        }
    });
    fixture.model.clear();
    assert_eq!(fixture.verify().pages.len(), 1);
    compare_with_log(&fixture.tree);
}
