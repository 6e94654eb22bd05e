//! Random transactions over four files, of which a full or failing disk refuses some: what is refused is in none of them, and what is
//! committed is in all. `EBBPOOL_FIRST_SEED` and `EBBPOOL_PROGRAMS` choose the programs.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use ebbpool::storage::{DiskOperation, EIO, ENOSPC, Fault, FaultyDisk};
use fastrand::Rng;
use rusqlite::{Connection, OpenFlags};

use crate::support::cases::{Bench, PATH};

const FILES: [(&str, &str); 4] = [("main", PATH), ("a", "/a.db"), ("b", "/b.db"), ("c", "/c.db")];
/// The rows of a file.
type Contents = BTreeMap<i64, Vec<u8>>;

fn run(database: &Connection, sql: &str) -> Result<(), String> {
    let failed = |error: rusqlite::Error| format!("{sql}: {error}");
    let mut statement = database.prepare(sql).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    while rows.next().map_err(failed)?.is_some() {}
    Ok(())
}

fn contents(database: &Connection, schema: &str) -> Result<Contents, String> {
    let sql = format!("SELECT n, f FROM {schema}.t NOT INDEXED ORDER BY n");
    let failed = |error: rusqlite::Error| format!("{sql}: {error}");
    let mut statement = database.prepare(&sql).map_err(failed)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
}

fn all(database: &Connection) -> Result<Vec<Contents>, String> {
    // Else pages in the cache hide those of the file.
    run(database, "PRAGMA shrink_memory")?;
    FILES.iter().map(|(schema, _)| contents(database, schema)).collect()
}

fn whole(database: &Connection, schema: &str) -> Result<(), String> {
    let sql = format!("PRAGMA {schema}.integrity_check");
    let answer: Result<String, _> = database.query_row(&sql, [], |row| row.get(0));
    match answer {
        Ok(text) if text == "ok" => Ok(()),
        Ok(text) => Err(format!("{schema}: {text}")),
        Err(error) => Err(format!("{schema}: {error}")),
    }
}

struct Play<'a> {
    bench: &'a Bench,
    disk: FaultyDisk,
    random: Rng,
    is_ours: bool,
    options: String,
    window: u32,
    modes: Vec<&'static str>,
    lock: &'static str,
    sizes: Vec<u32>,
    vacuums: Vec<u32>,
    now: f64,
    /// What is committed after each transaction, of each file.
    history: Vec<Vec<Contents>>,
    /// The first that a crash may leave.
    durable: usize,
    next: i64,
    /// What the latest transaction would have left, had its commit not been refused.
    refused: Option<Vec<Contents>>,
    log: Vec<String>,
}

impl<'a> Play<'a> {
    fn new(bench: &'a Bench, seed: u64, is_ours: bool) -> Play<'a> {
        let mut random = Rng::with_seed(seed);
        let lock = ["normal", "normal", "exclusive"][random.usize(0..3)];
        // With an exclusive lock SQLite keeps the journal's file open, and its journal in memory then is that file: a rollback plays
        // records of earlier transactions back, as their checksums begin alike (`writeJournalHdr` of SQLite 3.54).
        let modes = match lock {
            "normal" => ["delete", "truncate", "persist", "memory", "wal", "wal"],
            _ => ["delete", "truncate", "persist", "persist", "wal", "wal"],
        };
        let window = [0, 0, 30][random.usize(0..3)];
        let log = ["deltas", "wal"][random.usize(0..2)];
        let one = modes[random.usize(0..6)];
        let mixed = random.bool();
        Play {
            bench,
            disk: FaultyDisk::new(seed),
            is_ours,
            options: format!(
                "window={window}&log={log}&log_limit={}&memory=1M",
                [20_000, 200_000, 4_000_000][random.usize(0..3)]
            ),
            window,
            modes: (0..4).map(|_| if mixed { modes[random.usize(0..6)] } else { one }).collect(),
            lock,
            sizes: (0..4).map(|_| [512, 1024, 4096, 8192][random.usize(0..4)]).collect(),
            vacuums: (0..4).map(|_| random.u32(0..3)).collect(),
            now: 0.0,
            history: Vec::new(),
            durable: 0,
            next: 0,
            refused: None,
            log: Vec::new(),
            random,
        }
    }

    fn say(&mut self, text: impl Into<String>) {
        self.log.push(text.into());
    }

    fn time(&mut self, seconds: f64) {
        self.now += seconds;
        let _ = self.bench.instance.set_time(self.now);
    }

    fn name(&self, path: &str) -> String {
        match self.is_ours {
            true => format!("file:{path}?{}", self.options),
            false => format!("file:{path}"),
        }
    }

    fn connect(&self, path: &str) -> Result<Connection, String> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
        let vfs = match self.is_ours {
            true => self.bench.ours,
            false => self.bench.machine.name(),
        };
        let opened = Connection::open_with_flags_and_vfs(self.name(path), flags, vfs);
        let database = opened.map_err(|error| error.to_string())?;
        database.busy_timeout(Duration::ZERO).map_err(|error| error.to_string())?;
        Ok(database)
    }

