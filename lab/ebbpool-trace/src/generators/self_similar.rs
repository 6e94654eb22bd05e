//! `self-similar`: a share A of the references is to a share B of the pages, and the same
//! holds within these pages, and so on.
//!
//! After Gray et al., Quickly Generating Billion-Record Synthetic Databases (SIGMOD
//! 1994): the hottest k of n pages get (k/n)^theta of the references, with
//! theta = ln A / ln B.

use std::sync::{Arc, Mutex, PoisonError};

use ebbpool_cost::{Decimal, PageProbabilities};

use super::alias::{AliasTable, page_probabilities};
use super::arguments::{ArgumentKind, Arguments, BOOLEAN, GeneratorParameter, SEED, WORD, WRITE, whole};
use super::power::{ln_of_fraction, power_step};
use super::random::{Chance, Random};
use super::zipf::MOST_PAGES;
use super::{Generator, GeneratorEntry, GeneratorInfo, RandomGenerator, References};
use crate::error::TraceError;
use crate::reference::Batch;

pub(super) static ENTRY: GeneratorEntry = GeneratorEntry {
    info: GeneratorInfo {
        name: "self-similar",
        summary: "independent references; a share of them goes to a share of the pages, and so on within these",
        knows_probabilities: true,
        parameters: &[
            GeneratorParameter {
                name: "pages",
                kind: whole(1, MOST_PAGES),
                default: "10000",
                about: "pages of the database, numbered from 0",
            },
            GeneratorParameter { name: "refs", kind: WORD, default: "1000000", about: "references" },
            GeneratorParameter {
                name: "skew",
                kind: ArgumentKind::Skew,
                default: "0.8/0.2",
                about: "share of the references that goes to that share of the pages",
            },
            WRITE,
            GeneratorParameter {
                name: "shuffled",
                kind: BOOLEAN,
                default: "false",
                about: "hot pages lie anywhere; otherwise page 0 is the hottest and its neighbours are next",
            },
            SEED,
        ],
    },
    build,
};

struct SelfSimilar {
    pages: u64,
    references: u64,
    skew: (Decimal, Decimal),
    write: Chance,
    shuffled: bool,
    seed: u64,
    /// Made on first use and then reused, since a trace may be opened many times.
    start: Mutex<Option<Stream>>,
}

fn build(arguments: &Arguments) -> Result<Box<dyn Generator>, TraceError> {
    Ok(Box::new(SelfSimilar {
        pages: arguments.integer("pages")?,
        references: arguments.integer("refs")?,
        skew: arguments.skew("skew")?,
        write: arguments.chance("write")?,
        shuffled: arguments.boolean("shuffled")?,
        seed: arguments.integer("seed")?,
        start: Mutex::new(None),
    }))
}

impl RandomGenerator for SelfSimilar {
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
        let table = self.stream(spec)?.table;
        let found = page_probabilities(&table, &table, self.write);
        found.map(Some).ok_or_else(|| self.too_large(spec))
    }
}

impl SelfSimilar {
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

    /// The stream before its first reference, `None` without enough memory.
    fn first(&self) -> Option<Stream> {
        let mut random = Random::new(self.seed);
        let pages = u32::try_from(self.pages).ok()?;
        let mut ranking: Vec<u32> = Vec::new();
        ranking.try_reserve_exact(pages as usize).ok()?;
        ranking.extend(0..pages);
        if self.shuffled {
            random.shuffle(&mut ranking);
        }
        Some(Stream { random, write: self.write, table: Arc::new(table(&ranking, self.skew)?) })
    }
}

/// The distribution of references over the items, which are given hottest first; `None` without
/// enough memory. There must be at least one item.
pub(crate) fn table(ranking: &[u32], skew: (Decimal, Decimal)) -> Option<AliasTable> {
    let [references, hot] = [skew.0, skew.1].map(|share| {
        let (numerator, denominator) = share.parts();
        ln_of_fraction(numerator, denominator)
    });
    let theta = references / hot;
    let weight = |rank: usize| power_step(rank as u64 + 1, ranking.len() as u64, theta);
    AliasTable::new(ranking, weight)
}

#[derive(Clone)]
struct Stream {
    random: Random,
    write: Chance,
    table: Arc<AliasTable>,
}

impl References for Stream {
    fn fill(&mut self, batch: &mut Batch, count: usize) {
        let pages = self.table.len() as u64;
        for _ in 0..count {
            let write = self.random.happens(self.write);
            let column = self.random.below(pages) as usize;
            let page = self.table.item(column, self.random.bits32());
            batch.push(u64::from(page), write);
        }
    }
}
