//! Captures of running programs. Tests that attach probes are skipped, with a line that says so, where the kernel or the
//! rights refuse, and those of PostgreSQL where no server is installed.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::fs;
use std::io::Write;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Ebbpool, errors};

/// Held while a server of the installed programs is captured: the probes are in the file, and so in all servers that run it.
static PROBED: Mutex<()> = Mutex::new(());

/// The directory of the newest server's programs.
fn binaries() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let found = versions.map(|version| version.path().join("bin"));
    found.filter(|bin| bin.join("pgbench").exists()).max()
}

/// A PostgreSQL server with a database of pgbench, in a directory of its own.
struct Server {
    directory: TempDir,
    bin: PathBuf,
}

impl Server {
    /// `None` if no server can be started here.
    fn start() -> Option<Server> {
        Server::start_with(&[], binaries())
    }

    /// The same; `prefix` is a program with arguments that runs the server, whose programs are in `bin`.
    fn start_with(prefix: &[&str], bin: Option<PathBuf>) -> Option<Server> {
        let user = Command::new("id").arg("-u").output().ok()?;
        if String::from_utf8_lossy(&user.stdout).trim() != "0" {
            let _ = writeln!(std::io::stderr(), "skipped: captures need root");
            return None;
        }
        let Some(bin) = bin else {
            let _ = writeln!(std::io::stderr(), "skipped: PostgreSQL is not installed");
            return None;
        };
        let server =
            Server { directory: tempfile::Builder::new().prefix("ebbpool-pg").tempdir_in("/tmp").expect("a directory"), bin };
        let path = server.path().to_owned();
        assert!(Command::new("chown").arg("postgres").arg(&path).status().ok()?.success());
        let data = path.join("data");
        let (data, log) = (data.display().to_string(), path.join("log").display().to_string());
        server.as_owner("initdb", &["-D", &data, "--locale=C", "-A", "trust", "-N"]);
        let options = format!(
            "-c listen_addresses= -c unix_socket_directories={} -c shared_buffers=1000 -c fsync=off -c autovacuum=off -c bgwriter_lru_maxpages=0",
            path.display()
        );
        let start = ["-D", &data, "-l", &log, "-w", "-o", &options, "start"];
        server.run_as_owner(prefix, "pg_ctl", &start);
        server.client("createdb", &["bench"]);
        server.client("pgbench", &["-i", "-q", "-s", "2", "bench"]);
        Some(server)
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn as_owner(&self, program: &str, arguments: &[&str]) {
        self.run_as_owner(&[], program, arguments);
    }

    fn run_as_owner(&self, prefix: &[&str], program: &str, arguments: &[&str]) {
        let done = Command::new("runuser")
            .args(["-u", "postgres", "--"])
            .args(prefix)
            .arg(self.bin.join(program))
            .args(arguments)
            .current_dir("/")
            .stdout(Stdio::null())
            .status()
            .expect("runuser");
        assert!(done.success(), "{program} {arguments:?}");
    }

    fn client(&self, program: &str, arguments: &[&str]) -> String {
        let done = Command::new(self.bin.join(program))
            .args(["-U", "postgres", "-h"])
            .arg(self.path())
            .args(arguments)
            .output()
            .expect("a client");
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("UTF-8")
    }

    fn pid(&self) -> String {
        let file = fs::read_to_string(self.path().join("data/postmaster.pid")).expect("a file");
        file.lines().next().expect("a number").to_owned()
    }

    /// The position up to which the log is written, in bytes.
    fn log_bytes(&self) -> u64 {
        let query = "select pg_current_wal_lsn() - '0/0'::pg_lsn";
        let text = self.client("psql", &["-d", "postgres", "-Atc", query]);
        text.trim().parse().expect("a number")
    }

    /// Requests of pages that the server has counted, in all databases.
    fn requests(&self) -> u64 {
        // The server adds up what a session did some time after its end.
        std::thread::sleep(Duration::from_millis(1500));
        let query = "select sum(blks_hit + blks_read) from pg_stat_database";
        let text = self.client("psql", &["-d", "postgres", "-Atc", query]);
        text.trim().parse().expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.path().join("data").display().to_string();
        self.as_owner("pg_ctl", &["-D", &data, "-m", "immediate", "-w", "stop"]);
    }
}

/// The command as a capture that has attached its probes; `None` if it may not.
fn attached(ebbpool: &Ebbpool, arguments: &[&str]) -> Option<Child> {
    let mut child = ebbpool.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ebbpool starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let (mut line, mut all) = (String::new(), String::new());
    while stderr.read_line(&mut line).expect("a line") > 0 {
        all += &line;
        if line.starts_with("captures for") {
            child.stderr = Some(stderr.into_inner());
            // Attaching takes some tens of milliseconds.
            std::thread::sleep(Duration::from_millis(500));
            return Some(child);
        }
        line.clear();
    }
    let _ = child.wait();
    assert!(all.contains("needs root") || all.contains("this kernel cannot"), "{all}");
    let _ = writeln!(std::io::stderr(), "skipped: {all}");
    None
}

fn interrupt(child: Child) -> (String, String) {
    let done = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(done.expect("kill").success());
    let output = child.wait_with_output().expect("an output");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{stderr}");
    (stdout, stderr)
}

fn facts(ebbpool: &Ebbpool, name: &str) -> Value {
    serde_json::from_str(&ebbpool.text(name)).expect("JSON")
}

/// Bytes of a server's program that differ in its memory from its file: the kernel's breakpoints.
fn breakpoints(pid: &str) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("a file");
    let memory = fs::File::open(format!("/proc/{pid}/mem")).expect("memory");
    let program = fs::read(format!("/proc/{pid}/exe")).expect("a program");
    let mut different = 0;
    for line in maps.lines().filter(|line| line.ends_with("/postgres")) {
        let mapping = ebbpool_capture::mapping(line).expect("a mapping");
        if !mapping.executable {
            continue;
        }
        let mut bytes = vec![0; (mapping.end - mapping.start) as usize];
        memory.read_exact_at(&mut bytes, mapping.start).expect("memory");
        let file = &program[mapping.offset as usize..];
        different += bytes.iter().zip(file).filter(|(one, other)| one != other).count();
    }
    different
}