    fn open(&self) -> Result<Connection, String> {
        let database = self.connect(PATH)?;
        run(&database, &format!("PRAGMA locking_mode={}", self.lock))?;
        for (at, (schema, path)) in FILES.iter().enumerate() {
            if at > 0 {
                run(&database, &format!("ATTACH '{}' AS {schema}", self.name(path)))?;
                run(&database, &format!("PRAGMA {schema}.locking_mode={}", self.lock))?;
            }
            run(&database, &format!("PRAGMA {schema}.page_size={}", self.sizes[at]))?;
            run(&database, &format!("PRAGMA {schema}.auto_vacuum={}", self.vacuums[at]))?;
            run(&database, &format!("PRAGMA {schema}.journal_mode={}", self.modes[at]))?;
            run(&database, &format!("PRAGMA {schema}.cache_size=8"))?;
            run(&database, &format!("PRAGMA {schema}.synchronous=2"))?;
            run(&database, &format!("CREATE TABLE IF NOT EXISTS {schema}.t (n INTEGER PRIMARY KEY, f BLOB)"))?;
            run(&database, &format!("CREATE INDEX IF NOT EXISTS {schema}.t_f ON t(f)"))?;
        }
        Ok(database)
    }

    fn fault(&mut self) {
        let (_, path) = FILES[self.random.usize(0..4)];
        let endings: &[&str] = if self.is_ours { &["", "-ebb", "-wal"] } else { &["", "-wal", "-journal"] };
        let file = format!("{path}{}", endings[self.random.usize(0..3)]);
        let nth = self.random.u64(0..12);
        let is_full = self.random.u32(0..3) > 0;
        let on = match is_full {
            true => DiskOperation::Write,
            false => [DiskOperation::Write, DiskOperation::Sync, DiskOperation::Change][self.random.usize(0..3)],
        };
        let is_one = self.random.u32(0..3) > 0;
        let is_forever = self.random.u32(0..3) > 0;
        self.say(format!("fault {on:?} full={is_full} nth={nth} file={is_one} {file} forever={is_forever}"));
        // Not of the super-journal: where its deletion fails the directory's sync, SQLite itself commits and says that it has not.
        let files: Vec<String> = match is_one {
            true => vec![file],
            false => FILES.iter().flat_map(|(_, path)| endings.iter().map(move |end| format!("{path}{end}"))).collect(),
        };
        for file in files {
            let fault = Fault::failing(on, if is_full { ENOSPC } else { EIO }).nth(nth).in_file(&file);
            self.disk.inject(if is_forever { fault.forever() } else { fault });
        }
    }

    /// The statements of a transaction.
    fn statements(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        let mut depth = 0;
        for _ in 0..self.random.u32(1..7) {
            let (schema, _) = FILES[self.random.usize(0..4)];
            let n = self.random.i64(0..=self.next);
            all.push(match self.random.u32(0..11) {
                0..=3 => {
                    self.next += 1;
                    format!(
                        "INSERT INTO {schema}.t VALUES ({}, randomblob({}))",
                        self.next,
                        [10, 700, 3000, 20_000, 60_000][self.random.usize(0..5)]
                    )
                }
                4 => format!("UPDATE {schema}.t SET f=randomblob({}) WHERE n>={n} AND n<{n}+3", self.random.u32(1..3000)),
                5 => format!("DELETE FROM {schema}.t WHERE n>={n} AND n<{n}+4"),
                6 => format!("DELETE FROM {schema}.t WHERE n>{n}"),
                7 => {
                    depth += 1;
                    "SAVEPOINT s".into()
                }
                8 if depth > 0 => "ROLLBACK TO s".into(),
                9 if depth > 0 => {
                    depth -= 1;
                    "RELEASE s".into()
                }
                10 => format!("PRAGMA {schema}.incremental_vacuum"),
                _ => format!("UPDATE {schema}.t SET f=zeroblob(50) WHERE n={n}"),
            });
        }
        all
    }

