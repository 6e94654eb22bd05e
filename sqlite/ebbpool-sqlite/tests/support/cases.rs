//! Cases: transactions on a simulated disk until the power fails, and what is judged afterwards.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex};

use ebbpool::storage::{DiskOperation, EIO, ENOSPC, Fault, FaultyDisk};
use ebbpool_sqlite::Instance;
use fastrand::Rng;
use rusqlite::{Connection, OpenFlags};

use super::actor::{ACTIONS, Action, Actor, is_busy};
use super::between::Between;
use super::faulty_vfs::Machine;
use super::ledger::{Ledger, Since};
use super::workload::{Model, SCHEMA, judge, step};

pub const PATH: &str = "/x.db";

/// A simulated machine, its VFS, ours over it, and over that one which has others act between two calls of SQLite's.
#[derive(Clone, Copy)]
pub struct Bench {
    pub machine: &'static Machine,
    pub instance: &'static Instance,
    pub ours: &'static CStr,
    pub between: &'static Between,
}

impl Bench {
    pub fn new(name: &str) -> Bench {
        let machine = Machine::register(&format!("faulty-{name}"));
        let ours: &'static CStr = Box::leak(CString::new(format!("ebbpool-{name}")).unwrap().into_boxed_c_str());
        // SAFETY: the functions are those of the SQLite that the tests are linked with.
        let instance = unsafe { ebbpool_sqlite::register_over(ebbpool_sqlite::linked_api(), ours, machine.name()) };
        Bench { machine, instance: instance.unwrap(), ours, between: Between::register(&format!("between-{name}"), Some(ours)) }
    }

    pub fn open(&self, options: &str) -> rusqlite::Result<Connection> {
        self.open_at(PATH, options)
    }

    pub fn open_at(&self, path: &str, options: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
        let name = format!("file:{path}?{options}");
        let database = Connection::open_with_flags_and_vfs(name, flags, self.ours)?;
        database.busy_timeout(std::time::Duration::ZERO)?;
        Ok(database)
    }

    /// What a process has in memory is gone with it.
    pub fn forget(&self) {
        self.instance.be_killed();
    }

    pub fn open_plain(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let database = Connection::open_with_flags_and_vfs(PATH, flags, self.machine.name())?;
        database.execute_batch("PRAGMA locking_mode=EXCLUSIVE")?;
        Ok(database)
    }
}

/// What one case does.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub journal: &'static str,
    pub page_size: u32,
    pub window: f64,
    pub options: String,
    pub is_deltas: bool,
    pub crash_at: u64,
    /// Plain SQLite has used the database before, until the power failed at this change of the disk.
    pub plain_crash_at: Option<u64>,
    /// Changes of the disk after which recovery crashes too.
    pub crashes_in_recovery: Vec<u64>,
    pub autocheckpoint: u32,
    /// Writes and syncs that fail, by their numbers.
    pub faults: Vec<(DiskOperation, i32, u64)>,
    /// A second and a third connection act between the calls of the first.
    pub has_others: bool,
    /// What is wrong with the disk for long, in place of a power cut.
    pub trouble: Option<Trouble>,
}

/// A disk that is full, or whose syncs fail, from one second to another one.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub kind: TroubleKind,
    pub from: i32,
    /// The disk works again from then on; perhaps after the end.
    pub until: i32,
    /// The program ends.
    pub end: i32,
    /// The program is killed in place of closing the database.
    pub is_killed: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum TroubleKind {
    /// There is room for as many bytes more, and others are overwritten.
    Full(u64),
    /// Every write fails, also one that makes no file longer.
    Writes,
    /// Syncs of all files fail.
    Syncs,
}

impl Trouble {
    fn is_full(&self) -> bool {
        matches!(self.kind, TroubleKind::Full(_))
    }

