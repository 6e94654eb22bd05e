//! Policies of the caller: objects of Python here, and what these share with functions of C.

use std::error::Error;
use std::fmt;
use std::iter::repeat_with;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ebbpool_policy::{Access, Capabilities, Costs, Frame, Ghost, Page, PageClass, Policy};
use ebbpool_sim::{GuestEngine, GuestHost, GuestPolicy};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::calls::Calls;
use crate::compiled::CompiledGuest;
use crate::errors::{Class, raise, wrong};

pub(crate) type PolicyFailure = Box<dyn Error + Send + Sync>;

/// The policy of the caller that an object stands for: an `ebbpool.Compiled`, or a class or function that makes a
/// policy from a number of frames.
pub(crate) fn guest(py: Python<'_>, calls: &Arc<Calls>, policy: &Bound<'_, PyAny>) -> PyResult<Arc<dyn GuestPolicy>> {
    let compiled = policy.hasattr("_addresses")?;
    if !compiled && !policy.is_callable() {
        let text = format!(
            "{} is neither a name nor a class of policies; give the class and not an object of it, because each run \
             makes its own",
            policy.repr()?
        );
        return Err(wrong(py, "policies", text));
    }
    let name = ["name", "__name__"].into_iter().find_map(|attribute| {
        let name = policy.getattr_opt(attribute).ok()??;
        name.extract::<String>().ok()
    });
    let guest = CallerPolicy {
        name: name.unwrap_or_else(|| "policy".into()),
        looks_at_costs: OnceLock::new(),
        has_miniature: match policy.getattr_opt("miniature")? {
            Some(miniature) => miniature.is_truthy()?,
            None => false,
        },
        make: policy.clone().unbind(),
        calls: Arc::clone(calls),
        failure: Arc::default(),
    };
    Ok(match compiled {
        true => Arc::new(CompiledGuest(guest)),
        false => Arc::new(PythonGuest(guest)),
    })
}

/// What both kinds of policies of the caller have.
pub(crate) struct CallerPolicy {
    pub(crate) name: String,
    /// Whether an object of the policy has a method `costs`, once it is known.
    pub(crate) looks_at_costs: OnceLock<bool>,
    pub(crate) has_miniature: bool,
    pub(crate) make: Py<PyAny>,
    pub(crate) calls: Arc<Calls>,
    failure: Arc<Mutex<Option<PolicyFailure>>>,
}

impl CallerPolicy {
    pub(crate) fn take_failure(&self) -> Option<PolicyFailure> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }
}

struct PythonGuest(CallerPolicy);

impl fmt::Debug for PythonGuest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PythonGuest").field(&self.0.name).finish()
    }
}

impl GuestPolicy for PythonGuest {
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Asks an object with 1 frame, because a function that makes objects says nothing of them, and a class does not say what
    /// they get when they are made. If there is no such object, costs may change choices.
    fn looks_at_costs(&self) -> bool {
        if let Some(known) = self.0.looks_at_costs.get() {
            return *known;
        }
        let looks = self.0.calls.within(|py| {
            let made = (!self.0.calls.stopped()).then(|| self.0.make.bind(py).call1((1,)));
            let method = made.and_then(|object| method(&object.ok()?, "costs").ok());
            method.is_none_or(|method| method.is_some())
        });
        // Not within: a thread that waits here for another one must not hold the interpreter.
        *self.0.looks_at_costs.get_or_init(|| looks)
    }

    fn has_miniature(&self) -> bool {
        self.0.has_miniature
    }

    fn make<'o>(&self, frames: u32, host: GuestHost<'o>) -> Result<GuestEngine<'o>, PolicyFailure> {
        let resident = ResidentFrames::new(&self.0, frames);
        let policy = self.0.calls.within(|py| {
            if self.0.calls.stopped() {
                return Err(interrupted());
            }
            let object = self.0.make.bind(py).call1((frames,))?;
            let policy = PythonPolicy::new(&object, resident)?;
            // If no question came before, the request has a single asymmetry, which suits all objects.
            if policy.costs.is_some() && !self.0.looks_at_costs.get_or_init(|| true) {
                let text = format!(
                    "policy {} has a method costs() with {frames} frames and none with another number; give all its objects one, \
                     or none",
                    self.0.name
                );
                return Err(raise(py, Class::Policy, &text));
            }
            Ok(policy)
        });
        Ok(host.run(policy?))
    }

    /// Attaches to the interpreter once for a chunk, and not for each call.
    fn around(&self, work: &mut dyn FnMut()) {
        self.0.calls.within(|_| work());
    }

    fn take_failure(&self) -> Option<PolicyFailure> {
        self.0.take_failure()
    }
}

