//! Writing traces.

use std::fmt;
use std::path::Path;

use crate::compression::Sink;
use crate::error::TraceError;
use crate::formats::{Encode, Format, WriteTarget};
use crate::output::OutputFile;
use crate::reader::Reader;
use crate::reference::{Batch, Metadata, OptionalColumns, PageClasses};

/// Writes a trace into a file.
///
/// The file is replaced atomically by [`finish`](Writer::finish), see
/// [`OutputFile`](crate::output::OutputFile). Dropping the writer earlier leaves the
/// target unchanged. A name that ends in `.gz` or `.zst` compresses the file, which is
/// useful for text and u32 (native files are compressed internally).
pub struct Writer {
    encoder: Box<dyn Encode>,
    format: Format,
    references: u64,
    /// What the format cannot store of the trace, in notes, and whether some of it is trims or writes of whole pages.
    omitted: Vec<String>,
    omits_operations: bool,
}

/// The size of the trace that a finished [`Writer`] has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenTrace {
    /// Number of references.
    pub references: u64,
    /// Size of the file in bytes, after compression.
    pub bytes: u64,
}

impl Writer {
    /// Starts writing `path` in `format`; [`Format::of_name`] gives the format that a name
    /// implies.
    ///
    /// Text stores the metadata in comments, u32 in a `.json` beside the file; other fields
    /// of a `.json` that exists already remain.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`] if the file cannot be created,
    /// [`TraceError::Metadata`] if a `.json` exists that does not hold metadata of a
    /// trace.
    pub fn create(path: impl AsRef<Path>, format: Format, metadata: &Metadata) -> Result<Writer, TraceError> {
        Writer::create_with(path, format, metadata, None)
    }

    /// Starts writing `path` in `format` with a zstd level from 1 (fast) to 22 (small); gzip uses levels up to 9. Other levels
    /// are clamped to this range. `None` is a good compromise.
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
        Writer::create_with_classes(path, format, metadata, None, level)
    }

    /// Starts writing `path` with classes, those of the batches: native stores all of them and their names, CSV their numbers,
    /// u32 those that follow from the page number; text omits them. Where classes follow from the page number, native stores
    /// the ranges of pages instead of the class of each reference.
    ///
    /// # Errors
    ///
    /// As [`create`](Writer::create).
    pub fn create_with_classes(
        path: impl AsRef<Path>,
        format: Format,
        metadata: &Metadata,
        classes: Option<&PageClasses>,
        level: Option<i32>,
    ) -> Result<Writer, TraceError> {
        let path = path.as_ref();
        let sink = Sink::create(path, level)?;
        Writer::of_sink(sink, path, format, metadata, (classes, level))
    }

    /// Starts writing all that a reader yields; [`omitted`](Writer::omitted) says what the format cannot store of it. At its end
    /// the classes may have other names, see [`name_classes`](Writer::name_classes).
    ///
    /// # Errors
    ///
    /// As [`create`](Writer::create).
    pub fn create_for(
        reader: &Reader,
        path: impl AsRef<Path>,
        format: Format,
        level: Option<i32>,
    ) -> Result<Writer, TraceError> {
        let (metadata, classes) = (reader.metadata(), reader.classes());
        let mut writer = Writer::create_with_classes(path, format, metadata, classes.as_ref(), level)?;
        writer.expect(reader.columns());
        let Metadata { name, page_size, database_pages, below_cache, own_numbers } = metadata;
        let numbers = "that names of devices, files or keys were numbered, so that parts that are converted one by one must not be put together";
        let stated = [
            (name.is_some(), "the name"),
            (page_size.is_some(), "the page size"),
            (database_pages.is_some(), "the database's pages"),
            (*below_cache, "that the trace was captured below a cache"),
            (*own_numbers, numbers),
        ];
        let lost: Vec<&str> = stated.iter().filter(|(has, _)| *has).map(|(_, what)| *what).collect();
        writer.omit(classes.is_some_and(|classes| !format.keeps_classes(&classes)), "the classes of the pages", "them");
        let requests = "when the references were made and through which rings";
        writer.omit(reader.has_requests() && !format.keeps_requests(), requests, "it");
        writer.omit(!lost.is_empty() && !format.keeps_metadata(), &lost.join(", "), "it");
        Ok(writer)
    }

    fn omit(&mut self, is_lost: bool, what: &str, it: &str) {
        let format = self.format;
        self.omitted.extend(is_lost.then(|| format!("{format} cannot store {what}; the output omits {it}")));
    }

    /// Notes on what the format cannot store of [a reader's](Writer::create_for) references so far, besides those returned before.
    pub fn omitted(&mut self) -> Vec<String> {
        let operations = std::mem::take(&mut self.omits_operations);
        self.omit(operations, "trims, and which writes replace whole pages", "it");
        std::mem::take(&mut self.omitted)
    }

    /// Starts writing a file that was opened before, at that path, in `format` and with `classes`.
    ///
    /// # Errors
    ///
    /// As [`create`](Writer::create).
    pub fn in_file(
        file: OutputFile,
        path: impl AsRef<Path>,
        format: Format,
        metadata: &Metadata,
        classes: Option<&PageClasses>,
    ) -> Result<Writer, TraceError> {
        let path = path.as_ref();
        let sink = Sink::of_file(file, path, None)?;
        Writer::of_sink(sink, path, format, metadata, (classes, None))
    }

    fn of_sink(
        sink: Sink,
        path: &Path,
        format: Format,
        metadata: &Metadata,
        (classes, level): (Option<&PageClasses>, Option<i32>),
    ) -> Result<Writer, TraceError> {
        let encoder = format.create(WriteTarget { path, sink, metadata, classes, level })?;
        Ok(Writer { encoder, format, references: 0, omitted: Vec::new(), omits_operations: false })
    }

    /// Says, before the first batch, which columns batches may have: native stores [times and rings](Batch::requests), native and
    /// text [trims and writes of whole pages](Batch::trims); other formats omit them.
    pub fn expect(&mut self, columns: OptionalColumns) {
        self.encoder.expect(columns);
    }

    /// Appends references.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`], as on a full disk, or [`TraceError::PageTooLarge`].
    /// The caller should then drop the writer, which leaves the target unchanged.
    pub fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        self.encoder.write(batch)?;
        self.omits_operations |= !self.format.keeps_operations() && (!batch.trims.is_empty() || batch.whole.contains(&true));
        self.references += batch.len() as u64;
        Ok(())
    }

    /// Names the classes 1, 2, 3, … of the references written. For classes whose names are known only at the end; the names
    /// replace those given before.
    pub fn name_classes(&mut self, names: &[String]) {
        self.encoder.name_classes(names);
    }

    /// Makes the file durable and moves it to its path.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`]; the target is then unchanged.
    pub fn finish(self) -> Result<WrittenTrace, TraceError> {
        Ok(WrittenTrace { references: self.references, bytes: self.encoder.finish()? })
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Writer").field("references", &self.references).finish_non_exhaustive()
    }
}
