//! Arguments of `ebbpool replay`.

use std::path::PathBuf;

use clap::Args;
use ebbpool_cost::Asymmetry;
use ebbpool_lab::replay::{ReplayFile, ReplayRequest, ReplayStorage};
use ebbpool_lab::{MemorySize, PolicySelection, SpecError};
use ebbpool_sim::Warmup;

use crate::measure::args::EngineArg;
use crate::shared_args::{AtEndArgs, ReadArgs, RunFormat};

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// A trace: a file, - for standard input, or a generator such as zipf:pages=10000,refs=1000000;
    /// several with --concat or --merge
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<String>,
    /// The file or block device for the pages: one that an earlier replay created, or a new one with
    /// --create
    #[arg(long, value_name = "PATH", required_unless_present = "memory", conflicts_with = "memory")]
    pub(crate) file: Option<PathBuf>,
    /// Keep the pages in memory instead of a file
    #[arg(long)]
    pub(crate) memory: bool,
    /// Create the file if it does not exist, or if an earlier replay created it for a smaller trace or
    /// another page size
    #[arg(long, requires = "file")]
    pub(crate) create: bool,
    /// Overwrite the file, whatever it contains: its contents are lost
    #[arg(long, requires = "file")]
    pub(crate) overwrite: bool,
    /// The policy, such as lru or cfdc:window=0.5,cluster=16
    #[arg(long, value_name = "P", required_unless_present = "policies", conflicts_with = "policies")]
    pub(crate) policy: Option<String>,
    /// Policies to compare one after the other on the same file, separated by commas; may be
    /// repeated; 'all' is every online policy
    #[arg(long, value_name = "LIST")]
    pub(crate) policies: Vec<String>,
    /// Memory: frames, per cent of the database's pages, or bytes such as 128MiB
    #[arg(long, value_name = "N|P%|BYTES", allow_negative_numbers = true)]
    pub(crate) frames: MemorySize,
    /// Cost of a page write in page reads, for the policies and for the bill [default: as measured]
    #[arg(long, value_name = "R")]
    pub(crate) asymmetry: Option<Asymmetry>,
    /// Threads that fix pages; with more than one the counts vary from run to run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: u16,
    /// Let the pool's background thread write dirty pages before their eviction
    #[arg(long)]
    pub(crate) background: bool,
    /// Read at most this many pages ahead of sequential references
    #[arg(long, value_name = "PAGES", default_value_t = 0)]
    pub(crate) read_ahead: u32,
    /// How to pass I/O to the system: by io_uring, by threads that call pread and pwritev, or by io_uring where
    /// the system has it (auto)
    #[arg(long, value_enum, default_value_t = EngineArg::Auto, conflicts_with = "memory")]
    pub(crate) io: EngineArg,
    /// Use the kernel's page cache
    #[arg(long, conflicts_with = "memory")]
    pub(crate) buffered: bool,
    /// References at the start that are replayed but not counted
    #[arg(long, value_name = "N|P%", default_value = "0")]
    pub(crate) warmup: Warmup,
    #[command(flatten)]
    pub(crate) at_end: AtEndArgs,
    /// Pages per cluster when cluster switches are counted
    #[arg(long, value_name = "PAGES", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) cluster_size: u64,
    /// Do not verify a sample of the written pages at the end
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Write every write-back and eviction to a file, in order
    #[arg(long, value_name = "FILE", conflicts_with = "policies")]
    pub(crate) events: Option<PathBuf>,
    /// Write the page references to the pool, in their order, as a trace in the native format
    #[arg(long, value_name = "FILE.parquet", conflicts_with = "policies")]
    pub(crate) record: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

impl ReplayArgs {
    /// The request to the lab.
    pub(crate) fn request(&self) -> Result<ReplayRequest, SpecError> {
        let policies = match &self.policy {
            Some(policy) => PolicySelection::specs([policy.parse()?]),
            None => PolicySelection::lists(&self.policies),
        };
        let storage = match &self.file {
            None => ReplayStorage::Memory,
            Some(path) => {
                let mut file = ReplayFile::existing(path);
                file.create = self.create;
                file.overwrite = self.overwrite;
                file.engine = self.io.into();
                file.direct = !self.buffered;
                ReplayStorage::File(file)
            }
        };
        let mut request = ReplayRequest::new(policies, self.frames.clone());
        request.storage = storage;
        request.page_size = self.reading.options().page_size.map(u64::from);
        request.asymmetry = self.asymmetry;
        request.threads = self.threads;
        request.background = self.background;
        request.read_ahead = self.read_ahead;
        request.warmup = self.warmup;
        request.at_end = self.at_end.at_end();
        request.cluster_size = self.cluster_size;
        request.verify = !self.no_verify;
        Ok(request)
    }
}
