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
    CaptureBuffer, CaptureError, CaptureSource, CapturedTrace, CountedWrites, End, EventCost, EventStream, KernelFiles,
    NamedObject, Process, WriteCounters,
};
use ebbpool_lab::{PolicySpec, SpecError};
use serde_json::{Value, json};

use super::say;
use super::targets::{Captured, Target, postgres_facts, postgres_policy};
use crate::advise::args::ServerArg;

/// The longest time for which an answer of the server is waited for. A session that does not answer within it is at its end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time between two questions for more, each of which takes the server some 0.1 ms, and the share of the ring from which on it is a
/// shorter one.
const SPACE: Duration = Duration::from_millis(50);
const SHORT_SPACE: Duration = Duration::from_millis(5);
const MUCH: f64 = 0.1;

/// The longest line of an answer, such as the names of a database's relations.
const LONGEST_LINE: u64 = 64 << 20;

/// Said first in each session, whatever settings a service file, a role or a database has: no function or table of a user is taken for one of
/// the server's, and no limit of time ends a session that waits.
const SETUP: &str = "set search_path = pg_catalog, pg_temp; set client_encoding = 'UTF8'; set bytea_output = hex; \
    set statement_timeout = 0; set idle_session_timeout = 0; set jit = off";

/// Settings, and what else is known of the server before the capture, as an object.
const ABOUT: &str = "select jsonb_build_object( \
    'schema', (select quote_ident(n.nspname) from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace \
        where e.extname = 'ebbpool'), \
    'database', current_database(), \
    'process', case when inet_server_addr() is null then pg_backend_pid() end, \
    'settings', (select jsonb_object_agg(name, setting) from pg_catalog.pg_settings where name in ('server_version_num', 'block_size', \
        'shared_buffers', 'bgwriter_delay', 'bgwriter_lru_maxpages', 'bgwriter_lru_multiplier', 'checkpoint_timeout', \
        'checkpoint_completion_target', 'max_wal_size', 'data_directory', 'ebbpool.policy', 'ebbpool.attach')))";

/// The end of the log, in bytes.
const LOG: &str = "select pg_catalog.pg_wal_lsn_diff(case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn() \
    else pg_catalog.pg_current_wal_lsn() end, '0/0')";

/// Pages that the server has written, new ones among them.
fn written_pages(major: u32) -> &'static str {
    match major {
        ..=15 => "select buffers_checkpoint + buffers_clean + buffers_backend from pg_catalog.pg_stat_bgwriter",
        16 | 17 => {
            "select sum(coalesce(writes, 0) + coalesce(extends, 0)) from pg_catalog.pg_stat_io where object = 'relation'"
        }
        _ => {
            "select sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)) / current_setting('block_size')::int from pg_catalog.pg_stat_io where object = 'relation'"
        }
    }
}

/// Pages that were not in the buffer, from the device or from the kernel's cache.
const READ_PAGES: &str = "select sum(blks_read) from pg_catalog.pg_stat_database";

const DATABASES: &str = "select jsonb_agg(jsonb_build_array(oid, datname, datallowconn)) from pg_catalog.pg_database";

/// The relations of a database: file, kind, name, and pages at the latest `VACUUM` or `ANALYZE`.
const RELATIONS: &str = "select jsonb_agg(jsonb_build_array(pg_catalog.pg_relation_filenode(oid), relkind, relname, greatest(relpages, 0))) \
    from pg_catalog.pg_class where pg_catalog.pg_relation_filenode(oid) is not null";

