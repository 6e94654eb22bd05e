//! The classes of a native trace: the optional column `class`, or ranges of pages in the metadata, and their names.

use parquet::file::metadata::KeyValue;
use parquet::schema::types::ColumnDescPtr;

use super::integers::IntegerColumn;
use crate::error::TraceError;
use crate::reference::PageClasses;

pub(super) const CLASS: &str = "class";
/// A JSON array with the names of the classes 1, 2, 3, …
const NAMES: &str = "ebbpool.classes";
/// A JSON array of pairs: the first page of a range and the class of its pages.
const RANGES: &str = "ebbpool.class_ranges";

/// The column of classes, if the file has one; adds a note if it cannot be read.
pub(super) fn find(file: (&str, &[ColumnDescPtr]), notes: &mut Vec<String>) -> Option<IntegerColumn> {
    const NO_CLASSES: &str = "and classes are integers; the pages have no classes";
    IntegerColumn::find(file, CLASS, notes, NO_CLASSES)
}

/// The metadata that state these classes.
pub(super) fn pairs(classes: &PageClasses) -> Vec<KeyValue> {
    let json = |key: &str, value: serde_json::Value| KeyValue::new(key.to_owned(), value.to_string());
    let mut pairs = Vec::new();
    if !classes.names().is_empty() {
        pairs.push(json(NAMES, classes.names().into()));
    }
    if !classes.ranges().is_empty() {
        let ranges = classes.ranges().iter();
        let ranges = ranges.map(|&(first, class)| serde_json::json!([first, class]));
        pairs.push(json(RANGES, ranges.collect()));
    }
    pairs
}

/// The classes that the metadata state, without ranges if there are none.
pub(super) fn of_metadata(file: &str, pairs: Option<&Vec<KeyValue>>) -> Result<PageClasses, TraceError> {
    let find = |key: &str| {
        let pair = pairs?.iter().find(|pair| pair.key == key)?;
        pair.value.as_deref()
    };
    let wrong = |key: &str, expected: &str| TraceError::Metadata {
        file: file.to_owned(),
        problem: format!("{key} is expected to be {expected}"),
    };
    let names = match find(NAMES) {
        Some(text) => serde_json::from_str(text).map_err(|_| wrong(NAMES, "a JSON array of names"))?,
        None => Vec::new(),
    };
    let Some(text) = find(RANGES) else {
        return Ok(PageClasses::named(names));
    };
    serde_json::from_str(text)
        .ok()
        .and_then(|ranges| PageClasses::from_ranges(names, ranges))
        .ok_or_else(|| wrong(RANGES, "a JSON array of pairs of a page and a class, with ascending pages"))
}
