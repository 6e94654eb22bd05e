//! Pages of a trace on the pages of a device.

use ebbpool_cost::{Asymmetry, OperationCosts};

use super::{DeviceProfile, WriteCache, operation_costs};
use crate::device::PlainDevice;
use crate::text::bytes;

/// A profile that serves the pages of a trace, whose size need not be that of the device's pages: the
/// device reads and writes whole pages of its own, so each page of the trace takes one or several.
///
/// The several pages of a page of the trace lie side by side, and the host reads or writes them with one
/// request: at queue depth 1 each page after the first takes the profile's transfer time, where that is
/// known.
#[derive(Clone, Copy, Debug)]
pub struct PagedProfile<'a> {
    profile: &'a DeviceProfile,
    page_bytes: Option<u64>,
    /// Pages of the device in a page of the trace, at least 1.
    device_pages: u64,
}

impl<'a> PagedProfile<'a> {
    pub(super) fn new(profile: &'a DeviceProfile, page_bytes: Option<u64>) -> Self {
        let device_pages = match (page_bytes, profile.page_size) {
            (Some(trace), Some(device)) => trace.div_ceil(device.max(1)).max(1),
            // An object has any size; a page of unknown size is taken for one of the device.
            (None, _) | (_, None) => 1,
        };
        PagedProfile { profile, page_bytes, device_pages }
    }

    /// The profile.
    pub fn profile(&self) -> &'a DeviceProfile {
        self.profile
    }

    /// The number of the device's pages that each read and write of a page of the trace is charged for.
    pub fn device_pages(&self) -> u64 {
        self.device_pages
    }

    /// The bytes that the device takes for each page written, whole pages of the device: what wears it.
    /// `None` where neither page size is known.
    pub fn written_bytes(&self) -> Option<u64> {
        match self.profile.page_size {
            Some(device) => device.checked_mul(self.device_pages),
            None => self.page_bytes,
        }
    }

    /// The costs of reading and of writing a page of the trace.
    pub fn operation_costs(&self) -> OperationCosts {
        let DeviceProfile { figures, asymmetry, .. } = self.profile;
        // A profile has costs of its kind of asymmetry, so the alternative is never taken.
        operation_costs(figures, *asymmetry, self.device_pages).unwrap_or(self.profile.operation_costs())
    }

    /// The R that a policy sees.
    pub fn policy_asymmetry(&self) -> Asymmetry {
        Asymmetry::saturating(self.operation_costs().ratio())
    }

    /// The SLC cache, in pages of the trace: a write takes the room of all its pages of the device, and
    /// one that finds less room goes past the cache.
    pub fn write_cache(&self) -> Option<WriteCache> {
        self.profile.write_cache_of(self.device_pages)
    }

    /// Pages of the trace in an erase block, where the block's size is known, at least 1; the value of
    /// `cluster=auto` of a policy.
    pub fn erase_block_pages(&self) -> Option<u64> {
        let of_device = self.profile.erase_block_pages();
        let Some(page_bytes) = self.page_bytes.filter(|bytes| *bytes > 0) else {
            return of_device;
        };
        let block = self.profile.erase_block_bytes()?;
        // A block smaller than a page of the device is no block to gather pages for.
        if self.profile.page_size.is_some() {
            of_device?;
        }
        Some((block / page_bytes).max(1))
    }

    /// A new device for a simulator to drive: no operation done, its SLC cache empty.
    pub fn device(&self) -> PlainDevice {
        PlainDevice::from_profile(self)
    }

    /// How pages of the trace are charged, as a sentence without a full stop; `None` where a page of the
    /// trace is a page of the device, or an object.
    pub fn charging_note(&self) -> Option<String> {
        let device = self.profile.page_size?;
        let name = &self.profile.name;
        let device_page = bytes(device);
        let Some(trace) = self.page_bytes else {
            return Some(format!(
                "the trace states no page size: each read and write is charged for one page of {name}, {device_page}; state the page size if it is another"
            ));
        };
        let pages = self.device_pages;
        let trace_page = bytes(trace);
        match trace {
            trace if trace == device => None,
            trace if trace < device => Some(format!(
                "a page of this trace has {trace_page}, a page of {name} {device_page}: each read and write is charged for a whole page of the device"
            )),
            _ => Some(format!(
                "a page of this trace has {trace_page}, {} {pages} pages of {name}: each read and write is charged for {}",
                match trace.is_multiple_of(device) {
                    true => "which is",
                    false => "which takes",
                },
                match pages {
                    2 => "both".to_string(),
                    _ => format!("all {pages}"),
                }
            )),
        }
    }
}

#[cfg(test)]
mod tests;
