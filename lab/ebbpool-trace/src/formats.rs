//! Trace formats: their names, how they are recognised, read and written.
//!
//! To add a format, add a file here with a [`FormatEntry`], its `mod` line, and a line in
//! `formats!` below.

mod arc;
mod blkparse;
mod csv;
mod fio;
mod lcs;
mod lines;
mod lirs;
mod msr;
mod native;
mod oracle_general;
mod records;
mod requests;
mod rocksdb;
mod spc;
mod table;
mod text;
mod thrift;
mod times;
mod u32;
mod vscsi;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use ebbpool_cost::did_you_mean;

use crate::bad_lines::BadLines;
use crate::classes::ClassesByPage;
use crate::compression::{Codec, Sink};
use crate::error::TraceError;
use crate::reference::{Batch, Metadata, OptionalColumns, PageClasses};
use crate::source::ReadOptions;
use crate::stream::Stream;

pub(crate) use requests::VolumeNames;
pub(crate) use times::TimeUnit;

/// A format's entry in the registry.
pub(crate) struct FormatEntry {
    name: &'static str,
    description: &'static str,
    /// File name extensions without the dot, lower case; the first is the usual
    /// one.
    extensions: &'static [&'static str],
    /// True if these first bytes can only be this format.
    magic: fn(&[u8]) -> bool,
    /// True if these first bytes look like this format; a guess.
    resembles: fn(&[u8]) -> bool,
    /// True if the format stores [`Metadata`].
    keeps_metadata: bool,
    /// Which classes the format stores.
    stored_classes: StoredClasses,
    open: fn(Stream, &Decoding) -> Result<OpenedTrace, TraceError>,
    /// `None` for formats of other programs, which are only read.
    create: Option<Create>,
}

/// The classes that a format stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoredClasses {
    None,
    /// Those that follow from the page number.
    ByPage,
    All,
}

pub(crate) use table::open_supplied as open_table;

/// Starts a file.
type Create = fn(WriteTarget) -> Result<Box<dyn Encode>, TraceError>;

/// How to decode a trace.
pub(crate) struct Decoding<'a> {
    pub(crate) options: &'a ReadOptions,
    /// Counts the lines that formats of lines leave out.
    pub(crate) bad_lines: BadLines,
    /// The columns that batches should have, where the trace has them.
    pub(crate) columns: OptionalColumns,
    /// The volumes of the parts before.
    pub(crate) volumes: VolumeNames,
    /// Texts that name pages, of the parts before.
    pub(crate) keys: VolumeNames,
}

/// A trace ready to be decoded.
pub(crate) struct OpenedTrace {
    pub(crate) decoder: Box<dyn Decode>,
    pub(crate) metadata: Metadata,
    /// The total number of references, where it is known.
    pub(crate) references: Option<u64>,
    /// Notes for the user, one line each.
    pub(crate) notes: Vec<String>,
}

impl OpenedTrace {
    /// Adds what was stated beside a table.
    fn with_stated(self, stated: Metadata) -> OpenedTrace {
        let page_size = self.metadata.page_size.or(stated.page_size);
        let below_cache = self.metadata.below_cache || stated.below_cache;
        OpenedTrace { metadata: Metadata { page_size, below_cache, ..stated }, ..self }
    }

    /// Adds the classes that follow from the page numbers.
    pub(crate) fn with_classes(self, classes: PageClasses) -> OpenedTrace {
        OpenedTrace { decoder: Box::new(ClassesByPage::new(self.decoder, classes)), ..self }
    }
}

/// The note on a trace of a format that does not record writes.
fn only_reads(label: &str, entry: &FormatEntry) -> String {
    let format = entry.name;
    format!("{label}: this {format} trace does not record writes, so that all references are reads")
}

/// The note on a trace of objects that have sizes.
fn objects_are_pages(label: &str) -> String {
    format!("{label}: every object is one page, whatever its size")
}

