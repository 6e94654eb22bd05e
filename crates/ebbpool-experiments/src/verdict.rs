//! Judges whether a claim holds, by the rules in `docs/reproduction.md`.

mod orders;
mod ratios;
mod settings;

use ebbpool_sim::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::contenders;
use super::format::{
    BestAtCheck, BoundCheck, Check, Claim, Experiment, FlatCheck, ImprovementCheck, NearCheck,
    PeakCheck, Percent, PointAggregate, REFERENCES, TrendCheck, TrendDirection, ValueCheck,
};
use super::metric::Metric;
use super::ordered::Text;
use super::plan::PointCoordinates;
use super::point::Point;
use super::seeds::{self, Estimate, Stated};

/// The verdict on a claim.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds.
    Holds,
    /// The direction of the effect is right, its size is not.
    InPart,
    /// It does not hold.
    DoesNot,
    /// There are no results to judge by.
    Unknown,
}

impl Verdict {
    /// The verdict in words.
    pub fn says(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::InPart => "holds in part",
            Verdict::DoesNot => "does not hold",
            Verdict::Unknown => "unknown",
        }
    }
}

/// A claim, and the verdict from our results.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct JudgedClaim {
    /// The claim.
    #[schemars(extend("x-role" = "key"))]
    pub says: String,
    /// The paper's figures.
    pub paper: String,
    /// Our figures.
    pub ours: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Why it does not hold, as far as known.
    pub why: Option<String>,
    /// True if the claim is about computing time. Such verdicts vary from run to run and are counted apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub computing_time: bool,
    /// Why our result could not have been another one, if so: the experiment was made from the claim. Such verdicts show
    /// nothing about the policies and are counted apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circular: Option<String>,
    /// The policies that the user has added, beside the policy that the claim is about. They take no part in the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<GuestFinding>,
}

/// A policy that the user has added, beside the policy that a claim is about.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct GuestFinding {
    /// The policy.
    #[schemars(extend("x-role" = "key"))]
    pub policy: String,
    /// Its results.
    pub ours: String,
}

impl GuestFinding {
    /// What stands in the place of a verdict.
    pub const NO_VERDICT: &'static str = "not judged";

    /// What stands in the place of a claim.
    pub fn says(&self) -> String {
        format!("{}, which you have added", self.policy)
    }
}

impl JudgedClaim {
    /// The verdict in words, marked if it varies from run to run or is circular.
    pub fn verdict_text(&self) -> String {
        let says = self.verdict.says();
        match (&self.circular, self.computing_time) {
            (Some(_), _) => format!("{says} (circular)"),
            (None, true) => format!("{says} (varies)"),
            (None, false) => says.into(),
        }
    }

    /// Why the verdict is circular, and why the results differ, as far as known.
    pub fn reasons(&self) -> String {
        let reasons = [&self.circular, &self.why].into_iter().flatten();
        let reasons: Vec<&str> = reasons.map(String::as_str).collect();
        reasons.join(" ")
    }

    /// False if the verdict is counted apart.
    pub(crate) fn is_counted(&self) -> bool {
        !self.computing_time && self.circular.is_none()
    }
}

/// The numbers of verdicts that are counted apart, in words after a semicolon; empty if there are none.
pub(crate) fn counted_apart<'a>(judged: impl Iterator<Item = &'a JudgedClaim>) -> String {
    let apart: Vec<&JudgedClaim> = judged.filter(|judged| !judged.is_counted()).collect();
    let circular = apart
        .iter()
        .filter(|judged| judged.circular.is_some())
        .count();
    let kinds = [
        (circular, "circular, which show nothing"),
        (apart.len() - circular, "of computing time, which vary"),
    ];
    let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
    kinds
        .map(|(count, words)| format!("; {count} {words}"))
        .collect()
}

/// Relative differences up to this share count as equality.
const SAME: f64 = 1e-9;

