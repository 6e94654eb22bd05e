//! What policies may ask of the device at hand, and what is said where it cannot answer.

use std::process::{Command, Output};

use serde_json::Value;

const FLASH: &str = "flash:slc-mt29f4g08aaa,blocks=64,pages_per_block=16,rho=0.8,precondition=full";

fn ebbpool(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ebbpool"))
        .args(args)
        .args(["--frames", "30"])
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("ebbpool starts")
}

fn json(args: &[&str]) -> Value {
    let output = ebbpool(&[args, &["--format", "json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn compared(args: &[&str]) -> Vec<String> {
    let trace = "zipf:pages=700,refs=3000,write=0.5";
    let args = [&["compare", trace, "--no-cache"], args].concat();
    let results = json(&args);
    let policy = |result: &Value| result["policy"].as_str().expect("a name").to_owned();
    let mut names: Vec<String> = results
        .as_array()
        .expect("a list")
        .iter()
        .map(policy)
        .collect();
    names.dedup();
    names
}

fn refused(args: &[&str], words: &[&str]) {
    let output = ebbpool(args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    for word in words {
        assert!(message.contains(word), "{args:?}, no {word}: {message}");
    }
}

#[test]
fn erase_counts_need_a_simulated_device() {
    let run = ["run", "zipf:pages=700,refs=3000,write=0.5", "--policy"];
    for policy in ["cflru-e", "dl-cflru-e"] {
        let asked = [&run[..], &[policy]].concat();
        refused(&asked, &[policy, "plain asymmetry", "--device flash:"]);
        let on_profile = [&asked[..], &["--device", "nvme-dc-generic"]].concat();
        refused(&on_profile, &[policy]);
        let on_flash = [&asked[..], &["--device", FLASH]].concat();
        let result = json(&on_flash);
        assert_eq!(result["policy"], policy);
        assert!(result["writes"].as_u64() > Some(0));
    }
}

#[test]
fn all_are_those_that_the_device_supports() {
    let plain = compared(&["--policies", "all", "--asymmetry", "8"]);
    let flash = compared(&["--policies", "all", "--device", FLASH]);
    for name in ["cflru-e", "dl-cflru-e"] {
        assert!(!plain.iter().any(|policy| policy == name), "{plain:?}");
        assert!(flash.iter().any(|policy| policy == name), "{flash:?}");
    }
    assert_eq!(flash.len(), plain.len() + 2);
    assert!(!flash.iter().any(|policy| policy == "belady"));
}

#[test]
fn the_default_are_the_policies_of_the_papers() {
    let names = compared(&["--asymmetry", "8"]);
    let expected =
        "fifo lru clock cflru cflru-c lru-wsr ccf-lru ad-lru casa ref cfdc fd-static fd-buffer";
    assert_eq!(names.join(" "), expected);
}

#[test]
fn clusters_of_the_size_of_an_erase_block() {
    let run = ["run", "zipf:pages=700,refs=3000,write=0.5", "--policy"];
    let auto = json(&[&run[..], &["lru:cluster=auto", "--device", FLASH]].concat());
    assert_eq!(auto["policy"], "lru:cluster=16");
    let sixteen = json(&[&run[..], &["lru:cluster=16", "--device", FLASH]].concat());
    assert_eq!(auto["cluster_switches"], sixteen["cluster_switches"]);
    let plain = [&run[..], &["lru:cluster=auto"]].concat();
    refused(&plain, &["plain asymmetry", "cluster=64"]);
}

#[test]
fn padding_is_counted_apart() {
    let run = ["run", "zipf:pages=700,refs=3000,write=0.5", "--policy"];
    let padded = json(&[&run[..], &["bplru:block=16,padding=true"]].concat());
    let plain = json(&[&run[..], &["bplru:block=16"]].concat());
    assert_eq!(padded["reads"], plain["reads"]);
    assert_eq!(plain["padding_reads"], 0);
    assert!(padded["padding_reads"].as_u64() > Some(0));
    assert!(padded["writes"].as_u64() > plain["writes"].as_u64());
}
