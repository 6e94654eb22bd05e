//! Parquet files of other programs: rows of any columns, read as a table.

use chrono::DateTime;
use csv::ByteRecord;
use parquet::basic::{LogicalType, TimeUnit, Type};
use parquet::bloom_filter::Sbbf;
use parquet::column::page::PageReader;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::types::{ColumnDescPtr, Type as SchemaType, TypePtr as SchemaTypePtr};

use super::super::table::{self, Header, Rows};
use super::{CheckedPages, classes, parquet, requests};
use crate::columns::TimeColumn;
use crate::error::TraceError;
use crate::formats::{Decoding, OpenedTrace};
use crate::reference::Metadata;

/// Where writers of Arrow's family say what the types of columns were in memory.
const IN_MEMORY: &str = "ARROW:schema";

/// The columns of one value a row.
fn names(columns: &[ColumnDescPtr]) -> Vec<String> {
    let flat = columns.iter().filter(|column| column.max_rep_level() == 0);
    flat.filter_map(|column| match column.path().parts() {
        [only] => Some(only.clone()),
        _ => None,
    })
    .collect()
}

/// True if the names of the columns say which of them have references, or lead to a question.
pub(super) fn has_roles(columns: &[ColumnDescPtr]) -> bool {
    table::guess(&names(columns)).map_or(true, |guessed| guessed.is_some())
}

/// True if a CSV with these columns would lead to a question.
pub(super) fn asks(columns: &[ColumnDescPtr]) -> bool {
    table::guess(&names(columns)).is_err()
}

/// A time that may be a duration has no unit: Parquet has none for it, and only the writer knew.
fn check_time(
    label: &str,
    fields: &[SchemaTypePtr],
    pairs: Option<&Vec<KeyValue>>,
    time: Option<&TimeColumn>,
) -> Result<(), TraceError> {
    let Some(time) = time.filter(|time| !time.has_unit) else {
        return Ok(());
    };
    let is_bare = |field: &&SchemaTypePtr| {
        field.name() == time.column
            && field.is_primitive()
            && field.get_physical_type() == Type::INT64
            && field.get_basic_info().logical_type_ref().is_none()
    };
    let is_of_arrow = pairs.is_some_and(|pairs| pairs.iter().any(|pair| pair.key == IN_MEMORY));
    if !is_of_arrow || !fields.iter().any(|field| is_bare(&field)) {
        return Ok(());
    }
    let name = &time.column;
    Err(TraceError::Columns {
        file: label.to_owned(),
        problem: format!(
            "column '{name}' may have been a duration, whose unit Parquet does not keep: say it, as in time={name}:us, or s, ms, ns"
        ),
    })
}

/// Notes on columns that would change the figures of a trace with columns of fixed names.
pub(super) fn unread_notes(label: &str, columns: &[ColumnDescPtr]) -> Vec<String> {
    let own = [requests::TIME, requests::BYPASS, classes::CLASS];
    let names: Vec<String> = names(columns).into_iter().filter(|name| !own.contains(&name.as_str())).collect();
    table::unread_notes(label, &names)
}

/// Opens the rows of a file.
pub(super) fn open(
    label: &str,
    file: Box<dyn FileReader>,
    metadata: Metadata,
    decoding: &Decoding,
) -> Result<OpenedTrace, TraceError> {
    let footer = file.metadata();
    let schema = footer.file_metadata().schema_descr();
    // Also of those that are lists or groups, since columns have numbers.
    let names = schema.root_schema().get_fields().iter().map(|field| field.name().to_owned()).collect();
    let total = u64::try_from(footer.file_metadata().num_rows()).unwrap_or(0);
    let header = Header { label, names, is_line: false };
    let mut notes = Vec::new();
    let columns = header.columns(decoding, &mut notes)?;
    let pairs = footer.file_metadata().key_value_metadata();
    check_time(label, schema.root_schema().get_fields(), pairs, columns.time.as_ref())?;
    let used: Vec<&String> = columns.names().filter_map(|name| header.names.get(header.place(name)?)).collect();
    let fields = schema.root_schema().get_fields().iter();
    let fields = fields.filter(|field| field.is_primitive() && used.iter().any(|name| *name == field.name())).cloned();
    let projection = SchemaType::group_type_builder(schema.root_schema().name()).with_fields(fields.collect()).build();
    let width = header.names.clone();
    let is_nanoseconds = |field: &&SchemaTypePtr| {
        let kind = field.get_basic_info().logical_type_ref();
        matches!(kind, Some(LogicalType::Timestamp(moment)) if moment.unit == TimeUnit::NANOS)
    };
    let moments: Vec<String> =
        schema.root_schema().get_fields().iter().filter(is_nanoseconds).map(|field| field.name().to_owned()).collect();
    let rows = parquet(label, || RowIter::from_file_into(Box::new(CheckedFile(file))).project(Some(projection?)))?;
    let rows = ParquetRows { rows, label: label.to_owned(), names: width, moments, row: 0, total };
    Ok(table::open(rows, (&header, columns, None), decoding, notes)?.with_stated(metadata))
}

