//! Sources of references.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::{fmt, fs, io};

use bytes::Bytes;
use ebbpool_cost::{PageProbabilities, did_you_mean, one_line};

use crate::bad_lines::{BadLines, LateNote, LeftOutLines, lock};
use crate::columns::Columns;
use crate::concat::{Joining, concat, of_parts};
use crate::content::{ContentHasher, key_of};
use crate::error::TraceError;
use crate::fold::fold;
use crate::formats::{Decoding, Format, OpenedTrace, VolumeNames, open_table};
use crate::generators;
use crate::reader::{Reader, RecordedArrivals};
use crate::reference::OptionalColumns;
use crate::stored_trace::TraceBytes;
use crate::supplied::{ReferenceSupplier, SuppliedDecoder, TableSupplier};

/// How traces are read. The steps of reading, in this order:
///
/// 1. decode, by `format` and `columns`; requests in bytes become pages of
///    `page_size`
/// 2. leave out at most `bad_lines` malformed lines, over all parts together
/// 3. fold pages to `page_size`, each part by the page size that it states
/// 4. put the parts together, one after the other or by time
/// 5. drop the first `skip` references, then stop after `limit`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format of files without a magic number.
    pub format: Option<Format>,
    /// The columns of CSV files; guessed from their names if this is `None`.
    pub columns: Option<Columns>,
    /// Bytes in a page; the page size of the trace if this is `None`.
    pub page_size: Option<NonZeroU64>,
    /// In formats of lines: how many malformed lines are left out before one is an error.
    pub bad_lines: u64,
    /// References to leave out at the start.
    pub skip: u64,
    /// The largest number of references to read.
    pub limit: Option<u64>,
    /// Whether the trace was recorded [below a cache](crate::Metadata::below_cache); as format, columns and metadata say if this is
    /// `None`.
    pub below_cache: Option<bool>,
    /// True if each write replaces all of its page, so that a miss by a write reads nothing; else the trace says which do.
    pub whole_writes: bool,
    /// True if the parts of a trace are of several databases: no page of one is one of another. Otherwise equal page numbers are
    /// the same page.
    pub apart: bool,
    /// True if the references of several parts come in the order of their times, of one clock, and not part by part.
    pub by_time: bool,
}

/// The name of standard input as a trace.
const STANDARD_INPUT: &str = "-";

/// A trace by name: a file, standard input, a generator, a sample compiled into the
/// program, or several of these in sequence.
///
/// Cheap to clone and to share between threads; it can be opened any number of
/// times, and every [`Reader`] starts from the beginning. This holds for pipes and
/// standard input too, because they are spooled to a temporary file when they are first
/// opened.
#[derive(Clone)]
pub struct Source(Arc<SourceParts>);

struct SourceParts {
    label: String,
    /// At least one.
    parts: Vec<SourcePart>,
    options: ReadOptions,
    left_out: Arc<Mutex<LeftOutLines>>,
    /// The key of the trace that was stored as this one.
    key: Option<[u8; 32]>,
}

struct SourcePart {
    label: String,
    origin: PartOrigin,
}

enum PartOrigin {
    StoredTrace(TraceBytes),
    Generator(generators::NamedGenerator),
    Supplied(Arc<dyn ReferenceSupplier>),
    Table(Arc<dyn TableSupplier>),
    /// A whole trace with its own options.
    Nested(Source),
}

impl SourcePart {
    /// True if both are the same references, by the same names and options.
    fn is_same(&self, other: &SourcePart) -> bool {
        match (&self.origin, &other.origin) {
            (PartOrigin::Nested(one), PartOrigin::Nested(other)) => Arc::ptr_eq(&one.0, &other.0),
            (PartOrigin::Supplied(one), PartOrigin::Supplied(other)) => Arc::ptr_eq(one, other),
            (PartOrigin::Table(one), PartOrigin::Table(other)) => Arc::ptr_eq(one, other),
            (PartOrigin::StoredTrace(_), PartOrigin::StoredTrace(_)) | (PartOrigin::Generator(_), PartOrigin::Generator(_)) => {
                self.label == other.label
            }
            _ => false,
        }
    }
}

