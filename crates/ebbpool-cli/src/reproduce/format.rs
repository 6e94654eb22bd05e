//! Experiments as their files say them (`docs/reproduction.md`).

use std::collections::HashSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::contenders::{self, Among, Is};
use super::metric::Metric;
use super::ordered::{Ordered, Text};

/// Why a file is no experiment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub(crate) struct FormatError {
    /// The file, and the line where it is known.
    place: String,
    problem: String,
}

/// One table or figure of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Experiment {
    pub(crate) id: Spanned<String>,
    pub(crate) paper: Paper,
    /// As the paper counts it, such as `Figure 3`.
    pub(crate) number: String,
    pub(crate) title: String,
    pub(crate) basis: Basis,
    /// What differs from the paper, or had to be chosen.
    pub(crate) note: Option<String>,
    #[serde(default)]
    pub(crate) kind: Kind,
    /// What claims and figures are about where they do not say.
    #[serde(default = "cost")]
    pub(crate) metric: Metric,
    #[serde(default)]
    pub(crate) workloads: Ordered<Spanned<Workload>>,
    #[serde(default)]
    pub(crate) policies: Ordered<Spanned<Contender>>,
    #[serde(default)]
    pub(crate) setting: Setting,
    /// What varies: each combination of the values is a point.
    #[serde(default)]
    pub(crate) vary: Ordered<Spanned<Vec<Text>>>,
    /// What else holds with `--full`.
    #[serde(default)]
    pub(crate) full: Full,
    /// Of kind `priorities`.
    #[serde(default)]
    pub(crate) clusters: Ordered<Cluster>,
    #[serde(default)]
    pub(crate) figure: Vec<Spanned<Figure>>,
    /// Policies in order of their means over all points.
    #[serde(default)]
    pub(crate) ranking: Vec<Spanned<Ranking>>,
    #[serde(default)]
    pub(crate) claim: Vec<Spanned<Claim>>,
}

fn cost() -> Metric {
    Metric::Cost
}

/// Where an experiment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Paper {
    #[serde(rename = "CIKM")]
    Cikm,
    #[serde(rename = "TC")]
    Tc,
    #[serde(rename = "AD-LRU")]
    AdLru,
    #[serde(rename = "PPE")]
    Ppe,
    #[serde(rename = "CFDC")]
    Cfdc,
    /// Our own policy.
    #[serde(rename = "ebb")]
    Ebb,
    #[serde(rename = "own")]
    Own,
}

impl Paper {
    /// Authors, title and place.
    pub(crate) fn citation(self) -> &'static str {
        match self {
            Paper::Cikm => {
                "On et al., FD-Buffer: a buffer manager for databases on flash disks, CIKM 2010"
            }
            Paper::Tc => {
                "On et al., FD-Buffer: a cost-based adaptive buffer replacement algorithm for flash memory devices, IEEE Transactions on Computers"
            }
            Paper::AdLru => {
                "Jin et al., AD-LRU: an efficient buffer replacement algorithm for flash-based databases, Data and Knowledge Engineering 2012"
            }
            Paper::Ppe => {
                "Ou, Härder and Schall, Performance and power evaluation of flash-aware buffer algorithms"
            }
            Paper::Cfdc => {
                "Ou, Härder and Jin, CFDC: a flash-aware replacement policy for database buffer management, DaMoN 2009"
            }
            Paper::Ebb => "Ebbpool's own policy, see docs/ebb.md",
            Paper::Own => "an experiment of one's own",
        }
    }

    /// What the report calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Paper::Cikm => "FD-Buffer (CIKM)",
            Paper::Tc => "FD-Buffer (TC)",
            Paper::AdLru => "AD-LRU",
            Paper::Ppe => "PPE",
            Paper::Cfdc => "CFDC",
            Paper::Ebb => "ebb",
            Paper::Own => "own",
        }
    }

    /// True if somebody published it, so that there is something to reproduce.
    pub(crate) fn is_published(self) -> bool {
        !matches!(self, Paper::Ebb | Paper::Own)
    }
}

/// What our figures can be compared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Basis {
    /// Counts over the same workload.
    Counts,
    /// Counts over a recording of the same kind, for the paper's is not public.
    OtherTrace,
    /// Times on a model of the device: ratios and orderings.
    DeviceModel,
}

