//! The harness of the command's tests: it runs the command in a directory and checks how it ended.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The root of the repository.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The directory of the recorded traces in the repository.
pub const SAMPLES: &str = "lab/ebbpool-trace/traces";

/// The references of FD-Buffer's table 2, after two references as warm-up.
pub const TABLE_2: &str = "# FD-Buffer, table 2\nR 25\nR 24\nW 1\nW 2\nR 3\nR 4\nR 3\nR 4\nR 3\nW 2\nR 1\n";

/// A device that even a short trace wears out in part.
pub const SMALL_FLASH: &str = "flash:slc-mt29f4g08aaa,blocks=64,page_size=2048,precondition=steady";

/// The command, with the directory in which it runs and the directory of its stored results.
pub struct Ebbpool {
    directory: PathBuf,
    results: PathBuf,
    /// The temporary directories, removed when the test ends.
    _own: Vec<TempDir>,
}

impl Ebbpool {
    /// Runs in the repository, for tests without files. These tests share their stored results.
    pub fn in_repository() -> Self {
        Ebbpool {
            directory: ROOT.into(),
            // tests/mutants/run names another one for each mutant, since all have the same build.
            results: std::env::var_os("EBBPOOL_TEST_RESULTS")
                .unwrap_or_else(|| concat!(env!("CARGO_TARGET_TMPDIR"), "/cache").into())
                .into(),
            _own: Vec::new(),
        }
    }

    /// Runs in a temporary directory.
    pub fn in_scratch() -> Self {
        let own = scratch();
        Ebbpool { directory: own.path().into(), _own: vec![own], ..Ebbpool::in_repository() }
    }

    /// Runs in a temporary directory, without stored results.
    pub fn with_no_results() -> Self {
        let mut ebbpool = Ebbpool::in_scratch();
        let own = scratch();
        ebbpool.results = own.path().join("cache");
        ebbpool._own.push(own);
        ebbpool
    }

    /// Runs in the same directory, with another directory for stored results.
    pub fn storing_in(&self, results: PathBuf) -> Self {
        Ebbpool { directory: self.directory.clone(), results, _own: Vec::new() }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory of stored results.
    pub fn results(&self) -> &Path {
        &self.results
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The path as a text, for an argument.
    pub fn named(&self, name: &str) -> String {
        let path = self.path(name);
        path.to_str().expect("a path in UTF-8").into()
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), content).expect("a file is written");
        self.named(name)
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The names of all files in the directory.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).expect("a directory");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            let name = entry.expect("an entry").file_name();
            name.into_string().expect("a name in UTF-8")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// The command with its output in pipes, before its start.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebbpool"));
        command
            .args(args)
            .env("EBBPOOL_CACHE", &self.results)
            // For the libraries that the command carries.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts the command with its standard input also in a pipe.
    pub fn started(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).spawn().expect("ebbpool starts")
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("ebbpool starts")
    }

    /// Runs the command with this standard input.
    pub fn fed(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = self.started(args);
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.to_vec();
        // A command that rejects its input may end before it has read everything.
        let feeder = thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("an end");
        feeder.join().expect("no panic");
        output
    }

    pub fn stdout(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", errors(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    /// The output of the command with `--format json`.
    pub fn json(&self, args: &[&str]) -> Value {
        let text = self.stdout(&[args, &["--format", "json"]].concat());
        serde_json::from_str(&text).expect("JSON")
    }

    /// The output of the command with `--format json` as an array.
    pub fn rows(&self, args: &[&str]) -> Vec<Value> {
        match self.json(args) {
            Value::Array(rows) => rows,
            other => panic!("{args:?}: not an array: {other}"),
        }
    }

    /// Asserts that the command fails with this exit code and one error that contains all words.
    pub fn refused(&self, args: &[&str], code: i32, words: &[&str]) {
        failed(&self.run(args), code, words);
    }
}

/// A directory outside memory file systems, which have no direct I/O.
fn scratch() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// A database of SQLite's with an empty schema: a header and a leaf without cells.
pub fn empty_sqlite_database() -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut page = vec![0; PAGE];
    page[..16].copy_from_slice(b"SQLite format 3\0");
    page[16..18].copy_from_slice(&(PAGE as u16).to_be_bytes());
    // Rollback journal; the payload fractions that SQLite requires.
    page[18..24].copy_from_slice(&[1, 1, 0, 64, 32, 32]);
    // Change counter, pages, schema format, UTF-8, and the counter for which the pages are valid.
    for (at, value) in [(24, 1u32), (28, 1), (44, 4), (56, 1), (92, 1), (96, 3_040_000)] {
        page[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
    page[100] = 0x0d;
    page[105..107].copy_from_slice(&(PAGE as u16).to_be_bytes());
    page
}

/// The results in a report.
pub fn data_of(report: &str) -> Value {
    let data = report.split("<script type=\"application/json\" id=\"data\">");
    let (data, _) = data.last().and_then(|it| it.split_once("</script>")).expect("the results");
    serde_json::from_str(data).expect("JSON")
}

/// The path of a recorded trace.
pub fn sample(name: &str) -> String {
    format!("{ROOT}/{SAMPLES}/{name}.parquet")
}

/// The text on standard error.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard output of a command that succeeded.
pub fn succeeded(output: Output) -> Vec<u8> {
    assert!(output.status.success(), "{}", errors(&output));
    output.stdout
}

/// Asserts that the command failed with this exit code and one error that contains all words.
pub fn failed(output: &Output, code: i32, words: &[&str]) {
    let message = errors(output);
    // As shells count the end by a signal.
    let ended = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
    assert_eq!(ended, Some(code), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    let errors = message.lines().filter(|line| line.contains("error"));
    assert_eq!(errors.count(), 1, "{message}");
    for word in words {
        assert!(message.contains(word), "no {word}: {message}");
    }
}

/// The whole number of a JSON value.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a whole number"))
}

/// Waits for a condition that another process brings about; fails after a time that is enough on any machine.
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < end, "{what}: not within two minutes");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits some seconds for the end of a command that prints little; one that hangs is killed.
pub fn ends_within(mut child: Child, seconds: u64) -> Output {
    let end = Instant::now() + Duration::from_secs(seconds);
    while child.try_wait().expect("a process").is_none() {
        if Instant::now() > end {
            child.kill().expect("a kill");
            let output = child.wait_with_output().expect("an end");
            panic!("it hangs: {}", errors(&output));
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("an end")
}

/// Interrupts a command as Ctrl-C does, and waits for its end.
#[cfg(unix)]
pub fn interrupted(child: Child) -> Output {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(killed.success());
    child.wait_with_output().expect("an end")
}
