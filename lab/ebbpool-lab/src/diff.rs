//! Compares two results of the same command: what changed, by how much, and beyond noise.
//!
//! A [`ResultFile`] is read from the JSON of a command, which its [`ResultSchema`](crate::schema::ResultSchema)
//! describes. [`ResultDiff::new`] matches the results of two files by their key fields and compares the other fields:
//! counts exactly, fractions beyond rounding, and measured figures beyond a threshold. [`sentence`] sums a comparison
//! up, and [`page`] is a page of HTML.

mod fields;
mod file;
mod numbers;
mod page;
mod sentence;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::schema::FieldRole;
use fields::{FieldDifference, differences};
use file::{Row, key_text, plain_text};

pub use file::{DiffError, ResultFile};
pub use numbers::{percent, shown};
pub use page::{page, write};
pub use sentence::{sentence, words};

/// The threshold from which on measured figures count as changed: the larger one is more than this share larger.
pub const NOISE: f64 = 0.2;

/// The differences between two results of the same command.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ResultDiff {
    /// The command without `ebbpool`.
    pub command: String,
    /// The first file.
    pub before: String,
    /// The second file.
    pub after: String,
    /// The threshold for measured figures, as a share of the smaller one.
    pub noise: f64,
    /// Results that both files have.
    pub matched: usize,
    /// Those of them in which a figure differs beyond noise.
    pub changed: usize,
    /// Those of them that differ only within noise.
    pub within_noise: usize,
    /// Fields with one value in all results of each file: the key fields among them are not used to match results.
    pub in_all: Vec<CommonChange>,
    /// The keys of results that only the first file has.
    pub only_before: Vec<BTreeMap<String, Value>>,
    /// The keys of results that only the second file has.
    pub only_after: Vec<BTreeMap<String, Value>>,
    /// All other changes, the largest first.
    pub changes: Vec<FigureChange>,
    /// The names of the key fields in which the results of a file differ.
    #[serde(skip)]
    pub keys: Vec<String>,
}

/// A change that is the same in all results.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CommonChange {
    /// The field.
    pub field: String,
    /// The value in all results of the first file.
    pub before: Value,
    /// The value in all results of the second file.
    pub after: Value,
}

/// A field of a result that has changed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FigureChange {
    /// The key of the result: the key fields in which the results of a file differ.
    pub key: BTreeMap<String, Value>,
    /// The field, with the fields that contain it, such as `wear.mean` and `operations[update].p99_us`.
    pub field: String,
    /// The unit; empty for texts and shares, and where the name of the field says it.
    pub unit: String,
    /// The role of the field: `restated` if the figure follows from others, `measured` if it varies from run to run.
    pub role: FieldRole,
    /// The value in the first file; null if there is none.
    pub before: Value,
    /// The value in the second file.
    pub after: Value,
    /// The second less the first, if both are numbers.
    pub difference: Option<f64>,
    /// The difference as a share of the first, unless that is 0.
    pub relative: Option<f64>,
    /// The difference as a share of the larger of both; 1 if one of them is no number.
    pub size: f64,
    /// True if a measured figure differs by no more than the threshold.
    pub within_noise: bool,
}

impl FigureChange {
    fn new(key: &BTreeMap<String, Value>, found: FieldDifference) -> Self {
        let numbers = found.before.as_f64().zip(found.after.as_f64());
        let difference = numbers.map(|(before, after)| after - before);
        let relative = numbers.filter(|(before, _)| *before != 0.0).map(|(before, after)| (after - before) / before.abs());
        let size = numbers.map_or(1.0, |(before, after)| (after - before).abs() / before.abs().max(after.abs()));
        FigureChange {
            key: key.clone(),
            field: found.path,
            unit: found.unit,
            role: found.role,
            before: found.before,
            after: found.after,
            difference,
            relative,
            size,
            within_noise: found.within_noise,
        }
    }

    /// True if a reader should see the change first: it is beyond noise, and does not follow from another one.
    pub fn is_principal(&self) -> bool {
        !self.within_noise && self.role != FieldRole::Restated
    }
}

impl ResultDiff {
    /// Compares two files. Measured figures count as changed if the larger one is larger by more than `noise`, as a
    /// share of the smaller one; counts that depend on time may also differ by three standard deviations.
    ///
    /// # Errors
    ///
    /// [`DiffError::OtherCommand`] if the files are of two commands.
    pub fn new(before: &ResultFile, after: &ResultFile, noise: f64) -> Result<Self, DiffError> {
        if before.command() != after.command() {
            return Err(DiffError::OtherCommand {
                before: before.label.clone(),
                before_command: before.command(),
                after: after.label.clone(),
                after_command: after.command(),
            });
        }
        let all_keys = all_keys(before, after);
        let (keys, in_all) = split_keys(before, after, &all_keys);
        let found = matched(before, after, &keys);
        let mut changes = Vec::new();
        let mut matched = 0;
        for (key, one, other) in &found.pairs {
            matched += 1;
            let declared = after.schema.result();
            let different = differences(declared, one, other, &all_keys, noise);
            changes.push((key, different));
        }
        let is_beyond = |found: &&FieldDifference| !found.within_noise;
        let changed = changes.iter().filter(|(_, all)| all.iter().any(|found| is_beyond(&found))).count();
        let different = changes.iter().filter(|(_, all)| !all.is_empty()).count();
        let mut diff = ResultDiff {
            command: before.command().into(),
            before: before.label.clone(),
            after: after.label.clone(),
            noise,
            matched,
            changed,
            within_noise: different - changed,
            in_all,
            only_before: found.only_before,
            only_after: found.only_after,
            changes: Vec::new(),
            keys,
        };
        diff.add_changes(changes);
        Ok(diff)
    }