impl Basis {
    pub(crate) fn says(self) -> &'static str {
        match self {
            Basis::Counts => "counts over the workload that the paper describes",
            Basis::OtherTrace => {
                "counts over a trace of the same kind: the paper's own is not public, so sizes of effects may differ"
            }
            Basis::DeviceModel => {
                "times on a model of the device: ratios and orderings count, not the times"
            }
        }
    }
}

/// How points come about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Policies over workloads, in the simulator.
    #[default]
    Sweep,
    /// How far Two-Stack's estimates are from what is measured.
    Estimates,
    /// Priorities of given clusters.
    Priorities,
    /// As `sweep`, each policy alone and timed.
    Timing,
}

/// A reference string.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a trace such as \"zipf:pages=1000\", or a table with the keys quick and full, or is, or references; and quick-limit"
)]
pub(crate) enum Workload {
    /// A trace as on the command line, the same for quick and full.
    Named(String),
    Told(Told),
}

/// A reference string in more words.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Told {
    /// The trace, quick and full; of a list one after the other.
    pub(crate) is: Option<OneOrMore>,
    pub(crate) quick: Option<OneOrMore>,
    pub(crate) full: Option<OneOrMore>,
    /// The references themselves: `R A, W B` or `R 1, W 2`.
    pub(crate) references: Option<String>,
    /// References to read at most when quick.
    pub(crate) quick_limit: Option<u64>,
}

/// What a workload is at one scale.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trace {
    pub(crate) spec: String,
    /// Traces that follow it and are part of it.
    pub(crate) then: Vec<String>,
    /// True if `spec` is the references themselves.
    pub(crate) inline: bool,
    pub(crate) limit: Option<u64>,
}

impl Trace {
    /// The trace of that name, whole.
    pub(crate) fn named(spec: &str) -> Self {
        Trace {
            spec: spec.into(),
            then: Vec::new(),
            inline: false,
            limit: None,
        }
    }

    /// The same with values in the places of their names.
    pub(crate) fn filled(&self, values: &[(String, String)]) -> Self {
        let then = self.then.iter().map(|spec| filled(spec, values));
        Trace {
            spec: filled(&self.spec, values),
            then: then.collect(),
            ..self.clone()
        }
    }

    /// What it is made of.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        let parts = std::iter::once(&self.spec).chain(&self.then);
        parts.map(String::as_str)
    }
}

impl Workload {
    /// The trace of that scale; nothing if none is told.
    pub(crate) fn at(&self, scale: Scale) -> Option<Trace> {
        let told = match self {
            Workload::Named(name) => return Some(Trace::named(name)),
            Workload::Told(told) => told,
        };
        if let Some(references) = &told.references {
            return Some(Trace {
                inline: true,
                ..Trace::named(references)
            });
        }
        let of_scale = match scale {
            Scale::Quick => &told.quick,
            Scale::Full => &told.full,
        };
        let mut parts = of_scale.as_ref().or(told.is.as_ref())?.values().iter();
        Some(Trace {
            limit: told.quick_limit.filter(|_| scale == Scale::Quick),
            then: parts
                .clone()
                .skip(1)
                .map(|Text(spec)| spec.clone())
                .collect(),
            ..Trace::named(&parts.next()?.0)
        })
    }

    fn is_whole(&self) -> bool {
        match self {
            Workload::Named(_) => true,
            Workload::Told(told) => {
                let parts = [&told.is, &told.quick, &told.full].into_iter().flatten();
                let empty = parts.into_iter().any(|parts| parts.values().is_empty());
                let whole = matches!(
                    (&told.is, &told.quick, &told.full, &told.references),
                    (Some(_), None, None, None)
                        | (None, Some(_), Some(_), None)
                        | (None, None, None, Some(_))
                );
                whole && !empty
            }
        }
    }
}

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Quick,
    Full,
}

impl Scale {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scale::Quick => "quick",
            Scale::Full => "full",
        }
    }
}

/// Who takes part.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a policy such as \"lru\", or { best-of = \"fd-static:clean={}\", among = [1, 2] }, or worst-of or each-of in its place; among may be \"online\" or \"published\", and except leaves some out"
)]
pub(crate) enum Contender {
    Policy(String),
    Chosen(Chosen),
}

