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
        let spawned = strings
            .iter()
            .map(|string| scope.spawn(move || serve(string)));
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
