//! The report on a workload.

use std::collections::BTreeMap;
use std::fmt;

use ebbpool_cost::ByteSize;
use schemars::JsonSchema;
use serde::Serialize;

use crate::table;

/// The results of a benchmark, as the command prints them.
#[derive(Serialize, JsonSchema)]
pub(super) struct BenchReport {
    #[schemars(extend("x-role" = "key"))]
    pub(super) path: String,
    #[schemars(extend("x-role" = "key"))]
    pub(super) workload: &'static str,
    /// Records at the start.
    pub(super) records: u64,
    pub(super) page_size: u64,
    pub(super) frames: u32,
    /// The policy as the user names it, or the pool's default.
    #[schemars(extend("x-role" = "key"))]
    pub(super) policy: String,
    #[schemars(extend("x-role" = "key"))]
    pub(super) threads: u16,
    #[schemars(extend("x-role" = "key"))]
    pub(super) durability: &'static str,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) transactions: u64,
    /// Seconds from the first transaction to the last.
    #[schemars(extend("x-role" = "measured"))]
    pub(super) seconds: f64,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) transactions_per_second: f64,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) operations: Vec<Latency>,
    /// Reads of records that did not exist, or not yet.
    #[schemars(extend("x-role" = "measured"))]
    pub(super) not_found: u64,
    /// Transactions that a thread repeated because another transaction had locked a key.
    #[schemars(extend("x-role" = "measured"))]
    pub(super) conflicts: u64,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) commits: u64,
    /// Fixes of the workload that found their page in the pool.
    #[schemars(extend("x-role" = "measured"))]
    pub(super) hits: u64,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) misses: u64,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) hit_ratio: f64,
    /// Pages that were dirty at the end. A last checkpoint writes them; all figures below include it.
    #[schemars(extend("x-role" = "measured"))]
    pub(super) dirty_left: u32,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) pages_read: BTreeMap<&'static str, u64>,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) pages_written: BTreeMap<&'static str, u64>,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) log_syncs: u64,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) checkpoints: u64,
    /// Why the latest checkpoint before the end had failed; null if it had not.
    #[schemars(extend("x-role" = "measured"))]
    pub(super) checkpoint_failure: Option<String>,
    /// The age of the oldest open transaction with changes at the end; null if there was none.
    #[schemars(extend("x-role" = "measured"))]
    pub(super) oldest_transaction_seconds: Option<f64>,
    /// How long a recovery would have taken, had the program crashed at the end, before the last checkpoint.
    #[schemars(extend("x-role" = "measured"))]
    pub(super) recovery_estimate_seconds: f64,
    /// How long the recovery at the beginning took; null if the database had been closed.
    #[schemars(extend("x-role" = "measured"))]
    pub(super) recovery_seconds: Option<f64>,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) last_checkpoint_seconds: f64,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) bytes_read: u64,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) bytes_written: u64,
    #[schemars(extend("x-role" = "measured"))]
    pub(super) bytes_written_to: WrittenBytes,
    /// Bytes of the changed keys and values.
    #[schemars(extend("x-role" = "measured"))]
    pub(super) bytes_changed: u64,
    /// Bytes written per byte changed; null if the workload changed none.
    #[schemars(extend("x-role" = "measured"))]
    pub(super) write_amplification: Option<f64>,
    /// Lengths of the files at the end.
    #[schemars(extend("x-role" = "measured"))]
    pub(super) files: FileSizes,
    pub(super) interrupted: bool,
}

/// The latency of one kind of operation, in µs.
#[derive(Serialize, JsonSchema)]
pub(super) struct Latency {
    #[schemars(extend("x-role" = "key"))]
    pub(super) kind: &'static str,
    pub(super) count: u64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) max_us: f64,
}

/// Bytes written, by destination.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(super) struct WrittenBytes {
    pub(super) pages: u64,
    pub(super) log: u64,
    /// Images of pages, written before the pages are overwritten.
    pub(super) double_write: u64,
}

