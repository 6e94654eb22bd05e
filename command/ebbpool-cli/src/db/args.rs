//! Arguments of `ebbpool db`.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use ebbpool_btree::{DatabaseOptions, Durability};
use ebbpool_cost::Decimal;
use ebbpool_lab::MemorySize;
use ebbpool_trace::workload::{Mix, Skew};

use crate::shared_args::{RunFormat, byte_count};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ebbpool db put my.db < my.tsv
  ebbpool db get my.db apple
  ebbpool db delete my.db apple
  ebbpool db dump my.db
  ebbpool db load fruit.db --from my.tsv
  ebbpool db check my.db
  ebbpool db stats my.db
  ebbpool db backup my.db my-backup.db
  ebbpool db shrink my.db
  ebbpool db bench cfdc.db --workload cfdc --seconds 1")]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    pub(crate) command: DbCommand,
}

#[derive(Subcommand)]
pub(crate) enum DbCommand {
    /// Fill an empty database with the records of a workload, or with sorted lines
    #[command(after_help = "\
Examples:
  ebbpool db load new.db --records 10000
  ebbpool db load y.db --workload ycsb --records 10000
  ebbpool db load fruit.db --from my.tsv")]
    Load(LoadArgs),
    /// Put lines key<TAB>value from standard input, each as a transaction; prints 'ok key' as soon as
    /// the transaction is durable
    #[command(after_help = "\
Examples:
  ebbpool db put my.db < my.tsv
  ebbpool db put my.db --durability buffered < my.tsv
  ebbpool db put my.db --recovery-seconds 2 < my.tsv
  ebbpool db put my.db --escape < my.tsv")]
    Put(PutArgs),
    /// Print the value of a key
    #[command(after_help = "\
Examples:
  ebbpool db get my.db apple
  ebbpool db get cfdc.db '\\x00\\x00\\x00\\x07' --escape
  ebbpool db get my.db apple --read-only")]
    Get(GetArgs),
    /// Delete a key, durably
    #[command(after_help = "\
Examples:
  ebbpool db delete my.db apple
  ebbpool db delete cfdc.db '\\x00\\x00\\x00\\x07' --escape")]
    Delete(DeleteArgs),
    /// Print records in order of their keys, as lines key<TAB>value
    #[command(after_help = "\
Examples:
  ebbpool db dump my.db
  ebbpool db dump my.db --from b --to d --reverse
  ebbpool db dump cfdc.db --escape
  ebbpool db dump my.db --escape | ebbpool db load copy.db --escape --from -
  ebbpool db dump my.db --read-only --escape | ebbpool db load saved.db --escape --from -")]
    Dump(DumpArgs),
    /// Copy a database that no other process has open; programs copy their own meanwhile by Database::backup
    #[command(after_help = "\
Example:
  ebbpool db backup my.db my-backup.db")]
    Backup(BackupArgs),
    /// Make the file of a database shorter after much was deleted: move pages to free ones, and cut off the rest
    #[command(after_help = "\
Example:
  ebbpool db shrink my.db")]
    Shrink(ShrinkArgs),
    /// Check every page, and report what is wrong
    #[command(after_help = "\
Examples:
  ebbpool db check my.db
  ebbpool db check my.db --read-only
  ebbpool db check my.db --format json")]
    Check(CheckArgs),
    /// Print sizes, free pages, and whether it was closed; changes no byte
    #[command(after_help = "\
Examples:
  ebbpool db stats my.db
  ebbpool db stats my.db --format json")]
    Stats(StatsArgs),
    /// Run a workload and measure it: the CFDC paper's, or one of YCSB's
    #[command(after_help = "\
Examples:
  ebbpool db bench cfdc.db --workload cfdc --queries 1000 --updates 1000 --frames 10%
  ebbpool db bench cfdc.db --workload cfdc --update-intensity 20% --policy cfdc --seconds 1
  ebbpool db bench ycsb.db --workload ycsb-a --operations 2000 --durability none --threads 2
  ebbpool db bench cfdc.db --workload cfdc --operations 500 --record as-fixed.parquet")]
    Bench(Box<BenchArgs>),
}

