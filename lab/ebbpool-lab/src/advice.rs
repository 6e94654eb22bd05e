//! The results of a comparison in sentences.

use crate::best::{BestPolicy, BillCell, Bills, JudgedBills, cell_at, cells_of_one_trace, distinct_prices};
use crate::compare::{Comparison, PriceBlock};
use crate::dirty_end;
use crate::lifetime;
use crate::numbers::{self, cheaper_or_dearer, digits, less_or_more};
use crate::policy_selection::BASELINE;

/// FD-Buffer's default asymmetry and size. The sentence uses them if the comparison has them.
const USUAL_ASYMMETRY: f64 = 32.0;

/// The policy that knows the probabilities of references.
const INFORMED: &str = "informed";

/// The result in a sentence, at FD-Buffer's default asymmetry and size if the comparison has them. It is on the best
/// online policy, if there is one.
fn sentence(comparison: &Comparison) -> String {
    let blocks: Vec<PriceBlock> = comparison.blocks().collect();
    let usual =
        blocks.iter().position(|block| block.pricing.changing.is_none() && block.pricing.asymmetry.ratio() == USUAL_ASYMMETRY);
    let pricing = usual.unwrap_or(blocks.len().saturating_sub(1));
    let size = comparison.usual_size();
    let Some((block, cell)) = blocks.get(pricing).zip(cell_at(comparison, [pricing, size])) else {
        return String::new();
    };
    let Some(best) = judged(comparison, &[cell]).best() else {
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
                    format!("no policy is cheaper than {BASELINE}")
                }
                true => format!("no online policy is cheaper than {BASELINE}"),
                false => format!("the {} of {BASELINE} is {}", unit.name, in_unit(baseline.cost)),
            };
            let cheapest = block.column(size).min_by(|a, b| a.cost.total_cmp(&b.cost));
            let offline = cheapest.filter(|it| it.cost < baseline.cost);
            let offline = offline.map(|it| {
                let (name, costs) = (&it.policy, less_or_more(it.cost, baseline.cost));
                format!("; {name}, which knows {}, costs {costs}", foresight(name))
            });
            format!("{conditions} {verdict}{}", offline.unwrap_or_default())
        }
        None => format!("{conditions} {name} has the smallest {}, {}", unit.name, in_unit(best.cost)),
    }
}

/// What a policy that is not online knows.
fn foresight(policy: &str) -> &'static str {
    match policy {
        INFORMED => "the probabilities of references",
        _ => "the future",
    }
}

/// The policy to use if sizes and asymmetries are not known beforehand, and a sentence on it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recommendation {
    /// The policy; `None` where no policy is cheaper than the baseline.
    pub policy: Option<String>,
    /// The sentence.
    pub sentence: String,
}

/// The policy to use if sizes and asymmetries are not known beforehand: [`Bills::best`]. `None` for a single size and asymmetry,
/// for a single policy, or without an online policy beside the baseline.
fn recommendation(comparison: &Comparison) -> Option<Recommendation> {
    let cells = cells_of_one_trace(comparison);
    let has_rivals = (comparison.policies.iter().zip(&comparison.online)).any(|(name, online)| *online && name != BASELINE);
    if cells.len() < 2 || !has_rivals || comparison.interrupted || comparison.policies.len() < 2 {
        return None;
    }
    let bills = judged(comparison, &cells);
    let best = bills.best()?;
    let dimensions = match distinct_prices(comparison).len() {
        1 => "sizes",
        _ => "sizes and asymmetries",
    };
    let all = format!("all {} {dimensions}", cells.len());
    let left_out = match best.free {
        0 => String::new(),
        free if free == cells.len() => String::new(),
        free if best.above_free == 0 => {
            format!("; the average leaves out {free} in which it costs nothing")
        }
        free => format!("; the average leaves out {free} in which the least bill is 0"),
    };
    let baseline = comparison.policies.iter().position(|it| it == BASELINE);
    let is_as_good = |baseline: &usize| {
        bills.rivals.contains(baseline) && bills.standing(*baseline).is_at_most(&bills.standing(best.policy))
    };
    if baseline.as_ref().is_some_and(is_as_good) {
        let no_policy = match comparison.online.iter().all(|online| *online) {
            true => "no policy",
            false => "no online policy",
        };
        let sentence = format!("on average over {all}, {no_policy} is cheaper than {BASELINE}{left_out}");
        return Some(Recommendation { policy: None, sentence });
    }
    // What it saves against the baseline, if both have a bill in all cells.
    let ratio = baseline.and_then(|baseline| bills.mean_ratio(best.policy, baseline));
    let name = &comparison.policies[best.policy];
    let among = match comparison.online.iter().all(|online| *online) {
        true => "",
        false => "of the policies that can be built, ",
    };
    let sentence = format!("{among}{}{left_out}", best_choice(name, &all, &best, ratio));
    Some(Recommendation { policy: Some(name.clone()), sentence })
}

