//! A comparison of two results as a table.

use std::fmt::Write;

use ebbpool_lab::diff::{FigureChange, ResultDiff, percent, sentence, shown, words};
use serde_json::Value;

use crate::table::{add_row, finish, finish_left, plain};

/// The columns of a terminal.
const COLUMNS: usize = 80;

/// Changes that fit a screen together with the sentence.
const MOST_CHANGES: usize = 12;

/// Results of one file that are listed.
const MOST_RESULTS: usize = 5;

/// The sentence, what changed in all results, and the largest changes; with `all` all of them.
pub(super) fn of_diff(diff: &ResultDiff, all: bool) -> String {
    let mut text = textwrap::fill(&sentence(diff), COLUMNS);
    text.push('\n');
    let _ = writeln!(text, "measured figures count as changed from a difference of {} % on", 100.0 * diff.noise);
    if !diff.in_all.is_empty() {
        let mut table = plain();
        for change in &diff.in_all {
            let cell = |value: &Value| shown(value);
            let (before, after) = (cell(&change.before), cell(&change.after));
            let cells = vec![change.field.clone(), format!("{before} -> {after}")];
            add_row(&mut table, cells);
        }
        let _ = write!(text, "\nin all results\n{}", finish_left(table));
    }
    text += &of_changes(diff, all);
    let lists = [(&diff.only_before, &diff.before), (&diff.only_after, &diff.after)];
    for (keys, file) in lists {
        if keys.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\nonly in {file}");
        let most = if all { keys.len() } else { MOST_RESULTS };
        for key in keys.iter().take(most) {
            let _ = writeln!(text, "  {}", words(diff, key));
        }
        if keys.len() > most {
            let _ = writeln!(text, "  and {} more; --all lists them", keys.len() - most);
        }
    }
    text
}

fn of_changes(diff: &ResultDiff, all: bool) -> String {
    let shown_changes = diff.changes.iter();
    let shown_changes: Vec<&FigureChange> = shown_changes.filter(|change| all || change.is_principal()).collect();
    let hidden = diff.changes.len() - shown_changes.len();
    let most = if all { shown_changes.len() } else { MOST_CHANGES };
    let mut text = String::new();
    if !shown_changes.is_empty() {
        let mut table = plain();
        let heads = ["field", "before", "after", "change"].map(String::from);
        add_row(&mut table, diff.keys.iter().cloned().chain(heads).collect());
        for change in shown_changes.iter().take(most) {
            add_row(&mut table, row(diff, change));
        }
        let _ = write!(text, "\n{}", finish(table));
    }
    let cut = shown_changes.len().saturating_sub(most);
    let rest = match (cut, hidden) {
        (0, 0) => return text,
        (cut, 0) => format!("and {cut} more; --all shows them"),
        (0, hidden) => {
            format!("{hidden} more follow from others or are within noise; --all shows them")
        }
        (cut, hidden) => format!("and {cut} more, and {hidden} that follow from others or are within noise; --all shows them"),
    };
    let _ = writeln!(text, "{}", textwrap::fill(&rest, COLUMNS));
    text
}

fn row(diff: &ResultDiff, change: &FigureChange) -> Vec<String> {
    let key = |name: &String| change.key.get(name).map_or_else(|| "-".into(), shown);
    let mut cells: Vec<String> = diff.keys.iter().map(key).collect();
    let by = change.relative.map_or_else(String::new, percent);
    cells.extend([
        change.field.clone(),
        shown(&change.before),
        shown(&change.after),
        match change.within_noise {
            true => format!("{by} (noise)"),
            false => by,
        },
    ]);
    cells
}