/// Several policies: the best or the worst of them at each point, chosen with hindsight, or each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Chosen {
    /// A policy with `{}` where the values go.
    pub(crate) best_of: Option<String>,
    pub(crate) worst_of: Option<String>,
    pub(crate) each_of: Option<String>,
    pub(crate) among: Among,
    /// Values that are left out.
    #[serde(default)]
    pub(crate) except: Vec<Text>,
}

impl Chosen {
    /// The policy with `{}` where the values go; nothing unless exactly one is told.
    pub(crate) fn template(&self) -> Option<&str> {
        let all = [&self.best_of, &self.worst_of, &self.each_of];
        let mut told = all.into_iter().flatten();
        let template = told.next()?;
        told.next().is_none().then_some(template)
    }

    pub(crate) fn values(&self) -> Vec<String> {
        let left_out = |value: &String| self.except.iter().any(|Text(one)| one == value);
        let mut values = self.among.values();
        values.retain(|value| !left_out(value));
        values
    }
}

/// What holds for all points, or for those where it does not vary.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Setting {
    pub(crate) frames: Option<Text>,
    pub(crate) asymmetry: Option<Text>,
    pub(crate) device: Option<Text>,
    pub(crate) warmup: Option<Text>,
    pub(crate) at_end: Option<Text>,
    pub(crate) cluster_size: Option<Text>,
    /// What stands for `{seed}`: each point is the mean over these.
    pub(crate) seeds: Option<Vec<Text>>,
}

impl Setting {
    pub(crate) const KEYS: [&'static str; 6] = [
        "frames",
        "asymmetry",
        "device",
        "warmup",
        "at-end",
        "cluster-size",
    ];

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let text = match key {
            "frames" => &self.frames,
            "asymmetry" => &self.asymmetry,
            "device" => &self.device,
            "warmup" => &self.warmup,
            "at-end" => &self.at_end,
            "cluster-size" => &self.cluster_size,
            _ => &None,
        };
        text.as_ref().map(|text| text.0.as_str())
    }
}

/// What replaces the quick values with `--full`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Full {
    #[serde(default)]
    pub(crate) setting: Setting,
    #[serde(default)]
    pub(crate) vary: Ordered<Spanned<Vec<Text>>>,
}

/// A cluster of CFDC.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Cluster {
    /// Page numbers in order of entry.
    pub(crate) pages: Vec<u64>,
    pub(crate) timestamp: u64,
    pub(crate) globaltime: u64,
}

/// What a figure's y axis has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Figure {
    pub(crate) title: Option<String>,
    /// One panel for each value of this: `workload` or something that varies; several together.
    #[serde(default)]
    pub(crate) panels: Vec<String>,
    /// Something that varies, `workload`, `policy`, or `references` for the course over the trace.
    pub(crate) x: String,
    /// The experiment's metric if nothing is said.
    pub(crate) y: Option<Metric>,
    /// The y axis has by how many per cent this policy is better than that of the line.
    pub(crate) improvement_of: Option<String>,
    /// The y axis has the ratio to what this policy has.
    pub(crate) ratio_to: Option<String>,
    /// Shown only if it is one of these.
    #[serde(default)]
    pub(crate) policies: Vec<String>,
    #[serde(default)]
    pub(crate) x_scale: AxisScale,
    #[serde(default)]
    pub(crate) y_scale: AxisScale,
    /// Bars in place of lines.
    #[serde(default)]
    pub(crate) bars: bool,
    /// A line for each value of this, in place of a line for each policy.
    pub(crate) lines: Option<String>,
    /// Only points with these values; a list means any of them.
    #[serde(default, rename = "where")]
    pub(crate) at: Ordered<OneOrMore>,
}

/// Policies in order of the geometric mean of their ratio to another, over all points.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Ranking {
    pub(crate) title: Option<String>,
    /// The other one.
    pub(crate) ratio_to: String,
    /// The experiment's metric if nothing is said.
    pub(crate) metric: Option<Metric>,
    /// Those that are ranked; all if nothing is said.
    #[serde(default)]
    pub(crate) policies: Vec<String>,
    /// A column with the geometric mean for each value of this, beside that of all points.
    pub(crate) columns: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AxisScale {
    #[default]
    Linear,
    Log,
    /// Evenly spaced, whatever the values.
    Even,
}

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

