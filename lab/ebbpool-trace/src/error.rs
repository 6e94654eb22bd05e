//! The errors of traces, each with a message of one line.

use std::borrow::Cow;
use std::io;

use ebbpool_cost::one_line;
use ebbpool_cost::spec::ParameterError;

use crate::workload::WorkloadError;

/// Why a trace could not be read, written or generated.
///
/// Every message is a single line that names the file (or the generator), the
/// line or row where there is one, and a remedy where one is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system reported an error.
    #[error("{file}: cannot {action}: {error}")]
    Io {
        /// The file as the user named it.
        file: String,
        /// The action that failed, as in "cannot read".
        action: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// Neither a file nor a generator.
    #[error(
        "{file}: no such file, nor a generator; a trace is a path or one of the generators {generators}, as in `zipf:pages=50000,refs=500000`"
    )]
    NotFound {
        /// The name that the user gave.
        file: String,
        /// Names of all generators.
        generators: String,
    },
    /// A directory where a trace was expected.
    #[error("{file}: is a directory, expected a trace file")]
    Directory {
        /// The path as the user named it.
        file: String,
    },
    /// Compressed or Parquet data that cannot be decoded.
    #[error("{file}: truncated or damaged {format} data: {detail}")]
    Damaged {
        /// The file as the user named it.
        file: String,
        /// `zstd`, `gzip`, `Parquet` or `lcs`.
        format: &'static str,
        /// The decoder's message.
        detail: String,
    },
    /// A line of text that is not a reference.
    #[error("{file}, line {line}: expected {expected}, found {found}")]
    Line {
        /// The file as the user named it.
        file: String,
        /// Line number, the first is 1.
        line: u64,
        /// What is allowed there.
        expected: Cow<'static, str>,
        /// The beginning of the line or the field, quoted.
        found: String,
    },
    /// More malformed lines than may be left out.
    #[error("{error}; this is one more bad line than --skip-bad-lines {allowed} leaves out")]
    TooManyBadLines {
        /// How many were left out before.
        allowed: u64,
        /// What is wrong with the next one.
        error: Box<TraceError>,
    },
    /// A column mapping that cannot be understood.
    #[error(
        "{problem}; give page=COLUMN, or offset=COLUMN and size=COLUMN, and write=COLUMN or write=COLUMN:VALUE, separated by commas"
    )]
    Mapping {
        /// What is wrong with it.
        problem: String,
    },
    /// Byte offsets in a trace whose page size is not known.
    #[error("{file}: {what}, and no page size is known; give --page-size, as in --page-size 4096")]
    NoPageSize {
        /// The file as the user named it.
        file: String,
        /// The column or format, and the unit in which it counts.
        what: String,
    },
    /// Pages of one size that do not fit evenly into pages of another.
    #[error(
        "{file}: its pages of {stated} bytes cannot be made pages of {requested} bytes; --page-size must be a multiple or a divisor of {stated}"
    )]
    Fold {
        /// The trace.
        file: String,
        /// The page size that the trace states, in bytes.
        stated: u64,
        /// The requested page size, in bytes.
        requested: u64,
    },
    /// A page number that exceeds 64 bits when pages are split.
    #[error("{file}: page {page} divided into {parts} smaller pages has numbers beyond 2^64; give a larger --page-size")]
    SplitTooLarge {
        /// The trace.
        file: String,
        /// The page as the trace numbers it.
        page: u64,
        /// Pages that it is divided into.
        parts: u64,
    },
    /// References that a caller supplies, without a key that identifies them.
    #[error("{trace}: the references have no key, so results over them cannot be identified")]
    NoKey {
        /// The name of the trace.
        trace: String,
    },
    /// Standard input named a second time.
    #[error("standard input can be read by one trace only; save it to a file and name that")]
    StandardInputTaken,
    /// A trace where a generator is required.
    #[error("{spec}: is no generator{nearest}; there are {generators} (see --list)")]
    NotGenerator {
        /// The argument as given.
        spec: String,
        /// " (did you mean 'zipf'?)", or an empty text.
        nearest: String,
        /// Names of all generators.
        generators: String,
    },
    /// More seeds than there are.
    #[error("{spec}: there are no {count} seeds from {first} to 2^64-1; begin with a smaller one")]
    Seeds {
        /// The generator.
        spec: String,
        /// The first seed.
        first: u64,
        /// The seeds that were asked for.
        count: u64,
    },
    /// Two generators of one comparison have some of their seeds in common.
    #[error(
        "{trace} is among the seeds of both {first} and {second}; begin with seeds that are farther apart, such as seed=1 and seed=1001"
    )]
    SeedTwice {
        /// The trace that both have.
        trace: String,
        /// The generator as it was named first.
        first: String,
        /// The other one.
        second: String,
    },
    /// More distinct pages than the statistics support.
    #[error("more than {limit} distinct pages; describe a part of the trace with --limit, or larger pages with --page-size")]
    TooManyPages {
        /// The largest supported number of distinct pages.
        limit: u64,
    },
    /// A row of a table that is not a reference.
    #[error("{file}, row {row} (the first is 0): {problem}")]
    Row {
        /// The file as the user named it.
        file: String,
        /// Row number, the first is 0.
        row: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A record of a binary trace that is cut off or not a request.
    #[error("{file}, record {record} (the first is 0): {problem}")]
    Record {
        /// The file as the user named it.
        file: String,
        /// Record number, the first is 0.
        record: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A trace of events without a read or a write.
    #[error("{file}: {problem}")]
    NoRequests {
        /// The file as the user named it.
        file: String,
        /// What is missing, and how to get it.
        problem: &'static str,
    },
    /// A table without the columns of a trace.
    #[error("{file}: {problem}")]
    Columns {
        /// The file as the user named it.
        file: String,
        /// The column, what was found, and what was expected.
        problem: String,
    },
    /// A u32 trace whose length is not a multiple of four.
    #[error("{file}: {bytes} bytes are not a whole number of 32-bit words; the file is truncated or not a u32 trace")]
    Length {
        /// The file as the user named it.
        file: String,
        /// Its length, uncompressed, in bytes.
        bytes: u64,
    },
    /// Metadata that cannot be understood.
    #[error("{file}: bad trace metadata: {problem}")]
    Metadata {
        /// The file that holds the metadata (a trace or its `.json`).
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// The format does not follow from magic, name or content.
    #[error("{file}: {problem}; name one of the formats {formats} with --trace-format")]
    UnknownFormat {
        /// The file as the user named it.
        file: String,
        /// Why it was not recognised.
        problem: &'static str,
        /// Names of all formats.
        formats: String,
    },
    /// A format name that does not exist.
    #[error("no trace format is called '{name}'{nearest}; there are {formats}")]
    FormatName {
        /// The name as given.
        name: String,
        /// " (did you mean 'text'?)", or an empty text.
        nearest: String,
        /// Names of all formats.
        formats: String,
    },
    /// A format of another program, requested as output.
    #[error("traces in the format {format} are only read; write one of {formats}")]
    OnlyRead {
        /// The requested format.
        format: &'static str,
        /// Names of the formats that can be written.
        formats: String,
    },
    /// A page number that the format cannot hold.
    #[error(
        "{file}: page {page} does not fit the u32 format, which ends below 2^31; write the native format instead (.parquet)"
    )]
    PageTooLarge {
        /// The file being written.
        file: String,
        /// The first page number that does not fit.
        page: u64,
    },
    /// A generator name that does not exist.
    #[error("{spec}: no such file, and no generator is called '{name}'{nearest}; there are {generators}")]
    Generator {
        /// The whole argument.
        spec: String,
        /// The part before the colon.
        name: String,
        /// " (did you mean 'zipf'?)", or an empty text.
        nearest: String,
        /// Names of all generators.
        generators: String,
    },
    /// The parameters of a generator are refused.
    #[error("{spec}: {error}")]
    Parameter {
        /// The whole argument.
        spec: String,
        /// Why they are refused.
        error: ParameterError,
    },
    /// A file whose name and content disagree.
    #[error("{file}: its name says {name}, but its content is {content}; {remedy}")]
    Misnamed {
        /// The file as the user named it.
        file: String,
        /// The format or compression of its name.
        name: &'static str,
        /// What it holds.
        content: &'static str,
        /// What the user can do.
        remedy: &'static str,
    },
    /// A file in a form of which another program makes one that is read.
    #[error("{file}: {content}, which is not read; {remedy} '{file}' | ebbpool … - reads what it holds")]
    Packed {
        /// The file as the user named it.
        file: String,
        /// What it is.
        content: &'static str,
        /// The other program.
        remedy: &'static str,
    },
    /// An output that would replace a file that the command reads.
    #[error("{file} is read by this command, which would overwrite it; write to another file")]
    OutputIsInput {
        /// The output as the user named it.
        file: String,
    },
    /// Two outputs that are one file.
    #[error("{first} and {second} are the same file; write to two files")]
    OutputsCollide {
        /// The output named first.
        first: String,
        /// The output named second.
        second: String,
    },
    /// A generator whose tables do not fit into memory.
    #[error("{spec}: not enough memory for tables of {pages} pages; choose fewer pages")]
    Memory {
        /// The whole argument.
        spec: String,
        /// Its number of pages.
        pages: u64,
    },
    /// A generator with an impossible workload.
    #[error("{spec}: {source}")]
    Workload {
        /// The whole argument.
        spec: String,
        /// Why it is impossible.
        source: WorkloadError,
    },
}

