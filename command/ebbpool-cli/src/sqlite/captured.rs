//! `ebbpool sqlite run --capture`: the requests of a program's SQLite as a trace, recorded inside the program.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ebbpool_capture::sources::sqlite::{SqliteDecoder, files_with_sqlite, kind};
use ebbpool_capture::{
    CaptureBuffer, CaptureError, CaptureSource, CapturedTrace, CountedWrites, EventCost, EventStream, NamedObject, PageEvent,
    Process, Runs, time_behind,
};
use ebbpool_lab::{PolicySpec, SpecError};
use ebbpool_sqlite::preload::LIBRARY;
use ebbpool_sqlite::requests::{self, RecordedDatabase, Rehearsal, RequestRing, VARIABLE, Word};
use serde_json::{Value, json};

use crate::advise::args::ServerArg;
use crate::capture::args::CommonArgs;
use crate::capture::targets::{Captured, Target, facts_with, sqlite_policy};
use crate::capture::{capture_target, say};
use crate::failure::Failure;
use crate::shell::command_line;

/// Runs a program, and writes the requests of its SQLite to a trace. The exit code is the program's, or that of shells if a signal has
/// ended it.
///
/// # Errors
///
/// [`Failure::Ended`] with the program's exit code if that is not 0, and else those of a capture.
pub(super) fn run(program: &[OsString], preload: (&str, OsString), output: &Path, references: u64) -> Result<(), Failure> {
    let Some((name, arguments)) = program.split_first() else { return Ok(()) };
    let mut command = Command::new(name);
    command.args(arguments).env(preload.0, preload.1);
    let words: Vec<String> = program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let started = Rc::new(RefCell::new(None));
    let target = InsideSqlite {
        command,
        words: command_line(&words),
        name: Path::new(name).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        started: started.clone(),
        process: None,
        ring: None,
        decoder: SqliteDecoder::default(),
        databases: vec![None],
        numbers: HashMap::new(),
        watched: Vec::new(),
        found: Vec::new(),
        seen: BTreeSet::new(),
        unwatched: BTreeSet::new(),
    };
    let captured = capture_target(target, &CommonArgs::until_end(output, references));
    let child = started.borrow_mut().take();
    match child {
        // The capture may have ended before the program.
        Some(Ok(mut child)) => {
            let status = child.wait()?;
            match (captured, status.code().or_else(|| Some(128 + status.signal()?))) {
                (captured, Some(0)) => captured,
                (captured, code) => {
                    captured.err().into_iter().for_each(|error| say(&format!("ebbpool: error: {error}")));
                    Err(Failure::Ended(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
                }
            }
        }
        Some(Err(error)) => Err(super::failure(super::run::not_started(&words[0], error))),
        None => captured,
    }
}

/// A program that this command starts, with requests recorded inside it.
struct InsideSqlite {
    command: Command,
    words: String,
    name: String,
    started: Rc<RefCell<Option<io::Result<Child>>>>,
    process: Option<Process>,
    ring: Option<Arc<RequestRing>>,
    decoder: SqliteDecoder,
    /// By number; the first one stands for what is not known.
    databases: Vec<Option<RecordedDatabase>>,
    numbers: HashMap<(PathBuf, [u64; 3]), u32>,
    /// Libraries that are watched, and the files with SQLite that the processes run.
    watched: Vec<PathBuf>,
    found: Vec<PathBuf>,
    seen: BTreeSet<String>,
    /// Processes that run SQLite without what records, as where the environment was not handed on.
    unwatched: BTreeSet<i32>,
}

/// The path of a file without links.
fn real_path(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

/// True of what this project has put into the process.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(LIBRARY.trim_end_matches("_preload.so"))
}

/// The words of the ring as events.
struct Words(Arc<RequestRing>);

impl EventStream for Words {
    fn drain(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.0.take(|Word { kind, cache, page }| {
            let mut event = [0; 32];
            event[0..8].copy_from_slice(&kind.to_le_bytes());
            event[8..12].copy_from_slice(&cache.to_le_bytes());
            event[24..28].copy_from_slice(&page.to_le_bytes());
            take(&event)
        })
    }

    fn fill(&self) -> f64 {
        self.0.fill()
    }

    fn lost(&self) -> u64 {
        self.0.lost()
    }

    fn runs(&self) -> Runs {
        [self.0.put_so_far(), 0, self.0.calls_so_far()]
    }

    /// The memory bounds what waits, and no one waits for the end but the user, whose program has ended.
    fn reading_at_last(&self) -> Duration {
        Duration::from_secs(60)
    }
}

fn failed(what: &str, error: io::Error) -> CaptureError {
    CaptureError::Nothing(format!("cannot {what}: {error}"))
}

impl CaptureSource for InsideSqlite {
    fn attach(&mut self, ring_bytes: u32) -> Result<Box<dyn EventStream>, CaptureError> {
        let ring = RequestRing::new(ring_bytes as usize).map_err(|error| failed("share memory", error))?;
        let ring = Arc::new(ring);
        let child = self.command.env(VARIABLE, ring.path()).spawn();
        if let Ok(child) = &child {
            requests::pass_signals_on(child.id());
            self.process = Some(Process(child.id() as i32));
        }
        let is_started = child.is_ok();
        *self.started.borrow_mut() = Some(child);
        if !is_started {
            return Err(CaptureError::Nothing(format!("{} cannot be started", self.words)));
        }
        self.ring = Some(ring.clone());
        Ok(Box::new(Words(ring)))
    }

    fn event_cost(&self) -> Result<EventCost, CaptureError> {
        /// Bytes that SQLite looks at between two requests: about those of the processor's first cache.
        const BETWEEN: usize = 48 << 10;
        let rehearsal = Rehearsal::new().map_err(|error| failed("share memory", error))?;
        let request = |is_recorded| time_behind(BETWEEN, &mut |page| rehearsal.request(page, is_recorded));
        let call = |is_watched| time_behind(BETWEEN, &mut |_| rehearsal.call(is_watched));
        let (bare_request, bare_call) = (request(false), call(false));
        let run = request(true).saturating_sub(bare_request);
        let looked = call(true).saturating_sub(bare_call);
        Ok(EventCost { captured: run, left_out: run, outside: run, step: Duration::ZERO, looked, cold: Duration::ZERO })
    }

    fn record_event(&mut self, event: &[u8], recorder: &mut CaptureBuffer) {
        let Some(event) = PageEvent::parse(event) else { return };
        let cache = u64::from(event.object[0]);
        let kind = match u64::from(event.kind) {
            requests::kind::REQUEST => kind::READ,
            requests::kind::WRITE => kind::DIRTY,
            requests::kind::COMMIT => kind::COMMIT,
            requests::kind::BEGIN => {
                let number = self.number(event.page);
                return self.decoder.set_database(cache, number);
            }
            requests::kind::END => return self.decoder.forget(cache),
            requests::kind::LIBRARY => {
                let library = self.ring.as_ref().and_then(|ring| ring.database(event.page));
                return self.watched.extend(library.map(|library| real_path(library.path)));
            }
            _ => return,
        };
        self.decoder.record(&PageEvent { kind, ..event }, recorder);
    }

    fn refresh(&mut self) {
        let Some(process) = self.process else { return };
        for process in process.descendants() {
            let found = files_with_sqlite(process, &mut self.seen);
            self.found.extend(found.into_iter().map(|path| real_path(path.into())));
            let files: BTreeSet<PathBuf> = process.mappings().into_iter().map(|mapping| PathBuf::from(mapping.path)).collect();
            if self.found.iter().any(|path| files.contains(path)) && !files.iter().any(|path| is_ours(path)) {
                self.unwatched.insert(process.0);
            }
        }
    }

    fn is_alive(&self) -> bool {
        self.process.is_some_and(Process::is_alive)
    }

    fn processor_time(&self) -> Option<Duration> {
        self.process.map(Process::processor_time_of_all)
    }

    fn counted_writes(&self) -> CountedWrites {
        let [database, log, _] = self.ring.as_ref().map_or([0; 3], |ring| ring.written());
        CountedWrites { page_bytes: Some(database), log_bytes: Some(log), read_page_bytes: None }
    }
}

impl InsideSqlite {
    /// Files with SQLite that no request is recorded of.
    fn others(&self) -> impl Iterator<Item = &PathBuf> {
        self.found.iter().filter(|path| !self.watched.contains(path) && !is_ours(path))
    }

    /// The number of the database whose name is there.
    fn number(&mut self, name: u32) -> u32 {
        let Some(database) = self.ring.as_ref().and_then(|ring| ring.database(name)) else { return 0 };
        let new = self.databases.len() as u32;
        let number = *self.numbers.entry((database.path.clone(), database.identity)).or_insert(new);
        if number == new {
            self.databases.push(None);
        }
        // A new database has SQLite's page size until the program gives it another one.
        self.databases[number as usize] = Some(database);
        number
    }
}

impl Target for InsideSqlite {
    const SERVER: ServerArg = ServerArg::Sqlite;

    const NOTHING: &str = "the program has opened no database by way of a shared library of SQLite, or its SQLite has a page cache of its own (SQLITE_CONFIG_PCACHE2)";

    const HAS_OUTPUT: bool = false;

    fn sentence(&self) -> String {
        format!("SQLite in `{}` and what it starts, recorded inside", self.words)
    }

    fn unseen(&self) -> Option<String> {
        let ring = self.ring.as_ref()?;
        let copies = (ring.unwatched() > 0).then(|| {
            format!(
                "{} copies of SQLite were used before they could be watched, or were more than four: what went by them is not in the trace",
                ring.unwatched()
            )
        });
        let names = (ring.unnamed() > 0).then(|| {
            format!("the requests of {} connections are not in the trace: there were too many databases", ring.unnamed())
        });
        let others: Vec<String> = self.others().map(|path| path.display().to_string()).collect();
        let processes = (!self.unwatched.is_empty()).then(|| {
            format!(
                "{} of the processes ran SQLite without the preloaded library, as with another environment (env -i, sudo): what went by it there is not in the trace",
                self.unwatched.len()
            )
        });
        let others = (!others.is_empty()).then(|| {
            format!(
                "what goes by the SQLite in {} is not in the trace: it is called past the preloaded library",
                others.join(", ")
            )
        });
        let all: Vec<String> = [copies, names, others, processes].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn policy(&self, captured: Option<&Captured>) -> Result<Option<PolicySpec>, SpecError> {
        let captured = captured.map(|captured| (self.decoder.counts.commits, captured.references));
        let (commits, references) = captured.unwrap_or_default();
        sqlite_policy(commits, references)
    }

    fn facts(&self, _captured: &Captured, policy: Option<&PolicySpec>) -> Value {
        let [database_bytes, log_bytes, other_bytes] = self.ring.as_ref().map_or([0; 3], |ring| ring.written());
        let mut counts = self.decoder.counts;
        (counts.database_bytes, counts.log_bytes, counts.other_bytes) = (database_bytes, log_bytes, other_bytes);
        let target = json!({
            "process": self.process.map(|process| process.0),
            "policy": policy.map(PolicySpec::to_string),
            "other_libraries": self.ring.as_ref().map(|ring| ring.unwatched() + self.others().count() as u64),
            "unnamed": self.ring.as_ref().map(|ring| ring.unnamed()),
        });
        facts_with(target, counts)
    }

    fn into_trace(self, recorder: CaptureBuffer, _names: bool) -> CapturedTrace {
        let database = |key: &[u32; 4]| self.databases.get(key[0] as usize).and_then(Option::as_ref);
        let most = recorder.objects().iter().max_by_key(|object| object.references);
        let page_size = most.and_then(|object| database(&object.key)).map_or(0, |database| database.page_size);
        let objects = recorder.objects().iter().map(|object| {
            let found = database(&object.key);
            let bytes = found.and_then(|database| std::fs::metadata(&database.path).ok()).map_or(0, |file| file.len());
            let pages = found.map_or(0, |database| bytes / u64::from(database.page_size.max(1)));
            NamedObject {
                name: found.map_or("unknown".into(), |database| database.path.to_string_lossy().into_owned()),
                group: String::new(),
                kind: Some("database".into()),
                part: String::new(),
                pages: pages.max(object.pages),
            }
        });
        CapturedTrace {
            name: format!("sqlite in {}", self.name),
            page_size: u64::from(page_size).max(512),
            below_cache: false,
            objects: objects.collect(),
            recorder,
        }
    }
}
