//! The command line.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use ebbpool_cost::{Asymmetry, Decimal};
use ebbpool_device::arrivals::Rate;
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_device::flash::FlashConfig;
use ebbpool_policy::{PolicySpec, registry, split_list};
use ebbpool_sim::{AtEnd, Size, Warmup};
use ebbpool_trace::{Columns, Format, ReadOptions, Source};

use crate::Failure;
use crate::charge::Abilities;
#[cfg(unix)]
use crate::db::args::DbArgs;
#[cfg(unix)]
use crate::measure::args::MeasureArgs;
#[cfg(unix)]
use crate::replay::args::PoolReplayArgs;
use crate::target::Target;

/// A buffer pool that knows what a write costs: which policy makes the bill smallest?
#[derive(Parser)]
#[command(name = "ebbpool", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ebbpool compare                                 the sample that ships with Ebbpool
  ebbpool compare my.parquet --frames 1%,5% --asymmetry 16
  ebbpool run my.txt --policy fd-buffer --frames 3%
  ebbpool policies                                what there is to choose from";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Compare policies over memory sizes and asymmetries
    #[command(after_help = "\
Examples:
  ebbpool compare
  ebbpool compare a.parquet b.u32.zst --policies lru,cflru:window=0.25,fd-exact
  ebbpool compare zipf:pages=50000,refs=500000,write-alpha=1.2 --policies all --format csv
  ebbpool compare my.parquet --asymmetry 8,rm1:base=25,epochs=100,rm2
  ebbpool compare my.parquet --device sd-a1 --report answer.html
  ebbpool compare my.parquet --device flash:slc-mt29f4g08aaa,blocks=64 --report wear.html")]
    Compare(CompareArgs),
    /// Tell reads, writes and bill against memory size, and how much memory a target takes
    #[command(after_help = "\
Examples:
  ebbpool curve my.parquet
  ebbpool curve my.parquet --policies lru,cflru,casa --sample 10% --format csv
  ebbpool curve my.parquet --policies lru,fd-buffer --target 'writes -50%' --baseline 3%
  ebbpool curve my.parquet --policies lru,cflru --target 'bill 1.5' --report curve.html
  ebbpool curve my.parquet --policies lru --clean-pools 3%")]
    Curve(CurveArgs),
    /// Run one policy over one trace
    #[command(after_help = "\
Examples:
  ebbpool run my.parquet --policy cfdc:cluster=16 --frames 8000 --asymmetry 32
  ebbpool run my.parquet --policy fd-buffer --frames 3% --format json
  ebbpool run my.parquet --policy casa --frames 3% --device flash-136
  ebbpool run my.parquet --policy fd-buffer --frames 3% --asymmetry rm2:base=25
  ebbpool run my.txt --policy lru --frames 100 --events events.txt --series series.csv")]
    Run(RunArgs),
    /// Run a trace through the pool, on a real file
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  ebbpool replay my.parquet --file pool.pages --create --policy casa --frames 3% --limit 20000
  ebbpool replay my.parquet --memory --policy cflru --frames 3% --asymmetry 32 --format json
  ebbpool replay my.parquet --memory --policies lru,cflru,casa --frames 3% --warmup 10%
  ebbpool replay my.parquet --memory --policy lru --frames 500 --threads 4 --background
  ebbpool replay my.parquet --memory --policy lru --frames 500 --record as-fixed.parquet")]
    Replay(PoolReplayArgs),
    /// Keep records in a database on the pool: load, put, get, dump, check, bench
    #[cfg(unix)]
    Db(DbArgs),
    /// Bound the bill from below: what no policy can undercut, and how near a clairvoyant comes
    #[command(after_help = "\
Examples:
  ebbpool bound my.parquet --frames 3%
  ebbpool bound my.parquet --frames 1%,3% --asymmetry 1,32 --format json
  ebbpool bound zipf:pages=10000,refs=100000 --frames 310 --at-end flush")]
    Bound(BoundArgs),
    /// Run the experiments of the five papers: their tables and figures, and what holds of them
    #[command(after_help = "\
Examples:
  ebbpool reproduce --list
  ebbpool reproduce cikm-table2
  ebbpool reproduce adlru-fig12 --policy arc,lru-k:k=3 --out figures
  ebbpool reproduce cikm-table2 cfdc-fig3 --format json")]
    Reproduce(ReproduceArgs),
    /// Describe, convert and generate traces
    Trace(TraceArgs),
    /// Drive a simulated flash device, or measure a real one
    #[command(after_help = "\
