//! The `ebbpool` command.

mod args;
mod bound;
mod cache;
mod charge;
mod compare;
mod completions;
mod curve;
#[cfg(unix)]
mod db;
mod device;
mod devices;
mod lifetime;
mod man;
#[cfg(unix)]
mod measure;
mod picture;
mod policies;
mod progress;
#[cfg(unix)]
mod replay;
mod report;
mod reproduce;
mod results;
mod run;
mod table;
mod target;
mod trace;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use ebbpool_device::changing::ChangesError;
use ebbpool_device::flash::ConfigError;
use ebbpool_device::{DeviceFailed, ProfileError};
use ebbpool_sim::SimError;
use ebbpool_trace::TraceError;

use args::{Cli, Command};

/// Why a command failed, and with which exit code.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Sim(#[from] SimError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Device(#[from] ProfileError),
    #[error(transparent)]
    Changes(#[from] ChangesError),
    #[error(transparent)]
    Flash(#[from] ConfigError),
    #[error(transparent)]
    DeviceFailed(#[from] DeviceFailed),
    #[cfg(unix)]
    #[error(transparent)]
    Measure(#[from] measure::MeasureError),
    #[cfg(unix)]
    #[error(transparent)]
    Replay(#[from] replay::ReplayError),
    #[cfg(unix)]
    #[error(transparent)]
    Db(db::DbError),
    #[error(transparent)]
    Reproduce(#[from] reproduce::ReproduceError),
    #[error("cannot write standard output: {0}")]
    Output(#[from] io::Error),
    #[error("cannot write {path}: {source}")]
    File { path: String, source: io::Error },
    #[error("{0}")]
    Usage(String),
    #[error("interrupted: {done} of {all} results are done{kept}")]
    Interrupted {
        done: usize,
        all: usize,
        kept: &'static str,
    },
}

impl Failure {
    fn is_usage(&self) -> bool {
        match self {
            Failure::Usage(_)
            | Failure::Flash(_)
            | Failure::Sim(SimError::Flash(_) | SimError::AllWarmup { .. }) => true,
            Failure::Device(error) => error.is_usage(),
            Failure::Reproduce(error) => error.is_usage(),
            #[cfg(unix)]
            Failure::Measure(error) => error.is_usage(),
            #[cfg(unix)]
            Failure::Replay(error) => error.is_usage(),
            #[cfg(unix)]
            Failure::Db(error) => error.is_usage(),
            Failure::Trace(error) | Failure::Sim(SimError::Trace(error)) => error.is_usage(),
            _ => false,
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    progress::stop_on_interrupt();
    let result = match &cli.command {
        Command::Compare(args) => compare::compare(args),
        Command::Curve(args) => curve::curve(args),
        Command::Run(args) => run::run(args),
        #[cfg(unix)]
        Command::Replay(args) => replay::replay(args),
        #[cfg(unix)]
        Command::Db(args) => db::db(args),
        Command::Bound(args) => bound::bound(args),
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
        // Whoever read our output has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        Err(failure) => failure,
    };
    let line = failure.to_string().replace(['\n', '\r'], " ");
    // Nothing is left to be done if standard error is gone too.
    let _ = writeln!(io::stderr(), "ebbpool: error: {line}");
    ExitCode::from(if failure.is_usage() { 2 } else { 1 })
}
