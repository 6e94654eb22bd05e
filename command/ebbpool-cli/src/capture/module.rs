//! `ebbpool capture postgres --module`: what the module's policy sees in a server, by way of `psql`.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use ebbpool_capture::sources::postgres::module::{ModuleDecoder, RECORD};
use ebbpool_capture::sources::postgres::{PostgresSettings, catalog, kind_name};
use ebbpool_capture::{
    CaptureBuffer, CaptureError, CaptureSource, CapturedTrace, CountedWrites, EventCost, EventStream, KernelFiles, NamedObject,
    Process, WriteCounters,
};
use ebbpool_lab::{PolicySpec, SpecError};
use serde_json::{Value, json};

use super::say;
use super::targets::{Captured, Target, postgres_facts, postgres_policy};
use crate::advise::args::ServerArg;

/// The longest time for which an answer of the server is waited for where the work cannot go on without it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time between two questions for more: each takes the server some 0.1 ms.
const SPACE: Duration = Duration::from_millis(50);

/// The longest line of an answer: some more than the records of one call, of which each byte is two digits.
const LONGEST_LINE: u64 = 4 << 20;

/// Settings, and what else is known of the server before the capture, in a line.
const ABOUT: &str = "select translate(concat_ws(chr(31), \
    (select quote_ident(n.nspname) from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'ebbpool'), \
    current_setting('server_version_num'), current_setting('block_size'), \
    (select string_agg(name || '=' || setting, chr(31)) from pg_settings where name in ('shared_buffers', 'bgwriter_delay', \
    'bgwriter_lru_maxpages', 'bgwriter_lru_multiplier', 'checkpoint_timeout', 'checkpoint_completion_target', 'max_wal_size', \
    'data_directory', 'ebbpool.policy')), \
    'process=' || case when inet_server_addr() is null then pg_backend_pid() end), chr(10), ' ')";

/// The end of the log, in bytes.
const LOG: &str =
    "select pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, '0/0')";

/// Pages that the server has written, new ones among them.
fn written_pages(major: u32) -> &'static str {
    match major {
        ..=15 => "select buffers_checkpoint + buffers_clean + buffers_backend from pg_stat_bgwriter",
        16 | 17 => "select sum(coalesce(writes, 0) + coalesce(extends, 0)) from pg_stat_io where object = 'relation'",
        _ => {
            "select sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)) / current_setting('block_size')::int from pg_stat_io where object = 'relation'"
        }
    }
}

const DATABASES: &str = "select oid, datname, datallowconn from pg_database";

/// The relations of a database: file, kind, name, and pages at the latest `VACUUM` or `ANALYZE`.
const RELATIONS: &str = "select pg_relation_filenode(oid), relkind, relname, greatest(relpages, 0) from pg_class \
    where pg_relation_filenode(oid) is not null";

fn psql(database: Option<&str>) -> Command {
    let mut command = Command::new("psql");
    // Ctrl-C is for this command, which then takes what has come.
    command.args(["-XqAtw", "-v", "ON_ERROR_STOP=1"]).env("PGAPPNAME", "ebbpool capture").process_group(0);
    // No function or table of a user is taken for one of the server's; no limit of time ends a session that waits.
    let options = "-c search_path=pg_catalog -c bytea_output=hex -c statement_timeout=0 -c idle_session_timeout=0 -c jit=off";
    let given = std::env::var("PGOPTIONS").unwrap_or_default();
    command.env("PGOPTIONS", format!("{given} {options}"));
    if let Some(database) = database {
        command.env("PGDATABASE", database);
    }
    command
}

/// A session of `psql` that answers each statement by one line.
struct Session {
    child: Child,
    statements: Option<ChildStdin>,
    answers: Receiver<String>,
    /// A statement has no answer yet.
    waits: bool,
}

impl Session {
    fn begin() -> io::Result<Session> {
        let mut child = psql(None).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (statements, output) = (child.stdin.take(), child.stdout.take());
        let (sender, answers) = sync_channel(1);
        std::thread::spawn(move || {
            let lines = output.map(lines_of).into_iter().flatten();
            // Ends with the session.
            lines.map(|line| sender.send(line)).find(Result::is_err);
        });
        Ok(Session { child, statements, answers, waits: false })
    }

