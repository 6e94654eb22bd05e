//! What is printed.

use crate::measure::{Measured, Spread};

/// How the names of the pool's rows begin.
const OURS: &str = "Ebbpool ";

/// What is compared: the rows, and the ratio that they should not exceed.
const BARS: [(&str, &str, f64); 7] = [
    (LRU_HASHED, LRU_DENSE, 1.25),
    ("Ebbpool ebb, hashed, read fix", "Ebbpool ebb, dense, read fix", 1.25),
    ("Ebbpool casa, hashed, read fix", "Ebbpool casa, dense, read fix", 1.25),
    (LRU_DENSE, "array", 2.0),
    ("Ebbpool lru, dense, read fix, prefetched", "array", 2.0),
    (LRU_HASHED, QUICK_CACHE, 1.0),
    ("Ebbpool lru, hashed, read fix, prefetched", QUICK_CACHE, 1.0),
];

const LRU_HASHED: &str = "Ebbpool lru, hashed, read fix";
const LRU_DENSE: &str = "Ebbpool lru, dense, read fix";
const QUICK_CACHE: &str = "quick_cache of frame numbers";

/// Prints nanoseconds for each rival, and how often the time of one fits into that of another.
pub fn print(measured: &[Measured]) {
    println!("| | promises | 1 thread | 2 threads |");
    println!("| --- | --- | --- | --- |");
    for rival in measured {
        let (name, promises) = (&rival.name, rival.promises);
        let name = match name.strip_prefix(OURS) {
            Some(rest) => format!("**Ebbpool** {rest}"),
            None => name.clone(),
        };
        println!("| {name} | {promises} | {} |", cells(rival.times(), 0));
    }
    let found = |name: &str| measured.iter().find(|it| it.name == name);
    let bars = BARS.iter().filter_map(|&(one, other, bar)| {
        let ratios = found(one)?.times_of(found(other)?);
        let [one, other] = [one, other].map(|name| name.strip_prefix(OURS).unwrap_or(name));
        Some(format!("| {one} | {other} | {bar} | {} |", cells(ratios, 2)))
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
        let Spread { median, lowest, highest } = spread;
        format!("{median:.decimals$} ({lowest:.decimals$} to {highest:.decimals$})")
    };
    let cells: Vec<String> = spreads.into_iter().map(cell).collect();
    cells.join(" | ")
}
