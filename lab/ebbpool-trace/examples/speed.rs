//! Measures decoding, encoding and generating:
//! `cargo run --release -p ebbpool-trace --example speed -- TRACE…`
//!
//! With `--write FORMAT PATH` in front, writes the first trace to PATH.

use std::hint::black_box;
use std::time::Instant;

use ebbpool_trace::stats::Collector;
use ebbpool_trace::{Batch, Format, Source, TraceError, Writer};

const BATCH: usize = 1 << 14;

fn main() -> Result<(), TraceError> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.len() >= 4 && arguments[0] == "--write" {
        let rest = arguments.split_off(3);
        write(&rest[0], arguments[1].parse()?, &arguments[2])?;
        return Ok(());
    }
    for argument in &arguments {
        let source = Source::parse(argument, None)?;
        for round in 0..3 {
            let opening = Instant::now();
            let mut reader = source.open()?;
            let opened = opening.elapsed().as_secs_f64();
            let mut batch = Batch::with_capacity(BATCH);
            let mut references = 0;
            let reading = Instant::now();
            while reader.next_batch(&mut batch, BATCH)? {
                references += batch.len();
                black_box(&batch);
            }
            let seconds = reading.elapsed().as_secs_f64();
            println!(
                "{argument} #{round}: opened in {opened:.3} s, {references} references at {:.1} M/s",
                references as f64 / seconds / 1e6
            );
        }
        let mut reader = source.open()?;
        let mut collector = Collector::new();
        let mut batch = Batch::with_capacity(BATCH);
        let collecting = Instant::now();
        while reader.next_batch(&mut batch, BATCH)? {
            collector.add(&batch)?;
        }
        let info = collector.info(None);
        println!(
            "{:.1} M/s with statistics: {} distinct pages",
            info.references as f64 / collecting.elapsed().as_secs_f64() / 1e6,
            info.distinct_pages
        );
    }
    Ok(())
}

/// Compression level, from the environment.
fn level() -> Option<i32> {
    std::env::var("LEVEL").ok()?.parse().ok()
}

fn write(from: &str, format: Format, to: &str) -> Result<(), TraceError> {
    let mut reader = Source::parse(from, None)?.open()?;
    let mut writer = Writer::create_with(to, format, reader.metadata(), level())?;
    let mut batch = Batch::with_capacity(BATCH);
    let writing = Instant::now();
    while reader.next_batch(&mut batch, BATCH)? {
        writer.write(&batch)?;
    }
    let written = writer.finish()?;
    let seconds = writing.elapsed().as_secs_f64();
    println!("{to}: {written:?} in {seconds:.2} s");
    Ok(())
}