    /// Begins or ends at a second.
    fn work(&self, second: i32, disk: &FaultyDisk) {
        if second == self.from {
            match self.kind {
                TroubleKind::Full(room) => disk.set_capacity(disk.used() + room),
                TroubleKind::Writes => {
                    disk.inject(Fault::failing(DiskOperation::Write, ENOSPC).forever());
                }
                TroubleKind::Syncs => {
                    disk.inject(Fault::failing(DiskOperation::Sync, EIO).forever());
                }
            }
        }
        if second == self.until {
            disk.heal();
        }
    }
}

impl Case {
    pub fn new(seed: u64) -> Case {
        let mut random = Rng::with_seed(seed);
        let is_deltas = random.bool();
        let window = [0.0, 3.0, 10.0, 30.0][random.usize(0..4)];
        let log_limit = [20_000, 100_000, 1_000_000][random.usize(0..3)];
        let log = if is_deltas { "deltas" } else { "wal" };
        let age = [3600, 20][random.usize(0..2)];
        Case {
            seed,
            journal: ["delete", "truncate", "persist", "wal", "memory"][random.usize(0..5)],
            page_size: [512, 1024, 4096][random.usize(0..3)],
            window,
            options: format!("window={window}&log={log}&log_limit={log_limit}&memory=1M&checkpoint_age={age}"),
            is_deltas,
            crash_at: random.u64(1..200),
            plain_crash_at: (seed % 4 == 3).then(|| Rng::with_seed(seed ^ 0x91).u64(1..200)),
            crashes_in_recovery: (0..random.usize(0..3)).map(|_| random.u64(1..12)).collect(),
            autocheckpoint: [5, 20, 1000][random.usize(0..3)],
            faults: Vec::new(),
            has_others: seed % 4 == 1,
            trouble: None,
        }
    }

    /// Further connections.
    fn others(&self, bench: &Bench, disk: &FaultyDisk, ledger: &Arc<Ledger>) -> Arc<Mutex<Vec<Actor>>> {
        let count = if self.has_others { 2 } else { 0 };
        let mut actors: Vec<Actor> =
            (0..count).map(|index| Actor::new(*bench, disk, &self.options, self.seed + index, ledger)).collect();
        for actor in &mut actors {
            actor.may_fail = !self.faults.is_empty() || self.trouble.is_some();
        }
        Arc::new(Mutex::new(actors))
    }

    /// From now on the other connections act between two calls of the first one, now and then.
    fn let_others_act(&self, bench: &Bench, others: &Arc<Mutex<Vec<Actor>>>) {
        if !self.has_others {
            return;
        }
        let acting = Arc::clone(others);
        let random = Mutex::new(Rng::with_seed(self.seed ^ 0x07e));
        bench.between.observe(move |_| {
            let mut random = random.lock().unwrap();
            if random.u32(0..100) == 0 {
                let action = ACTIONS[random.usize(0..ACTIONS.len())];
                let index = random.usize(0..2);
                // The program has a clock of its own.
                if action != Action::Wait {
                    acting.lock().unwrap()[index].act(action);
                }
            }
            None
        });
    }
}

impl Case {
    /// A case in which writes and syncs fail, before the power does.
    pub fn with_faults(seed: u64) -> Case {
        let mut case = Case::new(seed);
        let mut random = Rng::with_seed(seed ^ 0xfa);
        let fault = |_| {
            let operation = [DiskOperation::Write, DiskOperation::Sync][random.usize(0..2)];
            (operation, [EIO, ENOSPC][random.usize(0..2)], random.u64(10..150))
        };
        case.faults = (0..4).map(fault).collect();
        case
    }

    /// A case in which the disk is full for a while or for good, or its syncs fail.
    pub fn with_trouble(seed: u64) -> Case {
        let mut case = Case::new(seed);
        let mut random = Rng::with_seed(seed ^ 0xf011);
        let from = random.i32(2..30);
        let end = from + random.i32(1..40);
        let kind = match random.u32(0..4) {
            0 => TroubleKind::Syncs,
            1 => TroubleKind::Writes,
            _ => TroubleKind::Full([0, 1000, 5000, 30_000][random.usize(0..4)]),
        };
        case.trouble = Some(Trouble { kind, from, until: from + random.i32(1..60), end, is_killed: random.bool() });
        case
    }
}

