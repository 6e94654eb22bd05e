//! The bytes of traces: files, standard input, pipes, and samples in the program.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bytes::{Buf, Bytes};
use tempfile::NamedTempFile;

use crate::bad_lines::lock;
use crate::error::TraceError;
use crate::stream::Stream;

/// Where the bytes of a trace are stored.
pub(crate) enum TraceBytes {
    File {
        /// `None` for standard input.
        path: Option<PathBuf>,
        /// The content of a pipe.
        spool: Mutex<Option<NamedTempFile>>,
    },
    Bytes(Bytes),
}

impl TraceBytes {
    /// A file, or standard input without a path.
    pub(crate) fn file(path: Option<PathBuf>) -> TraceBytes {
        TraceBytes::File { path, spool: Mutex::new(None) }
    }

    /// The file's name, if it has one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            TraceBytes::File { path, .. } => path.as_deref(),
            TraceBytes::Bytes(_) => None,
        }
    }

    /// The bytes, decompressed.
    pub(crate) fn stream(&self, label: &str) -> Result<Stream, TraceError> {
        match self {
            TraceBytes::File { path, spool } => {
                let path = path.as_deref();
                Stream::of_file(label, path, open_seekable(label, path, spool)?)
            }
            TraceBytes::Bytes(bytes) => Stream::of_bytes(label, bytes),
        }
    }

    /// The stored bytes, not decompressed.
    pub(crate) fn raw(&self, label: &str) -> Result<Box<dyn Read>, TraceError> {
        Ok(match self {
            TraceBytes::File { path, spool } => Box::new(open_seekable(label, path.as_deref(), spool)?),
            TraceBytes::Bytes(bytes) => Box::new(bytes.clone().reader()),
        })
    }
}

/// A handle on a regular file with the trace's bytes, at its beginning.
fn open_seekable(label: &str, path: Option<&Path>, spool: &Mutex<Option<NamedTempFile>>) -> Result<File, TraceError> {
    let failed = |error| TraceError::io(label, "read", error);
    let spooling = |error| TraceError::io(label, "spool to a temporary file", error);
    let mut spool = lock(spool);
    if let Some(spooled) = &*spool {
        return spooled.reopen().map_err(spooling);
    }
    let mut pipe: Box<dyn Read> = match path {
        Some(path) => {
            let file = File::open(path).map_err(failed)?;
            if file.metadata().map_err(failed)?.is_file() {
                return Ok(file);
            }
            Box::new(file)
        }
        None => Box::new(io::stdin().lock()),
    };
    let mut spooled = NamedTempFile::new().map_err(spooling)?;
    io::copy(&mut pipe, &mut spooled).map_err(spooling)?;
    let reopened = spooled.reopen().map_err(spooling)?;
    *spool = Some(spooled);
    Ok(reopened)
}
