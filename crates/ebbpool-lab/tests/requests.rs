//! Tests invalid requests, interrupted work and stored results.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ebbpool_lab::{
    CompareRequest, ErrorKind, Lab, LabError, LabEvents, MemorySize, Note, PolicySelection,
    PricingRequest, RequestError, ResultDirectory, RunRequest, Settings, Silent,
};
use ebbpool_trace::Source;

fn source(text: &str) -> Source {
    Source::parse(text, None).expect("a trace")
}

fn request(policies: &str, pricing: Vec<PricingRequest>) -> CompareRequest {
    let sizes = vec!["5%".parse().expect("a size"), MemorySize::frames(3)];
    CompareRequest::new(PolicySelection::lists([policies]), sizes, pricing)
}

fn r(text: &str) -> PricingRequest {
    PricingRequest::Asymmetry(text.parse().expect("an asymmetry"))
}

#[test]
fn invalid_requests_are_refused_before_the_trace_is_read() {
    let device = || PricingRequest::new(None, Some("flash-136")).expect("a device");
    let bound = |mut request: CompareRequest| {
        request.bound = true;
        request.check()
    };
    assert_eq!(
        bound(request("lru", vec![device()])),
        Err(RequestError::BoundOnDevice)
    );
    assert!(matches!(
        bound(request("lru", vec![r("8"), r("rm1")])),
        Err(RequestError::BoundOfChanges(_))
    ));
    assert_eq!(
        request("", vec![r("8")]).check(),
        Err(RequestError::NoPolicy)
    );
    assert!(matches!(
        request("lur", vec![r("8")]).check(),
        Err(RequestError::Policy(_))
    ));
    assert!(matches!(
        request("cflru-e", vec![r("8")]).check(),
        Err(RequestError::NoEraseCounts { .. })
    ));
    let both = |asymmetry: &str, device| {
        let asymmetry = asymmetry.parse().expect("an asymmetry");
        PricingRequest::new(Some(asymmetry), Some(device))
    };
    assert_eq!(both("8", "flash-136"), Err(RequestError::AsymmetryOfDevice));
    let simulated = both("rm1", "flash:slc-mt29f4g08aaa");
    assert_eq!(simulated, Err(RequestError::AsymmetryOfSimulatedDevice));
    assert!(both("rm1", "flash-136").is_ok());
    // The library's messages do not name options of the command.
    for error in [RequestError::NoPolicy, RequestError::BoundOnDevice] {
        assert!(!error.to_string().contains("--"), "{error}");
    }
}

/// Stops the work after a number of progress reports.
struct StopAfterReports {
    left: AtomicUsize,
    stop: AtomicBool,
}

impl LabEvents for StopAfterReports {
    fn progress(&self, _: &str, _: f64) {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        self.stop.store(left <= 1, Ordering::Relaxed);
    }

    fn stop(&self) -> &AtomicBool {
        &self.stop
    }
}

#[test]
fn work_stops_when_the_caller_sets_the_flag() {
    let long = source("zipf:pages=5000,refs=3000000");
    for reports in [1, 2, 4] {
        let events = StopAfterReports {
            left: AtomicUsize::new(reports),
            stop: AtomicBool::new(false),
        };
        let lab = Lab::new(Settings::default().threads(2), &events);
        let run = RunRequest::new("lru", MemorySize::frames(50), PricingRequest::default());
        let stopped = lab.run(&long, &run).expect_err("stopped");
        assert_eq!(stopped.kind(), ErrorKind::Interrupted, "{stopped}");
    }
    let events = StopAfterReports {
        left: AtomicUsize::new(1),
        stop: AtomicBool::new(false),
    };
    let lab = Lab::new(Settings::default(), &events);
    let stopped = lab.compare(&long, &request("lru,ebb", vec![r("8")]));
    assert!(stopped.is_err_and(|error: LabError| error.is_interrupted()));
}

/// Counts the results from the store.
#[derive(Default)]
struct StoredResultCounter(AtomicUsize);

impl LabEvents for StoredResultCounter {
    fn note(&self, note: &Note) {
        if let Note::StoredResults { stored, .. } = note {
            self.0.store(*stored, Ordering::Relaxed);
        }
    }
}

#[test]
fn stored_results_are_found_by_their_parameters() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = source("zipf:pages=300,refs=5000");
    let from_store = |policies: &str, ratio: &str| {
        let events = StoredResultCounter::default();
        let settings = Settings::default().results(Some(ResultDirectory::new(directory.path())));
        let lab = Lab::new(settings, &events);
        let request = request(policies, vec![r(ratio)]);
        let comparison = lab.compare(&trace, &request).expect("results");
        let without_store = Lab::new(Settings::default(), &Silent);
        let computed = without_store.compare(&trace, &request).expect("results");
        let costs = |of: &ebbpool_lab::Comparison| -> Vec<f64> {
            of.finished().map(|result| result.cost).collect()
        };
        assert_eq!(costs(&comparison), costs(&computed));
        events.0.load(Ordering::Relaxed)
    };
    assert_eq!(from_store("lru,ebb", "8"), 0);
    assert_eq!(from_store("lru,ebb", "8"), 4);
    // LRU ignores costs, ebb uses them.
    assert_eq!(from_store("lru,ebb", "9"), 2);
    assert_eq!(from_store("cflru", "8"), 0);
}

#[test]
fn answers_can_go_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<ebbpool_lab::Comparison>();
    is_send::<ebbpool_lab::CurveStudy>();
    is_send::<ebbpool_lab::BoundResult>();
    is_send::<ebbpool_lab::RunOutcome>();
    is_send::<LabError>();
}
