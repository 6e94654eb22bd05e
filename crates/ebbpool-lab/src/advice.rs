//! The results of a comparison in sentences.

use ebbpool_policy::PolicySpec;

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
    let cheapest = |among_offline: bool| {
        let all = block.column(size);
        let all = all.filter(|result| among_offline || is_online(&result.policy));
        all.min_by(|a, b| a.cost.total_cmp(&b.cost))
    };
    let best = cheapest(false).or_else(|| cheapest(true));
    let Some(best) = best else {
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
            let rivals = || block.column(size).filter(|it| it.policy != BASELINE);
            let verdict = match rivals().any(|it| is_online(&it.policy)) {
                true if rivals().all(|it| is_online(&it.policy)) => {
                    format!("no policy costs less than {BASELINE}")
                }
                true => format!("no online policy costs less than {BASELINE}"),
                false => format!(
                    "the {} of {BASELINE} is {}",
                    unit.name,
                    in_unit(baseline.cost)
                ),
            };
            let offline = cheapest(true).filter(|it| it.cost < baseline.cost);
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
    let has_rivals = online(comparison).any(|(_, name)| name != BASELINE);
    if cells < 2 || comparison.policies.len() < 2 || !has_rivals || comparison.interrupted {
        return None;
    }
    let (name, ratios) = online(comparison)
        .filter_map(|(at, name)| Some((name, above_least(&blocks, at)?)))
        .min_by(|(_, a), (_, b)| mean_log(a).total_cmp(&mean_log(b)))?;
    let dimensions = match blocks.len() {
        1 => "sizes",
        _ => "sizes and asymmetries",
    };
    let baseline = comparison.policies.iter().position(|it| it == BASELINE);
    let baseline = baseline.and_then(|at| above_least(&blocks, at));
    if let Some(baseline) = baseline.as_deref()
        && mean_log(baseline) <= mean_log(&ratios)
    {
        let no_policy = match online(comparison).count() == comparison.policies.len() {
            true => "no policy",
            false => "no online policy",
        };
        return Some(format!(
            "over all {cells} {dimensions} {no_policy} costs less than {BASELINE} on average"
        ));
    }
    let worst = ratios.iter().copied().fold(1.0, f64::max);
    let above_the_best = match worst {
        1.0 => "the best of each".into(),
        _ => format!(
            "at most {:.1} % above the best of each",
            100.0 * (worst - 1.0)
        ),
    };
    let saved = baseline.map(|baseline| {
        let ratio = (mean_log(&ratios) - mean_log(&baseline)).exp();
        format!("{} than {BASELINE} on average, ", less_or_more(ratio, 1.0))
    });
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
    let ratios = |policy: usize| {
        above(&blocks, policy, |block, size| {
            let results = block.rows().nth(informed)?.get(size)?.as_ref();
            results
                .filter(|result| result.failed.is_none())
                .map(|result| result.cost)
        })
    };
    let (name, ratios) = online(comparison)
        .filter_map(|(at, name)| Some((name, ratios(at)?)))
        .min_by(|(_, a), (_, b)| mean_log(a).total_cmp(&mean_log(b)))?;
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

/// The online policies, with their indices.
fn online(comparison: &Comparison) -> impl Iterator<Item = (usize, &String)> {
    let policies = comparison.policies.iter().enumerate();
    policies.filter(|(_, name)| is_online(name))
}

/// True if a policy does not know the future; also of a guest.
pub(crate) fn is_online(policy: &str) -> bool {
    let spec: Option<PolicySpec> = policy.parse().ok();
    spec.is_none_or(|spec| spec.online())
}

/// A policy's bills over the least bill of each size and price; `None` if a bill is missing.
fn above_least(blocks: &[PriceBlock], policy: usize) -> Option<Vec<f64>> {
    above(blocks, policy, |block, size| Some(block.least(size)))
}

/// A policy's bills over another bill of the same price and size; `None` if one of them is missing.
fn above(
    blocks: &[PriceBlock],
    policy: usize,
    other: impl Fn(PriceBlock, usize) -> Option<f64>,
) -> Option<Vec<f64>> {
    let mut ratios = Vec::new();
    for &block in blocks {
        for (size, result) in block.rows().nth(policy)?.iter().enumerate() {
            let result = result.as_ref().filter(|result| result.failed.is_none())?;
            let other = other(block, size)?;
            if other > 0.0 {
                ratios.push(result.cost / other);
            }
        }
    }
    (!ratios.is_empty()).then_some(ratios)
}

fn mean_log(ratios: &[f64]) -> f64 {
    ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64
}
