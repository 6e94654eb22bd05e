//! `ebbpool db stats`: what an administrator wants to know of a database, without a change to it.

use ebbpool_cost::ByteSize;
use ebbpool_lab::schema::{ResultSchema, ResultShape};
use schemars::JsonSchema;
use serde::Serialize;

use super::args::StatsArgs;
use super::bench::FileSizes;
use super::error::DbError;
use super::open::{close, open_briefly};
use crate::table;

/// The statistics, with the fields of the JSON output.
#[derive(Serialize, JsonSchema)]
struct StatsOutput {
    #[schemars(extend("x-role" = "key"))]
    path: String,
    page_size: usize,
    /// Pages of the file, those that are free included.
    pages: u64,
    free_pages: u64,
    /// Lengths of the files.
    files: FileSizes,
    /// Whether it was closed after its last change: opening it has nothing to recover.
    closed: bool,
    /// Bytes of the log since the last checkpoint, which a recovery redoes; 0 if it was closed.
    log_since_checkpoint: u64,
    /// Transactions that had not ended when the program did, and have to be undone.
    transactions_to_undo: u64,
    /// Their changes.
    changes_to_undo: u64,
    /// How long it took to open the database in memory, recovery included. Opening it for changes also writes the pages that a
    /// recovery changes.
    #[schemars(extend("x-role" = "measured"))]
    open_seconds: f64,
    /// What is missing from the log; null if nothing is.
    lost: Option<String>,
}

pub(super) fn schema() -> ResultSchema {
    ResultSchema::for_type::<StatsOutput>("db stats", 1, ResultShape::One)
}

pub(super) fn stats(args: &StatsArgs) -> Result<(), DbError> {
    let path = &args.path;
    let files = FileSizes::for_path(path);
    let database = open_briefly(path, true)?;
    let stats = database.stats();
    let free_pages = database.free_pages().map_err(DbError::at(path));
    let lost = database.lost().map(|lost| lost.to_string());
    let recovery = stats.recovery;
    let output = StatsOutput {
        path: path.display().to_string(),
        page_size: stats.pool.page_size,
        pages: stats.pages,
        free_pages: close(database, path, free_pages)?,
        files,
        closed: recovery.log_bytes + recovery.rolled_back + recovery.freeing == 0 && lost.is_none(),
        log_since_checkpoint: recovery.log_bytes,
        transactions_to_undo: recovery.rolled_back,
        changes_to_undo: recovery.undone,
        open_seconds: recovery.time.as_secs_f64(),
        lost,
    };
    args.format.print(&output, StatsOutput::to_table).map_err(DbError::Output)
}

impl StatsOutput {
    fn to_table(&self) -> String {
        let mut table = table::plain();
        let mut row = |name: &str, value: String| table::add_row(&mut table, vec![name.into(), value]);
        row("page size", self.page_size.to_string());
        row("pages", self.pages.to_string());
        row("free pages", self.free_pages.to_string());
        row("files", self.files.to_string());
        row("closed", if self.closed { "yes" } else { "no" }.into());
        row("log since checkpoint", ByteSize::new(self.log_since_checkpoint).to_string());
        row("transactions to undo", format!("{}, {} changes", self.transactions_to_undo, self.changes_to_undo));
        row("opening takes", format!("{:.3} s", self.open_seconds));
        if let Some(lost) = &self.lost {
            row("lost", lost.clone());
        }
        table::finish_left(table) + "\n"
    }
}
