//! Tests invalid requests, interrupted work and stored results.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ebbpool_lab::advise::NoteKind;
use ebbpool_lab::{
    AdviseRequest, BoundRequest, BoundResult, CompareRequest, CurveRequest, ErrorKind, Lab, LabError, LabEvents, MemorySize,
    Note, Observer, PolicySelection, PolicySpec, PricingRequest, RequestError, ResultDirectory, RunRequest, Sample, Settings,
    Silent, Source,
};

fn source(text: &str) -> Source {
    Source::parse(text, None).expect("a trace")
}

fn request(policies: &str, pricing: Vec<PricingRequest>) -> CompareRequest {
    let sizes = vec!["5%".parse().expect("a size"), MemorySize::frames(3)];
    CompareRequest::new(PolicySelection::lists([policies]), sizes, pricing)
}

fn policy(text: &str) -> PolicySpec {
    text.parse().expect("a policy")
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
    assert_eq!(bound(request("lru", vec![device()])), Err(RequestError::BoundOnDevice));
    assert!(matches!(bound(request("lru", vec![r("8"), r("rm1")])), Err(RequestError::BoundOfChanges(_))));
    assert_eq!(request("", vec![r("8")]).check(), Err(RequestError::NoPolicy));
    assert!(matches!(request("lur", vec![r("8")]).check(), Err(RequestError::Policy(_))));
    assert!(matches!(request("cflru-e", vec![r("8")]).check(), Err(RequestError::NoEraseCounts { .. })));
    let both = |asymmetry: &str, device| {
        let asymmetry = asymmetry.parse().expect("an asymmetry");
        PricingRequest::new(Some(asymmetry), Some(device))
    };
    assert_eq!(both("8", "flash-136"), Err(RequestError::AsymmetryOfDevice));
    let simulated = both("rm1", "flash:slc-mt29f4g08aaa");
    assert_eq!(simulated, Err(RequestError::AsymmetryOfSimulatedDevice));
    assert!(both("rm1", "flash-136").is_ok());
    // The library's messages do not name options of the command.
    let mut without_sizes = request("lru", vec![r("8")]);
    without_sizes.sizes.clear();
    assert_eq!(without_sizes.check(), Err(RequestError::NoSize));
    assert_eq!(request("lru", Vec::new()).check(), Err(RequestError::NoPrice));
    for error in [RequestError::NoPolicy, RequestError::NoSize, RequestError::BoundOnDevice] {
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
        let events = StopAfterReports { left: AtomicUsize::new(reports), stop: AtomicBool::new(false) };
        let lab = Lab::new(Settings::default().threads(2), &events);
        let run = RunRequest::new(policy("lru"), MemorySize::frames(50), PricingRequest::default());
        let stopped = lab.run(&long, &run).expect_err("stopped");
        assert_eq!(stopped.kind(), ErrorKind::Interrupted, "{stopped}");
    }
    let events = StopAfterReports { left: AtomicUsize::new(1), stop: AtomicBool::new(false) };
    let lab = Lab::new(Settings::default(), &events);
    let stopped = lab.compare(&long, &request("lru,ebb", vec![r("8")]));
    assert!(stopped.is_err_and(|error: LabError| error.is_interrupted()));
}

/// Collects the notes.
#[derive(Default)]
struct NoteCollector(std::sync::Mutex<Vec<Note>>);

impl LabEvents for NoteCollector {
    fn note(&self, note: &Note) {
        self.0.lock().expect("notes").push(note.clone());
    }
}

