//! The results as a Markdown table.

use super::Setting;
use super::plan::StorageKind;
use super::workload::{Measured, Workload};
use crate::measure::median;

/// Prints the head of the table.
pub fn head() {
    println!(
        "| storage | policy | workload | threads | setting | fixes/s | of no budget | CPU per fix, µs | p50, µs | p99, µs | p99.9, µs | \
         max, µs | pages written per fix | waited for a write | delayed |"
    );
    println!("| --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
}

/// Prints a row for each role and setting: medians over the rounds. The column `of no budget` has the median of the
/// rounds' ratios.
pub fn rows(storage: StorageKind, policy: &str, workload: Workload, rounds: &[[Measured; 2]]) {
    let roles = rounds.first().map_or(0, |round| round[0].groups.len());
    for role in 0..roles {
        let per_second = |run: &Measured| run.groups[role].times.len() as f64 / run.seconds;
        for (at, setting) in Setting::ALL.into_iter().enumerate() {
            let over_rounds = |figure: &dyn Fn(&[Measured; 2]) -> f64| {
                let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
                median(&mut figures)
            };
            let quantile = |share| over_rounds(&|round| round[at].groups[role].quantile(share));
            println!(
                "| {} | {policy} | {} | {} | {} | {:.0} | {:.2} | {:.2} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.3} | {:.3} |",
                storage.name(),
                workload.name(),
                rounds[0][at].groups[role].role.name(),
                setting.name(),
                over_rounds(&|round| per_second(&round[at])),
                over_rounds(&|round| per_second(&round[at]) / per_second(&round[1])),
                over_rounds(&|round| round[at].cpu * 1e6 / round[at].fixes() as f64),
                quantile(0.5),
                quantile(0.99),
                quantile(0.999),
                quantile(1.0),
                over_rounds(&|round| round[at].written as f64 / round[at].fixes() as f64),
                over_rounds(&|round| round[at].waits as f64 / round[at].fixes() as f64),
                over_rounds(&|round| round[at].delays as f64 / round[at].fixes() as f64),
            );
        }
    }
}
