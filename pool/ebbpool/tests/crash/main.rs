//! Crashes at every I/O of short scripts, and of the recoveries after them, checked against a model of what was
//! acknowledged.
//!
//! `EBBPOOL_CRASHES=1000000` sets the number of crashes, `EBBPOOL_WHOLE=1` 100,000, `EBBPOOL_CRASH_SEED=n` the first seed. See docs/crashes.md.

mod chance;
mod client;
mod settings;
mod threads;
mod wal;

use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbpool::storage::{DiskOperation, Fault, FaultyDisk};

use chance::Chance;
use client::{Life, LifeEnd, Model, Setting, Step, Tally};
use settings::{scaled, setting};

/// With `EBBPOOL_WHOLE`; a tenth of them else.
const CRASHES: u64 = 100_000;
const STEPS: usize = 14;
const CALM_STEPS: usize = 50;
/// The number of lives after the first one. The last life has no crash.
const LATER_LIVES: u64 = 3;

/// A script and the settings of its lives, all from one seed.
struct Case {
    seed: u64,
    setting: Setting,
    steps: Vec<Step>,
}

impl Case {
    fn new(seed: u64, most_steps: usize) -> Self {
        let mut chance = Chance::new(seed);
        let setting = Setting::new(&mut chance);
        let length = most_steps.min(if setting.calm { CALM_STEPS } else { STEPS });
        let steps = (0..length).map(|_| setting.step(&mut chance)).collect();
        Case { seed, setting, steps }
    }

    /// The number of changes of the disk without a crash.
    fn changes(&self, tally: &mut Tally) -> Result<u64, String> {
        let disk = FaultyDisk::new(self.seed);
        let mut model = Model::default();
        self.live(&disk, &mut model, tally, &self.steps)?;
        judge_disk(&disk)?;
        Ok(disk.counts().changes())
    }

    /// Runs one life; true if it ended without a crash.
    fn live(&self, disk: &FaultyDisk, model: &mut Model, tally: &mut Tally, steps: &[Step]) -> Result<bool, String> {
        let mut whole = || {
            let mut life = Life::begin(disk, &self.setting, model, tally)?;
            steps.iter().try_for_each(|&step| life.step(step))?;
            life.end()
        };
        match whole() {
            Ok(()) => Ok(true),
            Err(LifeEnd::PowerOff) if disk.is_off() => Ok(false),
            Err(LifeEnd::PowerOff) => Err("the power is said to be off, and is not".into()),
            Err(LifeEnd::Wrong(what)) => Err(what),
        }
    }

    /// The power fails at the k-th change, and then twice more, mostly during recovery.
    fn crash_at(&self, k: u64, tally: &mut Tally) -> Result<(), String> {
        let mut chance = Chance::new(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ k);
        let disk = FaultyDisk::new(chance.below(u64::MAX));
        let mut model = Model::default();
        let mut at = k;
        for life in 0..=LATER_LIVES {
            let crash_seed = chance.below(u64::MAX);
            if life < LATER_LIVES {
                disk.inject(Fault::crash(DiskOperation::Change, crash_seed).nth(at));
            }
            let ended = self.live(&disk, &mut model, tally, &self.steps)?;
            judge_disk(&disk)?;
            if life == LATER_LIVES && !ended {
                return Err("the last recovery was interrupted".into());
            }
            disk.heal();
            disk.crash(crash_seed);
            disk.restart();
            tally.crashes += 1;
            at = 1 + chance.below(12);
        }
        self.live(&disk, &mut model, tally, &[])?;
        Ok(())
    }

    fn run(&self, tally: &mut Tally) -> Result<(), (u64, String)> {
        let within = |k, work: &mut dyn FnMut() -> Result<u64, String>| {
            let caught = catch_unwind(AssertUnwindSafe(work));
            let outcome = caught.unwrap_or_else(|_| Err("it panicked, see above".into()));
            outcome.map_err(|what| (k, what))
        };
        let changes = within(0, &mut || self.changes(tally))?;
        for k in 1..=changes {
            within(k, &mut || self.crash_at(k, tally).map(|()| 0))?;
        }
        Ok(())
    }
}

fn judge_disk(disk: &FaultyDisk) -> Result<(), String> {
    match disk.violations().first() {
        Some(violation) => Err(violation.to_string()),
        None => Ok(()),
    }
}

/// Panics with the shortest script of the seed that fails too.
fn report(seed: u64, whole: (u64, String)) -> ! {
    let shorter = (0..CALM_STEPS).find_map(|length| {
        let case = Case::new(seed, length);
        let failed = case.run(&mut Tally::default()).err()?;
        Some((case, failed))
    });
    let (case, (k, what)) = shorter.unwrap_or_else(|| (Case::new(seed, CALM_STEPS), whole));
    panic!(
        "{what}\n  crash at change {k} of {:#?}\n{:#?}\n  again: EBBPOOL_CRASH_SEED={seed} EBBPOOL_CRASHES=1 cargo test -p ebbpool --test crash",
        case.steps, case.setting
    );
}

#[test]
fn acknowledged_changes_survive_every_crash() {
    let crashes = scaled("EBBPOOL_CRASHES", CRASHES);
    let first = setting("EBBPOOL_CRASH_SEED").unwrap_or(1);
    let mut tally = Tally::default();
    let mut seed = first;
    while tally.crashes < crashes {
        if let Err(failed) = Case::new(seed, CALM_STEPS).run(&mut tally) {
            report(seed, failed);
        }
        seed += 1;
    }
    println!("seeds {first} to {}: {tally:?}", seed - 1);
    if crashes >= 1000 {
        assert!(tally.redone > crashes / 10, "hardly any change had to be redone: {tally:?}");
        assert!(tally.reported > crashes / 1000, "no torn page was found: {tally:?}");
    }
}