/// Bytes of the database's files.
#[derive(Clone, Copy, Default, Serialize, JsonSchema)]
pub(in crate::db) struct FileSizes {
    pub(super) pages: u64,
    pub(super) log: u64,
    pub(super) double_write: u64,
}

impl WrittenBytes {
    pub(super) fn all(&self) -> u64 {
        self.pages + self.log + self.double_write
    }
}

impl fmt::Display for FileSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [pages, log, double_write] = [self.pages, self.log, self.double_write].map(ByteSize::new);
        write!(f, "pages {pages}, log {log}, double write {double_write}")
    }
}

impl BenchReport {
    pub(super) fn with_files(self, files: FileSizes) -> Self {
        BenchReport { files, ..self }
    }

    pub(super) fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// The report as a table.
    pub(super) fn to_table(&self) -> String {
        let mut table = table::plain();
        let mut row = |name: &str, value: String| {
            table::add_row(&mut table, vec![name.into(), value]);
        };
        row("database", format!("{}, {} records", self.path, self.records));
        row("workload", self.workload.into());
        row("policy", self.policy.clone());
        let memory = ByteSize::new(u64::from(self.frames) * self.page_size);
        row("frames", format!("{} ({memory})", self.frames));
        row("threads", self.threads.to_string());
        row("durability", self.durability.into());
        row("transactions", self.transactions.to_string());
        row("real time", format!("{:.2} s", self.seconds));
        let pace = self.transactions_per_second;
        row("transactions per second", format!("{pace:.0}"));
        row("hit ratio", format!("{:.4}", self.hit_ratio));
        row("read", with_causes(self.bytes_read, &self.pages_read));
        let written = self.bytes_written_to;
        row("pages written", with_causes(written.pages, &self.pages_written));
        row("log written", format!("{}, {} syncs", ByteSize::new(written.log), self.log_syncs));
        row("double write", ByteSize::new(written.double_write).to_string());
        row("written in all", ByteSize::new(self.bytes_written).to_string());
        row("changed", ByteSize::new(self.bytes_changed).to_string());
        let amplification = self.write_amplification;
        row("write amplification", amplification.map_or_else(|| "-".into(), |written| format!("{written:.2}")));
        row("last checkpoint", format!("{} dirty pages, {:.2} s", self.dirty_left, self.last_checkpoint_seconds));
        let recovered = self.recovery_seconds.map_or_else(String::new, |took| format!(", at the beginning {took:.2} s"));
        row("a recovery takes", format!("about {:.2} s{recovered}", self.recovery_estimate_seconds));
        row("files", self.files.to_string());
        if self.conflicts > 0 {
            row("tried again", self.conflicts.to_string());
        }
        if self.not_found > 0 {
            row("not found", self.not_found.to_string());
        }
        table::finish_left(table) + "\n" + &self.latencies()
    }

    fn latencies(&self) -> String {
        let mut table = table::plain();
        let header = ["µs", "count", "median", "99 %", "longest"];
        table::add_row(&mut table, header.map(String::from).to_vec());
        for latency in &self.operations {
            let [median, p99, longest] = [latency.p50_us, latency.p99_us, latency.max_us].map(|us| format!("{us:.1}"));
            let cells = vec![latency.kind.into(), latency.count.to_string(), median, p99, longest];
            table::add_row(&mut table, cells);
        }
        table::finish(table)
    }
}

fn with_causes(bytes: u64, causes: &BTreeMap<&'static str, u64>) -> String {
    let several: Vec<String> =
        causes.iter().filter(|&(_, &pages)| pages > 0).map(|(cause, pages)| format!("{cause} {pages}")).collect();
    match several.is_empty() {
        true => ByteSize::new(bytes).to_string(),
        false => format!("{}: {} pages", ByteSize::new(bytes), several.join(", ")),
    }
}