impl Source {
    /// The trace that a user named: a path, `-` for standard input, or a generator
    /// such as `zipf:pages=50000,refs=500000`. A file of that name takes
    /// precedence over a generator.
    ///
    /// `format` is the user's format for files. It takes precedence over a file's name, but
    /// not over a magic number. Generators ignore it.
    ///
    /// # Errors
    ///
    /// [`TraceError::NotFound`], [`TraceError::Directory`] and
    /// [`TraceError::Io`] for files, [`TraceError::Generator`],
    /// [`TraceError::Parameter`] for generators.
    pub fn parse(arg: &str, format: Option<Format>) -> Result<Source, TraceError> {
        let options = ReadOptions { format, ..ReadOptions::default() };
        Source::parse_with(arg, &options)
    }

    /// [`parse`](Source::parse), read as `options` say.
    ///
    /// # Errors
    ///
    /// As [`parse`](Source::parse).
    pub fn parse_with(arg: &str, options: &ReadOptions) -> Result<Source, TraceError> {
        let part = SourcePart::parse(arg, options)?;
        Ok(Source::new(part.label.clone(), vec![part], options))
    }

    /// Several traces, each named as for [`parse`](Source::parse), as one trace. Metadata
    /// in which they differ is dropped.
    ///
    /// # Errors
    ///
    /// As [`parse`](Source::parse).
    ///
    /// # Panics
    ///
    /// If `args` is empty.
    pub fn concat(args: &[String], options: &ReadOptions) -> Result<Source, TraceError> {
        assert!(!args.is_empty(), "a trace has at least one part");
        let parts: Vec<SourcePart> = args.iter().map(|arg| SourcePart::parse(arg, options)).collect::<Result<_, _>>()?;
        Ok(Source::new(label_of(&parts), parts, options))
    }

    /// A generator with its parameters; files are refused.
    ///
    /// # Errors
    ///
    /// [`TraceError::NotGenerator`], and as [`parse`](Source::parse).
    pub fn generator(spec: &str, options: &ReadOptions) -> Result<Source, TraceError> {
        let generator = generators::parse(spec, options)?.ok_or_else(|| {
            let names = generators::generators().map(|info| info.name);
            TraceError::NotGenerator {
                spec: one_line(spec),
                nearest: did_you_mean(spec, names),
                generators: generators::list(),
            }
        })?;
        let part = SourcePart { label: one_line(spec), origin: PartOrigin::Generator(generator) };
        Ok(Source::new(part.label.clone(), vec![part], options))
    }

    /// The traces that a generator makes from this many seeds, from the one that `arg` gives, or its default, on; a single
    /// trace for whatever else `arg` names.
    ///
    /// # Errors
    ///
    /// As [`parse`](Source::parse), and [`TraceError::Seeds`] if there are fewer seeds from there to 2^64 - 1.
    pub fn seeds(arg: &str, options: &ReadOptions, count: u64) -> Result<Vec<Source>, TraceError> {
        let first = Source::parse_with(arg, options)?;
        match first.is_generator() {
            true => generators::seeded(arg, options, count)?.iter().map(|spec| Source::generator(spec, options)).collect(),
            false => Ok(vec![first]),
        }
    }

    /// True if a single generator makes all references.
    pub(crate) fn is_generator(&self) -> bool {
        matches!(self.0.parts.as_slice(), [SourcePart { origin: PartOrigin::Generator(_), .. }])
    }

    /// A trace compiled into the program, in a format with a magic number (the
    /// native one, possibly compressed).
    pub fn embedded(name: &str, bytes: &'static [u8], options: &ReadOptions) -> Source {
        let part =
            SourcePart { label: one_line(name), origin: PartOrigin::StoredTrace(TraceBytes::Bytes(Bytes::from_static(bytes))) };
        Source::new(part.label.clone(), vec![part], options)
    }

