//! How a pool is opened.

use std::sync::Arc;
use std::time::Duration;

use ebbpool_cost::OperationCosts;
use ebbpool_policy::{DynPolicy, PolicySpec, registry};

use crate::contained::{ContainedLog, ContainedPolicy, ContainedStorage};
use crate::error::Error;
use crate::log::{Log, NoLog};
use crate::page::{HEADER_BYTES, PageFormat};
use crate::recorder::Sink;
use crate::replacement::{Event, Listener};
use crate::storage::Storage;

/// The most frames: what a policy can number.
const MOST_FRAMES: u32 = 1 << 30;

/// Longer times are as good as for ever, and no sum with one overflows.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// How a pool is to be: frames, policy, and what it promises.
///
/// ```
/// use ebbpool::{PoolOptions, storage::MemoryStorage};
///
/// let pool = PoolOptions::new(1000)
///     .policy("cfdc:cluster=64")?
///     .open(MemoryStorage::new(4096))?;
/// # Ok::<(), ebbpool::Error>(())
/// ```
#[must_use]
pub struct PoolOptions {
    pub(crate) frames: u32,
    pub(crate) policy: Chosen,
    pub(crate) format: PageFormat,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) double_write: Option<Box<dyn Storage>>,
    pub(crate) identity: u64,
    pub(crate) costs: Option<OperationCosts>,
    pub(crate) patience: Duration,
    pub(crate) dense_pages: usize,
    pub(crate) background: bool,
    pub(crate) reserve: Option<u32>,
    pub(crate) dirty_budget: f64,
    pub(crate) most_delay: Duration,
    pub(crate) throttle_at_fix: bool,
    pub(crate) max_dirty_age: Option<Duration>,
    pub(crate) read_ahead: u32,
    pub(crate) batch: u32,
    pub(crate) exact_hits: bool,
    pub(crate) listener: Option<Listener>,
    pub(crate) sink: Option<Sink>,
}

/// Where the policy comes from.
pub(crate) enum Chosen {
    Spec(PolicySpec),
    Own(Box<dyn DynPolicy + Send>),
}

/// What holds while the pool runs.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) patience: Duration,
    /// Dirty pages from which on those who make more are slowed down.
    pub(crate) dirty_budget: usize,
    /// The same where a fix for writing looks at it.
    pub(crate) dirty_budget_of_fixes: usize,
    pub(crate) most_delay: Duration,
}

impl PoolOptions {
    /// The policy of a pool that names none: as good as the best of each place within a few per cent,
    /// whatever a write costs (`docs/choosing.md`).
    pub const USUAL_POLICY: &'static str = "ebb";

