//! Plans the simulations of an experiment. Every text of the experiment is parsed here, once.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_lab::{CountingRules, DeviceFeatures, MemorySize, PricingRequest};
use ebbpool_policy::PolicySpec;
use ebbpool_sim::{AtEnd, GuestPolicy, SimPolicy, Warmup};

use super::format::contenders::{self, Participant, PolicyChoice, PseudoPolicy};
use super::format::{Experiment, ExperimentKind, SEED, Scale, Setting, Trace, filled};
use super::ordered::Text;
use super::parsed::Parsed;
use crate::error::ExperimentError;

/// The start of a device that is a real file.
pub(crate) const FILE_PREFIX: &str = "file:";

/// One simulation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExperimentCell {
    pub(crate) config: RunConfig,
    pub(crate) policy: CellPolicy,
    pub(crate) frames: Parsed<MemorySize>,
    /// A constant asymmetry, if there is no device, which has its own; an asymmetry that changes is part of the config.
    pub(crate) asymmetry: Option<Parsed<AsymmetrySpec>>,
}

/// The parameters that simulations must share to run in one pass over a trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunConfig {
    pub(crate) trace: Trace,
    pub(crate) device: Option<RunDevice>,
    /// An asymmetry that changes.
    pub(crate) changing: Option<Parsed<AsymmetrySpec>>,
    pub(crate) warmup: Parsed<Warmup>,
    pub(crate) at_end: Parsed<AtEnd>,
    pub(crate) cluster_size: Parsed<u64>,
}

/// The policy of a simulation, or a bound that takes its place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CellPolicy {
    Policy(Parsed<PolicySpec>),
    Pseudo(PseudoPolicy),
    Guest(NamedGuest),
}

/// A policy from outside the registry. Two are equal if their names are.
#[derive(Clone, Debug)]
pub(crate) struct NamedGuest(pub(crate) Arc<dyn GuestPolicy>);

impl PartialEq for NamedGuest {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for NamedGuest {}

impl Hash for NamedGuest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name().hash(state);
    }
}

/// The device that serves the runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RunDevice {
    /// A device model: its name, the path of a profile, or a simulated device.
    Model(String),
    /// A real file or block device.
    File(PathBuf),
}

impl CellPolicy {
    fn parse(text: &str) -> Result<Self, ExperimentError> {
        match PseudoPolicy::named(text) {
            Some(pseudo) => Ok(CellPolicy::Pseudo(pseudo)),
            None => Ok(CellPolicy::Policy(Parsed::new(text, str::parse)?)),
        }
    }

    /// The policy on a device with these features.
    ///
    /// # Errors
    ///
    /// If the device lacks what the policy needs; for a bound, which is no policy.
    pub(crate) fn supported(&self, features: &DeviceFeatures) -> Result<SimPolicy, ExperimentError> {
        match self {
            CellPolicy::Policy(policy) => Ok(features.supported(policy.get().clone())?.into()),
            CellPolicy::Guest(guest) => Ok(SimPolicy::Guest(Arc::clone(&guest.0))),
            CellPolicy::Pseudo(pseudo) => Err(ExperimentError::Invalid(format!("{} is no policy", pseudo.name()))),
        }
    }

    /// True if costs may change its choices, so that it has one simulation for each asymmetry.
    pub(crate) fn looks_at_costs(&self) -> bool {
        match self {
            CellPolicy::Policy(policy) => policy.get().looks_at_costs(),
            CellPolicy::Guest(guest) => guest.0.looks_at_costs(),
            CellPolicy::Pseudo(_) => true,
        }
    }

    fn from_policy(policy: &SimPolicy) -> Self {
        match policy {
            SimPolicy::Registered(policy) => CellPolicy::Policy(policy.clone().into()),
            SimPolicy::Guest(guest) => CellPolicy::Guest(NamedGuest(Arc::clone(guest))),
        }
    }
}

impl RunDevice {
    fn new(text: String) -> Self {
        if let Some(file) = text.strip_prefix(FILE_PREFIX) {
            return RunDevice::File(file.into());
        }
        RunDevice::Model(text)
    }
}

