//! Cases: transactions on a simulated disk until the power fails, and what is judged afterwards.

use std::ffi::{CStr, CString};

use ebbpool::storage::{DiskOperation, EIO, ENOSPC, Fault, FaultyDisk};
use ebbpool_sqlite::Instance;
use fastrand::Rng;
use rusqlite::{Connection, OpenFlags};

use super::between::Between;
use super::faulty_vfs::Machine;
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
        let ours: &'static CStr = Box::leak(
            CString::new(format!("ebbpool-{name}"))
                .unwrap()
                .into_boxed_c_str(),
        );
        // SAFETY: the functions are those of the SQLite that the tests are linked with.
        let instance = unsafe {
            ebbpool_sqlite::register_over(ebbpool_sqlite::linked_api(), ours, machine.name())
        };
        Bench {
            machine,
            instance: instance.unwrap(),
            ours,
            between: Between::register(&format!("between-{name}"), Some(ours)),
        }
    }

    pub fn open(&self, options: &str) -> rusqlite::Result<Connection> {
        self.open_at(PATH, options)
    }

    pub fn open_at(&self, path: &str, options: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI;
        let name = format!("file:{path}?{options}");
        let database = Connection::open_with_flags_and_vfs(name, flags, self.ours)?;
        database.busy_timeout(std::time::Duration::ZERO)?;
        Ok(database)
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
            options: format!(
                "window={window}&log={log}&log_limit={log_limit}&memory=1M&checkpoint_age={age}"
            ),
            is_deltas,
            crash_at: random.u64(1..200),
            plain_crash_at: (seed % 4 == 3).then(|| Rng::with_seed(seed ^ 0x91).u64(1..200)),
            crashes_in_recovery: (0..random.usize(0..3)).map(|_| random.u64(1..12)).collect(),
            autocheckpoint: [5, 20, 1000][random.usize(0..3)],
            faults: Vec::new(),
        }
    }
}

impl Case {
    /// A case in which writes and syncs fail, before the power does.
    pub fn with_faults(seed: u64) -> Case {
        let mut case = Case::new(seed);
        let mut random = Rng::with_seed(seed ^ 0xfa);
        let fault = |_| {
            let operation = [DiskOperation::Write, DiskOperation::Sync][random.usize(0..2)];
            (
                operation,
                [EIO, ENOSPC][random.usize(0..2)],
                random.u64(10..150),
            )
        };
        case.faults = (0..4).map(fault).collect();
        case
    }
}

/// What a case has committed, and what the window promises.
#[derive(Debug, Default)]
pub struct Progress {
    /// The last transaction that SQLite has committed.
    pub committed: i64,
    /// The last transaction that must survive.
    pub durable: i64,
    /// The last transaction at each second.
    at_second: Vec<(i32, i64)>,
}

/// The program of a case: it changes the database through two connections until the power fails.
struct Program<'a> {
    bench: &'a Bench,
    case: &'a Case,
    disk: &'a FaultyDisk,
    random: Rng,
    database: Connection,
    /// Reads, now and then for long.
    reader: Connection,
    is_reading: bool,
    model: Model,
}

