//! The options of a pool: each life draws all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ebbpool::{Log, PageFormat, PoolOptions};
use ebbpool_cost::{OperationCosts, Unit};
use ebbpool_policy::{Capabilities, UNKNOWN_CLASS, registry};
use ebbpool_simulation::Random;

use crate::case::{Case, Kind, STRAY, class_of};
use crate::policies::{draw, spec};

/// The options of one life, apart from those that belong to the files ([`Case`]).
#[derive(Clone, Debug)]
pub struct LifeOptions {
    pub policy: String,
    /// The policy is passed as one of the caller's own.
    pub own: bool,
    pub padding_at_risk: bool,
    pub frames: u32,
    /// The number of frames may change, up to this one.
    pub most_frames: Option<u32>,
    pub batch: u32,
    pub background: bool,
    pub read_ahead: u32,
    pub reserve: Option<u32>,
    pub budget: Option<(f64, Duration)>,
    pub throttle_at_fix: bool,
    pub max_dirty_age: Option<Duration>,
    pub dense_pages: usize,
    pub most_pages: Option<u64>,
    pub patience: Duration,
    pub fixed_costs: bool,
    pub exact_hits: bool,
    /// The listener panics at this event, counted from 1.
    pub listener_panics: Option<u64>,
    /// A sink receives all fixes.
    pub counts_fixes: bool,
}

impl LifeOptions {
    /// Options with which nothing happens in the background.
    pub fn calm() -> Self {
        LifeOptions {
            policy: "lru".into(),
            own: false,
            padding_at_risk: false,
            frames: 8,
            most_frames: None,
            batch: 2,
            background: false,
            read_ahead: 0,
            reserve: Some(0),
            budget: Some((1.0, Duration::ZERO)),
            throttle_at_fix: true,
            max_dirty_age: None,
            dense_pages: 0,
            most_pages: None,
            patience: Duration::from_secs(10),
            fixed_costs: true,
            exact_hits: false,
            listener_panics: None,
            counts_fixes: false,
        }
    }

    /// The same options, each with one of them as in [`calm`](Self::calm).
    pub fn calmer(&self) -> Vec<Self> {
        let calm = LifeOptions::calm();
        let with = |change: fn(&mut LifeOptions, LifeOptions)| {
            let mut options = self.clone();
            change(&mut options, calm.clone());
            options
        };
        let mut calmer = vec![
            with(|it, calm| it.policy = calm.policy),
            with(|it, calm| it.own = calm.own),
            with(|it, calm| it.most_frames = calm.most_frames),
            with(|it, calm| it.background = calm.background),
            with(|it, calm| it.read_ahead = calm.read_ahead),
            with(|it, calm| it.reserve = calm.reserve),
            with(|it, calm| it.budget = calm.budget),
            with(|it, calm| it.max_dirty_age = calm.max_dirty_age),
            with(|it, calm| it.dense_pages = calm.dense_pages),
            with(|it, calm| it.most_pages = calm.most_pages),
            with(|it, calm| it.exact_hits = calm.exact_hits),
            with(|it, calm| it.listener_panics = calm.listener_panics),
            with(|it, calm| it.counts_fixes = calm.counts_fixes),
        ];
        let own = format!("{self:?}");
        calmer.retain(|options| format!("{options:?}") != own);
        calmer
    }

