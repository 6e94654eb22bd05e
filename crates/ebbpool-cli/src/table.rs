//! Results for people, readable at 80 columns and in a pipe.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use crate::bound::Answer;
use crate::compare::{Block, Comparison};
use crate::device::Replayed;
use crate::results::{Record, WithDevice};

/// The policy that savings are counted against.
pub(crate) const BASELINE: &str = "lru";

/// As many sizes stand side by side as fit into 80 columns.
const SIZES_ACROSS: usize = 4;

/// The sentence's asymmetry and size where they are among those run (FD-Buffer's defaults).
const USUAL_ASYMMETRY: f64 = 32.0;
const USUAL_SIZE: &str = "3%";

pub(crate) fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

fn add_row(table: &mut Table, cells: Vec<String>) {
    table.add_row(cells);
}

pub(crate) fn finish(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        if column.index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    finish_left(table)
}

fn finish_left(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What a result costs less than the baseline's, in per cent.
pub(crate) fn saving(cost: f64, baseline: f64) -> Option<f64> {
    (baseline > 0.0).then(|| 100.0 * (1.0 - cost / baseline))
}

fn least(block: Block, size: usize) -> f64 {
    let costs = block.column(size).map(|record| record.cost);
    costs.fold(f64::INFINITY, f64::min)
}

fn baseline<'a>(block: Block<'a>, size: usize) -> Option<&'a Record> {
    block.column(size).find(|record| record.policy == BASELINE)
}

/// Erases of a simulated device, and how much longer it lives than under the baseline by them.
fn of_wear(comparison: &Comparison) -> String {
    let erases = |policy: usize, size: usize| {
        let row = comparison
            .rows
            .iter()
            .find(|row| (row.policy, row.size) == (policy, size))?;
        Some(row.device.as_ref()?.flash.as_ref()?.erases)
    };
    let Some(baseline) = comparison.policies.iter().position(|name| name == BASELINE) else {
        return String::new();
    };
    let sizes = comparison.sizes.len();
    if !(0..sizes).any(|size| erases(baseline, size).is_some()) {
        return String::new();
    }
    let mut text =
        String::from("\nblocks erased; lifetime of the device in that of lru, by erases\n");
    for group in (0..sizes).collect::<Vec<_>>().chunks(SIZES_ACROSS) {
        let mut table = plain();
        let mut header = vec![String::new()];
        header.extend(group.iter().map(|&size| comparison.sizes[size].clone()));
        add_row(&mut table, header);
        for (policy, name) in comparison.policies.iter().enumerate() {
            let mut cells = vec![name.clone()];
            cells.extend(group.iter().map(|&size| match erases(policy, size) {
                None => "-".into(),
                Some(own) => {
                    let of_baseline = erases(baseline, size).filter(|_| own > 0);
                    let longer = of_baseline.map(|erases| erases as f64 / own as f64);
                    let longer = longer.map_or(String::new(), |times| format!("x{times:.2}"));
                    format!("{own} {longer:>7}")
                }
            }));
            add_row(&mut table, cells);
        }
        let _ = write!(text, "{}", finish(table));
    }
    let reports = comparison
        .rows
        .iter()
        .filter_map(|row| row.device.as_ref()?.flash.as_ref());
    if let Some(reason) = reports
        .filter_map(|report| report.not_steady.as_ref())
        .next()
    {
        let _ = writeln!(
            text,
            "not in a steady state everywhere, so take this for a beginning ({reason}); \
             precondition=steady, fewer blocks or a longer trace help"
        );
    }
    text
}

