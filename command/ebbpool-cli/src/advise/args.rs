//! Arguments of `ebbpool advise`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ebbpool_cost::{ByteSize, BytesPerDay, parse_duration};
use ebbpool_device::arrivals::Rate;
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_lab::advise::{AdviceClock, AdviseRequest, DailyWrites, MeasuredWrites, ServerKind};
use ebbpool_lab::{MemorySize, PricingRequest, RequestError};
use ebbpool_sim::Warmup;

use crate::failure::Failure;
use crate::outputs;
use crate::shared_args::{AtEndArgs, CheckpointArgs, ReadArgs, RunFormat, Spelled, ThreadArgs};

#[derive(Args)]
pub(crate) struct AdviseArgs {
    /// A trace: a file, - for standard input, or a generator such as zipf:pages=10000,refs=1000000;
    /// several with --concat or --merge [default: the TPC-C sample]
    #[arg(value_name = "TRACE")]
    pub(crate) traces: Vec<String>,
    /// The device: a name of 'ebbpool devices', your own profile, or a simulated device, flash:…
    #[arg(long, value_name = "NAME|FILE.toml|flash:…")]
    pub(crate) device: Option<String>,
    /// Cost of a page write in page reads, if no device is named [default: 32]
    #[arg(long, value_name = "R")]
    pub(crate) asymmetry: Option<AsymmetrySpec>,
    /// The server whose buffer it is, for its policy, its memory and its settings [default: by the
    /// trace's name]
    #[arg(long, value_enum, value_name = "SERVER")]
    pub(crate) server: Option<ServerArg>,
    /// The present policy [default: postgres, innodb or sqlite where the trace comes from there; else lru]
    #[arg(long, value_name = "POLICY")]
    pub(crate) now: Option<String>,
    /// The present size of the buffer: frames, per cent of the database's pages, or bytes [default:
    /// the server's own default, else the budget, else 3%]
    #[arg(long, value_name = "N|P%|BYTES", allow_negative_numbers = true)]
    pub(crate) frames: Option<MemorySize>,
    /// The most memory that the buffer may have, such as 512MiB [default: its present size]
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory_budget: Option<ByteSize>,
    /// The price of a GiB of memory for a month in $: adds $ a month to each size of the memory
    #[arg(long, value_name = "USD", value_parser = price, allow_negative_numbers = true)]
    pub(crate) memory_price: Option<f64>,
    /// References that arrive per second, or per period, as in 300/min
    #[arg(long, value_name = "N[/s]", conflicts_with_all = ["duration", "writes_per_day"])]
    pub(crate) rate: Option<Rate>,
    /// The time in which the references of the trace arrived, such as 10min [default: by the
    /// times in the trace]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "writes_per_day")]
    pub(crate) duration: Option<Duration>,
    /// What the present system writes in a day: bytes with a unit, such as 10GB, or a number of pages
    #[arg(long, value_name = "BYTES|PAGES", value_parser = daily_writes)]
    pub(crate) writes_per_day: Option<DailyWrites>,
    /// How long the device should live, such as 5y; judged at the lower end of the range of its life
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) life: Option<Duration>,
    /// References at the start that are replayed but not counted
    #[arg(long, value_name = "N|P%", default_value = "0")]
    pub(crate) warmup: Spelled<Warmup>,
    #[command(flatten)]
    at_end: AtEndArgs,
    #[command(flatten)]
    checkpoints: CheckpointArgs,
    /// The file of facts of a capture: what the server and its device wrote meanwhile, from which the life of the device starts
    #[arg(long, value_name = "FILE.json")]
    pub(crate) facts: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
    /// Write an HTML page
    #[arg(long, value_name = "FILE.html", value_parser = outputs::page())]
    pub(crate) report: Option<PathBuf>,
    /// Compute everything again, and store no result for the next time
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(crate) format: RunFormat,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ServerArg {
    #[value(alias = "postgres")]
    Postgresql,
    #[value(aliases = ["mysql", "mariadb"])]
    Innodb,
    Sqlite,
    Other,
}

#[cfg(feature = "capture")]
impl ServerArg {
    /// The word of the option.
    pub(crate) fn word(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl From<ServerArg> for ServerKind {
    fn from(server: ServerArg) -> Self {
        match server {
            ServerArg::Postgresql => ServerKind::Postgresql,
            ServerArg::Innodb => ServerKind::Innodb,
            ServerArg::Sqlite => ServerKind::Sqlite,
            ServerArg::Other => ServerKind::Other,
        }
    }
}

/// Reads an amount in $.
pub(crate) fn price(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim().trim_start_matches('$').parse().ok();
    number
        .filter(|price| price.is_finite() && *price >= 0.0)
        .ok_or_else(|| format!("'{text}' is no price of a GiB of memory for a month in $; give a number, such as 2.5"))
}

fn daily_writes(text: &str) -> Result<DailyWrites, String> {
    if let Ok(pages) = text.trim().parse::<f64>() {
        return match pages.is_finite() && pages > 0.0 {
            true => Ok(DailyWrites::Pages(pages)),
            false => Err(format!("'{text}' is not a number of page writes above 0")),
        };
    }
    let bytes: BytesPerDay = text.parse().map_err(|error: ebbpool_cost::BytesPerDayError| error.to_string())?;
    Ok(DailyWrites::Bytes(bytes))
}

impl AdviseArgs {
    /// What was written while the trace was captured, from the file of facts.
    pub(crate) fn measured(&self) -> Result<Option<MeasuredWrites>, Failure> {
        let Some(path) = &self.facts else {
            return Ok(None);
        };
        let facts = fs::read_to_string(path).map_err(|error| Failure::Command {
            error: format!("cannot read {}: {error}", path.display()).into(),
            usage: false,
        })?;
        let measured = MeasuredWrites::from_facts(&facts).map_err(RequestError::from)?;
        Ok(Some(measured))
    }

    /// The request to the lab, without the file of facts.
    pub(crate) fn request(&self) -> Result<AdviseRequest, Failure> {
        let pricing = match (&self.asymmetry, &self.device) {
            (None, None) => None,
            (asymmetry, device) => Some(PricingRequest::new(asymmetry.clone(), device.as_deref())?),
        };
        let rate = self.rate.map(AdviceClock::Rate);
        let duration = self.duration.map(AdviceClock::Duration);
        let daily = self.writes_per_day.map(AdviceClock::DailyWrites);
        let mut request = AdviseRequest::default();
        request.pricing = pricing;
        request.server = self.server.map(ServerKind::from);
        request.now = self.now.as_deref().map(str::parse).transpose()?;
        request.frames = self.frames.clone();
        request.budget = self.memory_budget;
        request.memory_price = self.memory_price;
        request.clock = rate.or(duration).or(daily);
        request.life = self.life;
        request.counting.warmup = self.warmup.value;
        request.counting.at_end = self.at_end.at_end();
        request.counting.checkpoints = self.checkpoints.schedule();
        request.check()?;
        Ok(request)
    }
}
