//! `ebbpool devices` and `ebbpool device replay`.

use std::fs;

use serde_json::Value;

use crate::harness::{Ebbpool, ROOT, SMALL_FLASH};

#[test]
fn the_list_and_the_details_of_devices_fit_80_columns() {
    let ebbpool = Ebbpool::in_repository();
    let list = ebbpool.stdout(&["devices"]);
    assert!(list.contains("\nflash-136 "), "{list}");
    let names: Vec<&str> =
        list.lines().skip(1).take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names.len(), 43);
    let details = names.iter().map(|name| ebbpool.stdout(&["devices", name]));
    for text in std::iter::once(list.clone()).chain(details) {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
    for words in ["\nsd-a1 ", "4 TB (0.32 to 48)", "3.5 PB (3.5 to 16.8)"] {
        assert!(list.contains(words), "{list}");
    }
    let card = ebbpool.stdout(&["devices", "sd-a1"]);
    assert!(card.contains("survives 1000 (300 to 3000) erases"), "{card}");
    let disk = ebbpool.stdout(&["devices", "hdd1"]);
    assert!(disk.contains("no endurance: writes do not wear"), "{disk}");
    let one = ebbpool.stdout(&["devices", "flash-136"]);
    for words in ["136.2, the one that policies use", "680.4 random reads"] {
        assert!(one.contains(words), "{one}");
    }
}

#[test]
fn devices_are_printed_as_json_and_toml() {
    let ebbpool = Ebbpool::in_scratch();
    let all = ebbpool.json(&["devices"]);
    assert_eq!(all.as_array().map(Vec::len), Some(43));
    let dc = ebbpool.json(&["devices", "micron-9200"]);
    assert_eq!(dc["name"], "nvme-dc-9200");
    assert_eq!(dc["asymmetry"], "steady");
    assert_eq!(dc["policy_asymmetry"], dc["asymmetries"]["steady"]);
    let qd1 = dc["asymmetries"]["qd1"].as_f64().expect("known");
    assert!((qd1 - 21.0 / 92.0).abs() < 1e-12, "{qd1}");
    assert_eq!(dc["asymmetries"]["chip"], Value::Null);
    assert_eq!(dc["figures"]["read_us"]["basis"], "datasheet");
    let toml = ebbpool.stdout(&["devices", "micron-9200", "--format", "toml"]);
    let mine = ebbpool.file("mine.toml", toml);
    assert_eq!(ebbpool.json(&["devices", &mine]), dc);
}

#[test]
fn a_replay_on_a_flash_device_agrees_with_theory() {
    let ebbpool = Ebbpool::in_scratch();
    let replay = |trace: &str, device: &str| ebbpool.json(&["device", "replay", trace, "--device", device]);
    let all_over = "uniform:pages=25000,refs=400000,write=1";
    let device = "flash:slc-mt29f4g08aaa,blocks=512,rho=0.8,precondition=steady";
    let report = replay(all_over, device);
    assert_eq!(report["host_writes"], 400_000);
    let figure = |name: &str| report[name].as_f64().expect("a figure");
    let theory = figure("predicted_write_amplification");
    let found = figure("write_amplification");
    assert!((found / theory - 1.0).abs() < 0.03, "{found} for {theory}");
    assert_eq!(figure("programs"), 400_000.0 + report["programs_by_cause"]["cleaning"].as_f64().expect("a count"));
    assert!(report["lifetime_days"].is_null() && report["failed"].is_null());
    // The only die works all the time, at 49.5 mW.
    let joules = report["energy"]["total_j"].as_f64().expect("its power is known");
    let expected = 0.0495 * figure("device_seconds");
    assert!((joules / expected - 1.0).abs() < 1e-9, "{joules}");
    assert!((figure("joules_per_reference") * 400_000.0 / joules - 1.0).abs() < 1e-9);
    let unknown = replay("uniform:pages=2000,refs=3000,write=1", "flash:znand,blocks=64");
    assert!(unknown["energy"].is_null() && unknown["joules_per_reference"].is_null());

    let in_order = (0..5000).map(|page| format!("W {page}\n")).collect::<String>();
    let in_order = ebbpool.file("t.txt", in_order);
    let fresh = replay(&in_order, "flash:slc-mt29f4g08aaa,blocks=512");
    assert_eq!((&fresh["programs"], &fresh["erases"]), (&5000.into(), &0.into()));
    assert!(fresh["write_amplification"].is_null());
    assert!(fresh["not_steady"].is_string(), "a run without erases says so");
}

