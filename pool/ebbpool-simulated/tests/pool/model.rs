//! The content that every page must have, and which of its changes must survive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebbpool::Lsn;
use ebbpool_simulation::{Instant, step};

use crate::wal::{RECORD, Record, ZEROS};

pub const SLOTS: usize = 4;

/// The content of a page: its number of changes, the LSN of the last one, and the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub version: u64,
    pub lsn: Lsn,
    pub slots: [u64; SLOTS],
}

impl Content {
    /// The content of a page that is not being changed.
    pub fn of(bytes: &[u8]) -> Content {
        let word = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().unwrap_or_default();
            u64::from_le_bytes(bytes)
        };
        let content = Content { version: word(0), lsn: word(8), slots: std::array::from_fn(|slot| word(16 + slot * 8)) };
        let end = word(bytes.len() - 8);
        assert!(end == content.version, "a page begins as version {}, and ends as {end}", content.version);
        content
    }

    /// Writes it as a program would: in parts, so that other threads may run in between.
    pub fn write(&self, bytes: &mut [u8]) {
        let end = bytes.len() - 8;
        let mut put = |at: usize, word: u64| {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        };
        put(0, self.version);
        step();
        for (slot, &value) in self.slots.iter().enumerate() {
            put(16 + slot * 8, value);
        }
        put(8, self.lsn);
        step();
        put(end, self.version);
    }

    pub fn after(&self, record: &Record, lsn: Lsn) -> Content {
        let mut slots = self.slots;
        match usize::try_from(record.slot) {
            Ok(slot) if record.slot != ZEROS => slots[slot % SLOTS] = record.value,
            _ => slots = [0; SLOTS],
        }
        Content { version: record.version, lsn, slots }
    }
}

/// The history of one page.
#[derive(Clone, Debug)]
pub struct Page {
    /// By version.
    pub states: Vec<Content>,
    /// At least this version survives a crash.
    pub floor: u64,
    /// Its frame was abandoned or discarded, and the lost changes have to be redone. Other threads do not use it
    /// meanwhile.
    pub broken: bool,
    /// The number of times that it was broken.
    pub breaks: u64,
    /// A write of it was acknowledged and never happened, or it suffered another fault that a pool cannot notice: it
    /// is not checked any more.
    pub excused: bool,
    /// Its content does not matter.
    pub free: bool,
    /// Before this version it was free, and its content was not needed.
    pub born: u64,
    /// From this version on it has changes that the log does not have.
    pub unlogged: Option<u64>,
    /// When a thread that had changed it released its latch, and the version then, in this life of the pool.
    released: Vec<(Instant, u64)>,
}

impl Page {
    fn new() -> Self {
        Page {
            states: vec![Content::default()],
            floor: 0,
            broken: false,
            breaks: 0,
            excused: false,
            free: false,
            born: 0,
            unlogged: None,
            released: Vec::new(),
        }
    }

    pub fn now(&self) -> &Content {
        &self.states[self.states.len() - 1]
    }

    /// Begins the history anew with the content found.
    pub fn adopt(&mut self, found: Content) {
        self.states = vec![Content::default(); found.version as usize];
        self.states.push(found);
        self.floor = 0;
    }

    pub fn version(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// The latest version that was there, for other threads to read and for the pool to write, at some time.
    fn version_at(&self, time: Instant) -> u64 {
        let before = self.released.iter().filter(|(at, _)| *at <= time);
        before.map(|(_, version)| *version).max().unwrap_or(0)
    }
}

#[derive(Default)]
pub struct State {
    pub pages: BTreeMap<u64, Page>,
    /// Records up to this LSN survive.
    pub acknowledged: Lsn,
    /// The LSN that the latest checkpoint covers.
    pub covered: Lsn,
    /// Pages that a client uses, and that must not be allocated.
    pub in_use: BTreeSet<u64>,
    /// An image of a page that a failed write tore may have been dropped, because reads of it were flipped.
    pub images_flipped: bool,
    pub tally: Tally,
    /// Numbers of no page that clients have fixed so far.
    pub strays: u64,
}

/// Counts what happened, so that the test can check that it exercised the interesting cases.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub operations: u64,
    pub refused: u64,
    pub crashes: u64,
    pub recoveries: u64,
    pub redone: u64,
    pub abandoned: u64,
    pub damaged: u64,
    pub checkpoints: u64,
    pub faults: u64,
    pub poisoned: u64,
    /// Pages whose changes had to survive because of their age alone.
    pub aged: u64,
    pub closed_after_panics: u64,
    /// Openings that failed, because a thread could not be started.
    pub refused_openings: u64,
    /// Pools that were refused, because a crash could damage pages that no caller has changed.
    pub at_risk: u64,
    pub resized: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.refused += other.refused;
        self.resized += other.resized;
        self.crashes += other.crashes;
        self.recoveries += other.recoveries;
        self.redone += other.redone;
        self.abandoned += other.abandoned;
        self.damaged += other.damaged;
        self.checkpoints += other.checkpoints;
        self.faults += other.faults;
        self.poisoned += other.poisoned;
        self.aged += other.aged;
        self.closed_after_panics += other.closed_after_panics;
        self.refused_openings += other.refused_openings;
        self.at_risk += other.at_risk;
    }
}

