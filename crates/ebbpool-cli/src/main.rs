//! The `ebbpool` command.

mod advise;
mod args;
mod bound;
mod compare;
mod completions;
mod curve;
#[cfg(unix)]
mod db;
mod device;
mod devices;
mod diff;
mod failure;
mod man;
#[cfg(unix)]
mod measure;
mod origin;
mod picture;
mod policies;
mod progress;
#[cfg(unix)]
mod replay;
mod reproduce;
mod results;
mod run;
mod schema;
mod shared_args;
mod table;
mod trace;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    progress::stop_on_interrupt();
    let result = match &cli.command {
        Command::Compare(args) => compare::compare(args),
        Command::Advise(args) => advise::advise(args),
        Command::Curve(args) => curve::curve(args),
        Command::Run(args) => run::run(args),
        #[cfg(unix)]
        Command::Replay(args) => replay::replay(args),
        #[cfg(unix)]
        Command::Db(args) => db::db(args),
        Command::Bound(args) => bound::bound(args),
        Command::Diff(args) => diff::diff(args),
        Command::Schema(args) => schema::schema(args),
        Command::Reproduce(args) => reproduce::reproduce(args),
        Command::Trace(args) => trace::trace(args),
        Command::Device(args) => device::device(args),
        Command::Policies(args) => policies::policies(args),
        Command::Completions(args) => completions::completions(args),
        Command::Man(args) => man::man(args),
        Command::Devices(args) => devices::devices(args),
    };
    let failure = match result.and_then(|()| io::stdout().flush().map_err(Failure::Output)) {
        Ok(()) => return ExitCode::SUCCESS,
        // The program that reads the output has closed its end, as `head` does.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        // The exit code says so; there is nothing to report.
        Err(Failure::Different) => return ExitCode::from(1),
        Err(failure) => failure,
    };
    let line = failure.to_string().replace(['\n', '\r'], " ");
    // If standard error is closed too, there is no way left to report the failure.
    let _ = writeln!(io::stderr(), "ebbpool: error: {line}");
    ExitCode::from(if failure.is_usage() { 2 } else { 1 })
}