impl Experiment {
    /// Reads a file; `label` is what messages call it.
    pub(crate) fn parse(text: &str, label: &str) -> Result<Experiment, FormatError> {
        let document = Document { text, label };
        let experiment: Experiment = toml::from_str(text).map_err(|error| {
            let problem = error.message().replace(['\n', '\r'], " ");
            document.error(error.span(), problem)
        })?;
        document.check(&experiment)?;
        Ok(experiment)
    }

    pub(crate) fn id(&self) -> &str {
        self.id.get_ref()
    }

    pub(crate) fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.figure.iter().map(Spanned::get_ref)
    }

    pub(crate) fn rankings(&self) -> impl Iterator<Item = &Ranking> {
        self.ranking.iter().map(Spanned::get_ref)
    }

    pub(crate) fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.claim.iter().map(Spanned::get_ref)
    }

    /// The values of what varies at that scale, in order.
    pub(crate) fn varied(&self, scale: Scale) -> impl Iterator<Item = (&str, &[Text])> {
        self.vary.0.iter().map(move |(name, quick)| {
            let full = self.full.vary.get(name).filter(|_| scale == Scale::Full);
            (name.as_str(), full.unwrap_or(quick).get_ref().as_slice())
        })
    }

    /// What a setting is at that scale where it does not vary.
    pub(crate) fn setting(&self, key: &str, scale: Scale) -> Option<&str> {
        let full = match scale {
            Scale::Full => self.full.setting.get(key),
            Scale::Quick => None,
        };
        full.or_else(|| self.setting.get(key))
    }

    /// The values for `{seed}` at that scale; none if nothing depends on chance.
    pub(crate) fn seeds(&self, scale: Scale) -> &[Text] {
        let full = match scale {
            Scale::Full => self.full.setting.seeds.as_deref(),
            Scale::Quick => None,
        };
        full.or(self.setting.seeds.as_deref()).unwrap_or_default()
    }

    /// True of a policy that is the same at all points, and not the best of several or a bound.
    pub(crate) fn is_fixed(&self, policy: &str) -> bool {
        contenders::of(self).iter().any(|entrant| {
            let is_policy = matches!(&entrant.is, Is::One(one) if !super::lab::stands_for(one));
            entrant.name == policy && is_policy
        })
    }

    /// True of the name of somebody who takes part.
    pub(crate) fn names(&self, policy: &str) -> bool {
        contenders::of(self)
            .iter()
            .any(|entrant| entrant.name == policy)
    }

    /// True if something asks for the state of the buffer over time.
    pub(crate) fn needs_time_lines(&self) -> bool {
        let figures = self.figures();
        let claims = self.claims();
        self.metric.needs_time_line()
            || figures.into_iter().any(|figure| {
                figure.x == REFERENCES || figure.y.is_some_and(Metric::needs_time_line)
            })
            || claims
                .into_iter()
                .any(|claim| claim.metric.is_some_and(Metric::needs_time_line))
    }

    /// The names of all that tells points of a policy apart.
    pub(crate) fn dimensions(&self) -> Vec<&str> {
        [WORKLOAD].into_iter().chain(self.vary.names()).collect()
    }
}

/// The name of the axis over a trace.
pub(crate) const REFERENCES: &str = "references";
pub(crate) const WORKLOAD: &str = "workload";
pub(crate) const POLICY: &str = "policy";
/// What stands for a seed in traces and policies.
pub(crate) const SEED: &str = "seed";

/// What takes the place of policies where Two-Stack is looked at.
pub(crate) const ESTIMATORS: [&str; 2] = ["with present conditions", "without"];

/// Puts values into the places `{name}` of a text.
pub(crate) fn filled(text: &str, values: &[(String, String)]) -> String {
    values.iter().fold(text.to_string(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    })
}

/// The first place `{name}` of a text.
fn place(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('{')?;
    rest.split_once('}').map(|(name, _)| name)
}

/// A file's text and what it is called, for messages.
struct Document<'a> {
    text: &'a str,
    label: &'a str,
}