/// The program of a case: it changes the database through two connections until the power fails, or until it is to end.
struct Program<'a> {
    bench: &'a Bench,
    case: &'a Case,
    disk: &'a FaultyDisk,
    random: Rng,
    database: Connection,
    /// Reads, now and then for long.
    reader: Connection,
    is_reading: bool,
    ledger: Arc<Ledger>,
    /// Act between the calls of `database`.
    others: Arc<Mutex<Vec<Actor>>>,
    /// The last transaction at each second.
    at_second: Vec<(i32, i64)>,
}

impl<'a> Program<'a> {
    fn start(bench: &'a Bench, case: &'a Case, disk: &'a FaultyDisk, ledger: &Arc<Ledger>) -> rusqlite::Result<Program<'a>> {
        let mut random = Rng::with_seed(case.seed ^ 0x5eed);
        let others = case.others(bench, disk, ledger);
        let database = bench.between.open(PATH, &case.options)?;
        let vacuum = random.u32(0..3);
        database.execute_batch(&format!("PRAGMA page_size={}; PRAGMA auto_vacuum={vacuum};", case.page_size))?;
        let program = Program {
            reader: bench.open(&case.options)?,
            bench,
            case,
            disk,
            random,
            database,
            is_reading: false,
            ledger: Arc::clone(ledger),
            others,
            at_second: Vec::new(),
        };
        program.configure()?;
        Ok(program)
    }

    fn configure(&self) -> rusqlite::Result<()> {
        let set = format!("PRAGMA journal_mode={}", self.case.journal);
        self.finish_others();
        self.database.query_row(&set, [], |_| Ok(()))?;
        self.database.execute_batch(&format!("PRAGMA cache_size=10; PRAGMA wal_autocheckpoint={};", self.case.autocheckpoint))
    }

    /// The other connections end what they have begun.
    fn finish_others(&self) {
        for other in self.others.lock().unwrap().iter_mut() {
            let _ = other.finish();
        }
    }

    /// Closes the database and opens it again.
    fn reopen(&mut self) -> rusqlite::Result<()> {
        let nothing = Connection::open_in_memory()?;
        drop(std::mem::replace(&mut self.reader, nothing));
        let nothing = Connection::open_in_memory()?;
        drop(std::mem::replace(&mut self.database, nothing));
        self.is_reading = false;
        self.database = self.bench.between.open(PATH, &self.case.options)?;
        self.reader = self.bench.open(&self.case.options)?;
        self.configure()
    }

    /// What programs do beside transactions.
    fn something_else(&mut self) -> rusqlite::Result<()> {
        let is_wal = self.case.journal == "wal";
        if is_wal && self.random.u32(0..15) == 0 {
            self.is_reading = !self.is_reading;
            self.reader.execute_batch(match self.is_reading {
                false => "COMMIT",
                true => "BEGIN; SELECT count(*) FROM kv",
            })?;
        }
        let database = &self.database;
        match self.random.u32(0..60) {
            0 => database.execute_batch("BEGIN; UPDATE kv SET v=zeroblob(400); DELETE FROM log WHERE n%2; ROLLBACK;"),
            1 if !self.is_reading => database.execute_batch("VACUUM"),
            2 => database.execute_batch("PRAGMA incremental_vacuum(5)"),
            3 if is_wal => database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())),
            4 => {
                let before = self.ledger.last();
                database.query_row("PRAGMA ebbpool_flush", [], |_| Ok(()))?;
                self.ledger.settle(before);
                Ok(())
            }
            // A transaction larger than the memory of the library.
            5 if !is_wal || self.random.bool() => database
                .execute_batch("SAVEPOINT s; CREATE TABLE big AS SELECT hex(zeroblob(350000)) AS b; DROP TABLE big; RELEASE s"),
            6 if !is_wal && !self.is_reading => {
                let size = [512, 1024, 2048, 4096][self.random.usize(0..4)];
                database.execute_batch(&format!("PRAGMA page_size={size}; VACUUM"))
            }
            7 => {
                self.reopen()?;
                self.check("after closing")
            }
            _ => Ok(()),
        }
    }

    /// What is acknowledged is there, and nothing else is.
    fn check(&self, when: &str) -> rusqlite::Result<()> {
        match self.ledger.check(&self.database, Since::Acknowledged, when) {
            Err(why) if self.case.has_others && why.contains("lock") => Err(busy()),
            Err(why) if !self.disk.is_off() => Err(damaged(why)),
            _ => Ok(()),
        }
    }

    /// Makes the tables, unless they are there.
    fn begin(&mut self) -> rusqlite::Result<()> {
        self.until_it_works(|program| {
            program.roll_back()?;
            program.check("at the begin")?;
            if judge(&program.database).map_err(damaged)? < 0 {
                program.database.execute_batch(&format!("BEGIN; {SCHEMA} COMMIT;"))?;
            }
            program.ledger.acknowledge_tables(false);
            Ok(())
        })
    }

    /// Transactions, one each second, until the power fails or the program ends.
    fn run(&mut self) -> rusqlite::Result<()> {
        self.case.let_others_act(self.bench, &self.others);
        self.begin()?;
        for second in 1..5000 {
            match &self.case.trouble {
                Some(trouble) if trouble.end == second => return Ok(()),
                Some(trouble) => trouble.work(second, self.disk),
                None => {}
            }
            let mut worked = self.something_else();
            if worked.is_ok() {
                let is_durable = self.case.window == 0.0;
                let ledger = Arc::clone(&self.ledger);
                let transaction = ledger.transact(&self.database, &mut self.random, is_durable);
                worked = transaction.map(drop);
            }
            if self.disk.is_off() {
                return Ok(());
            }
            if let Err(error) = worked {
                self.after(&error)?;
            }
            self.end_of(second);
        }
        Ok(())
    }

    /// What is as old as the window must be durable. A full disk has room for it.
    fn end_of(&mut self, second: i32) {
        let worked = self.bench.instance.set_time(f64::from(second));
        let must_work = self.case.trouble.as_ref().is_some_and(Trouble::is_full);
        if (worked.is_ok() || must_work) && !self.disk.is_off() {
            let old_enough = |(at, _): &&(i32, i64)| f64::from(second - *at) >= self.case.window;
            if let Some((_, number)) = self.at_second.iter().rev().find(old_enough) {
                self.ledger.settle(*number);
            }
        }
        self.at_second.push((second, self.ledger.last()));
    }

    /// A call has failed and the power has not: nothing of the transaction is there.
    fn after(&mut self, error: &rusqlite::Error) -> rusqlite::Result<()> {
        if matches!(error, rusqlite::Error::InvalidPath(_)) {
            return Err(damaged(error.to_string()));
        }
        let is_explained = !self.case.faults.is_empty() || self.case.trouble.is_some();
        if !is_explained && !is_busy(error) {
            return Err(damaged(format!("no fault explains {error}")));
        }
        self.finish_others();
        self.until_it_works(|program| {
            program.roll_back()?;
            program.check(&format!("after {error}"))
        })
    }

    fn roll_back(&self) -> rusqlite::Result<()> {
        match self.database.is_autocommit() {
            true => Ok(()),
            false => self.database.execute_batch("ROLLBACK"),
        }
    }

    /// Faults end after some attempts, and the other connections leave some in peace.
    fn until_it_works(&mut self, mut work: impl FnMut(&mut Self) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
        let mut answer = Ok(());
        for _ in 0..60 {
            self.finish_others();
            answer = work(self);
            if answer.is_ok() || self.disk.is_off() {
                return Ok(());
            }
        }
        answer
    }

    /// Closes all connections; what the others have found.
    fn close(self) -> Result<(), String> {
        self.bench.between.observe_no_more();
        let mut others = self.others.lock().unwrap();
        others.iter_mut().for_each(Actor::leave);
        drop(self.reader);
        drop(self.database);
        let failure = others.iter().flat_map(|other| &other.failures).next();
        failure.map_or(Ok(()), |failure| Err(failure.clone()))
    }
}

