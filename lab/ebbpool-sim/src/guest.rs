//! Policies from outside the registry, such as those that a caller writes in another language.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use ebbpool_policy::{Capabilities, DynPolicy, Policy, PolicySpec, SpecError};
use ebbpool_trace::OptionalColumns;

use crate::engine::{Chunk, Counts, Engine, RunParameters, RunningEngine};
use crate::error::SimError;
use crate::listener::{DynObserver, observed};
use crate::observer::NoObserver;
use crate::time_line::TimeLine;

/// A policy from outside the registry. It knows nothing of the future, and its results are not stored, because its name
/// does not identify its code.
pub trait GuestPolicy: Send + Sync + fmt::Debug {
    /// The name in results.
    fn name(&self) -> &str;

    /// True if costs may change its choices; otherwise one run per size serves all asymmetries, and the host refuses a policy
    /// that asks for [costs](Capabilities::COSTS).
    fn looks_at_costs(&self) -> bool {
        true
    }

    /// True if the policy over a sample of the pages, with frames in proportion, is known to have bills in proportion
    /// without bias. [`Curves`](crate::Curves) run others on all pages, because their stated errors could be too small.
    fn has_miniature(&self) -> bool {
        false
    }

    /// Makes the policy for a number of frames, at least 1, and hands it to the host: `Ok(host.run(policy))`.
    ///
    /// # Errors
    ///
    /// If the policy cannot be made.
    fn make<'o>(&self, frames: u32, host: GuestHost<'o>) -> Result<GuestEngine<'o>, Box<dyn Error + Send + Sync>>;

    /// Does the work of a chunk of references, in which the host calls the policy many times. A guest that needs
    /// preparations for calls makes them here, once.
    fn around(&self, work: &mut dyn FnMut()) {
        work();
    }

    /// Why a policy of this guest has failed since the last call. The host asks after each chunk, and ends the pass
    /// if there is an error.
    fn take_failure(&self) -> Option<Box<dyn Error + Send + Sync>> {
        None
    }
}

/// A policy of the registry, or one from outside.
#[derive(Clone, Debug)]
pub enum SimPolicy {
    /// A policy of the registry.
    Registered(PolicySpec),
    /// A policy from outside.
    Guest(Arc<dyn GuestPolicy>),
}

impl SimPolicy {
    /// The policy of the registry, if it is one. A guest may have the name of such a policy.
    pub fn registered(&self) -> Option<&PolicySpec> {
        match self {
            SimPolicy::Registered(policy) => Some(policy),
            SimPolicy::Guest(_) => None,
        }
    }

    /// What it asks of the simulator: nothing if it is a guest, whose [host](GuestHost::run) refuses what no guest gets.
    pub fn capabilities(&self) -> Capabilities {
        match self {
            SimPolicy::Registered(policy) => policy.capabilities(),
            SimPolicy::Guest(_) => Capabilities::empty(),
        }
    }

    /// True if it needs nothing of the future.
    pub fn online(&self) -> bool {
        self.registered().is_none_or(PolicySpec::online)
    }

    /// True if costs may change its choices; otherwise one run per size serves all asymmetries.
    pub fn looks_at_costs(&self) -> bool {
        match self {
            SimPolicy::Registered(policy) => policy.looks_at_costs(),
            SimPolicy::Guest(guest) => guest.looks_at_costs(),
        }
    }

    /// An error if it is a guest of which a policy has failed since the last call.
    pub(crate) fn check(&self) -> Result<(), SimError> {
        match self {
            SimPolicy::Registered(_) => Ok(()),
            SimPolicy::Guest(guest) => check_guest(&**guest),
        }
    }

    /// True if a sample of the pages estimates its bill without bias.
    pub fn has_miniature(&self) -> bool {
        match self {
            SimPolicy::Registered(policy) => policy.has_miniature(),
            SimPolicy::Guest(guest) => guest.has_miniature(),
        }
    }
}

impl fmt::Display for SimPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimPolicy::Registered(policy) => policy.fmt(f),
            SimPolicy::Guest(guest) => f.write_str(guest.name()),
        }
    }
}

impl FromStr for SimPolicy {
    type Err = SpecError;

    /// A policy of the registry.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        text.parse().map(SimPolicy::Registered)
    }
}

impl From<PolicySpec> for SimPolicy {
    fn from(policy: PolicySpec) -> Self {
        SimPolicy::Registered(policy)
    }
}

/// Takes the policy of a [`GuestPolicy`].
pub struct GuestHost<'o>(HostKind<'o>);

/// What a host does with the policy.
enum HostKind<'o> {
    Simulator {
        setup: RunParameters,
        observer: Option<&'o mut dyn DynObserver>,
    },
    /// Only hands it over.
    Caller,
}

/// The run of a guest's policy.
pub struct GuestEngine<'o> {
    kind: EngineKind<'o>,
    asks_costs: bool,
}

