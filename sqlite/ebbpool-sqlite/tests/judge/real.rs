//! Programs of real processes on real files, in lock step with plain SQLite in memory.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::{Connection, OpenFlags, ffi};
use tempfile::TempDir;

use crate::actor::{Reply, Request, Second, has_second};
use crate::bench::Bench;
use crate::history::{History, open_scratch};
use crate::lockstep::{Run, Stop};
use crate::price::{self, Circumstances, Price, Tally};
use crate::sql::{self, Outcome};
use crate::trace;

/// A process that answers nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Connections of one process.
pub const CONNECTIONS: usize = 3;
/// The number of the connection of another copy of SQLite.
const SECOND: usize = CONNECTIONS;
/// Processes of a program.
pub const PROCESSES: usize = 5;

/// What processes do. The first number is the process, the second one its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealStep {
    Start(usize),
    /// With a window in seconds.
    Open(usize, usize, u32),
    OpenReadOnly(usize, usize),
    Close(usize, usize),
    Sql(usize, usize, &'static str),
    /// The child gets another number.
    Fork(usize, usize),
    /// As `Fork`, twice: the parent of the child is gone.
    Daemon(usize, usize),
    /// Opens the database, or what is beside it, as a file, reads it, and closes it.
    ReadFile(usize, &'static str),
    /// Copies the database after a checkpoint of one of its connections.
    Copy(usize, usize),
    /// Deletes `-ebb`, also while a process has it open.
    Unlink,
    /// Another copy of SQLite in the process opens the database, or closes it.
    Second(usize),
    SecondSql(usize, &'static str),
    /// Another program, which knows nothing of SQLite, changes the time of the file.
    Touch,
    /// It writes an earlier content of the database over the file.
    Restore(usize),
    /// It puts a copy of the file in its place, as `sed -i` does.
    PutCopy,
    /// The process is stopped for a moment.
    Pause(usize),
    Kill(usize),
    /// Ends without closing.
    Exit(usize),
    /// Closes everything, and ends.
    Quit(usize),
}

/// Where the database is. SQLite's own VFS serves it, but for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    Usual,
    /// No one but root may make files in the directory, and the processes are not root's.
    Fixed,
    /// The file is mounted without its directory, as into a container, with which the log goes.
    Mounted,
}

/// A program of processes.
#[derive(Clone, Debug)]
pub struct RealProgram {
    pub seed: u64,
    pub location: Location,
    pub steps: Vec<RealStep>,
}

impl RealProgram {
    /// The program as Rust.
    pub fn show(&self) -> String {
        let steps = self.steps.iter().map(|step| format!("    {step:?},\n"));
        format!(
            "RealProgram {{ seed: {}, location: Location::{:?}, steps: vec![\n{}] }}",
            self.seed,
            self.location,
            steps.collect::<String>()
        )
    }
}

/// What the judge knows of a connection.
#[derive(Clone, Copy)]
struct Opened {
    window: u32,
    is_read_only: bool,
}

struct Process {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
    id: i32,
    child: Option<Child>,
    opened: BTreeMap<usize, Opened>,
    /// Connections of the parent at the time of the fork.
    inherited: Vec<usize>,
    /// Another copy of SQLite has the database open.
    has_second: bool,
}

struct Real<'a> {
    bench: &'a Bench,
    directory: TempDir,
    listener: UnixListener,
    processes: HashMap<usize, Process>,
    plain: BTreeMap<(usize, usize), Connection>,
    history: History,
    /// `-ebb` was deleted, and no epoch was made since.
    has_lost_log: bool,
    location: Location,
    /// A read-only connection was there since all connections were closed.
    had_reader: bool,
    tally: &'a mut Tally,
}

