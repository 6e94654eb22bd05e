//! The lab: a trace, a policy, a device, and the bill.
//!
//! [`simulate`] runs any number of *cells* (a policy over a number of frames, told one asymmetry)
//! through a single pass of a trace; a [`Sweep`] spans a grid of policies, sizes and asymmetries
//! over as few cells as will do. [`Curves`] tell what policies do against memory size, from
//! samples.

pub mod bound;
mod curve;
mod engine;
mod error;
mod future;
mod ids;
mod listener;
mod observer;
mod on_device;
mod store;
mod stream;
mod sweep;
mod time_line;

pub use curve::{
    CleanPool, CurveOptions, Curves, Errors, Estimate, FEWEST_FRAMES, LruCurve, PageSample,
    Smallest, Traffic,
};
pub use engine::{AtEnd, Counts};
pub use error::SimError;
pub use observer::{Events, NoObserver, Observer, Recorder, Sample, Series};
pub use on_device::{DeviceAtStart, DeviceOutcome, OnDevice};
pub use store::{NoStore, Store};
pub use stream::{
    Cell, Options, Outcome, Progress, Scan, TraceFacts, scan, simulate, simulate_on_device,
    simulate_one, simulate_with_time_lines,
};
pub use sweep::{Resolved, Row, Size, Sweep, Swept, Warmup};
pub use time_line::{MOST_POINTS, Moment, TimeLine};