#[test]
fn a_running_postgresql_is_captured_exactly_and_left_as_it_was() {
    let _alone = PROBED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(server) = Server::start() else {
        return;
    };
    let ebbpool = Ebbpool::with_no_results();
    let pid = server.pid();
    let capture = ["capture", "postgres", "--pid", &pid, "-o", "own trace.parquet", "--at-most", "100%"];
    let advise = ["--advise", "--asymmetry", "8"];
    let Some(child) = attached(&ebbpool, &[&capture[..], &advise].concat()) else {
        return;
    };
    assert!(breakpoints(&pid) > 0);
    let log = server.log_bytes();
    let own = server.requests();
    let between = server.requests();
    server.client("pgbench", &["-n", "-c", "4", "-j", "2", "-t", "500", "bench"]);
    server.client("pgbench", &["-n", "-S", "-c", "4", "-j", "2", "-t", "1000", "bench"]);
    let counted = server.requests() - own;
    let (stdout, stderr) = interrupt(child);
    assert!(stderr.contains(" 0 lost"), "{stderr}");

    // The capture began before the first count and ended after the last, so that it has the requests of two more
    // sessions, each of which requests as many pages as that between the first two.
    let facts = facts(&ebbpool, "own trace.json");
    assert_eq!(facts["pace"].as_array().map(Vec::len), Some(3));
    let requests = facts["requests"].as_u64().expect("a number");
    let session = between - own;
    let expected = counted + session;
    assert!(requests.abs_diff(expected) <= 2 * session + 50, "captured {requests}, counted {counted}, a session's {session}");
    assert!(counted > 20_000);

    // Names come from the catalogues on disk, which a checkpoint may not have written yet.
    let objects = facts["objects"].as_array().expect("objects");
    let named = |name: &str| objects.iter().any(|object| object["name"] == name);
    assert!(named("pg_class"), "{objects:?}");
    assert_eq!(facts["settings"]["shared_buffers"], 1000);
    // What the server counts itself, to a page of the log and to what it did around the counted requests.
    let written = &facts["written"];
    let bytes = |field: &str| written[field].as_u64().expect("a number");
    assert!(written["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    let log = server.log_bytes() - log;
    assert!(bytes("log_bytes") > 0 && bytes("log_bytes") <= log + 8192, "{written} {log}");
    assert!(bytes("log_bytes") + 65536 >= log, "{written} {log}");
    assert!(bytes("page_bytes").is_multiple_of(8192));
    assert_eq!(facts["checkpoint_seconds"], 300);
    let command = stdout.lines().find(|line| line.starts_with("ebbpool advise"));
    let command = command.expect("a command");
    assert!(command.contains("checkpoint_timeout=300") && command.contains("--facts 'own trace.json'"), "{command}");
    assert!(stdout.contains("the bill"), "{stdout}");
    // A shell runs it as it stands there, though the path has a blank.
    let script = format!("ebbpool() {{ \"$0\" \"$@\"; }}; {command}");
    let again = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_ebbpool")])
        .env("EBBPOOL_CACHE", ebbpool.results())
        .current_dir(ebbpool.directory())
        .output()
        .expect("a shell");
    assert!(again.status.success(), "{}", errors(&again));
    let again = String::from_utf8_lossy(&again.stdout);
    assert!(stdout.ends_with(&*again), "{stdout}\n{again}");

    // The trace has times, classes and writes, and other commands read it.
    let info = ebbpool.command(&["trace", "info", "own trace.parquet"]).output().expect("info");
    let info = String::from_utf8(info.stdout).expect("UTF-8");
    assert!(info.contains("page size           8192"), "{info}");
    assert_eq!(breakpoints(&pid), 0);

    // The same after the capturing process was killed.
    if let Some(mut child) = attached(&ebbpool, &capture) {
        assert!(breakpoints(&pid) > 0);
        child.kill().expect("a kill");
        child.wait().expect("its end");
        let started = Instant::now();
        while breakpoints(&pid) > 0 {
            assert!(started.elapsed() < Duration::from_secs(10), "probes remain");
            std::thread::sleep(Duration::from_millis(20));
        }
        server.client("pgbench", &["-n", "-t", "10", "bench"]);
    }

    // Even a sample would cost more than this; what was captured until then is written.
    let cheap = ["capture", "postgres", "--pid", &pid, "-o", "cheap.parquet", "--at-most", "0.0001%"];
    if let Some(child) = attached(&ebbpool, &cheap) {
        server.client("pgbench", &["-n", "-S", "-c", "2", "-T", "6", "bench"]);
        let output = child.wait_with_output().expect("an output");
        let message = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("than --at-most allows"), "{message}");
        assert!(ebbpool.path("cheap.parquet").exists());
    }

    // Other users learn what is missing, if they may run the program at all.
    let output = Command::new("runuser")
        .args(["-u", "daemon", "--", env!("CARGO_BIN_EXE_ebbpool")])
        .args(["capture", "postgres", "--pid", &pid, "-o", "/dev/null"])
        .current_dir("/")
        .output()
        .expect("runuser");
    let message = errors(&output);
    assert!(message.contains("needs root") || message.starts_with("runuser:"), "{message}");

    // A second capture of the same server is refused while one runs.
    if let Some(child) = attached(&ebbpool, &capture) {
        let second = ebbpool.command(&capture).output().expect("an output");
        assert!(errors(&second).contains("is being captured"), "{second:?}");
        server.client("pgbench", &["-n", "-t", "10", "bench"]);
        interrupt(child);
    }
}

#[test]
fn wrong_targets_are_refused_with_a_remedy() {
    let ebbpool = Ebbpool::in_scratch();
    for (arguments, message) in [
        (vec!["postgres", "--pid", "2147483000"], "there is no process"),
        (vec!["postgres", "--pid", "1", "--seconds", "0"], "more than 0 seconds"),
        (vec!["postgres", "--references", "0"], "number of references"),
        (vec!["postgres", "--at-most", "much"], "not a share"),
        (vec!["postgres", "--device", "sd-a1"], "--advise"),
    ] {
        let output = ebbpool.command(&[&["capture"][..], &arguments].concat()).output().expect("an output");
        assert!(!output.status.success());
        let mut text = String::new();
        output.stderr.as_slice().read_to_string(&mut text).expect("UTF-8");
        assert!(text.contains(message), "{arguments:?}: {text}");
    }
    assert!(ebbpool.names().is_empty());
}

/// Captures an idle server while another one works, and returns the requests, or 0 if there was none.
fn requests_beside(idle: &Server, busy: &Server, ebbpool: &Ebbpool) -> Option<(u64, String)> {
    let pid = idle.pid();
    let words = ["capture", "postgres", "--pid", &pid, "-o", "idle.parquet", "--at-most", "1000%"];
    let child = attached(ebbpool, &words)?;
    busy.client("pgbench", &["-n", "-S", "-c", "2", "-t", "1000", "bench"]);
    let done = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(done.expect("kill").success());
    let output = child.wait_with_output().expect("an output");
    let message = errors(&output);
    match output.status.success() {
        true => Some((facts(ebbpool, "idle.json")["requests"].as_u64()?, message)),
        false => {
            assert!(message.contains("nothing was requested"), "{message}");
            Some((0, message))
        }
    }
}

#[test]
fn a_server_without_random_addresses_is_captured_apart_from_another_one() {
    let _alone = PROBED.lock().unwrap_or_else(PoisonError::into_inner);
    let prefix = ["setarch", "-R"];
    let (Some(one), Some(other)) = (Server::start_with(&prefix, binaries()), Server::start_with(&prefix, binaries())) else {
        return;
    };
    let ebbpool = Ebbpool::with_no_results();
    let Some((requests, message)) = requests_beside(&one, &other, &ebbpool) else {
        return;
    };
    assert!(requests < 500, "{requests} requests of an idle server: {message}");
    assert!(message.contains("of other processes that ran into its probes"), "{message}");
    // Its own are captured.
    let Some((requests, message)) = requests_beside(&one, &one, &ebbpool) else {
        return;
    };
    assert!(requests > 2 * 2000, "{requests}: {message}");
    // A backend is no server.
    let backend = fs::read_to_string(format!("/proc/{0}/task/{0}/children", one.pid()));
    let backend = backend.expect("children");
    let backend = backend.split(' ').next().expect("a child");
    let output = ebbpool.command(&["capture", "postgres", "--pid", backend]).output();
    let message = errors(&output.expect("an output"));
    let expected = format!("its server is --pid {}", one.pid());
    assert!(message.contains(&expected), "{message}");
}

/// A process in `folder` that looks like a server.
fn called_postgres(folder: &Path) -> Child {
    let program = folder.join("postgres");
    // By a program: a child that another test starts meanwhile would keep a file open for writing that this process copies.
    let copied = Command::new("cp").arg("/bin/sleep").arg(&program).status();
    assert!(copied.expect("cp").success());
    let child = Command::new(program).arg("60").current_dir(folder).spawn();
    let child = child.expect("a process");
    let started = Instant::now();
    let name = || fs::read_to_string(format!("/proc/{}/comm", child.id()));
    while name().is_ok_and(|name| name.trim() != "postgres") {
        assert!(started.elapsed() < Duration::from_secs(10));
    }
    child
}

#[test]
fn names_that_a_terminal_obeys_are_printed_harmless() {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path().join("data\u{1b}]0;title\u{7}");
    fs::create_dir(&folder).expect("a folder");
    let mut child = called_postgres(&folder);
    fs::write(folder.join("postmaster.pid"), format!("{}\n", child.id())).expect("written");
    let output = Ebbpool::in_scratch().command(&["capture", "list"]).output();
    let output = output.expect("an output");
    child.kill().expect("killed");
    child.wait().expect("its end");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains(r"data\u{1b}]0;title\u{7}"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn nothing_is_attached_after_the_command_was_interrupted() {
    let ebbpool = Ebbpool::in_scratch();
    let pipe = ebbpool.directory().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    let pid = std::process::id().to_string();
    // The command waits for the reader of its output, before it attaches anything.
    let mut child = ebbpool
        .command(&["capture", "process", "--pid", &pid, "-o", "pipe"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ebbpool starts");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut first = String::new();
    said.read_line(&mut first).expect("a line");
    if !first.starts_with("process ") {
        let _ = writeln!(std::io::stderr(), "skipped: {first}");
        let _ = child.wait();
        return;
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill").success());
    let read = fs::read(&pipe).expect("an end");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("texts");
    let status = child.wait().expect("an end");
    assert!(!status.success() && read.is_empty(), "{rest}");
    if !rest.contains("needs root") {
        assert!(rest.contains("no probe was attached"), "{rest}");
        assert!(!rest.contains("captured"), "{rest}");
    }
}

/// Numbers of rights that a process has (`CAP_…`), by its threads.
fn rights_of_threads(pid: u32) -> Vec<(String, u64)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let of = |path: std::path::PathBuf| {
        let status = fs::read_to_string(path.join("status")).expect("a status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.expect("a field").trim().to_owned()
        };
        let rights = u64::from_str_radix(&field("CapPrm:"), 16).expect("a number");
        assert_eq!(field("NoNewPrivs:"), "1");
        (field("Name:"), rights)
    };
    threads.map(|thread| of(thread.expect("a thread").path())).collect()
}

#[test]
fn no_thread_keeps_rights_that_reading_does_not_need() {
    /// CAP_SETUID, CAP_NET_ADMIN, CAP_SYS_MODULE, CAP_SYS_ADMIN and CAP_PERFMON.
    const HARMFUL: u64 = 1 << 7 | 1 << 12 | 1 << 16 | 1 << 21 | 1 << 38;
    let ebbpool = Ebbpool::in_scratch();
    let pid = std::process::id().to_string();
    let words = ["capture", "process", "--pid", &pid, "-o", "idle.parquet"];
    let Some(mut child) = attached(&ebbpool, &words) else {
        return;
    };
    let is_harmless = |threads: &[(String, u64)]| threads.iter().all(|(_, has)| has & HARMFUL == 0);
    let mut threads = rights_of_threads(child.id());
    // Attaching may take longer on a machine that is busy.
    for _ in 0..100 {
        if is_harmless(&threads) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        threads = rights_of_threads(child.id());
    }
    child.kill().expect("killed");
    child.wait().expect("its end");
    assert!(!threads.is_empty() && is_harmless(&threads), "{threads:x?}");
}

#[test]
fn a_capture_that_has_attached_its_probes_is_not_stopped() {
    let ebbpool = Ebbpool::in_scratch();
    let pid = std::process::id().to_string();
    let words = ["capture", "process", "--pid", &pid, "-o", "idle.parquet"];
    let Some(mut child) = attached(&ebbpool, &words) else {
        return;
    };
    let sent = Command::new("kill").args(["-TSTP", &child.id().to_string()]).status();
    std::thread::sleep(Duration::from_millis(300));
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("a state");
    child.kill().expect("killed");
    child.wait().expect("its end");
    assert!(sent.expect("kill").success() && !stat.contains(") T "), "{stat}");
}

#[test]
fn a_trace_with_the_name_of_its_facts_is_refused() {
    let ebbpool = Ebbpool::in_scratch();
    let pid = std::process::id().to_string();
    let words = ["capture", "process", "--pid", &pid, "-o", "x.json"];
    let output = ebbpool.command(&words).output().expect("an output");
    let text = errors(&output);
    assert!(!output.status.success());
    assert!(text.contains("x.json is the file of names and settings") || text.contains("needs root"), "{text}");
}

#[test]
fn a_trace_on_standard_output_is_followed_by_nothing() {
    let ebbpool = Ebbpool::in_scratch();
    // It reads itself by and by, as the test does.
    let reader = Command::new("sh").args(["-c", "while sleep 0.05; do cat /etc/passwd; done"]).stdout(Stdio::null()).spawn();
    let mut reader = reader.expect("a shell");
    let pid = reader.id().to_string();
    let words = ["process", "--pid", &pid, "--follow-children", "--seconds", "1"];
    let output = ebbpool
        .command(&[&["capture"][..], &words, &["-o", "-", "--at-most", "1000%", "--no-names"]].concat())
        .output()
        .expect("an output");
    reader.kill().expect("killed");
    reader.wait().expect("its end");
    let text = errors(&output);
    if !output.status.success() {
        assert!(text.contains("needs root") || text.contains("this kernel"), "{text}");
        return;
    }
    assert!(text.contains("references,"), "{text}");
    assert!(!text.contains("/bin/") && ebbpool.names().is_empty(), "{text}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(!printed.contains("references,"), "{printed}");
}

#[test]
fn a_file_without_an_end_does_not_hold_the_list_up() {
    let scratch = tempfile::tempdir().expect("a folder");
    let made = Command::new("mkfifo").arg(scratch.path().join("postmaster.pid")).status();
    assert!(made.expect("mkfifo").success());
    let mut child = called_postgres(scratch.path());
    let mut list = Ebbpool::in_scratch().command(&["capture", "list"]).stdout(Stdio::piped()).spawn().expect("ebbpool starts");
    let started = Instant::now();
    while list.try_wait().expect("a state").is_none() {
        if started.elapsed() > Duration::from_secs(20) {
            list.kill().expect("killed");
            panic!("the list waits for a process of another user");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("killed");
    child.wait().expect("its end");
}

/// The programs of PostgreSQL without USDT probes, in a folder of their own; `None`, with a line that says so, where they cannot
/// be made.
fn without_probes() -> Option<(TempDir, PathBuf)> {
    let bin = binaries()?;
    let folder = tempfile::Builder::new().prefix("ebbpool-pg-plain").tempdir_in("/tmp").expect("a folder");
    let usr = folder.path().join("usr");
    let own = usr.join(bin.strip_prefix("/usr").expect("a path"));
    fs::create_dir_all(&own).expect("a folder");
    let link = |to: PathBuf, at: PathBuf| std::os::unix::fs::symlink(to, at).expect("a link");
    link("/usr/share".into(), usr.join("share"));
    link(bin.join("../lib"), own.join("../lib"));
    for program in fs::read_dir(&bin).expect("a folder") {
        let program = program.expect("a program");
        fs::copy(program.path(), own.join(program.file_name())).expect("copied");
    }
    let done = Command::new("objcopy").args(["--remove-section", ".note.stapsdt"]).arg(own.join("postgres")).status();
    let open = Command::new("chmod").arg("-R").arg("a+rX").arg(folder.path()).status();
    assert!(open.expect("chmod").success());
    if !done.is_ok_and(|done| done.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: objcopy is not installed");
        return None;
    }
    Some((folder, own))
}

#[test]
fn a_build_without_probes_shows_no_hits_and_no_temporary_tables() {
    let Some((_folder, bin)) = without_probes() else {
        return;
    };
    let Some(server) = Server::start_with(&[], Some(bin)) else {
        return;
    };
    // So that the catalogues on disk have the names.
    server.client("psql", &["-q", "-d", "bench", "-c", "checkpoint"]);
    let ebbpool = Ebbpool::with_no_results();
    let pid = server.pid();
    let words = ["capture", "postgres", "--pid", &pid, "-o", "plain.parquet", "--at-most", "1000%"];
    let Some(child) = attached(&ebbpool, &words) else {
        return;
    };
    let scan = "create temp table own as select * from pgbench_accounts; select count(*) from own; select count(*) from pgbench_branches";
    server.client("psql", &["-q", "-d", "bench", "-c", scan]);
    std::thread::sleep(Duration::from_millis(1500));
    let (_, stderr) = interrupt(child);
    assert!(!stderr.contains("% hits"), "{stderr}");
    let facts = facts(&ebbpool, "plain.json");
    let objects = facts["objects"].as_array().expect("objects");
    let requests = |name: &str| {
        let found = objects.iter().find(|object| object["name"] == name);
        found.map_or(0, |object| object["references"].as_u64().expect("a number"))
    };
    // Two scales of pgbench are 3,280 pages, which are read once, and not twice from the temporary copy.
    assert!(requests("pgbench_accounts") >= 3000, "{objects:?}");
    let all: u64 = objects.iter().filter_map(|object| object["references"].as_u64()).sum();
    assert!(all < 5000, "{all}: {objects:?}");
}