/// Where to write a trace, and its metadata.
pub(crate) struct WriteTarget<'a> {
    pub(crate) path: &'a Path,
    pub(crate) sink: Sink,
    pub(crate) metadata: &'a Metadata,
    /// The classes of the references; `None` if they have none.
    pub(crate) classes: Option<&'a PageClasses>,
    pub(crate) level: Option<i32>,
}

/// The reading half of a format.
pub(crate) trait Decode: Send {
    /// Appends references to an empty batch until it has `max` or the trace ends.
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError>;

    /// Share of the trace decoded so far, 0 to 1.
    fn progress(&self) -> f64;

    /// The classes of the references so far; `None` if the batches have none.
    fn classes(&self) -> Option<PageClasses> {
        None
    }

    /// The columns that the batches have, besides classes.
    fn columns(&self) -> OptionalColumns {
        OptionalColumns::default()
    }
}

/// The writing half of a format.
pub(crate) trait Encode: Send {
    fn write(&mut self, batch: &Batch) -> Result<(), TraceError>;

    /// Makes room for these columns, if the format stores them; called before the first batch.
    fn expect(&mut self, _columns: OptionalColumns) {}

    /// Names the classes 1, 2, 3, …, if the format stores names.
    fn name_classes(&mut self, _names: &[String]) {}

    /// Moves the file to its path; returns its size in bytes.
    fn finish(self: Box<Self>) -> Result<u64, TraceError>;
}

macro_rules! formats {
    ($($(#[$doc:meta])* $variant:ident => $entry:path;)*) => {
        /// A trace format. All can be read, some [written](Format::is_written).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$doc])* $variant,)*
        }

        impl Format {
            /// All formats, in the order in which they are tried and listed.
            pub const ALL: &'static [Format] = &[$(Format::$variant,)*];

            fn entry(self) -> &'static FormatEntry {
                match self {
                    $(Format::$variant => &$entry,)*
                }
            }
        }
    };
}

formats! {
    /// Parquet with columns `page` and `write`.
    Native => native::ENTRY;
    /// A line `R 123` or `W 123` per reference.
    Text => text::ENTRY;
    /// Little-endian 32-bit words, `page << 1 | write`.
    U32 => u32::ENTRY;
    /// Comma-separated values with a line of column names.
    Csv => csv::ENTRY;
    /// Block requests in the format of the Storage Performance Council and UMass.
    Spc => spc::ENTRY;
    /// Block requests of the servers of Microsoft Research Cambridge.
    Msr => msr::ENTRY;
    /// SCSI commands of VMware's virtual disks, as libCacheSim reads them.
    Vscsi => vscsi::ENTRY;
    /// libCacheSim's records of 24 bytes.
    OracleGeneral => oracle_general::ENTRY;
    /// libCacheSim's format with a header.
    Lcs => lcs::ENTRY;
    /// The output of `fio --write_iolog`.
    Fio => fio::ENTRY;
    /// The output of blkparse for a blktrace.
    Blkparse => blkparse::ENTRY;
    /// A block number per line, the traces of the LIRS paper.
    Lirs => lirs::ENTRY;
    /// First block and number of blocks per line, the traces of the ARC paper.
    Arc => arc::ENTRY;
    /// The block cache trace of RocksDB.
    RocksDb => rocksdb::ENTRY;
}

