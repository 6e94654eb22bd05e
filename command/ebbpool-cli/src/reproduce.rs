//! `ebbpool reproduce`: computes the tables and figures of the papers again, and judges their claims.

pub(crate) mod args;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use comfy_table::{ContentArrangement, Table, presets};
use ebbpool_experiments::{
    self as experiments, CheckExample, Experiment, ExperimentEnd, ExperimentError, ExperimentResult, GuestFinding,
    ListedExperiment, Listener, RankingTable, Scale, StudyProgress, StudyRequest, Verdict,
};
use ebbpool_lab::{ErrorKind, LabEvents, Note, Settings, schema};
use ebbpool_policy::{PolicySpec, split_list};

use crate::failure::Failure;
use crate::progress::line::{LiveLine, remaining_text};
use crate::progress::{Console, lock};
use crate::results;
use crate::shared_args::RunFormat;
use args::ReproduceArgs;

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        let hint = match &error {
            ExperimentError::Unknown { .. } => "; `ebbpool reproduce --list` shows them",
            ExperimentError::NoDevice { .. } => "; omit --file",
            ExperimentError::NoDraw { .. } => "; omit --seed",
            _ => "",
        };
        match error {
            ExperimentError::Lab(error) => error.into(),
            ExperimentError::File { path, source } => Failure::File { path, source },
            error => Failure::Command { usage: error.kind() == ErrorKind::Request, error: format!("{error}{hint}").into() },
        }
    }
}

/// The least time between two lines about experiments where standard error is no terminal, and about one that takes
/// long.
const PAUSE: Duration = Duration::from_secs(10);
/// The time after which a line says that the run is still planned where standard error is no terminal.
const PLANNING_PAUSE: Duration = Duration::from_secs(1);
const LONG_PAUSE: Duration = Duration::from_secs(60);

/// The progress of experiments: one line on a terminal, which is written over itself; elsewhere a line now and then.
/// Notes and failed experiments have lines of their own.
struct ExperimentConsole {
    console: Console,
    line: Mutex<Option<LiveLine>>,
    /// When the last line was printed.
    printed: Mutex<Instant>,
    /// True once a line has said that the run is still planned.
    says_planning: AtomicBool,
}

impl ExperimentConsole {
    fn new() -> Self {
        ExperimentConsole {
            console: Console::default(),
            line: Mutex::new(LiveLine::new()),
            printed: Mutex::new(Instant::now()),
            says_planning: AtomicBool::new(false),
        }
    }

    /// Writes to the terminal without the line.
    fn above_the_line<T>(&self, work: impl FnOnce() -> T) -> T {
        match &*lock(&self.line) {
            Some(line) => line.hidden_during(work),
            None => work(),
        }
    }

    /// Prints a line if the last one was printed so long ago.
    fn print_after(&self, pause: Duration, line: impl FnOnce() -> String) {
        let mut printed = lock(&self.printed);
        if printed.elapsed() >= pause {
            *printed = Instant::now();
            self.console.line(&line());
        }
    }
}

impl LabEvents for ExperimentConsole {
    fn progress(&self, _work: &str, share: f64) {
        if share >= 1.0
            && let Some(line) = lock(&self.line).take()
        {
            line.clear();
        }
    }

    fn note(&self, note: &Note) {
        self.above_the_line(|| self.console.note(note));
    }

    fn may_overwrite(&self, path: &Path) -> bool {
        self.above_the_line(|| self.console.may_overwrite(path))
    }

    fn stop(&self) -> &AtomicBool {
        self.console.stop()
    }
}

impl Listener for ExperimentConsole {
    fn planning(&self, planned: usize, all: usize) {
        match &mut *lock(&self.line) {
            Some(line) => {
                let share = planned as f64 / all.max(1) as f64;
                line.show(&format!("planning {all} experiments"), share, "");
            }
            None => {
                let pause = match self.says_planning.load(Ordering::Relaxed) {
                    true => PAUSE,
                    false => PLANNING_PAUSE,
                };
                self.print_after(pause, || {
                    self.says_planning.store(true, Ordering::Relaxed);
                    format!("planning: {planned} of {all} experiments")
                });
            }
        }
    }

    fn progressed(&self, progress: &StudyProgress<'_>) {
        let left = after_comma(progress.left.unwrap_or_default());
        match &mut *lock(&self.line) {
            Some(line) => {
                let name = format!("{} of {}: {}", progress.number, progress.all, progress.id);
                line.show(&name, progress.share, &left);
            }
            None => self.print_after(LONG_PAUSE, || {
                let StudyProgress { number, all, id, .. } = progress;
                format!("[{number}/{all}] {id}: {:.0} % of all{left}", 100.0 * progress.share)
            }),
        }
    }

    fn ended(&self, end: &ExperimentEnd<'_>) {
        let text = |result: &str| {
            let left = after_comma(end.left).replacen(',', ";", 1);
            format!("[{}/{}] {}: {result}{left}", end.number, end.all, end.id)
        };
        match (end.result, &*lock(&self.line)) {
            (Err(error), line) => {
                let failed = format!("failed: {error}").replace(['\n', '\r'], " ");
                match line {
                    Some(line) => line.print(&text(&failed)),
                    None => self.console.line(&text(&failed)),
                }
            }
            (Ok(_), Some(_)) => {}
            (Ok(result), None) => {
                let is_last = end.number == end.all;
                let pause = if is_last { Duration::ZERO } else { PAUSE };
                self.print_after(pause, || text(&summary_of(result)));
            }
        }
    }
}

