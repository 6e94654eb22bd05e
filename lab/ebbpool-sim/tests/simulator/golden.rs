//! Golden results: everything that sweeps and curves store, in `tests/golden/`, as one JSON object
//! by key.
//!
//! A store returns results of the same code only, so they may change with the code. After a
//! deliberate change,
//!
//! ```text
//! cargo test -p ebbpool-sim --test simulator golden:: -- --ignored
//! ```
//!
//! writes the file anew. `docs/formats.md` describes it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ebbpool_device::{AnyDevice, DeviceProfile};
use ebbpool_sim::{
    BufferSize, CurveOptions, Curves, DeviceAtStart, Estimate, NoStore, PassControl, ResultStore, SimOptions, SimPolicy, Sweep,
    SweepRow, Warmup,
};
use ebbpool_trace::Source;
use serde_json::Value;

static NEVER_STOP: AtomicBool = AtomicBool::new(false);

const QUIET: PassControl = PassControl { report: &|_| {}, stop: &NEVER_STOP };

/// Stores results in memory, and records the keys that were requested and missing.
#[derive(Default)]
struct MemoryStore {
    stored: RefCell<BTreeMap<String, Value>>,
    missed: RefCell<Vec<String>>,
}

impl ResultStore for MemoryStore {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        match self.stored.borrow().get(key) {
            Some(value) => serde_json::to_vec(value).ok(),
            None => {
                self.missed.borrow_mut().push(key.into());
                None
            }
        }
    }
    fn put(&self, key: &str, value: &[u8]) {
        let value = serde_json::from_slice(value).expect("results are JSON");
        self.stored.borrow_mut().insert(key.into(), value);
    }
}

fn source() -> Source {
    Source::parse("zipf:pages=40,refs=2000,write=0.3,seed=3", None).expect("a trace")
}

fn policy(spec: &str) -> SimPolicy {
    spec.parse().expect("a policy")
}

/// The rows of a sweep without a device and of one with a device.
fn rows(store: &dyn ResultStore) -> Vec<SweepRow> {
    let profile = DeviceProfile::named("flash-136").expect("a profile");
    let device = DeviceAtStart::from(AnyDevice::from(profile.device()));
    let sweep = |time_lines, device| Sweep {
        policies: vec![policy("lru"), policy("casa")],
        sizes: vec![BufferSize::Frames(10)],
        asymmetries: vec!["8".parse().expect("an asymmetry")],
        warmup: Warmup::References(100),
        options: SimOptions::default(),
        time_lines,
        device,
    };
    let run = |sweep: Sweep| sweep.run(&source(), store, &QUIET).expect("results").rows;
    [run(sweep(true, None)), run(sweep(false, Some(device)))].concat()
}

fn estimates(store: &dyn ResultStore) -> Vec<Estimate> {
    let curve_options =
        CurveOptions { warmup: Warmup::References(100), options: SimOptions::default(), asymmetry: 8.0, sample: Some(0.5) };
    let source = source();
    let mut curves = Curves::new(&source, store, &curve_options, &QUIET).expect("curves");
    let policies = [policy("lru"), policy("cflru")];
    let requests: Vec<(&SimPolicy, u64)> = policies.iter().map(|policy| (policy, 12)).collect();
    curves.estimates_at(&requests, &QUIET).expect("estimates")
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results.json")
}

#[test]
fn stored_results_are_read() {
    let golden = fs::read(path()).expect("tests/golden/results.json");
    let store = MemoryStore::default();
    *store.stored.borrow_mut() = serde_json::from_slice(&golden).expect("JSON");
    let (rows, estimates) = (rows(&store), estimates(&store));
    assert_eq!(*store.missed.borrow(), [] as [String; 0]);
    assert_eq!(format!("{rows:#?}"), format!("{:#?}", self::rows(&NoStore)));
    assert_eq!(estimates, self::estimates(&NoStore));
}

#[test]
fn golden_results_are_what_the_code_stores() {
    let store = MemoryStore::default();
    rows(&store);
    estimates(&store);
    let golden = fs::read(path()).expect("tests/golden/results.json");
    let golden: BTreeMap<String, Value> = serde_json::from_slice(&golden).expect("JSON");
    let stored = store.stored.borrow();
    let others = stored.iter().filter(|(key, value)| golden.get(*key) != Some(*value)).map(|(key, _)| key);
    let others: Vec<&String> = others.chain(golden.keys().filter(|key| !stored.contains_key(*key))).collect();
    assert!(
        others.is_empty(),
        "{others:?} are stored otherwise; where that is meant, `cargo test -p ebbpool-sim --test simulator golden -- --ignored` \
         writes the file anew"
    );
}

#[test]
#[ignore = "writes the golden file"]
fn write_golden_files() {
    let store = MemoryStore::default();
    rows(&store);
    estimates(&store);
    let text = serde_json::to_string_pretty(&*store.stored.borrow()).expect("JSON");
    fs::write(path(), text + "\n").expect("the file is written");
}
