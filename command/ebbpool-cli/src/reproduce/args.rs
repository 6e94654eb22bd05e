//! Arguments of `ebbpool reproduce`.

use std::path::PathBuf;

use clap::Args;

use crate::shared_args::RunFormat;

#[derive(Args)]
pub(crate) struct ReproduceArgs {
    /// Experiments: ids, papers (cikm, tc, adlru, ppe, cfdc), ebb for the study of Ebbpool's own policy,
    /// or your own files [default: those of the papers]
    #[arg(value_name = "ID|FILE.toml")]
    pub(crate) ids: Vec<String>,
    /// List the experiments and their claims
    #[arg(long)]
    pub(crate) list: bool,
    /// Print what a claim in a file of your own can check, with an example of each check
    #[arg(long, conflicts_with_all = ["ids", "list", "format"])]
    pub(crate) checks: bool,
    /// Run every part of an experiment at a small scale: short traces, few sizes (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Run the sizes of the papers, as far as they are known
    #[arg(long)]
    pub(crate) full: bool,
    /// Additional policies for every figure, separated by commas; may be repeated
    #[arg(long, value_name = "LIST")]
    pub(crate) policy: Vec<String>,
    /// Draw the cells of experiments that draw them at random, such as ebb-drawn, with this seed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// A file or block device that replaces the device models, as for `ebbpool replay --create`; only
    /// experiments with a device run, in real time
    #[arg(long, value_name = "PATH", conflicts_with = "list")]
    file: Option<PathBuf>,
    /// Simulations to run at the same time [default: all cores]; the results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Directory for the report: index.html of all results in it, and a picture and a CSV for each figure
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    pub(crate) out: PathBuf,
    /// Compute everything again, and store no result for the next time
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Output format of the verdicts; json also contains the points
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
}

impl ReproduceArgs {
    /// The file that replaces the device models.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.file.clone()
    }

    /// The number of simulations to run at the same time.
    pub(crate) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(cores, usize::from)
    }
}
