//! What fixing and unfixing a resident page costs, in Ebbpool and elsewhere, as a Markdown table.
//!
//! Arguments: rounds (7) and references a thread in each (1000000), then words: only rivals whose
//! name contains one of them. With `throttle` as the first argument the program measures the pool's
//! dirty budget instead: see `throttle/mod.rs`.

mod measure;
mod references;
mod rivals;
mod throttle;

use std::error::Error;
use std::str::FromStr;

use rivals::Rival;

const PAGES: u32 = 100_000;
const ALPHA: f64 = 0.99;
const MOST_THREADS: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("throttle", rest)) = arguments
        .split_first()
        .map(|(it, rest)| (it.as_str(), rest))
    {
        return throttle::main(rest);
    }
    let mut arguments = arguments.into_iter();
    let rounds: usize = number(arguments.next(), 7)?;
    let count: usize = number(arguments.next(), 1_000_000)?;
    let words: Vec<String> = arguments.collect();
    let mut rivals = rivals::all(PAGES)?;
    rivals.retain(|rival| {
        let name = rival.name();
        words.is_empty() || words.iter().any(|word| name.contains(word.as_str()))
    });
    let strings = (0..MOST_THREADS as u64)
        .map(|thread| references::zipf(PAGES, ALPHA, count, 100 + thread))
        .collect::<Result<Vec<_>, _>>()?;
    print(&rivals, run(&rivals, &strings, rounds));
    Ok(())
}

fn number<T>(argument: Option<String>, otherwise: T) -> Result<T, Box<dyn Error>>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    match argument {
        None => Ok(otherwise),
        Some(text) => text.parse().map_err(|error| {
            format!("`{text}` is not a number of rounds or references: {error}").into()
        }),
    }
}

/// For each rival and each number of threads from 1 up, what each round took. Rivals take turns, so
/// that whatever else the machine does hits them alike.
fn run(rivals: &[Box<dyn Rival>], strings: &[Vec<u32>], rounds: usize) -> Vec<Vec<Vec<f64>>> {
    let mut took = vec![vec![Vec::new(); strings.len()]; rivals.len()];
    for round in 0..=rounds {
        for (rival, took) in rivals.iter().zip(&mut took) {
            for (threads, took) in (1..).zip(took) {
                let ns = measure::cpu_ns_per_reference(&**rival, &strings[..threads]);
                // The first round warms up.
                if round > 0 {
                    took.push(ns);
                }
            }
        }
    }
    took
}

fn print(rivals: &[Box<dyn Rival>], took: Vec<Vec<Vec<f64>>>) {
    println!("| | promises | 1 thread | 2 threads |");
    println!("| --- | --- | --- | --- |");
    for (rival, took) in rivals.iter().zip(took) {
        let medians = took
            .into_iter()
            .map(|mut rounds| format!("{:.0}", measure::median(&mut rounds)));
        let cells: Vec<String> = medians.collect();
        println!(
            "| {} | {} | {} |",
            rival.name(),
            rival.promises(),
            cells.join(" | ")
        );
    }
}