    fn say(&mut self, statement: &str) {
        let said = self.statements.as_mut().map(|to| writeln!(to, "{statement};").and_then(|()| to.flush()));
        self.waits = said.is_some_and(|said| said.is_ok());
    }

    fn answer(&mut self, longest: Duration) -> Option<String> {
        let answer = if self.waits { self.answers.recv_timeout(longest).ok() } else { None };
        self.waits &= answer.is_none();
        answer
    }

    fn is_alive(&mut self) -> bool {
        self.statements.is_some() && matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it: without statements `psql` ends, and with it what the server does for it.
    fn end(&mut self) {
        const LONGEST: Duration = Duration::from_secs(1);
        self.statements = None;
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < LONGEST {
            let _ = self.answers.recv_timeout(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// Lines of a limited length; a longer one is the end.
fn lines_of(output: ChildStdout) -> impl Iterator<Item = String> {
    let mut output = BufReader::new(output);
    std::iter::from_fn(move || {
        let mut line = String::new();
        output.by_ref().take(LONGEST_LINE).read_line(&mut line).ok()?;
        line.strip_suffix('\n').map(str::to_owned)
    })
}

/// What the session has brought and the capture has not taken yet.
struct Seen {
    session: Session,
    /// The statement for more.
    statement: String,
    records: Vec<u8>,
    taken: usize,
    asked: Instant,
    filled: f64,
    lost: u64,
    spent: Duration,
}

impl Seen {
    /// Asks for more, and takes the answer if it comes in time. False if nothing has come.
    fn ask(&mut self, longest: Duration) -> bool {
        if !self.session.waits {
            self.asked = Instant::now();
            self.session.say(&self.statement);
        }
        let Some(answer) = self.session.answer(longest) else { return false };
        let mut columns = answer.split('|');
        let mut number = || columns.next().and_then(|column| column.parse::<f64>().ok()).unwrap_or_default();
        (self.lost, self.filled, self.spent) = (number() as u64, number(), Duration::from_secs_f64(number().max(0.0) / 1e6));
        let digits = columns.next().and_then(|column| column.strip_prefix("\\x")).unwrap_or_default();
        let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
        self.records = digits.as_bytes().as_chunks().0.iter().map(|&[high, low]| digit(high) << 4 | digit(low)).collect();
        self.taken = 0;
        true
    }
}

/// The stream of a capture.
struct Stream(Rc<RefCell<Seen>>);

impl EventStream for Stream {
    fn drain(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        const LONGEST: Duration = Duration::from_millis(50);
        /// Records of one call (`MOST_RECORDS`).
        const MOST: usize = 1 << 16;
        let seen = &mut *self.0.borrow_mut();
        // What was left the time before is taken without a question, and a server that has little to do is asked seldom.
        let mut goes_on = seen.taken < seen.records.len() || (seen.asked.elapsed() >= SPACE && seen.ask(LONGEST));
        while goes_on {
            while let Some(record) = seen.records.get(seen.taken..seen.taken + RECORD) {
                seen.taken += RECORD;
                if !take(record) {
                    return false;
                }
            }
            goes_on = seen.records.len() >= MOST * RECORD && seen.ask(LONGEST);
        }
        true
    }

    fn fill(&self) -> f64 {
        self.0.borrow().filled
    }

    fn lost(&self) -> u64 {
        self.0.borrow().lost
    }

    fn spent(&self) -> Duration {
        self.0.borrow().spent
    }

    fn detach(&mut self) {
        self.0.borrow_mut().session.end();
    }
}

/// A server that has the module.
pub(super) struct ModuleSource {
    seen: Rc<RefCell<Seen>>,
    decoder: ModuleDecoder,
    major: u32,
    page_size: u64,
    settings: PostgresSettings,
    data: String,
    policy: String,
    /// If it is on this machine.
    process: Option<Process>,
    /// Pages that it has written: at the beginning, and at the latest look.
    written: Cell<[Option<f64>; 2]>,
}

fn failed(what: String) -> CaptureError {
    CaptureError::Nothing(what)
}

impl ModuleSource {
    /// The server that `psql` connects to without arguments.
    pub(super) fn open() -> Result<ModuleSource, CaptureError> {
        let mut session =
            Session::begin().map_err(|error| failed(format!("cannot start psql: {error}; install postgresql-client")))?;
        session.say(ABOUT);
        let about = session.answer(PATIENCE).ok_or_else(|| {
            failed("psql does not connect to a server; its words stand above. It takes server, user and database from PGHOST, PGPORT, PGUSER and PGDATABASE".into())
        })?;
        let mut words = about.split('\u{1f}');
        let fixed: Vec<&str> = words.by_ref().take_while(|word| !word.contains('=')).collect();
        let &[schema, version, page_size] = fixed.as_slice() else {
            return Err(failed(
                "the database has no extension ebbpool; run CREATE EXTENSION ebbpool in it, or name another one in PGDATABASE"
                    .into(),
            ));
        };
        let named: HashMap<&str, &str> = about.split('\u{1f}').filter_map(|word| word.split_once('=')).collect();
        let number = |name: &str| named.get(name)?.parse::<f64>().ok();
        let whole = |name: &str| number(name).map(|number| number as u32);
        let server = number("process").and_then(|backend| Process(backend as i32).parent());
        Ok(ModuleSource {
            decoder: ModuleDecoder::default(),
            major: version.parse().unwrap_or(0) / 10_000,
            page_size: page_size.parse().unwrap_or(8192),
            settings: PostgresSettings {
                shared_buffers: number("shared_buffers").unwrap_or_default() as u64,
                bgwriter_delay: whole("bgwriter_delay"),
                bgwriter_lru_maxpages: whole("bgwriter_lru_maxpages"),
                bgwriter_lru_multiplier: number("bgwriter_lru_multiplier"),
                checkpoint_timeout: whole("checkpoint_timeout"),
                checkpoint_completion_target: number("checkpoint_completion_target"),
                max_wal_size: whole("max_wal_size"),
            },
            data: named.get("data_directory").copied().unwrap_or_default().into(),
            policy: named.get("ebbpool.policy").copied().unwrap_or_default().into(),
            // A socket may lead into a container whose processes have other numbers here.
            process: server.filter(|server| server.command().is_some_and(|name| name == "postgres")),
            written: Cell::default(),
            seen: Rc::new(RefCell::new(Seen {
                session,
                statement: format!("select lost, filled, spent_us, requests from {schema}.ebbpool_requests()"),
                records: Vec::new(),
                taken: 0,
                asked: Instant::now(),
                filled: 0.0,
                lost: 0,
                spent: Duration::ZERO,
            })),
        })
    }

    /// A number that the server says; an answer that is under way is taken first.
    fn number(&self, statement: &str) -> Option<f64> {
        let seen = &mut *self.seen.borrow_mut();
        if seen.session.waits {
            let left = seen.records.split_off(seen.taken.min(seen.records.len()));
            let has_come = seen.ask(PATIENCE);
            seen.records.splice(0..0, left);
            if !has_come {
                return None;
            }
        }
        seen.session.say(statement);
        seen.session.answer(PATIENCE)?.parse().ok()
    }

    fn counts(&self) -> Value {
        let mut counts = json!(self.decoder.counts);
        counts["module"] = json!(self.policy);
        counts
    }
}

/// What a statement says in a database: rows of `N` columns.
fn rows<const N: usize>(database: Option<&str>, statement: &str) -> Vec<[String; N]> {
    let output = psql(database).args(["-z0", "-c", statement]).stdin(Stdio::null()).output();
    let output = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    // A zero is behind each column, also the last one of a row.
    let columns: Vec<&str> = text.split('\0').collect();
    columns.as_chunks().0.iter().map(|row: &[&str; N]| row.map(str::to_owned)).collect()
}

impl CaptureSource for ModuleSource {
    fn attach(&mut self, _ring_bytes: u32) -> Result<Box<dyn EventStream>, CaptureError> {
        let began = self.seen.borrow_mut().ask(PATIENCE);
        match began {
            true => Ok(Box::new(Stream(self.seen.clone()))),
            false => Err(failed("the module records nothing; the server's words stand above".into())),
        }
    }

    fn record_event(&mut self, event: &[u8], recorder: &mut CaptureBuffer) {
        self.decoder.record(event, recorder);
    }

    fn is_alive(&self) -> bool {
        self.seen.borrow_mut().session.is_alive()
    }

    fn processes(&self) -> Vec<Process> {
        self.process.map(Process::descendants).unwrap_or_default()
    }

    fn processor_time(&self) -> Option<Duration> {
        self.process.map(Process::processor_time_of_all)
    }

    /// The module measures itself, in the server.
    fn event_cost(&self) -> Result<EventCost, CaptureError> {
        const NONE: Duration = Duration::ZERO;
        Ok(EventCost { captured: NONE, left_out: NONE, outside: NONE, step: NONE, looked: NONE, cold: NONE })
    }

    fn counted_writes(&self) -> CountedWrites {
        let [first, latest] = self.written.get();
        let pages = first.zip(latest).map(|(first, latest)| (latest - first).max(0.0) as u64);
        CountedWrites { page_bytes: pages.map(|pages| pages * self.page_size), log_bytes: None }
    }

    fn write_counters(&self) -> WriteCounters {
        let kernel = KernelFiles::default();
        let pages = self.number(written_pages(self.major));
        self.written.set([self.written.get()[0].or(pages), pages]);
        WriteCounters {
            processes: self.process.and_then(|process| kernel.written_by(&process.descendants())),
            log_position: self.number(LOG).map(|bytes| bytes as u64),
            device: self.process.and_then(|_| kernel.device_below(Path::new(&self.data))),
        }
    }
}

impl Target for ModuleSource {
    const SERVER: ServerArg = ServerArg::Postgresql;

    fn sentence(&self) -> String {
        format!(
            "PostgreSQL {}, shared_buffers {} pages, by its module, whose policy is {}; requests of a page between two looks have no order, and are at most five",
            self.major, self.settings.shared_buffers, self.policy
        )
    }

    fn frames(&self) -> Option<u64> {
        Some(self.settings.shared_buffers)
    }

    fn policy(&self, captured: Option<&Captured>) -> Result<Option<PolicySpec>, SpecError> {
        postgres_policy(self.major, &self.settings, captured.map(|captured| captured.written)).map(Some)
    }

    fn facts(&self, captured: &Captured, policy: Option<&PolicySpec>) -> Value {
        let process = self.process.map(|process| process.0);
        postgres_facts((self.major, &self.settings), (&self.data, process), (captured, policy), self.counts())
    }

    fn into_trace(self, recorder: CaptureBuffer, names: bool) -> CapturedTrace {
        let databases: Vec<[String; 3]> = if names { rows(None, DATABASES) } else { Vec::new() };
        if names && databases.is_empty() {
            say("the server no longer says names: databases and relations are called by their numbers");
        }
        let databases: HashMap<u32, (String, bool)> = databases
            .into_iter()
            .filter_map(|[number, name, connects]| Some((number.parse().ok()?, (name, connects == "t"))))
            .collect();
        let mut relations: HashMap<u32, HashMap<u32, [String; 4]>> = HashMap::new();
        let objects = recorder.objects().iter().map(|object| {
            let [_, database, relation, fork] = object.key;
            let group = databases.get(&database);
            let known = relations.entry(database).or_insert_with(|| {
                let can_ask = !databases.is_empty() && (database == 0 || group.is_some_and(|(_, connects)| *connects));
                let rows = if can_ask { rows(group.map(|(name, _)| name.as_str()), RELATIONS) } else { Vec::new() };
                rows.into_iter().filter_map(|row: [String; 4]| Some((row[0].parse().ok()?, row))).collect()
            });
            let named = known.get(&relation);
            let pages = named.filter(|_| fork == 0).and_then(|named| named[3].parse().ok()).unwrap_or(0);
            NamedObject {
                name: named.map_or_else(|| relation.to_string(), |named| named[2].clone()),
                group: match database {
                    0 => "shared".into(),
                    _ => group.map_or_else(|| database.to_string(), |(name, _)| name.clone()),
                },
                kind: named.and_then(|named| named[1].chars().next()).map(|letter| kind_name(letter).into()),
                part: catalog::fork_name(fork).into(),
                pages: object.pages.max(pages),
            }
        });
        let objects = objects.collect();
        CapturedTrace {
            name: format!("postgresql {}", self.major),
            page_size: self.page_size,
            below_cache: false,
            objects,
            recorder,
        }
    }
}