/// The frames that hold pages, for checks of the answers of a policy, and what a failed policy has to report.
pub(crate) struct ResidentFrames {
    policy: String,
    frames: u32,
    pub(crate) resident: Vec<bool>,
    /// The number of references so far.
    pub(crate) references: u64,
    pub(crate) has_failed: bool,
    /// Where the search for the next victim of a failed policy begins.
    cursor: usize,
    calls: Arc<Calls>,
    failure: Arc<Mutex<Option<PolicyFailure>>>,
}

impl ResidentFrames {
    pub(crate) fn new(guest: &CallerPolicy, frames: u32) -> Self {
        ResidentFrames {
            policy: guest.name.clone(),
            frames,
            resident: vec![false; frames as usize],
            references: 0,
            has_failed: false,
            cursor: 0,
            calls: Arc::clone(&guest.calls),
            failure: Arc::clone(&guest.failure),
        }
    }

    pub(crate) fn is_resident(&self, frame: Frame) -> bool {
        self.resident.get(frame as usize) == Some(&true)
    }

    /// True if a method of the policy may be called: it has not failed, and the user has not stopped the work.
    #[inline]
    pub(crate) fn may_call(&mut self) -> bool {
        if self.calls.stopped() && !self.has_failed {
            self.put_failure(Box::new(interrupted()));
        }
        !self.has_failed
    }

    /// Where the run is, for messages. The first reference has the number 0.
    fn position(&self) -> String {
        let reference = self.references.saturating_sub(1);
        format!("at reference {reference}, with {} frames", self.frames)
    }

    fn put_failure(&mut self, failure: PolicyFailure) {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(failure);
        self.has_failed = true;
    }

    /// Stores an exception of the policy's code.
    #[cold]
    fn fail(&mut self, py: Python<'_>, error: PyErr) {
        // The note is a help only; the exception is raised without it as well.
        let note = format!("policy {} failed {}", self.policy, self.position());
        let _ = error.value(py).call_method1("add_note", (note,));
        self.put_failure(Box::new(error));
    }

    /// Stores that the policy named a frame that it must not name.
    #[cold]
    pub(crate) fn refuse(&mut self, method: &str, frame: &str) {
        let text = format!("{method}() returned {frame} {}; it must return a frame that holds a page", self.position());
        self.put_failure(text.into());
    }

    /// Stores that the policy returned something else than a list of frames.
    #[cold]
    fn refuse_companions(&mut self, method: &str, returned: &str) {
        let text =
            format!("{method}() returned {returned} {}; it must return a list of frames, which may be empty", self.position());
        self.put_failure(text.into());
    }

    /// A frame that holds a page which may be evicted: until the failed pass ends, or in place of a page that a thread has
    /// pinned.
    #[cold]
    pub(crate) fn evictable(&mut self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let frames = self.resident.len();
        let order = (self.cursor..frames).chain(0..self.cursor.min(frames));
        let found = order.into_iter().find(|&frame| self.resident[frame] && may_evict(frame as Frame));
        self.cursor = found.map_or(0, |frame| frame + 1);
        found.map(|frame| frame as Frame)
    }
}

/// The failure of a policy that the user has stopped. It ends the pass, so that no result is taken from it.
#[cold]
fn interrupted() -> PyErr {
    PyKeyboardInterrupt::new_err("interrupted")
}

/// Frames whose objects are stored; each takes some 250 bytes.
const MOST_STORED_FRAMES: usize = 1 << 16;

/// The number of a frame, and arguments with it. Most calls are hits, and making their arguments each time would take a
/// quarter of their time. All have the same object for the number: a dict of the policy then finds a key without a
/// comparison.
struct FrameObjects {
    number: Py<PyAny>,
    alone: Py<PyTuple>,
    /// With a read, and with a write.
    hits: [Py<PyTuple>; 2],
}

