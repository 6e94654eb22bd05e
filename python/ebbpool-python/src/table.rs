//! Results as columns.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use ebbpool_lab::schema::{FieldType, FieldValue, ResultRow};
use ebbpool_lab::several::SummaryRow;
use ebbpool_lab::{BoundResult, CurveRow, RunResult};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString};

use crate::arrow::export;
use crate::errors::{Class, raise};

/// Columns of one length, for every library that reads Arrow streams.
#[pyclass(frozen, module = "ebbpool._ebbpool")]
pub(crate) struct Table {
    batch: RecordBatch,
}

impl Table {
    /// The rows with the columns that their type declares.
    pub(crate) fn of_rows<'r, R: ResultRow + 'r>(py: Python<'_>, rows: impl IntoIterator<Item = &'r R>) -> PyResult<Self> {
        let rows: Vec<Vec<FieldValue>> = rows.into_iter().map(ResultRow::values).collect();
        let columns = R::FIELDS.iter().enumerate().map(|(at, field)| {
            let values = rows.iter().map(|row| row.get(at));
            let column: ArrayRef = match field.field_type {
                FieldType::Text => Arc::new(StringArray::from_iter(values.map(|value| match value {
                    Some(FieldValue::Text(text)) => Some(text.as_str()),
                    _ => None,
                }))),
                // As in the command's Parquet. Differences of columns may be below 0.
                FieldType::Whole => Arc::new(Int64Array::from_iter(values.map(|value| match value {
                    Some(FieldValue::Whole(number)) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
                    _ => None,
                }))),
                FieldType::Real => Arc::new(Float64Array::from_iter(values.map(|value| match value {
                    Some(FieldValue::Real(number)) => Some(*number),
                    _ => None,
                }))),
            };
            (field.name.to_string(), field.nullable, column)
        });
        let table = Table::of_columns(columns.collect());
        table.map_err(|error| raise(py, Class::Failure, &error.to_string()))
    }

    /// Columns with their names and whether they may have nulls.
    fn of_columns(columns: Vec<(String, bool, ArrayRef)>) -> Result<Self, ArrowError> {
        let fields =
            columns.iter().map(|(name, nullable, column)| Field::new(name.clone(), column.data_type().clone(), *nullable));
        let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = columns.into_iter().map(|(_, _, column)| column).collect();
        let batch = RecordBatch::try_new(schema, columns)?;
        Ok(Table { batch })
    }
}

#[pymethods]
impl Table {
    /// The columns as an Arrow stream; see the Arrow PyCapsule interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // The interface allows a producer to ignore the request.
        let _ = requested_schema;
        let stream = export(py, &self.batch.schema(), vec![self.batch.clone()])?;
        Ok(stream.into_any())
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let schema = self.batch.schema();
        let names = schema.fields().iter().map(|field| field.name().clone());
        names.collect()
    }

    /// The columns as lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, column) in self.columns().iter().zip(self.batch.columns()) {
            let values = (0..column.len()).map(|row| value(py, column, row));
            dict.set_item(name, values.collect::<PyResult<Vec<_>>>()?)?;
        }
        Ok(dict)
    }

    /// The columns with their types and values, of which [`table_of_parts`] makes the same table again.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Vec<TablePart<'py>>> {
        let schema = self.batch.schema();
        let columns = schema.fields().iter().zip(self.batch.columns());
        let parts = columns.map(|(field, column)| {
            let values = (0..column.len()).map(|row| value(py, column, row));
            let values = PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)?;
            let kind = kind_of(column.data_type()).to_owned();
            Ok((field.name().clone(), kind, field.is_nullable(), values))
        });
        parts.collect()
    }

    /// The row with this number, as a dict.
    fn row<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, column) in self.columns().iter().zip(self.batch.columns()) {
            dict.set_item(name, value(py, column, row)?)?;
        }
        Ok(dict)
    }
}

/// A column for another process: its name, its kind, whether it may have nulls, and its values.
type TablePart<'py> = (String, String, bool, Bound<'py, PyList>);

