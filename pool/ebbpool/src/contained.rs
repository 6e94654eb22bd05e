//! Contains panics of foreign code. A caller's storage, log, policy or listener runs while frames are claimed and the
//! policy's lock is held; a panic that unwound from there would leave both taken for ever. So this module catches the
//! panic, returns an error or replaces the policy that panicked, and logs an error.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ebbpool_cost::{OperationCosts, Unit};
use ebbpool_policy::{
    Access, BackgroundWrite, Capabilities, Costs, DynPolicy, Frame, Gauges, Ghost, NextUse, Page, PageClass, PageProbabilities,
    PolicySpec, RecordedRequest, registry,
};

use crate::boxed::boxed;
use crate::callback::Callback;
use crate::frames::FrameMemory;
use crate::log::{Log, Lsn};
use crate::storage::{Read, Storage, Write};

/// The number of victims in a row that cannot be evicted, after which the pool assumes that a policy does not know
/// which pages it holds. Threads may pin a frame after the policy asked about it, but not that often.
const MOST_REFUSED: u32 = 1000;

/// A policy is replaced when it has named none this number of times in a row, although it could: a frame may have become free just
/// after it looked.
const MOST_NONE: u32 = 10;

/// The numbers of ghosts that a policy may use, for each frame and beside that.
const GHOSTS_PER_FRAME: usize = 64;
const LEAST_GHOSTS: usize = 1024;