Examples:
  ebbpool device replay my.txt --device flash:slc-mt29f4g08aaa,precondition=full
  ebbpool device measure . --size 64MiB --seconds 0.02")]
    Device(DeviceArgs),
    /// List the policies and their parameters, or explain one
    #[command(after_help = "\
Examples:
  ebbpool policies
  ebbpool policies cfdc
  ebbpool policies fd-exact:group=64
  ebbpool policies --markdown")]
    Policies(PoliciesArgs),
    /// Print a script by which a shell completes ebbpool's commands, options and policies
    #[command(after_help = "\
Examples:
  ebbpool completions bash > ebbpool.bash         then: source ebbpool.bash
  ebbpool completions zsh > _ebbpool              in a directory of $fpath
  ebbpool completions fish > ebbpool.fish         in ~/.config/fish/completions")]
    Completions(CompletionsArgs),
    /// Write the manual pages into a directory
    #[command(after_help = "\
Example:
  ebbpool man .                                   then: man -l ebbpool.1")]
    Man(ManArgs),
    /// List the devices and what is known of them
    #[command(after_help = "\
Examples:
  ebbpool devices
  ebbpool devices flash-136
  ebbpool devices nvme-dc-9200 --format toml > my.toml
  ebbpool devices my.toml")]
    Devices(DevicesArgs),
}

/// The online policies that the five papers evaluate: what `compare` takes where none is named.
const OF_THE_PAPERS: &str = "fifo,lru,clock,cflru,cflru-c,lru-wsr,ccf-lru,ad-lru,casa,ref,cfdc,\
                             fd-static,fd-buffer";

/// The policy to take when one does not want to choose (`docs/choosing.md`).
const RECOMMENDED: &str = "ebb";

#[derive(Args)]
pub(crate) struct CompareArgs {
    /// Traces: files, - for standard input, or generators such as zipf:pages=10000,refs=1000000
    /// [default: the TPC-C sample]
    #[arg(value_name = "TRACE")]
    pub(crate) traces: Vec<String>,
    /// Policies, separated by commas; may be repeated; 'all' is every online policy
    /// [default: the online policies of the five papers; the table also has ebb]
    #[arg(long, value_name = "LIST")]
    policies: Vec<String>,
    /// Memory sizes: frames, or per cent of the database's pages
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "0.75%,1.5%,3%,6%"
    )]
    pub(crate) frames: Vec<SizeArg>,
    /// Costs of a page write in page reads; rm1, rm2 or file:changes.csv where it changes
    #[arg(long, value_name = "LIST", default_value = "1,8,32,128")]
    asymmetry: Vec<AsymmetryList>,
    /// The device that is charged, in place of asymmetries: a name of 'ebbpool devices', a
    /// profile of your own, or a simulated one, flash:…
    #[arg(
        long,
        value_name = "NAME|FILE.toml|flash:…",
        conflicts_with = "asymmetry"
    )]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
    /// Also compute what no policy can undercut, and how far above it each one is at most
    #[arg(long)]
    pub(crate) bound: bool,
    /// Write an HTML page with charts and tables
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Compute everything anew, and keep nothing for the next time
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// How the results are printed
    #[arg(long, value_enum, default_value_t = CompareFormat::Table)]
    pub(crate) format: CompareFormat,
}

