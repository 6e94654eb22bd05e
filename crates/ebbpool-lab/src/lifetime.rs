//! How long policies let a simulated flash device live, one against the other.
//!
//! Every page programmed brings its block nearer to the next erase, so at the same work the device on
//! which half as many pages are programmed lives twice as long. In a steady state these are the host
//! bytes times write amplification, as in the model's own lifetime. Blocks erased so far would favour
//! policies under which a new device has only begun to run out of erased blocks.

use std::cmp::Ordering;

use ebbpool_device::flash::Report;
use ebbpool_sim::Row;

use crate::compare::Comparison;
use crate::policy_selection::BASELINE;

/// What the flash model counted of a result.
pub fn report(row: &Row) -> Option<&Report> {
    row.device.as_ref()?.flash.as_ref()
}

fn failed(row: &Row) -> Option<&str> {
    row.device.as_ref()?.failed.as_deref()
}

/// Pages programmed per counted reference; nothing of a device that failed, whose last requests were
/// refused.
fn programs_per_reference(row: &Row) -> Option<f64> {
    let programs = report(row).filter(|_| failed(row).is_none())?.programs;
    Some(programs as f64 / row.counts.references as f64)
}

fn by_programs(a: &&Row, b: &&Row) -> Ordering {
    let [a, b] = [a, b].map(|row| programs_per_reference(row).unwrap_or(f64::INFINITY));
    a.total_cmp(&b)
}

/// The results with one memory size on a flash device.
struct Lives<'a> {
    rows: Vec<&'a Row>,
    /// Whose device the others are compared with: that of the baseline policy, or where it was not
    /// asked for the one with most pages programmed. Nothing if there is none yet.
    against: Option<&'a Row>,
}

impl<'a> Lives<'a> {
    fn of(comparison: &'a Comparison, size: usize) -> Self {
        let rows: Vec<&Row> = comparison
            .rows
            .iter()
            .filter(|row| row.size == size && report(row).is_some())
            .collect();
        let baseline = comparison.policies.iter().position(|name| name == BASELINE);
        let against = match baseline {
            Some(baseline) => rows.iter().find(|row| row.policy == baseline),
            None => rows
                .iter()
                .filter(|row| failed(row).is_none())
                .max_by(|a, b| by_programs(a, b)),
        };
        Lives {
            against: against.copied(),
            rows,
        }
    }

    /// The life of a result's device in that of the one compared with; nothing where one of the two
    /// failed or programmed no page.
    fn longer(&self, row: &Row) -> Option<f64> {
        let against = programs_per_reference(self.against?).filter(|programs| *programs > 0.0)?;
        let own = programs_per_reference(row).filter(|programs| *programs > 0.0)?;
        Some(against / own)
    }
}

/// The life of each result's device in that of the baseline policy's with the same memory, or of the
/// one worn most where that policy was not run; in the order of the rows.
pub fn lives(comparison: &Comparison) -> Vec<Option<f64>> {
    let by_size: Vec<Lives> = (0..comparison.sizes.len())
        .map(|size| Lives::of(comparison, size))
        .collect();
    let rows = comparison.rows.iter();
    rows.map(|row| by_size[row.size].longer(row)).collect()
}

/// Whose device lives are compared with, in words.
pub fn compared_with(comparison: &Comparison) -> &'static str {
    match comparison.policies.iter().any(|name| name == BASELINE) {
        true => BASELINE,
        false => "the worst",
    }
}

/// Which policy lets the device live longest with the memory of that index, called `memory` in the
/// text; nothing where there is no flash device.
pub fn sentence(comparison: &Comparison, size: usize, memory: &str) -> Option<String> {
    let lives = Lives::of(comparison, size);
    let name = |row: &Row| comparison.policies[row.policy].as_str();
    // Where no device lasted, any of them tells why.
    let first = lives.against.or(lives.rows.first().copied())?;
    if let Some(failed) = failed(first) {
        return Some(format!(
            "at {memory} lifetimes cannot be compared: under {} {failed}",
            name(first)
        ));
    }
    let against = lives.against?;
    let base = name(against);
    let others = lives.rows.iter().filter(|row| row.policy != against.policy);
    let others = others.filter(|row| failed(row).is_none());
    let best = *others.min_by(|a, b| by_programs(a, b))?;
    let best_name = name(best);
    let answer = match lives.longer(best) {
        None => format!("at {memory} {best_name} wrote nothing to this device"),
        // As it would be written, 1.0 times.
        Some(times) if times < 1.05 => {
            format!("at {memory} no policy makes this device live longer than {base}")
        }
        Some(times) => format!(
            "at {memory} {best_name} makes this device live {times:.1} times as long as {base}"
        ),
    };
    let unsteady = [against, best]
        .into_iter()
        .find_map(|row| Some((name(row), report(row)?.not_steady.as_ref()?)));
    Some(match unsteady {
        None => answer,
        Some((policy, reason)) => format!(
            "{answer}, going by the pages programmed so far: {policy} has not reached a steady state ({reason})"
        ),
    })
}
