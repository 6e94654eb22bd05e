//! Arguments that several commands take.

use std::io::{self, Write};
use std::num::NonZeroU64;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use ebbpool_cost::{ByteSize, ByteSizeError, spec};
use ebbpool_device::arrivals::Rate;
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_lab::{CheckpointSchedule, CountingRules};
use ebbpool_policy::split_list;
use ebbpool_sim::{AtEnd, Warmup};
use ebbpool_trace::{Columns, Format, ReadOptions, Source};
use serde::Serialize;

use crate::failure::Failure;
use crate::outputs;

/// A value with its spelling, for commands that repeat it.
#[derive(Clone, Debug)]
pub(crate) struct Spelled<T> {
    pub(crate) value: T,
    pub(crate) text: String,
}

impl<T: FromStr> FromStr for Spelled<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        Ok(Spelled { value: text.parse()?, text: text.trim().into() })
    }
}

#[derive(Args)]
pub(crate) struct AtEndArgs {
    /// Pages that are dirty at the end: written and counted, because a write that is put off is owed, or not written and
    /// free; those that were dirty when the counting began are subtracted
    #[arg(long, value_enum, default_value_t = AtEndArg::Flush)]
    at_end: AtEndArg,
}

impl AtEndArgs {
    pub(crate) fn at_end(&self) -> AtEnd {
        match self.at_end {
            AtEndArg::Free => AtEnd::Free,
            AtEndArg::Flush => AtEnd::Flush,
        }
    }
}

#[derive(Args)]
pub(crate) struct CheckpointArgs {
    /// Write all dirty pages at intervals, as a server's checkpoints do: after this time by the trace's own times (5min), after
    /// this many references (20000) or references that write (writes=20000), or after the first of several; a policy with
    /// checkpoints of its own has no others
    #[arg(long, value_name = "TIME|N|writes=N")]
    checkpoints: Option<CheckpointSchedule>,
}

impl CheckpointArgs {
    pub(crate) fn schedule(&self) -> Option<CheckpointSchedule> {
        self.checkpoints
    }
}

#[derive(Args)]
pub(crate) struct ThreadArgs {
    /// Worker threads [default: all cores]; the results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

impl ThreadArgs {
    /// The number of worker threads; `None` stands for one per core.
    pub(crate) fn count(&self) -> Option<usize> {
        self.threads.map(usize::from)
    }
}

#[derive(Args)]
pub(crate) struct CountingArgs {
    /// References at the start that are replayed but not counted
    #[arg(long, value_name = "N|P%", default_value = "0")]
    warmup: Warmup,
    #[command(flatten)]
    at_end: AtEndArgs,
    #[command(flatten)]
    checkpoints: CheckpointArgs,
    /// Pages per cluster when cluster switches are counted
    #[arg(long, value_name = "PAGES", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    cluster_size: u64,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
    /// References that arrive at the device per second, or per period, as in 300/min: a faster device waits,
    /// which counts in its energy and empties an SLC cache [default: each arrives when the previous one is
    /// served]
    #[arg(long, value_name = "N[/s]", requires = "device")]
    rate: Option<Rate>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

impl CountingArgs {
    pub(crate) fn counting(&self) -> CountingRules {
        let mut counting = CountingRules::default();
        counting.warmup = self.warmup;
        counting.at_end = self.at_end.at_end();
        counting.cluster_size = self.cluster_size;
        counting.rate = self.rate;
        counting.checkpoints = self.checkpoints.schedule();
        counting
    }
}

const READING: &str = "Reading traces (docs/traces.md)";

/// Options for reading traces, the same for every command that reads one.
#[derive(Args, Default)]
pub(crate) struct ReadArgs {
    /// Format of the trace, where its name and contents do not show it: native, text, u32, csv, spc, msr, vscsi,
    /// oracleGeneral, lcs, fio, blkparse, lirs, arc or rocksdb
    #[arg(long, help_heading = READING, value_name = "FORMAT")]
    trace_format: Option<Format>,
    /// Columns of a CSV, such as page=blk,write=op:W,class=rel,time=ts or volume=dev,offset=off,size=len,write=rw
    /// [default: guessed from their names]
    #[arg(long, help_heading = READING, value_name = "ROLE=COLUMN,…")]
    columns: Option<Columns>,
    /// Page size, such as 8192 or 8k: converts pages of another size, and byte ranges of requests, into such
    /// pages; of a trace that states no page size it is the size of its pages
    #[arg(long, help_heading = READING, value_name = "BYTES", value_parser = page_size)]
    page_size: Option<NonZeroU64>,
    /// Skip at most this many malformed lines, in formats that consist of lines
    #[arg(long, help_heading = READING, value_name = "N", default_value_t = 0)]
    skip_bad_lines: u64,
    /// The trace has only the requests that a cache did not answer, such as those of a device [default: as its format says,
    /// or offset= in --columns]
    #[arg(long, help_heading = READING, conflicts_with = "above_cache")]
    below_cache: bool,
    /// The trace has all requests, also those that a cache answered
    #[arg(long, help_heading = READING)]
    above_cache: bool,
    /// Each write replaces all of its page, so that a miss by a write reads nothing [default: as the sizes of requests say]
    #[arg(long, help_heading = READING)]
    whole_writes: bool,
    /// Read the named traces as parts of one trace, in this order
    #[arg(long, help_heading = READING, group = "joined")]
    concat: bool,
    /// Read the named traces, whose times are of one clock, as one trace in the order of these times
    #[arg(long, help_heading = READING, group = "joined")]
    merge: bool,
    /// With --concat and --merge: the parts are of several databases, and no page of one is a page of another
    #[arg(long, help_heading = READING, requires = "joined")]
    apart: bool,
    /// Skip this many references at the start of each trace
    #[arg(long, help_heading = READING, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// Read at most this many references of each trace
    #[arg(long, help_heading = READING, value_name = "N")]
    limit: Option<u64>,
}

impl ReadArgs {
    pub(crate) fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.trace_format,
            columns: self.columns.clone(),
            page_size: self.page_size,
            bad_lines: self.skip_bad_lines,
            skip: self.skip,
            limit: self.limit,
            below_cache: (self.below_cache || self.above_cache).then_some(self.below_cache),
            whole_writes: self.whole_writes,
            apart: self.apart,
            by_time: self.merge,
        }
    }