#[derive(Args)]
pub(crate) struct CurveArgs {
    /// A trace: a file, - for standard input, or a generator such as zipf:pages=10000,refs=1000000;
    /// several with --concat [default: the TPC-C sample]
    #[arg(value_name = "TRACE")]
    pub(crate) traces: Vec<String>,
    /// Policies, separated by commas; may be repeated; 'all' is every online policy
    /// [default: the online policies of the five papers]
    #[arg(long, value_name = "LIST")]
    pub(crate) policies: Vec<String>,
    /// Memory sizes: frames, or per cent of the database's pages [default: all pages that are
    /// referenced, half of them, and so on]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) frames: Vec<SizeArg>,
    /// Cost of a page write in page reads
    #[arg(long, value_name = "R", default_value = "32")]
    pub(crate) asymmetry: Asymmetry,
    /// Share of the pages to sample at large sizes; smaller ones are sampled more closely, and 100%
    /// is exact [default: 1%, or what comes to 16384 pages]
    #[arg(long, value_name = "P%")]
    pub(crate) sample: Option<RateArg>,
    /// The smallest memory for this is told: reads, writes or bill, and how much less than the
    /// baseline's, or how much; such as 'writes -50%' or 'bill 1.5'
    #[arg(long, value_name = "FIGURE -P%|N")]
    pub(crate) target: Option<Target>,
    /// What the target is less than: a policy and its memory; the policy is lru where none is named
    #[arg(long, value_name = "[POLICY@]SIZE", default_value = "lru@3%")]
    pub(crate) baseline: BaselineArg,
    /// For fd-static with so much memory: every size of its clean pool
    #[arg(long, value_name = "N|P%")]
    pub(crate) clean_pools: Option<SizeArg>,
    /// References at the start that count nothing
    #[arg(long, value_name = "N|P%", default_value = "0")]
    pub(crate) warmup: WarmupArg,
    #[command(flatten)]
    ending: Ending,
    #[command(flatten)]
    working: Working,
    /// Write an HTML page with charts and tables
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Compute everything anew, and keep nothing for the next time
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// How the results are printed
    #[arg(long, value_enum, default_value_t = CurveFormat::Table)]
    pub(crate) format: CurveFormat,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// A trace: a file, - for standard input, or a generator such as zipf:pages=10000,refs=1000000;
    /// several with --concat
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<String>,
    /// The policy, such as lru or cfdc:window=0.5,cluster=16
    #[arg(long, value_name = "P")]
    pub(crate) policy: String,
    /// Memory: frames, or per cent of the database's pages
    #[arg(long, value_name = "N|P%")]
    pub(crate) frames: SizeArg,
    /// Cost of a page write in page reads [default: 32]; rm1, rm2 or file:changes.csv where it
    /// changes
    #[arg(long, value_name = "R")]
    pub(crate) asymmetry: Option<AsymmetrySpec>,
    /// The device that is charged: a name of 'ebbpool devices', a profile of your own, or a
    /// simulated one, flash:…, as 'ebbpool device replay --help' tells
    #[arg(long, value_name = "NAME|FILE.toml|flash:…")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
    /// Write every write-back and eviction, in order
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    /// Write a CSV row every 1,000 references: pool sizes, target, estimates
    #[arg(long, value_name = "FILE")]
    pub(crate) series: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
}

#[derive(Args)]
pub(crate) struct BoundArgs {
    /// A trace: a file, - for standard input, or a generator such as zipf:pages=10000,refs=1000000;
    /// several with --concat
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<String>,
    /// Memory sizes: frames, or per cent of the database's pages
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
    pub(crate) frames: Vec<SizeArg>,
    /// Costs of a page write in page reads
    #[arg(long, value_name = "LIST", default_value = "32")]
    asymmetry: Vec<AsymmetryList>,
    #[command(flatten)]
    ending: Ending,
    #[command(flatten)]
    working: Working,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
}

impl BoundArgs {
    /// The asymmetries asked for, in their order.
    pub(crate) fn asymmetries(&self) -> Result<Vec<Asymmetry>, Failure> {
        constant(self.asymmetry.iter().flat_map(|list| &list.0))
    }

    pub(crate) fn at_end(&self) -> AtEnd {
        self.ending.at_end()
    }

    pub(crate) fn threads(&self) -> usize {
        self.working.threads()
    }
}

#[derive(Args)]
pub(crate) struct ReproduceArgs {
    /// Experiments: ids, papers (cikm, tc, adlru, ppe, cfdc), ebb for the study of our own policy, or
    /// files of your own [default: those of the papers]
    #[arg(value_name = "ID|FILE.toml")]
    pub(crate) ids: Vec<String>,
    /// List the experiments and what they claim
    #[arg(long)]
    pub(crate) list: bool,
    /// Run all of an experiment but on less: short traces, few sizes (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Run the papers' sizes, as far as they are known
    #[arg(long)]
    pub(crate) full: bool,
    /// More policies for every figure, separated by commas; may be repeated
    #[arg(long, value_name = "LIST")]
    pub(crate) policy: Vec<String>,
    /// A file or block device in the place of the device models, as for `ebbpool replay --create`: only
    /// experiments with a device are run, in real time
    #[cfg(unix)]
    #[arg(long, value_name = "PATH", conflicts_with = "list")]
    file: Option<PathBuf>,
    /// Simulations at a time [default: all cores]; the results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Directory for the report: index.html, a picture and a CSV for each figure
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    pub(crate) out: PathBuf,
    /// Compute everything anew, and keep nothing for the next time
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// How verdicts are printed; json has the points too
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
}

