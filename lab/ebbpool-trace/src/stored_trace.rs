//! The bytes of traces: files, standard input, pipes, and samples in the program.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::{Buf, Bytes};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
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

/// When it is set, no input is waited for any more.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on a reader that waits for standard input or a pipe returns with an error once this is set. Without it nothing ends the
/// wait but the input, and a signal that a program handles does not.
pub fn stop_waiting_when(stop: Arc<AtomicBool>) {
    let _ = STOP.set(stop);
}

/// Standard input, a pipe or a terminal.
struct Pipe(File);

/// Standard input, with the error of [`stop_waiting_when`].
///
/// # Errors
///
/// If there is none.
pub fn standard_input() -> io::Result<impl Read> {
    Ok(Pipe(io::stdin().as_fd().try_clone_to_owned()?.into()))
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        const SHORT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            if STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(io::Error::other("stopped while it waited for input"));
            }
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&SHORT)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => match self.0.read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                },
                Err(error) => return Err(error.into()),
            }
        }
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
    let mut pipe = match path {
        Some(path) => {
            // So that no pipe without a writer holds the program here.
            let open = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
            let file = open.map_err(failed)?;
            if file.metadata().map_err(failed)?.is_file() {
                return Ok(file);
            }
            Pipe(file)
        }
        None => return spooled_from(&mut standard_input().map_err(failed)?, &mut spool).map_err(spooling),
    };
    spooled_from(&mut pipe, &mut spool).map_err(spooling)
}

/// A handle on a file with what the pipe has.
fn spooled_from(pipe: &mut impl Read, spool: &mut Option<NamedTempFile>) -> io::Result<File> {
    let mut spooled = NamedTempFile::new()?;
    io::copy(pipe, &mut spooled)?;
    let reopened = spooled.reopen()?;
    *spool = Some(spooled);
    Ok(reopened)
}