    /// The options as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let format = self.trace_format.map(|format| format.name().to_string());
        let number = |number: u64| (number > 0).then(|| number.to_string());
        let options = [
            ("--trace-format", format),
            ("--columns", self.columns.as_ref().map(ToString::to_string)),
            ("--page-size", self.page_size.map(|size| size.to_string())),
            ("--skip-bad-lines", number(self.skip_bad_lines)),
            ("--skip", number(self.skip)),
            ("--limit", self.limit.map(|limit| limit.to_string())),
        ];
        let mut words: Vec<String> =
            options.into_iter().filter_map(|(name, value)| Some([name.to_string(), value?])).flatten().collect();
        let flags = [
            ("--below-cache", self.below_cache),
            ("--above-cache", self.above_cache),
            ("--whole-writes", self.whole_writes),
            ("--concat", self.concat),
            ("--merge", self.merge),
            ("--apart", self.apart),
        ];
        words.extend(flags.iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| (*flag).to_string()));
        words
    }

    /// The named traces, or with `--concat` or `--merge` the single trace whose parts they are.
    pub(crate) fn sources(&self, traces: &[String]) -> Result<Vec<Source>, Failure> {
        let options = self.options();
        if (self.concat || self.merge) && !traces.is_empty() {
            return Ok(vec![Source::concat(traces, &options)?]);
        }
        let parse = |trace: &String| Source::parse_with(trace, &options);
        Ok(traces.iter().map(parse).collect::<Result<_, _>>()?)
    }

    /// The single trace of a command that takes one.
    pub(crate) fn source(&self, traces: &[String]) -> Result<Source, Failure> {
        match <[Source; 1]>::try_from(self.sources(traces)?) {
            Ok([source]) => Ok(source),
            Err(sources) => Err(Failure::Usage(format!(
                "this command takes one trace, and {} are named; if they are parts of one trace, add --concat, or --merge for the order of their times",
                sources.len()
            ))),
        }
    }
}

/// Reads the bytes of a page, above 0.
fn page_size(text: &str) -> Result<NonZeroU64, String> {
    let size: ByteSize = text.parse().map_err(|error: ByteSizeError| error.to_string())?;
    NonZeroU64::new(size.bytes()).ok_or_else(|| "a page has at least 1 byte; give its size, such as 8k".into())
}

/// Reads a number of bytes that fits into memory.
#[cfg(all(feature = "device", unix))]
pub(crate) fn byte_count(text: &str) -> Result<usize, String> {
    let size: ByteSize = text.parse().map_err(|error: ByteSizeError| error.to_string())?;
    usize::try_from(size.bytes()).map_err(|_| format!("{size} are more than this machine can address"))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunFormat {
    Table,
    Json,
}

impl RunFormat {
    /// Prints a result as JSON, or as the text of the function.
    ///
    /// # Errors
    ///
    /// If the output takes no more.
    pub(crate) fn print<R: Serialize>(self, result: &R, to_text: impl FnOnce(&R) -> String) -> io::Result<()> {
        let mut out = outputs::results();
        match self {
            RunFormat::Json => {
                serde_json::to_writer_pretty(&mut out, result)?;
                writeln!(out)
            }
            RunFormat::Table => out.write_all(to_text(result).as_bytes()),
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum AtEndArg {
    Free,
    Flush,
}

/// Asymmetries separated by commas. Each may have parameters, as policies in a list may.
#[derive(Clone, Debug)]
pub(crate) struct AsymmetryList(pub(crate) Vec<AsymmetrySpec>);

impl std::str::FromStr for AsymmetryList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let items = split_list(text);
        if items.is_empty() {
            return Err("no asymmetry is named; give some, such as 8,32 or rm1:base=25".into());
        }
        let parts = spec::parts(text).unwrap_or_default();
        if let Some(empty) = parts.iter().position(|part| part.is_empty()) {
            return Err(format!("item {} of '{text}' is empty; give an asymmetry there, or remove the comma", empty + 1));
        }
        let parse = |item: &String| item.parse::<AsymmetrySpec>();
        let specs: Result<_, _> = items.iter().map(parse).collect();
        specs.map(AsymmetryList).map_err(|error| error.to_string())
    }
}
