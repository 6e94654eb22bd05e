//! `ebbpool device measure` as its users meet it.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use ebbpool_device::DeviceProfile;
use serde_json::Value;

fn ebbpool(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebbpool"));
    command
        .args(["device", "measure"])
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null());
    command
}

fn output(directory: &Path, args: &[&str]) -> Output {
    ebbpool(directory, args).output().expect("ebbpool starts")
}

fn stdout(directory: &Path, args: &[&str]) -> String {
    let output = output(directory, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// Wrong usage, and what it says.
fn refusal(directory: &Path, args: &[&str]) -> String {
    let output = output(directory, args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).expect("text")
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("an entry").file_name();
        name.to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

const FAST: [&str; 4] = ["--size", "4MiB", "--seconds", "0.005"];

#[test]
fn a_file_is_made_measured_and_removed() {
    let directory = directory();
    let directory = directory.path();
    for path in [".", "new.dat"] {
        for engine in ["auto", "threads"] {
            let args = [path, "--format", "json", "--engine", engine];
            let text = stdout(directory, &[&args[..], &FAST].concat());
            let told: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(told["path"], path);
            assert_eq!(told["bytes"], 4 << 20);
            let measurements = told["measurements"].as_array().expect("an array");
            assert_eq!(measurements.len(), 36);
            for one in measurements {
                assert!(one["pages"].as_u64() > Some(0), "{one}");
                assert!(one["seconds"].as_f64() >= Some(0.005), "{one}");
                let alone = one["batch"] == 1;
                assert_eq!(one["p99_us"].is_number(), alone, "{one}");
            }
            let number = |key: &str| told[key].as_f64().expect(key);
            let alpha = number("write_us") / number("read_us");
            assert!((number("alpha") / alpha - 1.0).abs() < 1e-9);
            let depths: Vec<Value> = [1, 2, 4, 8, 16, 32].map(Value::from).into();
            assert!(depths.contains(&told["k_r"]) && depths.contains(&told["k_w"]));
            assert_eq!(names(directory), [""; 0]);
        }
    }
}

#[test]
fn the_table_says_what_was_found_out() {
    let directory = directory();
    let text = stdout(directory.path(), &[&["."][..], &FAST].concat());
    assert!(text.contains("sequential writes"), "{text}");
    assert!(text.contains("alpha = "), "{text}");
    assert!(text.contains("k_w = "), "{text}");
    let longest = text.lines().skip(1).map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{text}");
}

#[test]
fn a_profile_is_read_by_the_lab() {
    let directory = directory();
    let profile = directory.path().join("My SSD.toml");
    let args = [".", "--profile", "My SSD.toml", "--format", "json"];
    let text = stdout(directory.path(), &[&args[..], &FAST].concat());
    let told: Value = serde_json::from_str(&text).expect("JSON");
    let read = DeviceProfile::from_file(&profile).expect("a profile");
    assert_eq!(read.name, "my-ssd");
    let alpha = told["alpha"].as_f64().expect("a number");
    assert!((read.policy_asymmetry().ratio() / alpha - 1.0).abs() < 2e-3);
    let run = Command::new(env!("CARGO_BIN_EXE_ebbpool"))
        .args(["run", "zipf:pages=100,refs=1000", "--policy", "lru"])
        .args(["--frames", "10", "--device", "./My SSD.toml"])
        .current_dir(directory.path())
        .output()
        .expect("ebbpool starts");
    assert!(run.status.success(), "{run:?}");
}

#[test]
fn what_exists_is_not_written_to_unless_told() {
    let directory = directory();
    let directory = directory.path();
    let content = vec![7; 1 << 20];
    fs::write(directory.join("mine"), &content).expect("a file");
    let same = || fs::read(directory.join("mine")).expect("a file") == content;
    let error = refusal(directory, &["mine", "--seconds", "0.005"]);
    assert!(error.contains("--yes"), "{error}");
    assert!(same());
    let args = [
        "mine",
        "--read-only",
        "--seconds",
        "0.005",
        "--format",
        "json",
    ];
    let told: Value = serde_json::from_str(&stdout(directory, &args)).expect("JSON");
    assert_eq!(told["bytes"], 1 << 20);
    assert!(told["write_us"].is_null() && told["k_w"].is_null());
    assert!(told["read_us"].is_number() && told["k_r"].is_number());
    assert!(same());
    let text = stdout(directory, &["mine", "--read-only", "--seconds", "0.005"]);
    assert!(!text.contains("write"), "{text}");
    stdout(directory, &["mine", "--yes", "--seconds", "0.005"]);
    assert!(!same());
    assert_eq!(names(directory), ["mine"]);
    assert_eq!(
        fs::metadata(directory.join("mine")).expect("a file").len(),
        1 << 20
    );
}

#[test]
fn only_what_the_size_says_is_measured() {
    let directory = directory();
    let file = directory.path().join("mine");
    fs::write(&file, vec![7; 1 << 20]).expect("a file");
    let args = ["mine", "--yes", "--size", "64KiB", "--seconds", "0.005"];
    stdout(directory.path(), &args);
    let bytes = fs::read(&file).expect("a file");
    assert!(bytes[64 << 10..].iter().all(|&byte| byte == 7));
    assert!(bytes[..64 << 10].iter().any(|&byte| byte != 7));
}

#[test]
fn wrong_usage_is_told_with_a_remedy() {
    let directory = directory();
    let directory = directory.path();
    fs::write(directory.join("short"), [1; 100]).expect("a file");
    for (args, said) in [
        (&["missing", "--read-only"][..], "--read-only"),
        (&[".", "--read-only"], "--read-only"),
        (&["/dev/null", "--yes"], "neither a file nor a block device"),
        (&[".", "--size", "100"], "larger --size"),
        (&[".", "--page-size", "1000"], "power of two"),
        (&[".", "--seconds", "0"], "above 0"),
        (&[".", "--read-only", "--profile", "p.toml"], "--profile"),
    ] {
        let error = refusal(directory, args);
        assert!(error.contains(said), "{args:?}: {error}");
    }
    assert_eq!(names(directory), ["short"]);
}

#[test]
fn an_interrupt_removes_the_file() {
    let directory = directory();
    let mut child = ebbpool(
        directory.path(),
        &[".", "--size", "4MiB", "--seconds", "60"],
    )
    .stderr(Stdio::piped())
    .spawn()
    .expect("ebbpool starts");
    let mut tries = 0;
    while names(directory.path()).is_empty() && tries < 500 {
        std::thread::sleep(Duration::from_millis(10));
        tries += 1;
    }
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill starts").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
    let mut errors = String::new();
    let mut pipe = child.stderr.take().expect("a pipe");
    std::io::Read::read_to_string(&mut pipe, &mut errors).expect("text");
    assert!(errors.contains("the file is removed"), "{errors}");
    assert_eq!(names(directory.path()), [""; 0]);
}
