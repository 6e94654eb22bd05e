//! What came of a replay: as `run` tells it, and what really happened besides.

use std::collections::BTreeMap;
use std::time::Duration;

use bytesize::ByteSize;
use ebbpool::{Quantiles, ReadCause, Stats, WriteCause};
use serde::Serialize;

use crate::charge::rounded;
use crate::results::Record;
use crate::table;

/// One result: the fields of `run`, and those of the real thing.
#[derive(Serialize)]
pub(crate) struct Told {
    #[serde(flatten)]
    pub(crate) record: Record,
    /// What the pages were kept in.
    pub(crate) storage: String,
    pub(super) threads: u16,
    /// Time from the first counted reference to the last, and to the end of the flush if there is one.
    pub(crate) real_seconds: f64,
    /// Pages read for each cause, read-ahead and padding included.
    pub(super) pages_read: BTreeMap<&'static str, u64>,
    pub(super) pages_written: BTreeMap<&'static str, u64>,
    /// Calls of the storage that wrote.
    pub(super) write_calls: u64,
    pub(super) syncs: u64,
    /// Time that a page read took on average, in µs.
    pub(crate) read_us: Option<f64>,
    pub(crate) write_us: Option<f64>,
    /// The second in units of the first.
    pub(super) measured_asymmetry: Option<f64>,
    /// Of calls that read, of one page or several, since the pool was opened.
    pub(super) read_latency_us: Option<Latency>,
    pub(super) write_latency_us: Option<Latency>,
    pub(super) sync_latency_us: Option<Latency>,
    pub(super) waits: Waits,
    /// Fixes for writing that were held up because too many pages were dirty.
    pub(super) delays: u64,
    pub(super) delayed_seconds: f64,
    /// Pages that were read again at the end and held what was written; null if none were to be.
    pub(super) verified_pages: Option<u64>,
    /// Only a part of the trace was replayed.
    pub(super) interrupted: bool,
}

#[derive(Serialize)]
pub(crate) struct Latency {
    median: u64,
    p99: u64,
    most: u64,
}

/// How often a fix waited.
#[derive(Serialize)]
pub(super) struct Waits {
    latch: u64,
    write: u64,
    frame: u64,
}

impl Latency {
    pub(crate) fn of(quantiles: Option<Quantiles>) -> Option<Self> {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        quantiles.map(|quantiles| Latency {
            median: us(quantiles.median),
            p99: us(quantiles.p99),
            most: us(quantiles.most),
        })
    }
}

/// What a pool did between two moments.
pub(crate) struct Did {
    pub(crate) misses: u64,
    pages_read: [u64; ReadCause::ALL.len()],
    pages_written: [u64; WriteCause::ALL.len()],
    pub(super) write_calls: u64,
    pub(super) syncs: u64,
    pub(super) waits: Waits,
    pub(super) delays: u64,
    pub(super) delayed: Duration,
}

impl Did {
    pub(crate) fn between(before: &Stats, after: &Stats) -> Self {
        let mut pages_read = [0; ReadCause::ALL.len()];
        for (count, &cause) in pages_read.iter_mut().zip(ReadCause::ALL) {
            *count = after.read_for(cause) - before.read_for(cause);
        }
        let mut pages_written = [0; WriteCause::ALL.len()];
        for (count, &cause) in pages_written.iter_mut().zip(WriteCause::ALL) {
            *count = after.written_for(cause) - before.written_for(cause);
        }
        Did {
            misses: after.misses - before.misses,
            pages_read,
            pages_written,
            write_calls: after.write_calls - before.write_calls,
            syncs: after.syncs - before.syncs,
            waits: Waits {
                latch: after.waits_for_latches - before.waits_for_latches,
                write: after.waits_for_writes - before.waits_for_writes,
                frame: after.waits_for_frames - before.waits_for_frames,
            },
            delays: after.delays - before.delays,
            delayed: after.delayed.saturating_sub(before.delayed),
        }
    }

    /// Pages read but for padding, which `run` counts apart.
    pub(crate) fn reads(&self) -> u64 {
        self.pages_read.iter().sum::<u64>() - self.padding_reads()
    }

    pub(super) fn padding_reads(&self) -> u64 {
        self.pages_read[ReadCause::Padding as usize]
    }

    pub(crate) fn writes(&self) -> u64 {
        self.pages_written.iter().sum()
    }

    pub(crate) fn pages_read(&self) -> BTreeMap<&'static str, u64> {
        let counts = ReadCause::ALL.iter().zip(self.pages_read);
        counts.map(|(cause, pages)| (cause.name(), pages)).collect()
    }

    pub(crate) fn pages_written(&self) -> BTreeMap<&'static str, u64> {
        let counts = WriteCause::ALL.iter().zip(self.pages_written);
        counts.map(|(cause, pages)| (cause.name(), pages)).collect()
    }
}

