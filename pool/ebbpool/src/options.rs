//! The options with which a pool is opened.

use std::sync::Arc;
use std::time::Duration;

use ebbpool_cost::OperationCosts;
use ebbpool_policy::{Capabilities, DynPolicy, PageClass, PolicySpec, registry};

use crate::callback::Callback;
use crate::contained::{ContainedLog, ContainedPolicy, ContainedStorage, contained};
use crate::error::{OptionsError, PoolError};
use crate::frames::Frames;
use crate::log::{Log, NoLog};
use crate::page::{HEADER_BYTES, PageFormat};
use crate::recorder::FixSink;
use crate::replacement::{Listener, ReplacementEvent};
use crate::storage::Storage;
use crate::sync::{AtomicUsize, Ordering};

/// The most frames of a pool: a policy cannot number more.
const MOST_FRAMES: u32 = 1 << 30;

/// The dirty budget of a pool that sets none, as a share of the frames. A pool of fewer than 320 frames leaves 64, but no
/// more than half, so that the background writer can write several pages at a time. In a pool of fewer than 64 frames it
/// could not, and the pool has no budget.
const USUAL_BUDGET: f64 = 0.8;
const USUAL_ROOM: usize = 64;

/// The longest time limit. No sum with it overflows.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The options of a pool: frames, policy, log, and guarantees.
///
/// ```
/// use ebbpool::{PoolOptions, storage::MemoryStorage};
///
/// let pool = PoolOptions::new(1000)
///     .policy("cfdc:cluster=64")?
///     .open(MemoryStorage::new(4096))?;
/// # Ok::<(), ebbpool::PoolError>(())
/// ```
#[must_use]
pub struct PoolOptions {
    pub(crate) frames: u32,
    pub(crate) most_frames: Option<u32>,
    pub(crate) policy: PolicyChoice,
    pub(crate) format: PageFormat,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) double_write: Option<Box<dyn Storage>>,
    pub(crate) identity: u64,
    pub(crate) padding_at_risk: bool,
    pub(crate) costs: Option<OperationCosts>,
    pub(crate) patience: Duration,
    pub(crate) dense_pages: usize,
    pub(crate) most_pages: Option<u64>,
    pub(crate) background: bool,
    pub(crate) reserve: Option<u32>,
    pub(crate) dirty_budget: Option<f64>,
    pub(crate) most_delay: Duration,
    pub(crate) throttle_at_fix: bool,
    pub(crate) max_dirty_age: Option<Duration>,
    pub(crate) read_ahead: u32,
    pub(crate) batch: u32,
    pub(crate) exact_hits: bool,
    pub(crate) listener: Option<Listener>,
    pub(crate) sink: Option<FixSink>,
}

/// The policy: one of the registry, or the caller's own.
pub(crate) enum PolicyChoice {
    Spec(PolicySpec),
    Own(OwnPolicy),
}

/// A policy of the caller, and what it says that it asks and does.
pub(crate) struct OwnPolicy {
    policy: Box<dyn DynPolicy + Send>,
    /// The message of its panic where it could not say it.
    capabilities: Result<Capabilities, String>,
}

/// The limits of a running pool.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) patience: Duration,
    /// The dirty budget as a share of the frames, if the caller has set one.
    budget: Option<f64>,
    throttles_fixes: bool,
    dirty_budget: AtomicUsize,
    dirty_budget_of_fixes: AtomicUsize,
    /// Blocks are written whole for a policy that says so.
    pub(crate) pads: bool,
    /// Numbers from there on are those of no page.
    pub(crate) most_pages: Option<u64>,
}

