//! `ebbpool devices` and `ebbpool device replay`.

use std::fs;

use crate::harness::{Ebbpool, ROOT};

crate::table::table!("devices");

#[test]
fn the_list_and_the_details_of_devices_fit_80_columns() {
    let ebbpool = Ebbpool::in_repository();
    let list = ebbpool.stdout(&["devices"]);
    let names: Vec<&str> =
        list.lines().skip(1).take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names.len(), 46);
    let details = names.iter().map(|name| ebbpool.stdout(&["devices", name]));
    for text in std::iter::once(list.clone()).chain(details) {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
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
fn the_page_on_devices_is_current() {
    let ebbpool = Ebbpool::in_repository();
    let written = fs::read_to_string(format!("{ROOT}/docs/generated/devices.md"));
    assert_eq!(
        written.expect("docs/generated/devices.md"),
        ebbpool.stdout(&["devices", "--markdown"]),
        "run: cargo run --release -- devices --markdown > docs/generated/devices.md"
    );
}
