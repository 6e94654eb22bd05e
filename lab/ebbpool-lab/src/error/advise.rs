//! Errors of a request for advice.

use ebbpool_cost::ByteSize;
use ebbpool_device::changing::AsymmetrySpec;

use crate::numbers::grouped;

/// Why a request for advice is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AdviseError {
    /// The budget is in bytes, and the size of a page is not known.
    #[error("a memory budget of {0} needs the size of a page, which the trace does not state")]
    BudgetWithoutPageSize(ByteSize),
    /// The budget has no room for a page.
    #[error("a memory budget of {budget} has no room for a page of {page_size} bytes")]
    BudgetBelowPage {
        /// The budget.
        budget: ByteSize,
        /// Bytes of a page.
        page_size: u64,
    },
    /// The price of memory is no amount.
    #[error("{0} is no price of a GiB of memory for a month, in $")]
    NotMemoryPrice(f64),
    /// The asymmetry changes.
    #[error("advice needs a constant R, and that of {0} changes; give a number, such as 32")]
    Changes(AsymmetrySpec),
    /// No server can run the policy.
    #[error("a server cannot run policy {0}, which needs the future; give the policy that it has")]
    NotOnline(String),
    /// The references arrived in no time.
    #[error("the references cannot arrive in no time; give a duration above 0, such as 10min")]
    NoDuration,
    /// Daily writes that are not a number above 0.
    #[error("{0} is not a number of page writes a day; give one above 0")]
    NotDailyWrites(f64),
    /// Daily writes are in bytes, and the size of a page is not known.
    #[error("bytes written per day need the size of a page, which the trace does not state")]
    DailyBytesWithoutPageSize,
    /// The device failed in the runs that the advice needs.
    #[error("there is no advice on a device that fails: {0}; give one with more blocks")]
    DeviceFailed(String),
    /// A file of facts without the bytes that were written.
    #[error("there is no object 'written' with the bytes of a capture: {0}")]
    NoMeasuredWrites(String),
    /// A file of facts of a capture of another trace.
    #[error(
        "the capture of these facts has {} references, and the trace has {}, so that the measured bytes are those of another trace",
        grouped(*captured), grouped(*trace)
    )]
    FactsOfAnotherTrace {
        /// References of the captured trace.
        captured: u64,
        /// References of the trace.
        trace: u64,
    },
    /// A life without a length.
    #[error("a device cannot live for no time; give a duration above 0, such as 5y")]
    NoLife,
}
