//! Judges whether a claim holds, by the rules in `docs/reproduction.md`.

mod ratios;

use ebbpool_sim::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::contenders;
use super::format::{
    BestAtCheck, BestCheck, BoundCheck, Check, Claim, Experiment, FlatCheck, ImprovementCheck,
    NearCheck, PeakCheck, Percent, PointAggregate, REFERENCES, TrendCheck, TrendDirection,
    ValueCheck,
};
use super::metric::Metric;
use super::ordered::Text;
use super::plan::PointCoordinates;
use super::point::Point;
use super::seeds::{self, Estimate};

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
}

impl JudgedClaim {
    /// The verdict in words, marked if it varies from run to run.
    pub fn verdict_text(&self) -> String {
        match self.computing_time {
            true => format!("{} (varies)", self.verdict.says()),
            false => self.verdict.says().into(),
        }
    }
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
    let points: Vec<&Point> = points.iter().filter(of_claim).collect();
    let metric = claim.metric.unwrap_or(experiment.metric);
    let judge = ClaimJudge {
        experiment,
        points: &points,
        metric,
    };
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
    }
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

/// Whether one policy was no worse than another at the same coordinates.
struct PairResult<'a, 'b> {
    holds: bool,
    points: (&'a Point, &'a Point),
    names: (&'b str, &'b str),
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

    fn no_worse(&self, value: f64, other: f64) -> bool {
        let slack = SAME * other.abs();
        match self.metric.more_is_better() {
            true => value >= other - slack,
            false => value <= other + slack,
        }
    }

    /// For each pair of points, whether one policy is no worse than the other.
    fn pair_results<'b>(&self, first: &'b str, second: &'b str) -> Vec<PairResult<'a, 'b>> {
        let result = |(point, other): (&'a Point, &'a Point)| {
            let (ours, theirs) = (point.value(self.metric)?, other.value(self.metric)?);
            Some(PairResult {
                holds: self.no_worse(ours, theirs),
                points: (point, other),
                names: (first, second),
            })
        };
        self.pairs(first, second)
            .into_iter()
            .filter_map(result)
            .collect()
    }

    fn order(&self, order: &[String]) -> Option<ClaimFinding> {
        let mut results = Vec::new();
        for pair in order.windows(2) {
            let [first, second] = pair else { continue };
            results.extend(self.pair_results(first, second));
        }
        self.share(&results, order.join(", then "))
    }

    /// Whether a policy is the best of all, or the worst.
    fn first(&self, best: &BestCheck, last: bool) -> Option<ClaimFinding> {
        let against = self.expanded(&best.against);
        let mut rivals: Vec<&str> = against.iter().map(String::as_str).collect();
        if rivals.is_empty() {
            for point in self.points {
                let rival = point.policy.as_str();
                if rival != best.policy && !rivals.contains(&rival) {
                    rivals.push(rival);
                }
            }
        }
        let mut results = Vec::new();
        for rival in rivals {
            let (better, worse) = match last {
                false => (best.policy.as_str(), rival),
                true => (rival, best.policy.as_str()),
            };
            results.extend(self.pair_results(better, worse));
        }
        let end = if last { "worst" } else { "best" };
        self.share(&results, format!("{} {end}", best.policy))
    }

    /// The finding on a number of comparisons: all, most or fewer of them hold.
    fn share(&self, results: &[PairResult], paper: String) -> Option<ClaimFinding> {
        let all = results.len();
        let yes = results.iter().filter(|one| one.holds).count();
        Some(ClaimFinding {
            paper,
            ours: match results.iter().find(|one| !one.holds) {
                None => format!("all {all} comparisons"),
                Some(exception) => format!(
                    "{yes} of {all} comparisons; {}",
                    self.exception_text(exception)
                ),
            },
            verdict: of_share(yes, all)?,
        })
    }

    /// A comparison that does not hold, in words; with its size if it depends on random numbers.
    fn exception_text(&self, exception: &PairResult) -> String {
        let PairResult {
            points: (point, other),
            names: (first, second),
            ..
        } = exception;
        let improvement = |value, other| self.metric.improvement(value, other);
        let samples = other.compared(point, self.metric, improvement);
        let estimate = samples.as_deref().and_then(Estimate::of);
        let estimate = estimate.filter(|by| by.half_width.is_some());
        let by = estimate.map(|by| format!(", which is {} better", by.text(" %")));
        format!(
            "not {first} before {second} at {}{}",
            point.place.says(),
            by.unwrap_or_default()
        )
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
                verdict: match of_percent(high, most.value()) {
                    Verdict::Holds if low >= 0.0 && least.value() < 0.0 => Verdict::InPart,
                    verdict => verdict,
                },
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
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests;
