//! Runs a program in two worlds in lock step, and compares what they answer.

use std::ffi::CStr;
use std::rc::Rc;

use ebbpool::storage::{DiskOperation, EIO, ENOSPC, Fault};
use ebbpool_sqlite::Instance;
use rusqlite::{Connection, ffi};

use crate::history::{Content, History, open_scratch};
use crate::machine::Machine;
use crate::points;
use crate::price::{self, Circumstances, Price, Tally};
use crate::sql::{self, Outcome};
use crate::step::{C, CONNECTIONS, Database, OpenedBy, Opening, Operation, Program, Step, Wrong};
use crate::trace;
use crate::world::{Hang, World};

/// OpenedBy statements begin that only our world knows.
const OURS: &str = "PRAGMA ebbpool_";

const BOTH: [Database; 2] = [Database::X, Database::Y];

/// The machines of both worlds, and one on which states are looked at.
pub struct Bench {
    pub ours: &'static Machine,
    pub plain: &'static Machine,
    pub scratch: &'static Machine,
    pub instances: [&'static Instance; 2],
    ours_names: [[&'static CStr; 2]; 2],
    pub plain_names: [[&'static CStr; 2]; 2],
    pub scratch_name: &'static CStr,
}

impl Bench {
    pub fn new() -> Bench {
        let [ours, plain, scratch] = [true, false, false].map(Machine::new);
        let mut instances = Vec::new();
        let mut ours_names = [[c""; 2]; 2];
        let mut plain_names = ours_names;
        for process in 0..2 {
            let below = ours.register(process, &format!("judge-disk-{process}"));
            let name: &'static CStr = match process {
                0 => c"judge-library-0",
                _ => c"judge-library-1",
            };
            // SAFETY: the functions are those of the SQLite that the tests are linked with.
            #[allow(unsafe_code)]
            let instance =
                unsafe { ebbpool_sqlite::register_over(ebbpool_sqlite::linked_api(), name, below) };
            instances.push(instance.unwrap());
            ours_names[0][process] = points::register(&format!("judge-ours-{process}"), name);
            ours_names[1][process] = points::register(&format!("judge-other-{process}"), below);
            let below = plain.register(process, &format!("judge-plain-disk-{process}"));
            let name = points::register(&format!("judge-plain-{process}"), below);
            (plain_names[0][process], plain_names[1][process]) = (name, name);
        }
        Bench {
            ours,
            plain,
            scratch,
            instances: [instances[0], instances[1]],
            ours_names,
            plain_names,
            scratch_name: scratch.register(0, "judge-scratch"),
        }
    }
}

/// A difference that no price explains.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The step after which it was seen; the number of steps stands for the end.
    pub step: usize,
    pub why: String,
    /// A thread of this process waits for ever, so that nothing more can be run in it.
    pub is_hang: bool,
}

/// Why a program's run ends before its end.
pub enum Stop {
    Finding(String),
    Hang(String),
    /// The database cannot be used any more, as is allowed.
    Over,
}

impl From<String> for Stop {
    fn from(why: String) -> Stop {
        Stop::Finding(why)
    }
}

pub type Run<T> = Result<T, Stop>;

/// Two worlds in lock step.
pub struct Lockstep<'a> {
    pub bench: &'a Bench,
    pub ours: World,
    pub plain: World,
    pub openings: [Option<Opening>; CONNECTIONS],
    pub history: History,
    pub now: u32,
    /// What the disk has failed is not made good yet.
    has_failed: bool,
    /// A power cut or a killed process has left files that no one has looked at.
    pub is_dirty: bool,
    /// Faults, cuts or kills have happened, so that bytes say nothing.
    is_disturbed: bool,
    /// The worlds' WALs have other frames: statements were run in one world only, or plain SQLite has left a WAL, because the last
    /// connection that was closed only reads, where the library has none.
    pub is_loose: bool,
    /// Connections whose databases' files do not show a committed state while they write.
    has_memory_journal: [bool; CONNECTIONS],
    /// Connections whose transaction is open, and has lost a statement to a fault.
    has_lost: [bool; CONNECTIONS],
    /// Connections that keep their locks.
    pub is_exclusive: [bool; CONNECTIONS],
    /// A read-only connection was there since all connections were closed.
    had_reader: bool,
    /// Files were unclear when they changed last.
    has_unseen: bool,
    /// The disk has failed a commit, and the program has not let it work again.
    is_in_doubt: bool,
    /// All that is wrong with the disk is that it is full.
    is_only_full: bool,
    /// The disk may have forgotten what a sync that failed had to write.
    may_have_dropped: bool,
    /// Bytes and syncs of both worlds when the database had been made and closed.
    created: Option<((u64, u64), (u64, u64))>,
    /// The last state of the other world when a connection's statement was held back.
    parked_at: [usize; CONNECTIONS],
    pub stored: Vec<(Database, Rc<Content>)>,
    pub tally: &'a mut Tally,
}

/// Runs a program, and says where the worlds differ.
pub fn run(bench: &Bench, program: &Program, tally: &mut Tally) -> Result<(), Finding> {
    static RUNS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    // A name of its own, so that nothing of another program is met.
    let number = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let directory = format!("/{number:08}");
    for machine in [bench.ours, bench.plain, bench.scratch] {
        machine.reset(program.seed);
    }
    let mut run = Lockstep {
        bench,
        ours: World::new(bench.ours_names, &directory),
        plain: World::new(bench.plain_names, &directory),
        openings: [None; CONNECTIONS],
        history: History::default(),
        now: 0,
        has_failed: false,
        is_dirty: false,
        is_disturbed: false,
        is_loose: false,
        has_memory_journal: [false; CONNECTIONS],
        has_lost: [false; CONNECTIONS],
        is_exclusive: [false; CONNECTIONS],
        has_unseen: false,
        had_reader: false,
        is_in_doubt: false,
        is_only_full: false,
        may_have_dropped: false,
        created: None,
        parked_at: [usize::MAX; CONNECTIONS],
        stored: Vec::new(),
        tally,
    };
    run.history.begin(bench.plain.files(), 0);
    for instance in bench.instances {
        let _ = instance.set_time(0.0);
    }
    let mut done = program.steps.len();
    let mut answer = Ok(());
    for (index, step) in program.steps.iter().enumerate() {
        answer = run.step(step);
        if answer.is_err() {
            done = index;
            break;
        }
    }
    let answer = answer.and_then(|()| run.finish());
    run.tally.programs += 1;
    run.tally.steps += done as u64;
    let (why, is_hang) = match answer {
        Ok(()) => return Ok(()),
        Err(Stop::Over) => return run.abandon(),
        Err(Stop::Finding(why)) => (why, false),
        Err(Stop::Hang(why)) => (why, true),
    };
    if !is_hang {
        let _ = run.abandon();
    }
    Err(Finding {
        step: done,
        why,
        is_hang,
    })
}

impl Lockstep<'_> {
    fn step(&mut self, step: &Step) -> Run<()> {
        trace::line(|| format!("{step:?}"));
        if let Some(c) = step.connection() {
            let is_open = self.openings[c].is_some();
            let is_held = self.ours.is_held(c);
            let fits = match step {
                Step::Open(_) => !is_open,
                Step::Resume(_) => is_held,
                _ => is_open && !is_held,
            };
            if !fits {
                self.tally.skipped += 1;
                return Ok(());
            }
        }
        match *step {
            Step::Open(opening) => self.open(&opening)?,
            Step::Close(c) => self.close(c)?,
            Step::Sql(c, text) => self.sql(c, text)?,
            Step::Park(c, text, point) => self.park(c, text, point)?,
            Step::Resume(c) => self.resume(c)?,
            Step::Time(seconds) => self.time(seconds)?,
            Step::Fault(wrong) => self.fault(wrong),
            Step::Full(bytes) => self.fill(bytes),
            Step::Heal => self.heal()?,
            Step::Cut(seed) => self.bench.ours.cut(seed),
            Step::CutLater(changes, seed) => self.cut_later(changes, seed),
            Step::Kill(process) => return self.kill(process),
            Step::Copy(c) => self.copy(c)?,
            Step::Snatch(database) => self.snatch(database)?,
            Step::Store(database) => self.store(database)?,
            Step::PutBack(database, number) => return self.put_back(database, number),
            Step::Unlink(database) => return self.unlink(database),
            Step::Backup(c) => self.backup(c)?,
            Step::WhileSync(work, nth, c, text) => self.while_sync(work, nth, c, text)?,
            Step::Traffic => self.traffic()?,
        }
        if self.bench.ours.take_cut() {
            self.end_life()?;
        }
        Ok(())
    }

    pub fn circumstances(&self, c: C) -> Circumstances {
        Circumstances {
            has_other_process: self.has_other_process(c),
            has_failed: self.has_failed
                || self.failures() > 0
                || (self.bench.ours.has_cut() && self.has_pending_fault()),
            may_lock: self.failures() > 0 || self.has_lost_statement(),
        }
    }

    /// True if a transaction is open that has lost a statement to a fault.
    fn has_lost_statement(&self) -> bool {
        let is_open = |c| {
            self.ours
                .get(c)
                .is_none_or(|database| !database.is_autocommit())
        };
        (0..CONNECTIONS).any(|c| self.has_lost[c] && self.openings[c].is_some() && is_open(c))
    }

    pub fn failures(&self) -> u64 {
        self.bench.ours.failures()
    }

    fn has_other_process(&self, c: C) -> bool {
        let Some(own) = self.openings[c] else {
            return false;
        };
        // SQLite's own VFS in the same process knows nothing of the library's.
        let owner = |opening: &Opening| {
            let is_plain = matches!(opening.how, OpenedBy::Plain | OpenedBy::PlainReadOnly);
            (opening.process, is_plain)
        };
        let mut others = self.openings.iter().flatten();
        others.any(|other| other.database == own.database && owner(other) != owner(&own))
    }

    pub fn any_held(&self) -> bool {
        (0..CONNECTIONS).any(|c| self.ours.is_held(c))
    }

    pub fn is_in_use(&self) -> bool {
        self.openings.iter().any(Option::is_some)
    }

    /// The seconds of commits that may be lost: the smallest window of those who may write.
    fn window(&self, database: Database) -> Option<u32> {
        let mut windows = self.openings.iter().flatten().filter_map(|opening| {
            let is_ours = opening.how == OpenedBy::Ours && opening.database == database;
            is_ours.then_some(opening.window)
        });
        let first = windows.next()?;
        Some(windows.fold(first, u32::min))
    }

    // Opening and closing.

    fn open(&mut self, opening: &Opening) -> Run<()> {
        if self.is_dirty {
            self.judge()?;
        }
        if opening.process == 1 && self.any_held() {
            self.tally.skipped += 1;
            return Ok(());
        }
        let ours = self.ours.open(opening);
        if self.bench.ours.take_cut() {
            // Opening has been cut short; the other world has seen nothing.
            self.ours.close(opening.c);
            return self.end_life();
        }
        self.had_reader &= self.is_in_use();
        self.had_reader |= opening.how == OpenedBy::OursReadOnly;
        self.has_memory_journal[opening.c] = false;
        self.is_exclusive[opening.c] = false;
        self.openings[opening.c] = Some(*opening);
        let circumstances = self.circumstances(opening.c);
        if let Some(price) = price::of(&ours, "", circumstances) {
            self.tally.pay(price);
            self.openings[opening.c] = None;
            return Ok(());
        }
        let plain = self.plain.open(opening);
        if !ours.agrees(&plain) {
            return Err(format!("opening: ours {ours:?}, plain {plain:?}").into());
        }
        if !ours.is_ok() {
            self.openings[opening.c] = None;
        }
        // The library's thread finds what a shorter window has made due. An error is tried again when time passes.
        self.set_time();
        Ok(())
    }

    pub fn close(&mut self, c: C) -> Run<()> {
        let Some(opening) = self.openings[c].take() else {
            return Ok(());
        };
        self.ours.close(c);
        self.plain.close(c);
        self.note_state();
        self.settle(&opening);
        let database = opening.database;
        let is_last = !self
            .openings
            .iter()
            .flatten()
            .any(|other| other.database == database);
        let traffic = || (self.bench.ours.traffic(), self.bench.plain.traffic());
        self.created.get_or_insert_with(traffic);
        if is_last && !self.bench.ours.has_cut() {
            let wal = format!("{}-wal", self.plain.path(database));
            self.is_loose |= !self.bench.plain.content(&wal).is_empty();
            self.closed(database)?;
        }
        Ok(())
    }

    /// Plain SQLite's deletion of a journal becomes durable some time later, which is none of the library's affairs.
    fn settle(&self, opening: &Opening) {
        if matches!(opening.how, OpenedBy::Plain | OpenedBy::PlainReadOnly)
            && !self.has_pending_fault()
        {
            self.bench.ours.settle();
        }
    }

    /// The last connection to a database was closed.
    fn closed(&mut self, database: Database) -> Run<()> {
        let has_failed = self.failures() > 0 || self.has_failed;
        if !has_failed || self.is_only_full {
            // What was committed has its room in a log.
            self.history.raise(database, self.history.last());
        }
        match has_failed {
            true => Ok(()),
            false => self.nothing_is_left(database),
        }
    }

    /// A database that is closed has no log.
    fn nothing_is_left(&self, database: Database) -> Run<()> {
        let path = self.ours.path(database);
        for suffix in ["-ebb", "-wal"] {
            let left = self.bench.ours.content(&format!("{path}{suffix}"));
            // A power cut undoes the deletion of a `-wal` that has nothing in it.
            let is_empty = suffix == "-wal" && left.iter().take(32).all(|byte| *byte == 0);
            let left = if is_empty { 0 } else { left.len() };
            let of_plain = self.bench.plain.content(&format!("{path}{suffix}")).len();
            if left > 0 && of_plain == 0 {
                return Err(format!("{database:?}{suffix} was left behind, {left} bytes").into());
            }
        }
        Ok(())
    }

    // Statements.

    pub fn sql(&mut self, c: C, text: &'static str) -> Run<()> {
        let may_write = self.openings[c].is_some_and(|opening| opening.how == OpenedBy::Ours);
        if text.starts_with(OURS) && !may_write {
            return Ok(());
        }
        if self.is_readers_checkpoint(c, text) {
            self.pay(Price::ReadersCheckpoint);
            return Ok(());
        }
        // After a failure only one of the worlds would hold the lock.
        let is_exclusive = text == "PRAGMA locking_mode=EXCLUSIVE";
        if is_exclusive && (self.has_pending_fault() || !may_write) {
            return Ok(());
        }
        self.is_exclusive[c] |= is_exclusive;
        self.has_memory_journal[c] |= text == "PRAGMA journal_mode=memory";
        // After a failure this one answers with a mode where others answer with an error.
        let is_mode = text.starts_with("PRAGMA journal_mode");
        if is_mode && (self.has_pending_fault() || !may_write) {
            return Ok(());
        }
        let ours = self.ours.run(c, text);
        self.compare(c, text, ours, |run| Ok(run.plain.run(c, text)))
    }

    /// Compares an answer of our world, unless it has a price, with that of the other one.
    pub fn compare(
        &mut self,
        c: C,
        text: &str,
        ours: Outcome,
        plain: impl FnOnce(&mut Self) -> Run<Outcome>,
    ) -> Run<()> {
        if let Some(price) = price::of(&ours, text, self.circumstances(c)) {
            self.tally.pay(price);
            self.is_in_doubt |= price == Price::Fault && ours.is_idle && !self.is_only_full;
            let ours = self.after_release(c, text, ours);
            self.reconcile(c, &ours)?;
            return match price {
                Price::Fault if ours.is_idle => self.know_tables(c),
                Price::OneProcess if ours.is_idle => {
                    self.read_tables(c);
                    Ok(())
                }
                _ => Ok(()),
            };
        }
        trace::line(|| format!("    answers {ours:?}"));
        let is_of_ours = text.starts_with(OURS);
        if is_of_ours {
            if ours.code() == ffi::SQLITE_BUSY && self.had_reader {
                self.pay(Price::Passed);
                return Ok(());
            }
            if !ours.is_ok() {
                return Err(format!("{text} of {c}: {ours:?}").into());
            }
        } else {
            let plain = plain(self)?;
            let numbers_differ = self.is_loose && text.contains("wal_checkpoint");
            let are_refused = [ours.code(), plain.code()].iter().all(|code| {
                [ffi::SQLITE_BUSY, ffi::SQLITE_ERROR, ffi::SQLITE_READONLY].contains(code)
            });
            // Whether a connection knows that there is no such table, or is to look and finds a lock.
            let are_refused = are_refused && self.is_loose && price::names_a_table(text);
            let same = ours.agrees(&plain)
                || are_refused
                || (numbers_differ && ours.is_ok() == plain.is_ok());
            if !same {
                return Err(format!("{text} of {c}: ours {ours:?}, plain {plain:?}").into());
            }
        }
        match text.contains("wal_checkpoint") {
            // It changes files, and commits nothing.
            true => drop(self.note_state()),
            false => self.acknowledge(c, &ours, is_of_ours),
        }
        Ok(())
    }

    /// Where the commit of an outermost savepoint fails SQLite rolls back, and stays in a transaction, which is empty: programs have
    /// to end it.
    fn after_release(&self, c: C, text: &str, ours: Outcome) -> Outcome {
        let has_lost = text.starts_with("RELEASE") && ours.code() != ffi::SQLITE_BUSY;
        match self.ours.get(c).filter(|_| has_lost && !ours.is_idle) {
            Some(database) => sql::run(database, "ROLLBACK"),
            None => ours,
        }
    }

    /// Only in one world the statement before may have read the tables, without which the next one may need another lock.
    fn know_tables(&mut self, c: C) -> Run<()> {
        let path = self.openings[c].map(|opening| self.plain.path(opening.database));
        if path.is_none_or(|path| self.bench.plain.content(&path).is_empty()) {
            // In an empty database SQLite takes the first commit of another connection for its own one, which was refused, if both
            // are of the same size.
            return self.close(c);
        }
        self.read_tables(c);
        Ok(())
    }

    fn read_tables(&self, c: C) {
        for world in [&self.ours, &self.plain] {
            if let Some(database) = world.get(c) {
                sql::run(database, "SELECT 1 FROM sqlite_master LIMIT 1");
            }
        }
    }

    /// A statement was not run in the other world: there too its transaction is gone where it is in ours.
    fn reconcile(&mut self, c: C, ours: &Outcome) -> Run<()> {
        self.is_loose = true;
        self.has_lost[c] = !ours.is_idle;
        let Some(plain) = self.plain.get(c) else {
            return Ok(());
        };
        if ours.is_idle && !plain.is_autocommit() {
            let rolled_back = sql::run(plain, "ROLLBACK");
            if !rolled_back.is_ok() {
                return Err(format!("plain SQLite cannot roll back: {rolled_back:?}").into());
            }
        }
        if !ours.is_idle && plain.is_autocommit() {
            return Err("an error began a transaction".to_owned().into());
        }
        Ok(())
    }

    /// Adds the other world's state to the history if it may be a new one.
    pub fn note_state(&mut self) -> bool {
        self.note_state_with(None)
    }

    /// The same, where a database shows a committed state in any case.
    fn note_state_with(&mut self, clear: Option<Database>) -> bool {
        let has_changed = self.bench.plain.take_changed();
        if !has_changed && !self.has_unseen {
            return false;
        }
        let mut unclear = self.unclear();
        unclear.retain(|database| Some(*database) != clear);
        let path = |database| self.plain.path(database);
        let unclear: Vec<String> = unclear.into_iter().map(path).collect();
        let is_unclear = |name: &str| unclear.iter().any(|path| name.starts_with(path));
        let files = self.bench.plain.files();
        self.history.push(files, self.now, is_unclear);
        self.has_unseen = !unclear.is_empty();
        has_changed
    }

    /// Databases whose files do not show a committed state.
    fn unclear(&self) -> Vec<Database> {
        let may_write = |c: C| match self.plain.get(c) {
            Some(database) => sql::is_writing(database),
            None => self.plain.is_held(c),
        };
        let writers = (0..CONNECTIONS).filter(|c| self.has_memory_journal[*c] && may_write(*c));
        writers
            .filter_map(|c| Some(self.openings[c]?.database))
            .collect()
    }

    /// Our world has said that a statement is done: what does that promise?
    fn acknowledge(&mut self, c: C, ours: &Outcome, is_flush: bool) {
        let first = std::mem::replace(&mut self.parked_at[c], usize::MAX);
        // A statement that succeeds has found no other one that writes.
        let succeeded = self.openings[c].filter(|_| ours.is_ok() && ours.is_idle);
        let clear = succeeded.map(|opening| opening.database);
        let has_changed = self.note_state_with(clear) || self.history.last() > first;
        // What was held back counts from here on.
        self.history.date(first, self.now);
        let Some(opening) = self.openings[c] else {
            return;
        };
        // What was acknowledged while the power failed may be lost.
        if !ours.is_ok() || self.bench.ours.has_cut() || self.any_held() {
            return;
        }
        self.settle(&opening);
        let database = opening.database;
        let is_durable = opening.how == OpenedBy::Ours && self.window(database) == Some(0);
        if (is_flush && opening.how == OpenedBy::Ours)
            || (is_durable && has_changed && ours.is_idle)
        {
            self.history.raise(database, self.history.last());
        }
    }

    /// True if a connection that only reads is to run a checkpoint.
    pub fn is_readers_checkpoint(&self, c: C, text: &str) -> bool {
        let readers = [OpenedBy::OursReadOnly, OpenedBy::PlainReadOnly];
        let is_reader = self.openings[c].is_some_and(|opening| readers.contains(&opening.how));
        is_reader && text.contains("wal_checkpoint")
    }

    fn park(&mut self, c: C, text: &'static str, point: points::Point) -> Run<()> {
        let circumstances = self.circumstances(c);
        let is_disturbed = circumstances.has_other_process || circumstances.has_failed;
        let is_special = [OURS, "PRAGMA journal_mode", "PRAGMA locking_mode"];
        let is_special = is_special.iter().any(|first| text.starts_with(first));
        let is_special = is_special || self.is_readers_checkpoint(c, text);
        if is_disturbed || self.has_pending_fault() || is_special {
            return self.sql(c, text);
        }
        let hang = |Hang| Stop::Hang(format!("{text} of {c} does not end"));
        let ours = self.ours.park(c, text, point).map_err(hang)?;
        let plain = self.plain.park(c, text, point).map_err(hang)?;
        match (ours, plain) {
            (None, None) => {
                self.parked_at[c] = self.history.last();
                self.note_state();
                Ok(())
            }
            (Some(ours), Some(plain)) => self.compare(c, text, ours, |_| Ok(plain)),
            (ours, plain) => {
                let ours = self.ended(ours, true, c)?;
                let plain = self.ended(plain, false, c)?;
                let same = ours.agrees(&plain);
                let why = format!("{text} of {c} reaches {point:?} in one world only");
                if same && self.is_loose {
                    return Ok(());
                }
                Err(Stop::Finding(match same {
                    true => why,
                    false => format!("{why}: ours {ours:?}, plain {plain:?}"),
                }))
            }
        }
    }

    /// The outcome of a statement that is held back in one world only.
    fn ended(&mut self, outcome: Option<Outcome>, is_ours: bool, c: C) -> Run<Outcome> {
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
        let world = if is_ours {
            &mut self.ours
        } else {
            &mut self.plain
        };
        match world.resume(c) {
            Ok(Some(outcome)) => Ok(outcome),
            _ => Err(Stop::Hang(format!("the statement of {c} does not end"))),
        }
    }

    fn resume(&mut self, c: C) -> Run<()> {
        let ours = self.ended(None, true, c)?;
        let plain = self.ended(None, false, c)?;
        self.compare(c, "the rest", ours, |_| Ok(plain))
    }

    // Time and faults.

    fn time(&mut self, seconds: u32) -> Run<()> {
        self.now += seconds;
        let set = self.set_time();
        if self.bench.ours.has_cut() {
            return Ok(());
        }
        let has_failed = self.failures() > 0 || self.has_failed;
        if !set && !has_failed {
            return Err("an epoch fails without a fault".to_owned().into());
        }
        if set || self.is_only_full {
            // Of what is due only a checkpoint may have found no room.
            self.time_has_passed();
        }
        Ok(())
    }

    pub fn set_time(&self) -> bool {
        let mut answers = self
            .bench
            .instances
            .map(|instance| instance.set_time(f64::from(self.now)).is_ok());
        answers.iter_mut().all(|answer| *answer)
    }

    /// All epochs that are due were made.
    pub fn time_has_passed(&mut self) {
        // A statement that is held back has not acknowledged what the other world may have committed.
        if self.any_held() || self.is_dirty {
            return;
        }
        for database in BOTH {
            match self.window(database) {
                Some(window) => {
                    if let Some(time) = self.now.checked_sub(window) {
                        self.history.raise_by_time(database, time);
                    }
                }
                None if !self
                    .openings
                    .iter()
                    .flatten()
                    .any(|one| one.database == database) =>
                {
                    self.history.raise(database, self.history.last());
                }
                None => {}
            }
        }
    }

    /// True if the disk may begin to fail, and notes that.
    fn may_fail(&mut self) -> bool {
        let has_lock = (0..CONNECTIONS).any(|c| self.is_exclusive[c] && self.openings[c].is_some());
        let may_fail = !self.any_held() && !has_lock;
        self.is_disturbed |= may_fail;
        self.tally.skipped += u64::from(!may_fail);
        may_fail
    }

    fn fill(&mut self, bytes: u64) {
        if self.has_pending_fault() || !self.may_fail() {
            return;
        }
        let disk = self.bench.ours.disk();
        disk.set_capacity(disk.used() + bytes);
        self.bench.ours.set_pending_fault(true);
        self.is_only_full = !self.has_failed;
    }

    fn fault(&mut self, wrong: Wrong) {
        if !self.may_fail() {
            return;
        }
        self.is_only_full = false;
        self.may_have_dropped |= wrong.of == Operation::DroppingSync;
        let errno = if wrong.is_full { ENOSPC } else { EIO };
        let fault = match wrong.of {
            Operation::Write => Fault::failing(DiskOperation::Write, errno),
            Operation::Sync => Fault::failing(DiskOperation::Sync, errno),
            Operation::DroppingSync => Fault::sync_that_drops(errno),
            Operation::Change => Fault::failing(DiskOperation::Change, errno),
        };
        let fault = fault.nth(wrong.nth);
        self.bench.ours.disk().inject(match wrong.forever {
            true => fault.forever(),
            false => fault,
        });
        self.bench.ours.set_pending_fault(true);
    }

    pub fn has_pending_fault(&self) -> bool {
        self.bench.ours.has_pending_fault()
    }

    /// The disk works again, and two seconds later what it has failed was tried again.
    fn heal(&mut self) -> Run<()> {
        if !self.has_pending_fault() {
            return Ok(());
        }
        self.bench.ours.disk().heal();
        self.bench.ours.set_pending_fault(false);
        self.is_only_full = false;
        let has_failed = self.bench.ours.forget_failures() > 0 || self.has_failed;
        self.has_failed = false;
        self.now += 2;
        let set = self.set_time();
        if self.bench.ours.has_cut() {
            return Ok(());
        }
        if set {
            // What a process has left that is gone is still to be looked at.
            self.is_in_doubt &= self.is_dirty;
            self.time_has_passed();
            return Ok(());
        }
        // What is left of an error is said once.
        self.has_failed = has_failed;
        match has_failed && self.set_time() {
            true => {
                self.has_failed = false;
                self.is_in_doubt &= self.is_dirty;
                self.time_has_passed();
                Ok(())
            }
            false => Err("an epoch fails although the disk works again"
                .to_owned()
                .into()),
        }
    }

    fn cut_later(&mut self, changes: u64, seed: u64) {
        self.is_disturbed = true;
        self.bench.ours.cut_later(changes, seed);
    }

    fn kill(&mut self, process: usize) -> Run<()> {
        self.bench.ours.kill(process);
        self.is_disturbed = true;
        // First those that live: a ghost shares memory with them.
        for c in 0..CONNECTIONS {
            if self.openings[c].is_some_and(|opening| opening.process != process) {
                self.end_connection(c)?;
            }
        }
        self.end_life()
    }

    /// All processes are gone, or about to go: their connections close, those of ghosts without a trace.
    pub fn end_life(&mut self) -> Run<()> {
        self.is_disturbed = true;
        for c in 0..CONNECTIONS {
            self.drain(c)?;
        }
        for c in 0..CONNECTIONS {
            self.end_connection(c)?;
        }
        self.note_state();
        for instance in self.bench.instances {
            // What could not be closed is gone with its process.
            instance.be_killed();
        }
        self.bench.ours.revive();
        self.bench.ours.take_cut();
        self.bench.ours.set_pending_fault(false);
        self.is_only_full = false;
        self.has_failed = false;
        self.is_loose = false;
        self.parked_at = [usize::MAX; CONNECTIONS];
        self.is_dirty = true;
        Ok(())
    }

    fn end_connection(&mut self, c: C) -> Run<()> {
        self.drain(c)?;
        self.ours.close(c);
        self.plain.close(c);
        if let Some(opening) = self.openings[c].take() {
            self.settle(&opening);
        }
        Ok(())
    }

    fn drain(&mut self, c: C) -> Run<()> {
        let hang = |Hang| Stop::Hang(format!("the statement of {c} does not end"));
        if self.ours.is_held(c) {
            self.ours.resume(c).map_err(hang)?;
        }
        if self.plain.is_held(c) {
            self.plain.resume(c).map_err(hang)?;
            self.note_state();
        }
        Ok(())
    }

    // Recovery.

    pub fn content(&mut self, state: usize, database: Database) -> Result<Rc<Content>, String> {
        let path = self.ours.path(database);
        let (scratch, vfs) = (self.bench.scratch, self.bench.scratch_name);
        self.history.content(state, database, &path, scratch, vfs)
    }

    /// What plain SQLite finds in the files of our world as they are, on a copy of them.
    pub fn without_the_library(&self, database: Database) -> Result<Connection, String> {
        let path = self.ours.path(database);
        self.bench.scratch.reset(1);
        for suffix in ["", "-wal", "-journal"] {
            let name = format!("{path}{suffix}");
            let content = self.bench.ours.content(&name);
            self.bench.scratch.replace(&name, &content);
        }
        open_scratch(self.bench.scratch_name, &path).map_err(|error| error.to_string())
    }

    /// The latest state, from a first one on, with this content.
    pub fn find(
        &mut self,
        dump: &[String],
        database: Database,
        first: usize,
    ) -> Result<Option<usize>, String> {
        for state in (first..=self.history.last()).rev() {
            if self.content(state, database)?.dump == dump {
                return Ok(Some(state));
            }
        }
        Ok(None)
    }

    /// True if a database was like this in any state, in whichever journal mode.
    fn was_once(&mut self, dump: &[String], database: Database) -> Result<bool, String> {
        for state in (0..=self.history.last()).rev() {
            let known = without_mode(&self.content(state, database)?.dump);
            if known == dump || (sql::has_no_tables(&known) && sql::has_no_tables(dump)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// After a crash: plain SQLite finds a whole database of some age, the library one that is within the window. The other
    /// world goes on with that.
    fn judge(&mut self) -> Run<()> {
        self.tally.recoveries += 1;
        let mut found = Vec::new();
        for database in BOTH {
            if self.was_never_made(database) {
                found.push(Rc::new(Content {
                    file: Vec::new(),
                    dump: Vec::new(),
                }));
                continue;
            }
            let plain = self.without_the_library(database)?;
            if let Some(why) = sql::damage(&plain) {
                return Err(format!("{database:?} without the library: {why}").into());
            }
            let dump = without_mode(&sql::dump(&plain)?);
            drop(plain);
            if !self.is_in_doubt && !self.was_once(&dump, database)? {
                let latest = self.content(self.history.last(), database)?;
                return Err(format!(
                    "{database:?} without the library is none of the states; {} of the last",
                    sql::difference(&dump, &without_mode(&latest.dump))
                )
                .into());
            }
            found.push(self.recovered(database)?);
        }
        let mut files = crate::machine::Files::new();
        for (database, content) in BOTH.into_iter().zip(found) {
            files.insert(self.ours.path(database), content.file.clone().into());
        }
        self.bench.plain.put(files);
        self.bench.plain.take_changed();
        self.history.begin(self.bench.plain.files(), self.now);
        self.is_dirty = false;
        self.is_in_doubt = false;
        Ok(())
    }

    /// True if no world has a file of the name.
    fn was_never_made(&self, database: Database) -> bool {
        let path = self.ours.path(database);
        let of_ours =
            ["", "-wal", "-ebb"].map(|suffix| self.bench.ours.content(&format!("{path}{suffix}")));
        of_ours.iter().all(Vec::is_empty) && self.bench.plain.content(&path).is_empty()
    }

    /// A database as recovery has left it, if it is one file: pages that hold nothing may be others than plain SQLite's.
    fn as_it_is(&self, database: Database) -> Option<Rc<Content>> {
        let path = self.ours.path(database);
        let is_there = |suffix| {
            !self
                .bench
                .ours
                .content(&format!("{path}{suffix}"))
                .is_empty()
        };
        let is_whole = !["-wal", "-ebb", "-journal"].into_iter().any(is_there);
        let file = self.bench.ours.content(&path);
        is_whole.then(|| {
            Rc::new(Content {
                file,
                dump: Vec::new(),
            })
        })
    }

    /// What the library finds after a crash.
    fn recovered(&mut self, database: Database) -> Run<Rc<Content>> {
        let dump = self.recover(database)?;
        let floor = self.history.floor(database);
        if let Some(state) = self.find(&dump, database, floor)? {
            trace::line(|| {
                format!(
                    "    as in state {state} of {floor} to {}",
                    self.history.last()
                )
            });
            let content = self.content(state, database)?;
            return Ok(self.as_it_is(database).unwrap_or(content));
        }
        let least = self.content(floor, database)?;
        if sql::has_no_tables(&dump) && sql::has_no_tables(&least.dump) {
            let file = self.bench.ours.content(&self.ours.path(database));
            return Ok(Rc::new(Content { file, dump }));
        }
        if self.is_in_doubt {
            // What was refused is there: the disk has failed what would have taken it back, and then the process was gone.
            self.pay(Price::InDoubt);
            let file = self.bench.ours.content(&self.ours.path(database));
            return Ok(Rc::new(Content { file, dump }));
        }
        let latest = self.history.last();
        let least = self.content(floor, database)?;
        Err(match self.find(&dump, database, 0)? {
            Some(state) => format!(
                "{database:?} recovered: state {state} of {latest}, although {floor} had to survive; {} of that",
                sql::difference(&dump, &least.dump)
            ),
            None => format!(
                "{database:?} recovered is none of {latest} states; {} of the last",
                sql::difference(&dump, &self.content(latest, database)?.dump)
            ),
        }
        .into())
    }

    /// Opens a database through the library after a crash, as often as the power fails meanwhile, and closes it.
    pub fn recover(&mut self, database: Database) -> Run<Vec<String>> {
        for _ in 0..5 {
            let answer = self.look(database);
            let mut is_cut = self.bench.ours.take_cut();
            let has_failed = !is_cut && self.has_pending_fault() && self.failures() > 0;
            if has_failed {
                // Closing it may have failed.
                self.work_again();
                is_cut = self.bench.ours.take_cut();
            }
            if is_cut {
                self.bench.ours.revive();
                continue;
            }
            match answer {
                Ok(dump) => return Ok(dump),
                Err(_) if has_failed => {}
                Err(why) => return Err(format!("{database:?} cannot be recovered: {why}").into()),
            }
        }
        Err(format!("{database:?} cannot be recovered in five attempts").into())
    }

    /// The disk works again, and what could not be closed is closed.
    fn work_again(&mut self) {
        self.bench.ours.disk().heal();
        self.bench.ours.set_pending_fault(false);
        self.is_only_full = false;
        self.bench.ours.forget_failures();
        for _ in 0..2 {
            self.now += 2;
            self.set_time();
        }
    }

    /// What the library finds, on a connection of its own.
    pub fn look(&mut self, database: Database) -> Result<Vec<String>, String> {
        trace::line(|| format!("{database:?} is opened and closed"));
        let opening = Opening {
            c: 0,
            database,
            process: 0,
            how: OpenedBy::Ours,
            window: 1000,
            options: "",
        };
        let opened = self.ours.open(&opening);
        let Some(connection) = self.ours.take(0) else {
            return Err(format!("{opened:?}"));
        };
        let dump = sql::dump(&connection)?;
        trace::line(|| format!("    holds {} lines: {dump:.100?}", dump.len()));
        match sql::damage(&connection) {
            Some(why) => Err(why),
            None => Ok(dump),
        }
    }

    // The end.

    /// Everything is closed; then there is a plain database with what was committed.
    fn finish(&mut self) -> Run<()> {
        trace::line(|| "the end".into());
        for c in 0..CONNECTIONS {
            if self.ours.is_held(c) {
                self.resume(c)?;
            }
        }
        for c in 0..CONNECTIONS {
            self.close(c)?;
        }
        if self.bench.ours.take_cut() {
            self.end_life()?;
        }
        self.heal()?;
        if self.bench.ours.take_cut() {
            self.end_life()?;
        }
        if self.is_dirty {
            self.judge()?;
        }
        for database in BOTH {
            self.nothing_is_left(database)?;
            self.is_plain(database, "closed")?;
        }
        self.bench.ours.cut(self.now.into());
        self.bench.ours.revive();
        for database in BOTH {
            self.is_plain(database, "closed, after a power cut")?;
        }
        Ok(())
    }

    /// A database that was closed is one of plain SQLite's, with everything that was committed.
    fn is_plain(&mut self, database: Database, when: &str) -> Run<()> {
        if self.was_never_made(database) {
            return Ok(());
        }
        let plain = self.without_the_library(database)?;
        if let Some(why) = sql::damage(&plain) {
            return Err(format!("{database:?} {when}: {why}").into());
        }
        let dump = without_mode(&sql::dump(&plain)?);
        let written = sql::run(&plain, "CREATE TABLE after_closing (a)");
        drop(plain);
        let latest = self.content(self.history.last(), database)?;
        let latest = without_mode(&latest.dump);
        let have_no_tables = sql::has_no_tables(&dump) && sql::has_no_tables(&latest);
        if dump != latest && !have_no_tables {
            let difference = sql::difference(&dump, &latest);
            return Err(format!("{database:?} {when}: {difference}").into());
        }
        if written.is_ok() {
            return Ok(());
        }
        if std::mem::take(&mut self.may_have_dropped) {
            self.pay(Price::Dropped);
            self.recover(database)?;
            let answer = self.is_plain(database, when);
            self.may_have_dropped = true;
            return answer;
        }
        Err(format!("{database:?} {when}: plain SQLite cannot write: {written:?}").into())
    }

    /// Ends both worlds wherever they are.
    fn abandon(&mut self) -> Result<(), Finding> {
        self.bench.ours.cut(0);
        let _ = self.end_life();
        Ok(())
    }

    // Less usual steps.

    fn backup(&mut self, c: C) -> Run<()> {
        let (Some(ours), Some(plain)) = (self.ours.get(c), self.plain.get(c)) else {
            return Ok(());
        };
        let outcome = |answer: Result<Vec<String>, i32>, database: &Connection| Outcome {
            answer,
            is_idle: database.is_autocommit(),
        };
        let ours = outcome(sql::backup(ours), ours);
        let plain = outcome(sql::backup(plain), plain);
        match price::of(&ours, "", self.circumstances(c)) {
            Some(price) => self.tally.pay(price),
            None if ours.agrees(&plain) => {}
            None => return Err(format!("backup of {c}: ours {ours:?}, plain {plain:?}").into()),
        }
        Ok(())
    }

    /// Programs that open and close write no more than with plain SQLite.
    fn traffic(&mut self) -> Run<()> {
        if self.is_disturbed || self.is_in_use() {
            self.tally.skipped += 1;
            return Ok(());
        }
        let since = |machine: &Machine, first: (u64, u64)| {
            let (bytes, syncs) = machine.traffic();
            (bytes - first.0, syncs - first.1)
        };
        let Some((first, first_of_plain)) = self.created else {
            return Ok(());
        };
        let (bytes, syncs) = since(self.bench.ours, first);
        let (plain_bytes, plain_syncs) = since(self.bench.plain, first_of_plain);
        if bytes > plain_bytes || syncs > plain_syncs {
            return Err(format!(
                "{bytes} bytes and {syncs} syncs, of plain SQLite {plain_bytes} bytes and {plain_syncs} syncs"
            )
            .into());
        }
        Ok(())
    }

    pub fn pay(&mut self, price: Price) {
        self.tally.pay(price);
    }
}

/// A database without its journal mode. The library's mark has one of its own, and so has a `-wal` without frames whose deletion
/// a power cut has undone.
fn without_mode(dump: &[String]) -> Vec<String> {
    let lines = dump.iter().filter(|line| !line.starts_with("wal: "));
    lines.cloned().collect()
}
