//! Arguments of `ebbpool run`.

use std::path::PathBuf;

use clap::Args;
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_lab::{MemorySize, PricingRequest, RunRequest};

use crate::failure::Failure;
use crate::shared_args::{CountingArgs, RunFormat};

#[derive(Args)]
pub(crate) struct RunArgs {
    /// A trace: a file, - for standard input, or a generator such as zipf:pages=10000,refs=1000000;
    /// several with --concat or --merge
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<String>,
    /// The policy, such as lru or cfdc:window=0.5,cluster=16
    #[arg(long, value_name = "P")]
    pub(crate) policy: String,
    /// Memory: frames, per cent of the database's pages, or bytes such as 128MiB
    #[arg(long, value_name = "N|P%|BYTES", allow_negative_numbers = true)]
    pub(crate) frames: MemorySize,
    /// Cost of a page write in page reads [default: 32]; rm1, rm2 or file:changes.csv for a cost that
    /// changes
    #[arg(long, value_name = "R")]
    pub(crate) asymmetry: Option<AsymmetrySpec>,
    /// The device that serves reads and writes: a name of 'ebbpool devices', your own profile, or a
    /// simulated device, flash:…, see docs/flash-model.md
    #[arg(long, value_name = "NAME|FILE.toml|flash:…")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) common: CountingArgs,
    /// Write every write-back and eviction to a file, in order
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    /// Write a CSV file with a row every 1,000 references: pool sizes, target, estimates
    #[arg(long, value_name = "FILE")]
    pub(crate) series: Option<PathBuf>,
    /// Write the pages read and written back to a file, in order: the trace of the cache or device below
    #[arg(long, value_name = "FILE.txt")]
    pub(crate) misses: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
}

impl RunArgs {
    /// The request to the lab.
    pub(crate) fn request(&self) -> Result<RunRequest, Failure> {
        let pricing = PricingRequest::new(self.asymmetry.clone(), self.device.as_deref())?;
        let mut request = RunRequest::new(self.policy.parse()?, self.frames.clone(), pricing);
        request.counting = self.common.counting();
        Ok(request)
    }
}
