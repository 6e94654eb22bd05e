//! The file format of experiments (`docs/reproduction.md`).

mod checks;
mod claims;
pub(crate) mod contenders;
mod document;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use self::contenders::{CandidateValues, PolicyChoice, PseudoPolicy};
use self::document::Document;
use super::draw::Draw;
use super::metric::Metric;
use super::ordered::{Ordered, Text};

pub use checks::{CHECKS, CheckExample};
pub(crate) use claims::*;

/// Why a file is not a valid experiment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {problem}")]
pub struct FormatError {
    /// The file, and the line if it is known.
    location: String,
    problem: String,
}

/// One table or figure of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    pub(crate) id: Spanned<String>,
    pub(crate) paper: Paper,
    /// The number in the paper, such as `Figure 3`.
    pub(crate) number: String,
    pub(crate) title: String,
    pub(crate) basis: Basis,
    /// Differences from the paper, and choices that the paper leaves open.
    pub(crate) note: Option<String>,
    #[serde(default)]
    pub(crate) kind: ExperimentKind,
    /// The metric of claims and figures that do not name one.
    #[serde(default = "cost")]
    pub(crate) metric: Metric,
    #[serde(default)]
    pub(crate) workloads: Ordered<Spanned<Workload>>,
    #[serde(default)]
    pub(crate) policies: Ordered<Spanned<Contender>>,
    #[serde(default)]
    pub(crate) setting: Setting,
    /// The varied parameters; each combination of their values is a point.
    #[serde(default)]
    pub(crate) vary: Ordered<Spanned<Vec<Text>>>,
    /// Parameters to draw at random, which vary together: their values are added to `vary`.
    pub(crate) draw: Option<Spanned<Draw>>,
    /// The settings that `--full` replaces.
    #[serde(default)]
    pub(crate) full: FullScale,
    /// The clusters of an experiment of kind `priorities`.
    #[serde(default)]
    pub(crate) clusters: Ordered<Cluster>,
    #[serde(default)]
    pub(crate) figure: Vec<Spanned<Figure>>,
    /// Rankings of policies by their means over all points.
    #[serde(default)]
    pub(crate) ranking: Vec<Spanned<Ranking>>,
    #[serde(default)]
    pub(crate) claim: Vec<Spanned<Claim>>,
}

fn cost() -> Metric {
    Metric::Cost
}

/// The origin of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
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
    /// The study of Ebbpool's own policy.
    #[serde(rename = "ebb")]
    Ebb,
    #[serde(rename = "own")]
    Own,
}

impl Paper {
    /// Authors, title and venue.
    pub(crate) fn citation(self) -> &'static str {
        match self {
            Paper::Cikm => "On et al., FD-Buffer: a buffer manager for databases on flash disks, CIKM 2010",
            Paper::Tc => {
                "On et al., FD-Buffer: a cost-based adaptive buffer replacement algorithm for flash memory devices, IEEE Transactions on Computers"
            }
            Paper::AdLru => {
                "Jin et al., AD-LRU: an efficient buffer replacement algorithm for flash-based databases, Data and Knowledge Engineering 2012"
            }
            Paper::Ppe => "Ou, Härder and Schall, Performance and power evaluation of flash-aware buffer algorithms",
            Paper::Cfdc => {
                "Ou, Härder and Jin, CFDC: a flash-aware replacement policy for database buffer management, DaMoN 2009"
            }
            Paper::Ebb => "Ebbpool's own policy, see docs/ebb.md",
            Paper::Own => "an experiment of one's own",
        }
    }

    /// The name in the report.
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

    /// The name in ids, such as that of `cikm-table2`.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Paper::Cikm => "cikm",
            Paper::Tc => "tc",
            Paper::AdLru => "adlru",
            Paper::Ppe => "ppe",
            Paper::Cfdc => "cfdc",
            Paper::Ebb => "ebb",
            Paper::Own => "own",
        }
    }

    /// True for a published paper, whose experiments can be reproduced.
    pub(crate) fn is_published(self) -> bool {
        !matches!(self, Paper::Ebb | Paper::Own)
    }
}

