//! Page references in the columns of Arrow tables: which columns have them, whether these are valid, and their values.
//!
//! Arrow trusts who makes a table: texts that are no UTF-8, offsets that run backwards and indices without a value are
//! found when a column is validated, and otherwise lead to wild reads. So [`TraceColumns::validate`] comes before
//! [`TraceColumns::read`] for each batch that another program has made.

mod values;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};
use ebbpool_trace::{Batch, ByteRecord, ClassNumbers, PageClasses, PlainColumns, ReferenceStream, TableRows, TraceError};
use values::text::{self, Text};

/// The columns of a trace in batches of one schema.
#[derive(Clone, Debug)]
pub struct TraceColumns {
    page: usize,
    write: Option<usize>,
    class: Option<usize>,
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowProblem {
    /// The row, of which the first has the number 0.
    pub row: usize,
    /// What is wrong.
    pub problem: String,
}

impl RowProblem {
    fn new(row: usize, problem: impl Into<String>) -> Self {
        RowProblem { row, problem: problem.into() }
    }
}

impl TraceColumns {
    /// The columns, if their types leave no question: whole numbers for pages, true and false or whole numbers for writes, and
    /// whole numbers or texts for classes.
    pub fn from_schema(schema: &Schema, columns: PlainColumns) -> Option<Self> {
        let PlainColumns { page, write, class } = columns;
        let is = |at: usize, has: &dyn Fn(&DataType) -> bool| has(schema.field(at).data_type());
        let is_plain = is(page, &DataType::is_integer)
            && write.is_none_or(|at| is(at, &|found| found.is_integer() || found == &DataType::Boolean))
            && class.is_none_or(|at| is(at, &|found| has_texts(found) || found.is_integer()));
        is_plain.then_some(TraceColumns { page, write, class })
    }

    /// Checks that the columns of a record batch are what Arrow says of them: texts are UTF-8, offsets and indices are within
    /// bounds. What lies outside of the memory that the batch claims to have cannot be checked.
    ///
    /// # Errors
    ///
    /// A text that says what is wrong with which column.
    pub fn validate(&self, batch: &RecordBatch) -> Result<(), String> {
        validate(batch, [Some(self.page), self.write, self.class].into_iter().flatten())
    }