impl DbCommand {
    /// True if Ctrl-C ends it where it is, which loses nothing.
    pub(crate) fn ends_at_once(&self) -> bool {
        matches!(self, DbCommand::Get(_) | DbCommand::Shrink(_) | DbCommand::Check(_) | DbCommand::Stats(_))
    }
}

/// How to open a database.
#[derive(Args)]
pub(crate) struct OpenArgs {
    /// Size of the buffer pool: frames, bytes such as 16MiB, or per cent of the pages of an existing
    /// database
    #[arg(long, value_name = "N|P%|BYTES", default_value = "4096")]
    pub(crate) frames: MemorySize,
    /// The replacement policy, such as lru or cfdc:window=0.5,cluster=64 [default: the pool's,
    /// ebb]
    #[arg(long, value_name = "P")]
    pub(crate) policy: Option<String>,
}

impl OpenArgs {
    /// The policy that the user names, or the pool's default.
    pub(crate) fn policy(&self) -> &str {
        self.policy.as_deref().unwrap_or(ebbpool::PoolOptions::USUAL_POLICY)
    }
}

#[derive(Args)]
pub(crate) struct LoadArgs {
    /// The database; the command creates it if it does not exist
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// Load lines key<TAB>value with ascending keys from a file, or - for standard input, instead of
    /// a workload's records
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["workload", "records", "key_bytes", "value_bytes"])]
    pub(crate) from: Option<PathBuf>,
    /// The lines contain \t \n \\ \xHH in place of tabs, newlines, backslashes and other bytes
    #[arg(long, requires = "from")]
    pub(crate) escape: bool,
    /// The workload to load records for: keys are the numbers from 0 for cfdc, 8 bytes that look random
    /// for ycsb
    #[arg(long, value_enum, default_value_t = LoadWorkloadArg::Cfdc)]
    pub(crate) workload: LoadWorkloadArg,
    /// Number of records
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) records: u64,
    /// Bytes of a key [default: 4; always 8 for ycsb]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) key_bytes: Option<u8>,
    /// Bytes of a value [default: 256; 1000 for ycsb]
    #[arg(long, value_name = "BYTES", value_parser = byte_count)]
    pub(crate) value_bytes: Option<usize>,
    /// How full to make the pages, from 0% to 100% [default: 50% for cfdc, as in the paper; else 90%]
    #[arg(long, value_name = "P%")]
    pub(crate) fill: Option<ShareArg>,
    /// Bytes of a page, such as 4096 or 8k: a power of two from 512 to 32768
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = byte_count)]
    pub(crate) page_size: usize,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

#[derive(Args)]
pub(crate) struct PutArgs {
    /// The database; the command creates it if it does not exist
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// The lines contain \t \n \\ \xHH in place of tabs, newlines, backslashes and other bytes
    #[arg(long)]
    pub(crate) escape: bool,
    /// What 'ok' waits for: the device (synced), so that a commit survives a power failure; the operating system (buffered),
    /// so that it survives a crash of the program; or nothing
    #[arg(long, value_enum, default_value_t = DurabilityArg::Synced)]
    pub(crate) durability: DurabilityArg,
    /// The longest time that a recovery is to take after a crash: checkpoints are more frequent
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) recovery_seconds: Option<f64>,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

#[derive(Args)]
pub(crate) struct GetArgs {
    /// The database
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// The key
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
    /// The key contains \t \n \\ \xHH in place of other bytes, and the value is printed in the same form
    #[arg(long)]
    pub(crate) escape: bool,
    /// Change no byte of its files, which may be on a read-only file system; also opens a database whose
    /// log has lost its end, and shows the rest
    #[arg(long)]
    pub(crate) read_only: bool,
}

#[derive(Args)]
pub(crate) struct DeleteArgs {
    /// The database
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// The key
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
    /// The key contains \t \n \\ \xHH in place of other bytes
    #[arg(long)]
    pub(crate) escape: bool,
}

