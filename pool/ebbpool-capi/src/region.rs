//! Policies in memory of the program: a region that several processes share.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::ptr;

use crate::bare_policy::{BarePolicy, check_request};
use crate::error::{Failure, StatusCode, guarded};
use crate::memory::{Growth, check_memory};
use crate::placement::{self, Region};
use crate::pointers::{text, write};
use crate::policy::PolicyHandle;

/// Stores the number of bytes that `ebbpool_policy_new_in` takes of a region for this policy: exactly as many as it will use,
/// wherever the region begins. It makes the policy and releases it again, so that the process needs as much memory for a
/// moment.
///
/// Errors: as `ebbpool_policy_new_in`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_bytes(spec: *const c_char, frames: u32, bytes: *mut usize) -> StatusCode {
    guarded(|| {
        // SAFETY: the pointers are what the header requires.
        let spec = unsafe {
            write(bytes, "bytes", 0)?;
            text(spec, "spec")?
        };
        let (policy, needed) = make(spec, frames, Region::NONE)?;
        // SAFETY: `make` has just made it, outside of any region; the pointers are what the header requires.
        unsafe {
            placement::release(policy, Region::NONE);
            write(bytes, "bytes", needed)
        }
    })
}

/// Makes a policy as `ebbpool_policy_new` does, which lies in `size` bytes at `region`, with everything that it will ever need.
/// No later call for it allocates memory, in the region or elsewhere. A process that maps the region as shared memory, makes
/// the policy and forks may call all functions for the policy in all these processes, one at a time, under a lock of theirs.
/// Other processes, and programs that these execute, must not. The content of the region does not matter before,
/// is lost also after an error, and is the policy's until the program unmaps it or uses it for something else:
/// `ebbpool_policy_destroy` has no effect for this policy, in any process. In a library that `dlopen` loaded, a thread's first
/// call of any function may make the loader allocate the library's variables of that thread.
///
/// If a process ends during a call, each later call returns `EBBPOOL_BUSY`: make a new policy.
///
/// Errors: as `ebbpool_policy_new`; `EBBPOOL_INVALID` also if the region has fewer bytes than `ebbpool_policy_bytes` says, if
/// the policy may allocate memory later, or if the library is part of a Rust program with another allocator; the text says
/// which.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_new_in(
    spec: *const c_char,
    frames: u32,
    region: *mut c_void,
    size: usize,
    policy: *mut *mut PolicyHandle,
) -> StatusCode {
    guarded(|| {
        let what = "the pointer to the policy";
        // SAFETY: the pointers are what the header requires.
        let spec = unsafe {
            write(policy, what, ptr::null_mut())?;
            text(spec, "spec")?
        };
        let region = Region::new(region.cast(), size)?;
        let (made, needed) = make(spec, frames, region)?;
        if needed > size {
            // SAFETY: `make` has just made it. What of it lies in the region stays there.
            unsafe { placement::release(made, region) };
            return Err(Failure::invalid(format!(
                "the region has {size} bytes, and {spec} takes {needed} for {frames} frames"
            )));
        }
        // SAFETY: the pointers are what the header requires.
        unsafe { write(policy, what, made) }
    })
}

/// Makes a policy, which lies in the region as far as that reaches, and finds how many bytes of a region it takes.
fn make(spec: &str, frames: u32, region: Region) -> Result<(*mut PolicyHandle, usize), Failure> {
    // Outside of the region, since it may build texts of errors.
    let spec = check_request(spec, frames)?;
    check_memory(&spec, frames, Growth::AtOnce, region)?;
    let ((policy, is_bounded, allowed), filled) = placement::fill(region, || {
        let mut made = BarePolicy::new(&spec, frames);
        let is_bounded = made.reserve();
        let allowed = placement::outside(|| made.check_parameters());
        let made = PolicyHandle::new(made, region);
        (Box::into_raw(Box::new(made)), is_bounded, allowed)
    });
    let refusal = match allowed {
        Err(failure) => failure,
        Ok(()) if !is_bounded => {
            Failure::invalid(format!("{spec} may allocate memory when it is used, so it cannot lie in a region"))
        }
        Ok(()) if filled.bytes == 0 || filled.strayed => {
            Failure::invalid("the program has an allocator of its own, so that no policy can lie in a region")
        }
        Ok(()) => return Ok((policy, filled.bytes)),
    };
    // SAFETY: it was made above.
    unsafe { placement::release(policy, region) };
    Err(refusal)
}
