//! Curves as tables.

use std::fmt::Write;

use ebbpool_lab::curve::{CleanPoolCurve, CurveStudy, TargetFigure};
use ebbpool_lab::numbers::{bytes, digits, rounded};
use ebbpool_sim::{Errors, Estimate};

use crate::table::{add_row, finish, plain};

/// The number of policies that fit side by side into 80 columns, beside the sizes.
const POLICIES_ACROSS: usize = 3;

/// Tables with a row for each size and a column for each policy, and the answer in a sentence.
pub(super) fn of_study(study: &CurveStudy) -> String {
    let mut text = study.title();
    let _ = writeln!(text, "\n{}", legend(study));
    let bill = format!("bill per reference in page reads, R = {}", rounded(study.asymmetry.ratio()));
    text.push_str(&table(study, TargetFigure::Bill, &bill, |errors| errors.cost));
    // With many policies only the bill is shown, to keep the output short.
    if study.policies.len() <= POLICIES_ACROSS {
        text.push_str(&table(study, TargetFigure::Reads, "page reads", |errors| errors.reads));
        text.push_str(&table(study, TargetFigure::Writes, "page writes", |errors| errors.writes));
    }
    if let Some(split) = &study.clean_pools {
        text.push_str(&of_split(study, split));
    }
    let _ = writeln!(text, "\n{}", sampled(study));
    if let Some(line) = on_all_pages(study) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(end) = study.sentence_on_end() {
        let _ = writeln!(text, "{end}");
    }
    let _ = writeln!(text, "{}", study.sentence());
    text
}

/// What the signs in the tables mean.
fn legend(study: &CurveStudy) -> &'static str {
    let mut estimates = study.estimates.iter().flatten();
    match estimates.any(|estimate| !estimate.sample.is_all()) {
        true => "± is the error of a sampled figure in per cent; * is the least bill",
        false => "* is the least bill",
    }
}

fn table(study: &CurveStudy, figure: TargetFigure, title: &str, error: impl Fn(&Errors) -> Option<f64>) -> String {
    let mut text = String::new();
    let references = study.lru.references();
    let value = |estimate: &Estimate| figure.value(estimate.traffic, references, study.asymmetry);
    let column: Vec<usize> = (0..study.policies.len()).collect();
    for group in column.chunks(POLICIES_ACROSS) {
        let mut table = plain();
        let page_size = study.metadata.page_size;
        let mut header = vec!["frames".to_string(), String::new()];
        header.extend(page_size.map(|_| "memory".to_string()));
        header.extend(group.iter().map(|&at| format!("{}        ", study.policies[at])));
        add_row(&mut table, header);
        for (row, &frames) in study.sizes.iter().enumerate() {
            let estimates = study.estimates.iter().filter_map(|estimates| estimates.get(row));
            let least = estimates.map(value).fold(f64::INFINITY, f64::min);
            let mut cells = vec![frames.to_string(), study.share(frames)];
            cells.extend(bytes(frames, page_size).map(|bytes| bytes.to_string()));
            cells.extend(group.iter().map(|&at| {
                let Some(estimate) = study.estimates[at].get(row) else {
                    return String::new();
                };
                let value = value(estimate);
                let mark = match figure == TargetFigure::Bill && value <= least {
                    true => "*",
                    false => " ",
                };
                let figures = match figure {
                    TargetFigure::Bill => digits(value),
                    TargetFigure::Reads | TargetFigure::Writes => format!("{value:.0}"),
                };
                let error = estimate.errors.as_ref().and_then(&error);
                let error = error.map_or(String::new(), |error| format!("±{:.1}", 100.0 * error));
                format!("{figures}{mark} {error:>6}")
            }));
            add_row(&mut table, cells);
        }
        let _ = write!(text, "\n{title}\n{}", finish(table));
    }
    text
}

/// fd-static's bill by the size of its clean pool, as Two-Stack estimates it and in a run.
fn of_split(study: &CurveStudy, split: &CleanPoolCurve) -> String {
    let mut text =
        format!("\nfd-static with {}, by its clean pool: bill by Two-Stack and in a run\n", study.memory(split.frames));
    let mut table = plain();
    for pool in &split.pools {
        let (estimated, run) = (study.bill(pool.estimated), study.bill(pool.run.traffic));
        let off = match run > 0.0 {
            true => format!("{:+.1} %", 100.0 * (estimated / run - 1.0)),
            false => String::new(),
        };
        let share = 100.0 * pool.clean as f64 / split.frames as f64;
        add_row(&mut table, vec![format!("clean={}", pool.clean), format!("{share:.0}%"), digits(estimated), digits(run), off]);
    }
    text.push_str(&finish(table));
    text
}

/// A sentence on which figures are sampled.
fn sampled(study: &CurveStudy) -> String {
    let all = || study.estimates.iter().flatten();
    let sampled: Vec<&Estimate> = all().filter(|e| !e.sample.is_all()).collect();
    let largest = sampled.iter().filter_map(|estimate| estimate.errors.and_then(|errors| errors.cost)).fold(0.0, f64::max);
    match sampled.is_empty() {
        true => "all figures are exact".into(),
        false => format!(
            "{} of {} bills come from samples of {} % of the pages or more; their largest error is {:.1} %",
            sampled.len(),
            all().count(),
            rounded(100.0 * study.rate),
            100.0 * largest
        ),
    }
}

/// A sentence on the policies that ran on all pages although others are sampled.
fn on_all_pages(study: &CurveStudy) -> Option<String> {
    let policies = study.without_miniature();
    (!policies.is_empty())
        .then(|| format!("{} ran on all pages, since a sample does not estimate it without bias", policies.join(", ")))
}
