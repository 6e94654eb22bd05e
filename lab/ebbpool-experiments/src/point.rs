//! The points of an experiment: its results.

use ebbpool_sim::Moment;

use super::format::{POLICY, WORKLOAD};
use super::metric::{Metric, Values};
use super::plan::PointCoordinates;
use super::seeds::MeanEstimate;

/// The result of a policy at one combination of workload and parameters.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) place: PointCoordinates,
    /// The name of the policy in the experiment.
    pub(crate) policy: String,
    /// True for a policy that the user has added to the experiment's.
    pub(crate) is_guest: bool,
    /// The policy in canonical spelling.
    pub(crate) spec: String,
    pub(crate) frames: Option<u64>,
    /// The value of the best or the worst of several policies, or the value that distinguishes a policy in its
    /// group.
    pub(crate) chosen: Option<String>,
    /// The values; over several seeds their means.
    pub(crate) values: Values,
    /// The values of each seed; a single entry if nothing depends on random numbers.
    pub(crate) runs: Vec<Values>,
    /// The initial cost of a write for the policies, in page reads.
    pub(crate) asymmetry: f64,
    /// The initial cost of a read, in the unit of the moments' bills.
    pub(crate) read_cost: f64,
    /// The course over time, if a figure or claim needs it.
    pub(crate) moments: Vec<Moment>,
}

impl PointCoordinates {
    /// The value of a dimension.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        if name == WORKLOAD {
            return Some(&self.workload);
        }
        let found = self.at.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The coordinates without one dimension, which the points of a curve along this dimension share.
    pub(crate) fn without(&self, name: &str) -> PointCoordinates {
        let rest = self.at.iter().filter(|(key, _)| key != name);
        PointCoordinates {
            workload: match name {
                WORKLOAD => String::new(),
                _ => self.workload.clone(),
            },
            at: rest.cloned().collect(),
        }
    }

    /// The coordinates in words: `TPC-C, frames 3%`.
    pub(crate) fn says(&self) -> String {
        let workload = Some(self.workload.clone()).filter(|name| !name.is_empty());
        let at = self.at.iter().map(|(name, value)| format!("{name} {value}"));
        let all: Vec<String> = workload.into_iter().chain(at).collect();
        all.join(", ")
    }
}

impl Point {
    pub(crate) fn get(&self, dimension: &str) -> Option<&str> {
        match dimension {
            POLICY => Some(&self.policy),
            _ => self.place.get(dimension),
        }
    }

    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        self.values.get(&metric).copied().filter(|v| v.is_finite())
    }

    /// The metric's value with each seed.
    pub(crate) fn samples(&self, metric: Metric) -> Option<Vec<f64>> {
        let value = |run: &Values| run.get(&metric).copied().filter(|value| value.is_finite());
        self.runs.iter().map(value).collect()
    }

    /// Half of the confidence interval of a metric's mean, if the metric depends on random numbers.
    pub(crate) fn half_width(&self, metric: Metric) -> Option<f64> {
        MeanEstimate::from_samples(&self.samples(metric)?)?.half_width
    }

    /// The results of `compare` on this point's value and that of another, seed by seed.
    pub(crate) fn compared(&self, other: &Point, metric: Metric, compare: impl Fn(f64, f64) -> f64) -> Option<Vec<f64>> {
        let (ours, theirs) = (self.samples(metric)?, other.samples(metric)?);
        let seeds = ours.len().max(theirs.len());
        let of_seed = |samples: &[f64], seed: usize| match samples {
            [one] => Some(*one),
            samples => samples.get(seed).copied(),
        };
        let compared = (0..seeds).map(|seed| {
            let value = compare(of_seed(&ours, seed)?, of_seed(&theirs, seed)?);
            value.is_finite().then_some(value)
        });
        compared.collect()
    }
}

/// The means over several seeds, for each metric that all seeds have.
pub(crate) fn means(runs: &[Values]) -> Values {
    let [first, rest @ ..] = runs else {
        return Values::new();
    };
    let mean = |(metric, value): (&Metric, &f64)| {
        let others: Option<Vec<f64>> = rest.iter().map(|run| run.get(metric).copied()).collect();
        let sum = value + others?.iter().sum::<f64>();
        Some((*metric, sum / runs.len() as f64))
    };
    first.iter().filter_map(mean).collect()
}