    /// Appends the references of a batch that is valid. With numbers for the classes it appends these too, if there is a column
    /// of classes: texts get numbers in the order in which they appear, and nulls are of no known class.
    ///
    /// # Errors
    ///
    /// What is wrong with a value.
    pub fn read(
        &self,
        from: &RecordBatch,
        numbers: Option<&mut ClassNumbers<String>>,
        to: &mut Batch,
    ) -> Result<(), RowProblem> {
        values::read_pages(from.column(self.page), &mut to.pages)?;
        match self.write.map(|at| from.column(at)) {
            None => to.writes.resize(to.pages.len(), false),
            Some(writes) => values::read_writes(writes, &mut to.writes)?,
        }
        match (self.class, numbers) {
            (Some(at), Some(numbers)) => values::read_classes(from.column(at), numbers, &mut to.classes),
            _ => Ok(()),
        }
    }
}

/// True if a column of this type has texts.
fn has_texts(found: &DataType) -> bool {
    match found {
        DataType::Dictionary(_, values) => has_texts(values),
        found => matches!(found, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
    }
}

/// Checks that columns of a record batch are valid.
fn validate(batch: &RecordBatch, columns: impl IntoIterator<Item = usize>) -> Result<(), String> {
    columns.into_iter().try_for_each(|at| {
        let valid = batch.column(at).to_data().validate_full();
        valid.map_err(|error| {
            let schema = batch.schema();
            format!("the column '{}' is not a valid Arrow array: {error}", schema.field(at).name())
        })
    })
}

/// Record batches of one schema, in order.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, TraceError>> + Send>;

/// The rows of record batches, whose values need not be valid.
pub struct ArrowRows {
    label: String,
    schema: SchemaRef,
    batches: Batches,
    count: Option<u64>,
    used: Vec<usize>,
    /// What is read of the current batch: its rows, and texts of each column that is used.
    current: (usize, Vec<Option<Text>>),
    /// The next row in it.
    row: usize,
    text: Vec<u8>,
}

impl ArrowRows {
    /// The rows of some batches under the name of a trace, with their number if it is known.
    pub fn new(label: &str, schema: SchemaRef, batches: Batches, count: Option<u64>) -> Self {
        let current = (0, Vec::new());
        ArrowRows { label: label.into(), schema, batches, count, used: Vec::new(), current, row: 0, text: Vec::new() }
    }

    fn refuse(&self, problem: String) -> TraceError {
        TraceError::Columns { file: self.label.clone(), problem }
    }
}

impl TableRows for ArrowRows {
    fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn count(&self) -> Option<u64> {
        self.count
    }

    fn references(&mut self, columns: PlainColumns, classes: bool) -> Option<Box<dyn ReferenceStream>> {
        let columns = TraceColumns::from_schema(&self.schema, columns)?;
        Some(Box::new(ArrowReferences {
            label: self.label.clone(),
            batches: std::mem::replace(&mut self.batches, Box::new(std::iter::empty())),
            classes: columns.class.filter(|_| classes).map(|_| ClassNumbers::default()),
            columns,
            current: None,
            row: 0,
            served: 0,
            count: self.count,
        }))
    }

    fn choose(&mut self, columns: &[usize]) -> Result<(), TraceError> {
        self.used = columns.to_vec();
        for &at in columns {
            let field = self.schema.field(at);
            if !text::is_read(field.data_type()) {
                let problem = format!(
                    "the column '{}' has the type {}, which is not read: cast it to numbers or texts",
                    field.name(),
                    field.data_type()
                );
                return Err(self.refuse(problem));
            }
        }
        Ok(())
    }

    fn next(&mut self, row: &mut ByteRecord) -> Result<bool, TraceError> {
        while self.row == self.current.0 {
            let Some(batch) = self.batches.next().transpose()? else {
                return Ok(false);
            };
            validate(&batch, self.used.iter().copied()).map_err(|problem| self.refuse(problem))?;
            let text = |(at, column)| self.used.contains(&at).then(|| text::of(column));
            self.current = (batch.num_rows(), batch.columns().iter().enumerate().map(text).collect());
            self.row = 0;
        }
        for column in &self.current.1 {
            self.text.clear();
            if let Some(append) = column {
                append(self.row, &mut self.text);
            }
            row.push_field(&self.text);
        }
        self.row += 1;
        Ok(true)
    }
}

/// The references of record batches whose columns leave no question.
struct ArrowReferences {
    label: String,
    batches: Batches,
    columns: TraceColumns,
    /// `None` if the references have no classes.
    classes: Option<ClassNumbers<String>>,
    /// The current batch, and the next row in it.
    current: Option<RecordBatch>,
    row: usize,
    served: u64,
    count: Option<u64>,
}

impl ReferenceStream for ArrowReferences {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        // The caller asks for more, if there is time.
        while batch.is_empty() {
            let Some(current) = self.current.take() else {
                let Some(next) = self.batches.next().transpose()? else {
                    break;
                };
                let valid = self.columns.validate(&next);
                valid.map_err(|problem| TraceError::Columns { file: self.label.clone(), problem })?;
                self.current = Some(next);
                self.row = 0;
                continue;
            };
            let rows = (current.num_rows() - self.row).min(max);
            let read = self.columns.read(&current.slice(self.row, rows), self.classes.as_mut(), batch);
            read.map_err(|RowProblem { row, problem }| {
                let row = self.served + row as u64;
                TraceError::Row { file: self.label.clone(), row, problem }
            })?;
            self.row += rows;
            self.served += rows as u64;
            self.current = Some(current).filter(|current| self.row < current.num_rows());
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.served as f64 / self.count.unwrap_or(u64::MAX).max(1) as f64
    }

    fn classes(&self) -> Option<PageClasses> {
        self.classes.as_ref().map(ClassNumbers::classes)
    }
}
