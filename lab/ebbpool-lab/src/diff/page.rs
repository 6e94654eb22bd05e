//! A comparison of results as a page of HTML, with its tables tinted by the size of each change.

use std::collections::BTreeMap;
use std::io::Write;

use ebbpool_trace::output::OutputFile;
use maud::{Markup, html};
use serde_json::Value;

use super::file::plain_text;
use super::numbers::{percent, shown};
use super::sentence::{sentence, words};
use super::{FigureChange, ResultDiff};
use crate::error::LabError;
use crate::report::{hash, html as shell};

const STYLE: &str = include_str!("page.css");

/// The sizes up to which a change has the tints 1 to 4; larger ones have tint 5.
const TINTS: [f64; 4] = [0.01, 0.05, 0.2, 0.5];

/// Writes the page and puts it in its place.
///
/// # Errors
///
/// [`LabError::Output`] if the file cannot be written.
pub fn write(mut out: OutputFile, diff: &ResultDiff) -> Result<(), LabError> {
    let label = out.label().to_string();
    out.write_all(page(diff).as_bytes()).map_err(|source| LabError::Output { what: format!("the report: {label}"), source })?;
    out.finish()?;
    Ok(())
}

/// The page. It has no script and loads nothing.
pub fn page(diff: &ResultDiff) -> String {
    let style = shell::style_sheet(STYLE);
    let policy = format!("default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'none'", hash(&style));
    let (principal, rest): (Vec<_>, Vec<_>) = diff.changes.iter().partition(|change| change.is_principal());
    let body = html! {
        header { h1 { "Ebbpool " span { "diff" } } }
        main {
            p.answer { (sentence(diff)) }
            (files(diff))
            @if !diff.in_all.is_empty() { (in_all(diff)) }
            @if !principal.is_empty() {
                section {
                    h2 { "Changes, the largest first" }
                    (table(diff, &principal))
                    (key())
                }
            }
            @if !rest.is_empty() {
                section {
                    details {
                        summary { (rest.len()) " figures that follow from others, or differ within noise" }
                        (table(diff, &rest))
                    }
                }
            }
            (only(diff, &diff.before, &diff.only_before))
            (only(diff, &diff.after, &diff.only_after))
        }
        footer {
            p {
                "Counts are compared exactly, fractions beyond rounding. Measured figures count as changed from a \
                 difference of " (percent(diff.noise).trim_start_matches('+')) " on. Ebbpool "
                (env!("CARGO_PKG_VERSION"))
            }
        }
    };
    shell::document("Ebbpool diff", Some(&policy), &style, body)
}

fn files(diff: &ResultDiff) -> Markup {
    html! {
        dl.files {
            dt { "before" } dd { (diff.before) }
            dt { "after" } dd { (diff.after) }
            dt { "command" } dd { code { "ebbpool " (diff.command) } }
        }
    }
}

fn in_all(diff: &ResultDiff) -> Markup {
    html! {
        section {
            h2 { "In all results" }
            div.scroll tabindex="0" role="region" aria-label="In all results" {
                table {
                    thead { tr { th { "field" } th { "before" } th { "after" } } }
                    tbody {
                        @for change in &diff.in_all {
                            tr {
                                th { (change.field) }
                                td { (whole(&change.before)) }
                                td { (whole(&change.after)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn table(diff: &ResultDiff, changes: &[&FigureChange]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Changes" {
            table {
                thead {
                    tr {
                        @for name in &diff.keys { th { (name) } }
                        th { "field" }
                        th.number { "before" }
                        th.number { "after" }
                        th.number { "change" }
                    }
                }
                tbody {
                    @for change in changes { (row(diff, change)) }
                }
            }
        }
    }
}

fn row(diff: &ResultDiff, change: &FigureChange) -> Markup {
    let by = match (change.relative, change.within_noise) {
        (Some(relative), true) => format!("{}, noise", percent(relative)),
        (Some(relative), false) => percent(relative),
        (None, _) => String::new(),
    };
    html! {
        tr {
            @for name in &diff.keys {
                td { (change.key.get(name).map_or(String::new(), whole)) }
            }
            th {
                (change.field)
                @if !change.unit.is_empty() { span.unit { (change.unit) } }
            }
            td.number title=(whole(&change.before)) { (shown(&change.before)) }
            td.number title=(whole(&change.after)) { (shown(&change.after)) }
            td class=(format!("number {}", tint(change))) { (by) }
        }
    }
}

/// A value in full.
fn whole(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        value => plain_text(value),
    }
}

/// The class of a change's colour and that of its strength.
fn tint(change: &FigureChange) -> String {
    let direction = match change.difference {
        Some(difference) if difference < 0.0 => "less",
        Some(_) => "more",
        None => "other",
    };
    let step = TINTS.iter().filter(|limit| change.size > **limit).count() + 1;
    format!("{direction} t{step}")
}

/// What the tints stand for.
fn key() -> Markup {
    html! {
        p.key {
            span.less.t3 { "less" }
            span.more.t3 { "more" }
            span.other.t3 { "no number" }
            "the stronger the tint, the larger the change: up to 1, 5, 20 and 50 %, and more, of the larger figure"
        }
    }
}

/// The results that only one file has.
fn only(diff: &ResultDiff, file: &str, keys: &[BTreeMap<String, Value>]) -> Markup {
    html! {
        @if !keys.is_empty() {
            section {
                details open[keys.len() <= 20] {
                    summary { (keys.len()) " results only in " (file) }
                    ul { @for key in keys { li { (words(diff, key)) } } }
                }
            }
        }
    }
}