    /// A trace as the bytes of a native file in memory, of which `key` is the [key](Self::content_key) that it had before.
    pub fn stored(name: &str, bytes: Vec<u8>, key: [u8; 32]) -> Source {
        let origin = PartOrigin::StoredTrace(TraceBytes::Bytes(bytes.into()));
        let (label, options) = (one_line(name), ReadOptions::default());
        let parts = vec![SourcePart { label: label.clone(), origin }];
        Source(Arc::new(SourceParts { label, parts, options, left_out: Arc::default(), key: Some(key) }))
    }

    /// References that a caller supplies, under this name.
    pub fn supplied(name: &str, supplier: Arc<dyn ReferenceSupplier>, options: &ReadOptions) -> Source {
        let part = SourcePart { label: one_line(name), origin: PartOrigin::Supplied(supplier) };
        Source::new(part.label.clone(), vec![part], options)
    }

    /// The rows of a table that a caller supplies, under this name, read as those of a file by the columns of `options`.
    pub fn table(name: &str, supplier: Arc<dyn TableSupplier>, options: &ReadOptions) -> Source {
        let part = SourcePart { label: one_line(name), origin: PartOrigin::Table(supplier) };
        Source::new(part.label.clone(), vec![part], options)
    }

    /// Several traces, each read with its own options, as one trace that is then read with `options`. Metadata in which
    /// they differ is dropped.
    ///
    /// # Panics
    ///
    /// If `sources` is empty.
    pub fn sequence(sources: &[Source], options: &ReadOptions) -> Source {
        assert!(!sources.is_empty(), "a trace has at least one part");
        let part =
            |source: &Source| SourcePart { label: source.label().to_owned(), origin: PartOrigin::Nested(source.clone()) };
        let parts: Vec<SourcePart> = sources.iter().map(part).collect();
        Source::new(label_of(&parts), parts, options)
    }

    fn new(label: String, parts: Vec<SourcePart>, options: &ReadOptions) -> Source {
        Source(Arc::new(SourceParts { label, parts, options: options.clone(), left_out: Arc::default(), key: None }))
    }

    /// The trace as the user named it.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    /// How the trace is read.
    pub fn options(&self) -> &ReadOptions {
        &self.0.options
    }

