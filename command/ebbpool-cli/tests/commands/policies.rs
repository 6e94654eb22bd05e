//! Tests of `ebbpool policies`, and of policies that need information from the device.

use std::fs;

use serde_json::Value;

use crate::harness::{Ebbpool, ROOT};

crate::table::table!("policies");

const FLASH: &str = "flash:slc-mt29f4g08aaa,blocks=64,pages_per_block=16,rho=0.8,precondition=full";

/// The arguments of a run, up to the name of the policy.
const RUN: [&str; 5] = ["run", "zipf:pages=700,refs=3000,write=0.5", "--frames", "30", "--policy"];

/// The compared policies, in order.
fn compared(ebbpool: &Ebbpool, args: &[&str]) -> Vec<String> {
    let compare = ["compare", RUN[1], "--no-cache", "--frames", "30"];
    let results = ebbpool.rows(&[&compare[..], args].concat());
    let policy = |result: &Value| result["policy"].as_str().expect("a name").to_owned();
    let mut names: Vec<String> = results.iter().map(policy).collect();
    names.dedup();
    names
}

#[test]
fn the_page_on_policies_is_current() {
    let ebbpool = Ebbpool::in_repository();
    let written = fs::read_to_string(format!("{ROOT}/docs/generated/policies.md"));
    assert_eq!(
        written.expect("docs/generated/policies.md"),
        ebbpool.stdout(&["policies", "--markdown"]),
        "run: cargo run --release -- policies --markdown > docs/generated/policies.md"
    );
}

#[test]
fn a_policy_is_explained_with_its_parameters() {
    let ebbpool = Ebbpool::in_repository();
    for entry in ebbpool_policy::registry::entries() {
        let text = ebbpool.stdout(&["policies", entry.name]);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [entry.summary, entry.how, entry.when, entry.source] {
            assert!(!part.is_empty(), "{}", entry.name);
            assert!(words(&text).contains(&words(part)), "{}: {part}", entry.name);
        }
        for param in entry.params {
            let line = format!("  {}={} (the default)\n", param.name, param.default);
            assert!(text.contains(&line), "{}: {line}", entry.name);
        }
    }
}

#[test]
fn all_stands_for_the_policies_that_the_device_supports() {
    let ebbpool = Ebbpool::in_repository();
    let plain = compared(&ebbpool, &["--policies", "all", "--asymmetry", "8"]);
    let flash = compared(&ebbpool, &["--policies", "all", "--device", FLASH]);
    for name in ["cflru-e", "dl-cflru-e"] {
        assert!(!plain.iter().any(|policy| policy == name), "{plain:?}");
        assert!(flash.iter().any(|policy| policy == name), "{flash:?}");
    }
    assert_eq!(flash.len(), plain.len() + 2);
    assert!(!flash.iter().any(|policy| policy == "belady"));
}

#[test]
fn the_default_policies_are_those_of_the_papers_and_ebb_in_every_format() {
    let ebbpool = Ebbpool::in_repository();
    let names = compared(&ebbpool, &["--asymmetry", "8"]);
    let expected = "fifo lru clock cflru cflru-c lru-wsr ccf-lru ad-lru casa ref cfdc fd-static fd-buffer ebb";
    assert_eq!(names.join(" "), expected);
    let args = ["compare", RUN[1], "--frames", "30", "--asymmetry", "8"];
    let csv = ebbpool.stdout(&[&args[..], &["--format", "csv"]].concat());
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    assert_eq!(&reader.headers().expect("a header")[1], "policy");
    let rows = reader.records().map(|row| row.expect("a row")[1].to_string());
    assert_eq!(rows.collect::<Vec<_>>(), names);
    let table = ebbpool.stdout(&args);
    assert!(names.iter().all(|name| table.contains(&format!("\n{name} "))), "{table}");
}
