//! What came of an experiment.

use ebbpool_sim::Moment;

use super::format::{POLICY, WORKLOAD};
use super::metric::{Metric, Values};
use super::plan::Place;

/// A policy at a place.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) place: Place,
    /// As the experiment calls it.
    pub(crate) policy: String,
    /// In canonical spelling.
    pub(crate) spec: String,
    pub(crate) frames: Option<u64>,
    /// The value that made it the best or the worst of several.
    pub(crate) chosen: Option<String>,
    pub(crate) values: Values,
    /// What policies were told at first that a write costs, in page reads.
    pub(crate) asymmetry: f64,
    /// What a read cost at first, in the unit of the moments' bills.
    pub(crate) read_cost: f64,
    /// How it came about, where somebody asks.
    pub(crate) moments: Vec<Moment>,
}

impl Place {
    /// The value of a dimension.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        if name == WORKLOAD {
            return Some(&self.workload);
        }
        let found = self.at.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The place without one dimension: what a curve along it has in common.
    pub(crate) fn without(&self, name: &str) -> Place {
        let rest = self.at.iter().filter(|(known, _)| known != name);
        Place {
            workload: match name {
                WORKLOAD => String::new(),
                _ => self.workload.clone(),
            },
            at: rest.cloned().collect(),
        }
    }

    /// In words: `TPC-C, frames 3%`.
    pub(crate) fn says(&self) -> String {
        let workload = Some(self.workload.clone()).filter(|name| !name.is_empty());
        let at = self
            .at
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
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
}
