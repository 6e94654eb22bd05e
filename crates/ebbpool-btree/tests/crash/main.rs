//! Crashes at every I/O of short scripts, and of the recoveries after them: what is found are the first so
//! many transactions that committed, those acknowledged among them, and the database is whole.
//!
//! `EBBPOOL_CRASHES=1000000` is how many there are to be, `EBBPOOL_CRASH_SEED=n` the first seed. See
//! docs/crashes.md.

mod chance;
mod life;
mod model;
mod script;
mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use ebbpool::storage::{Fault, FaultyDisk, Operation};

use chance::Chance;
use life::{End, Life, Tally};
use model::Model;
use script::{Session, Setting};

const CRASHES: u64 = 100_000;
const STEPS: usize = 40;
/// Lives after the first, the last one of which is long.
const LATER_LIVES: u64 = 3;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value} is no number")),
    )
}

/// How a life ended, if nothing was wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
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
        Case {
            seed,
            setting,
            script,
        }
    }

    /// Changes of the disk when nothing goes wrong.
    fn changes(&self, tally: &mut Tally) -> Result<u64, String> {
        let disk = FaultyDisk::new(self.seed);
        self.live(&disk, &mut Model::default(), tally, &self.script)?;
        Ok(disk.counts().changes())
    }

    fn live(
        &self,
        disk: &FaultyDisk,
        model: &mut Model,
        tally: &mut Tally,
        script: &[Session],
    ) -> Result<Ended, String> {
        // The number that a new database draws.
        fastrand::seed(self.seed);
        let mut life = Life {
            disk,
            setting: &self.setting,
            model,
            tally,
        };
        let ended = match life.live(script) {
            Ok(()) => Ended::ByItself,
            Err(End::PowerOff) if disk.is_off() => Ended::PowerOff,
            Err(End::PowerOff) => return Err("the power is said to be off, and is not".into()),
            Err(End::Reported) => Ended::Reported,
            Err(End::Wrong(what)) => return Err(what),
        };
        match disk.violations().first() {
            Some(violation) => Err(violation.to_string()),
            None => Ok(ended),
        }
    }

    /// The power fails at the k-th change; then again, twice, most often during recovery.
    fn crash_at(&self, k: u64, tally: &mut Tally) -> Result<(), String> {
        let mut chance = Chance::new(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ k);
        let disk = FaultyDisk::new(chance.seed());
        let mut model = Model::default();
        let mut at = k;
        for life in 0..=LATER_LIVES {
            let crash_seed = chance.seed();
            if life < LATER_LIVES {
                disk.inject(Fault::crash(Operation::Change, crash_seed).nth(at));
            }
            match self.live(&disk, &mut model, tally, &self.script)? {
                Ended::Reported => {
                    tally.reported += 1;
                    return Ok(());
                }
                Ended::PowerOff if life == LATER_LIVES => {
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
        let look = Session {
            clear: false,
            load: None,
            steps: Vec::new(),
            close: true,
        };
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

/// The shortest script of the seed that fails too.
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
fn what_was_committed_survives_every_crash_and_nothing_else() {
    let wanted = number("EBBPOOL_CRASHES").unwrap_or(CRASHES);
    let first = number("EBBPOOL_CRASH_SEED").unwrap_or(1);
    let next = AtomicU64::new(first);
    let crashes = AtomicU64::new(0);
    let work = || {
        let mut all = Tally::default();
        while crashes.load(Ordering::Relaxed) < wanted {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let mut tally = Tally::default();
            if let Err(failed) = Case::new(seed, STEPS).run(&mut tally) {
                // Nobody has to wait for the others.
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
    if wanted >= 1000 {
        assert!(
            tally.committed > wanted && tally.rolled_back > wanted / 10 && tally.deepest > 1,
            "nearly nothing was done: {tally:?}"
        );
        assert!(
            wanted < CRASHES || tally.reported > 0,
            "no torn page was met: {tally:?}"
        );
    }
}
