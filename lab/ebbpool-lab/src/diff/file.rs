//! Reads a result from JSON, and finds the command that has printed it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::schema::{FieldRole, ResultSchema, ResultShape};

/// A result, as a JSON object.
pub(super) type Row = Map<String, Value>;

/// Why two files cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// The file has another format than JSON.
    #[error("{file} is {format}, and results are compared as JSON")]
    OtherFormat {
        /// The file's name.
        file: String,
        /// The format, as it looks.
        format: &'static str,
    },
    /// The file is not JSON.
    #[error("{file}: not JSON: {problem}")]
    NotJson {
        /// The file's name.
        file: String,
        /// The problem, with the line and the column.
        problem: serde_json::Error,
    },
    /// The file has no results.
    #[error("{file}: there are no results in it")]
    Empty {
        /// The file's name.
        file: String,
    },
    /// The JSON is not that of a command.
    #[error("{file}: not the results of a command: {problem}")]
    NotResults {
        /// The file's name.
        file: String,
        /// The first thing that does not fit.
        problem: String,
    },
    /// Two results of a file have the same key fields and differ.
    #[error("{file}: results {first} and {second} differ and have the same key: {key}")]
    SameKey {
        /// The file's name.
        file: String,
        /// The key, such as `policy lru, frames 100`.
        key: String,
        /// The number of the first, from 1.
        first: usize,
        /// The number of the second.
        second: usize,
    },
    /// The files are of different commands.
    #[error(
        "{before} has results of `ebbpool {before_command}`, {after} those of `ebbpool {after_command}`; \
         results of one command are compared"
    )]
    OtherCommand {
        /// The first file's name.
        before: String,
        /// Its command.
        before_command: &'static str,
        /// The second file's name.
        after: String,
        /// Its command.
        after_command: &'static str,
    },
}

/// The results of one command.
#[derive(Clone, Debug)]
pub struct ResultFile {
    pub(super) label: String,
    pub(super) schema: ResultSchema,
    pub(super) rows: Vec<Row>,
}

impl ResultFile {
    /// Reads results. `label` is the file's name in messages; `schemas` are those of the commands that may have
    /// printed them.
    ///
    /// # Errors
    ///
    /// If the bytes are not the JSON of one of the commands, or results of it have the same key.
    pub fn parse(label: &str, bytes: &[u8], schemas: &[ResultSchema]) -> Result<Self, DiffError> {
        let file = || label.to_string();
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(DiffError::Empty { file: file() });
        }
        let json: Value = serde_json::from_slice(bytes).map_err(|problem| {
            let file = file();
            match other_format(bytes) {
                Some(format) => DiffError::OtherFormat { file, format },
                None => DiffError::NotJson { file, problem },
            }
        })?;
        let not_results = |problem: String| DiffError::NotResults { file: file(), problem };
        let (items, is_array) = match json {
            Value::Array(items) => (items, true),
            item => (vec![item], false),
        };
        let mut rows = Vec::new();
        for (number, item) in (1..).zip(items) {
            match item {
                Value::Object(row) => rows.push(row),
                other if is_array => {
                    let kind = kind_of(&other);
                    return Err(not_results(format!("item {number} is {kind}")));
                }
                other => return Err(not_results(format!("it is {}", kind_of(&other)))),
            }
        }
        let Some(first) = rows.first() else {
            return Err(DiffError::Empty { file: file() });
        };
        let schema = schema_of(first, is_array, schemas).map_err(not_results)?;
        let mut found = ResultFile { label: file(), schema: schema.clone(), rows };
        found.check_rows()?;
        Ok(found)
    }

    /// The command that has printed the results, without `ebbpool`.
    pub fn command(&self) -> &'static str {
        self.schema.command
    }

    /// The name of the file.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The names of the key fields that at least one result has.
    pub(super) fn keys(&self) -> Vec<String> {
        let declared = self.schema.result();
        let mut keys: Vec<String> = declared.keys().map(String::from).collect();
        for (name, value) in self.rows.iter().flatten() {
            let is_key = declared.role_of(name, value) == FieldRole::Key;
            if is_key && !keys.contains(name) {
                keys.push(name.clone());
            }
        }
        keys.retain(|name| self.rows.iter().any(|row| row.contains_key(name)));
        sort_as_declared(&mut keys);
        keys
    }

    /// Checks that each result has the key fields of its command. Leaves out results that equal another one.
    fn check_rows(&mut self) -> Result<(), DiffError> {
        let keys = self.keys();
        let of_first = self.rows.first().cloned().unwrap_or_default();
        let declared = self.schema.result();
        // A field that may be null is left out by versions that had it only where it was not.
        let required = declared.required().filter(|name| !declared.field(name).may_be_null());
        let required: Vec<&str> = required.collect();
        for (number, row) in (1..).zip(&self.rows) {
            let missing = keys.iter().find(|name| {
                let needed = required.contains(&name.as_str()) && of_first.contains_key(*name);
                needed && !row.contains_key(*name)
            });
            if let Some(missing) = missing {
                return Err(DiffError::NotResults {
                    file: self.label.clone(),
                    problem: format!("result {number} has no field `{missing}`"),
                });
            }
        }
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let mut repeated = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            let key = key_text(row, &keys);
            match numbers.get(&key) {
                None => {
                    numbers.insert(key, at);
                }
                Some(&earlier) if self.rows[earlier] == *row => repeated.push(at),
                Some(&earlier) => {
                    return Err(DiffError::SameKey { file: self.label.clone(), key, first: earlier + 1, second: at + 1 });
                }
            }
        }
        for at in repeated.into_iter().rev() {
            self.rows.remove(at);
        }
        Ok(())
    }
}

