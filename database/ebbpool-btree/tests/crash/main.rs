//! Crashes at every I/O of short scripts, and of the recoveries after them. After each, the database has
//! the changes of its first n committed transactions, which include all acknowledged ones, and is whole.
//!
//! `EBBPOOL_CRASHES=1000000` sets the number of crashes, `EBBPOOL_WHOLE=1` 100,000, `EBBPOOL_CRASH_SEED=n` the first seed. See
//! docs/crashes.md.

mod chance;
mod life;
mod model;
mod script;
#[path = "../../../../pool/ebbpool/tests/crash/settings.rs"]
mod settings;
mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use ebbpool::storage::{DiskOperation, Fault, FaultyDisk};

use chance::Chance;
use life::{EndCause, Life, Tally};
use model::Model;
use script::{Session, Setting};
use settings::{scaled, setting};

/// With `EBBPOOL_WHOLE`; a tenth of them else.
const CRASHES: u64 = 100_000;
const STEPS: usize = 40;
/// The number of lives after the first. The last one is not interrupted.
const LATER_LIVES: u64 = 3;

/// How a life ended, if nothing was wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LifeOutcome {
    ByItself,
    PowerOff,
    Reported,
}

struct Case {
    seed: u64,
    setting: Setting,
    script: Vec<Session>,
}

impl Case {
    fn new(seed: u64, steps: usize) -> Self {
        let mut chance = Chance::new(seed);
        let setting = Setting::new(&mut chance);
        let script = setting.script(&mut chance, steps);
        Case { seed, setting, script }
    }

    /// The number of changes of the disk in a run without a crash.
    fn changes(&self, tally: &mut Tally) -> Result<u64, String> {
        let disk = FaultyDisk::new(self.seed);
        self.live(&disk, &mut Model::default(), tally, &self.script)?;
        Ok(disk.counts().changes())
    }

    fn live(&self, disk: &FaultyDisk, model: &mut Model, tally: &mut Tally, script: &[Session]) -> Result<LifeOutcome, String> {
        // A new database draws its identity from this generator.
        fastrand::seed(self.seed);
        let mut life = Life { disk, setting: &self.setting, model, tally };
        let ended = match life.live(script) {
            Ok(()) => LifeOutcome::ByItself,
            Err(EndCause::PowerOff) if disk.is_off() => LifeOutcome::PowerOff,
            Err(EndCause::PowerOff) => return Err("the power is said to be off, and is not".into()),
            Err(EndCause::Reported) => LifeOutcome::Reported,
            Err(EndCause::Wrong(what)) => return Err(what),
        };
        match disk.violations().first() {
            Some(violation) => Err(violation.to_string()),
            None => Ok(ended),
        }
    }

    /// Runs the script with a power failure at the k-th change and then two more, most often during
    /// recovery.
    fn crash_at(&self, k: u64, tally: &mut Tally) -> Result<(), String> {
        let mut chance = Chance::new(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ k);
        let disk = FaultyDisk::new(chance.seed());
        let mut model = Model::default();
        let mut at = k;
        for life in 0..=LATER_LIVES {
            let crash_seed = chance.seed();
            if life < LATER_LIVES {
                disk.inject(Fault::crash(DiskOperation::Change, crash_seed).nth(at));
            }
            match self.live(&disk, &mut model, tally, &self.script)? {
                LifeOutcome::Reported => {
                    tally.reported += 1;
                    return Ok(());
                }
                LifeOutcome::PowerOff if life == LATER_LIVES => {
                    return Err("the last recovery was interrupted".into());
                }
                _ => {}
            }
            disk.heal();
            disk.crash(crash_seed);
            disk.restart();
            tally.crashes += 1;
            at = 1 + chance.below(30);
        }
        let look = Session { clear: false, load: None, steps: Vec::new(), close: true };
        self.live(&disk, &mut model, tally, &[look])?;
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

/// Reports the failure of the shortest script of the seed that fails.
fn report(seed: u64, whole: (u64, String)) -> ! {
    let shorter = (0..STEPS).find_map(|steps| {
        let case = Case::new(seed, steps);
        let failed = case.run(&mut Tally::default()).err()?;
        Some((case, failed))
    });
    let (case, (k, what)) = shorter.unwrap_or_else(|| (Case::new(seed, STEPS), whole));
    panic!(
        "{what}\n  crash at change {k} of {:#?}\n{:#?}\n  again: EBBPOOL_CRASH_SEED={seed} EBBPOOL_CRASHES=1 cargo test -p ebbpool-btree --test crash",
        case.script, case.setting
    );
}

#[test]
fn exactly_the_committed_changes_survive_every_crash() {
    let requested = scaled("EBBPOOL_CRASHES", CRASHES);
    let first = setting("EBBPOOL_CRASH_SEED").unwrap_or(1);
    let next = AtomicU64::new(first);
    let crashes = AtomicU64::new(0);
    let work = || {
        let mut all = Tally::default();
        while crashes.load(Ordering::Relaxed) < requested {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let mut tally = Tally::default();
            if let Err(failed) = Case::new(seed, STEPS).run(&mut tally) {
                // The other threads stop too.
                crashes.store(u64::MAX / 2, Ordering::Relaxed);
                report(seed, failed);
            }
            crashes.fetch_add(tally.crashes, Ordering::Relaxed);
            all.add(&tally);
        }
        all
    };
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            match thread.join() {
                Ok(worked) => tally.add(&worked),
                Err(panicked) => std::panic::resume_unwind(panicked),
            }
        }
    });
    println!("seeds {first} to {}: {tally:?}", next.into_inner() - 1);
    if requested >= 1000 {
        assert!(
            tally.committed > requested && tally.rolled_back > requested / 10 && tally.deepest > 1,
            "nearly nothing was done: {tally:?}"
        );
        assert!(requested < CRASHES || tally.reported > 0, "no torn page was met: {tally:?}");
    }
}
