//! A second and a third connection act between the calls of the first one. The model knows what was acknowledged.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ebbpool::storage::FaultyDisk;
use ebbpool_sqlite::ffi;
use fastrand::Rng;
use rusqlite::Connection;

use crate::support::actor::{ACTIONS, Action, Actor, is_busy};
use crate::support::between::FileKind;
use crate::support::cases::{Bench, PATH};
use crate::support::ledger::{Ledger, Since};
use crate::support::workload::SCHEMA;

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// All connections are closed.
    Close,
    /// The power fails after the last call of the program.
    CutLast,
    /// The power fails as soon as the other connections have acted.
    CutAtOnce,
}

const ENDS: [End; 3] = [End::Close, End::CutLast, End::CutAtOnce];

/// The answer of a database after the end.
fn judge_end(bench: Bench, disk: &FaultyDisk, ledger: &Ledger, options: &str) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    if disk.is_off() {
        disk.restart();
        bench.forget();
        let database = bench.open(options).map_err(text)?;
        let found = ledger.check(&database, Since::PowerCut, "after recovery")?;
        ledger.take_up(&database, found).map_err(text)?;
        drop(database);
    }
    for suffix in ["-ebb", "-wal", "-journal"] {
        let left = disk.bytes(&format!("{PATH}{suffix}"));
        let mut first = [0];
        let read = left.read_at(0, &mut first).map_err(|error| error.to_string())?;
        // A journal that persists begins with zeros.
        if read > 0 && (suffix != "-journal" || first != [0]) {
            return Err(format!("{suffix} was left behind"));
        }
    }
    let plain = bench.open_plain().map_err(text)?;
    ledger.check(&plain, Since::Acknowledged, "plain SQLite")?;
    plain.execute_batch("CREATE TABLE after (a)").map_err(|error| format!("plain SQLite cannot write: {error}"))
}

fn set_up(bench: Bench, seed: u64) -> (FaultyDisk, Arc<Ledger>) {
    bench.forget();
    let disk = FaultyDisk::new(seed);
    bench.machine.insert(&disk);
    bench.machine.seed(seed);
    let _ = bench.instance.set_time(0.0);
    let ledger = Arc::new(Ledger::new(Some(&disk), 3));
    (disk, ledger)
}

/// SQLite gives the writer's lock of the WAL back before it says that it has committed. What another connection does
/// there, for how long, and how it all ends.
fn between_unlock_and_commit(
    bench: Bench,
    actions: &[Action],
    afterwards: Option<Action>,
    window: u32,
    end: End,
) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    let (disk, ledger) = set_up(bench, 7);
    let options = format!("window={window}&memory=1M");
    let first = bench.between.open(PATH, &options).map_err(text)?;
    first
        .execute_batch(&format!(
            "PRAGMA page_size=512; PRAGMA journal_mode=WAL; BEGIN; {SCHEMA} COMMIT; PRAGMA wal_checkpoint(TRUNCATE)"
        ))
        .map_err(text)?;
    let mut random = Rng::with_seed(1);
    let is_durable = window == 0;
    ledger.acknowledge_tables(is_durable);
    for _ in 0..30 {
        ledger.transact(&first, &mut random, is_durable).map_err(text)?;
    }
    let other = Actor::new(bench, &disk, &options, 3, &ledger);
    let other = Arc::new(Mutex::new(other));
    let begun = ledger.begin(&first, &mut random).map_err(text)?;
    let (acting, off) = (Arc::clone(&other), disk.clone());
    let (planned, done) = (actions.to_vec(), AtomicU64::new(0));
    bench.between.observe(move |call| {
        let is_commit =
            call.method == "xFileControl" && call.at == i64::from(ffi::FCNTL_COMMIT_PHASETWO) && call.kind == FileKind::Main;
        if is_commit && done.fetch_add(1, Ordering::Relaxed) == 0 {
            let mut other = acting.lock().unwrap();
            for action in &planned {
                other.act(*action);
            }
            if end == End::CutAtOnce {
                off.crash(11);
            }
        }
        None
    });
    let committed = ledger.commit(&first, begun, is_durable);
    bench.between.observe_no_more();
    if let Err(error) = committed
        && !disk.is_off()
    {
        return Err(format!("the commit: {error}"));
    }
    for _ in 0..3 {
        if let Some(action) = afterwards {
            other.lock().unwrap().act(action);
        }
        match ledger.transact(&first, &mut random, is_durable) {
            // The other one has the lock, and ends what it has begun.
            Err(error) if is_busy(&error) => other.lock().unwrap().act(Action::Read),
            Err(error) if !disk.is_off() => return Err(format!("a later commit: {error}")),
            _ => {}
        }
    }
    if end == End::CutLast {
        disk.crash(12);
    }
    let mut other = other.lock().unwrap();
    other.leave();
    drop(first);
    if let Some(failure) = other.failures.first() {
        return Err(failure.clone());
    }
    judge_end(bench, &disk, &ledger, &options)
}

