//! `ebbpool run`: its arguments.

use std::path::PathBuf;

use clap::Args;
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_lab::{MemorySize, PricingRequest, RunRequest};

use crate::failure::Failure;
use crate::shared_args::{CountingArgs, RunFormat};

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
    pub(crate) frames: MemorySize,
    /// Cost of a page write in page reads [default: 32]; rm1, rm2 or file:changes.csv where it
    /// changes
    #[arg(long, value_name = "R")]
    pub(crate) asymmetry: Option<AsymmetrySpec>,
    /// The device that is charged: a name of 'ebbpool devices', a profile of your own, or a
    /// simulated one, flash:…, as 'ebbpool device replay --help' tells
    #[arg(long, value_name = "NAME|FILE.toml|flash:…")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) common: CountingArgs,
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

impl RunArgs {
    /// What is asked of the lab.
    pub(crate) fn request(&self) -> Result<RunRequest, Failure> {
        Ok(RunRequest {
            policy: self.policy.clone(),
            size: self.frames.clone(),
            pricing: PricingRequest::new(self.asymmetry.clone(), self.device.as_deref())?,
            counting: self.common.counting(),
        })
    }
}