/// A percentage or an amount holds within this factor of the paper's.
const FACTOR: f64 = 2.0;

/// A percentage below this share of the paper's is a different effect.
const LEAST_SHARE: f64 = 0.1;

/// An amount holds in part within this factor of the paper's.
const LARGE_FACTOR: f64 = 5.0;

/// Judges a claim by the points of its experiment.
pub(crate) fn judge(experiment: &Experiment, claim: &Claim, points: &[Point]) -> JudgedClaim {
    let of_claim = |point: &&Point| {
        let at = &claim.at.0;
        at.iter()
            .all(|(name, allowed)| point.get(name).is_some_and(|value| allowed.has(value)))
    };
    let all: Vec<&Point> = points.iter().filter(of_claim).collect();
    let (guests, points): (Vec<&Point>, Vec<&Point>) = all.iter().partition(|point| point.is_guest);
    let metric = claim.metric.unwrap_or(experiment.metric);
    let judge_by = |points| ClaimJudge {
        experiment,
        points,
        metric,
    };
    let judge = judge_by(&points);
    let finding = match claim.check() {
        Some(Check::Order(order)) => judge.order(order),
        Some(Check::Best(best)) => judge.first(best, false),
        Some(Check::Worst(worst)) => judge.first(worst, true),
        Some(Check::Improvement(it)) => judge.improvement(it),
        Some(Check::Trend(it)) => judge.trend(it),
        Some(Check::Peak(it)) => judge.peak(it),
        Some(Check::Value(it)) => judge.value(it),
        Some(Check::Near(it)) => judge.near(it),
        Some(Check::Bound(it)) => judge.bound(it),
        Some(Check::Flat(it)) => judge.flat(it),
        Some(Check::BestAt(it)) => judge.best_at(it),
        Some(Check::Ratio(it)) => judge.ratio(it),
        Some(Check::Fixed(it)) => judge.fixed(it),
        Some(Check::Rank(it)) => judge.rank(it),
        Some(Check::Times(it)) => judge.times(it),
        Some(Check::More(it)) => judge.more(it),
        Some(Check::Greatest(it)) => judge.greatest(it),
        None => None,
    };
    let ClaimFinding {
        paper,
        ours,
        verdict,
    } = finding.unwrap_or(ClaimFinding {
        paper: String::new(),
        ours: "nothing to compare at this scale".into(),
        verdict: Verdict::Unknown,
    });
    JudgedClaim {
        says: claim.says.clone(),
        paper: claim.paper.clone().unwrap_or(paper),
        ours,
        verdict,
        why: claim.why.clone(),
        computing_time: metric.is_computing_time(),
        circular: claim.circular.clone(),
        guests: match claim.check().and_then(Check::about_all) {
            Some(policy) => beside(&judge_by(&all), &guests, policy),
            None => Vec::new(),
        },
    }
}

/// The findings on the guests, each beside the policy that a claim is about.
fn beside(judge: &ClaimJudge, guests: &[&Point], policy: &str) -> Vec<GuestFinding> {
    let mut names: Vec<&str> = Vec::new();
    for guest in guests.iter().map(|point| point.policy.as_str()) {
        if !names.contains(&guest) {
            names.push(guest);
        }
    }
    let found = names
        .into_iter()
        .filter_map(|name| judge.beside(name, policy));
    found.collect()
}

/// The result of a check.
struct ClaimFinding {
    paper: String,
    ours: String,
    verdict: Verdict,
}

/// A value and its coordinates.
type ValueAt<'a> = (f64, &'a PointCoordinates);

/// A comparison of two policies at the same coordinates.
struct PolicyComparison<'a> {
    /// The result of the comparison for each seed.
    samples: Vec<f64>,
    mean: Estimate,
    place: &'a PointCoordinates,
}

impl<'a> PolicyComparison<'a> {
    fn new(samples: Vec<f64>, place: &'a PointCoordinates) -> Option<Self> {
        Some(PolicyComparison {
            mean: Estimate::of(&samples)?,
            samples,
            place,
        })
    }

