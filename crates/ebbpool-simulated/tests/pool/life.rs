//! A run: several lives of the pool, one after the other, each of which begins with a recovery.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebbpool::storage::{DiskOperation, Fault, FaultyDisk, page_lsn};
use ebbpool::{Log, PageFormat, PoolError, PoolOptions};
use ebbpool_cost::{OperationCosts, Unit};
use ebbpool_simulation::thread;

use crate::case::{Case, Life};
use crate::client::{LifeState, PowerIsOff};
use crate::disk::{FaultLog, FaultRates, FaultyFileStorage, PageMap};
use crate::model::{Content, Model, Tally};
use crate::wal::Wal;

/// The state that lasts from life to life.
pub struct World {
    pub case: Arc<Case>,
    pub disk: FaultyDisk,
    pub model: Arc<Model>,
    page_map: Option<Arc<PageMap>>,
    scans: Arc<Mutex<Vec<ebbpool::PoolScan>>>,
}

pub fn run(case: &Arc<Case>) -> Tally {
    let world = World {
        case: Arc::clone(case),
        disk: FaultyDisk::new(case.seed),
        model: Arc::new(Model::new(case.logged && !case.raw)),
        page_map: case.scattered.then(Arc::default),
        scans: Arc::default(),
    };
    for life in 0..case.lives.len() {
        // The next life follows also after an interrupted one.
        let _ = world.live(life);
        world.crash(case.lives[life].crash_seed);
    }
    let _ = world.check_after_all_lives();
    world.tally()
}

impl World {
    fn tally(&self) -> Tally {
        self.model.state().tally
    }

    fn crash(&self, seed: u64) {
        if let Some(violation) = self.disk.violations().first() {
            panic!("{violation}");
        }
        self.disk.heal();
        self.disk.crash(seed);
        self.disk.restart();
        self.model.state().tally.crashes += 1;
    }

    fn live(&self, life: usize) -> Result<(), PowerIsOff> {
        let options = &self.case.lives[life];
        if let Some(at) = options.crash_at {
            let crash = Fault::crash(DiskOperation::Change, options.crash_seed);
            self.disk.inject(crash.nth(at));
        }
        let faults = Arc::new(FaultLog::default());
        let shared = Arc::new(self.open(life, options, &faults)?);
        shared.recover(life == 0)?;
        faults.armed.store(true, Ordering::SeqCst);
        let clients = (0..options.scripts.len()).map(|client| {
            let shared = Arc::clone(&shared);
            let named = thread::Builder::new().name(format!("client {client}"));
            named
                .spawn(move || shared.client(client))
                .expect("a thread can be started")
        });
        let clients: Vec<_> = clients.collect();
        for client in clients {
            client.join().expect("a panic ends the run");
        }
        faults.armed.store(false, Ordering::SeqCst);
        self.model.state().tally.faults += faults.count.load(Ordering::SeqCst);
        if self.disk.is_off() {
            return Err(PowerIsOff);
        }
        if options.crash_at.is_none() {
            self.disk.heal();
        }
        if options.stops || faults.sync_failed.load(Ordering::SeqCst) {
            return Ok(());
        }
        shared.check_all_pages()?;
        shared.last_checkpoint()?;
        if options.closes {
            let before = shared.all_versions_now();
            let shared = Arc::into_inner(shared).expect("all clients have ended");
            let LifeState { pool, model, .. } = shared;
            match pool.close() {
                Ok(()) => LifeState::durable(&model, before),
                Err(_) if self.disk.is_off() => return Err(PowerIsOff),
                Err((_, error)) => {
                    panic!("all clients have ended, and the pool cannot be closed: {error}")
                }
            }
        }
        Ok(())
    }

    /// Checks all pages after all lives.
    fn check_after_all_lives(&self) -> Result<(), PowerIsOff> {
        let calm = Life {
            frames: 8,
            batch: 2,
            background: false,
            read_ahead: 0,
            reserve: 0,
            budget: 1.0,
            most_delay: Duration::ZERO,
            max_dirty_age: None,
            dense_pages: 0,
            patience: Duration::from_secs(10),
            fixed_costs: true,
            crash_at: None,
            crash_seed: 0,
            closes: false,
            stops: false,
            fault_rates: FaultRates::default(),
            listener_panics: None,
            scripts: Vec::new(),
        };
        let faults = Arc::new(FaultLog::default());
        let mut shared = self.open(0, &calm, &faults)?;
        shared.life = 0;
        shared.recover(false)?;
        shared.check_pages_after_all_lives();
        Ok(())
    }

    fn storage(
        &self,
        name: &'static str,
        options: &Life,
        faults: &Arc<FaultLog>,
    ) -> FaultyFileStorage {
        let data = name == "data";
        let model = Arc::clone(&self.model);
        FaultyFileStorage {
            disk: self.disk.clone(),
            name,
            inner: self.disk.pages(name, self.case.page_size),
            fault_rates: options.fault_rates,
            faults: Arc::clone(faults),
            lost: Arc::new(move |page| model.page(page, |history| history.excused = true)),
            page_map: self.page_map.clone().filter(|_| data),
            in_flight: Mutex::default(),
        }
    }

