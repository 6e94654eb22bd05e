//! Replacement policies for a buffer manager of the program's own.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use ebbpool_policy::{Access, Capabilities, Costs};

use crate::bare_policy::{BarePolicy, check_request};
use crate::error::{CallFault, Failure, StatusCode, guarded};
use crate::memory::{Growth, check_memory};
use crate::options::check_costs;
use crate::pages::{EBBPOOL_READ, EBBPOOL_WRITE};
use crate::placement::{self, Region};
use crate::pointers::{object, text, write, write_text};

/// The policy needs every hit. Without this bit `ebbpool_policy_hit` may be left out for all but a page's first hit and its
/// first write in each epoch of one miss for every 32 frames, and every write to a clean page.
pub const EBBPOOL_POLICY_EVERY_HIT: u32 = 1;
/// The costs of a read and a write change the policy's choices.
pub const EBBPOOL_POLICY_COSTS: u32 = 2;
/// The policy uses classes of pages.
pub const EBBPOOL_POLICY_CLASSES: u32 = 4;
/// `ebbpool_policy_dirty_ranking` works for the policy.
pub const EBBPOOL_POLICY_RANKS_DIRTY: u32 = 8;

/// A policy for the frames of a buffer manager of the program, which has the page table, does the I/O, and notifies the
/// policy. One thread at a time uses it: the program calls it under a lock of its own, and a second thread gets
/// `EBBPOOL_BUSY`.
pub struct PolicyHandle {
    /// One of [`IDLE`], [`BUSY`] and [`FAILED`]. A number that no thread waits for, so that processes may share it.
    state: AtomicU32,
    /// Where the policy lies, if it lies in memory of the program.
    region: Region,
    /// Used only by the thread that has changed the state from idle to busy.
    policy: UnsafeCell<BarePolicy>,
}

/// No call uses the policy.
const IDLE: u32 = 0;
/// A call uses the policy.
const BUSY: u32 = 1;
/// A call has panicked, or a policy in a region has allocated memory that other processes do not have.
const FAILED: u32 = 2;

impl PolicyHandle {
    pub(crate) fn new(policy: BarePolicy, region: Region) -> Self {
        PolicyHandle { state: AtomicU32::new(IDLE), region, policy: UnsafeCell::new(policy) }
    }