    /// Runs a transaction, and returns what is there if it was committed.
    fn transact(&mut self, database: &Connection) -> Result<Option<Vec<Contents>>, String> {
        let begin = ["BEGIN", "BEGIN IMMEDIATE"][self.random.usize(0..2)];
        let early = self.random.u32(0..3) == 0;
        let late = !early && self.random.bool();
        if early {
            self.fault();
        }
        self.say(begin);
        let mut is_ok = run(database, begin).is_ok();
        for sql in self.statements() {
            if !is_ok {
                break;
            }
            let done = run(database, &sql);
            self.say(format!("{sql} -> {:?}", done.as_ref().err()));
            is_ok = done.is_ok() || !database.is_autocommit() && self.random.bool();
        }
        let mut found = None;
        if is_ok && !database.is_autocommit() {
            let seen = all(database);
            if late {
                self.fault();
            }
            let committed = run(database, "COMMIT");
            self.say(format!("COMMIT -> {:?}", committed.as_ref().err()));
            match committed.is_ok() {
                true => found = Some(seen?),
                false => self.refused = seen.ok(),
            }
        }
        if !database.is_autocommit() {
            let undone = run(database, "ROLLBACK");
            self.say(format!("ROLLBACK -> {:?}", undone.err()));
        }
        Ok(found)
    }

    fn check(&mut self, database: &Connection, when: &str) -> Result<(), String> {
        let expected = self.history.last().cloned().unwrap_or_default();
        let found = all(database)?;
        self.compare(&found, &expected, when)
    }

