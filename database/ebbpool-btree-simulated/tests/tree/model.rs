//! The model: the committed changes, what a read may return, and what must survive a crash.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub type Key = Vec<u8>;
pub type Value = Arc<Vec<u8>>;
pub type Records = BTreeMap<Key, Value>;

/// The changes of a transaction: by key, the new value, or nothing if it was removed.
pub type Effects = BTreeMap<Key, Option<Value>>;

/// A transaction whose commit was called.
#[derive(Clone, Debug)]
struct Commit {
    effects: Effects,
    /// When the commit had returned successfully.
    returned: Option<u64>,
    /// True if the commit survives every crash.
    durable: bool,
    /// True if the log had it and could not be written.
    late: bool,
}

#[derive(Default)]
pub struct State {
    /// The records after the latest recovery.
    base: Records,
    /// Commits in the order in which they were called. Transactions with a common key commit one after the
    /// other.
    commits: Vec<Commit>,
    clock: u64,
    pub tally: Tally,
}

/// Counters, which show that the test has tested something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub committed: u64,
    pub rolled_back: u64,
    pub conflicts: u64,
    pub refused: u64,
    pub panics: u64,
    pub reads: u64,
    pub scans: u64,
    pub loads: u64,
    pub crashes: u64,
    pub recoveries: u64,
    pub faults: u64,
    pub broken: u64,
    pub reported: u64,
    pub cut: u64,
    pub cut_refused: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.conflicts += other.conflicts;
        self.refused += other.refused;
        self.panics += other.panics;
        self.reads += other.reads;
        self.scans += other.scans;
        self.loads += other.loads;
        self.crashes += other.crashes;
        self.recoveries += other.recoveries;
        self.faults += other.faults;
        self.broken += other.broken;
        self.reported += other.reported;
        self.cut += other.cut;
        self.cut_refused += other.cut_refused;
    }
}

/// See the [module](self). Its lock is not a simulated one, so work under it is not a step of the
/// scheduler.
#[derive(Default)]
pub struct Model(Mutex<State>);

fn apply(records: &mut Records, effects: &Effects) {
    for (key, value) in effects {
        match value {
            Some(value) => records.insert(key.clone(), Arc::clone(value)),
            None => records.remove(key),
        };
    }
}

/// Describes a value in messages, for which whole values are too long.
pub fn brief(value: Option<&Value>) -> String {
    match value {
        None => "nothing".into(),
        Some(value) => format!("{} bytes that begin {:?}", value.len(), &value[..value.len().min(8)]),
    }
}

impl Model {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a commit that is about to be called. Returns its number.
    pub fn commit(&self, effects: Effects) -> usize {
        let mut state = self.state();
        state.clock += 1;
        state.commits.push(Commit { effects, returned: None, durable: false, late: false });
        state.commits.len() - 1
    }

    pub fn committed(&self, number: usize, durable: bool) {
        let mut state = self.state();
        state.clock += 1;
        let now = state.clock;
        let commit = &mut state.commits[number];
        commit.returned = Some(now);
        commit.durable |= durable;
        state.tally.committed += 1;
    }

    /// Notes that a commit had no effect.
    pub fn refused(&self, number: usize) {
        self.state().commits[number].effects.clear();
    }

    /// Notes that the log has a commit, and could not be written.
    pub fn late(&self, number: usize) {
        self.state().commits[number].late = true;
    }

    /// Notes that the log has been written since then.
    pub fn written_late(&self, then: u64) {
        for commit in self.state().commits.iter_mut().filter(|commit| commit.late) {
            commit.returned = Some(then);
        }
    }

    pub fn now(&self) -> u64 {
        let mut state = self.state();
        state.clock += 1;
        state.clock
    }

    /// Notes that all commits survive that had returned before `then`.
    pub fn durable_since(&self, then: u64) {
        for commit in &mut self.state().commits {
            commit.durable |= commit.returned.is_some_and(|returned| returned < then);
        }
    }

    /// The values that a read of a key may return that began at `since` and ends now.
    fn allowed(state: &State, key: &[u8], since: u64) -> Vec<Option<Value>> {
        let mut allowed = vec![state.base.get(key).cloned()];
        for commit in &state.commits {
            if let Some(value) = commit.effects.get(key) {
                // A commit that had returned before the read began has replaced all earlier values.
                if commit.returned.is_some_and(|returned| returned < since) {
                    allowed.clear();
                }
                allowed.push(value.clone());
            }
        }
        allowed
    }