impl Document<'_> {
    fn error(&self, span: Option<Range<usize>>, problem: String) -> FormatError {
        let before = span.and_then(|span| self.text.get(..span.start));
        let place = match before {
            Some(before) => format!("{}, line {}", self.label, before.matches('\n').count() + 1),
            None => self.label.into(),
        };
        FormatError { place, problem }
    }

    fn check(&self, experiment: &Experiment) -> Result<(), FormatError> {
        let id = experiment.id.get_ref();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if id.is_empty() || !id.chars().all(plain) {
            let problem = format!("'{id}' is no id; use lower-case letters, digits and hyphens");
            return Err(self.error(Some(experiment.id.span()), problem));
        }
        self.check_contents(experiment)?;
        self.check_seeds(experiment)?;
        self.check_varied(experiment)?;
        let known = Known::of(experiment);
        for ranking in &experiment.ranking {
            let problem = known.wrong_in_ranking(ranking.get_ref());
            problem.map_or(Ok(()), |it| Err(self.error(Some(ranking.span()), it)))?;
        }
        for figure in &experiment.figure {
            let problem = known.wrong_in_figure(figure.get_ref());
            problem.map_or(Ok(()), |it| Err(self.error(Some(figure.span()), it)))?;
        }
        for claim in &experiment.claim {
            let problem = known.wrong_in_claim(claim.get_ref());
            problem.map_or(Ok(()), |it| Err(self.error(Some(claim.span()), it)))?;
        }
        Ok(())
    }

    /// Whether there is all that its kind needs.
    fn check_contents(&self, experiment: &Experiment) -> Result<(), FormatError> {
        let missing = |what: &str| Err(self.error(None, format!("there is no {what}")));
        if experiment.kind == Kind::Priorities {
            return match experiment.clusters.0.is_empty() {
                true => missing("[clusters]"),
                false => Ok(()),
            };
        }
        if experiment.workloads.0.is_empty() {
            return missing("[workloads]");
        }
        if experiment.policies.0.is_empty() {
            return missing("[policies]");
        }
        if experiment.vary.get("frames").is_none() && experiment.setting.frames.is_none() {
            return missing("number of frames; give frames in [setting] or in [vary]");
        }
        for (name, workload) in &experiment.workloads.0 {
            if !workload.get_ref().is_whole() {
                let problem = format!(
                    "workload '{name}' has to say is, or quick and full, or references, and nothing else"
                );
                return Err(self.error(Some(workload.span()), problem));
            }
        }
        for (name, contender) in &experiment.policies.0 {
            if let Contender::Chosen(chosen) = contender.get_ref()
                && (chosen.template().is_none() || chosen.values().is_empty())
            {
                let problem = format!(
                    "policy '{name}' has to say best-of or worst-of, or each-of, and values among which to choose"
                );
                return Err(self.error(Some(contender.span()), problem));
            }
        }
        let mut names = HashSet::new();
        let all = contenders::of(experiment).into_iter();
        let twice = all
            .map(|entrant| entrant.name)
            .find(|name| !names.insert(name.clone()));
        twice.map_or(Ok(()), |name| {
            let problem = format!("two policies are called '{name}'; leave one out with except");
            Err(self.error(None, problem))
        })
    }

    /// Whether seeds are used, and used as such.
    fn check_seeds(&self, experiment: &Experiment) -> Result<(), FormatError> {
        let told = [Scale::Quick, Scale::Full].map(|scale| experiment.seeds(scale));
        if told.iter().all(|seeds| seeds.is_empty()) {
            return Ok(());
        }
        let repeated = |seeds: &[Text]| seeds.iter().collect::<HashSet<_>>().len() < seeds.len();
        let stands = |(text, _): &(String, _)| text.contains(&format!("{{{SEED}}}"));
        let problem = if told.iter().any(|seeds| seeds.is_empty()) {
            "there are seeds with --full only; give the quick ones in [setting]"
        } else if told.iter().any(|seeds| repeated(seeds)) {
            "a seed is told twice"
        } else if !matches!(experiment.kind, Kind::Sweep | Kind::Timing) {
            "seeds are of experiments of kind sweep or timing"
        } else if experiment.vary.get(SEED).is_some() {
            "seed varies, and there are seeds; it can be one of them"
        } else if !texts(experiment).iter().any(stands) {
            "there are seeds, but {seed} stands nowhere"
        } else {
            return Ok(());
        };
        Err(self.error(None, problem.into()))
    }

    /// Whether what varies is used, and what is used varies.
    fn check_varied(&self, experiment: &Experiment) -> Result<(), FormatError> {
        let mut used: HashSet<String> = HashSet::new();
        let names: Vec<&str> = experiment.vary.names().collect();
        for (text, span) in texts(experiment) {
            let mut rest = text.as_str();
            while let Some(name) = place(rest) {
                let is_seed = name == SEED && !experiment.seeds(Scale::Quick).is_empty();
                if !name.is_empty() && !is_seed && !names.contains(&name) {
                    let more = match name {
                        SEED => "; give seeds in [setting]",
                        _ => "",
                    };
                    let problem =
                        format!("nothing named '{name}' varies, as {{{name}}} says{more}");
                    return Err(self.error(span, problem));
                }
                used.insert(name.to_string());
                rest = rest.split_once('}').map_or("", |(_, rest)| rest);
            }
        }
        let all = experiment.vary.0.iter().chain(&experiment.full.vary.0);
        for (name, values) in all {
            let problem = if values.get_ref().is_empty() {
                format!("{name} has no values")
            } else if !names.contains(&name.as_str()) {
                format!("{name} varies with --full only; give its quick values in [vary]")
            } else if !used.contains(name) && !Setting::KEYS.contains(&name.as_str()) {
                format!("{name} varies, but {{{name}}} stands nowhere")
            } else {
                continue;
            };
            return Err(self.error(Some(values.span()), problem));
        }
        Ok(())
    }
}

