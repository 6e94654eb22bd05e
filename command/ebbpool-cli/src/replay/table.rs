//! Replays as tables.

use std::collections::BTreeMap;

use ebbpool_cost::ByteSize;
use ebbpool_lab::numbers::{frames_and_bytes, pages_and_bytes, rounded};
use ebbpool_lab::replay::{LatencyQuantiles, ReplayResult, WaitCounts};

use crate::table::{self, FigureTable};

fn bytes(count: Option<u64>) -> String {
    count.map_or_else(|| "unknown".into(), |bytes| ByteSize::new(bytes).to_string())
}

fn microseconds(us: Option<f64>) -> String {
    us.map_or_else(|| "-".into(), |us| format!("{us:.1} µs"))
}

fn asymmetry(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), rounded)
}

/// The result of one policy, with one line per figure.
pub(super) fn of_replay(replayed: &ReplayResult) -> String {
    let result = &replayed.result;
    let mut figures = FigureTable::new();
    add_setting(&mut figures, replayed);
    add_transfers(&mut figures, replayed);
    add_waits(&mut figures, replayed);
    figures.row("cluster switches", result.cluster_switches.to_string());
    figures.row("real time", format!("{:.2} s", replayed.real_seconds));
    figures.row("references per second", format!("{:.0}", pace(replayed)));
    if let Some(pages) = replayed.verified_pages {
        figures.row("verified", format!("{pages} pages"));
    }
    figures.left_aligned()
}

fn add_setting(figures: &mut FigureTable, replayed: &ReplayResult) {
    let result = &replayed.result;
    figures.row("trace", result.trace.clone());
    figures.row("storage", replayed.storage.clone());
    figures.row("policy", result.policy.clone());
    figures.row("frames", pages_and_bytes(result.frames, result.page_size));
    figures.row("page size", bytes(result.page_size));
    figures.row("threads", replayed.threads.to_string());
    let ratio = result.asymmetry.0;
    figures.row("asymmetry", asymmetry(ratio.is_finite().then_some(ratio)));
    figures.row("references", result.references.to_string());
    figures.row("warm-up", result.warmup.to_string());
    figures.row("distinct pages", result.distinct_pages.to_string());
    figures.row("hits", result.hits.to_string());
    figures.row("hit ratio", format!("{:.4}", result.hit_ratio));
}

fn add_transfers(figures: &mut FigureTable, replayed: &ReplayResult) {
    let result = &replayed.result;
    figures.row("reads", with_causes(result.reads, result.bytes_read, &replayed.pages_read));
    figures.row("writes", with_causes(result.writes, result.bytes_written, &replayed.pages_written));
    figures.row("write calls", replayed.write_calls.to_string());
    figures.row("dirty left", result.dirty_left.to_string());
    figures.row("bill per reference", format!("{:.4} page reads", result.cost));
    figures.row("time in I/O", format!("{} a reference", microseconds(result.cost_us)));
    figures.row("a page read took", microseconds(replayed.read_us));
    figures.row("a page write took", microseconds(replayed.write_us));
    figures.row("measured R", asymmetry(replayed.measured_asymmetry));
}

fn add_waits(figures: &mut FigureTable, replayed: &ReplayResult) {
    for (name, latency) in [
        ("read calls took", &replayed.read_latency_us),
        ("write calls took", &replayed.write_latency_us),
        ("syncs took", &replayed.sync_latency_us),
    ] {
        if let Some(LatencyQuantiles { median, p99, most, .. }) = latency {
            let text = format!("median {median} µs, 99 % {p99} µs, longest {most} µs");
            figures.row(name, text);
        }
    }
    let WaitCounts { latch, write, frame, .. } = &replayed.waits;
    figures.row("waits", format!("{latch} for latches, {write} for writes, {frame} for frames"));
    if replayed.delays > 0 {
        figures.row("throttled", format!("{} times, {:.2} s", replayed.delays, replayed.delayed_seconds));
    }
}

/// Counted references per second of real time.
fn pace(replayed: &ReplayResult) -> f64 {
    replayed.result.references as f64 / replayed.real_seconds
}

fn with_causes(pages: u64, size: Option<u64>, causes: &BTreeMap<&'static str, u64>) -> String {
    let several: Vec<String> =
        causes.iter().filter(|&(_, &count)| count > 0).map(|(cause, count)| format!("{cause} {count}")).collect();
    match several.len() {
        0 | 1 => format!("{pages} ({})", bytes(size)),
        _ => format!("{pages} ({}): {}", bytes(size), several.join(", ")),
    }
}

/// The results of several policies, with one line per policy.
pub(super) fn of_replays(all: &[ReplayResult]) -> String {
    let mut text = String::new();
    if let Some(first) = all.first() {
        let result = &first.result;
        let more = if first.threads == 1 { "" } else { "s" };
        text = format!(
            "{}: {} references, {} in pages of {}, {} thread{more}\n{}\nbill per reference at R = {}; column R has what was measured\n\n",
            result.trace,
            result.references,
            frames_and_bytes(result.frames, result.page_size),
            bytes(result.page_size),
            first.threads,
            first.storage,
            asymmetry(Some(result.asymmetry.0).filter(|ratio| ratio.is_finite()))
        );
    }
    let mut table = table::plain();
    let header = ["", "seconds", "hit ratio", "read", "written", "write calls", "read µs", "write µs", "R", "bill"];
    table::add_row(&mut table, header.map(String::from).to_vec());
    for replayed in all {
        let result = &replayed.result;
        let us = |us: Option<f64>| us.map_or_else(|| "-".into(), |us| format!("{us:.1}"));
        let cells = vec![
            result.policy.clone(),
            format!("{:.2}", replayed.real_seconds),
            format!("{:.4}", result.hit_ratio),
            bytes(result.bytes_read),
            bytes(result.bytes_written),
            replayed.write_calls.to_string(),
            us(replayed.read_us),
            us(replayed.write_us),
            replayed.measured_asymmetry.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
            format!("{:.4}", result.cost),
        ];
        table::add_row(&mut table, cells);
    }
    text + &table::finish(table)
}
