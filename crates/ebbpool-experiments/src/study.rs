//! Experiments that are run, one after the other.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ebbpool_lab::Settings;
use ebbpool_policy::{PolicySpec, cluster_priority};

use crate::contenders::{self, Is};
use crate::error::ExperimentError;
use crate::files;
use crate::format::{ESTIMATORS, Experiment, FormatError, Kind, Scale};
use crate::listener::{Ended, Listener};
use crate::metric::{Metric, Values};
use crate::plan::{self, Cell, How, Place, Wanted};
use crate::point::{Point, means};
use crate::ranking::{self, Ranked};
#[cfg(unix)]
use crate::real;
use crate::runner::{Measured, Runner};
use crate::shipped;
use crate::verdict::{self, Judged, Verdict};

/// An experiment that was run.
#[derive(Debug)]
pub struct ExperimentResult {
    pub(crate) experiment: Experiment,
    /// How it was named.
    pub(crate) name: String,
    /// What was in the place of devices.
    pub(crate) file: Option<PathBuf>,
    pub(crate) scale: Scale,
    pub(crate) points: Vec<Point>,
    pub(crate) judged: Vec<Judged>,
    pub(crate) ranked: Vec<Ranked>,
    pub(crate) notes: Vec<String>,
    /// Title and file of each figure.
    pub(crate) pictures: Vec<(String, String)>,
    pub(crate) has_moments: bool,
    pub(crate) seconds: f64,
    pub(crate) known: u64,
    pub(crate) computed: u64,
}

impl ExperimentResult {
    /// The experiment's name, such as `cikm-table2`.
    pub fn id(&self) -> &str {
        self.experiment.id()
    }

    /// Its claims, judged by the results.
    pub fn judged(&self) -> &[Judged] {
        &self.judged
    }

    /// How many claims have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let judged = self.judged.iter();
        judged.filter(|judged| judged.verdict == verdict).count()
    }

    /// Results that were computed, and that were known from before.
    pub fn results(&self) -> (u64, u64) {
        (self.computed, self.known)
    }

    /// Wall time in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    pub(crate) fn rankings(&self) -> impl Iterator<Item = &Ranked> {
        self.ranked.iter()
    }

    /// The command that runs it again.
    pub(crate) fn command(&self) -> String {
        let full = match self.scale {
            Scale::Full => " --full",
            Scale::Quick => "",
        };
        let file = match &self.file {
            Some(file) => format!(" --file {}", file.display()),
            None => String::new(),
        };
        format!("ebbpool reproduce {}{full}{file}", self.name)
    }
}

/// Experiments that a caller wants run.
#[derive(Clone, Debug)]
pub struct Request {
    /// The experiments, each with the name by which it was asked for.
    pub experiments: Vec<(String, Experiment)>,
    /// The papers' sizes, or less.
    pub scale: Scale,
    /// More policies for every figure.
    pub policies: Vec<PolicySpec>,
    /// The directory of the report: index.html, a picture and a CSV for each figure.
    pub out: PathBuf,
    /// A file or block device in the place of the device models.
    pub file: Option<PathBuf>,
}

impl Request {
    /// These experiments, on the models of their devices.
    pub fn new(
        experiments: Vec<(String, Experiment)>,
        scale: Scale,
        out: impl Into<PathBuf>,
    ) -> Self {
        Request {
            experiments,
            scale,
            policies: Vec::new(),
            out: out.into(),
            file: None,
        }
    }
}

/// The results of experiments.
#[derive(Debug)]
pub struct Outcome {
    /// Those that have a result.
    pub results: Vec<ExperimentResult>,
    /// How many failed.
    pub failed: usize,
    /// True if the caller stopped before all were run.
    pub interrupted: bool,
}

/// An experiment and the simulations that it takes.
struct Planned {
    experiment: Experiment,
    name: String,
    wanted: Vec<Wanted>,
    cells: Vec<Cell>,
}