#[test]
fn impossible_flash_devices_are_refused() {
    let ebbpool = Ebbpool::in_scratch();
    let zipf = "zipf:pages=3000,refs=600";
    for (device, words) in [
        ("flash:slc-mt29f4g08aaa,blocks=8", "blocks="),
        ("flash:slc-mt29f4g08aaa,blok=64", "did you mean 'blocks'"),
        ("flash:slc-mt29f4g08aaa,pages_per_block=0", "pages_per_block"),
        ("flash:none", "slc-mt29f4g08aaa"),
        ("flash:slc-mt29f4g08aaa,blocks=100000000000", "from 1 to 268435456"),
    ] {
        ebbpool.refused(&["device", "replay", zipf, "--device", device], 2, &[words]);
        let run = ["run", zipf, "--policy", "lru", "--frames", "9", "--device", device];
        ebbpool.refused(&run, 2, &[words]);
    }
}

#[test]
fn the_highest_page_of_a_trace_sizes_a_flash_device_before_the_run() {
    let ebbpool = Ebbpool::in_scratch();
    let sparse = ebbpool.file("t.txt", "R 1\nW 7000\nW 3\nW 99999999\nR 2\n");
    let words = ["numbered up to 99999999", "blocks=1953128 is the least"];
    let replay = ["device", "replay", &sparse, "--device", SMALL_FLASH];
    ebbpool.refused(&replay, 2, &words);
    let on = ["--frames", "2", "--device", SMALL_FLASH];
    let compare = ["compare", &sparse, "--report", "r.html"];
    ebbpool.refused(&[&compare[..], &on].concat(), 2, &words);
    assert!(!ebbpool.path("r.html").exists(), "no page without results");
    let run = ["run", &sparse, "--policy", "lru"];
    ebbpool.refused(&[&run[..], &on].concat(), 2, &words);
    // The device that the message names is enough.
    let enough = SMALL_FLASH.replace("blocks=64", "blocks=140");
    let near = ebbpool.file("near.txt", "R 1\nW 7000\nW 3\nR 2\n");
    let refused = ebbpool.run(&["device", "replay", &near, "--device", SMALL_FLASH]);
    let message = crate::harness::errors(&refused);
    let blocks = message.split("blocks=").nth(1).expect("a remedy");
    let blocks = blocks.split(' ').next().expect("a number");
    let enough = enough.replace("blocks=140", &format!("blocks={blocks}"));
    ebbpool.stdout(&["device", "replay", &near, "--device", &enough]);
}

#[test]
fn bytes_per_day_that_are_no_rate_are_refused() {
    let ebbpool = Ebbpool::in_scratch();
    for bytes in ["-5", "nan", "0", "inf", "1e300", "0GB", "10GB/x", "many"] {
        let replay = ["device", "replay", "zipf:pages=30,refs=60"];
        let on = ["--device", SMALL_FLASH, "--bytes-per-day", bytes];
        let words = ["--bytes-per-day", bytes, "above 0, such as 10GB"];
        ebbpool.refused(&[&replay[..], &on].concat(), 2, &words);
    }
}

#[test]
fn unknown_devices_are_refused() {
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.refused(&["devices", "flsh-136"], 2, &["did you mean 'flash-136'"]);
    ebbpool.refused(&["devices", "/no/such.toml"], 1, &["/no/such.toml: cannot read"]);
    ebbpool.refused(&["devices", "--format", "toml"], 2, &["name it"]);
    ebbpool.refused(&["devices", "ssd1", "--markdown"], 2, &["--markdown"]);
    let wrong = ebbpool.file("wrong.toml", "name = \"x\"\ncolour = 1\n");
    ebbpool.refused(&["devices", &wrong], 1, &["wrong.toml, line 2", "`colour`"]);
}

#[test]
fn the_page_on_devices_is_current() {
    let ebbpool = Ebbpool::in_repository();
    let written = fs::read_to_string(format!("{ROOT}/docs/generated/devices.md"));
    assert_eq!(
        written.expect("docs/generated/devices.md"),
        ebbpool.stdout(&["devices", "--markdown"]),
        "run: cargo run --release -- devices --markdown > docs/generated/devices.md"
    );
}
