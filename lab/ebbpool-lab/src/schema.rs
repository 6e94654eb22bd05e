//! Declares each field of a result once: its name, type, unit and meaning.
//!
//! JSON, CSV, Parquet, the JSON Schemas ([`ResultSchema`]) and `docs/generated/results.md` all follow from this declaration.
//! Results that only have JSON are structs that derive [`JsonSchema`](schemars::JsonSchema); their comments are the
//! meaning of their fields, and `x-role` states what [`FieldRole`] states here.

mod json;

use std::io;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde::Serialize;

use crate::numbers::Number;

pub(crate) use json::{DeclaredField, row_schema};
pub use json::{ResultSchema, ResultShape};

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// Text.
    Text,
    /// A whole number, not negative.
    Whole,
    /// A double.
    Real,
}

/// The part of a field in a comparison of two results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FieldRole {
    /// It identifies the result: two results with the same keys are compared.
    Key,
    /// A count, or a figure computed from counts: the same request gives the same value.
    #[default]
    Figure,
    /// A figure that follows from other figures of the same result.
    Restated,
    /// A time, or a figure that depends on time: it varies from run to run.
    Measured,
}

impl FieldRole {
    /// The name in `x-role` of a schema.
    pub fn name(self) -> &'static str {
        match self {
            FieldRole::Key => "key",
            FieldRole::Figure => "figure",
            FieldRole::Restated => "restated",
            FieldRole::Measured => "measured",
        }
    }

    /// The role with this name; that of a figure for other names.
    pub fn named(name: &str) -> Self {
        let all = [FieldRole::Key, FieldRole::Restated, FieldRole::Measured];
        let found = all.into_iter().find(|role| role.name() == name);
        found.unwrap_or_default()
    }
}

/// A field of a result.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Field {
    /// The name, which never changes.
    pub name: &'static str,
    /// The type.
    pub field_type: FieldType,
    /// True if it may be null.
    pub nullable: bool,
    /// The unit; empty for text and plain shares.
    pub unit: &'static str,
    /// The part in a comparison of two results.
    pub role: FieldRole,
    /// The meaning, in a sentence.
    pub about: &'static str,
}

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// Text.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A double.
    Real(f64),
    /// The value is unknown.
    Null,
}

/// A Rust type that a field of a result can have.
pub trait FieldValueType {
    /// The field's type.
    const FIELD_TYPE: FieldType;
    /// True if it may be null.
    const NULLABLE: bool;
    /// The value.
    fn value(&self) -> FieldValue;
}

macro_rules! field_value_type {
    ($type:ty, $field_type:ident, |$value:ident| $convert:expr) => {
        impl FieldValueType for $type {
            const FIELD_TYPE: FieldType = FieldType::$field_type;
            const NULLABLE: bool = false;
            fn value(&self) -> FieldValue {
                let $value = self;
                FieldValue::$field_type($convert)
            }
        }
    };
}

