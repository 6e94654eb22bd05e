//! How CPU time grows with the references, at 100 k frames, and with the frames, at 20 M references.
//!
//! `cargo bench -p ebbpool-sim --bench growth`, or with other policies `cargo bench -p ebbpool-sim
//! --bench growth -- lru sieve`. A generator makes the references, which are not stored;
//! `generator` is the time of generating them and of numbering pages, which the other columns
//! contain too.

mod cpu;

use std::env;
use std::sync::atomic::AtomicBool;

use ebbpool_policy::{Foresight, PolicySpec};
use ebbpool_sim::{PassControl, SimCell, SimOptions, scan, simulate};
use ebbpool_trace::Source;

const REFERENCES: [u64; 4] = [100_000, 1_000_000, 10_000_000, 100_000_000];
const FRAMES: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Short traces are repeated until this many references have been served, since CPU time is
/// measured in ticks of 10 ms.
const SERVED: u64 = 10_000_000;

/// One row: nanoseconds of CPU time per reference, for the generator and for each policy.
fn row(pages: u64, references: u64, frames: u64, policies: &[PolicySpec]) -> Result<String, Box<dyn std::error::Error>> {
    let stop = AtomicBool::new(false);
    let progress = PassControl { report: &|_| {}, stop: &stop };
    let spec = format!("zipf:pages={pages},refs={references},read-alpha=1,write=0.3");
    let source = Source::parse(&spec, None)?;
    // A generator computes its tables when it is first opened.
    drop(source.open()?);
    let runs = (SERVED / references).max(1);
    let nanoseconds = |seconds: f64| format!(" {:.0} |", seconds * 1e9 / (runs * references) as f64);
    let start = cpu::seconds()?;
    for _ in 0..runs {
        scan(&source, Foresight::Nothing, &progress)?;
    }
    let mut row = nanoseconds(cpu::seconds()? - start);
    for policy in policies {
        let cell = SimCell { policy: policy.clone().into(), frames, asymmetry: 32.0 };
        let start = cpu::seconds()?;
        let cells = [cell];
        for _ in 0..runs {
            simulate(&source, &cells, &SimOptions::default(), &progress)?;
        }
        row += &nanoseconds(cpu::seconds()? - start);
    }
    Ok(row)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // `cargo test --all-targets` runs this too, without the flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let named = arguments.iter().filter(|a| !a.starts_with("--"));
    let mut policies: Vec<PolicySpec> = named.map(|name| name.parse()).collect::<Result<_, _>>()?;
    if policies.is_empty() {
        for name in ["lru", "cfdc", "fd-buffer:group=64"] {
            policies.push(name.parse()?);
        }
    }
    let header = |first: &str| {
        let names: String = policies.iter().map(|p| format!(" {p} |")).collect();
        println!("| {first} | generator |{names}");
        println!("|{}", " --- |".repeat(policies.len() + 2));
    };
    header("references, 1 M pages, 100 k frames");
    for references in REFERENCES {
        println!("| {references} |{}", row(1_000_000, references, 100_000, &policies)?);
    }
    println!();
    header("frames, 4 pages a frame, 20 M references");
    for frames in FRAMES {
        println!("| {frames} |{}", row(4 * frames, 20_000_000, frames, &policies)?);
    }
    Ok(())
}
