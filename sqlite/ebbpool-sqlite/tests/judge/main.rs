//! A judge of the library: random programs in two worlds, over plain SQLite and over the library, which must not differ
//! except where the library's price says so.
//!
//! Files, processes and power cuts are simulated, so that a program takes milliseconds and a seed repeats it.

mod actor;
mod bench;
mod driver;
mod generate;
mod history;
mod lockstep;
mod machine;
mod pasted;
mod points;
mod price;
mod real;
mod real_programs;
#[path = "../support/shim.rs"]
mod shim;
mod shrink;
mod sql;
mod step;
mod trace;
mod unusual;
mod world;

use bench::Bench;
use price::Tally;

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Random programs, as many as `EBBPOOL_SECONDS` of processor time allow or `EBBPOOL_PROGRAMS` says, from
/// `EBBPOOL_FIRST_SEED` on. `EBBPOOL_SEED` runs one. With `EBBPOOL_SURVEY` all differences are listed.
#[test]
fn the_library_answers_as_plain_sqlite_does() {
    driver::drive("connections", 100);
}

/// A process of programs: `EBBPOOL_JUDGE` has the first seed and the distance to the next one.
#[test]
#[ignore = "runs in processes of its own"]
fn worker() {
    driver::work();
}

/// A process of a program of processes.
#[test]
#[ignore = "runs in processes of its own"]
fn actor() {
    actor::live();
}

/// Random programs of processes: `EBBPOOL_PROGRAMS` and the others as above.
#[test]
fn processes_find_what_plain_sqlite_leaves() {
    driver::drive("processes", 50);
}

/// Programs that showed a difference once.
#[test]
fn programs_of_the_past_show_no_difference() {
    let bench = Bench::new();
    for program in pasted::programs() {
        if let Err(finding) = lockstep::run(&bench, &program, &mut Tally::default()) {
            panic!("{}\n{}", program.show(), finding.why);
        }
    }
}
