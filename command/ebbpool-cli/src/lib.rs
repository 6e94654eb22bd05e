//! The `ebbpool` command, for programs that contain it: [`main_from`] runs a command line, and what a front end of the
//! same lab can share with the command is public.

mod advise;
mod args;
mod bound;
#[cfg(all(feature = "capture", target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod capture;
mod compare;
#[cfg(feature = "completions")]
mod completions;
mod curve;
#[cfg(all(feature = "db", unix))]
mod db;
#[cfg(feature = "device")]
mod device;
mod devices;
mod diff;
mod failure;
mod left_out;
#[cfg(feature = "man")]
mod man;
#[cfg(all(feature = "device", unix))]
mod measure;
mod origin;
mod outputs;
mod picture;
mod policies;
mod progress;
#[cfg(all(feature = "replay", unix))]
mod replay;
#[cfg(feature = "reproduce")]
mod reproduce;
mod results;
mod run;
mod schema;
mod shared_args;
mod shell;
#[cfg(all(feature = "sqlite", target_os = "linux"))]
mod sqlite;
mod table;
mod trace;

use std::ffi::OsString;
use std::io::{self, Write};

use clap::Parser;
use ebbpool_lab::trace_set::TraceGroup;
use ebbpool_lab::{Comparison, LabError, ResultDirectory};
use ebbpool_trace::{ReadOptions, Source};

use args::{Cli, Command};
pub use compare::publication::Markup;
use failure::Failure;

/// Runs the command with these arguments, of which the first is the program's name, and returns its exit code. The
/// first Ctrl-C stops the work from then on, and then ends the process, unless it only ended a measurement in time. Wrong
/// arguments and `--help` end the process, too.
pub fn main_from(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let result = left_out::check(&arguments).and_then(|()| run_command(arguments));
    let failure = match result.and_then(|()| io::stdout().flush().map_err(Failure::Output)) {
        Ok(()) => return 0,
        // The program that reads the output has closed its end, as `head` does.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return 0;
        }
        // The exit code says so; there is nothing to report.
        Err(Failure::Different) => return 1,
        #[cfg(all(feature = "sqlite", target_os = "linux"))]
        Err(Failure::Ended(code)) => return code,
        Err(failure) => failure,
    };
    let line = failure.to_string().replace(['\n', '\r'], " ");
    // A name in it may have any characters, and a terminal obeys some of them.
    let line = ebbpool_cost::escaped(&line);
    // If standard error is closed too, there is no way left to report the failure.
    let _ = writeln!(io::stderr(), "ebbpool: error: {line}");
    progress::end_as_stopped();
    failure.exit_code()
}

fn run_command(arguments: Vec<OsString>) -> Result<(), Failure> {
    let cli = Cli::parse_from(&arguments);
    origin::set_arguments(arguments);
    if !ends_at_once(&cli.command) {
        stop_on_interrupt(&cli.command);
    }
    match &cli.command {
        Command::Compare(args) => compare::compare(args),
        Command::Advise(args) => advise::advise(args),
        Command::Curve(args) => curve::curve(args),
        #[cfg(all(feature = "capture", target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        Command::Capture(args) => capture::capture(args),
        Command::Run(args) => run::run(args),
        #[cfg(all(feature = "replay", unix))]
        Command::Replay(args) => replay::replay(args),
        #[cfg(all(feature = "db", unix))]
        Command::Db(args) => db::db(args),
        #[cfg(all(feature = "sqlite", target_os = "linux"))]
        Command::Sqlite(args) => sqlite::sqlite(args),
        Command::Bound(args) => bound::bound(args),
        Command::Diff(args) => diff::diff(args),
        Command::Schema(args) => schema::schema(args),
        #[cfg(feature = "reproduce")]
        Command::Reproduce(args) => reproduce::reproduce(args),
        Command::Trace(args) => trace::trace(args),
        #[cfg(feature = "device")]
        Command::Device(args) => device::device(args),
        Command::Policies(args) => policies::policies(args),
        #[cfg(feature = "completions")]
        Command::Completions(args) => completions::completions(args),
        #[cfg(feature = "man")]
        Command::Man(args) => man::man(args),
        Command::Devices(args) => devices::devices(args),
    }
}

/// Has Ctrl-C stop the work of a command. A capture drops rights first, which its threads would have, too.
fn stop_on_interrupt(command: &Command) {
    match command {
        #[cfg(all(feature = "capture", target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        Command::Capture(_) => capture::begin(),
        _ => progress::stop_on_interrupt(),
    }
}

/// True if Ctrl-C ends a command where it is: it has nothing that it has to finish before.
fn ends_at_once(command: &Command) -> bool {
    match command {
        #[cfg(all(feature = "sqlite", target_os = "linux"))]
        Command::Sqlite(args) => args.ends_at_once(),
        #[cfg(all(feature = "db", unix))]
        Command::Db(args) => args.command.ends_at_once(),
        _ => false,
    }
}

/// The option of the command that corrects a rejected request, as the end of a message; empty if there is none.
pub fn remedy(error: &LabError) -> &'static str {
    failure::lab_hint(error)
}

/// Comparisons as the command prints them.
pub fn comparison_text(comparisons: &[Comparison], groups: &[TraceGroup]) -> String {
    compare::text(comparisons, groups)
}

/// Comparisons as tables for a text, as the command prints them.
pub fn comparison_for_text(markup: Markup, comparisons: &[Comparison], groups: &[TraceGroup]) -> String {
    compare::publication::of_comparisons(markup, comparisons, groups)
}

/// The directory in which the command stores results: that of the environment variable `EBBPOOL_CACHE`, else one of the
/// user. `None` if the system names no directory for caches.
pub fn result_directory() -> Option<ResultDirectory> {
    results::directory()
}

/// The trace that the command reads if the user names none.
pub fn sample(options: &ReadOptions) -> Source {
    results::sample(options)
}

/// The device of that name or profile, or without a name all named devices, as the command's JSON.
///
/// # Errors
///
/// If there is no such device, or its profile is invalid.
pub fn devices_json(name: Option<&str>) -> Result<String, LabError> {
    devices::json_of(name)
}

/// The path of a file with the extension that SQLite loads, which this program carries inside. It is written where this user
/// alone can write, unless it is there.
///
/// # Errors
///
/// A text that names the directories that are not fit for it, and the remedy.
#[cfg(all(feature = "sqlite", target_os = "linux"))]
pub fn sqlite_extension() -> Result<std::path::PathBuf, String> {
    sqlite::extension_file().map_err(|error| error.to_string())
}

/// The schemas of all JSON that the command prints.
pub fn result_schemas() -> Vec<ebbpool_lab::schema::ResultSchema> {
    schema::all()
}
