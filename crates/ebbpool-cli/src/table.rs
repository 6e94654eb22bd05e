//! Results for people, readable at 80 columns and in a pipe.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use crate::bound::Answer;
use crate::charge::rounded;
use crate::compare::{Block, Comparison};
use crate::device::Replayed;
use crate::lifetime;
use crate::results::{Record, WithDevice};

/// The policy that savings are counted against.
pub(crate) const BASELINE: &str = "lru";

/// As many sizes stand side by side as fit into 80 columns.
const SIZES_ACROSS: usize = 4;

/// The sentence's asymmetry and size where they are among those run (FD-Buffer's defaults).
const USUAL_ASYMMETRY: f64 = 32.0;
const USUAL_SIZE: &str = "3%";

/// Longer asymmetries stand above their block, so that the table keeps its width.
const LONGEST_LABEL: usize = 12;

pub(crate) fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

pub(crate) fn add_row(table: &mut Table, cells: Vec<String>) {
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

pub(crate) fn finish_left(mut table: Table) -> String {
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

/// Erases of a simulated device, and how much longer it lives.
fn of_wear(comparison: &Comparison, usual_size: usize) -> String {
    let memory = memory(comparison, usual_size);
    let Some(sentence) = lifetime::sentence(comparison, usual_size, &memory) else {
        return String::new();
    };
    let lives = lifetime::lives(comparison);
    let with_lives: Vec<_> = comparison.rows.iter().zip(lives).collect();
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
                let mut found = with_lives.iter();
                let found = found.find(|(row, _)| (row.policy, row.size) == (policy, size));
                match found.and_then(|(row, life)| Some((lifetime::report(row)?, life))) {
                    None => "-".into(),
                    Some((report, life)) => {
                        let life = life.map_or(String::new(), |times| format!("x{times:.2}"));
                        format!("{} {life:>7}", report.erases)
                    }
                }
            }));
            add_row(&mut table, cells);
        }
        let _ = write!(text, "{}", finish(table));
    }
    let _ = writeln!(text, "\n{sentence}");
    text
}

fn millijoules(joules: f64) -> String {
    format!("{:.4} mJ", 1e3 * joules)
}

/// Energy per reference, where the device's power is known.
fn of_energy(comparison: &Comparison) -> String {
    let mut text = String::new();
    for block in comparison.blocks() {
        let known = |record: &Record| record.joules_per_reference.is_some();
        if !block.rows().flatten().flatten().any(known) {
            continue;
        }
        let _ = writeln!(
            text,
            "\nenergy per reference, device and host as far as known"
        );
        for group in (0..comparison.sizes.len())
            .collect::<Vec<_>>()
            .chunks(SIZES_ACROSS)
        {
            let mut table = plain();
            let mut header = vec![String::new()];
            header.extend(group.iter().map(|&size| comparison.sizes[size].clone()));
            add_row(&mut table, header);
            for (policy, row) in comparison.policies.iter().zip(block.rows()) {
                let mut cells = vec![policy.clone()];
                cells.extend(group.iter().map(|&size| {
                    let record = row.get(size).and_then(Option::as_ref);
                    let joules = record.and_then(|record| record.joules_per_reference);
                    joules.map_or("-".into(), millijoules)
                }));
                add_row(&mut table, cells);
            }
            let _ = write!(text, "{}", finish(table));
        }
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
            let mut header = vec![format!("R = {}", block.charge.label())];
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
            rounded(answer.asymmetry.0),
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

/// One block per charge: policies down, sizes across. A dash stands for a result that an
/// interruption came before.
pub(crate) fn of_comparison(comparison: &Comparison) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", comparison.title);
    let measure = comparison.measure();
    let _ = writeln!(
        text,
        "{} {} in {}; saving against {BASELINE} in per cent; * is best",
        measure.name, measure.per, measure.unit
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
            let label = format!("R = {}", block.charge.label());
            let fits = label.len() <= LONGEST_LABEL;
            if !fits {
                let _ = write!(text, "\n{label}");
            }
            let mut header = vec![if fits { label } else { String::new() }];
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
                    Some(record) if record.failed => "failed        ".into(),
                    Some(record) => cell(record, block, size, measure.factor),
                    None => "-        ".into(),
                }));
                add_row(&mut table, cells);
            }
            let _ = write!(text, "\n{}", finish(table));
        }
    }
    text.push_str(&of_distance(comparison));
    text.push_str(&of_wear(comparison, usual_size(comparison)));
    text.push_str(&of_energy(comparison));
    let _ = writeln!(text, "\n{}", sentence(comparison));
    if let Some(advice) = advice(comparison) {
        let _ = writeln!(text, "{advice}");
    }
    text
}

fn cell(record: &Record, block: Block, size: usize, factor: f64) -> String {
    let mark = match record.cost <= least(block, size) {
        true => "*",
        false => " ",
    };
    let saved = baseline(block, size)
        .filter(|_| record.policy != BASELINE)
        .and_then(|baseline| saving(record.cost, baseline.cost));
    let saved = saved.map_or(String::new(), |saved| format!("{saved:+.1}"));
    format!("{}{mark} {saved:>6}", digits(factor * record.cost))
}

pub(crate) fn digits(cost: f64) -> String {
    if cost < 10.0 {
        format!("{cost:.4}")
    } else {
        format!("{cost:.2}")
    }
}

/// The size that a sentence speaks of: FD-Buffer's usual one if it was run, else the middle one.
pub(crate) fn usual_size(comparison: &Comparison) -> usize {
    let usual = comparison.sizes.iter().position(|size| size == USUAL_SIZE);
    usual.unwrap_or(comparison.sizes.len() / 2)
}

