//! Selects experiments and runs them one after the other.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ebbpool_cost::did_you_mean;
use ebbpool_lab::Settings;
use ebbpool_lab::guest::check_names;
use ebbpool_policy::{PolicySpec, cluster_priority};
use ebbpool_sim::{GuestPolicy, SimPolicy};

use crate::cell_values::MeasuredCell;
use crate::done::ExperimentResult;
use crate::error::ExperimentError;
use crate::files;
use crate::format::contenders::{self, PolicyChoice};
use crate::format::{ESTIMATORS, Experiment, ExperimentKind, FormatError, Scale};
use crate::listener::{ExperimentEnd, Listener, WORK};
use crate::metric::{Metric, Values};
use crate::plan::{self, ExperimentCell, PlannedPoint, PointCoordinates, RunSelection};
use crate::point::{Point, means};
use crate::ranking;
use crate::runner::{self, Runner, real};
use crate::shipped;
use crate::traces::Traces;
use crate::verdict;
use crate::work::{WorkAmount, WorkClock, WorkKind};

/// A request to run experiments.
#[derive(Clone, Debug)]
pub struct StudyRequest {
    /// The experiments, each with the name that the user gives.
    pub experiments: Vec<(String, Experiment)>,
    /// The scale of the runs.
    pub scale: Scale,
    /// Additional policies for every figure.
    pub policies: Vec<PolicySpec>,
    /// Additional policies from outside the registry, for every figure but those of computing times.
    pub guests: Vec<Arc<dyn GuestPolicy>>,
    /// The directory of the report: index.html, a picture and a CSV for each figure.
    pub out: PathBuf,
    /// A file or block device that replaces the device models.
    pub file: Option<PathBuf>,
    /// Returns the text of the report that says how to run an experiment again, such as a command. Its parameters
    /// are the name of the experiment in the request, the scale, and the file that replaces the device models.
    pub rerun: fn(&str, Scale, Option<&Path>) -> String,
}

/// The experiment, the scale and the file in words, for callers that have no command.
fn rerun_in_words(name: &str, scale: Scale, file: Option<&Path>) -> String {
    let file = match file {
        Some(file) => format!(" on {}", file.display()),
        None => String::new(),
    };
    format!("{name} at {} scale{file}", scale.name())
}

impl StudyRequest {
    /// A request for these experiments with their device models.
    pub fn new(experiments: Vec<(String, Experiment)>, scale: Scale, out: impl Into<PathBuf>) -> Self {
        StudyRequest {
            experiments,
            scale,
            policies: Vec::new(),
            guests: Vec::new(),
            out: out.into(),
            file: None,
            rerun: rerun_in_words,
        }
    }
}

/// The results of experiments.
#[derive(Debug)]
pub struct StudyOutcome {
    /// The results of the experiments that did not fail.
    pub results: Vec<ExperimentResult>,
    /// The number of experiments that failed.
    pub failed: usize,
    /// True if the caller stopped before all experiments had run.
    pub interrupted: bool,
}

/// An experiment and the simulations that it needs.
struct PlannedExperiment {
    experiment: Experiment,
    name: String,
    /// An error is reported when the turn of the experiment comes.
    plan: Result<Plan, ExperimentError>,
}

/// The points of an experiment, and their simulations, each once.
struct Plan {
    points: Vec<PlannedPoint>,
    cells: Vec<ExperimentCell>,
}

/// The experiments with these ids, each with its name. Without ids these are the experiments of the papers,
/// or with `include_own` all experiments.
///
/// # Errors
///
/// [`ExperimentError::Unknown`], and the errors of invalid files.
pub fn select(ids: &[String], include_own: bool) -> Result<Vec<(String, Experiment)>, ExperimentError> {
    let shipped = shipped::EXPERIMENTS.iter().map(|(file, text)| {
        let experiment = Experiment::parse(text, file)?;
        Ok((experiment.id().to_string(), experiment))
    });
    let shipped: Vec<(String, Experiment)> = shipped.collect::<Result<_, FormatError>>()?;
    if ids.is_empty() {
        let mut all = shipped;
        all.retain(|(_, experiment)| include_own || experiment.paper.is_published());
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
            let new = selected.iter().all(|(other, _)| other != name);
            if (name == id || of_paper) && new {
                selected.push((name.clone(), experiment.clone()));
            }
        }
        if selected.len() == before && selected.iter().all(|(other, _)| other != id) {
            let papers = shipped.iter().filter_map(|(name, _)| name.split('-').next());
            let names = shipped.iter().map(|(name, _)| name.as_str()).chain(papers);
            return Err(ExperimentError::Unknown { hint: did_you_mean(id, names), id: id.clone() });
        }
    }
    Ok(selected)
}