#[derive(Args)]
pub(crate) struct DumpArgs {
    /// The database
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// Start with this key
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<OsString>,
    /// Stop before this key
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<OsString>,
    /// Print from the last key to the first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Print \t \n \\ \xHH in place of tabs, newlines, backslashes and other bytes, and read --from and
    /// --to in this form
    #[arg(long)]
    pub(crate) escape: bool,
    /// Change no byte of its files, which may be on a read-only file system; also opens a database whose
    /// log has lost its end, and shows the rest
    #[arg(long)]
    pub(crate) read_only: bool,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

#[derive(Args)]
pub(crate) struct BackupArgs {
    /// The database
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// The copy; none of its files may be there
    #[arg(value_name = "COPY")]
    pub(crate) to: PathBuf,
}

#[derive(Args)]
pub(crate) struct ShrinkArgs {
    /// The database, which no other process has open
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The database
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// Change no byte of its files, which may be on a read-only file system; also opens a database whose
    /// log has lost its end, and shows the rest
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

#[derive(Args)]
pub(crate) struct StatsArgs {
    /// The database, which no other process has open
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
}

const CFDC: &str = "Workload cfdc (DaMoN 2009, section 4.2)";
const YCSB: &str = "Workloads ycsb-a to ycsb-f";

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// A database that 'ebbpool db load' made for the workload; the workload changes it
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// The workload: point and range queries and updates as in the CFDC paper, or one of YCSB's: 50 % reads and
    /// 50 % updates (a), 95 % and 5 % (b), reads only (c), 95 % reads of the latest records and 5 % inserts (d), 95 %
    /// scans and 5 % inserts (e), 50 % reads and 50 % reads with an update (f)
    #[arg(long, value_enum)]
    pub(crate) workload: WorkloadArg,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    /// Threads that share the workload's operations
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: u16,
    /// What a commit waits for: the device (synced), the operating system (buffered), or nothing
    #[arg(long, value_enum, default_value_t = DurabilityArg::Synced)]
    pub(crate) durability: DurabilityArg,
    /// The longest time that a recovery is to take after a crash: checkpoints are more frequent
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) recovery_seconds: Option<f64>,
    /// End after this many operations [default: for cfdc what its options add up to; for ycsb 100000,
    /// or no limit with --seconds]
    #[arg(long, value_name = "N")]
    pub(crate) operations: Option<NonZeroU64>,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// Seed of the random numbers; another seed gives another workload of the same kind
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the page references to the pool, in their order, as a trace in the native format
    #[arg(long, value_name = "FILE.parquet")]
    pub(crate) record: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
    /// Number of point queries [default: 100000]
    #[arg(long, value_name = "N", help_heading = CFDC)]
    pub(crate) queries: Option<u64>,
    /// Number of point updates [default: 100000]
    #[arg(long, value_name = "N", help_heading = CFDC)]
    pub(crate) updates: Option<u64>,
    /// Number of range queries [default: 200]
    #[arg(long, value_name = "N", help_heading = CFDC)]
    pub(crate) scans: Option<u64>,
    /// Number of range updates [default: 200]
    #[arg(long, value_name = "N", help_heading = CFDC)]
    pub(crate) scan_updates: Option<u64>,
    /// Share of updates among the same number of operations
    #[arg(long, value_name = "P%", help_heading = CFDC)]
    pub(crate) update_intensity: Option<ShareArg>,
    /// Records of a range [default: 256; for ycsb-e at most 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) scan_length: Option<u64>,
    /// A share A of the point operations goes to a share B of the records [default: 0.8/0.2]
    #[arg(long, value_name = "A/B", help_heading = CFDC)]
    pub(crate) skew: Option<Skew>,
    /// Scatter the popular records; otherwise record 0 is the most popular and its neighbours are next
    #[arg(long, help_heading = CFDC)]
    pub(crate) scattered: bool,
    /// Exponent of the Zipf distribution, 0 to 10 [default: 0.99]
    #[arg(long, value_name = "A", help_heading = YCSB, value_parser = alpha)]
    pub(crate) alpha: Option<f64>,
}

