//! Measures the number of short runs per second, and the time of steps and switches.
//!
//! `cargo run --release -p ebbpool-simulation --example scheduler_speed`

use std::sync::Arc;
use std::time::Instant;

use ebbpool_simulation::{AtomicU64, Ordering, Simulation, thread};

fn main() {
    for (threads, steps) in [(3, 100), (3, 1000), (3, 100_000)] {
        let runs = 2_000_000 / (threads * steps).max(2000);
        let (mut total_steps, mut switches) = (0, 0);
        let begin = Instant::now();
        for seed in 0..runs {
            let outcome = Simulation::new(seed).run(move || {
                let count = Arc::new(AtomicU64::new(0));
                let threads = (0..threads).map(|_| {
                    let count = Arc::clone(&count);
                    thread::spawn(move || {
                        for _ in 0..steps {
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                });
                let threads: Vec<_> = threads.collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            });
            let outcome = outcome.unwrap();
            total_steps += outcome.steps;
            switches += outcome.switches;
        }
        let took = begin.elapsed();
        println!(
            "{threads} threads of {steps} steps: {runs} runs in {took:?}, {:.0} runs/s, {:.1} ns a step, {:.0} ns a switch ({switches} of {total_steps})",
            runs as f64 / took.as_secs_f64(),
            took.as_nanos() as f64 / total_steps as f64,
            took.as_nanos() as f64 / switches as f64,
        );
    }
}