/// The respect in which our figures are comparable with the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Basis {
    /// Counts over the same workload.
    Counts,
    /// Counts over a recording of the same kind, because the paper's recording is not public.
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
            Basis::DeviceModel => "times on a model of the device: ratios and orderings count, not the times",
        }
    }
}

/// How the points of an experiment are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ExperimentKind {
    /// Policies over workloads, in the simulator.
    #[default]
    Sweep,
    /// The errors of Two-Stack's estimates.
    Estimates,
    /// Priorities of given clusters.
    Priorities,
    /// Policies over workloads, in the simulator, with the computing time of each policy measured alone.
    Timing,
}

/// A reference string.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a trace such as \"zipf:pages=1000\", or a table with the keys quick and full, or is, or references; and quick-limit"
)]
pub(crate) enum Workload {
    /// A trace as on the command line, the same at both scales.
    Named(String),
    /// A table that specifies the trace.
    Specified(TraceSpec),
}

/// The table that specifies a reference string.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TraceSpec {
    /// The trace at both scales; a list is read as consecutive parts.
    pub(crate) is: Option<OneOrMore>,
    pub(crate) quick: Option<OneOrMore>,
    pub(crate) full: Option<OneOrMore>,
    /// The references themselves: `R A, W B` or `R 1, W 2`.
    pub(crate) references: Option<String>,
    /// The most references to read at quick scale.
    pub(crate) quick_limit: Option<u64>,
}

/// The trace of a workload at one scale.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trace {
    pub(crate) spec: String,
    /// Further parts of the trace, which follow `spec`.
    pub(crate) then: Vec<String>,
    /// True if `spec` contains the references themselves.
    pub(crate) inline: bool,
    pub(crate) limit: Option<u64>,
}

impl Trace {
    /// The whole trace of that name.
    pub(crate) fn named(spec: &str) -> Self {
        Trace { spec: spec.into(), then: Vec::new(), inline: false, limit: None }
    }

    /// The trace with placeholders replaced by values.
    pub(crate) fn filled(&self, values: &[(String, String)]) -> Self {
        let then = self.then.iter().map(|spec| filled(spec, values));
        Trace { spec: filled(&self.spec, values), then: then.collect(), ..self.clone() }
    }

    /// The parts of the trace.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        let parts = std::iter::once(&self.spec).chain(&self.then);
        parts.map(String::as_str)
    }
}

impl Workload {
    /// The trace at that scale; `None` if the file does not specify one.
    pub(crate) fn at(&self, scale: Scale) -> Option<Trace> {
        let table = match self {
            Workload::Named(name) => return Some(Trace::named(name)),
            Workload::Specified(table) => table,
        };
        if let Some(references) = &table.references {
            return Some(Trace { inline: true, ..Trace::named(references) });
        }
        let of_scale = match scale {
            Scale::Quick => &table.quick,
            Scale::Full => &table.full,
        };
        let mut parts = of_scale.as_ref().or(table.is.as_ref())?.values().iter();
        Some(Trace {
            limit: table.quick_limit.filter(|_| scale == Scale::Quick),
            then: parts.clone().skip(1).map(|Text(spec)| spec.clone()).collect(),
            ..Trace::named(&parts.next()?.0)
        })
    }

    fn is_complete(&self) -> bool {
        match self {
            Workload::Named(_) => true,
            Workload::Specified(table) => {
                let parts = [&table.is, &table.quick, &table.full].into_iter().flatten();
                let empty = parts.into_iter().any(|parts| parts.values().is_empty());
                let complete = matches!(
                    (&table.is, &table.quick, &table.full, &table.references),
                    (Some(_), None, None, None) | (None, Some(_), Some(_), None) | (None, None, None, Some(_))
                );
                complete && !empty
            }
        }
    }
}

/// The scale at which an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Every part of an experiment at a small scale: short traces, few sizes.
    Quick,
    /// The sizes of the papers, as far as they are known.
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

/// A policy or a group of policies that takes part.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a policy such as \"lru\", or { best-of = \"fd-static:clean={}\", among = [1, 2] }, or worst-of or each-of in its place; among may be \"online\" or \"published\", and except leaves some out"
)]
pub(crate) enum Contender {
    Policy(String),
    Group(PolicyGroup),
}

