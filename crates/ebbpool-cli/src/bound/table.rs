//! Bounds as a table.

use std::fmt::Write;

use ebbpool_lab::BoundResult;
use ebbpool_lab::numbers::rounded;

use crate::table::{add_row, finish, plain};

/// A line for each bound.
pub(crate) fn of_bounds(answers: &[BoundResult]) -> String {
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
