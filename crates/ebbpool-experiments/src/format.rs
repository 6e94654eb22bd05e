//! Experiments as their files say them (`docs/reproduction.md`).

mod claims;
mod document;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use self::document::Document;
use super::contenders::{self, Among, Is};
use super::metric::Metric;
use super::ordered::{Ordered, Text};

pub(crate) use claims::*;

/// Why a file is no experiment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct FormatError {
    /// The file, and the line where it is known.
    place: String,
    problem: String,
}

/// One table or figure of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
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
pub enum Scale {
    /// All of an experiment but on less: short traces, few sizes.
    Quick,
    /// The papers' sizes, as far as they are known.
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

impl Experiment {
    /// Reads a file; `label` is what messages call it.
    ///
    /// # Errors
    ///
    /// [`FormatError`] names the line and what it may have been meant.
    pub fn parse(text: &str, label: &str) -> Result<Experiment, FormatError> {
        let document = Document { text, label };
        let experiment: Experiment = toml::from_str(text).map_err(|error| {
            let problem = error.message().replace(['\n', '\r'], " ");
            document.error(error.span(), problem)
        })?;
        document.check(&experiment)?;
        Ok(experiment)
    }

    /// Its name, such as `cikm-table2`.
    pub fn id(&self) -> &str {
        self.id.get_ref()
    }

    /// What it is about.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The paper's name, and the table or figure as the paper counts it.
    pub fn source(&self) -> (&'static str, &str) {
        (self.paper.name(), &self.number)
    }

    /// What it claims, in words.
    pub fn says(&self) -> String {
        let claims = self.claims().map(|claim| claim.says.as_str());
        claims.collect::<Vec<_>>().join("; ")
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
            let is_policy = matches!(&entrant.is, Is::One(one) if !super::runner::stands_for(one));
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

#[cfg(test)]
mod tests;
