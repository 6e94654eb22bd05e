//! `ebbpool capture`: the page requests of a running program as a trace.

pub(crate) mod args;
mod live;
mod module;
pub(crate) mod targets;

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ebbpool_capture::sources::device::DeviceSource;
use ebbpool_capture::sources::mysql::{self, MysqlSource};
use ebbpool_capture::sources::postgres::{self, PostgresSource};
use ebbpool_capture::sources::sqlite::SqliteSource;
use ebbpool_capture::sources::system_calls::ProcessSource;
use ebbpool_capture::{
    Ahead, CaptureBuffer, CaptureError, CaptureOutputs, CaptureSource, CapturedTrace, End, EventCost, Limits, SessionReport,
    Steps, WrittenBytes, WrittenCapture, capture as run_capture, facts_path, ignore_stops, keep_rights_for,
};
use ebbpool_cost::escaped;
use ebbpool_lab::advise::{MeasuredDevice, MeasuredReads, MeasuredWrites};
use ebbpool_lab::numbers::grouped;
use ebbpool_lab::{AdviseRequest, AsymmetrySpec, MemorySize, PolicySpec, PricingRequest, Warmup};
use serde_json::{Map, Value, json};

use crate::advise;
use crate::advise::args::ServerArg;
use crate::advise::commands::{TraceWords, file_word};
use crate::failure::Failure;
use crate::progress::{self, Console, STOP};
use crate::results;
use crate::shared_args::{ReadArgs, RunFormat};
use crate::shell::command_line;
use crate::table::{add_row, finish, finish_left, plain};
use args::{AdviceArgs, CaptureArgs, CaptureTarget, CommonArgs, MOST_LOST, SessionArgs};
use live::CaptureLine;
use module::ModuleSource;
use targets::{Captured, Target};

/// Objects in the table of the most used ones.
const MOST_USED: usize = 10;

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Self {
        Failure::Command { usage: error.is_request(), error: Box::new(error) }
    }
}

/// Drops the rights that no capture needs, before there is another thread, and has Ctrl-C stop the work, but not Ctrl-Z.
pub(crate) fn begin() {
    ignore_stops();
    keep_rights(Ahead::Attaching);
    progress::stop_on_interrupt();
}

