//! Tests of `ebbpool device measure`.
#![cfg(unix)]

use std::fs;

use ebbpool_device::DeviceProfile;
use serde_json::Value;

use crate::harness::{Ebbpool, errors, failed, interrupted, wait_until};

crate::table::table!("measure");

fn measure<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["device", "measure"], args].concat()
}

/// The message of a call that is refused.
fn refusal(ebbpool: &Ebbpool, args: &[&str]) -> String {
    let output = ebbpool.run(&measure(args));
    assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    assert!(output.stdout.is_empty());
    errors(&output)
}

const FAST: [&str; 4] = ["--size", "4MiB", "--seconds", "0.005"];

#[test]
fn a_temporary_file_is_created_measured_and_removed() {
    let ebbpool = Ebbpool::in_scratch();
    for path in [".", "new.dat"] {
        for engine in ["auto", "threads"] {
            let args = [path, "--format", "json", "--engine", engine];
            let text = ebbpool.stdout(&measure(&[&args[..], &FAST].concat()));
            let report: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(report["path"], path);
            assert_eq!(report["bytes"], 4 << 20);
            let measurements = report["measurements"].as_array().expect("an array");
            assert_eq!(measurements.len(), 36);
            for one in measurements {
                assert!(one["pages"].as_u64() > Some(0), "{one}");
                assert!(one["seconds"].as_f64() >= Some(0.005), "{one}");
                let alone = one["batch"] == 1;
                assert_eq!(one["p99_us"].is_number(), alone, "{one}");
            }
            let number = |key: &str| report[key].as_f64().expect(key);
            let alpha = number("write_us") / number("read_us");
            assert!((number("alpha") / alpha - 1.0).abs() < 1e-9);
            let depths: Vec<Value> = [1, 2, 4, 8, 16, 32].map(Value::from).into();
            assert!(depths.contains(&report["k_r"]) && depths.contains(&report["k_w"]));
            assert_eq!(ebbpool.names(), [""; 0]);
        }
    }
}

#[test]
fn the_lab_reads_a_written_profile() {
    let ebbpool = Ebbpool::in_scratch();
    let profile = ebbpool.path("My SSD.toml");
    let args = [".", "--profile", "My SSD.toml", "--format", "json"];
    let text = ebbpool.stdout(&measure(&[&args[..], &FAST].concat()));
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let read = DeviceProfile::from_file(&profile).expect("a profile");
    assert_eq!(read.name, "my-ssd");
    let alpha = report["alpha"].as_f64().expect("a number");
    assert!((read.policy_asymmetry().ratio() / alpha - 1.0).abs() < 2e-3);
    let run = ["run", "zipf:pages=100,refs=1000", "--policy", "lru"];
    let on_profile = ["--frames", "10", "--device", "./My SSD.toml"];
    ebbpool.stdout(&[run, on_profile].concat());
}

#[test]
fn existing_files_are_written_only_with_permission() {
    let ebbpool = Ebbpool::in_scratch();
    let content = vec![7; 1 << 20];
    fs::write(ebbpool.path("mine"), &content).expect("a file");
    let same = || fs::read(ebbpool.path("mine")).expect("a file") == content;
    let error = refusal(&ebbpool, &["mine", "--seconds", "0.005"]);
    assert!(error.contains("--yes"), "{error}");
    assert!(same());
    let args = ["mine", "--read-only", "--seconds", "0.005", "--format", "json"];
    let report: Value = serde_json::from_str(&ebbpool.stdout(&measure(&args))).expect("JSON");
    assert_eq!(report["bytes"], 1 << 20);
    assert!(report["write_us"].is_null() && report["k_w"].is_null());
    assert!(report["read_us"].is_number() && report["k_r"].is_number());
    assert!(same());
    let text = ebbpool.stdout(&measure(&["mine", "--read-only", "--seconds", "0.005"]));
    assert!(!text.contains("write"), "{text}");
    ebbpool.stdout(&measure(&["mine", "--yes", "--seconds", "0.005"]));
    assert!(!same());
    assert_eq!(ebbpool.names(), ["mine"]);
    assert_eq!(fs::metadata(ebbpool.path("mine")).expect("a file").len(), 1 << 20);
}

#[test]
fn only_the_given_size_is_measured() {
    let ebbpool = Ebbpool::in_scratch();
    let file = ebbpool.path("mine");
    fs::write(&file, vec![7; 1 << 20]).expect("a file");
    let args = ["mine", "--yes", "--size", "64KiB", "--seconds", "0.005"];
    ebbpool.stdout(&measure(&args));
    let bytes = fs::read(&file).expect("a file");
    assert!(bytes[64 << 10..].iter().all(|&byte| byte == 7));
    assert!(bytes[..64 << 10].iter().any(|&byte| byte != 7));
}

#[test]
fn an_interrupt_removes_the_file() {
    let ebbpool = Ebbpool::in_scratch();
    let args = measure(&[".", "--size", "4MiB", "--seconds", "60"]);
    let child = ebbpool.command(&args).spawn().expect("ebbpool starts");
    wait_until("the file is made", || !ebbpool.names().is_empty());
    let output = interrupted(child);
    failed(&output, 130, &["the file is removed"]);
    assert_eq!(ebbpool.names(), [""; 0]);
}
