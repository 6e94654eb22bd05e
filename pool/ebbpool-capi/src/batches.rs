//! Several frames in one call for a policy.

#![allow(unsafe_code)]

use std::ffi::c_void;

use ebbpool_policy::Access;

use crate::bare_policy::BarePolicy;
use crate::error::{Failure, StatusCode};
use crate::pointers::{list, list_mut, write};
use crate::policy::{MayEvict, PolicyHandle, access_of, may_evict_frame, with_policy};

/// The pages in `count` frames were referenced in this order, as by `ebbpool_policy_hit` for each. `accesses` has an
/// `EBBPOOL_READ` or `EBBPOOL_WRITE` for each frame, or is null if all are reads. A frame may be there several times.
///
/// Errors: as `ebbpool_policy_hit`; then the policy has learned of none of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_hits(
    policy: *mut PolicyHandle,
    frames: *const u32,
    accesses: *const u32,
    count: usize,
) -> StatusCode {
    let body = |policy: &mut BarePolicy| {
        // SAFETY: the pointers are what the header requires.
        let (frames, accesses) = unsafe {
            let accesses = match accesses.is_null() {
                true => None,
                false => Some(list(accesses, count, "accesses")?),
            };
            (list(frames, count, "frames")?, accesses)
        };
        policy.hits(frames, |at| match accesses {
            Some(accesses) => access_of(accesses[at]),
            None => Ok(Access::Read),
        })
    };
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, body) }
}

/// Chooses the next `count` frames to evict at once, each as `ebbpool_policy_victim` does if those before it are fixed, and
/// stores them into `frames` and their number into `named`: fewer if no more frames may be evicted. Each remains the policy's
/// until `ebbpool_policy_evicted` or `ebbpool_policy_dropped` is called, and a later call may name it again: `may_evict`
/// returns 0 for those that wait. Without a miss, too, the search is that for an eviction, and uses up second chances. What a
/// policy would write or evict with the victims is left out. Most policies pass over the same fixed frames for each of the
/// `count`: where nearly all are fixed, ask for few.
///
/// Errors: `EBBPOOL_ALL_FIXED` if it names none of at least one; `EBBPOOL_INVALID` if no frame has a page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_victims(
    policy: *mut PolicyHandle,
    may_evict: Option<unsafe extern "C" fn(context: *mut c_void, frame: u32) -> i32>,
    context: *mut c_void,
    count: usize,
    frames: *mut u32,
    named: *mut usize,
) -> StatusCode {
    // SAFETY: the pointers are what the header requires.
    unsafe { name_frames(policy, may_evict, context, (count, frames, named), BarePolicy::victims) }
}

/// Of the next `count` victims, as the policy foresees them now, it stores those with dirty pages into `frames`, the first one
/// first, and their number into `named`: for a cleaner that writes in advance. It changes nothing: the frames stay candidates,
/// and the policy later evicts what it would have evicted without the call. `may_evict` is as for `ebbpool_policy_victim`.
///
/// Errors: `EBBPOOL_INVALID` for a policy without `EBBPOOL_POLICY_RANKS_DIRTY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_dirty_ranking(
    policy: *mut PolicyHandle,
    may_evict: Option<unsafe extern "C" fn(context: *mut c_void, frame: u32) -> i32>,
    context: *mut c_void,
    count: usize,
    frames: *mut u32,
    named: *mut usize,
) -> StatusCode {
    let ranking =
        |policy: &mut BarePolicy, may_evict: &dyn Fn(u32) -> bool, frames: &mut [u32]| policy.dirty_ranking(may_evict, frames);
    // SAFETY: the pointers are what the header requires.
    unsafe { name_frames(policy, may_evict, context, (count, frames, named), ranking) }
}

/// Runs a function that stores frames into a list of the program, and their number into `named`: the number is that of
/// frames of the list, the list, and `named`.
///
/// # Safety
///
/// The pointers are what the header requires.
unsafe fn name_frames(
    policy: *mut PolicyHandle,
    may_evict: MayEvict,
    context: *mut c_void,
    (count, frames, named): (usize, *mut u32, *mut usize),
    find: impl FnOnce(&mut BarePolicy, &dyn Fn(u32) -> bool, &mut [u32]) -> Result<usize, Failure>,
) -> StatusCode {
    let body = |policy: &mut BarePolicy| {
        // SAFETY: the caller vouches for it. There are no more frames to name than the policy has.
        let frames = unsafe {
            write(named, "named", 0)?;
            list_mut(frames, count.min(policy.frames()), "frames")?
        };
        // SAFETY: as above.
        let allowed = |frame: u32| unsafe { may_evict_frame(may_evict, context, frame) };
        let found = find(policy, &allowed, frames)?;
        // SAFETY: as above.
        unsafe { write(named, "named", found) }
    };
    // SAFETY: as above.
    unsafe { with_policy(policy, body) }
}
