//! Policies from outside the registry, compared with the same policies in it.

#[path = "../../../../core/ebbpool-policy/tests/shared/noting.rs"]
mod noting;

use std::collections::VecDeque;
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ebbpool_device::{AnyDevice, DeviceProfile, FlashDevice};
use ebbpool_policy::{Access, Capabilities, Frame, Page, Policy};
use ebbpool_sim::{
    AtEnd, CurveOptions, Curves, GuestEngine, GuestHost, GuestPolicy, NoStore, PassControl, SimCell, SimError, SimOptions,
    SimPolicy, Warmup, check_guest, guest_policy, simulate, simulate_on_device, simulate_with_time_lines,
};
use ebbpool_trace::Source;
use noting::Noting;

/// First in, first out.
struct Queue {
    frames: VecDeque<Frame>,
    /// The number of references after which the policy fails.
    fails_after: Option<u64>,
    served: u64,
    failure: Arc<Mutex<Option<String>>>,
    asks: Capabilities,
}

impl Policy for Queue {
    const CAPABILITIES: Capabilities = Capabilities::all();

    fn capabilities(&self) -> Capabilities {
        self.asks
    }

    fn hit(&mut self, _frame: Frame, _access: Access) {
        self.served += 1;
    }
    fn miss(&mut self, _page: Page, _ghost: Option<u32>, _access: Access) {
        self.served += 1;
    }
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        if self.fails_after.is_some_and(|after| self.served > after) {
            let text = format!("reference {}", self.served);
            self.failure.lock().expect("no panic").get_or_insert(text);
        }
        self.frames.iter().copied().find(|&frame| may_evict(frame))
    }
    fn admit(&mut self, frame: Frame, _page: Page, _access: Access) {
        self.frames.push_back(frame);
    }
    fn evicted(&mut self, frame: Frame) {
        self.frames.retain(|&other| other != frame);
    }
    fn cleaned(&mut self, _frame: Frame) {}
}

#[derive(Debug, Default)]
struct QueueGuest {
    has_miniature: bool,
    fails_after: Option<u64>,
    refuses: bool,
    asks: Option<Capabilities>,
    failure: Arc<Mutex<Option<String>>>,
    chunks: AtomicU64,
}

impl GuestPolicy for QueueGuest {
    fn name(&self) -> &str {
        "queue"
    }

    fn looks_at_costs(&self) -> bool {
        false
    }

    fn has_miniature(&self) -> bool {
        self.has_miniature
    }

    fn make<'o>(&self, frames: u32, host: GuestHost<'o>) -> Result<GuestEngine<'o>, Box<dyn Error + Send + Sync>> {
        if self.refuses {
            return Err(format!("no room for {frames} frames").into());
        }
        Ok(host.run(Queue {
            frames: VecDeque::new(),
            fails_after: self.fails_after,
            served: 0,
            failure: Arc::clone(&self.failure),
            asks: self.asks.unwrap_or(Capabilities::empty()),
        }))
    }

    fn around(&self, work: &mut dyn FnMut()) {
        self.chunks.fetch_add(1, Ordering::Relaxed);
        work();
    }

    fn take_failure(&self) -> Option<Box<dyn Error + Send + Sync>> {
        let failure = self.failure.lock().expect("no panic").take();
        failure.map(Into::into)
    }
}

fn source() -> Source {
    Source::parse("zipf:pages=1000,refs=20000,write=0.3", None).expect("a generator")
}

fn cells(guest: QueueGuest) -> Vec<SimCell> {
    let policy = SimPolicy::Guest(Arc::new(guest));
    let cell = |frames| SimCell { policy: policy.clone(), frames, asymmetry: 8.0 };
    vec![cell(10), cell(100), cell(5000)]
}

fn run<T>(work: impl FnOnce(&PassControl) -> T) -> T {
    let stop = AtomicBool::new(false);
    work(&PassControl { report: &|_| {}, stop: &stop })
}

fn fifo() -> Vec<SimCell> {
    let cell = |frames| SimCell { policy: "fifo".parse().expect("a policy"), frames, asymmetry: 8.0 };
    vec![cell(10), cell(100), cell(5000)]
}

#[test]
fn a_guest_has_the_counts_of_the_same_policy_in_the_registry() {
    for (threads, warmup, at_end) in [(1, 0, AtEnd::Free), (2, 3000, AtEnd::Flush)] {
        let options = SimOptions { threads, warmup, at_end, ..SimOptions::default() };
        let ours = run(|progress| simulate(&source(), &fifo(), &options, progress));
        let (guests, lines) = run(|progress| {
            let cells = cells(QueueGuest::default());
            simulate_with_time_lines(&source(), &cells, &options, progress)
        })
        .expect("guests run");
        let ours = ours.expect("policies run");
        assert_eq!(guests.counts, ours.counts);
        assert_eq!(guests.facts, ours.facts);
        let least = (20_000 - warmup as usize) / 1000;
        assert!(lines.iter().all(|line| line.moments().count() >= least));
    }
}