/// The experiments with their devices replaced by the file; an error if one of them has no device.
fn on_file(experiments: Vec<(String, Experiment)>, file: &Path) -> Result<Vec<(String, Experiment)>, ExperimentError> {
    let mut with_device = Vec::new();
    for (id, mut experiment) in experiments {
        if real::replace_devices(&mut experiment, file) {
            with_device.push((id, experiment));
        } else {
            return Err(ExperimentError::NoDevice { id });
        }
    }
    Ok(with_device)
}

/// The experiments that have a device, which a file could replace.
pub fn with_a_device(mut experiments: Vec<(String, Experiment)>) -> Vec<(String, Experiment)> {
    experiments.retain(|(_, experiment)| real::replace_devices(&mut experiment.clone(), Path::new("")));
    experiments
}

/// Draws the cells of experiments with drawn parameters anew, with that seed.
///
/// # Errors
///
/// [`ExperimentError::NoDraw`] if an experiment draws nothing.
pub fn draw_with_seed(experiments: &mut [(String, Experiment)], seed: u64) -> Result<(), ExperimentError> {
    for (id, experiment) in experiments {
        if !experiment.draw_with_seed(seed) {
            return Err(ExperimentError::NoDraw { id: id.clone() });
        }
        // The name is a part of the command that runs the experiment again.
        id.push_str(&format!(" --seed {seed}"));
    }
    Ok(())
}

fn read(file: &str) -> Result<Experiment, ExperimentError> {
    let text = fs::read_to_string(file).map_err(|error| ExperimentError::Read { file: file.into(), error })?;
    Ok(Experiment::parse(&text, file)?)
}

/// Checks the names of policies from outside the registry: figures distinguish policies by their names.
fn check_guests(request: &StudyRequest) -> Result<(), ExperimentError> {
    for (_, experiment) in &request.experiments {
        let mut names: Vec<String> = request.policies.iter().map(ToString::to_string).collect();
        for participant in contenders::of(experiment) {
            names.push(participant.name);
            if let PolicyChoice::One(policy) = participant.choice {
                let spec = policy.parse::<PolicySpec>();
                names.push(spec.map_or(policy, |spec| spec.to_string()));
            }
        }
        check_names(names, &request.guests)?;
    }
    Ok(())
}

fn plan_of(experiment: &Experiment, request: &StudyRequest) -> Result<Plan, ExperimentError> {
    let scale = request.scale;
    let own: Vec<PolicySpec> = contenders::of(experiment)
        .into_iter()
        .filter_map(|participant| match participant.choice {
            PolicyChoice::One(policy) => policy.parse().ok(),
            PolicyChoice::BestOf(_) | PolicyChoice::WorstOf(_) => None,
        })
        .collect();
    let takes_more = matches!(experiment.kind, ExperimentKind::Sweep | ExperimentKind::Timing);
    let registered = request.policies.iter();
    let registered = registered.filter(|policy| takes_more && !own.contains(policy));
    let guests = request.guests.iter();
    let guests = guests.filter(|_| experiment.kind == ExperimentKind::Sweep);
    let extra: Vec<SimPolicy> = registered
        .map(|policy| SimPolicy::Registered(policy.clone()))
        .chain(guests.map(|guest| SimPolicy::Guest(Arc::clone(guest))))
        .collect();
    let mut points = plan::points(experiment, scale, &extra)?;
    for cell in points.iter_mut().flat_map(|point| &mut point.runs).flat_map(RunSelection::cells_mut) {
        if cell.config.is_on_file() {
            real::shorten(cell, scale);
        }
    }
    if experiment.kind == ExperimentKind::Estimates {
        let first = points.first().map(|point| point.policy.clone());
        let first = first.unwrap_or_default();
        points.retain(|point| point.policy == first);
    }
    let mut cells: Vec<ExperimentCell> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let runs = points.iter().flat_map(|point| &point.runs);
    for cell in runs.flat_map(RunSelection::cells) {
        if seen.insert(cell) {
            cells.push(cell.clone());
        }
    }
    Ok(Plan { points, cells })
}