#[test]
fn results_over_a_trace_below_a_cache_say_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("below.txt");
    let references = "R 1\nW 2\nR 3\nR 1\n".repeat(50);
    for (mark, expected) in [("", 0), ("# ebbpool.below_cache=true\n", 1)] {
        std::fs::write(&path, format!("{mark}{references}")).expect("a file");
        let trace = source(path.to_str().expect("UTF-8"));
        let notes = |question: &dyn Fn(&Lab)| {
            let events = NoteCollector::default();
            question(&Lab::new(Settings::default(), &events));
            let notes = events.0.into_inner().expect("notes");
            let below = |note: &&Note| matches!(note, Note::BelowCache { .. });
            for note in notes.iter().filter(below) {
                let text = note.to_string();
                assert!(text.contains("below.txt: its references are those that missed"), "{text}");
            }
            notes.iter().filter(below).count()
        };
        let compared = notes(&|lab| drop(lab.compare(&trace, &request("lru,ebb", vec![r("8")]))));
        let ran = notes(&|lab| {
            let run = RunRequest::new(policy("lru"), MemorySize::frames(2), PricingRequest::default());
            lab.run(&trace, &run).expect("a result");
        });
        let curved = notes(&|lab| {
            let policies = PolicySelection::lists(["lru"]);
            let curve = CurveRequest::new(policies, "8".parse().expect("an asymmetry"));
            lab.curve(&trace, &curve).expect("a study");
        });
        let bounded = notes(&|lab| {
            let asymmetries = vec!["8".parse().expect("an asymmetry")];
            let mut bound = BoundRequest::new(vec![MemorySize::frames(2)], asymmetries);
            bound.at_end = ebbpool_lab::AtEnd::Free;
            lab.bound(&trace, &bound).expect("a bound");
        });
        assert_eq!([compared, ran, curved, bounded], [expected; 4]);
        let advice = notes(&|lab| {
            let mut request = AdviseRequest::new(r("8"));
            request.frames = Some(MemorySize::frames(2));
            let advice = lab.advise(&trace, &request).expect("an advice");
            let kinds = advice.warnings.iter().map(|note| note.kind);
            let below = kinds.filter(|&kind| kind == NoteKind::BelowCache).count();
            assert_eq!(below, expected);
        });
        assert_eq!(advice, 0, "the advice has it among its warnings");
    }
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
    let trace = source("zipf:pages=300,refs=2000");
    let from_store = |policies: &str, ratio: &str| {
        let events = StoredResultCounter::default();
        let settings = Settings::default().results(Some(ResultDirectory::new(directory.path())));
        let lab = Lab::new(settings, &events);
        let request = request(policies, vec![r(ratio)]);
        let comparison = lab.compare(&trace, &request).expect("results");
        let without_store = Lab::new(Settings::default(), &Silent);
        let computed = without_store.compare(&trace, &request).expect("results");
        let costs = |of: &ebbpool_lab::Comparison| -> Vec<f64> { of.finished().map(|result| result.cost).collect() };
        assert_eq!(costs(&comparison), costs(&computed));
        events.0.load(Ordering::Relaxed)
    };
    assert_eq!(from_store("lru,ebb", "8"), 0);
    assert_eq!(from_store("lru,ebb", "8"), 4);
    // LRU ignores costs, ebb uses them.
    assert_eq!(from_store("lru,ebb", "9"), 2);
    assert_eq!(from_store("cflru", "8"), 0);
}

/// The number of results from the store in the answers of a lab with results in `directory`.
fn stored_results_of<T>(directory: &tempfile::TempDir, ask: impl FnOnce(&Lab) -> Result<T, LabError>) -> (T, usize) {
    let events = StoredResultCounter::default();
    let settings = Settings::default().results(Some(ResultDirectory::new(directory.path())));
    let answer = ask(&Lab::new(settings, &events)).expect("an answer");
    (answer, events.0.load(Ordering::Relaxed))
}

#[test]
fn a_report_after_a_comparison_runs_no_policy_again() {
    let trace = source("zipf:pages=300,refs=5000,write=0.4");
    let device = |name| vec![PricingRequest::new(None, Some(name)).expect("a device")];
    let flash = "flash:slc-mt29f4g08aaa,blocks=32,page_size=2048";
    for (pricing, all) in [
        (vec![r("8"), r("32")], 12),
        (vec![r("rm1:base=25,epoch=700"), r("2")], 12),
        (device("emmc-5.1"), 6),
        (device(flash), 6),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut request = request("lru,casa,belady", pricing);
        let (table, stored) = stored_results_of(&directory, |lab| lab.compare(&trace, &request));
        assert_eq!((table.rows().count(), stored), (all, 0));
        request.for_report = true;
        let (report, stored) = stored_results_of(&directory, |lab| lab.compare(&trace, &request));
        assert_eq!(stored, all, "{:?}", request.pricing);
        assert!(report.info.is_some());
        for (row, before) in report.rows().zip(table.rows()) {
            assert_eq!(row.counts, before.counts);
            assert_eq!(row.device.is_some(), before.device.is_some());
            let line = row.time_line.as_ref().expect("a time line");
            let last = line.moments().last().expect("a moment");
            assert_eq!((last.references, last.reads), (5000, row.counts.misses));
        }
        // A report without the table before has the same page.
        let alone = Lab::new(Settings::default(), &Silent).compare(&trace, &request);
        let page = |comparison| {
            ebbpool_lab::report::page(&[comparison], &[], &ebbpool_lab::report::ReportOptions::default()).expect("a page")
        };
        assert_eq!(page(alone.expect("results")), page(report));
    }
}

fn json(bounds: &[BoundResult]) -> String {
    serde_json::to_string(bounds).expect("JSON")
}