fn bytes(count: Option<u64>) -> String {
    count.map_or_else(|| "unknown".into(), |bytes| ByteSize(bytes).to_string())
}

fn microseconds(us: Option<f64>) -> String {
    us.map_or_else(|| "-".into(), |us| format!("{us:.1} µs"))
}

fn asymmetry(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), rounded)
}

impl Told {
    /// As a table for people.
    pub(super) fn to_table(&self) -> String {
        let record = &self.record;
        let mut table = table::plain();
        let mut row = |name: &str, value: String| {
            table::add_row(&mut table, vec![name.into(), value]);
        };
        row("trace", record.trace.clone());
        row("storage", self.storage.clone());
        row("policy", record.policy.clone());
        row("frames", record.frames.to_string());
        row("page size", bytes(record.page_size));
        row("threads", self.threads.to_string());
        let told = record.asymmetry.0;
        row("asymmetry", asymmetry(told.is_finite().then_some(told)));
        row("references", record.references.to_string());
        row("warm-up", record.warmup.to_string());
        row("distinct pages", record.distinct_pages.to_string());
        row("hits", record.hits.to_string());
        row("hit ratio", format!("{:.4}", record.hit_ratio));
        row(
            "reads",
            self.with_causes(record.reads, record.bytes_read, &self.pages_read),
        );
        row(
            "writes",
            self.with_causes(record.writes, record.bytes_written, &self.pages_written),
        );
        row("write calls", self.write_calls.to_string());
        row("dirty left", record.dirty_left.to_string());
        row(
            "bill per reference",
            format!("{:.4} page reads", record.cost),
        );
        row(
            "time in I/O",
            format!("{} a reference", microseconds(record.cost_us)),
        );
        row("a page read took", microseconds(self.read_us));
        row("a page write took", microseconds(self.write_us));
        row("measured R", asymmetry(self.measured_asymmetry));
        for (name, latency) in [
            ("read calls took", &self.read_latency_us),
            ("write calls took", &self.write_latency_us),
            ("syncs took", &self.sync_latency_us),
        ] {
            if let Some(Latency { median, p99, most }) = latency {
                let text = format!("median {median} µs, 99 % {p99} µs, longest {most} µs");
                row(name, text);
            }
        }
        let Waits {
            latch,
            write,
            frame,
        } = &self.waits;
        row(
            "waits",
            format!("{latch} for latches, {write} for writes, {frame} for frames"),
        );
        if self.delays > 0 {
            row(
                "held up",
                format!("{} times, {:.2} s", self.delays, self.delayed_seconds),
            );
        }
        row("cluster switches", record.cluster_switches.to_string());
        row("real time", format!("{:.2} s", self.real_seconds));
        row("references per second", format!("{:.0}", self.pace()));
        if let Some(pages) = self.verified_pages {
            row("verified", format!("{pages} pages"));
        }
        table::finish_left(table)
    }

    /// Counted references per second of real time.
    fn pace(&self) -> f64 {
        self.record.references as f64 / self.real_seconds
    }

    fn with_causes(
        &self,
        pages: u64,
        size: Option<u64>,
        causes: &BTreeMap<&'static str, u64>,
    ) -> String {
        let several: Vec<String> = causes
            .iter()
            .filter(|&(_, &count)| count > 0)
            .map(|(cause, count)| format!("{cause} {count}"))
            .collect();
        match several.len() {
            0 | 1 => format!("{pages} ({})", bytes(size)),
            _ => format!("{pages} ({}): {}", bytes(size), several.join(", ")),
        }
    }
}

/// Several policies side by side.
pub(super) fn comparison(all: &[Told]) -> String {
    let mut text = String::new();
    if let Some(first) = all.first() {
        let record = &first.record;
        let more = if first.threads == 1 { "" } else { "s" };
        text = format!(
            "{}: {} references, {} frames of {}, {} thread{more}\n{}\n\n",
            record.trace,
            record.references,
            record.frames,
            bytes(record.page_size),
            first.threads,
            first.storage
        );
    }
    let mut table = table::plain();
    let header = [
        "",
        "seconds",
        "hit ratio",
        "read",
        "written",
        "write calls",
        "read µs",
        "write µs",
        "bill",
    ];
    table::add_row(&mut table, header.map(String::from).to_vec());
    for told in all {
        let record = &told.record;
        let us = |us: Option<f64>| us.map_or_else(|| "-".into(), |us| format!("{us:.1}"));
        let cells = vec![
            record.policy.clone(),
            format!("{:.2}", told.real_seconds),
            format!("{:.4}", record.hit_ratio),
            bytes(record.bytes_read),
            bytes(record.bytes_written),
            told.write_calls.to_string(),
            us(told.read_us),
            us(told.write_us),
            format!("{:.4}", record.cost),
        ];
        table::add_row(&mut table, cells);
    }
    text + &table::finish(table)
}