/// Returns the result of a call, or the message of its panic.
pub(crate) fn contained<R>(what: &str, call: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let message = message(&*panic);
        tracing::error!("{what} panicked: {message}");
        format!("{what} panicked: {message}")
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or(panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message")
}

/// A storage whose panics become errors of the call.
pub(crate) struct ContainedStorage<S>(pub(crate) S);

impl<S: Storage> ContainedStorage<S> {
    fn fallible<R>(&self, call: impl FnOnce(&S) -> io::Result<R>) -> io::Result<R> {
        contained("the storage", || call(&self.0)).unwrap_or_else(|why| Err(io::Error::other(why)))
    }
}

impl<S: Storage> Storage for ContainedStorage<S> {
    fn page_size(&self) -> usize {
        self.0.page_size()
    }
    fn pages(&self) -> io::Result<u64> {
        self.fallible(S::pages)
    }
    fn writable(&self) -> bool {
        self.0.writable()
    }
    fn grow(&self, pages: u64) -> io::Result<()> {
        self.fallible(|storage| storage.grow(pages))
    }
    fn truncate(&self, pages: u64) -> io::Result<()> {
        self.fallible(|storage| storage.truncate(pages))
    }
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        contained("the storage", || self.0.read(reads)).unwrap_or_else(|why| {
            for read in reads {
                read.outcome = Err(io::Error::other(why.as_str()));
            }
            None
        })
    }
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        contained("the storage", || self.0.write(writes)).unwrap_or_else(|why| {
            for write in writes {
                write.outcome = Err(io::Error::other(why.as_str()));
            }
            None
        })
    }
    fn sync(&self) -> io::Result<()> {
        self.fallible(S::sync)
    }
    fn register(&self, memory: &Arc<FrameMemory>) {
        self.0.register(memory);
    }
    fn unit(&self) -> Unit {
        self.0.unit()
    }
    fn assumed_costs(&self) -> OperationCosts {
        self.0.assumed_costs()
    }
    fn erases_of(&self, page: u64) -> Option<u32> {
        contained("the storage", || self.0.erases_of(page)).unwrap_or_default()
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// A log whose panics become errors: nothing is durable then.
pub(crate) struct ContainedLog(pub(crate) Arc<dyn Log>);

impl Log for ContainedLog {
    fn durable_lsn(&self) -> Lsn {
        contained("the log", || self.0.durable_lsn()).unwrap_or(0)
    }
    fn force(&self, lsn: Lsn) -> io::Result<()> {
        contained("the log", || self.0.force(lsn)).unwrap_or_else(|why| Err(io::Error::other(why)))
    }
    fn end_lsn(&self) -> Lsn {
        // Not that of a missing log, with which a checkpoint would cover everything.
        contained("the log", || self.0.end_lsn()).unwrap_or(1)
    }
}

/// A caller's policy. If it panics, or names frames that it does not hold, `lru` takes its place for as long as the
/// pool lives.
pub(crate) struct ContainedPolicy {
    policy: Box<dyn DynPolicy + Send>,
    callback: Arc<Callback>,
    capabilities: Capabilities,
    /// `lru` has taken its place.
    failed: bool,
    /// The policy panicked in a call that cannot replace it; the next call with `&mut self` replaces it.
    fails: Cell<bool>,
    /// The reports to the policy about each frame: its page, and the access that made the page clean or dirty.
    held: Vec<Option<(Page, Access)>>,
    /// The number of victims in a row that cannot be evicted.
    refused: u32,
    /// How often in a row it named none, although it could.
    none: u32,
    costs: Costs,
}

impl ContainedPolicy {
    /// `None` if there is no memory for the reports.
    pub(crate) fn new(
        policy: Box<dyn DynPolicy + Send>,
        capabilities: Capabilities,
        frames: u32,
        callback: Arc<Callback>,
    ) -> Option<Self> {
        Some(ContainedPolicy {
            policy,
            callback,
            capabilities,
            failed: false,
            fails: Cell::new(false),
            held: boxed(frames as usize, || None)?.into_vec(),
            refused: 0,
            none: 0,
            costs: Costs::default(),
        })
    }

    /// The result of a call of the policy, or of `lru`, which replaces it if it panics.
    fn call<R>(&mut self, call: impl Fn(&mut dyn DynPolicy) -> R) -> R {
        if !self.failed && !self.fails.get() {
            match contained("the policy", || self.callback.run(|| call(&mut *self.policy))) {
                Ok(answer) => return answer,
                Err(_) => self.fails.set(true),
            }
        }
        if !self.failed {
            self.replace();
        }
        call(&mut *self.policy)
    }

    /// True if one of the frames that the policy has may be evicted.
    fn could_evict(&self, may_evict: &dyn Fn(Frame) -> bool) -> bool {
        let held = self.held.iter().enumerate().filter(|(_, held)| held.is_some());
        held.map(|(frame, _)| frame as Frame).any(may_evict)
    }

    fn query<R: Default>(&self, call: impl Fn(&dyn DynPolicy) -> R) -> R {
        match (self.failed, self.fails.get()) {
            (true, _) => call(&*self.policy),
            (false, true) => R::default(),
            (false, false) => contained("the policy", || self.callback.run(|| call(&*self.policy))).unwrap_or_else(|_| {
                self.fails.set(true);
                R::default()
            }),
        }
    }

    fn replace(&mut self) {
        let frames = self.held.len() as u32;
        tracing::error!("the policy failed, and lru replaces it");
        let lru = registry::entries().iter().find(|entry| entry.name == "lru");
        let spec = PolicySpec::from_entry(lru.unwrap_or(&registry::entries()[0]));
        let failed = std::mem::replace(&mut self.policy, registry::boxed(&spec, frames));
        let _ = contained("the policy's destructor", || self.callback.run(|| drop(failed)));
        self.failed = true;
        self.capabilities = self.policy.capabilities();
        self.policy.costs(self.costs);
        for (frame, held) in (0..).zip(&self.held) {
            if let &Some((page, access)) = held {
                self.policy.miss(page, None, access);
                self.policy.admit(frame, page, access);
            }
        }
    }

    /// True if the policy has declared the capability. The methods of others are not called.
    fn declares(&self, capability: Capabilities) -> bool {
        self.capabilities.contains(capability)
    }

    /// The ghost, unless its number is out of all proportion: the pool has a table of them.
    fn in_proportion(&self, ghost: Option<Ghost>) -> Option<Ghost> {
        let most = GHOSTS_PER_FRAME * self.held.len() + LEAST_GHOSTS;
        ghost.filter(|&ghost| (ghost as usize) < most)
    }

    fn holds(&self, frame: Frame) -> bool {
        matches!(self.held.get(frame as usize), Some(Some(_)))
    }
}

impl DynPolicy for ContainedPolicy {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
    /// What it catches takes memory.
    fn reserve(&mut self) -> bool {
        false
    }
    fn most_ghosts(&self) -> u32 {
        (GHOSTS_PER_FRAME * self.held.len() + LEAST_GHOSTS) as u32
    }
    /// The policy is not relied upon for it.
    fn page(&self, _frame: Frame) -> Option<Page> {
        None
    }
    /// Nor for this.
    fn ghost_page(&self, _ghost: Ghost) -> Option<Page> {
        None
    }
    fn wrote(&mut self, frame: Frame) -> bool {
        let noted = self.call(|policy| policy.wrote(frame));
        if let (Some((_, held)), true) = (&mut self.held[frame as usize], noted) {
            *held = Access::Write;
        }
        noted
    }
    fn coming_victims(&self, may_evict: &dyn Fn(Frame) -> bool, coming: &mut [Frame]) -> Option<usize> {
        let named = self.query(|policy| {
            let mut named = vec![0; coming.len()];
            let found = policy.coming_victims(may_evict, &mut named)?;
            named.truncate(found);
            Some(named)
        })?;
        let held = named.into_iter().filter(|&frame| self.holds(frame) && may_evict(frame));
        Some(coming.iter_mut().zip(held).map(|(place, frame)| *place = frame).count())
    }
    fn hit(&mut self, frame: Frame, access: Access) {
        self.call(|policy| policy.hit(frame, access));
        if let (Some((_, held)), Access::Write) = (&mut self.held[frame as usize], access) {
            *held = Access::Write;
        }
    }
    fn omitted_hits(&mut self, hits: u64) {
        if self.declares(Capabilities::LEAVES_HITS_OUT) {
            self.call(|policy| policy.omitted_hits(hits));
        }
    }
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, access: Access) {
        self.call(|policy| policy.miss(page, ghost, access));
    }
    fn prefetch(&self, frame: Frame) {
        self.query(|policy| policy.prefetch(frame));
    }
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.query(|policy| policy.prefetch_ghost(ghost));
    }
    fn victim(&mut self, incoming: Option<(Page, Access)>, may_evict: &dyn Fn(Frame) -> bool) -> Option<Frame> {
        let victim = self.call(|policy| policy.victim(incoming, may_evict));
        match victim {
            Some(frame) if !self.failed => {
                if self.holds(frame) {
                    self.refused = if may_evict(frame) { 0 } else { self.refused + 1 };
                    self.none = 0;
                    if self.refused < MOST_REFUSED {
                        return victim;
                    }
                }
                tracing::error!(frame, "the policy's victim cannot be evicted");
                self.replace();
                self.policy.victim(incoming, may_evict)
            }
            None if !self.failed && self.could_evict(may_evict) => {
                self.none += 1;
                if self.none < MOST_NONE {
                    return None;
                }
                tracing::error!("the policy names no victim, although frames can be evicted");
                self.replace();
                self.policy.victim(incoming, may_evict)
            }
            victim => {
                self.none = 0;
                victim
            }
        }
    }
    fn evicted_with(&self, victim: Frame, evicted: &mut Vec<Frame>) {
        if !self.declares(Capabilities::EVICTS_MORE) {
            return;
        }
        *evicted = self.query(|policy| {
            let mut evicted = Vec::new();
            policy.evicted_with(victim, &mut evicted);
            evicted
        });
        evicted.retain(|&frame| self.holds(frame));
    }
    fn padded_block(&self, victim: Frame) -> Option<NonZeroU64> {
        match self.declares(Capabilities::PADDING) {
            true => self.query(|policy| policy.padded_block(victim)),
            false => None,
        }
    }
    fn evicts_early(&mut self) -> bool {
        self.declares(Capabilities::EVICTS_EARLY) && self.call(|policy| policy.evicts_early())
    }
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.call(|policy| policy.admit(frame, page, access));
        self.held[frame as usize] = Some((page, access));
    }
    fn not_admitted(&mut self) -> Option<Ghost> {
        let ghost = self.call(|policy| policy.not_admitted());
        self.in_proportion(ghost)
    }
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        let ghost = self.call(|policy| policy.remember(frame));
        self.in_proportion(ghost)
    }
    fn evicted(&mut self, frame: Frame) {
        self.call(|policy| policy.evicted(frame));
        self.held[frame as usize] = None;
    }
    fn cleaned(&mut self, frame: Frame) {
        self.call(|policy| policy.cleaned(frame));
        if let Some((_, held)) = &mut self.held[frame as usize] {
            *held = Access::Read;
        }
    }
    fn cleaned_with(&self, victim: Frame, max: usize, together: &mut Vec<Frame>) {
        if !self.declares(Capabilities::WRITES_TOGETHER) {
            return;
        }
        let from = together.len();
        together.extend(self.query(|policy| {
            let mut together = Vec::new();
            policy.cleaned_with(victim, max, &mut together);
            together
        }));
        let mut at = 0;
        together.retain(|&frame| {
            at += 1;
            at <= from || self.holds(frame)
        });
    }
    fn costs(&mut self, costs: Costs) {
        self.costs = costs;
        if self.declares(Capabilities::COSTS) {
            self.call(|policy| policy.costs(costs));
        }
    }
    fn erase_count(&mut self, frame: Frame, erases: u32) {
        if self.declares(Capabilities::ERASE_COUNTS) {
            self.call(|policy| policy.erase_count(frame, erases));
        }
    }
    fn class(&mut self, class: PageClass) {
        if self.declares(Capabilities::CLASSES) {
            self.call(|policy| policy.class(class));
        }
    }
    /// The pool has no trace that recorded requests.
    fn request(&mut self, _request: RecordedRequest) {}
    /// The pool has a background writer of its own.
    fn background_writes(&mut self, _writes: &mut Vec<BackgroundWrite>) {}
    /// The pool knows nothing of the future, and refuses policies that ask for it.
    fn next_use(&mut self, _next: NextUse) {}
    fn prices(&mut self, _prices: Arc<[f64]>) {}
    fn probabilities(&mut self, _probabilities: Arc<PageProbabilities>) {}
    fn gauges(&self) -> Gauges {
        self.query(|policy| policy.gauges())
    }
    fn moved(&mut self, from: Frame, to: Frame) {
        self.call(|policy| policy.moved(from, to));
        self.held[to as usize] = self.held[from as usize].take();
    }
    fn resize(&mut self, frames: u32) {
        self.call(|policy| policy.resize(frames));
        self.held.resize(frames as usize, None);
    }
}
