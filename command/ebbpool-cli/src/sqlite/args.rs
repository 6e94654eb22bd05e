//! Arguments of `ebbpool sqlite`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ebbpool_cost::ByteSize;
use ebbpool_sqlite::USUAL_CARD;

use crate::shared_args::RunFormat;

#[derive(Args)]
pub(crate) struct SqliteArgs {
    #[command(subcommand)]
    pub(super) command: SqliteCommand,
}

impl SqliteArgs {
    /// True if a signal may end the subcommand where it is. `measure` answers first, and `check` sets a handler of its own.
    pub(crate) fn ends_at_once(&self) -> bool {
        !matches!(self.command, SqliteCommand::Measure(_))
    }
}

#[derive(Subcommand)]
pub(super) enum SqliteCommand {
    /// Run a program whose SQLite databases are written through the VFS, without changing the program
    #[command(after_help = "\
The program must use SQLite as a shared library, as Python and the sqlite3 shell of most systems do. One
that has SQLite inside itself is not started, unless --force is given.
EBBPOOL_SQLITE may have options too, as in EBBPOOL_SQLITE='window=30&memory=64M', and
EBBPOOL_SQLITE_FILES what --only has.

Examples:
  ebbpool sqlite run --window 30 -- python3 app.py
  ebbpool sqlite run --only home-assistant_v2.db -- hass --config /var/lib/hass
  ebbpool sqlite run --capture app.parquet -- python3 app.py      a trace of its requests
  ebbpool sqlite run --show                       the variables, for a systemd unit")]
    Run(SqliteRunArgs),
    /// Show whether all is well with a database: its files, its log, which process has it open, and how that one is;
    /// changes nothing
    #[command(after_help = "\
The exit code is 1 if something is wrong: the last epoch failed or is late, files do not belong together,
or the process that has the database open does not say how it is, or is stopped.

Examples:
  ebbpool sqlite status home.db
  ebbpool sqlite status home.db --card sd-cheap --format json")]
    Status(SqliteStatusArgs),
    /// Check the log of a database, and the database as recovery would leave it; changes nothing
    #[command(after_help = "\
The exit code is 1 if something is wrong, a process has the database open, or nothing was checked.

Examples:
  ebbpool sqlite check home.db
  ebbpool sqlite check home.db --format json")]
    Check(SqliteCheckArgs),
    /// Bring the log of a database in place, so that it is a plain database again
    #[command(after_help = "\
Opening the database through the VFS does the same. In a directory all databases are recovered that have
a log or its mark, a line for each. A log that belongs to another version of the database is refused;
--discard-log moves it aside, and never deletes it. A database whose log is gone is refused, too;
--discard-log goes on without it.

Examples:
  ebbpool sqlite recover home.db --dry-run
  ebbpool sqlite recover home.db
  ebbpool sqlite recover home.db --discard-log")]
    Recover(SqliteRecoverArgs),
    /// Watch what a running program writes with plain SQLite, and say what the VFS would save; changes nothing
    #[command(after_help = "\
Ctrl-C ends the watch, and the answer is that of the time until then.

Examples:
  ebbpool sqlite measure home.db --minutes 0.01
  ebbpool sqlite measure home.db --minutes 0.01 --card emmc-5.1 --format json")]
    Measure(SqliteMeasureArgs),
    /// Write the two libraries that this program carries to files, and print their paths: the one that run preloads, and
    /// the extension that SQLite loads
    #[command(after_help = "\
Without a directory they are written into one of the user's below the directory for caches, with a hash in
their names; with one, under their own names, for a systemd unit or .load.

Examples:
  ebbpool sqlite libraries
  ebbpool sqlite libraries .")]
    Libraries(SqliteLibrariesArgs),
}