impl Limits {
    /// From now on the pool has that many frames.
    pub(crate) fn set_frames(&self, frames: u32) {
        let share = |share: f64| (f64::from(frames) * share) as usize;
        let frames = frames as usize;
        let budget = match self.budget {
            Some(budget) => share(budget),
            None if frames < USUAL_ROOM => frames,
            None => share(USUAL_BUDGET).min(frames - USUAL_ROOM.min(frames / 2)),
        };
        self.dirty_budget.store(budget, Ordering::Relaxed);
        let of_fixes = if self.throttles_fixes { budget } else { usize::MAX };
        self.dirty_budget_of_fixes.store(of_fixes, Ordering::Relaxed);
    }

    /// The number of dirty pages above which threads that make pages dirty are slowed down.
    pub(crate) fn dirty_budget(&self) -> usize {
        self.dirty_budget.load(Ordering::Relaxed)
    }

    /// The number of dirty pages above which fixes for writing are slowed down; `usize::MAX` if they never are.
    #[inline]
    pub(crate) fn dirty_budget_of_fixes(&self) -> usize {
        self.dirty_budget_of_fixes.load(Ordering::Relaxed)
    }

    /// The number of frames beyond the dirty budget, at least 1.
    pub(crate) fn room(&self, frames: &Frames) -> usize {
        let frames = frames.count() as usize;
        frames.saturating_sub(self.dirty_budget()).max(1)
    }

    /// True if there is a budget, and no more clean pages than the background writer may leave: twice the frames beyond
    /// the budget.
    pub(crate) fn is_near_budget(&self, frames: &Frames) -> bool {
        let budget = self.dirty_budget();
        budget < frames.count() as usize && frames.dirty().count() + self.room(frames) > budget
    }
}

impl PoolOptions {
    /// The policy of a pool that names none: within a few per cent of the best policy of each workload, whatever a
    /// write costs (`docs/choosing.md`).
    pub const USUAL_POLICY: &'static str = "ebb";

    /// A pool of `frames` frames, at least one. Each frame holds one page of the storage.
    pub fn new(frames: u32) -> Self {
        PoolOptions {
            frames,
            most_frames: None,
            policy: match Self::USUAL_POLICY.parse() {
                Ok(spec) => PolicyChoice::Spec(spec),
                Err(_) => PolicyChoice::Spec(PolicySpec::from_entry(&registry::entries()[0])),
            },
            format: PageFormat::Checked,
            log: Arc::new(NoLog),
            double_write: None,
            identity: 0,
            padding_at_risk: false,
            costs: None,
            patience: Duration::from_secs(10),
            dense_pages: 0,
            most_pages: None,
            background: true,
            reserve: None,
            dirty_budget: None,
            most_delay: Duration::from_millis(20),
            throttle_at_fix: true,
            max_dirty_age: None,
            read_ahead: 32,
            batch: 64,
            exact_hits: false,
            listener: None,
            sink: None,
        }
    }

    /// The replacement policy, as `ebbpool policies` lists them: `cflru:window=0.5`.
    /// [`USUAL_POLICY`](Self::USUAL_POLICY) by default.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// let options = PoolOptions::new(100).policy("cflru:window=0.3")?;
    /// assert!(PoolOptions::new(100).policy("cflru:windw=0.3").is_err());
    /// # options.open(MemoryStorage::new(4096))?.close()?;
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no such policy, if it needs to know the future, or if its parameters ask for checkpoints, which a pool makes
    /// itself.
    pub fn policy(mut self, spec: &str) -> Result<Self, PoolError> {
        let spec: PolicySpec = spec.parse().map_err(OptionsError::from)?;
        let policy = spec.to_string();
        if !spec.online() {
            return Err(OptionsError::Offline { policy }.into());
        }
        let capabilities = registry::boxed(&spec, 1).capabilities();
        if capabilities.contains(Capabilities::CHECKPOINTS) {
            return Err(OptionsError::Checkpoints { policy }.into());
        }
        self.policy = PolicyChoice::Spec(spec);
        Ok(self)
    }

