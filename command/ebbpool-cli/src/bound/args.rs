//! Arguments of `ebbpool bound`.

use clap::Args;
use ebbpool_lab::{Asymmetry, AsymmetrySpec, BoundRequest, MemorySize, RequestError};

use crate::failure::Failure;
use crate::shared_args::{AsymmetryList, AtEndArgs, ReadArgs, RunFormat, ThreadArgs};

#[derive(Args)]
pub(crate) struct BoundArgs {
    /// A trace: a file, - for standard input, or a generator such as zipf:pages=10000,refs=1000000;
    /// several with --concat or --merge
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<String>,
    /// Memory sizes: frames, per cent of the database's pages, or bytes such as 128MiB
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_negative_numbers = true, required = true)]
    pub(crate) frames: Vec<MemorySize>,
    /// Costs of a page write in page reads
    #[arg(long, value_name = "LIST", default_value = "32")]
    asymmetry: Vec<AsymmetryList>,
    #[command(flatten)]
    at_end: AtEndArgs,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Compute everything again, and store no result for the next time
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
}

impl BoundArgs {
    /// The request to the lab.
    pub(crate) fn request(&self) -> Result<BoundRequest, Failure> {
        let asymmetries = self.asymmetry.iter().flat_map(|list| &list.0);
        let asymmetries: Result<_, RequestError> = asymmetries.map(constant).collect();
        let mut request = BoundRequest::new(self.frames.clone(), asymmetries?);
        request.at_end = self.at_end.at_end();
        Ok(request)
    }
}

/// The asymmetry as a number, for a bound. It must be constant, because a bound weighs savings anywhere in the trace by one
/// R.
fn constant(asymmetry: &AsymmetrySpec) -> Result<Asymmetry, RequestError> {
    let changes = || RequestError::BoundOfChanges(asymmetry.clone());
    asymmetry.constant().ok_or_else(changes)
}
