//! What page reads and writes cost, how probable they are, and how policies, generators, devices and quantities are
//! spelled.
//!
//! Every other crate of Ebbpool counts costs in these types, passes them to a policy by the one conversion
//! into [`Costs`], and reads specifications such as `cfdc:window=0.5,cluster=64` by one
//! [grammar](spec); which parameters a policy, a generator or a device has is in their crates.

mod asymmetry;
mod costs;
mod decimal;
pub mod measured;
mod nearest;
mod one_line;
mod page_probabilities;
mod policy_costs;
/// Sizes in bytes, times and rates in the form that users write: `128MiB`, `10min`, `10GB/day`.
mod quantities {
    mod byte_size;
    mod bytes_per_day;
    mod number;
    mod time;

    pub use byte_size::{ByteSize, ByteSizeError};
    pub use bytes_per_day::{BytesPerDay, BytesPerDayError};
    pub use time::{DurationError, parse_duration, split_period};
}
pub mod spec;

pub use asymmetry::{Asymmetry, AsymmetryError, PAPERS_BASE};
pub use costs::{Bill, OperationCosts, Unit};
pub use decimal::{Decimal, DecimalError};
pub use nearest::{did_you_mean, nearest};
pub use one_line::{escaped, is_invisible, one_line};
pub use page_probabilities::{PageProbabilities, PageProbability};
pub use policy_costs::Costs;
pub use quantities::{ByteSize, ByteSizeError, BytesPerDay, BytesPerDayError, DurationError, parse_duration, split_period};

/// A bijection of 64 bits in which each bit of the result depends on all of the number's, the same on every machine: the
/// finaliser of SplitMix64 (Steele et al. 2014). 0 stays 0.
#[inline]
pub const fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The version of this crate, which is part of the keys of stored results.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Compiles the example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