struct ParquetRows {
    rows: RowIter<'static>,
    label: String,
    names: Vec<String>,
    /// Columns of moments that the Parquet reader has as nanoseconds, and others as dates.
    moments: Vec<String>,
    /// Rows read.
    row: u64,
    total: u64,
}

impl Rows for ParquetRows {
    fn next(&mut self, record: &mut ByteRecord) -> Result<bool, TraceError> {
        let Some(row) = parquet(&self.label, || self.rows.next().transpose())? else {
            return Ok(false);
        };
        record.clear();
        let mut fields = row.into_columns().into_iter().peekable();
        for name in &self.names {
            let value = fields.next_if(|(field, _)| field == name).map(|(_, value)| value);
            let text = parquet(&self.label, || {
                Ok(match value {
                    Some(Field::Long(moment)) if self.moments.contains(name) => {
                        let moment = DateTime::from_timestamp_nanos(moment);
                        moment.format("%Y-%m-%d %H:%M:%S%.9f %:z").to_string().into_bytes()
                    }
                    value => value.map(text).unwrap_or_default(),
                })
            })?;
            record.push_field(&text);
        }
        self.row += 1;
        Ok(true)
    }

    fn wrong(&self, _record: &ByteRecord, expected: String, found: String) -> TraceError {
        table::wrong_row(&self.label, self.row, &expected, &found)
    }

    fn progress(&self) -> f64 {
        if self.total == 0 { 1.0 } else { self.row as f64 / self.total as f64 }
    }
}

/// A value as a CSV would have it.
fn text(value: Field) -> Vec<u8> {
    /// From here on not every whole number is one of these.
    const EXACT: f64 = (1u64 << 53) as f64;
    const EXACT_NARROW: f64 = (1u64 << 24) as f64;
    let real = |number: f64, exact: f64| match number.fract() == 0.0 && number.abs() < exact {
        true => format!("{number:.0}").into_bytes(),
        false => format!("{number:?}").into_bytes(),
    };
    match value {
        Field::Null => Vec::new(),
        Field::Str(text) => text.into_bytes(),
        Field::Bytes(bytes) => bytes.data().to_vec(),
        Field::Float(number) => real(f64::from(number), EXACT_NARROW),
        Field::Double(number) => real(number, EXACT),
        // A decimal number without decimals ends in a point.
        Field::Decimal(number) => Field::Decimal(number).to_string().trim_end_matches('.').into(),
        other => other.to_string().into_bytes(),
    }
}

/// A file whose pages are checked before they are decoded.
struct CheckedFile(Box<dyn FileReader>);

struct CheckedGroup<'a>(Box<dyn RowGroupReader + 'a>);

impl FileReader for CheckedFile {
    fn metadata(&self) -> &ParquetMetaData {
        self.0.metadata()
    }

    fn num_row_groups(&self) -> usize {
        self.0.num_row_groups()
    }

    fn get_row_group(&self, at: usize) -> ParquetResult<Box<dyn RowGroupReader + '_>> {
        Ok(Box::new(CheckedGroup(self.0.get_row_group(at)?)))
    }

    fn get_row_iter(&self, projection: Option<SchemaType>) -> ParquetResult<RowIter<'_>> {
        RowIter::from_file(projection, self)
    }
}

impl RowGroupReader for CheckedGroup<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.0.metadata()
    }

    fn num_columns(&self) -> usize {
        self.0.num_columns()
    }

    fn get_column_page_reader(&self, at: usize) -> ParquetResult<Box<dyn PageReader>> {
        Ok(Box::new(CheckedPages { pages: self.0.get_column_page_reader(at)? }))
    }

    fn get_column_bloom_filter(&self, at: usize) -> Option<&Sbbf> {
        self.0.get_column_bloom_filter(at)
    }

    fn get_row_iter(&self, projection: Option<SchemaType>) -> ParquetResult<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
    }
}
