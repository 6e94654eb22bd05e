//! The results of an experiment as JSON, for programs.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Value, json};

use super::data::is_seeded;
use super::done::ExperimentResult;
use super::format::{Basis, Experiment, Paper};
use super::metric::Metric;
use super::point::Point;
use super::ranking::RankingTable;
use super::verdict::JudgedClaim;

/// The results of an experiment, and the claims judged by them.
#[derive(Serialize, JsonSchema)]
pub struct ExperimentData<'a> {
    /// The name, such as `cikm-table2`.
    #[schemars(extend("x-role" = "key"))]
    id: &'a str,
    /// The paper.
    paper: Paper,
    /// The number in the paper, such as `Figure 3`.
    number: &'a str,
    title: &'a str,
    /// `quick` or `full`.
    #[schemars(extend("x-role" = "key"))]
    scale: &'a str,
    /// The respect in which the figures are comparable with the paper's.
    basis: Basis,
    /// Differences from the paper, and choices that the paper leaves open.
    note: Option<&'a str>,
    /// The metric of claims that do not name one.
    metric: Metric,
    points: Vec<PointData<'a>>,
    claims: &'a [JudgedClaim],
    rankings: &'a [RankingTable],
    /// Notes of the run.
    notes: &'a [String],
    /// Wall time of the run.
    #[schemars(extend("x-unit" = "s", "x-role" = "measured"))]
    seconds: f64,
    /// Results that were stored before.
    #[schemars(extend("x-role" = "measured"))]
    results_known: u64,
    /// Results that the run has computed.
    #[schemars(extend("x-role" = "measured"))]
    results_computed: u64,
}

/// The result of a policy at one combination of workload and parameters.
#[derive(Serialize, JsonSchema)]
#[schemars(transform = add_computing_times)]
struct PointData<'a> {
    /// The workload and the parameters of the experiment, as texts, and each measured metric; over several seeds its
    /// mean, and half of its 95 % confidence interval in a field whose name ends in `_ci95`.
    #[serde(flatten)]
    values: BTreeMap<String, PointValue<'a>>,
    /// The name of the policy in the experiment.
    #[schemars(extend("x-role" = "key"))]
    policy: &'a str,
    /// The policy in canonical spelling.
    spelled: &'a str,
    frames_used: Option<u64>,
    /// The value of the best or the worst of several policies, or the value that distinguishes a policy in its group.
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen: Option<&'a str>,
    /// The number of seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    seeds: Option<usize>,
}

/// A parameter of a point, or a metric.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum PointValue<'a> {
    Text(Option<&'a str>),
    Number(Option<f64>),
}

/// The name of a metric's field.
fn field_of(metric: Metric) -> String {
    metric.key().replace('-', "_")
}

/// Names the metrics that vary from run to run.
fn add_computing_times(schema: &mut Schema) {
    let properties = schema.ensure_object().entry("properties").or_insert_with(|| json!({}));
    let Value::Object(properties) = properties else {
        return;
    };
    for metric in [Metric::ComputingNs, Metric::ComputingShare] {
        for name in [field_of(metric), format!("{}_ci95", field_of(metric))] {
            let field = json!({
                "description": metric.label(),
                "type": ["number", "null"],
                "x-role": "measured",
            });
            properties.insert(name, field);
        }
    }
}

impl<'a> PointData<'a> {
    fn new(experiment: &'a Experiment, point: &'a Point, seeded: bool) -> Self {
        let dimensions = experiment.dimensions().into_iter();
        let mut values: BTreeMap<String, PointValue> =
            dimensions.map(|name| (name.to_string(), PointValue::Text(point.get(name)))).collect();
        for metric in point.values.keys() {
            let name = field_of(*metric);
            if let Some(half_width) = point.half_width(*metric) {
                let half_width = PointValue::Number(Some(half_width));
                values.insert(format!("{name}_ci95"), half_width);
            }
            values.insert(name, PointValue::Number(point.value(*metric)));
        }
        PointData {
            values,
            policy: &point.policy,
            spelled: &point.spec,
            frames_used: point.frames,
            chosen: point.chosen.as_deref(),
            seeds: seeded.then_some(point.runs.len()),
        }
    }
}

impl<'a> ExperimentData<'a> {
    fn new(done: &'a ExperimentResult) -> Self {
        let experiment = &done.experiment;
        let seeded = is_seeded(done);
        let points = done.points.iter();
        let points = points.map(|point| PointData::new(experiment, point, seeded));
        ExperimentData {
            id: experiment.id(),
            paper: experiment.paper,
            number: &experiment.number,
            title: &experiment.title,
            scale: done.scale.name(),
            basis: experiment.basis,
            note: experiment.note.as_deref(),
            metric: experiment.metric,
            points: points.collect(),
            claims: &done.judged,
            rankings: &done.ranked,
            notes: &done.notes,
            seconds: done.seconds,
            results_known: done.stored,
            results_computed: done.computed,
        }
    }
}

/// An experiment's results as JSON.
pub fn as_json(done: &ExperimentResult) -> Value {
    // Only maps whose keys are no texts have no JSON.
    serde_json::to_value(ExperimentData::new(done)).unwrap_or_default()
}

/// An experiment in the list of all.
#[derive(Serialize, JsonSchema)]
pub struct ListedExperiment<'a> {
    /// The claim that it judges.
    claim: String,
    /// The name, such as `cikm-table2`.
    #[schemars(extend("x-role" = "key"))]
    id: &'a str,
    title: &'a str,
}

impl<'a> From<&'a Experiment> for ListedExperiment<'a> {
    fn from(experiment: &'a Experiment) -> Self {
        ListedExperiment { claim: experiment.claim_text(), id: experiment.id(), title: experiment.title() }
    }
}
