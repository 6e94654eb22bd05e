//! Golden results: all that sweeps and curves give a store to keep, in `tests/golden/`, as one JSON object by key.
//!
//! A store finds results of the same code only, so they may change with it. After a deliberate change:
//!
//! ```text
//! cargo test -p ebbpool-sim --test golden -- --ignored
//! ```
//!
//! writes the file anew. `docs/formats.md` says what is in it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ebbpool_device::{AnyDevice, DeviceProfile};
use ebbpool_policy::PolicySpec;
use ebbpool_sim::{
    CurveOptions, Curves, DeviceAtStart, Estimate, NoStore, Options, Progress, Row, Size, Store,
    Sweep, Warmup,
};
use ebbpool_trace::Source;
use serde_json::Value;

static GO_ON: AtomicBool = AtomicBool::new(false);

const QUIET: Progress = Progress {
    report: &|_| {},
    stop: &GO_ON,
};

/// Keeps results in memory, and counts what was asked for and not there.
#[derive(Default)]
struct Map {
    kept: RefCell<BTreeMap<String, Value>>,
    missed: RefCell<Vec<String>>,
}

impl Store for Map {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        match self.kept.borrow().get(key) {
            Some(value) => serde_json::to_vec(value).ok(),
            None => {
                self.missed.borrow_mut().push(key.into());
                None
            }
        }
    }
    fn put(&self, key: &str, value: &[u8]) {
        let value = serde_json::from_slice(value).expect("results are JSON");
        self.kept.borrow_mut().insert(key.into(), value);
    }
}

fn source() -> Source {
    Source::parse("zipf:pages=40,refs=2000,write=0.3,seed=3", None).expect("a trace")
}

fn policy(spec: &str) -> PolicySpec {
    spec.parse().expect("a policy")
}

/// Plain, and on a device.
fn rows(store: &dyn Store) -> Vec<Row> {
    let profile = DeviceProfile::named("flash-136").expect("a profile");
    let device = DeviceAtStart::from(AnyDevice::from(profile.device()));
    let sweep = |time_lines, device| Sweep {
        policies: vec![policy("lru"), policy("casa")],
        sizes: vec![Size::Frames(10)],
        asymmetries: vec!["8".parse().expect("an asymmetry")],
        warmup: Warmup::References(100),
        options: Options::default(),
        time_lines,
        device,
    };
    let run = |sweep: Sweep| sweep.run(&source(), store, &QUIET).expect("results").rows;
    [run(sweep(true, None)), run(sweep(false, Some(device)))].concat()
}

fn estimates(store: &dyn Store) -> Vec<Estimate> {
    let asked = CurveOptions {
        warmup: Warmup::References(100),
        options: Options::default(),
        asymmetry: 8.0,
        sample: Some(0.5),
    };
    let source = source();
    let mut curves = Curves::new(&source, store, &asked, &QUIET).expect("curves");
    let policies = [policy("lru"), policy("cflru")];
    let wanted: Vec<(&PolicySpec, u64)> = policies.iter().map(|policy| (policy, 12)).collect();
    curves.at(&wanted, &QUIET).expect("estimates")
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results.json")
}

#[test]
fn kept_results_are_read() {
    let golden = fs::read(path()).expect("tests/golden/results.json");
    let store = Map::default();
    *store.kept.borrow_mut() = serde_json::from_slice(&golden).expect("JSON");
    let (rows, estimates) = (rows(&store), estimates(&store));
    assert_eq!(*store.missed.borrow(), [] as [String; 0]);
    assert_eq!(format!("{rows:#?}"), format!("{:#?}", self::rows(&NoStore)));
    assert_eq!(estimates, self::estimates(&NoStore));
}

#[test]
fn golden_results_are_what_is_kept_today() {
    let store = Map::default();
    rows(&store);
    estimates(&store);
    let golden = fs::read(path()).expect("tests/golden/results.json");
    let golden: BTreeMap<String, Value> = serde_json::from_slice(&golden).expect("JSON");
    assert_eq!(*store.kept.borrow(), golden);
}

#[test]
#[ignore = "writes the golden file"]
fn write_golden_files() {
    let store = Map::default();
    rows(&store);
    estimates(&store);
    let text = serde_json::to_string_pretty(&*store.kept.borrow()).expect("JSON");
    fs::write(path(), text + "\n").expect("the file is written");
}
