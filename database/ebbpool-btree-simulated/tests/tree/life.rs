//! A run: several lives of the database, one after the other, each of which begins with a recovery.

use ebbpool::{OperationCosts, PoolError, Unit};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ebbpool::storage::{DiskOperation, Fault, FaultyDisk, FaultyFile, page_lsn};
use ebbpool_btree_simulated::{Database, DatabaseError, DatabaseOptions, DatabaseParts, Durability, LogFile};
use ebbpool_simulation::{random, thread};

use crate::case::{Case, CaseKind, Life, LifeOptions, Load};
use crate::client::{Client, ScriptedPanic, StopReason};
use crate::disk::{FaultLog, FaultRates, FaultyFileStorage, FileLock};
use crate::model::{Effects, Model, Records, Tally, Value};

/// The state that the lives of a run share.
pub struct World {
    pub case: Arc<Case>,
    pub disk: FaultyDisk,
    pub model: Arc<Model>,
    /// A database uses the disk.
    pub in_use: Arc<AtomicBool>,
}

pub fn run(case: &Arc<Case>) -> Tally {
    // New databases draw their identities from this generator.
    fastrand::seed(case.seed);
    let world =
        World { case: Arc::clone(case), disk: FaultyDisk::new(case.seed), model: Arc::default(), in_use: Arc::default() };
    for life in &case.lives {
        let untroubled = match world.live(life) {
            Err(StopReason::Reported) => {
                world.model.state().tally.reported += 1;
                return world.tally();
            }
            Ok(untroubled) => untroubled,
            Err(StopReason::PowerOff) => false,
        };
        // After a sync that failed only a crash shows what is durable.
        match untroubled && !life.power_fails {
            true => world.disk.heal(),
            false => world.crash(life.crash_seed),
        }
    }
    if world.last_look() == Err(StopReason::Reported) {
        world.model.state().tally.reported += 1;
    }
    world.tally()
}

/// A slow file of the log, whose syncs fail, and whose writes and reservations fail some times in a row.
struct TroubledLog {
    file: FaultyFile,
    left_to_fail: AtomicU64,
    fault_rates: FaultRates,
    faults: Arc<FaultLog>,
}

impl TroubledLog {
    fn fails_for_a_while(&self, one_in: u64) -> bool {
        let fails = one_in > 0 && (self.left_to_fail.load(Ordering::SeqCst) > 0 || random().is_multiple_of(one_in));
        if !fails || self.file.len().is_err() || !self.faults.happens() {
            return false;
        }
        let before = self.left_to_fail.load(Ordering::SeqCst);
        self.left_to_fail.store(before.checked_sub(1).unwrap_or_else(|| random() % 20), Ordering::SeqCst);
        true
    }
}

impl LogFile for TroubledLog {
    fn len(&self) -> std::io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<usize> {
        self.file.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.fault_rates.pause();
        let FaultRates { write_error, full, .. } = self.fault_rates;
        if self.fails_for_a_while(write_error) {
            return Err(std::io::Error::from_raw_os_error(ebbpool::storage::EIO));
        }
        match self.fails_for_a_while(full) {
            true => Err(std::io::Error::from_raw_os_error(ebbpool::storage::ENOSPC)),
            false => self.file.write_at(offset, bytes),
        }
    }

    fn reserve(&self, _from: u64, to: u64) -> std::io::Result<()> {
        match self.fails_for_a_while(self.fault_rates.full) {
            true => Err(std::io::Error::from_raw_os_error(ebbpool::storage::ENOSPC)),
            false => self.file.reserve(to),
        }
    }