    fn compare(&self, found: &[Contents], expected: &[Contents], when: &str) -> Result<(), String> {
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            if found != expected {
                let keys = |all: &Contents| all.iter().map(|(n, f)| (*n, f.len())).collect::<Vec<_>>();
                return Err(format!("{when}: {} differs: {:?} in place of {:?}", FILES[at].0, keys(found), keys(expected)));
            }
        }
        Ok(())
    }

    /// A file with a WAL may have its part of a transaction whose commit another file has refused: SQLite commits there one by one.
    fn take_refused(&mut self, database: &Connection) -> Result<(), String> {
        let mut expected = self.history.last().cloned().unwrap_or_default();
        let refused = self.refused.take();
        let mut found = all(database);
        if let Err(error) = &found {
            let text = format!("refused, and reading -> {error}; heal");
            self.say(text);
            self.disk.heal();
            found = all(database);
        }
        let found = found?;
        for (at, found) in found.iter().enumerate() {
            if let Some(refused) = &refused
                && self.modes[at] == "wal"
                && refused[at] == *found
            {
                expected[at] = found.clone();
            }
        }
        self.compare(&found, &expected, "refused")?;
        if self.history.last() != Some(&found) {
            self.say("a part is committed");
            self.history.push(found);
        }
        Ok(())
    }

    fn settle(&mut self, database: &Connection) -> Result<(), String> {
        self.disk.heal();
        self.say("heal");
        self.time(100.0);
        self.check(database, "healed")?;
        for (schema, _) in FILES {
            whole(database, schema)?;
        }
        // Some of them have nothing to write.
        for (at, (schema, _)) in FILES.iter().enumerate() {
            self.next += 1;
            let n = self.next;
            let done = run(database, &format!("INSERT INTO {schema}.t VALUES ({n}, x'01')"));
            self.say(format!("insert {n} into {schema} -> {:?}", done.as_ref().err()));
            done?;
            let mut now = self.history.last().cloned().unwrap_or_default();
            now[at].insert(n, vec![1]);
            self.history.push(now);
        }
        self.time(100.0);
        self.durable = self.history.len() - 1;
        Ok(())
    }

    fn others(&mut self) -> Result<(), String> {
        if self.lock == "exclusive" || self.random.bool() {
            return Ok(());
        }
        let at = self.random.usize(0..4);
        let other = self.connect(FILES[at].1)?;
        let expected = self.history.last().cloned().unwrap_or_default();
        match contents(&other, "main") {
            Ok(found) if found != expected[at] => {
                return Err(format!("another connection sees something else in {}", FILES[at].0));
            }
            Ok(_) => {}
            Err(error) => self.say(format!("other: {error}")),
        }
        if self.random.bool() {
            self.next += 1;
            let n = self.next;
            let done = run(&other, &format!("INSERT INTO t VALUES ({n}, zeroblob(900))"));
            self.say(format!("other inserts {n} into {} -> {:?}", FILES[at].0, done.as_ref().err()));
            if done.is_ok() {
                let mut now = expected;
                now[at].insert(n, vec![0; 900]);
                self.history.push(now);
            }
        }
        Ok(())
    }

    fn crash(&mut self, database: Connection) -> Result<Connection, String> {
        let closes = self.random.u32(0..3) == 0;
        self.say(format!("power cut closes={closes} durable={} of {}", self.durable, self.history.len()));
        let mut database = Some(database);
        if closes {
            drop(database.take());
        }
        let seed = self.random.u64(..);
        self.disk.crash(seed);
        self.bench.instance.be_killed();
        drop(database);
        self.disk.restart();
        self.disk.heal();
        let again = self.open()?;
        let found = all(&again)?;
        let least = if closes || self.window == 0 || !self.is_ours { self.history.len() - 1 } else { self.durable };
        for (at, found) in found.iter().enumerate() {
            let memory = self.modes[at] == "memory" && !self.is_ours;
            let known = self.history[least..].iter().any(|state| state[at] == *found);
            if !known && !memory {
                let before = self.history.iter().rposition(|state| state[at] == *found);
                return Err(format!(
                    "after a crash {} has a state that was never committed, or is lost: {before:?} of {}",
                    FILES[at].0,
                    self.history.len()
                ));
            }
            whole(&again, FILES[at].0)?;
        }
        self.history.push(found);
        self.durable = self.history.len() - 1;
        Ok(again)
    }

    fn play(&mut self) -> Result<u32, String> {
        self.bench.machine.insert(&self.disk);
        self.bench.instance.be_killed();
        self.time(0.0);
        let mut database = self.open()?;
        self.history.push(all(&database)?);
        let mut refused = 0;
        self.time(100.0);
        for _ in 0..self.random.u32(5..25) {
            match self.random.u32(0..12) {
                0 => {
                    let by = [1.0, 40.0][self.random.usize(0..2)];
                    self.say(format!("time {by}"));
                    self.time(by)
                }
                1 => {
                    self.settle(&database)?;
                    database = self.crash(database)?;
                }
                2 => self.settle(&database)?,
                _ => match self.transact(&database)? {
                    Some(found) => self.history.push(found),
                    None => {
                        refused += 1;
                        self.take_refused(&database)?;
                        if self.random.bool() {
                            self.settle(&database)?;
                        }
                    }
                },
            }
            if self.random.u32(0..3) == 0 {
                self.disk.heal();
                self.say("heal");
                self.others()?;
            }
        }
        self.settle(&database)?;
        for (schema, _) in FILES {
            whole(&database, schema)?;
        }
        drop(database);
        self.bench.instance.be_killed();
        let last = self.history.last().cloned().unwrap_or_default();
        for (at, (_, path)) in FILES.iter().enumerate() {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
            let plain = Connection::open_with_flags_and_vfs(path, flags, self.bench.machine.name())
                .map_err(|error| error.to_string())?;
            run(&plain, "PRAGMA locking_mode=EXCLUSIVE")?;
            let found = contents(&plain, "main")?;
            if found != last[at] {
                return Err(format!("after a close {path} differs"));
            }
            whole(&plain, "main")?;
        }
        Ok(refused)
    }
}

fn setting(name: &str, usual: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.and_then(|value| value.parse().ok()).unwrap_or(usual)
}

#[test]
fn refused_transactions_are_in_no_file() {
    let bench = Bench::new("refused");
    let (first, programs) = (setting("EBBPOOL_FIRST_SEED", 0), setting("EBBPOOL_PROGRAMS", 60));
    let (mut refused, mut wrong) = (0, Vec::new());
    for seed in first..first + programs {
        let mut ours = Play::new(&bench, seed, true);
        match ours.play() {
            Ok(count) => refused += count,
            Err(why) => {
                let mut plain = Play::new(&bench, seed, false);
                let also = plain.play().err();
                println!(
                    "seed {seed}: {why}\n  plain: {also:?}\n  {} {:?} {} {:?} {:?}",
                    ours.options, ours.modes, ours.lock, ours.sizes, ours.vacuums
                );
                if std::env::var_os("EBBPOOL_SHOW").is_some() {
                    println!("{}", ours.log.join("\n"));
                    println!("PLAIN\n{}", plain.log.join("\n"));
                }
                wrong.push(seed);
            }
        }
    }
    println!("{refused} transactions were refused");
    assert!(wrong.is_empty(), "{} of {programs}: {wrong:?}", wrong.len());
}
