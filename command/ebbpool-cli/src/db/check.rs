//! `ebbpool db check`: checks every page.

use ebbpool_btree::CheckReport;
use ebbpool_lab::schema::{ResultSchema, ResultShape};
use schemars::JsonSchema;
use serde::Serialize;

use super::args::CheckArgs;
use super::error::DbError;
use super::open::{close, existing};
use crate::table;

/// The result of the check, with the fields of the JSON output.
#[derive(Serialize, JsonSchema)]
struct CheckOutput {
    #[schemars(extend("x-role" = "key"))]
    path: String,
    page_size: usize,
    /// Pages of the file; `used` counts those in use.
    pages: u64,
    used: u64,
    height: u8,
    inner_nodes: u64,
    leaves: u64,
    overflow_pages: u64,
    keys: u64,
    findings: Vec<PageFinding>,
    /// What is missing from the log, if the database was opened read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct PageFinding {
    #[schemars(extend("x-role" = "key"))]
    page: u64,
    what: String,
}

pub(super) fn schema() -> ResultSchema {
    ResultSchema::for_type::<CheckOutput>("db check", 1, ResultShape::One)
}

pub(super) fn check(args: &CheckArgs) -> Result<(), DbError> {
    let path = &args.path;
    let mut database = existing(path, args.open.options_of(path, args.read_only)?)?;
    let page_size = database.stats().pool.page_size;
    let report = database.check().map_err(DbError::at(path));
    let lost = database.lost().map(|lost| lost.to_string());
    let output = CheckOutput::new(close(database, path, report)?, lost, args, page_size);
    args.format.print(&output, CheckOutput::to_table).map_err(DbError::Output)?;
    match output.findings.len() + usize::from(output.lost.is_some()) {
        0 => Ok(()),
        count => Err(DbError::Findings { path: path.clone(), count }),
    }
}

impl CheckOutput {
    fn new(report: CheckReport, lost: Option<String>, args: &CheckArgs, page_size: usize) -> Self {
        let findings = report.findings.into_iter().map(|finding| PageFinding { page: finding.page, what: finding.what });
        CheckOutput {
            path: args.path.display().to_string(),
            page_size,
            pages: report.pages,
            used: report.used,
            height: report.shape.height,
            inner_nodes: report.shape.inner_nodes,
            leaves: report.shape.leaves,
            overflow_pages: report.shape.overflow_pages,
            keys: report.shape.keys,
            findings: findings.collect(),
            lost,
        }
    }

    fn to_table(&self) -> String {
        let mut table = table::plain();
        for (name, value) in [
            ("keys", self.keys),
            ("levels", u64::from(self.height)),
            ("inner nodes", self.inner_nodes),
            ("leaves", self.leaves),
            ("overflow pages", self.overflow_pages),
            ("pages in use", self.used),
            ("pages", self.pages),
            ("page size", self.page_size as u64),
        ] {
            table::add_row(&mut table, vec![name.into(), value.to_string()]);
        }
        let mut text = table::finish_left(table);
        text.push('\n');
        for finding in &self.findings {
            text.push_str(&format!("page {}: {}\n", finding.page, finding.what));
        }
        if let Some(lost) = &self.lost {
            text.push_str(&format!("log: {lost}\n"));
        } else if self.findings.is_empty() {
            text.push_str("nothing is wrong\n");
        }
        text
    }
}