/// See the [module](self). Its lock is not simulated, so taking it is not a step.
pub struct Model {
    state: Mutex<State>,
    /// Pages have LSNs.
    strict: bool,
}

impl Model {
    pub fn new(strict: bool) -> Self {
        Model { state: Mutex::default(), strict }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often this was called before.
    pub fn next_stray(&self) -> u64 {
        let mut state = self.state();
        state.strays += 1;
        state.strays - 1
    }

    /// Calls `look` with the history of a page.
    pub fn page<R>(&self, page: u64, look: impl FnOnce(&mut Page) -> R) -> R {
        look(self.state().pages.entry(page).or_insert_with(Page::new))
    }

    /// Checks the content that a thread found that has a latch of the page.
    pub fn check(&self, page: u64, found: &Content) {
        self.page(page, |history| {
            // Without an LSN a lost write cannot be noticed.
            let unknowable = history.excused && (!self.strict || history.unlogged.is_some());
            if !history.broken && !history.free && !unknowable {
                assert!(
                    found == history.now(),
                    "page {page} has the wrong content: {found:?}, and should be {:?}",
                    history.now()
                );
            }
        });
    }

    /// A checkpoint covers all changes up to this LSN.
    pub fn covers(&self, covered: Lsn) {
        let mut state = self.state();
        state.covered = state.covered.max(covered);
        for page in state.pages.values_mut() {
            let last = page.states.iter().rposition(|state| state.lsn <= covered);
            let last = last.unwrap_or(0) as u64;
            if page.unlogged.is_none() && !page.free && last >= page.born {
                page.floor = page.floor.max(last);
            }
        }
    }

    /// A thread has released the latch of a page that it has changed up to this version.
    pub fn released(&self, page: u64, version: u64) {
        let now = Instant::now();
        self.page(page, |history| history.released.push((now, version)));
    }

    /// The pool has to survive the loss of the power at `end` with all changes that are older than `age`.
    pub fn window_holds(&self, end: Instant, age: Duration) {
        let Some(time) = end.checked_sub(age) else {
            return;
        };
        let mut state = self.state();
        let mut aged = 0;
        for page in state.pages.values_mut() {
            let version = page.version_at(time);
            let exempt = page.broken || page.breaks > 0 || page.excused || page.free;
            if !exempt && page.unlogged.is_none() && version >= page.born && version > page.floor {
                page.floor = version;
                aged += 1;
            }
        }
        state.tally.aged += aged;
    }

    /// Notes the records that a crash has left, and removes later changes from the history.
    pub fn log_was_found(&self, records: &[Record], logged: bool) {
        let end = records.len() as u64 * RECORD;
        let mut state = self.state();
        assert!(end >= state.acknowledged, "the log ends at {end}, and {} was acknowledged", state.acknowledged);
        assert!(end >= state.covered, "the log ends at {end}, and a checkpoint covered {}", state.covered);
        state.acknowledged = end;
        for (&number, page) in &mut state.pages {
            page.broken = false;
            page.released.clear();
            if logged {
                page.states.retain(|state| state.lsn <= end);
            }
            if page.version() < page.born {
                // The program has lost the information that it was allocated.
                page.free = true;
            }
            assert!(
                page.floor <= page.version() || page.excused || page.unlogged.is_some(),
                "version {} of page {number} was written before its log was durable",
                page.floor
            );
        }
    }
}
