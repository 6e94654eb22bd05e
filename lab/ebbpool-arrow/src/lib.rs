//! Page references in the columns of Arrow tables: which columns have them, whether these are valid, and their values.
//!
//! Arrow trusts who makes a table: texts that are no UTF-8, offsets that run backwards and indices without a value are
//! found when a column is validated, and otherwise lead to wild reads. So [`TraceColumns::validate`] comes before
//! [`TraceColumns::read`] for each batch that another program has made.

mod values;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use ebbpool_trace::{Batch, ClassNumbers};

/// The columns of a trace, as a user names them.
#[derive(Clone, Debug)]
pub struct ColumnNames {
    /// The column of page numbers.
    pub page: String,
    /// The column that says which references write; `None` if all read.
    pub write: Option<String>,
    /// The texts that mean a write, in a column of texts.
    pub write_values: Vec<String>,
    /// The column of classes, and whether its absence is an error; `None` if the pages have no classes.
    pub class: Option<(String, bool)>,
}

/// The columns of a trace in batches of one schema.
#[derive(Clone, Debug)]
pub struct TraceColumns {
    page: usize,
    write: Option<usize>,
    write_values: Vec<String>,
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
    /// Finds the columns.
    ///
    /// # Errors
    ///
    /// A text that says which columns there are, or that one has another type.
    pub fn from_schema(schema: &Schema, names: &ColumnNames) -> Result<Self, String> {
        let find = |name: &str| {
            schema.index_of(name).map_err(|_| {
                let fields = schema.fields().iter();
                let fields: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
                format!(
                    "there is no column '{name}' among {}; a trace has the columns page and write, or columns= names \
                     them, as in columns={{'page': 'blk', 'write': 'dirty'}}; without 'write' all references read",
                    fields.join(", ")
                )
            })
        };
        let class = match &names.class {
            None => None,
            Some((name, true)) => Some(find(name)?),
            // A column that has the name by chance is no column of classes.
            Some((name, false)) => schema.index_of(name).ok().filter(|&at| {
                let found = schema.field(at).data_type();
                has_classes(found)
            }),
        };
        if let Some(at) = class
            && !has_classes(schema.field(at).data_type())
        {
            return Err(format!(
                "the column of classes has the type {}; it must have whole numbers or texts",
                schema.field(at).data_type()
            ));
        }
        Ok(TraceColumns {
            page: find(&names.page)?,
            write: names.write.as_deref().map(find).transpose()?,
            write_values: names.write_values.clone(),
            class,
        })
    }

    /// True if the pages have classes.
    pub fn have_classes(&self) -> bool {
        self.class.is_some()
    }

    /// Checks that the columns of a record batch are what Arrow says of them: texts are UTF-8, offsets and indices are within
    /// bounds. What lies outside of the memory that the batch claims to have cannot be checked.
    ///
    /// # Errors
    ///
    /// A text that says what is wrong with which column.
    pub fn validate(&self, batch: &RecordBatch) -> Result<(), String> {
        for at in [Some(self.page), self.write, self.class].into_iter().flatten() {
            let valid = batch.column(at).to_data().validate_full();
            valid.map_err(|error| {
                let schema = batch.schema();
                let name = schema.field(at).name();
                format!("the column '{name}' is not a valid Arrow array: {error}")
            })?;
        }
        Ok(())
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
            Some(writes) => values::read_writes(writes, &self.write_values, &mut to.writes)?,
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

/// True if a column of this type can have classes.
fn has_classes(found: &DataType) -> bool {
    has_texts(found) || found.is_integer()
}