    fn value(&self) -> f64 {
        self.mean.mean
    }
}

/// A curve: the ordered points along a parameter.
struct Curve<'a> {
    place: PointCoordinates,
    /// The values of the parameter and of the metric.
    values: Vec<(&'a str, f64)>,
}

/// Judges a claim by the points that it is about.
struct ClaimJudge<'a> {
    experiment: &'a Experiment,
    points: &'a [&'a Point],
    metric: Metric,
}

impl<'a> ClaimJudge<'a> {
    fn of(&self, policy: &str) -> impl Iterator<Item = (&'a Point, f64)> {
        let of_policy = self
            .points
            .iter()
            .filter(move |point| point.policy == policy);
        of_policy.filter_map(|point| Some((*point, point.value(self.metric)?)))
    }

    /// The pairs of points of two policies at the coordinates where both have a value.
    fn pairs(&self, policy: &str, other: &str) -> Vec<(&'a Point, &'a Point)> {
        let others: Vec<_> = self.of(other).map(|(point, _)| point).collect();
        let pair = |(point, _): (&'a Point, f64)| {
            let same = others.iter().find(|other| other.place == point.place);
            same.map(|other| (point, *other))
        };
        self.of(policy).filter_map(pair).collect()
    }

    /// The results of `compare` on two policies' values, for each pair of points.
    fn compared(
        &self,
        policy: &str,
        other: &str,
        compare: impl Fn(f64, f64) -> f64,
    ) -> Vec<PolicyComparison<'a>> {
        let pairs = self.pairs(policy, other).into_iter();
        let compared = pairs.filter_map(|(point, other)| {
            let samples = point.compared(other, self.metric, &compare)?;
            PolicyComparison::new(samples, &point.place)
        });
        compared.collect()
    }

    /// The per cent by which a policy is better than another, for each pair of points.
    fn improvements(&self, policy: &str, over: &str) -> Vec<PolicyComparison<'a>> {
        self.compared(policy, over, |value, other| {
            self.metric.improvement(value, other)
        })
    }

    /// The names, with each group's name replaced by the names of its members.
    fn expanded(&self, names: &[String]) -> Vec<String> {
        contenders::expanded(self.experiment, names)
    }

    fn improvement(&self, it: &ImprovementCheck) -> Option<ClaimFinding> {
        let found = self.improvements(&it.of, &it.over);
        let most = found
            .iter()
            .max_by(|a, b| a.value().total_cmp(&b.value()))?;
        let least = found
            .iter()
            .min_by(|a, b| a.value().total_cmp(&b.value()))?;
        let mean = seeds::mean_of(found.iter().map(|one| one.samples.as_slice()))?;
        Some(match it.percent {
            Percent::Range([low, high]) => ClaimFinding {
                paper: format!("{} to {} %", number(low), number(high)),
                ours: match found.len() {
                    1 => most.mean.text(" %"),
                    _ => format!("{} to {}", least.mean.text(""), most.mean.text(" %")),
                },
                verdict: of_range([low, high], least.value(), most.value()),
            },
            Percent::One(percent) => {
                let (ours, words, at) = match it.take {
                    PointAggregate::Most => (most.mean, "up to ", Some(most.place)),
                    PointAggregate::Least => (least.mean, "at least ", Some(least.place)),
                    PointAggregate::Mean => (mean, "", None),
                };
                let at = at.filter(|_| found.len() > 1);
                let at = at.map(|place| format!(" ({})", place.says()));
                ClaimFinding {
                    paper: format!("{words}{} %", number(percent)),
                    ours: format!("{words}{}{}", ours.text(" %"), at.unwrap_or_default()),
                    verdict: of_percent(percent, ours.mean),
                }
            }
        })
    }

    /// The curves of a policy along a dimension, or of its improvement over another policy. A curve over the
    /// trace consists of the means of its three thirds.
    fn curves(&self, policy: &str, over: Option<&str>, along: &str) -> Vec<Curve<'a>> {
        if along == REFERENCES {
            let of_policy = self.points.iter().filter(|point| point.policy == policy);
            let thirds = of_policy.filter_map(|point| {
                Some(Curve {
                    place: point.place.clone(),
                    values: thirds(point, self.metric)?,
                })
            });
            return thirds.collect();
        }
        let values: Vec<ValueAt> = match over {
            Some(over) => {
                let all = self.improvements(policy, over).into_iter();
                all.map(|one| (one.value(), one.place)).collect()
            }
            None => self
                .of(policy)
                .map(|(point, value)| (value, &point.place))
                .collect(),
        };
        let mut curves: Vec<Curve> = Vec::new();
        for (value, place) in values {
            let Some(at) = place.get(along) else { continue };
            let rest = place.without(along);
            match curves.iter_mut().find(|curve| curve.place == rest) {
                Some(curve) => curve.values.push((at, value)),
                None => curves.push(Curve {
                    place: rest,
                    values: vec![(at, value)],
                }),
            }
        }
        curves.retain(|curve| curve.values.len() > 1);
        curves
    }

    fn trend(&self, it: &TrendCheck) -> Option<ClaimFinding> {
        let curves = self.curves(&it.policy, it.over.as_deref(), &it.along);
        let sign = match it.goes {
            TrendDirection::Up => 1.0,
            TrendDirection::Down => -1.0,
        };
        let mut ends = 0;
        let (mut steps, mut all_steps) = (0, 0);
        for curve in &curves {
            let values: Vec<f64> = curve.values.iter().map(|(_, value)| sign * value).collect();
            ends += usize::from(values.last() > values.first());
            all_steps += values.len() - 1;
            let slack = SAME
                * values
                    .iter()
                    .fold(0.0, |most: f64, value| most.max(value.abs()));
            steps += values
                .windows(2)
                .filter(|pair| pair[1] >= pair[0] - slack)
                .count();
        }
        let all = curves.len();
        let ends_text = |curve: &Curve| {
            let values = &curve.values;
            Some(format!(
                "{} to {}",
                number(values.first()?.1),
                number(values.last()?.1)
            ))
        };
        let direction = match it.goes {
            TrendDirection::Up => "rises",
            TrendDirection::Down => "falls",
        };
        let example = curves.first().and_then(ends_text)?;
        Some(ClaimFinding {
            paper: direction.into(),
            ours: match all {
                1 => format!("{example}; {steps} of {all_steps} steps"),
                _ => format!(
                    "{ends} of {all} curves, {steps} of {all_steps} steps; {} at {}",
                    example,
                    curves.first().map(|curve| curve.place.says())?
                ),
            },
            verdict: if ends == all && 4 * steps >= 3 * all_steps {
                Verdict::Holds
            } else if 2 * ends >= all && ends > 0 {
                Verdict::InPart
            } else {
                Verdict::DoesNot
            },
        })
    }

    fn peak(&self, it: &PeakCheck) -> Option<ClaimFinding> {
        let mut curves = self.curves(&it.policy, it.over.as_deref(), &it.along);
        curves.retain(|curve| curve.values.len() > 2);
        let greatest = |curve: &Curve| {
            let values = curve.values.iter().map(|(_, value)| *value).enumerate();
            values
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .map_or(0, |(at, _)| at)
        };
        let inside = |curve: &&Curve| (1..curve.values.len() - 1).contains(&greatest(curve));
        let yes = curves.iter().filter(inside).count();
        let all = curves.len();
        let first = curves.first()?;
        Some(ClaimFinding {
            paper: "highest between the ends".into(),
            ours: format!(
                "{yes} of {all} curves; {} {} is highest{}",
                it.along,
                first.values.get(greatest(first))?.0,
                match first.place.says() {
                    place if place.is_empty() => String::new(),
                    place => format!(" at {place}"),
                }
            ),
            verdict: of_share(yes, all)?,
        })
    }

    fn value(&self, it: &ValueCheck) -> Option<ClaimFinding> {
        let (points, values): (Vec<&Point>, Vec<f64>) = self.of(&it.policy).unzip();
        let samples = points.iter().map(|point| point.samples(self.metric));
        let samples: Vec<Vec<f64>> = samples.collect::<Option<_>>()?;
        let mean = seeds::mean_of(samples.iter().map(Vec::as_slice))?;
        let (paper, verdict) = match (it.is, it.about) {
            (Some(is), _) => (is, of_exact(is, &values)),
            (None, Some(about)) => (about, of_amount(about, mean.mean)),
            (None, None) => return None,
        };
        Some(ClaimFinding {
            paper: number(paper),
            ours: mean.text(""),
            verdict,
        })
    }

    fn near(&self, it: &NearCheck) -> Option<ClaimFinding> {
        let differences = self.improvements(&it.policy, &it.to);
        let most = differences
            .iter()
            .max_by(|a, b| a.value().abs().total_cmp(&b.value().abs()))?;
        let yes = differences
            .iter()
            .filter(|one| one.value().abs() <= it.percent)
            .count();
        Some(ClaimFinding {
            paper: format!("within {} %", number(it.percent)),
            ours: format!(
                "{yes} of {}; {} at {}",
                differences.len(),
                most.mean.text(" %"),
                most.place.says()
            ),
            verdict: of_share(yes, differences.len())?,
        })
    }

    fn bound(&self, it: &BoundCheck) -> Option<ClaimFinding> {
        if let Some(most) = it.at_most {
            let values: Vec<(&Point, f64)> = self.of(&it.policy).collect();
            let yes = values.iter().filter(|(_, value)| *value <= most).count();
            let (point, greatest) = values.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            let greatest = seeds::value_text(*greatest, point.half_width(self.metric), "");
            return Some(ClaimFinding {
                paper: format!("at most {}", number(most)),
                ours: format!("{yes} of {}; up to {greatest}", values.len()),
                verdict: of_share(yes, values.len())?,
            });
        }
        let percent = it.percent?;
        let found = self.improvements(&it.policy, it.over.as_deref()?);
        let worst = found
            .iter()
            .min_by(|a, b| a.value().total_cmp(&b.value()))?;
        let yes = found.iter().filter(|one| -one.value() <= percent).count();
        Some(ClaimFinding {
            paper: format!("no more than {} % worse", number(percent)),
            ours: format!(
                "{yes} of {}; at worst {} at {}",
                found.len(),
                seeds::value_text(-worst.value(), worst.mean.half_width, " %"),
                worst.place.says()
            ),
            verdict: of_share(yes, found.len())?,
        })
    }

    fn flat(&self, it: &FlatCheck) -> Option<ClaimFinding> {
        let curves = self.curves(&it.policy, None, &it.along);
        let spread = |curve: &Curve| {
            let values = || curve.values.iter().map(|(_, value)| *value);
            let mean = values().sum::<f64>() / curve.values.len() as f64;
            let least = values().fold(f64::INFINITY, f64::min);
            let most = values().fold(f64::NEG_INFINITY, f64::max);
            100.0 * (most - least) / mean
        };
        let spreads: Vec<f64> = curves.iter().map(spread).collect();
        let yes = spreads
            .iter()
            .filter(|spread| **spread <= it.percent)
            .count();
        let most = spreads.iter().copied().max_by(f64::total_cmp)?;
        Some(ClaimFinding {
            paper: format!("changes by at most {} %", number(it.percent)),
            ours: format!(
                "{yes} of {} curves; up to {} %",
                spreads.len(),
                number(most)
            ),
            verdict: of_share(yes, spreads.len())?,
        })
    }

    fn best_at(&self, it: &BestAtCheck) -> Option<ClaimFinding> {
        let curves = self.curves(&it.policy, None, &it.along);
        let Text(expected) = &it.is;
        let best = |curve: &Curve<'a>| {
            let better = |a: &&(&str, f64), b: &&(&str, f64)| match self.metric.more_is_better() {
                true => b.1.total_cmp(&a.1),
                false => a.1.total_cmp(&b.1),
            };
            curve.values.iter().min_by(better).map_or("", |(at, _)| at)
        };
        let found: Vec<&str> = curves.iter().map(best).collect();
        let yes = found.iter().filter(|at| **at == expected).count();
        Some(ClaimFinding {
            paper: format!("{} {expected}", it.along),
            ours: format!("best at {}", found.join(", ")),
            verdict: of_share(yes, found.len())?,
        })
    }
}

