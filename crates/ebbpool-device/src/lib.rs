//! What I/O costs.
//!
//! The papers' plain model is [`Asymmetry`]: a page read costs 1, a page write R, and nothing else
//! counts. Devices by name are in [`profiles`]; [`Device`] is what a simulator drives.

pub mod arrivals;
pub mod changing;
mod costs;
mod device;
pub mod energy;
pub mod measured;
pub mod profiles;
mod text;

pub mod flash;
mod flash_device;

use std::fmt;
use std::str::FromStr;

pub use costs::{Bill, OperationCosts, Unit};
pub use device::{AnyDevice, ChangingDevice, Device, DeviceFailed, DeviceReport, PlainDevice};
pub use flash_device::FlashDevice;
pub use profiles::{AsymmetryKind, DeviceProfile, ProfileError};

/// The papers' plain model (FD-Buffer, section 3): R page reads cost as much as one page write.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Asymmetry(f64);

/// Not a finite number of at least 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnAsymmetry(String);

impl fmt::Display for NotAnAsymmetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not an asymmetry; give the cost of a page write in page reads, a number from 0 up, such as 32",
            self.0
        )
    }
}

impl std::error::Error for NotAnAsymmetry {}

impl Asymmetry {
    /// R, the cost of a page write in units of one page read.
    pub fn ratio(self) -> f64 {
        self.0
    }

    /// The bill of `reads` page reads and `writes` page writes, in units of one page read.
    pub fn bill(self, reads: u64, writes: u64) -> f64 {
        reads as f64 + writes as f64 * self.0
    }
}

impl FromStr for Asymmetry {
    type Err = NotAnAsymmetry;

    fn from_str(text: &str) -> Result<Self, NotAnAsymmetry> {
        match text.trim().parse::<f64>() {
            Ok(ratio) if ratio.is_finite() && ratio >= 0.0 => Ok(Asymmetry(ratio.abs())),
            _ => Err(NotAnAsymmetry(text.into())),
        }
    }
}

impl fmt::Display for Asymmetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_weighs_writes() {
        let asymmetry: Asymmetry = "32".parse().expect("a number");
        assert_eq!(asymmetry.bill(8, 1), 40.0);
        assert_eq!(asymmetry.to_string(), "32");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["-1", "NaN", "inf", "", "x"] {
            assert!(text.parse::<Asymmetry>().is_err(), "{text}");
        }
    }
}