    /// A policy of your own, for the pool's number of frames. If it panics, or names a victim that it does not hold,
    /// `lru` takes its place. The pool calls the methods whose capabilities it declares, and forgets ghosts with numbers above
    /// 1,024 and 64 for each frame.
    pub fn own_policy(self, policy: impl DynPolicy + Send + 'static) -> Self {
        self.own_boxed_policy(Box::new(policy))
    }

    /// A policy of your own whose type is known at run time only; the pool treats it as [`own_policy`](Self::own_policy) says.
    pub fn own_boxed_policy(mut self, policy: Box<dyn DynPolicy + Send>) -> Self {
        let capabilities = contained("the policy", || policy.capabilities());
        self.policy = PolicyChoice::Own(OwnPolicy { policy, capabilities });
        self
    }

    /// Whether pages carry the pool's header. Without it the pool does not find damage.
    pub fn format(mut self, format: PageFormat) -> Self {
        self.format = format;
        self
    }

    /// The write-ahead log: no page is written before the log is durable up to the page's LSN.
    pub fn log(mut self, log: Arc<dyn Log>) -> Self {
        self.log = Arc::new(ContainedLog(log));
        self
    }

    /// A separate storage for images of pages that are about to be overwritten. When the pool is opened, it restores
    /// pages that a crash tore from these images. This costs a second write of each page and a sync of each batch.
    /// Without it a torn page is reported as damaged.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// let area = MemoryStorage::new(4096);
    /// let options = PoolOptions::new(100).double_write(area).identity(7);
    /// # options.open(MemoryStorage::new(4096))?.close()?;
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn double_write(mut self, area: impl Storage + 'static) -> Self {
        self.double_write = Some(Box::new(ContainedStorage(area)));
        self
    }

    /// A number that identifies the data, which the double-write area stores. From then on the area refuses data with
    /// another identity, or with none, because it would overwrite their pages. A copy of the data has the same
    /// identity. The identity 0 stands for none: then the caller has to make sure that data and area belong together.
    pub fn identity(mut self, identity: u64) -> Self {
        self.identity = identity;
        self
    }

    /// Whether a policy may write blocks whole (`bplru:padding=true`) without a double-write area; false by default.
    /// Then a crash may damage pages that no caller has changed, and that no log can restore. This is for measurements
    /// and for storages that survive no crash. Without the option such a policy is refused, and a policy of your own
    /// does not have its blocks written whole.
    pub fn padding_at_risk(mut self, allowed: bool) -> Self {
        self.padding_at_risk = allowed;
        self
    }

    /// Reports these costs of a page read and a page write to the policy, instead of costs that the pool measures
    /// while it runs.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// use ebbpool::{OperationCosts, Unit};
    ///
    /// let flash = OperationCosts { read: 25.0, write: 200.0, unit: Unit::Microseconds };
    /// let options = PoolOptions::new(100).fixed_costs(flash);
    /// # options.open(MemoryStorage::new(4096))?.close()?;
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn fixed_costs(mut self, costs: OperationCosts) -> Self {
        self.costs = Some(costs);
        self
    }

    /// How long a fix waits for a latch or an unpinned frame before it fails; 10 seconds by default.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// let options = PoolOptions::new(100).patience(Duration::from_secs(2));
    /// # options.open(MemoryStorage::new(4096))?.close()?;
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Pages with numbers below this are found without hashing, which takes 4 bytes of memory for each.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// let options = PoolOptions::new(100).dense_pages(50_000);
    /// # options.open(MemoryStorage::new(4096))?.close()?;
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn dense_pages(mut self, pages: usize) -> Self {
        self.dense_pages = pages;
        self
    }

