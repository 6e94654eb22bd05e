//! `ebbpool capture`: the page requests of a running program as a trace.

pub(crate) mod args;
mod live;
mod targets;

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering;

use clap::Parser;
use ebbpool_capture::sources::device::DeviceSource;
use ebbpool_capture::sources::mysql::{self, MysqlSource};
use ebbpool_capture::sources::postgres::{self, PostgresSource};
use ebbpool_capture::sources::sqlite::SqliteSource;
use ebbpool_capture::sources::system_calls::ProcessSource;
use ebbpool_capture::{
    Ahead, CaptureBuffer, CaptureError, CaptureOutputs, CaptureSource, CapturedTrace, End,
    EventCost, Limits, SessionReport, WrittenCapture, calibrate, capture as run_capture,
    keep_rights_for,
};
use ebbpool_lab::numbers::grouped;
use serde_json::{Map, Value, json};

use crate::advise;
use crate::advise::args::AdviseArgs;
use crate::args::{Cli, Command};
use crate::failure::{Failure, escaped};
use crate::progress::{self, STOP};
use crate::shell::command_line;
use crate::table::{add_row, finish, finish_left, plain};
use args::{AdviceArgs, CaptureArgs, CaptureTarget, CommonArgs, MOST_LOST, SessionArgs};
use live::CaptureLine;
use targets::{Captured, Target};

/// Objects in the table of the most used ones.
const MOST_USED: usize = 10;

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Self {
        Failure::Command {
            usage: error.is_request(),
            error: Box::new(error),
        }
    }
}

/// Drops the rights that no capture needs, before there is another thread, and has Ctrl-C stop the work. The thread that waits for
/// Ctrl-C gets no rights: it would keep those that this one drops later.
pub(crate) fn begin() {
    keep_rights(Ahead::Attaching);
    let install = || {
        keep_rights(Ahead::Waiting);
        progress::stop_on_interrupt();
    };
    // Without it Ctrl-C ends the process at once.
    let _ = std::thread::spawn(install).join();
}

pub(crate) fn capture(args: &CaptureArgs) -> Result<(), Failure> {
    match &args.target {
        CaptureTarget::List => Ok(list()?),
        CaptureTarget::Postgres(args) => {
            capture_target(PostgresSource::open(args.pid)?, &args.common)
        }
        CaptureTarget::Mysql(args) | CaptureTarget::Mariadb(args) => {
            let source = MysqlSource::open(args.pid, args.symbols.as_deref())?;
            capture_target(source, &args.common)
        }
        CaptureTarget::Sqlite(args) => capture_target(SqliteSource::open(args.pid)?, &args.common),
        CaptureTarget::Process(args) => {
            let page_size = args.page_size.bytes();
            let source = ProcessSource::open(args.pid, page_size, args.follow_children)?;
            capture_target(source, &args.common)
        }
        CaptureTarget::Device(args) => {
            let source = DeviceSource::open(&args.path, args.page_size.bytes())?;
            capture_target(source, &args.common)
        }
    }
}

fn list() -> io::Result<()> {
    let mut table = plain();
    let header = ["program", "--pid", "directory"].map(String::from);
    add_row(&mut table, header.into());
    let mut found = false;
    for (name, servers) in [
        ("postgres", postgres::servers()),
        ("mysql", mysql::servers()),
    ] {
        for server in servers {
            found = true;
            let directory = std::fs::read_link(server.path("cwd"));
            let directory = directory.map_or_else(|_| "?".into(), |it| it.display().to_string());
            add_row(
                &mut table,
                vec![name.into(), server.0.to_string(), escaped(&directory)],
            );
        }
    }
    if !found {
        say("no running server is found; only root sees those of other users");
        return Ok(());
    }
    io::stdout().write_all(finish_left(table).as_bytes())
}

/// Captures a target, writes the trace, and prints what the arguments ask for.
fn capture_target<T: Target>(mut target: T, args: &CommonArgs) -> Result<(), Failure> {
    let session = &args.session;
    say(&target.sentence());
    target.others_that_pay().iter().for_each(|text| say(text));
    let frames = target.frames();
    let about = |policy: Option<String>| {
        let mut about = vec![("--server", T::NAME.to_owned())];
        about.extend(policy.map(|policy| ("--now", policy)));
        about.extend(frames.map(|frames| ("--frames", frames.to_string())));
        about
    };
    // Checked before the capture; more is known after it.
    advise_args(session, &args.advice, &about(target.policy(None)))?;
    let outputs = CaptureOutputs::open(&session.output)?;
    let captured = run(&mut target, session)?;
    target.unseen().iter().for_each(|text| say(text));
    let resident = captured.recorder.resident_references();
    let (facts, policy) = {
        let known = Captured {
            references: captured.recorder.len() as u64,
            written: &captured.report.written,
        };
        let mut facts = facts(T::NAME, &captured);
        if let Value::Object(more) = target.facts(&known) {
            facts.extend(more);
        }
        (facts, target.policy(Some(&known)))
    };
    let mut about = about(policy);
    about.push(("--warmup", resident.to_string()));
    if let Some(path) = outputs.facts_path() {
        about.push(("--facts", path.display().to_string()));
    }
    let advice = advise_args(session, &args.advice, &about)?;
    let sample = captured.report.sample;
    let trace = target.into_trace(captured.recorder, !args.no_names);
    let written = write(&trace, outputs, facts, &session.output)?;
    print(&trace, &written, session)?;
    if sample < 1.0 {
        say(&of_sample(sample, frames));
        // Its sizes would be those of the sample.
        return Ok(());
    }
    advise_on(advice)
}

