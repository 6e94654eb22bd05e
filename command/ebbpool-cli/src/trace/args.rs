//! Arguments of `ebbpool trace`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ebbpool_trace::Format;

use crate::curve::args::SampleArg;
use crate::failure::Failure;
use crate::shared_args::{ReadArgs, RunFormat};

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
    /// Describe a trace: its length, pages, writes and locality
    #[command(after_help = "\
Examples:
  ebbpool trace info my.parquet
  ebbpool trace info requests.csv --columns offset=off,size=len,write=op:W --page-size 4096
  ebbpool trace info Financial1.spc --page-size 4k
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
  ebbpool trace convert Financial1.spc Financial2.spc both.parquet --merge --apart --page-size 4k
  ebbpool trace convert big.u32.zst small.parquet --sample 1%
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
    /// Show tables that others publish or export, and the --columns with which each is read
    #[command(after_help = "\
Examples:
  ebbpool trace shapes
  ebbpool trace shapes Alibaba")]
    Shapes(ShapesArgs),
}

#[derive(Args)]
pub(crate) struct ShapesArgs {
    /// Only those that have this word
    #[arg(value_name = "WORD")]
    pub(crate) word: Option<String>,
}

#[derive(Args)]
pub(crate) struct InfoArgs {
    /// A trace: a file, - for standard input, or a generator; several with --concat or --merge
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// FROM: a trace: a file, - for standard input, or a generator; several with --concat or --merge.
    /// TO: the file to write, its name determines format and compression; or - for standard output, with --to-format
    // One list, because clap accepts a separate last argument only if no option stands before it.
    #[arg(value_name = "FROM… TO", required = true)]
    paths: Vec<String>,
    /// Only the references to this share of the pages, chosen by a hash of their numbers: a buffer of as small a share of the
    /// frames behaves about as with the whole; a note has the error for lru
    #[arg(long, value_name = "P%")]
    pub(crate) sample: Option<SampleArg>,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
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
    /// The file to write, its name determines format and compression; or - for standard output, with --to-format
    #[arg(value_name = "OUT", required_unless_present = "list")]
    pub(crate) to: Option<PathBuf>,
    /// List the generators and their parameters
    #[arg(long, conflicts_with_all = ["generator", "to"])]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

/// Options for writing a trace.
#[derive(Args)]
pub(crate) struct EncodingArgs {
    /// Format of the output, if its name does not show it: native, text, u32 or csv
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to_format: Option<Format>,
    /// Zstandard level for native and .zst output
    #[arg(long, value_name = "1-19", value_parser = clap::value_parser!(i32).range(1..=19))]
    pub(crate) level: Option<i32>,
}
