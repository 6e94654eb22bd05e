//! The decompressed bytes of a trace, through a buffer of bounded size.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, Bytes};

use crate::compression::Codec;
use crate::error::TraceError;

/// Bytes held at a time; also the longest line of a text trace.
pub(crate) const BUFFER: usize = 1 << 18;

/// A trace's bytes through one buffer, and the data that messages and progress need.
pub(crate) struct Stream {
    label: String,
    path: Option<PathBuf>,
    stored: StoredBytes,
    codec: Option<Codec>,
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    decoded: u64,
    consumed: Arc<AtomicU64>,
    total: u64,
}

/// The stored bytes, for formats that need to seek.
enum StoredBytes {
    File(File),
    Bytes(Bytes),
}

/// Bytes that can be read from any offset.
pub(crate) enum Seekable {
    /// A file, the trace's own or a temporary one.
    File(File),
    /// Bytes in memory.
    Bytes(Bytes),
}

/// Counts the bytes read from the (compressed) file, for progress.
struct CountingReader<R> {
    inner: R,
    consumed: Arc<AtomicU64>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.consumed.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl Stream {
    /// A regular file from its beginning; `path` is for finding files beside it.
    pub(crate) fn of_file(label: &str, path: Option<&Path>, mut file: File) -> Result<Stream, TraceError> {
        let failed = |error| TraceError::io(label, "read", error);
        let mut head = Vec::with_capacity(Codec::HEAD);
        Read::by_ref(&mut file).take(Codec::HEAD as u64).read_to_end(&mut head).map_err(failed)?;
        file.rewind().map_err(failed)?;
        let total = file.metadata().map_err(failed)?.len();
        let raw = file.try_clone().map_err(failed)?;
        Stream::new(label, path, StoredBytes::File(file), raw, &head, total)
    }

    /// Bytes in memory, or compiled into the program.
    pub(crate) fn of_bytes(label: &str, bytes: &Bytes) -> Result<Stream, TraceError> {
        let head = &bytes[..bytes.len().min(Codec::HEAD)];
        let total = bytes.len() as u64;
        Stream::new(label, None, StoredBytes::Bytes(bytes.clone()), bytes.clone().reader(), head, total)
    }

    fn new(
        label: &str,
        path: Option<&Path>,
        stored: StoredBytes,
        raw: impl Read + Send + 'static,
        head: &[u8],
        total: u64,
    ) -> Result<Stream, TraceError> {
        let consumed = Arc::new(AtomicU64::new(0));
        let raw = CountingReader { inner: raw, consumed: Arc::clone(&consumed) };
        let codec = Codec::detect(head);
        let reader = match codec {
            Some(codec) => codec.decoder(raw).map_err(|error| TraceError::io(label, "read", error))?,
            None => Box::new(raw),
        };
        Ok(Stream {
            label: label.to_owned(),
            path: path.map(Path::to_owned),
            stored,
            codec,
            reader,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            ended: false,
            decoded: 0,
            consumed,
            total,
        })
    }

    /// The trace as the user named it.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// The path of the trace, if it is a file with a name.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The compression of the stored bytes.
    pub(crate) fn codec(&self) -> Option<Codec> {
        self.codec
    }

    /// Decompressed length in bytes, where it is known beforehand.
    pub(crate) fn length(&self) -> Option<u64> {
        self.codec.is_none().then_some(self.total)
    }

    /// Decompressed bytes read so far, including the buffered ones.
    pub(crate) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// The buffered bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Removes the first `count` buffered bytes.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// True if [`Stream::fill`] has no room left.
    pub(crate) fn is_full(&self) -> bool {
        self.end - self.start == self.buffer.len()
    }

    /// Reads more bytes into the buffer; false if there are no more. The buffer must not be
    /// full.
    pub(crate) fn fill(&mut self) -> Result<bool, TraceError> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let read = loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
                Ok(read) => break read,
            }
        };
        self.ended = read == 0;
        self.end += read;
        self.decoded += read as u64;
        Ok(read > 0)
    }

    /// The first bytes, at least `count` of them unless the trace is shorter.
    pub(crate) fn head(&mut self, count: usize) -> Result<&[u8], TraceError> {
        while self.bytes().len() < count.min(BUFFER) && self.fill()? {}
        Ok(self.bytes())
    }

    /// Share of the file's (compressed) bytes that have been consumed, 0 to 1.
    pub(crate) fn progress(&self) -> f64 {
        if self.total == 0 || (self.ended && self.start == self.end) {
            return 1.0;
        }
        // Buffered bytes have been read but not yet consumed.
        let waiting = match self.codec {
            Some(_) => 0,
            None => (self.end - self.start) as u64,
        };
        let consumed = self.consumed.load(Ordering::Relaxed).saturating_sub(waiting);
        (consumed as f64 / self.total as f64).min(1.0)
    }

    /// The trace's bytes in a form that can seek; compressed data are spooled to a temporary file. For use before any byte is
    /// consumed.
    pub(crate) fn into_seekable(mut self) -> Result<Seekable, TraceError> {
        if self.codec.is_none() {
            return Ok(match self.stored {
                StoredBytes::File(file) => Seekable::File(file),
                StoredBytes::Bytes(bytes) => Seekable::Bytes(bytes),
            });
        }
        let spool = |error| TraceError::io(&self.label, "spool to a temporary file", error);
        let mut file = tempfile::tempfile().map_err(spool)?;
        loop {
            let buffered = self.start..self.end;
            io::Write::write_all(&mut file, &self.buffer[buffered])
                .map_err(|error| TraceError::io(&self.label, "spool to a temporary file", error))?;
            self.start = self.end;
            if !self.fill()? {
                break;
            }
        }
        file.rewind().map_err(|error| TraceError::io(&self.label, "spool to a temporary file", error))?;
        Ok(Seekable::File(file))
    }

    /// Distinguishes an error of the decompressor from one of the system.
    fn failed(&self, error: io::Error) -> TraceError {
        match self.codec {
            Some(codec) if error.raw_os_error().is_none() => TraceError::Damaged {
                file: self.label.clone(),
                format: codec.name(),
                detail: ebbpool_cost::one_line(&error.to_string()),
            },
            _ => TraceError::io(&self.label, "read", error),
        }
    }
}
