//! `uniform`: independent references, every page equally likely.

use ebbpool_cost::{PageProbabilities, PageProbability};

use super::arguments::{Arguments, GeneratorParameter, SEED, WORD, WRITE, whole};
use super::random::{Chance, Random};
use super::{Generator, GeneratorEntry, GeneratorInfo, RandomGenerator, References};
use crate::error::TraceError;
use crate::reference::Batch;

pub(super) static ENTRY: GeneratorEntry = GeneratorEntry {
    info: GeneratorInfo {
        name: "uniform",
        summary: "independent references to pages that are all equally likely",
        knows_probabilities: true,
        parameters: &[
            GeneratorParameter {
                name: "pages",
                kind: whole(1, u64::MAX),
                default: "10000",
                about: "pages of the database, numbered from 0",
            },
            GeneratorParameter { name: "refs", kind: WORD, default: "1000000", about: "references" },
            WRITE,
            SEED,
        ],
    },
    build,
};

#[derive(Debug, Clone, Copy)]
struct Uniform {
    pages: u64,
    references: u64,
    write: Chance,
    seed: u64,
}

fn build(arguments: &Arguments) -> Result<Box<dyn Generator>, TraceError> {
    Ok(Box::new(Uniform {
        pages: arguments.integer("pages")?,
        references: arguments.integer("refs")?,
        write: arguments.chance("write")?,
        seed: arguments.integer("seed")?,
    }))
}

impl RandomGenerator for Uniform {
    fn references(&self) -> u64 {
        self.references
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    fn start(&self, _spec: &str) -> Result<Box<dyn References>, TraceError> {
        Ok(Box::new(Stream { random: Random::new(self.seed), pages: self.pages, write: self.write }))
    }

    fn page_probabilities(&self, _spec: &str) -> Result<Option<PageProbabilities>, TraceError> {
        let reference = 1.0 / self.pages as f64;
        Ok(Some(PageProbabilities::alike(PageProbability { reference, write: reference * self.write.to_f64() })))
    }
}

struct Stream {
    random: Random,
    pages: u64,
    write: Chance,
}

impl References for Stream {
    fn fill(&mut self, batch: &mut Batch, count: usize) {
        for _ in 0..count {
            let write = self.random.happens(self.write);
            batch.push(self.random.below(self.pages), write);
        }
    }
}
