//! Page reference strings: the requests that a buffer manager gets, in order.
//!
//! A reference is a page number with a flag for reading or writing. A [`Source`] is
//! where references come from (a file, a generator, a sample compiled into the program),
//! a [`Reader`] streams them in [`Batch`]es, a [`Writer`] writes them to a file, and
//! [`stats::TraceStatistics`] describes them. Nothing here ever holds a whole trace in
//! memory.
//!
//! ```
//! use ebbpool_trace::{Batch, Source};
//!
//! let source = Source::parse("zipf:pages=1000,refs=5000,write=0.25", None)?;
//! let mut reader = source.open()?;
//! let mut batch = Batch::new();
//! let mut writes = 0;
//! while reader.next_batch(&mut batch, 4096)? {
//!     writes += batch.writes.iter().filter(|&&write| write).count();
//! }
//! assert!((1000..1500).contains(&writes));
//! # Ok::<(), ebbpool_trace::TraceError>(())
//! ```
//!
//! A new format is one file in `formats/` and one line in `formats.rs`; a
//! new generator is one file in `generators/` and one line in
//! `generators.rs`.

#[cfg(not(unix))]
compile_error!("ebbpool-trace reads and writes files as Unix has them; no other system is supported");

mod bad_lines;
mod classes;
mod columns;
mod compression;
mod concat;
mod content;
mod distances;
mod error;
mod fold;
mod formats;
mod generators;
mod ids;
pub mod output;
mod panics;
mod reader;
mod reference;
mod ring;
/// Sample traces of a real database in the native format, compiled into the program.
///
/// `traces/README.md` says how they were recorded. A [`Source`](crate::Source) reads one with
/// [`embedded`](crate::Source::embedded).
pub mod samples {
    /// TPC-C: 1,000,000 references.
    pub static PG_TPCC: &[u8] = include_bytes!("../traces/pg-tpcc.parquet");

    /// pgbench, the workload of TPC-B: 300,000 references.
    pub static PG_TPCB: &[u8] = include_bytes!("../traces/pg-tpcb.parquet");

    /// TATP, which papers call TM1: 300,000 references.
    pub static PG_TATP: &[u8] = include_bytes!("../traces/pg-tatp.parquet");
}
mod source;
pub mod stats;
mod stored_trace;
mod stream;
mod supplied;
pub mod workload;
mod writer;

pub use bad_lines::LateNote;
pub use classes::ClassNumbers;
pub use columns::{Columns, TABLE_SHAPES, TableShape};
pub use csv::ByteRecord;
pub use distances::StackDistances;
pub use error::TraceError;
pub use formats::Format;
pub use generators::{ArgumentKind, GeneratorInfo, GeneratorParameter, generators};
pub use ids::Ids;
pub use reader::{Reader, RecordedArrivals};
pub use reference::{Batch, Metadata, OptionalColumns, PageClasses, RequestDetail, Trim};
pub use ring::{Ring, RingKind};
pub use source::{ReadOptions, Source};
pub use stored_trace::{standard_input, stop_waiting_when};
pub use supplied::{PlainColumns, ReferenceStream, ReferenceSupplier, TableRows, TableSupplier, key_of};
pub use writer::{Writer, WrittenTrace};

pub use ebbpool_cost::{PageProbabilities, PageProbability};

/// The version of this crate, which is part of the keys of stored results.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Compiles the example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
