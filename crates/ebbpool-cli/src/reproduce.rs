//! `ebbpool reproduce`: the tables and figures of the papers from our runs, and what holds of what
//! they claim.

pub(crate) mod args;
mod chart;
mod contenders;
mod data;
mod estimates;
mod format;
mod lab;
mod lower;
mod metric;
mod optimum;
mod ordered;
mod page;
mod plan;
mod point;
mod ranking;
#[cfg(unix)]
mod real;
mod seeds;
mod shipped;
mod style;
mod traces;
mod verdict;

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use comfy_table::{ContentArrangement, Table, presets};
use ebbpool_policy::{PolicySpec, cluster_priority, split_list};
use ebbpool_trace::output::OutputFile;
use indicatif::ProgressBar;
use serde_json::json;

use crate::failure::Failure;
use crate::progress;
use crate::shared_args::RunFormat;
use args::ReproduceArgs;
use contenders::Is;
use format::{ESTIMATORS, Experiment, FormatError, Kind, Scale};
use lab::{Lab, Measured};
use metric::{Metric, Values};
use plan::{Cell, How, Place, Wanted};
use point::{Point, means};
use ranking::Ranked;
use verdict::{Judged, Verdict};

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReproduceError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("{file}: cannot read: {error}")]
    Read { file: String, error: io::Error },
    #[error(
        "'{id}' is no experiment; `ebbpool reproduce --list` tells them, and a file of your own is named by its path, such as ./my.toml"
    )]
    Unknown { id: String },
    #[cfg(unix)]
    #[error("'{id}' has no device in whose place a file could be; leave --file out")]
    NoDevice { id: String },
    #[error("{failed} of {all} experiments failed; what is wrong is told above")]
    Failed { failed: usize, all: usize },
}

impl ReproduceError {
    /// True where the command line is wrong, and not a file or a run.
    fn is_usage(&self) -> bool {
        match self {
            ReproduceError::Unknown { .. } => true,
            #[cfg(unix)]
            ReproduceError::NoDevice { .. } => true,
            _ => false,
        }
    }
}

impl From<ReproduceError> for Failure {
    fn from(error: ReproduceError) -> Self {
        Failure::Command {
            usage: error.is_usage(),
            error: error.into(),
        }
    }
}

/// An experiment that was run.
pub(crate) struct Reproduced {
    experiment: Experiment,
    /// How it is named on the command line.
    name: String,
    /// What was in the place of devices.
    file: Option<PathBuf>,
    scale: Scale,
    points: Vec<Point>,
    judged: Vec<Judged>,
    ranked: Vec<Ranked>,
    notes: Vec<String>,
    /// Title and file of each figure.
    pictures: Vec<(String, String)>,
    has_moments: bool,
    seconds: f64,
    known: u64,
    computed: u64,
}

impl Reproduced {
    fn rankings(&self) -> impl Iterator<Item = &Ranked> {
        self.ranked.iter()
    }

