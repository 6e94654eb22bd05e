//! Arguments of `ebbpool curve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ebbpool_cost::{Asymmetry, Decimal};
use ebbpool_lab::{CurveRequest, MemorySize, MemorySizeError, PolicySelection, Target};
use ebbpool_sim::Warmup;

use crate::outputs;
use crate::shared_args::{AtEndArgs, CheckpointArgs, ReadArgs, ThreadArgs};

#[derive(Args)]
pub(crate) struct CurveArgs {
    /// A trace: a file, - for standard input, or a generator such as zipf:pages=10000,refs=1000000;
    /// several with --concat or --merge [default: the TPC-C sample]
    #[arg(value_name = "TRACE")]
    pub(crate) traces: Vec<String>,
    /// Policies, separated by commas; may be repeated; 'all' is every online policy
    /// [default: the online policies of the five papers]
    #[arg(long, value_name = "LIST")]
    pub(crate) policies: Vec<String>,
    /// Memory sizes: frames, per cent of the database's pages, or bytes such as 128MiB [default: all
    /// referenced pages, half of them, a quarter, and so on]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) frames: Vec<MemorySize>,
    /// Cost of a page write in page reads
    #[arg(long, value_name = "R", default_value = "32")]
    pub(crate) asymmetry: Asymmetry,
    /// Share of the pages to sample at large sizes; smaller sizes are sampled more densely, and 100%
    /// is exact [default: 1%, or the share that gives 16384 pages]
    #[arg(long, value_name = "P%")]
    pub(crate) sample: Option<SampleArg>,
    /// Find the smallest memory that reaches this target: reads, writes or bill, at most N or P% less
    /// than the baseline's; such as 'writes -50%' or 'bill 1.5'
    #[arg(long, value_name = "FIGURE -P%|N")]
    pub(crate) target: Option<Target>,
    /// The policy and memory that a target in per cent refers to; without a policy, lru
    #[arg(long, value_name = "[POLICY@]SIZE", default_value = "lru@3%")]
    pub(crate) baseline: BaselineArg,
    /// Also compute fd-static with this memory, for every size of its clean pool
    #[arg(long, value_name = "N|P%|BYTES")]
    pub(crate) clean_pools: Option<MemorySize>,
    /// References at the start that are replayed but not counted
    #[arg(long, value_name = "N|P%", default_value = "0")]
    warmup: Warmup,
    #[command(flatten)]
    at_end: AtEndArgs,
    #[command(flatten)]
    checkpoints: CheckpointArgs,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
    /// Write an HTML page with charts and tables
    #[arg(long, value_name = "FILE.html", value_parser = outputs::page())]
    pub(crate) report: Option<PathBuf>,
    /// Compute everything again, and store no result for the next time
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = CurveFormat::Table)]
    pub(crate) format: CurveFormat,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CurveFormat {
    Table,
    Json,
    Csv,
}

/// A share above 0 and up to 1, given in per cent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleArg(pub(crate) f64);

impl std::str::FromStr for SampleArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let share = text.parse().ok().filter(|share: &Decimal| text.ends_with('%') && !share.is_zero() && !share.exceeds_one());
        share
            .map(|share| SampleArg(share.to_f64()))
            .ok_or_else(|| format!("'{text}' is not a share to sample; give per cent above 0% and up to 100%, such as 1%"))
    }
}

/// A policy and its memory.
#[derive(Clone, Debug)]
pub(crate) struct BaselineArg {
    /// The policy as the user spells it.
    pub(crate) policy: String,
    pub(crate) size: MemorySize,
}

impl std::str::FromStr for BaselineArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (policy, size) = text.rsplit_once('@').unwrap_or(("lru", text));
        Ok(BaselineArg {
            policy: policy.trim().into(),
            size: size.parse().map_err(|error: MemorySizeError| error.to_string())?,
        })
    }
}

impl CurveArgs {
    /// The request to the lab.
    pub(crate) fn request(&self) -> CurveRequest {
        let policies = PolicySelection::lists(&self.policies);
        let mut request = CurveRequest::new(policies, self.asymmetry);
        request.sizes = self.frames.clone();
        request.sample = self.sample.map(|share| share.0);
        request.target = self.target;
        request.baseline = (self.baseline.policy.clone(), self.baseline.size.clone());
        request.clean_pools = self.clean_pools.clone();
        request.warmup = self.warmup;
        request.at_end = self.at_end.at_end();
        request.checkpoints = self.checkpoints.schedule();
        request.for_report = self.report.is_some();
        request
    }
}
