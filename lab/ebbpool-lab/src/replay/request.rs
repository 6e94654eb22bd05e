//! Requests for a replay.

use std::path::PathBuf;
use std::sync::Arc;

use ebbpool::storage::Engine;
use ebbpool_cost::Asymmetry;
use ebbpool_sim::{AtEnd, GuestPolicy, Warmup};

use crate::memory_size::MemorySize;
use crate::policy_selection::PolicySelection;
use crate::run::CLUSTER_SIZE;

/// The storage of the pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayStorage {
    /// Memory.
    #[default]
    Memory,
    /// A file or a block device.
    File(ReplayFile),
}

/// A file for the pages: one that an earlier replay created, or a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayFile {
    /// The file or block device.
    pub path: PathBuf,
    /// Create the file if it does not exist, or if an earlier replay created it for a smaller trace or another
    /// page size.
    pub create: bool,
    /// Overwrite the file, whatever it contains.
    pub overwrite: bool,
    /// How to pass I/O to the system.
    pub engine: Engine,
    /// Bypass the kernel's page cache.
    pub direct: bool,
}

impl ReplayFile {
    /// A file that an earlier replay created, with direct I/O.
    pub fn existing(path: impl Into<PathBuf>) -> Self {
        ReplayFile { path: path.into(), create: false, overwrite: false, engine: Engine::Auto, direct: true }
    }
}

/// A request to run a trace through the pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayRequest {
    /// The policies, which run one after the other, each in its own pool.
    pub policies: PolicySelection,
    /// Policies from outside the registry, which follow the others. If there are some, `policies` may be empty.
    pub guests: Vec<Arc<dyn GuestPolicy>>,
    /// The memory size.
    pub size: MemorySize,
    /// The storage of the pages.
    pub storage: ReplayStorage,
    /// Bytes of a page; `None` stands for those of the trace, or 4,096 if the trace states none.
    pub page_size: Option<u64>,
    /// R for the policies and for the bill; `None` stands for the measured R.
    pub asymmetry: Option<Asymmetry>,
    /// Threads that fix pages; with more than one the counts vary from run to run.
    pub threads: u16,
    /// Whether the pool's background thread writes dirty pages before their eviction.
    pub background: bool,
    /// The most pages to read ahead of sequential references.
    pub read_ahead: u32,
    /// References at the start that are replayed but not counted.
    pub warmup: Warmup,
    /// Whether the pages that are dirty at the end are written and counted.
    pub at_end: AtEnd,
    /// Pages per cluster when cluster switches are counted.
    pub cluster_size: u64,
    /// Whether the replay verifies a sample of the written pages at the end.
    pub verify: bool,
}

impl ReplayRequest {
    /// A replay by one thread, in memory.
    pub fn new(policies: PolicySelection, size: MemorySize) -> Self {
        ReplayRequest {
            policies,
            guests: Vec::new(),
            size,
            storage: ReplayStorage::Memory,
            page_size: None,
            asymmetry: None,
            threads: 1,
            background: false,
            read_ahead: 0,
            warmup: Warmup::References(0),
            at_end: AtEnd::default(),
            cluster_size: CLUSTER_SIZE,
            verify: true,
        }
    }
}
