//! Arguments of `ebbpool capture`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use ebbpool_capture::Limits;
use ebbpool_cost::{ByteSize, parse_duration};
use ebbpool_lab::{AsymmetrySpec, MemorySize};

use crate::shared_args::Spelled;
use crate::trace::output_path;

/// References from which on the trace is refused if a larger share of events was lost.
pub(super) const MOST_LOST: f64 = 0.01;

#[derive(Args)]
pub(crate) struct CaptureArgs {
    #[command(subcommand)]
    pub(super) target: CaptureTarget,
}

#[derive(Subcommand)]
pub(super) enum CaptureTarget {
    /// List the running servers that can be captured
    #[command(after_help = "\
Example:
  ebbpool capture list                            as root: also servers of other users")]
    List,
    /// PostgreSQL 13 to 18: each request of a page to the shared buffer
    #[command(after_help = "\
Examples:
  sudo ebbpool capture postgres --seconds 20 --advise
  sudo ebbpool capture postgres --pid 4711 -o monday.parquet
  sudo ebbpool capture postgres --seconds 300 --references 50M --at-most 5%
  PGUSER=postgres ebbpool capture postgres --module --seconds 300")]
    Postgres(PostgresArgs),
    /// MySQL 8.0 and later: each request of a page to InnoDB's buffer pool
    #[command(after_help = "\
Examples:
  sudo ebbpool capture mysql --seconds 20 --advise
  sudo ebbpool capture mysql --pid 4711 --symbols mysqld.debug")]
    Mysql(MysqlArgs),
    /// MariaDB: as mysql, with the debug symbols of the same build
    #[command(after_help = "\
Example:
  sudo ebbpool capture mariadb --symbols /usr/lib/debug/.build-id/ab/cdef.debug")]
    Mariadb(MysqlArgs),
    /// SQLite in a process that has its shared library: each request of a page to the page cache
    #[command(after_help = "\
Example:
  sudo ebbpool capture sqlite --pid 4711 --seconds 300 --advise --frames 2000KiB")]
    Sqlite(CaptureSqliteArgs),
    /// Any process: what it reads and writes of regular files, by system calls and io_uring
    #[command(after_help = "\
Examples:
  sudo ebbpool capture process --pid 4711
  sudo ebbpool capture process --pid 4711 --follow-children --page-size 8k -o files.parquet")]
    Process(ProcessArgs),
    /// A block device: the requests of all programs
    #[command(after_help = "\
Example:
  sudo ebbpool capture device /dev/sda --seconds 300")]
    Device(BlockDeviceArgs),
}