/// A memory size in a sentence.
pub(crate) fn memory(comparison: &Comparison, size: usize) -> String {
    match comparison.sizes[size].strip_suffix('%') {
        Some(share) => format!("{share} % of {}", comparison.share_of),
        None => format!("{} frames", comparison.sizes[size]),
    }
}

/// The answer in a sentence, at FD-Buffer's usual asymmetry and size if they were run.
pub(crate) fn sentence(comparison: &Comparison) -> String {
    let blocks: Vec<Block> = comparison.blocks().collect();
    let usual = blocks.iter().find(|block| {
        block.charge.changing.is_none() && block.charge.asymmetry.ratio() == USUAL_ASYMMETRY
    });
    let Some(block) = usual.or(blocks.last()) else {
        return String::new();
    };
    let size = usual_size(comparison);
    let best = block.column(size).min_by(|a, b| a.cost.total_cmp(&b.cost));
    let Some(best) = best else {
        return String::new();
    };
    let memory = memory(comparison, size);
    let so_far = match comparison.interrupted {
        true => "so far, ",
        false => "",
    };
    let place = match &block.charge.name {
        Some(_) => format!("{so_far}on this device and with {memory}"),
        None => format!("{so_far}at R={} and {memory}", block.charge.label()),
    };
    let name = &best.policy;
    let measure = comparison.measure();
    match baseline(*block, size) {
        Some(baseline) if best.cost < baseline.cost => format!(
            "{place} {name} writes {} than {BASELINE} and costs {}",
            less_or_more(best.writes as f64, baseline.writes as f64),
            less_or_more(best.cost, baseline.cost),
        ),
        Some(_) => format!("{place} no policy costs less than {BASELINE}"),
        None => format!(
            "{place} {name} has the smallest {}, {} {} {}",
            measure.name,
            digits(measure.factor * best.cost),
            measure.unit,
            measure.per
        ),
    }
}

/// Which policy to take where sizes and asymmetries are not known beforehand: the one whose bills are
/// the least in the geometric mean. Nothing if there is one size and asymmetry, or one policy.
pub(crate) fn advice(comparison: &Comparison) -> Option<String> {
    let blocks: Vec<Block> = comparison.blocks().collect();
    let places = blocks.len() * comparison.sizes.len();
    if places < 2 || comparison.policies.len() < 2 || comparison.interrupted {
        return None;
    }
    let (name, ratios) = comparison
        .policies
        .iter()
        .enumerate()
        .filter_map(|(at, name)| Some((name, above_least(&blocks, at)?)))
        .min_by(|(_, a), (_, b)| mean_log(a).total_cmp(&mean_log(b)))?;
    let over = match blocks.len() {
        1 => "sizes",
        _ => "sizes and asymmetries",
    };
    let baseline = comparison.policies.iter().position(|it| it == BASELINE);
    let baseline = baseline.and_then(|at| above_least(&blocks, at));
    if let Some(baseline) = baseline.as_deref()
        && mean_log(baseline) <= mean_log(&ratios)
    {
        return Some(format!(
            "over all {places} {over} no policy costs less than {BASELINE} on average"
        ));
    }
    let worst = ratios.iter().copied().fold(1.0, f64::max);
    let saved = baseline.map(|baseline| {
        let ratio = (mean_log(&ratios) - mean_log(&baseline)).exp();
        format!("{} than {BASELINE} on average, ", less_or_more(ratio, 1.0))
    });
    Some(format!(
        "over all {places} {over} {name} is the one to take: {}at most {:.1} % above the best of each",
        saved.unwrap_or_default(),
        100.0 * (worst - 1.0)
    ))
}

/// A policy's bills over the least of each place; nothing where one is missing.
fn above_least(blocks: &[Block], policy: usize) -> Option<Vec<f64>> {
    let mut ratios = Vec::new();
    for &block in blocks {
        for (size, record) in block.rows().nth(policy)?.iter().enumerate() {
            let record = record.as_ref().filter(|record| !record.failed)?;
            let least = least(block, size);
            if least > 0.0 {
                ratios.push(record.cost / least);
            }
        }
    }
    (!ratios.is_empty()).then_some(ratios)
}

fn mean_log(ratios: &[f64]) -> f64 {
    ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64
}

pub(crate) fn less_or_more(value: f64, baseline: f64) -> String {
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
        joules_per_reference,
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
    if report.idle_seconds > 0.0 {
        row("device idle", format!("{:.3} s", report.idle_seconds));
    }
    row(
        "energy",
        match &report.energy {
            Some(energy) => format!(
                "{:.4} J: reads {:.4}, programs {:.4}, erases {:.4}, idle {:.4}",
                energy.total_j, energy.read_j, energy.program_j, energy.erase_j, energy.idle_j
            ),
            None => "not known: the chip states no power".into(),
        },
    );
    if let Some(joules) = joules_per_reference {
        row("energy per reference", millijoules(*joules));
    }
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
    row(
        "asymmetry",
        match result.asymmetry_changes {
            Some(changes) => format!("{} at first, then {changes}", rounded(record.asymmetry.0)),
            None => rounded(record.asymmetry.0),
        },
    );
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
    if let Some(joules) = record.joules_per_reference {
        row("energy per reference", millijoules(joules));
    }
    if let Some(energy) = &result.energy {
        row(
            "energy of the device",
            format!("{:.3} J", energy.device_j()),
        );
        if let Some(host_j) = energy.host_j() {
            row("energy of the host", format!("{host_j:.3} J"));
        }
    }
    if let Some(idle) = result.device_idle_seconds.filter(|idle| *idle > 0.0) {
        row("device idle", format!("{idle:.3} s"));
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
    if record.padding_reads > 0 {
        row("padding reads", record.padding_reads.to_string());
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
