//! Claims and their checks.

use serde::Deserialize;

use super::super::metric::Metric;
use super::super::ordered::{Ordered, Text};

/// A claim of a paper, in a form that can be checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Claim {
    /// The claim in words.
    pub(crate) says: String,
    /// The paper's figure as printed, if the check does not contain it.
    pub(crate) paper: Option<String>,
    /// The metric; without it the experiment's metric.
    pub(crate) metric: Option<Metric>,
    /// Restricts the points to those with these values; a list allows any of its values.
    #[serde(default, rename = "where")]
    pub(crate) at: Ordered<OneOrMore>,
    /// Why our result differs, or what a reader should bear in mind.
    pub(crate) why: Option<String>,
    /// Why the result could not have been another one, if so, such as a workload that was derived from the claim.
    pub(crate) circular: Option<String>,
    /// Why it is judged although the paper does not claim it, if so.
    pub(crate) unclaimed: Option<String>,
    /// The experiment that counts the same claim, if another paper has the same example.
    pub(crate) repeats: Option<String>,
    pub(crate) order: Option<Vec<String>>,
    pub(crate) best: Option<BestCheck>,
    pub(crate) worst: Option<BestCheck>,
    pub(crate) improvement: Option<ImprovementCheck>,
    pub(crate) trend: Option<TrendCheck>,
    pub(crate) peak: Option<PeakCheck>,
    pub(crate) valley: Option<PeakCheck>,
    pub(crate) value: Option<ValueCheck>,
    pub(crate) near: Option<NearCheck>,
    pub(crate) bound: Option<BoundCheck>,
    pub(crate) flat: Option<FlatCheck>,
    pub(crate) best_at: Option<BestAtCheck>,
    pub(crate) ratio: Option<RatioCheck>,
    pub(crate) fixed: Option<FixedCheck>,
    pub(crate) rank: Option<RankCheck>,
    pub(crate) times: Option<TimesCheck>,
    pub(crate) more: Option<MoreCheck>,
    pub(crate) greatest: Option<GreatestCheck>,
    pub(crate) depends: Option<DependsCheck>,
    pub(crate) no_winner: Option<Vec<String>>,
}

/// One policy is at least as good as all others, or at most as good.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct BestCheck {
    pub(crate) policy: String,
    /// The other policies; all if empty.
    #[serde(default)]
    pub(crate) against: Vec<String>,
    #[serde(default)]
    pub(crate) cases: Cases,
}

/// At which points a claim has to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cases {
    #[default]
    All,
    /// "In most cases": at more than half of the points.
    Most,
}

/// A policy has this rank among all: 1 is the best, 2 the second best.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RankCheck {
    pub(crate) policy: String,
    pub(crate) is: usize,
}

/// One value of a parameter is a number of times as good as another, on the mean over the policies.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TimesCheck {
    /// The policies; all if empty.
    #[serde(default)]
    pub(crate) policies: Vec<String>,
    pub(crate) along: String,
    /// The worse value.
    pub(crate) from: Text,
    /// The better value.
    pub(crate) to: Text,
    /// The number of times.
    pub(crate) is: Option<f64>,
    /// The per cent by which `from` is worse, in place of a number of times.
    pub(crate) percent: Option<[f64; 2]>,
}

/// A policy gains more over each of the others at one value of a parameter than at another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct MoreCheck {
    pub(crate) of: String,
    pub(crate) over: Vec<String>,
    pub(crate) along: String,
    /// The value where it gains more.
    pub(crate) at: Text,
    /// The value where it gains less.
    pub(crate) than: Text,
    /// By how many percentage points it gains more; if not given, any difference does.
    pub(crate) points: Option<[f64; 2]>,
}

/// A policy's improvement over another is greater in the claim's metric than in other metrics.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct GreatestCheck {
    pub(crate) of: String,
    pub(crate) over: String,
    pub(crate) than: Vec<Metric>,
}

/// One policy is better than another by this many per cent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ImprovementCheck {
    pub(crate) of: String,
    pub(crate) over: String,
    pub(crate) percent: Percent,
    #[serde(default)]
    pub(crate) take: PointAggregate,
}

/// A percentage, or a range of percentages.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "expected per cent, such as 21, or a range such as [7, 13]")]
pub(crate) enum Percent {
    One(f64),
    Range([f64; 2]),
}