/// The means of the metric over the three thirds of a trace.
fn thirds(point: &Point, metric: Metric) -> Option<Vec<(&'static str, f64)>> {
    let frames = point.frames.unwrap_or(1) as f64;
    let value = |moment: &Moment| match metric {
        Metric::Clean => Some(moment.clean as f64),
        Metric::CleanShare => Some(moment.clean as f64 / frames),
        Metric::TargetShare => Some(moment.target? as f64 / frames),
        _ => None,
    };
    let values: Vec<f64> = point.moments.iter().map(value).collect::<Option<_>>()?;
    let third = values.len() / 3;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    (third > 0).then(|| {
        vec![
            ("first third", mean(&values[..third])),
            ("second third", mean(&values[third..2 * third])),
            ("last third", mean(&values[2 * third..])),
        ]
    })
}

/// The verdict on a number of comparisons: all hold, most, or fewer. `None` without a comparison.
fn of_share(yes: usize, all: usize) -> Option<Verdict> {
    match (yes, all) {
        (_, 0) => None,
        (yes, all) if yes == all => Some(Verdict::Holds),
        (yes, all) if 2 * yes > all => Some(Verdict::InPart),
        _ => Some(Verdict::DoesNot),
    }
}

/// The verdict on a percentage: it holds within a factor of two of the paper's, and in part with the same sign
/// and at least a tenth of the paper's.
fn of_percent(paper: f64, ours: f64) -> Verdict {
    let ratio = ours / paper;
    if (1.0 / FACTOR..=FACTOR).contains(&ratio) {
        Verdict::Holds
    } else if ratio >= LEAST_SHARE {
        Verdict::InPart
    } else {
        Verdict::DoesNot
    }
}