    /// The files that the trace is read from: those that the user named, and the metadata files beside them.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for part in &self.0.parts {
            let stored = match &part.origin {
                PartOrigin::StoredTrace(stored) => stored,
                PartOrigin::Nested(source) => {
                    files.extend(source.files());
                    continue;
                }
                PartOrigin::Generator(_) | PartOrigin::Supplied(_) | PartOrigin::Table(_) => continue,
            };
            let Some(path) = stored.path() else {
                continue;
            };
            files.push(path.to_owned());
            let format = self.0.options.format.or_else(|| Format::of_name(path));
            files.extend(format.and_then(|format| format.sidecar(path)));
        }
        files
    }

    /// Refuses outputs that would replace a file of these traces, or each other, before anything is read.
    ///
    /// # Errors
    ///
    /// As [`refuse_overwriting`](crate::output::refuse_overwriting).
    pub fn refuse_overwriting(sources: &[Source], outputs: impl IntoIterator<Item = PathBuf>) -> Result<(), TraceError> {
        let inputs: Vec<PathBuf> = sources.iter().flat_map(Source::files).collect();
        let outputs: Vec<PathBuf> = outputs.into_iter().collect();
        crate::output::refuse_overwriting(&inputs, &outputs)
    }

    /// Starts reading from the first reference.
    ///
    /// # Errors
    ///
    /// Any [`TraceError`] about the file as a whole: unreadable, of unknown
    /// format, damaged, without the columns of a trace, with broken metadata, of
    /// pages that cannot be folded; or [`TraceError::Memory`] for a generator.
    pub fn open(&self) -> Result<Reader, TraceError> {
        self.open_with(OptionalColumns::default())
    }

    /// Starts reading from the first reference, in batches with the classes of the pages, if the trace has classes.
    ///
    /// # Errors
    ///
    /// As [`open`](Source::open).
    pub fn open_with_classes(&self) -> Result<Reader, TraceError> {
        self.open_with(OptionalColumns { classes: true, ..OptionalColumns::default() })
    }

    /// Starts reading from the first reference, in batches with these columns, as far as the trace has them.
    ///
    /// # Errors
    ///
    /// As [`open`](Source::open).
    pub fn open_with(&self, columns: OptionalColumns) -> Result<Reader, TraceError> {
        let names = [(), ()].map(|()| VolumeNames::new(self.mixes_parts())).into();
        let (mut opened, has_names) = self.open_parts(&names, columns)?;
        opened.metadata.own_numbers |= has_names;
        Ok(Reader::new(opened, &self.0.options, columns))
    }

    /// True if parts are read in the order of their times, here or within one.
    fn mixes_parts(&self) -> bool {
        let mixes = |part: &SourcePart| matches!(&part.origin, PartOrigin::Nested(source) if source.mixes_parts());
        self.0.options.by_time || self.0.parts.iter().any(mixes)
    }

    /// The trace, and whether its pages have the numbers of these names of volumes and keys, which all parts share.
    fn open_parts(
        &self,
        names: &(VolumeNames, VolumeNames),
        columns: OptionalColumns,
    ) -> Result<(OpenedTrace, bool), TraceError> {
        let SourceParts { parts, options, left_out, .. } = &*self.0;
        let bad_lines = BadLines::new(options.bad_lines, left_out);
        if parts.len() == 1 {
            return self.open_part(0, &bad_lines, names, columns);
        }
        let named: Arc<Mutex<Vec<bool>>> = Arc::new(Mutex::new(vec![false; parts.len()]));
        let (apart, by_time) = (options.apart, options.by_time);
        let is_one = parts.iter().all(|part| part.is_same(&parts[0]));
        let joining = Joining { parts: parts.len(), apart, is_one, by_time, requests: columns.requests };
        let columns = OptionalColumns { requests: columns.requests || by_time, ..columns };
        let (source, names, noted) = (self.clone(), names.clone(), Arc::clone(&named));
        let open = move |part| {
            let (opened, has_names) = source.open_part(part, &bad_lines, &names, columns)?;
            lock(&noted)[part] = has_names;
            Ok(opened)
        };
        let opened = concat(joining, Box::new(open))?;
        let named = lock(&named).clone();
        if let Some(number) = named.iter().position(|it| *it != named[0]).filter(|_| !apart) {
            let (with, without) = if named[0] { (0, number) } else { (number, 0) };
            return Err(of_parts(format!(
                "the pages of part {} are numbered by the names of devices, files or keys, and those of part {} by themselves, so that the same number is none of the same page: keep the parts apart (--apart)",
                with + 1,
                without + 1
            )));
        }
        Ok((opened, named.contains(&true)))
    }

    fn open_part(
        &self,
        part: usize,
        bad_lines: &BadLines,
        names: &(VolumeNames, VolumeNames),
        columns: OptionalColumns,
    ) -> Result<(OpenedTrace, bool), TraceError> {
        let SourceParts { parts, options, .. } = &*self.0;
        let SourcePart { label, origin } = &parts[part];
        let decoding = Decoding {
            options,
            bad_lines: bad_lines.in_part(part),
            columns,
            volumes: names.0.for_part(),
            keys: names.1.for_part(),
        };
        let mut has_names = false;
        let opened = match origin {
            PartOrigin::Generator(named) => {
                let opened = named.generator.open(label)?;
                match named.generator.classes() {
                    Some(by_page) if columns.classes => opened.with_classes(by_page),
                    _ => opened,
                }
            }
            PartOrigin::Supplied(supplier) => SuppliedDecoder::open(&**supplier, columns)?,
            PartOrigin::Table(supplier) => open_table(label, &**supplier, &decoding)?,
            PartOrigin::Nested(source) => {
                let (opened, of_parts) = source.open_parts(names, columns)?;
                has_names = of_parts;
                Reader::new(opened, &source.0.options, columns).into()
            }
            PartOrigin::StoredTrace(stored) => {
                let mut stream = stored.stream(label)?;
                let (format, note) = Format::recognise(&mut stream, options)?;
                if options.columns.is_some() && !matches!(format, Format::Csv | Format::Native) {
                    let problem = format!("has the columns of a {format} trace, and --columns is for CSV (--trace-format csv)");
                    return Err(TraceError::Columns { file: label.clone(), problem });
                }
                let mut opened = format.open(stream, &decoding)?;
                opened.notes.splice(0..0, note);
                opened
            }
        };
        let mut opened = match options.page_size {
            Some(page_size) => fold(opened, label, page_size.get())?,
            None => opened,
        };
        opened.metadata.below_cache = options.below_cache.unwrap_or(opened.metadata.below_cache);
        has_names |= decoding.volumes.are_used() || decoding.keys.are_used();
        Ok((opened, has_names))
    }

    /// True if [`page_probabilities`](Source::page_probabilities) are known: for a single generator whose references
    /// are independent of each other ([`GeneratorInfo::knows_probabilities`](crate::GeneratorInfo)).
    pub fn knows_page_probabilities(&self) -> bool {
        self.independent_generator().is_some()
    }

    /// The true probabilities of references to each page, if the source knows them.
    ///
    /// ```
    /// let source = ebbpool_trace::Source::parse("uniform:pages=4,refs=10,write=0.5", None)?;
    /// let page = source.page_probabilities()?.expect("a generator without memory").for_page(3);
    /// assert_eq!((page.reference, page.write), (0.25, 0.125));
    /// # Ok::<(), ebbpool_trace::TraceError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`TraceError::Memory`].
    pub fn page_probabilities(&self) -> Result<Option<PageProbabilities>, TraceError> {
        match self.independent_generator() {
            Some(named) => named.generator.page_probabilities(self.label()),
            None => Ok(None),
        }
    }

    /// The generator of independent references that is the whole source. It states no page size, so no option makes
    /// other pages of its pages.
    fn independent_generator(&self) -> Option<&generators::NamedGenerator> {
        match self.0.parts.as_slice() {
            [SourcePart { origin: PartOrigin::Generator(named), .. }] => {
                Some(named).filter(|named| named.info.knows_probabilities)
            }
            _ => None,
        }
    }

    /// The formats of the parts, in order; `None` for generators and supplied references.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`] and [`TraceError::UnknownFormat`].
    pub fn formats(&self) -> Result<Vec<Option<Format>>, TraceError> {
        let SourceParts { parts, options, .. } = &*self.0;
        let mut formats = Vec::new();
        for SourcePart { label, origin } in parts {
            match origin {
                PartOrigin::Generator(_) | PartOrigin::Supplied(_) | PartOrigin::Table(_) => formats.push(None),
                PartOrigin::Nested(source) => formats.extend(source.formats()?),
                PartOrigin::StoredTrace(stored) => {
                    let mut stream = stored.stream(label)?;
                    let (format, _) = Format::recognise(&mut stream, options)?;
                    formats.push(Some(format));
                }
            }
        }
        Ok(formats)
    }

    /// The references that arrived after the start, by the times in the trace: the sums over its parts. A part starts at its
    /// first moment, or at the last reference of the warm-up if that is later: a capture puts the pages that the buffer had
    /// at the first moment. `None` if a part has no times, or if references are left out of several parts.
    ///
    /// # Errors
    ///
    /// Any [`TraceError`] about the trace, which is read to its end.
    pub fn recorded_arrivals(&self, warmup: u64) -> Result<Option<RecordedArrivals>, TraceError> {
        self.arrivals_after(&mut { warmup })
    }

    /// The references that arrived after the warm-up and their time; takes the references of the trace off the warm-up.
    fn arrivals_after(&self, warmup: &mut u64) -> Result<Option<RecordedArrivals>, TraceError> {
        let SourceParts { parts, options, left_out, .. } = &*self.0;
        let is_cut = options.skip > 0 || options.limit.is_some();
        if is_cut && parts.len() > 1 {
            return Ok(None);
        }
        let columns = OptionalColumns { requests: true, ..OptionalColumns::default() };
        let (bad_lines, names) = (BadLines::new(options.bad_lines, left_out), Default::default());
        let mut sum = RecordedArrivals::default();
        for (number, part) in parts.iter().enumerate() {
            let arrivals = match &part.origin {
                PartOrigin::Nested(source) if !is_cut => source.arrivals_after(warmup)?,
                _ => {
                    let (opened, _) = self.open_part(number, &bad_lines, &names, columns)?;
                    RecordedArrivals::read(&mut Reader::new(opened, options, columns), warmup)?
                }
            };
            let Some(arrivals) = arrivals else {
                return Ok(None);
            };
            sum.references += arrivals.references;
            sum.time = sum.time.saturating_add(arrivals.time);
        }
        Ok(Some(sum).filter(|sum| !sum.time.is_zero()))
    }

    /// Notes that arise only while reading, for standard error: bad lines that were left
    /// out, by the reading that got furthest, a word for writes that no line has, and operations
    /// of a base that a generator left out.
    pub fn late_notes(&self) -> Vec<String> {
        self.labelled(&self.unlabelled_notes())
    }

    /// Notes that arise only while reading, without the labels of the parts, to be stored under the [key](Self::content_key) of
    /// the source.
    pub fn unlabelled_notes(&self) -> Vec<LateNote> {
        let mut notes = lock(&self.0.left_out).notes();
        for (number, part) in self.0.parts.iter().enumerate() {
            if let PartOrigin::Generator(named) = &part.origin
                && let Some(note) = named.generator.late_note()
            {
                notes.push(LateNote { part: vec![number], before: String::new(), after: note.into() });
            }
            let base = self.base(number).into_iter();
            notes.extend(base.flat_map(Source::unlabelled_notes).map(|mut note| {
                note.part.insert(0, number);
                note
            }));
        }
        notes
    }

    /// Notes that a source with the same key has had, with the labels of this one.
    pub fn labelled(&self, notes: &[LateNote]) -> Vec<String> {
        let text = |note: &LateNote| {
            let LateNote { part, before, after } = note;
            format!("{before}{}{after}", self.label_of(part))
        };
        notes.iter().map(text).collect()
    }

    /// The source that a part is, or that its references are from.
    fn base(&self, part: usize) -> Option<&Source> {
        match &self.0.parts.get(part)?.origin {
            PartOrigin::Generator(named) => named.generator.base(),
            PartOrigin::Nested(source) => Some(source),
            PartOrigin::Supplied(supplier) => supplier.base(),
            PartOrigin::StoredTrace(_) | PartOrigin::Table(_) => None,
        }
    }

    /// The label of a part of a part, as a note names it.
    fn label_of(&self, part: &[usize]) -> &str {
        let Some((&number, within)) = part.split_first() else {
            return self.label();
        };
        match self.base(number) {
            Some(base) if !within.is_empty() => base.label_of(within),
            _ => {
                let part = self.0.parts.get(number);
                part.map_or_else(|| self.label(), |part| &part.label)
            }
        }
    }

    /// A key of the references that this yields and of their metadata: sources with equal
    /// keys yield equal traces.
    ///
    /// It covers every byte of the files, the metadata files beside them, and all options
    /// that change the references; for generators, their arguments in canonical spelling and
    /// the version of this crate. Of a file's name it covers only the format that follows
    /// from it. Reads every file to its end.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`] and [`TraceError::UnknownFormat`], and [`TraceError::NoKey`] for supplied references without a
    /// key.
    pub fn content_key(&self) -> Result<[u8; 32], TraceError> {
        let SourceParts { parts, options, key, .. } = &*self.0;
        if let Some(key) = key {
            return Ok(*key);
        }
        let mut hasher = ContentHasher::new(options);
        for (number, SourcePart { label, origin }) in parts.iter().enumerate() {
            match origin {
                PartOrigin::Generator(named) => {
                    hasher.generator(&named.canonical);
                    if let Some(base) = named.generator.base() {
                        hasher.base(&base.content_key()?);
                    }
                }
                PartOrigin::Supplied(supplier) => {
                    let key = supplier.key();
                    let key = key.ok_or_else(|| TraceError::NoKey { trace: label.clone() })?;
                    hasher.supplied(&key, &supplier.metadata());
                }
                PartOrigin::Table(supplier) => {
                    let key = supplier.key(&|| self.key_of_part(number).ok());
                    let key = key.ok_or_else(|| TraceError::NoKey { trace: label.clone() })?;
                    hasher.supplied(&key, &supplier.metadata());
                }
                PartOrigin::Nested(source) => hasher.base(&source.content_key()?),
                PartOrigin::StoredTrace(stored) => {
                    let mut stream = stored.stream(label)?;
                    let (format, _) = Format::recognise(&mut stream, options)?;
                    hasher.bytes(label, format, stored.raw(label)?)?;
                    if let Some(beside) = stored.path().and_then(|path| format.sidecar(path)) {
                        hasher.sidecar(&beside)?;
                    }
                }
            }
        }
        Ok(hasher.finish())
    }

    /// The key of the references of a part, of what the columns that it has say of them all, and of the notes on it.
    fn key_of_part(&self, part: usize) -> Result<[u8; 32], TraceError> {
        let left_out = Arc::default();
        let bad_lines = BadLines::new(self.0.options.bad_lines, &left_out);
        let names = Default::default();
        let (mut opened, _) = self.open_part(part, &bad_lines, &names, OptionalColumns::ALL)?;
        // Beside another part the same names have other numbers.
        let key = names.1.key(names.0.key(key_of(&mut *opened.decoder)?));
        let classes = opened.decoder.classes().unwrap_or_default();
        let notes = lock(&left_out).notes();
        Ok(ContentHasher::of_table(key, &opened.metadata, classes.names(), &notes))
    }
}

