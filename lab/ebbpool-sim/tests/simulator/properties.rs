//! Properties of every simulation, whatever the policy.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{QUIET, SPECS, cell, file};
use ebbpool_cost::{Asymmetry, PAPERS_BASE};
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_device::{AnyDevice, ChangingDevice, DeviceProfile, PlainDevice};
use ebbpool_model::workload::workload;
use ebbpool_model::{ModelEvent, model};
use ebbpool_policy::{Capabilities, PolicySpec};
use ebbpool_sim::{
    AtEnd, BufferSize, DeviceObserver, DeviceOutcome, EventLog, EventWriter, NoObserver, NoStore, PassControl, ResultStore,
    Series, SimCell, SimError, SimOptions, Sweep, Warmup, simulate, simulate_one,
};
use ebbpool_trace::Source;

fn cells(frames: &[u64]) -> Vec<SimCell> {
    let mut cells = Vec::new();
    for spec in SPECS {
        cells.extend(frames.iter().map(|&frames| cell(spec, frames, 8.0)));
    }
    cells
}

fn recorder() -> EventWriter<Vec<u8>> {
    EventWriter {
        events: Some(EventLog(Vec::new())),
        series: Some(Series::new(Vec::new()).expect("memory takes anything")),
        misses: None,
        failure: None,
    }
}

/// The lines of the events and of the series.
fn lines(recorder: EventWriter<Vec<u8>>) -> (Vec<String>, Vec<String>) {
    assert!(recorder.failure.is_none());
    let of = |bytes: Vec<u8>| -> Vec<String> {
        let text = String::from_utf8(bytes).expect("text");
        text.lines().map(str::to_owned).collect()
    };
    let events = recorder.events.expect("events were requested").0;
    let series = recorder.series.expect("a series was requested");
    (of(events), of(series.into_inner()))
}

/// Options with which the end of a trace writes nothing.
fn ends_free() -> SimOptions {
    SimOptions { at_end: AtEnd::Free, ..SimOptions::default() }
}

#[test]
fn no_page_is_evicted_while_there_is_room() {
    let trace = workload(3, 3000, 150);
    let distinct: BTreeSet<u64> = trace.iter().map(|(page, _)| *page).collect();
    let written: BTreeSet<u64> = trace.iter().filter(|r| r.1).map(|r| r.0).collect();
    let (_directory, source) = file(&trace, "t.txt");
    let pages = distinct.len() as u64;
    let cells = cells(&[pages, pages + 1, 10 * pages, 1 << 21, u64::MAX]);
    let outcome = simulate(&source, &cells, &ends_free(), &QUIET).expect("a simulation");
    for (counts, cell) in outcome.counts.iter().zip(&cells) {
        // SQLite leaves one frame empty.
        if cell.policy.to_string().starts_with("sqlite") && cell.frames == pages {
            continue;
        }
        assert_eq!(counts.misses, pages, "{cell:?}");
        // A server cleans pages also where none has to be evicted.
        if cell.policy.capabilities().contains(Capabilities::BACKGROUND_WRITES) {
            let in_background = counts.background_writes + counts.checkpoint_writes;
            assert_eq!(counts.writes, in_background, "{cell:?}");
            continue;
        }
        assert_eq!(counts.writes, 0, "{cell:?}");
        assert_eq!(counts.dirty_left, written.len() as u64, "{cell:?}");
        assert_eq!(counts.cluster_switches, 0, "{cell:?}");
    }
    for frames in [pages, pages + 1, u64::MAX] {
        let cell = cell("fd-buffer:interval=100", frames, 8.0);
        let options = ends_free();
        let (_, _, recorder) = simulate_one(&source, &cell, &options, &QUIET, recorder()).expect("a run");
        assert_eq!(lines(recorder).0, ["# counted from here"]);
    }
}

