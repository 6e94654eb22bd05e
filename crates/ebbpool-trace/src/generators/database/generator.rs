//! The generator that a benchmark makes.

use std::marker::PhantomData;

use super::super::arguments::Arguments;
use super::super::{Draws, Generator, References};
use super::options::Options;
use super::session::{Benchmark, Sessions};
use crate::error::TraceError;

/// A benchmark with its arguments; each stream has a database of its own.
struct Benched<B> {
    /// How large the database is, in what the benchmark counts.
    size: u64,
    options: Options,
    pages: u64,
    benchmark: PhantomData<fn() -> B>,
}

/// The generator of a benchmark whose parameter `size` says how large its database is.
pub(in super::super) fn generator<B: Benchmark + 'static>(
    size: &str,
    arguments: &Arguments,
) -> Result<Box<dyn Generator>, TraceError> {
    let size = arguments.integer(size)?;
    let options = Options::of(arguments)?;
    Ok(Box::new(Benched::<B> {
        size,
        options,
        pages: B::loaded(size, &options).pages(),
        benchmark: PhantomData,
    }))
}

impl<B: Benchmark + 'static> Draws for Benched<B> {
    fn references(&self) -> u64 {
        self.options.references
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    fn page_size(&self) -> Option<u64> {
        Some(self.options.page_size)
    }

    fn start(&self, _spec: &str) -> Result<Box<dyn References>, TraceError> {
        let benchmark = B::loaded(self.size, &self.options);
        Ok(Box::new(Sessions::new(benchmark, &self.options)))
    }
}