impl ReproduceArgs {
    /// What takes the place of devices.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        #[cfg(unix)]
        return self.file.clone();
        #[cfg(not(unix))]
        None
    }

    pub(crate) fn threads(&self) -> usize {
        Working { threads: self.jobs }.threads()
    }
}

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
struct Working {
    /// Worker threads [default: all cores]; the results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

impl Working {
    fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(cores, usize::from)
    }
}

#[derive(Args)]
pub(crate) struct Common {
    /// References at the start that count nothing
    #[arg(long, value_name = "N|P%", default_value = "0")]
    pub(crate) warmup: WarmupArg,
    #[command(flatten)]
    ending: Ending,
    /// Pages per cluster when cluster switches are counted
    #[arg(long, value_name = "PAGES", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    cluster_size: u64,
    #[command(flatten)]
    working: Working,
    /// References a second that come to the device: it waits for them where it is faster, which
    /// counts in its energy and empties an SLC cache [default: each comes when the one before is
    /// served]
    #[arg(long, value_name = "PER-SECOND", requires = "device")]
    rate: Option<Rate>,
    #[command(flatten)]
    pub(crate) reading: Reading,
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

impl Common {
    pub(crate) fn options(&self) -> ebbpool_sim::Options {
        ebbpool_sim::Options {
            warmup: 0,
            at_end: self.ending.at_end(),
            cluster_size: self.cluster_size,
            threads: self.working.threads(),
            rate: self.rate,
        }
    }
}

impl CurveArgs {
    pub(crate) fn options(&self) -> ebbpool_sim::Options {
        ebbpool_sim::Options {
            at_end: self.ending.at_end(),
            threads: self.working.threads(),
            ..ebbpool_sim::Options::default()
        }
    }
}

impl CompareArgs {
    /// The asymmetries asked for, in their order.
    pub(crate) fn asymmetries(&self) -> impl Iterator<Item = &AsymmetrySpec> {
        self.asymmetry.iter().flat_map(|list| &list.0)
    }

    /// The policies asked for on a device of those abilities; see [`policies`].
    pub(crate) fn policies(&self, abilities: &Abilities) -> Result<Vec<PolicySpec>, Failure> {
        let mut specs = policies(&self.policies, abilities)?;
        // The papers' policies are what programs expect; a reader should not miss what is better.
        if self.policies.is_empty() && matches!(self.format, CompareFormat::Table) {
            specs.push(abilities.policy(RECOMMENDED)?);
        }
        Ok(specs)
    }
}

/// The asymmetries as numbers, for a bound: it weighs savings anywhere in the trace against each
/// other, by one R.
pub(crate) fn constant<'a>(
    asymmetries: impl Iterator<Item = &'a AsymmetrySpec>,
) -> Result<Vec<Asymmetry>, Failure> {
    let constant = |asymmetry: &AsymmetrySpec| {
        asymmetry.constant().ok_or_else(|| {
            Failure::Usage(format!(
                "a bound needs an R that stays the same, and that of --asymmetry {asymmetry} changes; leave it out of the list"
            ))
        })
    };
    asymmetries.map(constant).collect()
}

/// The policies of the lists, each once, on a device of those abilities. `all` are the online
/// policies that it supports, and without a list it is the papers' policies.
pub(crate) fn policies(
    lists: &[String],
    abilities: &Abilities,
) -> Result<Vec<PolicySpec>, Failure> {
    let mut specs: Vec<PolicySpec> = Vec::new();
    let lists = match lists.is_empty() {
        true => vec![OF_THE_PAPERS],
        false => lists.iter().map(String::as_str).collect(),
    };
    for item in lists.into_iter().flat_map(split_list) {
        if item == "all" {
            let online = registry::entries().iter().filter(|entry| entry.online);
            let supported = online.filter(|entry| abilities.supports(entry));
            specs.extend(supported.map(PolicySpec::of));
        } else {
            specs.push(abilities.policy(&item)?);
        }
    }
    if specs.is_empty() {
        return Err(Failure::Usage("--policies names no policy".into()));
    }
    let mut seen = Vec::new();
    specs.retain(|spec| {
        let spelled = spec.to_string();
        let new = !seen.contains(&spelled);
        seen.push(spelled);
        new
    });
    Ok(specs)
}

/// Reads a policy.
pub(crate) fn parse(text: &str) -> Result<PolicySpec, Failure> {
    text.parse()
        .map_err(|error: ebbpool_policy::SpecError| Failure::Usage(error.to_string()))
}

