//! `zipf`: independent references to pages whose popularity falls with a power of the
//! rank; reads and writes have separate rankings.

use std::sync::{Arc, Mutex, PoisonError};

use ebbpool_cost::{Decimal, PageProbabilities};

use super::alias::{AliasTable, page_probabilities};
use super::arguments::{ArgumentKind, Arguments, BOOLEAN, GeneratorParameter, SEED, WORD, WRITE, whole};
use super::power::inverse_power;
use super::random::{Chance, Random};
use super::{Generator, GeneratorEntry, GeneratorInfo, RandomGenerator, References};
use crate::error::TraceError;
use crate::reference::Batch;

/// With more pages the tables (24 bytes per page, half as much again while they are made)
/// would be too large for the intended machines.
pub(crate) const MOST_PAGES: u64 = 1_000_000_000;
/// The number of references that are drawn before they are looked up.
const BLOCK: usize = 256;
pub(super) const ALPHA: ArgumentKind = ArgumentKind::Decimal { max: 10 };

pub(super) static ENTRY: GeneratorEntry = GeneratorEntry {
    info: GeneratorInfo {
        name: "zipf",
        summary: "independent references; the page of rank i is asked for in proportion to i^-alpha",
        knows_probabilities: true,
        parameters: &[
            GeneratorParameter {
                name: "pages",
                kind: whole(1, MOST_PAGES),
                default: "10000",
                about: "pages of the database, numbered from 0",
            },
            GeneratorParameter { name: "refs", kind: WORD, default: "1000000", about: "references" },
            GeneratorParameter { name: "read-alpha", kind: ALPHA, default: "1", about: "skew of the reads, 0 is uniform" },
            GeneratorParameter {
                name: "write-alpha",
                kind: ALPHA,
                default: "read-alpha",
                about: "skew of the writes, 0 is uniform",
            },
            WRITE,
            GeneratorParameter {
                name: "shared",
                kind: BOOLEAN,
                default: "false",
                about: "reads and writes rank the pages alike",
            },
            SEED,
        ],
    },
    build,
};

pub(super) struct Zipf {
    pages: u64,
    references: u64,
    read_alpha: Decimal,
    write_alpha: Decimal,
    write: Chance,
    shared: bool,
    seed: u64,
    /// Made on first use and then reused, since a trace may be opened many times.
    start: Mutex<Option<Stream>>,
}

fn build(arguments: &Arguments) -> Result<Box<dyn Generator>, TraceError> {
    Ok(Box::new(Zipf::from_arguments(arguments)?))
}

impl RandomGenerator for Zipf {
    fn references(&self) -> u64 {
        self.references
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    fn start(&self, spec: &str) -> Result<Box<dyn References>, TraceError> {
        Ok(Box::new(self.stream(spec)?))
    }

    fn page_probabilities(&self, spec: &str) -> Result<Option<PageProbabilities>, TraceError> {
        let Stream { reads, writes, .. } = self.stream(spec)?;
        let found = page_probabilities(&reads, &writes, self.write);
        found.map(Some).ok_or_else(|| self.too_large(spec))
    }
}

impl Zipf {
    /// The stream before its first reference.
    fn stream(&self, spec: &str) -> Result<Stream, TraceError> {
        let mut start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = &*start {
            return Ok(stream.clone());
        }
        let stream = self.first().ok_or_else(|| self.too_large(spec))?;
        Ok(start.insert(stream).clone())
    }

    fn too_large(&self, spec: &str) -> TraceError {
        TraceError::Memory { spec: spec.to_owned(), pages: self.pages }
    }

    /// Reads the parameters of `zipf`.
    pub(super) fn from_arguments(arguments: &Arguments) -> Result<Zipf, TraceError> {
        let read_alpha = arguments.decimal("read-alpha")?;
        Ok(Zipf {
            pages: arguments.integer("pages")?,
            references: arguments.integer("refs")?,
            read_alpha,
            write_alpha: if arguments.is_given("write-alpha") { arguments.decimal("write-alpha")? } else { read_alpha },
            write: arguments.chance("write")?,
            shared: arguments.boolean("shared")?,
            seed: arguments.integer("seed")?,
            start: Mutex::new(None),
        })
    }

    /// The stream before its first reference, `None` without enough memory. The
    /// order of draws is part of the contract "same arguments, same bytes":
    /// ranking of reads, ranking of writes unless shared, then the references.
    fn first(&self) -> Option<Stream> {
        let mut random = Random::new(self.seed);
        let pages = u32::try_from(self.pages).ok()?;
        let mut ranking: Vec<u32> = Vec::new();
        ranking.try_reserve_exact(pages as usize).ok()?;
        ranking.extend(0..pages);
        random.shuffle(&mut ranking);
        let table = |ranking: &[u32], alpha: Decimal| {
            let alpha = alpha.to_f64();
            let weight = |rank: usize| inverse_power(rank as u64 + 1, alpha);
            AliasTable::new(ranking, weight).map(Arc::new)
        };
        let reads = table(&ranking, self.read_alpha)?;
        let writes = if self.shared && self.write_alpha == self.read_alpha {
            Arc::clone(&reads)
        } else {
            if !self.shared {
                ranking.clear();
                ranking.extend(0..pages);
                random.shuffle(&mut ranking);
            }
            table(&ranking, self.write_alpha)?
        };
        Some(Stream { random, write: self.write, reads, writes })
    }
}

#[derive(Clone)]
struct Stream {
    random: Random,
    write: Chance,
    reads: Arc<AliasTable>,
    writes: Arc<AliasTable>,
}

impl References for Stream {
    fn fill(&mut self, batch: &mut Batch, count: usize) {
        // Tables are larger than the cache. Drawing a whole block before looking it up lets
        // the processor wait for many cache lines at once.
        let mut draws = [(false, 0u32, 0u32); BLOCK];
        let tables = [&*self.reads, &*self.writes];
        let pages = self.reads.len() as u64;
        let mut left = count;
        while left > 0 {
            let draws = &mut draws[..left.min(BLOCK)];
            for draw in draws.iter_mut() {
                let write = self.random.happens(self.write);
                let column = self.random.below(pages) as u32;
                *draw = (write, column, self.random.bits32());
            }
            batch.writes.extend(draws.iter().map(|draw| draw.0));
            batch.pages.extend(
                draws.iter().map(|&(write, column, bits)| u64::from(tables[usize::from(write)].item(column as usize, bits))),
            );
            left -= draws.len();
        }
    }
}
