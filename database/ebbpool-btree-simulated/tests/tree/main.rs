//! The tree under simulated threads. One seed determines the steps of transactions, the order of threads,
//! the results of the storage, the closures that panic, and when the power fails. A model has the committed
//! changes.
//!
//! The settings are those of the pool's tests (`ebbpool-simulated`, `tests/pool`).

extern crate ebbpool_simulated as ebbpool;

mod case;
mod client;
#[path = "../../../../pool/ebbpool-simulated/tests/pool/disk.rs"]
mod disk;
#[path = "../../../../pool/ebbpool-simulated/tests/pool/harness.rs"]
mod harness;
mod kinds;
mod life;
mod model;
#[path = "../../../../pool/ebbpool-simulated/tests/pool/policies.rs"]
mod policies;
#[path = "../../../../pool/ebbpool/tests/crash/settings.rs"]
mod settings;

use std::collections::BTreeSet;
use std::sync::Arc;

use ebbpool_simulation::{Failure, Simulation, SimulationOutcome};

use case::{Case, CaseKind, Step};
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
            CaseKind::General | CaseKind::CutLog => life::run(&case),
            CaseKind::LongReaders => kinds::a_writer_among_readers_of_a_long_value(&case),
        })
    }

    fn label(&self) -> String {
        format!("{:?}", self.kind)
    }

    /// Smaller cases: each lacks one life, some steps of a client, some operations of a transaction, or one of the things
    /// that happen to a life.
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
            for (client, script) in self.lives[life].scripts.iter().enumerate() {
                if !script.is_empty() {
                    without(&|case| case.lives[life].scripts[client].clear());
                }
                let mut part = script.len() / 2;
                while part > 0 {
                    for from in (0..script.len()).step_by(part) {
                        let to = (from + part).min(script.len());
                        without(&|case| drop(case.lives[life].scripts[client].drain(from..to)));
                    }
                    part /= 2;
                }
                for (at, step) in script.iter().enumerate() {
                    let Step::Transaction { operations, .. } = step else {
                        continue;
                    };
                    for operation in 0..operations.len() {
                        without(&|case| {
                            let step = &mut case.lives[life].scripts[client][at];
                            if let Step::Transaction { operations, .. } = step {
                                operations.remove(operation);
                            }
                        });
                    }
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
fn no_promise_is_broken() {
    harness::test::<Case>("-p ebbpool-btree-simulated --test tree");
}

#[test]
fn every_policy_is_drawn() {
    let cases = (1..=20_000).map(Case::new);
    let lives = cases.flat_map(|case| case.lives);
    let drawn: BTreeSet<String> = lives.map(|life| life.options.policy).collect();
    for policy in policies::policies() {
        assert!(drawn.contains(&policy), "{policy} is not drawn");
    }
}

#[test]
fn a_run_is_repeated_exactly() {
    harness::repeats_exactly::<Case>(150);
}