#[test]
fn a_commit_is_taken_whatever_happens_before_sqlite_announces_it() {
    let bench = Bench::new("announced");
    // Of these, too, each run has a part.
    let stride = if number_of("EBBPOOL_POINTS", 24) > 1 { 5 } else { 1 };
    let (mut case, mut failures) = (0, Vec::new());
    for action in ACTIONS {
        for further in [None, Some(Action::Read), Some(Action::Write), Some(Action::Checkpoint("TRUNCATE"))] {
            for (window, end) in [0, 3].into_iter().flat_map(|window| ENDS.map(|end| (window, end))) {
                for (actions, afterwards) in
                    [(vec![action], further), ([Some(action), further].into_iter().flatten().collect(), None)]
                {
                    case += 1;
                    if case % stride != 0 {
                        continue;
                    }
                    if let Err(why) = between_unlock_and_commit(bench, &actions, afterwards, window, end) {
                        failures.push(format!("{actions:?}, then {afterwards:?}, window {window}, {end:?}: {why}"));
                    }
                }
            }
        }
    }
    let count = failures.len();
    failures.truncate(12);
    assert!(count == 0, "{count} failures:\n{}", failures.join("\n"));
}

/// A small program of the first connection, and who acts where.
#[derive(Clone, Debug)]
struct Interleaving {
    journal: &'static str,
    is_exclusive: bool,
    window: u32,
    end: End,
    /// The second connection acts before this call, and the third some calls later.
    at: u64,
    second: Action,
    third: Option<(u64, Action)>,
}

impl Interleaving {
    /// Runs the program; of each call that it has made whether it is one of those between which commits come about.
    fn run(&self, bench: Bench) -> Result<Vec<bool>, String> {
        let (disk, ledger) = set_up(bench, self.at);
        let options = format!("window={}&memory=1M&log_limit=20000", self.window);
        let others: Vec<Actor> = [5, 6].map(|seed| Actor::new(bench, &disk, &options, seed ^ self.at, &ledger)).into();
        let others = Arc::new(Mutex::new(others));
        let calls = Arc::new(Mutex::new(Vec::new()));
        self.observe(bench, &disk, &others, &calls);
        let worked = self.work(bench, &disk, &ledger, &others, &options);
        bench.between.observe_no_more();
        let mut others = others.lock().unwrap();
        others.iter_mut().for_each(Actor::leave);
        if let Err(error) = worked
            && !disk.is_off()
        {
            return Err(error.to_string());
        }
        if let Some(failure) = others.iter().flat_map(|other| &other.failures).next() {
            return Err(failure.clone());
        }
        judge_end(bench, &disk, &ledger, &options)?;
        let calls = calls.lock().unwrap();
        Ok(calls.clone())
    }

    fn observe(&self, bench: Bench, disk: &FaultyDisk, others: &Arc<Mutex<Vec<Actor>>>, calls: &Arc<Mutex<Vec<bool>>>) {
        let (others, calls, disk) = (Arc::clone(others), Arc::clone(calls), disk.clone());
        let this = self.clone();
        bench.between.observe(move |call| {
            let is_critical =
                matches!(call.method, "xFileControl" | "xShmLock" | "xSync") || (call.method == "xUnlock" && call.at == 0);
            let call = {
                let mut calls = calls.lock().unwrap();
                calls.push(is_critical);
                calls.len() as u64 - 1
            };
            let mut others = others.lock().unwrap();
            if call == this.at {
                others[0].act(this.second);
            }
            let third = this.third.filter(|(after, _)| call == this.at + after);
            if let Some((_, action)) = third {
                others[1].act(action);
            }
            let last = this.third.map_or(0, |(after, _)| after);
            if this.end == End::CutAtOnce && call == this.at + last {
                disk.crash(this.at);
            }
            None
        });
    }

