//! Crashes at every I/O of short scripts, and of the recoveries after them, against a model of what
//! was acknowledged.
//!
//! `EBBPOOL_CRASHES=1000000` is how many there are to be, `EBBPOOL_CRASH_SEED=n` the first seed. See
//! docs/crashes.md.

mod chance;
mod client;
mod wal;

use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbpool::storage::{Fault, FaultyDisk, Operation};

use chance::Chance;
use client::{End, Life, Model, Setting, Step, Tally};

const CRASHES: u64 = 100_000;
const STEPS: usize = 14;
/// Lives after the first, the last one of which is long.
const LATER_LIVES: u64 = 3;

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value} is no number")),
    )
}

/// A script, and in which lives the power fails when.
struct Case {
    seed: u64,
    setting: Setting,
    steps: Vec<Step>,
}

impl Case {
    fn new(seed: u64, length: usize) -> Self {
        let mut chance = Chance::new(seed);
        let setting = Setting::new(&mut chance);
        let steps = (0..length).map(|_| setting.step(&mut chance)).collect();
        Case {
            seed,
            setting,
            steps,
        }
    }

    /// Changes of the disk when nothing goes wrong.
    fn changes(&self, tally: &mut Tally) -> Result<u64, String> {
        let disk = FaultyDisk::new(self.seed);
        let mut model = Model::default();
        self.live(&disk, &mut model, tally, &self.steps)?;
        judge_disk(&disk)?;
        Ok(disk.counts().changes())
    }

    /// One life; true if it ended by itself.
    fn live(
        &self,
        disk: &FaultyDisk,
        model: &mut Model,
        tally: &mut Tally,
        steps: &[Step],
    ) -> Result<bool, String> {
        let mut whole = || {
            let mut life = Life::begin(disk, &self.setting, model, tally)?;
            steps.iter().try_for_each(|&step| life.step(step))?;
            life.end()
        };
        match whole() {
            Ok(()) => Ok(true),
            Err(End::PowerOff) if disk.is_off() => Ok(false),
            Err(End::PowerOff) => Err("the power is said to be off, and is not".into()),
            Err(End::Wrong(what)) => Err(what),
        }
    }

    /// The power fails at the k-th change; then again, twice, most often during recovery.
    fn crash_at(&self, k: u64, tally: &mut Tally) -> Result<(), String> {
        let mut chance = Chance::new(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ k);
        let disk = FaultyDisk::new(chance.below(u64::MAX));
        let mut model = Model::default();
        let mut at = k;
        for life in 0..=LATER_LIVES {
            let crash_seed = chance.below(u64::MAX);
            if life < LATER_LIVES {
                disk.inject(Fault::crash(Operation::Change, crash_seed).nth(at));
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

/// The shortest script of the seed that fails too.
fn report(seed: u64, whole: (u64, String)) -> ! {
    let shorter = (0..STEPS).find_map(|length| {
        let case = Case::new(seed, length);
        let failed = case.run(&mut Tally::default()).err()?;
        Some((case, failed))
    });
    let (case, (k, what)) = shorter.unwrap_or_else(|| (Case::new(seed, STEPS), whole));
    panic!(
        "{what}\n  crash at change {k} of {:#?}\n{:#?}\n  again: EBBPOOL_CRASH_SEED={seed} EBBPOOL_CRASHES=1 cargo test -p ebbpool --test crash",
        case.steps, case.setting
    );
}

#[test]
fn what_was_acknowledged_survives_every_crash() {
    let wanted = setting("EBBPOOL_CRASHES").unwrap_or(CRASHES);
    let first = setting("EBBPOOL_CRASH_SEED").unwrap_or(1);
    let mut tally = Tally::default();
    let mut seed = first;
    while tally.crashes < wanted {
        if let Err(failed) = Case::new(seed, STEPS).run(&mut tally) {
            report(seed, failed);
        }
        seed += 1;
    }
    println!("seeds {first} to {}: {tally:?}", seed - 1);
    if wanted >= 1000 {
        assert!(
            tally.redone > wanted / 10,
            "nearly nothing had to be redone: {tally:?}"
        );
        assert!(
            tally.reported > wanted / 1000,
            "no torn page was met: {tally:?}"
        );
    }
}