fn busy() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
}

fn damaged(why: String) -> rusqlite::Error {
    rusqlite::Error::InvalidPath(why.into())
}

/// Transactions of plain SQLite until the power fails.
fn plain_work(bench: &Bench, case: &Case) -> rusqlite::Result<()> {
    let database = bench.open_plain()?;
    // A power cut may damage a database whose journal is in memory.
    let journal = match case.journal {
        "memory" => "delete",
        safe => safe,
    };
    database.execute_batch(&format!("PRAGMA page_size={}", case.page_size))?;
    let set = format!("PRAGMA journal_mode={journal}");
    database.query_row(&set, [], |_| Ok(()))?;
    database.execute_batch(&format!("PRAGMA cache_size=10; BEGIN; {SCHEMA} COMMIT;"))?;
    let mut random = Rng::with_seed(case.seed ^ 0x91a1);
    let mut model = Model::default();
    for n in 1.. {
        step(&database, &mut random, n, &mut model)?;
    }
    Ok(())
}

/// Transactions until the power fails, or the program ends and closes the database.
fn work(bench: &Bench, case: &Case, disk: &FaultyDisk, ledger: &Arc<Ledger>) -> Result<(), String> {
    // No database is open.
    let _ = bench.instance.set_time(0.0);
    let text = |error: rusqlite::Error| error.to_string();
    let started = Program::start(bench, case, disk, ledger).map_err(text);
    let worked = started.and_then(|mut program| {
        let worked = program.run().map_err(text);
        program.close().and(worked)
    });
    bench.between.observe_no_more();
    match disk.is_off() {
        // The power has failed in one of the calls.
        true => Ok(()),
        false => worked,
    }
}