impl<'a> Program<'a> {
    fn start(
        bench: &'a Bench,
        case: &'a Case,
        disk: &'a FaultyDisk,
    ) -> rusqlite::Result<Program<'a>> {
        let mut random = Rng::with_seed(case.seed ^ 0x5eed);
        let database = bench.open(&case.options)?;
        let vacuum = random.u32(0..3);
        database.execute_batch(&format!(
            "PRAGMA page_size={}; PRAGMA auto_vacuum={vacuum};",
            case.page_size
        ))?;
        let program = Program {
            reader: bench.open(&case.options)?,
            bench,
            case,
            disk,
            random,
            database,
            is_reading: false,
            model: Model::default(),
        };
        program.configure()?;
        Ok(program)
    }

    fn configure(&self) -> rusqlite::Result<()> {
        let set = format!("PRAGMA journal_mode={}", self.case.journal);
        self.database.query_row(&set, [], |_| Ok(()))?;
        self.database.execute_batch(&format!(
            "PRAGMA cache_size=10; PRAGMA wal_autocheckpoint={};",
            self.case.autocheckpoint
        ))
    }

    /// Closes the database and opens it again.
    fn reopen(&mut self) -> rusqlite::Result<()> {
        let nothing = Connection::open_in_memory()?;
        drop(std::mem::replace(&mut self.reader, nothing));
        let nothing = Connection::open_in_memory()?;
        drop(std::mem::replace(&mut self.database, nothing));
        self.is_reading = false;
        self.database = self.bench.open(&self.case.options)?;
        self.reader = self.bench.open(&self.case.options)?;
        self.configure()
    }

    /// What programs do beside transactions.
    fn something_else(&mut self, progress: &mut Progress) -> rusqlite::Result<()> {
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
            0 => database.execute_batch(
                "BEGIN; UPDATE kv SET v=zeroblob(400); DELETE FROM log WHERE n%2; ROLLBACK;",
            ),
            1 if !self.is_reading => database.execute_batch("VACUUM"),
            2 => database.execute_batch("PRAGMA incremental_vacuum(5)"),
            3 if is_wal => database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())),
            4 => {
                database.query_row("PRAGMA ebbpool_flush", [], |_| Ok(()))?;
                progress.durable = progress.committed;
                Ok(())
            }
            // A transaction larger than the memory of the library.
            5 if !is_wal || self.random.bool() => database.execute_batch(
                "SAVEPOINT s; CREATE TABLE big AS SELECT hex(zeroblob(350000)) AS b; DROP TABLE big; RELEASE s",
            ),
            6 if !is_wal && !self.is_reading => {
                let size = [512, 1024, 2048, 4096][self.random.usize(0..4)];
                database.execute_batch(&format!("PRAGMA page_size={size}; VACUUM"))
            }
            7 => {
                self.reopen()?;
                let found = judge(&self.database).map_err(damaged)?;
                assert!(found >= progress.durable, "{found} after closing, {progress:?}");
                self.take_up(found, progress)
            }
            _ => Ok(()),
        }
    }

    /// Goes on after transaction `n`, the last that the database has; -1 if a disk that fails has not even got the tables.
    fn take_up(&mut self, n: i64, progress: &mut Progress) -> rusqlite::Result<()> {
        if n < 0 {
            self.database
                .execute_batch(&format!("BEGIN; {SCHEMA} COMMIT;"))?;
        }
        let n = n.max(0);
        progress.committed = n;
        // Closing while the disk fails loses what the window allows.
        for (_, committed) in &mut progress.at_second {
            *committed = (*committed).min(n);
        }
        self.model = Model::of(&self.database)?;
        Ok(())
    }

    /// Transactions, one each second, until the power fails.
    fn run(&mut self, progress: &mut Progress) -> rusqlite::Result<()> {
        let mut found = progress.durable;
        self.until_it_works(|program| {
            program.roll_back()?;
            // An error of the commit does not say that the tables are not there.
            found = judge(&program.database).map_err(damaged)?;
            if found < 0 {
                program
                    .database
                    .execute_batch(&format!("BEGIN; {SCHEMA} COMMIT;"))?;
            }
            program.model = Model::of(&program.database)?;
            Ok(())
        })?;
        if found < progress.durable || found > progress.committed + 1 {
            return Err(damaged(format!("{found} of plain SQLite, {progress:?}")));
        }
        if !self.disk.is_off() {
            progress.committed = found.max(0);
        }
        for second in 1..5000 {
            let mut worked = self.something_else(progress);
            let n = progress.committed + 1;
            if worked.is_ok() {
                worked = step(&self.database, &mut self.random, n, &mut self.model);
            }
            if worked.is_ok() {
                progress.committed = n;
                if self.case.window == 0.0 {
                    progress.durable = n;
                }
            }
            if self.disk.is_off() {
                return Ok(());
            }
            if let Err(error) = worked {
                self.after(&error, progress)?;
            }
            // What is as old as the window must be durable.
            if self.bench.instance.set_time(f64::from(second)).is_ok() && !self.disk.is_off() {
                progress.settle(second, self.case.window);
            }
            progress.note(second);
        }
        Ok(())
    }

    /// A call has failed and the power has not: the transaction is there whole or not at all.
    fn after(&mut self, error: &rusqlite::Error, progress: &mut Progress) -> rusqlite::Result<()> {
        if self.case.faults.is_empty() && !is_busy(error) {
            return Err(damaged(format!("no fault explains {error}")));
        }
        let mut found = 0;
        self.until_it_works(|program| {
            program.roll_back()?;
            found = judge(&program.database).map_err(damaged)?;
            Ok(())
        })?;
        if found < progress.durable || found > progress.committed + 1 {
            return Err(damaged(format!("{found} after {error}, {progress:?}")));
        }
        self.until_it_works(|program| program.take_up(found, progress))
    }

    fn roll_back(&self) -> rusqlite::Result<()> {
        match self.database.is_autocommit() {
            true => Ok(()),
            false => self.database.execute_batch("ROLLBACK"),
        }
    }

    /// Faults end after some attempts.
    fn until_it_works(
        &mut self,
        mut work: impl FnMut(&mut Self) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let mut answer = Ok(());
        for _ in 0..20 {
            answer = work(self);
            if answer.is_ok() || self.disk.is_off() {
                return Ok(());
            }
        }
        answer
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    )
}