/// The remaining time after a comma; empty if it is not known.
fn after_comma(left: Duration) -> String {
    match remaining_text(left) {
        text if text.is_empty() => text,
        text => format!(", {text}"),
    }
}

fn summary_of(result: &ExperimentResult) -> String {
    let (computed, stored) = result.results();
    format!(
        "{} hold, {} in part, {} not{}; {computed} results computed, {stored} stored, {:.1} s",
        result.count(Verdict::Holds),
        result.count(Verdict::InPart),
        result.count(Verdict::DoesNot),
        result.counted_apart(),
        result.seconds()
    )
}

pub(crate) fn reproduce(args: &ReproduceArgs) -> Result<(), Failure> {
    if args.checks {
        return Ok(print_checks()?);
    }
    let mut selected = experiments::select(&args.ids, args.list)?;
    if let Some(seed) = args.seed {
        experiments::draw_with_seed(&mut selected, seed)?;
    }
    if args.list {
        return list(&selected, args.format);
    }
    let scale = match args.full {
        true => Scale::Full,
        false => Scale::Quick,
    };
    let policies = args.policy.iter().flat_map(|list| split_list(list));
    let policies = policies.map(|policy| policy.parse::<PolicySpec>());
    let request = StudyRequest {
        policies: policies.collect::<Result<_, _>>()?,
        file: args.file(),
        rerun: command,
        ..StudyRequest::new(with_devices(selected, args), scale, &args.out)
    };
    let all = request.experiments.len();
    let settings = Settings::default().results(match args.no_cache {
        true => None,
        false => results::directory(),
    });
    let settings = settings.threads(args.threads());
    let outcome = experiments::run(&settings, &ExperimentConsole::new(), &request)?;
    print(&outcome.results, args)?;
    if outcome.interrupted {
        return Err(Failure::Interrupted {
            done: outcome.results.len(),
            all,
            hint: match args.no_cache {
                true => "",
                false => "; the same command goes on from there",
            },
        });
    }
    match outcome.failed {
        0 => Ok(()),
        failed => Err(Failure::Command {
            usage: false,
            error: format!("{failed} of {all} experiments failed; the lines above say why").into(),
        }),
    }
}

/// The command that runs an experiment again.
fn command(experiment: &str, scale: Scale, file: Option<&Path>) -> String {
    let full = match scale {
        Scale::Full => " --full",
        Scale::Quick => "",
    };
    let file = match file {
        Some(file) => format!(" --file {}", file.display()),
        None => String::new(),
    };
    format!("ebbpool reproduce {experiment}{full}{file}")
}

/// The experiments to run. If a file replaces the devices and the user names no experiment, these are the
/// experiments that have a device.
fn with_devices(selected: Vec<(String, Experiment)>, args: &ReproduceArgs) -> Vec<(String, Experiment)> {
    let file: Option<PathBuf> = args.file();
    if file.is_some() && args.ids.is_empty() {
        return experiments::with_a_device(selected);
    }
    selected
}

/// An example of each check, and when it holds.
fn print_checks() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for CheckExample { line, holds } in experiments::CHECKS {
        let holds = textwrap::indent(&textwrap::fill(holds, 76), "    ");
        writeln!(out, "{line}\n{holds}")?;
    }
    Ok(())
}

fn list(selected: &[(String, Experiment)], format: RunFormat) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match format {
        RunFormat::Json => {
            let all = selected.iter();
            let all = all.map(|(_, experiment)| ListedExperiment::from(experiment));
            schema::write_json(&mut out, &all.collect::<Vec<_>>())?;
        }
        RunFormat::Table => {
            for (_, experiment) in selected {
                let (paper, number) = experiment.source();
                writeln!(
                    out,
                    "{}: {paper}, {number}: {}\n    {}",
                    experiment.id(),
                    experiment.title(),
                    experiment.claim_text()
                )?;
            }
        }
    }
    Ok(())
}

fn print(all: &[ExperimentResult], args: &ReproduceArgs) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match args.format {
        RunFormat::Json => {
            let results: Vec<_> = all.iter().map(experiments::json).collect();
            schema::write_json(&mut out, &results)?;
        }
        RunFormat::Table => {
            let mut table = Table::new();
            table.load_style(presets::NOTHING);
            let papers = experiments::claimed(all);
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_header(["experiment", "claim", papers, "ours", "verdict"]);
            for done in all {
                for judged in done.judged() {
                    table.add_row([done.id(), &judged.says, &judged.paper, &judged.ours, &judged.verdict_text()]);
                    for guest in &judged.guests {
                        let says = guest.claim_place_text();
                        let row = [done.id(), &says, "", &guest.ours, GuestFinding::NO_VERDICT];
                        table.add_row(row);
                    }
                }
            }
            writeln!(out, "{table}\n\n{}", experiments::summary(all))?;
            for (done, ranked) in experiments::rankings(all) {
                let heading = experiments::heading(done, ranked);
                writeln!(out, "\n{heading}\n{}", table_of(ranked))?;
            }
            writeln!(out, "report: {}", args.out.join("index.html").display())?;
        }
    }
    out.flush()
}

fn table_of(ranked: &RankingTable) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(ranked.heads());
    for cells in ranked.cells() {
        table.add_row(cells);
    }
    table
}