#[test]
fn a_guest_runs_on_a_device() {
    let profile = DeviceProfile::named("flash-136").expect("a device");
    let device = AnyDevice::from(profile.device());
    let options = SimOptions::default();
    let (ours, on_device) =
        run(|progress| simulate_on_device(&source(), &fifo(), &device, &options, progress)).expect("policies run");
    let (guests, extras) = run(|progress| {
        let cells = cells(QueueGuest::default());
        simulate_on_device(&source(), &cells, &device, &options, progress)
    })
    .expect("guests run");
    assert_eq!(guests.counts, ours.counts);
    for ((_, ours), (_, guests)) in on_device.iter().zip(&extras) {
        assert_eq!(guests.report.bill().amount, ours.report.bill().amount);
    }
}

#[test]
fn a_curve_of_a_guest_is_that_of_the_same_policy_in_the_registry() {
    let source = Source::parse("zipf:pages=30000,refs=200000,write=0.3", None);
    let source = source.expect("a generator");
    let options =
        CurveOptions { warmup: Warmup::References(5000), options: SimOptions::default(), asymmetry: 8.0, sample: Some(0.1) };
    let fifo = SimPolicy::Registered("fifo".parse().expect("a policy"));
    let sampled = QueueGuest { has_miniature: true, ..QueueGuest::default() };
    let queue = SimPolicy::Guest(Arc::new(sampled));
    assert_eq!(queue.to_string(), "queue");
    run(|progress| {
        let mut curves = Curves::new(&source, &NoStore, &options, progress).expect("curves");
        let sizes = [500, 5000, 1 << 20];
        let requests = [&fifo, &queue].map(|policy| sizes.map(|frames| (policy, frames)));
        let found = curves.estimates_at(requests.as_flattened(), progress);
        let found = found.expect("estimates");
        assert_eq!(found[..3], found[3..]);
        assert!(!found[4].sample.is_all() && found[5].sample.is_all());
        let enough = |traffic: ebbpool_sim::Traffic| traffic.reads < 60_000;
        let policies = [fifo.clone(), queue.clone()];
        let smallest = curves.smallest(&policies, &sizes, enough, progress);
        let smallest = smallest.expect("sizes");
        assert!(smallest[0].is_some() && smallest[0] == smallest[1]);
    });
}

#[test]
fn a_guest_of_which_nothing_is_known_runs_on_all_pages() {
    let options =
        CurveOptions { warmup: Warmup::References(0), options: SimOptions::default(), asymmetry: 8.0, sample: Some(0.1) };
    let queue = SimPolicy::Guest(Arc::new(QueueGuest::default()));
    run(|progress| {
        let source = Source::parse("zipf:pages=30000,refs=50000", None).expect("a generator");
        let mut curves = Curves::new(&source, &NoStore, &options, progress).expect("curves");
        let found = curves.estimates_at(&[(&queue, 5000)], progress).expect("estimates");
        assert!(found[0].sample.is_all());
    });
}

#[test]
fn a_guest_that_fails_ends_a_curve() {
    let options =
        CurveOptions { warmup: Warmup::References(0), options: SimOptions::default(), asymmetry: 8.0, sample: Some(1.0) };
    let queue = SimPolicy::Guest(Arc::new(QueueGuest { fails_after: Some(5000), ..QueueGuest::default() }));
    run(|progress| {
        let source = source();
        let mut curves = Curves::new(&source, &NoStore, &options, progress).expect("curves");
        let failed = curves.estimates_at(&[(&queue, 100)], progress);
        let failed = failed.expect_err("it fails").to_string();
        assert!(failed.contains("reference 500"), "{failed}");
    });
}

#[test]
fn the_policy_of_a_guest_runs_elsewhere() {
    let guest = QueueGuest::default();
    let mut policy = guest_policy(&guest, 2).expect("a policy");
    policy.admit(1, 77, Access::Read);
    policy.admit(0, 78, Access::Write);
    assert_eq!(policy.victim(None, &|_| true), Some(1));
    assert_eq!(policy.victim(None, &|frame| frame == 0), Some(0));
    check_guest(&guest).expect("no failure");
    *guest.failure.lock().expect("no panic") = Some("late".into());
    let failed = check_guest(&guest).expect_err("a failure").to_string();
    assert!(failed.contains("late"), "{failed}");
    let refuses = QueueGuest { refuses: true, ..QueueGuest::default() };
    assert!(guest_policy(&refuses, 2).is_err());
}

#[test]
fn a_guest_whose_policy_asks_for_costs_that_it_does_not_declare_is_refused() {
    let guest = || QueueGuest { asks: Some(Capabilities::COSTS), ..QueueGuest::default() };
    let ran = run(|progress| simulate(&source(), &cells(guest()), &SimOptions::default(), progress));
    let elsewhere = guest_policy(&guest(), 10).map(drop);
    for refused in [ran.map(drop), elsewhere] {
        let text = refused.expect_err("costs would be ignored").to_string();
        assert!(text.contains("for 10 frames asks for costs"), "{text}");
    }
}

