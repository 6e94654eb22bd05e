//! The power fails at any write, sync or change of a length, in recovery too. What is found afterwards is
//! what the first so many transactions committed, and all of them that were acknowledged.
//!
//! `EBBPOOL_CRASHES=30000` is how many there are to be, but for those in recovery; `EBBPOOL_CRASH_SEED=n` is
//! the first seed.

use std::collections::BTreeMap;

use ebbpool::storage::{Fault, FaultyDisk, Operation};
use ebbpool_btree::{Database, Durability, Error, Options};

use crate::parts::{all, parts};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const LIVES: u64 = 3;

const DURABILITIES: [Durability; 3] = [Durability::Synced, Durability::Buffered, Durability::None];

/// What stays the same in all lives of a database.
struct Setting {
    durability: Durability,
    frames: u32,
    checkpoint_every: u64,
}

impl Setting {
    fn new(random: &mut fastrand::Rng) -> Self {
        Setting {
            durability: DURABILITIES[random.usize(0..3)],
            frames: [16, 24, 64][random.usize(0..3)],
            checkpoint_every: [4096, 8192, 1 << 20][random.usize(0..3)],
        }
    }

    fn open(&self, disk: &FaultyDisk) -> Result<Database, Error> {
        Options::new(self.frames)
            .background(false)
            .durability(self.durability)
            .checkpoint_every(self.checkpoint_every)
            .open_on(parts(disk))
    }
}

/// Loads records into an empty database.
fn load(
    database: &mut Database,
    random: &mut fastrand::Rng,
    states: &mut Vec<Model>,
    acknowledged: &mut usize,
) -> Result<(), Error> {
    let count = random.u32(0..200);
    let value = || vec![1; random.usize(0..150)];
    let keys = (0..count).map(|number| number.to_be_bytes().to_vec());
    let model: Model = keys.zip(std::iter::repeat_with(value)).collect();
    states.push(model.clone());
    database.load(model.into_iter().map(Ok::<_, Error>), 0.8)?;
    *acknowledged = states.len() - 1;
    Ok(())
}

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
fn recovered(disk: &FaultyDisk, setting: &Setting, random: &mut fastrand::Rng) -> Database {
    for round in 0.. {
        if round < 3 && random.bool() {
            let fault = Fault::crash(Operation::Change, random.u64(..));
            disk.inject(fault.nth(random.u64(1..40)));
        }
        let outcome = setting.open(disk);
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

fn crash_and_recover(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let setting = Setting::new(&mut random);
    let durability = setting.durability;
    let disk = FaultyDisk::new(seed);
    let mut database = setting.open(&disk).unwrap();
    let mut states = vec![Model::new()];
    for life in 0..LIVES {
        let fault = Fault::crash(Operation::Change, random.u64(..));
        disk.inject(fault.nth(random.u64(1..400)));
        let mut acknowledged = 0;
        let loaded = match life == 0 && random.bool() {
            true => load(&mut database, &mut random, &mut states, &mut acknowledged),
            false => Ok(()),
        };
        let transactions = random.usize(1..120);
        let outcome = loaded.and_then(|()| {
            work(
                &database,
                &mut random,
                &mut states,
                &mut acknowledged,
                transactions,
            )
        });
        if !disk.is_off() {
            outcome.expect("the power is on");
            disk.crash(random.u64(..));
        }
        drop(database);
        disk.restart();
        disk.heal();
        database = recovered(&disk, &setting, &mut random);
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
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

#[test]
fn what_was_committed_survives_and_nothing_else() {
    let crashes = number("EBBPOOL_CRASHES").unwrap_or(500);
    let from = number("EBBPOOL_CRASH_SEED").unwrap_or(0);
    (from..from + crashes / LIVES).for_each(crash_and_recover);
}