    fn set_len(&self, length: u64) -> std::io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&self) -> std::io::Result<()> {
        let often = self.fault_rates.log_error;
        let fails = often > 0 && random().is_multiple_of(often) && self.faults.happens();
        self.fault_rates.pause();
        if fails {
            return Err(std::io::Error::from_raw_os_error(ebbpool::storage::EIO));
        }
        let outcome = self.file.sync();
        self.fault_rates.pause();
        outcome
    }
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

    pub fn options(&self, options: &LifeOptions) -> DatabaseOptions {
        let case = &self.case;
        let options = options.clone();
        let costs = OperationCosts { read: 1.0, write: 8.0, unit: Unit::PageReads };
        let limited = |database| options.recovery_within.into_iter().fold(database, DatabaseOptions::recovery_within);
        limited(DatabaseOptions::new(case.frames))
            .policy(&options.policy)
            .expect("the policy is known")
            .page_size(case.page_size)
            .double_write(case.double_write)
            .durability(case.durability)
            .checkpoint_every(case.checkpoint_every)
            .background(options.background)
            .pool(move |mut pool| {
                if options.fixed_costs {
                    pool = pool.fixed_costs(costs);
                }
                if let Some(reserve) = options.reserve {
                    pool = pool.clean_reserve(reserve);
                }
                if let Some((share, most_delay)) = options.budget {
                    pool = pool.dirty_budget(share, most_delay);
                }
                if let Some(age) = options.max_dirty_age {
                    pool = pool.max_dirty_age(age);
                }
                pool.patience(options.patience)
                    .read_ahead(options.read_ahead)
                    .batch(options.batch)
                    .dense_pages(options.dense_pages)
                    .exact_hits(options.exact_hits)
            })
    }

    /// The lock of the disk's files, which one database at a time may use.
    fn lock(&self) -> Option<FileLock> {
        Some(FileLock::take(&self.in_use))
    }

    pub fn parts(
        &self,
        disk: &FaultyDisk,
        fault_rates: FaultRates,
        faults: &Arc<FaultLog>,
        mut lock: Option<FileLock>,
    ) -> DatabaseParts {
        let mut pages = |name: &'static str| FaultyFileStorage {
            disk: disk.clone(),
            name,
            inner: disk.pages(name, self.case.page_size),
            fault_rates,
            faults: Arc::clone(faults),
            lost: Arc::new(|_| {}),
            page_map: None,
            in_flight: Mutex::default(),
            reports_erases: true,
            lock: lock.take(),
        };
        let log = |name| -> Box<dyn LogFile> {
            Box::new(TroubledLog {
                file: disk.bytes(name),
                left_to_fail: AtomicU64::new(0),
                fault_rates,
                faults: Arc::clone(faults),
            })
        };
        DatabaseParts {
            pages: Box::new(pages("data")),
            double_write: self.case.double_write.then(|| Box::new(pages("torn")) as _),
            log: [log("log0"), log("log1")],
        }
    }

    /// Checks that an operation fails only because the power is off, or because a page is torn in a case
    /// without double writes.
    fn succeeds<T>(&self, what: &str, outcome: Result<T, DatabaseError>) -> Result<T, StopReason> {
        outcome.map_err(|error| match error {
            _ if self.disk.is_off() => StopReason::PowerOff,
            DatabaseError::Pool(ebbpool::PoolError::Damaged { .. }) if !self.case.double_write => StopReason::Reported,
            error => panic!("{what}: {error}"),
        })
    }

    fn open(&self, life: &Life, faults: &Arc<FaultLog>) -> Result<Database, StopReason> {
        self.cut_off_page(life)?;
        let open = || {
            let parts = self.parts(&self.disk, life.fault_rates, faults, self.lock());
            self.options(&life.options).open_on(parts)
        };
        if let Some(number) = life.refused_thread {
            match thread::refusing(number, open) {
                Ok(_) | Err(DatabaseError::Pool(PoolError::Storage { .. })) => {}
                Err(error) => self.succeeds("a thread cannot be started", Err(error))?,
            }
        }
        let opened = open();
        let database = self.succeeds("the database is opened", opened)?;
        self.disk.watch(&database.log(), page_lsn);
        Ok(database)
    }

    /// Makes the file of pages longer by a part of a page, as a crash during a growth may leave it.
    fn cut_off_page(&self, life: &Life) -> Result<(), StopReason> {
        let file = self.disk.bytes("data");
        let longer = file.len().and_then(|length| match length {
            0 => Ok(()),
            length if life.tail > 0 && length.is_multiple_of(self.case.page_size as u64) => file.set_len(length + life.tail),
            _ => Ok(()),
        });
        longer.map_err(|error| {
            assert!(self.disk.is_off(), "the file cannot become longer: {error}");
            StopReason::PowerOff
        })
    }

    fn one_client(&self) -> bool {
        self.case.lives.iter().all(|life| life.scripts.len() == 1)
    }

    /// Checks the database after a recovery.
    fn judge(&self, database: &mut Database) -> Result<(), StopReason> {
        let found = self.succeeds("all is read", contents(database))?;
        self.model.recovered(&found, self.one_client());
        self.check(database)
    }

    fn check(&self, database: &mut Database) -> Result<(), StopReason> {
        let report = self.succeeds("all is checked", database.check())?;
        if self.disk.is_off() {
            return Err(StopReason::PowerOff);
        }
        if let Some(finding) = report.findings.first() {
            panic!("a check finds: {finding}");
        }
        Ok(())
    }

    /// True if nothing went wrong.
    fn live(&self, life: &Life) -> Result<bool, StopReason> {
        if let Some(at) = life.crash_at {
            let crash = Fault::crash(DiskOperation::Change, life.crash_seed);
            self.disk.inject(crash.nth(at));
        }
        let faults = Arc::new(FaultLog::default());
        let mut database = self.open(life, &faults)?;
        self.judge(&mut database)?;
        if let Some(load) = life.load {
            self.load(&mut database, load)?;
        }
        faults.armed.store(true, Ordering::SeqCst);
        if let Some(room) = life.room {
            faults.happens();
            self.disk.set_capacity(self.disk.used() + room);
        }
        let database = Arc::new(database);
        let clients = life.scripts.iter().enumerate().map(|(number, script)| {
            let client = Client {
                case: Arc::clone(&self.case),
                database: Arc::clone(&database),
                model: Arc::clone(&self.model),
                disk: self.disk.clone(),
                faults: Arc::clone(&faults),
                may_break: life.may_break(),
                only_full: life.room.is_some(),
                alone: life.scripts.len() == 1 && !life.options.background,
                checkpoints: Cell::new((u64::MAX, 0)),
            };
            let script = script.clone();
            let named = thread::Builder::new().name(format!("client {number}"));
            let spawned = named.spawn(move || client.run(&script));
            spawned.expect("a thread can be started")
        });
        let clients: Vec<_> = clients.collect();
        for client in clients {
            client.join().expect("a panic ends the run");
        }
        faults.armed.store(false, Ordering::SeqCst);
        if life.room.is_some() {
            self.disk.set_capacity(u64::MAX);
        }
        let count = faults.count.load(Ordering::SeqCst);
        self.model.state().tally.faults += count;
        let mut database = Arc::into_inner(database).expect("all clients have ended");
        if self.disk.is_off() {
            return Err(StopReason::PowerOff);
        }
        if count > 0 && !life.may_break() {
            // What was left to be written, or to be undone, passes now.
            let now = self.model.now();
            if life.closes && random().is_multiple_of(2) {
                // What failed before is no error of closing.
                self.succeeds("the database is closed after the faults", database.close())?;
                self.model.written_late(now);
                self.model.durable_since(self.model.now());
                return Ok(true);
            }
            self.succeeds("a checkpoint after the faults", database.checkpoint())?;
            self.model.written_late(now);
        }
        if count > 0 && life.may_break() {
            // The faults explain further errors, and the next life checks the content.
            return Ok(false);
        }
        let found = self.succeeds("all is read", contents(&database))?;
        self.compare(&found);
        self.check(&mut database)?;
        if let Some(load) = life.load_afterwards {
            self.load(&mut database, load)?;
            let found = self.succeeds("all is read", contents(&database))?;
            self.compare(&found);
            self.check(&mut database)?;
        }
        if life.shrinks {
            self.shrink(&mut database, life, &faults)?;
        }
        if self.case.kind == CaseKind::CutLog {
            self.cut_the_log()?;
        }
        if life.closes {
            let now = self.model.now();
            self.succeeds("the database is closed", database.close())?;
            self.model.durable_since(now);
        }
        Ok(true)
    }

    fn shrink(&self, database: &mut Database, life: &Life, faults: &FaultLog) -> Result<(), StopReason> {
        if !life.may_break() {
            let before = faults.count.load(Ordering::SeqCst);
            faults.armed.store(true, Ordering::SeqCst);
            let shrunk = database.shrink();
            faults.armed.store(false, Ordering::SeqCst);
            if faults.count.load(Ordering::SeqCst) == before {
                self.succeeds("the file becomes shorter", shrunk)?;
            }
        }
        let shrunk = database.shrink();
        let shrunk = self.succeeds("the file becomes shorter after faults", shrunk)?;
        let free = database.free_pages();
        assert_eq!(self.succeeds("free pages are counted", free)?, 0, "{shrunk:?}");
        let found = self.succeeds("all is read", contents(database))?;
        self.compare(&found);
        self.check(database)
    }

    fn compare(&self, found: &Records) {
        let expected = self.model.records();
        if *found != expected {
            let mut keys = found.keys().chain(expected.keys());
            let key = keys.find(|key| found.get(*key) != expected.get(*key));
            panic!("no client is at work, and key {key:?} has another value than was committed");
        }
    }

    /// Loads records, if the database is empty or is emptied before.
    fn load(&self, database: &mut Database, load: Load) -> Result<(), StopReason> {
        let old = self.model.records();
        if load.clears && !old.is_empty() {
            let effects: Effects = old.keys().map(|key| (key.clone(), None)).collect();
            let mut transaction = database.begin();
            for key in old.keys() {
                self.succeeds("a record is deleted", transaction.delete(key))?;
            }
            let number = self.model.commit(effects);
            self.succeeds("all is deleted", transaction.commit())?;
            let durable = self.case.durability == Durability::Synced;
            self.model.committed(number, durable);
            if load.checkpoint {
                let now = self.model.now();
                self.succeeds("a checkpoint", database.checkpoint())?;
                self.model.durable_since(now);
            }
        }
        let mut keys: Vec<Vec<u8>> = (0..load.records).map(|it| self.case.key(it)).collect();
        keys.sort();
        let longest = self.case.most_value.min(self.case.page_size);
        let values = (0..).map(|number: usize| vec![number as u8; number * 37 % (longest + 1)]);
        let records: Vec<(Vec<u8>, Vec<u8>)> = keys.into_iter().zip(values).collect();
        if !self.model.records().is_empty() {
            return match database.load(records.into_iter().map(Ok::<_, DatabaseError>), 0.7) {
                Err(DatabaseError::NotEmpty) => Ok(()),
                Ok(_) => panic!("it loads over what is there"),
                Err(error) => self.succeeds("a load over records", Err(error)),
            };
        }
        if load.panics {
            let ends = records.clone().into_iter().map(Ok::<_, DatabaseError>);
            let ends = ends.chain(std::iter::from_fn(|| panic_any(ScriptedPanic)));
            let outcome = catch_unwind(AssertUnwindSafe(|| database.load(ends, 0.7)));
            match outcome {
                Err(payload) if payload.is::<ScriptedPanic>() => {}
                Err(payload) => resume_unwind(payload),
                Ok(outcome) => {
                    self.succeeds("a load that panics", outcome)?;
                    panic!("a load swallows a panic");
                }
            }
            let found = self.succeeds("all is read", contents(database))?;
            assert!(found.is_empty(), "a load that panicked has left records");
        }
        let effects = records.iter().map(|(key, value)| {
            let value: Value = Arc::new(value.clone());
            (key.clone(), Some(value))
        });
        let number = self.model.commit(effects.collect());
        let loaded = database.load(records.into_iter().map(Ok::<_, DatabaseError>), 0.7);
        self.succeeds("a load", loaded)?;
        self.model.committed(number, true);
        let now = self.model.now();
        self.model.durable_since(now);
        self.model.state().tally.loads += 1;
        Ok(())
    }

    /// Cuts the end of the log on a copy of the disk. Opening that database fails, or it has the state
    /// after one of its commits and keeps later ones.
    fn cut_the_log(&self) -> Result<(), StopReason> {
        let disk = self.disk.fork(random());
        let name = if random().is_multiple_of(2) { "log0" } else { "log1" };
        let file = disk.bytes(name);
        let length = file.len().map_err(|_| StopReason::PowerOff)?;
        let head = 8192.min(length);
        let cut = match random() % 2 {
            0 => head,
            _ => head + random() % (length - head + 1),
        };
        for name in ["data", "torn", "log0", "log1"] {
            disk.bytes(name).sync().map_err(|_| StopReason::PowerOff)?;
        }
        file.set_len(cut).map_err(|_| StopReason::PowerOff)?;
        file.sync().map_err(|_| StopReason::PowerOff)?;
        self.model.state().tally.cut += 1;
        let faults = Arc::new(FaultLog::default());
        let calm = FaultRates::default();
        let open = || self.options(&LifeOptions::calm()).open_on(self.parts(&disk, calm, &faults, None));
        let Ok(database) = open() else {
            self.model.state().tally.cut_refused += 1;
            return Ok(());
        };
        let Ok(found) = contents(&database) else {
            return Ok(());
        };
        let was_a_state = self.model.states().contains(&found);
        assert!(was_a_state, "{name} was cut from {length} to {cut} bytes, and the database is in a state that never was");
        let keys: Vec<Vec<u8>> = (0..20).map(|key| self.case.key(key * 3)).collect();
        let mut acknowledged = Vec::new();
        for key in &keys {
            if database.put(key, b"acknowledged").is_ok() {
                acknowledged.push(key);
            }
        }
        drop(database);
        if self.case.durability == Durability::Synced {
            disk.crash(random());
            disk.restart();
        }
        let database = match open() {
            Ok(database) => database,
            // Without double writes a page that the crash tore is reported.
            Err(_) if !self.case.double_write => return Ok(()),
            Err(error) => {
                panic!("{name} was cut from {length} to {cut} bytes, the database was opened, and cannot be once more: {error}")
            }
        };
        if self.case.durability == Durability::Synced {
            for key in acknowledged {
                let found = database.get(key);
                let torn = found.is_err() && !self.case.double_write;
                assert!(
                    torn || matches!(&found, Ok(Some(value)) if value == b"acknowledged"),
                    "{name} was cut from {length} to {cut} bytes, and a later commit is lost: {found:?}"
                );
            }
        }
        Ok(())
    }

    fn last_look(&self) -> Result<(), StopReason> {
        let faults = Arc::new(FaultLog::default());
        let parts = self.parts(&self.disk, FaultRates::default(), &faults, self.lock());
        let opened = self.options(&LifeOptions::calm()).open_on(parts);
        let mut database = self.succeeds("the database is opened for the last time", opened)?;
        self.judge(&mut database)?;
        self.succeeds("the database is closed for the last time", database.close())
    }
}

/// All records, which are the same from both ends.
pub fn contents(database: &Database) -> Result<Records, DatabaseError> {
    let all = || database.range::<&[u8]>(..);
    let ascending: Vec<(Vec<u8>, Vec<u8>)> = all().collect::<Result<_, _>>()?;
    let mut descending: Vec<(Vec<u8>, Vec<u8>)> = all().rev().collect::<Result<_, _>>()?;
    descending.reverse();
    assert_eq!(ascending, descending, "both ways");
    assert!(ascending.is_sorted_by(|a, b| a.0 < b.0), "in order");
    let records = ascending.into_iter().map(|(key, value)| (key, Arc::new(value)));
    Ok(records.collect())
}