    fn open(
        &self,
        life: usize,
        options: &Life,
        faults: &Arc<FaultLog>,
    ) -> Result<LifeState, PowerIsOff> {
        let case = &self.case;
        let opened = Wal::open(self.disk.bytes("log"), options.fault_rates, faults);
        let (wal, records) = opened.map_err(|error| {
            assert!(self.disk.is_off(), "the log cannot be opened: {error}");
            PowerIsOff
        })?;
        self.model.log_was_found(&records, case.logged);
        let wal = Arc::new(wal);
        let mut pool = PoolOptions::new(options.frames)
            .policy(case.policy)
            .expect("the policy is known")
            .background(options.background)
            .batch(options.batch)
            .read_ahead(options.read_ahead)
            .clean_reserve(options.reserve)
            .dirty_budget(options.budget, options.most_delay)
            .dense_pages(options.dense_pages)
            .patience(options.patience);
        if case.logged {
            let log: Arc<dyn Log> = wal.clone();
            self.disk.watch(&log, page_lsn);
            pool = pool.log(log);
        }
        if let Some(mut events) = options.listener_panics {
            pool = pool.on_event(move |_| {
                events -= 1;
                assert!(events > 0, "the listener panics, as the script says");
            });
        }
        if case.raw {
            pool = pool.format(PageFormat::Raw);
        }
        if let Some(age) = options.max_dirty_age {
            pool = pool.max_dirty_age(age);
        }
        if options.fixed_costs {
            pool = pool.fixed_costs(OperationCosts {
                read: 1.0,
                write: 8.0,
                unit: Unit::PageReads,
            });
        }
        if case.area {
            pool = pool.double_write(self.storage("area", options, faults));
        }
        let opened = pool.open(self.storage("data", options, faults));
        let pool = opened.map_err(|error| {
            assert!(self.disk.is_off(), "the pool cannot be opened: {error}");
            PowerIsOff
        })?;
        Ok(LifeState {
            case: Arc::clone(case),
            life,
            pool,
            wal,
            model: Arc::clone(&self.model),
            disk: self.disk.clone(),
            faults: Arc::clone(faults),
            scans: Arc::clone(&self.scans),
        })
    }
}

impl LifeState {
    fn durable(model: &Model, before: Vec<(u64, Option<(u64, u64)>)>) {
        for (page, version) in before {
            if let Some((version, _)) = version {
                model.page(page, |history| {
                    if !history.free {
                        history.floor = history.floor.max(version);
                    }
                });
            }
        }
    }

    /// The value of a call that may fail only if the power is off.
    fn succeeds<T>(&self, what: &str, outcome: Result<T, PoolError>) -> Result<T, PowerIsOff> {
        outcome.map_err(|error| {
            assert!(self.disk.is_off(), "{what}: {error}");
            PowerIsOff
        })
    }

    /// Recovers every page: checks that durable changes are there, and redoes those that are missing.
    fn recover(&self, first: bool) -> Result<(), PowerIsOff> {
        if first {
            let pages = &self.case.pages;
            if self.case.grown && !self.case.scattered {
                self.succeeds("the storage grows", self.pool.grow(pages.len() as u64))?;
                self.model.state().in_use.extend(pages);
            } else {
                for &page in pages {
                    let mut guard = self.succeeds("a first change", self.pool.fix_write(page))?;
                    self.change(&mut guard, 0, 1, true);
                }
            }
            return Ok(());
        }
        if !self.case.scattered {
            let last = {
                let mut state = self.model.state();
                // Even if the power failed before all of them were written.
                state.in_use.extend(&self.case.pages);
                state.in_use.last().copied()
            };
            let pages = last.map_or(0, |last| last + 1);
            self.succeeds("the storage grows", self.pool.grow(pages))?;
        }
        let pages: Vec<u64> = self.model.state().pages.keys().copied().collect();
        for page in pages {
            if self.model.page(page, |history| history.free) {
                continue;
            }
            match self.pool.fix_write(page) {
                Ok(mut guard) => {
                    self.model.page(page, |history| {
                        if history.unlogged.is_some() {
                            history.excused = true;
                        }
                        if history.excused {
                            history.adopt(Content::of(&guard));
                        }
                    });
                    self.redo(&mut guard);
                }
                Err(PoolError::Damaged { damage, .. }) if !self.disk.is_off() => {
                    let excused = self.model.page(page, |history| history.excused);
                    assert!(
                        !self.case.area || excused,
                        "page {page} is damaged after a crash, although there is a double-write area: {damage}"
                    );
                    self.model.state().tally.damaged += 1;
                    let mut guard = self.succeeds("a page filled anew", self.pool.fix_new(page))?;
                    self.rebuild(&mut guard);
                }
                Err(error) => self.succeeds("a recovery", Err(error))?,
            }
        }
        self.model.state().tally.recoveries += 1;
        self.checkpoint()
    }

    fn check_pages_after_all_lives(&self) {
        let pages: Vec<u64> = self.model.state().pages.keys().copied().collect();
        for page in pages {
            if self.model.page(page, |history| history.free) {
                continue;
            }
            match self.pool.fix_read(page) {
                Ok(guard) => self.model.check(page, &Content::of(&guard)),
                Err(error) => {
                    panic!("all lives have ended, and page {page} cannot be fixed: {error}")
                }
            }
        }
    }
}
