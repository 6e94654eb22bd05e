//! Simulates policies over traces and devices, and computes their bills.
//!
//! [`simulate`] runs any number of *cells* (a policy over a number of frames, with one asymmetry)
//! through a single pass of a trace; a [`Sweep`] spans a grid of policies, sizes and asymmetries
//! over as few cells as possible. [`Curves`] estimate the traffic of policies against memory size
//! from samples.

pub mod bound;
mod checkpoints;
mod curve;
mod engine;
mod error;
mod future;
mod guest;
mod listener;
mod observer;
mod on_device;
mod probabilities;
mod sampled;
mod store;
mod stream;
mod sweep;
mod time_line;

pub use checkpoints::CheckpointIntervals;
pub use curve::{
    CleanPool, CurveOptions, Curves, Errors, Estimate, FEWEST_FRAMES, LruCurve, PageSample, SmallestMemory, Traffic,
};
pub use engine::{AtEnd, Counts};
pub use error::SimError;
pub use guest::{GuestEngine, GuestHost, GuestPolicy, SimPolicy, check_guest, guest_policy};
pub use observer::{EventLog, EventWriter, MissLog, NoObserver, Observer, Sample, Series};
pub use on_device::{DeviceAtStart, DeviceObserver, DeviceOutcome};
pub use probabilities::check_policies;
pub use sampled::SampledReferences;
pub use store::{NoStore, ResultStore};
pub use stream::{
    PassControl, SimCell, SimOptions, SimOutcome, TraceFacts, TraceScan, scan, simulate, simulate_on_device, simulate_one,
    simulate_with_time_lines,
};
pub use sweep::{BufferSize, ResolvedSweep, Sweep, SweepResult, SweepRow, Warmup, WarmupError};
pub use time_line::{MOST_POINTS, Moment, TimeLine};

/// The version of this crate, which is part of the keys of stored results.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
