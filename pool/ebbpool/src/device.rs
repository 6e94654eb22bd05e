//! The devices whose costs a [`SimulatedStorage`](crate::storage::SimulatedStorage) has. The crate `ebbpool-device` has more
//! of them, and their models.

pub use ebbpool_device::flash::{ConfigError, FlashConfig};
pub use ebbpool_device::{
    AnyDevice, Device, DeviceFailed, DeviceProfile, DeviceReport, FlashDevice, PlainDevice, ProfileError,
};
