//! The answer of `ebbpool sqlite measure`.

use ebbpool_cost::ByteSize;
use ebbpool_device::profiles::WearingDevice;
use ebbpool_lab::numbers::grouped;
use ebbpool_lab::schema::{ResultSchema, ResultShape};
use schemars::JsonSchema;
use serde::Serialize;

use super::Watched;
use crate::sqlite::card::years_text;
use crate::sqlite::{counted, escaped};
use crate::table;

const SECONDS_PER_DAY: f64 = 24.0 * 3600.0;

/// What was seen, and what the VFS would write in its place, with the fields of the JSON output.
#[derive(Serialize, JsonSchema)]
pub(super) struct SqliteMeasurement {
    #[schemars(extend("x-role" = "key"))]
    path: String,
    /// `wal` or `rollback`.
    journal_mode: &'static str,
    #[schemars(extend("x-unit" = "bytes"))]
    page_size: u64,
    /// The time of the watch.
    #[schemars(extend("x-unit" = "s", "x-role" = "measured"))]
    seconds: f64,
    #[schemars(extend("x-role" = "measured"))]
    commits: u64,
    /// Commits that were seen, where several between two looks are seen as one; in WAL mode all of them.
    #[schemars(extend("x-role" = "measured"))]
    seen_commits: u64,
    /// Different pages that they changed.
    #[schemars(extend("x-role" = "measured"))]
    changed_pages: u64,
    /// The card whose life is given.
    card: String,
    /// SQLite as it is, then the VFS with each window.
    lines: Vec<MeasuredLine>,
}

/// The bytes of one way to write.
#[derive(Serialize, JsonSchema)]
struct MeasuredLine {
    /// Seconds of commits that a power cut may take; null for SQLite as it is.
    #[schemars(extend("x-role" = "key", "x-unit" = "s"))]
    window: Option<f64>,
    /// Epochs; of SQLite commits.
    #[schemars(extend("x-role" = "measured"))]
    epochs: u64,
    /// Bytes to the log: whole blocks of records; of SQLite bytes of the WAL or journal.
    #[schemars(extend("x-unit" = "bytes", "x-role" = "measured"))]
    log_bytes: u64,
    /// Bytes of checkpoints: their share for the time of the watch; of SQLite those to the database.
    #[schemars(extend("x-unit" = "bytes", "x-role" = "measured"))]
    checkpoint_bytes: u64,
    /// Both together, if it goes on for a day.
    #[schemars(extend("x-unit" = "bytes/day", "x-role" = "measured"))]
    bytes_per_day: f64,
    /// How many times as many bytes SQLite writes; null without any.
    #[schemars(extend("x-role" = "measured"))]
    times_fewer: Option<f64>,
    /// Years until the card is worn out by this database alone; null without bytes.
    #[schemars(extend("x-unit" = "years", "x-role" = "measured"))]
    card_years: Option<f64>,
}

pub(super) fn schema() -> ResultSchema {
    ResultSchema::for_type::<SqliteMeasurement>("sqlite measure", 1, ResultShape::One)
}

impl SqliteMeasurement {
    pub(super) fn new(watched: Watched, card: &WearingDevice) -> SqliteMeasurement {
        let Watched { watch, models, growth, commits, looks, seconds, .. } = watched;
        let line = |window, epochs, log_bytes, checkpoint_bytes| {
            let bytes = log_bytes + checkpoint_bytes;
            MeasuredLine {
                window,
                epochs,
                log_bytes,
                checkpoint_bytes,
                bytes_per_day: bytes as f64 / seconds * SECONDS_PER_DAY,
                times_fewer: None,
                card_years: card.years(bytes, seconds),
            }
        };
        let written = watch.written();
        let mut lines = vec![line(None, commits, written.log, written.in_place)];
        let plain = lines[0].bytes_per_day;
        for model in models {
            let window = model.window();
            let bytes = model.finish(seconds, &growth, watch.page_size());
            let mut line = line(Some(window), bytes.epochs, bytes.log, bytes.checkpoints);
            let ratio = plain / line.bytes_per_day;
            line.times_fewer = (ratio > 0.0 && ratio.is_finite()).then_some(ratio);
            lines.push(line);
        }
        SqliteMeasurement {
            path: watch.path().display().to_string(),
            journal_mode: if watch.is_wal() { "wal" } else { "rollback" },
            page_size: watch.page_size() as u64,
            seconds,
            commits,
            seen_commits: looks,
            changed_pages: growth.pages(),
            card: card.name.clone(),
            lines,
        }
    }

    pub(super) fn to_text(&self, card: &WearingDevice) -> String {
        let mut text = format!(
            "{}, journal mode {}: {} changed {} of {} bytes in {:.0} s\n",
            escaped(&self.path),
            self.journal_mode,
            counted(self.commits, "commit"),
            counted(self.changed_pages, "page"),
            self.page_size,
            self.seconds
        );
        if self.commits == 0 {
            text += "nothing was committed: start the load, or give more --minutes\n";
            return text;
        }
        if self.seen_commits < self.commits {
            text += &format!(
                "in this mode commits between two looks are seen as one: {} of {}; at small windows the VFS would write more than this\n",
                grouped(self.seen_commits),
                grouped(self.commits)
            );
        }
        text.push('\n');
        let mut table = table::plain();
        let header = ["", "epochs", "log", "checkpoints", "a day", "fewer", "years"];
        table::add_row(&mut table, header.map(String::from).into());
        for line in &self.lines {
            table::add_row(&mut table, line.cells());
        }
        text += &table::finish(table);
        text += &format!("\n{}\n", card.sentence());
        text + "bytes that programs write, without the file system's own; ebbpool sqlite run, or docs/sqlite.md, is the next step\n"
    }
}

impl MeasuredLine {
    fn cells(&self) -> Vec<String> {
        let size = |bytes: u64| ByteSize::new(bytes).to_string();
        let name = match self.window {
            None => "SQLite as it is".into(),
            Some(window) => format!("window {window} s"),
        };
        vec![
            name,
            grouped(self.epochs),
            size(self.log_bytes),
            size(self.checkpoint_bytes),
            size(self.bytes_per_day.round() as u64),
            self.times_fewer.map_or_else(String::new, |times| format!("{times:.1}x")),
            years_text(self.card_years),
        ]
    }
}
