//! Compares a pool that reports every hit to its policy (`exact_hits(true)`) with one that does not: misses, writes
//! and the bill of a trace, as a Markdown table.
//!
//! ```text
//! cargo run --release -p ebbpool --example leaving_hits_out -- TRACE SHARES ASYMMETRIES POLICY...
//! cargo run --release -p ebbpool --example leaving_hits_out -- lab/ebbpool-trace/traces/pg-tpcc.parquet 0.01,0.05 1,8,32 ebb lru
//! ```
//!
//! Shares are the pool's frames as a share of the pages that the trace touches; asymmetries are costs of a write in
//! reads.

use std::collections::HashSet;
use std::error::Error;
use std::io;
use std::time::Duration;

use ebbpool::storage::{Read, Storage, Write};
use ebbpool::{PageFormat, PoolOptions};
use ebbpool_cost::{Asymmetry, OperationCosts};
use ebbpool_trace::{Batch, Source};

/// The number of references that are decoded at a time.
const BATCH: usize = 1 << 16;

/// A storage without memory, since only the counts matter.
struct Blank {
    pages: u64,
}

impl Storage for Blank {
    fn page_size(&self) -> usize {
        64
    }
    fn pages(&self) -> io::Result<u64> {
        Ok(self.pages)
    }
    fn grow(&self, _pages: u64) -> io::Result<()> {
        Ok(())
    }
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        reads.iter_mut().for_each(|read| read.outcome = Ok(()));
        None
    }
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        writes.iter_mut().for_each(|write| write.outcome = Ok(()));
        None
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn describe(&self) -> String {
        "blank".into()
    }
}

/// A trace, and the number of pages that it may touch.
struct Trace {
    references: Vec<(u64, bool)>,
    pages: u64,
}

impl Trace {
    fn read(source: &str) -> Result<Self, Box<dyn Error>> {
        let mut reader = Source::parse(source, None)?.open()?;
        let mut batch = Batch::with_capacity(BATCH);
        let mut references = Vec::new();
        loop {
            let more = reader.next_batch(&mut batch, BATCH)?;
            references.extend(batch.iter());
            if !more {
                break;
            }
        }
        let highest = references.iter().map(|&(page, _)| page).max();
        Ok(Trace { references, pages: highest.map_or(0, |page| page.saturating_add(1)) })
    }

    fn distinct(&self) -> usize {
        let pages: HashSet<u64> = self.references.iter().map(|&(page, _)| page).collect();
        pages.len()
    }

    /// Replays the trace in a pool; returns misses and writes.
    fn replay(&self, policy: &str, frames: u32, asymmetry: Asymmetry, exact: bool) -> Result<(u64, u64), ebbpool::PoolError> {
        let pool = PoolOptions::new(frames)
            .policy(policy)?
            .format(PageFormat::Raw)
            .background(false)
            .dirty_budget(1.0, Duration::ZERO)
            .fixed_costs(OperationCosts::from(asymmetry))
            .exact_hits(exact)
            .open(Blank { pages: self.pages })?;
        for &(page, write) in &self.references {
            match write {
                true => drop(pool.fix_write(page)?),
                false => drop(pool.fix_read(page)?),
            }
        }
        let stats = pool.stats();
        Ok((stats.misses, stats.writes()))
    }
}

fn per_cent(exact: f64, found: f64) -> f64 {
    (found / exact - 1.0) * 100.0
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, shares, asymmetries, policies @ ..] = arguments.as_slice() else {
        return Err("give a trace, shares, asymmetries, and policies".into());
    };
    let trace = Trace::read(source)?;
    let distinct = trace.distinct() as f64;
    println!("| policy | frames | R | misses | writes | misses | writes | bill |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for policy in policies {
        for share in shares.split(',') {
            let frames = (distinct * share.parse::<f64>()?).max(1.0) as u32;
            for r in asymmetries.split(',') {
                let asymmetry: Asymmetry = r.parse()?;
                let exact = trace.replay(policy, frames, asymmetry, true)?;
                let asymmetry: Asymmetry = r.parse()?;
                let found = trace.replay(policy, frames, asymmetry, false)?;
                let r: f64 = r.parse()?;
                let bill = |(misses, writes): (u64, u64)| misses as f64 + r * writes as f64;
                println!(
                    "| {policy} | {frames} | {r} | {} | {} | {:+.2} % | {:+.2} % | {:+.2} % |",
                    exact.0,
                    exact.1,
                    per_cent(exact.0 as f64, found.0 as f64),
                    per_cent(exact.1 as f64, found.1 as f64),
                    per_cent(bill(exact), bill(found)),
                );
            }
        }
    }
    Ok(())
}
