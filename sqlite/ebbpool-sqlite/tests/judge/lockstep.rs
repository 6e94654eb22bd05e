//! Runs a program in two worlds in lock step, and compares what they answer.

mod faults;
mod recovery;
mod statements;

use std::rc::Rc;

use crate::bench::Bench;
use crate::history::{Content, History};
use crate::machine::Machine;
use crate::price::{self, Circumstances, Price, Tally};
use crate::sql;
use crate::step::{C, CONNECTIONS, Database, OpenedBy, Opening, Program, Step};
use crate::trace;
use crate::world::World;

const BOTH: [Database; 2] = [Database::X, Database::Y];

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
    /// Connections whose transaction is open, and has lost a statement to a fault, or was open when another one lost one.
    has_lost: [bool; CONNECTIONS],
    /// Connections that have forgotten the tables with a statement that was not run in the other world, and could not read them
    /// again, because another one has a lock.
    lacks_tables: [bool; CONNECTIONS],
    /// Connections that keep their locks.
    pub is_exclusive: [bool; CONNECTIONS],
    /// A read-only connection was there since all connections were closed.
    had_reader: bool,
    /// Files were unclear when they changed last.
    has_unseen: bool,
    /// The disk has failed a commit, and the program has not let it work again.
    pub is_in_doubt: bool,
    /// All that is wrong with the disk is that it is full.
    is_only_full: bool,
    /// The disk had no room for some time, and another program may have taken what the library gave back.
    has_lost_room: bool,
    /// The power has failed while databases were recovered.
    was_cut_again: bool,
    /// The disk may have forgotten what a sync that failed had to write.
    may_have_dropped: bool,
    /// Bytes and syncs of both worlds when the database had been made and closed.
    created: Option<((u64, u64), (u64, u64))>,
    /// The last state of the other world when a connection's statement was held back.
    parked_at: [usize; CONNECTIONS],
    /// Connections of which a checkpoint is held back.
    holds_checkpoint: [bool; CONNECTIONS],
    pub stored: Vec<(Database, Rc<Content>)>,
    /// The `-ebb` that was stored last.
    pub stored_log: Option<(Database, Vec<u8>)>,
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
        lacks_tables: [false; CONNECTIONS],
        is_exclusive: [false; CONNECTIONS],
        has_unseen: false,
        had_reader: false,
        is_in_doubt: false,
        is_only_full: false,
        has_lost_room: false,
        was_cut_again: false,
        may_have_dropped: false,
        created: None,
        parked_at: [usize::MAX; CONNECTIONS],
        holds_checkpoint: [false; CONNECTIONS],
        stored: Vec::new(),
        stored_log: None,
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
    Err(Finding { step: done, why, is_hang })
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
            Step::StoreLog(database) => self.store_log(database),
            Step::PutLogBack(database) => return self.put_log_back(database),
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
            has_failed: self.has_failed || self.failures() > 0 || (self.bench.ours.has_cut() && self.has_pending_fault()),
            may_lock: self.failures() > 0 || self.has_lost_statement(c) || self.lacks_tables[c],
        }
    }

    /// True if a transaction is open in `c`'s database that has lost a statement to a fault.
    fn has_lost_statement(&self, c: C) -> bool {
        let is_open = |c| self.ours.get(c).is_none_or(|database| !database.is_autocommit());
        (0..CONNECTIONS).any(|other| self.has_lost[other] && self.share_a_database(c, other) && is_open(other))
    }

    /// True if both connections are open and have the same database.
    pub fn share_a_database(&self, c: C, other: C) -> bool {
        let database = |c: C| self.openings[c].map(|opening| opening.database);
        database(c).is_some() && database(c) == database(other)
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
        self.lacks_tables[opening.c] = false;
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
        let is_last = !self.openings.iter().flatten().any(|other| other.database == database);
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
        if matches!(opening.how, OpenedBy::Plain | OpenedBy::PlainReadOnly) && !self.has_pending_fault() {
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
