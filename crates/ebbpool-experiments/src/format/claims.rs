//! What is claimed, and the checks of it.

use serde::Deserialize;

use super::super::metric::Metric;
use super::super::ordered::{Ordered, Text};

/// What a paper says, in a form that can be checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Claim {
    /// In words.
    pub(crate) says: String,
    /// The paper's figure as printed, where the check does not have it.
    pub(crate) paper: Option<String>,
    /// The experiment's metric if nothing is said.
    pub(crate) metric: Option<Metric>,
    /// Only points with these values; a list means any of them.
    #[serde(default, rename = "where")]
    pub(crate) at: Ordered<OneOrMore>,
    /// Why ours differs, or what to keep in mind.
    pub(crate) why: Option<String>,
    pub(crate) order: Option<Vec<String>>,
    pub(crate) best: Option<Best>,
    pub(crate) worst: Option<Best>,
    pub(crate) improvement: Option<Improvement>,
    pub(crate) trend: Option<Trend>,
    pub(crate) peak: Option<Peak>,
    pub(crate) value: Option<Value>,
    pub(crate) near: Option<Near>,
    pub(crate) bound: Option<Bound>,
    pub(crate) flat: Option<Flat>,
    pub(crate) best_at: Option<BestAt>,
    pub(crate) ratio: Option<Ratio>,
    pub(crate) fixed: Option<Fixed>,
}

/// One policy is at least as good as all others, or at most.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Best {
    pub(crate) policy: String,
    /// The others if not all.
    #[serde(default)]
    pub(crate) against: Vec<String>,
}

/// One policy is better than another by so many per cent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Improvement {
    pub(crate) of: String,
    pub(crate) over: String,
    pub(crate) percent: Percent,
    #[serde(default)]
    pub(crate) take: Take,
}

/// A percentage, or the least and the greatest.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected per cent, such as 21, or a range such as [7, 13]"
)]
pub(crate) enum Percent {
    One(f64),
    Range([f64; 2]),
}

/// Which of a claim's points counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Take {
    /// "Up to".
    Most,
    /// "At least".
    Least,
    #[default]
    Mean,
}

/// A curve rises or falls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Trend {
    pub(crate) policy: String,
    /// Not the metric, but the improvement over this policy.
    pub(crate) over: Option<String>,
    pub(crate) along: String,
    pub(crate) goes: Goes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Goes {
    Up,
    Down,
}

/// A curve is highest between its ends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Peak {
    pub(crate) policy: String,
    pub(crate) over: Option<String>,
    pub(crate) along: String,
}

/// A policy's metric has this value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Value {
    pub(crate) policy: String,
    /// Exactly.
    pub(crate) is: Option<f64>,
    /// Roughly.
    pub(crate) about: Option<f64>,
}

/// Two policies differ by no more than so many per cent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Near {
    pub(crate) policy: String,
    pub(crate) to: String,
    pub(crate) percent: f64,
}

/// A policy is no worse than another by more than so many per cent, or its metric stays within a
/// limit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Bound {
    pub(crate) policy: String,
    pub(crate) over: Option<String>,
    pub(crate) percent: Option<f64>,
    pub(crate) at_most: Option<f64>,
}

/// A curve changes by no more than so many per cent of its mean.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Flat {
    pub(crate) policy: String,
    pub(crate) along: String,
    pub(crate) percent: f64,
}

/// A curve is best at this value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct BestAt {
    pub(crate) policy: String,
    pub(crate) along: String,
    pub(crate) is: Text,
}

/// A policy's metric is at most so many times another's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Ratio {
    pub(crate) of: String,
    pub(crate) to: String,
    pub(crate) at_most: f64,
    #[serde(default)]
    pub(crate) take: Over,
}

/// What of a claim's ratios counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Over {
    /// Every one.
    #[default]
    All,
    /// Their arithmetic mean.
    Mean,
    /// Their geometric mean.
    GeometricMean,
}

/// One policy, the same at all points, is better than any other one by so many per cent of the
/// geometric mean.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Fixed {
    pub(crate) policy: String,
    /// The others, if not all that are the same policy at all points.
    #[serde(default)]
    pub(crate) against: Vec<String>,
    pub(crate) percent: f64,
}

/// A value or some.
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
    Best(&'a Best),
    Worst(&'a Best),
    Improvement(&'a Improvement),
    Trend(&'a Trend),
    Peak(&'a Peak),
    Value(&'a Value),
    Near(&'a Near),
    Bound(&'a Bound),
    Flat(&'a Flat),
    BestAt(&'a BestAt),
    Ratio(&'a Ratio),
    Fixed(&'a Fixed),
}

impl Claim {
    /// The check; nothing unless there is exactly one.
    pub(crate) fn check(&self) -> Option<Check<'_>> {
        let checks = [
            self.order.as_deref().map(Check::Order),
            self.best.as_ref().map(Check::Best),
            self.worst.as_ref().map(Check::Worst),
            self.improvement.as_ref().map(Check::Improvement),
            self.trend.as_ref().map(Check::Trend),
            self.peak.as_ref().map(Check::Peak),
            self.value.as_ref().map(Check::Value),
            self.near.as_ref().map(Check::Near),
            self.bound.as_ref().map(Check::Bound),
            self.flat.as_ref().map(Check::Flat),
            self.best_at.as_ref().map(Check::BestAt),
            self.ratio.as_ref().map(Check::Ratio),
            self.fixed.as_ref().map(Check::Fixed),
        ];
        let mut told = checks.into_iter().flatten();
        let check = told.next()?;
        told.next().is_none().then_some(check)
    }
}

impl Check<'_> {
    /// The policies it speaks of.
    pub(crate) fn policies(&self) -> Vec<&str> {
        match self {
            Check::Order(order) => order.iter().map(String::as_str).collect(),
            Check::Best(best) | Check::Worst(best) => {
                let against = best.against.iter().map(String::as_str);
                against.chain([best.policy.as_str()]).collect()
            }
            Check::Improvement(it) => vec![&it.of, &it.over],
            Check::Trend(it) => [Some(&it.policy), it.over.as_ref()]
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect(),
            Check::Peak(it) => [Some(&it.policy), it.over.as_ref()]
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect(),
            Check::Value(it) => vec![&it.policy],
            Check::Near(it) => vec![&it.policy, &it.to],
            Check::Bound(it) => [Some(&it.policy), it.over.as_ref()]
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect(),
            Check::Flat(it) => vec![&it.policy],
            Check::BestAt(it) => vec![&it.policy],
            Check::Ratio(it) => vec![&it.of, &it.to],
            Check::Fixed(it) => {
                let against = it.against.iter().map(String::as_str);
                against.chain([it.policy.as_str()]).collect()
            }
        }
    }

    /// What it goes along.
    pub(crate) fn along(&self) -> Option<&str> {
        match self {
            Check::Trend(it) => Some(&it.along),
            Check::Peak(it) => Some(&it.along),
            Check::Flat(it) => Some(&it.along),
            Check::BestAt(it) => Some(&it.along),
            _ => None,
        }
    }
}
