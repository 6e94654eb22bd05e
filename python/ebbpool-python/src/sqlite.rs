//! The VFS of SQLite, for the SQLite that Python's own module calls.

use std::path::PathBuf;

use ebbpool_sqlite::Options;
use ebbpool_sqlite::plain::register_with_module;
use pyo3::prelude::*;

use crate::errors::{Class, raise};

/// Registers the VFS with the SQLite of a module that is loaded, or of the program if its modules are inside it. The text of
/// the answer says why that was impossible, if it was.
#[pyfunction]
pub(crate) fn register_with_sqlite(module: Option<PathBuf>) -> Option<String> {
    let registered = register_with_module(module.as_deref());
    registered.err().map(|error| error.to_string())
}

/// The path of a file with the extension that SQLite loads.
#[pyfunction]
pub(crate) fn sqlite_extension(py: Python<'_>) -> PyResult<PathBuf> {
    ebbpool_cli::sqlite_extension().map_err(|error| raise(py, Class::Failure, &error))
}

/// Refuses options of the VFS that it would refuse, with its reason, which SQLite does not pass on.
#[pyfunction]
pub(crate) fn check_sqlite_options(py: Python<'_>, options: &str) -> PyResult<()> {
    match Options::default().set_from_text(options) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = error.to_string();
            Err(raise(py, Class::Usage, text.trim_start_matches("ebbpool: ")))
        }
    }
}
