//! The bills of a trace, or of a generator's seeds, as cells, and the summary of several traces.

use std::fmt::Write;

use ebbpool_lab::numbers::{decimals, digits, saving};
use ebbpool_lab::several::{SeedMeans, Summary};
use ebbpool_lab::trace_set::TraceGroup;
use ebbpool_lab::{BASELINE, BillUnit, Comparison, Pricing};

use crate::table::{add_row, finish, plain};

/// The number of sizes with intervals that fit side by side into 80 columns.
const SIZES_ACROSS: usize = 3;

/// The bills of one price.
pub(super) struct PriceTable {
    pub(super) label: String,
    pub(super) sizes: Vec<String>,
    pub(super) rows: Vec<PriceRow>,
}

/// The bills of a policy at one price.
pub(super) struct PriceRow {
    pub(super) policy: String,
    /// `None` where a result is missing or its device failed.
    pub(super) cells: Vec<Option<PriceCell>>,
}

pub(super) struct PriceCell {
    pub(super) bill: String,
    /// Half of the 95 % interval, where there are several seeds.
    pub(super) half_width: Option<String>,
    /// What the policy saves against lru, in per cent.
    pub(super) saving: Option<String>,
    pub(super) is_best: bool,
}

/// The tables of the comparisons of a group, one for each price.
pub(super) fn price_tables(comparisons: &[Comparison]) -> Vec<PriceTable> {
    let Some(first) = comparisons.first() else {
        return Vec::new();
    };
    let means = SeedMeans::new(comparisons);
    let baseline = first.policies.iter().position(|policy| policy == BASELINE);
    let unit = first.bill_unit();
    let table = |(pricing, price): (usize, &Pricing)| {
        let bill = |policy, size| means.bill((pricing, policy, size));
        let cell = |policy: usize, size: usize| {
            let estimate = bill(policy, size)?;
            let all = (0..first.policies.len()).filter_map(|policy| bill(policy, size));
            let least = all.fold(f64::INFINITY, |least, one| least.min(one.mean));
            let base = baseline.filter(|&base| base != policy);
            let base = base.and_then(|base| bill(base, size));
            let saved = base.and_then(|base| saving(estimate.mean, base.mean));
            let mean = unit.factor * estimate.mean;
            let places = if mean < 10.0 { 4 } else { 2 };
            Some(PriceCell {
                bill: digits(mean),
                half_width: estimate.half_width.map(|half| decimals(unit.factor * half, places)),
                saving: saved.map(|saved| format!("{saved:+.1}")),
                is_best: estimate.mean <= least,
            })
        };
        let sizes = 0..first.sizes.len();
        let rows = first
            .policies
            .iter()
            .enumerate()
            .map(|(at, policy)| PriceRow { policy: policy.clone(), cells: sizes.clone().map(|size| cell(at, size)).collect() });
        PriceTable {
            label: format!("R = {}", price.label()),
            sizes: sizes.clone().map(|size| size_text(comparisons, size)).collect(),
            rows: rows.collect(),
        }
    };
    first.pricings.iter().enumerate().map(table).collect()
}

/// A memory size as the request spells it, and in frames where it is the same for all seeds.
fn size_text(comparisons: &[Comparison], size: usize) -> String {
    let first = &comparisons[0];
    let (spelled, frames) = (&first.sizes[size], first.frames[size]);
    match comparisons.iter().all(|one| one.frames[size] == frames) {
        true if *spelled != frames.to_string() => format!("{spelled} = {frames}"),
        _ => spelled.clone(),
    }
}

/// What the figures of a group are, in a line.
pub(super) fn units(comparisons: &[Comparison]) -> String {
    let unit = comparisons.first().map_or(BillUnit::PAGE_READS, Comparison::bill_unit);
    let means = match comparisons.len() {
        1 => String::new(),
        seeds => format!("; means over {seeds} seeds ± half of their 95 % interval"),
    };
    format!("{} {} in {}{means}; saving against {BASELINE} in per cent", unit.name, unit.per, unit.unit)
}

/// The tables of a generator with several seeds.
pub(super) fn of_seeds(group: &TraceGroup, comparisons: &[Comparison]) -> String {
    let lines = units(comparisons).replace("; ", "\n");
    let mut text = format!("{}: {} seeds\n{lines}; * is best\n", group.name, comparisons.len());
    for price in price_tables(comparisons) {
        let sizes: Vec<usize> = (0..price.sizes.len()).collect();
        for across in sizes.chunks(SIZES_ACROSS) {
            let mut table = plain();
            let heads = across.iter().map(|&size| price.sizes[size].clone());
            add_row(&mut table, std::iter::once(price.label.clone()).chain(heads).collect());
            for row in &price.rows {
                let cells = across.iter().map(|&size| plain_cell(row.cells[size].as_ref()));
                add_row(&mut table, std::iter::once(row.policy.clone()).chain(cells).collect());
            }
            let _ = write!(text, "\n{}", finish(table));
        }
    }
    text
}

fn plain_cell(cell: Option<&PriceCell>) -> String {
    let Some(cell) = cell else {
        return "-".into();
    };
    let mark = if cell.is_best { "*" } else { " " };
    let half = cell.half_width.as_ref().map_or(String::new(), |half| format!(" ±{half}"));
    let saved = cell.saving.as_deref().unwrap_or_default();
    format!("{}{mark}{half} {saved:>6}", cell.bill)
}

/// The summary as a table, with the answer in its last line.
pub(super) fn of_summary(summary: &Summary) -> String {
    let mut table = plain();
    add_row(&mut table, summary.heads());
    for cells in summary.cells() {
        add_row(&mut table, cells);
    }
    let mut text = format!("\nall traces\n{}", finish(table));
    for note in summary.notes() {
        let _ = writeln!(text, "{note}");
    }
    let _ = writeln!(text, "{}", summary.sentence());
    text
}