#[test]
fn bounds_are_stored_for_bound_and_compare_alike() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = source("zipf:pages=300,refs=1500,write=0.4");
    let asymmetry = |text: &str| text.parse().expect("an asymmetry");
    let sizes = vec!["5%".parse().expect("a size"), MemorySize::frames(3)];
    let ask = |asymmetries: &[&str]| {
        let asymmetries = asymmetries.iter().map(|text| asymmetry(text)).collect();
        let request = BoundRequest::new(sizes.clone(), asymmetries);
        stored_results_of(&directory, |lab| lab.bound(&trace, &request))
    };
    let (first, stored) = ask(&["8"]);
    assert_eq!((first.len(), stored), (2, 0));
    let (second, stored) = ask(&["8"]);
    assert_eq!(stored, 2);
    assert_eq!(json(&second), json(&first), "to the last digit");
    assert!(first.iter().all(|bound| bound.heuristic.is_some()));
    // The order is that of the request, whichever are stored.
    let (more, stored) = ask(&["2", "8"]);
    assert_eq!((more.len(), stored), (4, 2));
    assert_eq!(json(&more[2..]), json(&first));

    let mut request = request("lru", vec![r("2"), r("16")]);
    request.bound = true;
    let (comparison, _) = stored_results_of(&directory, |lab| lab.compare(&trace, &request));
    let bounds = comparison.bounds.expect("bounds");
    assert_eq!(bounds[..2], [more[0].lower_bound, more[1].lower_bound]);
    let (found, stored) = ask(&["16"]);
    assert_eq!(stored, 2, "compare has stored them with all that bound prints");
    assert_eq!(bounds[2..], [found[0].lower_bound, found[1].lower_bound]);
    assert!(found.iter().all(|bound| bound.heuristic_policy.is_some() && bound.seconds > 0.0));

    // The same after a warm-up.
    request.counting.warmup = "10%".parse().expect("a warm-up");
    let (comparison, _) = stored_results_of(&directory, |lab| lab.compare(&trace, &request));
    let mut warm = BoundRequest::new(sizes.clone(), vec![asymmetry("2"), asymmetry("16")]);
    warm.warmup = request.counting.warmup;
    let (found, stored) = stored_results_of(&directory, |lab| lab.bound(&trace, &warm));
    assert_eq!(stored, 4);
    let found: Vec<f64> = found.iter().map(|bound| bound.lower_bound).collect();
    assert_eq!(comparison.bounds, Some(found.clone()));
    assert!(found.iter().zip(&bounds).all(|(warm, cold)| warm < cold));

    let mut free = BoundRequest::new(sizes.clone(), vec![asymmetry("8")]);
    free.at_end = ebbpool_lab::AtEnd::Free;
    let (_, stored) = stored_results_of(&directory, |lab| lab.bound(&trace, &free));
    assert_eq!(stored, 0);
}

/// Stops the work when the searches have done a share of it.
struct StopAtShare {
    share: f64,
    stop: AtomicBool,
}

impl LabEvents for StopAtShare {
    fn progress(&self, _: &str, share: f64) {
        if share >= self.share {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn stop(&self) -> &AtomicBool {
        &self.stop
    }
}

#[test]
fn bounds_finished_before_an_interruption_are_stored() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = source("zipf:pages=300,refs=5000,write=0.4");
    let sizes = (1..=4).map(|frames| MemorySize::frames(10 * frames)).collect();
    let request = BoundRequest::new(sizes, vec!["8".parse().expect("an asymmetry")]);
    let events = StopAtShare { share: 0.6, stop: AtomicBool::new(false) };
    let settings = Settings::default().results(Some(ResultDirectory::new(directory.path())));
    let lab = Lab::new(settings.threads(1), &events);
    let part = lab.bound(&trace, &request).expect("the best bounds so far");
    let finished = part.iter().filter(|bound| !bound.interrupted).count();
    assert!((1..4).contains(&finished), "{finished}");
    let (whole, stored) = stored_results_of(&directory, |lab| lab.bound(&trace, &request));
    assert_eq!(stored, finished);
    assert!(whole.iter().all(|bound| !bound.interrupted));
}

#[test]
fn a_program_selects_policies_by_their_values() {
    let trace = source("zipf:pages=300,refs=2000,write=0.4");
    let lab = Lab::new(Settings::default(), &Silent);
    let mut request = request("lru,fd-exact", vec![r("8")]);
    let spelled = lab.compare(&trace, &request).expect("results");
    let names = ["lru", "fd-buffer:cost=exact", "fd-exact"];
    request.policies = PolicySelection::specs(names.map(policy));
    request.time_lines = false;
    let selected = lab.compare(&trace, &request).expect("results");
    assert_eq!(selected.policies, spelled.policies);
    for (row, other) in selected.rows().zip(spelled.rows()) {
        assert_eq!(row.counts, other.counts);
        assert!(row.time_line.is_none() && other.time_line.is_some());
    }
    request.policies = PolicySelection::specs([]);
    let none = lab.compare(&trace, &request).expect_err("no policy");
    assert!(matches!(none, LabError::Request(RequestError::NoPolicy)));
}

#[test]
fn an_observer_of_a_run_gets_its_state() {
    #[derive(Default)]
    struct LastSample(u64, u64);
    impl Observer for LastSample {
        const LISTENS: bool = true;
        fn counting(&mut self) {}
        fn write(&mut self, _page: u64) {}
        fn evict(&mut self, _page: u64) {}
        fn sample(&mut self, sample: &Sample) {
            *self = LastSample(sample.references, sample.reads);
        }
    }
    let trace = source("zipf:pages=300,refs=5000,write=0.4");
    let size = MemorySize::frames(20);
    let request = RunRequest::new(policy("lru"), size, PricingRequest::default());
    let lab = Lab::new(Settings::default(), &Silent);
    let (outcome, last) = lab.run_observed(&trace, &request, LastSample::default()).expect("a run");
    assert_eq!((last.0, last.1), (5000, outcome.result.reads));
    let plain = lab.run(&trace, &request).expect("a run");
    assert_eq!(plain.result.writes, outcome.result.writes);
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