#[test]
fn an_empty_trace_is_refused() {
    for name in ["t.parquet", "t.txt", "t.u32"] {
        let (_directory, source) = file(&[], name);
        for cells in [vec![], vec![cell("lru", 3, 1.0)], vec![cell("belady", u64::MAX, 1.0), cell("cfdc", 3, 1.0)]] {
            let outcome = simulate(&source, &cells, &SimOptions::default(), &QUIET);
            assert!(matches!(outcome, Err(SimError::Empty { .. })), "{name}");
        }
    }
}

#[test]
fn a_warm_up_leaves_something_to_count() {
    let (_directory, source) = file(&workload(1, 500, 20), "t.txt");
    let run = |cell: &SimCell, warmup| {
        let options = SimOptions { warmup, ..SimOptions::default() };
        simulate(&source, std::slice::from_ref(cell), &options, &QUIET)
    };
    for spec in ["lru", "belady"] {
        let cell = cell(spec, 7, 1.0);
        let last = run(&cell, 499).expect("one reference is enough");
        assert_eq!(last.counts[0].references, 1);
        for too_much in [500, 501, u64::MAX] {
            match run(&cell, too_much) {
                Err(SimError::AllWarmup { references, warmup, .. }) => assert_eq!((references, warmup), (500, too_much)),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_simulation_stops_on_request() {
    let (_directory, source) = file(&workload(1, 500, 20), "t.txt");
    let stop = AtomicBool::new(true);
    let stopped = PassControl { report: &|_| {}, stop: &stop };
    for spec in ["lru", "belady"] {
        let cell = cell(spec, 7, 1.0);
        let options = SimOptions::default();
        let all = simulate(&source, std::slice::from_ref(&cell), &options, &stopped);
        assert!(matches!(all, Err(SimError::Interrupted)));
        let one = simulate_one(&source, &cell, &options, &stopped, NoObserver);
        assert!(matches!(one, Err(SimError::Interrupted)));
    }
    // In the middle of a trace that would take hours.
    let endless = Source::parse("zipf:pages=1000,refs=1000000000000", None).expect("a generator");
    let stop = AtomicBool::new(false);
    let soon = PassControl { report: &|_| stop.store(true, Ordering::Relaxed), stop: &stop };
    let cells = [cell("lru", 7, 1.0), cell("cfdc", 7, 1.0)];
    let outcome = simulate(&endless, &cells, &SimOptions::default(), &soon);
    assert!(matches!(outcome, Err(SimError::Interrupted)));
}

#[test]
fn progress_goes_from_0_to_1() {
    let (_directory, source) = file(&workload(1, 600_000, 20), "t.parquet");
    let reported = std::sync::Mutex::new(Vec::new());
    let progress =
        PassControl { report: &|share| reported.lock().expect("not poisoned").push(share), stop: &AtomicBool::new(false) };
    let cells = [cell("lru", 7, 1.0)];
    simulate(&source, &cells, &SimOptions::default(), &progress).expect("a simulation");
    let reported = reported.into_inner().expect("not poisoned");
    assert!(reported.len() >= 3 && reported.is_sorted(), "{reported:?}");
    assert!(reported.iter().all(|share| (0.0..=1.0).contains(share)));
}

#[test]
fn the_largest_page_is_a_page() {
    let largest = u64::MAX;
    let trace = [(largest, true), (0, false), (largest, false), (1, true)];
    let (_directory, source) = file(&trace, "t.txt");
    // With padding whole blocks are written.
    for &spec in SPECS.iter().filter(|spec| !spec.contains("padding")) {
        let options = SimOptions { at_end: AtEnd::Flush, ..SimOptions::default() };
        let cell = cell(spec, 1, 8.0);
        let (counts, facts, recorder) = simulate_one(&source, &cell, &options, &QUIET, recorder()).expect("a run");
        assert_eq!((counts.misses, counts.writes), (4, 2), "{spec}");
        assert_eq!((counts.cluster_switches, counts.dirty_left), (2, 0));
        assert_eq!((facts.distinct_pages, facts.cluster_switches), (3, 4));
        let (events, _) = lines(recorder);
        let expected = [
            "# counted from here", "write 18446744073709551615", "evict 18446744073709551615", "evict 0",
            "evict 18446744073709551615", "write 1",
        ];
        assert_eq!(events, expected, "{spec}");
    }
}

#[test]
fn events_agree_with_the_counts() {
    const REFERENCES: usize = 12_345;
    let trace = workload(1, REFERENCES, 160);
    let (_directory, source) = file(&trace, "t.parquet");
    for &spec in SPECS {
        for (warmup, at_end) in [(0, AtEnd::Free), (4321, AtEnd::Free), (4321, AtEnd::Flush)] {
            let options = SimOptions { warmup, at_end, ..SimOptions::default() };
            let context = format!("{spec}, {options:?}");
            let cell = cell(spec, 64, 8.0);
            let (counts, facts, recorder) = simulate_one(&source, &cell, &options, &QUIET, recorder()).expect("a run");
            let quiet = simulate(&source, std::slice::from_ref(&cell), &options, &QUIET).expect("a simulation");
            assert_eq!((counts, facts), (quiet.counts[0], quiet.facts), "{context}");

            let (events, series) = lines(recorder);
            let marks = events.iter().filter(|line| line.starts_with('#')).count();
            assert_eq!(marks, 1, "{context}");
            let counted: Vec<&String> = events.iter().skip_while(|line| *line != "# counted from here").collect();
            let of = |word| counted.iter().filter(|l| l.starts_with(word)).count() as u64;
            let not_counted = match at_end {
                AtEnd::Free => 0,
                AtEnd::Flush => counts.dirty_before,
            };
            assert_eq!(of("write "), counts.writes + not_counted, "{context}");
            // The buffer of 64 frames is full at 4321, and filled once before that.
            let filled = if warmup == 0 { 64 } else { 0 };
            // Some policies also evict several pages at a time, or leave frames empty.
            let several = ["fab", "bplru", "innodb", "sqlite"];
            if several.iter().any(|name| spec.starts_with(name)) {
                assert!(of("evict ").abs_diff(counts.misses) <= 64, "{context}");
            } else {
                assert_eq!(of("evict "), counts.misses - filled, "{context}");
            }

            assert_eq!(series[0], "reference,clean,dirty,target,asymmetry,pc,pd,pdw");
            assert_eq!(series.len(), 1 + REFERENCES / 1000, "{context}");
            for (row, at) in series[1..].iter().zip(1u64..) {
                let fields: Vec<&str> = row.split(',').collect();
                assert_eq!(fields.len(), 8, "{context}: {row}");
                assert_eq!(fields[0], (at * 1000).to_string());
                let number = |at: usize| fields[at].parse::<u64>().expect("a number");
                assert!(number(1) + number(2) <= 64, "{context}: {row}");
                assert_eq!(fields[4], "8");
            }
        }
    }
}

/// The events and the series' clean and dirty pages equal the model's.
#[test]
fn events_agree_with_the_model() {
    const WARMUP: usize = 700;
    let trace = workload(2, 2500, 160);
    let (_directory, source) = file(&trace, "t.txt");
    for &spec in SPECS.iter().filter(|spec| cell(spec, 1, 1.0).policy.online()) {
        let mut model = model(spec, 20);
        model.costs(8.0);
        let (mut expected, mut rows) = (Vec::new(), Vec::new());
        for (position, &(page, write)) in trace.iter().enumerate() {
            if position == WARMUP {
                expected.push("# counted from here".to_owned());
            }
            let background = model.background().into_iter();
            expected.extend(background.map(|(page, _)| format!("write {page}")));
            for event in model.reference(page, write, None, &BTreeSet::new()) {
                match event {
                    ModelEvent::Read(_) | ModelEvent::Pad(_) => {}
                    ModelEvent::Write(page) => expected.push(format!("write {page}")),
                    ModelEvent::Evict(page) => expected.push(format!("evict {page}")),
                }
            }
            if (position + 1) % 1000 == 0 {
                let resident = model.resident();
                let dirty = resident.iter().filter(|(_, dirty)| *dirty).count();
                rows.push((position + 1, resident.len() - dirty, dirty, model.target()));
            }
        }
        let options = SimOptions { warmup: WARMUP as u64, ..ends_free() };
        let (_, _, recorder) = simulate_one(&source, &cell(spec, 20, 8.0), &options, &QUIET, recorder()).expect("a run");
        let (events, series) = lines(recorder);
        assert_eq!(events, expected, "{spec}");
        assert_eq!(series.len(), 1 + rows.len(), "{spec}");
        for (line, (at, clean, dirty, target)) in series[1..].iter().zip(rows) {
            let target = target.map(|t| t.to_string()).unwrap_or_default();
            let row = format!("{at},{clean},{dirty},{target},8,");
            assert!(line.starts_with(&row), "{spec}: {line} is not {row}");
        }
    }
}

/// A wrapper that has nothing to choose is the policy that it wraps, whatever that asks of a driver, or refuses it.
#[test]
fn a_wrapper_of_one_policy_is_that_policy() {
    let trace = workload(9, 6000, 400);
    // With classes, times and rings.
    let (_directory, source) = file(&trace, "t.parquet");
    let counts = |spec: &str, frames| {
        let cell = cell(spec, frames, 8.0);
        let options = SimOptions::default();
        let ran = simulate_one(&source, &cell, &options, &QUIET, NoObserver);
        ran.expect("a run").0
    };
    let mut refused = Vec::new();
    for spec in SPECS {
        let spec: PolicySpec = spec.parse().expect("a policy");
        for wrapper in ["ace:batch=1,policy", "auto:experts"] {
            let wrapped = format!("{wrapper}=({spec})");
            if wrapped.parse::<PolicySpec>().is_err() {
                refused.push(wrapped);
                continue;
            }
            for frames in [3, 40] {
                let alone = counts(&spec.to_string(), frames);
                assert_eq!(counts(&wrapped, frames), alone, "{wrapped}, {frames}");
            }
        }
    }
    let servers = ["postgres", "innodb", "sqlite"];
    for name in servers {
        let of_server = |text: &&String| text.contains(&format!("({name}"));
        assert!(refused.iter().filter(of_server).count() >= 2, "{name}: {refused:?}");
    }
}

#[test]
fn a_sweep_equals_its_runs() {
    const REFERENCES: u64 = 5000;
    let trace = workload(1, REFERENCES as usize, 300);
    let (_directory, source) = file(&trace, "t.txt");
    for (warmup, warm) in [(Warmup::References(300), 300), (Warmup::Share("12.5%".parse().expect("a share")), 625)] {
        let sweep = Sweep {
            policies: SPECS.iter().map(|s| s.parse().expect("one")).collect(),
            sizes: vec![
                BufferSize::Frames(7),
                BufferSize::Share("10%".parse().expect("a share")),
                BufferSize::Share("0.01%".parse().expect("a share")),
            ],
            asymmetries: ["1", "8", "128"].map(|r| r.parse().expect("one")).to_vec(),
            warmup,
            options: SimOptions {
                warmup: 77, // overruled
                threads: 2,
                ..SimOptions::default()
            },
            time_lines: false,
            device: None,
        };
        let swept = sweep.run(&source, &NoStore, &QUIET).expect("a sweep");
        assert!(!swept.interrupted && swept.from_store == 0);
        let (rows, resolved, facts) = (swept.rows, swept.resolved, swept.facts);
        assert_eq!(resolved.frames, [7, facts.distinct_pages / 10, 1]);
        assert_eq!(resolved.warmup, warm);
        assert_eq!(facts.references, REFERENCES);
        assert_eq!(rows.len(), SPECS.len() * 3 * 3);
        let indexes = rows.iter().map(|r| (r.asymmetry, r.policy, r.size));
        let all = (0..3).flat_map(|a| (0..SPECS.len()).flat_map(move |p| (0..3).map(move |s| (a, p, s))));
        assert!(indexes.eq(all));
        for row in rows {
            assert_eq!(row.frames, resolved.frames[row.size]);
            let cell = cell(SPECS[row.policy], row.frames, sweep.asymmetries[row.asymmetry].ratio());
            let options = SimOptions { warmup: warm, ..SimOptions::default() };
            let (counts, alone, NoObserver) = simulate_one(&source, &cell, &options, &QUIET, NoObserver).expect("a run");
            assert_eq!((counts, alone), (row.counts, facts), "{cell:?}");
        }
    }
}

#[test]
fn time_lines_end_in_the_counts_whatever_the_threads() {
    const REFERENCES: usize = 321_000;
    const WARMUP: u64 = 1500;
    let (_directory, source) = file(&workload(5, REFERENCES, 400), "t.parquet");
    let sweep = |threads, time_lines| {
        let sweep = Sweep {
            policies: ["lru", "casa", "fd-buffer:interval=300", "belady"].map(|s| s.parse().expect("one")).to_vec(),
            sizes: vec![BufferSize::Frames(40), BufferSize::Frames(60)],
            asymmetries: ["1", "32"].map(|r| r.parse().expect("one")).to_vec(),
            warmup: Warmup::References(WARMUP),
            options: SimOptions { threads, ..ends_free() },
            time_lines,
            device: None,
        };
        sweep.run(&source, &NoStore, &QUIET).expect("a sweep").rows
    };
    let (plain, one, four) = (sweep(1, false), sweep(1, true), sweep(4, true));
    assert_eq!(one.len(), 4 * 2 * 2);
    for ((plain, one), four) in plain.iter().zip(&one).zip(&four) {
        assert_eq!(plain.counts, one.counts, "a time line changes nothing");
        assert!(plain.time_line.is_none());
        let moments = |row: &ebbpool_sim::SweepRow| -> Vec<ebbpool_sim::Moment> {
            let line = row.time_line.as_ref().expect("a time line");
            line.moments().copied().collect()
        };
        let line = moments(one);
        assert_eq!(line, moments(four));
        assert!((100..=ebbpool_sim::MOST_POINTS).contains(&line.len()));
        let last = line.last().expect("a moment");
        assert_eq!(last.references, REFERENCES as u64);
        assert_eq!((last.reads, last.writes), (one.counts.misses, one.counts.writes));
        assert_eq!(last.dirty, one.counts.dirty_left);
        for pair in line.windows(2) {
            assert!(pair[0].references < pair[1].references);
            assert!(pair[0].reads <= pair[1].reads && pair[0].writes <= pair[1].writes);
        }
        for moment in &line {
            assert_eq!(moment.clean + moment.dirty, one.frames, "the buffer is full");
            // Casa and fd-buffer have a target, the others have none.
            assert_eq!(moment.target.is_some(), [1, 2].contains(&one.policy));
        }
    }
}

/// Stores results in memory, and counts the keys that were requested and missing.
#[derive(Default)]
struct MemoryStore {
    stored: RefCell<HashMap<String, Vec<u8>>>,
    missed: std::cell::Cell<usize>,
}

impl ResultStore for MemoryStore {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        let found = self.stored.borrow().get(key).cloned();
        self.missed.set(self.missed.get() + usize::from(found.is_none()));
        found
    }
    fn put(&self, key: &str, value: &[u8]) {
        self.stored.borrow_mut().insert(key.into(), value.into());
    }
}

fn some_policies(time_lines: bool) -> Sweep {
    Sweep {
        policies: ["lru", "cflru", "casa", "fd-buffer:interval=300", "belady"].map(|s| s.parse().expect("one")).to_vec(),
        sizes: vec![BufferSize::Share("10%".parse().expect("a share")), BufferSize::Frames(60)],
        asymmetries: ["1", "32"].map(|r| r.parse().expect("one")).to_vec(),
        warmup: Warmup::Share("1%".parse().expect("a share")),
        options: SimOptions::default(),
        time_lines,
        device: None,
    }
}

#[test]
fn results_in_the_store_are_not_computed_again() {
    let (_directory, source) = file(&workload(9, 20_000, 400), "t.txt");
    let store = MemoryStore::default();
    for time_lines in [false, true] {
        let sweep = some_policies(time_lines);
        let first = sweep.run(&source, &store, &QUIET).expect("a sweep");
        assert_eq!(first.from_store, 0);
        store.missed.set(0);
        let second = sweep.run(&source, &store, &QUIET).expect("a sweep");
        assert_eq!((second.from_store, store.missed.get()), (20, 0));
        assert_eq!(first.facts, second.facts);
        for (first, second) in first.rows.iter().zip(&second.rows) {
            assert_eq!(first.counts, second.counts);
            assert_eq!(first.time_line.is_some(), time_lines);
            assert_eq!(format!("{:?}", first.time_line), format!("{:?}", second.time_line));
        }
    }
    // Results that can no longer be read are computed again.
    for value in store.stored.borrow_mut().values_mut() {
        value.truncate(value.len() / 2);
    }
    let again = some_policies(false).run(&source, &store, &QUIET);
    assert_eq!(again.expect("a sweep").from_store, 0);
}

#[test]
fn an_interrupted_sweep_stores_its_results_and_resumes_from_them() {
    let (_directory, source) = file(&workload(11, 600_000, 400), "t.txt");
    let store = MemoryStore::default();
    let mut sweep = some_policies(false);
    sweep.sizes = vec![BufferSize::Frames(40), BufferSize::Frames(60)];
    sweep.warmup = Warmup::References(0);
    let stop = AtomicBool::new(false);
    let stop_in_the_second_wave = |share| {
        if share > 0.5 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let progress = PassControl { report: &stop_in_the_second_wave, stop: &stop };
    let partly = sweep.run(&source, &store, &progress).expect("a part");
    assert!(partly.interrupted);
    assert!((1..20).contains(&partly.rows.len()));
    let whole = sweep.run(&source, &store, &QUIET).expect("a sweep");
    assert_eq!(whole.from_store, partly.rows.len());
    assert_eq!((whole.rows.len(), whole.interrupted), (20, false));
    let alone = sweep.run(&source, &NoStore, &QUIET).expect("a sweep");
    for (stored, computed) in whole.rows.iter().zip(&alone.rows) {
        assert_eq!(stored.counts, computed.counts);
    }
    for row in &partly.rows {
        let same = |other: &&ebbpool_sim::SweepRow| {
            (other.policy, other.size, other.asymmetry) == (row.policy, row.size, row.asymmetry)
        };
        let other = alone.rows.iter().find(same).expect("the same cell");
        assert_eq!(row.counts, other.counts);
    }

    stop.store(true, Ordering::Relaxed);
    let nothing = sweep.run(&source, &NoStore, &progress);
    assert!(matches!(nothing, Err(SimError::Interrupted)));
}

/// Runs the cell alone, served by the device, with its events.
fn on_device(
    source: &Source,
    cell: &SimCell,
    options: &SimOptions,
    device: AnyDevice,
) -> (ebbpool_sim::Counts, DeviceOutcome, Vec<u8>) {
    let served = DeviceObserver::new(device, options.rate, recorder());
    let (counts, _, served) = simulate_one(source, cell, options, &QUIET, served).expect("a run");
    let (outcome, recorder) = served.finish(&counts, options.at_end);
    (counts, outcome, recorder.events.expect("events").0)
}

#[test]
fn a_plain_device_changes_nothing_and_charges_every_read_and_write() {
    let asymmetry: Asymmetry = "8".parse().expect("one");
    let (_directory, source) = file(&workload(21, 6000, 150), "t.txt");
    for spec in SPECS {
        for (warmup, at_end) in [(0, AtEnd::Free), (700, AtEnd::Flush)] {
            let options = SimOptions { warmup, at_end, ..SimOptions::default() };
            let cell = cell(spec, 20, 8.0);
            let (plain, _, plain_recorder) = simulate_one(&source, &cell, &options, &QUIET, recorder()).expect("a run");
            let device = PlainDevice::from(asymmetry).into();
            let (counts, did, events) = on_device(&source, &cell, &options, device);
            assert_eq!(counts, plain, "{spec}");
            assert_eq!(events, plain_recorder.events.expect("events").0, "{spec}");
            assert_eq!((did.report.reads, did.report.writes), (counts.misses + counts.padding_reads, counts.writes));
            let reads = did.report.reads;
            let bill = asymmetry.bill(reads, counts.writes);
            assert_eq!(did.report.bill().amount, bill);
            assert_eq!(did.failed, None);
        }
    }
}

#[test]
fn policies_follow_costs_that_change() {
    let (directory, source) = file(&workload(22, 8000, 150), "t.txt");
    let changes = directory.path().join("changes.csv");
    let changing = |rows: &str| -> AnyDevice {
        std::fs::write(&changes, format!("reference,R\n{rows}")).expect("a file");
        let spec = format!("file:{}", changes.display());
        let spec: AsymmetrySpec = spec.parse().expect("a file");
        let asymmetry = spec.load(PAPERS_BASE).expect("changes");
        ChangingDevice::new(asymmetry).into()
    };
    let options = ends_free();
    for spec in ["casa", "fd-buffer:interval=200"] {
        let cell = cell(spec, 30, 1.0);
        let (one, _, ones) = on_device(&source, &cell, &options, changing("0,1\n"));
        let (_, _, high) = on_device(&source, &cell, &options, changing("0,64\n"));
        let (half, did, changed) = on_device(&source, &cell, &options, changing("0,1\n4000,64\n"));
        assert_ne!(ones, high, "{spec} looks at costs");
        assert_ne!(changed, ones, "{spec} follows the change");
        assert_ne!(changed, high, "{spec} follows the change when it happens");
        assert_eq!((one.references, half.references), (8000, 8000));
        // Each write is charged at the costs of its epoch.
        let halves = SimOptions { warmup: 4000, ..ends_free() };
        let (later, later_did, _) = on_device(&source, &cell, &halves, changing("0,1\n4000,64\n"));
        let earlier = half.writes - later.writes;
        assert_eq!(later_did.report.write_cost, 64.0 * later.writes as f64);
        assert_eq!(did.report.write_cost, earlier as f64 + 64.0 * later.writes as f64);
    }
}

/// A device with R of the first column from the reference of the second column on.
fn of_epochs(rows: &str) -> AnyDevice {
    let directory = tempfile::tempdir().expect("a directory");
    let changes = directory.path().join("changes.csv");
    std::fs::write(&changes, rows).expect("a file");
    let spec: AsymmetrySpec = format!("file:{}", changes.display()).parse().expect("a file");
    ChangingDevice::new(spec.load(PAPERS_BASE).expect("changes")).into()
}

/// Also where R changes: each run states what the other treatment costs.
#[test]
fn a_device_knows_the_bill_of_the_other_treatment() {
    let (_directory, source) = file(&workload(24, 6000, 150), "t.txt");
    for rows in ["0,1000\n5990,0.1\n", "0,0.1\n5990,1000\n", "0,8\n"] {
        for warmup in [0, 700] {
            let run = |at_end| {
                let options = SimOptions { warmup, at_end, ..SimOptions::default() };
                let (_, did, _) = on_device(&source, &cell("lru", 40, 1.0), &options, of_epochs(rows));
                (did.report.bill().amount, did.cost_otherwise.expect("no failure"))
            };
            let (flush, if_free) = run(AtEnd::Flush);
            let (free, if_flush) = run(AtEnd::Free);
            assert!(flush != free, "{rows}: {flush}");
            for (stated, computed) in [(if_free, free), (if_flush, flush)] {
                assert!((stated / computed - 1.0).abs() < 1e-9, "{rows} after {warmup}: {stated} and {computed}");
            }
        }
    }
}

/// The example of docs/billing.md with another R from the fifth reference on. The write of page 17, which was dirty after the
/// warm-up, is the only one before.
#[test]
fn the_write_of_a_page_dirty_before_is_left_out_at_its_own_price() {
    let references = "R 1\nW 17\nW 1\nR 33\nW 2\nW 33\nR 3\n";
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("example.txt");
    std::fs::write(&path, references).expect("a file");
    let source = Source::parse(path.to_str().expect("UTF-8"), None).expect("a trace");
    for (at_end, bill) in [(AtEnd::Flush, 6.0), (AtEnd::Free, 14.0)] {
        let options = SimOptions { warmup: 2, at_end, ..SimOptions::default() };
        let device = of_epochs("0,9\n4,1\n");
        let (counts, did, _) = on_device(&source, &cell("lru", 2, 1.0), &options, device);
        assert_eq!((counts.writes, did.report.writes), (3, 3));
        assert_eq!(did.report.bill().amount, bill);
    }
}

#[test]
fn a_device_that_waits_draws_its_idle_power() {
    let (_directory, source) = file(&workload(23, 4000, 150), "t.txt");
    let ssd = || -> AnyDevice { DeviceProfile::named("ssd3").expect("one").device().into() };
    let at = |rate: Option<&str>| {
        let options =
            SimOptions { warmup: 1000, rate: rate.map(|rate| rate.parse().expect("a rate")), ..SimOptions::default() };
        on_device(&source, &cell("lru", 20, 1.0), &options, ssd())
    };
    let (counts, busy, events) = at(None);
    assert_eq!(busy.idle_us, Some(0.0));
    let energy = busy.energy.expect("its power is known");
    // Ten references a second: 3,000 of them take 300 s.
    let (slow_counts, slow, slow_events) = at(Some("10"));
    assert_eq!((slow_counts, slow_events), (counts, events));
    let elapsed_us = slow.report.bill().amount + slow.idle_us.expect("times are known");
    assert!((elapsed_us / 300e6 - 1.0).abs() < 1e-4, "{elapsed_us}");
    let waiting = slow.energy.expect("its power is known");
    assert_eq!(waiting.device_busy_j, energy.device_busy_j);
    assert!((waiting.device_idle_j / (0.1 * elapsed_us / 1e6) - 1.0).abs() < 1e-9);
    // Faster than the device: it waits only before the first reference.
    let (_, fast, _) = at(Some("1e9"));
    assert_eq!(fast.energy, busy.energy);
    // A device without times ignores the rate.
    let options = SimOptions { rate: "10".parse().ok(), ..SimOptions::default() };
    let plain = PlainDevice::from("8".parse::<Asymmetry>().expect("one")).into();
    let (_, plain, _) = on_device(&source, &cell("lru", 20, 8.0), &options, plain);
    assert_eq!(plain.idle_us, None);
}

mod whole {
    use super::*;

    #[test]
    fn threads_change_nothing() {
        // More than two chunks.
        let (_directory, source) = file(&workload(1, 600_000, 300), "t.parquet");
        let cells = cells(&[64]);
        let run = |threads| {
            let options = SimOptions { threads, warmup: 1000, ..SimOptions::default() };
            let outcome = simulate(&source, &cells, &options, &QUIET).expect("a simulation");
            (outcome.counts, outcome.facts)
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(4));
        // Other cells in the same pass do not matter either.
        for at in [0, 11, cells.len() - 1] {
            let options = SimOptions { warmup: 1000, ..SimOptions::default() };
            let (counts, facts, NoObserver) = simulate_one(&source, &cells[at], &options, &QUIET, NoObserver).expect("a run");
            assert_eq!((counts, facts), (one.0[at], one.1));
        }
    }
}