fn kind_of(found: &DataType) -> &'static str {
    match found {
        DataType::Utf8 => "text",
        DataType::Int64 | DataType::UInt64 => "whole",
        DataType::Boolean => "truth",
        _ => "real",
    }
}

/// A column of whole numbers. Only numbers that have no room in signed ones, such as those of pages, are unsigned.
fn whole_numbers(values: &Bound<'_, PyList>) -> PyResult<ArrayRef> {
    if let Ok(numbers) = values.extract::<Vec<Option<i64>>>() {
        return Ok(Arc::new(Int64Array::from(numbers)));
    }
    let numbers = values.extract::<Vec<Option<u64>>>()?;
    Ok(Arc::new(UInt64Array::from(numbers)))
}

/// The table of which [`Table::parts`] has given the parts.
#[pyfunction]
pub(crate) fn table_of_parts(py: Python<'_>, parts: Vec<TablePart<'_>>) -> PyResult<Table> {
    let columns = parts.into_iter().map(|(name, kind, nullable, values)| {
        let column: ArrayRef = match kind.as_str() {
            "text" => Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?)),
            "whole" => whole_numbers(&values)?,
            "truth" => Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?)),
            _ => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
        };
        Ok((name, nullable, column))
    });
    let table = Table::of_columns(columns.collect::<PyResult<_>>()?);
    table.map_err(|error| raise(py, Class::Failure, &error.to_string()))
}

/// A value of a column.
fn value<'py>(py: Python<'py>, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if column.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    let any = column.as_any();
    if let Some(texts) = any.downcast_ref::<StringArray>() {
        return Ok(texts.value(row).into_pyobject(py)?.into_any());
    }
    if let Some(numbers) = any.downcast_ref::<Int64Array>() {
        return Ok(numbers.value(row).into_pyobject(py)?.into_any());
    }
    if let Some(numbers) = any.downcast_ref::<UInt64Array>() {
        return Ok(numbers.value(row).into_pyobject(py)?.into_any());
    }
    if let Some(truths) = any.downcast_ref::<BooleanArray>() {
        return Ok(PyBool::new(py, truths.value(row)).to_owned().into_any());
    }
    match any.downcast_ref::<Float64Array>() {
        Some(numbers) => Ok(numbers.value(row).into_pyobject(py)?.into_any()),
        None => Ok(py.None().into_bound(py)),
    }
}

/// A table of columns of Python values: texts, truths, whole numbers, or else numbers.
#[pyfunction]
pub(crate) fn table(py: Python<'_>, columns: Vec<(String, Bound<'_, PyList>)>) -> PyResult<Table> {
    let columns = columns.into_iter().map(|(name, values)| {
        let present: Vec<Bound<'_, PyAny>> = values.iter().filter(|value| !value.is_none()).collect();
        let column: ArrayRef = if present.iter().all(|value| value.is_instance_of::<PyString>()) {
            Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?))
        } else if present.iter().all(|value| value.is_instance_of::<PyBool>()) {
            Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?))
        } else if let Ok(numbers) = whole_numbers(&values) {
            numbers
        } else {
            Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?))
        };
        Ok((name, true, column))
    });
    let table = Table::of_columns(columns.collect::<PyResult<_>>()?);
    table.map_err(|error| raise(py, Class::Failure, &error.to_string()))
}

/// The columns of a result: name, unit and meaning. `result` is `compare`, `summary`, `curve` or `bound`.
#[pyfunction]
pub(crate) fn fields(py: Python<'_>, result: &str) -> PyResult<Vec<(&'static str, &'static str, &'static str)>> {
    let fields = match result {
        "compare" => RunResult::FIELDS,
        "curve" => CurveRow::FIELDS,
        "bound" => BoundResult::FIELDS,
        "summary" => SummaryRow::FIELDS,
        other => {
            let text = format!("there is no result '{other}'");
            return Err(raise(py, Class::Usage, &text));
        }
    };
    let fields = fields.iter();
    Ok(fields.map(|field| (field.name, field.unit, field.about.trim())).collect())
}
