//! Where references come from, and reading them.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::NamedTempFile;

use crate::error::{TraceError, one_line};
use crate::formats::{Decode, Format, Opened};
use crate::generators::{self, Generator};
use crate::reference::{Batch, Metadata};
use crate::stream::Stream;

/// A trace by name: a file, a generator, or a sample compiled into the program.
///
/// Cheap to clone and to share between threads; it can be opened any number of
/// times, and every [`Reader`] starts from the beginning. A pipe is spooled to a
/// temporary file when it is first opened, so that this holds for it too.
#[derive(Clone)]
pub struct Source(Arc<Inner>);

struct Inner {
    label: String,
    kind: Kind,
}

enum Kind {
    File {
        path: PathBuf,
        told: Option<Format>,
        /// What came out of a pipe.
        spool: Mutex<Option<NamedTempFile>>,
    },
    Embedded(&'static [u8]),
    Generator(Box<dyn Generator>),
}

impl Source {
    /// Understands what a user named: a path, or a generator such as
    /// `zipf:pages=50000,refs=500000`. A file of that name wins over a
    /// generator.
    ///
    /// `format` is what the user told about files; a magic number outweighs it
    /// and a name does not. Generators ignore it.
    ///
    /// # Errors
    ///
    /// [`TraceError::NotFound`], [`TraceError::Directory`] and
    /// [`TraceError::Io`] for files, [`TraceError::Generator`],
    /// [`TraceError::Parameter`] and [`TraceError::Value`] for generators.
    pub fn parse(arg: &str, format: Option<Format>) -> Result<Source, TraceError> {
        let label = one_line(arg);
        let kind = match fs::metadata(arg) {
            Ok(found) if found.is_dir() => return Err(TraceError::Directory { file: label }),
            Ok(_) => Kind::File {
                path: PathBuf::from(arg),
                told: format,
                spool: Mutex::new(None),
            },
            Err(error) => match generators::parse(arg)? {
                Some(generator) => Kind::Generator(generator),
                None if error.kind() == io::ErrorKind::NotFound => {
                    return Err(TraceError::NotFound {
                        file: label,
                        generators: generators::list(),
                    });
                }
                None => return Err(TraceError::io(label, "read", error)),
            },
        };
        Ok(Source(Arc::new(Inner { label, kind })))
    }

    /// A trace compiled into the program, in a format with a magic number (the
    /// native one, possibly compressed).
    pub fn embedded(name: &str, bytes: &'static [u8]) -> Source {
        Source(Arc::new(Inner {
            label: one_line(name),
            kind: Kind::Embedded(bytes),
        }))
    }

    /// The trace as the user named it.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    /// Starts reading from the first reference.
    ///
    /// # Errors
    ///
    /// Any [`TraceError`] about the file as a whole: unreadable, of unknown
    /// format, damaged, without the columns of a trace, with broken metadata; or
    /// [`TraceError::Memory`] for a generator.
    pub fn open(&self) -> Result<Reader, TraceError> {
        let label = &self.0.label;
        match &self.0.kind {
            Kind::File { path, told, spool } => {
                let file = open_seekable(label, path, spool)?;
                Reader::of_stream(Stream::of_file(label, Some(path), file)?, *told)
            }
            Kind::Embedded(bytes) => Reader::of_stream(Stream::of_bytes(label, bytes)?, None),
            Kind::Generator(generator) => {
                let references = generator.references();
                Ok(Reader::new(
                    Opened {
                        decoder: Box::new(Generated {
                            stream: generator.start(label)?,
                            done: 0,
                            references,
                        }),
                        metadata: Metadata {
                            name: Some(label.clone()),
                            page_size: None,
                            database_pages: Some(generator.pages()),
                        },
                        references: Some(references),
                    },
                    None,
                ))
            }
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Source")
            .field(&self.0.label)
            .finish()
    }
}

/// A handle on a regular file with the trace's bytes, at its beginning.
fn open_seekable(
    label: &str,
    path: &Path,
    spool: &Mutex<Option<NamedTempFile>>,
) -> Result<File, TraceError> {
    let failed = |error| TraceError::io(label, "read", error);
    let spooling = |error| TraceError::io(label, "spool to a temporary file", error);
    let mut spool = spool.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(spooled) = &*spool {
        return spooled.reopen().map_err(spooling);
    }
    let mut file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_file() {
        return Ok(file);
    }
    let mut spooled = NamedTempFile::new().map_err(spooling)?;
    io::copy(&mut file, &mut spooled).map_err(spooling)?;
    let reopened = spooled.reopen().map_err(spooling)?;
    *spool = Some(spooled);
    Ok(reopened)
}

/// Streams a trace's references.
pub struct Reader {
    decoder: Box<dyn Decode>,
    metadata: Metadata,
    references: Option<u64>,
    notes: Vec<String>,
    /// Nothing comes any more, after the end or an error.
    ended: bool,
}

impl Reader {
    fn new(opened: Opened, note: Option<String>) -> Reader {
        Reader {
            decoder: opened.decoder,
            metadata: opened.metadata,
            references: opened.references,
            notes: note.into_iter().collect(),
            ended: false,
        }
    }

    fn of_stream(mut stream: Stream, told: Option<Format>) -> Result<Reader, TraceError> {
        let (format, note) = Format::recognise(&mut stream, told)?;
        Ok(Reader::new(format.open(stream)?, note))
    }

    /// What the trace says about itself.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// References in the whole trace, if that is known without reading it: for
    /// Parquet, uncompressed u32 and generators.
    pub fn references(&self) -> Option<u64> {
        self.references
    }

    /// What the user should be told on standard error, a line each: a format
    /// that was guessed, or another than was told.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Clears `batch` and fills it with the next references: `max` of them (at
    /// least 1 is tried for), fewer only at the end. False, with an empty batch,
    /// if there are no more.
    ///
    /// # Errors
    ///
    /// A [`TraceError`] with file and line or row. The batch is then empty, and
    /// nothing more can be read.
    pub fn next_batch(&mut self, batch: &mut Batch, max: usize) -> Result<bool, TraceError> {
        batch.clear();
        if self.ended {
            return Ok(false);
        }
        let filled = self.decoder.fill(batch, max.max(1));
        if filled.is_err() {
            batch.clear();
        }
        self.ended = batch.is_empty();
        filled.map(|()| !self.ended)
    }

    /// How far reading has come, 0 to 1, by rows or by bytes of the (compressed)
    /// file.
    pub fn progress(&self) -> f64 {
        if self.ended {
            1.0
        } else {
            self.decoder.progress()
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Reader")
            .field("metadata", &self.metadata)
            .field("references", &self.references)
            .field("progress", &self.progress())
            .finish_non_exhaustive()
    }
}

/// A generator's references, counted.
struct Generated {
    stream: Box<dyn generators::References>,
    done: u64,
    references: u64,
}

impl Decode for Generated {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let left = self.references - self.done;
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(max);
        batch.reserve(count);
        self.stream.fill(batch, count);
        self.done += count as u64;
        Ok(())
    }

    fn progress(&self) -> f64 {
        if self.references == 0 {
            1.0
        } else {
            self.done as f64 / self.references as f64
        }
    }
}
