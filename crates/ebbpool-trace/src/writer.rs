//! Writing traces.

use std::fmt;
use std::path::Path;

use crate::compression::Sink;
use crate::error::TraceError;
use crate::formats::{Encode, Format, Target};
use crate::reference::{Batch, Metadata};

/// Writes a trace into a file.
///
/// The file is replaced atomically by [`finish`](Writer::finish), see
/// [`OutputFile`](crate::output::OutputFile); dropped before, nothing has
/// happened. A name that ends in `.gz` or `.zst` compresses, which is of use for
/// text and u32 (native files are compressed inside).
pub struct Writer {
    encoder: Box<dyn Encode>,
    references: u64,
}

/// What a finished [`Writer`] has put into its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Number of references.
    pub references: u64,
    /// Size of the file in bytes, as compressed.
    pub bytes: u64,
}

impl Writer {
    /// Starts writing `path` in `format`; see [`Format::of_name`] for the format
    /// that a name asks for.
    ///
    /// Text keeps the metadata in comments, u32 in a `.json` beside the file,
    /// whose other fields stay if there is one already.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`] if the file cannot be created,
    /// [`TraceError::Metadata`] if a `.json` is in the way that is not one of
    /// ours.
    pub fn create(
        path: impl AsRef<Path>,
        format: Format,
        metadata: &Metadata,
    ) -> Result<Writer, TraceError> {
        Writer::create_with(path, format, metadata, None)
    }

    /// The same with a zstd level from 1 (fast) to 22 (small); gzip uses it up
    /// to 9. Others are brought into this range. `None` is a good compromise.
    ///
    /// # Errors
    ///
    /// As [`create`](Writer::create).
    pub fn create_with(
        path: impl AsRef<Path>,
        format: Format,
        metadata: &Metadata,
        level: Option<i32>,
    ) -> Result<Writer, TraceError> {
        let path = path.as_ref();
        let encoder = format.create(Target {
            path,
            sink: Sink::create(path, level)?,
            metadata,
            level,
        })?;
        Ok(Writer {
            encoder,
            references: 0,
        })
    }

    /// Appends references.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`], as on a full disk, or [`TraceError::PageTooLarge`].
    /// The writer should then be dropped, which leaves the target as it was.
    pub fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        self.encoder.write(batch)?;
        self.references += batch.len() as u64;
        Ok(())
    }

    /// Makes the file durable and puts it in place.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`]; the target is then as it was.
    pub fn finish(self) -> Result<Written, TraceError> {
        Ok(Written {
            references: self.references,
            bytes: self.encoder.finish()?,
        })
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Writer")
            .field("references", &self.references)
            .finish_non_exhaustive()
    }
}