    /// The first connection's program. Where another one is in the way, that one ends what it has begun.
    fn work(
        &self,
        bench: Bench,
        disk: &FaultyDisk,
        ledger: &Ledger,
        others: &Mutex<Vec<Actor>>,
        options: &str,
    ) -> rusqlite::Result<()> {
        let patiently = |work: &mut dyn FnMut() -> rusqlite::Result<()>| {
            let mut answer = work();
            for round in 0..3 {
                match &answer {
                    Err(error) if is_busy(error) && !disk.is_off() => {
                        for other in others.lock().unwrap().iter_mut() {
                            if round < 1 {
                                other.act(Action::Read);
                            } else {
                                other.leave();
                            }
                        }
                        answer = work();
                    }
                    _ => break,
                }
            }
            answer
        };
        let mut random = Rng::with_seed(self.at);
        let first = bench.between.open(PATH, options)?;
        let exclusive = if self.is_exclusive { "EXCLUSIVE" } else { "NORMAL" };
        first.execute_batch(&format!("PRAGMA page_size=512; PRAGMA locking_mode={exclusive}"))?;
        let set = format!("PRAGMA journal_mode={}", self.journal);
        patiently(&mut || first.query_row(&set, [], |_| Ok(())))?;
        first.execute_batch("PRAGMA cache_size=10")?;
        patiently(&mut || {
            let made = first.execute_batch(&format!("BEGIN IMMEDIATE; {SCHEMA} COMMIT;"));
            if made.is_err() && !first.is_autocommit() {
                first.execute_batch("ROLLBACK")?;
            }
            made
        })?;
        ledger.acknowledge_tables(self.window == 0);
        for second in 1..4 {
            patiently(&mut || {
                let number = ledger.transact(&first, &mut random, self.window == 0);
                number.map(drop)
            })?;
            if bench.instance.set_time(f64::from(second)).is_err() && !disk.is_off() {
                return Err(rusqlite::Error::InvalidPath("an epoch failed".into()));
            }
        }
        if self.journal == "wal" {
            first.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
            patiently(&mut || {
                let number = ledger.transact(&first, &mut random, self.window == 0);
                number.map(drop)
            })?;
        }
        if self.end == End::CutLast {
            disk.crash(self.at);
        }
        close(first);
        Ok(())
    }
}

fn close(database: Connection) {
    drop(database);
}

fn number_of(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Every point of the program, of which each run of the tests has a part: `EBBPOOL_POINTS=1` has all of them.
fn interleavings(bench: Bench, journal: &'static str, is_exclusive: bool) -> (u64, Vec<String>) {
    let stride = number_of("EBBPOOL_POINTS", 24);
    let (mut run, mut failures) = (0, Vec::new());
    for window in [0, 3] {
        let quiet = Interleaving {
            journal,
            is_exclusive,
            window,
            end: End::Close,
            at: u64::MAX - 100,
            second: Action::Read,
            third: None,
        };
        let points = quiet.run(bench).unwrap();
        for (at, is_critical) in (0..).zip(points) {
            // Where commits come about there are few calls, and much to go wrong.
            let stride = if is_critical { stride.div_ceil(4) } else { stride };
            for (index, second) in ACTIONS.into_iter().enumerate() {
                let mut random = Rng::with_seed(at * 16 + index as u64);
                let end = ENDS[random.usize(0..3)];
                let third = random.bool().then(|| (random.u64(0..20), ACTIONS[random.usize(0..ACTIONS.len())]));
                if random.u64(0..stride) != 0 {
                    continue;
                }
                let case = Interleaving { end, at, second, third, ..quiet };
                run += 1;
                if let Err(why) = case.run(bench) {
                    failures.push(format!("{why}: {case:?}"));
                }
            }
        }
    }
    (run, failures)
}

#[test]
fn other_connections_may_act_between_any_two_calls() {
    let modes = ["wal", "delete", "truncate", "persist"];
    let results: Vec<(u64, Vec<String>)> = std::thread::scope(|scope| {
        let workers = [false, true].map(|is_exclusive| {
            scope.spawn(move || {
                let bench = Bench::new(&format!("interleaved-{is_exclusive}"));
                modes.map(|journal| interleavings(bench, journal, is_exclusive))
            })
        });
        let joined = workers.into_iter().map(|worker| worker.join().unwrap());
        joined.flatten().collect()
    });
    let run: u64 = results.iter().map(|(run, _)| run).sum();
    let failures: Vec<&String> = results.iter().flat_map(|(_, failures)| failures).collect();
    println!("{run} interleavings");
    let shown: Vec<&str> = failures.iter().take(8).map(|why| why.as_str()).collect();
    assert!(failures.is_empty(), "{} of {run}:\n{}", failures.len(), shown.join("\n"));
}
