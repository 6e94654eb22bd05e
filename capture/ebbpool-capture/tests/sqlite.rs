//! Debian's SQLite shell, captured: requests and writes are those that it counts itself.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ebbpool_capture::sources::sqlite::SqliteSource;
use ebbpool_capture::{CaptureError, ElfProgram, EventCost, Limits, Process, capture};

use common::{FOLDER, OwnedChild, TestRandom, capture_rounds, capture_work, cost, is_installed, written};

const ROWS: u64 = 20_000;
const STATEMENTS: usize = 2000;

/// A shell with a database of [`ROWS`] rows.
struct Shell {
    child: OwnedChild,
    output: PathBuf,
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited for a minute");
        thread::sleep(Duration::from_millis(5));
    }
}

impl Shell {
    fn new(folder: &Path) -> Shell {
        let mut shell = Command::new("sqlite3");
        shell.arg(folder.join("shop.db"));
        Shell::of(shell, folder)
    }

    /// The same whose root directory is the folder; `None` if this user may not change it.
    fn in_root(folder: &Path) -> Option<Shell> {
        if !rustix::process::geteuid().is_root() {
            let _ = writeln!(std::io::stderr(), "skipped: chroot needs root");
            return None;
        }
        let found = |program: &str, word: &str| {
            let output = Command::new(program).arg(word).output().expect("a program");
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        let program = found("which", "sqlite3").trim().to_owned();
        let libraries = found("ldd", &program);
        let libraries = libraries.split_whitespace().filter(|it| it.starts_with('/'));
        for path in libraries.chain([program.as_str()]) {
            let copy = folder.join(path.trim_start_matches('/'));
            fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
            fs::copy(path, copy).expect("copied");
        }
        let mut shell = Command::new("chroot");
        shell.arg(folder).args([&program, "/shop.db"]);
        Some(Shell::of(shell, folder))
    }

    fn of(mut shell: Command, folder: &Path) -> Shell {
        let database = folder.join("shop.db");
        let made = Command::new("sqlite3")
            .arg(&database)
            .arg(format!(
                "pragma page_size=2048; pragma journal_mode=wal; pragma synchronous=off;
                create table t(id integer primary key, k int, v text);
                with recursive c(i) as (select 1 union all select i+1 from c where i<{ROWS})
                insert into t select i, (i*7919)%{ROWS}, hex(randomblob(60)) from c;
                create index tk on t(k); pragma wal_checkpoint(truncate);"
            ))
            .stdout(Stdio::null())
            .status();
        assert!(made.expect("sqlite3").success());
        let output = folder.join("output");
        let child = shell.stdin(Stdio::piped()).stdout(File::create(&output).expect("a file")).spawn();
        Shell { child: OwnedChild(child.expect("sqlite3")), output }
    }

    fn send(&mut self, text: &str) {
        let input = self.child.0.stdin.as_mut().expect("its input");
        writeln!(input, "{text}").expect("sent");
        input.flush().expect("sent");
    }

    fn printed(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// Resets the counters; the database is open afterwards.
    fn begin(&mut self) {
        self.send(".stats on\npragma cache_size=100;\nselect 'begin', count(*) from sqlite_schema;");
        let printed = || self.printed();
        wait_until(|| printed().contains("begin|2") && printed().matches("Page cache writes").count() >= 2);
    }
}

/// A counter as the shell printed it last.
fn counter(text: &str, name: &str) -> u64 {
    let name = format!("Page cache {name}:");
    let line = text.lines().rev().find(|line| line.starts_with(&name));
    let number = line.and_then(|line| line.rsplit(' ').next());
    number.expect("a counter").parse().expect("a number")
}

fn statements() -> String {
    let mut random = TestRandom(3);
    let statements = (0..STATEMENTS).map(|_| {
        let id = random.below(ROWS).min(random.below(ROWS));
        match random.below(10) {
            0..3 => format!("update t set v=hex(randomblob(60)) where id={id};\n"),
            3..7 => format!("select count(v) from t where id={id};\n"),
            _ => format!("select count(v) from t where k={id};\n"),
        }
    });
    statements.collect()
}

/// The source; `None`, with a line that says why, where the shell's SQLite hides its functions.
fn source(shell: &Shell) -> Option<SqliteSource> {
    match SqliteSource::open(shell.child.pid()) {
        Ok(source) => Some(source),
        Err(error @ CaptureError::Build { .. }) => {
            let _ = writeln!(std::io::stderr(), "skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn capture_statements(cost: EventCost, shell: &mut Shell) -> Option<()> {
    let mut source = source(shell)?;
    let text = format!(".stats off\n{}.stats on\nselect 'end';", statements());
    let mut text = Some(text);
    let output = shell.output.clone();
    let done = || {
        let printed = fs::read_to_string(&output).unwrap_or_default();
        let end = printed.find("\nend\n");
        end.is_some_and(|end| printed[end..].contains("Page cache writes"))
    };
    let mut start = || shell.send(&text.take().unwrap_or_default());
    let (recorder, report) = capture_work(&mut source, cost, 16 << 20, &mut start, &done);
    assert_eq!(report.lost, 0);
    let printed = shell.printed();
    let requests = counter(&printed, "hits") + counter(&printed, "misses");
    let counts = source.counts();
    println!("{counts:?}; the shell: {requests} requests, {} writes", counter(&printed, "writes"));
    assert_eq!(counts.requests, requests);
    assert_eq!(counts.writes, counter(&printed, "writes"));
    assert_eq!(counts.unrequested, 0);
    let updates = statements().matches("update").count() as u64;
    assert_eq!(counts.commits, updates);
    // SQLite counts a write for each page of a log, of 2,048 bytes and a head of 24, and a log that begins anew has a head of 32.
    let pages = counter(&printed, "writes");
    let written_bytes = report.written;
    assert_eq!(written_bytes.page_bytes, Some(counts.database_bytes));
    let log = written_bytes.log_bytes.expect("a log");
    assert!(log >= pages * (2048 + 24), "{log} {pages}");
    assert!(log <= pages * (2048 + 24) + 1000 * 32, "{log} {pages}");
    let (found, facts) = written(&source.trace(recorder, true), "/shop.db");
    assert_eq!(found.len() as u64, requests);
    assert_eq!(facts["page_size"], 2048);
    Some(())
}

#[test]
fn requests_and_writes_are_those_that_sqlite_counts() {
    let Some(cost) = cost() else { return };
    if !is_installed("sqlite3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut shell = Shell::new(folder.path());
    shell.begin();
    let _ = capture_statements(cost, &mut shell);
}

/// The first look at the names of databases comes before their first request, and the next one a second later.
#[test]
fn a_short_capture_knows_each_database() {
    let Some(cost) = cost() else { return };
    if !is_installed("sqlite3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let time = Duration::from_millis(300);
    let names = names_of_two(Shell::new(folder.path()), folder.path(), cost, time);
    assert!(names.is_none_or(|names| names == ["other.db", "shop.db"]));
}

#[test]
fn databases_below_a_root_directory_of_the_process_have_names() {
    let Some(cost) = cost() else { return };
    if !is_installed("sqlite3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(shell) = Shell::in_root(folder.path()) else {
        return;
    };
    let names = names_of_two(shell, Path::new("/"), cost, Duration::from_millis(2500));
    assert!(names.is_none_or(|names| names == ["other.db", "shop.db"]));
}

/// The names in a capture of that time of a shell with two databases in that folder.
fn names_of_two(mut shell: Shell, folder: &Path, cost: EventCost, time: Duration) -> Option<Vec<String>> {
    shell.begin();
    let other = folder.join("other.db");
    shell.send(&format!(
        "attach '{}' as other; create table other.o(n); insert into o values (1);
        select 'attached', count(*) from o;",
        other.display()
    ));
    wait_until(|| shell.printed().contains("attached|1"));
    let mut source = source(&shell)?;
    let limits = Limits { time, overhead: f64::INFINITY, ..Limits::default() };
    let (recorder, _) = capture_rounds(&mut source, limits, cost, usize::MAX, || {
        shell.send("select count(*) from t; select count(*) from o;\n");
    });
    let objects = source.trace(recorder, true).objects;
    let mut names: Vec<String> =
        objects.iter().filter_map(|object| object.name.rsplit('/').next().map(str::to_owned)).collect();
    names.sort_unstable();
    Some(names)
}

/// Captures the process whose number is in the folder, until it is killed.
#[test]
fn child_that_captures() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let pid = fs::read_to_string(folder.join("pid")).expect("a number");
    let mut source = SqliteSource::open(pid.parse().expect("a number")).expect("a source");
    let cost = cost().expect("rights");
    let mut announced = false;
    let limits = Limits::default();
    let captured = capture(&mut source, limits, cost, |_| {
        if !announced {
            println!("attached");
            announced = true;
        }
        true
    });
    captured.expect("a capture");
}

/// The byte in a process's memory at which the capture's probe of `sqlite3PagerGet` is.
fn probed_byte(process: Process) -> u8 {
    let mappings = process.mappings();
    let library = mappings.iter().find(|it| it.executable && it.path.contains("libsqlite3.so"));
    let library = library.expect("a library");
    let program = ElfProgram::read(&library.path).expect("a library");
    let displacement = process.displacement(&program, &library.path).expect("a mapping");
    let address = program.entry(program.symbol("sqlite3PagerGet").expect("a function"));
    let mut byte = [0];
    assert!(process.read_memory(address.wrapping_add(displacement), &mut byte));
    byte[0]
}

#[test]
fn nothing_remains_of_a_capture_that_is_killed() {
    if cost().is_none() || !is_installed("sqlite3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut shell = Shell::new(folder.path());
    shell.begin();
    if source(&shell).is_none() {
        return;
    }
    let process = Process(shell.child.pid());
    let original = probed_byte(process);
    fs::write(folder.path().join("pid"), process.0.to_string()).expect("written");
    let mut capturer = OwnedChild::of_test("child_that_captures", folder.path());
    capturer.wait_for("attached");
    assert_ne!(probed_byte(process), original, "no probe is there");
    assert!(matches!(SqliteSource::open(process.0), Err(CaptureError::Busy(_))));
    // SIGKILL.
    capturer.0.kill().expect("killed");
    capturer.0.wait().expect("its end");
    wait_until(|| probed_byte(process) == original);
    wait_until(|| SqliteSource::open(process.0).is_ok());
    shell.send("select 'alive', count(*) from t;");
    wait_until(|| shell.printed().contains(&format!("alive|{ROWS}")));
}
