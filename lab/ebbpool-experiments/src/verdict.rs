//! Judges whether a claim holds, by the rules in `docs/reproduction.md`.

mod course;
mod orders;
mod ratios;
mod rules;
mod settings;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::contenders;
use super::format::{BoundCheck, Check, Claim, Experiment, ImprovementCheck, NearCheck, Percent, PointAggregate, ValueCheck};
use super::metric::Metric;
use super::ordered::Text;
use super::plan::PointCoordinates;
use super::point::Point;
use super::seeds::{self, MeanEstimate, SAME, Stated, number};

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
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
    pub fn verdict_text(self) -> &'static str {
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
    /// Why it is judged although the paper does not claim it, if so. Such verdicts are counted apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclaimed: Option<String>,
    /// The experiment on another paper that has the same claim, and the same result; it is counted there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<String>,
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
    pub fn claim_place_text(&self) -> String {
        format!("{}, which you have added", self.policy)
    }
}

/// Why a verdict is counted apart from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedApart {
    /// The result could not have been another one.
    Circular,
    /// The paper does not claim it.
    Unclaimed,
    /// An experiment on another paper has the same claim.
    Repeated,
    /// Computing times vary from run to run.
    ComputingTime,
}

impl CountedApart {
    const ALL: [CountedApart; 4] =
        [CountedApart::Circular, CountedApart::Unclaimed, CountedApart::Repeated, CountedApart::ComputingTime];

    /// The mark of such a verdict.
    fn mark(self) -> &'static str {
        match self {
            CountedApart::Circular => "circular",
            CountedApart::Unclaimed => "not claimed",
            CountedApart::Repeated => "repeated",
            CountedApart::ComputingTime => "varies",
        }
    }

    /// What follows the number of such verdicts in a sentence.
    fn says(self) -> &'static str {
        match self {
            CountedApart::Circular => "circular, which show nothing",
            CountedApart::Unclaimed => "that no paper claims",
            CountedApart::Repeated => "that repeat another paper's",
            CountedApart::ComputingTime => "of computing time, which vary",
        }
    }
}

impl JudgedClaim {
    /// The verdict in words, marked if it is counted apart.
    pub fn verdict_text(&self) -> String {
        let says = self.verdict.verdict_text();
        match self.counted_apart() {
            Some(why) => format!("{says} ({})", why.mark()),
            None => says.into(),
        }
    }

    /// Why the verdict is counted apart, and why the results differ, as far as known.
    pub(crate) fn all_reasons(&self) -> Vec<String> {
        let repeats = self.repeats.as_ref();
        let repeats = repeats.map(|id| format!("The same example as in `{id}`, where it is counted."));
        let apart = [&self.circular, &self.unclaimed, &repeats];
        let reasons = apart.into_iter().chain([&self.why]).flatten();
        let reasons = reasons.filter(|reason| !reason.is_empty());
        reasons.cloned().collect()
    }

    /// Why the verdict is counted apart, and why the results differ, in one text.
    pub fn reasons(&self) -> String {
        self.all_reasons().join(" ")
    }

    /// Why the verdict is counted apart; `None` if it is not.
    pub(crate) fn counted_apart(&self) -> Option<CountedApart> {
        if self.circular.is_some() {
            Some(CountedApart::Circular)
        } else if self.unclaimed.is_some() {
            Some(CountedApart::Unclaimed)
        } else if self.repeats.is_some() {
            Some(CountedApart::Repeated)
        } else {
            self.computing_time.then_some(CountedApart::ComputingTime)
        }
    }

    /// False if the verdict is counted apart.
    pub(crate) fn is_counted(&self) -> bool {
        self.counted_apart().is_none()
    }
}

/// The numbers of verdicts that are counted apart, in words after a semicolon; empty if there are none.
pub(crate) fn counted_apart<'a>(judged: impl Iterator<Item = &'a JudgedClaim>) -> String {
    let apart: Vec<CountedApart> = judged.filter_map(JudgedClaim::counted_apart).collect();
    let of_kind = |kind: CountedApart| {
        let count = apart.iter().filter(|one| **one == kind).count();
        (count > 0).then(|| format!("; {count} {}", kind.says()))
    };
    CountedApart::ALL.into_iter().filter_map(of_kind).collect()
}