/// Runs experiments, writes their results, and makes the report of all results in the directory.
///
/// # Errors
///
/// If two policies have the same name, or the report cannot be written. An experiment that fails is counted, and its error goes
/// to the listener.
pub fn run(settings: &Settings, listener: &dyn Listener, request: &StudyRequest) -> Result<StudyOutcome, ExperimentError> {
    check_guests(request)?;
    files::make_directory(&request.out)?;
    let experiments = request.experiments.clone();
    let experiments = match &request.file {
        Some(file) => on_file(experiments, file)?,
        None => experiments,
    };
    let planned: Vec<PlannedExperiment> = experiments
        .into_iter()
        .map(|(name, experiment)| PlannedExperiment { plan: plan_of(&experiment, request), name, experiment })
        .collect();
    let outcome = run_all(settings, listener, planned, request);
    files::write_index(&request.out)?;
    Ok(outcome)
}

/// The work of each experiment. Where results are stored, a simulation counts for the first experiment that has it.
/// An invalid plan or a trace that cannot be opened counts as no work here; its experiment reports the error. Ends early
/// if the caller stops the run.
fn work_of(planned: &[PlannedExperiment], traces: &Traces, are_stored: bool, listener: &dyn Listener) -> Vec<WorkAmount> {
    let mut seen: HashSet<&ExperimentCell> = HashSet::new();
    let mut all = Vec::new();
    for (at, PlannedExperiment { experiment, plan, .. }) in planned.iter().enumerate() {
        if listener.stop().load(Ordering::Relaxed) {
            break;
        }
        listener.planning(at, planned.len());
        let cells = plan.as_ref().map_or(&[][..], |plan| &plan.cells);
        let of = |cells: &[ExperimentCell]| runner::work_of(cells, traces, listener.stop()).unwrap_or_default();
        let mut work = WorkAmount::default();
        match experiment.kind {
            ExperimentKind::Estimates => {
                let references = of(cells).references();
                work.add(WorkKind::Estimates, references);
            }
            ExperimentKind::Sweep | ExperimentKind::Timing | ExperimentKind::Priorities => {
                let new = cells.iter().filter(|cell| seen.insert(cell) || !are_stored);
                work.add_all(&of(&new.cloned().collect::<Vec<ExperimentCell>>()));
            }
        }
        if experiment.kind == ExperimentKind::Timing {
            // Each simulation runs once more, for each asymmetry.
            let references = cells.iter().map(|cell| of(std::slice::from_ref(cell)).references());
            work.add(WorkKind::Timing, references.sum());
        }
        all.push(work);
    }
    all
}

fn run_all(
    settings: &Settings,
    listener: &dyn Listener,
    planned: Vec<PlannedExperiment>,
    request: &StudyRequest,
) -> StudyOutcome {
    let all = planned.len();
    let stopped = || listener.stop().load(Ordering::Relaxed);
    let traces = Traces::default();
    let each = work_of(&planned, &traces, settings.results.is_some(), listener);
    let mut total = WorkAmount::default();
    each.iter().for_each(|work| total.add_all(work));
    let clock = WorkClock::new(listener, all, total);
    let runner = Runner::new(settings, listener, &clock, traces);
    let mut outcome = StudyOutcome { results: Vec::new(), failed: 0, interrupted: stopped() };
    for (at, (planned, work)) in planned.into_iter().zip(each).enumerate() {
        if stopped() {
            outcome.interrupted = true;
            break;
        }
        let id = planned.experiment.id().to_string();
        clock.begin_experiment(&id, at + 1, work);
        let result = run_one(&runner, planned, request);
        if result.is_err() && stopped() {
            outcome.interrupted = true;
            break;
        }
        clock.end_experiment();
        listener.ended(&ExperimentEnd {
            id: &id,
            number: at + 1,
            all,
            result: result.as_ref(),
            left: clock.time_left().unwrap_or_default(),
        });
        match result {
            Ok(result) => outcome.results.push(result),
            Err(_) => outcome.failed += 1,
        }
    }
    listener.progress(WORK, 1.0);
    outcome
}