    /// Checks the result of a read that began at `since`. If `is_durable`, the commit survives every crash that it has seen.
    pub fn check_get(&self, key: &[u8], found: Option<&Value>, since: u64, is_durable: bool) {
        let mut state = self.state();
        state.tally.reads += 1;
        let allowed = Self::allowed(&state, key, since);
        assert!(
            allowed.iter().any(|value| value.as_ref() == found),
            "key {key:?} has {}, and should have one of {:?}",
            brief(found),
            allowed.iter().map(|value| brief(value.as_ref())).collect::<Vec<_>>()
        );
        if is_durable && state.base.get(key) != found {
            let mut seen =
                state.commits.iter_mut().filter(|it| it.effects.get(key).is_some_and(|value| value.as_ref() == found));
            if let (Some(commit), None) = (seen.next(), seen.next()) {
                commit.durable = true;
            }
        }
    }

    /// Checks the result of a scan of the keys for which `covers` returns true.
    pub fn check_scan(&self, found: &Records, covers: impl Fn(&Key) -> bool, since: u64, is_durable: bool) {
        let mut keys: Vec<Key> = {
            let state = self.state();
            let changed = state.commits.iter().flat_map(|commit| commit.effects.keys());
            state.base.keys().chain(changed).cloned().collect()
        };
        keys.extend(found.keys().cloned());
        keys.sort_unstable();
        keys.dedup();
        for key in keys.iter().filter(|key| covers(key)) {
            self.check_get(key, found.get(key), since, is_durable);
        }
        self.state().tally.scans += 1;
    }

    /// The records after all commits, when no client runs.
    pub fn records(&self) -> Records {
        let state = self.state();
        let mut records = state.base.clone();
        for commit in state.commits.iter().filter(|commit| commit.returned.is_some()) {
            apply(&mut records, &commit.effects);
        }
        records
    }

    /// The states after each commit, if one client made all commits.
    pub fn states(&self) -> Vec<Records> {
        let state = self.state();
        let mut states = vec![state.base.clone()];
        for commit in &state.commits {
            let mut next = states[states.len() - 1].clone();
            apply(&mut next, &commit.effects);
            states.push(next);
        }
        states
    }

    /// Checks the records after a recovery, which become the new base. They include every durable commit,
    /// and each other commit completely or not at all; those of one client in their order.
    pub fn recovered(&self, found: &Records, one_client: bool) {
        let mut state = self.state();
        let open: Vec<usize> = (0..state.commits.len()).filter(|&at| !state.commits[at].durable).collect();
        let choices: Vec<Vec<usize>> = match one_client {
            true => {
                let first = (0..state.commits.len()).rev();
                let first = first.map(|last| (0..=last).collect::<Vec<_>>());
                let whole = |chosen: &Vec<usize>| {
                    let beyond = state.commits[chosen.len()..].iter();
                    !beyond.clone().any(|commit| commit.durable)
                };
                first.chain([Vec::new()]).filter(whole).collect()
            }
            false => {
                assert!(open.len() < 12, "too many commits are open");
                (0..1usize << open.len())
                    .map(|bits| {
                        let taken = |at: &usize| match open.iter().position(|other| other == at) {
                            Some(bit) => bits >> bit & 1 == 1,
                            None => true,
                        };
                        (0..state.commits.len()).filter(taken).collect()
                    })
                    .collect()
            }
        };
        let mut nearest = None;
        for chosen in choices {
            let mut records = state.base.clone();
            for &at in &chosen {
                apply(&mut records, &state.commits[at].effects);
            }
            if records == *found {
                state.base = records;
                state.commits.clear();
                state.tally.recoveries += 1;
                return;
            }
            nearest.get_or_insert(records);
        }
        let expected = nearest.unwrap_or_default();
        let mut keys = found.keys().chain(expected.keys());
        let key = keys.find(|key| found.get(*key) != expected.get(*key));
        panic!(
            "what is found after a crash is no state that there may be: key {key:?} has {}, and should have, for example, {}; {} of {} commits are durable",
            brief(key.and_then(|key| found.get(key))),
            brief(key.and_then(|key| expected.get(key))),
            state.commits.len() - open.len(),
            state.commits.len()
        );
    }
}
