//! The commits of a script, and the contents that a database may have after a crash.

use std::collections::BTreeMap;

pub type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// The changes of a transaction: by key, the new value, or nothing if it was removed.
pub type Effects = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A sorted map, and the commits after it, of which a crash may undo the last ones.
#[derive(Default)]
pub struct Model {
    base: Records,
    commits: Vec<Effects>,
    acknowledged: usize,
}

pub fn apply(records: &mut Records, effects: &Effects) {
    for (key, value) in effects {
        match value {
            Some(value) => records.insert(key.clone(), value.clone()),
            None => records.remove(key),
        };
    }
}

impl Model {
    /// The records after all commits.
    pub fn now(&self) -> Records {
        let mut records = self.base.clone();
        self.commits.iter().for_each(|effects| apply(&mut records, effects));
        records
    }

    /// Adds a commit that is about to be called.
    pub fn commit(&mut self, effects: Effects) {
        self.commits.push(effects);
    }

    /// Notes that all commits so far survive a crash.
    pub fn acknowledge(&mut self) {
        self.acknowledged = self.commits.len();
    }

    /// Checks that the records found after a crash are those after a first part of the commits, which
    /// includes all acknowledged ones.
    pub fn found(&mut self, found: &Records) -> Result<(), String> {
        let mut records = self.base.clone();
        let mut count = 0;
        loop {
            if count >= self.acknowledged && records == *found {
                *self = Model { base: records, ..Model::default() };
                return Ok(());
            }
            let Some(effects) = self.commits.get(count) else {
                break;
            };
            apply(&mut records, effects);
            count += 1;
        }
        let mut expected = self.base.clone();
        for effects in &self.commits[..self.acknowledged] {
            apply(&mut expected, effects);
        }
        let differs = |key: &&Vec<u8>| found.get(*key) != expected.get(*key);
        let key = found.keys().chain(expected.keys()).find(differs);
        Err(format!(
            "what is found is none of {} to {} commits; what was acknowledged has another value for key {key:?}: {:?} bytes, and {:?} are found",
            self.acknowledged,
            self.commits.len(),
            key.and_then(|key| expected.get(key)).map(Vec::len),
            key.and_then(|key| found.get(key)).map(Vec::len),
        ))
    }
}