/// A `psql` with the connection of its environment, to another database if one is named. What a connection string says goes before a service
/// file, and that before the environment.
fn psql(database: Option<&str>) -> Command {
    let mut command = Command::new("psql");
    // Ctrl-C is for this command, which then takes what has come.
    command.args(["-XqAtw", "-v", "ON_ERROR_STOP=1"]).env("PGAPPNAME", "ebbpool capture").process_group(0);
    if let Some(database) = database {
        let quoted = database.replace('\\', "\\\\").replace('\'', "\\'");
        command.args(["-d", &format!("dbname='{quoted}'")]);
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
    said_at: Instant,
    /// It has ended because there was no answer.
    is_silent: bool,
}

impl Session {
    fn begin(database: Option<&str>) -> io::Result<Session> {
        let mut child = psql(database).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (statements, output) = (child.stdin.take(), child.stdout.take());
        let (sender, answers) = sync_channel(1);
        std::thread::spawn(move || {
            let lines = output.map(lines_of).into_iter().flatten();
            // Ends with the session.
            lines.map(|line| sender.send(line)).find(Result::is_err);
        });
        let mut session = Session { child, statements, answers, waits: false, said_at: Instant::now(), is_silent: false };
        session.say(SETUP);
        Ok(session)
    }

    fn say(&mut self, statement: &str) {
        let said = self.statements.as_mut().map(|to| writeln!(to, "{statement};").and_then(|()| to.flush()));
        self.waits = said.is_some_and(|said| said.is_ok());
        self.said_at = Instant::now();
    }

    fn answer(&mut self, longest: Duration) -> Option<String> {
        let longest = longest.min(PATIENCE.saturating_sub(self.said_at.elapsed()));
        let answer = if self.waits { self.answers.recv_timeout(longest).ok() } else { None };
        self.waits &= answer.is_none();
        if self.waits && self.said_at.elapsed() >= PATIENCE {
            self.is_silent = true;
            self.end();
        }
        answer
    }

    /// What a statement says that has one row with JSON.
    fn json(&mut self, statement: &str) -> Option<Value> {
        self.say(statement);
        serde_json::from_str(&self.answer(PATIENCE)?).ok()
    }

    fn is_alive(&mut self) -> bool {
        self.statements.is_some() && matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it: without statements `psql` ends, and with it what the server does for it.
    fn end(&mut self) {
        const LONGEST: Duration = Duration::from_secs(1);
        (self.statements, self.waits) = (None, false);
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
    /// More is there at once.
    more: bool,
}

impl Seen {
    /// Asks for more, and takes the answer if it comes in time. False if nothing has come.
    fn ask(&mut self, longest: Duration) -> bool {
        if !self.session.waits {
            self.asked = Instant::now();
            self.session.say(&self.statement);
        }
        let Some(answer) = self.session.answer(longest) else { return false };
        let columns: Vec<&str> = answer.split('|').collect();
        let number = |at: usize| columns.get(at).and_then(|column| column.parse::<f64>().ok());
        let digits = columns.get(4).and_then(|column| column.strip_prefix("\\x"));
        let (Some(lost), Some(filled), Some(spent), Some(digits)) = (number(0), number(1), number(2), digits) else {
            // No function of the module's answers so.
            self.session.end();
            return false;
        };
        (self.lost, self.filled, self.spent) = (lost as u64, filled, Duration::from_secs_f64(spent.max(0.0) / 1e6));
        self.more = columns[3] == "t";
        let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
        self.records = digits.as_bytes().as_chunks().0.iter().map(|&[high, low]| digit(high) << 4 | digit(low)).collect();
        self.taken = 0;
        true
    }

    /// True if it is time to ask again.
    fn is_due(&self) -> bool {
        self.asked.elapsed() >= if self.filled < MUCH { SPACE } else { SHORT_SPACE }
    }
}

/// The stream of a capture.
struct Stream(Rc<RefCell<Seen>>);

impl EventStream for Stream {
    fn drain(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        const LONGEST: Duration = Duration::from_millis(50);
        let seen = &mut *self.0.borrow_mut();
        // What was left the time before is taken without a question, and a server that has little to do is asked seldom.
        let mut goes_on = seen.taken < seen.records.len() || (seen.is_due() && seen.ask(LONGEST));
        while goes_on {
            while let Some(record) = seen.records.get(seen.taken..seen.taken + RECORD) {
                seen.taken += RECORD;
                if !take(record) {
                    return false;
                }
            }
            goes_on = seen.more && seen.ask(LONGEST);
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

    /// The module looks at descriptors in at most a hundredth of the time: no share of what an idle server does, and not noticed.
    fn least_noticed(&self) -> f64 {
        0.03
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
    /// Pages that it has read, likewise.
    read: Cell<[Option<f64>; 2]>,
}

fn failed(what: String) -> CaptureError {
    CaptureError::Nothing(what)
}

impl ModuleSource {
    /// The server that `psql` connects to without arguments.
    pub(super) fn open() -> Result<ModuleSource, CaptureError> {
        let mut session =
            Session::begin(None).map_err(|error| failed(format!("cannot start psql: {error}; install postgresql-client")))?;
        let Some(about) = session.json(ABOUT) else {
            let why = match session.is_silent {
                true => format!("the server does not answer psql within {} s", PATIENCE.as_secs()),
                false => "psql does not connect to a server; its words stand above".into(),
            };
            return Err(failed(format!(
                "{why}. It takes server, user and database as always: PGHOST, PGUSER, PGDATABASE, PGSERVICE, ~/.pgpass"
            )));
        };
        let database = about["database"].as_str().unwrap_or_default();
        let schema = about["schema"].as_str().ok_or_else(|| {
            failed(format!("the database {database:?} has no extension ebbpool: run CREATE EXTENSION ebbpool in it, or name another one in PGDATABASE"))
        })?;
        let named = &about["settings"];
        let text = |name: &str| named[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| text(name).parse::<f64>().ok();
        let whole = |name: &str| number(name).map(|number| number as u32);
        if text("ebbpool.policy").is_empty() || text("ebbpool.attach") == "none" {
            return Err(failed("the server has no policy of the module, which would see the requests: add ebbpool to shared_preload_libraries, set ebbpool.attach to hooks or redirect, and restart it".into()));
        }
        let server = about["process"].as_i64().and_then(|backend| Process(backend as i32).parent());
        Ok(ModuleSource {
            decoder: ModuleDecoder::default(),
            major: whole("server_version_num").unwrap_or(0) / 10_000,
            page_size: number("block_size").map_or(8192, |bytes| bytes as u64),
            settings: PostgresSettings {
                shared_buffers: number("shared_buffers").unwrap_or_default() as u64,
                bgwriter_delay: whole("bgwriter_delay"),
                bgwriter_lru_maxpages: whole("bgwriter_lru_maxpages"),
                bgwriter_lru_multiplier: number("bgwriter_lru_multiplier"),
                checkpoint_timeout: whole("checkpoint_timeout"),
                checkpoint_completion_target: number("checkpoint_completion_target"),
                max_wal_size: whole("max_wal_size"),
            },
            data: text("data_directory"),
            policy: text("ebbpool.policy"),
            // A socket may lead into a container whose processes have other numbers here.
            process: server.filter(|server| server.command().is_some_and(|name| name == "postgres")),
            written: Cell::default(),
            read: Cell::default(),
            seen: Rc::new(RefCell::new(Seen {
                session,
                statement: format!("select lost, filled, spent_us, more, requests from {schema}.ebbpool_requests()"),
                records: Vec::new(),
                taken: 0,
                asked: Instant::now(),
                filled: 0.0,
                lost: 0,
                spent: Duration::ZERO,
                more: false,
            })),
        })
    }

    /// A number that the server says; an answer that is under way is taken first.
    fn number(&self, statement: &str) -> Option<f64> {
        let seen = &mut *self.seen.borrow_mut();
        if seen.session.waits {
            let left = seen.records.split_off(seen.taken.min(seen.records.len()));
            // What was taken is not taken again, also if no answer comes.
            (seen.records, seen.taken) = (Vec::new(), 0);
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

/// What a statement says in a database, by the number in the first column; nothing if there is no answer in time.
fn rows(database: Option<&str>, statement: &str) -> HashMap<u32, Vec<Value>> {
    let answer = Session::begin(database).ok().and_then(|mut session| session.json(statement));
    let rows = answer.and_then(|answer| serde_json::from_value::<Vec<Vec<Value>>>(answer).ok()).unwrap_or_default();
    let numbered = |row: Vec<Value>| {
        let number = row.first()?;
        // An `oid` is a text in JSON.
        let number = number.as_u64().or_else(|| number.as_str()?.parse().ok())?;
        Some((u32::try_from(number).ok()?, row))
    };
    rows.into_iter().filter_map(numbered).collect()
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
        let bytes = |[first, latest]: [Option<f64>; 2]| {
            let pages = (latest? - first?).max(0.0) as u64;
            Some(pages * self.page_size)
        };
        CountedWrites { page_bytes: bytes(self.written.get()), log_bytes: None, read_page_bytes: bytes(self.read.get()) }
    }

    fn write_counters(&self) -> WriteCounters {
        let kernel = KernelFiles::default();
        for (pages, statement) in [(&self.written, written_pages(self.major)), (&self.read, READ_PAGES)] {
            let number = self.number(statement);
            pages.set([pages.get()[0].or(number), number]);
        }
        WriteCounters {
            processes: self.process.and_then(|process| kernel.bytes_of(&process.descendants())),
            log_position: self.number(LOG).map(|bytes| bytes as u64),
            device: self.process.and_then(|_| kernel.device_below(Path::new(&self.data))),
        }
    }
}

impl Target for ModuleSource {
    const SERVER: ServerArg = ServerArg::Postgresql;

    fn sentence(&self) -> String {
        format!(
            "PostgreSQL {}, shared_buffers {} pages, by its module, whose policy is {}; requests of a page between two looks have no order, and are at most five; what is advised is compared with the clock sweep",
            self.major, self.settings.shared_buffers, self.policy
        )
    }

    const MORE_ROOM: &str = "the server saw more than its memory for them has room for: capture a quieter time";

    fn failure(&self, end: End) -> Option<String> {
        let session = &self.seen.borrow().session;
        let why = match end {
            _ if session.is_silent => format!("the server has not answered for {} s, and what it saw since then is not in the trace", PATIENCE.as_secs()),
            End::Target if self.process.is_none_or(Process::is_alive) => {
                "the session with the server ended before the capture was to; its words stand above. The trace has what came until then".into()
            }
            _ => return None,
        };
        Some(why)
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
        let databases = if names { rows(None, DATABASES) } else { HashMap::new() };
        if names && databases.is_empty() {
            say("the server no longer says names: databases and relations are called by their numbers");
        }
        let text = |row: &Vec<Value>, at: usize| row.get(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut relations: HashMap<u32, HashMap<u32, Vec<Value>>> = HashMap::new();
        let objects = recorder.objects().iter().map(|object| {
            let [_, database, relation, fork] = object.key;
            let group = databases.get(&database);
            let known = relations.entry(database).or_insert_with(|| match group {
                Some(row) if row.get(2) == Some(&Value::Bool(true)) => rows(Some(&text(row, 1)), RELATIONS),
                // Catalogues of all databases are in each.
                None if database == 0 && !databases.is_empty() => rows(None, RELATIONS),
                _ => HashMap::new(),
            });
            let named = known.get(&relation);
            let pages = named.filter(|_| fork == 0).and_then(|row| row.get(3)?.as_u64()).unwrap_or(0);
            NamedObject {
                name: named.map_or_else(|| relation.to_string(), |row| text(row, 2)),
                group: match database {
                    0 => "shared".into(),
                    _ => group.map_or_else(|| database.to_string(), |row| text(row, 1)),
                },
                kind: named.and_then(|row| text(row, 1).chars().next()).map(|letter| kind_name(letter).into()),
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