/// How far above what no policy can undercut each policy is at most: a block per asymmetry.
fn of_distance(comparison: &Comparison) -> String {
    if comparison.bounds.is_none() {
        return String::new();
    }
    let mut text = String::from(
        "\nabove the least possible bill by at most, in per cent; first, what no policy can undercut\n",
    );
    let sizes: Vec<usize> = (0..comparison.sizes.len()).collect();
    for (asymmetry, block) in comparison.blocks().enumerate() {
        let bound = |size: usize| comparison.bound(asymmetry, size);
        for group in sizes.chunks(SIZES_ACROSS) {
            let mut table = plain();
            let mut header = vec![format!("R = {}", ratio(block.asymmetry))];
            header.extend(group.iter().map(|&size| comparison.sizes[size].clone()));
            add_row(&mut table, header);
            let known = |value: Option<String>| value.unwrap_or_else(|| "-".into());
            let mut cells = vec!["lower bound".into()];
            cells.extend(group.iter().map(|&size| known(bound(size).map(digits))));
            add_row(&mut table, cells);
            for (policy, row) in comparison.policies.iter().zip(block.rows()) {
                let mut cells = vec![policy.clone()];
                cells.extend(group.iter().map(|&size| {
                    let above = row[size].as_ref().and_then(Record::above_bound);
                    known(above.map(|share| format!("{:.1}", 100.0 * share)))
                }));
                add_row(&mut table, cells);
            }
            let _ = write!(text, "\n{}", finish(table));
        }
    }
    text
}

/// What was found of how small the bill could be, a line a question.
pub(crate) fn of_bounds(answers: &[Answer]) -> String {
    let mut text = String::new();
    if let Some(answer) = answers.first() {
        let _ = writeln!(
            text,
            "{}: {} references; bill per reference in page reads, dirty pages at the end {}",
            answer.trace,
            answer.references,
            match answer.at_end {
                "flush" => "written",
                _ => "free",
            }
        );
    }
    let mut table = plain();
    let header = [
        "R",
        "frames",
        "no policy below",
        "clairvoyant",
        "by",
        "gap",
        "seconds",
    ];
    add_row(&mut table, header.map(String::from).into());
    for answer in answers {
        let unknown = || "-".to_string();
        let cells = vec![
            ratio(answer.asymmetry.0),
            answer.frames.to_string(),
            format!("{:.6}", answer.lower_bound),
            answer
                .heuristic
                .map_or_else(unknown, |bill| format!("{bill:.6}")),
            answer.heuristic_policy.map_or_else(unknown, String::from),
            answer
                .gap
                .map_or_else(unknown, |gap| format!("{:.3} %", 100.0 * gap)),
            format!("{:.1}", answer.seconds),
        ];
        add_row(&mut table, cells);
    }
    let _ = write!(text, "\n{}", finish(table));
    text
}

/// One block per asymmetry: policies down, sizes across. A dash stands for a result that an
/// interruption came before.
pub(crate) fn of_comparison(comparison: &Comparison) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", comparison.title);
    let _ = writeln!(
        text,
        "bill per reference in page reads; saving against {BASELINE} in per cent; * is best"
    );
    let sizes: Vec<_> = comparison
        .sizes
        .iter()
        .zip(&comparison.frames)
        .enumerate()
        .collect();
    for block in comparison.blocks() {
        for group in sizes.chunks(SIZES_ACROSS) {
            let mut table = plain();
            let mut header = vec![format!("R = {}", ratio(block.asymmetry))];
            for (_, (size, frames)) in group {
                let frames = frames.to_string();
                header.push(if **size == frames {
                    frames
                } else {
                    format!("{size} = {frames}")
                });
            }
            add_row(&mut table, header);
            for (policy, row) in comparison.policies.iter().zip(block.rows()) {
                let mut cells = vec![policy.clone()];
                cells.extend(group.iter().map(|&(size, _)| match &row[size] {
                    Some(record) => cell(record, block, size),
                    None => "-        ".into(),
                }));
                add_row(&mut table, cells);
            }
            let _ = write!(text, "\n{}", finish(table));
        }
    }
    text.push_str(&of_distance(comparison));
    text.push_str(&of_wear(comparison));
    let _ = writeln!(text, "\n{}", sentence(comparison));
    text
}

