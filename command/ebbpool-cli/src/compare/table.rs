//! A comparison as tables.

use std::fmt::Write;

use ebbpool_lab::advice::Answer;
use ebbpool_lab::numbers::{bytes, digits, saving};
use ebbpool_lab::{BASELINE, Comparison, PriceBlock, RunResult, lifetime};

use crate::table::{add_row, finish, millijoules, plain};

/// The number of sizes that fit side by side into 80 columns.
const SIZES_ACROSS: usize = 4;

/// Longer asymmetries stand above their block, so that the table does not become too wide.
const LONGEST_LABEL: usize = 12;

/// One block per price, with a row for each policy and a column for each size. A dash stands for a
/// result that an interruption has prevented.
pub(crate) fn of_comparison(comparison: &Comparison) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", comparison.title);
    let unit = comparison.bill_unit();
    let _ = writeln!(text, "{} {} in {}; saving against {BASELINE} in per cent; * is best", unit.name, unit.per, unit.unit);
    let sizes: Vec<_> = comparison.sizes.iter().zip(&comparison.frames).enumerate().collect();
    for block in comparison.blocks() {
        for group in sizes.chunks(SIZES_ACROSS) {
            let mut table = plain();
            let label = format!("R = {}", block.pricing.label());
            let fits = label.len() <= LONGEST_LABEL;
            if !fits {
                let _ = write!(text, "\n{label}");
            }
            let mut header = vec![if fits { label } else { String::new() }];
            for (_, (size, frames)) in group {
                let frames = frames.to_string();
                header.push(if **size == frames { frames } else { format!("{size} = {frames}") });
            }
            add_row(&mut table, header);
            if comparison.page_size.is_some() {
                let memory = group.iter().map(|(_, (_, frames))| {
                    let bytes = bytes(**frames, comparison.page_size);
                    bytes.map_or_else(String::new, |bytes| bytes.to_string())
                });
                add_row(&mut table, [String::new()].into_iter().chain(memory).collect());
            }
            for (policy, row) in comparison.policies.iter().zip(block.rows()) {
                let mut cells = vec![policy.clone()];
                cells.extend(group.iter().map(|&(size, _)| match row[size] {
                    Some(result) if result.failed.is_some() => "failed        ".into(),
                    Some(result) => cell(result, block, size, unit.factor),
                    None => "-        ".into(),
                }));
                add_row(&mut table, cells);
            }
            let _ = write!(text, "\n{}", finish(table));
        }
    }
    text.push_str(&of_distance(comparison));
    text.push_str(&of_wear(comparison));
    text.push_str(&of_energy(comparison));
    text.push('\n');
    // What decides comes last, where a reader looks on a terminal.
    let answer = Answer::new(comparison);
    let sentences: Vec<&str> = answer.sentences().collect();
    sentences.iter().rev().for_each(|sentence| {
        let _ = writeln!(text, "{sentence}");
    });
    text
}

fn cell(result: &RunResult, block: PriceBlock, size: usize, factor: f64) -> String {
    let mark = match result.cost <= block.least_bill(size) {
        true => "*",
        false => " ",
    };
    let saved =
        block.baseline(size).filter(|_| result.policy != BASELINE).and_then(|baseline| saving(result.cost, baseline.cost));
    let saved = saved.map_or(String::new(), |saved| format!("{saved:+.1}"));
    format!("{}{mark} {saved:>6}", digits(factor * result.cost))
}

/// The erases of a simulated device, and its relative lifetime.
fn of_wear(comparison: &Comparison) -> String {
    if !comparison.rows().any(|row| lifetime::report(row).is_some()) {
        return String::new();
    }
    let lifetimes = lifetime::lifetimes(comparison);
    let with_lifetimes: Vec<_> = comparison.rows().zip(lifetimes).collect();
    let mut text = format!(
        "\nblocks erased; lifetime of the device in that of {}, by pages programmed\n",
        lifetime::compared_with(comparison)
    );
    let sizes: Vec<usize> = (0..comparison.sizes.len()).collect();
    for group in sizes.chunks(SIZES_ACROSS) {
        let mut table = plain();
        let mut header = vec![String::new()];
        header.extend(group.iter().map(|&size| comparison.sizes[size].clone()));
        add_row(&mut table, header);
        for (policy, name) in comparison.policies.iter().enumerate() {
            let mut cells = vec![name.clone()];
            cells.extend(group.iter().map(|&size| {
                let mut rows = with_lifetimes.iter();
                let found = rows.find(|(row, _)| (row.policy, row.size) == (policy, size));
                match found.and_then(|(row, lifetime)| Some((lifetime::report(row)?, lifetime))) {
                    None => "-".into(),
                    Some((report, lifetime)) => {
                        let lifetime = lifetime.map_or(String::new(), |times| format!("x{times:.2}"));
                        format!("{} {lifetime:>7}", report.erases)
                    }
                }
            }));
            add_row(&mut table, cells);
        }
        let _ = write!(text, "{}", finish(table));
    }
    text
}

/// Energy per reference, if the device's power is known.
fn of_energy(comparison: &Comparison) -> String {
    let mut text = String::new();
    for block in comparison.blocks() {
        let has_energy = |result: &RunResult| result.joules_per_reference.is_some();
        if !block.rows().flatten().flatten().any(has_energy) {
            continue;
        }
        let _ = writeln!(text, "\nenergy per reference, device and host as far as known");
        for group in (0..comparison.sizes.len()).collect::<Vec<_>>().chunks(SIZES_ACROSS) {
            let mut table = plain();
            let mut header = vec![String::new()];
            header.extend(group.iter().map(|&size| comparison.sizes[size].clone()));
            add_row(&mut table, header);
            for (policy, row) in comparison.policies.iter().zip(block.rows()) {
                let mut cells = vec![policy.clone()];
                cells.extend(group.iter().map(|&size| {
                    let joules = row[size].and_then(|result| result.joules_per_reference);
                    joules.map_or("-".into(), millijoules)
                }));
                add_row(&mut table, cells);
            }
            let _ = write!(text, "{}", finish(table));
        }
    }
    text
}

/// The largest possible distance of each policy from the lower bound, with a block per asymmetry.
fn of_distance(comparison: &Comparison) -> String {
    if comparison.bounds.is_none() {
        return String::new();
    }
    let mut text =
        String::from("\nabove the least possible bill by at most, in per cent; first, what no policy can undercut\n");
    let sizes: Vec<usize> = (0..comparison.sizes.len()).collect();
    for (asymmetry, block) in comparison.blocks().enumerate() {
        let bound = |size: usize| comparison.bound(asymmetry, size);
        for group in sizes.chunks(SIZES_ACROSS) {
            let mut table = plain();
            let mut header = vec![format!("R = {}", block.pricing.label())];
            header.extend(group.iter().map(|&size| comparison.sizes[size].clone()));
            add_row(&mut table, header);
            let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
            let mut cells = vec!["lower bound".into()];
            cells.extend(group.iter().map(|&size| or_dash(bound(size).map(digits))));
            add_row(&mut table, cells);
            for (policy, row) in comparison.policies.iter().zip(block.rows()) {
                let mut cells = vec![policy.clone()];
                cells.extend(group.iter().map(|&size| {
                    let above = row[size].and_then(RunResult::above_bound);
                    or_dash(above.map(|share| format!("{:.1}", 100.0 * share)))
                }));
                add_row(&mut table, cells);
            }
            let _ = write!(text, "\n{}", finish(table));
        }
    }
    text
}
