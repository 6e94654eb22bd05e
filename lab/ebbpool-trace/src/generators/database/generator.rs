//! The generator of a benchmark's references.

use std::marker::PhantomData;

use super::super::arguments::Arguments;
use super::super::{Generator, RandomGenerator, References};
use super::options::BenchmarkOptions;
use super::session::{Benchmark, Sessions};
use crate::error::TraceError;
use crate::reference::PageClasses;

/// A benchmark with its arguments; each stream has a database of its own.
struct BenchmarkGenerator<B> {
    /// The size of the database, in the benchmark's unit.
    size: u64,
    options: BenchmarkOptions,
    pages: u64,
    classes: PageClasses,
    benchmark: PhantomData<fn() -> B>,
}

/// The generator of a benchmark; the parameter called `size` is the size of its database.
pub(in super::super) fn generator<B: Benchmark + 'static>(
    size: &str,
    arguments: &Arguments,
) -> Result<Box<dyn Generator>, TraceError> {
    let size = arguments.integer(size)?;
    let options = BenchmarkOptions::from_arguments(arguments)?;
    let loaded = B::loaded(size, &options);
    let allocator = loaded.allocator();
    Ok(Box::new(BenchmarkGenerator::<B> {
        size,
        options,
        pages: allocator.pages(),
        classes: allocator.classes(),
        benchmark: PhantomData,
    }))
}

impl<B: Benchmark + 'static> RandomGenerator for BenchmarkGenerator<B> {
    fn references(&self) -> u64 {
        self.options.references
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    fn page_size(&self) -> Option<u64> {
        Some(self.options.page_size)
    }

    fn classes(&self) -> Option<PageClasses> {
        Some(self.classes.clone())
    }

    fn start(&self, _spec: &str) -> Result<Box<dyn References>, TraceError> {
        let benchmark = B::loaded(self.size, &self.options);
        Ok(Box::new(Sessions::new(benchmark, &self.options)))
    }
}