/// All texts in which places may be, with where they stand.
fn texts(experiment: &Experiment) -> Vec<(String, Option<Range<usize>>)> {
    let mut texts = Vec::new();
    for (_, workload) in &experiment.workloads.0 {
        for trace in [Scale::Quick, Scale::Full].map(|scale| workload.get_ref().at(scale)) {
            for part in trace.iter().flat_map(Trace::parts) {
                texts.push((part.to_string(), Some(workload.span())));
            }
        }
    }
    for (_, contender) in &experiment.policies.0 {
        let text = match contender.get_ref() {
            Contender::Policy(text) => Some(text.clone()),
            Contender::Chosen(chosen) => chosen.template().map(str::to_string),
        };
        texts.extend(text.map(|text| (text, Some(contender.span()))));
    }
    for setting in [&experiment.setting, &experiment.full.setting] {
        let told = Setting::KEYS.iter().filter_map(|key| setting.get(key));
        texts.extend(told.map(|text| (text.to_string(), None)));
    }
    texts
}

/// What figures and claims may speak of.
struct Known<'a> {
    policies: Vec<String>,
    /// Names that stand for the policies of a group.
    groups: Vec<&'a str>,
    dimensions: Vec<&'a str>,
    experiment: &'a Experiment,
}

impl<'a> Known<'a> {
    fn of(experiment: &'a Experiment) -> Self {
        let policies = match experiment.kind {
            Kind::Estimates => ESTIMATORS.map(str::to_string).to_vec(),
            Kind::Priorities => experiment.clusters.names().map(str::to_string).collect(),
            Kind::Sweep | Kind::Timing => {
                let all = contenders::of(experiment).into_iter();
                all.map(|entrant| entrant.name).collect()
            }
        };
        let is_group = |contender: &Contender| match contender {
            Contender::Policy(_) => false,
            Contender::Chosen(chosen) => chosen.each_of.is_some(),
        };
        let groups = experiment.policies.0.iter();
        let groups = groups.filter(|(_, contender)| is_group(contender.get_ref()));
        Known {
            policies,
            groups: groups.map(|(name, _)| name.as_str()).collect(),
            dimensions: experiment.dimensions(),
            experiment,
        }
    }

