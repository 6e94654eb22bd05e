//! Tests that `./test` says of programs of tests what has become of them, in a workspace of one crate.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::ROOT;

const TESTS: &str = "quick_tests_of_rust";
/// After all tests have passed, leaves a line without an end.
const UNFINISHED: &str = r#"
unsafe extern "C" { fn atexit(at_exit: extern "C" fn()) -> i32; }
extern "C" fn leave_a_line() { eprint!("a line without an end"); }
#[test] fn passes() { unsafe { atexit(leave_a_line) }; }
"#;
/// Prints what is no text.
const BYTES: &str = r#"
use std::io::Write;
#[test] fn passes() { std::io::stderr().write_all(b"\0\xff skipped: needs root \xff\n").unwrap(); }
"#;
const PASSES: &str = "#[test] fn passes() {}";
const FAILS: &str = "#[test] fn fails() { panic!() }";
const ABORTS: &str = "#[test] fn aborts() { std::process::abort() }";
/// Cargo alone takes that for success.
const ENDS: &str = "#[test] fn ends() { std::process::exit(0) } #[test] fn is_not_run() { panic!() }";
const WAITS: &str = r#"
#[test] fn waits() { std::fs::write("../../waits", "").unwrap(); std::thread::sleep(std::time::Duration::from_secs(600)); }
"#;

/// A workspace of one crate with these files of tests, and ./test.
struct Workspace {
    _directory: TempDir,
    root: PathBuf,
}

impl Workspace {
    fn new(tests: &[(&str, &str)]) -> Self {
        let directory = TempDir::new().expect("a directory");
        let root = directory.path().join("a path with blanks");
        for directory in ["tests", "wing/crate/src", "wing/crate/tests"] {
            fs::create_dir_all(root.join(directory)).expect("a directory");
        }
        for name in ["test", "tests/beside", "tests/wings", "tests/words", "tests/budget", "tests/commits"] {
            fs::copy(Path::new(ROOT).join(name), root.join(name)).expect("a copy");
        }
        let workspace = Workspace { _directory: directory, root };
        workspace.file(
            "Cargo.toml",
            "workspace = { members = ['wing/crate'], resolver = '3' }\nprofile.short = { inherits = 'dev' }",
        );
        let package = "package = { name = 'tried', version = '0.1.0', edition = '2024' }";
        workspace.file("wing/README.md", "- **Imports**: nothing\n");
        workspace.file("wing/crate/Cargo.toml", package);
        let lock = "version = 4\n[[package]]\nname = 'tried'\nversion = '0.1.0'\n";
        workspace.file("Cargo.lock", &lock.replace('\'', "\""));
        let example = "/// ```\n/// tried::example();\n/// ```\npub fn example() {}\n";
        workspace.file("wing/crate/src/lib.rs", example);
        for (name, text) in tests {
            workspace.file(&format!("wing/crate/tests/{name}.rs"), text);
        }
        workspace
    }

    /// Without tests and Markdown.
    fn without_a_page() -> Self {
        let workspace = Workspace::new(&[]);
        fs::remove_file(workspace.root.join("wing/README.md")).expect("a page is removed");
        workspace
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.root.join(name), text).expect("a file is written");
    }

    fn start(&self, steps: &[&str]) -> Child {
        let mut command = Command::new("./test");
        command.args(steps).current_dir(&self.root);
        for name in ["CI", "CARGO_TARGET_DIR", "EBBPOOL_BESIDE"] {
            command.env_remove(name);
        }
        let command = command.process_group(0).stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("./test starts")
    }

    fn run(&self, step: &str) -> Output {
        self.run_steps(&[step])
    }

    fn run_steps(&self, steps: &[&str]) -> Output {
        self.start(steps).wait_with_output().expect("./test ends")
    }
}