/// A group of policies: the best or the worst of them at each point, chosen with hindsight, or each of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PolicyGroup {
    /// A policy with `{}` as the placeholder for a value.
    pub(crate) best_of: Option<String>,
    pub(crate) worst_of: Option<String>,
    pub(crate) each_of: Option<String>,
    pub(crate) among: CandidateValues,
    /// Values to omit.
    #[serde(default)]
    pub(crate) except: Vec<Text>,
}

impl PolicyGroup {
    /// The policy with the placeholder `{}`; `None` unless the group has exactly one.
    pub(crate) fn template(&self) -> Option<&str> {
        let all = [&self.best_of, &self.worst_of, &self.each_of];
        let mut given = all.into_iter().flatten();
        let template = given.next()?;
        given.next().is_none().then_some(template)
    }

    pub(crate) fn values(&self) -> Vec<String> {
        let is_omitted = |value: &String| self.except.iter().any(|Text(one)| one == value);
        let mut values = self.among.values();
        values.retain(|value| !is_omitted(value));
        values
    }
}

/// Parameters of all points, unless they vary.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Setting {
    pub(crate) frames: Option<Text>,
    pub(crate) asymmetry: Option<Text>,
    pub(crate) device: Option<Text>,
    pub(crate) warmup: Option<Text>,
    pub(crate) at_end: Option<Text>,
    pub(crate) cluster_size: Option<Text>,
    /// The values of `{seed}`: each point is the mean over these.
    pub(crate) seeds: Option<Vec<Text>>,
}

impl Setting {
    pub(crate) const KEYS: [&'static str; 6] = ["frames", "asymmetry", "device", "warmup", "at-end", "cluster-size"];

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

/// The values that replace those of the quick scale with `--full`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FullScale {
    #[serde(default)]
    pub(crate) setting: Setting,
    #[serde(default)]
    pub(crate) vary: Ordered<Spanned<Vec<Text>>>,
}

/// A cluster of CFDC.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Cluster {
    /// Page numbers in the order of their admission.
    pub(crate) pages: Vec<u64>,
    pub(crate) timestamp: u64,
    pub(crate) globaltime: u64,
}

/// A figure of the report.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Figure {
    pub(crate) title: Option<String>,
    /// One panel for each value of this: `workload` or a varied parameter; several form combinations.
    #[serde(default)]
    pub(crate) panels: Vec<String>,
    /// The x axis: a varied parameter, `workload`, `policy`, or `references` for the course over the trace.
    pub(crate) x: String,
    /// The metric of the y axis; without it the experiment's metric.
    pub(crate) y: Option<Metric>,
    /// The y axis shows the per cent by which this policy is better than that of the line.
    pub(crate) improvement_of: Option<String>,
    /// The y axis shows the ratio to the value of this policy.
    pub(crate) ratio_to: Option<String>,
    /// The policies to show; all if empty.
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
    /// Restricts the points to those with these values; a list allows any of its values.
    #[serde(default, rename = "where")]
    pub(crate) at: Ordered<OneOrMore>,
}

/// A ranking of policies by the geometric mean of their ratio to another policy, over all points.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Ranking {
    pub(crate) title: Option<String>,
    /// The policy that the ratios refer to.
    pub(crate) ratio_to: String,
    /// The metric; without it the experiment's metric.
    pub(crate) metric: Option<Metric>,
    /// The policies to rank; all if empty.
    #[serde(default)]
    pub(crate) policies: Vec<String>,
    /// The parameter with a column for each of its values, which shows the geometric mean over the points with
    /// this value.
    pub(crate) columns: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AxisScale {
    #[default]
    Linear,
    Log,
    /// Evenly spaced, independent of the values.
    Even,
}

impl Experiment {
    /// Reads a file; `label` is its name in messages.
    ///
    /// # Errors
    ///
    /// [`FormatError`] names the line and the problem.
    pub fn parse(text: &str, label: &str) -> Result<Experiment, FormatError> {
        let document = Document { text, label };
        let mut experiment: Experiment = toml::from_str(text).map_err(|error| {
            let problem = error.message().replace(['\n', '\r'], " ");
            document.error(error.span(), problem)
        })?;
        document.check_draw(&experiment)?;
        experiment.fill_draw();
        document.check(&experiment)?;
        Ok(experiment)
    }

