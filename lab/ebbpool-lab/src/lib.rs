//! Answers questions about a reference string, with the answers as values.
//!
//! A [`Lab`] compares policies ([`Lab::compare`]), computes reads, writes and bill against memory size
//! ([`Lab::curve`]), advises an operator ([`Lab::advise`]), computes a lower bound of the bill
//! ([`Lab::bound`]) and runs one policy, in the simulator ([`Lab::run`]) or in the pool
//! ([`Lab::replay`], by the feature `replay`). A request is a value whose parts are
//! validated on construction. An answer is a value and `Send`; it has rows for programs ([`schema`]),
//! sentences for people ([`advice`], [`lifetime`]), and a [`report`] on one page. The lab prints nothing
//! and has no global state: progress, notes and stopping go through [`LabEvents`].
//!
//! ```
//! use ebbpool_lab::{CompareRequest, Lab, PolicySelection, PricingRequest, Settings, Silent, Source};
//!
//! let lab = Lab::new(Settings::default(), &Silent);
//! let source = Source::parse("zipf:pages=1000,refs=20000", None)?;
//! let request = CompareRequest::new(
//!     PolicySelection::lists(["lru,ebb"]),
//!     vec!["5%".parse()?],
//!     vec![PricingRequest::default()],
//! );
//! for result in lab.compare(&source, &request)?.finished() {
//!     println!("{} {:.3}", result.policy, result.cost);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod advice;
pub mod advise;
pub mod best;
mod bound;
mod checkpoints;
mod compare;
pub mod curve;
mod device_life;
pub mod diff;
pub mod dirty_end;
mod error;
mod events;
pub mod guest;
mod knee;
mod lab;
pub mod lifetime;
mod memory_size;
pub mod money;
pub mod numbers;
mod policy_selection;
mod pricing;
#[cfg(all(feature = "replay", unix))]
pub mod replay;
pub mod report;
mod result_store;
mod run;
mod run_result;
pub mod schema;
pub mod several;
pub mod statistics;
mod trace_info;
pub mod trace_set;

pub use advise::{Advice, AdviseRequest};
pub use bound::{BoundRequest, BoundResult};
pub use checkpoints::{CheckpointSchedule, CheckpointScheduleError};
pub use compare::{CompareRequest, ComparedCell, Comparison, PriceBlock};
pub use curve::{CurveRequest, CurveRow, CurveStudy, Target};
pub use error::{AdviseError, ErrorKind, LabError, RequestError};
pub use events::{LabEvents, Note, Silent};
pub use lab::{Lab, Settings};
pub use memory_size::{MemorySize, MemorySizeError};
pub use policy_selection::{BASELINE, PolicySelection, RECOMMENDED};
pub use pricing::{BillUnit, DeviceFeatures, Pricing, PricingRequest};
pub use result_store::{ResultDirectory, ResultStorage, SharedStore, TraceResults, build_identity};
pub use run::{CLUSTER_SIZE, CountingRules, RunOutcome, RunRecording, RunRequest};
pub use run_result::{DetailedResult, FlashFigures, RunResult};

use schema::ResultSchema;
use schema::ResultShape::{One, OneOrRows, Rows};

// What requests and answers have of other crates.
pub use ebbpool_cost::{Asymmetry, AsymmetryError, ByteSize, BytesPerDay};
pub use ebbpool_device::arrivals::Rate;
pub use ebbpool_device::changing::{AsymmetrySpec, ChangesError};
pub use ebbpool_device::energy::Energy;
pub use ebbpool_device::flash::{ConfigError, FlashReport};
pub use ebbpool_device::profiles::Endurance;
pub use ebbpool_device::{DeviceFailed, ProfileError};
pub use ebbpool_policy::{PolicySpec, SpecError};
pub use ebbpool_sim::{
    AtEnd, BufferSize, Counts, DeviceAtStart, DeviceOutcome, Estimate, LruCurve, Observer, Sample, SimError, SimPolicy,
    SmallestMemory, SweepRow, TraceFacts, Traffic, Warmup, WarmupError,
};
pub use ebbpool_trace::output::OutputFile;
pub use ebbpool_trace::stats::TraceStatistics;
pub use ebbpool_trace::{Batch, Metadata, ReadOptions, Reader, Source, TraceError};

/// The schemas of the commands whose results this crate has.
pub fn result_schemas() -> Vec<ResultSchema> {
    vec![
        ResultSchema::for_type::<DetailedResult<'_>>("compare", 1, Rows),
        ResultSchema::for_type::<DetailedResult<'_>>("run", 1, One),
        ResultSchema::for_type::<CurveRow>("curve", 1, Rows),
        ResultSchema::for_type::<BoundResult>("bound", 1, OneOrRows),
        #[cfg(all(feature = "replay", unix))]
        ResultSchema::for_type::<replay::ReplayResult>("replay", 1, OneOrRows),
        ResultSchema::for_type::<diff::ResultDiff>("diff", 1, One),
    ]
}

/// Compiles the example in the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
