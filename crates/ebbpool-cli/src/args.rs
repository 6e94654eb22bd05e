//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ebbpool_device::Asymmetry;
use ebbpool_policy::{Fraction, PolicySpec, registry, split_list};
use ebbpool_sim::{AtEnd, Size, Warmup};
use ebbpool_trace::Format;

use crate::Failure;

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
  ebbpool compare my.parquet --report answer.html")]
    Compare(CompareArgs),
    /// Run one policy over one trace
    #[command(after_help = "\
Examples:
  ebbpool run my.parquet --policy cfdc:cluster=16 --frames 8000 --asymmetry 32
  ebbpool run my.parquet --policy fd-buffer --frames 3% --format json
  ebbpool run my.txt --policy lru --frames 100 --events events.txt --series series.csv")]
    Run(RunArgs),
    /// Describe or convert traces
    Trace(TraceArgs),
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
}

#[derive(Args)]
pub(crate) struct CompareArgs {
    /// Traces: files or generators such as zipf:pages=10000,refs=1000000 [default: the TPC-C sample]
    #[arg(value_name = "TRACE")]
    pub(crate) traces: Vec<String>,
    /// Policies, separated by commas; may be repeated; 'all' is every online policy
    /// [default: the online policies of the five papers]
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
    /// Costs of a page write in page reads
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,8,32,128"
    )]
    pub(crate) asymmetry: Vec<Asymmetry>,
    #[command(flatten)]
    pub(crate) common: Common,
    /// Write an HTML page with the tables
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// How the results are printed
    #[arg(long, value_enum, default_value_t = CompareFormat::Table)]
    pub(crate) format: CompareFormat,
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// A trace file, or a generator such as zipf:pages=10000,refs=1000000
    #[arg(value_name = "TRACE")]
    pub(crate) trace: String,
    /// The policy, such as lru or cfdc:window=0.5,cluster=16
    #[arg(long, value_name = "P")]
    pub(crate) policy: String,
    /// Memory: frames, or per cent of the database's pages
    #[arg(long, value_name = "N|P%")]
    pub(crate) frames: SizeArg,
    /// Cost of a page write in page reads
    #[arg(long, value_name = "R", default_value = "32")]
    pub(crate) asymmetry: Asymmetry,
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
pub(crate) struct Common {
    /// References at the start that count nothing
    #[arg(long, value_name = "N|P%", default_value = "0")]
    pub(crate) warmup: WarmupArg,
    /// What becomes of pages dirty at the end: left uncounted, or written and counted
    #[arg(long, value_enum, default_value_t = AtEndArg::Free)]
    at_end: AtEndArg,
    /// Pages per cluster when cluster switches are counted
    #[arg(long, value_name = "PAGES", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    cluster_size: u64,
    /// Format of the trace where it cannot be told: native, text or u32
    #[arg(long, value_name = "FORMAT")]
    pub(crate) trace_format: Option<Format>,
    /// Worker threads [default: all cores]; the results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

impl Common {
    pub(crate) fn options(&self) -> ebbpool_sim::Options {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        ebbpool_sim::Options {
            warmup: 0,
            at_end: match self.at_end {
                AtEndArg::Free => AtEnd::Free,
                AtEndArg::Flush => AtEnd::Flush,
            },
            cluster_size: self.cluster_size,
            threads: self.threads.map_or_else(cores, usize::from),
        }
    }
}

impl CompareArgs {
    /// The policies asked for, each once.
    pub(crate) fn policies(&self) -> Result<Vec<PolicySpec>, Failure> {
        let mut specs: Vec<PolicySpec> = Vec::new();
        let online = || registry::entries().iter().filter(|entry| entry.online);
        for item in self.policies.iter().flat_map(|list| split_list(list)) {
            if item == "all" {
                specs.extend(online().map(PolicySpec::of));
            } else {
                specs.push(policy(&item)?);
            }
        }
        if self.policies.is_empty() {
            specs.extend(online().map(PolicySpec::of));
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
}

/// Reads a policy.
pub(crate) fn parse(text: &str) -> Result<PolicySpec, Failure> {
    text.parse()
        .map_err(|error: ebbpool_policy::SpecError| Failure::Usage(error.to_string()))
}

/// Reads a policy, and refuses what the device at hand cannot do.
pub(crate) fn policy(text: &str) -> Result<PolicySpec, Failure> {
    let spec = parse(text)?;
    if spec.is("cluster", "auto") {
        return Err(Failure::Usage(format!(
            "policy {spec}: cluster=auto is the device's erase block, and the plain asymmetry model has none; give a number of pages, such as cluster=64"
        )));
    }
    Ok(spec)
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
    #[command(after_help = "Example:\n  ebbpool trace info my.parquet")]
    Info {
        /// A trace file or a generator
        #[arg(value_name = "TRACE")]
        trace: String,
        /// Format of the trace where it cannot be told: native, text or u32
        #[arg(long, value_name = "FORMAT")]
        trace_format: Option<Format>,
        /// How it is printed
        #[arg(long, value_enum, default_value_t = RunFormat::Table)]
        format: RunFormat,
    },
    /// Write a trace in another format
    #[command(after_help = "\
Examples:
  ebbpool trace convert my.txt my.parquet
  ebbpool trace convert big.u32.zst part.parquet --skip 1000000 --limit 500000
  ebbpool trace convert zipf:pages=1000,refs=50000 zipf.txt.zst")]
    Convert(ConvertArgs),
}

#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// A trace file or a generator
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// The file to write; its name tells format and compression
    #[arg(value_name = "TO")]
    pub(crate) to: PathBuf,
    /// Format of FROM where it cannot be told: native, text or u32
    #[arg(long, value_name = "FORMAT")]
    pub(crate) trace_format: Option<Format>,
    /// Format of TO where its name does not tell
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to_format: Option<Format>,
    /// References to leave out at the start
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip: u64,
    /// References to write at most
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
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
            let share: Fraction = text.parse().map_err(|_| range())?;
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

#[derive(Clone, Copy, Debug)]
pub(crate) struct WarmupArg(pub(crate) Warmup);

impl std::str::FromStr for WarmupArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let range = || format!("'{text}' is not a warm-up; give references, or 0% to 100% of them");
        if text.ends_with('%') {
            let share: Fraction = text.parse().map_err(|_| range())?;
            if share.exceeds_one() {
                return Err(range());
            }
            return Ok(WarmupArg(Warmup::Share(share)));
        }
        let references = text.parse().map_err(|_| range())?;
        Ok(WarmupArg(Warmup::References(references)))
    }
}
