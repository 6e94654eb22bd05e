//! Bounds as a table.

use std::fmt::Write;

use ebbpool_lab::BoundResult;
use ebbpool_lab::numbers::{decimals, pages_and_bytes, rounded};

use crate::table::{add_row, finish, plain};

/// A table with one line per bound.
pub(crate) fn of_bounds(bounds: &[BoundResult]) -> String {
    let mut text = String::new();
    if let Some(bound) = bounds.first() {
        let _ = writeln!(
            text,
            "{}: {} references; bill per reference in page reads, dirty pages at the end {}",
            bound.trace,
            bound.references,
            match bound.at_end {
                "flush" => "written",
                _ => "free",
            }
        );
    }
    let mut table = plain();
    let header = ["R", "frames", "no policy below", "clairvoyant", "by", "gap", "seconds"];
    add_row(&mut table, header.map(String::from).into());
    for bound in bounds {
        let unknown = || "-".to_string();
        let cells = vec![
            rounded(bound.asymmetry.0),
            pages_and_bytes(bound.frames, bound.page_size),
            decimals(bound.lower_bound, 6),
            bound.heuristic.map_or_else(unknown, |bill| decimals(bill, 6)),
            bound.heuristic_policy.map_or_else(unknown, String::from),
            bound.gap.map_or_else(unknown, |gap| format!("{:.3} %", 100.0 * gap)),
            format!("{:.1}", bound.seconds),
        ];
        add_row(&mut table, cells);
    }
    let _ = write!(text, "\n{}", finish(table));
    text
}
