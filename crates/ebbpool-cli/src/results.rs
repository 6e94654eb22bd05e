//! Where results are kept between runs of the command, and the trace that it takes where none is named.

use ebbpool_lab::{Lab, ResultDirectory, Settings};
use ebbpool_trace::{ReadOptions, Source, samples};

use crate::progress::Console;

/// The folder's environment variable, where the usual place will not do.
const DIRECTORY: &str = "EBBPOOL_CACHE";

/// Where results are kept.
pub(crate) fn directory() -> Option<ResultDirectory> {
    match std::env::var_os(DIRECTORY) {
        Some(directory) if !directory.is_empty() => Some(ResultDirectory::new(directory)),
        _ => ResultDirectory::of_user(),
    }
}

/// A lab that shows on the terminal how far it has come.
pub(crate) fn lab(console: &Console, threads: Option<usize>, keep: bool) -> Lab<'_> {
    let directory = if keep { directory() } else { None };
    let settings = Settings::default().results(directory);
    let settings = match threads {
        Some(threads) => settings.threads(threads),
        None => settings,
    };
    Lab::new(settings, console)
}

/// The sample that ships with Ebbpool, as a trace.
pub(crate) fn sample(options: &ReadOptions) -> Source {
    Source::embedded("pg-tpcc", samples::PG_TPCC, options)
}