fn cell(record: &Record, block: Block, size: usize) -> String {
    let mark = match record.cost <= least(block, size) {
        true => "*",
        false => " ",
    };
    let saved = baseline(block, size)
        .filter(|_| record.policy != BASELINE)
        .and_then(|baseline| saving(record.cost, baseline.cost));
    let saved = saved.map_or(String::new(), |saved| format!("{saved:+.1}"));
    format!("{}{mark} {saved:>6}", digits(record.cost))
}

/// An asymmetry as it was given, or to three decimals where it follows from a device's figures.
fn ratio(asymmetry: f64) -> String {
    ((asymmetry * 1e3).round() / 1e3).to_string()
}

fn digits(cost: f64) -> String {
    if cost < 10.0 {
        format!("{cost:.4}")
    } else {
        format!("{cost:.2}")
    }
}

/// The answer in a sentence, at FD-Buffer's usual asymmetry and size if they were run.
pub(crate) fn sentence(comparison: &Comparison) -> String {
    let blocks: Vec<Block> = comparison.blocks().collect();
    let usual = blocks
        .iter()
        .find(|block| block.asymmetry == USUAL_ASYMMETRY);
    let Some(block) = usual.or(blocks.last()) else {
        return String::new();
    };
    let sizes = comparison.sizes.len();
    let size = comparison.sizes.iter().position(|size| size == USUAL_SIZE);
    let size = size.unwrap_or(sizes / 2);
    let best = block.column(size).min_by(|a, b| a.cost.total_cmp(&b.cost));
    let Some(best) = best else {
        return String::new();
    };
    let memory = match comparison.sizes[size].strip_suffix('%') {
        Some(share) => format!("{share} % of {}", comparison.share_of),
        None => format!("{} frames", comparison.sizes[size]),
    };
    let so_far = match comparison.interrupted {
        true => "so far, ",
        false => "",
    };
    let place = format!("{so_far}at R={} and {memory}", ratio(best.asymmetry.0));
    let name = &best.policy;
    match baseline(*block, size) {
        Some(baseline) if best.cost < baseline.cost => format!(
            "{place} {name} writes {} than {BASELINE} and costs {}",
            less_or_more(best.writes as f64, baseline.writes as f64),
            less_or_more(best.cost, baseline.cost),
        ),
        Some(_) => format!("{place} no policy costs less than {BASELINE}"),
        None => format!(
            "{place} {name} has the smallest bill, {} page reads a reference",
            digits(best.cost)
        ),
    }
}

fn less_or_more(value: f64, baseline: f64) -> String {
    match saving(value, baseline).map(|saved| saved.round()) {
        Some(saved) if saved > 0.0 => format!("{saved} % less"),
        Some(saved) if saved < 0.0 => format!("{} % more", -saved),
        _ => "no less".into(),
    }
}