fn run_one(runner: &Runner, planned: PlannedExperiment, request: &StudyRequest) -> Result<ExperimentResult, ExperimentError> {
    let start = Instant::now();
    let (stored, computed) = (runner.stored.get(), runner.computed.get());
    let PlannedExperiment { experiment, name, plan } = planned;
    let Plan { points: planned_points, cells } = plan?;
    let points = match experiment.kind {
        ExperimentKind::Priorities => priorities(&experiment),
        ExperimentKind::Estimates => estimates(runner, &planned_points)?,
        ExperimentKind::Sweep => {
            let measured = runner.run(&cells, experiment.needs_time_lines())?;
            points_of(&experiment, &planned_points, &measured)
        }
        ExperimentKind::Timing => {
            let mut measured = runner.run(&cells, experiment.needs_time_lines())?;
            runner.time(&mut measured)?;
            points_of(&experiment, &planned_points, &measured)
        }
    };
    let judged = experiment.claims().map(|claim| verdict::judge(&experiment, claim, &points)).collect();
    let ranked = experiment.rankings().filter_map(|ranking| ranking::rank(&experiment, ranking, &points)).collect();
    let mut done = ExperimentResult {
        has_moments: points.iter().any(|point| !point.moments.is_empty()),
        experiment,
        rerun: (request.rerun)(&name, request.scale, request.file.as_deref()),
        scale: request.scale,
        file: request.file.clone(),
        points,
        judged,
        ranked,
        notes: runner.take_notes(),
        figures: Vec::new(),
        seconds: start.elapsed().as_secs_f64(),
        stored: runner.stored.get() - stored,
        computed: runner.computed.get() - computed,
    };
    files::write_figures(&mut done, &request.out)?;
    files::write_part(&done, &request.out)?;
    Ok(done)
}

/// The points of all policies from the results of the simulations.
fn points_of(
    experiment: &Experiment,
    planned: &[PlannedPoint],
    measured: &HashMap<ExperimentCell, MeasuredCell>,
) -> Vec<Point> {
    let mut points = Vec::new();
    for planned_point in planned {
        let runs = planned_point.runs.iter();
        let runs = runs.map(|run| select_result(run, measured, experiment.metric));
        let Some(runs) = runs.collect::<Option<Vec<SelectedResult>>>() else {
            continue;
        };
        points.extend(point(planned_point, &planned_point.policy, &runs));
    }
    points
}

/// The result of a simulation, and the value of the policy if it is the best or worst of several.
type SelectedResult<'a> = (Option<&'a str>, &'a MeasuredCell);

/// The result of a point with one seed.
fn select_result<'a>(
    run: &'a RunSelection,
    measured: &'a HashMap<ExperimentCell, MeasuredCell>,
    metric: Metric,
) -> Option<SelectedResult<'a>> {
    let of_several = |cells: &'a [(String, ExperimentCell)]| -> Vec<SelectedResult<'a>> {
        let all = cells.iter();
        all.filter_map(|(value, cell)| Some((Some(value.as_str()), measured.get(cell)?))).collect()
    };
    let value = |it: &MeasuredCell| it.values.get(&metric).copied().unwrap_or(f64::NAN);
    let worse_first = |a: &SelectedResult, b: &SelectedResult| {
        let (a, b) = (value(a.1), value(b.1));
        match metric.more_is_better() {
            true => a.total_cmp(&b),
            false => b.total_cmp(&a),
        }
    };
    match run {
        RunSelection::Plain(cell) => Some((None, measured.get(cell)?)),
        RunSelection::Best(cells) => of_several(cells).into_iter().max_by(worse_first),
        RunSelection::Worst(cells) => of_several(cells).into_iter().min_by(worse_first),
    }
}