    /// Runs a call, unless another one is running.
    fn call(&self, body: impl FnOnce(&mut BarePolicy) -> Result<(), Failure>) -> Result<(), Failure> {
        let claim = |from, to| {
            let order = (Ordering::Acquire, Ordering::Relaxed);
            self.state.compare_exchange(from, to, order.0, order.1)
        };
        match claim(IDLE, BUSY) {
            Ok(_) => {}
            Err(FAILED) => return Err(Failure::unusable()),
            Err(_) => return Err(Failure::busy_policy()),
        }
        // SAFETY: the state is busy, and no other thread uses the policy until this one changes that.
        let policy = unsafe { &mut *self.policy.get() };
        let (result, allocated) = placement::using(self.region, || catch_unwind(AssertUnwindSafe(|| body(policy))));
        let failed = result.is_err() || allocated;
        let state = if failed { FAILED } else { IDLE };
        self.state.store(state, Ordering::Release);
        match result {
            Ok(_) if allocated => Err(Failure::allocated()),
            Ok(result) => result,
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// What is to be evicted. It has the same fields in all versions of the interface. The lists are valid until the next call
/// for the policy.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EvictionPlan {
    /// The frame to evict: write its page if it is dirty, then call `ebbpool_policy_evicted`.
    pub frame: u32,
    /// The number of frames in `together`.
    pub together_count: u32,
    /// The number of frames in `also_evicted`.
    pub also_evicted_count: u32,
    /// Not 0: if any of the pages to evict is dirty, the policy expects that its block of this number of pages is written
    /// whole (BPLRU's page padding). A program may write the dirty pages only.
    pub block_pages: u32,
    /// Dirty pages that are best written together with the victim, and stay: write them before the victim is evicted, and
    /// call `ebbpool_policy_cleaned` for each. A program may ignore them.
    pub together: *const u32,
    /// Frames to evict as the victim, and after it. A program may ignore them.
    pub also_evicted: *const u32,
}

impl EvictionPlan {
    const NONE: EvictionPlan = EvictionPlan {
        frame: u32::MAX,
        together_count: 0,
        also_evicted_count: 0,
        block_pages: 0,
        together: ptr::null(),
        also_evicted: ptr::null(),
    };
}

/// Runs the body of a function of a policy.
///
/// # Safety
///
/// The pointer is null, not aligned, or that of a policy that is not destroyed before the call returns.
pub(crate) unsafe fn with_policy(
    policy: *const PolicyHandle,
    body: impl FnOnce(&mut BarePolicy) -> Result<(), Failure>,
) -> StatusCode {
    // SAFETY: the caller vouches for it.
    guarded(|| unsafe { object(policy, "policy") }?.call(body))
}

/// A function of the program that says whether a frame may be evicted.
pub(crate) type MayEvict = Option<unsafe extern "C" fn(context: *mut c_void, frame: u32) -> i32>;

/// What a function of the program says of a frame; without one every frame may be evicted.
///
/// # Safety
///
/// The function may be called with the context.
#[inline]
pub(crate) unsafe fn may_evict_frame(may_evict: MayEvict, context: *mut c_void, frame: u32) -> bool {
    match may_evict {
        // SAFETY: the caller vouches for it.
        Some(may_evict) => placement::outside(|| unsafe { may_evict(context, frame) != 0 }),
        None => true,
    }
}

pub(crate) fn access_of(access: u32) -> Result<Access, Failure> {
    match access {
        EBBPOOL_READ => Ok(Access::Read),
        EBBPOOL_WRITE => Ok(Access::Write),
        access => Err(CallFault::Access(access).into()),
    }
}

/// Makes a policy for frames 0 to `frames` - 1, all empty. `spec` names it with its parameters, such as `ebb` or
/// `cflru:window=0.3`: any online policy of `ebbpool policies` that needs no erase counts, and no parameters that ask for
/// checkpoints or commits. Stores the policy, or null after an error.
///
/// Errors: `EBBPOOL_NOT_FOUND`, `EBBPOOL_INVALID`, `EBBPOOL_NO_MEMORY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_new(spec: *const c_char, frames: u32, policy: *mut *mut PolicyHandle) -> StatusCode {
    guarded(|| {
        let what = "the pointer to the policy";
        // SAFETY: the pointers are what the header requires.
        unsafe {
            write(policy, what, ptr::null_mut())?;
            let spec = check_request(text(spec, "spec")?, frames)?;
            check_memory(&spec, frames, Growth::AsNeeded, Region::NONE)?;
            let made = BarePolicy::new(&spec, frames);
            made.check_parameters()?;
            let made = PolicyHandle::new(made, Region::NONE);
            write(policy, what, Box::into_raw(Box::new(made)))
        }
    })
}

/// Releases the policy, which must not be used after that. A null pointer has no effect, nor has a policy in a region.
///
/// Errors: `EBBPOOL_BUSY` while another call uses the policy; then it is not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_destroy(policy: *mut PolicyHandle) -> StatusCode {
    guarded(|| {
        if policy.is_null() {
            return Ok(());
        }
        // SAFETY: the pointer is that of a policy, as the header requires.
        let handle = unsafe { object(policy, "policy") }?;
        if !handle.region.is_none() {
            return Ok(());
        }
        if handle.state.load(Ordering::Acquire) == BUSY {
            return Err(Failure::busy_policy());
        }
        // SAFETY: `ebbpool_policy_new` made the pointer from a box, and the header requires that it is destroyed once.
        drop(unsafe { Box::from_raw(policy) });
        Ok(())
    })
}