    /// What runs it again.
    fn command(&self) -> String {
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

/// An experiment and the simulations that it takes.
struct Planned {
    experiment: Experiment,
    name: String,
    wanted: Vec<Wanted>,
    cells: Vec<Cell>,
}

pub(crate) fn reproduce(args: &ReproduceArgs) -> Result<(), Failure> {
    let experiments = select(&args.ids, args.list)?;
    if args.list {
        return list(&experiments, args.format);
    }
    let scale = match args.full {
        true => Scale::Full,
        false => Scale::Quick,
    };
    let mut extra = Vec::new();
    for policy in args.policy.iter().flat_map(|list| split_list(list)) {
        extra.push(policy.parse::<PolicySpec>()?.to_string());
    }
    fs::create_dir_all(&args.out).map_err(|source| Failure::File {
        path: args.out.display().to_string(),
        source,
    })?;
    #[cfg(unix)]
    let experiments = match args.file() {
        Some(file) => on_file(experiments, &file, args.ids.is_empty())?,
        None => experiments,
    };
    let planned: Vec<Planned> = experiments
        .into_iter()
        .map(|(name, experiment)| plan_of(name, experiment, scale, &extra))
        .collect();
    let all = planned.len();
    let ran = run_all(args, planned, scale)?;
    let index = page::index(&ran.done);
    write(&args.out, "index.html", index.as_bytes())?;
    write(
        &args.out,
        "verdicts.md",
        page::markdown(&ran.done).as_bytes(),
    )?;
    tell(&ran.done, args)?;
    if ran.interrupted {
        return Err(Failure::Interrupted {
            done: ran.done.len(),
            all,
            kept: match args.no_cache {
                true => "",
                false => "; the same command goes on from there",
            },
        });
    }
    match ran.failed {
        0 => Ok(()),
        failed => Err(ReproduceError::Failed { failed, all }.into()),
    }
}

/// The experiments that are meant, each with its name. Where none is named these are the papers',
/// or all with `ours_too`.
fn select(ids: &[String], ours_too: bool) -> Result<Vec<(String, Experiment)>, Failure> {
    let shipped = shipped::EXPERIMENTS.iter().map(|(file, text)| {
        let experiment = Experiment::parse(text, file)?;
        Ok((experiment.id().to_string(), experiment))
    });
    let shipped: Vec<(String, Experiment)> = shipped
        .collect::<Result<_, FormatError>>()
        .map_err(ReproduceError::Format)?;
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
            return Err(ReproduceError::Unknown { id: id.clone() }.into());
        }
    }
    Ok(selected)
}

/// Those with a device, and the file in its place.
#[cfg(unix)]
fn on_file(
    experiments: Vec<(String, Experiment)>,
    file: &Path,
    all: bool,
) -> Result<Vec<(String, Experiment)>, ReproduceError> {
    let mut with_device = Vec::new();
    for (id, mut experiment) in experiments {
        if real::put(&mut experiment, file) {
            with_device.push((id, experiment));
        } else if !all {
            return Err(ReproduceError::NoDevice { id });
        }
    }
    Ok(with_device)
}

fn read(file: &str) -> Result<Experiment, ReproduceError> {
    let text = fs::read_to_string(file).map_err(|error| ReproduceError::Read {
        file: file.into(),
        error,
    })?;
    Ok(Experiment::parse(&text, file)?)
}

