//! Failing storage and log: an operation either succeeds or changes nothing.

use ebbpool::Log;
use ebbpool::storage::{DiskOperation, EIO, ENOSPC, Fault};

use super::fixture::{Fixture, TransactionLogger, put};
use crate::error::DatabaseError;

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().repeat(3)
}

/// Puts a record in the tree and the model. Returns false if that failed, after a rollback.
fn put_or_not(fixture: &mut Fixture, number: u32, length: usize) -> bool {
    let (key, value) = (key(number), vec![number as u8; length]);
    let mut logger = TransactionLogger::default();
    match put(&fixture.tree, &key, &value, &mut logger) {
        Ok(_) => {
            fixture.model.insert(key, value);
            true
        }
        Err(error) => {
            assert!(matches!(error, DatabaseError::Pool(_) | DatabaseError::Log { .. }), "{error}");
            // Part of a long value may be stored.
            logger.roll_back(&fixture.tree).unwrap();
            false
        }
    }
}

#[test]
fn a_full_disk_leaves_the_tree_as_it_was() {
    for length in [20, 2000] {
        let mut fixture = Fixture::new(512, 200);
        let mut random = fastrand::Rng::with_seed(length as u64);
        for _ in 0..20 {
            fixture.disk.inject(Fault::failing(DiskOperation::Resize, ENOSPC).in_file("data").forever());
            let mut failed = false;
            while !failed {
                failed = !put_or_not(&mut fixture, random.u32(..1 << 30), length);
            }
            fixture.disk.heal();
            fixture.verify();
            for _ in 0..10 {
                assert!(put_or_not(&mut fixture, random.u32(..1 << 30), length));
            }
        }
        let full = fixture.verify();
        assert!(full.height > 2 || length == 2000);
    }
}

#[test]
fn failing_reads_and_writes_change_nothing() {
    let mut fixture = Fixture::new(512, 16);
    for number in 0..1500 {
        assert!(put_or_not(&mut fixture, number * 7919 % 4096, 20));
    }
    let mut random = fastrand::Rng::with_seed(3);
    let mut failed = 0;
    for _ in 0..600 {
        let operation = match random.bool() {
            true => DiskOperation::Read,
            false => DiskOperation::Write,
        };
        fixture.disk.inject(Fault::failing(operation, EIO).in_file("data").nth(random.u64(1..8)));
        let number = random.u32(..4096);
        match random.u8(..4) {
            0 | 1 => failed += u32::from(!put_or_not(&mut fixture, number, random.usize(..80))),
            2 => match fixture.tree.remove(&key(number), &mut TransactionLogger::default()) {
                Ok(old) => {
                    assert_eq!(old.is_some(), fixture.model.remove(&key(number)).is_some());
                }
                Err(_) => failed += 1,
            },
            _ => match super::fixture::get(&fixture.tree, &key(number)) {
                Ok(found) => assert_eq!(found.as_ref(), fixture.model.get(&key(number))),
                Err(_) => failed += 1,
            },
        }
        fixture.disk.heal();
    }
    assert!(failed > 50, "{failed}");
    fixture.verify();
}

#[test]
fn a_failing_log_changes_nothing() {
    // With 2000 frames no page is evicted, which would fail without the log.
    let mut fixture = Fixture::new(512, 2000);
    for number in 0..400 {
        assert!(put_or_not(&mut fixture, number * 7919 % 4096, 20));
    }
    let pages = fixture.tree.pool.allocate().unwrap().page();
    fixture.tree.pool.free(pages).unwrap();
    fixture.disk.inject(Fault::failing(DiskOperation::Sync, EIO).in_file("log0").forever());
    fixture.tree.wal.sync(fixture.tree.wal.end_lsn()).unwrap_err();
    for number in 0..200 {
        let logger = &mut TransactionLogger::default();
        // In place, with splits, and of several pages.
        for length in [20, 90, 2000] {
            let refused = put(&fixture.tree, &key(number), &vec![1; length], logger);
            assert!(matches!(refused, Err(DatabaseError::Log { .. })), "{refused:?}");
        }
        if fixture.model.contains_key(&key(number)) {
            fixture.tree.remove(&key(number), logger).unwrap_err();
        }
    }
    // The pages taken for these operations were given back.
    assert_eq!(fixture.tree.pool.allocate().unwrap().page(), pages);
    fixture.verify();
}