/// Writes the policy's name with its parameters into a buffer, as `ebbpool_pool_describe` does, and, unless `properties` is
/// null, `EBBPOOL_POLICY_EVERY_HIT` and others, added up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_describe(
    policy: *mut PolicyHandle,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
    properties: *mut u32,
) -> StatusCode {
    let body = |policy: &mut BarePolicy| {
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        let asked = policy.capabilities();
        let every_hit = !asked.contains(Capabilities::LEAVES_HITS_OUT);
        let found = bit(every_hit, EBBPOOL_POLICY_EVERY_HIT)
            | bit(asked.contains(Capabilities::COSTS), EBBPOOL_POLICY_COSTS)
            | bit(asked.contains(Capabilities::CLASSES), EBBPOOL_POLICY_CLASSES)
            | bit(policy.ranks_victims(), EBBPOOL_POLICY_RANKS_DIRTY);
        // SAFETY: the pointers are what the header requires.
        unsafe {
            if !properties.is_null() {
                write(properties, "properties", found)?;
            }
            write_text(&policy.name, buffer, capacity, length)
        }
    };
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, body) }
}

/// The page in `frame` was referenced: `EBBPOOL_READ`, or `EBBPOOL_WRITE`, which makes it dirty.
///
/// Errors: `EBBPOOL_INVALID` if the frame is empty, or between a miss and its admission.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_hit(policy: *mut PolicyHandle, frame: u32, access: u32) -> StatusCode {
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, |policy| policy.hit(frame, access_of(access)?)) }
}

/// The page in `frame` was written without being referenced, for example under the fix that admitted it, and is dirty from
/// then on. A policy that distinguishes this, such as `ebb`, notes the write and its time and no reference; to others
/// that look at writes it is a hit that writes.
///
/// Errors: as `ebbpool_policy_hit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_wrote(policy: *mut PolicyHandle, frame: u32) -> StatusCode {
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, |policy| policy.wrote(frame)) }
}

/// The program left out this number of hits since the last call; for policies without `EBBPOOL_POLICY_EVERY_HIT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_hits_left_out(policy: *mut PolicyHandle, hits: u64) -> StatusCode {
    let body = |policy: &mut BarePolicy| {
        policy.omitted_hits(hits);
        Ok(())
    };
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, body) }
}

/// A page that is not resident was referenced. `page_class` is a kind of pages that are used alike, 0 for unknown. Into
/// `evict_first` it stores 1 if a page is to be evicted before, because no frame is empty, or because the policy replaces a
/// page though one is: call `ebbpool_policy_victim` then. Otherwise it stores 0. End the miss with `ebbpool_policy_admit`
/// or `ebbpool_policy_refuse`.
///
/// Errors: `EBBPOOL_INVALID` between a miss and its admission.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_miss(
    policy: *mut PolicyHandle,
    number: u64,
    page_class: u32,
    access: u32,
    evict_first: *mut i32,
) -> StatusCode {
    let body = |policy: &mut BarePolicy| {
        let access = access_of(access)?;
        // SAFETY: the pointer may be written, as the header requires. Checked before the policy is notified.
        unsafe { write(evict_first, "evict_first", 0) }?;
        let evicts = policy.miss(number, page_class, access)?;
        // SAFETY: as above.
        unsafe { write(evict_first, "evict_first", evicts.into()) }
    };
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, body) }
}

/// Chooses the frame to evict for the page that was missed, or, without a miss, the one that would be evicted next, to be
/// written in advance. `may_evict` returns 0 for a frame that is fixed; it is called with `context`, must not call
/// functions of this policy, must return (a `longjmp` out of it leaves the policy busy for ever), and may be null if no frame is
/// fixed. `most_together` is the most pages that the program writes in one go. The frame remains the policy's until `ebbpool_policy_evicted` is called; the program may evict
/// another one instead.
///
/// Errors: `EBBPOOL_ALL_FIXED` if every frame is fixed: then call `ebbpool_policy_refuse`, or
/// `ebbpool_policy_admit` if a frame is empty; `EBBPOOL_INVALID` if no frame has a page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_victim(
    policy: *mut PolicyHandle,
    may_evict: Option<unsafe extern "C" fn(context: *mut c_void, frame: u32) -> i32>,
    context: *mut c_void,
    most_together: u32,
    plan: *mut EvictionPlan,
) -> StatusCode {
    let body = |policy: &mut BarePolicy| {
        // SAFETY: the header requires that the function may be called with the context.
        let allowed = |frame: u32| unsafe { may_evict_frame(may_evict, context, frame) };
        // SAFETY: the pointer may be written, as the header requires. Checked before the policy is asked.
        unsafe { write(plan, "plan", EvictionPlan::NONE) }?;
        let victim = policy.victim(most_together as usize, &allowed)?;
        let found = EvictionPlan {
            frame: victim.frame,
            together_count: victim.together.len() as u32,
            also_evicted_count: victim.also_evicted.len() as u32,
            block_pages: u32::try_from(victim.block_pages).unwrap_or(u32::MAX),
            together: victim.together.as_ptr(),
            also_evicted: victim.also_evicted.as_ptr(),
        };
        // SAFETY: as above.
        unsafe { write(plan, "plan", found) }
    };
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, body) }
}