fn has_python() -> bool {
    let python = Command::new("python3").arg("--version").output();
    let has = python.is_ok_and(|output| output.status.success());
    if !has {
        let _ = writeln!(std::io::stderr(), "skipped: python3 is not installed");
    }
    has
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn each_program_that_fails_is_named() {
    if !has_python() {
        return;
    }
    // More that leave a line than run at a time, so that cargo's next lines come after theirs.
    let names: Vec<String> = (0..32).map(|at| format!("a{at}")).collect();
    let mut tests: Vec<(&str, &str)> = names.iter().map(|name| (&**name, UNFINISHED)).collect();
    tests.truncate(2 * thread::available_parallelism().map_or(1, |number| number.get().min(8)));
    tests.extend([("b_fails", FAILS), ("c_aborts", ABORTS), ("d_ends", ENDS), ("e_passes", PASSES)]);
    let output = Workspace::new(&tests).run(TESTS);
    let messages = messages(&output);
    let failed = messages.lines().filter_map(|line| line.strip_prefix("./test: failed: "));
    let mut failed: Vec<&str> = failed.filter_map(|line| line.split_once(' ')).map(|(path, _)| path).collect();
    failed.sort_unstable();
    let expected = ["b_fails", "c_aborts", "d_ends"].map(|name| format!("wing/crate/tests/{name}.rs"));
    assert_eq!(failed, expected, "{messages}");
    assert!(messages.contains("./test: test fails ... FAILED"), "{messages}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn what_is_no_text_hides_nothing() {
    if !has_python() {
        return;
    }
    let output = Workspace::new(&[("bytes", BYTES), ("passes", PASSES)]).run(TESTS);
    let printed = String::from_utf8_lossy(&output.stdout);
    let messages = messages(&output);
    assert!(messages.contains("\n  a test: needs root"), "{messages}");
    assert!(printed.ends_with("./test: all passed that was checked\n"), "{printed}");
    // Without the example in a document.
    assert!(printed.contains("./test: 2 have run of: tests of Rust"), "{printed}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn steps_are_named_by_an_argument_each_and_may_be_named_twice() {
    if !has_python() {
        return;
    }
    let workspace = Workspace::new(&[("passes", PASSES)]);
    let output = workspace.run("plain_words formatting");
    let refused = "./test: there is no wing or step plain_words formatting;";
    assert!(messages(&output).starts_with(refused), "{output:?}");
    assert_eq!(output.status.code(), Some(2));
    let output = workspace.run_steps(&[TESTS, TESTS]);
    let printed = String::from_utf8_lossy(&output.stdout);
    let counted = printed.matches("./test: 1 have run of: tests of Rust");
    assert_eq!(counted.count(), 2, "{printed}{}", messages(&output));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_run_that_is_interrupted_has_not_passed() {
    if !has_python() {
        return;
    }
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let workspace = Workspace::new(&[("waits", WAITS)]);
        let child = workspace.start(&[TESTS]);
        let begin = Instant::now();
        while !workspace.root.join("waits").exists() {
            assert!(begin.elapsed() < Duration::from_secs(300), "the test begins");
            thread::sleep(Duration::from_millis(20));
        }
        let group = format!("-{}", child.id());
        let kill = Command::new("kill").args([signal, "--", &group]).status();
        assert!(kill.expect("kill starts").success());
        let output = child.wait_with_output().expect("./test ends");
        let printed = [&output.stdout[..], &output.stderr[..]].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert!(!printed.contains("all passed"), "{signal}: {printed}");
        assert_eq!(output.status.code(), Some(code), "{signal}: {printed}");
    }
}

#[test]
fn words_by_hand_have_a_bar() {
    if !has_python() {
        return;
    }
    let workspace = Workspace::without_a_page();
    fs::create_dir_all(workspace.root.join("docs/generated")).expect("a directory");
    let words = |number: usize| "word ".repeat(number);
    workspace.file("docs/generated/long.md", &words(50_000));
    let block = format!("\n<!-- output of: ebbpool schema -->\n{}\n<!-- end -->\n", words(50_000));
    for (number, code, says) in
        [(39_000, 0, "./test: 40,000 words of Markdown by hand"), (39_001, 1, "./test: that is 1 too many")]
    {
        workspace.file("README.md", &(words(number) + &block));
        workspace.file("docs/page.md", &words(1000));
        let output = workspace.run("words_by_hand");
        let printed = [&output.stdout[..], &output.stderr[..]].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert!(printed.contains(says), "{printed}");
        assert_eq!(output.status.code(), Some(code), "{printed}");
    }
    for (link, says) in [("gone.md", "leads to no file"), ("page.md#none", "has no heading"), ("page.md#a-title", "words")] {
        workspace.file("docs/page.md", &format!("# A title\n[it]({link})"));
        let output = workspace.run("words_by_hand");
        let printed = [&output.stdout[..], &output.stderr[..]].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert!(printed.contains(says), "{printed}");
    }
    for page in ["README.md", "docs/page.md"] {
        fs::remove_file(workspace.root.join(page)).expect("a page is removed");
    }
    let output = workspace.run("words_by_hand");
    let messages = messages(&output);
    assert!(messages.contains("there is no page"), "{messages}");
    assert_eq!(output.status.code(), Some(1));
}

/// A second wing, in a repository whose branch main has one commit.
fn two_wings() -> Workspace {
    let workspace = Workspace::new(&[]);
    for directory in ["above/crate/src", "above/crate/tests"] {
        fs::create_dir_all(workspace.root.join(directory)).expect("a directory");
    }
    workspace.file("above/README.md", "- **Imports**: nothing; its tests also wing\n");
    workspace.file("above/crate/Cargo.toml", "package = { name = 'upper', version = '0.1.0' }");
    workspace.file("above/crate/src/lib.rs", "//! Nothing.\n#[cfg(test)]\nmod tests {\n    fn none() {}\n}\n");
    workspace.file("tests/budget.txt", "# lines\nabove 1 4\nwing 4 0\ntests 0 1000\n");
    workspace.file(".gitignore", "target/\n");
    git(&workspace, "init -q -b main");
    commit(&workspace, "Begin\n\nA proof.");
    git(&workspace, "switch -qc change");
    workspace
}

fn git(workspace: &Workspace, arguments: &str) {
    let output = Command::new("git").args(arguments.split(' ')).current_dir(&workspace.root).output().expect("git");
    assert!(output.status.success(), "{arguments}: {output:?}");
}

fn commit(workspace: &Workspace, message: &str) {
    fs::write(workspace.root.join(".git/message"), message).expect("a message");
    git(workspace, "add .");
    git(workspace, "-c user.name=A -c user.email=a@b commit -q --allow-empty -F .git/message");
}

/// Runs a script of the house; its exit code and what it printed.
fn script(workspace: &Workspace, name: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new("python3").arg(name).args(arguments).current_dir(&workspace.root).output().expect("a script");
    let printed = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8_lossy(&printed).into_owned())
}

#[test]
fn a_wing_imports_what_its_readme_names() {
    if !has_python() {
        return;
    }
    let workspace = two_wings();
    let check = || script(&workspace, "tests/wings", &["--check"]);
    assert_eq!(check().0, Some(0), "{}", check().1);
    let manifest = "package = { name = 'upper', version = '0.1.0' }\n";
    workspace.file("above/crate/Cargo.toml", &format!("{manifest}dev-dependencies.tried.path = '../../wing/crate'"));
    assert_eq!(check().0, Some(0), "{}", check().1);
    for (file, text, says) in [
        ("above/crate/Cargo.toml", format!("{manifest}dependencies.tried.path = '../../wing/crate'"), "it does not import"),
        ("above/crate/src/lib.rs", "#[path = \"../../../wing/crate/src/lib.rs\"]\nmod it;\n".into(), "it does not import"),
        ("above/README.md", "- **Imports**: cellar\n".into(), "which is no other wing"),
        ("above/README.md", "- **Imports**: nothing; its tests also wing\n".repeat(2), "must have one line"),
        ("above/README.md", "- **Imports**: nothing; its tests also wing\n".to_owned() + &"\n".repeat(25), "26 lines"),
        ("wing/README.md", "- **Imports**: above\n".into(), ""),
    ] {
        let before = fs::read_to_string(workspace.root.join(file)).expect("a file");
        workspace.file(file, &text);
        let (code, printed) = check();
        assert_eq!(code, Some(i32::from(!says.is_empty())), "{file}: {printed}");
        assert!(printed.contains(says), "{file}: {printed}");
        workspace.file(file, &before);
    }
    workspace.file("above/README.md", "- **Imports**: wing\n");
    workspace.file("wing/README.md", "- **Imports**: above\n");
    assert!(check().1.contains("imports go round"), "{}", check().1);
}

#[test]
fn what_a_change_touches_are_its_wing_and_those_above() {
    if !has_python() {
        return;
    }
    let workspace = two_wings();
    let changed = || script(&workspace, "tests/wings", &["--changed"]).1;
    assert_eq!(changed(), "above\nwing\n", "a clean tree: all");
    workspace.file("above/crate/src/lib.rs", "");
    assert_eq!(changed(), "above\n");
    commit(&workspace, "Empty a library\n\nA proof.");
    assert_eq!(changed(), "above\n", "a commit that is not on main");
    workspace.file("wing/crate/tests/new.rs", "");
    assert_eq!(changed(), "above\nwing\n", "a new file of a wing that tests of the other import");
    git(&workspace, "clean -qfd");
    git(&workspace, "mv wing/crate/src/lib.rs above/moved.rs");
    assert_eq!(changed(), "above\nwing\n", "the wing that a file has left");
    git(&workspace, "reset -q --hard");
    workspace.file("Cargo.lock", "");
    assert_eq!(changed(), "above\nwing\n", "a file of no wing");
    let (code, printed) = script(&workspace, "tests/wings", &["--packages", "cellar"]);
    assert_eq!(code, Some(1));
    assert!(printed.contains("there is no wing cellar"), "{printed}");
}

#[test]
fn a_wing_has_no_more_lines_than_its_budget() {
    if !has_python() {
        return;
    }
    let workspace = two_wings();
    let budget = || script(&workspace, "tests/budget", &[]);
    assert_eq!(budget().0, Some(0), "{}", budget().1);
    let library = fs::read_to_string(workspace.root.join("above/crate/src/lib.rs")).expect("a library");
    for (file, text, says) in [
        ("src/lib.rs", library.clone() + "//\n", "above has 2 lines of production; its budget is 1"),
        ("src/lib.rs", library.replace("fn none", "\n    fn none"), "above has 5 lines of tests; its budget is 4"),
        ("tests/more.rs", "//\n".into(), "above has 5 lines of tests; its budget is 4"),
    ] {
        let path = format!("above/crate/{file}");
        workspace.file(&path, &text);
        let (code, printed) = budget();
        assert_eq!(code, Some(1), "{file}: {printed}");
        assert!(printed.contains(says), "{file}: {printed}");
        workspace.file("above/crate/src/lib.rs", &library);
    }
    assert_eq!(script(&workspace, "tests/budget", &["--write"]).0, Some(0));
    assert_eq!(budget().0, Some(0), "{}", budget().1);
    workspace.file("tests/budget.txt", "above few\n");
    assert!(budget().1.contains("tests/budget.txt:1: 'above few' is not a wing"), "{}", budget().1);
}

#[test]
fn a_commit_has_a_subject_and_a_reason() {
    if !has_python() {
        return;
    }
    let workspace = two_wings();
    commit(&workspace, "Refuse a page that is fixed twice\n\nIt was written while it changed: 3 of 200 runs.");
    let commits = || script(&workspace, "tests/commits", &[]);
    commit(&workspace, "Refuse a page\n\nSymptom: torn pages.\nCause: two writers.\n\nSigned-off-by: A <a@b>");
    assert_eq!(commits(), (Some(0), "./test: 2 commits of main..HEAD looked at\n".into()));
    for (message, says) in [
        ("Refuse a page".into(), "it has no body"),
        ("Refuse a page\n\nSigned-off-by: A <a@b>".into(), "it has no body"),
        (format!("Refuse {}\n\nA proof.", "x".repeat(66)), "its subject has 73 characters"),
        ("Refuse a page.\n\nA proof.".into(), "ends with a full stop"),
        ("Refused a page\n\nA proof.".into(), "begins with 'Refused'"),
        ("refuse a page\n\nA proof.".into(), "begins with 'refuse'"),
        (format!("Refuse a page\n\nSee {}home/ann/log.", '/'), "a path of one machine"),
    ] {
        commit(&workspace, &message);
        let (code, printed) = commits();
        assert_eq!(code, Some(1), "{message}: {printed}");
        assert!(printed.contains(says), "{message}: {printed}");
        git(&workspace, "reset -q --soft HEAD~1");
    }
    assert!(script(&workspace, "tests/commits", &["x..y"]).1.contains("git knows no range x..y"));
}

/// ./test, where `--all` runs these lists of steps at the same time, and there is a step that waits.
fn run_beside_each_other(workspace: &Workspace, lists: &str) {
    let script = fs::read_to_string(workspace.root.join("test")).expect("the script");
    let mut lines: Vec<String> = Vec::new();
    for line in script.lines() {
        match line.split_once("=(") {
            Some(("before" | "after", _)) => {
                lines.push(line.split('=').next().map_or_else(String::new, |name| format!("{name}=()")))
            }
            Some(("beside", _)) => lines.push(format!("beside=({lists})")),
            _ => lines.push(line.to_string()),
        }
    }
    let waits = "waits() { touch waits; sleep 600.125; }";
    lines.insert(1, waits.to_string());
    workspace.file("test", &(lines.join("\n") + "\n"));
}

#[test]
fn of_steps_that_run_at_the_same_time_the_one_that_fails_is_named() {
    if !has_python() {
        return;
    }
    let workspace = Workspace::without_a_page();
    run_beside_each_other(&workspace, "words_by_hand plain_words");
    let output = workspace.run("--all");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &messages(&output);
    // Where it was printed, and once more at the end.
    assert_eq!(printed.matches("there is no page").count(), 2, "{printed}");
    assert!(printed.contains("failed: words_by_hand"), "{printed}");
    assert_eq!(output.status.code(), Some(1), "{printed}");

    workspace.file("README.md", "few words\n");
    let output = workspace.run("--all");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &messages(&output);
    for expected in ["plain_words took", "words_by_hand took", "2 words of Markdown"] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    assert_eq!(output.status.code(), Some(0), "{printed}");
}

#[test]
fn an_interrupt_ends_the_programs_of_steps_that_run_at_the_same_time() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let workspace = Workspace::new(&[]);
        run_beside_each_other(&workspace, "'waits plain_words' plain_words");
        let child = workspace.start(&["--all"]);
        let begin = Instant::now();
        while !workspace.root.join("waits").exists() {
            assert!(begin.elapsed() < Duration::from_secs(60), "the step begins");
            thread::sleep(Duration::from_millis(20));
        }
        let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(kill.expect("kill starts").success());
        let output = child.wait_with_output().expect("./test ends");
        assert_eq!(output.status.code(), Some(code), "{}", messages(&output));
        let left = || {
            let found = Command::new("pgrep").args(["-f", "sleep 600.125"]).output();
            found.is_ok_and(|output| !output.stdout.is_empty())
        };
        // A program that was killed may take a moment to end.
        let begin = Instant::now();
        while left() {
            assert!(begin.elapsed() < Duration::from_secs(10), "{signal}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}