/// Runs a program, and says after which step the worlds differ.
pub fn run(bench: &Bench, program: &RealProgram, tally: &mut Tally) -> Result<(), (usize, String)> {
    let directory = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
    bench.plain.reset(program.seed);
    bench.scratch.reset(program.seed);
    let mut real = Real {
        bench,
        directory,
        listener,
        processes: HashMap::new(),
        plain: BTreeMap::new(),
        history: History::default(),
        has_lost_log: false,
        location: program.location,
        had_reader: false,
        tally,
    };
    let mut answer = real.prepare();
    let mut at = 0;
    for step in &program.steps {
        if answer.is_err() {
            break;
        }
        trace::line(|| format!("{step:?}"));
        answer = real.step(*step);
        at += usize::from(answer.is_ok());
    }
    let answer = answer.and_then(|()| real.finish());
    real.tally.programs += 1;
    real.tally.steps += at as u64;
    real.end();
    match answer {
        Ok(()) | Err(Stop::Over) => Ok(()),
        Err(Stop::Finding(why) | Stop::Hang(why)) => Err((at, why)),
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        kill(self.id);
        if let Some(child) = &mut self.child {
            let _ = child.wait();
        }
    }
}

/// Kills a process that this one, or a process that it has started, has begun.
fn kill(id: i32) {
    signal(id, libc::SIGKILL);
}

#[allow(unsafe_code)]
fn signal(id: i32, signal: i32) {
    // SAFETY: the call only sends a signal.
    unsafe { libc::kill(id, signal) };
}

/// Waits until the time of a file that is written from now on is another one.
fn tick() {
    std::thread::sleep(Duration::from_millis(12));
}