/// How the values of a claim's points are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PointAggregate {
    /// "Up to": no value is larger, and the largest is about that.
    Most,
    /// "At least": no value is smaller.
    Least,
    /// Each value.
    Each,
    #[default]
    Mean,
}

/// A curve rises or falls along a parameter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TrendCheck {
    pub(crate) policy: String,
    /// The policy whose improvement the curve shows, in place of the metric.
    pub(crate) over: Option<String>,
    pub(crate) along: String,
    pub(crate) goes: TrendDirection,
    /// By how many per cent of its first value the curve goes at least; if not given, any change does.
    pub(crate) by: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TrendDirection {
    Up,
    Down,
}

/// A curve is highest between its ends, or lowest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PeakCheck {
    pub(crate) policy: String,
    pub(crate) over: Option<String>,
    pub(crate) along: String,
}

/// A policy's metric has this value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ValueCheck {
    pub(crate) policy: String,
    /// Exactly.
    pub(crate) is: Option<f64>,
    /// Roughly.
    pub(crate) about: Option<f64>,
}

/// A policy, or each of several, differs from another by at most this many per cent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct NearCheck {
    pub(crate) policy: OneOrMore,
    pub(crate) to: String,
    pub(crate) percent: f64,
}

/// A policy is at most this many per cent worse than another, or its metric stays within a limit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct BoundCheck {
    pub(crate) policy: String,
    pub(crate) over: Option<String>,
    pub(crate) percent: Option<f64>,
    pub(crate) at_most: Option<f64>,
}

/// A curve changes by at most this many per cent of its mean.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FlatCheck {
    pub(crate) policy: String,
    pub(crate) along: String,
    pub(crate) percent: f64,
}

/// A curve is best at this value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct BestAtCheck {
    pub(crate) policy: String,
    pub(crate) along: String,
    pub(crate) is: Text,
}

/// The best value of a parameter is not the same at all values of another parameter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct DependsCheck {
    pub(crate) policy: String,
    /// The parameter that has a best value.
    pub(crate) along: String,
    /// The parameter on which it depends.
    pub(crate) on: String,
}

/// The ratio of a policy's metric to another policy's has this limit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RatioCheck {
    pub(crate) of: String,
    pub(crate) to: String,
    pub(crate) at_most: f64,
    #[serde(default)]
    pub(crate) take: RatioAggregate,
}

/// How the ratios of a claim's points are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RatioAggregate {
    /// Each ratio.
    #[default]
    All,
    /// Their arithmetic mean.
    Mean,
    /// Their geometric mean.
    GeometricMean,
}

/// One policy, the same at all points, is better than any other such policy by this many per cent of the
/// geometric mean.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FixedCheck {
    pub(crate) policy: String,
    /// The other policies; if empty, all that are the same policy at all points.
    #[serde(default)]
    pub(crate) against: Vec<String>,
    pub(crate) percent: f64,
}

/// A value or a list of values.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a value or a list of values")]
pub(crate) enum OneOrMore {
    One(Text),
    More(Vec<Text>),
}

impl OneOrMore {
    pub(crate) fn values(&self) -> &[Text] {
        match self {
            OneOrMore::One(value) => std::slice::from_ref(value),
            OneOrMore::More(values) => values,
        }
    }

    pub(crate) fn has(&self, value: &str) -> bool {
        self.values().iter().any(|Text(one)| one == value)
    }
}