    /// A pool of `frames` frames, at least one, each of a page of the storage.
    pub fn new(frames: u32) -> Self {
        PoolOptions {
            frames,
            policy: match Self::USUAL_POLICY.parse() {
                Ok(spec) => Chosen::Spec(spec),
                Err(_) => Chosen::Spec(PolicySpec::of(&registry::entries()[0])),
            },
            format: PageFormat::Checked,
            log: Arc::new(NoLog),
            double_write: None,
            identity: 0,
            costs: None,
            patience: Duration::from_secs(10),
            dense_pages: 0,
            background: true,
            reserve: None,
            dirty_budget: 0.9,
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

    /// The replacement policy, as `ebbpool policies` lists them: `cflru:window=0.5`. Without it,
    /// [`USUAL_POLICY`](Self::USUAL_POLICY).
    ///
    /// # Errors
    ///
    /// If there is no such policy, or it needs to know the future.
    pub fn policy(mut self, spec: &str) -> Result<Self, Error> {
        let spec: PolicySpec = spec
            .parse()
            .map_err(|error: ebbpool_policy::SpecError| Error::Options(error.to_string()))?;
        if !spec.online() {
            return Err(Error::Options(format!(
                "{spec} needs to know the references to come, and a pool does not"
            )));
        }
        self.policy = Chosen::Spec(spec);
        Ok(self)
    }

    /// A policy of your own, for as many frames as the pool has. If it panics, or names a victim that it does
    /// not hold, `lru` takes its place.
    pub fn own_policy(mut self, policy: impl DynPolicy + Send + 'static) -> Self {
        self.policy = Chosen::Own(Box::new(policy));
        self
    }

    /// Whether pages carry the pool's header. Without it damage is not found.
    pub fn format(mut self, format: PageFormat) -> Self {
        self.format = format;
        self
    }

    /// The write-ahead log: no page is written before the log is durable up to the page's LSN.
    pub fn log(mut self, log: Arc<dyn Log>) -> Self {
        self.log = Arc::new(ContainedLog(log));
        self
    }

    /// A storage of its own for images of pages that are about to be overwritten, from which pages
    /// torn by a crash are restored when the pool is opened. Costs a second write of each page and a
    /// sync of each batch. Without it a torn page is reported.
    pub fn double_write(mut self, area: impl Storage + 'static) -> Self {
        self.double_write = Some(Box::new(ContainedStorage(area)));
        self
    }

    /// A number of the data's own, which the double-write area keeps: the area is refused from then on
    /// for data with another identity, or with none, whose pages it would overwrite. A copy of the
    /// data keeps its identity. Data without one, 0, is to be opened with its own area by the caller's
    /// care.
    pub fn identity(mut self, identity: u64) -> Self {
        self.identity = identity;
        self
    }

    /// Tells the policy these costs of a page read and a page write, instead of those that are
    /// measured while the pool runs.
    pub fn fixed_costs(mut self, costs: OperationCosts) -> Self {
        self.costs = Some(costs);
        self
    }

    /// How long a fix waits for a latch or an unpinned frame before it fails; 10 seconds unless told.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Pages with numbers below this are found without hashing, for 4 bytes each.
    pub fn dense_pages(mut self, pages: usize) -> Self {
        self.dense_pages = pages;
        self
    }

    /// Whether threads of the pool write dirty pages before they have to make room, and read ahead.
    /// Without them nothing happens but in calls of the pool.
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// So many of the pages that have to make room next are kept clean by the background writer;
    /// 0 for none. Without it, 1/64 of the frames, 64 at most.
    pub fn clean_reserve(mut self, pages: u32) -> Self {
        self.reserve = Some(pages);
        self
    }

    /// The share of the frames that may be dirty. Beyond it the background writer writes more, and
    /// whoever makes pages dirty is slowed down: little at first, by `most_delay` each where all are
    /// dirty. 0.9 and 20 ms unless told.
    pub fn dirty_budget(mut self, share: f64, most_delay: Duration) -> Self {
        self.dirty_budget = share;
        self.most_delay = most_delay;
        self
    }

    /// Whether each fix for writing slows its caller down beyond the
    /// [`dirty_budget`](Self::dirty_budget); true unless told. A caller that fixes pages while it holds
    /// others, for which threads wait, switches this off and calls
    /// [`Pool::throttle`](crate::Pool::throttle) where it holds none.
    pub fn throttle_at_fix(mut self, throttle: bool) -> Self {
        self.throttle_at_fix = throttle;
        self
    }

    /// The loss window: a page that has been dirty for so long is written and synced by the background
    /// writer. Without it pages stay dirty until they have to make room, or a checkpoint.
    pub fn max_dirty_age(mut self, age: Duration) -> Self {
        self.max_dirty_age = Some(age);
        self
    }

    /// The most pages that are read ahead of sequential fixes, and no more than an eighth of the
    /// frames; 0 for none. 32 unless told.
    pub fn read_ahead(mut self, pages: u32) -> Self {
        self.read_ahead = pages;
        self
    }

    /// The most pages that are written in one call of the storage while they are used on; each takes
    /// a page of memory. 64 unless told.
    pub fn batch(mut self, pages: u32) -> Self {
        self.batch = pages;
        self
    }

    /// Whether the policy is told of every hit, even if it says that it need not be
    /// ([`Policy::wants_every_hit`](ebbpool_policy::Policy::wants_every_hit)). Without it such a policy, `ebb`
    /// among them, is told of a page's first hit and first write in each epoch of one miss for every 32 frames:
    /// hits take less time, and misses and writes change a little (`docs/pool.md`). With it a pool that one
    /// thread uses, with nothing in the background, decides what the simulator decides.
    pub fn exact_hits(mut self, exact: bool) -> Self {
        self.exact_hits = exact;
        self
    }

    /// Tells of each write-back and each page that leaves, in the order in which they are decided.
    /// Called under the policy's lock. A listener that panics is not called again.
    pub fn on_event(mut self, listener: impl FnMut(Event) + Send + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Tells of each fix, in order: the page, and whether for writing. Slows fixes down.
    pub fn on_fix(mut self, sink: impl FnMut(u64, bool) + Send + 'static) -> Self {
        self.sink = Some(Box::new(sink));
        self
    }

    pub(crate) fn check(&self, storage: &dyn Storage) -> Result<(), Error> {
        let page_size = storage.page_size();
        let refused = |reason: String| Err(Error::Options(reason));
        if self.frames == 0 || self.frames > MOST_FRAMES {
            return refused(format!(
                "a pool has 1 to {MOST_FRAMES} frames, not {}",
                self.frames
            ));
        }
        if !page_size.is_power_of_two() || page_size < 2 * HEADER_BYTES {
            return refused(format!(
                "pages of {page_size} bytes are not possible; a power of two from {} up is",
                2 * HEADER_BYTES
            ));
        }
        if !(0.0..=1.0).contains(&self.dirty_budget) {
            return refused(format!(
                "the dirty budget is a share of the frames, from 0 to 1, not {}",
                self.dirty_budget
            ));
        }
        if self.double_write.is_some() && self.format == PageFormat::Raw {
            return refused(
                "a double-write area needs checked pages: a torn raw page is not known for one"
                    .into(),
            );
        }
        if let Chosen::Spec(spec) = &self.policy
            && spec.asks_erase_counts()
            && storage.erases_of(0).is_none()
        {
            return refused(format!(
                "{spec} asks how often blocks were erased, and {} does not tell; a simulated flash device does",
                storage.describe()
            ));
        }
        Ok(())
    }

    pub(crate) fn limits(&self) -> Limits {
        let dirty_budget = (f64::from(self.frames) * self.dirty_budget) as usize;
        Limits {
            patience: self.patience.min(LONGEST),
            dirty_budget,
            dirty_budget_of_fixes: match self.throttle_at_fix {
                true => dirty_budget,
                false => usize::MAX,
            },
            most_delay: self.most_delay.min(LONGEST),
        }
    }

    pub(crate) fn reserve(&self) -> usize {
        self.reserve.unwrap_or((self.frames / 64).clamp(1, 64)) as usize
    }
}

impl Chosen {
    pub(crate) fn into_policy(self, frames: u32) -> Box<dyn DynPolicy + Send> {
        match self {
            Chosen::Spec(spec) => registry::boxed(&spec, frames),
            Chosen::Own(policy) => Box::new(ContainedPolicy::new(policy, frames)),
        }
    }
}
