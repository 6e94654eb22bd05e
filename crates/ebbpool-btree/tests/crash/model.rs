//! What has been acknowledged, and what may be found.

use std::collections::BTreeMap;

pub type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a transaction makes of keys: a value, or nothing.
pub type Effects = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A sorted map, and the commits after it: a crash takes some of them off the end.
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
    /// Everything that was committed.
    pub fn now(&self) -> Records {
        let mut records = self.base.clone();
        self.commits
            .iter()
            .for_each(|effects| apply(&mut records, effects));
        records
    }

    /// A commit that is about to be tried.
    pub fn commit(&mut self, effects: Effects) {
        self.commits.push(effects);
    }

    /// Everything that was committed so far survives.
    pub fn acknowledge(&mut self) {
        self.acknowledged = self.commits.len();
    }

    /// What was found after a crash has to be some first commits, and all that were acknowledged among
    /// them.
    pub fn found(&mut self, found: &Records) -> Result<(), String> {
        let mut records = self.base.clone();
        let mut count = 0;
        loop {
            if count >= self.acknowledged && records == *found {
                *self = Model {
                    base: records,
                    ..Model::default()
                };
                return Ok(());
            }
            let Some(effects) = self.commits.get(count) else {
                break;
            };
            apply(&mut records, effects);
            count += 1;
        }
        let mut wanted = self.base.clone();
        for effects in &self.commits[..self.acknowledged] {
            apply(&mut wanted, effects);
        }
        let differs = |key: &&Vec<u8>| found.get(*key) != wanted.get(*key);
        let key = found.keys().chain(wanted.keys()).find(differs);
        Err(format!(
            "what is found is none of {} to {} commits; what was acknowledged has another value for key {key:?}: {:?} bytes, and {:?} are found",
            self.acknowledged,
            self.commits.len(),
            key.and_then(|key| wanted.get(key)).map(Vec::len),
            key.and_then(|key| found.get(key)).map(Vec::len),
        ))
    }
}
