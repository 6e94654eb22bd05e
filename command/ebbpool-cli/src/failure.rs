//! Why a command failed, and with which exit code.

use std::error::Error;
use std::io;

use ebbpool_device::changing::ChangesError;
use ebbpool_device::flash::ConfigError;
use ebbpool_device::{DeviceFailed, ProfileError};
#[cfg(all(feature = "replay", unix))]
use ebbpool_lab::replay::ReplayError;
use ebbpool_lab::{AdviseError, ErrorKind, LabError, RequestError};
use ebbpool_policy::SpecError;
use ebbpool_sim::SimError;
use ebbpool_trace::TraceError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}{hint}", hint = lab_hint(.0))]
    Lab(LabError),
    #[error("cannot write standard output: {0}")]
    Output(#[from] io::Error),
    #[error("cannot write {path}: {source}")]
    File { path: String, source: io::Error },
    #[error("{0}")]
    Usage(String),
    #[error("interrupted: {done} of {all} results are done{hint}")]
    Interrupted {
        done: usize,
        all: usize,
        /// What the user can do next, appended to the message; may be empty.
        hint: &'static str,
    },
    /// Every run of a comparison ended early.
    #[error("the device failed in every run: the figures are of the parts of the trace until then, and compare nothing")]
    AllFailed,
    /// No failure: the user asks for an exit code that says whether results differ.
    #[error("the results differ")]
    Different,
    #[cfg(all(feature = "sqlite", target_os = "linux"))]
    /// A program that was not run, with the exit code of shells.
    #[error("{error}")]
    Program { error: Box<dyn Error + Send + Sync>, code: u8 },
    #[cfg(all(feature = "sqlite", target_os = "linux"))]
    #[cfg_attr(not(all(feature = "capture", any(target_arch = "x86_64", target_arch = "aarch64"))), allow(dead_code))]
    /// No failure of this command: the program that it has run ended with this code.
    #[error("the program ended with the code {0}")]
    Ended(u8),
    /// An error of one command.
    #[error("{error}")]
    Command {
        error: Box<dyn Error + Send + Sync>,
        /// True if the command line is wrong, and not the file.
        usage: bool,
    },
}

impl Failure {
    /// The exit code: 2 if the command line is wrong.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            #[cfg(all(feature = "sqlite", target_os = "linux"))]
            Failure::Program { code, .. } | Failure::Ended(code) => *code,
            failure => 1 + u8::from(failure.is_usage()),
        }
    }

    /// True if the command line is wrong.
    pub(crate) fn is_usage(&self) -> bool {
        match self {
            Failure::Usage(_) => true,
            Failure::Lab(error) => error.kind() == ErrorKind::Request,
            Failure::Command { usage, .. } => *usage,
            _ => false,
        }
    }
}

/// The option that corrects a rejected request, as the end of a message.
pub(crate) fn lab_hint(error: &LabError) -> &'static str {
    let error = match error {
        LabError::Request(error) => error,
        LabError::Sim(SimError::AllWarmup { .. }) => return " with --warmup",
        LabError::Sim(SimError::NoPageSize { .. }) => {
            return "; give it with --page-size, as in --page-size 8k";
        }
        #[cfg(all(feature = "replay", unix))]
        LabError::Replay(error) => return replay_hint(error),
        _ => return "",
    };
    match error {
        RequestError::Advise(error) => advise_hint(error),
        RequestError::NoPolicy => "; name some with --policies",
        RequestError::NoSize => "; name some with --frames",
        RequestError::NoPrice => "; name some with --asymmetry",
        RequestError::NoEraseCounts { .. } => "; name a simulated device, such as --device flash:slc-mt29f4g08aaa",
        RequestError::RateWithoutDevice => "; use --rate with --device",
        RequestError::BoundOnDevice => "; use --bound without --device, with --asymmetry",
        RequestError::BoundOfChanges(_) => " of --asymmetry",
        RequestError::AsymmetryOfDevice => "; leave --asymmetry out, or let it change, as in --asymmetry rm1",
        RequestError::AsymmetryOfSimulatedDevice => "; leave --asymmetry out",
        RequestError::CheckpointsWithoutTimes(_) => " with --checkpoints",
        _ => "",
    }
}

/// The option that corrects a request for advice.
fn advise_hint(error: &AdviseError) -> &'static str {
    match error {
        AdviseError::BudgetWithoutPageSize(_) | AdviseError::DailyBytesWithoutPageSize => {
            "; give it with --page-size, such as --page-size 8k"
        }
        AdviseError::BudgetBelowPage { .. } => "; give more with --memory-budget",
        AdviseError::Changes(_) => " with --asymmetry",
        AdviseError::NotOnline(_) => " with --now",
        AdviseError::NoDuration => " with --duration",
        AdviseError::NotDailyWrites(_) => " with --writes-per-day",
        AdviseError::NoLife => " with --life",
        AdviseError::DeviceFailed(_) => " with --device",
        AdviseError::NoMeasuredWrites(_) | AdviseError::FactsOfAnotherTrace { .. } => {
            "; give another file with --facts, or none"
        }
        _ => "",
    }
}

macro_rules! from_lab_errors {
    ($($error:ty),+) => {
        $(
            impl From<$error> for Failure {
                fn from(error: $error) -> Self {
                    Failure::Lab(error.into())
                }
            }
        )+
    };
}

from_lab_errors!(LabError, RequestError, SimError, TraceError, ProfileError, ChangesError, ConfigError, DeviceFailed);

#[cfg(all(feature = "replay", unix))]
fn replay_hint(error: &ReplayError) -> &'static str {
    match error {
        ReplayError::PageSize(_) => "; give --page-size",
        ReplayError::Offline(_) | ReplayError::WritesInBackground(_) | ReplayError::AsksRequests { .. } => {
            "; ebbpool run simulates it"
        }
        ReplayError::TooLarge(_) => ", or use --file in place of --memory",
        ReplayError::Missing { .. } | ReplayError::Empty(_) => "; add --create to make it",
        ReplayError::OtherTrace { .. } => ", or add --create to replace this one",
        ReplayError::Foreign { .. } => ", or add --overwrite if its contents may be lost",
        _ => "",
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        RequestError::from(error).into()
    }
}