impl TraceError {
    pub(crate) fn io(file: impl Into<String>, action: &'static str, error: io::Error) -> TraceError {
        TraceError::Io { file: file.into(), action, error }
    }

    /// True if the command line is at fault rather than a file's content: an
    /// unknown format, generator or parameter, a value out of range, or an option
    /// that does not suit the trace.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            TraceError::FormatName { .. }
                | TraceError::Generator { .. }
                | TraceError::Parameter { .. }
                | TraceError::Mapping { .. }
                | TraceError::NoPageSize { .. }
                | TraceError::OnlyRead { .. }
                | TraceError::Fold { .. }
                | TraceError::SplitTooLarge { .. }
                | TraceError::StandardInputTaken
                | TraceError::NotGenerator { .. }
                | TraceError::Seeds { .. }
                | TraceError::SeedTwice { .. }
                | TraceError::OutputIsInput { .. }
                | TraceError::OutputsCollide { .. }
                | TraceError::Workload { source: WorkloadError::Keys { .. } | WorkloadError::Operations, .. }
        )
    }
}

/// The beginning of a line of a trace, quoted for a message.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const LONGEST: usize = 40;
    let cut = &bytes[..bytes.len().min(LONGEST)];
    let text = String::from_utf8_lossy(cut);
    let dots = if cut.len() < bytes.len() { "…" } else { "" };
    format!("'{}{dots}'", one_line(&text))
}