/// The page in `frame` was evicted, after it was written if it was dirty; the frame is empty. The policy may remember it.
///
/// Errors: `EBBPOOL_INVALID` if the frame is empty already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_evicted(policy: *mut PolicyHandle, frame: u32) -> StatusCode {
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, |policy| policy.evicted(frame)) }
}

/// The page in `frame` no longer exists, for example because its table was dropped; the frame is empty. The policy forgets
/// the page.
///
/// Errors: as `ebbpool_policy_evicted`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_dropped(policy: *mut PolicyHandle, frame: u32) -> StatusCode {
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, |policy| policy.dropped(frame)) }
}

/// The dirty page in `frame` was written and stays. It has no effect on a clean page.
///
/// Errors: `EBBPOOL_INVALID` if the frame is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_cleaned(policy: *mut PolicyHandle, frame: u32) -> StatusCode {
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, |policy| policy.cleaned(frame)) }
}

/// The page that was missed is in `frame` now, which was empty.
///
/// Errors: `EBBPOOL_INVALID` if no page was missed, or the frame is not empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_admit(policy: *mut PolicyHandle, frame: u32) -> StatusCode {
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, |policy| policy.admit(frame)) }
}

/// The page that was missed is not admitted, because every frame is fixed.
///
/// Errors: `EBBPOOL_INVALID` if no page was missed, or a frame was empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_refuse(policy: *mut PolicyHandle) -> StatusCode {
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, BarePolicy::refuse) }
}

/// What a page read and a page write cost now, in µs; a read costs more than 0. Without a call a policy assumes that they
/// cost the same, or what its parameters say.
///
/// Errors: `EBBPOOL_INVALID`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_costs(policy: *mut PolicyHandle, read_cost: f64, write_cost: f64) -> StatusCode {
    let body = |policy: &mut BarePolicy| {
        check_costs(read_cost, write_cost)?;
        policy.costs(Costs { read: read_cost, write: write_cost, unit_us: 1.0 });
        Ok(())
    };
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, body) }
}

/// Writes the name of the policy that chooses victims now, of several that compete, with its NUL into `buffer`, cut off where
/// that ends: "ebb" or "lru" in the duel of ebb; "" where none compete.
///
/// Errors: `EBBPOOL_INVALID`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_policy_leader(
    policy: *const PolicyHandle,
    buffer: *mut c_char,
    capacity: usize,
) -> StatusCode {
    // SAFETY: the pointers are what the header requires.
    let body = |policy: &mut BarePolicy| unsafe { write_text(policy.leader(), buffer, capacity, ptr::null_mut()) };
    // SAFETY: the pointer is that of a policy, as the header requires.
    unsafe { with_policy(policy, body) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{EBBPOOL_OK, EBBPOOL_PANIC};

    #[test]
    fn a_policy_is_unusable_after_a_panic() {
        let mut policy = ptr::null_mut();
        // SAFETY: all pointers are those of live objects, and the policy is destroyed once.
        unsafe {
            assert_eq!(ebbpool_policy_new(c"lru".as_ptr(), 4, &raw mut policy), EBBPOOL_OK);
            assert_eq!(with_policy(policy, |_| panic!("a fault")), EBBPOOL_PANIC);
            assert_eq!(ebbpool_policy_hit(policy, 0, EBBPOOL_READ), EBBPOOL_PANIC);
            assert_eq!(ebbpool_policy_destroy(policy), EBBPOOL_OK);
        }
    }
}
