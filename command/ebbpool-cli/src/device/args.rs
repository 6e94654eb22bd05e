//! Arguments of `ebbpool device`.

use clap::{Args, Subcommand};
use ebbpool_cost::BytesPerDay;
use ebbpool_device::arrivals::Rate;
use ebbpool_device::flash::{self, FlashConfig};

use crate::measure::args::MeasureArgs;
use crate::shared_args::{ReadArgs, RunFormat};

#[derive(Args)]
pub(crate) struct DeviceArgs {
    #[command(subcommand)]
    pub(crate) command: DeviceCommand,
}

#[derive(Subcommand)]
pub(crate) enum DeviceCommand {
    /// Send a trace's reads and writes to a device, without a buffer
    #[command(after_help = format!("\
Parameters of a device, as in flash:tlc-mqsim,blocks=256,ftl=fast:
{}
Examples:
  ebbpool device replay my.parquet --device flash:slc-mt29f4g08aaa,blocks=256
  ebbpool device replay my.txt --device flash:tlc-mqsim,ftl=fast --format json
  ebbpool device replay my.txt --device flash:qlc-3d-2024 --bytes-per-day 10GB", flash::describe_parameters()))]
    Replay(Box<DeviceReplayArgs>),
    /// Measure a real device: random and sequential reads and writes, queue depths and batches
    #[command(after_help = "\
Examples:
  ebbpool device measure . --size 64MiB --seconds 0.02
  ebbpool device measure my.parquet --read-only --seconds 0.02 --format json
  ebbpool device measure ssd.dat --size 64MiB --seconds 0.02 --profile ssd.toml")]
    Measure(MeasureArgs),
}

#[derive(Args)]
pub(crate) struct DeviceReplayArgs {
    /// A trace: a file, - for standard input, or a generator; several with --concat or --merge
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<String>,
    /// The device: flash:PROFILE[,PARAMETER=VALUE…]; PROFILE is a chip's name or a TOML file
    #[arg(long, value_name = "flash:…")]
    pub(crate) device: FlashConfig,
    /// Bytes that the host writes per day, such as 10GB, or per period, as in 2MB/s, to compute the lifetime in
    /// days
    #[arg(long, value_name = "BYTES[/day]", allow_negative_numbers = true)]
    pub(crate) bytes_per_day: Option<BytesPerDay>,
    /// References that arrive at the device per second, or per period, as in 300/min; it draws its idle power
    /// in between [default: each arrives when the previous one is served]
    #[arg(long, value_name = "N[/s]")]
    pub(crate) rate: Option<Rate>,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}