enum EngineKind<'o> {
    Simulator(Box<dyn RunningEngine + 'o>),
    Policy(Box<dyn DynPolicy + Send>),
    /// The policy asks for what the host cannot give.
    Refused(&'static str),
}

impl<'o> GuestHost<'o> {
    /// Runs the policy.
    pub fn run<P: Policy + 'static>(self, policy: P) -> GuestEngine<'o> {
        let asked = policy.capabilities();
        GuestEngine { kind: self.kind_of(policy, asked), asks_costs: asked.contains(Capabilities::COSTS) }
    }

    fn kind_of<P: Policy + 'static>(self, policy: P, asked: Capabilities) -> EngineKind<'o> {
        if asked.intersects(Capabilities::OFFLINE) {
            return EngineKind::Refused("it asks for the future, of which only policies of the registry learn");
        }
        // A caller that runs the policy elsewhere asks itself.
        let counts_erases = match &self.0 {
            HostKind::Simulator { observer, .. } => observer.as_ref().is_some_and(|observer| observer.counts_erases()),
            HostKind::Caller => true,
        };
        if asked.contains(Capabilities::ERASE_COUNTS) && !counts_erases {
            return EngineKind::Refused("it asks how often blocks were erased, which only a simulated flash device reports");
        }
        match self.0 {
            HostKind::Caller => EngineKind::Policy(Box::new(policy)),
            HostKind::Simulator { setup, observer } => EngineKind::Simulator(match observer {
                None => Box::new(Engine::new(policy, NoObserver, setup)),
                Some(observer) => observed(Box::new(policy), setup, observer),
            }),
        }
    }
}

/// What a guest has made for a host, if the policy asks for nothing that it does not get.
fn accepted<'o>(guest: &dyn GuestPolicy, frames: u32, host: GuestHost<'o>) -> Result<EngineKind<'o>, SimError> {
    let made = guest.make(frames, host);
    let made = made.map_err(|source| failed(guest, source))?;
    if made.asks_costs && !guest.looks_at_costs() {
        // One run would serve all asymmetries, and have the costs of the first.
        let text = format!(
            "its policy for {frames} frames asks for costs, and the guest states that its policies do not look at costs"
        );
        return Err(failed(guest, text.into()));
    }
    match made.kind {
        EngineKind::Refused(why) => Err(failed(guest, why.into())),
        kind => Ok(kind),
    }
}

fn other_host(guest: &dyn GuestPolicy) -> SimError {
    failed(guest, "the guest has answered another host".into())
}

/// Makes the policy of a guest for a number of frames, to run it elsewhere than in the simulator.
///
/// # Errors
///
/// [`SimError::Guest`] if the policy cannot be made.
pub fn guest_policy(guest: &dyn GuestPolicy, frames: u32) -> Result<Box<dyn DynPolicy + Send>, SimError> {
    match accepted(guest, frames, GuestHost(HostKind::Caller))? {
        EngineKind::Policy(policy) => Ok(policy),
        EngineKind::Simulator(_) | EngineKind::Refused(_) => Err(other_host(guest)),
    }
}

/// An error if a policy of the guest has failed since the last call.
///
/// # Errors
///
/// [`SimError::Guest`].
pub fn check_guest(guest: &dyn GuestPolicy) -> Result<(), SimError> {
    let failure = guest.take_failure();
    failure.map_or(Ok(()), |source| Err(failed(guest, source)))
}

fn failed(guest: &dyn GuestPolicy, source: Box<dyn Error + Send + Sync>) -> SimError {
    SimError::Guest { policy: guest.name().into(), source }
}

/// The run of a guest's policy with this setup.
pub(crate) fn engine_of_guest<'o>(
    guest: &Arc<dyn GuestPolicy>,
    setup: RunParameters,
    observer: Option<&'o mut dyn DynObserver>,
) -> Result<Box<dyn RunningEngine + 'o>, SimError> {
    let frames = setup.frames;
    let host = GuestHost(HostKind::Simulator { setup, observer });
    match accepted(&**guest, frames, host)? {
        EngineKind::Simulator(engine) => Ok(Box::new(HostedEngine { engine, guest: Arc::clone(guest) })),
        EngineKind::Policy(_) | EngineKind::Refused(_) => Err(other_host(&**guest)),
    }
}

/// An engine that does its work as the guest requires.
struct HostedEngine<'o> {
    engine: Box<dyn RunningEngine + 'o>,
    guest: Arc<dyn GuestPolicy>,
}

impl RunningEngine for HostedEngine<'_> {
    fn advance(&mut self, chunk: &Chunk) {
        let engine = &mut self.engine;
        self.guest.around(&mut || engine.advance(chunk));
    }

    fn advance_sampled(&mut self, chunk: &Chunk, line: &mut TimeLine) {
        let engine = &mut self.engine;
        self.guest.around(&mut || engine.advance_sampled(chunk, line));
    }

    fn columns(&self) -> OptionalColumns {
        self.engine.columns()
    }

    fn start_counting(&mut self, pages: &[u64]) {
        self.engine.start_counting(pages);
    }

    fn finish(&mut self, pages: &[u64]) -> Counts {
        let mut counts = Counts::default();
        let engine = &mut self.engine;
        self.guest.around(&mut || counts = engine.finish(pages));
        counts
    }
}