pub(crate) fn capture(args: &CaptureArgs) -> Result<(), Failure> {
    match &args.target {
        CaptureTarget::List => Ok(list()?),
        CaptureTarget::Postgres(args) if args.module => capture_target(ModuleSource::open()?, &args.common),
        CaptureTarget::Postgres(args) => capture_target(PostgresSource::open(args.pid)?, &args.common),
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
    for (name, servers) in [("postgres", postgres::servers()), ("mysql", mysql::servers())] {
        for server in servers {
            found = true;
            let directory = std::fs::read_link(server.path("cwd"));
            let directory = directory.map_or_else(|_| "?".into(), |it| it.display().to_string());
            add_row(&mut table, vec![name.into(), server.0.to_string(), escaped(&directory)]);
        }
    }
    if !found {
        say("no running server is found; only root sees those of other users");
        return Ok(());
    }
    io::stdout().write_all(finish_left(table).as_bytes())
}

/// Captures a target, writes the trace, and prints what the arguments ask for.
pub(crate) fn capture_target<T: Target>(mut target: T, args: &CommonArgs) -> Result<(), Failure> {
    let session = &args.session;
    match args.no_names {
        true => say(&format!("{}, without names", T::SERVER.word())),
        false => say(&target.sentence()),
    }
    target.others_that_pay().iter().for_each(|text| say(text));
    let frames = target.frames();
    // Checked before the capture; more is known after it.
    if args.advice.advise {
        advise_request(&args.advice, T::SERVER, frames, target.policy(None)?)?;
        if session.output.to_str().is_none() {
            return Err(CaptureError::Nothing(format!(
                "{}: the commands that --advise prints cannot name a file whose name is not UTF-8; give --output another",
                session.output.display()
            ))
            .into());
        }
    }
    refuse_others(&session.output, &facts_path(&session.output))?;
    let outputs = CaptureOutputs::open(&session.output)?;
    let captured = run(&mut target, session, (T::NOTHING, T::MORE_ROOM));
    target.unseen().iter().for_each(|text| say(text));
    let captured = captured?;
    let known = Captured { references: captured.recorder.len() as u64, written: &captured.report.written };
    let policy = target.policy(Some(&known));
    let mut facts = facts(T::SERVER, &captured);
    let described = policy.as_ref().ok().and_then(Option::as_ref);
    if let Value::Object(more) = target.facts(&known, described) {
        facts.extend(more);
    }
    if args.no_names {
        facts.remove("data_directory");
    }
    // A server with a setting that the lab does not know has been captured all the same: its trace is written first.
    let ask = |policy| {
        let request = advise_request(&args.advice, T::SERVER, frames, policy)?;
        let facts = outputs.facts_path();
        Ok(CaptureAdvice::new(request, T::SERVER, args, &captured, facts))
    };
    let advice = match (args.advice.advise, policy) {
        (true, Ok(policy)) => ask(policy).map(Some),
        (true, Err(error)) => Err(Failure::from(error)),
        (false, Ok(_)) => Ok(None),
        (false, Err(error)) => {
            say(&format!("the server's settings are no policy of the lab's: {error}"));
            Ok(None)
        }
    };
    let ended_early = target.failure(captured.report.end);
    let (sample, end, time) = (captured.report.sample, captured.report.end, captured.report.time);
    let trace = target.into_trace(captured.recorder, !args.no_names);
    let written = write(&trace, outputs, facts, &session.output)?;
    print(&trace, &written, session, T::HAS_OUTPUT)?;
    let advice = advice?;
    if sample < 1.0 {
        say(&of_sample(sample, frames));
    } else {
        // Else its sizes would be those of the sample.
        advice.map_or(Ok(()), CaptureAdvice::print)?;
    }
    if let Some(why) = ended_early {
        return Err(CaptureError::Nothing(why).into());
    }
    if end == End::Overhead {
        return Err(CaptureError::Nothing(format!(
            "the capture ended after {:.1} s, since it cost more than --at-most allows; the trace has what was captured until then. Give a larger --at-most if the target may pay that",
            time.as_secs_f64()
        ))
        .into());
    }
    Ok(())
}

/// Refuses to replace a database, and a file beside the trace that is none of facts: its name was not given.
fn refuse_others(path: &Path, facts: &Path) -> Result<(), CaptureError> {
    const DATABASE: &[u8] = b"SQLite format 3\0";
    let refused = |path: &Path, why: &str| {
        CaptureError::Request(format!("{} is there already, and {why}; give the trace another name", path.display()))
    };
    let is_regular = |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.len() > 0);
    let begin = |path: &Path| {
        let mut bytes = Vec::new();
        std::fs::File::open(path).and_then(|file| file.take(1 << 20).read_to_end(&mut bytes)).map(|_| bytes)
    };
    if is_regular(path) && begin(path).is_ok_and(|bytes| bytes.starts_with(DATABASE)) {
        return Err(refused(path, "a database of SQLite"));
    }
    let is_of_facts = |bytes: &[u8]| bytes.windows(8).any(|word| word == b"\"source\"");
    if is_regular(facts) && begin(facts).is_ok_and(|bytes| !is_of_facts(&bytes)) {
        return Err(refused(facts, "no file of facts of a capture"));
    }
    Ok(())
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
        Ok(_) if elsewhere != path => {
            Err(CaptureError::Elsewhere { problem: failed.to_string(), file: elsewhere.display().to_string() }.into())
        }
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
        text += &format!("; the present size is --frames {:.0}", frames as f64 * sample);
    }
    text
}

/// Says something on standard error; the capture does not fail because nothing takes it.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", escaped(text));
}

/// Drops rights; a capture that cannot goes on as the same user's would who has them.
fn keep_rights(ahead: Ahead) {
    if let Err(error) = keep_rights_for(ahead) {
        say(&format!("rights that are not needed cannot be dropped: {error}"));
    }
}

/// What was captured.
struct Capture {
    recorder: CaptureBuffer,
    report: SessionReport,
    cost: EventCost,
    /// Before it, with the probes, and after it.
    pace: [Option<f64>; 3],
}

