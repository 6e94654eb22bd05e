//! The directory that stores results between runs of the command, and the trace that the command reads
//! if the user names none.

use ebbpool_lab::{Lab, ResultDirectory, Settings};
use ebbpool_trace::{ReadOptions, Source, samples};

use crate::progress::Console;

/// The environment variable that names another directory for stored results.
const DIRECTORY: &str = "EBBPOOL_CACHE";

/// The directory that stores results; `None` if the system names no directory for caches.
pub(crate) fn directory() -> Option<ResultDirectory> {
    match std::env::var_os(DIRECTORY) {
        Some(directory) if !directory.is_empty() => Some(ResultDirectory::new(directory)),
        _ => ResultDirectory::in_user_cache(),
    }
}

/// A lab that shows its progress on the terminal. With `store` it uses stored results and adds new ones.
pub(crate) fn lab(console: &Console, threads: Option<usize>, store: bool) -> Lab<'_> {
    let directory = if store { directory() } else { None };
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
