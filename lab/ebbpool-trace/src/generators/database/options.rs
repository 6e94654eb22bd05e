//! Parameters that all database benchmarks take.

use super::super::arguments::{ArgumentKind, Arguments, BOOLEAN, GeneratorParameter, whole};
use crate::error::TraceError;

/// Far below 2^64, so that estimates of growth stay below it too.
const MOST_REFERENCES: u64 = 1_000_000_000_000;

pub(in super::super) const REFERENCES: GeneratorParameter =
    GeneratorParameter { name: "refs", kind: whole(0, MOST_REFERENCES), default: "1000000", about: "references" };

pub(in super::super) const PAGE_SIZE: GeneratorParameter = GeneratorParameter {
    name: "page-size",
    kind: ArgumentKind::PageSize(&[4096, 8192, 16384, 32768]),
    default: "8192",
    about: "bytes in a page",
};

pub(in super::super) const CLIENTS: GeneratorParameter = GeneratorParameter {
    name: "clients",
    kind: whole(1, 1000),
    default: "20",
    about: "sessions, whose statements take turns at random, without think time",
};

pub(in super::super) const WARMUP: GeneratorParameter = GeneratorParameter {
    name: "warmup",
    kind: whole(0, 100_000_000),
    default: "0",
    about: "transactions on the fresh database before the first reference",
};

pub(in super::super) const HINT_BITS: GeneratorParameter = GeneratorParameter {
    name: "hint-bits",
    kind: BOOLEAN,
    default: "true",
    about: "a read that sets hint bits, prunes or kills a dead key is a write",
};

/// The values of these parameters.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct BenchmarkOptions {
    /// The total number of references.
    pub(in super::super) references: u64,
    /// Bytes in a page.
    pub(in super::super) page_size: u64,
    /// Sessions at a time.
    pub(in super::super) clients: usize,
    /// Transactions before the first reference.
    pub(in super::super) warmup: u64,
    /// Whether a read that marks the page dirty is a write.
    pub(in super::super) hint_bits: bool,
    pub(in super::super) seed: u64,
}

impl BenchmarkOptions {
    pub(in super::super) fn from_arguments(arguments: &Arguments) -> Result<BenchmarkOptions, TraceError> {
        Ok(BenchmarkOptions {
            references: arguments.integer("refs")?,
            page_size: arguments.page_size("page-size")?,
            clients: arguments.integer("clients")? as usize,
            warmup: arguments.integer("warmup")?,
            hint_bits: arguments.boolean("hint-bits")?,
            seed: arguments.integer("seed")?,
        })
    }

    /// An upper bound of the number of transactions, if one makes `at_least` references on
    /// average.
    pub(in super::super) fn transactions(&self, at_least: u64) -> u64 {
        self.warmup + self.references / at_least + 2 * self.clients as u64
    }
}