/// Runs a case, and says what is wrong with what it leaves behind.
pub fn run(bench: &Bench, case: &Case) -> Result<(), String> {
    // A case that has failed may have left a database that could not be closed.
    bench.forget();
    let disk = FaultyDisk::new(case.seed);
    bench.machine.insert(&disk);
    bench.machine.seed(case.seed);
    let connections = if case.has_others { 3 } else { 1 };
    let ledger = Arc::new(Ledger::new(Some(&disk), connections));
    if let Some(change) = case.plain_crash_at {
        crash_plain(bench, case, &disk, &ledger, change)?;
    }
    for (operation, errno, nth) in &case.faults {
        let fault = match operation {
            // A failed sync drops what was written: a second one that succeeds proves nothing.
            DiskOperation::Sync if nth % 2 == 0 => Fault::sync_that_drops(*errno),
            operation => Fault::failing(*operation, *errno),
        };
        disk.inject(fault.nth(*nth));
    }
    if let Some(trouble) = &case.trouble {
        return run_in_trouble(bench, case, trouble, &disk, &ledger);
    }
    disk.inject(Fault::crash(DiskOperation::Change, case.seed ^ 77).nth(case.crash_at));
    let worked = work(bench, case, &disk, &ledger);
    if !disk.is_off() {
        return Err(format!("{worked:?}, and the power did not fail"));
    }
    disk.restart();
    bench.forget();
    judge_after_power_cut(bench, case, &disk, &ledger)
}

/// Plain SQLite uses the database until the power fails. The library is to find what plain SQLite would.
fn crash_plain(bench: &Bench, case: &Case, disk: &FaultyDisk, ledger: &Ledger, change: u64) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    disk.inject(Fault::crash(DiskOperation::Change, case.seed ^ 78).nth(change));
    // The power fails in one of the calls.
    let _ = plain_work(bench, case);
    disk.restart();
    bench.machine.insert(&disk.fork(3));
    let plain = bench.open_plain().map_err(text)?;
    let found = judge(&plain).map_err(|why| format!("plain SQLite: {why}"))?;
    ledger.take_up(&plain, found).map_err(text)?;
    drop(plain);
    bench.machine.insert(disk);
    Ok(())
}