/// The policy to take, what it saves against the baseline on average, a ratio of bills, and how far it is above the best of each
/// cell.
pub(crate) fn best_choice(name: &str, all: &str, best: &BestPolicy, against_baseline: Option<f64>) -> String {
    let most = best.above_least.iter().copied().fold(1.0, f64::max);
    let average = match against_baseline {
        Some(ratio) => format!(", on average {} than {BASELINE}", cheaper_or_dearer(&less_or_more(ratio, 1.0))),
        None => String::new(),
    };
    let distance = match most {
        1.0 => "the cheapest".into(),
        _ => format!("at most {:.1} % above the cheapest", 100.0 * (most - 1.0)),
    };
    let and = if average.is_empty() { "" } else { "and " };
    match best.above_free {
        0 if most == 1.0 => format!("{name} is the cheapest in {all}{average}"),
        0 => format!("{name} is the best choice over {all}{average}, {and}{distance} in each"),
        free if best.above_least.is_empty() => {
            format!("{name} is the best choice over {all}{average}; another policy costs nothing in {free} of them")
        }
        free => format!(
            "{name} is the best choice over {all}{average}; another policy costs nothing in {free} of them, and {name} is \
             {distance} in the others"
        ),
    }
}

/// All that a comparison says in sentences: the one source of tables, pages, texts for publication and Python.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The policy to use if sizes and asymmetries are not known beforehand.
    pub recommendation: Option<Recommendation>,
    /// The result at FD-Buffer's default asymmetry and size if the comparison has them; the answer of a curve's study.
    pub sentence: String,
    /// How far the best online policy is from `informed`.
    pub distance: Option<String>,
    /// How long the device lives.
    pub life: Option<String>,
    /// What it costs in a month.
    pub money: Option<String>,
    /// What the other treatment of pages that are dirty at the end would change.
    pub at_end: Option<String>,
}

impl Answer {
    /// What this comparison says.
    pub fn new(comparison: &Comparison) -> Self {
        if let Some(curve) = &comparison.curve {
            let (sentence, at_end) = (curve.sentence.clone(), curve.at_end.clone());
            return Answer { recommendation: None, sentence, distance: None, life: None, money: None, at_end };
        }
        Answer {
            recommendation: recommendation(comparison),
            sentence: sentence(comparison),
            distance: distance_to_informed(comparison),
            life: lifetime::sentence(comparison),
            money: lifetime::sentence_in_money(comparison),
            at_end: on_end(comparison),
        }
    }

    /// All sentences, what decides first.
    pub fn sentences(&self) -> impl Iterator<Item = &str> {
        let recommended = self.recommendation.as_ref().map(|it| it.sentence.as_str());
        let others = [&self.at_end, &self.distance, &self.life, &self.money].into_iter().flatten().map(String::as_str);
        let here = Some(self.sentence.as_str()).filter(|text| !text.is_empty());
        recommended.into_iter().chain(here).chain(others)
    }
}