#[test]
fn a_guest_that_asks_for_what_no_guest_gets_is_refused() {
    for (asked, why) in [
        (Capabilities::NEXT_USES, "the future"),
        (Capabilities::PROBABILITIES, "the future"),
        (Capabilities::ERASE_COUNTS, "how often blocks were erased"),
    ] {
        let guest = || QueueGuest { asks: Some(asked), ..QueueGuest::default() };
        let cells = cells(guest());
        let options = SimOptions::default();
        let failed = run(|progress| simulate(&source(), &cells, &options, progress));
        let text = failed.err().map(|error| error.to_string());
        assert!(text.as_ref().is_some_and(|text| text.contains(why)), "{asked:?}: {text:?}");
        assert_eq!(guest_policy(&guest(), 10).is_err(), asked != Capabilities::ERASE_COUNTS);
    }
}

#[test]
fn a_guest_that_fails_ends_the_pass() {
    let failed = |guest| {
        let cells = cells(guest);
        let options = SimOptions::default();
        let result = run(|progress| simulate(&source(), &cells, &options, progress));
        match result.expect_err("it fails") {
            SimError::Guest { policy, source } => format!("{policy}: {source}"),
            other => panic!("{other}"),
        }
    };
    let refused = failed(QueueGuest { refuses: true, ..QueueGuest::default() });
    assert_eq!(refused, "queue: no room for 10 frames");
    let failed = failed(QueueGuest { fails_after: Some(5000), ..QueueGuest::default() });
    assert!(failed.starts_with("queue: reference 500"), "{failed}");
}

#[test]
fn a_guest_that_fails_because_the_caller_has_stopped_is_interrupted() {
    let stop = AtomicBool::new(true);
    let progress = PassControl { report: &|_| {}, stop: &stop };
    let cells = cells(QueueGuest { refuses: true, ..QueueGuest::default() });
    let options = SimOptions::default();
    let stopped = simulate(&source(), &cells, &options, &progress);
    assert!(matches!(stopped, Err(SimError::Interrupted)));
}

#[derive(Debug)]
struct NotingGuest {
    declares: Capabilities,
    called: Arc<Mutex<Capabilities>>,
}

impl GuestPolicy for NotingGuest {
    fn name(&self) -> &str {
        "noting"
    }

    fn make<'o>(&self, _frames: u32, host: GuestHost<'o>) -> Result<GuestEngine<'o>, Box<dyn Error + Send + Sync>> {
        Ok(host.run(Noting { declares: self.declares, called: Arc::clone(&self.called), queue: VecDeque::new() }))
    }
}

/// What the simulator calls of a guest that declares this.
fn called(declares: Capabilities, device: Option<&AnyDevice>) -> Result<Capabilities, SimError> {
    let called = Arc::new(Mutex::new(Capabilities::empty()));
    let guest = NotingGuest { declares, called: Arc::clone(&called) };
    let cells = [SimCell { policy: SimPolicy::Guest(Arc::new(guest)), frames: 100, asymmetry: 8.0 }];
    // With classes, times and rings.
    let source = Source::parse("tpcc:warehouses=1,refs=20000", None).expect("a generator");
    let options = SimOptions::default();
    run(|progress| match device {
        None => simulate(&source, &cells, &options, progress).map(drop),
        Some(device) => simulate_on_device(&source, &cells, device, &options, progress).map(drop),
    })?;
    let called = *called.lock().expect("no panic");
    Ok(called)
}

#[test]
fn the_simulator_calls_what_a_guest_declares_and_nothing_else() {
    let served = Capabilities::all()
        - Capabilities::OFFLINE
        - Capabilities::ERASE_COUNTS
        - Capabilities::LEAVES_HITS_OUT
        - Capabilities::WRITES_UNTIMED
        - Capabilities::CHECKPOINTS
        - Capabilities::REQUESTS
        - Capabilities::RESIZES;
    let profile = DeviceProfile::named("flash-136").expect("a device");
    let device = AnyDevice::from(profile.device());
    for device in [None, Some(&device)] {
        for declares in served.iter() {
            let called = called(declares, device).expect("a run");
            assert_eq!(called, declares);
        }
        assert_eq!(called(served, device).expect("a run"), served);
        let none = Capabilities::empty();
        assert_eq!(called(none, device).expect("a run"), none);
    }
}

#[test]
fn erase_counts_are_for_guests_on_devices_that_have_them() {
    let config = "flash:slc-mt29f4g08aaa,blocks=400,pages_per_block=64,rho=0.6,precondition=full";
    let flash = FlashDevice::new(&config.parse().expect("a device"), None, Some(12_000));
    let flash = AnyDevice::from(flash.expect("it can be made"));
    for declares in [Capabilities::ERASE_COUNTS, Capabilities::empty()] {
        let called = called(declares, Some(&flash)).expect("a run");
        assert_eq!(called, declares);
    }
    let profile = DeviceProfile::named("flash-136").expect("a device");
    let device = AnyDevice::from(profile.device());
    let refused = called(Capabilities::ERASE_COUNTS, Some(&device)).map_err(|e| e.to_string());
    let refused = refused.expect_err("it has none");
    assert!(refused.contains("how often blocks were erased"), "{refused}");
}
