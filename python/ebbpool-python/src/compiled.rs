//! Policies of C functions, such as those that Numba compiles.

use std::fmt;

use ebbpool_policy::{Access, Capabilities, Frame, Ghost, Page, PageClass, Policy};
use ebbpool_sim::{GuestEngine, GuestHost, GuestPolicy};
use pyo3::prelude::*;

use crate::policy::{CallerPolicy, PolicyFailure, ResidentFrames};

/// A guest whose policies are functions of C.
pub(crate) struct CompiledGuest(pub(crate) CallerPolicy);

impl fmt::Debug for CompiledGuest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CompiledGuest").field(&self.0.name).finish()
    }
}

type HitFunction = extern "C" fn(usize, u32, u8);
type MissFunction = extern "C" fn(usize, u64, u8);
type VictimFunction = extern "C" fn(usize) -> u32;
type AdmitFunction = extern "C" fn(usize, u32, u64, u8);
/// Takes a frame, or a class.
type FrameFunction = extern "C" fn(usize, u32);

/// A policy of C functions, each of which gets the address of the policy's state first.
struct CompiledPolicy {
    state: usize,
    hit: Option<HitFunction>,
    page_class: Option<FrameFunction>,
    miss: Option<MissFunction>,
    victim: VictimFunction,
    admit: Option<AdmitFunction>,
    evicted: Option<FrameFunction>,
    cleaned: Option<FrameFunction>,
    resident: ResidentFrames,
    /// The object that owns the memory of the state.
    _owner: Py<PyAny>,
}

/// The addresses of the functions and of the state, and the owner of the state.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Addresses {
    state: usize,
    owner: Py<PyAny>,
    hit: Option<usize>,
    page_class: Option<usize>,
    miss: Option<usize>,
    victim: usize,
    admit: Option<usize>,
    evicted: Option<usize>,
    cleaned: Option<usize>,
}

/// The function at an address; null is refused where `Addresses` are made.
macro_rules! function {
    ($address:expr, $type:ty) => {{
        // SAFETY: `ebbpool.Compiled` states in its documentation that each address must be that of a C function with
        // this signature, as `numba.cfunc` makes it; the caller vouches for it, as for each function given to ctypes.
        unsafe { std::mem::transmute::<usize, $type>($address) }
    }};
}

impl CompiledPolicy {
    #[expect(unsafe_code, reason = "functions of C arrive as addresses, from Numba or ctypes")]
    fn new(at: Addresses, resident: ResidentFrames) -> Self {
        CompiledPolicy {
            state: at.state,
            hit: at.hit.map(|at| function!(at, HitFunction)),
            page_class: at.page_class.map(|at| function!(at, FrameFunction)),
            miss: at.miss.map(|at| function!(at, MissFunction)),
            victim: function!(at.victim, VictimFunction),
            admit: at.admit.map(|at| function!(at, AdmitFunction)),
            evicted: at.evicted.map(|at| function!(at, FrameFunction)),
            cleaned: at.cleaned.map(|at| function!(at, FrameFunction)),
            resident,
            _owner: at.owner,
        }
    }
}

impl GuestPolicy for CompiledGuest {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn looks_at_costs(&self) -> bool {
        false
    }

    fn has_miniature(&self) -> bool {
        self.0.has_miniature
    }

    fn make<'o>(&self, frames: u32, host: GuestHost<'o>) -> Result<GuestEngine<'o>, PolicyFailure> {
        let addresses = self.0.calls.within(|py| {
            let made = self.0.make.bind(py).call_method1("_addresses", (frames,))?;
            made.extract::<Addresses>()
        });
        let resident = ResidentFrames::new(&self.0, frames);
        Ok(host.run(CompiledPolicy::new(addresses?, resident)))
    }

    fn take_failure(&self) -> Option<PolicyFailure> {
        self.0.take_failure()
    }
}

impl Policy for CompiledPolicy {
    const CAPABILITIES: Capabilities = Capabilities::CLASSES;

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.resident.references += 1;
        if let Some(hit) = self.hit
            && self.resident.may_call()
        {
            hit(self.state, frame, access.is_write().into());
        }
    }

    #[inline]
    fn miss(&mut self, page: Page, _ghost: Option<Ghost>, access: Access) {
        self.resident.references += 1;
        if let Some(miss) = self.miss
            && self.resident.may_call()
        {
            miss(self.state, page, access.is_write().into());
        }
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        if !self.resident.may_call() {
            return self.resident.evictable(may_evict);
        }
        let frame = (self.victim)(self.state);
        if !self.resident.is_resident(frame) {
            self.resident.refuse("victim", &frame.to_string());
        } else if may_evict(frame) {
            return Some(frame);
        }
        self.resident.evictable(may_evict)
    }

    fn capabilities(&self) -> Capabilities {
        let mut found = Self::CAPABILITIES;
        found.set(Capabilities::CLASSES, self.page_class.is_some());
        found
    }

    fn class(&mut self, class: PageClass) {
        if let Some(page_class) = self.page_class
            && self.resident.may_call()
        {
            page_class(self.state, class);
        }
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.resident.resident[frame as usize] = true;
        if let Some(admit) = self.admit
            && self.resident.may_call()
        {
            admit(self.state, frame, page, access.is_write().into());
        }
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.resident.resident[frame as usize] = false;
        if let Some(evicted) = self.evicted
            && self.resident.may_call()
        {
            evicted(self.state, frame);
        }
    }

    #[inline]
    fn cleaned(&mut self, frame: Frame) {
        if let Some(cleaned) = self.cleaned
            && self.resident.may_call()
        {
            cleaned(self.state, frame);
        }
    }
}