/// How far the best online policy is from `informed`, which knows the probabilities of references, over all sizes and
/// prices. `None` without both.
fn distance_to_informed(comparison: &Comparison) -> Option<String> {
    let is_informed = |policy: &String| policy == INFORMED;
    let informed = comparison.policies.iter().position(is_informed)?;
    let cells = cells_of_one_trace(comparison);
    let bills = judged(comparison, &cells);
    let best = bills.best().filter(|best| comparison.online[best.policy])?;
    let name = &comparison.policies[best.policy];
    let ratios: Vec<f64> = ratios(&cells, best.policy, informed)?;
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

/// What the other treatment would change in a comparison, in a sentence: the largest change of a bill, and in how many
/// places another online policy would be the best. `None` where no bill would change by more than 2 %, and no best policy.
fn on_end(comparison: &Comparison) -> Option<String> {
    let at_end = comparison.finished().next()?.at_end?;
    let mut bills = Vec::new();
    for cell in cells_of_one_trace(comparison) {
        let size = &comparison.sizes[cell.size];
        let memory = match size.ends_with('%') {
            true => size.clone(),
            false => format!("{size} frames"),
        };
        let pricing = &comparison.pricings[cell.pricing];
        let at = match &pricing.device_name {
            Some(_) => memory,
            None => format!("R={} and {memory}", pricing.label()),
        };
        for (policy, &online) in comparison.online.iter().enumerate() {
            let result = comparison.result([cell.pricing, policy, cell.size]);
            let Some(result) = result.filter(|result| result.failed.is_none()) else {
                continue;
            };
            bills.push(dirty_end::BillEitherWay {
                policy: &result.policy,
                online,
                at: at.clone(),
                cost: result.cost,
                otherwise: result.cost_otherwise(),
                estimated: result.otherwise_is_estimated(),
            });
        }
    }
    dirty_end::sentence(at_end, &bills)
}

fn judged<'a>(comparison: &'a Comparison, cells: &'a [BillCell]) -> JudgedBills<'a> {
    let online = &comparison.online;
    Bills { online, cells }.judged()
}

/// A policy's bills over those of another, where neither is 0; `None` if one of them is missing, or there is none.
fn ratios(cells: &[BillCell], policy: usize, other: usize) -> Option<Vec<f64>> {
    let both = cells.iter().map(|cell| Some((cell.bills[policy]?, cell.bills[other]?)));
    let both: Vec<(f64, f64)> = both.collect::<Option<_>>()?;
    let ratios = both.into_iter().filter(|&(bill, other)| bill > 0.0 && other > 0.0);
    let ratios: Vec<f64> = ratios.map(|(bill, other)| bill / other).collect();
    (!ratios.is_empty()).then_some(ratios)
}

fn mean_log(ratios: &[f64]) -> f64 {
    ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::CompareRequest;
    use crate::events::Silent;
    use crate::lab::{Lab, Settings};
    use crate::policy_selection::PolicySelection;
    use crate::pricing::PricingRequest;

    fn compared(policies: &str, sizes: &[&str], asymmetries: &[&str]) -> Comparison {
        let price = |text: &&str| PricingRequest::Asymmetry(text.parse().expect("an asymmetry"));
        let size = |text: &&str| text.parse().expect("a size");
        let request = CompareRequest::new(
            PolicySelection::lists([policies]),
            sizes.iter().map(size).collect(),
            asymmetries.iter().map(price).collect(),
        );
        let source = ebbpool_trace::Source::parse("zipf:pages=2000,refs=20000", None);
        let lab = Lab::new(Settings::default(), &Silent);
        lab.compare(&source.expect("a trace"), &request).expect("results")
    }

    #[test]
    fn sizes_of_as_many_frames_and_equal_prices_count_once() {
        let once = compared("sieve,s3-fifo", &["1%", "3%"], &["1"]);
        let again = compared("sieve,s3-fifo", &["1%", "20", "20", "3%"], &["1", "1.0"]);
        let advice = |comparison: &Comparison| recommendation(comparison).map(|it| it.sentence);
        let stated = advice(&again).expect("advice");
        assert_eq!(Some(&stated), advice(&once).as_ref());
        assert!(stated.starts_with("sieve is the best choice over all 2 sizes, at most "), "{stated}");
        // With one size there is nothing to weigh.
        let one = compared("sieve,s3-fifo", &["1%", "20"], &["1"]);
        assert_eq!(advice(&one), None);
    }

    /// A policy that is nowhere above the baseline, and free where the baseline is not.
    #[test]
    fn a_policy_that_costs_nothing_in_a_cell_is_the_one_to_take() {
        let with = |bills: [[f64; 2]; 3]| {
            let mut comparison = compared("lru,ebb,s3-fifo", &["7", "2"], &["1"]);
            for (cell, bill) in comparison.cells.iter_mut().zip(bills.as_flattened()) {
                cell.as_mut().expect("a result").result.cost = *bill;
            }
            recommendation(&comparison).expect("advice").sentence
        };
        assert_eq!(
            with([[0.1071, 0.8214], [0.1250, 0.8036], [0.0, 0.8214]]),
            "s3-fifo is the best choice over all 2 sizes, on average no cheaper than lru, and at most 2.2 % above the cheapest in \
             each; the average leaves out 1 in which it costs nothing"
        );
        assert_eq!(
            with([[0.0, 0.8], [0.5, 0.4], [0.0, 0.9]]),
            "on average over all 2 sizes, no policy is cheaper than lru; the average leaves out 1 in which it costs nothing"
        );
        assert_eq!(with([[0.0, 0.5], [0.0, 0.0], [0.0, 0.1]]), "ebb is the cheapest in all 2 sizes");
        assert_eq!(
            with([[0.0, 0.5], [0.5, 0.0], [0.4, 0.0]]),
            "s3-fifo is the best choice over all 2 sizes; another policy costs nothing in 1 of them"
        );
    }
}