/// The disk is full for a while, or syncs fail; then the program is killed, or it closes the database.
fn run_in_trouble(
    bench: &Bench,
    case: &Case,
    trouble: &Trouble,
    disk: &FaultyDisk,
    ledger: &Arc<Ledger>,
) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    if trouble.is_killed {
        disk.observe_no_more();
        let before = disk.clone();
        // The power fails while the connections are open.
        let worked = work_until_killed(bench, case, disk, ledger);
        before.heal();
        worked?;
        disk.restart();
        bench.forget();
        return judge_after_power_cut(bench, case, disk, ledger);
    }
    work(bench, case, disk, ledger)?;
    disk.heal();
    // What closing could not make durable is there in this process.
    let database = bench.open(&case.options).map_err(text)?;
    ledger.check(&database, Since::Acknowledged, "opened again")?;
    drop(database);
    judge_closed(bench, disk, ledger)
}

fn work_until_killed(bench: &Bench, case: &Case, disk: &FaultyDisk, ledger: &Arc<Ledger>) -> Result<(), String> {
    let _ = bench.instance.set_time(0.0);
    let text = |error: rusqlite::Error| error.to_string();
    let mut program = Program::start(bench, case, disk, ledger).map_err(text)?;
    let worked = program.run().map_err(text);
    disk.crash(case.seed ^ 0x2111);
    program.close().and(worked)
}

fn judge_after_power_cut(bench: &Bench, case: &Case, disk: &FaultyDisk, ledger: &Ledger) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    if case.is_deltas {
        // Without the library there is a whole database, which may be older.
        bench.machine.insert(&disk.fork(1));
        let plain = bench.open_plain().map_err(text)?;
        ledger.check_older(&plain, "without the library")?;
        // Closing deletes files of the disk that is in the machine.
        drop(plain);
        bench.machine.insert(disk);
    }
    for (index, changes) in case.crashes_in_recovery.iter().enumerate() {
        disk.inject(Fault::crash(DiskOperation::Change, case.seed + index as u64).nth(*changes));
        if let Ok(database) = bench.open(&case.options) {
            let _ = judge(&database);
        }
        if !disk.is_off() {
            disk.crash(case.seed ^ index as u64);
        }
        disk.restart();
        bench.forget();
    }
    disk.heal();
    if !case.is_deltas {
        // Any SQLite takes the epochs in.
        bench.machine.insert(&disk.fork(2));
        let plain = bench.open_plain().map_err(text)?;
        ledger.check(&plain, Since::PowerCut, "plain SQLite")?;
        drop(plain);
        bench.machine.insert(disk);
    }
    let opened = bench.open(&case.options);
    let database = opened.map_err(|error| format!("recovery: {error}"))?;
    let found = ledger.check(&database, Since::PowerCut, "after recovery")?;
    ledger.take_up(&database, found).map_err(text)?;
    drop(database);
    judge_closed(bench, disk, ledger)
}

/// What is closed is a plain database, also after a power cut at once.
pub fn judge_closed(bench: &Bench, disk: &FaultyDisk, ledger: &Ledger) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    for suffix in ["-ebb", "-wal"] {
        if !disk.bytes(&format!("{PATH}{suffix}")).is_empty().unwrap() {
            return Err(format!("{suffix} was left behind"));
        }
    }
    disk.crash(0xc1);
    disk.restart();
    bench.forget();
    let plain = bench.open_plain().map_err(text)?;
    ledger.check(&plain, Since::Acknowledged, "after closing")?;
    drop(plain);
    let plain = bench.open_plain().map_err(text)?;
    let written = plain.execute_batch("CREATE TABLE after (a)");
    written.map_err(|error| format!("plain SQLite cannot write after closing: {error}"))
}