#[derive(Args)]
#[command(after_help = TRACE_EXAMPLES)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

const TRACE_EXAMPLES: &str = "\
Examples:
  ebbpool trace info my.parquet
  ebbpool trace convert my.txt my.parquet";

#[derive(Subcommand)]
pub(crate) enum TraceCommand {
    /// Say what a trace holds
    #[command(after_help = "\
Examples:
  ebbpool trace info my.parquet
  ebbpool trace info requests.csv --columns offset=off,size=len,write=op:W --page-size 4096
  ebbpool trace info Financial1.spc --page-size 4096
  zcat log.txt.gz | ebbpool trace info - --trace-format text --format json")]
    Info(InfoArgs),
    /// Write a trace in another format
    #[command(
        override_usage = "ebbpool trace convert [OPTIONS] <FROM>... <TO>",
        after_help = "\
Examples:
  ebbpool trace convert my.txt my.parquet
  ebbpool trace convert big.u32.zst part.parquet --skip 1000000 --limit 500000
  ebbpool trace convert monday.csv tuesday.csv week.parquet --concat
  ebbpool trace convert zipf:pages=1000,refs=50000 zipf.txt.zst"
    )]
    Convert(ConvertArgs),
    /// Write a generated trace into a file, or list the generators
    #[command(after_help = "\
Examples:
  ebbpool trace generate --list
  ebbpool trace generate zipf:pages=1000,refs=50000 z.parquet
  ebbpool trace generate self-similar:skew=0.9/0.1,seed=7 s.u32.zst
  ebbpool trace generate 'workload-dynamics:base=(zipf:refs=100000),model=wm2' w.txt.gz")]
    Generate(GenerateArgs),
}

#[derive(Args)]
pub(crate) struct DeviceArgs {
    #[command(subcommand)]
    pub(crate) command: DeviceCommand,
}

#[derive(Subcommand)]
pub(crate) enum DeviceCommand {
    /// Send a trace's reads and writes to a device, without a buffer
    #[command(after_help = "\
Examples:
  ebbpool device replay my.parquet --device flash:slc-mt29f4g08aaa,blocks=256
  ebbpool device replay my.txt --device flash:tlc-mqsim,ftl=fast --format json
  ebbpool device replay my.txt --device flash:qlc-3d-2024 --bytes-per-day 1e9")]
    Replay(Box<ReplayArgs>),
    /// Measure a real device: random and sequential reads and writes, queue depths and batches
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  ebbpool device measure . --size 64MiB --seconds 0.02
  ebbpool device measure my.parquet --read-only --seconds 0.02 --format json
  ebbpool device measure ssd.dat --size 64MiB --seconds 0.02 --profile ssd.toml")]
    Measure(MeasureArgs),
}

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// A trace: a file, - for standard input, or a generator; several with --concat
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<String>,
    /// The device: flash:PROFILE[,key=value…], keys blocks pages_per_block page_size rho ftl gc
    /// frontiers wl log_blocks bus precondition; PROFILE is a chip's name or a TOML file
    #[arg(long, value_name = "flash:…")]
    pub(crate) device: FlashConfig,
    /// Bytes that the host writes a day, for the lifetime in days
    #[arg(long, value_name = "BYTES")]
    pub(crate) bytes_per_day: Option<f64>,
    /// References a second that come to the device, which draws its idle power in between
    /// [default: each comes when the one before is served]
    #[arg(long, value_name = "PER-SECOND")]
    pub(crate) rate: Option<Rate>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

