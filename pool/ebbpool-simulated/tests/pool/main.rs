//! The pool under simulated threads: one seed decides what the threads do, in which order they run, which errors the
//! storage returns and when the power fails. A model knows the content that every page must have.
//!
//! `EBBPOOL_SEED=n` runs one seed, `EBBPOOL_SEEDS=n` the seeds from 1 to n, or n seeds from `EBBPOOL_FIRST_SEED` on;
//! without them the test runs as many seeds as 6 s of processor time allow, or 60 with `EBBPOOL_WHOLE=1` (`EBBPOOL_SECONDS`). With
//! `EBBPOOL_SURVEY=1` failing seeds are counted by their kind of failure.

extern crate ebbpool_simulated as ebbpool;

mod case;
mod client;
mod coverage;
mod disk;
mod fixes;
mod harness;
mod kinds;
mod life;
mod model;
mod options;
mod policies;
#[path = "../../../ebbpool/tests/crash/settings.rs"]
mod settings;
mod wal;

use std::sync::Arc;

use ebbpool_simulation::{Failure, Simulation, SimulationOutcome};

use case::{Case, Kind};
use harness::Scenario;
use model::Tally;

impl Scenario for Case {
    type Tally = Tally;

    fn new(seed: u64) -> Self {
        Case::new(seed)
    }

    fn run(&self, simulation: &Simulation) -> Result<SimulationOutcome<Tally>, Failure> {
        let case = Arc::new(self.clone());
        simulation.run(move || match case.kind {
            Kind::General
            | Kind::OneHome
            | Kind::Syncs
            | Kind::Torn
            | Kind::Window
            | Kind::Sweep
            | Kind::Landing
            | Kind::Resizing => life::run(&case),
            Kind::Queue => kinds::a_writer_that_goes_on_to_wait(&case),
            Kind::Unwritable => kinds::unwritable_pages(&case),
            Kind::Busy => kinds::busy_page(&case),
            Kind::Idle => kinds::idle(&case),
            Kind::Readers => kinds::a_writer_among_readers(&case),
            Kind::Pins => kinds::all_pins(&case),
            Kind::Sequence => kinds::in_sequence(&case),
            Kind::ReadOnly => kinds::read_only(&case),
            Kind::CutFile => kinds::cut_file(&case),
            Kind::Farewell => kinds::farewell(),
        })
    }

    fn label(&self) -> String {
        format!("{:?}", self.kind)
    }

    /// Smaller cases, each without one life, without some steps of a client, or with less happening in a life.
    fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        let mut without = |change: &dyn Fn(&mut Case)| {
            let mut case = self.clone();
            change(&mut case);
            smaller.push(case);
        };
        for life in 0..self.lives.len() {
            if self.lives.len() > 1 {
                without(&|case| drop(case.lives.remove(life)));
            }
            let scripts = &self.lives[life].scripts;
            for (client, script) in scripts.iter().enumerate() {
                if !script.is_empty() {
                    without(&|case| case.lives[life].scripts[client].clear());
                }
            }
            for (client, script) in scripts.iter().enumerate() {
                let length = script.len();
                let mut part = length / 2;
                while part > 0 {
                    for from in (0..length).step_by(part) {
                        let to = (from + part).min(length);
                        without(&|case| drop(case.lives[life].scripts[client].drain(from..to)));
                    }
                    part /= 2;
                }
            }
            for calmer in self.lives[life].calmer() {
                without(&|case| case.lives[life] = calmer.clone());
            }
        }
        smaller
    }

    fn add(total: &mut Tally, tally: &Tally) {
        total.add(tally);
    }
}

#[test]
fn no_guarantee_is_broken() {
    harness::test::<Case>("-p ebbpool-simulated --test pool");
}

#[test]
fn a_run_is_repeated_exactly() {
    harness::repeats_exactly::<Case>(300);
}
