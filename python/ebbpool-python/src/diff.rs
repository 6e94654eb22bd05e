//! The differences between two results.

use ebbpool_lab::diff::{ResultDiff, ResultFile, page, sentence};
use pyo3::prelude::*;

use crate::curve::json_of;
use crate::errors::{Class, raise};

/// Compares two results, each with a name and its JSON. Returns the differences as JSON, in a sentence, as a page of
/// HTML, and whether there are any.
#[pyfunction]
pub(crate) fn diff(
    py: Python<'_>,
    before: (String, String),
    after: (String, String),
    noise: f64,
) -> PyResult<(String, String, String, bool)> {
    let schemas = ebbpool_cli::result_schemas();
    let file = |(label, json): &(String, String)| {
        let parsed = ResultFile::parse(label, json.as_bytes(), &schemas);
        parsed.map_err(|error| raise(py, Class::Usage, &error.to_string()))
    };
    let found = ResultDiff::new(&file(&before)?, &file(&after)?, noise);
    let found = found.map_err(|error| raise(py, Class::Usage, &error.to_string()))?;
    let json = json_of(py, &found)?;
    Ok((json, sentence(&found), page(&found), found.has_differences()))
}
