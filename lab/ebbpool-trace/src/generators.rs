//! Generated reference strings, which can be used wherever a trace is named.
//!
//! The same arguments give the same references on every machine: random draws use
//! integers, and the few floating-point computations (the set-up of weights) use only the
//! four operations that IEEE 754 defines to the last bit.
//!
//! To add a generator, add a file here with a [`GeneratorEntry`], its `mod` line, and a
//! line in [`ENTRIES`].

pub(crate) mod alias;
pub(crate) mod arguments;
mod btree;
mod database;
pub(crate) mod power;
pub(crate) mod random;
mod scan_mix;
pub(crate) mod self_similar;
mod tatp;
mod tpcb;
mod tpcc;
mod uniform;
mod workload_dynamics;
pub(crate) mod zipf;

use crate::error::TraceError;
use crate::formats::{Decode, OpenedTrace};
use crate::reference::{Batch, Metadata, PageClasses};
use crate::source::ReadOptions;
use crate::source::Source;

pub use arguments::{ArgumentKind, GeneratorParameter};

use arguments::Arguments;
use ebbpool_cost::{PageProbabilities, did_you_mean, one_line};

/// Every generator.
static ENTRIES: &[&GeneratorEntry] = &[
    &zipf::ENTRY,
    &uniform::ENTRY,
    &self_similar::ENTRY,
    &scan_mix::ENTRY,
    &btree::ENTRY,
    &workload_dynamics::ENTRY,
    &tpcc::ENTRY,
    &tpcb::ENTRY,
    &tatp::ENTRY,
];

/// A generator's registry entry.
struct GeneratorEntry {
    info: GeneratorInfo,
    build: fn(&Arguments) -> Result<Box<dyn Generator>, TraceError>,
}

/// The description of a generator for help and documentation.
#[derive(Debug, Clone, Copy)]
pub struct GeneratorInfo {
    /// The word before the colon.
    pub name: &'static str,
    /// A description of one sentence.
    pub summary: &'static str,
    /// True if its references are independent of each other, and their probabilities known beforehand:
    /// [`Source::page_probabilities`].
    pub knows_probabilities: bool,
    /// The parameters, which may follow the colon in any order.
    pub parameters: &'static [GeneratorParameter],
}

/// A generator with its arguments.
pub(crate) trait Generator: Send + Sync {
    /// Opens the trace at the first reference; `spec` is for messages.
    fn open(&self, spec: &str) -> Result<OpenedTrace, TraceError>;

    /// The true probabilities of references, if the generator knows them; `spec` is for messages.
    fn page_probabilities(&self, _spec: &str) -> Result<Option<PageProbabilities>, TraceError> {
        Ok(None)
    }

    /// The classes of the pages; `None` if there are none.
    fn classes(&self) -> Option<PageClasses> {
        None
    }

    /// The trace from which the references are made, if there is one.
    fn base(&self) -> Option<&Source> {
        None
    }

    /// A note that arises only while reading, to be put behind the label.
    fn late_note(&self) -> Option<&'static str> {
        None
    }
}

/// A generator that makes its references from random numbers alone.
trait RandomGenerator: Send + Sync {
    /// The total number of references.
    fn references(&self) -> u64;

    /// Pages of the simulated database.
    fn pages(&self) -> u64;

    /// Bytes in a page, if the simulated database has a page size.
    fn page_size(&self) -> Option<u64> {
        None
    }

    /// The classes of the pages; `None` if there are none.
    fn classes(&self) -> Option<PageClasses> {
        None
    }

    /// A stream from the first reference; `spec` is for messages.
    fn start(&self, spec: &str) -> Result<Box<dyn References>, TraceError>;

    /// The true probabilities of references, if the generator knows them; `spec` is for messages.
    fn page_probabilities(&self, _spec: &str) -> Result<Option<PageProbabilities>, TraceError> {
        Ok(None)
    }
}

/// An endless stream of references.
trait References: Send {
    /// Appends the next `count` references.
    fn fill(&mut self, batch: &mut Batch, count: usize);
}

impl<D: RandomGenerator> Generator for D {
    fn open(&self, spec: &str) -> Result<OpenedTrace, TraceError> {
        let references = self.references();
        Ok(OpenedTrace {
            decoder: Box::new(LimitedReferences { stream: self.start(spec)?, done: 0, references }),
            metadata: Metadata {
                name: Some(spec.to_owned()),
                page_size: self.page_size(),
                database_pages: Some(self.pages()),
                ..Metadata::default()
            },
            references: Some(references),
            notes: Vec::new(),
        })
    }

    fn page_probabilities(&self, spec: &str) -> Result<Option<PageProbabilities>, TraceError> {
        RandomGenerator::page_probabilities(self, spec)
    }

    fn classes(&self) -> Option<PageClasses> {
        RandomGenerator::classes(self)
    }
}

/// An endless stream, limited to a number of references.
struct LimitedReferences {
    stream: Box<dyn References>,
    done: u64,
    references: u64,
}

impl Decode for LimitedReferences {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let left = self.references - self.done;
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(max);
        batch.reserve(count);
        self.stream.fill(batch, count);
        self.done += count as u64;
        Ok(())
    }

    fn progress(&self) -> f64 {
        if self.references == 0 { 1.0 } else { self.done as f64 / self.references as f64 }
    }
}

/// A generator with its canonical name.
pub(crate) struct NamedGenerator {
    pub(crate) info: &'static GeneratorInfo,
    pub(crate) generator: Box<dyn Generator>,
    /// Equal for arguments that mean the same; does not include a base.
    pub(crate) canonical: String,
}

/// All generators, for help and documentation.
pub fn generators() -> impl ExactSizeIterator<Item = &'static GeneratorInfo> {
    ENTRIES.iter().map(|entry| &entry.info)
}

/// Names of all generators, for messages.
pub(crate) fn list() -> String {
    let names: Vec<&str> = generators().map(|info| info.name).collect();
    names.join(", ")
}

/// The generator `spec` with this many seeds, from its own on.
pub(crate) fn seeded(spec: &str, reading: &ReadOptions, count: u64) -> Result<Vec<String>, TraceError> {
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let Some(entry) = ENTRIES.iter().find(|entry| entry.info.name == name) else {
        return Ok(vec![spec.to_owned()]);
    };
    Arguments::parse(spec, &entry.info, rest, reading)?.with_seeds(count)
}

/// The generator that `spec` names; `None` if it does not look like one. Traces among its
/// arguments are decoded as `reading` says.
pub(crate) fn parse(spec: &str, reading: &ReadOptions) -> Result<Option<NamedGenerator>, TraceError> {
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    if let Some(entry) = ENTRIES.iter().find(|entry| entry.info.name == name) {
        let arguments = Arguments::parse(spec, &entry.info, rest, reading)?;
        return Ok(Some(NamedGenerator {
            info: &entry.info,
            generator: (entry.build)(&arguments)?,
            canonical: arguments.canonical(),
        }));
    }
    // A word, a colon and perhaps parameters mean a generator, unless they are only a path
    // with a colon in it.
    let word = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_');
    if word && spec.contains(':') && (rest.is_empty() || rest.contains('=')) {
        return Err(TraceError::Generator {
            spec: one_line(spec),
            name: name.to_owned(),
            nearest: did_you_mean(name, generators().map(|info| info.name)),
            generators: list(),
        });
    }
    Ok(None)
}