    /// Draws the parameters anew with that seed. False if the experiment draws nothing.
    pub(crate) fn draw_with_seed(&mut self, seed: u64) -> bool {
        if let Some(draw) = &mut self.draw {
            draw.get_mut().seed = seed;
        }
        self.fill_draw();
        self.draw.is_some()
    }

    fn fill_draw(&mut self) {
        if let Some(draw) = &self.draw {
            let span = draw.span();
            let drawn = draw.get_ref().values().into_iter();
            let spanned = drawn.map(|(name, values)| (name, Spanned::new(span.clone(), values)));
            self.vary = Ordered(spanned.collect());
        }
    }

    /// The name, such as `cikm-table2`.
    pub fn id(&self) -> &str {
        self.id.get_ref()
    }

    /// The title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The paper's name, and the number of the table or figure in the paper.
    pub fn source(&self) -> (&'static str, &str) {
        (self.paper.name(), &self.number)
    }

    /// The claims, in words.
    pub fn claim_text(&self) -> String {
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

    /// The varied parameters and their values at that scale, in order.
    pub(crate) fn varied(&self, scale: Scale) -> impl Iterator<Item = (&str, &[Text])> {
        self.vary.0.iter().map(move |(name, quick)| {
            let full = self.full.vary.get(name).filter(|_| scale == Scale::Full);
            (name.as_str(), full.unwrap_or(quick).get_ref().as_slice())
        })
    }

    /// The value of a setting at that scale, if it does not vary.
    pub(crate) fn setting(&self, key: &str, scale: Scale) -> Option<&str> {
        let full = match scale {
            Scale::Full => self.full.setting.get(key),
            Scale::Quick => None,
        };
        full.or_else(|| self.setting.get(key))
    }

    /// The values of `{seed}` at that scale; empty if nothing depends on random numbers.
    pub(crate) fn seeds(&self, scale: Scale) -> &[Text] {
        let full = match scale {
            Scale::Full => self.full.setting.seeds.as_deref(),
            Scale::Quick => None,
        };
        full.or(self.setting.seeds.as_deref()).unwrap_or_default()
    }

    /// True for a policy that is the same at all points, and neither the best of several nor a bound.
    pub(crate) fn is_fixed(&self, policy: &str) -> bool {
        contenders::of(self).iter().any(|participant| {
            let is_policy = matches!(&participant.choice, PolicyChoice::One(one) if PseudoPolicy::named(one).is_none());
            participant.name == policy && is_policy
        })
    }

    /// True if a figure or claim needs the state of the buffer over time.
    pub(crate) fn needs_time_lines(&self) -> bool {
        let figures = self.figures();
        let claims = self.claims();
        self.metric.needs_time_line()
            || figures.into_iter().any(|figure| figure.x == REFERENCES || figure.y.is_some_and(Metric::needs_time_line))
            || claims.into_iter().any(|claim| claim.metric.is_some_and(Metric::needs_time_line))
    }

    /// The names of the parameters that distinguish the points of a policy.
    pub(crate) fn dimensions(&self) -> Vec<&str> {
        [WORKLOAD].into_iter().chain(self.vary.names()).collect()
    }
}

/// The name of the axis over a trace.
pub(crate) const REFERENCES: &str = "references";
pub(crate) const WORKLOAD: &str = "workload";
pub(crate) const POLICY: &str = "policy";
/// The placeholder for a seed in traces and policies.
pub(crate) const SEED: &str = "seed";

/// The estimators that take the place of policies in experiments of kind `estimates`.
pub(crate) const ESTIMATORS: [&str; 2] = ["with present conditions", "without"];

/// Replaces the placeholders `{name}` of a text by values.
pub(crate) fn filled(text: &str, values: &[(String, String)]) -> String {
    values.iter().fold(text.to_string(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

#[cfg(test)]
mod tests;