/// The experiments that are meant, each with its name. Where none is named these are the papers',
/// or all with `ours_too`.
///
/// # Errors
///
/// [`ExperimentError::Unknown`], and what is wrong with a file.
pub fn select(
    ids: &[String],
    ours_too: bool,
) -> Result<Vec<(String, Experiment)>, ExperimentError> {
    let shipped = shipped::EXPERIMENTS.iter().map(|(file, text)| {
        let experiment = Experiment::parse(text, file)?;
        Ok((experiment.id().to_string(), experiment))
    });
    let shipped: Vec<(String, Experiment)> = shipped.collect::<Result<_, FormatError>>()?;
    if ids.is_empty() {
        let mut all = shipped;
        all.retain(|(_, experiment)| ours_too || experiment.paper.is_published());
        return Ok(all);
    }
    let mut selected: Vec<(String, Experiment)> = Vec::new();
    for id in ids {
        if id.ends_with(".toml") {
            selected.push((id.clone(), read(id)?));
            continue;
        }
        let before = selected.len();
        for (name, experiment) in &shipped {
            let of_paper = name.split('-').next() == Some(id);
            let new = selected.iter().all(|(known, _)| known != name);
            if (name == id || of_paper) && new {
                selected.push((name.clone(), experiment.clone()));
            }
        }
        if selected.len() == before && selected.iter().all(|(known, _)| known != id) {
            return Err(ExperimentError::Unknown { id: id.clone() });
        }
    }
    Ok(selected)
}

/// Those with a device, and the file in its place. An experiment that was named and has none is an error.
#[cfg(unix)]
fn on_file(
    experiments: Vec<(String, Experiment)>,
    file: &Path,
) -> Result<Vec<(String, Experiment)>, ExperimentError> {
    let mut with_device = Vec::new();
    for (id, mut experiment) in experiments {
        if real::put(&mut experiment, file) {
            with_device.push((id, experiment));
        } else {
            return Err(ExperimentError::NoDevice { id });
        }
    }
    Ok(with_device)
}

/// The experiments that have a device, in whose place a file could be.
#[cfg(unix)]
pub fn with_a_device(mut experiments: Vec<(String, Experiment)>) -> Vec<(String, Experiment)> {
    experiments.retain(|(_, experiment)| real::put(&mut experiment.clone(), Path::new("")));
    experiments
}

fn read(file: &str) -> Result<Experiment, ExperimentError> {
    let text = fs::read_to_string(file).map_err(|error| ExperimentError::Read {
        file: file.into(),
        error,
    })?;
    Ok(Experiment::parse(&text, file)?)
}

fn plan_of(name: String, experiment: Experiment, scale: Scale, extra: &[String]) -> Planned {
    let own: Vec<String> = contenders::of(&experiment)
        .into_iter()
        .filter_map(|entrant| match entrant.is {
            Is::One(policy) => Some(policy.parse::<PolicySpec>().ok()?.to_string()),
            Is::BestOf(_) | Is::WorstOf(_) => None,
        })
        .collect();
    let takes_more = matches!(experiment.kind, Kind::Sweep | Kind::Timing);
    let extra: Vec<String> = extra
        .iter()
        .filter(|policy| takes_more && !own.contains(policy))
        .cloned()
        .collect();
    let mut wanted = plan::points(&experiment, scale, &extra);
    #[cfg(unix)]
    for cell in wanted
        .iter_mut()
        .flat_map(|wanted| &mut wanted.runs)
        .flat_map(How::cells_mut)
    {
        if real::file_of(&cell.surroundings).is_some() {
            real::shorten(cell, scale);
        }
    }
    if experiment.kind == Kind::Estimates {
        let first = wanted.first().map(|wanted| wanted.policy.clone());
        let first = first.unwrap_or_default();
        wanted.retain(|wanted| wanted.policy == first);
    }
    let mut cells: Vec<Cell> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let runs = wanted.iter().flat_map(|wanted| &wanted.runs);
    for cell in runs.flat_map(How::cells) {
        if seen.insert(cell) {
            cells.push(cell.clone());
        }
    }
    Planned {
        name,
        wanted,
        cells,
        experiment,
    }
}

/// Runs experiments and writes their report.
///
/// # Errors
///
/// If the report cannot be written; an experiment that fails is counted, and the listener hears why.
pub fn run(
    settings: &Settings,
    listener: &dyn Listener,
    request: &Request,
) -> Result<Outcome, ExperimentError> {
    files::make_directory(&request.out)?;
    let experiments = request.experiments.clone();
    #[cfg(unix)]
    let experiments = match &request.file {
        Some(file) => on_file(experiments, file)?,
        None => experiments,
    };
    let policies: Vec<String> = request.policies.iter().map(ToString::to_string).collect();
    let planned: Vec<Planned> = experiments
        .into_iter()
        .map(|(name, experiment)| plan_of(name, experiment, request.scale, &policies))
        .collect();
    let outcome = run_all(settings, listener, planned, request);
    files::write_index(&outcome.results, &request.out)?;
    Ok(outcome)
}

/// Thousands of references, all cells together: those served, and those that there are.
#[derive(Default)]
struct Work {
    served: AtomicU64,
    all: AtomicU64,
}

