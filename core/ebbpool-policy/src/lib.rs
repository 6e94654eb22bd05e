//! Page replacement policies that know what a write costs.
//!
//! A [`Policy`] keeps order among *frames* and answers one question: which page to evict? It does
//! no I/O, reads no clock and hashes no resident page, so the simulator and the pool run the same
//! code. Each policy is one file under `policies/` and one line in [`registry`]; `ARCHITECTURE.md`
//! says where to add one.

mod blocks;
mod capabilities;
mod clean_pools;
mod clustered;
mod clusters;
mod distances;
mod driver;
mod ghost_pages;
mod ghost_queues;
mod ghosts;
mod heap;
mod lists;
mod miniature;
mod parameters;
mod policies;
mod policy;
pub mod registry;
mod sample;
mod slots;
mod spec;

pub use capabilities::Capabilities;
pub use clean_pools::{CleanPools, PoolEstimator, PoolTraffic};
pub use clustered::Clustered;
pub use clusters::{KEYS, PriorityUpdate, priority as cluster_priority};
pub use driver::{Driver, MissScratch, miss};
pub use ghost_pages::GhostPages;
pub use lists::FrameLists;
pub use policy::{
    Access, BackgroundWrite, BackgroundWriter, Costs, Dispatched, DynPolicy, Foresight, Frame, Gauges, Ghost, MOST_GHOSTS,
    NextUse, Page, PageClass, PageProbabilities, PageProbability, Policy, RecordedRequest, UNKNOWN_CLASS,
};
pub use spec::{
    BLOCK, CLUSTER, MAX_PAGES, MemoryUse, ParameterKind, PolicyEntry, PolicyParameter, PolicySpec, SpecError, Value, WINDOW,
    split_list,
};

/// The version of this crate, which is part of the keys of stored results. The number after the plus sign rises when a
/// policy's name stands for another policy than before, as after a change of a parameter's default.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+5");

/// Compiles the example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
