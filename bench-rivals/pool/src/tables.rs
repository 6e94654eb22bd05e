//! What is printed.

use crate::measure::{Measured, Spread};

/// What is compared: the rows, and the ratio that they should not exceed.
const BARS: [(&str, &str, f64); 7] = [
    ("lru, hashed, read fix", "lru, dense, read fix", 1.25),
    ("ebb, hashed, read fix", "ebb, dense, read fix", 1.25),
    ("casa, hashed, read fix", "casa, dense, read fix", 1.25),
    ("lru, dense, read fix", "array", 2.0),
    ("lru, dense, read fix, prefetched", "array", 2.0),
    ("lru, hashed, read fix", "quick_cache of frame numbers", 1.0),
    (
        "lru, hashed, read fix, prefetched",
        "quick_cache of frame numbers",
        1.0,
    ),
];

/// Prints nanoseconds for each rival, and how often the time of one fits into that of another.
pub fn print(measured: &[Measured]) {
    println!("| | promises | 1 thread | 2 threads |");
    println!("| --- | --- | --- | --- |");
    for rival in measured {
        let (name, promises) = (&rival.name, rival.promises);
        let name = match name.strip_prefix("Ebbpool ") {
            Some(rest) => format!("**Ebbpool** {rest}"),
            None => name.clone(),
        };
        println!("| {name} | {promises} | {} |", cells(rival.times(), 0));
    }
    let found = |name: &str| {
        let name = format!("Ebbpool {name}");
        let ours = measured.iter().find(|it| it.name == name);
        ours.or_else(|| measured.iter().find(|it| name.ends_with(&it.name)))
    };
    let bars = BARS.iter().filter_map(|&(one, other, bar)| {
        let ratios = found(one)?.times_of(found(other)?);
        Some(format!(
            "| {one} | {other} | {bar} | {} |",
            cells(ratios, 2)
        ))
    });
    let bars: Vec<String> = bars.collect();
    if !bars.is_empty() {
        println!("\n| | in units of | should be at most | 1 thread | 2 threads |");
        println!("| --- | --- | --- | --- | --- |");
        println!("{}", bars.join("\n"));
    }
}

/// The cells of a row, by number of threads.
fn cells(spreads: Vec<Spread>, decimals: usize) -> String {
    let cell = |spread: Spread| {
        let Spread {
            median,
            lowest,
            highest,
        } = spread;
        format!("{median:.decimals$} ({lowest:.decimals$} to {highest:.decimals$})")
    };
    let cells: Vec<String> = spreads.into_iter().map(cell).collect();
    cells.join(" | ")
}