/// The label of a trace of these parts.
fn label_of(parts: &[SourcePart]) -> String {
    match parts {
        [first, _, _, ..] => format!("{} + {} more", first.label, parts.len() - 1),
        _ => {
            let labels: Vec<&str> = parts.iter().map(|part| part.label.as_str()).collect();
            labels.join(" + ")
        }
    }
}

impl SourcePart {
    fn parse(arg: &str, options: &ReadOptions) -> Result<SourcePart, TraceError> {
        if arg == STANDARD_INPUT {
            return SourcePart::standard_input();
        }
        let label = one_line(arg);
        let origin = match fs::metadata(arg) {
            Ok(found) if found.is_dir() => return Err(TraceError::Directory { file: label }),
            Ok(_) => PartOrigin::StoredTrace(TraceBytes::file(Some(PathBuf::from(arg)))),
            Err(error) => match generators::parse(arg, options)? {
                Some(generator) => PartOrigin::Generator(generator),
                None if error.kind() == io::ErrorKind::NotFound => {
                    return Err(TraceError::NotFound { file: label, generators: generators::list() });
                }
                None => return Err(TraceError::io(label, "read", error)),
            },
        };
        Ok(SourcePart { label, origin })
    }

    /// Standard input, which only one part can be.
    fn standard_input() -> Result<SourcePart, TraceError> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if TAKEN.swap(true, Ordering::Relaxed) {
            return Err(TraceError::StandardInputTaken);
        }
        Ok(SourcePart { label: "standard input".to_owned(), origin: PartOrigin::StoredTrace(TraceBytes::file(None)) })
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Source").field(&self.0.label).finish()
    }
}
