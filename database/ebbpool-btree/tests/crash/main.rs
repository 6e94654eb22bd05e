//! Crashes at every I/O of short scripts, and of the recoveries after them. After each, the database has
//! the changes of its first n committed transactions, which include all acknowledged ones, and is whole.
//!
//! `EBBPOOL_CRASHES=1000000` sets the number of crashes, `EBBPOOL_WHOLE=1` 100,000, `EBBPOOL_CRASH_SEED=n` the first seed. See
//! docs/crashes.md.

mod chance;
mod histories;
mod life;
#[path = "../../../../pool/ebbpool/tests/crash/lives.rs"]
mod lives;
mod model;
mod script;
#[path = "../../../../pool/ebbpool/tests/crash/settings.rs"]
mod settings;
mod threads;

use ebbpool::storage::FaultyDisk;

use chance::Chance;
use life::{Life, Tally};
use lives::{CRASHES, EndCause};
use model::Model;
use script::{Session, Setting};

struct Case {
    seed: u64,
    setting: Setting,
    script: Vec<Session>,
}

impl Case {
    fn live_with(&self, script: &[Session], disk: &FaultyDisk, model: &mut Model, tally: &mut Tally) -> Result<(), EndCause> {
        // A new database draws its identity from this generator.
        fastrand::seed(self.seed);
        Life { disk, setting: &self.setting, model, tally }.live(script)
    }
}

impl lives::Case for Case {
    type Model = Model;
    type Tally = Tally;

    const PACKAGE: &str = "ebbpool-btree";
    const MOST_STEPS: usize = 40;
    const EARLY_CHANGES: u64 = 30;

    fn new(seed: u64, steps: usize) -> Self {
        let mut chance = Chance::new(seed);
        let setting = Setting::new(&mut chance);
        let script = setting.script(&mut chance, steps);
        Case { seed, setting, script }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn describe(&self) -> String {
        format!("{:#?}\n{:#?}", self.script, self.setting)
    }

    fn live(&self, disk: &FaultyDisk, model: &mut Model, tally: &mut Tally) -> Result<(), EndCause> {
        self.live_with(&self.script, disk, model, tally)
    }

    fn look(&self, disk: &FaultyDisk, model: &mut Model, tally: &mut Tally) -> Result<(), EndCause> {
        let look = Session { clear: false, load: None, shrink: false, steps: Vec::new(), close: true };
        self.live_with(&[look], disk, model, tally)
    }
}

#[test]
fn exactly_the_committed_changes_survive_every_crash() {
    let (requested, tally) = lives::test::<Case>();
    if requested >= 1000 {
        assert!(
            tally.committed > requested && tally.rolled_back > requested / 10 && tally.deepest > 1 && tally.cut_off > requested,
            "nearly nothing was done: {tally:?}"
        );
        assert!(requested < CRASHES || tally.reported > 0, "no torn page was met: {tally:?}");
    }
}