impl Work {
    fn share(&self) -> f64 {
        let served = self.served.load(Ordering::Relaxed) as f64;
        (served / self.all.load(Ordering::Relaxed).max(1) as f64).min(1.0)
    }
}

fn run_all(
    settings: &Settings,
    listener: &dyn Listener,
    planned: Vec<Planned>,
    request: &Request,
) -> Outcome {
    const WORK: &str = "reproduce";
    let all = planned.len();
    let start = Instant::now();
    let work = Work::default();
    let advance = |references: f64| {
        let thousands = (references / 1e3) as u64;
        work.served.fetch_add(thousands, Ordering::Relaxed);
        listener.progress(WORK, work.share().min(0.999));
    };
    let runner = Runner::new(settings, listener, &advance);
    let mut outcome = Outcome {
        results: Vec::new(),
        failed: 0,
        interrupted: false,
    };
    // A trace that cannot be opened is an error when its turn has come.
    let each: Vec<u64> = planned
        .iter()
        .map(|planned| (runner.work(&planned.cells).unwrap_or(0.0) / 1e3) as u64)
        .collect();
    work.all.store(each.iter().sum(), Ordering::Relaxed);
    let stopped = || listener.stop().load(Ordering::Relaxed);
    let mut before = 0;
    for (at, (planned, thousands)) in planned.into_iter().zip(each).enumerate() {
        let id = planned.experiment.id().to_string();
        let result = run_one(&runner, planned, request);
        if result.is_err() && stopped() {
            outcome.interrupted = true;
            break;
        }
        // What was known needed no time.
        before += thousands;
        work.served.store(before, Ordering::Relaxed);
        listener.ended(&Ended {
            id: &id,
            number: at + 1,
            all,
            result: result.as_ref(),
            left: match work.share() {
                // The beginning says little about the rest.
                share if share > 0.02 => start.elapsed().mul_f64(1.0 / share - 1.0),
                _ => Duration::ZERO,
            },
        });
        match result {
            Ok(result) => outcome.results.push(result),
            Err(_) => outcome.failed += 1,
        }
        if stopped() && at + 1 < all {
            outcome.interrupted = true;
            break;
        }
    }
    listener.progress(WORK, 1.0);
    outcome
}

fn run_one(
    runner: &Runner,
    planned: Planned,
    request: &Request,
) -> Result<ExperimentResult, ExperimentError> {
    let start = Instant::now();
    let (known, computed) = (runner.known.get(), runner.computed.get());
    let Planned {
        experiment,
        name,
        wanted,
        cells,
    } = planned;
    let points = match experiment.kind {
        Kind::Priorities => priorities(&experiment),
        Kind::Estimates => estimates(runner, &wanted)?,
        Kind::Sweep => {
            let measured = runner.run(&cells, experiment.needs_time_lines())?;
            points_of(&experiment, &wanted, &measured)
        }
        Kind::Timing => {
            let mut measured = runner.run(&cells, experiment.needs_time_lines())?;
            runner.time(&mut measured)?;
            points_of(&experiment, &wanted, &measured)
        }
    };
    let judged = experiment
        .claims()
        .map(|claim| verdict::judge(&experiment, claim, &points))
        .collect();
    let ranked = experiment
        .rankings()
        .filter_map(|ranking| ranking::rank(&experiment, ranking, &points))
        .collect();
    let mut done = ExperimentResult {
        has_moments: points.iter().any(|point| !point.moments.is_empty()),
        experiment,
        name,
        file: request.file.clone(),
        scale: request.scale,
        points,
        judged,
        ranked,
        notes: runner.take_notes(),
        pictures: Vec::new(),
        seconds: start.elapsed().as_secs_f64(),
        known: runner.known.get() - known,
        computed: runner.computed.get() - computed,
    };
    files::write_figures(&mut done, &request.out)?;
    Ok(done)
}

/// A policy's points out of the simulations.
fn points_of(
    experiment: &Experiment,
    wanted: &[Wanted],
    measured: &HashMap<Cell, Measured>,
) -> Vec<Point> {
    let mut points = Vec::new();
    for one in wanted {
        let runs = one.runs.iter();
        let runs = runs.map(|how| outcome(how, measured, experiment.metric));
        let Some(runs) = runs.collect::<Option<Vec<Found>>>() else {
            continue;
        };
        points.extend(point(one, &one.policy, &runs));
    }
    points
}

/// The result of a simulation, and the value for which it was chosen among several.
type Found<'a> = (Option<&'a str>, &'a Measured);