/// Judges a claim by the points of its experiment.
pub(crate) fn judge(experiment: &Experiment, claim: &Claim, points: &[Point]) -> JudgedClaim {
    let of_claim = |point: &&Point| {
        let at = &claim.at.0;
        at.iter().all(|(name, allowed)| point.get(name).is_some_and(|value| allowed.has(value)))
    };
    let all: Vec<&Point> = points.iter().filter(of_claim).collect();
    let (guests, points): (Vec<&Point>, Vec<&Point>) = all.iter().partition(|point| point.is_guest);
    let metric = claim.metric.unwrap_or(experiment.metric);
    let judge_by = |points| ClaimJudge { experiment, points, metric };
    let judge = judge_by(&points);
    let finding = claim.check().and_then(|check| judge.finding_of(check));
    let ClaimFinding { paper, ours, verdict } = finding.unwrap_or(ClaimFinding {
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
        unclaimed: claim.unclaimed.clone(),
        repeats: claim.repeats.clone(),
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
    let found = names.into_iter().filter_map(|name| judge.beside(name, policy));
    found.collect()
}

/// The result of a check.
struct ClaimFinding {
    paper: String,
    ours: String,
    verdict: Verdict,
}

/// A comparison of two policies at the same coordinates.
struct PolicyComparison<'a> {
    /// The result of the comparison for each seed.
    samples: Vec<f64>,
    mean: MeanEstimate,
    place: &'a PointCoordinates,
}

impl<'a> PolicyComparison<'a> {
    fn new(samples: Vec<f64>, place: &'a PointCoordinates) -> Option<Self> {
        Some(PolicyComparison { mean: MeanEstimate::from_samples(&samples)?, samples, place })
    }

    fn value(&self) -> f64 {
        self.mean.mean
    }
}

/// Judges a claim by the points that it is about.
struct ClaimJudge<'a> {
    experiment: &'a Experiment,
    points: &'a [&'a Point],
    metric: Metric,
}

impl<'a> ClaimJudge<'a> {
    /// The finding of a check.
    fn finding_of(&self, check: Check) -> Option<ClaimFinding> {
        match check {
            Check::Order(order) => self.order(order),
            Check::Best(best) => self.first(best, false),
            Check::Worst(worst) => self.first(worst, true),
            Check::Improvement(it) => self.improvement(it),
            Check::Trend(it) => self.trend(it),
            Check::Peak(it) => self.extreme(it, true),
            Check::Valley(it) => self.extreme(it, false),
            Check::Depends(it) => self.depends(it),
            Check::NoWinner(policies) => self.no_winner(policies),
            Check::Value(it) => self.value(it),
            Check::Near(it) => self.near(it),
            Check::Bound(it) => self.bound(it),
            Check::Flat(it) => self.flat(it),
            Check::BestAt(it) => self.best_at(it),
            Check::Ratio(it) => self.ratio(it),
            Check::Fixed(it) => self.fixed(it),
            Check::Rank(it) => self.rank(it),
            Check::Times(it) => self.times(it),
            Check::More(it) => self.more(it),
            Check::Greatest(it) => self.greatest(it),
        }
    }

    fn of(&self, policy: &str) -> impl Iterator<Item = (&'a Point, f64)> {
        let of_policy = self.points.iter().filter(move |point| point.policy == policy);
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
    fn compared(&self, policy: &str, other: &str, compare: impl Fn(f64, f64) -> f64) -> Vec<PolicyComparison<'a>> {
        let pairs = self.pairs(policy, other).into_iter();
        let compared = pairs.filter_map(|(point, other)| {
            let samples = point.compared(other, self.metric, &compare)?;
            PolicyComparison::new(samples, &point.place)
        });
        compared.collect()
    }

