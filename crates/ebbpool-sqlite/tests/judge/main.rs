//! A judge of the library: random programs in two worlds, over plain SQLite and over the library, which must not differ
//! except where the library's price says so.
//!
//! Files, processes and power cuts are simulated, so that a program takes milliseconds and a seed repeats it.

mod generate;
mod history;
mod lockstep;
mod machine;
mod points;
mod price;
mod shrink;
mod sql;
mod step;
mod unusual;
mod world;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use lockstep::Bench;
use price::{PRICES, Tally};

/// The seconds of processor time that a test takes unless `EBBPOOL_SECONDS` says otherwise.
const SECONDS: u64 = 60;

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

#[test]
fn one_seed() {
    let Some(seed) = setting("EBBPOOL_SEED") else {
        return;
    };
    let bench = Bench::new();
    let program = generate::program(seed);
    let mut tally = Tally::default();
    println!("{:?} {}", generate::theme(seed), program.show());
    if let Err(finding) = lockstep::run(&bench, &program, &mut tally) {
        println!("{finding:?}");
        let (program, finding) = shrink::shrink(&bench, &program, &finding);
        panic!("{}\n{}", program.show(), finding.why);
    }
    println!("{tally:?}");
}

#[test]
fn many_seeds() {
    let bench = Bench::new();
    let mut tally = Tally::default();
    let first = setting("EBBPOOL_FIRST_SEED").unwrap_or(1);
    let count = setting("EBBPOOL_SEEDS").unwrap_or(200);
    let mut kinds = BTreeMap::<String, (u64, u64, String)>::new();
    for seed in first..first + count {
        let program = generate::program(seed);
        if let Err(finding) = lockstep::run(&bench, &program, &mut tally) {
            let kind = shrink::kind(&finding);
            if let Some(known) = kinds.get_mut(&kind) {
                known.0 += 1;
                if finding.is_hang {
                    break;
                }
                continue;
            }
            let (program, finding) = shrink::shrink(&bench, &program, &finding);
            println!(
                "seed {seed} {:?}: {}\n{}",
                generate::theme(seed),
                finding.why,
                program.show()
            );
            kinds.insert(kind, (1, seed, finding.why.clone()));
            if finding.is_hang {
                break;
            }
        }
    }
    for (kind, (count, seed, why)) in &kinds {
        println!("{count} x {kind} (first {seed}): {why}");
    }
    println!("{tally:?}");
}

#[test]
fn pasted() {
    #[allow(unused_imports)]
    use points::{Event::*, Point};
    #[allow(unused_imports)]
    use step::{Database::*, How::*, Opening, Operation::*, Program, Step::*, Work, Wrong};
    let programs = include!("pasted.rs");
    let bench = Bench::new();
    for program in programs {
        println!(
            "{:?}",
            lockstep::run(&bench, &program, &mut Tally::default())
        );
    }
}