    pub fn new(random: &mut Random, case: &Case, policies: &[String]) -> Self {
        let count = case.pages.len() as u64;
        let frames = match case.kind {
            Kind::OneHome => count as u32 + random.below(20) as u32,
            Kind::Landing => 1 + random.below(4) as u32,
            Kind::Sweep => 2 + random.below(5) as u32,
            _ if random.one_in(6) => 24 + random.below(60) as u32,
            _ => 1 + random.below(16) as u32,
        };
        let pads = random.pick(&["bplru:block=4,padding=true", "bplru:block=2,padding=true", "bplru:block=8,padding=true"]);
        let policy = match case.kind {
            // Pages of a block that no caller has changed are at risk where writes tear pages.
            Kind::Torn if random.one_in(2) => pads.into(),
            Kind::Resizing => random.pick(&["lru", "ebb", "cflru", "clock"]).into(),
            _ => draw(random, policies),
        };
        let resizes = registry::boxed(&spec(&policy), frames).capabilities().contains(Capabilities::RESIZES);
        LifeOptions {
            most_frames: (resizes && (case.kind == Kind::Resizing || !random.one_in(3)))
                .then(|| frames + random.below(12) as u32),
            policy,
            own: random.one_in(10),
            padding_at_risk: random.one_in(8),
            frames,
            batch: 1 + random.below(4) as u32,
            background: random.one_in(2),
            read_ahead: random.pick(&[0, 4, 32]),
            reserve: random.pick(&[Some(0), Some(1), Some(2), Some(frames), Some(u32::MAX), None]),
            budget: random.pick(&[None, Some(0.25), Some(0.5), Some(0.9), Some(1.0)]).map(|share| {
                let delay = random.pick(&[0, 50, 20_000]);
                (share, Duration::from_micros(delay))
            }),
            throttle_at_fix: !random.one_in(4),
            max_dirty_age: match case.kind {
                Kind::Window => Some(Duration::from_millis(random.pick(&[1, 10, 100, 400]))),
                _ => random.one_in(4).then(|| match random.below(6) {
                    0 => Duration::ZERO,
                    1 => Duration::MAX,
                    _ => Duration::from_millis(random.pick(&[1, 10, 200])),
                }),
            },
            dense_pages: random.pick(&[0, 0, 4, 64]),
            most_pages: case.bounded.then_some(STRAY),
            patience: match random.below(40) {
                0 => Duration::from_secs(1 << 40),
                1..12 => Duration::MAX,
                _ => Duration::from_secs(10),
            },
            fixed_costs: random.one_in(2),
            exact_hits: random.one_in(6),
            listener_panics: random.one_in(8).then(|| 1 + random.below(20)),
            counts_fixes: random.one_in(3),
        }
    }

    /// True if a crash may damage pages that no caller has changed.
    pub fn puts_pages_at_risk(&self, case: &Case) -> bool {
        spec(&self.policy).pads() && !case.area
    }

    /// True if the pool refuses to open with these options, since a crash could damage pages that no caller has changed.
    pub fn is_at_risk(&self, case: &Case) -> bool {
        self.puts_pages_at_risk(case) && !self.padding_at_risk
    }

    /// The options of the pool, except for a double-write area. `noted` counts the fixes that the sink receives.
    pub fn for_pool(&self, case: &Case, log: Option<Arc<dyn Log>>, noted: &Arc<AtomicU64>) -> PoolOptions {
        let mut pool = PoolOptions::new(self.frames)
            .background(self.background)
            .batch(self.batch)
            .read_ahead(self.read_ahead)
            .throttle_at_fix(self.throttle_at_fix)
            .dense_pages(self.dense_pages)
            .identity(case.identity)
            .padding_at_risk(self.padding_at_risk)
            .exact_hits(self.exact_hits)
            .patience(self.patience);
        if let Some(most) = self.most_frames {
            pool = pool.most_frames(most);
        }
        if let Some(most) = self.most_pages {
            pool = pool.most_pages(most);
        }
        pool = match self.own {
            true => pool.own_boxed_policy(registry::boxed(&spec(&self.policy), self.frames)),
            false => pool.policy(&self.policy).expect("the policy is known"),
        };
        if let Some(reserve) = self.reserve {
            pool = pool.clean_reserve(reserve);
        }
        if let Some((share, most_delay)) = self.budget {
            pool = pool.dirty_budget(share, most_delay);
        }
        if let Some(log) = log {
            pool = pool.log(log);
        }
        if let Some(mut events) = self.listener_panics {
            pool = pool.on_event(move |_| {
                events -= 1;
                assert!(events > 0, "the listener panics, as the script says");
            });
        }
        if case.raw {
            pool = pool.format(PageFormat::Raw);
        }
        if let Some(age) = self.max_dirty_age {
            pool = pool.max_dirty_age(age);
        }
        if self.fixed_costs {
            pool = pool.fixed_costs(OperationCosts { read: 1.0, write: 8.0, unit: Unit::PageReads });
        }
        if self.counts_fixes {
            let (noted, classes) = (Arc::clone(noted), case.classes);
            pool = pool.on_classed_fix(move |page, _, class| {
                // A page that is being allocated has no class yet.
                let expected = [class_of(page, classes), UNKNOWN_CLASS];
                assert!(expected.contains(&class), "page {page} has class {class}");
                noted.fetch_add(1, Ordering::Relaxed);
            });
        }
        pool
    }
}
