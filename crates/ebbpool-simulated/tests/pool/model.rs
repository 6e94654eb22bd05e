//! What every page must hold, and what was promised of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ebbpool::Lsn;
use ebbpool_simulation::step;

use crate::wal::{RECORD, Record, ZEROS};

pub const SLOTS: usize = 4;

/// What a page says: how often it was changed, and with which LSN and to what last.
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
        let content = Content {
            version: word(0),
            lsn: word(8),
            slots: std::array::from_fn(|slot| word(16 + slot * 8)),
        };
        let end = word(bytes.len() - 8);
        assert!(
            end == content.version,
            "a page begins as version {}, and ends as {end}",
            content.version
        );
        content
    }

    /// Writes it as a program would: bit by bit, and other threads may run in between.
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
        Content {
            version: record.version,
            lsn,
            slots,
        }
    }
}

/// The history of one page.
#[derive(Clone, Debug)]
pub struct Page {
    /// By version.
    pub states: Vec<Content>,
    /// At least this version survives a crash.
    pub floor: u64,
    /// Its frame was abandoned or discarded, and what it lost is to be redone. Other threads leave it alone.
    pub broken: bool,
    /// How often it was.
    pub breaks: u64,
    /// A write of it was acknowledged and never happened, or something else was done to it that a pool
    /// cannot know: nothing is promised any more.
    pub excused: bool,
    /// Its content does not matter.
    pub free: bool,
    /// Before this version it was free: what it held then was never needed.
    pub born: u64,
    /// From this version on it is not in the log alone.
    pub unlogged: Option<u64>,
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
        }
    }

    pub fn now(&self) -> &Content {
        &self.states[self.states.len() - 1]
    }

    /// Its history begins anew with what is found.
    pub fn adopt(&mut self, found: Content) {
        self.states = vec![Content::default(); found.version as usize];
        self.states.push(found);
        self.floor = 0;
    }

    pub fn version(&self) -> u64 {
        self.states.len() as u64 - 1
    }
}

#[derive(Default)]
pub struct State {
    pub pages: BTreeMap<u64, Page>,
    /// Records up to here survive.
    pub acknowledged: Lsn,
    /// The latest checkpoint's.
    pub covered: Lsn,
    /// Pages that a caller uses, and so must not be handed out.
    pub in_use: BTreeSet<u64>,
    pub tally: Tally,
}

/// What was met, lest all of it be for nothing.
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
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.refused += other.refused;
        self.crashes += other.crashes;
        self.recoveries += other.recoveries;
        self.redone += other.redone;
        self.abandoned += other.abandoned;
        self.damaged += other.damaged;
        self.checkpoints += other.checkpoints;
        self.faults += other.faults;
        self.poisoned += other.poisoned;
    }
}

/// See the [module](self). Its lock is no simulated one: what is done under it is no step.
pub struct Model {
    state: Mutex<State>,
    /// Pages have LSNs.
    strict: bool,
}

impl Model {
    pub fn new(strict: bool) -> Self {
        Model {
            state: Mutex::default(),
            strict,
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the history of a page.
    pub fn page<R>(&self, page: u64, look: impl FnOnce(&mut Page) -> R) -> R {
        look(self.state().pages.entry(page).or_insert_with(Page::new))
    }

    /// What a thread finds that has a latch of the page.
    pub fn check(&self, page: u64, found: &Content) {
        self.page(page, |known| {
            // Without an LSN nothing tells that a write was lost.
            let unknowable = known.excused && (!self.strict || known.unlogged.is_some());
            if !known.broken && !known.free && !unknowable {
                assert!(
                    found == known.now(),
                    "page {page} is not as it was left: {found:?}, and should be {:?}",
                    known.now()
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

    /// A crash has left these records. What is later never was.
    pub fn log_was_found(&self, records: &[Record], logged: bool) {
        let end = records.len() as u64 * RECORD;
        let mut state = self.state();
        assert!(
            end >= state.acknowledged,
            "the log ends at {end}, and {} was acknowledged",
            state.acknowledged
        );
        assert!(
            end >= state.covered,
            "the log ends at {end}, and a checkpoint covered {}",
            state.covered
        );
        state.acknowledged = end;
        for (&number, page) in &mut state.pages {
            page.broken = false;
            if logged {
                page.states.retain(|state| state.lsn <= end);
            }
            if page.version() < page.born {
                // That it was handed out is forgotten.
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
