//! The command line.

#[cfg(feature = "man")]
use std::path::PathBuf;

#[cfg(any(feature = "completions", feature = "man"))]
use clap::Args;
use clap::{Parser, Subcommand};

use crate::advise::args::AdviseArgs;
use crate::bound::args::BoundArgs;
#[cfg(all(feature = "capture", target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use crate::capture::args::CaptureArgs;
use crate::compare::args::CompareArgs;
use crate::curve::args::CurveArgs;
#[cfg(all(feature = "db", unix))]
use crate::db::args::DbArgs;
#[cfg(feature = "device")]
use crate::device::args::DeviceArgs;
use crate::devices::DevicesArgs;
use crate::diff::args::DiffArgs;
use crate::left_out;
use crate::policies::PoliciesArgs;
#[cfg(all(feature = "replay", unix))]
use crate::replay::args::ReplayArgs;
#[cfg(feature = "reproduce")]
use crate::reproduce::args::ReproduceArgs;
use crate::run::args::RunArgs;
use crate::schema::SchemaArgs;
#[cfg(all(feature = "sqlite", target_os = "linux"))]
use crate::sqlite::args::SqliteArgs;
use crate::trace::args::TraceArgs;

/// A buffer pool that knows what a write costs: which policy makes the bill smallest?
#[derive(Parser)]
#[command(name = "ebbpool", version = version(), after_help = left_out::help(EXAMPLES))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The version; of a release also the date of its commit, which `./release` sets.
fn version() -> &'static str {
    match option_env!("EBBPOOL_RELEASE_VERSION") {
        Some(version) => version,
        None => env!("CARGO_PKG_VERSION"),
    }
}

const EXAMPLES: &str = "\
Examples:
  ebbpool compare                                 the sample that ships with Ebbpool
  ebbpool compare my.parquet --frames 1%,5% --asymmetry 16
  ebbpool run my.txt --policy fd-buffer --frames 3%
  ebbpool policies                                all policies and their parameters";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Compare policies over memory sizes and asymmetries
    #[command(after_help = "\
Examples:
  ebbpool compare
  ebbpool compare a.parquet b.u32.zst --policies lru,cflru:window=0.25,fd-exact
  ebbpool compare zipf:pages=50000,refs=500000,write-alpha=1.2 --policies all --format csv
  ebbpool compare my.parquet --asymmetry 8,rm1:base=25,epochs=100,rm2
  ebbpool compare my.parquet --page-size 8k --frames 128MiB,1GiB
  ebbpool compare my.parquet --device sd-a1 --report answer.html
  ebbpool compare my.parquet --device flash:slc-mt29f4g08aaa,blocks=64 --report wear.html")]
    Compare(CompareArgs),
    /// Advise an operator: the policy to take, the memory worth having, and how long the device lives
    #[command(after_help = "\
Examples:
  ebbpool advise my.parquet --frames 500 --now lru --asymmetry 8
  ebbpool advise my.parquet --page-size 8k --frames 2MiB --memory-budget 8MiB --duration 10min
  ebbpool advise my.parquet --page-size 8k --device sd-a1 --rate 500/s --life 5y
  ebbpool advise my.parquet --page-size 8k --writes-per-day 10GB --format json")]
    Advise(AdviseArgs),
    /// Show reads, writes and bill against memory size, and the memory that a target needs
    #[command(after_help = "\
Examples:
  ebbpool curve my.parquet
  ebbpool curve my.parquet --policies lru,cflru,casa --sample 10% --format csv
  ebbpool curve my.parquet --policies lru,fd-buffer --target 'writes -50%' --baseline 3%
  ebbpool curve my.parquet --policies lru,cflru --target 'bill 1.5' --report curve.html
  ebbpool curve my.parquet --policies lru --clean-pools 3%")]
    Curve(CurveArgs),
    /// Capture the page requests of a running database, and say what to do about them
    #[cfg(all(feature = "capture", target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[command(after_help = "\
Capturing needs root, changes nothing in the target, and leaves nothing behind (docs/capture.md).

Examples:
  sudo ebbpool capture postgres --seconds 20 --advise
  sudo ebbpool capture list")]
    Capture(CaptureArgs),
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
    #[cfg(all(feature = "replay", unix))]
    #[command(after_help = "\