impl FrameObjects {
    fn new(py: Python<'_>, frame: Frame) -> PyResult<Self> {
        let number = frame.into_pyobject(py)?.into_any();
        Ok(FrameObjects {
            alone: (&number,).into_pyobject(py)?.unbind(),
            hits: [(&number, false).into_pyobject(py)?.unbind(), (&number, true).into_pyobject(py)?.unbind()],
            number: number.unbind(),
        })
    }
}

/// The objects of the first frames, made when they are needed.
struct StoredFrames(Vec<Option<FrameObjects>>);

impl StoredFrames {
    fn new(frames: u32) -> Self {
        let stored = MOST_STORED_FRAMES.min(frames as usize);
        StoredFrames(repeat_with(|| None).take(stored).collect())
    }

    /// The objects of a frame, for the call of a method; new ones for frames that are not stored.
    #[inline]
    fn with<T>(&mut self, py: Python<'_>, frame: Frame, call: impl FnOnce(&FrameObjects) -> PyResult<T>) -> PyResult<T> {
        match self.0.get_mut(frame as usize) {
            Some(Some(objects)) => call(objects),
            Some(empty) => call(empty.insert(FrameObjects::new(py, frame)?)),
            None => call(&FrameObjects::new(py, frame)?),
        }
    }
}

