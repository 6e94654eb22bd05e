//! Runs thousands of seeds; makes a failing case smaller, and prints how to repeat it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ebbpool_simulation::{Failure, FailureCause, Simulation, SimulationOutcome, fewest_preemptions};
use rustix::time::{ClockId, clock_gettime};

use crate::settings::{scaled, setting};

/// The seconds of processor time for all seeds, with `EBBPOOL_WHOLE`; a tenth of them else.
const SECONDS: u64 = 60;

/// The most runs, and the most seconds of processor time, for making a failing script smaller.
const SHRINKING_RUNS: usize = 3000;
const SHRINKING_SECONDS: u64 = 60;

/// The case of a seed.
pub trait Scenario: Clone + Debug + Send + Sync + 'static {
    type Tally: Default + Debug + Send + Copy;

    fn new(seed: u64) -> Self;

    fn run(&self, simulation: &Simulation) -> Result<SimulationOutcome<Self::Tally>, Failure>;

    /// The main subject of the case.
    fn label(&self) -> String;

    /// Smaller cases, the most promising first.
    fn smaller(&self) -> Vec<Self>;

    fn add(total: &mut Self::Tally, tally: &Self::Tally);
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The failure without the parts that differ from seed to seed.
fn class(failure: &Failure) -> String {
    let text = match &failure.cause {
        FailureCause::Panic { message, .. } => message.as_str(),
        FailureCause::Deadlock { .. } => "no thread can go on",
        FailureCause::NoProgress { .. } => "the run does not end",
    };
    let mut class = String::new();
    // A backtrace may follow, which differs between callers.
    let text = text.split("\n   0: ").next().unwrap_or(text);
    for character in text.chars() {
        let digit = character.is_ascii_digit();
        if digit && class.ends_with('#') {
            continue;
        }
        class.push(if digit { '#' } else { character });
    }
    class.replace('\n', " ")
}

/// Runs the requested number of seeds, on all processors.
pub fn test<S: Scenario>(which: &str) {
    let begin = processor_time();
    let one = setting("EBBPOOL_SEED");
    let first = one.or(setting("EBBPOOL_FIRST_SEED")).unwrap_or(1);
    let count = one.map(|_| 1).or(setting("EBBPOOL_SEEDS"));
    let longest = Duration::from_secs(scaled("EBBPOOL_SECONDS", SECONDS));
    let survey = setting("EBBPOOL_SURVEY").is_some();
    let next = AtomicU64::new(first);
    let stop = AtomicBool::new(false);
    let done = Mutex::new((S::Tally::default(), 0u64, 0u64));
    let failed = Mutex::new(BTreeMap::<String, (u64, Failure, Duration)>::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let over = match count {
                        Some(count) => seed - first >= count,
                        None => processor_time() - begin >= longest,
                    };
                    if over {
                        return;
                    }
                    let scenario = S::new(seed);
                    match scenario.run(&Simulation::new(seed)) {
                        Ok(outcome) => {
                            let (total, runs, steps) = &mut *done.lock().unwrap();
                            S::add(total, &outcome.value);
                            *runs += 1;
                            *steps += outcome.steps;
                        }
                        Err(failure) => {
                            stop.store(!survey, Ordering::Relaxed);
                            let took = processor_time() - begin;
                            let mut failed = failed.lock().unwrap();
                            let counted = failed.entry(format!("{}: {}", scenario.label(), class(&failure)));
                            counted.or_insert((0, failure, took)).0 += 1;
                        }
                    }
                }
            });
        }
    });
    let (total, runs, steps) = done.into_inner().unwrap();
    let took = processor_time() - begin;
    println!("{runs} seeds from {first} on, {steps} steps in {took:?} of processor time: {total:#?}");
    let failed = failed.into_inner().unwrap();
    if survey {
        for (class, (count, failure, at)) in &failed {
            println!("{count:6} x, first seed {} after {at:?}: {class}", failure.seed);
            if !matches!(failure.cause, FailureCause::Panic { .. }) {
                println!("{failure}");
            }
        }
        assert!(failed.is_empty(), "{} kinds of failures", failed.len());
    }
    if let Some((_, failure, _)) = failed.into_values().min_by_key(|(_, failure, _)| failure.seed) {
        report::<S>(&failure, which);
    }
}

/// Runs each seed from 1 on twice, and checks that steps, schedule and result are the same.
pub fn repeats_exactly<S: Scenario>(seeds: u64) {
    for seed in 1..=seeds {
        let run = || {
            let outcome = S::new(seed).run(&Simulation::new(seed));
            outcome.map(|outcome| (outcome.schedule_hash, outcome.steps, outcome.time))
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}

/// Panics with the smallest script found that fails in the same way, and the fewest preemptions.
fn report<S: Scenario>(failure: &Failure, which: &str) -> ! {
    let seed = failure.seed;
    let expected = class(failure);
    let mut runs = 0;
    let begin = processor_time();
    let mut fails = |scenario: &S, simulation: &Simulation| {
        runs += 1;
        let failed = scenario.run(simulation).err();
        (failed.filter(|failure| class(failure) == expected), runs)
    };
    let mut smallest = S::new(seed);
    let mut schedule = seed;
    let mut last = failure.clone();
    'smaller: loop {
        for scenario in smallest.smaller() {
            for other in [schedule, seed, schedule.wrapping_add(1 << 32)] {
                let (failed, runs) = fails(&scenario, &Simulation::new(other));
                if let Some(failed) = failed {
                    (smallest, schedule, last) = (scenario, other, failed);
                    continue 'smaller;
                }
                let took = processor_time() - begin;
                if runs > SHRINKING_RUNS || took.as_secs() > SHRINKING_SECONDS {
                    break 'smaller;
                }
            }
        }
        break;
    }
    let most = last.preemptions;
    let fewest = fewest_preemptions(most, |most| {
        let simulation = Simulation::new(schedule).preemptions(most);
        fails(&smallest, &simulation).0.is_some()
    });
    panic!(
        "{failure}\nthe smallest script found that fails in the same way, with {fewest} preemptions:\n{smallest:#?}\n{last}\nto repeat: EBBPOOL_SEED={seed} cargo test {which}"
    );
}