impl Format {
    /// The name that `--trace-format` takes.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// One line for help and documentation.
    pub fn description(self) -> &'static str {
        self.entry().description
    }

    /// File name extensions, lower case and without the dot; the first is the
    /// usual one. `.gz` or `.zst` may follow.
    pub fn extensions(self) -> &'static [&'static str] {
        self.entry().extensions
    }

    /// The format that a file's name implies, without `.gz` and `.zst`, and without the
    /// `.bin` of libCacheSim's files before these.
    pub fn of_name(path: impl AsRef<Path>) -> Option<Format> {
        let (_, mut plain) = Codec::of_name(path.as_ref());
        if plain.extension().is_some_and(|extension| extension == "bin") {
            plain.set_extension("");
        }
        let extension = plain.extension()?.to_str()?.to_ascii_lowercase();
        Format::ALL.iter().copied().find(|format| format.extensions().contains(&extension.as_str()))
    }

    /// Names of all formats, for messages.
    pub(crate) fn list() -> String {
        listed(|_| true)
    }

    /// True if traces can be written in this format.
    pub fn is_written(self) -> bool {
        self.entry().create.is_some()
    }

    /// False if a trace written in this format loses its [`Metadata`].
    pub fn keeps_metadata(self) -> bool {
        self.entry().keeps_metadata
    }

    /// True if a trace written in this format has [times and rings](Batch::requests).
    pub fn keeps_requests(self) -> bool {
        self == Format::Native
    }

    /// True if a trace written in this format has [trims and writes of whole pages](Batch::trims).
    pub fn keeps_operations(self) -> bool {
        matches!(self, Format::Native | Format::Text)
    }

    /// True if a trace written in this format has these classes.
    pub fn keeps_classes(self, classes: &PageClasses) -> bool {
        match self.entry().stored_classes {
            StoredClasses::None => false,
            StoredClasses::ByPage => !classes.ranges().is_empty(),
            StoredClasses::All => true,
        }
    }

    pub(crate) fn open(self, stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
        let mut opened = (self.entry().open)(stream, decoding)?;
        opened.metadata.below_cache |= self.is_below_cache();
        Ok(opened)
    }

    /// True if traces in this format record the requests of a device or a file, which a cache above has not answered.
    pub fn is_below_cache(self) -> bool {
        match self {
            Format::Spc | Format::Msr | Format::Vscsi | Format::Fio | Format::Blkparse => true,
            Format::Native
            | Format::Text
            | Format::U32
            | Format::Csv
            | Format::OracleGeneral
            | Format::Lcs
            | Format::Lirs
            | Format::Arc
            | Format::RocksDb => false,
        }
    }

    /// The file beside a trace that holds its metadata; `None` if the format has none.
    pub fn sidecar(self, trace: &Path) -> Option<std::path::PathBuf> {
        match self {
            Format::U32 => u32::sidecar(trace),
            _ => None,
        }
    }

    pub(crate) fn create(self, target: WriteTarget) -> Result<Box<dyn Encode>, TraceError> {
        match self.entry().create {
            Some(create) => create(target),
            None => Err(TraceError::OnlyRead { format: self.name(), formats: listed(|format| format.is_written()) }),
        }
    }

    /// Determines the format of a trace: by its magic, else as the user requested, else by
    /// its name, else by a guess. Also returns a note for the user, if there is one.
    pub(crate) fn recognise(stream: &mut Stream, options: &ReadOptions) -> Result<(Format, Option<String>), TraceError> {
        /// Enough for the first line after a page of comments.
        const HEAD: usize = 1 << 13;
        let label = stream.label().to_owned();
        let requested = options.format;
        let named = stream.path().and_then(Format::of_name);
        let compressed = stream.path().and_then(|path| Codec::of_name(path).0);
        let actual = stream.codec();
        let head = stream.head(HEAD)?;
        let by_content = |test: fn(Format, &[u8]) -> bool| Format::ALL.iter().copied().find(|&format| test(format, head));
        // Only the lines of other formats look like some of CSV, too.
        let has_columns = requested == Some(Format::Csv) && options.columns.is_some() && is_text(head);
        if let Some(format) = by_content(|format, head| (format.entry().magic)(head)).filter(|_| !has_columns) {
            let note = requested
                .filter(|&other| other != format)
                .map(|other| format!("{label}: is {format} by its first bytes; read as such and not as {other}"));
            return Ok((format, note));
        }
        if let Some(compressed) = compressed.filter(|_| actual != compressed && !head.is_empty()) {
            return Err(TraceError::Misnamed {
                file: label,
                name: compressed.name(),
                content: actual.map_or("not compressed", Codec::name),
                remedy: "rename it",
            });
        }
        // A trace of words or records may begin with any bytes.
        let is_binary = |format: Format| matches!(format, Format::U32 | Format::OracleGeneral | Format::Lcs | Format::Vscsi);
        if let Some((content, remedy)) = packed(head).filter(|_| !requested.or(named).is_some_and(is_binary)) {
            return Err(TraceError::Packed { file: label, content, remedy });
        }
        if let Some(format) = requested {
            return Ok((format, None));
        }
        if let Some(format) = named {
            // Words and records take any bytes, so text would become references to pages that do not exist.
            let records = matches!(format, Format::U32 | Format::OracleGeneral);
            if records && is_text(head) {
                return Err(TraceError::Misnamed {
                    file: label,
                    name: format.name(),
                    content: "text",
                    remedy: "rename it, or name the format with --trace-format",
                });
            }
            return Ok((format, None));
        }
        if head.is_empty() {
            return Err(TraceError::UnknownFormat {
                file: label,
                problem: "is empty and its name shows no trace format",
                formats: Format::list(),
            });
        }
        if options.columns.is_some() && is_text(head) {
            return Ok((Format::Csv, None));
        }
        if let Some(format) = by_content(|format, head| (format.entry().resembles)(head)) {
            let note = format!(
                "{label}: its name shows no trace format, but it looks like {format}; read as such (--trace-format to choose)"
            );
            return Ok((format, Some(note)));
        }
        Err(TraceError::UnknownFormat {
            file: label,
            problem: "neither its name nor its content shows a trace format",
            formats: Format::list(),
        })
    }
}