    /// Lets [`Pool::resize`](crate::Pool::resize) change the number of frames, up to this one. The pool reserves the addresses of the
    /// frames, and memory of about 70 bytes for each. The storage does not register the frames with the kernel then.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// let pool = PoolOptions::new(100).most_frames(1000).open(MemoryStorage::new(4096))?;
    /// pool.resize(400)?;
    /// assert_eq!(pool.frames(), 400);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn most_frames(mut self, frames: u32) -> Self {
        self.most_frames = Some(frames);
        self
    }

    /// The most pages that the storage may have: a fix of a page from this number on fails, and so does growth beyond it. Without
    /// this option every number is that of a page, also one that a damaged pointer has.
    ///
    /// ```
    /// # use ebbpool::{PoolError, PoolOptions, storage::MemoryStorage};
    /// let pool = PoolOptions::new(100).most_pages(1 << 20).open(MemoryStorage::new(4096))?;
    /// assert!(matches!(pool.fix_read(1 << 20), Err(PoolError::NoPage { .. })));
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn most_pages(mut self, pages: u64) -> Self {
        self.most_pages = Some(pages);
        self
    }

    /// Whether the pool has threads of its own, which write dirty pages before they are evicted, and read ahead.
    /// Without them the pool works only in its callers' threads.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// let options = PoolOptions::new(100).background(false);
    /// # options.open(MemoryStorage::new(4096))?.close()?;
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// The background writer keeps this number of the next victims clean; 0 for none. By default 1/64 of the frames,
    /// at least 1 and at most 64.
    pub fn clean_reserve(mut self, pages: u32) -> Self {
        self.reserve = Some(pages);
        self
    }

    /// The share of the frames that may be dirty. Beyond it the background writer writes, and fixes that make further
    /// pages dirty wait, so that together they are no faster than the writer: a little at first, and by at most
    /// `most_delay` each when all frames are dirty. No fix waits while a page is written within 200 µs.
    ///
    /// By default 20 ms and 0.8 of the frames, or fewer, so that 64 frames remain in a pool of 128 to 320 frames, and
    /// half of the frames in one of 64 to 128. A smaller pool has no budget.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// let options = PoolOptions::new(1000).dirty_budget(0.5, Duration::from_millis(5));
    /// # options.open(MemoryStorage::new(4096))?.close()?;
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn dirty_budget(mut self, share: f64, most_delay: Duration) -> Self {
        self.dirty_budget = Some(share);
        self.most_delay = most_delay;
        self
    }

    /// Whether each fix for writing slows its caller down beyond the [`dirty_budget`](Self::dirty_budget); true by
    /// default. A caller that fixes pages while it holds others, for which threads wait, switches this off and calls
    /// [`Pool::throttle`](crate::Pool::throttle) where it holds none.
    pub fn throttle_at_fix(mut self, throttle: bool) -> Self {
        self.throttle_at_fix = throttle;
        self
    }

    /// The loss window: the background writer writes and syncs a page that has been dirty for this long. Without it
    /// pages stay dirty until they are evicted, flushed or written by a checkpoint. It has no effect in a pool
    /// [without a background writer](Self::background).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// let options = PoolOptions::new(100).max_dirty_age(Duration::from_secs(30));
    /// # options.open(MemoryStorage::new(4096))?.close()?;
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn max_dirty_age(mut self, age: Duration) -> Self {
        self.max_dirty_age = Some(age);
        self
    }

    /// The most pages that are read ahead of sequential fixes, and no more than an eighth of the frames; 0 for none.
    /// 32 by default.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// let options = PoolOptions::new(1000).read_ahead(16);
    /// # options.open(MemoryStorage::new(4096))?.close()?;
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn read_ahead(mut self, pages: u32) -> Self {
        self.read_ahead = pages;
        self
    }

    /// The most pages that are written in one call of the storage while callers go on using them; each takes a page
    /// of memory. 64 by default.
    pub fn batch(mut self, pages: u32) -> Self {
        self.batch = pages;
        self
    }

    /// Whether every hit is reported to the policy, even if it does not need that
    /// ([`Capabilities::LEAVES_HITS_OUT`]). Without this option only a page's
    /// first hit and first write in each epoch are reported to such a policy, `ebb` among them. An epoch is as long
    /// as one miss for every 32 frames. Hits then take less time, and misses and writes change a little
    /// (`docs/pool.md`). With this option a pool that one thread uses, without background threads, decides what the
    /// simulator decides.
    pub fn exact_hits(mut self, exact: bool) -> Self {
        self.exact_hits = exact;
        self
    }

    /// Calls `listener` for each write-back and each eviction, in the order in which they are decided. The pool calls
    /// it under the policy's lock: most calls of the pool fail there with [`PoolError::InCallback`]. A listener that panics is not
    /// called again.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// let options = PoolOptions::new(100).on_event(|event| println!("{event:?}"));
    /// # options.open(MemoryStorage::new(4096))?.close()?;
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn on_event(mut self, listener: impl FnMut(ReplacementEvent) + Send + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Calls `sink` for each fix, in order, with the page and whether it is fixed for writing. This slows fixes down. A fix by
    /// `sink` itself fails with [`PoolError::InCallback`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// let options = PoolOptions::new(100).on_fix(|page, write| println!("{page} {write}"));
    /// # options.open(MemoryStorage::new(4096))?.close()?;
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn on_fix(self, mut sink: impl FnMut(u64, bool) + Send + 'static) -> Self {
        self.on_classed_fix(move |page, write, _| sink(page, write))
    }

    /// Calls `sink` for each fix, in order, with the page, whether it is fixed for writing, and the page's class, which is
    /// [`UNKNOWN_CLASS`](crate::policy::UNKNOWN_CLASS) where the caller does not [state](crate::Pool::of_class) it. This slows
    /// fixes down.
    pub fn on_classed_fix(mut self, sink: impl FnMut(u64, bool, PageClass) + Send + 'static) -> Self {
        self.sink = Some(Box::new(sink));
        self
    }

    /// The name and value of each option, for a test that the simulation draws all of them: an option that is added has to
    /// be listed here.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn named_values(&self) -> Vec<(&'static str, String)> {
        let PoolOptions {
            frames,
            most_frames,
            policy,
            format,
            log,
            double_write,
            identity,
            padding_at_risk,
            costs,
            patience,
            dense_pages,
            most_pages,
            background,
            reserve,
            dirty_budget,
            most_delay,
            throttle_at_fix,
            max_dirty_age,
            read_ahead,
            batch,
            exact_hits,
            listener,
            sink,
        } = self;
        let policy = match policy {
            PolicyChoice::Spec(spec) => spec.to_string(),
            PolicyChoice::Own(_) => "the caller's own".to_string(),
        };
        vec![
            ("frames", frames.to_string()),
            ("most_frames", format!("{most_frames:?}")),
            ("policy", policy),
            ("format", format!("{format:?}")),
            ("log", (log.durable_lsn() != crate::Lsn::MAX).to_string()),
            ("double_write", double_write.is_some().to_string()),
            ("identity", identity.to_string()),
            ("padding_at_risk", padding_at_risk.to_string()),
            ("costs", format!("{costs:?}")),
            ("patience", format!("{patience:?}")),
            ("dense_pages", dense_pages.to_string()),
            ("most_pages", format!("{most_pages:?}")),
            ("background", background.to_string()),
            ("reserve", format!("{reserve:?}")),
            ("dirty_budget", format!("{dirty_budget:?}")),
            ("most_delay", format!("{most_delay:?}")),
            ("throttle_at_fix", throttle_at_fix.to_string()),
            ("max_dirty_age", format!("{max_dirty_age:?}")),
            ("read_ahead", read_ahead.to_string()),
            ("batch", batch.to_string()),
            ("exact_hits", exact_hits.to_string()),
            ("listener", listener.is_some().to_string()),
            ("sink", sink.is_some().to_string()),
        ]
    }

    pub(crate) fn check(&self, storage: &dyn Storage) -> Result<(), PoolError> {
        let bytes = storage.page_size();
        let (most, least) = (MOST_FRAMES, 2 * HEADER_BYTES);
        let frames = self.frames;
        if frames == 0 || frames > most {
            return Err(OptionsError::Frames { frames, most }.into());
        }
        if let Some(at_most) = self.most_frames.filter(|at_most| !(frames..=most).contains(at_most)) {
            return Err(OptionsError::MostFrames { most: at_most, frames }.into());
        }
        if !bytes.is_power_of_two() || bytes < least {
            return Err(OptionsError::PageSize { bytes, least }.into());
        }
        if let Some(share) = self.dirty_budget
            && !(0.0..=1.0).contains(&share)
        {
            return Err(OptionsError::DirtyBudget(share).into());
        }
        if self.double_write.is_some() && self.format == PageFormat::Raw {
            return Err(OptionsError::RawDoubleWrite.into());
        }
        Ok(self.check_policy(storage)?)
    }

    /// An error if the policy asks for what the pool cannot give, or does what it must not.
    fn check_policy(&self, storage: &dyn Storage) -> Result<(), OptionsError> {
        let asked = self.policy.capabilities();
        let asked = asked.map_err(OptionsError::PolicyPanicked)?;
        let policy = self.policy.to_string();
        if asked.intersects(Capabilities::OFFLINE) {
            return Err(OptionsError::Offline { policy });
        }
        if asked.contains(Capabilities::CHECKPOINTS) {
            return Err(OptionsError::Checkpoints { policy });
        }
        if asked.contains(Capabilities::ERASE_COUNTS) && storage.erases_of(0).is_none() {
            let storage = storage.describe();
            return Err(OptionsError::EraseCounts { policy, storage });
        }
        if self.most_frames.is_some() && !asked.contains(Capabilities::RESIZES) {
            return Err(OptionsError::Resize { policy });
        }
        if asked.contains(Capabilities::PADDING) && !self.pads() {
            return Err(OptionsError::Padding { policy });
        }
        Ok(())
    }

    /// True if blocks are written whole for a policy that says so: an image restores a page that is torn then.
    fn pads(&self) -> bool {
        self.double_write.is_some() || self.padding_at_risk
    }

    pub(crate) fn limits(&self) -> Limits {
        let limits = Limits {
            pads: self.pads(),
            most_pages: self.most_pages,
            patience: self.patience.min(LONGEST),
            budget: self.dirty_budget,
            throttles_fixes: self.throttle_at_fix,
            dirty_budget: AtomicUsize::new(0),
            dirty_budget_of_fixes: AtomicUsize::new(0),
        };
        limits.set_frames(self.frames);
        limits
    }

    /// The longest delay of one fix.
    pub(crate) fn most_delay(&self) -> Duration {
        self.most_delay.min(LONGEST)
    }
}

impl std::fmt::Display for PolicyChoice {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PolicyChoice::Spec(spec) => spec.fmt(out),
            PolicyChoice::Own(_) => out.write_str("the caller's own policy"),
        }
    }
}

impl PolicyChoice {
    /// What the policy asks and does, or why it cannot say it.
    fn capabilities(&self) -> Result<Capabilities, String> {
        match self {
            PolicyChoice::Spec(spec) => Ok(registry::boxed(spec, 1).capabilities()),
            PolicyChoice::Own(own) => own.capabilities.clone(),
        }
    }

    /// `None` if there is no memory for what the pool notes about the caller's policy.
    pub(crate) fn into_policy(self, frames: u32, callback: &Arc<Callback>) -> Option<Box<dyn DynPolicy + Send>> {
        Some(match self {
            PolicyChoice::Spec(spec) => registry::boxed(&spec, frames),
            PolicyChoice::Own(OwnPolicy { policy, capabilities }) => {
                let capabilities = capabilities.unwrap_or(Capabilities::empty());
                Box::new(ContainedPolicy::new(policy, capabilities, frames, Arc::clone(callback))?)
            }
        })
    }
}