/// Key fields in the order in which people name them; the others follow as they are.
fn sort_as_declared(keys: &mut [String]) {
    const FIRST: [&str; 6] = ["id", "trace", "name", "policy", "frames", "asymmetry"];
    keys.sort_by_key(|name| {
        let known = FIRST.iter().position(|first| first == name);
        known.unwrap_or(FIRST.len())
    });
}

/// A key as a text: `policy lru, frames 100`. A field that a result lacks counts as null.
pub(super) fn key_text(row: &Row, keys: &[String]) -> String {
    let part = |name: &String| {
        let value = row.get(name).unwrap_or(&Value::Null);
        (!value.is_null()).then(|| format!("{name} {}", plain_text(value)))
    };
    let parts: Vec<String> = keys.iter().filter_map(part).collect();
    parts.join(", ")
}

/// A value without the quotes of a text; `8.0` and `8` are both `8`.
pub(super) fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or_default();
            number.to_string()
        }
        value => value.to_string(),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The format of bytes that are not JSON, if it shows.
fn other_format(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"PAR1") {
        return Some("Parquet");
    }
    let text = std::str::from_utf8(bytes).ok()?.trim_start();
    let first = text.lines().next()?;
    let of_json = ['{', '[', '"'];
    match first.chars().next()? {
        '<' => Some("HTML or XML"),
        start if of_json.contains(&start) => None,
        _ if first.contains(',') && text.lines().nth(1).is_none_or(|row| row.contains(',')) => Some("CSV"),
        _ => None,
    }
}

/// The schema that a result fits best.
fn schema_of<'s>(row: &Row, is_array: bool, schemas: &'s [ResultSchema]) -> Result<&'s ResultSchema, String> {
    let has_shape = |schema: &&ResultSchema| match schema.shape {
        ResultShape::One => !is_array,
        ResultShape::Rows => is_array,
        ResultShape::OneOrRows => true,
    };
    // Fields that both have, without those that one of them lacks. A result of another version lacks some.
    let fit = |schema: &ResultSchema| {
        let declared = schema.result();
        let common = declared.names().filter(|name| row.contains_key(*name));
        let missing = declared.required().filter(|name| !row.contains_key(*name));
        common.count() as i64 - missing.count() as i64
    };
    let best = schemas.iter().filter(has_shape).rev().max_by_key(|it| fit(it));
    let Some(best) = best.filter(|best| fit(best) > 0) else {
        return Err("its fields are those of no command".into());
    };
    let declared = best.result();
    // Earlier versions lack key fields that have come later, which may be null.
    let mut required = declared.keys().filter(|name| {
        let mut required = declared.required();
        required.any(|required| required == *name) && !declared.field(name).may_be_null()
    });
    match required.find(|name| !row.contains_key(*name)) {
        Some(missing) => Err(format!("it resembles those of `ebbpool {}`, but has no field `{missing}`", best.command)),
        None => Ok(best),
    }
}
