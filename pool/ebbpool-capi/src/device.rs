//! What a page write costs on a device, from its profile.

#![allow(unsafe_code)]

use std::ffi::c_char;

use ebbpool_device::{DeviceProfile, ProfileError};

use crate::error::{EBBPOOL_INVALID, EBBPOOL_IO, EBBPOOL_NOT_FOUND, Failure, StatusCode, guarded};
use crate::pointers::{text, write};

impl From<ProfileError> for Failure {
    fn from(error: ProfileError) -> Self {
        let status = match &error {
            ProfileError::Unknown { .. } => EBBPOOL_NOT_FOUND,
            ProfileError::Io { .. } => EBBPOOL_IO,
            _ => EBBPOOL_INVALID,
        };
        Failure::new(status, error.to_string())
    }
}

/// Stores what a write of a page of `page_bytes` bytes costs on a device, in reads of such a page: what
/// `ebbpool_policy_costs` takes for a write where a read costs 1. `device` is a name that `ebbpool devices` lists, or the path
/// of a profile, which ends with `.toml` or has a `/`. 0 bytes are a page of the device.
///
/// Errors: `EBBPOOL_NOT_FOUND` if no profile has this name; `EBBPOOL_IO` if the file cannot be read; `EBBPOOL_INVALID` if it is
/// no profile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_device_asymmetry(device: *const c_char, page_bytes: u64, asymmetry: *mut f64) -> StatusCode {
    guarded(|| {
        // SAFETY: the pointers are what the header requires.
        let device = unsafe {
            write(asymmetry, "asymmetry", 0.0)?;
            text(device, "device")?
        };
        refuse_what_may_wait(device)?;
        let profile = DeviceProfile::find(device)?;
        let pages = profile.for_pages((page_bytes > 0).then_some(page_bytes));
        // SAFETY: the pointer is what the header requires.
        unsafe { write(asymmetry, "asymmetry", pages.policy_asymmetry().ratio()) }
    })
}

/// Refuses a path of a pipe or a device, for which a server that reads its configuration would wait.
fn refuse_what_may_wait(path: &str) -> Result<(), Failure> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() => {
            let problem = format!("{path}: is no regular file, and so no device profile");
            Err(Failure::new(EBBPOOL_INVALID, problem))
        }
        _ => Ok(()),
    }
}
