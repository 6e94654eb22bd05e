//! Arguments that several commands take.

use std::num::NonZeroU64;

use clap::{Args, ValueEnum};
use ebbpool_device::arrivals::Rate;
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_lab::{Counting, parse_warmup};
use ebbpool_policy::split_list;
use ebbpool_sim::{AtEnd, Warmup};
use ebbpool_trace::{Columns, Format, ReadOptions, Source};

use crate::failure::Failure;

#[derive(Args)]
pub(crate) struct Ending {
    /// What becomes of pages dirty at the end: left uncounted, or written and counted
    #[arg(long, value_enum, default_value_t = AtEndArg::Free)]
    at_end: AtEndArg,
}

impl Ending {
    pub(crate) fn at_end(&self) -> AtEnd {
        match self.at_end {
            AtEndArg::Free => AtEnd::Free,
            AtEndArg::Flush => AtEnd::Flush,
        }
    }
}

#[derive(Args)]
pub(crate) struct Working {
    /// Worker threads [default: all cores]; the results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

impl Working {
    /// Nothing for all cores.
    pub(crate) fn threads(&self) -> Option<usize> {
        self.threads.map(usize::from)
    }
}

#[derive(Args)]
pub(crate) struct CountingArgs {
    /// References at the start that count nothing
    #[arg(long, value_name = "N|P%", default_value = "0", value_parser = parse_warmup)]
    warmup: Warmup,
    #[command(flatten)]
    ending: Ending,
    /// Pages per cluster when cluster switches are counted
    #[arg(long, value_name = "PAGES", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    cluster_size: u64,
    #[command(flatten)]
    pub(crate) working: Working,
    /// References a second that come to the device: it waits for them where it is faster, which
    /// counts in its energy and empties an SLC cache [default: each comes when the one before is
    /// served]
    #[arg(long, value_name = "PER-SECOND", requires = "device")]
    rate: Option<Rate>,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

impl CountingArgs {
    pub(crate) fn counting(&self) -> Counting {
        Counting {
            warmup: self.warmup,
            at_end: self.ending.at_end(),
            cluster_size: self.cluster_size,
            rate: self.rate,
        }
    }
}

const READING: &str = "Reading traces (docs/traces.md)";

/// How traces are read, alike for every command that reads some.
#[derive(Args)]
pub(crate) struct Reading {
    /// Format of a trace that does not tell its own: native, text, u32, csv, spc, msr, vscsi,
    /// oracleGeneral, lcs, fio, blkparse, lirs or arc
    #[arg(long, help_heading = READING, value_name = "FORMAT")]
    trace_format: Option<Format>,
    /// Columns of a CSV, such as page=blk,write=op:W or offset=off,size=len,write=rw
    /// [default: guessed from their names]
    #[arg(long, help_heading = READING, value_name = "ROLE=COLUMN,…")]
    columns: Option<Columns>,
    /// Page size: folds pages of another size; turns bytes of requests into pages
    #[arg(long, help_heading = READING, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    page_size: Option<u64>,
    /// Malformed lines to leave out at most, in formats of lines
    #[arg(long, help_heading = READING, value_name = "N", default_value_t = 0)]
    skip_bad_lines: u64,
    /// The traces named are parts of one trace, in order
    #[arg(long, help_heading = READING)]
    concat: bool,
    /// References to leave out at the start of each trace
    #[arg(long, help_heading = READING, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// References to read at most of each trace
    #[arg(long, help_heading = READING, value_name = "N")]
    limit: Option<u64>,
}

impl Reading {
    pub(crate) fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.trace_format,
            columns: self.columns.clone(),
            page_size: self.page_size.and_then(NonZeroU64::new),
            bad_lines: self.skip_bad_lines,
            skip: self.skip,
            limit: self.limit,
        }
    }

    /// The traces named, or with `--concat` the one that they are parts of.
    pub(crate) fn sources(&self, traces: &[String]) -> Result<Vec<Source>, Failure> {
        let options = self.options();
        if self.concat && !traces.is_empty() {
            return Ok(vec![Source::concat(traces, &options)?]);
        }
        let parse = |trace: &String| Source::parse_with(trace, &options);
        Ok(traces.iter().map(parse).collect::<Result<_, _>>()?)
    }

    /// The one trace that is named.
    pub(crate) fn source(&self, traces: &[String]) -> Result<Source, Failure> {
        match <[Source; 1]>::try_from(self.sources(traces)?) {
            Ok([source]) => Ok(source),
            Err(sources) => Err(Failure::Usage(format!(
                "{} traces are named, and this command takes one; if they are parts of one trace, add --concat",
                sources.len()
            ))),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunFormat {
    Table,
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
enum AtEndArg {
    Free,
    Flush,
}

/// Asymmetries separated by commas; one may have parameters, as policies in a list have.
#[derive(Clone, Debug)]
pub(crate) struct AsymmetryList(pub(crate) Vec<AsymmetrySpec>);

impl std::str::FromStr for AsymmetryList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let items = split_list(text);
        if items.is_empty() {
            return Err("no asymmetry is named; give some, such as 8,32 or rm1:base=25".into());
        }
        let parse = |item: &String| item.parse::<AsymmetrySpec>();
        let specs: Result<_, _> = items.iter().map(parse).collect();
        specs.map(AsymmetryList).map_err(|error| error.to_string())
    }
}
