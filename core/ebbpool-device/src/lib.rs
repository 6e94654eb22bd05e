//! The costs of I/O.
//!
//! The papers' plain model is [`Asymmetry`]: a page read costs 1, a page write R, and nothing else
//! counts. Devices by name are in [`profiles`]; [`Device`] is what a simulator drives.

pub mod arrivals;
pub mod changing;
mod device;
pub mod energy;
pub mod profiles;
mod text;

pub mod flash;
mod flash_device;

pub use device::{AnyDevice, ChangingDevice, Device, DeviceFailed, DeviceReport, PlainDevice};
pub use flash_device::FlashDevice;
pub use profiles::{AsymmetryKind, DeviceProfile, ProfileError};

/// The version of this crate, which is part of the keys of stored results.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Compiles the example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
