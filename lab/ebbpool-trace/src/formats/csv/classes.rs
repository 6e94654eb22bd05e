//! The column of a CSV that holds classes.

use csv::ByteRecord;

use super::{BadField, CsvField, decimal};
use crate::classes::ClassNumbers;
use crate::reference::PageClasses;

/// The field of the class, and the classes that have appeared.
#[derive(Debug)]
pub(super) struct ClassField {
    field: CsvField,
    kind: ClassKind,
}

/// How a column gives classes, by its first value that is not empty.
#[derive(Debug)]
enum ClassKind {
    Unknown,
    Numbers,
    Names(ClassNumbers<Vec<u8>>),
}

impl ClassField {
    pub(super) fn new(field: CsvField) -> ClassField {
        ClassField { field, kind: ClassKind::Unknown }
    }

    /// The class in a record, 0 if the field is empty.
    pub(super) fn of<'a>(&mut self, record: &'a ByteRecord) -> Result<u32, BadField<'a>> {
        let text = record.get(self.field.at).unwrap_or_default().trim_ascii();
        if text.is_empty() {
            return Ok(0);
        }
        let number = decimal(text).and_then(|number| u32::try_from(number).ok());
        if let ClassKind::Unknown = self.kind {
            self.kind = match number {
                Some(_) => ClassKind::Numbers,
                None => ClassKind::Names(ClassNumbers::default()),
            };
        }
        let bad = |expected: &str| {
            let expected = format!("{expected} in column '{}'", self.field.name);
            (expected, text)
        };
        match &mut self.kind {
            ClassKind::Names(names) => names
                .number(&text.to_vec(), || String::from_utf8_lossy(text).into_owned())
                .ok_or_else(|| bad("one of at most 2^20 classes")),
            _ => number.ok_or_else(|| bad("a class number from 0 to 2^32-1")),
        }
    }

    pub(super) fn classes(&self) -> PageClasses {
        match &self.kind {
            ClassKind::Names(names) => names.classes(),
            _ => PageClasses::default(),
        }
    }
}