    /// True if anything differs beyond noise.
    pub fn has_differences(&self) -> bool {
        self.changed > 0 || !self.in_all.is_empty() || !self.only_before.is_empty() || !self.only_after.is_empty()
    }

    /// Adds the changes of all results. A change that is the same in all of several results is stated once.
    fn add_changes(&mut self, changes: Vec<(&BTreeMap<String, Value>, Vec<FieldDifference>)>) {
        let is_common = |change: &&FieldDifference| {
            let is_same = |other: &FieldDifference| other == *change;
            changes.iter().all(|(_, all)| all.iter().any(is_same))
        };
        let first = changes.first().map(|(_, all)| all.as_slice());
        let first = first.filter(|_| changes.len() > 1).unwrap_or_default();
        let candidates = first.iter().filter(|change| !change.within_noise);
        let in_all: Vec<CommonChange> = candidates
            .filter(is_common)
            .map(|change| CommonChange {
                field: change.path.clone(),
                before: change.before.clone(),
                after: change.after.clone(),
            })
            .collect();
        let common: BTreeSet<&str> = in_all.iter().map(|change| change.field.as_str()).collect();
        for (key, found) in changes {
            let rest = found.into_iter().filter(|found| !common.contains(found.path.as_str()));
            self.changes.extend(rest.map(|found| FigureChange::new(key, found)));
        }
        self.changes.sort_by(|one, other| other.size.total_cmp(&one.size));
        self.in_all.extend(in_all);
    }
}

/// The key fields of both files, in order.
fn all_keys(before: &ResultFile, after: &ResultFile) -> Vec<String> {
    let mut keys = before.keys();
    for name in after.keys() {
        if !keys.contains(&name) {
            keys.push(name);
        }
    }
    keys
}

/// The key fields that distinguish results within a file, and those that have one value in each file, but not the same.
fn split_keys(before: &ResultFile, after: &ResultFile, keys: &[String]) -> (Vec<String>, Vec<CommonChange>) {
    let mut in_all = Vec::new();
    let mut distinguishing = Vec::new();
    for name in keys {
        match (one_value(before, name), one_value(after, name)) {
            (Some(one), Some(other)) if plain_text(&one) == plain_text(&other) => {}
            (Some(one), Some(other)) => in_all.push(CommonChange { field: name.clone(), before: one, after: other }),
            _ => distinguishing.push(name.clone()),
        }
    }
    (distinguishing, in_all)
}

/// The value of a field that is the same in all results of a file.
fn one_value(file: &ResultFile, name: &str) -> Option<Value> {
    let mut values = file.rows.iter().map(|row| row.get(name).unwrap_or(&Value::Null));
    let first = values.next()?;
    values.all(|value| value == first).then(|| first.clone())
}

/// The results of two files by their keys.
struct MatchedRows<'f> {
    /// The key, and the result in each file.
    pairs: Vec<(BTreeMap<String, Value>, &'f Row, &'f Row)>,
    only_before: Vec<BTreeMap<String, Value>>,
    only_after: Vec<BTreeMap<String, Value>>,
}

fn matched<'f>(before: &'f ResultFile, after: &'f ResultFile, keys: &[String]) -> MatchedRows<'f> {
    let mut others: BTreeMap<String, &Row> = after.rows.iter().map(|row| (key_text(row, keys), row)).collect();
    let mut found = MatchedRows { pairs: Vec::new(), only_before: Vec::new(), only_after: Vec::new() };
    for row in &before.rows {
        match others.remove(&key_text(row, keys)) {
            Some(other) => found.pairs.push((key_of(row, keys), row, other)),
            None => found.only_before.push(key_of(row, keys)),
        }
    }
    let left = after.rows.iter().filter(|row| others.contains_key(&key_text(row, keys)));
    found.only_after = left.map(|row| key_of(row, keys)).collect();
    found
}

fn key_of(row: &Map<String, Value>, keys: &[String]) -> BTreeMap<String, Value> {
    let field = |name: &String| Some((name.clone(), row.get(name)?.clone()));
    keys.iter().filter_map(field).collect()
}