fn list(experiments: &[(String, Experiment)], format: RunFormat) -> Result<(), Failure> {
    let claim = |experiment: &Experiment| {
        let claims = experiment.claims().map(|claim| claim.says.as_str());
        claims.collect::<Vec<_>>().join("; ")
    };
    let mut out = io::stdout().lock();
    match format {
        RunFormat::Json => {
            let all: Vec<_> = experiments
                .iter()
                .map(|(_, experiment)| {
                    json!({
                        "id": experiment.id(),
                        "title": experiment.title,
                        "claim": claim(experiment),
                    })
                })
                .collect();
            serde_json::to_writer_pretty(&mut out, &all).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        RunFormat::Table => {
            for (_, experiment) in experiments {
                writeln!(
                    out,
                    "{}: {}, {}: {}\n    {}",
                    experiment.id(),
                    experiment.paper.name(),
                    experiment.number,
                    experiment.title,
                    claim(experiment)
                )?;
            }
        }
    }
    Ok(())
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

/// What came of a number of experiments.
struct Ran {
    done: Vec<Reproduced>,
    failed: usize,
    interrupted: bool,
}

fn run_all(args: &ReproduceArgs, planned: Vec<Planned>, scale: Scale) -> Result<Ran, Failure> {
    let all = planned.len();
    let bar = progress::bar("reproduce");
    let start = Instant::now();
    // Thousands of references, all cells together.
    let (served, ahead) = (AtomicU64::new(0), AtomicU64::new(0));
    let share = || {
        let served = served.load(Ordering::Relaxed) as f64;
        (served / ahead.load(Ordering::Relaxed).max(1) as f64).min(1.0)
    };
    let advance = |references: f64| {
        served.fetch_add((references / 1e3) as u64, Ordering::Relaxed);
        progress::set(&bar, share());
    };
    let lab = Lab::new(args.threads(), !args.no_cache, &advance);
    let mut ran = Ran {
        done: Vec::new(),
        failed: 0,
        interrupted: false,
    };
    // A trace that cannot be opened is told when its turn has come.
    let work: Vec<u64> = planned
        .iter()
        .map(|planned| (lab.work(&planned.cells).unwrap_or(0.0) / 1e3) as u64)
        .collect();
    ahead.store(work.iter().sum(), Ordering::Relaxed);
    let mut before = 0;
    for (at, (planned, work)) in planned.into_iter().zip(&work).enumerate() {
        let id = planned.experiment.id().to_string();
        bar.set_message(id.clone());
        let told = match run_one(&lab, planned, scale, args) {
            Ok(done) => {
                let told = told_of(&done);
                ran.done.push(done);
                told
            }
            Err(_) if progress::STOP.load(Ordering::Relaxed) => {
                ran.interrupted = true;
                break;
            }
            Err(failure) => {
                ran.failed += 1;
                format!("failed: {failure}").replace(['\n', '\r'], " ")
            }
        };
        // What was known needed no time.
        before += work;
        served.store(before, Ordering::Relaxed);
        // The beginning says little about the rest.
        let left = match share() {
            share if share > 0.02 => start.elapsed().mul_f64(1.0 / share - 1.0),
            _ => Duration::ZERO,
        };
        say(
            &bar,
            &format!("[{}/{all}] {id}: {told}{}", at + 1, left_text(left)),
        );
        if progress::STOP.load(Ordering::Relaxed) && at + 1 < all {
            ran.interrupted = true;
            break;
        }
    }
    bar.finish_and_clear();
    Ok(ran)
}

fn told_of(done: &Reproduced) -> String {
    let count = |verdict: Verdict| {
        let judged = done
            .judged
            .iter()
            .filter(|judged| judged.verdict == verdict);
        judged.count()
    };
    format!(
        "{} hold, {} in part, {} not; {} results computed, {} known, {:.1} s",
        count(Verdict::Holds),
        count(Verdict::InPart),
        count(Verdict::DoesNot),
        done.computed,
        done.known,
        done.seconds
    )
}

fn left_text(left: Duration) -> String {
    match left.as_secs() {
        0 => String::new(),
        seconds if seconds < 90 => format!("; some {seconds} s left"),
        seconds => format!("; some {} min left", seconds.div_ceil(60)),
    }
}

/// A line on standard error, above the bar if there is one.
fn say(bar: &ProgressBar, line: &str) {
    match bar.is_hidden() {
        // A note that cannot be shown is no reason to fail.
        true => drop(writeln!(io::stderr(), "{line}")),
        false => bar.println(line),
    }
}

fn run_one(
    lab: &Lab,
    planned: Planned,
    scale: Scale,
    args: &ReproduceArgs,
) -> Result<Reproduced, Failure> {
    let start = Instant::now();
    let (known, computed) = (lab.known.get(), lab.computed.get());
    let Planned {
        experiment,
        name,
        wanted,
        cells,
    } = planned;
    let points = match experiment.kind {
        Kind::Priorities => priorities(&experiment),
        Kind::Estimates => estimates(lab, &wanted)?,
        Kind::Sweep => {
            let measured = lab.run(&cells, experiment.needs_time_lines())?;
            points_of(&experiment, &wanted, &measured)
        }
        Kind::Timing => {
            let mut measured = lab.run(&cells, experiment.needs_time_lines())?;
            lab.time(&mut measured)?;
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
    let mut done = Reproduced {
        has_moments: points.iter().any(|point| !point.moments.is_empty()),
        experiment,
        name,
        file: args.file(),
        scale,
        points,
        judged,
        ranked,
        notes: lab.take_notes(),
        pictures: Vec::new(),
        seconds: start.elapsed().as_secs_f64(),
        known: lab.known.get() - known,
        computed: lab.computed.get() - computed,
    };
    write_files(&mut done, &args.out)?;
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
        let Some(runs) = runs.collect::<Option<Vec<Outcome>>>() else {
            continue;
        };
        points.extend(point(one, &one.policy, &runs));
    }
    points
}

/// What came of a simulation, and the value for which it was chosen among several.
type Outcome<'a> = (Option<&'a str>, &'a Measured);

/// The outcome with one seed.
fn outcome<'a>(
    how: &'a How,
    measured: &'a HashMap<Cell, Measured>,
    metric: Metric,
) -> Option<Outcome<'a>> {
    let of_several = |cells: &'a [(String, Cell)]| -> Vec<Outcome<'a>> {
        let all = cells.iter();
        all.filter_map(|(value, cell)| Some((Some(value.as_str()), measured.get(cell)?)))
            .collect()
    };
    let value = |it: &Measured| it.values.get(&metric).copied().unwrap_or(f64::NAN);
    let worse_first = |a: &Outcome, b: &Outcome| {
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

/// A point of what came of each seed; nothing of nothing.
fn point(wanted: &Wanted, policy: &str, outcomes: &[Outcome]) -> Option<Point> {
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

fn estimates(lab: &Lab, wanted: &[Wanted]) -> Result<Vec<Point>, Failure> {
    let mut points = Vec::new();
    for one in wanted {
        for cell in one.runs.iter().flat_map(How::cells) {
            let measured = lab.estimates(cell)?;
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

/// Writes the figures and the data of an experiment.
fn write_files(done: &mut Reproduced, out: &Path) -> Result<(), Failure> {
    let id = done.experiment.id().to_string();
    let failed = |name: &str, error: String| Failure::File {
        path: out.join(name).display().to_string(),
        source: io::Error::other(error),
    };
    let figures: Vec<_> = done.experiment.figures().cloned().collect();
    for (at, figure) in figures.iter().enumerate() {
        let name = match figures.len() {
            1 => format!("{id}.svg"),
            _ => format!("{id}-{}.svg", at + 1),
        };
        let drawn = chart::draw(&done.experiment, figure, &done.points);
        let drawn = drawn.map_err(|error| failed(&name, error.to_string()))?;
        if let Some(picture) = drawn {
            write(out, &name, picture.as_bytes())?;
            let title = figure
                .title
                .clone()
                .unwrap_or_else(|| done.experiment.title.clone());
            done.pictures.push((title, name));
        }
    }
    let name = format!("{id}.csv");
    let csv = data::points_csv(done).map_err(|error| failed(&name, error.to_string()))?;
    write(out, &name, &csv)?;
    for (at, ranked) in done.ranked.iter().enumerate() {
        let name = ranking_file(&id, at, done.ranked.len());
        let csv = ranked.as_csv();
        let csv = csv.map_err(|error| failed(&name, error.to_string()))?;
        write(out, &name, &csv)?;
    }
    let name = format!("{id}-over-time.csv");
    let csv = data::moments_csv(done).map_err(|error| failed(&name, error.to_string()))?;
    match csv {
        Some(csv) => write(out, &name, &csv),
        None => Ok(()),
    }
}

/// What the file of a ranking is called.
fn ranking_file(id: &str, at: usize, all: usize) -> String {
    match all {
        1 => format!("{id}-ranking.csv"),
        _ => format!("{id}-ranking-{}.csv", at + 1),
    }
}

fn write(out: &Path, name: &str, content: &[u8]) -> Result<(), Failure> {
    let path = out.join(name);
    let mut file = OutputFile::create(&path)?;
    file.write_all(content).map_err(|source| Failure::File {
        path: path.display().to_string(),
        source,
    })?;
    file.finish()?;
    Ok(())
}

/// Prints the results.
fn tell(all: &[Reproduced], args: &ReproduceArgs) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match args.format {
        RunFormat::Json => {
            let results: Vec<_> = all.iter().map(data::as_json).collect();
            serde_json::to_writer_pretty(&mut out, &results).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        RunFormat::Table => {
            let mut table = Table::new();
            table.load_style(presets::NOTHING);
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_header(["experiment", "claim", page::claimed(all), "ours", "verdict"]);
            for done in all {
                for judged in &done.judged {
                    table.add_row([
                        done.experiment.id(),
                        &judged.says,
                        &judged.paper,
                        &judged.ours,
                        judged.verdict.says(),
                    ]);
                }
            }
            writeln!(out, "{table}\n\n{}", page::summary(all))?;
            for (done, ranked) in ranking::of_all(all) {
                writeln!(
                    out,
                    "\n{}\n{}",
                    ranking::heading(done, ranked),
                    ranked.as_table()
                )?;
            }
            writeln!(out, "report: {}", args.out.join("index.html").display())?;
        }
    }
    out.flush()?;
    Ok(())
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