impl RunConfig {
    /// The real file on which the cells run, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.device {
            Some(RunDevice::File(file)) => Some(file),
            _ => None,
        }
    }

    /// True if the cells run on a real file, and not in the simulator.
    pub(crate) fn is_on_file(&self) -> bool {
        self.file().is_some()
    }

    /// How the references of the cells are counted.
    pub(crate) fn counting(&self) -> CountingRules {
        let mut counting = CountingRules::default();
        counting.warmup = *self.warmup.get();
        counting.at_end = *self.at_end.get();
        counting.cluster_size = *self.cluster_size.get();
        counting
    }

    /// The request for the prices of the cells with this config. `asymmetry` is that of the cells.
    pub(crate) fn pricing(&self, asymmetry: Option<&Parsed<AsymmetrySpec>>) -> Result<PricingRequest, ExperimentError> {
        let asymmetry = self.changing.as_ref().or(asymmetry);
        let device = match &self.device {
            None => None,
            Some(RunDevice::Model(name)) => Some(name.as_str()),
            Some(RunDevice::File(file)) => {
                return Err(ExperimentError::Invalid(format!(
                    "{} has no price of its own, so it can only serve simulations that run on it",
                    file.display()
                )));
            }
        };
        let asymmetry = asymmetry.map(|spec| spec.get().clone());
        Ok(PricingRequest::new(asymmetry, device)?)
    }
}

/// A point of an experiment before its measurement.
#[derive(Clone, Debug)]
pub(crate) struct PlannedPoint {
    pub(crate) place: PointCoordinates,
    pub(crate) policy: String,
    /// For a policy of a group, the value that distinguishes it.
    pub(crate) value: Option<String>,
    /// True for a policy that the user has added to the experiment's.
    pub(crate) is_guest: bool,
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
    Plain(Box<ExperimentCell>),
    /// The best of several simulations, each with the value that distinguishes it.
    Best(Vec<(String, ExperimentCell)>),
    /// The worst of several simulations.
    Worst(Vec<(String, ExperimentCell)>),
}

impl RunSelection {
    pub(crate) fn cells(&self) -> impl Iterator<Item = &ExperimentCell> {
        let (one, more) = match self {
            RunSelection::Plain(cell) => (Some(&**cell), &[][..]),
            RunSelection::Best(cells) | RunSelection::Worst(cells) => (None, cells.as_slice()),
        };
        one.into_iter().chain(more.iter().map(|(_, cell)| cell))
    }

    pub(crate) fn cells_mut(&mut self) -> impl Iterator<Item = &mut ExperimentCell> {
        let (one, more) = match self {
            RunSelection::Plain(cell) => (Some(&mut **cell), &mut [][..]),
            RunSelection::Best(cells) | RunSelection::Worst(cells) => (None, cells.as_mut_slice()),
        };
        one.into_iter().chain(more.iter_mut().map(|(_, cell)| cell))
    }
}

