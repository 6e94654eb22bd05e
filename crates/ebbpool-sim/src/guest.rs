//! Policies from outside the registry, such as those that a caller writes in another language.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use ebbpool_device::AnyDevice;
use ebbpool_policy::{Capabilities, DynPolicy, Foresight, Policy, PolicySpec};
use ebbpool_trace::{OptionalColumns, Source};

use crate::engine::{Chunk, Counts, Drive, Engine, Setup};
use crate::error::SimError;
use crate::listener::{DynObserver, Listener};
use crate::observer::{NoObserver, Observer};
use crate::on_device::{DeviceObserver, DeviceOutcome};
use crate::stream::{
    Progress, Sampled, SimOptions, SimOutcome, drive, online_setup, scan_for, workers,
};
use crate::time_line::TimeLine;

/// A policy from outside the registry. It knows nothing of the future, and its results are not stored, because its name
/// does not identify its code.
pub trait GuestPolicy: Send + Sync + fmt::Debug {
    /// The name in results.
    fn name(&self) -> &str;

    /// True if costs may change its choices; otherwise one run per size serves all asymmetries.
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
    fn make<'o>(
        &self,
        frames: u32,
        host: GuestHost<'o>,
    ) -> Result<GuestEngine<'o>, Box<dyn Error + Send + Sync>>;

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
        setup: Setup,
        observer: Option<&'o mut dyn DynObserver>,
        /// The observer knows how often blocks were erased.
        counts_erases: bool,
    },
    /// Only hands it over.
    Caller,
}

/// The run of a guest's policy.
pub struct GuestEngine<'o>(EngineKind<'o>);

enum EngineKind<'o> {
    Simulator(Box<dyn Drive + 'o>),
    Policy(Box<dyn DynPolicy + Send>),
    /// The policy asks for what the host cannot give.
    Refused(&'static str),
}

impl<'o> GuestHost<'o> {
    /// Runs the policy.
    pub fn run<P: Policy + 'static>(self, policy: P) -> GuestEngine<'o> {
        let asked = policy.capabilities();
        if asked.intersects(Capabilities::OFFLINE) {
            return GuestEngine(EngineKind::Refused(
                "it asks for the future, of which only policies of the registry learn",
            ));
        }
        // A caller that runs the policy elsewhere asks itself.
        let counts_erases = match self.0 {
            HostKind::Simulator { counts_erases, .. } => counts_erases,
            HostKind::Caller => true,
        };
        if asked.contains(Capabilities::ERASE_COUNTS) && !counts_erases {
            return GuestEngine(EngineKind::Refused(
                "it asks how often blocks were erased, which only a simulated flash device reports",
            ));
        }
        GuestEngine(match self.0 {
            HostKind::Caller => EngineKind::Policy(Box::new(policy)),
            HostKind::Simulator {
                setup, observer, ..
            } => EngineKind::Simulator(match observer {
                None => Box::new(Engine::new(policy, NoObserver, setup)),
                Some(observer) => Box::new(Engine::new(policy, Listener(observer), setup)),
            }),
        })
    }
}

/// Makes the policy of a guest for a number of frames, to run it elsewhere than in the simulator.
///
/// # Errors
///
/// [`SimError::Guest`] if the policy cannot be made.
pub fn guest_policy(
    guest: &dyn GuestPolicy,
    frames: u32,
) -> Result<Box<dyn DynPolicy + Send>, SimError> {
    let made = guest.make(frames, GuestHost(HostKind::Caller));
    match made.map_err(|source| failed(guest, source))? {
        GuestEngine(EngineKind::Policy(policy)) => Ok(policy),
        GuestEngine(EngineKind::Simulator(_)) => {
            Err(failed(guest, "the guest has answered another host".into()))
        }
        GuestEngine(EngineKind::Refused(why)) => Err(failed(guest, why.into())),
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
    SimError::Guest {
        policy: guest.name().into(),
        source,
    }
}

/// The run of a guest's policy with this setup.
pub(crate) fn engine_of_guest<'o>(
    guest: &Arc<dyn GuestPolicy>,
    setup: Setup,
    observer: Option<&'o mut dyn DynObserver>,
    counts_erases: bool,
) -> Result<Box<dyn Drive + 'o>, SimError> {
    let frames = setup.frames;
    let host = GuestHost(HostKind::Simulator {
        setup,
        observer,
        counts_erases,
    });
    let made = guest.make(frames, host);
    match made.map_err(|source| failed(&**guest, source))? {
        GuestEngine(EngineKind::Simulator(engine)) => Ok(Box::new(HostedEngine {
            engine,
            guest: Arc::clone(guest),
        })),
        GuestEngine(EngineKind::Policy(_)) => Err(failed(
            &**guest,
            "the guest has answered another host".into(),
        )),
        GuestEngine(EngineKind::Refused(why)) => Err(failed(&**guest, why.into())),
    }
}