Examples:
  ebbpool replay my.parquet --file pool.pages --create --policy casa --frames 3% --limit 20000
  ebbpool replay my.parquet --memory --policy cflru --frames 3% --asymmetry 32 --format json
  ebbpool replay my.parquet --memory --policies lru,cflru,casa --frames 3% --warmup 10%
  ebbpool replay my.parquet --memory --policy lru --frames 500 --threads 4 --background
  ebbpool replay my.parquet --memory --policy lru --frames 500 --record as-fixed.parquet")]
    Replay(ReplayArgs),
    /// Keep records in a database on the pool: load, put, get, dump, check, bench
    #[cfg(all(feature = "db", unix))]
    Db(DbArgs),
    /// Have programs with SQLite write fewer bytes where commits are small and many: run, status, check, recover, measure
    #[cfg(all(feature = "sqlite", target_os = "linux"))]
    #[command(after_help = "\
A card gets 1.0 to 5.3 times fewer bytes in the seven loads of docs/sqlite.md, which has the promise and its price.

Examples:
  ebbpool sqlite measure home.db --minutes 0.01   what it would save, before anything is changed
  ebbpool sqlite status home.db")]
    Sqlite(SqliteArgs),
    /// Compute a bound that no policy's bill can undercut, and the bill of a clairvoyant policy
    #[command(after_help = "\
Examples:
  ebbpool bound my.parquet --frames 3%
  ebbpool bound my.parquet --frames 1%,3% --asymmetry 1,32 --format json
  ebbpool bound my.parquet --frames 3% --no-cache
  ebbpool bound zipf:pages=10000,refs=100000 --frames 310 --at-end flush")]
    Bound(BoundArgs),
    /// Compare two results of the same command: what changed, by how much, beyond noise
    #[command(after_help = "\
The exit code is 0 whether or not the results differ; with --exit-code it is 1 if they do. It is 2 for
files that cannot be compared.

Examples:
  ebbpool diff monday.json tuesday.json
  ebbpool diff monday.json tuesday.json --report diff.html
  ebbpool diff monday.json tuesday.json --exit-code --noise 50%")]
    Diff(DiffArgs),
    /// Print the JSON Schema of a command's results, or list the commands that have one
    #[command(after_help = "\
Examples:
  ebbpool schema
  ebbpool schema compare > compare.schema.json
  ebbpool schema trace info")]
    Schema(SchemaArgs),
    /// Run the experiments of five papers again: their tables and figures, and which claims hold
    #[cfg(feature = "reproduce")]
    #[command(after_help = "\
Examples:
  ebbpool reproduce --list
  ebbpool reproduce cikm-table2
  ebbpool reproduce adlru-fig11 --policy arc,lru-k:k=3 --out figures
  ebbpool reproduce cikm-table2 cfdc-fig3 --format json")]
    Reproduce(ReproduceArgs),
    /// Describe, convert and generate traces
    Trace(TraceArgs),
    /// Drive a simulated flash device, or measure a real one
    #[cfg(feature = "device")]
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
    /// Print a shell script that completes ebbpool's commands, options and policies
    #[cfg(feature = "completions")]
    #[command(after_help = "\
Examples:
  ebbpool completions bash > ebbpool.bash         then: source ebbpool.bash
  ebbpool completions zsh > _ebbpool              in a directory of $fpath
  ebbpool completions fish > ebbpool.fish         in ~/.config/fish/completions")]
    Completions(CompletionsArgs),
    /// Write the manual pages into a directory
    #[cfg(feature = "man")]
    #[command(after_help = "\
Example:
  ebbpool man .                                   then: man -l ebbpool.1")]
    Man(ManArgs),
    /// List the devices, or show the figures of one with their sources
    #[command(after_help = "\
Examples:
  ebbpool devices
  ebbpool devices flash-136
  ebbpool devices nvme-dc-9200 --format toml > my.toml
  ebbpool devices my.toml")]
    Devices(DevicesArgs),
}

#[cfg(feature = "completions")]
#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to print the script for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(feature = "man")]
#[derive(Args)]
pub(crate) struct ManArgs {
    /// An existing directory; the command replaces pages of the same name
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
