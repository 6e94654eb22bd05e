//! Million references a second of each policy: 20 M references, Zipf 1.0 over 1 M pages, 100 k
//! frames, one worker thread (decoding has its own); see `docs/performance.md`.
//!
//! `cargo bench -p ebbpool-sim`, or with fewer references and only some policies
//! `cargo bench -p ebbpool-sim -- 2000000 lru cfdc`. `EBBPOOL_BENCH_REFS` does the same as the
//! number. Whole simulations are timed, opening the trace to the last count; what counts is the
//! ratio of CPU times to lru in the same run.

mod cpu;

use std::env;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ebbpool_policy::{PolicySpec, registry};
use ebbpool_sim::{Cell, Options, Progress, simulate};
use ebbpool_trace::{Batch, Format, Source, Writer};

const FRAMES: u64 = 100_000;
const RUNS: usize = 3;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // `cargo test --all-targets` runs this too, without the flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
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
        let online = registry::entries().iter().filter(|entry| entry.online);
        specs.extend(online.map(PolicySpec::of));
        specs.push("fd-buffer:group=64".parse()?);
        specs.push("belady".parse()?);
    }
    let lru: PolicySpec = "lru".parse()?;
    specs.retain(|spec| spec.to_string() != lru.to_string());
    specs.insert(0, lru);

    let directory = tempfile::tempdir()?;
    let path = directory.path().join("zipf.u32");
    let zipf = format!("zipf:pages=1000000,refs={references},read-alpha=1,write=0.3");
    let mut reader = Source::parse(&zipf, None)?.open()?;
    let mut writer = Writer::create(&path, Format::U32, reader.metadata())?;
    let mut batch = Batch::new();
    while reader.next_batch(&mut batch, 1 << 16)? {
        writer.write(&batch)?;
    }
    writer.finish()?;
    let source = Source::parse(path.to_str().ok_or("a path that is not text")?, None)?;

    let stop = AtomicBool::new(false);
    let progress = Progress {
        report: &|_| {},
        stop: &stop,
    };
    // Round by round, so that what else the machine does hits all policies alike.
    let mut wall = vec![Vec::new(); specs.len()];
    let mut cpu = vec![Vec::new(); specs.len()];
    let mut miss_ratios = vec![0.0; specs.len()];
    for _ in 0..RUNS {
        for (at, spec) in specs.iter().enumerate() {
            let cell = Cell {
                policy: spec.clone(),
                frames: FRAMES,
                asymmetry: 32.0,
            };
            let (start, cpu_start) = (Instant::now(), cpu::seconds()?);
            let outcome = simulate(&source, &[cell], &Options::default(), &progress)?;
            let seconds = start.elapsed().as_secs_f64();
            wall[at].push(references as f64 / 1e6 / seconds);
            cpu[at].push(references as f64 / 1e6 / (cpu::seconds()? - cpu_start));
            miss_ratios[at] = outcome.counts[0].misses as f64 / references as f64;
        }
    }

    println!("{zipf}, {FRAMES} frames, median of {RUNS}");
    println!(
        "{:<24} {:>14} {:>16} {:>10} {:>10}",
        "policy", "million refs/s", "M refs/CPU s", "times lru", "misses"
    );
    let of_lru = median(cpu[0].clone());
    for (at, spec) in specs.iter().enumerate() {
        let rate = median(wall[at].clone());
        let cpu = median(cpu[at].clone());
        println!(
            "{:<24} {rate:>14.1} {cpu:>16.1} {:>10.2} {:>9.2}%",
            spec.to_string(),
            of_lru / cpu,
            100.0 * miss_ratios[at]
        );
    }
    Ok(())
}