/// A point from the results of all seeds; `None` without a result.
fn point(planned: &PlannedPoint, policy: &str, results: &[SelectedResult]) -> Option<Point> {
    let (_, first) = results.first()?;
    let mut chosen: Vec<&str> = Vec::new();
    for value in results.iter().filter_map(|(value, _)| *value) {
        if !chosen.contains(&value) {
            chosen.push(value);
        }
    }
    let chosen = match chosen.as_slice() {
        [] => planned.value.clone(),
        several => Some(several.join(" or ")),
    };
    let runs: Vec<Values> = results.iter().map(|(_, it)| it.values.clone()).collect();
    let frames: u64 = results.iter().map(|(_, it)| it.frames).sum();
    let frames = frames / results.len() as u64;
    Some(Point {
        place: planned.place.clone(),
        policy: policy.into(),
        is_guest: planned.is_guest,
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

fn estimates(runner: &Runner, planned: &[PlannedPoint]) -> Result<Vec<Point>, ExperimentError> {
    let mut points = Vec::new();
    for planned_point in planned {
        for cell in planned_point.runs.iter().flat_map(RunSelection::cells) {
            let measured = runner.estimates(cell)?;
            let named = ESTIMATORS.iter().zip(&measured);
            points.extend(named.filter_map(|(name, it)| point(planned_point, name, &[(None, it)])));
        }
    }
    Ok(points)
}

/// A point for each cluster.
fn priorities(experiment: &Experiment) -> Vec<Point> {
    let clusters = experiment.clusters.0.iter();
    clusters
        .filter_map(|(name, cluster)| {
            let steps = cluster.pages.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
            let pages = u32::try_from(cluster.pages.len()).unwrap_or(u32::MAX);
            let age = cluster.globaltime.saturating_sub(cluster.timestamp);
            let priority = cluster_priority(pages, steps.sum(), age);
            let planned = PlannedPoint {
                place: PointCoordinates { workload: String::new(), at: Vec::new() },
                policy: name.clone(),
                value: None,
                is_guest: false,
                runs: Vec::new(),
            };
            let measured = MeasuredCell {
                values: Values::from([(Metric::Priority, priority)]),
                spec: "cfdc".into(),
                ..MeasuredCell::default()
            };
            point(&planned, name, &[(None, &measured)])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use ebbpool_lab::LabEvents;

    use super::*;

    #[test]
    fn without_an_id_the_papers_are_selected() {
        let ids = |ids: &[&str], include_own| -> Vec<String> {
            let ids: Vec<String> = ids.iter().map(|id| id.to_string()).collect();
            let selected = select(&ids, include_own).unwrap_or_else(|error| panic!("{error}"));
            selected.into_iter().map(|(name, _)| name).collect()
        };
        let of_ebb = ids(&["ebb"], false);
        let (papers, all) = (ids(&[], false), ids(&[], true));
        assert!(of_ebb.len() >= 6 && of_ebb.iter().all(|id| id.starts_with("ebb-")));
        assert!(papers.iter().all(|id| !of_ebb.contains(id)));
        assert_eq!(all, [papers, of_ebb].concat());
        assert_eq!(ids(&["ebb-cells", "cikm-table2"], false), ["ebb-cells", "cikm-table2"]);
    }

    #[test]
    fn without_a_command_the_report_names_experiment_scale_and_file() {
        let rerun = StudyRequest::new(Vec::new(), Scale::Quick, "out").rerun;
        let file = Some(Path::new("pages"));
        assert_eq!(rerun("mine", Scale::Quick, None), "mine at quick scale");
        assert_eq!(rerun("mine", Scale::Full, file), "mine at full scale on pages");
    }

    /// Stops the run while it is planned, and counts what it hears.
    #[derive(Default)]
    struct StopsPlanning {
        stop: AtomicBool,
        planned: Mutex<Vec<usize>>,
        ended: Mutex<usize>,
    }

    impl LabEvents for StopsPlanning {
        fn stop(&self) -> &AtomicBool {
            &self.stop
        }
    }

    impl Listener for StopsPlanning {
        fn planning(&self, planned: usize, _all: usize) {
            self.planned.lock().expect("no panic").push(planned);
            self.stop.store(planned == 1, Ordering::Relaxed);
        }

        fn ended(&self, _end: &ExperimentEnd<'_>) {
            *self.ended.lock().expect("no panic") += 1;
        }
    }

    #[test]
    fn planning_reports_and_can_be_stopped() {
        let papers = select(&[], false).unwrap_or_else(|error| panic!("{error}"));
        let directory = tempfile::tempdir().expect("a directory");
        let request = StudyRequest::new(papers, Scale::Quick, directory.path());
        let listener = StopsPlanning::default();
        let outcome = run(&Settings::default(), &listener, &request);
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        assert!(outcome.interrupted && outcome.results.is_empty());
        assert_eq!(outcome.failed, 0);
        assert_eq!(*listener.planned.lock().expect("no panic"), [0, 1]);
        assert_eq!(*listener.ended.lock().expect("no panic"), 0);
    }
}