fn damaged(why: String) -> rusqlite::Error {
    rusqlite::Error::InvalidPath(why.into())
}

impl Progress {
    /// Notes what is committed at a second.
    fn note(&mut self, second: i32) {
        self.at_second.push((second, self.committed));
    }

    /// The epochs that were due at a second are durable.
    fn settle(&mut self, second: i32, window: f64) {
        let old_enough = |(at, _): &&(i32, i64)| f64::from(second - *at) >= window;
        if let Some((_, committed)) = self.at_second.iter().rev().find(old_enough) {
            self.durable = self.durable.max((*committed).min(self.committed));
        }
    }
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

/// Transactions until the power fails.
fn work(
    bench: &Bench,
    case: &Case,
    disk: &FaultyDisk,
    progress: &mut Progress,
) -> rusqlite::Result<()> {
    // No database is open.
    let _ = bench.instance.set_time(0.0);
    Program::start(bench, case, disk)?.run(progress)
}

/// Runs a case, and says what is wrong with what it leaves behind.
pub fn run(bench: &Bench, case: &Case) -> Result<(), String> {
    let disk = FaultyDisk::new(case.seed);
    bench.machine.insert(&disk);
    bench.machine.seed(case.seed);
    let mut progress = Progress {
        committed: -1,
        durable: -2,
        ..Progress::default()
    };
    if let Some(change) = case.plain_crash_at {
        disk.inject(Fault::crash(DiskOperation::Change, case.seed ^ 78).nth(change));
        // The power fails in one of the calls.
        let _ = plain_work(bench, case);
        disk.restart();
        // The library is to find what plain SQLite would.
        bench.machine.insert(&disk.fork(3));
        let plain = bench.open_plain().map_err(|error| error.to_string())?;
        let found = judge(&plain).map_err(|why| format!("plain SQLite: {why}"))?;
        (progress.committed, progress.durable) = (found, found);
        drop(plain);
        bench.machine.insert(&disk);
    }
    for (operation, errno, nth) in &case.faults {
        let fault = match operation {
            // A failed sync drops what was written: a second one that succeeds proves nothing.
            DiskOperation::Sync if nth % 2 == 0 => Fault::sync_that_drops(*errno),
            operation => Fault::failing(*operation, *errno),
        };
        disk.inject(fault.nth(*nth));
    }
    disk.inject(Fault::crash(DiskOperation::Change, case.seed ^ 77).nth(case.crash_at));
    let worked = work(bench, case, &disk, &mut progress);
    if !disk.is_off() {
        return Err(format!("{worked:?}, and the power did not fail"));
    }
    disk.restart();
    if case.is_deltas {
        // Without the library there is a whole database, which may be older.
        bench.machine.insert(&disk.fork(1));
        let plain = bench.open_plain().map_err(|error| error.to_string())?;
        let found = judge(&plain).map_err(|why| format!("without the library: {why}"))?;
        if found > progress.committed + 1 {
            return Err(format!(
                "without the library: {found} of {}",
                progress.committed
            ));
        }
        // Closing deletes files of the disk that is in the machine.
        drop(plain);
        bench.machine.insert(&disk);
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
    }
    disk.heal();
    if !case.is_deltas {
        // Any SQLite takes the epochs in.
        bench.machine.insert(&disk.fork(2));
        check(
            &bench.open_plain().map_err(|error| error.to_string())?,
            &progress,
            "plain SQLite",
        )?;
        bench.machine.insert(&disk);
    }
    let database = bench
        .open(&case.options)
        .map_err(|error| format!("recovery: {error}"))?;
    check(&database, &progress, "after recovery")?;
    drop(database);
    for suffix in ["-ebb", "-wal"] {
        if !disk.bytes(&format!("{PATH}{suffix}")).is_empty().unwrap() {
            return Err(format!("{suffix} was left behind"));
        }
    }
    // What is closed is a plain database, also after a power cut at once.
    disk.crash(case.seed ^ 0xc1);
    disk.restart();
    check(
        &bench.open_plain().map_err(|error| error.to_string())?,
        &progress,
        "after closing",
    )?;
    let plain = bench.open_plain().map_err(|error| error.to_string())?;
    let written = plain.execute_batch("CREATE TABLE after (a)");
    written.map_err(|error| format!("plain SQLite cannot write after closing: {error}"))?;
    drop(plain);
    Ok(())
}

pub fn check(database: &Connection, progress: &Progress, when: &str) -> Result<(), String> {
    let found = judge(database).map_err(|why| format!("{when}: {why}"))?;
    // The transaction in which the power failed may have become durable.
    if found < progress.durable || found > progress.committed + 1 {
        return Err(format!(
            "{when}: transaction {found}, although {} were committed and {} had to survive",
            progress.committed, progress.durable
        ));
    }
    Ok(())
}
