//! Lives of a program on a simulated disk between power cuts, as the tests of pool and tree run them: both compile this
//! file.

use std::error::Error;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ebbpool::storage::{DiskOperation, Fault, FaultyDisk, PowerOff};

use crate::chance::Chance;
use crate::settings::{scaled, setting};

/// Crashes of a run with `EBBPOOL_WHOLE`; a tenth of them else.
pub const CRASHES: u64 = 100_000;

/// The number of lives after the first one. The last life has no crash.
const LATER_LIVES: u64 = 3;

/// Why a life ended early.
#[derive(Debug)]
pub enum EndCause {
    PowerOff,
    /// A torn page was reported, in a setting without double writes.
    #[allow(dead_code, reason = "the pool of these tests rebuilds a torn page from its log")]
    Reported,
    Wrong(String),
}

/// Whether an operation failed because the power is off.
pub fn power_is_off(error: &(dyn Error + 'static)) -> bool {
    // An error that was wrapped in another one is recognised by its message.
    error.is::<PowerOff>() || error.to_string().contains(&PowerOff.to_string()) || error.source().is_some_and(power_is_off)
}

/// Counts what happened, so that a test can check that it exercised the interesting cases.
pub trait Counts: Clone + Debug + Default + Send {
    fn crashed(&mut self);

    fn reported(&mut self) {}

    fn crashes(&self) -> u64;

    fn add(&mut self, other: &Self);
}

/// A script and the settings of its lives, all from one seed.
pub trait Case: Sized {
    type Model: Default;
    type Tally: Counts;

    /// The package whose test `crash` runs the cases.
    const PACKAGE: &str;
    /// The most steps of a script.
    const MOST_STEPS: usize;
    /// In later lives the power fails at a change from the first to this one, mostly during recovery.
    const EARLY_CHANGES: u64;

    fn new(seed: u64, most_steps: usize) -> Self;

    fn seed(&self) -> u64;

    /// Script and settings, for a report.
    fn describe(&self) -> String;

    /// Recovers and runs the script.
    fn live(&self, disk: &FaultyDisk, model: &mut Self::Model, tally: &mut Self::Tally) -> Result<(), EndCause>;

    /// Recovers, and checks what is there.
    fn look(&self, disk: &FaultyDisk, model: &mut Self::Model, tally: &mut Self::Tally) -> Result<(), EndCause>;

    /// The number of changes of the disk without a crash.
    fn changes(&self, tally: &mut Self::Tally) -> Result<u64, String> {
        let disk = FaultyDisk::new(self.seed());
        judge(&disk, self.live(&disk, &mut Self::Model::default(), tally))?;
        Ok(disk.counts().changes())
    }

    /// The power fails at the k-th change, and then twice more, mostly during recovery.
    fn crash_at(&self, k: u64, tally: &mut Self::Tally) -> Result<(), String> {
        let mut chance = Chance::new(self.seed().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ k);
        let disk = FaultyDisk::new(chance.seed());
        let mut model = Self::Model::default();
        let mut at = k;
        for life in 0..=LATER_LIVES {
            let crash_seed = chance.seed();
            if life < LATER_LIVES {
                disk.inject(Fault::crash(DiskOperation::Change, crash_seed).nth(at));
            }
            match judge(&disk, self.live(&disk, &mut model, tally))? {
                Some(EndCause::Reported) => {
                    tally.reported();
                    return Ok(());
                }
                Some(_) if life == LATER_LIVES => return Err("the last recovery was interrupted".into()),
                _ => {}
            }
            cut_power(&disk, crash_seed);
            tally.crashed();
            at = 1 + chance.below(Self::EARLY_CHANGES);
        }
        judge(&disk, self.look(&disk, &mut model, tally)).map(drop)
    }

    /// Crashes the script at each of its changes. Returns at which one something was wrong, and what.
    fn run(&self, tally: &mut Self::Tally) -> Result<(), (u64, String)> {
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

/// How a life ended, if nothing was wrong: `None` by itself.
fn judge(disk: &FaultyDisk, ended: Result<(), EndCause>) -> Result<Option<EndCause>, String> {
    let ended = match ended {
        Err(EndCause::Wrong(what)) => return Err(what),
        Err(EndCause::PowerOff) if !disk.is_off() => return Err("the power is said to be off, and is not".into()),
        ended => ended.err(),
    };
    order_of_writes(disk).map(|()| ended)
}

/// Whether each write came after its log.
fn order_of_writes(disk: &FaultyDisk) -> Result<(), String> {
    disk.violations().first().map_or(Ok(()), |violation| Err(violation.to_string()))
}

/// What was not synced is lost, in part, and the disk runs again.
fn cut_power(disk: &FaultyDisk, seed: u64) {
    disk.heal();
    disk.crash(seed);
    disk.restart();
}

/// Panics with the shortest script of the seed that fails too.
fn report<C: Case>(seed: u64, whole: (u64, String)) -> ! {
    let shorter = (0..C::MOST_STEPS).find_map(|length| {
        let case = C::new(seed, length);
        let failed = case.run(&mut C::Tally::default()).err()?;
        Some((case, failed))
    });
    let (case, (k, what)) = shorter.unwrap_or_else(|| (C::new(seed, C::MOST_STEPS), whole));
    let (described, package) = (case.describe(), C::PACKAGE);
    panic!(
        "{what}\n  crash at change {k} of {described}\n  again: EBBPOOL_CRASH_SEED={seed} EBBPOOL_CRASHES=1 cargo test -p {package} --test crash"
    );
}

/// Runs cases until there were `EBBPOOL_CRASHES` crashes, on all processors. Returns the number and what happened.
pub fn test<C: Case>() -> (u64, C::Tally) {
    let requested = scaled("EBBPOOL_CRASHES", CRASHES);
    let first = setting("EBBPOOL_CRASH_SEED").unwrap_or(1);
    let next = AtomicU64::new(first);
    let crashes = AtomicU64::new(0);
    let total = Mutex::new(C::Tally::default());
    let work = || {
        while crashes.load(Ordering::Relaxed) < requested {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let mut tally = C::Tally::default();
            if let Err(failed) = C::new(seed, C::MOST_STEPS).run(&mut tally) {
                // The other threads stop too.
                crashes.store(u64::MAX / 2, Ordering::Relaxed);
                report::<C>(seed, failed);
            }
            crashes.fetch_add(tally.crashes(), Ordering::Relaxed);
            total.lock().unwrap().add(&tally);
        }
    };
    // One crash is of one seed.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(requested as usize);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            if let Err(panicked) = thread.join() {
                std::panic::resume_unwind(panicked);
            }
        }
    });
    let tally = total.into_inner().unwrap();
    println!("seeds {first} to {}: {tally:?}", next.into_inner() - 1);
    (requested, tally)
}

/// Cuts the power amid the work of several threads, each of which lets others run where it changes the disk. The disk runs
/// again afterwards.
pub fn cut_amid<T>(disk: &FaultyDisk, seed: u64, at: u64, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    disk.inject(Fault::crash(DiskOperation::Change, seed).nth(at));
    disk.observe(|io| {
        if io.operation != DiskOperation::Read {
            std::thread::yield_now();
        }
    });
    let worked = work()?;
    disk.observe_no_more();
    order_of_writes(disk)?;
    cut_power(disk, seed);
    Ok(worked)
}

/// Runs one case of threads for 200 of `EBBPOOL_CRASHES`, at least one. Returns how many, and the sum of the results.
pub fn test_threads(package: &str, case: impl Fn(u64) -> Result<u64, String>) -> (u64, u64) {
    let requested = scaled("EBBPOOL_CRASHES", CRASHES) / 200;
    let first = setting("EBBPOOL_CRASH_SEED").unwrap_or(1);
    let run = |seed| {
        case(seed).unwrap_or_else(|what| {
            panic!("{what}\n  again: EBBPOOL_CRASH_SEED={seed} cargo test -p {package} --test crash threads")
        })
    };
    (requested, (first..first + requested.max(1)).map(run).sum())
}