/// Captures a source as the arguments say.
fn run(source: &mut dyn CaptureSource, args: &SessionArgs, (if_nothing, more_room): (&str, &str)) -> Result<Capture, Failure> {
    let limits = args.limits();
    let cost = source.event_cost()?;
    let before = pace_of_a_second(source);
    say(&announcement(&limits, &cost));
    if STOP.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted { done: 0, all: 1, hint: "; no probe was attached" });
    }
    let mut line = CaptureLine::new(&limits);
    let mut is_reading = false;
    let at_begin = Steps::of(&source.processes());
    let captured = run_capture(source, limits, cost, |progress| {
        if !std::mem::replace(&mut is_reading, true) {
            keep_rights(Ahead::Reading);
        }
        line.proceed(progress)
    });
    line.clear();
    let with_probes = Steps::of(&source.processes()).pace_since(&at_begin);
    // Ctrl-C ends the capture, and not what follows.
    let is_stopped = STOP.swap(false, Ordering::Relaxed);
    let (recorder, report) = captured?;
    say(&ending(&report));
    let pace = [before, with_probes, if is_stopped { None } else { pace_of_a_second(source) }];
    pace_sentence(pace).iter().for_each(|text| say(text));
    let lost = report.lost as f64 / (report.events + report.lost).max(1) as f64;
    if lost > MOST_LOST && !args.force {
        return Err(CaptureError::Nothing(format!(
            "{:.1} % of the events were lost, which would spoil every answer; {more_room}, or add --force to write the trace nevertheless",
            100.0 * lost
        ))
        .into());
    }
    if recorder.is_empty() {
        return Err(CaptureError::Nothing(format!("nothing was requested in this time; {if_nothing}")).into());
    }
    Ok(Capture { recorder, report, cost, pace })
}

/// The pace of a second, or `None` once Ctrl-C was pressed.
fn pace_of_a_second(source: &dyn CaptureSource) -> Option<f64> {
    const PARTS: u32 = 50;
    let before = Steps::of(&source.processes());
    for _ in 0..if source.processes().is_empty() { 0 } else { PARTS } {
        if STOP.load(Ordering::Relaxed) {
            return None;
        }
        std::thread::sleep(Duration::from_secs(1) / PARTS);
    }
    Steps::of(&source.processes()).pace_since(&before)
}

/// What the target itself shows of the cost, if it has a pace.
fn pace_sentence(pace: [Option<f64>; 3]) -> Option<String> {
    let shown = |pace: Option<f64>| pace.map_or("not known".into(), |pace| grouped(pace.round() as u64));
    let [before, with_probes, after] = pace;
    with_probes.filter(|_| before.is_some() || after.is_some())?;
    Some(format!(
        "pace of the target, in waits and transfers for each second of its processor time: {} before, {} with the capture, {} after",
        shown(before),
        shown(with_probes),
        shown(after)
    ))
}

fn announcement(limits: &Limits, cost: &EventCost) -> String {
    if limits.time == Duration::MAX {
        let (references, event) = (grouped(limits.references as u64), 1e9 * cost.captured.as_secs_f64());
        return format!("captures until the program ends, or {references} references; a request costs it some {event:.0} ns");
    }
    if cost.captured.is_zero() {
        let (seconds, references) = (limits.time.as_secs_f64(), grouped(limits.references as u64));
        return format!(
            "captures for {seconds} s, or until {references} references, or Ctrl-C; what it costs is measured in the server"
        );
    }
    format!(
        "captures for {} s, or until {} references, or Ctrl-C; an event costs the target {:.2} to {:.2} µs on this machine, and {:.2} µs more where the kernel has to step; nothing is written to it",
        limits.time.as_secs_f64(),
        grouped(limits.references as u64),
        1e6 * cost.captured.as_secs_f64(),
        1e6 * (cost.captured + cost.cold).as_secs_f64(),
        1e6 * cost.step.as_secs_f64()
    )
}

fn ending(report: &SessionReport) -> String {
    let why = match report.end {
        End::Time => "",
        End::References => "; as many references as asked for",
        End::Objects => "; there are more relations or files than a trace has room for",
        End::Stopped => "; stopped",
        End::Target => "; the target has ended",
        End::Replaced => "; the process has become another program, or its first thread has ended: it has no probes any more",
        End::Debugged => {
            "; a debugger is attached to the target: a breakpoint that it has set at a probed function may end the program"
        }
        End::Overhead => "; ended early, since it cost more than --at-most allows",
        _ => "",
    };
    let mut cost = String::new();
    if let Some(overhead) = report.overhead {
        cost += &format!(", at the cost of {:.1} % of the target's processor time", 100.0 * overhead);
    }
    if let Some(overhead) = report.overhead_of_others {
        cost += &format!(" and {:.1} % of that of other processes that ran into its probes", 100.0 * overhead);
        if let Some(most) = report.others.first() {
            cost += &format!(" (process {}: {:.1} %)", most.process, 100.0 * most.overhead);
        }
    }
    format!(
        "captured {:.1} s{cost}{why}: {} events, {} lost, ring at most {:.1} % full; on in {:.0} ms, off in {:.0} ms",
        report.time.as_secs_f64(),
        grouped(report.events),
        grouped(report.lost),
        100.0 * report.fill,
        report.attaching.as_secs_f64() * 1e3,
        report.detaching.as_secs_f64() * 1e3,
    )
}