#[derive(Args)]
pub(crate) struct InfoArgs {
    /// A trace: a file, - for standard input, or a generator; several with --concat
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<String>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// FROM: a trace: a file, - for standard input, or a generator; several with --concat.
    /// TO: the file to write; its name tells format and compression
    // One list, for clap takes a last argument of its own only where no option stands before it.
    #[arg(value_name = "FROM… TO", required = true)]
    paths: Vec<String>,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

impl ConvertArgs {
    /// The traces to read, and the file to write.
    pub(crate) fn paths(&self) -> Result<(&[String], &Path), Failure> {
        match self.paths.split_last() {
            Some((to, from)) if !from.is_empty() => Ok((from, Path::new(to))),
            _ => Err(Failure::Usage(
                "the file to write is missing; give FROM and TO, as in ebbpool trace convert my.txt my.parquet".into(),
            )),
        }
    }
}

#[derive(Args)]
pub(crate) struct GenerateArgs {
    /// A generator and its parameters, such as zipf:pages=1000,refs=50000
    #[arg(value_name = "GENERATOR", required_unless_present = "list")]
    pub(crate) generator: Option<String>,
    /// The file to write; its name tells format and compression
    #[arg(value_name = "OUT", required_unless_present = "list")]
    pub(crate) to: Option<PathBuf>,
    /// List the generators and their parameters
    #[arg(long, conflicts_with_all = ["generator", "to"])]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

/// How a trace is written.
#[derive(Args)]
pub(crate) struct EncodingArgs {
    /// Format of the output where its name does not tell: native, text, u32 or csv
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to_format: Option<Format>,
    /// Zstandard level for native and .zst output
    #[arg(long, value_name = "1-19", value_parser = clap::value_parser!(i32).range(1..=19))]
    pub(crate) level: Option<i32>,
}

#[derive(Args)]
pub(crate) struct PoliciesArgs {
    /// Explain this policy; it may have parameters, or be an alias such as fd-exact
    #[arg(value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Print Markdown, as in docs/policies.md
    #[arg(long, conflicts_with = "policy")]
    pub(crate) markdown: bool,
}

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct ManArgs {
    /// An existing directory; pages of the same name are replaced
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

#[derive(Args)]
pub(crate) struct DevicesArgs {
    /// A device by name, or a profile of your own as a TOML file: all that is known, with sources
    #[arg(value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// How it is printed; toml, of one device, is where a profile of your own can begin
    #[arg(long, value_enum, default_value_t = DevicesFormat::Table)]
    pub(crate) format: DevicesFormat,
    /// Print Markdown, as in docs/devices.md
    #[arg(long, conflicts_with_all = ["device", "format"])]
    pub(crate) markdown: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DevicesFormat {
    Table,
    Json,
    Toml,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    Table,
    Json,
    Csv,
    Parquet,
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

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CurveFormat {
    Table,
    Json,
    Csv,
}

/// A share above 0 and up to 1, in per cent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateArg(pub(crate) f64);

impl std::str::FromStr for RateArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let share = text.parse().ok().filter(|share: &Decimal| {
            text.ends_with('%') && !share.is_zero() && !share.exceeds_one()
        });
        share.map(|share| RateArg(share.to_f64())).ok_or_else(|| {
            format!(
                "'{text}' is no share to sample; give per cent above 0% and up to 100%, such as 1%"
            )
        })
    }
}

/// A policy with its memory.
#[derive(Clone, Debug)]
pub(crate) struct BaselineArg {
    /// As it was spelled.
    pub(crate) policy: String,
    pub(crate) size: SizeArg,
}

impl std::str::FromStr for BaselineArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (policy, size) = text.rsplit_once('@').unwrap_or(("lru", text));
        Ok(BaselineArg {
            policy: policy.trim().into(),
            size: size.parse()?,
        })
    }
}

/// Frames as given, and as printed.
#[derive(Clone, Debug)]
pub(crate) struct SizeArg {
    pub(crate) size: Size,
    pub(crate) text: String,
}

impl std::str::FromStr for SizeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let range = || {
            format!(
                "'{text}' is not a memory size; give frames from 1 up, or per cent above 0, such as 3%"
            )
        };
        let size = if text.ends_with('%') {
            let share: Decimal = text.parse().map_err(|_| range())?;
            if share.is_zero() {
                return Err(range());
            }
            Size::Share(share)
        } else {
            match text.parse() {
                Ok(frames) if frames > 0 => Size::Frames(frames),
                _ => return Err(range()),
            }
        };
        Ok(SizeArg {
            size,
            text: text.into(),
        })
    }
}

/// Asymmetries separated by commas; one may have parameters, as policies in a list have.
#[derive(Clone, Debug)]
struct AsymmetryList(Vec<AsymmetrySpec>);

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

#[derive(Clone, Copy, Debug)]
pub(crate) struct WarmupArg(pub(crate) Warmup);

impl std::str::FromStr for WarmupArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let range = || format!("'{text}' is not a warm-up; give references, or 0% to 100% of them");
        if text.ends_with('%') {
            let share: Decimal = text.parse().map_err(|_| range())?;
            if share.exceeds_one() {
                return Err(range());
            }
            return Ok(WarmupArg(Warmup::Share(share)));
        }
        let references = text.parse().map_err(|_| range())?;
        Ok(WarmupArg(Warmup::References(references)))
    }
}
