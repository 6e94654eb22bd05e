//! Compares policies that use erase counts, on a device that wears, with models that receive all
//! erase counts before each reference.

#[allow(dead_code, reason = "the list of all policies is for the other tests")]
use std::collections::BTreeSet;

use crate::common::{QUIET, cell, file};
use ebbpool_device::{AnyDevice, Device, FlashDevice};
use ebbpool_model::workload::workload;
use ebbpool_model::{ModelEvent, model};
use ebbpool_sim::{AtEnd, DeviceObserver, EventLog, EventWriter, SimOptions, simulate_one};

const PAGES: u64 = 160;

fn device(layer: &str) -> AnyDevice {
    let name = format!("flash:slc-mt29f4g08aaa,blocks=80,pages_per_block=8,rho=0.6,precondition=full,{layer}");
    let config = name.parse().expect("a device");
    FlashDevice::new(&config, None, Some(PAGES)).expect("it can be made").into()
}

fn by_the_model(spec: &str, frames: u64, layer: &str, trace: &[(u64, bool)]) -> Vec<String> {
    let mut model = model(spec, frames as usize);
    let mut device = device(layer);
    let mut lines = vec!["# counted from here".to_owned()];
    for &(page, write) in trace {
        for (page, _) in model.resident() {
            model.erases(page, device.erases_of(page));
        }
        for event in model.reference(page, write, None, &BTreeSet::new()) {
            match event {
                ModelEvent::Read(page) | ModelEvent::Pad(page) => {
                    device.read(page).expect("it can be read");
                }
                ModelEvent::Write(page) => {
                    device.write(page).expect("it can be written");
                    lines.push(format!("write {page}"));
                }
                ModelEvent::Evict(page) => lines.push(format!("evict {page}")),
            }
        }
    }
    lines
}

fn by_the_simulator(spec: &str, frames: u64, layer: &str, trace: &[(u64, bool)]) -> Vec<String> {
    let (_directory, source) = file(trace, "t.txt");
    let recorder = EventWriter { events: Some(EventLog(Vec::new())), series: None, misses: None, failure: None };
    let served = DeviceObserver::new(device(layer), None, recorder);
    let cell = cell(spec, frames, 8.0);
    // The model stops where the trace ends.
    let options = SimOptions { at_end: AtEnd::Free, ..SimOptions::default() };
    let (counts, _, served) = simulate_one(&source, &cell, &options, &QUIET, served).expect("a run");
    let (outcome, recorder) = served.finish(&counts, AtEnd::Free);
    assert_eq!(outcome.failed, None);
    assert!(outcome.flash.expect("a report").erases > 0, "nothing wears");
    let Some(EventLog(lines)) = recorder.events else {
        panic!("no events");
    };
    let lines = String::from_utf8(lines).expect("text");
    lines.lines().map(str::to_owned).collect()
}

#[test]
fn the_counts_are_those_of_the_device_at_that_moment() {
    for layer in ["ftl=page", "ftl=dftl", "ftl=block", "ftl=bast", "ftl=fast"] {
        for spec in ["cflru-e", "cflru-e:window=1", "dl-cflru-e", "bplru:block=8,padding=true"] {
            for (seed, frames) in [(1, 8), (2, 24)] {
                let trace: Vec<(u64, bool)> =
                    workload(seed, 6000, PAGES).into_iter().map(|(page, write)| (page % PAGES, write)).collect();
                let expected = by_the_model(spec, frames, layer, &trace);
                let events = by_the_simulator(spec, frames, layer, &trace);
                assert!(events == expected, "{spec}, {frames} frames, {layer}");
            }
        }
    }
}
