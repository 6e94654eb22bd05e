//! Arguments of `ebbpool compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ebbpool_lab::{CompareRequest, MemorySize, PolicySelection, PricingRequest};

use crate::failure::Failure;
use crate::outputs;
use crate::shared_args::{AsymmetryList, CountingArgs};

#[derive(Args)]
pub(crate) struct CompareArgs {
    /// Traces: files, - for standard input, or generators such as zipf:pages=10000,refs=1000000
    /// [default: the TPC-C sample]
    #[arg(value_name = "TRACE")]
    pub(crate) traces: Vec<String>,
    /// Seeds of each generator among the traces, from its own on: figures are means, with their intervals
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=1000),
        requires = "traces",
        conflicts_with = "joined"
    )]
    pub(crate) seeds: u64,
    /// Policies, separated by commas; may be repeated; 'all' is every online policy
    /// [default: the online policies of the five papers, and ebb]
    #[arg(long, value_name = "LIST")]
    policies: Vec<String>,
    /// Memory sizes: frames, per cent of the database's pages, or bytes such as 128MiB
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_negative_numbers = true, default_value = "0.75%,1.5%,3%,6%")]
    pub(crate) frames: Vec<MemorySize>,
    /// Costs of a page write in page reads; rm1, rm2 or file:changes.csv for a cost that changes
    #[arg(long, value_name = "LIST", default_value = "1,8,32,128")]
    asymmetry: Vec<AsymmetryList>,
    /// The device that serves reads and writes, in place of asymmetries: a name of 'ebbpool devices',
    /// your own profile, or a simulated device, flash:…
    #[arg(long, value_name = "NAME|FILE.toml|flash:…", conflicts_with = "asymmetry")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) common: CountingArgs,
    /// Also compute the bound that no policy can undercut, and the largest possible distance of each
    /// policy from it
    #[arg(long)]
    pub(crate) bound: bool,
    /// Write an HTML page with charts and tables
    #[arg(long, value_name = "FILE.html", value_parser = outputs::page())]
    pub(crate) report: Option<PathBuf>,
    /// Write the bills against memory size as a picture for a text
    #[arg(long, value_name = "FILE.svg", value_parser = outputs::picture())]
    pub(crate) figure: Option<PathBuf>,
    /// Compute everything again, and store no result for the next time
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Output format; markdown and latex, with the package booktabs, are tables for a text
    #[arg(long, value_enum, default_value_t = CompareFormat::Table)]
    pub(crate) format: CompareFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    Table,
    Json,
    Csv,
    Parquet,
    Markdown,
    Latex,
}

impl CompareArgs {
    /// The request to the lab.
    pub(crate) fn request(&self) -> Result<CompareRequest, Failure> {
        let policies = PolicySelection::lists(&self.policies).with_recommended();
        let pricing = match &self.device {
            Some(device) => vec![PricingRequest::new(None, Some(device))?],
            None => {
                let asymmetries = self.asymmetry.iter().flat_map(|list| &list.0);
                let pricing = asymmetries.cloned().map(PricingRequest::Asymmetry);
                pricing.collect()
            }
        };
        let mut request = CompareRequest::new(policies, self.frames.clone(), pricing);
        request.counting = self.common.counting();
        request.bound = self.bound;
        request.for_report = self.report.is_some();
        request.check()?;
        Ok(request)
    }
}