/// What a file is that another program can make readable, and that program.
fn packed(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const UTF_16: (&str, &str) = ("is a text in UTF-16", "iconv -f UTF-16 -t UTF-8");
    match head {
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => Some(("is compressed with bzip2", "bzcat")),
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Some(("is compressed with xz", "xzcat")),
        [0x04, 0x22, 0x4D, 0x18, ..] => Some(("is compressed with lz4", "lz4 -dc")),
        [b'P', b'K', 3, 4, ..] => Some(("is a zip archive", "unzip -p")),
        [b'7', b'z', 0xBC, 0xAF, 0x27, 0x1C, ..] => Some(("is a 7z archive", "7z x -so")),
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => Some(UTF_16),
        _ if head.get(257..262) == Some(b"ustar") => Some(("is a tar archive", "tar -xOf")),
        _ => None,
    }
}

/// True if the bytes are lines of printable characters.
fn is_text(head: &[u8]) -> bool {
    let printable = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    !head.is_empty() && head.iter().all(printable)
}

/// Names of the formats for which `which` is true.
fn listed(which: fn(Format) -> bool) -> String {
    let formats = Format::ALL.iter().filter(|&&format| which(format));
    let names: Vec<&str> = formats.map(|format| format.name()).collect();
    names.join(", ")
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = TraceError;

    /// Takes a name, as [`Format::name`] gives it, in any case.
    fn from_str(name: &str) -> Result<Format, TraceError> {
        Format::ALL.iter().copied().find(|format| format.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
            TraceError::FormatName {
                name: ebbpool_cost::one_line(name),
                nearest: did_you_mean(name, Format::ALL.iter().map(|format| format.name())),
                formats: Format::list(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for &format in Format::ALL {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
            for extension in format.extensions() {
                for end in ["", ".gz", ".ZST"] {
                    let name = format!("dir.x/trace.{extension}{end}");
                    assert_eq!(Format::of_name(&name), Some(format), "{name}");
                }
            }
        }
        assert_eq!(Format::of_name("w105.oracleGeneral.bin.zst"), Some(Format::OracleGeneral));
        assert_eq!(Format::of_name("trace.bin"), None);
        assert_eq!(Format::of_name("trace.gz"), None);
        assert_eq!(Format::of_name("trace"), None);
        let message = "txet".parse::<Format>().unwrap_err().to_string();
        assert_eq!(
            message,
            "no trace format is called 'txet' (did you mean 'text'?); there are native, text, u32, csv, spc, msr, vscsi, oracleGeneral, lcs, fio, blkparse, lirs, arc, rocksdb"
        );
    }
}
