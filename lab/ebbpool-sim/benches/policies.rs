//! Million references per second of each policy: 20 M references, Zipf 1.0 over 1 M pages, 100 k
//! frames, one worker thread (decoding has its own thread); see `docs/performance.md`.
//!
//! `cargo bench -p ebbpool-sim`, or with fewer references and only some policies
//! `cargo bench -p ebbpool-sim -- 2000000 lru cfdc`. `EBBPOOL_BENCH_REFS` does the same as the number. The times
//! are of whole simulations, from opening the trace to the last count; the result to compare is the
//! ratio of CPU times to lru in the same run.

mod cpu;

use std::env;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ebbpool_policy::{PolicySpec, registry};
use ebbpool_sim::{PassControl, SimCell, SimOptions, simulate};
use ebbpool_trace::{Batch, Format, Source, Writer};

const FRAMES: u64 = 100_000;
const RUNS: usize = 3;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

type AnyError = Box<dyn std::error::Error>;

/// The number of references and the policies that the arguments name, lru first.
fn requested(arguments: &[String]) -> Result<(u64, Vec<PolicySpec>), AnyError> {
    let mut references: u64 = match env::var("EBBPOOL_BENCH_REFS") {
        Ok(number) => number.parse()?,
        Err(_) => 20_000_000,
    };
    let mut specs: Vec<PolicySpec> = Vec::new();
    for argument in arguments.iter().filter(|a| !a.starts_with("--")) {
        match argument.parse() {
            Ok(number) => references = number,
            Err(_) => specs.push(argument.parse()?),
        }
    }
    if specs.is_empty() {
        let online = registry::entries().iter().filter(|entry| entry.online());
        specs.extend(online.map(PolicySpec::from_entry));
        specs.push("fd-buffer:group=64".parse()?);
        specs.push("belady".parse()?);
    }
    let lru: PolicySpec = "lru".parse()?;
    specs.retain(|spec| spec.to_string() != lru.to_string());
    specs.insert(0, lru);
    Ok((references, specs))
}

/// Writes the trace of a generator to a file.
fn write_trace(generator: &str, path: &Path) -> Result<Source, AnyError> {
    let mut reader = Source::parse(generator, None)?.open()?;
    let mut writer = Writer::create(path, Format::U32, reader.metadata())?;
    let mut batch = Batch::new();
    while reader.next_batch(&mut batch, 1 << 16)? {
        writer.write(&batch)?;
    }
    writer.finish()?;
    let path = path.to_str().ok_or("a path that is not text")?;
    Ok(Source::parse(path, None)?)
}

/// Of one policy: million references per second and per CPU second of each run, and the miss ratio.
#[derive(Clone, Default)]
struct Speed {
    wall: Vec<f64>,
    cpu: Vec<f64>,
    miss_ratio: f64,
}

fn measure(source: &Source, references: u64, specs: &[PolicySpec]) -> Result<Vec<Speed>, AnyError> {
    let stop = AtomicBool::new(false);
    let progress = PassControl { report: &|_| {}, stop: &stop };
    // Round by round, so that other load on the machine affects all policies alike.
    let mut speeds = vec![Speed::default(); specs.len()];
    for _ in 0..RUNS {
        for (speed, spec) in speeds.iter_mut().zip(specs) {
            let cell = SimCell { policy: spec.clone().into(), frames: FRAMES, asymmetry: 32.0 };
            let (start, cpu_start) = (Instant::now(), cpu::seconds()?);
            let outcome = simulate(source, &[cell], &SimOptions::default(), &progress)?;
            let seconds = start.elapsed().as_secs_f64();
            speed.wall.push(references as f64 / 1e6 / seconds);
            let cpu_seconds = cpu::seconds()? - cpu_start;
            speed.cpu.push(references as f64 / 1e6 / cpu_seconds);
            speed.miss_ratio = outcome.counts[0].misses as f64 / references as f64;
        }
    }
    Ok(speeds)
}

fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // `cargo test --all-targets` runs this too, without the flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let (references, specs) = requested(&arguments)?;
    let directory = tempfile::tempdir()?;
    let zipf = format!("zipf:pages=1000000,refs={references},read-alpha=1,write=0.3");
    let source = write_trace(&zipf, &directory.path().join("zipf.u32"))?;
    let speeds = measure(&source, references, &specs)?;

    println!("{zipf}, {FRAMES} frames, median of {RUNS}");
    println!("{:<24} {:>14} {:>16} {:>10} {:>10}", "policy", "million refs/s", "M refs/CPU s", "times lru", "misses");
    let of_lru = median(speeds[0].cpu.clone());
    for (spec, speed) in specs.iter().zip(speeds) {
        let rate = median(speed.wall);
        let cpu = median(speed.cpu);
        println!("{:<24} {rate:>14.1} {cpu:>16.1} {:>10.2} {:>9.2}%", spec.to_string(), of_lru / cpu, 100.0 * speed.miss_ratio);
    }
    Ok(())
}
