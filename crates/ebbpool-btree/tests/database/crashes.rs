//! The power fails at any write, sync or change of a length, in recovery too. What is found afterwards is
//! what the first so many transactions committed, and all of them that were acknowledged.

use std::collections::BTreeMap;

use ebbpool::storage::{Fault, FaultyDisk, Operation};
use ebbpool_btree::{Database, Durability, Error};

use crate::parts::{all, options, parts};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const DURABILITIES: [Durability; 3] = [Durability::Synced, Durability::Buffered, Durability::None];

/// Does transactions until the power fails, with what is there after each, and which of these was
/// acknowledged last.
fn work(
    database: &Database,
    random: &mut fastrand::Rng,
    states: &mut Vec<Model>,
    acknowledged: &mut usize,
    transactions: usize,
) -> Result<(), Error> {
    for _ in 0..transactions {
        let mut model = states.last().cloned().unwrap_or_default();
        let mut transaction = database.begin();
        for _ in 0..random.u32(1..12) {
            let key = vec![random.u8(0..120); random.usize(1..12)];
            match random.u8(0..10) {
                0..6 => {
                    let length =
                        [random.usize(0..60), random.usize(0..1500)][random.usize(0..8) / 7];
                    let value = vec![random.u8(..); length];
                    transaction.put(&key, &value)?;
                    model.insert(key, value);
                }
                6..9 => {
                    assert_eq!(transaction.delete(&key)?, model.remove(&key).is_some());
                }
                _ => {
                    let count = random.u64(0..10);
                    let new = |old: &[u8]| old.iter().map(|byte| byte ^ 7).collect::<Vec<u8>>();
                    transaction.update_range(&key, count, |_, old| Some(new(old)))?;
                    for (_, old) in model.range_mut(key..).take(count as usize) {
                        *old = new(old);
                    }
                }
            }
        }
        match random.u8(0..6) {
            0 => transaction.rollback()?,
            _ => {
                // Whether it counts is open until it is acknowledged.
                states.push(model);
                transaction.commit()?;
                *acknowledged = states.len() - 1;
            }
        }
        if random.u8(0..20) == 0 {
            database.checkpoint()?;
        }
    }
    Ok(())
}

/// Recovers, with the power failing again and again.
fn recovered(disk: &FaultyDisk, durability: Durability, random: &mut fastrand::Rng) -> Database {
    for round in 0.. {
        if round < 3 && random.bool() {
            let fault = Fault::crash(Operation::Change, random.u64(..));
            disk.inject(fault.nth(random.u64(1..40)));
        }
        let outcome = options().durability(durability).open_on(parts(disk));
        if !disk.is_off() {
            disk.heal();
            return outcome.expect("the power is on");
        }
        drop(outcome);
        disk.restart();
        disk.heal();
    }
    unreachable!("the power stays on in the end")
}

fn crash_and_recover(seed: u64) -> u32 {
    let mut random = fastrand::Rng::with_seed(seed);
    let durability = DURABILITIES[random.usize(0..3)];
    let disk = FaultyDisk::new(seed);
    let mut database = options()
        .durability(durability)
        .open_on(parts(&disk))
        .unwrap();
    let mut states = vec![Model::new()];
    let mut crashes = 0;
    for _ in 0..3 {
        let fault = Fault::crash(Operation::Change, random.u64(..));
        disk.inject(fault.nth(random.u64(1..400)));
        let transactions = random.usize(1..120);
        let mut acknowledged = 0;
        let outcome = work(
            &database,
            &mut random,
            &mut states,
            &mut acknowledged,
            transactions,
        );
        if !disk.is_off() {
            outcome.expect("the power is on");
            disk.crash(random.u64(..));
        }
        crashes += 1;
        drop(database);
        disk.restart();
        disk.heal();
        database = recovered(&disk, durability, &mut random);
        let found: Model = all(&database).into_iter().collect();
        let from = match durability {
            Durability::Synced => acknowledged,
            _ => 0,
        };
        assert!(
            states[from..].contains(&found),
            "seed {seed}: not what was there after any commit from {from} on, {durability:?}"
        );
        let report = database.check().expect("checked");
        assert!(
            report.findings.is_empty(),
            "seed {seed}: {:?}",
            report.findings
        );
        assert!(
            disk.violations().is_empty(),
            "seed {seed}: {:?}",
            disk.violations()
        );
        states = vec![found];
    }
    crashes
}

#[test]
fn what_was_committed_survives_and_nothing_else() {
    let rounds: u64 = std::env::var("EBBPOOL_CRASHES").map_or(200, |it| it.parse().unwrap());
    let from: u64 = std::env::var("EBBPOOL_SEED").map_or(0, |it| it.parse().unwrap());
    let crashes: u32 = (from..from + rounds).map(crash_and_recover).sum();
    assert_eq!(u64::from(crashes), rounds * 3);
}