impl BenchArgs {
    /// An option that the user gives and the workload does not have.
    pub(crate) fn misplaced(&self) -> Option<&'static str> {
        if self.workload.mix().is_none() {
            return self.alpha.map(|_| "--alpha");
        }
        let cfdc_options = [
            (self.queries.is_some(), "--queries"),
            (self.updates.is_some(), "--updates"),
            (self.scans.is_some(), "--scans"),
            (self.scan_updates.is_some(), "--scan-updates"),
            (self.update_intensity.is_some(), "--update-intensity"),
            (self.skew.is_some(), "--skew"),
            (self.scattered, "--scattered"),
        ];
        let given = cfdc_options.into_iter().find(|(given, _)| *given);
        given.map(|(_, option)| option)
    }
}

/// Adds what a commit waits for, and how long a recovery may take.
pub(crate) fn with_promises(
    options: DatabaseOptions,
    durability: DurabilityArg,
    recovery_seconds: Option<f64>,
) -> DatabaseOptions {
    let options = options.durability(durability.into());
    recovery_seconds.map(Duration::from_secs_f64).into_iter().fold(options, DatabaseOptions::recovery_within)
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadWorkloadArg {
    Cfdc,
    Ycsb,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadArg {
    Cfdc,
    YcsbA,
    YcsbB,
    YcsbC,
    YcsbD,
    YcsbE,
    YcsbF,
}

impl WorkloadArg {
    pub(crate) fn name(self) -> &'static str {
        match self {
            WorkloadArg::Cfdc => "cfdc",
            WorkloadArg::YcsbA => "ycsb-a",
            WorkloadArg::YcsbB => "ycsb-b",
            WorkloadArg::YcsbC => "ycsb-c",
            WorkloadArg::YcsbD => "ycsb-d",
            WorkloadArg::YcsbE => "ycsb-e",
            WorkloadArg::YcsbF => "ycsb-f",
        }
    }

    /// The mix of a YCSB workload; `None` for `cfdc`.
    pub(crate) fn mix(self) -> Option<Mix> {
        match self {
            WorkloadArg::Cfdc => None,
            WorkloadArg::YcsbA => Some(Mix::A),
            WorkloadArg::YcsbB => Some(Mix::B),
            WorkloadArg::YcsbC => Some(Mix::C),
            WorkloadArg::YcsbD => Some(Mix::D),
            WorkloadArg::YcsbE => Some(Mix::E),
            WorkloadArg::YcsbF => Some(Mix::F),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    None,
    Buffered,
    Synced,
}

impl DurabilityArg {
    pub(crate) fn name(self) -> &'static str {
        match self {
            DurabilityArg::None => "none",
            DurabilityArg::Buffered => "buffered",
            DurabilityArg::Synced => "synced",
        }
    }
}

impl From<DurabilityArg> for Durability {
    fn from(arg: DurabilityArg) -> Self {
        match arg {
            DurabilityArg::None => Durability::None,
            DurabilityArg::Buffered => Durability::Buffered,
            DurabilityArg::Synced => Durability::Synced,
        }
    }
}

/// A share from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareArg(pub(crate) Decimal);

impl FromStr for ShareArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = text.trim().parse().ok();
        share
            .filter(|share: &Decimal| !share.exceeds_one())
            .map(ShareArg)
            .ok_or_else(|| format!("'{text}' is not a share; give per cent from 0% to 100%"))
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    const LONGEST: f64 = 1e6;
    let seconds = text.trim().parse::<f64>().ok();
    seconds
        .filter(|&seconds| seconds > 0.0 && seconds <= LONGEST)
        .ok_or_else(|| "give a time above 0 and up to 1000000, such as 60".into())
}

fn alpha(text: &str) -> Result<f64, String> {
    let alpha = text.trim().parse::<f64>().ok();
    alpha.filter(|alpha| (0.0..=10.0).contains(alpha)).ok_or_else(|| "give a number from 0 to 10, such as 0.99".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_at_most_100_per_cent() {
        let share = |text: &str| text.parse::<ShareArg>().map(|share| share.0.to_f64());
        assert_eq!(share("20%"), Ok(0.2));
        assert_eq!(share("0.5"), Ok(0.5));
        assert!(share("101%").is_err() && share("x").is_err());
        assert!(seconds("0").is_err() && seconds("nan").is_err() && alpha("-1").is_err());
    }
}
