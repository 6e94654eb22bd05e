//! Why a simulation did not come to its end.

use ebbpool_device::flash::ConfigError;
use ebbpool_trace::TraceError;

/// Why a simulation did not come to its end.
#[derive(Debug, thiserror::Error)]
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
        /// Why not.
        source: std::io::Error,
    },
    /// The trace has no references.
    #[error("{trace}: the trace is empty; a simulation needs at least one reference")]
    Empty {
        /// The trace.
        trace: String,
    },
    /// The warm-up takes the whole trace.
    #[error(
        "{trace}: a warm-up of {warmup} references leaves nothing to count of {references}; give a smaller one"
    )]
    AllWarmup {
        /// The trace.
        trace: String,
        /// Its references.
        references: u64,
        /// References asked to be warm-up.
        warmup: u64,
    },
    /// More distinct pages, or references for an offline policy, than can be numbered.
    #[error("{trace}: more than {limit} {what}; simulate a part of the trace")]
    TooLarge {
        /// The trace.
        trace: String,
        /// What there is too much of.
        what: &'static str,
        /// The most there may be.
        limit: u64,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}