    /// The per cent by which a policy is better than another, for each pair of points.
    fn improvements(&self, policy: &str, over: &str) -> Vec<PolicyComparison<'a>> {
        self.compared(policy, over, |value, other| self.metric.improvement(value, other))
    }

    /// The names, with each group's name replaced by the names of its members.
    fn expanded(&self, names: &[String]) -> Vec<String> {
        contenders::expanded(self.experiment, names)
    }

    fn improvement(&self, it: &ImprovementCheck) -> Option<ClaimFinding> {
        let found = self.improvements(&it.of, &it.over);
        let values: Vec<f64> = found.iter().map(PolicyComparison::value).collect();
        match it.percent {
            Percent::Range(range) => Some(ClaimFinding {
                paper: format!("{} to {} %", number(range[0]), number(range[1])),
                ours: span_text(&found)?,
                verdict: rules::of_range(range, &values)?,
            }),
            Percent::One(percent) => self.improvement_by(percent, it.take, &found, &values),
        }
    }

    /// The finding on an improvement by one percentage.
    fn improvement_by(
        &self,
        percent: f64,
        take: PointAggregate,
        found: &[PolicyComparison],
        values: &[f64],
    ) -> Option<ClaimFinding> {
        let all = values.len();
        let of_limit = |words: &str, end: &PolicyComparison, yes: usize| {
            let place = match all {
                1 => String::new(),
                _ => format!(" ({}); {yes} of {all} points", end.place.says()),
            };
            format!("{words}{}{place}", end.mean.text(" %"))
        };
        let (words, ours, verdict) = match take {
            PointAggregate::Most => {
                let (words, yes) = ("up to ", rules::within(percent, values));
                let ours = of_limit(words, greatest(found)?, yes);
                (words, ours, rules::of_greatest(percent, values)?)
            }
            PointAggregate::Least => {
                let (words, yes) = ("at least ", rules::beyond(percent, values));
                let ours = of_limit(words, least(found)?, yes);
                (words, ours, rules::of_share(yes, all)?)
            }
            PointAggregate::Each => {
                let each = values.iter().map(|value| rules::of_size(percent, *value));
                ("each ", span_text(found)?, each.max()?)
            }
            PointAggregate::Mean => {
                let mean = seeds::mean_of(found.iter().map(|one| one.samples.as_slice()))?;
                ("", mean.text(" %"), rules::of_size(percent, mean.mean))
            }
        };
        Some(ClaimFinding { paper: format!("{words}{} %", number(percent)), ours, verdict })
    }

    fn value(&self, it: &ValueCheck) -> Option<ClaimFinding> {
        let (points, values): (Vec<&Point>, Vec<f64>) = self.of(&it.policy).unzip();
        let samples = points.iter().map(|point| point.samples(self.metric));
        let samples: Vec<Vec<f64>> = samples.collect::<Option<_>>()?;
        let mean = seeds::mean_of(samples.iter().map(Vec::as_slice))?;
        let (paper, verdict) = match (it.is, it.about) {
            (Some(is), _) => (is, rules::of_exact(is, &values)),
            (None, Some(about)) => (about, rules::of_size(about, mean.mean)),
            (None, None) => return None,
        };
        Some(ClaimFinding { paper: number(paper), ours: mean.text(""), verdict })
    }

    fn near(&self, it: &NearCheck) -> Option<ClaimFinding> {
        let policies = it.policy.values();
        let differences: Vec<(&str, PolicyComparison)> = policies
            .iter()
            .flat_map(|Text(policy)| {
                let found = self.improvements(policy, &it.to).into_iter();
                found.map(move |one| (policy.as_str(), one))
            })
            .collect();
        let (policy, most) = differences.iter().max_by(|a, b| a.1.value().abs().total_cmp(&b.1.value().abs()))?;
        let yes = differences.iter().filter(|(_, one)| one.value().abs() <= it.percent).count();
        let of_policy = match policies.len() {
            1 => String::new(),
            _ => format!("{policy}, "),
        };
        Some(ClaimFinding {
            paper: format!("within {} %", number(it.percent)),
            ours: format!("{yes} of {}; {} at {of_policy}{}", differences.len(), most.mean.text(" %"), most.place.says()),
            verdict: rules::of_share(yes, differences.len())?,
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
                verdict: rules::of_share(yes, values.len())?,
            });
        }
        let percent = it.percent?;
        let found = self.improvements(&it.policy, it.over.as_deref()?);
        let worst = least(&found)?;
        let yes = found.iter().filter(|one| -one.value() <= percent).count();
        Some(ClaimFinding {
            paper: format!("no more than {} % worse", number(percent)),
            ours: format!(
                "{yes} of {}; at worst {} at {}",
                found.len(),
                seeds::value_text(-worst.value(), worst.mean.half_width, " %"),
                worst.place.says()
            ),
            verdict: rules::of_share(yes, found.len())?,
        })
    }
}

/// The greatest of some comparisons.
fn greatest<'a, 'b>(found: &'b [PolicyComparison<'a>]) -> Option<&'b PolicyComparison<'a>> {
    let greatest = found.iter();
    greatest.max_by(|a, b| a.value().total_cmp(&b.value()))
}

/// The least of some comparisons.
fn least<'a, 'b>(found: &'b [PolicyComparison<'a>]) -> Option<&'b PolicyComparison<'a>> {
    let least = found.iter();
    least.min_by(|a, b| a.value().total_cmp(&b.value()))
}

/// The least and the greatest of some comparisons, in words.
fn span_text(found: &[PolicyComparison]) -> Option<String> {
    let (least, greatest) = (least(found)?, greatest(found)?);
    Some(match found.len() {
        1 => greatest.mean.text(" %"),
        _ => format!("{} to {}", least.mean.text(""), greatest.mean.text(" %")),
    })
}

#[cfg(test)]
mod tests;
