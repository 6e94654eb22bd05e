//! Arguments of `ebbpool device measure`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ebbpool::storage::Engine;
use ebbpool_cost::ByteSize;

use crate::shared_args::{RunFormat, byte_count};

#[derive(Args)]
pub(crate) struct MeasureArgs {
    /// A block device, a file, or a directory on the device; for a directory or a path that does not
    /// exist the command creates a file, and removes it afterwards
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// Size of the created file, such as 512MiB [default: 1GiB]; of an existing file or device the
    /// number of bytes to measure [default: all]
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Option<ByteSize>,
    /// Bytes of a page, such as 4096 or 16k: a power of two, 512 or more
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = byte_count)]
    pub(crate) page_size: usize,
    /// Time for each of 36 measurements, or of 18 with --read-only
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) seconds: f64,
    /// How to pass I/O to the system: by io_uring, by threads that call pread and pwritev, or by io_uring where
    /// the system has it (auto)
    #[arg(long, value_enum, default_value_t = EngineArg::Auto)]
    pub(crate) engine: EngineArg,
    /// Use the kernel's page cache; the command then measures memory
    #[arg(long)]
    pub(crate) buffered: bool,
    /// Measure reads only, and write nothing to an existing file or device
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Write to an existing file or device without asking; its contents are lost
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) yes: bool,
    /// Also write a device profile, for --device FILE.toml
    #[arg(long, value_name = "FILE.toml", conflicts_with = "read_only")]
    pub(crate) profile: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    Auto,
    Uring,
    Threads,
}

impl From<EngineArg> for Engine {
    fn from(arg: EngineArg) -> Self {
        match arg {
            EngineArg::Auto => Engine::Auto,
            EngineArg::Uring => Engine::Uring,
            EngineArg::Threads => Engine::Threads,
        }
    }
}

const LONGEST: f64 = 3600.0;

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.trim().parse::<f64>().ok();
    seconds
        .filter(|&seconds| seconds > 0.0 && seconds <= LONGEST)
        .ok_or_else(|| "give a time above 0 and up to 3600, such as 0.5".into())
}
