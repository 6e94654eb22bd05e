//! Power cuts at every change of a simulated disk, judged by plain SQLite.

#![allow(unsafe_code)]

mod support;

use std::ffi::{CStr, CString};

use ebbpool::storage::{DiskOperation, Fault, FaultyDisk};
use ebbpool_sqlite::Instance;
use fastrand::Rng;
use rusqlite::{Connection, OpenFlags};

use support::faulty_vfs::Machine;
use support::workload::{Model, SCHEMA, judge, step};

const PATH: &str = "/x.db";

/// A simulated machine, its VFS, and ours over it.
struct Bench {
    machine: &'static Machine,
    instance: &'static Instance,
    ours: &'static CStr,
}

impl Bench {
    fn new(name: &str) -> Bench {
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
        }
    }

    fn open(&self, options: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI;
        let database = Connection::open_with_flags_and_vfs(
            format!("file:{PATH}?{options}"),
            flags,
            self.ours,
        )?;
        database.busy_timeout(std::time::Duration::ZERO)?;
        Ok(database)
    }

    fn open_plain(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let database = Connection::open_with_flags_and_vfs(PATH, flags, self.machine.name())?;
        database.execute_batch("PRAGMA locking_mode=EXCLUSIVE")?;
        Ok(database)
    }
}

/// What one case does.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    journal: &'static str,
    page_size: u32,
    window: f64,
    options: String,
    is_deltas: bool,
    crash_at: u64,
    /// Changes of the disk after which recovery crashes too.
    crashes_in_recovery: Vec<u64>,
}

impl Case {
    fn new(seed: u64) -> Case {
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
            crashes_in_recovery: (0..random.usize(0..3)).map(|_| random.u64(1..12)).collect(),
        }
    }
}

/// What a case has committed, and what the window promises.
#[derive(Default)]
struct Progress {
    /// The last transaction that SQLite has committed.
    committed: i64,
    /// The last transaction that must survive.
    durable: i64,
}

/// Transactions until the power fails.
fn work(
    bench: &Bench,
    case: &Case,
    disk: &FaultyDisk,
    progress: &mut Progress,
) -> rusqlite::Result<()> {
    let mut random = Rng::with_seed(case.seed ^ 0x5eed);
    // No database is open.
    let _ = bench.instance.set_time(0.0);
    let database = bench.open(&case.options)?;
    let vacuum = random.u32(0..3);
    let checkpoint = [5, 20, 1000][random.usize(0..3)];
    database.execute_batch(&format!(
        "PRAGMA page_size={}; PRAGMA cache_size=10; PRAGMA auto_vacuum={vacuum};",
        case.page_size
    ))?;
    database.query_row(&format!("PRAGMA journal_mode={}", case.journal), [], |_| {
        Ok(())
    })?;
    database.execute_batch(&format!(
        "PRAGMA wal_autocheckpoint={checkpoint}; BEGIN; {SCHEMA} COMMIT;"
    ))?;
    progress.committed = 0;
    // A second connection reads, now and then for long.
    let reader = bench.open(&case.options)?;
    let mut is_reading = false;
    let mut model = Model::default();
    for n in 1..5000 {
        if case.journal == "wal" && random.u32(0..15) == 0 {
            match is_reading {
                true => reader.execute_batch("COMMIT")?,
                false => reader.execute_batch("BEGIN; SELECT count(*) FROM kv")?,
            }
            is_reading = !is_reading;
        }
        match random.u32(0..60) {
            0 => {
                // A transaction larger than the cache, that is rolled back.
                database.execute_batch(
                    "BEGIN; UPDATE kv SET v=randomblob(400); DELETE FROM log WHERE n%2; ROLLBACK;",
                )?;
            }
            1 if !is_reading => database.execute_batch("VACUUM")?,
            2 => database.execute_batch("PRAGMA incremental_vacuum(5)")?,
            3 if case.journal == "wal" => {
                database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            }
            4 => {
                database.query_row("PRAGMA ebbpool_flush", [], |_| Ok(()))?;
                progress.durable = progress.committed;
            }
            5 if case.journal != "wal" => {
                // A transaction larger than the memory of the library.
                database.execute_batch("SAVEPOINT s; CREATE TABLE big AS SELECT randomblob(900000) AS b; DROP TABLE big; RELEASE s")?;
            }
            6 if case.journal != "wal" && !is_reading => {
                let size = [512, 1024, 2048, 4096][random.usize(0..4)];
                database.execute_batch(&format!("PRAGMA page_size={size}; VACUUM"))?;
            }
            _ => {}
        }
        step(&database, &mut random, n, &mut model)?;
        progress.committed = n;
        if case.window == 0.0 && !disk.is_off() {
            progress.durable = n;
        }
        // One transaction each second; what is as old as the window must be durable.
        let ended = bench.instance.set_time(n as f64);
        if disk.is_off() {
            return Ok(());
        }
        ended.expect("only the power fails");
        progress.durable = progress.durable.max(n - case.window as i64);
    }
    Ok(())
}

/// Runs a case, and says what is wrong with what it leaves behind.
fn run(bench: &Bench, case: &Case) -> Result<(), String> {
    let disk = FaultyDisk::new(case.seed);
    bench.machine.insert(&disk);
    disk.inject(Fault::crash(DiskOperation::Change, case.seed ^ 77).nth(case.crash_at));
    let mut progress = Progress {
        committed: -1,
        durable: -2,
    };
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
    check(
        &bench.open_plain().map_err(|error| error.to_string())?,
        &progress,
        "after closing",
    )?;
    for suffix in ["-ebb", "-wal"] {
        if !disk.bytes(&format!("{PATH}{suffix}")).is_empty().unwrap() {
            return Err(format!("{suffix} was left behind"));
        }
    }
    Ok(())
}

fn check(database: &Connection, progress: &Progress, when: &str) -> Result<(), String> {
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

/// How many cases run: `EBBPOOL_CRASHES=100000` runs more than the usual number, from `EBBPOOL_SEED` on.
fn cases() -> std::ops::Range<u64> {
    let number = |name: &str, usual: u64| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(usual)
    };
    let from = number("EBBPOOL_SEED", 1);
    from..from + number("EBBPOOL_CRASHES", 2000)
}

#[test]
fn a_power_cut_damages_nothing_and_loses_no_more_than_the_window() {
    let cases = cases();
    let count = cases.end - cases.start;
    let threads = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    let failures: Vec<String> = std::thread::scope(|scope| {
        let cases = &cases;
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    let bench = Bench::new(&format!("crash-{worker}"));
                    let mine = cases.clone().filter(|seed| seed % threads == worker);
                    let failed = mine.filter_map(|seed| {
                        let case = Case::new(seed);
                        run(&bench, &case)
                            .err()
                            .map(|why| format!("{why}: {case:?}"))
                    });
                    failed.collect::<Vec<String>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    let shown = failures
        .iter()
        .take(5)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        failures.is_empty(),
        "{} of {count} crashes:\n{shown}",
        failures.len()
    );
}
