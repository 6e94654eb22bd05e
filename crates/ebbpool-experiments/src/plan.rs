//! From an experiment to the simulations that it takes.

use super::contenders::{self, Entrant, Is};
use super::format::{Experiment, Kind, SEED, Scale, Setting, Trace, filled};
use super::ordered::Text;

/// One simulation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    pub(crate) surroundings: Surroundings,
    pub(crate) policy: String,
    pub(crate) frames: String,
    /// A constant one; those that change are part of the surroundings.
    pub(crate) asymmetry: Option<String>,
}

/// What simulations have to share to go through a trace together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Surroundings {
    pub(crate) trace: Trace,
    pub(crate) device: Option<String>,
    /// An asymmetry that changes.
    pub(crate) changing: Option<String>,
    pub(crate) warmup: String,
    pub(crate) at_end: String,
    pub(crate) cluster_size: String,
}

/// A point before it is measured.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) place: Place,
    pub(crate) policy: String,
    /// Of a policy of a group: what tells it apart.
    pub(crate) value: Option<String>,
    /// Once for each seed; once if no seed makes a difference.
    pub(crate) runs: Vec<How>,
}

/// Where a point lies, whoever the policy is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) workload: String,
    /// What varies, and its value here.
    pub(crate) at: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// By one simulation.
    Plain(Box<Cell>),
    /// By the one of several that is best, or worst; each with the value that tells it apart.
    Best(Vec<(String, Cell)>),
    Worst(Vec<(String, Cell)>),
}

impl How {
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell> {
        let (one, more) = match self {
            How::Plain(cell) => (Some(&**cell), &[][..]),
            How::Best(cells) | How::Worst(cells) => (None, cells.as_slice()),
        };
        one.into_iter().chain(more.iter().map(|(_, cell)| cell))
    }

    #[cfg(unix)]
    pub(crate) fn cells_mut(&mut self) -> impl Iterator<Item = &mut Cell> {
        let (one, more) = match self {
            How::Plain(cell) => (Some(&mut **cell), &mut [][..]),
            How::Best(cells) | How::Worst(cells) => (None, cells.as_mut_slice()),
        };
        one.into_iter().chain(more.iter_mut().map(|(_, cell)| cell))
    }
}

/// All combinations of the values of what varies.
fn combinations(experiment: &Experiment, scale: Scale) -> Vec<Vec<(String, String)>> {
    let mut all = vec![Vec::new()];
    for (name, values) in experiment.varied(scale) {
        let longer = all.iter().flat_map(|begun: &Vec<(String, String)>| {
            values.iter().map(move |Text(value)| {
                let mut longer = begun.clone();
                longer.push((name.to_string(), value.clone()));
                longer
            })
        });
        all = longer.collect();
    }
    all
}

/// The points of an experiment, with those policies in addition.
pub(crate) fn points(experiment: &Experiment, scale: Scale, extra: &[String]) -> Vec<Wanted> {
    let mut points = Vec::new();
    if experiment.kind == Kind::Priorities {
        return points;
    }
    let extra = extra.iter().map(|policy| Entrant {
        name: policy.clone(),
        value: None,
        is: Is::One(policy.clone()),
    });
    let entrants: Vec<Entrant> = contenders::of(experiment)
        .into_iter()
        .chain(extra)
        .collect();
    for (workload, told) in &experiment.workloads.0 {
        let Some(trace) = told.get_ref().at(scale) else {
            continue;
        };
        for at in combinations(experiment, scale) {
            let seeded = seeded(experiment, scale, &at);
            let surrounded: Vec<Surrounded> = seeded
                .iter()
                .map(|at| Surrounded::new(experiment, scale, &trace, at))
                .collect();
            for entrant in &entrants {
                let mut runs: Vec<How> = surrounded
                    .iter()
                    .map(|around| around.how(&entrant.is))
                    .collect();
                // Where there is no chance, each seed gives the same.
                runs.dedup();
                points.push(Wanted {
                    place: Place {
                        workload: workload.clone(),
                        at: at.clone(),
                    },
                    policy: entrant.name.clone(),
                    value: entrant.value.clone(),
                    runs,
                });
            }
        }
    }
    points
}

/// The values of a point with each of the seeds; as they are where there are none.
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

/// What a combination of values comes to.
struct Surrounded<'a> {
    surroundings: Surroundings,
    frames: String,
    asymmetry: Option<String>,
    at: &'a [(String, String)],
}

impl<'a> Surrounded<'a> {
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
            let told = varied.or_else(|| experiment.setting(key, scale))?;
            Some(filled(told, at))
        };
        let or = |key: &str, default: &str| get(key).unwrap_or_else(|| default.into());
        let asymmetry = get("asymmetry");
        let is_constant = |text: &String| text.parse::<f64>().is_ok();
        Surrounded {
            surroundings: Surroundings {
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

    fn how(&self, is: &Is) -> How {
        let cells = |several: &[(String, String)]| {
            let cells = several
                .iter()
                .map(|(value, policy)| (value.clone(), self.cell(policy)));
            cells.collect()
        };
        match is {
            Is::One(policy) => How::Plain(Box::new(self.cell(policy))),
            Is::BestOf(several) => How::Best(cells(several)),
            Is::WorstOf(several) => How::Worst(cells(several)),
        }
    }

    fn cell(&self, policy: &str) -> Cell {
        Cell {
            surroundings: self.surroundings.clone(),
            policy: filled(policy, self.at),
            frames: self.frames.clone(),
            asymmetry: self.asymmetry.clone(),
        }
    }
}
