//! Policies and stores of the caller in comparisons.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::sync::{Arc, Mutex};

use ebbpool_lab::guest::{Access, Capabilities, Frame, GuestEngine, GuestHost, GuestPolicy, Page, Policy};
use ebbpool_lab::{
    CompareRequest, Comparison, CurveRequest, Lab, LabError, MemorySize, PolicySelection, PricingRequest, RequestError,
    ResultStorage, Settings, SharedStore, Silent, SimError, Source,
};

/// First in, first out.
#[derive(Default)]
struct Queue(VecDeque<Frame>);

impl Policy for Queue {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn hit(&mut self, _frame: Frame, _access: Access) {}
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.0.iter().copied().find(|&frame| may_evict(frame))
    }
    fn admit(&mut self, frame: Frame, _page: Page, _access: Access) {
        self.0.push_back(frame);
    }
    fn evicted(&mut self, frame: Frame) {
        self.0.retain(|&other| other != frame);
    }
    fn cleaned(&mut self, _frame: Frame) {}
}

#[derive(Debug)]
struct QueueGuest {
    looks_at_costs: bool,
    refuses: bool,
}

impl GuestPolicy for QueueGuest {
    fn name(&self) -> &str {
        "queue"
    }
    fn looks_at_costs(&self) -> bool {
        self.looks_at_costs
    }
    fn make<'o>(&self, _frames: u32, host: GuestHost<'o>) -> Result<GuestEngine<'o>, Box<dyn Error + Send + Sync>> {
        match self.refuses {
            true => Err("no".into()),
            false => Ok(host.run(Queue::default())),
        }
    }
}

fn source() -> Source {
    Source::parse("zipf:pages=1000,refs=20000,write=0.3", None).expect("a generator")
}

fn request(policies: &str, guest: QueueGuest, prices: &[PricingRequest]) -> CompareRequest {
    let sizes = ["2%", "100"].map(|size| size.parse::<MemorySize>().expect("a size"));
    let mut request = CompareRequest::new(PolicySelection::lists([policies]), sizes.to_vec(), prices.to_vec());
    request.guests = vec![Arc::new(guest)];
    request
}

fn asymmetries() -> Vec<PricingRequest> {
    let price = |text: &str| PricingRequest::Asymmetry(text.parse().expect("an asymmetry"));
    vec![price("1"), price("8"), price("rm1:base=8,epoch=1000")]
}

fn queue(looks_at_costs: bool) -> QueueGuest {
    QueueGuest { looks_at_costs, refuses: false }
}

/// Frames, R, reads, writes and bill of a policy's results.
fn figures(comparison: &Comparison, policy: &str) -> Vec<(u64, f64, u64, u64, f64)> {
    let results = comparison.finished();
    let results = results.filter(|result| result.policy == policy);
    results.map(|one| (one.frames, one.asymmetry.0, one.reads, one.writes, one.cost)).collect()
}

#[test]
fn guests_have_results_behind_those_of_the_registry() {
    let device = PricingRequest::new(None, Some("flash-136")).expect("a device");
    for prices in [asymmetries(), vec![device]] {
        for looks_at_costs in [false, true] {
            let lab = Lab::new(Settings::default(), &Silent);
            let asked = request("fifo", queue(looks_at_costs), &prices);
            let answer = lab.compare(&source(), &asked).expect("an answer");
            assert_eq!(answer.policies, ["fifo", "queue"]);
            assert!(!answer.interrupted);
            assert_eq!(answer.finished().count(), 4 * prices.len());
            assert_eq!(figures(&answer, "queue"), figures(&answer, "fifo"));
        }
    }
}

#[test]
fn guests_alone_need_no_policy_of_the_registry() {
    let lab = Lab::new(Settings::default(), &Silent);
    let both = lab.compare(&source(), &request("fifo", queue(false), &asymmetries()));
    let both = both.expect("an answer");
    let alone = lab.compare(&source(), &request("", queue(false), &asymmetries()));
    let alone = alone.expect("an answer");
    assert_eq!(alone.policies, ["queue"]);
    assert_eq!(alone.facts, both.facts);
    assert_eq!(figures(&alone, "queue"), figures(&both, "queue"));
    let mut nothing = request("", queue(false), &asymmetries());
    nothing.guests = Vec::new();
    let refused = lab.compare(&source(), &nothing).expect_err("no policy");
    assert!(matches!(refused, LabError::Request(RequestError::NoPolicy)));
}