/// Writes the trace; if that fails, as on a full disk, into the directory of temporary files, as what took minutes should not be
/// lost.
fn write(
    trace: &CapturedTrace,
    outputs: CaptureOutputs,
    facts: Map<String, Value>,
    path: &Path,
) -> Result<WrittenCapture, Failure> {
    let failed = match trace.write_to(outputs, facts.clone()) {
        Ok(written) => return Ok(written),
        Err(error) => error,
    };
    let name = format!("ebbpool-capture-{}.parquet", std::process::id());
    let elsewhere = std::env::temp_dir().join(name);
    match trace.write(&elsewhere, facts) {
        Ok(_) if elsewhere != path => Err(CaptureError::Elsewhere {
            problem: failed.to_string(),
            file: elsewhere.display().to_string(),
        }
        .into()),
        _ => Err(failed.into()),
    }
}

/// What a reader of a trace with a sample of the pages must know.
fn of_sample(sample: f64, frames: Option<u64>) -> String {
    let mut text = format!(
        "the trace has 1 page of {:.0}, since all pages would have cost more than --at-most: divide sizes of memory by this number, and multiply counts by it",
        1.0 / sample
    );
    if let Some(frames) = frames {
        text += &format!(
            "; the present size is --frames {:.0}",
            frames as f64 * sample
        );
    }
    text
}

/// Says something on standard error; the capture does not fail because nothing takes it.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", escaped(text));
}

/// Drops rights; a capture that cannot goes on as the same user's would who has them.
fn keep_rights(ahead: Ahead) {
    if let Err(error) = keep_rights_for(ahead) {
        say(&format!(
            "rights that are not needed cannot be dropped: {error}"
        ));
    }
}

/// What was captured.
struct Capture {
    recorder: CaptureBuffer,
    report: SessionReport,
    cost: EventCost,
}

/// Captures a source as the arguments say.
fn run(source: &mut dyn CaptureSource, args: &SessionArgs) -> Result<Capture, Failure> {
    let limits = args.limits();
    let cost = calibrate()?;
    say(&announcement(&limits, &cost));
    if STOP.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted {
            done: 0,
            all: 1,
            hint: "; no probe was attached",
        });
    }
    let mut line = CaptureLine::new(&limits);
    let mut is_reading = false;
    let captured = run_capture(source, limits, cost, |progress| {
        if !std::mem::replace(&mut is_reading, true) {
            keep_rights(Ahead::Reading);
        }
        line.proceed(progress)
    });
    line.clear();
    // Ctrl-C ends the capture, and not what follows.
    STOP.store(false, Ordering::Relaxed);
    let (recorder, report) = captured?;
    say(&ending(&report));
    let lost = report.lost as f64 / (report.events + report.lost).max(1) as f64;
    if lost > MOST_LOST && !args.force {
        return Err(CaptureError::Nothing(format!(
            "{:.1} % of the events were lost, which would spoil every answer; use a larger --ring, or add --force to write the trace nevertheless",
            100.0 * lost
        ))
        .into());
    }
    if recorder.is_empty() {
        return Err(CaptureError::Nothing(
            "nothing was requested in this time; start the load, or give more --seconds".into(),
        )
        .into());
    }
    Ok(Capture {
        recorder,
        report,
        cost,
    })
}

fn announcement(limits: &Limits, cost: &EventCost) -> String {
    format!(
        "captures for {} s, or until {} references, or Ctrl-C; an event costs the target {:.2} µs on this machine; nothing is written to it",
        limits.time.as_secs_f64(),
        grouped(limits.references as u64),
        1e6 * cost.captured.as_secs_f64()
    )
}

fn ending(report: &SessionReport) -> String {
    let why = match report.end {
        End::Time => "",
        End::References => "; as many references as asked for",
        End::Objects => "; there are more relations or files than a trace has room for",
        End::Stopped => "; stopped",
        End::Target => "; the target has ended",
        End::Replaced => "; the process has become another program, which has no probes",
        End::Overhead => "; its events would have cost more than --at-most allows",
        _ => "",
    };
    let mut text = format!(
        "captured {:.1} s: {} events, {} lost, ring at most {:.1} % full; probes on in {:.0} ms, off in {:.0} ms{why}",
        report.time.as_secs_f64(),
        grouped(report.events),
        grouped(report.lost),
        100.0 * report.fill,
        report.attaching.as_secs_f64() * 1e3,
        report.detaching.as_secs_f64() * 1e3,
    );
    if let Some(overhead) = report.overhead {
        text += &format!(
            "; cost {:.1} % of the target's processor time",
            100.0 * overhead
        );
    }
    if let Some(overhead) = report.overhead_of_others {
        text += &format!(
            ", and {:.1} % of that of other servers that run the same file",
            100.0 * overhead
        );
    }
    text
}