/// The outcome with one seed.
fn outcome<'a>(
    how: &'a How,
    measured: &'a HashMap<Cell, Measured>,
    metric: Metric,
) -> Option<Found<'a>> {
    let of_several = |cells: &'a [(String, Cell)]| -> Vec<Found<'a>> {
        let all = cells.iter();
        all.filter_map(|(value, cell)| Some((Some(value.as_str()), measured.get(cell)?)))
            .collect()
    };
    let value = |it: &Measured| it.values.get(&metric).copied().unwrap_or(f64::NAN);
    let worse_first = |a: &Found, b: &Found| {
        let (a, b) = (value(a.1), value(b.1));
        match metric.more_is_better() {
            true => a.total_cmp(&b),
            false => b.total_cmp(&a),
        }
    };
    match how {
        How::Plain(cell) => Some((None, measured.get(cell)?)),
        How::Best(cells) => of_several(cells).into_iter().max_by(worse_first),
        How::Worst(cells) => of_several(cells).into_iter().min_by(worse_first),
    }
}

/// A point of the results of all seeds; nothing of nothing.
fn point(wanted: &Wanted, policy: &str, outcomes: &[Found]) -> Option<Point> {
    let (_, first) = outcomes.first()?;
    let mut chosen: Vec<&str> = Vec::new();
    for value in outcomes.iter().filter_map(|(value, _)| *value) {
        if !chosen.contains(&value) {
            chosen.push(value);
        }
    }
    let chosen = match chosen.as_slice() {
        [] => wanted.value.clone(),
        several => Some(several.join(" or ")),
    };
    let runs: Vec<Values> = outcomes.iter().map(|(_, it)| it.values.clone()).collect();
    let frames: u64 = outcomes.iter().map(|(_, it)| it.frames).sum();
    let frames = frames / outcomes.len() as u64;
    Some(Point {
        place: wanted.place.clone(),
        policy: policy.into(),
        spec: first.spec.clone(),
        frames: (frames > 0).then_some(frames),
        chosen,
        values: means(&runs),
        runs,
        asymmetry: first.asymmetry,
        read_cost: first.read_cost,
        moments: first.moments.clone(),
    })
}

fn estimates(runner: &Runner, wanted: &[Wanted]) -> Result<Vec<Point>, ExperimentError> {
    let mut points = Vec::new();
    for one in wanted {
        for cell in one.runs.iter().flat_map(How::cells) {
            let measured = runner.estimates(cell)?;
            let named = ESTIMATORS.iter().zip(&measured);
            points.extend(named.filter_map(|(name, it)| point(one, name, &[(None, it)])));
        }
    }
    Ok(points)
}

/// A point for each cluster.
fn priorities(experiment: &Experiment) -> Vec<Point> {
    let clusters = experiment.clusters.0.iter();
    clusters
        .filter_map(|(name, cluster)| {
            let steps = cluster
                .pages
                .windows(2)
                .map(|pair| pair[0].abs_diff(pair[1]));
            let pages = u32::try_from(cluster.pages.len()).unwrap_or(u32::MAX);
            let age = cluster.globaltime.saturating_sub(cluster.timestamp);
            let priority = cluster_priority(pages, steps.sum(), age);
            let wanted = Wanted {
                place: Place {
                    workload: String::new(),
                    at: Vec::new(),
                },
                policy: name.clone(),
                value: None,
                runs: Vec::new(),
            };
            let measured = Measured {
                values: Values::from([(Metric::Priority, priority)]),
                spec: "cfdc".into(),
                ..Measured::default()
            };
            point(&wanted, name, &[(None, &measured)])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_id_the_papers_are_meant() {
        let ids = |ids: &[&str], ours_too| -> Vec<String> {
            let ids: Vec<String> = ids.iter().map(|id| id.to_string()).collect();
            let selected = select(&ids, ours_too).unwrap_or_else(|error| panic!("{error}"));
            selected.into_iter().map(|(name, _)| name).collect()
        };
        let of_ebb = ids(&["ebb"], false);
        let (papers, all) = (ids(&[], false), ids(&[], true));
        assert!(of_ebb.len() >= 6 && of_ebb.iter().all(|id| id.starts_with("ebb-")));
        assert!(papers.iter().all(|id| !of_ebb.contains(id)));
        assert_eq!(all, [papers, of_ebb].concat());
        assert_eq!(
            ids(&["ebb-cells", "cikm-table2"], false),
            ["ebb-cells", "cikm-table2"]
        );
    }
}