#[test]
fn a_study_of_curves_has_guests_behind_the_others() {
    let lab = Lab::new(Settings::default(), &Silent);
    let mut request = CurveRequest::new(PolicySelection::lists(["fifo"]), "8".parse().expect("an asymmetry"));
    request.guests = vec![Arc::new(queue(false))];
    request.target = Some("writes -20%".parse().expect("a target"));
    request.baseline = ("fifo".into(), MemorySize::frames(100));
    let study = lab.curve(&source(), &request).expect("curves");
    let names: Vec<String> = study.policies.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["fifo", "queue"]);
    assert_eq!(study.estimates[0], study.estimates[1]);
    let answer = study.answer.as_ref().expect("an answer");
    assert!(answer.smallest[0].is_some() && answer.smallest[0] == answer.smallest[1]);
    assert!(study.sentence().contains("queue needs"));
    let report = study.clone().into_comparison();
    assert_eq!(report.policies, ["fifo", "queue"]);
}

#[test]
fn a_replay_has_guests_behind_the_others() {
    use ebbpool_lab::replay::{ReplayOutputs, ReplayRequest};

    let lab = Lab::new(Settings::default(), &Silent);
    let request = |refuses| {
        let mut request = ReplayRequest::new(PolicySelection::lists(["fifo"]), MemorySize::frames(50));
        request.guests = vec![Arc::new(QueueGuest { looks_at_costs: false, refuses })];
        request.asymmetry = Some("8".parse().expect("an asymmetry"));
        request
    };
    let outputs = ReplayOutputs::default();
    let replayed = lab.replay(&source(), &request(false), &outputs);
    let results = replayed.and_then(ebbpool_lab::replay::ReplayStudy::into_result);
    let results = results.expect("results");
    let figures = |at: usize| {
        let one = &results[at].result;
        (one.hits, one.reads, one.writes, one.cost)
    };
    assert_eq!(results[1].result.policy, "queue");
    assert_eq!(figures(0), figures(1));
    let refused = lab.replay(&source(), &request(true), &outputs);
    let refused = refused.and_then(ebbpool_lab::replay::ReplayStudy::into_result);
    assert!(refused.is_err_and(|error| error.to_string().contains("no")));
}

#[test]
fn a_guest_that_cannot_be_made_is_an_error() {
    let lab = Lab::new(Settings::default(), &Silent);
    let refuses = QueueGuest { looks_at_costs: false, refuses: true };
    let refused = lab.compare(&source(), &request("fifo", refuses, &asymmetries()));
    match refused.expect_err("no policy is made") {
        LabError::Sim(SimError::Guest { policy, source }) => {
            assert_eq!((policy.as_str(), source.to_string().as_str()), ("queue", "no"));
        }
        other => panic!("{other}"),
    }
}

#[derive(Default)]
struct InMemory(Mutex<HashMap<String, Vec<u8>>>);

impl SharedStore for InMemory {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.0.lock().expect("no panic").get(key).cloned()
    }
    fn put(&self, key: &str, value: &[u8]) {
        let mut values = self.0.lock().expect("no panic");
        values.insert(key.into(), value.into());
    }
}

#[test]
fn results_go_to_a_store_of_the_caller_and_those_of_guests_do_not() {
    let store = Arc::new(InMemory::default());
    let shared: Arc<dyn SharedStore> = store.clone();
    let settings = Settings::default().storage(Some(ResultStorage::Shared(shared)));
    let compare = |settings: &Settings, asked: &CompareRequest| {
        let lab = Lab::new(settings.clone(), &Silent);
        lab.compare(&source(), asked).expect("an answer")
    };
    let guests = request("", queue(false), &asymmetries());
    compare(&settings, &guests);
    let cells = |store: &InMemory| {
        let values = store.0.lock().expect("no panic");
        let is_cell = |value: &&Vec<u8>| String::from_utf8_lossy(value).contains("\"counts\"");
        values.values().filter(is_cell).count()
    };
    assert_eq!(cells(&store), 0);
    let both = request("fifo", queue(false), &asymmetries());
    let first = compare(&settings, &both);
    let stored = cells(&store);
    assert!(stored >= 2);
    // With the key of the trace, as without it, the same results are found.
    let with_key = settings.clone().trace_key(source().content_key().expect("a key"));
    let second = compare(&with_key, &both);
    assert_eq!(cells(&store), stored);
    assert_eq!(figures(&second, "fifo"), figures(&first, "fifo"));
}