/// Options of the VFS, for all databases of the program.
#[derive(Args)]
pub(super) struct SqliteRunArgs {
    /// Seconds of commits that a power cut may take; with 0 each is durable when it returns [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub(super) window: Option<String>,
    /// Where epochs go: deltas, which write least, or wal, which any SQLite reads [default: deltas]
    #[arg(long, value_name = "deltas|wal")]
    pub(super) log: Option<String>,
    /// Memory of each database [default: 32M]
    #[arg(long, value_name = "BYTES")]
    pub(super) memory: Option<String>,
    /// Bytes of the log after which it is brought in place [default: 16M]
    #[arg(long, value_name = "BYTES")]
    pub(super) log_limit: Option<String>,
    /// Seconds after which it is brought in place [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    pub(super) checkpoint_age: Option<String>,
    /// Only these databases go through the VFS: names such as home.db or *.db, or absolute paths with such patterns, as in
    /// /var/lib/app/*.db for those in a directory; may be given more than once [default: all that the program and those that it starts open]
    #[arg(long, value_name = "GLOB")]
    pub(super) only: Vec<String>,
    /// The library to preload [default: that of EBBPOOL_SQLITE_LIBRARY, else the one that this program carries]
    #[arg(long, value_name = "FILE")]
    pub(super) library: Option<PathBuf>,
    /// Start the program also if it seems to have SQLite inside itself, or not to take a preloaded library
    #[arg(long)]
    pub(super) force: bool,
    /// Write the requests of the program's SQLite to this trace, with FILE.json beside it, and leave its databases as they are:
    /// the program runs without the VFS
    #[cfg(all(feature = "capture", any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["window", "log", "memory", "log_limit", "checkpoint_age", "only", "show"])]
    pub(super) capture: Option<PathBuf>,
    /// End the capture after this many references, such as 20M; each takes 24 bytes of memory
    #[cfg(all(feature = "capture", any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[arg(long, value_name = "N", default_value = "20M", value_parser = crate::capture::args::count, requires = "capture")]
    pub(super) references: u64,
    /// Print the environment variables, one a line, in place of running a program
    #[arg(long, conflicts_with = "program")]
    pub(super) show: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", last = true, required_unless_present = "show")]
    pub(super) program: Vec<OsString>,
}

/// The device whose years are given.
#[derive(Args)]
pub(super) struct CardArgs {
    /// The card or disk whose life is computed: a name of ebbpool devices, or a profile
    #[arg(long, value_name = "PROFILE", default_value = USUAL_CARD)]
    pub(super) card: String,
}

/// The system's SQLite.
#[derive(Args)]
pub(super) struct SystemSqliteArgs {
    /// The SQLite to check and recover with [default: the system's libsqlite3.so.0]
    #[arg(long, value_name = "FILE")]
    pub(super) sqlite: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct SqliteStatusArgs {
    /// The database
    #[arg(value_name = "DB")]
    pub(super) path: PathBuf,
    #[command(flatten)]
    pub(super) card: CardArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(super) format: RunFormat,
}

#[derive(Args)]
pub(super) struct SqliteCheckArgs {
    /// The database
    #[arg(value_name = "DB")]
    pub(super) path: PathBuf,
    /// Where to put a copy, as large as the database, while it is checked [default: the system's directory for
    /// temporary files]
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) directory: Option<PathBuf>,
    #[command(flatten)]
    pub(super) sqlite: SystemSqliteArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(super) format: RunFormat,
}

#[derive(Args)]
pub(super) struct SqliteRecoverArgs {
    /// The database, or a directory with databases
    #[arg(value_name = "DB")]
    pub(super) path: PathBuf,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Move a log that belongs to another version of the database to DB-ebb.stale, or its -wal to DB-wal.stale, or go without one
    /// that is gone: what only the log has is then missing from the database
    #[arg(long)]
    pub(super) discard_log: bool,
    #[command(flatten)]
    pub(super) sqlite: SystemSqliteArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(super) format: RunFormat,
}

#[derive(Args)]
pub(super) struct SqliteLibrariesArgs {
    /// The directory to write them into
    #[arg(value_name = "DIRECTORY")]
    pub(super) directory: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct SqliteMeasureArgs {
    /// The database
    #[arg(value_name = "DB")]
    pub(super) path: PathBuf,
    /// How long to watch
    #[arg(long, value_name = "MINUTES", default_value = "5", value_parser = minutes)]
    pub(super) minutes: f64,
    #[command(flatten)]
    pub(super) card: CardArgs,
    /// Memory for the pages that are compared; others count as written whole
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = memory)]
    pub(super) memory: ByteSize,
    /// Output format
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    pub(super) format: RunFormat,
}

/// The longest watch: a week.
const LONGEST: f64 = 7.0 * 24.0 * 60.0;

/// The least memory of a watch.
const LEAST_MEMORY: u64 = 1 << 20;

fn memory(text: &str) -> Result<ByteSize, String> {
    let memory: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    match memory.bytes() {
        LEAST_MEMORY.. => Ok(memory),
        _ => Err("give at least 1MiB".into()),
    }
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.trim().parse::<f64>().ok();
    minutes
        .filter(|&minutes| minutes > 0.0 && minutes <= LONGEST)
        .ok_or_else(|| "give a time above 0 and up to 10080, such as 5 or 0.5".into())
}
