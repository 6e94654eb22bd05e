//! Arguments of `ebbpool diff`.

use std::path::PathBuf;

use clap::Args;
use ebbpool_lab::diff::NOISE;

use crate::outputs;
use crate::shared_args::RunFormat;

#[derive(Args)]
pub(crate) struct DiffArgs {
    /// The first result: the JSON of a command, or - for standard input
    #[arg(value_name = "A.json")]
    pub(crate) before: PathBuf,
    /// The second result, of the same command
    #[arg(value_name = "B.json")]
    pub(crate) after: PathBuf,
    /// Measured figures, such as times, count as changed if one is more than this larger than the other
    #[arg(long, value_name = "P%", default_value_t = Noise(NOISE), value_parser = parse_noise)]
    pub(crate) noise: Noise,
    /// Show all changes, also those that follow from others or are within noise
    #[arg(long)]
    pub(crate) all: bool,
    /// End with exit code 1 if anything differs beyond noise; by default that is no failure
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// Write the comparison as an HTML page
    #[arg(long, value_name = "FILE.html", value_parser = outputs::page())]
    pub(crate) report: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
}

/// A threshold as a share, spelled in per cent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noise(pub(crate) f64);

impl std::fmt::Display for Noise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%", 100.0 * self.0)
    }
}

fn parse_noise(text: &str) -> Result<Noise, String> {
    let percent = text.strip_suffix('%').and_then(|it| it.trim().parse::<f64>().ok());
    match percent {
        Some(percent) if percent.is_finite() && percent >= 0.0 => Ok(Noise(percent / 100.0)),
        _ => Err("give a share in per cent, such as 20%, or 0% for none".into()),
    }
}
