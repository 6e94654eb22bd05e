//! A run: several lives of the pool, one after the other, each of which begins with a recovery.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebbpool::storage::{DiskOperation, Fault, FaultyDisk, page_lsn};
use ebbpool::{Log, Pool, PoolError, PoolOptions};
use ebbpool_simulation::{random, thread};

use crate::case::{Case, Ending, Kind, Life};
use crate::client::{LifeState, PowerIsOff};
use crate::disk::{FaultLog, FaultRates, FaultyFileStorage, FileLock, PageMap};
use crate::fixes::FixCounts;
use crate::model::{Content, Model, Tally};
use crate::options::LifeOptions;
use crate::policies::spec;
use crate::wal::{RECORD, Wal};

/// How much older than `max_dirty_age` says a change may be that the loss of the power takes away: the writer writes and
/// syncs what is old enough, on a disk that takes its time.
const SLACK: Duration = Duration::from_millis(300);

/// The shortest age that the pool distinguishes.
const SHORTEST_AGE: Duration = Duration::from_millis(4);

/// The state that lasts from life to life.
pub struct World {
    pub case: Arc<Case>,
    pub disk: FaultyDisk,
    pub model: Arc<Model>,
    page_map: Option<Arc<PageMap>>,
    /// A pool uses the data.
    in_use: Arc<AtomicBool>,
    scans: Arc<Mutex<Vec<ebbpool::PoolScan>>>,
}

pub fn run(case: &Arc<Case>) -> Tally {
    let world = World::new(case);
    for (number, life) in case.lives.iter().enumerate() {
        // The next life follows also after an interrupted one.
        let power_fails = world.live(number, life) != Ok(Powered(true));
        world.end(life, power_fails);
    }
    let _ = world.check_after_all_lives();
    world.tally()
}

/// Whether the power may stay on at the end of a life: after a sync that failed only a crash shows what is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Powered(bool);

impl World {
    pub fn new(case: &Arc<Case>) -> Self {
        World {
            case: Arc::clone(case),
            disk: FaultyDisk::new(case.seed),
            model: Arc::new(Model::new(case.logged && !case.raw)),
            page_map: case.scattered.then(Arc::default),
            in_use: Arc::default(),
            scans: Arc::default(),
        }
    }

    fn tally(&self) -> Tally {
        self.model.state().tally
    }

    fn end(&self, life: &Life, power_fails: bool) {
        if let Some(violation) = self.disk.violations().first() {
            panic!("{violation}");
        }
        self.disk.heal();
        if power_fails || life.power_fails {
            self.disk.crash(life.crash_seed);
            self.disk.restart();
            self.model.state().tally.crashes += 1;
        }
    }

    fn live(&self, number: usize, life: &Life) -> Result<Powered, PowerIsOff> {
        if let Some(at) = life.crash_at {
            let crash = Fault::crash(DiskOperation::Change, life.crash_seed);
            self.disk.inject(crash.nth(at));
        }
        let faults = Arc::new(FaultLog::default());
        let shared = Arc::new(self.open(number, life, &faults)?);
        let outcome = shared.recover(number == 0).and_then(|()| self.clients(life, &shared, &faults));
        // As long as the pool exists, because its threads end with it.
        faults.note_power(&self.disk);
        self.model.state().images_flipped |= faults.image_flipped.load(Ordering::SeqCst);
        self.judge_window(life, &faults);
        outcome?;
        self.end_of_pool(life, shared)?;
        Ok(Powered(!faults.sync_failed.load(Ordering::SeqCst)))
    }

    /// Runs the scripts of the clients.
    fn clients(&self, life: &Life, shared: &Arc<LifeState>, faults: &FaultLog) -> Result<(), PowerIsOff> {
        faults.armed.store(true, Ordering::SeqCst);
        let clients = (0..life.scripts.len()).map(|client| {
            let shared = Arc::clone(shared);
            let named = thread::Builder::new().name(format!("client {client}"));
            named.spawn(move || shared.client(client)).expect("a thread can be started")
        });
        let clients: Vec<_> = clients.collect();
        for client in clients {
            client.join().expect("a panic ends the run");
        }
        if !life.lingers.is_zero() {
            thread::sleep(life.lingers);
        }
        faults.armed.store(false, Ordering::SeqCst);
        self.model.state().tally.faults += faults.count.load(Ordering::SeqCst);
        match self.disk.is_off() {
            true => Err(PowerIsOff),
            false => Ok(()),
        }
    }

