//! CPU time of threads that serve references.

use std::sync::Barrier;
use std::thread;

use rustix::time::{ClockId, clock_gettime};

use crate::rivals::Rival;

/// Of the whole process, so that threads which work in the background count too.
pub fn cpu_ns() -> i64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// CPU nanoseconds per reference, one thread for each string of references.
pub fn cpu_ns_per_reference(rival: &dyn Rival, strings: &[Vec<u32>]) -> f64 {
    let start = Barrier::new(strings.len());
    let before = cpu_ns();
    let sum: u64 = thread::scope(|scope| {
        let start = &start;
        let serve = |string| {
            start.wait();
            rival.serve(string)
        };
        let spawned = strings.iter().map(|string| scope.spawn(move || serve(string)));
        let threads: Vec<_> = spawned.collect();
        let sums = threads.into_iter().map(|thread| thread.join().unwrap_or(0));
        sums.fold(0, u64::wrapping_add)
    });
    let took = cpu_ns() - before;
    std::hint::black_box(sum);
    let references: usize = strings.iter().map(Vec::len).sum();
    took as f64 / references as f64
}

/// The middle one.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What the rounds of a rival took.
pub struct Measured {
    /// Its name.
    pub name: String,
    /// What it does beside finding the page.
    pub promises: &'static str,
    /// By number of threads less one, by build, by round.
    took: Vec<Vec<Vec<f64>>>,
}

impl Measured {
    /// Nothing yet, for numbers of threads up to this one.
    pub fn new(rival: &dyn Rival, threads: usize) -> Self {
        Measured { name: rival.name(), promises: rival.promises(), took: vec![Vec::new(); threads] }
    }

    /// Rounds from now on are with everything built anew.
    pub fn begin_build(&mut self) {
        for builds in &mut self.took {
            builds.push(Vec::new());
        }
    }

    /// Adds a round.
    pub fn add(&mut self, threads: usize, ns: f64) {
        if let Some(rounds) = self.took[threads - 1].last_mut() {
            rounds.push(ns);
        }
    }

    /// By number of threads less one: the time of a reference.
    pub fn times(&self) -> Vec<Spread> {
        let spread = |builds: &Vec<Vec<f64>>| Spread::of(builds.clone());
        self.took.iter().map(spread).collect()
    }

    /// By number of threads less one: how often the other's time fits into this one's, in the same rounds.
    pub fn times_of(&self, other: &Measured) -> Vec<Spread> {
        let ratio = |(one, other): (&f64, &f64)| one / other;
        let ratios = |(one, other): (&Vec<f64>, &Vec<f64>)| one.iter().zip(other).map(ratio).collect();
        let pairs = self.took.iter().zip(&other.took);
        let spread = pairs.map(|(one, other)| Spread::of(one.iter().zip(other).map(ratios).collect()));
        spread.collect()
    }
}

/// The median of all rounds, and the lowest and the highest of the medians of each build.
pub struct Spread {
    /// Of all rounds.
    pub median: f64,
    /// Of a build.
    pub lowest: f64,
    /// Of a build.
    pub highest: f64,
}

impl Spread {
    fn of(builds: Vec<Vec<f64>>) -> Self {
        let mut all = builds.concat();
        let mut medians: Vec<f64> = builds.into_iter().map(|mut rounds| median(&mut rounds)).collect();
        medians.sort_by(f64::total_cmp);
        Spread {
            median: median(&mut all),
            lowest: medians.first().copied().unwrap_or(f64::NAN),
            highest: medians.last().copied().unwrap_or(f64::NAN),
        }
    }
}
