//! Crashes at every I/O of short scripts, and of the recoveries after them, checked against a model of what was
//! acknowledged.
//!
//! `EBBPOOL_CRASHES=1000000` sets the number of crashes, `EBBPOOL_WHOLE=1` 100,000, `EBBPOOL_CRASH_SEED=n` the first seed. See docs/crashes.md.

mod chance;
mod client;
mod lives;
mod settings;
mod threads;
mod wal;

use ebbpool::storage::FaultyDisk;

use chance::Chance;
use client::{Life, Model, Setting, Step, Tally};
use lives::EndCause;

const STEPS: usize = 14;
const CALM_STEPS: usize = 50;

struct Case {
    seed: u64,
    setting: Setting,
    steps: Vec<Step>,
}

impl Case {
    fn live_with(&self, steps: &[Step], disk: &FaultyDisk, model: &mut Model, tally: &mut Tally) -> Result<(), EndCause> {
        let mut life = Life::begin(disk, &self.setting, model, tally)?;
        steps.iter().try_for_each(|&step| life.step(step))?;
        life.end()
    }
}

impl lives::Case for Case {
    type Model = Model;
    type Tally = Tally;

    const PACKAGE: &str = "ebbpool";
    const MOST_STEPS: usize = CALM_STEPS;
    const EARLY_CHANGES: u64 = 12;

    fn new(seed: u64, most_steps: usize) -> Self {
        let mut chance = Chance::new(seed);
        let setting = Setting::new(&mut chance);
        let length = most_steps.min(if setting.calm { CALM_STEPS } else { STEPS });
        let steps = (0..length).map(|_| setting.step(&mut chance)).collect();
        Case { seed, setting, steps }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn describe(&self) -> String {
        format!("{:#?}\n{:#?}", self.steps, self.setting)
    }

    fn live(&self, disk: &FaultyDisk, model: &mut Model, tally: &mut Tally) -> Result<(), EndCause> {
        self.live_with(&self.steps, disk, model, tally)
    }

    fn look(&self, disk: &FaultyDisk, model: &mut Model, tally: &mut Tally) -> Result<(), EndCause> {
        self.live_with(&[], disk, model, tally)
    }
}

#[test]
fn acknowledged_changes_survive_every_crash() {
    let (crashes, tally) = lives::test::<Case>();
    if crashes >= 1000 {
        assert!(tally.redone > crashes / 10, "hardly any change had to be redone: {tally:?}");
        assert!(tally.reported > crashes / 1000, "no torn page was found: {tally:?}");
    }
}
