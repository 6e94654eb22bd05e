//! The errors that end a simulation early.

use ebbpool_cost::ByteSize;
use ebbpool_device::flash::ConfigError;
use ebbpool_trace::TraceError;

/// Why a simulation ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The simulated device cannot be made.
    #[error(transparent)]
    Flash(#[from] ConfigError),
    /// An event or series file could not be written.
    #[error("cannot write {what}: {source}")]
    Output {
        /// Which output.
        what: &'static str,
        /// The error.
        source: std::io::Error,
    },
    /// The trace has no references.
    #[error("{trace}: the trace is empty; a simulation needs at least one reference")]
    Empty {
        /// The trace.
        trace: String,
    },
    /// The warm-up takes the whole trace.
    #[error("{trace}: a warm-up of {warmup} references leaves nothing to count of {references}; give a smaller one")]
    AllWarmup {
        /// The trace.
        trace: String,
        /// The number of its references.
        references: u64,
        /// The references of the warm-up.
        warmup: u64,
    },
    /// A memory size in bytes, and a trace that states no page size.
    #[error("{trace}: the trace states no page size, so the frames in {size} of memory are unknown")]
    NoPageSize {
        /// The trace.
        trace: String,
        /// The memory size.
        size: ByteSize,
    },
    /// A policy that knows the probabilities of references, and a trace without them.
    #[error(
        "{trace}: policy {policy} needs the probabilities of references, which only a generator of independent references knows: one of {generators}"
    )]
    NoProbabilities {
        /// The trace.
        trace: String,
        /// The policy.
        policy: String,
        /// The generators that know them.
        generators: String,
    },
    /// Checkpoints at an interval of time, and a trace without times.
    #[error(
        "{trace}: the trace has no times, or a single one, so that checkpoints at an interval of time have no place in it; give the interval in references"
    )]
    NoTimes {
        /// The trace.
        trace: String,
    },
    /// Clean pools are estimated without checkpoints.
    #[error("the sizes of a clean pool are estimated without checkpoints; leave one of the two out")]
    CleanPoolsWithCheckpoints,
    /// Clean pools are estimated without trims and writes of whole pages.
    #[error(
        "the sizes of a clean pool are estimated for traces without trims and writes of whole pages; run fd-static with some of these sizes instead"
    )]
    CleanPoolsWithOperations,
    /// More distinct pages, or references for an offline policy, than can be numbered.
    #[error("{trace}: more than {limit} {what}; simulate a part of the trace")]
    TooLarge {
        /// The trace.
        trace: String,
        /// The unit of which there are too many.
        what: &'static str,
        /// The largest number supported.
        limit: u64,
    },
    /// A policy from outside the registry failed.
    #[error("policy {policy}: {source}")]
    Guest {
        /// The policy.
        policy: String,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}