/// Runs a script, in silence.
fn shell(script: &str) -> bool {
    Command::new("sh").args(["-c", script]).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

impl Real<'_> {
    fn files(&self) -> PathBuf {
        self.directory.path().join("files")
    }

    fn path(&self) -> PathBuf {
        self.files().join("x.db")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.files().join(format!("x.db{suffix}"))
    }

    /// Makes the database with a table, by plain SQLite in both worlds.
    fn prepare(&mut self) -> Run<()> {
        std::fs::create_dir(self.files()).unwrap();
        if self.location == Location::Mounted && !self.mount() {
            self.tally.pay(Price::NoMount);
            return Err(Stop::Over);
        }
        let setup = "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT); CREATE INDEX t_n ON t(n)";
        let text = |error: rusqlite::Error| Stop::Finding(format!("the first table: {error}"));
        let ours = Connection::open(self.path()).map_err(text)?;
        ours.execute_batch(setup).map_err(text)?;
        drop(ours);
        let plain = self.open_plain(false).map_err(text)?;
        plain.execute_batch(setup).map_err(text)?;
        drop(plain);
        self.bench.plain.take_changed();
        self.history.begin(self.bench.plain.files(), 0);
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(self.directory.path(), 0o777);
        mode(&self.path(), 0o666);
        mode(&self.directory.path().join("socket"), 0o777);
        mode(&self.files(), if self.location == Location::Fixed { 0o555 } else { 0o777 });
        self.bench.plain.fix_directory(self.location == Location::Fixed);
        Ok(())
    }

    /// Mounts a file over that of the database; false where the system allows it to root alone.
    fn mount(&self) -> bool {
        let path = self.path().display().to_string();
        let script = format!("mount --make-rprivate / && touch {path} {path}.host && mount --bind {path}.host {path}");
        // SAFETY: from now on the mounts of this thread, and of what it starts, are its own.
        #[allow(unsafe_code)]
        let is_alone = unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
        is_alone && shell(&script)
    }

    fn open_plain(&self, is_read_only: bool) -> rusqlite::Result<Connection> {
        let access = match is_read_only {
            true => OpenFlags::SQLITE_OPEN_READ_ONLY,
            false => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        };
        let vfs = self.bench.plain_names[0][0];
        let database = Connection::open_with_flags_and_vfs("/real/x.db", access, vfs)?;
        database.busy_timeout(Duration::ZERO)?;
        // As in the processes: it reads the tables, and may find a lock.
        let _ = database.execute_batch("PRAGMA cache_size=8");
        Ok(database)
    }

    fn step(&mut self, step: RealStep) -> Run<()> {
        match step {
            RealStep::Start(p) => self.start(p),
            RealStep::Open(p, c, window) => self.open(p, c, window, false),
            RealStep::OpenReadOnly(p, c) => self.open(p, c, 0, true),
            RealStep::Close(p, c) => self.close(p, c),
            RealStep::Sql(p, c, text) => self.sql(p, c, text),
            RealStep::Fork(p, q) => self.fork(p, q, false),
            RealStep::Daemon(p, q) => self.fork(p, q, true),
            RealStep::ReadFile(p, suffix) => self.read_file(p, suffix),
            RealStep::Copy(p, c) => self.copy(p, c),
            RealStep::Unlink => {
                let is_there = std::fs::remove_file(self.beside("-ebb")).is_ok();
                self.has_lost_log |= is_there;
                Ok(())
            }
            RealStep::Second(p) => self.second(p),
            RealStep::SecondSql(p, text) => self.second_sql(p, text),
            RealStep::Touch => {
                tick();
                std::fs::File::open(self.path()).unwrap().set_modified(SystemTime::now()).unwrap();
                Ok(())
            }
            RealStep::Restore(state) => self.restore(state),
            RealStep::PutCopy => self.put_copy(),
            RealStep::Pause(p) => {
                if let Some(process) = self.processes.get(&p) {
                    signal(process.id, libc::SIGSTOP);
                    tick();
                    signal(process.id, libc::SIGCONT);
                }
                Ok(())
            }
            RealStep::Kill(p) => self.kill(p),
            RealStep::Exit(p) => self.leave(p, Request::Exit),
            RealStep::Quit(p) => self.leave(p, Request::Quit),
        }
    }

    // Processes.

    fn start(&mut self, p: usize) -> Run<()> {
        if self.processes.contains_key(&p) {
            return Ok(());
        }
        let socket = self.directory.path().join("socket");
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "actor", "--ignored", "--nocapture"])
            .env("EBBPOOL_ACTOR", format!("{p} {}", socket.display()))
            // SQLite chooses it if the process is root's, and can make no file there.
            .env("SQLITE_TMPDIR", "/proc")
            .env_remove("EBBPOOL_JUDGE")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.greet(p, Some(child), Vec::new())?;
        if self.location == Location::Fixed {
            self.ask(p, Request::LoseRights)?;
        }
        Ok(())
    }

    /// Waits until a process has called.
    fn greet(&mut self, p: usize, child: Option<Child>, inherited: Vec<usize>) -> Run<()> {
        self.listener.set_nonblocking(true).unwrap();
        let begin = Instant::now();
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) if begin.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(_) => return Err(Stop::Hang(format!("process {p} does not begin"))),
            }
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        let _ = lines.read_line(&mut line);
        let id = line.trim().split_once(' ').and_then(|(_, id)| id.parse().ok());
        let Some(id) = id else {
            return Err(Stop::Hang(format!("process {p} does not begin")));
        };
        let process = Process { stream, lines, id, child, opened: BTreeMap::new(), inherited, has_second: false };
        self.processes.insert(p, process);
        Ok(())
    }

    fn ask(&mut self, p: usize, request: Request) -> Run<Outcome> {
        let process = self.processes.get_mut(&p).expect("the caller has asked for it");
        let text = serde_json::to_string(&request).unwrap();
        let mut line = String::new();
        let answered = writeln!(process.stream, "{text}").and_then(|()| process.lines.read_line(&mut line));
        let outcome = match answered {
            Ok(count) if count > 0 => {
                let reply: Reply = serde_json::from_str(&line).unwrap();
                Outcome::from(reply)
            }
            Ok(_) => return Err(Stop::Finding(format!("process {p} ends in {request:?}"))),
            Err(_) => return Err(Stop::Hang(format!("process {p} hangs in {request:?}"))),
        };
        trace::line(|| format!("    answers {outcome:?}"));
        Ok(outcome)
    }

    fn fork(&mut self, p: usize, q: usize, is_daemon: bool) -> Run<()> {
        let Some(parent) = self.processes.get(&p) else {
            return Ok(());
        };
        if self.processes.contains_key(&q) || parent.has_second {
            return Ok(());
        }
        let mut inherited: Vec<usize> = parent.opened.keys().copied().collect();
        inherited.extend(&parent.inherited);
        let request = Request::Fork { name: q, is_daemon };
        self.ask(p, request)?;
        self.greet(q, None, inherited)
    }

    // Connections.

    fn others_have(&self, p: usize) -> bool {
        let mut others = self.processes.iter().filter(|(other, _)| **other != p);
        others.any(|(_, process)| !process.opened.is_empty()) || self.has_second()
    }

    /// SQLite's own VFS may serve the database.
    fn is_passed(&self) -> bool {
        self.location != Location::Usual || self.had_reader
    }

    fn has_second(&self) -> bool {
        self.processes.values().any(|process| process.has_second)
    }

    fn open(&mut self, p: usize, c: usize, window: u32, is_read_only: bool) -> Run<()> {
        let Some(process) = self.processes.get(&p) else {
            return Ok(());
        };
        if process.opened.contains_key(&c) || process.inherited.contains(&c) || (is_read_only && self.has_second()) {
            return Ok(());
        }
        // With so little memory a transaction of some length goes to a file.
        let options = format!("window={window}&memory=1M");
        let request = Request::Open { c, path: self.path(), options, is_read_only };
        let ours = self.ask(p, request)?;
        if self.is_allowed(p, &ours, "") {
            return Ok(());
        }
        let plain = self.open_plain(is_read_only);
        let code = plain.as_ref().err().map_or(0, sql::code) & 0xff;
        if ours.code() != code {
            return Err(format!("opening {c} of {p}: ours {ours:?}, plain error {code}").into());
        }
        if let Ok(plain) = plain {
            self.had_reader = is_read_only || (self.had_reader && !self.plain.is_empty());
            self.plain.insert((p, c), plain);
            let opened = Opened { window, is_read_only };
            let process = self.processes.get_mut(&p).expect("it has answered");
            process.opened.insert(c, opened);
        }
        Ok(())
    }

    fn is_allowed(&mut self, p: usize, ours: &Outcome, text: &str) -> bool {
        let circumstances = Circumstances { has_other_process: self.others_have(p), ..Circumstances::default() };
        let price = price::of(ours, text, circumstances);
        price.inspect(|price| self.tally.pay(*price)).is_some()
    }

    fn close(&mut self, p: usize, c: usize) -> Run<()> {
        let Some(process) = self.processes.get_mut(&p) else {
            return Ok(());
        };
        let is_own = process.opened.remove(&c).is_some();
        let was_inherited = process.inherited.contains(&c);
        process.inherited.retain(|inherited| *inherited != c);
        if is_own || was_inherited {
            self.ask(p, Request::Close(c))?;
        }
        if is_own {
            self.plain.remove(&(p, c));
            self.note();
            self.closed();
        }
        Ok(())
    }

    /// Everything is in place once no one has the database open.
    fn closed(&mut self) {
        if self.processes.values().all(|process| process.opened.is_empty()) {
            self.history.raise(DATABASE, self.history.last());
            self.has_lost_log = false;
        }
    }

    fn sql(&mut self, p: usize, c: usize, text: &'static str) -> Run<()> {
        let Some(process) = self.processes.get(&p) else {
            return Ok(());
        };
        let (is_inherited, opened) = (process.inherited.contains(&c), process.opened.get(&c).copied());
        if is_inherited {
            let ours = self.ask(p, Request::Sql(c, text.into()))?;
            // What needs no file is answered by SQLite itself.
            let is_refused = [ffi::SQLITE_MISUSE, ffi::SQLITE_ERROR, ffi::SQLITE_READONLY].contains(&ours.code());
            // A transaction that was open goes on in memory; its end must not reach the file.
            let is_refused = is_refused || !ours.is_idle;
            return match is_refused || !price::names_a_table(text) {
                true => {
                    self.tally.pay(Price::Inherited);
                    Ok(())
                }
                false => Err(format!("{text} of {c}, which {p} inherited: {ours:?}").into()),
            };
        }
        let Some(opened) = opened else {
            return Ok(());
        };
        if opened.is_read_only && text.contains("wal_checkpoint") {
            self.tally.pay(Price::ReadersCheckpoint);
            return Ok(());
        }
        let ours = self.ask(p, Request::Sql(c, text.into()))?;
        if self.is_allowed(p, &ours, text) {
            if !self.plain[&(p, c)].is_autocommit() || !ours.is_idle {
                // Plain SQLite has not run the statement, so that the transactions differ.
                if !ours.is_idle {
                    self.ask(p, Request::Sql(c, "ROLLBACK".into()))?;
                }
                sql::run(&self.plain[&(p, c)], "ROLLBACK");
            }
            return Ok(());
        }
        if text.starts_with("PRAGMA ebbpool") {
            if ours.code() == ffi::SQLITE_BUSY && self.is_passed() {
                self.tally.pay(Price::Passed);
                return Ok(());
            }
            return match ours.is_ok() || opened.is_read_only {
                true => {
                    self.acknowledge(p, opened, true);
                    Ok(())
                }
                false => Err(format!("{text} of {c} of {p}: {ours:?}").into()),
            };
        }
        let plain = sql::run(&self.plain[&(p, c)], text);
        let numbers_differ = text.contains("wal_checkpoint") && ours.is_ok() == plain.is_ok();
        if !ours.agrees(&plain) && !numbers_differ {
            return Err(format!("{text} of {c} of {p}: ours {ours:?}, plain {plain:?}").into());
        }
        if ours.is_ok() && ours.is_idle && !text.contains("wal_checkpoint") {
            let is_commit = price::names_a_table(text) || text == "COMMIT" || text == "VACUUM";
            if is_commit {
                self.acknowledge(p, opened, false);
            }
        }
        self.note();
        Ok(())
    }

    fn note(&mut self) -> bool {
        let has_changed = self.bench.plain.take_changed();
        if has_changed {
            self.history.push(self.bench.plain.files(), 0, |_| false);
        }
        has_changed
    }

    /// A statement was acknowledged: what was committed must survive if there is no window.
    fn acknowledge(&mut self, p: usize, opened: Opened, is_flush: bool) {
        let has_changed = self.note();
        let windows = self.processes[&p].opened.values();
        let mut writers = windows.filter(|opened| !opened.is_read_only);
        let is_durable = writers.any(|opened| opened.window == 0) && has_changed;
        if !opened.is_read_only && (is_flush || is_durable) {
            self.history.raise(DATABASE, self.history.last());
            self.has_lost_log &= !has_changed;
        }
    }

    // Ends of processes.

    /// The process ends by itself, and leaves nothing undone that was committed.
    fn leave(&mut self, p: usize, request: Request) -> Run<()> {
        let Some(mut process) = self.processes.remove(&p) else {
            return Ok(());
        };
        let text = serde_json::to_string(&request).unwrap();
        let mut line = String::new();
        let answered = writeln!(process.stream, "{text}").and_then(|()| process.lines.read_line(&mut line));
        if answered.is_err() {
            return Err(Stop::Hang(format!("process {p} does not end")));
        }
        let had_open = !process.opened.is_empty() || process.has_second;
        self.plain.retain(|(of, _), _| *of != p);
        self.note();
        if had_open && !self.others_have(p) {
            self.history.raise(DATABASE, self.history.last());
        }
        drop(process);
        match had_open && matches!(request, Request::Exit) {
            true => self.judge(),
            false => {
                self.closed();
                Ok(())
            }
        }
    }

    fn kill(&mut self, p: usize) -> Run<()> {
        let Some(process) = self.processes.remove(&p) else {
            return Ok(());
        };
        let had_open = !process.opened.is_empty() || process.has_second;
        drop(process);
        self.plain.retain(|(of, _), _| *of != p);
        self.note();
        match had_open {
            true => self.judge(),
            false => Ok(()),
        }
    }

    /// All others close; then the database is looked at without the library, and with it.
    fn judge(&mut self) -> Run<()> {
        self.tally.recoveries += 1;
        // Closing must not raise what has to survive: a connection that found the database locked has taken nothing over.
        let floor = self.history.floor(DATABASE);
        self.close_all()?;
        if self.location == Location::Mounted {
            let _ = std::fs::remove_file(self.beside("-ebb"));
        }
        let without = self.without_the_library()?;
        if self.find(&without, 0)?.is_none() {
            return Err(self.compare_with_last("without the library", &without)?);
        }
        let found = self.dump();
        let dump = match found {
            Err(_) if self.has_lost_log => return Err(Stop::Over),
            found => found.map_err(|why| format!("recovery: {why}"))?,
        };
        if self.find(&dump, if self.has_lost_log { 0 } else { floor })?.is_none() {
            return Err(self.compare_with_last("recovered", &dump)?);
        }
        // With the mode of its journal, which may be one of an earlier state that has the same rows.
        self.begin_with(&std::fs::read(self.path()).unwrap_or_default());
        Ok(())
    }

    fn compare_with_last(&mut self, when: &str, dump: &[String]) -> Run<Stop> {
        let latest = self.content(self.history.last())?;
        let (floor, last) = (self.history.floor(DATABASE), self.history.last());
        let difference = sql::difference(dump, &latest.dump);
        let any = self.find(dump, 0)?;
        Ok(format!("{when}: state {any:?}, of {floor} to {last}; {difference} of the last").into())
    }

    fn content(&mut self, state: usize) -> Result<std::rc::Rc<crate::history::Content>, String> {
        let (scratch, vfs) = (self.bench.scratch, self.bench.scratch_name);
        self.history.content(state, DATABASE, "/real/x.db", scratch, vfs)
    }

    fn find(&mut self, dump: &[String], first: usize) -> Result<Option<usize>, String> {
        let dump = without_mode(dump);
        for state in (first..=self.history.last()).rev() {
            if without_mode(&self.content(state)?.dump) == dump {
                return Ok(Some(state));
            }
        }
        Ok(None)
    }

    /// What plain SQLite finds in a copy of the files.
    fn without_the_library(&self) -> Result<Vec<String>, String> {
        self.bench.scratch.reset(1);
        for suffix in ["", "-wal", "-journal"] {
            let content = std::fs::read(self.beside(suffix)).unwrap_or_default();
            self.bench.scratch.replace(&format!("/real/x.db{suffix}"), &content);
        }
        judged(&self.scratch()?)
    }

    fn scratch(&self) -> Result<Connection, String> {
        let opened = open_scratch(self.bench.scratch_name, "/real/x.db");
        opened.map_err(|error| error.to_string())
    }

    /// What the library finds.
    fn dump(&self) -> Result<Vec<String>, String> {
        ebbpool_sqlite::register(false).map_err(|code| format!("{code:?}"))?;
        let name = format!("file:{}?vfs=ebbpool&window=1000", self.path().display());
        let database = Connection::open_with_flags(name, OpenFlags::default());
        judged(&database.map_err(|error| error.to_string())?)
    }

    // Files.

    fn read_file(&mut self, p: usize, suffix: &str) -> Run<()> {
        if !self.processes.contains_key(&p) || (suffix.is_empty() && self.would_lose_lock(p)) {
            return Ok(());
        }
        let path = self.beside(suffix);
        self.ask(p, Request::Read(path, None)).map(drop)
    }

    // Another copy of SQLite.

    fn second(&mut self, p: usize) -> Run<()> {
        // Where SQLite's own VFS serves both, the copies take each other's locks and WAL, as without the library.
        let may_open = has_second() && !self.is_passed();
        let Some(process) = self.processes.get(&p).filter(|process| process.has_second || may_open) else {
            return Ok(());
        };
        if process.has_second {
            self.ask(p, Request::Second(Second::Close))?;
            self.plain.remove(&(p, SECOND));
            self.note();
        } else {
            self.ask(p, Request::Second(Second::Open(self.path())))?;
            let plain = self.open_plain(false).map_err(|error| format!("plain: {error}"))?;
            self.plain.insert((p, SECOND), plain);
        }
        let process = self.processes.get_mut(&p).expect("it has answered");
        process.has_second = !process.has_second;
        self.closed();
        Ok(())
    }

    fn second_sql(&mut self, p: usize, text: &'static str) -> Run<()> {
        if self.processes.get(&p).is_none_or(|process| !process.has_second) || text.contains("ebbpool") {
            return Ok(());
        }
        let is_checkpoint = text.contains("wal_checkpoint");
        // In a transaction versions of SQLite differ in whether a checkpoint is refused, and in whether it begins a snapshot.
        if is_checkpoint && !self.plain[&(p, SECOND)].is_autocommit() {
            return Ok(());
        }
        let ours = self.ask(p, Request::Second(Second::Sql(text.into())))?;
        // Marked as having a log, it is for reading only.
        let is_refused = [ffi::SQLITE_BUSY, ffi::SQLITE_READONLY].contains(&ours.code());
        let has_owner = self.processes.values().any(|process| !process.opened.is_empty());
        if is_refused && has_owner {
            self.tally.pay(Price::OneProcess);
            return Ok(());
        }
        let plain = sql::run(&self.plain[&(p, SECOND)], text);
        if ours.code() != plain.code() {
            return Err(format!("{text} of the second copy in {p}: ours {ours:?}, plain {plain:?}").into());
        }
        // A checkpoint says nothing of what the library has in its window.
        if self.note() && !is_checkpoint {
            self.history.raise(DATABASE, self.history.last());
        }
        Ok(())
    }

    // Other programs.

    /// What was restored stays, whatever the owner has in memory and in its log.
    fn restore(&mut self, state: usize) -> Run<()> {
        // With SQLite's own VFS it does what it does there.
        if self.is_passed() || self.has_second() {
            return Ok(());
        }
        let content = self.content(state % (self.history.last() + 1))?;
        if std::fs::read(self.path()).unwrap_or_default() == content.file {
            return Ok(());
        }
        self.settle()?;
        tick();
        std::fs::write(self.path(), &content.file).unwrap();
        self.close_all()?;
        let found = self.dump().map_err(|why| format!("restored: {why}"))?;
        if without_mode(&found) != without_mode(&content.dump) {
            return Err(format!("restored: {}", sql::difference(&found, &content.dump)).into());
        }
        self.begin_with(&content.file);
        Ok(())
    }

    /// The copy has what was durable.
    fn put_copy(&mut self) -> Run<()> {
        if self.is_passed() || self.has_second() || self.has_lost_log {
            return Ok(());
        }
        self.settle()?;
        let copy = self.directory.path().join("files/copy");
        std::fs::copy(self.path(), &copy).unwrap();
        std::fs::rename(&copy, self.path()).unwrap();
        self.judge()
    }

    /// Waits until no owner writes the file, which a connection without a window may have asked for when it was opened: a file that is
    /// copied or written in the middle of that is damaged, as by plain SQLite.
    fn settle(&mut self) -> Run<()> {
        let open = self.processes.iter().flat_map(|(p, process)| process.opened.iter().map(|(c, opened)| (*p, *c, *opened)));
        let writers: Vec<_> = open.filter(|(_, _, opened)| opened.window == 0 && !opened.is_read_only).collect();
        for (p, c, _) in writers {
            self.ask(p, Request::Sql(c, "PRAGMA ebbpool_flush".into()))?;
        }
        Ok(())
    }

    /// All connections close.
    fn close_all(&mut self) -> Run<()> {
        let open: Vec<(usize, usize)> = self.plain.keys().copied().collect();
        for (p, c) in open {
            if let Some(process) = self.processes.get_mut(&p) {
                if c == SECOND {
                    process.has_second = false;
                    self.ask(p, Request::Second(Second::Close))?;
                    continue;
                }
                process.opened.remove(&c);
                self.ask(p, Request::Close(c))?;
            }
        }
        self.plain.clear();
        self.note();
        Ok(())
    }

    /// Both worlds go on with the same file.
    fn begin_with(&mut self, file: &[u8]) {
        let files = [("/real/x.db".to_owned(), file.to_vec().into())];
        self.bench.plain.put(files.into_iter().collect());
        self.bench.plain.fix_directory(self.location == Location::Fixed);
        self.bench.plain.take_changed();
        self.history.begin(self.bench.plain.files(), 0);
        self.has_lost_log = false;
    }

    /// True if a process would lose a lock of SQLite's own VFS by closing the database file.
    fn would_lose_lock(&mut self, p: usize) -> bool {
        // With a WAL a connection has a lock as long as it is open.
        let has_lock = |database: &Connection| self.had_reader || !database.is_autocommit();
        let mut own = self.plain.iter().filter(|((of, _), _)| *of == p);
        let has_second = self.processes.get(&p).is_some_and(|process| process.has_second);
        let would_lose = has_second || self.is_passed() && own.any(|(_, database)| has_lock(database));
        if would_lose {
            self.tally.pay(Price::LostLock);
        }
        would_lose
    }

    fn copy(&mut self, p: usize, c: usize) -> Run<()> {
        let is_there = self.processes.get(&p).is_some_and(|process| process.opened.contains_key(&c));
        let opened = self.processes.get(&p).and_then(|process| process.opened.get(&c));
        let is_reader = opened.is_some_and(|opened| opened.is_read_only);
        if !is_there || is_reader || !self.plain[&(p, c)].is_autocommit() {
            return Ok(());
        }
        if self.would_lose_lock(p) {
            return Ok(());
        }
        let ours = self.ask(p, Request::Sql(c, "PRAGMA wal_checkpoint(TRUNCATE)".into()))?;
        if !ours.answer.as_ref().is_ok_and(|rows| rows == &["0|0|0"]) || self.others_have(p) {
            return Ok(());
        }
        self.sql(p, c, "PRAGMA wal_checkpoint(TRUNCATE)")?;
        let copy = self.directory.path().join("copy.db");
        self.ask(p, Request::Read(self.path(), Some(copy.clone())))?;
        self.bench.scratch.reset(1);
        self.bench.scratch.replace("/real/x.db", &std::fs::read(copy).unwrap_or_default());
        let database = self.scratch()?;
        let dump = judged(&database)?;
        let written = sql::run(&database, "CREATE TABLE in_the_copy (a)");
        drop(database);
        let latest = self.content(self.history.last())?;
        if without_mode(&dump) != without_mode(&latest.dump) {
            return Err(format!("the copy: {}", sql::difference(&dump, &latest.dump)).into());
        }
        match written.is_ok() {
            true => Ok(()),
            false => Err(format!("plain SQLite cannot write the copy: {written:?}").into()),
        }
    }

    // The end.

    fn finish(&mut self) -> Run<()> {
        let mut names: Vec<usize> = self.processes.keys().copied().collect();
        names.sort_unstable();
        for p in names {
            self.leave(p, Request::Quit)?;
        }
        for suffix in ["-ebb", "-wal"] {
            // A read-only connection makes an empty `-wal`.
            let left = std::fs::metadata(self.beside(suffix)).map_or(0, |file| file.len());
            let is_usual = !self.bench.plain.content(&format!("/real/x.db{suffix}")).is_empty();
            let is_of_reader = suffix == "-wal" && self.had_reader;
            if left > 0 && !is_usual && !is_of_reader {
                return Err(format!("x.db{suffix} was left behind, {left} bytes").into());
            }
        }
        let dump = self.without_the_library()?;
        let written = sql::run(&self.scratch()?, "CREATE TABLE after_closing (a)");
        let latest = self.content(self.history.last())?;
        if without_mode(&dump) != without_mode(&latest.dump) {
            return Err(format!("closed: {}", sql::difference(&dump, &latest.dump)).into());
        }
        match written.is_ok() {
            true => Ok(()),
            false => Err(format!("closed: plain SQLite cannot write: {written:?}").into()),
        }
    }

    /// No process is left.
    fn end(&mut self) {
        self.processes.clear();
        self.plain.clear();
        if self.location == Location::Mounted {
            shell(&format!("umount -l {}", self.path().display()));
        }
    }
}

const DATABASE: crate::step::Database = crate::step::Database::X;

/// The content of a database that is whole.
fn judged(database: &Connection) -> Result<Vec<String>, String> {
    if let Some(why) = sql::damage(database) {
        return Err(why);
    }
    sql::dump(database)
}

/// A database without its journal mode, which the library's mark changes.
fn without_mode(dump: &[String]) -> Vec<String> {
    let lines = dump.iter().filter(|line| !line.starts_with("wal: "));
    lines.cloned().collect()
}
