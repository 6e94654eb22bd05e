//! Which hits the pool reports to a policy.

use std::sync::{Arc, Mutex};
use std::thread;

use ebbpool::storage::{MemoryStorage, Storage};
use ebbpool::{Pool, PoolOptions};
use ebbpool_policy::{Access, Capabilities, Frame, Page, Policy};

const FRAMES: u32 = 320;

/// The number of misses in an epoch.
const EPOCH: u64 = 10;

/// A report that a policy got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolicyReport {
    Read(Page),
    Write(Page),
    Omitted(u64),
    Cleaned(Page),
}

/// A policy that evicts any page and records the reports that it gets.
struct RecordingPolicy {
    wants_every_hit: bool,
    pages: Vec<Page>,
    reports: Arc<Mutex<Vec<PolicyReport>>>,
}

impl RecordingPolicy {
    fn note(&self, report: PolicyReport) {
        self.reports.lock().expect("a lock").push(report);
    }
}

impl Policy for RecordingPolicy {
    const CAPABILITIES: Capabilities = Capabilities::LEAVES_HITS_OUT;

    fn hit(&mut self, frame: Frame, access: Access) {
        let page = self.pages[frame as usize];
        self.note(match access {
            Access::Read => PolicyReport::Read(page),
            Access::Write => PolicyReport::Write(page),
        });
    }
    fn capabilities(&self) -> Capabilities {
        let mut found = Self::CAPABILITIES;
        found.set(Capabilities::LEAVES_HITS_OUT, !self.wants_every_hit);
        found
    }
    fn omitted_hits(&mut self, hits: u64) {
        self.note(PolicyReport::Omitted(hits));
    }
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        // The last frame, so that the pages that were admitted first stay resident.
        (0..FRAMES).rev().find(|&frame| may_evict(frame))
    }
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        self.pages[frame as usize] = page;
    }
    fn evicted(&mut self, _frame: Frame) {}
    fn cleaned(&mut self, frame: Frame) {
        self.note(PolicyReport::Cleaned(self.pages[frame as usize]));
    }
}

struct WatchedPool {
    pool: Pool,
    reports: Arc<Mutex<Vec<PolicyReport>>>,
    /// Pages from this number on were never fixed.
    next: Page,
}

impl WatchedPool {
    /// A pool whose frames all hold pages, from 0 up, and in which an epoch has just begun.
    fn new(wants_every_hit: bool, exact: bool) -> Self {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let policy = RecordingPolicy { wants_every_hit, pages: vec![0; FRAMES as usize], reports: Arc::clone(&reports) };
        let storage = MemoryStorage::new(512);
        storage.grow(10_000).expect("room");
        let options = PoolOptions::new(FRAMES).own_policy(policy).background(false).exact_hits(exact);
        let pool = options.open(storage).expect("a pool");
        let mut watched = WatchedPool { pool, reports, next: 0 };
        watched.miss(u64::from(FRAMES) + 1);
        watched
    }

    fn miss(&mut self, pages: u64) {
        for page in self.next..self.next + pages {
            drop(self.pool.fix_read(page).expect("a page"));
        }
        self.next += pages;
    }

    fn read(&self, page: Page) {
        drop(self.pool.fix_read(page).expect("a page"));
    }

    fn write(&self, page: Page) {
        drop(self.pool.fix_write(page).expect("a page"));
    }

    /// The reports since the last call, including hits that were not handed over yet.
    fn take_reports(&mut self) -> Vec<PolicyReport> {
        self.miss(1);
        std::mem::take(&mut *self.reports.lock().expect("a lock"))
    }
}

#[test]
fn only_a_pages_first_hit_in_an_epoch_is_reported_if_the_policy_agrees() {
    let mut watched = WatchedPool::new(false, false);
    for page in [3, 4, 3, 3, 4] {
        watched.read(page);
    }
    use PolicyReport::{Omitted, Read};
    assert_eq!(watched.take_reports(), [Omitted(3), Read(3), Read(4)]);
    watched.read(3);
    watched.read(5);
    assert_eq!(watched.take_reports(), [Omitted(1), Read(5)]);
    watched.miss(EPOCH);
    watched.read(3);
    watched.read(3);
    assert_eq!(watched.take_reports(), [Omitted(1), Read(3)]);
    let stats = watched.pool.stats();
    assert_eq!(stats.hits, 9);
}

#[test]
fn the_first_hit_of_a_page_that_is_fetched_again_is_reported() {
    let mut watched = WatchedPool::new(false, false);
    let page = watched.next - 1;
    watched.read(page);
    assert_eq!(watched.take_reports(), [PolicyReport::Read(page)]);
    // It was the page that was admitted last, so it is evicted.
    let misses = watched.pool.stats().misses;
    watched.miss(1);
    watched.read(page);
    assert_eq!(watched.pool.stats().misses, misses + 2);
    watched.read(page);
    assert_eq!(watched.take_reports(), [PolicyReport::Read(page)]);
}

#[test]
fn first_writes_in_an_epoch_and_to_clean_pages_are_reported() {
    use PolicyReport::{Cleaned, Omitted, Read, Write};
    let mut watched = WatchedPool::new(false, false);
    watched.read(3);
    watched.write(3);
    watched.write(3);
    watched.read(3);
    assert_eq!(watched.take_reports(), [Omitted(2), Read(3), Write(3)]);
    watched.pool.flush(3).expect("it is written");
    watched.read(3);
    watched.write(3);
    watched.write(3);
    assert_eq!(watched.take_reports(), [Cleaned(3), Omitted(2), Write(3)]);
    // In later epochs the page is dirty, and its first write is reported all the same.
    watched.miss(EPOCH);
    watched.read(3);
    watched.write(3);
    watched.write(3);
    assert_eq!(watched.take_reports(), [Omitted(1), Read(3), Write(3)]);
    watched.miss(EPOCH);
    watched.write(3);
    watched.read(3);
    watched.write(3);
    assert_eq!(watched.take_reports(), [Omitted(2), Write(3)]);
}

#[test]
fn every_hit_is_reported_unless_the_policy_needs_less() {
    use PolicyReport::{Read, Write};
    for (wants_every_hit, exact) in [(true, false), (true, true), (false, true)] {
        let mut watched = WatchedPool::new(wants_every_hit, exact);
        for _ in 0..300 {
            watched.read(3);
            watched.write(3);
        }
        let reports: Vec<PolicyReport> = watched.take_reports();
        let expected = [Read(3), Write(3)].repeat(300);
        assert!(reports == expected, "{wants_every_hit} {exact}");
    }
}

#[test]
fn the_few_hits_of_a_thread_are_reported_when_the_epoch_ends() {
    let mut watched = WatchedPool::new(false, false);
    let pool = &watched.pool;
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5 {
                drop(pool.fix_read(7).expect("a page"));
            }
        });
    });
    watched.miss(EPOCH + 1);
    assert_eq!(watched.take_reports(), [PolicyReport::Omitted(4), PolicyReport::Read(7)]);
}
