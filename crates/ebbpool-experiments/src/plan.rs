//! Plans the simulations of an experiment.

use super::contenders::{self, Participant, PolicyChoice};
use super::format::{Experiment, ExperimentKind, SEED, Scale, Setting, Trace, filled};
use super::ordered::Text;

/// One simulation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    pub(crate) config: RunConfig,
    pub(crate) policy: String,
    pub(crate) frames: String,
    /// A constant asymmetry; an asymmetry that changes is part of the config.
    pub(crate) asymmetry: Option<String>,
}

/// The parameters that simulations must share to run in one pass over a trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunConfig {
    pub(crate) trace: Trace,
    pub(crate) device: Option<String>,
    /// An asymmetry that changes.
    pub(crate) changing: Option<String>,
    pub(crate) warmup: String,
    pub(crate) at_end: String,
    pub(crate) cluster_size: String,
}

/// A point of an experiment before its measurement.
#[derive(Clone, Debug)]
pub(crate) struct PlannedPoint {
    pub(crate) place: PointCoordinates,
    pub(crate) policy: String,
    /// For a policy of a group, the value that distinguishes it.
    pub(crate) value: Option<String>,
    /// One run for each seed; a single run if the seed has no effect.
    pub(crate) runs: Vec<RunSelection>,
}

/// The workload and the varied values of a point, without the policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PointCoordinates {
    pub(crate) workload: String,
    /// The names of the varied parameters and their values at this point.
    pub(crate) at: Vec<(String, String)>,
}

/// The simulations of a point, and which of them gives its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunSelection {
    /// One simulation.
    Plain(Box<Cell>),
    /// The best of several simulations, each with the value that distinguishes it.
    Best(Vec<(String, Cell)>),
    /// The worst of several simulations.
    Worst(Vec<(String, Cell)>),
}

impl RunSelection {
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell> {
        let (one, more) = match self {
            RunSelection::Plain(cell) => (Some(&**cell), &[][..]),
            RunSelection::Best(cells) | RunSelection::Worst(cells) => (None, cells.as_slice()),
        };
        one.into_iter().chain(more.iter().map(|(_, cell)| cell))
    }

    #[cfg(unix)]
    pub(crate) fn cells_mut(&mut self) -> impl Iterator<Item = &mut Cell> {
        let (one, more) = match self {
            RunSelection::Plain(cell) => (Some(&mut **cell), &mut [][..]),
            RunSelection::Best(cells) | RunSelection::Worst(cells) => (None, cells.as_mut_slice()),
        };
        one.into_iter().chain(more.iter_mut().map(|(_, cell)| cell))
    }
}

/// All combinations of the values of the varied parameters.
fn combinations(experiment: &Experiment, scale: Scale) -> Vec<Vec<(String, String)>> {
    let mut all = vec![Vec::new()];
    for (name, values) in experiment.varied(scale) {
        let longer = all.iter().flat_map(|prefix: &Vec<(String, String)>| {
            values.iter().map(move |Text(value)| {
                let mut longer = prefix.clone();
                longer.push((name.to_string(), value.clone()));
                longer
            })
        });
        all = longer.collect();
    }
    all
}

/// The points of an experiment, with these additional policies.
pub(crate) fn points(experiment: &Experiment, scale: Scale, extra: &[String]) -> Vec<PlannedPoint> {
    let mut points = Vec::new();
    if experiment.kind == ExperimentKind::Priorities {
        return points;
    }
    let extra = extra.iter().map(|policy| Participant {
        name: policy.clone(),
        value: None,
        choice: PolicyChoice::One(policy.clone()),
    });
    let participants: Vec<Participant> = contenders::of(experiment)
        .into_iter()
        .chain(extra)
        .collect();
    for (workload, spec) in &experiment.workloads.0 {
        let Some(trace) = spec.get_ref().at(scale) else {
            continue;
        };
        for at in combinations(experiment, scale) {
            let seeded = seeded(experiment, scale, &at);
            let configured: Vec<ConfiguredRun> = seeded
                .iter()
                .map(|at| ConfiguredRun::new(experiment, scale, &trace, at))
                .collect();
            for participant in &participants {
                let mut runs: Vec<RunSelection> = configured
                    .iter()
                    .map(|run| run.selection(&participant.choice))
                    .collect();
                // If the run does not depend on the seed, all seeds give the same run.
                runs.dedup();
                points.push(PlannedPoint {
                    place: PointCoordinates {
                        workload: workload.clone(),
                        at: at.clone(),
                    },
                    policy: participant.name.clone(),
                    value: participant.value.clone(),
                    runs,
                });
            }
        }
    }
    points
}

/// The values of a point, once with each seed; unchanged if there are no seeds.
fn seeded(
    experiment: &Experiment,
    scale: Scale,
    at: &[(String, String)],
) -> Vec<Vec<(String, String)>> {
    let with = |Text(seed): &Text| {
        let mut with = at.to_vec();
        with.push((SEED.to_string(), seed.clone()));
        with
    };
    match experiment.seeds(scale) {
        [] => vec![at.to_vec()],
        seeds => seeds.iter().map(with).collect(),
    }
}

/// The parameters of the simulations for one combination of values.
struct ConfiguredRun<'a> {
    config: RunConfig,
    frames: String,
    asymmetry: Option<String>,
    at: &'a [(String, String)],
}

impl<'a> ConfiguredRun<'a> {
    fn new(
        experiment: &Experiment,
        scale: Scale,
        trace: &Trace,
        at: &'a [(String, String)],
    ) -> Self {
        let get = |key: &str| -> Option<String> {
            debug_assert!(Setting::KEYS.contains(&key));
            let varied = at.iter().find(|(name, _)| name == key);
            let varied = varied.map(|(_, value)| value.as_str());
            let value = varied.or_else(|| experiment.setting(key, scale))?;
            Some(filled(value, at))
        };
        let or = |key: &str, default: &str| get(key).unwrap_or_else(|| default.into());
        let asymmetry = get("asymmetry");
        let is_constant = |text: &String| text.parse::<f64>().is_ok();
        ConfiguredRun {
            config: RunConfig {
                trace: trace.filled(at),
                device: get("device").filter(|device| device != "none"),
                changing: asymmetry.clone().filter(|text| !is_constant(text)),
                warmup: or("warmup", "0"),
                at_end: or("at-end", "free"),
                cluster_size: or("cluster-size", "16"),
            },
            frames: or("frames", ""),
            asymmetry: asymmetry.filter(is_constant),
            at,
        }
    }

    fn selection(&self, choice: &PolicyChoice) -> RunSelection {
        let cells = |several: &[(String, String)]| {
            let cells = several
                .iter()
                .map(|(value, policy)| (value.clone(), self.cell(policy)));
            cells.collect()
        };
        match choice {
            PolicyChoice::One(policy) => RunSelection::Plain(Box::new(self.cell(policy))),
            PolicyChoice::BestOf(several) => RunSelection::Best(cells(several)),
            PolicyChoice::WorstOf(several) => RunSelection::Worst(cells(several)),
        }
    }

    fn cell(&self, policy: &str) -> Cell {
        Cell {
            config: self.config.clone(),
            policy: filled(policy, self.at),
            frames: self.frames.clone(),
            asymmetry: self.asymmetry.clone(),
        }
    }
}