    fn wrong_policy<'b>(&self, mut named: impl Iterator<Item = &'b str>) -> Option<String> {
        let unknown = named.find(|name| !self.policies.iter().any(|known| known == name))?;
        let all = self.policies.join(", ");
        Some(format!(
            "there is no policy '{unknown}' here; there are {all}"
        ))
    }

    /// As [`wrong_policy`](Self::wrong_policy), where a group may stand for its policies.
    fn wrong_policy_or_group<'b>(&self, named: impl Iterator<Item = &'b str>) -> Option<String> {
        self.wrong_policy(named.filter(|name| !self.groups.contains(name)))
    }

    fn wrong_dimension<'b>(&self, mut named: impl Iterator<Item = &'b str>) -> Option<String> {
        let unknown = named.find(|name| !self.dimensions.contains(name))?;
        let all = self.dimensions.join(", ");
        Some(format!("'{unknown}' does not vary here; what does: {all}"))
    }

    fn wrong_in_figure(&self, figure: &Figure) -> Option<String> {
        let special = [REFERENCES, POLICY];
        let x = Some(figure.x.as_str()).filter(|x| !special.contains(x));
        let panels = figure.panels.iter().map(String::as_str);
        let panels = panels.filter(|panel| *panel != POLICY);
        let lines = figure.lines.as_deref().filter(|lines| *lines != POLICY);
        let others = figure.improvement_of.iter().chain(&figure.ratio_to);
        let policies = figure.policies.iter().map(String::as_str);
        let at = figure.at.names();
        self.wrong_dimension(x.into_iter().chain(panels).chain(lines).chain(at))
            .or_else(|| self.wrong_value(&figure.at))
            .or_else(|| self.wrong_policy(others.map(String::as_str)))
            .or_else(|| self.wrong_policy_or_group(policies))
            .or_else(|| {
                let both = figure.improvement_of.is_some() && figure.ratio_to.is_some();
                both.then(|| "a figure has improvement-of or ratio-to, not both".into())
            })
    }

    fn wrong_in_ranking(&self, ranking: &Ranking) -> Option<String> {
        let policies = ranking.policies.iter().map(String::as_str);
        self.wrong_policy([ranking.ratio_to.as_str()].into_iter())
            .or_else(|| self.wrong_policy_or_group(policies))
            .or_else(|| self.wrong_dimension(ranking.columns.iter().map(String::as_str)))
    }

    fn wrong_in_claim(&self, claim: &Claim) -> Option<String> {
        let Some(check) = claim.check() else {
            return Some(
                "a claim has exactly one of order, best, worst, improvement, trend, peak, value, near, bound, flat, best-at, ratio and fixed"
                    .into(),
            );
        };
        let named = check.policies().into_iter();
        let wrong = match check {
            Check::Best(_) | Check::Worst(_) | Check::Fixed(_) => self.wrong_policy_or_group(named),
            _ => self.wrong_policy(named),
        };
        let wrong = wrong.or_else(|| {
            let over_time = matches!(check, Check::Trend(_));
            let along = check
                .along()
                .filter(|along| !over_time || *along != REFERENCES);
            self.wrong_dimension(along.into_iter().chain(claim.at.names()))
        });
        if wrong.is_some() {
            return wrong;
        }
        if let Some(unknown) = self.wrong_value(&claim.at) {
            return Some(unknown);
        }
        match check {
            Check::Value(it) if it.is.is_some() == it.about.is_some() => {
                Some("a value is either exact (is) or rough (about)".into())
            }
            Check::Bound(Bound {
                over: Some(_),
                percent: Some(_),
                at_most: None,
                ..
            })
            | Check::Bound(Bound {
                over: None,
                percent: None,
                at_most: Some(_),
                ..
            }) => None,
            Check::Bound(_) => Some("a bound has over and percent, or at-most".into()),
            Check::Ratio(it) if it.at_most.is_nan() || it.at_most <= 0.0 => {
                Some("a ratio is at most a number above 0".into())
            }
            Check::Fixed(it) if !self.experiment.is_fixed(&it.policy) => Some(format!(
                "'{}' is not the same policy at all points, and no fixed one",
                it.policy
            )),
            Check::Order(order) if order.len() < 2 => {
                Some("an order has two policies at least".into())
            }
            _ => None,
        }
    }

    /// A value that a known dimension does not have.
    fn wrong_value(&self, at: &Ordered<OneOrMore>) -> Option<String> {
        at.0.iter().find_map(|(name, wanted)| {
            let known = self.values_of(name);
            let mut wanted = wanted.values().iter();
            let Text(unknown) = wanted.find(|Text(one)| !known.contains(one))?;
            let all = known.join(", ");
            Some(format!("{name} is never '{unknown}' here; it is {all}"))
        })
    }

    /// The values that a dimension has, quick or full.
    fn values_of(&self, name: &str) -> Vec<String> {
        if name == WORKLOAD {
            return self
                .experiment
                .workloads
                .names()
                .map(str::to_string)
                .collect();
        }
        let scales = [Scale::Quick, Scale::Full];
        let varied = scales
            .iter()
            .flat_map(|&scale| self.experiment.varied(scale));
        let values = varied.filter(|(varied, _)| *varied == name);
        let mut all: Vec<String> = Vec::new();
        for Text(value) in values.flat_map(|(_, values)| values) {
            if !all.contains(value) {
                all.push(value.clone());
            }
        }
        all
    }
}

#[cfg(test)]
mod tests;
