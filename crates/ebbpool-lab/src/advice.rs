//! The results of a comparison in sentences.

use crate::best::{BestPolicy, Bills};
use crate::compare::{Comparison, PriceBlock};
use crate::numbers::{self, digits, less_or_more};
use crate::policy_selection::BASELINE;

/// FD-Buffer's default asymmetry and size. The sentence uses them if the comparison has them.
const USUAL_ASYMMETRY: f64 = 32.0;

/// The policy that knows the probabilities of references.
const INFORMED: &str = "informed";

/// The result in a sentence, at FD-Buffer's default asymmetry and size if the comparison has them. It is on the best
/// online policy, if there is one.
pub fn sentence(comparison: &Comparison) -> String {
    let blocks: Vec<PriceBlock> = comparison.blocks().collect();
    let usual = blocks.iter().find(|block| {
        block.pricing.changing.is_none() && block.pricing.asymmetry.ratio() == USUAL_ASYMMETRY
    });
    let Some(block) = usual.or(blocks.last()) else {
        return String::new();
    };
    let size = comparison.usual_size();
    let cell = comparison.bills(&[*block]).swap_remove(size);
    let Some(best) = best_of(comparison, &[cell]) else {
        return String::new();
    };
    let row = block.rows().nth(best.policy);
    let Some(best) = row.and_then(|row| row[size]) else {
        return String::new();
    };
    let memory = comparison.memory(size);
    let so_far = match comparison.interrupted {
        true => "so far, ",
        false => "",
    };
    let conditions = match &block.pricing.device_name {
        Some(_) => format!("{so_far}on this device and with {memory}"),
        None => format!("{so_far}at R={} and {memory}", block.pricing.label()),
    };
    let name = &best.policy;
    let unit = comparison.bill_unit();
    let in_unit = |bill: f64| format!("{} {} {}", digits(unit.factor * bill), unit.unit, unit.per);
    match block.baseline(size) {
        Some(baseline) if best.cost < baseline.cost => format!(
            "{conditions} {name} writes {} than {BASELINE} and costs {}",
            less_or_more(best.writes as f64, baseline.writes as f64),
            less_or_more(best.cost, baseline.cost),
        ),
        Some(baseline) => {
            let named = || comparison.policies.iter().zip(&comparison.online);
            let rivals = || named().filter(|(name, _)| *name != BASELINE);
            let verdict = match rivals().any(|(_, online)| *online) {
                true if rivals().all(|(_, online)| *online) => {
                    format!("no policy costs less than {BASELINE}")
                }
                true => format!("no online policy costs less than {BASELINE}"),
                false => format!(
                    "the {} of {BASELINE} is {}",
                    unit.name,
                    in_unit(baseline.cost)
                ),
            };
            let cheapest = block.column(size).min_by(|a, b| a.cost.total_cmp(&b.cost));
            let offline = cheapest.filter(|it| it.cost < baseline.cost);
            let offline = offline.map(|it| {
                let (name, costs) = (&it.policy, less_or_more(it.cost, baseline.cost));
                format!("; {name}, which knows {}, costs {costs}", foresight(name))
            });
            format!("{conditions} {verdict}{}", offline.unwrap_or_default())
        }
        None => format!(
            "{conditions} {name} has the smallest {}, {}",
            unit.name,
            in_unit(best.cost)
        ),
    }
}

/// What a policy that is not online knows.
fn foresight(policy: &str) -> &'static str {
    match policy {
        INFORMED => "the probabilities of references",
        _ => "the future",
    }
}

/// The policy to use if sizes and asymmetries are not known beforehand: the online one whose bills have the least
/// geometric mean. `None` for a single size and asymmetry, for a single policy, or without an online policy beside the baseline.
pub fn advice(comparison: &Comparison) -> Option<String> {
    let blocks: Vec<PriceBlock> = comparison.blocks().collect();
    let cells = blocks.len() * comparison.sizes.len();
    let has_rivals = (comparison.policies.iter().zip(&comparison.online))
        .any(|(name, online)| *online && name != BASELINE);
    if cells < 2 || comparison.policies.len() < 2 || !has_rivals || comparison.interrupted {
        return None;
    }
    let bills = comparison.bills(&blocks);
    let best = best_of(comparison, &bills)?;
    let name = &comparison.policies[best.policy];
    let dimensions = match blocks.len() {
        1 => "sizes",
        _ => "sizes and asymmetries",
    };
    let baseline = comparison.policies.iter().position(|it| it == BASELINE);
    // What it saves against the baseline, over the cells in which both have a bill.
    let saved = baseline.and_then(|baseline| mean_ratio(&bills, best.policy, baseline));
    if saved.is_some_and(|saved| saved >= 1.0) {
        let no_policy = match comparison.online.iter().all(|online| *online) {
            true => "no policy",
            false => "no online policy",
        };
        return Some(format!(
            "over all {cells} {dimensions} {no_policy} costs less than {BASELINE} on average"
        ));
    }
    let worst = best.above_least.iter().copied().fold(1.0, f64::max);
    let above_the_best = match worst {
        1.0 => "the best of each".into(),
        _ => format!(
            "at most {:.1} % above the best of each",
            100.0 * (worst - 1.0)
        ),
    };
    let saved =
        saved.map(|ratio| format!("{} than {BASELINE} on average, ", less_or_more(ratio, 1.0)));
    Some(format!(
        "over all {cells} {dimensions} {name} is the one to take: {}{above_the_best}",
        saved.unwrap_or_default(),
    ))
}

/// How far the best online policy is from `informed`, which knows the probabilities of references, over all sizes and
/// prices: the one whose bills have the least geometric mean. `None` without both.
pub fn distance_to_informed(comparison: &Comparison) -> Option<String> {
    let blocks: Vec<PriceBlock> = comparison.blocks().collect();
    let is_informed = |policy: &String| policy == INFORMED;
    let informed = comparison.policies.iter().position(is_informed)?;
    let bills = comparison.bills(&blocks);
    let best = best_of(comparison, &bills).filter(|best| comparison.online[best.policy])?;
    let name = &comparison.policies[best.policy];
    let ratios: Vec<f64> = ratios(&bills, best.policy, informed)?;
    let times = |ratio: f64| numbers::decimals(ratio, 3);
    let on_average = times(mean_log(&ratios).exp());
    let times = match ratios.len() {
        1 => on_average,
        _ => {
            let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            format!("on average {on_average} and at most {}", times(most))
        }
    };
    Some(format!(
        "{name}, the best online policy here, costs {times} times as much as {INFORMED}, which knows the probabilities of references"
    ))
}

fn best_of(comparison: &Comparison, cells: &[Vec<Option<f64>>]) -> Option<BestPolicy> {
    let online = &comparison.online;
    Bills { online, cells }.best()
}

/// A policy's bills over those of another, which are not 0; `None` if one of them is missing, or there is none.
fn ratios(cells: &[Vec<Option<f64>>], policy: usize, other: usize) -> Option<Vec<f64>> {
    let both = cells.iter().map(|cell| Some((cell[policy]?, cell[other]?)));
    let both: Vec<(f64, f64)> = both.collect::<Option<_>>()?;
    let ratios = both.into_iter().filter(|&(_, other)| other > 0.0);
    let ratios: Vec<f64> = ratios.map(|(bill, other)| bill / other).collect();
    (!ratios.is_empty()).then_some(ratios)
}

fn mean_ratio(cells: &[Vec<Option<f64>>], policy: usize, other: usize) -> Option<f64> {
    Some(mean_log(&ratios(cells, policy, other)?).exp())
}

fn mean_log(ratios: &[f64]) -> f64 {
    ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64
}