/// What every capture says of itself in the file of facts.
fn facts(server: ServerArg, capture: &Capture) -> Map<String, Value> {
    let Capture { recorder, report, cost, pace } = capture;
    let facts = json!({
        "source": server.word(),
        "seconds": report.time.as_secs_f64(),
        "references": recorder.len(),
        "resident_references": recorder.resident_references(),
        "writes": recorder.writes(),
        "events": report.events,
        "lost": report.lost,
        "sample": report.sample,
        "overhead": report.overhead,
        "overhead_of_others": report.overhead_of_others,
        "others": report.others,
        "event_ns": Some(cost.captured).filter(|time| !time.is_zero()).map(|time| time.as_nanos() as u64),
        "pace": pace,
        "written": report.written,
        "read": report.read,
        "target_ended": report.end == End::Target,
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
            (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino) && kind != FileType::CharacterDevice
        }
        _ => false,
    }
}

/// Prints which objects were used most, and the files.
fn print(trace: &CapturedTrace, written: &WrittenCapture, args: &SessionArgs, has_output: bool) -> io::Result<()> {
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
                format!("{:.1} %", 100.0 * used.references as f64 / all.max(1) as f64),
                grouped(used.writes),
            ],
        );
    }
    // Behind the trace it would be taken for a part of it.
    let mut out: Box<dyn Write> = match !has_output || written.facts.is_none() && is_standard_output(&args.output) {
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
            Some(facts) => format!("; {}: names and settings", escaped(&facts.display().to_string())),
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

/// The request for advice on a captured trace, without what only the capture shows.
fn advise_request(
    advice: &AdviceArgs,
    server: ServerArg,
    frames: Option<u64>,
    policy: Option<PolicySpec>,
) -> Result<AdviseRequest, Failure> {
    let mut request = AdviseRequest::default();
    request.server = Some(server.into());
    request.now = policy;
    // The caller's size replaces that of the server.
    let frames = || frames.map(MemorySize::frames);
    request.frames = advice.frames.clone().or_else(frames);
    if advice.asymmetry.is_some() || advice.device.is_some() {
        let (asymmetry, device) = (advice.asymmetry.clone(), advice.device.as_deref());
        request.pricing = Some(PricingRequest::new(asymmetry, device)?);
    }
    request.budget = advice.memory_budget.as_ref().map(|budget| budget.value);
    request.memory_price = advice.memory_price;
    request.check()?;
    Ok(request)
}

/// What was written meanwhile, as `ebbpool advise` reads it from the file of facts.
fn measured(captured: &Capture) -> MeasuredWrites {
    let Capture { recorder, report, .. } = captured;
    let WrittenBytes { seconds, page_bytes, log_bytes, process_bytes, device } = &report.written;
    let mut measured = MeasuredWrites::new(*seconds);
    (measured.page_bytes, measured.log_bytes) = (*page_bytes, *log_bytes);
    measured.process_bytes = *process_bytes;
    let device = device.as_ref();
    measured.device = device.map(|it| MeasuredDevice::new(&it.name, it.bytes));
    measured.references = Some((recorder.len() + recorder.resident_references()) as u64);
    measured.read = MeasuredReads::new(report.read.page_bytes, report.read.process_bytes);
    measured.target_ended = report.end == End::Target;
    let events = (report.events + report.lost).max(1);
    measured.lost = report.lost as f64 / events as f64;
    measured
}

/// What `ebbpool advise` would be asked of a captured trace.
struct CaptureAdvice {
    request: AdviseRequest,
    /// The command that repeats the advice.
    command: String,
    trace: TraceWords,
}

impl CaptureAdvice {
    /// `facts` is the file of facts, if the capture writes one.
    fn new(mut request: AdviseRequest, server: ServerArg, args: &CommonArgs, captured: &Capture, facts: Option<&Path>) -> Self {
        // Without the file no command could say the same.
        request.measured = facts.map(|_| measured(captured));
        let resident = captured.recorder.resident_references() as u64;
        request.counting.warmup = Warmup::References(resident);
        let trace = TraceWords {
            traces: vec![file_word(&args.session.output.to_string_lossy())],
            warmup: resident.to_string(),
            reading: Vec::new(),
        };
        let AdviceArgs { device, asymmetry, memory_budget, memory_price, .. } = &args.advice;
        let options = [
            ("--server", Some(server.word())),
            ("--now", request.now.as_ref().map(PolicySpec::to_string)),
            ("--frames", request.frames.as_ref().map(MemorySize::to_string)),
            ("--warmup", Some(trace.warmup.clone())),
            ("--facts", facts.map(|path| file_word(&path.to_string_lossy()))),
            ("--device", device.clone()),
            ("--asymmetry", asymmetry.as_ref().map(AsymmetrySpec::to_string)),
            ("--memory-budget", memory_budget.as_ref().map(|it| it.text.clone())),
            ("--memory-price", memory_price.map(|price| price.to_string())),
        ];
        let options = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        let mut words = vec!["ebbpool".to_owned(), "advise".to_owned()];
        words.extend(options.flatten());
        words.extend(trace.traces.iter().cloned());
        CaptureAdvice { command: command_line(&words), request, trace }
    }

    /// Asks the lab, and prints its advice with the command that repeats it.
    fn print(self) -> Result<(), Failure> {
        writeln!(io::stdout(), "\n{}\n", self.command)?;
        let source = ReadArgs::default().source(&self.trace.traces)?;
        let console = Console::default();
        let lab = results::lab(&console, None, true);
        advise::answer(&lab, &source, &self.request, &self.trace, RunFormat::Table)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use ebbpool_capture::{ReadBytes, WrittenDevice};

    use super::*;
    use crate::args::{Cli, Command};

    fn captured() -> Capture {
        Capture {
            pace: [None; 3],
            recorder: CaptureBuffer::default(),
            report: SessionReport {
                end: End::Time,
                time: Duration::from_millis(1500),
                attaching: Duration::ZERO,
                detaching: Duration::ZERO,
                events: 97,
                lost: 3,
                fill: 0.5,
                sample: 1.0,
                overhead: None,
                overhead_of_others: None,
                others: Vec::new(),
                written: WrittenBytes {
                    seconds: 1.5,
                    page_bytes: Some(8192),
                    log_bytes: None,
                    process_bytes: Some(4096),
                    device: Some(WrittenDevice { name: "sda".into(), bytes: 12288 }),
                },
                read: ReadBytes { page_bytes: Some(16384), process_bytes: Some(4096) },
            },
            cost: EventCost {
                captured: Duration::ZERO,
                left_out: Duration::ZERO,
                outside: Duration::ZERO,
                step: Duration::ZERO,
                looked: Duration::ZERO,
                cold: Duration::ZERO,
            },
        }
    }

    #[test]
    fn what_a_capture_measures_is_what_its_facts_say() {
        let captured = captured();
        let facts = Value::Object(facts(ServerArg::Postgresql, &captured)).to_string();
        let read = MeasuredWrites::from_facts(&facts).expect("facts");
        assert_eq!(measured(&captured), read);
    }

    #[test]
    fn the_command_that_repeats_an_advice_asks_the_same() {
        let words = "ebbpool capture sqlite --pid 1 --output=-a.parquet --advise --frames 5% --asymmetry 8 --memory-budget 1.5GB --memory-price 2.5";
        let cli = Cli::try_parse_from(words.split(' ')).expect("arguments");
        let Command::Capture(CaptureArgs { target: CaptureTarget::Sqlite(args) }) = cli.command else {
            panic!("another command");
        };
        let args = args.common;
        let policy = "sqlite:commit=7".parse().expect("a policy");
        let request = advise_request(&args.advice, ServerArg::Sqlite, Some(500), Some(policy));
        let request = request.unwrap_or_else(|error| panic!("{error}"));
        let server = ServerArg::Sqlite;
        let advice = CaptureAdvice::new(request, server, &args, &captured(), None);
        assert_eq!(
            advice.command,
            "ebbpool advise --server sqlite --now sqlite:commit=7 --frames 5% --warmup 0 --asymmetry 8 --memory-budget 1.5GB --memory-price 2.5 ./-a.parquet"
        );
        let cli = Cli::try_parse_from(advice.command.split(' ')).expect("arguments");
        let Command::Advise(args) = cli.command else {
            panic!("another command");
        };
        let request = args.request().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(format!("{request:?}"), format!("{:?}", advice.request));
    }
}
