//! A replay that a caller asks for.

use std::path::PathBuf;

use ebbpool::storage::Engine;
use ebbpool_cost::Asymmetry;
use ebbpool_sim::{AtEnd, Warmup};

use crate::memory_size::MemorySize;
use crate::policy_selection::PolicySelection;
use crate::run::CLUSTER_SIZE;

/// Where the pages are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReplayStorage {
    /// In memory.
    #[default]
    Memory,
    /// In a file, or on a block device.
    File(ReplayFile),
}

/// A file that holds the pages: one that an earlier replay made, or a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayFile {
    /// The file or block device.
    pub path: PathBuf,
    /// Make the file if it is not there, or if an earlier replay made it for a smaller trace or pages of another
    /// size.
    pub create: bool,
    /// Make the file anew, whatever is in it.
    pub overwrite: bool,
    /// How I/O is given to the system.
    pub engine: Engine,
    /// Past the kernel's page cache.
    pub direct: bool,
}

impl ReplayFile {
    /// A file that an earlier replay made, with direct I/O.
    pub fn existing(path: impl Into<PathBuf>) -> Self {
        ReplayFile {
            path: path.into(),
            create: false,
            overwrite: false,
            engine: Engine::Auto,
            direct: true,
        }
    }
}

/// A trace through the pool.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    /// The policies, one after the other in pools of their own.
    pub policies: PolicySelection,
    /// Memory.
    pub size: MemorySize,
    /// Where the pages are kept.
    pub storage: ReplayStorage,
    /// Bytes of a page; those of the trace, or 4,096, where none are stated.
    pub page_size: Option<u64>,
    /// R, as policies are given it and the bill is counted; as measured where none is stated.
    pub asymmetry: Option<Asymmetry>,
    /// Threads that fix pages; with more than one the counts vary from run to run.
    pub threads: u16,
    /// Whether the pool's own thread writes dirty pages before they have to make room.
    pub background: bool,
    /// Pages to read ahead of sequential references at most.
    pub read_ahead: u32,
    /// References at the start that count nothing.
    pub warmup: Warmup,
    /// Whether pages that are dirty at the end are written and counted.
    pub at_end: AtEnd,
    /// Pages per cluster when cluster switches are counted.
    pub cluster_size: u64,
    /// Whether a sample of the pages is read at the end, to see that it holds what was written.
    pub verify: bool,
}

impl ReplayRequest {
    /// A replay by one thread, in memory.
    pub fn new(policies: PolicySelection, size: MemorySize) -> Self {
        ReplayRequest {
            policies,
            size,
            storage: ReplayStorage::Memory,
            page_size: None,
            asymmetry: None,
            threads: 1,
            background: false,
            read_ahead: 0,
            warmup: Warmup::References(0),
            at_end: AtEnd::Free,
            cluster_size: CLUSTER_SIZE,
            verify: true,
        }
    }
}
