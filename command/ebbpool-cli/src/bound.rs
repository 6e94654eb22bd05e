//! `ebbpool bound`: computes a lower bound of the bill.

pub(crate) mod args;
mod table;

use std::io::{self, Write};

use ebbpool_lab::schema;

use crate::failure::Failure;
use crate::progress::Console;
use crate::results;
use crate::shared_args::RunFormat;
use args::BoundArgs;

pub(crate) fn bound(args: &BoundArgs) -> Result<(), Failure> {
    let request = args.request()?;
    let source = args.reading.source(&args.traces)?;
    let console = Console::default();
    let lab = results::lab(&console, args.threads.count(), !args.no_cache);
    let bounds = lab.bound(&source, &request)?;
    let mut out = io::stdout().lock();
    match (args.format, bounds.as_slice()) {
        (RunFormat::Table, bounds) => write!(out, "{}", table::of_bounds(bounds))?,
        (RunFormat::Json, [bound]) => schema::write_json(&mut out, bound)?,
        (RunFormat::Json, bounds) => schema::write_json(&mut out, bounds)?,
    }
    let done = bounds.iter().filter(|bound| !bound.interrupted).count();
    match done == bounds.len() {
        true => Ok(()),
        false => Err(Failure::Interrupted {
            done,
            all: bounds.len(),
            hint: "; the printed bounds hold, but more time would tighten them",
        }),
    }
}