/// The verdict on a range of percentages by the least and the greatest of ours.
fn of_range([low, high]: [f64; 2], least: f64, most: f64) -> Verdict {
    match of_percent(high, most) {
        Verdict::Holds if low >= 0.0 && least < 0.0 => Verdict::InPart,
        verdict => verdict,
    }
}

/// The verdict on an amount: it holds within a factor of two, and in part within a factor of five.
fn of_amount(paper: f64, ours: f64) -> Verdict {
    let ratio = ours / paper;
    if (1.0 / FACTOR..=FACTOR).contains(&ratio) {
        Verdict::Holds
    } else if (1.0 / LARGE_FACTOR..=LARGE_FACTOR).contains(&ratio) {
        Verdict::InPart
    } else {
        Verdict::DoesNot
    }
}

/// The verdict on exact values: they hold if all are equal, and in part if all are within 10 %.
fn of_exact(paper: f64, ours: &[f64]) -> Verdict {
    let difference = |value: &f64| (value - paper).abs();
    let all_within = |share: f64| {
        ours.iter()
            .all(|value| difference(value) <= share * paper.abs())
    };
    if all_within(SAME) {
        Verdict::Holds
    } else if all_within(0.1) {
        Verdict::InPart
    } else {
        Verdict::DoesNot
    }
}

/// A number with about three significant digits.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if value == 0.0 || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text.as_str(),
    };
    match text {
        "-0" => "0".into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests;