    /// Notes the changes that the loss of the power must not take away now, because of their age.
    fn judge_window(&self, life: &Life, faults: &FaultLog) {
        // After a failure the writer pauses.
        let troubled = faults.count.load(Ordering::SeqCst) > 0;
        let last_on = *faults.last_on.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(age), Some(end)) = (life.options.max_dirty_age, last_on)
            && life.options.background
            && !self.case.raw
            && !troubled
        {
            let age = age.max(SHORTEST_AGE).saturating_add(SLACK);
            self.model.window_holds(end, age);
        }
    }

    fn end_of_pool(&self, life: &Life, shared: Arc<LifeState>) -> Result<(), PowerIsOff> {
        if life.crash_at.is_none() {
            self.disk.heal();
        }
        if life.ending == Ending::Stops || shared.faults.sync_failed.load(Ordering::SeqCst) {
            return Ok(());
        }
        shared.check_all_pages()?;
        if !matches!(life.ending, Ending::Panics { .. }) {
            shared.last_checkpoint()?;
        }
        if self.case.kind == Kind::Sweep {
            shared.every_page_leaves_its_frame();
        }
        if life.options.most_frames.is_some() {
            shared.every_frame_takes_a_page()?;
        }
        shared.a_stray_number_is_forgotten()?;
        let shared = Arc::into_inner(shared).expect("all clients have ended");
        match life.ending {
            Ending::Stops | Ending::Checks => Ok(()),
            Ending::Panics { page, when } => shared.close_after_a_panic(page, when),
            Ending::Closes => {
                let before = shared.all_versions_now();
                let LifeState { pool, model, .. } = shared;
                match pool.close() {
                    Ok(()) => LifeState::durable(&model, before),
                    Err(_) if self.disk.is_off() => return Err(PowerIsOff),
                    Err(error) => {
                        panic!("all clients have ended, and the pool cannot be closed: {error}")
                    }
                }
                Ok(())
            }
        }
    }

    /// Checks all pages after all lives.
    fn check_after_all_lives(&self) -> Result<(), PowerIsOff> {
        let calm = Life {
            options: LifeOptions::calm(),
            refused_thread: None,
            tail: 0,
            crash_at: None,
            crash_seed: 0,
            lingers: Duration::ZERO,
            ending: Ending::Stops,
            power_fails: false,
            fault_rates: FaultRates::default(),
            scripts: Vec::new(),
        };
        let faults = Arc::new(FaultLog::default());
        let shared = self.open(0, &calm, &faults)?;
        shared.recover(false)?;
        shared.check_pages_after_all_lives();
        drop(shared);
        if self.case.logged && !self.case.raw && random().is_multiple_of(4) {
            self.cut_the_log(&calm)?;
        }
        Ok(())
    }

    /// Cuts the log of a copy of the disk off, in half of the cases to nothing: each page that is ahead of what is left is refused,
    /// and no other one. All pages are in storage as they are now.
    fn cut_the_log(&self, calm: &Life) -> Result<(), PowerIsOff> {
        let copy = World {
            case: Arc::clone(&self.case),
            disk: self.disk.fork(random()),
            model: Arc::new(Model::new(false)),
            page_map: self.page_map.clone(),
            in_use: Arc::default(),
            scans: Arc::default(),
        };
        let log = copy.disk.bytes("log");
        let records = log.len().expect("the power is on") / RECORD;
        let end = random() % 2 * (random() % (records + 1)) * RECORD;
        log.set_len(end).expect("the power is on");
        let shared = copy.open(0, calm, &Arc::default())?;
        let pages = self.model.state().pages.clone();
        for (page, history) in pages {
            let lsn = history.now().lsn;
            let refused = match shared.pool.fix_read(page) {
                Ok(_) => false,
                Err(PoolError::Damaged { .. }) => true,
                Err(error) => panic!("the log was cut off, and page {page} cannot be fixed: {error}"),
            };
            let known = !history.free && !history.excused && history.unlogged.is_none();
            assert!(
                !known || refused == (lsn > end),
                "the log was cut off to {end} bytes, page {page} has LSN {lsn}, and whether it is refused is {refused}"
            );
        }
        Ok(())
    }

    fn storage(&self, name: &'static str, life: &Life, faults: &Arc<FaultLog>) -> FaultyFileStorage {
        let data = name == "data";
        let model = Arc::clone(&self.model);
        FaultyFileStorage {
            disk: self.disk.clone(),
            name,
            inner: self.disk.pages(name, self.case.page_size),
            fault_rates: life.fault_rates,
            faults: Arc::clone(faults),
            lost: Arc::new(move |page| model.page(page, |history| history.excused = true)),
            page_map: self.page_map.clone().filter(|_| data),
            in_flight: Mutex::default(),
            reports_erases: self.case.reports_erases || spec(&life.options.policy).asks_erase_counts(),
            lock: data.then(|| FileLock::take(&self.in_use)),
        }
    }

    /// The options of the pool of a life.
    pub fn options(
        &self,
        life: &Life,
        log: Option<Arc<dyn Log>>,
        faults: &Arc<FaultLog>,
        noted: &Arc<AtomicU64>,
    ) -> PoolOptions {
        let pool = life.options.for_pool(&self.case, log, noted);
        match self.case.area {
            true => pool.double_write(self.storage("area", life, faults)),
            false => pool,
        }
    }

    /// Opens the log and the pool. Before, it tries to open the pool in ways that have to fail.
    fn open(&self, number: usize, life: &Life, faults: &Arc<FaultLog>) -> Result<LifeState, PowerIsOff> {
        let case = &self.case;
        let opened = Wal::open(&self.disk, life.fault_rates, faults);
        let (wal, records) = opened.map_err(|error| {
            assert!(self.disk.is_off(), "the log cannot be opened: {error}");
            PowerIsOff
        })?;
        self.model.log_was_found(&records, case.logged);
        let wal = Arc::new(wal);
        let log = case.logged.then(|| -> Arc<dyn Log> { wal.clone() });
        if let Some(log) = &log {
            self.disk.watch(log, page_lsn);
        }
        self.cut_off_page(life)?;
        let fixes = FixCounts::default();
        let open = |life: &Life| {
            let options = self.options(life, log.clone(), faults, &fixes.noted);
            options.open(self.storage("data", life, faults))
        };
        let mut life = life.clone();
        if life.options.is_at_risk(case) {
            self.is_refused(&open(&life));
            life.options.padding_at_risk = true;
        }
        if let Some(thread) = life.refused_thread
            && life.options.background
        {
            self.is_without_thread(thread::refusing(thread, || open(&life)), thread)?;
        }
        let pool = open(&life).map_err(|error| {
            assert!(self.disk.is_off(), "the pool cannot be opened: {error}");
            PowerIsOff
        })?;
        Ok(LifeState {
            case: Arc::clone(case),
            life: number,
            pool,
            wal,
            model: Arc::clone(&self.model),
            disk: self.disk.clone(),
            faults: Arc::clone(faults),
            scans: Arc::clone(&self.scans),
            fixes,
        })
    }

    /// Makes the file longer by a part of a page, as a crash during a growth may leave it.
    fn cut_off_page(&self, life: &Life) -> Result<(), PowerIsOff> {
        let file = self.disk.bytes("data");
        let page_size = self.case.page_size as u64;
        let longer = file.len().and_then(|length| match length % page_size {
            0 if life.tail > 0 && !self.case.scattered => file.set_len(length + life.tail),
            _ => Ok(()),
        });
        longer.map_err(|error| {
            assert!(self.disk.is_off(), "the file cannot become longer: {error}");
            PowerIsOff
        })
    }

    fn is_refused(&self, opened: &Result<Pool, PoolError>) {
        assert!(
            matches!(opened, Err(PoolError::Options(_))),
            "a crash may damage pages that no caller has changed, and the pool is opened"
        );
        self.model.state().tally.at_risk += 1;
    }

    /// Checks an opening during which the first or the second thread could not be started. The pool may have one only.
    fn is_without_thread(&self, opened: Result<Pool, PoolError>, thread: u64) -> Result<(), PowerIsOff> {
        match opened {
            Ok(_) => assert!(thread > 0, "the pool is opened without its threads"),
            Err(_) if self.disk.is_off() => return Err(PowerIsOff),
            Err(PoolError::Storage { .. }) => self.model.state().tally.refused_openings += 1,
            Err(error) => panic!("a thread cannot be started, and the error is another: {error}"),
        }
        Ok(())
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
    pub fn succeeds<T>(&self, what: &str, outcome: Result<T, PoolError>) -> Result<T, PowerIsOff> {
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
                    let mut guard = self.succeeds("a first change", self.fixed_to_write(page))?;
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
        let mut pages: BTreeSet<u64> = self.model.state().pages.keys().copied().collect();
        if self.case.lives.iter().any(|life| life.options.puts_pages_at_risk(&self.case)) {
            // A crash may have damaged pages that no client has used.
            pages.extend(&self.case.pages);
        }
        for page in pages {
            if self.model.page(page, |history| history.free) {
                continue;
            }
            match self.fixed_to_write(page) {
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
                    let rotted = self.model.state().images_flipped;
                    assert!(
                        !self.case.area || excused || rotted,
                        "page {page} is damaged after a crash, although there is a double-write area: {damage}"
                    );
                    self.model.state().tally.damaged += 1;
                    let mut guard = self.succeeds("a page filled anew", self.fixed_new(page))?;
                    self.rebuild(&mut guard);
                }
                Err(error) => self.succeeds("a recovery", Err(error))?,
            }
        }
        self.model.state().tally.recoveries += 1;
        self.checkpoint()
    }

    /// Reads other pages until each of the pages that are in memory now must have left its frame.
    fn every_page_leaves_its_frame(&self) {
        let resident = |page: &u64| self.pool.read_optimistically(*page).is_some();
        let pages: Vec<u64> = self.model.state().pages.keys().copied().collect();
        let others = (1..).map(|at| (1 << 40) + at);
        // Twice the frames, and once more, because hits that give a second chance are reported late.
        for other in others.take(3 * self.pool.frames() as usize) {
            if let Err(error) = self.pool.fix_read(other) {
                panic!("all clients have ended, and page {other} cannot be fixed: {error}");
            }
        }
        if let Some(page) = pages.iter().find(|page| resident(page)) {
            panic!("page {page} is still in memory, although {} others were read", 3 * self.pool.frames());
        }
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
