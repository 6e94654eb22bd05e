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

pub(crate) fn read_writes(from: &ArrayRef, to: &mut Vec<bool>) -> Result<(), RowProblem> {
    refuse_nulls(from, "writes")?;
    let found = from.data_type();
    if found == &DataType::Boolean {
        to.extend(from.as_boolean().values().iter());
        return Ok(());
    }
    macro_rules! nonzero {
        ($type:ty) => {{
            let values = from.as_primitive::<$type>().values();
            for (row, &value) in values.iter().enumerate() {
                if value != 0 && value != 1 {
                    return Err(RowProblem::new(row, format!("{value} in the column of writes is neither 0 nor 1")));
                }
                to.push(value != 0);
            }
            Ok(())
        }};
    }
    let other = || {
        let problem = format!("the column of writes has the type {found}; it must be true or false, or 0 or 1");
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

/// The texts that a CSV would have for values.
pub(crate) mod text {
    use std::io::Write;

    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::*;
    use arrow_array::{ArrayRef, PrimitiveArray};
    use arrow_schema::{DataType, TimeUnit};

    /// Appends the text of a row; nothing for a null.
    pub(crate) type Text = Box<dyn Fn(usize, &mut Vec<u8>) + Send>;

    /// True if a column of this type has texts.
    pub(crate) fn is_read(found: &DataType) -> bool {
        match found {
            DataType::Dictionary(_, values) => is_read(values),
            // Of durations and times of day only the type has the unit, and a role of times has another one.
            DataType::Interval(_) | DataType::Duration(_) | DataType::Time32(_) | DataType::Time64(_) => false,
            DataType::RunEndEncoded(..) => false,
            found => !found.is_nested(),
        }
    }

    /// The texts of an array that is valid; of a type that is not read none.
    pub(crate) fn of(array: &ArrayRef) -> Text {
        macro_rules! shown {
            ($type:ty, $array:ident, $row:ident => $value:expr) => {{
                let $array = array.as_primitive::<$type>().clone();
                Box::new(move |$row, to| {
                    let _ = write!(to, "{}", $value);
                })
            }};
        }
        macro_rules! number {
            ($type:ty) => { shown!($type, array, row => array.value(row)) };
        }
        macro_rules! bytes {
            ($array:expr) => {{
                let array = $array.clone();
                Box::new(move |row, to| to.extend_from_slice(array.value(row).as_ref()))
            }};
        }
        macro_rules! decimal {
            ($type:ty) => { shown!($type, array, row => array.value_as_string(row)) };
        }
        let text: Text = match array.data_type() {
            DataType::Boolean => {
                let array = array.as_boolean().clone();
                Box::new(move |row, to| to.extend_from_slice(if array.value(row) { b"true" } else { b"false" }))
            }
            DataType::Int8 => number!(Int8Type),
            DataType::Int16 => number!(Int16Type),
            DataType::Int32 => number!(Int32Type),
            DataType::Int64 => number!(Int64Type),
            DataType::UInt8 => number!(UInt8Type),
            DataType::UInt16 => number!(UInt16Type),
            DataType::UInt32 => number!(UInt32Type),
            DataType::UInt64 => number!(UInt64Type),
            DataType::Float16 => shown!(Float16Type, array, row => real(array.value(row).to_f64(), 1 << 11)),
            DataType::Float32 => shown!(Float32Type, array, row => real(f64::from(array.value(row)), 1 << 24)),
            DataType::Float64 => shown!(Float64Type, array, row => real(array.value(row), 1 << 53)),
            DataType::Decimal32(..) => decimal!(Decimal32Type),
            DataType::Decimal64(..) => decimal!(Decimal64Type),
            DataType::Decimal128(..) => decimal!(Decimal128Type),
            DataType::Decimal256(..) => decimal!(Decimal256Type),
            DataType::Date32 => moments(array.as_primitive::<Date32Type>(), DAY),
            DataType::Date64 => moments(array.as_primitive::<Date64Type>(), DAY),
            DataType::Timestamp(TimeUnit::Second, _) => moments(array.as_primitive::<TimestampSecondType>(), MILLIS),
            DataType::Timestamp(TimeUnit::Millisecond, _) => moments(array.as_primitive::<TimestampMillisecondType>(), MILLIS),
            DataType::Timestamp(TimeUnit::Microsecond, _) => moments(array.as_primitive::<TimestampMicrosecondType>(), MICROS),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => moments(array.as_primitive::<TimestampNanosecondType>(), NANOS),
            DataType::Utf8 => bytes!(array.as_string::<i32>()),
            DataType::LargeUtf8 => bytes!(array.as_string::<i64>()),
            DataType::Utf8View => bytes!(array.as_string_view()),
            DataType::Binary => bytes!(array.as_binary::<i32>()),
            DataType::LargeBinary => bytes!(array.as_binary::<i64>()),
            DataType::BinaryView => bytes!(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => bytes!(array.as_fixed_size_binary()),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                // Arrow panics where a dictionary has no values; then no row has a text.
                let keys = if dictionary.values().is_empty() { Vec::new() } else { dictionary.normalized_keys() };
                let values = of(dictionary.values());
                Box::new(move |row, to| keys.get(row).into_iter().for_each(|&key| values(key, to)))
            }
            _ => Box::new(|_, _| ()),
        };
        let nulls = array.nulls().cloned();
        Box::new(move |row, to| {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                text(row, to);
            }
        })
    }

    /// Dates and moments as rows of Parquet have them.
    const DAY: &str = "%Y-%m-%d";
    const MILLIS: &str = "%Y-%m-%d %H:%M:%S%.3f +00:00";
    const MICROS: &str = "%Y-%m-%d %H:%M:%S%.6f +00:00";
    const NANOS: &str = "%Y-%m-%d %H:%M:%S%.9f +00:00";

    /// Moments in this format; the numbers of those that no calendar has.
    fn moments<T: ArrowTemporalType>(array: &PrimitiveArray<T>, format: &'static str) -> Text
    where
        i64: From<T::Native>,
    {
        let array = array.clone();
        Box::new(move |row, to| {
            let _ = match array.value_as_datetime(row) {
                Some(moment) => write!(to, "{}", moment.format(format)),
                None => write!(to, "{}", i64::from(array.value(row))),
            };
        })
    }

    /// A number without decimals as a whole one, if all whole numbers up to it have a floating-point number of their own.
    fn real(number: f64, exact: u64) -> String {
        match number.fract() == 0.0 && number.abs() < exact as f64 {
            true => format!("{number:.0}"),
            false => format!("{number:?}"),
        }
    }
}
