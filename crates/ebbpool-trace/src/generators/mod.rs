//! Generated reference strings, wherever a trace is named.
//!
//! Same arguments, same references, on every machine: draws are made of
//! integers, and the little floating point there is (set-up of weights) uses
//! only the four operations that IEEE 754 defines to the last bit.
//!
//! To add one: a file here with an [`Entry`], its `mod` line, and a line in
//! [`ENTRIES`].

mod alias;
mod arguments;
mod power;
mod random;
mod uniform;
mod zipf;

use crate::error::{TraceError, one_line};
use crate::nearest::did_you_mean;
use crate::reference::Batch;

pub use arguments::{Kind, Parameter};

use arguments::Arguments;

/// Every generator.
static ENTRIES: &[&Entry] = &[&zipf::ENTRY, &uniform::ENTRY];

/// A generator's registry entry.
struct Entry {
    info: GeneratorInfo,
    build: fn(&Arguments) -> Result<Box<dyn Generator>, TraceError>,
}

/// What people are told about a generator.
#[derive(Debug, Clone, Copy)]
pub struct GeneratorInfo {
    /// The word before the colon.
    pub name: &'static str,
    /// What it generates, in a sentence.
    pub summary: &'static str,
    /// What may follow the colon, in any order.
    pub parameters: &'static [Parameter],
}

/// A generator with its arguments.
pub(crate) trait Generator: Send + Sync {
    /// References in all.
    fn references(&self) -> u64;

    /// Pages of the imagined database.
    fn pages(&self) -> u64;

    /// A stream from the first reference; `spec` is for messages.
    fn start(&self, spec: &str) -> Result<Box<dyn References>, TraceError>;
}

/// An endless stream of references.
pub(crate) trait References: Send {
    /// Appends the next `count` references.
    fn fill(&mut self, batch: &mut Batch, count: usize);
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

/// The generator that `spec` asks for, `None` if it does not look like one.
pub(crate) fn parse(spec: &str) -> Result<Option<Box<dyn Generator>>, TraceError> {
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    if let Some(entry) = ENTRIES.iter().find(|entry| entry.info.name == name) {
        let arguments = Arguments::parse(spec, &entry.info, rest)?;
        return (entry.build)(&arguments).map(Some);
    }
    // A word, a colon, perhaps parameters: meant as a generator, unless it is
    // only a path with a colon in it.
    let word = !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_');
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