/// A method of an object, if it has it.
fn method(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Py<PyAny>>> {
    let method = object.getattr_opt(name)?;
    Ok(method.filter(|method| !method.is_none()).map(Bound::unbind))
}

/// The methods of an object, as far as it has them.
struct PythonPolicy {
    hit: Option<Py<PyAny>>,
    page_class: Option<Py<PyAny>>,
    miss: Option<Py<PyAny>>,
    victim: Py<PyAny>,
    evicted_with: Option<Py<PyAny>>,
    cleaned_with: Option<Py<PyAny>>,
    admit: Option<Py<PyAny>>,
    evicted: Option<Py<PyAny>>,
    cleaned: Option<Py<PyAny>>,
    costs: Option<Py<PyAny>>,
    frames: StoredFrames,
    calls: Arc<Calls>,
    /// In a cell, because the driver asks for companions of a victim without changing the policy.
    resident: Mutex<ResidentFrames>,
}

impl PythonPolicy {
    fn new(object: &Bound<'_, PyAny>, resident: ResidentFrames) -> PyResult<Self> {
        let method = |name: &str| method(object, name);
        let Some(victim) = method("victim")? else {
            let text = format!("policy {} has no method victim(), which returns the frame to evict", resident.policy);
            return Err(raise(object.py(), Class::Policy, &text));
        };
        Ok(PythonPolicy {
            hit: method("hit")?,
            page_class: method("page_class")?,
            miss: method("miss")?,
            victim,
            evicted_with: method("evicted_with")?,
            cleaned_with: method("cleaned_with")?,
            admit: method("admit")?,
            evicted: method("evicted")?,
            cleaned: method("cleaned")?,
            costs: method("costs")?,
            frames: StoredFrames::new(resident.frames),
            calls: Arc::clone(&resident.calls),
            resident: Mutex::new(resident),
        })
    }

    fn resident(&mut self) -> &mut ResidentFrames {
        let resident = self.resident.get_mut();
        resident.unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the resident frames other than the victim that a method of the policy returns.
    fn companions(&self, method: Option<&Py<PyAny>>, name: &str, victim: Frame, max: usize, to: &mut Vec<Frame>) {
        let Some(method) = method else { return };
        let resident = self.resident.lock();
        let mut resident = resident.unwrap_or_else(PoisonError::into_inner);
        if !resident.may_call() {
            return;
        }
        let frames = self.calls.within(|py| {
            let frames = match method.bind(py).call1((victim,)) {
                Ok(frames) => frames,
                Err(error) => {
                    resident.fail(py, error);
                    return None;
                }
            };
            let numbers = frames.extract::<Vec<Frame>>().ok();
            if numbers.is_none() {
                let text = frames.repr().map(|text| text.to_string());
                resident.refuse_companions(name, &text.unwrap_or_default());
            }
            numbers
        });
        for frame in frames.into_iter().flatten().take(max) {
            if frame == victim || !resident.is_resident(frame) || to.contains(&frame) {
                return resident.refuse(name, &frame.to_string());
            }
            to.push(frame);
        }
    }
}

/// Calls a method of the policy, if it has the method and has not failed.
macro_rules! call {
    ($policy:ident.$method:ident, $($argument:expr),+) => {
        call!(@ $policy.$method, |py, method| method.call1(($($argument,)+)))
    };
    // With the objects of a frame.
    ($policy:ident.$method:ident of $frame:expr, |$objects:ident| $arguments:expr) => {
        call!(@ $policy.$method, |py, method| {
            $policy.frames.with(py, $frame, |$objects| method.call1($arguments))
        })
    };
    (@ $policy:ident.$method:ident, |$py:ident, $bound:ident| $called:expr) => {
        if let Some(method) = &$policy.$method {
            let resident = $policy.resident.get_mut().unwrap_or_else(PoisonError::into_inner);
            if resident.may_call() {
                $policy.calls.within(|$py| {
                    let $bound = method.bind($py);
                    if let Err(error) = $called {
                        resident.fail($py, error);
                    }
                });
            }
        }
    };
}

impl Policy for PythonPolicy {
    const CAPABILITIES: Capabilities =
        Capabilities::COSTS.union(Capabilities::CLASSES).union(Capabilities::EVICTS_MORE).union(Capabilities::WRITES_TOGETHER);

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.resident().references += 1;
        let at = usize::from(access.is_write());
        call!(self.hit of frame, |objects| &objects.hits[at]);
    }

    fn miss(&mut self, page: Page, _ghost: Option<Ghost>, access: Access) {
        self.resident().references += 1;
        call!(self.miss, page, access.is_write());
    }

    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let resident = self.resident.get_mut();
        let resident = resident.unwrap_or_else(PoisonError::into_inner);
        if !resident.may_call() {
            return resident.evictable(may_evict);
        }
        let frame = self.calls.within(|py| match self.victim.bind(py).call0() {
            Ok(frame) => {
                let number = frame.extract::<Frame>().ok();
                let number = number.filter(|&number| resident.is_resident(number));
                if number.is_none() {
                    let text = frame.repr().map(|text| text.to_string());
                    resident.refuse("victim", &text.unwrap_or_default());
                }
                number
            }
            Err(error) => {
                resident.fail(py, error);
                None
            }
        });
        let frame = frame.filter(|&frame| may_evict(frame));
        frame.or_else(|| resident.evictable(may_evict))
    }

    fn capabilities(&self) -> Capabilities {
        let mut found = Self::CAPABILITIES;
        found.set(Capabilities::COSTS, self.costs.is_some());
        found.set(Capabilities::CLASSES, self.page_class.is_some());
        found.set(Capabilities::EVICTS_MORE, self.evicted_with.is_some());
        found.set(Capabilities::WRITES_TOGETHER, self.cleaned_with.is_some());
        found
    }

    fn class(&mut self, class: PageClass) {
        call!(self.page_class, class);
    }

    fn evicted_with(&self, victim: Frame, evictions: &mut Vec<Frame>) {
        let method = self.evicted_with.as_ref();
        self.companions(method, "evicted_with", victim, usize::MAX, evictions);
    }

    fn cleaned_with(&self, victim: Frame, max: usize, together: &mut Vec<Frame>) {
        let method = self.cleaned_with.as_ref();
        self.companions(method, "cleaned_with", victim, max, together);
    }

    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.resident().resident[frame as usize] = true;
        let write = access.is_write();
        call!(self.admit of frame, |objects| (&objects.number, page, write));
    }

    fn evicted(&mut self, frame: Frame) {
        self.resident().resident[frame as usize] = false;
        call!(self.evicted of frame, |objects| &objects.alone);
    }

    fn cleaned(&mut self, frame: Frame) {
        call!(self.cleaned of frame, |objects| &objects.alone);
    }

    fn costs(&mut self, costs: Costs) {
        call!(self.costs, costs.read, costs.write);
    }
}