/// All combinations of the values of the varied parameters; of drawn ones, the values of each draw.
fn combinations(experiment: &Experiment, scale: Scale) -> Vec<Vec<(String, String)>> {
    if let Some(draw) = &experiment.draw {
        let of_draw = |at: usize| {
            let varied = experiment.varied(scale);
            let values = varied.filter_map(|(name, values)| Some((name.to_string(), values.get(at)?.0.clone())));
            values.collect()
        };
        return (0..draw.get_ref().count as usize).map(of_draw).collect();
    }
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
///
/// # Errors
///
/// If a value of a parameter or a policy is invalid.
pub(crate) fn points(experiment: &Experiment, scale: Scale, extra: &[SimPolicy]) -> Result<Vec<PlannedPoint>, ExperimentError> {
    let mut points = Vec::new();
    if experiment.kind == ExperimentKind::Priorities {
        return Ok(points);
    }
    let participants = contenders::of(experiment);
    for (workload, spec) in &experiment.workloads.0 {
        let Some(trace) = spec.get_ref().at(scale) else {
            continue;
        };
        for at in combinations(experiment, scale) {
            let seeded = seeded(experiment, scale, &at);
            let configured =
                seeded.iter().map(|at| ConfiguredRun::new(experiment, scale, &trace, at)).collect::<Result<Vec<_>, _>>()?;
            let point = |policy: String, value: Option<String>, mut runs: Vec<RunSelection>| {
                // If the run does not depend on the seed, all seeds give the same run.
                runs.dedup();
                PlannedPoint {
                    place: PointCoordinates { workload: workload.clone(), at: at.clone() },
                    policy,
                    value,
                    is_guest: false,
                    runs,
                }
            };
            for Participant { name, value, choice } in &participants {
                let runs = configured.iter().map(|run| run.selection(choice));
                let runs = runs.collect::<Result<_, _>>()?;
                points.push(point(name.clone(), value.clone(), runs));
            }
            for policy in extra {
                let runs =
                    configured.iter().map(|run| RunSelection::Plain(Box::new(run.cell(CellPolicy::from_policy(policy)))));
                points.push(PlannedPoint { is_guest: true, ..point(policy.to_string(), None, runs.collect()) });
            }
        }
    }
    Ok(points)
}

/// The values of a point, once with each seed; unchanged if there are no seeds.
fn seeded(experiment: &Experiment, scale: Scale, at: &[(String, String)]) -> Vec<Vec<(String, String)>> {
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
    frames: Parsed<MemorySize>,
    asymmetry: Option<Parsed<AsymmetrySpec>>,
    at: &'a [(String, String)],
}

impl<'a> ConfiguredRun<'a> {
    fn new(experiment: &Experiment, scale: Scale, trace: &Trace, at: &'a [(String, String)]) -> Result<Self, ExperimentError> {
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
        let parsed = |asymmetry: Option<String>| {
            let spec = asymmetry.map(|text| Parsed::new(&text, valid::<AsymmetrySpec>));
            spec.transpose()
        };
        let device = get("device").filter(|device| device != "none");
        let constant = parsed(asymmetry.clone().filter(is_constant))?;
        let has_device = device.is_some();
        let run = ConfiguredRun {
            config: RunConfig {
                trace: trace.filled(at),
                device: device.map(RunDevice::new),
                changing: parsed(asymmetry.filter(|text| !is_constant(text)))?,
                warmup: Parsed::new(&or("warmup", "0"), warmup)?,
                at_end: Parsed::new(&or("at-end", "flush"), at_end)?,
                cluster_size: Parsed::new(&or("cluster-size", "16"), cluster_size)?,
            },
            frames: Parsed::new(&or("frames", ""), valid)?,
            asymmetry: constant.filter(|_| !has_device),
            at,
        };
        if !run.config.is_on_file() {
            run.config.pricing(run.asymmetry.as_ref())?;
        }
        Ok(run)
    }

    fn selection(&self, choice: &PolicyChoice) -> Result<RunSelection, ExperimentError> {
        let cell = |policy: &str| -> Result<ExperimentCell, ExperimentError> {
            Ok(self.cell(CellPolicy::parse(&filled(policy, self.at))?))
        };
        let cells = |several: &[(String, String)]| {
            let cells = several.iter().map(|(value, policy)| Ok((value.clone(), cell(policy)?)));
            cells.collect::<Result<Vec<_>, ExperimentError>>()
        };
        Ok(match choice {
            PolicyChoice::One(policy) => RunSelection::Plain(Box::new(cell(policy)?)),
            PolicyChoice::BestOf(several) => RunSelection::Best(cells(several)?),
            PolicyChoice::WorstOf(several) => RunSelection::Worst(cells(several)?),
        })
    }

    fn cell(&self, policy: CellPolicy) -> ExperimentCell {
        ExperimentCell { config: self.config.clone(), policy, frames: self.frames.clone(), asymmetry: self.asymmetry.clone() }
    }
}

/// Parses a text whose error says what is wrong.
fn valid<T: FromStr<Err: ToString>>(text: &str) -> Result<T, ExperimentError> {
    text.parse().map_err(invalid)
}

fn invalid(error: impl ToString) -> ExperimentError {
    ExperimentError::Invalid(error.to_string())
}

fn warmup(text: &str) -> Result<Warmup, ExperimentError> {
    valid(text)
}

fn cluster_size(text: &str) -> Result<u64, ExperimentError> {
    let size = text.parse().ok().filter(|&size| size > 0);
    size.ok_or_else(|| invalid(format_args!("'{text}' is not a cluster-size; give a number of pages, at least 1")))
}

fn at_end(text: &str) -> Result<AtEnd, ExperimentError> {
    match text {
        "free" => Ok(AtEnd::Free),
        "flush" => Ok(AtEnd::Flush),
        _ => Err(invalid(format_args!("at-end is '{text}', but must be free or flush"))),
    }
}

#[cfg(test)]
mod tests {
    use ebbpool_trace::Metadata;

    use super::*;

    const SMALL: &str = r#"id = "mine"
paper = "own"
number = "Table 1"
title = "a title"
basis = "counts"

[workloads]
"uniform" = "uniform:pages=100,refs=1000"

[policies]
"policy" = "cflru:window={window}"
"bound" = "lower-bound"

[setting]
frames = "{size}%"
asymmetry = 8
warmup = "10%"
at-end = "flush"
cluster-size = 4

[vary]
size = [5, 10]
window = [0.25]
"#;

    fn planned(from: &str, to: &str) -> Result<Vec<PlannedPoint>, String> {
        assert!(SMALL.contains(from), "{from}");
        let experiment = Experiment::parse(&SMALL.replacen(from, to, 1), "my.toml").unwrap_or_else(|error| panic!("{error}"));
        let extra: PolicySpec = "lru".parse().expect("a policy");
        let extra = [extra.into()];
        points(&experiment, Scale::Quick, &extra).map_err(|error| error.to_string())
    }

    #[test]
    fn a_plan_has_typed_cells_in_the_order_of_the_file() {
        let points = planned("", "").unwrap_or_else(|error| panic!("{error}"));
        let names: Vec<&str> = points.iter().map(|point| point.policy.as_str()).collect();
        assert_eq!(names, ["policy", "bound", "lru", "policy", "bound", "lru"]);
        let cells: Vec<&ExperimentCell> = points.iter().flat_map(|point| &point.runs).flat_map(RunSelection::cells).collect();
        let config = &cells[0].config;
        assert!(cells.iter().all(|cell| cell.config == *config));
        assert_eq!(*config.at_end.get(), AtEnd::Flush);
        assert_eq!(*config.cluster_size.get(), 4);
        assert_eq!(config.warmup.get().to_references(1000), 100);
        assert_eq!((&config.device, &config.changing), (&None, &None));
        assert_eq!(cells[1].policy, CellPolicy::Pseudo(PseudoPolicy::LowerBound));
        let frames = |cell: &ExperimentCell| {
            let size = cell.frames.get().size;
            size.to_frames(100, &Metadata::default(), "").ok()
        };
        assert_eq!((frames(cells[0]), frames(cells[3])), (Some(5), Some(10)));
        assert_ne!(cells[0], cells[3]);
        assert_eq!(cells[0].asymmetry, cells[3].asymmetry);
    }

    #[test]
    fn an_invalid_value_is_an_error_of_the_plan() {
        for (from, to, says) in [
            ("[0.25]", "[2.5]", "2.5"),
            ("\"lower-bound\"", "\"lruu\"", "unknown policy 'lruu'"),
            ("5, 10", "0, 10", "'0%' is not a memory size"),
            ("= 8", "= -8", "'-8' is not an asymmetry"),
            ("= 8", "= \"rm3\"", "'rm3' is not an asymmetry"),
            (
                "asymmetry = 8", "asymmetry = \"rm1\"\ndevice = \"flash:slc-hp2014\"",
                "the asymmetry of a simulated device follows from its model",
            ),
            ("\"10%\"", "\"110%\"", "'110%' is not a warm-up"),
            ("\"flush\"", "\"flash\"", "at-end is 'flash'"),
            ("cluster-size = 4", "cluster-size = 0", "'0' is not a cluster-size"),
        ] {
            let error = planned(from, to).expect_err(to);
            assert!(error.contains(says), "{to}: {error}");
        }
    }
}