#[derive(Args)]
pub(super) struct PostgresArgs {
    /// The server's process, the parent of its backends [default: the only one]
    #[arg(long, value_name = "N")]
    pub(super) pid: Option<i32>,
    /// By the module of Ebbpool, where its policy works, in place of probes: without root, by psql, which takes server,
    /// user and database from PGHOST, PGPORT, PGUSER and PGDATABASE
    #[arg(long, conflicts_with_all = ["pid", "ring"])]
    pub(super) module: bool,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

#[derive(Args)]
pub(super) struct MysqlArgs {
    /// The server's process [default: the only one]
    #[arg(long, value_name = "N")]
    pub(super) pid: Option<i32>,
    /// The file with the debug symbols of the same build, where the program has none
    #[arg(long, value_name = "FILE")]
    pub(super) symbols: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

#[derive(Args)]
pub(super) struct CaptureSqliteArgs {
    /// The process
    #[arg(long, value_name = "N")]
    pub(super) pid: i32,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

#[derive(Args)]
pub(super) struct ProcessArgs {
    /// The process
    #[arg(long, value_name = "N")]
    pub(super) pid: i32,
    /// Capture the processes that it has started and will start, too
    #[arg(long)]
    pub(super) follow_children: bool,
    /// Bytes of a page
    #[arg(long, value_name = "BYTES", default_value = "4096")]
    pub(super) page_size: ByteSize,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

#[derive(Args)]
pub(super) struct BlockDeviceArgs {
    /// The device's file, such as /dev/sda
    #[arg(value_name = "DEVICE")]
    pub(super) path: PathBuf,
    /// Bytes of a page
    #[arg(long, value_name = "BYTES", default_value = "4096")]
    pub(super) page_size: ByteSize,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// What every capture takes.
#[derive(Args)]
pub(crate) struct CommonArgs {
    #[command(flatten)]
    pub(super) session: SessionArgs,
    /// Call relations and files by their numbers, and write and print no path of the server's
    #[arg(long)]
    pub(super) no_names: bool,
    #[command(flatten)]
    pub(super) advice: AdviceArgs,
}

/// When a capture ends, what it may cost, and where it goes.
#[derive(Args)]
pub(super) struct SessionArgs {
    /// End after this time: seconds, or a time with a unit such as 5min
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = seconds)]
    seconds: Duration,
    /// End after this many references, such as 20M; each takes 24 bytes of memory
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    references: u64,
    /// The largest share of the target's processor time that the capture may take; beyond it, it captures
    /// fewer pages, or ends
    #[arg(long, value_name = "P%", default_value = "10%", value_parser = share)]
    at_most: f64,
    /// The trace, or - for standard output; NAME.json beside it has the names of all objects
    #[arg(short, long, value_name = "FILE", default_value = "capture.parquet", value_parser = output())]
    pub(super) output: PathBuf,
    /// Memory for events that wait
    #[arg(long, value_name = "BYTES", default_value = "64MiB")]
    ring: ByteSize,
    /// Write the trace even if more than 1 % of the events were lost
    #[arg(long)]
    pub(super) force: bool,
}

#[cfg(feature = "sqlite")]
impl CommonArgs {
    /// A capture that ends with the program.
    pub(crate) fn until_end(output: &std::path::Path, references: u64) -> CommonArgs {
        let session = SessionArgs {
            seconds: Duration::MAX,
            references,
            at_most: 1.0,
            output: output_path(output).to_owned(),
            ring: ByteSize::new(16 << 20),
            force: false,
        };
        let advice =
            AdviceArgs { advise: false, frames: None, device: None, asymmetry: None, memory_budget: None, memory_price: None };
        CommonArgs { session, no_names: false, advice }
    }
}

impl SessionArgs {
    pub(super) fn limits(&self) -> Limits {
        const LEAST: u64 = 1 << 16;
        const MOST: u64 = 1 << 30;
        let ring = self.ring.bytes().clamp(LEAST, MOST).next_power_of_two();
        Limits {
            time: self.seconds,
            references: usize::try_from(self.references).unwrap_or(usize::MAX),
            overhead: self.at_most,
            ring_bytes: ring as u32,
        }
    }
}

#[derive(Args)]
pub(super) struct AdviceArgs {
    /// Then print what `ebbpool advise` says of the trace
    #[arg(long)]
    pub(super) advise: bool,
    /// The size of the buffer, as for `ebbpool advise` [default: what the server has]
    #[arg(long, value_name = "N|P%|BYTES", requires = "advise")]
    pub(super) frames: Option<MemorySize>,
    /// The device under the server, as for `ebbpool advise`
    #[arg(long = "device", value_name = "NAME|FILE.toml|flash:…", requires = "advise")]
    pub(super) device: Option<String>,
    /// Cost of a page write in page reads, as for `ebbpool advise`
    #[arg(long, value_name = "R", requires = "advise")]
    pub(super) asymmetry: Option<AsymmetrySpec>,
    /// The most memory that the buffer may have, as for `ebbpool advise`
    #[arg(long, value_name = "BYTES", requires = "advise")]
    pub(super) memory_budget: Option<Spelled<ByteSize>>,
    /// The price of a GiB of memory for a month in $, as for `ebbpool advise`
    #[arg(long, value_name = "USD", value_parser = crate::advise::args::price, allow_negative_numbers = true, requires = "advise")]
    pub(super) memory_price: Option<f64>,
}

/// The path of the trace; `-` stands for standard output, as for `ebbpool trace convert`.
fn output() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| output_path(&path).to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let time = match text.trim().parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?,
        Err(_) => parse_duration(text).map_err(|error| error.to_string())?,
    };
    match time.is_zero() {
        true => Err("a capture takes some time; give more than 0 seconds".into()),
        false => Ok(time),
    }
}

pub(crate) fn count(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        _ => (text, 1),
    };
    let number: Option<u64> = digits.parse().ok();
    number
        .and_then(|number| number.checked_mul(unit))
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("'{text}' is not a number of references above 0, such as 500000 or 20M"))
}

fn share(text: &str) -> Result<f64, String> {
    let digits = text.trim().trim_end_matches('%').trim_end();
    let percent: Option<f64> = digits.parse().ok();
    percent
        .filter(|percent| percent.is_finite() && *percent > 0.0)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("'{text}' is not a share above 0 %, such as 10%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_a_capture() {
        assert_eq!(seconds("20"), Ok(Duration::from_secs(20)));
        assert_eq!(seconds("5min"), Ok(Duration::from_secs(300)));
        assert!(seconds("0").is_err() && seconds("-1").is_err() && seconds("x").is_err());
        assert_eq!((count("20M"), count("7")), (Ok(20_000_000), Ok(7)));
        assert!(count("0").is_err() && count("M").is_err() && count("99999999999999999999M").is_err());
        assert_eq!((share("10%"), share("2.5 %")), (Ok(0.1), Ok(0.025)));
        assert!(share("0%").is_err() && share("inf%").is_err() && share("").is_err());
    }
}