/// What a device did with a trace, a line a figure.
pub(crate) fn of_replay(replayed: &Replayed) -> String {
    let Replayed {
        report,
        lifetime_days,
        failed,
    } = replayed;
    let mut table = plain();
    let mut row = |name: &str, value: String| add_row(&mut table, vec![name.into(), value]);
    row("device", report.device.clone());
    row(
        "logical pages",
        format!(
            "{}, {} of them with data",
            report.logical_pages, report.mapped_pages
        ),
    );
    row("rho", format!("{}; now {:.4}", report.rho, report.rho_eff));
    row("host reads", report.host_reads.to_string());
    row(
        "host writes",
        format!("{} ({} bytes)", report.host_writes, report.host_bytes),
    );
    let by = &report.programs_by_cause;
    row(
        "programs",
        format!(
            "{}: host {}, cleaning {}, merges {}, map {}, wear {}",
            report.programs, by.host, by.cleaning, by.merge, by.map, by.wear
        ),
    );
    let merges = &report.merges;
    row(
        "merges",
        format!(
            "switch {}, partial {}, full {}",
            merges.switch, merges.partial, merges.full
        ),
    );
    row("erases", report.erases.to_string());
    row(
        "write amplification",
        match (report.write_amplification, &report.not_steady) {
            (Some(amplification), _) => format!("{amplification:.3}"),
            (None, Some(reason)) => format!("not known: {reason}"),
            (None, None) => "not known".into(),
        },
    );
    if let Some(predicted) = report.predicted_write_amplification {
        row("  theory, random writes", format!("{predicted:.3}"));
    }
    let wear = &report.wear;
    row(
        "erases a block",
        format!(
            "{} to {}, mean {:.2}, sd {:.2}; {} blocks worn out",
            wear.min, wear.max, wear.mean, wear.sd, wear.bad_blocks
        ),
    );
    row("device time", format!("{:.3} s", report.device_seconds));
    for (name, times) in [("read", &report.read_time), ("write", &report.write_time)] {
        if times.count > 0 {
            row(
                &format!("{name} time"),
                format!(
                    "mean {:.1} µs, 99 % {:.1}, 99.9 % {:.1}, longest {:.1}",
                    times.mean_us, times.p99_us, times.p999_us, times.max_us
                ),
            );
        }
    }
    if let Some(bytes) = report.lifetime_host_bytes {
        let days = lifetime_days.map_or(String::new(), |days| format!(", {days:.0} days"));
        row(
            "lifetime",
            format!("{:.3} TB written by the host{days}", bytes / 1e12),
        );
    }
    if let Some(failed) = failed {
        row("failed", failed.clone());
    }
    finish_left(table)
}

/// One run, a line a figure.
pub(crate) fn of_run(result: &WithDevice) -> String {
    let record = result.record;
    let mut table = plain();
    let unknown = || "unknown".to_string();
    let mut row = |name: &str, value: String| add_row(&mut table, vec![name.into(), value]);
    row("trace", record.trace.clone());
    row("policy", record.policy.clone());
    row("frames", record.frames.to_string());
    row(
        "page size",
        record
            .page_size
            .map_or_else(unknown, |size| format!("{size} bytes")),
    );
    if let Some(device) = &record.device {
        row("device", device.clone());
    }
    row("asymmetry", ratio(record.asymmetry.0));
    row("references", record.references.to_string());
    row("warm-up", record.warmup.to_string());
    row("distinct pages", record.distinct_pages.to_string());
    row("hits", record.hits.to_string());
    row("hit ratio", format!("{:.4}", record.hit_ratio));
    row("reads", record.reads.to_string());
    row("writes", record.writes.to_string());
    row("dirty left", record.dirty_left.to_string());
    row(
        "bill per reference",
        format!("{} page reads", digits(record.cost)),
    );
    if let Some(us) = record.cost_us {
        row("time per reference", format!("{us:.2} µs of the device"));
    }
    if let Some(joules) = result.joules_per_reference {
        row("energy per reference", format!("{:.3} mJ", 1e3 * joules));
    }
    if let Some(dollars) = result.dollars_per_reference {
        row("price of a million", format!("$ {:.4}", 1e6 * dollars));
    }
    if let Some(inside) = &result.flash {
        row("erases", inside.erases.to_string());
        row(
            "write amplification",
            match inside.write_amplification {
                Some(amplification) => format!("{amplification:.3}"),
                None => "not steady yet".into(),
            },
        );
        if let Some(bytes) = inside.lifetime_host_bytes {
            row("lifetime", format!("{:.3} TB", bytes / 1e12));
        }
    }
    row("cluster switches", record.cluster_switches.to_string());
    row(
        "cluster switch factor",
        format!("{:.4}", record.cluster_switch_factor),
    );
    if let (Some(seconds), Some(rate)) = (record.seconds, record.references_per_second) {
        row("seconds", format!("{seconds:.2}"));
        row("references per second", format!("{rate:.0}"));
    }
    finish(table)
}