field_value_type!(String, Text, |value| value.clone());
field_value_type!(&'static str, Text, |value| (*value).to_string());
field_value_type!(u64, Whole, |value| *value);
field_value_type!(f64, Real, |value| *value);
field_value_type!(Number, Real, |value| value.0);

impl<T: FieldValueType> FieldValueType for Option<T> {
    const FIELD_TYPE: FieldType = T::FIELD_TYPE;
    const NULLABLE: bool = true;
    fn value(&self) -> FieldValue {
        self.as_ref().map_or(FieldValue::Null, FieldValueType::value)
    }
}

/// A result whose fields are declared once.
pub trait ResultRow: Serialize {
    /// The description of such a result, in a sentence.
    const ABOUT: &'static str;
    /// The fields in their order, which never changes.
    const FIELDS: &'static [Field];
    /// The values of the fields, in the same order.
    fn values(&self) -> Vec<FieldValue>;
}

/// The role that a declaration names after the unit; a field without one is a figure.
macro_rules! field_role {
    () => {
        $crate::schema::FieldRole::Figure
    };
    (key) => {
        $crate::schema::FieldRole::Key
    };
    (restated) => {
        $crate::schema::FieldRole::Restated
    };
    (measured) => {
        $crate::schema::FieldRole::Measured
    };
}
pub(crate) use field_role;

/// Declares a result: a struct in which each public field has a unit, a [`FieldRole`] and a sentence.
macro_rules! result_row {
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident {
            $( #[doc = $field_about:literal] $field:ident : $type:ty [$unit:literal $($role:ident)?], )+
        }
        $( also { $( $(#[$other_meta:meta])+ $other:ident : $other_type:ty, )+ } )?
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, serde::Serialize)]
        #[non_exhaustive]
        pub struct $name {
            $( #[doc = $field_about] pub $field: $type, )+
            $( $( $(#[$other_meta])+ #[serde(skip)] pub $other: $other_type, )+ )?
        }

        impl $crate::schema::ResultRow for $name {
            const ABOUT: &'static str = concat!($($about),+);
            const FIELDS: &'static [$crate::schema::Field] = &[
                $( $crate::schema::Field {
                    name: stringify!($field),
                    field_type: <$type as $crate::schema::FieldValueType>::FIELD_TYPE,
                    nullable: <$type as $crate::schema::FieldValueType>::NULLABLE,
                    unit: $unit,
                    role: $crate::schema::field_role!($($role)?),
                    about: $field_about,
                }, )+
            ];
            fn values(&self) -> Vec<$crate::schema::FieldValue> {
                vec![ $( $crate::schema::FieldValueType::value(&self.$field), )+ ]
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::schema::row_schema::<$name>()
            }
        }
    };
}
pub(crate) use result_row;

/// Writes results as an indented JSON array, followed by a newline.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn write_json<T: Serialize + ?Sized>(mut out: impl io::Write, results: &T) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, results).map_err(io::Error::from)?;
    writeln!(out)
}

/// Writes results as CSV with a header line.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn write_csv<'r, R: ResultRow + 'r>(out: impl io::Write, rows: impl IntoIterator<Item = &'r R>) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    for row in rows {
        csv.serialize(row).map_err(io::Error::other)?;
    }
    csv.flush()
}

/// Results as a Parquet file with one column per field.
///
/// # Errors
///
/// If the library refuses the columns.
pub fn parquet<'r, R: ResultRow + 'r>(rows: impl IntoIterator<Item = &'r R>) -> io::Result<Vec<u8>> {
    let rows: Vec<Vec<FieldValue>> = rows.into_iter().map(ResultRow::values).collect();
    columns(R::FIELDS, &rows).map_err(io::Error::other)
}

fn columns(fields: &[Field], rows: &[Vec<FieldValue>]) -> Result<Vec<u8>, ParquetError> {
    let column = |field: &Field| {
        let (physical, logical) = match field.field_type {
            FieldType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            FieldType::Real => (Physical::DOUBLE, None),
            FieldType::Whole => (Physical::INT64, None),
        };
        Type::primitive_type_builder(field.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let columns = fields.iter().map(column).collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder("results").with_fields(columns);
    let schema = Arc::new(schema.build()?);
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, properties)?;
    let mut group = file.next_row_group()?;
    for (at, field) in fields.iter().enumerate() {
        let Some(mut column) = group.next_column()? else {
            break;
        };
        let values = || rows.iter().filter_map(|row| row.get(at));
        let levels: Vec<i16> = values().map(|value| i16::from(*value != FieldValue::Null)).collect();
        match field.field_type {
            FieldType::Text => {
                let texts = values().filter_map(|value| match value {
                    FieldValue::Text(text) => Some(ByteArray::from(text.as_str())),
                    _ => None,
                });
                let texts: Vec<ByteArray> = texts.collect();
                let column = column.typed::<ByteArrayType>();
                column.write_batch(&texts, Some(&levels), None)?;
            }
            FieldType::Real => {
                let numbers = values().filter_map(|value| match value {
                    FieldValue::Real(number) => Some(*number),
                    _ => None,
                });
                let numbers: Vec<f64> = numbers.collect();
                let column = column.typed::<DoubleType>();
                column.write_batch(&numbers, Some(&levels), None)?;
            }
            FieldType::Whole => {
                let numbers = values().filter_map(|value| match value {
                    FieldValue::Whole(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
                    _ => None,
                });
                let numbers: Vec<i64> = numbers.collect();
                let column = column.typed::<Int64Type>();
                column.write_batch(&numbers, Some(&levels), None)?;
            }
        }
        column.close()?;
    }
    group.close()?;
    file.into_inner()
}

/// A Markdown table of a result's fields, for `docs/generated/results.md`.
pub fn markdown<R: ResultRow>() -> String {
    let mut text = format!("{}\n\n| field | type | unit | meaning |\n| --- | --- | --- | --- |\n", R::ABOUT.trim());
    for field in R::FIELDS {
        let name = match field.field_type {
            FieldType::Text => "text",
            FieldType::Whole => "whole number",
            FieldType::Real => "number",
        };
        let or_null = if field.nullable { " or null" } else { "" };
        let role = match field.role {
            FieldRole::Figure => String::new(),
            role => format!(", {}", role.name()),
        };
        text.push_str(&format!("| `{}` | {name}{or_null}{role} | {} | {} |\n", field.name, field.unit, field.about.trim()));
    }
    text
}