/// The check of a claim.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Check<'a> {
    /// Each is at least as good as the next.
    Order(&'a [String]),
    Best(&'a BestCheck),
    Worst(&'a BestCheck),
    Improvement(&'a ImprovementCheck),
    Trend(&'a TrendCheck),
    Peak(&'a PeakCheck),
    Valley(&'a PeakCheck),
    Value(&'a ValueCheck),
    Near(&'a NearCheck),
    Bound(&'a BoundCheck),
    Flat(&'a FlatCheck),
    BestAt(&'a BestAtCheck),
    Ratio(&'a RatioCheck),
    Fixed(&'a FixedCheck),
    Rank(&'a RankCheck),
    Times(&'a TimesCheck),
    More(&'a MoreCheck),
    Greatest(&'a GreatestCheck),
    Depends(&'a DependsCheck),
    /// None of them is the best of them at most points.
    NoWinner(&'a [String]),
}

impl Claim {
    /// The check; `None` unless there is exactly one.
    pub(crate) fn check(&self) -> Option<Check<'_>> {
        let checks = [
            self.order.as_deref().map(Check::Order),
            self.best.as_ref().map(Check::Best),
            self.worst.as_ref().map(Check::Worst),
            self.improvement.as_ref().map(Check::Improvement),
            self.trend.as_ref().map(Check::Trend),
            self.peak.as_ref().map(Check::Peak),
            self.valley.as_ref().map(Check::Valley),
            self.value.as_ref().map(Check::Value),
            self.near.as_ref().map(Check::Near),
            self.bound.as_ref().map(Check::Bound),
            self.flat.as_ref().map(Check::Flat),
            self.best_at.as_ref().map(Check::BestAt),
            self.ratio.as_ref().map(Check::Ratio),
            self.fixed.as_ref().map(Check::Fixed),
            self.rank.as_ref().map(Check::Rank),
            self.times.as_ref().map(Check::Times),
            self.more.as_ref().map(Check::More),
            self.greatest.as_ref().map(Check::Greatest),
            self.depends.as_ref().map(Check::Depends),
            self.no_winner.as_deref().map(Check::NoWinner),
        ];
        let mut given = checks.into_iter().flatten();
        let check = given.next()?;
        given.next().is_none().then_some(check)
    }
}

impl<'a> Check<'a> {
    /// The policies of the check.
    pub(crate) fn policies(&self) -> Vec<&str> {
        match self {
            Check::Order(order) | Check::NoWinner(order) => order.iter().map(String::as_str).collect(),
            Check::Best(best) | Check::Worst(best) => {
                let against = best.against.iter().map(String::as_str);
                against.chain([best.policy.as_str()]).collect()
            }
            Check::Improvement(it) => vec![&it.of, &it.over],
            Check::Trend(it) => [Some(&it.policy), it.over.as_ref()].into_iter().flatten().map(String::as_str).collect(),
            Check::Peak(it) | Check::Valley(it) => {
                [Some(&it.policy), it.over.as_ref()].into_iter().flatten().map(String::as_str).collect()
            }
            Check::Value(it) => vec![&it.policy],
            Check::Near(it) => {
                let policies = it.policy.values().iter().map(|Text(policy)| policy.as_str());
                policies.chain([it.to.as_str()]).collect()
            }
            Check::Bound(it) => [Some(&it.policy), it.over.as_ref()].into_iter().flatten().map(String::as_str).collect(),
            Check::Flat(it) => vec![&it.policy],
            Check::BestAt(it) => vec![&it.policy],
            Check::Ratio(it) => vec![&it.of, &it.to],
            Check::Fixed(it) => {
                let against = it.against.iter().map(String::as_str);
                against.chain([it.policy.as_str()]).collect()
            }
            Check::Rank(it) => vec![&it.policy],
            Check::Times(it) => it.policies.iter().map(String::as_str).collect(),
            Check::More(it) => {
                let over = it.over.iter().map(String::as_str);
                over.chain([it.of.as_str()]).collect()
            }
            Check::Greatest(it) => vec![&it.of, &it.over],
            Check::Depends(it) => vec![&it.policy],
        }
    }

    /// The policy of a claim about its place among all policies.
    pub(crate) fn about_all(self) -> Option<&'a str> {
        match self {
            Check::Best(it) | Check::Worst(it) if it.against.is_empty() => Some(&it.policy),
            Check::Fixed(it) if it.against.is_empty() => Some(&it.policy),
            Check::Rank(it) => Some(&it.policy),
            _ => None,
        }
    }

    /// The parameter along which the check follows a curve.
    pub(crate) fn along(&self) -> Option<&str> {
        match self {
            Check::Trend(it) => Some(&it.along),
            Check::Peak(it) | Check::Valley(it) => Some(&it.along),
            Check::Depends(it) => Some(&it.along),
            Check::Flat(it) => Some(&it.along),
            Check::BestAt(it) => Some(&it.along),
            Check::Times(it) => Some(&it.along),
            Check::More(it) => Some(&it.along),
            _ => None,
        }
    }

    /// The values of [`along`](Self::along) that the check names.
    pub(crate) fn values_along(&self) -> Vec<&Text> {
        match self {
            Check::BestAt(it) => vec![&it.is],
            Check::Times(it) => vec![&it.from, &it.to],
            Check::More(it) => vec![&it.at, &it.than],
            _ => Vec::new(),
        }
    }
}
