//! The lab: questions about a reference string, and their answers as values.
//!
//! A [`Lab`] compares policies ([`Lab::compare`]), computes what they do against memory size
//! ([`Lab::curve`]), bounds the least possible bill ([`Lab::bound`]) and runs one policy
//! ([`Lab::run`]), in the simulator or in the pool ([`Lab::replay`]). A request is a value whose parts are validated when they are made; an answer is a
//! value, `Send`, with rows for programs ([`schema`]) and sentences for people ([`advice`],
//! [`lifetime`]), and a [`report`] on one page. The lab prints nothing and keeps no state of the process:
//! progress, notes and stopping go through [`Events`].
//!
//! ```
//! use ebbpool_lab::{CompareRequest, Lab, PolicySelection, PricingRequest, Settings, Silent};
//! use ebbpool_trace::Source;
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
mod bound;
mod compare;
pub mod curve;
mod error;
mod events;
mod lab;
pub mod lifetime;
mod memory_size;
pub mod numbers;
mod policy_selection;
mod pricing;
#[cfg(unix)]
pub mod replay;
pub mod report;
mod result_store;
mod run;
mod run_result;
pub mod schema;
mod trace_info;

pub use bound::{BoundRequest, BoundResult};
pub use compare::{Block, CompareRequest, Comparison, constant_asymmetries};
pub use curve::{CurveRequest, CurveRow, CurveStudy, Target};
pub use error::{ErrorKind, LabError, RequestError};
pub use events::{Events, Note, Silent};
pub use lab::{Lab, Settings};
pub use memory_size::{MemorySize, NotAMemorySize, NotAWarmup, parse_warmup};
pub use policy_selection::{BASELINE, PolicySelection, RECOMMENDED};
pub use pricing::{BillUnit, Capabilities, Pricing, PricingRequest};
pub use result_store::{ResultDirectory, TraceResults};
pub use run::{CLUSTER_SIZE, Counting, Recording, RunOutcome, RunRequest};
pub use run_result::{DetailedResult, FlashFigures, RunResult, TraceSummary};

/// Compiles the example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