/// What every capture says of itself in the file of facts.
fn facts(source: &str, capture: &Capture) -> Map<String, Value> {
    let Capture {
        recorder,
        report,
        cost,
    } = capture;
    let facts = json!({
        "source": source,
        "seconds": report.time.as_secs_f64(),
        "references": recorder.len(),
        "resident_references": recorder.resident_references(),
        "writes": recorder.writes(),
        "events": report.events,
        "lost": report.lost,
        "sample": report.sample,
        "overhead": report.overhead,
        "overhead_of_others": report.overhead_of_others,
        "event_ns": cost.captured.as_nanos() as u64,
        "written": report.written,
    });
    match facts {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

/// True if a path leads to the pipe or file that is this process's standard output.
fn is_standard_output(path: &Path) -> bool {
    use rustix::fs::FileType;
    match (rustix::fs::stat(path), rustix::fs::fstat(io::stdout())) {
        (Ok(one), Ok(other)) => {
            let kind = FileType::from_raw_mode(one.st_mode);
            (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
                && kind != FileType::CharacterDevice
        }
        _ => false,
    }
}

/// Prints which objects were used most, and the files.
fn print(trace: &CapturedTrace, written: &WrittenCapture, args: &SessionArgs) -> io::Result<()> {
    let all = trace.recorder.len() as u64;
    let mut order: Vec<usize> = (0..trace.objects.len()).collect();
    let used = |at: usize| &trace.recorder.objects()[at];
    order.sort_by_key(|&at| std::cmp::Reverse(used(at).references));
    let mut table = plain();
    let header = ["object", "pages", "references", "share", "writes"];
    add_row(&mut table, header.map(String::from).into());
    for &at in order.iter().take(MOST_USED) {
        let (object, used) = (&trace.objects[at], used(at));
        add_row(
            &mut table,
            vec![
                escaped(&object.class()),
                grouped(object.pages),
                grouped(used.references),
                format!(
                    "{:.1} %",
                    100.0 * used.references as f64 / all.max(1) as f64
                ),
                grouped(used.writes),
            ],
        );
    }
    // Behind the trace it would be taken for a part of it.
    let mut out: Box<dyn Write> = match written.facts.is_none() && is_standard_output(&args.output)
    {
        true => Box::new(io::stderr().lock()),
        false => Box::new(io::stdout().lock()),
    };
    writeln!(
        out,
        "{} references, {} of them writes, {} objects",
        grouped(all),
        grouped(trace.recorder.writes()),
        grouped(trace.objects.len() as u64)
    )?;
    out.write_all(finish(table).as_bytes())?;
    writeln!(
        out,
        "{}: {} bytes{}",
        escaped(&args.output.display().to_string()),
        grouped(written.trace.bytes),
        match &written.facts {
            Some(facts) => format!(
                "; {}: names and settings",
                escaped(&facts.display().to_string())
            ),
            None => "; no names and settings, which need a file beside it".into(),
        }
    )?;
    match trace.recorder.resident_references() {
        0 => Ok(()),
        resident => writeln!(
            out,
            "the trace begins with {} references for the pages that the buffer had: --warmup {resident} leaves these out of all counts",
            grouped(resident as u64)
        ),
    }
}

/// The arguments of `ebbpool advise` for a trace, checked before the capture begins.
fn advise_args(
    session: &SessionArgs,
    advice: &AdviceArgs,
    about: &[(&str, String)],
) -> Result<Option<(AdviseArgs, String)>, Failure> {
    if !advice.advise {
        return Ok(None);
    }
    let mut words = vec!["ebbpool".to_owned(), "advise".to_owned()];
    // The caller's size replaces that of the server.
    let about = about
        .iter()
        .filter(|(name, _)| *name != "--frames" || advice.frames.is_none());
    let options = [
        ("--frames", &advice.frames),
        ("--device", &advice.device),
        ("--asymmetry", &advice.asymmetry),
        ("--memory-budget", &advice.memory_budget),
    ];
    let options = options.map(|(name, value)| Some((name, value.clone()?)));
    for (name, value) in about.cloned().chain(options.into_iter().flatten()) {
        match value.starts_with('-') {
            true => words.push(format!("{name}={value}")),
            false => words.extend([name.to_owned(), value]),
        }
    }
    let path = session.output.display().to_string();
    // Else it would be an option, or standard input.
    words.extend(path.starts_with('-').then(|| "--".to_owned()));
    words.push(path);
    let command = command_line(&words);
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Advise(args)) => {
            args.request()?;
            Ok(Some((args, command)))
        }
        Ok(_) => Ok(None),
        Err(error) => Err(Failure::Usage(error.to_string())),
    }
}

/// Prints the advice, with the command that repeats it.
fn advise_on(prepared: Option<(AdviseArgs, String)>) -> Result<(), Failure> {
    let Some((args, command)) = prepared else {
        return Ok(());
    };
    writeln!(io::stdout(), "\n{command}\n")?;
    advise::advise(&args)
}
