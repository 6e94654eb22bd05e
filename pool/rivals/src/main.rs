//! What fixing and unfixing a resident page costs, in Ebbpool and elsewhere, as Markdown tables.
//!
//! Arguments: how often everything is built anew (5), rounds with each (3), references a thread in each
//! (1000000), then words: only rivals whose name contains one of them. Hash tables, the pool's too, draw
//! another key each time they are built. With `throttle` as the first argument the program measures the
//! pool's dirty budget instead: see `throttle.rs`.

mod measure;
mod references;
mod rivals;
mod tables;
mod throttle;

use std::error::Error;
use std::str::FromStr;

use measure::Measured;
use rivals::Rival;

const PAGES: u32 = 100_000;
const ALPHA: f64 = 0.99;
const MOST_THREADS: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("throttle", rest)) = arguments.split_first().map(|(it, rest)| (it.as_str(), rest)) {
        return throttle::main(rest);
    }
    let mut arguments = arguments.into_iter();
    let builds: usize = number(arguments.next(), 5)?;
    let rounds: usize = number(arguments.next(), 3)?;
    let count: usize = number(arguments.next(), 1_000_000)?;
    let words: Vec<String> = arguments.collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let strings = (0..MOST_THREADS as u64)
        .map(|thread| references::zipf(PAGES, ALPHA, count, 100 + thread))
        .collect::<Result<Vec<_>, _>>()?;
    let mut measured = Vec::new();
    for _ in 0..builds {
        run(&rivals::all(PAGES, &wanted)?, &strings, rounds, &mut measured);
    }
    tables::print(&measured);
    Ok(())
}

fn number<T>(argument: Option<String>, otherwise: T) -> Result<T, Box<dyn Error>>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    match argument {
        None => Ok(otherwise),
        Some(text) => {
            text.parse().map_err(|error| format!("`{text}` is not a number of builds, rounds or references: {error}").into())
        }
    }
}

/// Measures each rival with each number of threads from 1 up. Rivals take turns, so that whatever else
/// the machine does hits them alike.
fn run(rivals: &[Box<dyn Rival>], strings: &[Vec<u32>], rounds: usize, measured: &mut Vec<Measured>) {
    if measured.is_empty() {
        measured.extend(rivals.iter().map(|rival| Measured::new(&**rival, strings.len())));
    }
    for measured in &mut *measured {
        measured.begin_build();
    }
    for round in 0..=rounds {
        for (rival, measured) in rivals.iter().zip(&mut *measured) {
            for threads in 1..=strings.len() {
                let ns = measure::cpu_ns_per_reference(&**rival, &strings[..threads]);
                // The first round warms up.
                if round > 0 {
                    measured.add(threads, ns);
                }
            }
        }
    }
}
