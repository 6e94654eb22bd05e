//! Compares the fields of two results.

use serde_json::{Map, Value};

use super::file::{Row, key_text, plain_text};
use crate::schema::{DeclaredField, FieldRole};

/// Fractions whose relative difference is at most this differ by rounding.
const ROUNDING: f64 = 1e-9;

/// Measured counts differ by chance up to this many standard deviations of a difference of two counts.
const DEVIATIONS: f64 = 3.0;

/// A field with two different values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldDifference {
    /// The field, with the fields that contain it: `wear.mean`, `operations[update].p99_us`.
    pub(super) path: String,
    pub(super) unit: String,
    pub(super) role: FieldRole,
    pub(super) before: Value,
    pub(super) after: Value,
    pub(super) within_noise: bool,
}

/// The comparison of two results with the same key.
pub(super) struct FieldComparison<'n> {
    /// The relative difference up to which measured figures differ by chance.
    noise: f64,
    /// Everything is measured, because several threads have run.
    all_measured: bool,
    /// Key fields, which are not compared.
    keys: &'n [String],
    found: Vec<FieldDifference>,
}

/// The differences between two results, in the order of the fields' names.
pub(super) fn differences(
    declared: DeclaredField<'_>,
    before: &Row,
    after: &Row,
    keys: &[String],
    noise: f64,
) -> Vec<FieldDifference> {
    let has_threads = |row: &Row| row.get("threads").and_then(Value::as_u64) > Some(1);
    let mut comparison =
        FieldComparison { noise, all_measured: has_threads(before) || has_threads(after), keys, found: Vec::new() };
    comparison.objects("", declared, FieldRole::Figure, before, after);
    comparison.found
}

impl FieldComparison<'_> {
    fn objects(
        &mut self,
        path: &str,
        declared: DeclaredField<'_>,
        inherited: FieldRole,
        before: &Map<String, Value>,
        after: &Map<String, Value>,
    ) {
        let added = after.keys().filter(|name| !before.contains_key(*name));
        for name in before.keys().chain(added) {
            if path.is_empty() && self.keys.contains(name) {
                continue;
            }
            let value = |row: &Map<String, Value>| row.get(name).cloned().unwrap_or_default();
            let (before, after) = (value(before), value(after));
            let role = match declared.role_of(name, &before) {
                FieldRole::Figure => inherited,
                role => role,
            };
            let path = match path {
                "" => name.clone(),
                path => format!("{path}.{name}"),
            };
            self.values(&path, declared.field(name), role, &before, &after);
        }
    }

    fn values(&mut self, path: &str, declared: DeclaredField<'_>, role: FieldRole, before: &Value, after: &Value) {
        match (before, after) {
            (Value::Object(before), Value::Object(after)) => {
                self.objects(path, declared, role, before, after);
            }
            (Value::Array(before), Value::Array(after)) if is_keyed(declared, before, after) => {
                self.arrays(path, declared.items(), role, before, after);
            }
            _ => {
                let role = match (role, self.all_measured) {
                    (FieldRole::Figure, true) => FieldRole::Measured,
                    (role, _) => role,
                };
                if !is_same(before, after) {
                    self.found.push(FieldDifference {
                        path: path.into(),
                        unit: declared.unit().into(),
                        role,
                        before: before.clone(),
                        after: after.clone(),
                        within_noise: (role == FieldRole::Measured || self.all_measured) && is_noise(before, after, self.noise),
                    });
                }
            }
        }
    }

    /// Compares arrays of objects, which are found by their keys.
    fn arrays(&mut self, path: &str, declared: DeclaredField<'_>, role: FieldRole, before: &[Value], after: &[Value]) {
        let key = |item: &Value| item.as_object().map(|row| item_key(declared, row));
        let path_of = |item: &Value| format!("{path}[{}]", key(item).unwrap_or_default());
        let find = |all: &[Value], item: &Value| {
            let same = all.iter().find(|other| key(other) == key(item));
            same.cloned().unwrap_or_default()
        };
        for item in before {
            self.values(&path_of(item), declared, role, item, &find(after, item));
        }
        for item in after {
            if find(before, item).is_null() {
                self.values(&path_of(item), declared, role, &Value::Null, item);
            }
        }
    }
}

/// The key of an item: the values of its key fields.
fn item_key(declared: DeclaredField<'_>, row: &Map<String, Value>) -> String {
    let is_key = |(name, value): &(&String, &Value)| declared.role_of(name, value) == FieldRole::Key && !value.is_null();
    let names: Vec<String> = row.iter().filter(is_key).map(|(name, _)| name.clone()).collect();
    match names.as_slice() {
        [name] => plain_text(&row[name]),
        names => key_text(row, names),
    }
}

/// True if the items of both arrays are objects whose keys differ from each other.
fn is_keyed(declared: DeclaredField<'_>, before: &[Value], after: &[Value]) -> bool {
    let keys = |items: &[Value]| {
        let key = |item: &Value| Some(item_key(declared.items(), item.as_object()?));
        let mut keys: Vec<Option<String>> = items.iter().map(key).collect();
        let all = keys.len();
        let named = keys.iter().flatten().all(|key| !key.is_empty());
        keys.sort_unstable();
        keys.dedup();
        named && keys.len() == all && keys.iter().all(Option::is_some)
    };
    keys(before) && keys(after)
}

/// True if two values are equal, or differ by the rounding of fractions.
fn is_same(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Number(one), Value::Number(other)) => {
            if let (Some(one), Some(other)) = (one.as_i128(), other.as_i128()) {
                return one == other;
            }
            let (Some(one), Some(other)) = (one.as_f64(), other.as_f64()) else {
                return one == other;
            };
            (one - other).abs() <= ROUNDING * one.abs().max(other.abs())
        }
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len() && before.iter().zip(after).all(|(one, other)| is_same(one, other))
        }
        _ => before == after,
    }
}

/// True if two measured figures differ only by chance.
fn is_noise(before: &Value, after: &Value, noise: f64) -> bool {
    let (Some(one), Some(other)) = (before.as_f64(), after.as_f64()) else {
        return false;
    };
    let (least, most) = (one.abs().min(other.abs()), one.abs().max(other.abs()));
    let small = one * other >= 0.0 && most <= (1.0 + noise) * least;
    let are_counts = before.is_u64() && after.is_u64();
    // Without a threshold for times, counts are compared exactly too.
    small || (noise > 0.0 && are_counts && most - least <= DEVIATIONS * (most + least).sqrt())
}
