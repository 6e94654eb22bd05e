//! Files that a command writes beside its results.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::{PathBufValueParser, TypedValueParser};
use ebbpool_trace::TraceError;
use ebbpool_trace::output::OutputFile;

/// True if standard output has a file, and so not the results.
static HAS_FILE: AtomicBool = AtomicBool::new(false);

/// Starts a file. With `-` it goes to standard output, and the results of the command to standard error.
pub(crate) fn create(path: &PathBuf) -> Result<OutputFile, TraceError> {
    if path == Path::new("-") {
        HAS_FILE.store(true, Ordering::Relaxed);
    }
    OutputFile::create(path)
}

/// Where the results of the command go.
pub(crate) fn results() -> Box<dyn Write> {
    match HAS_FILE.load(Ordering::Relaxed) {
        true => Box::new(io::stderr().lock()),
        false => Box::new(io::stdout().lock()),
    }
}

/// Refuses a path that ends as a file of another kind.
fn with_ending(path: PathBuf, kind: &str, endings: &[&str]) -> Result<PathBuf, String> {
    match path.extension().and_then(OsStr::to_str) {
        Some(other) if !endings.iter().any(|ending| other.eq_ignore_ascii_case(ending)) => {
            Err(format!("this option writes {kind}, and .{other} is another format: end the name with .{}", endings[0]))
        }
        _ => Ok(path),
    }
}

/// The path of a page.
pub(crate) fn page() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| with_ending(path, "HTML", &["html", "htm", "xhtml"]))
}

/// The path of a picture.
pub(crate) fn picture() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| with_ending(path, "SVG", &["svg"]))
}