/// A guest over a number of frames, with one asymmetry.
#[derive(Clone, Debug)]
pub struct GuestCell {
    /// The policy.
    pub policy: Arc<dyn GuestPolicy>,
    /// Frames, at least 1.
    pub frames: u64,
    /// Cost of a page write in page reads.
    pub asymmetry: f64,
}

/// An engine that does its work as the guest requires.
struct HostedEngine<'o> {
    engine: Box<dyn Drive + 'o>,
    guest: Arc<dyn GuestPolicy>,
}

impl Drive for HostedEngine<'_> {
    fn advance(&mut self, chunk: &Chunk) {
        let engine = &mut self.engine;
        self.guest.around(&mut || engine.advance(chunk));
    }

    fn advance_sampled(&mut self, chunk: &Chunk, line: &mut TimeLine) {
        let engine = &mut self.engine;
        self.guest
            .around(&mut || engine.advance_sampled(chunk, line));
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

impl GuestCell {
    fn engine<'o>(
        &self,
        setup: Setup,
        observer: Option<&'o mut dyn DynObserver>,
        counts_erases: bool,
    ) -> Result<Box<dyn Drive + 'o>, SimError> {
        engine_of_guest(&self.policy, setup, observer, counts_erases)
    }

    fn check(&self) -> Result<(), SimError> {
        check_guest(&*self.policy)
    }
}

/// What a pass yields for each cell besides its counts: the time line, and the device's outcome if there is a device.
pub type GuestExtras = (TimeLine, Option<DeviceOutcome>);

/// Runs guests through one pass of the trace, each on a copy of `device` if there is one, whose costs overrule the
/// asymmetries. Returns the counts of each cell, its time line, and its device's outcome, in the order given.
///
/// # Errors
///
/// [`SimError::Guest`] if a guest cannot make its policy or a policy fails, unless the caller has stopped the pass: a guest may
/// end a call because of that, and then the error is [`SimError::Interrupted`]. Otherwise as [`simulate`](crate::simulate).
pub fn simulate_guests(
    source: &Source,
    cells: &[GuestCell],
    device: Option<&AnyDevice>,
    options: &SimOptions,
    progress: &Progress,
) -> Result<(SimOutcome, Vec<GuestExtras>), SimError> {
    let passed = pass_of_guests(source, cells, device, options, progress);
    passed.map_err(|error| match error {
        SimError::Guest { .. } if progress.stopped() => SimError::Interrupted,
        error => error,
    })
}

fn pass_of_guests(
    source: &Source,
    cells: &[GuestCell],
    device: Option<&AnyDevice>,
    options: &SimOptions,
    progress: &Progress,
) -> Result<(SimOutcome, Vec<GuestExtras>), SimError> {
    let frames = cells.iter().map(|cell| cell.frames).max();
    let scan = scan_for(
        source,
        Foresight::Nothing,
        frames.unwrap_or_default(),
        progress,
    )?;
    let setup = |cell: &GuestCell| online_setup(cell.frames, cell.asymmetry, options, &scan);
    let workers = workers(options.threads)?;
    let pass = |engines: Vec<Box<dyn Drive + '_>>| {
        let ahead = vec![false; engines.len()];
        let check = || cells.iter().try_for_each(GuestCell::check);
        drive(
            source, &scan, engines, &ahead, &workers, options, progress, check,
        )
    };
    if let Some(device) = device {
        let served = |_| DeviceObserver::new(device.clone(), options.rate, TimeLine::default());
        let mut served: Vec<DeviceObserver<TimeLine>> = cells.iter().map(served).collect();
        let counts_erases = matches!(device, AnyDevice::Flash(_));
        let engines = cells.iter().zip(&mut served);
        let engines =
            engines.map(|(cell, served)| cell.engine(setup(cell), Some(served), counts_erases));
        let outcome = pass(engines.collect::<Result<_, _>>()?)?;
        let extras = served.into_iter().zip(&outcome.counts);
        let extras = extras.map(|(served, counts)| {
            let (of_device, line) = served.finish(counts, options.at_end);
            (line, Some(of_device))
        });
        let extras = extras.collect();
        return Ok((outcome, extras));
    }
    let mut lines: Vec<TimeLine> = cells.iter().map(|_| TimeLine::default()).collect();
    if options.warmup == 0 {
        lines.iter_mut().for_each(Observer::counting);
    }
    let engines = cells.iter().zip(&mut lines).map(|(cell, line)| {
        let engine = cell.engine(setup(cell), None, false)?;
        Ok(Box::new(Sampled { engine, line }) as Box<dyn Drive + '_>)
    });
    let outcome = pass(engines.collect::<Result<_, SimError>>()?)?;
    Ok((
        outcome,
        lines.into_iter().map(|line| (line, None)).collect(),
    ))
}
