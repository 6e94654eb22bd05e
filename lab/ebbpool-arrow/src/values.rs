//! The values of columns, which have been validated.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use ebbpool_trace::ClassNumbers;

use crate::{RowProblem, has_texts};

/// Calls a macro with the type of an array of whole numbers; an array of another type has the value `$other`.
macro_rules! with_whole_numbers {
    ($array:expr, $call:ident, $other:expr) => {
        match $array.data_type() {
            DataType::UInt64 => $call!(UInt64Type),
            DataType::Int64 => $call!(Int64Type),
            DataType::UInt32 => $call!(UInt32Type),
            DataType::Int32 => $call!(Int32Type),
            DataType::UInt16 => $call!(UInt16Type),
            DataType::Int16 => $call!(Int16Type),
            DataType::UInt8 => $call!(UInt8Type),
            DataType::Int8 => $call!(Int8Type),
            _ => $other,
        }
    };
}

/// An error if there is a null.
fn refuse_nulls(from: &dyn Array, of: &str) -> Result<(), RowProblem> {
    let nulls = from.logical_nulls();
    let row = nulls.and_then(|nulls| (0..nulls.len()).find(|&row| nulls.is_null(row)));
    row.map_or(Ok(()), |row| Err(RowProblem::new(row, format!("the column of {of} has nulls"))))
}

pub(crate) fn read_pages(from: &ArrayRef, to: &mut Vec<u64>) -> Result<(), RowProblem> {
    refuse_nulls(from, "pages")?;
    if from.data_type() == &DataType::UInt64 {
        to.extend_from_slice(from.as_primitive::<UInt64Type>().values());
        return Ok(());
    }
    macro_rules! whole {
        ($type:ty) => {{
            let values = from.as_primitive::<$type>().values();
            to.reserve(values.len());
            for (row, &value) in values.iter().enumerate() {
                let page = u64::try_from(value);
                let wrong = || RowProblem::new(row, format!("{value} is not a page number"));
                to.push(page.map_err(|_| wrong())?);
            }
            Ok(())
        }};
    }
    let other = || {
        let found = from.data_type();
        let problem = format!("the column of pages has the type {found}; it must have whole numbers");
        Err(RowProblem::new(0, problem))
    };
    with_whole_numbers!(from, whole, other())
}

pub(crate) fn read_writes(from: &ArrayRef, write_values: &[String], to: &mut Vec<bool>) -> Result<(), RowProblem> {
    refuse_nulls(from, "writes")?;
    let found = from.data_type();
    if found == &DataType::Boolean {
        to.extend(from.as_boolean().values().iter());
        return Ok(());
    }
    if has_texts(found) {
        if write_values.is_empty() {
            let problem = "the column of writes has texts; say which mean a write, as in \
                           columns={'page': 'page', 'write': 'op:W'}";
            return Err(RowProblem::new(0, problem));
        }
        let texts = Texts::from_array(from);
        let means_write =
            texts.values.iter().map(|text| text.is_some_and(|text| write_values.iter().any(|value| value == text)));
        let means_write: Vec<bool> = means_write.collect();
        to.extend(texts.rows().map(|at| at.is_some_and(|at| means_write[at])));
        return Ok(());
    }
    macro_rules! nonzero {
        ($type:ty) => {{
            let values = from.as_primitive::<$type>().values();
            to.extend(values.iter().map(|&value| value != 0));
            Ok(())
        }};
    }
    let other = || {
        let problem = format!("the column of writes has the type {found}; it must be true or false, 0 or 1, or texts");
        Err(RowProblem::new(0, problem))
    };
    with_whole_numbers!(from, nonzero, other())
}

pub(crate) fn read_classes(from: &ArrayRef, numbers: &mut ClassNumbers<String>, to: &mut Vec<u32>) -> Result<(), RowProblem> {
    macro_rules! whole {
        ($type:ty) => {{
            for (row, value) in from.as_primitive::<$type>().iter().enumerate() {
                let class = value.map_or(Ok(0), u32::try_from);
                to.push(class.map_err(|_| not_a_class(row, value.map_or(0, i128::from)))?);
            }
            Ok(())
        }};
    }
    with_whole_numbers!(from, whole, read_names(from, numbers, to))
}

fn not_a_class(row: usize, value: i128) -> RowProblem {
    let problem = format!("{value} is not a class; classes are whole numbers from 0 to 2^32-1");
    RowProblem::new(row, problem)
}

fn read_names(from: &ArrayRef, numbers: &mut ClassNumbers<String>, to: &mut Vec<u32>) -> Result<(), RowProblem> {
    let found = from.data_type();
    if !has_texts(found) {
        let problem = format!("the column of classes has the type {found}");
        return Err(RowProblem::new(0, problem));
    }
    let texts = Texts::from_array(from);
    for (row, at) in texts.rows().enumerate() {
        let name = at.and_then(|at| texts.values[at]);
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            to.push(0);
            continue;
        };
        let name = name.to_owned();
        let number = numbers.number(&name, || name.clone());
        let problem = "the column of classes has more than 2^20 different texts";
        to.push(number.ok_or_else(|| RowProblem::new(row, problem))?);
    }
    Ok(())
}

/// The texts of an array, and of a dictionary which row has which.
struct Texts<'a> {
    values: Vec<Option<&'a str>>,
    /// The text of each row of a dictionary; in other arrays each row has its own.
    keys: Option<Vec<Option<usize>>>,
}

impl<'a> Texts<'a> {
    fn from_array(from: &'a ArrayRef) -> Self {
        let Some(dictionary) = from.as_any_dictionary_opt() else {
            let values = texts_of(from);
            return Texts { values, keys: None };
        };
        let values = texts_of(dictionary.values());
        // Arrow panics where a dictionary has no values; then no row has a text.
        let keys = match values.is_empty() {
            true => vec![None; from.len()],
            false => {
                let keys = dictionary.normalized_keys().into_iter().enumerate();
                keys.map(|(row, key)| Some(key).filter(|_| from.is_valid(row))).collect()
            }
        };
        Texts { values, keys: Some(keys) }
    }

    /// Where in the values the text of each row is.
    fn rows(&self) -> impl Iterator<Item = Option<usize>> {
        let rows = self.keys.as_ref().map_or(self.values.len(), Vec::len);
        (0..rows).map(|row| match &self.keys {
            Some(keys) => keys[row],
            None => Some(row),
        })
    }
}

/// The texts of an array of texts; none of another array.
fn texts_of(from: &ArrayRef) -> Vec<Option<&str>> {
    match from.data_type() {
        DataType::Utf8 => from.as_string::<i32>().iter().collect(),
        DataType::LargeUtf8 => from.as_string::<i64>().iter().collect(),
        DataType::Utf8View => from.as_string_view().iter().collect(),
        _ => Vec::new(),
    }
}
