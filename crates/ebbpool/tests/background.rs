//! What a pool does unasked: writing before it has to be waited for, reading ahead, and slowing down
//! those who make too much dirty.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ebbpool::storage::{MemoryStorage, Read, Storage, Write};
use ebbpool::{Pool, PoolOptions, ReadCause, Scan, Stats, WriteCause};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

const PAGE_SIZE: usize = 512;

fn storage(pages: u64) -> Arc<MemoryStorage> {
    let storage = MemoryStorage::new(PAGE_SIZE);
    storage.grow(pages).expect("room");
    Arc::new(storage)
}

/// What holds up writes until it is opened, or dropped: a test that fails must not wait for its pool.
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().expect("a lock") = true;
        self.0.1.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

/// A storage that writes nothing before its gate is open.
struct Gated {
    memory: Arc<MemoryStorage>,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Storage for Gated {
    fn page_size(&self) -> usize {
        self.memory.page_size()
    }
    fn pages(&self) -> std::io::Result<u64> {
        self.memory.pages()
    }
    fn grow(&self, pages: u64) -> std::io::Result<()> {
        self.memory.grow(pages)
    }
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        self.memory.read(reads)
    }
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        let (is_open, opened) = &*self.gate;
        let is_open = is_open.lock().expect("a lock");
        drop(opened.wait_while(is_open, |it| !*it).expect("a lock"));
        self.memory.write(writes)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.memory.sync()
    }
    fn describe(&self) -> String {
        "memory behind a gate".into()
    }
}

/// Waits until the statistics are as wanted, and at most so long that no machine is as slow: what a test
/// asserts of the statistics then fails.
fn wait_for(pool: &Pool, wanted: impl Fn(&Stats) -> bool) -> Stats {
    let begin = Instant::now();
    loop {
        let stats = pool.stats();
        if wanted(&stats) || begin.elapsed() > Duration::from_secs(60) {
            return stats;
        }
        sleep(Duration::from_millis(1));
    }
}

fn change(pool: &Pool, page: u64) {
    pool.fix_write(page).expect("a page")[0] += 1;
}

fn is_in_storage(storage: &MemoryStorage, page: u64) -> bool {
    let mut buffer = vec![0; PAGE_SIZE];
    storage.read(&mut [Read {
        page,
        buffer: &mut buffer,
        outcome: Ok(()),
    }]);
    buffer.iter().any(|&byte| byte != 0)
}

#[test]
fn the_pages_that_go_next_are_kept_clean() {
    let pool = PoolOptions::new(32)
        .policy("lru")
        .expect("a policy")
        .clean_reserve(4)
        .read_ahead(0)
        .dirty_budget(1.0, Duration::ZERO)
        .open(storage(100))
        .expect("a pool");
    (0..32).for_each(|page| change(&pool, page));
    let stats = wait_for(&pool, |stats| {
        stats.written_for(WriteCause::Background) >= 4
    });
    assert_eq!(stats.written_for(WriteCause::Background), 4);
    assert_eq!(stats.dirty, 28);
    // So these need not wait for a write.
    (50..54).for_each(|page| drop(pool.fix_read(page).expect("a page")));
    assert_eq!(pool.stats().written_for(WriteCause::Eviction), 0);
}

#[test]
fn no_page_stays_dirty_for_longer_than_the_loss_window() {
    let storage = storage(10);
    let pool = PoolOptions::new(10)
        .clean_reserve(0)
        .max_dirty_age(Duration::from_millis(40))
        .open(Arc::clone(&storage))
        .expect("a pool");
    change(&pool, 3);
    assert!(!is_in_storage(&storage, 3));
    let stats = wait_for(&pool, |stats| stats.dirty == 0 && stats.syncs > 0);
    assert_eq!((stats.dirty, stats.writes()), (0, 1));
    assert!(stats.syncs > 0);
    assert!(is_in_storage(&storage, 3));
}

#[test]
fn beyond_the_budget_dirty_pages_are_written_and_those_who_make_them_are_slowed_down() {
    let gate = Arc::default();
    let pool = PoolOptions::new(100)
        .policy("lru")
        .expect("a policy")
        .clean_reserve(0)
        .read_ahead(0)
        .dirty_budget(0.2, Duration::from_millis(4))
        .open(Gated {
            memory: storage(100),
            gate: Arc::clone(&gate),
        })
        .expect("a pool");
    let gate = Gate(gate);
    (0..100).for_each(|page| change(&pool, page));
    // Nothing is written yet, so that each page is one more beyond the budget of 20; the delay grows with the
    // square of the excess.
    let stats = pool.stats();
    let delays = (1..80).map(|over| 4000 * over * over / (80 * 80));
    assert_eq!((stats.dirty, stats.delays), (100, 79));
    assert_eq!(stats.delayed.as_micros(), delays.sum::<u128>());
    gate.open();
    let stats = wait_for(&pool, |stats| stats.dirty <= 20);
    assert!(stats.dirty <= 20, "{} dirty", stats.dirty);
}

#[test]
fn a_caller_that_wants_to_is_slowed_down_only_where_it_says() {
    let pool = PoolOptions::new(10)
        .policy("lru")
        .expect("a policy")
        .background(false)
        .dirty_budget(0.2, Duration::ZERO)
        .throttle_at_fix(false)
        .open(storage(10))
        .expect("a pool");
    (0..10).for_each(|page| change(&pool, page));
    assert_eq!((pool.stats().dirty, pool.stats().writes()), (10, 0));
    // Without a writer in the background the caller writes.
    pool.throttle();
    assert!(pool.stats().writes() > 0);
    while pool.stats().dirty > 2 {
        pool.throttle();
    }
    let written = pool.stats().writes();
    pool.throttle();
    assert_eq!(pool.stats().writes(), written);
}

#[test]
fn a_sequence_is_read_ahead_of() {
    let pool = PoolOptions::new(64)
        .read_ahead(16)
        .open(storage(1000))
        .expect("a pool");
    for page in 0..3 {
        drop(pool.fix_read(page).expect("a page"));
    }
    let ahead = |stats: &Stats| stats.read_for(ReadCause::ReadAhead);
    assert!(ahead(&wait_for(&pool, |stats| ahead(stats) >= 4)) >= 4);
    let misses = pool.stats().misses;
    for page in 3..7 {
        drop(pool.fix_read(page).expect("a page"));
    }
    let stats = pool.stats();
    assert_eq!(stats.misses, misses);
    assert_eq!(stats.hits + stats.misses, 7);
}

#[test]
fn chance_and_the_end_of_the_storage_are_not_read_ahead_of() {
    let storage = storage(300);
    let pool = PoolOptions::new(256)
        .open(Arc::clone(&storage))
        .expect("a pool");
    for step in 0..60 {
        drop(pool.fix_read(step * 37 % 200).expect("a page"));
    }
    for page in 290..300 {
        drop(pool.fix_read(page).expect("a page"));
    }
    // What is ordered is read in order: once this sequence has been read ahead of, nothing else is due.
    for page in 210..213 {
        drop(pool.fix_read(page).expect("a page"));
    }
    let stats = wait_for(&pool, |_| {
        (213..217).all(|page| pool.read_optimistically(page).is_some())
    });
    assert_eq!(stats.resident, 60 + 10 + 3 + 4);
    assert_eq!(stats.failed_reads, 0);
    assert_eq!(storage.pages().expect("its length"), 300);
}

fn misses_of_the_working_set_after_a_scan(scan: bool) -> u64 {
    let pool = PoolOptions::new(64)
        .policy("lru")
        .expect("a policy")
        .background(false)
        .open(storage(2000))
        .expect("a pool");
    let fix_working_set = || (0..40).for_each(|page| drop(pool.fix_read(page).expect("a page")));
    fix_working_set();
    fix_working_set();
    let mut hint = Scan::new();
    for page in 100..1100 {
        let fixed = match scan {
            true => pool.fix_scan(page, &mut hint),
            false => pool.fix_read(page),
        };
        assert_eq!(fixed.expect("a page").page(), page);
    }
    let before = pool.stats().misses;
    fix_working_set();
    pool.stats().misses - before
}

#[test]
fn a_scan_with_a_hint_leaves_the_working_set_where_it_is() {
    assert_eq!(misses_of_the_working_set_after_a_scan(false), 40);
    assert_eq!(misses_of_the_working_set_after_a_scan(true), 0);
}

/// Keeps what it is told by name and labels.
#[derive(Default)]
struct Kept(Mutex<HashMap<String, Arc<AtomicU64>>>);

impl Kept {
    fn cell(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: String = key
            .labels()
            .map(|label| format!(" {}", label.value()))
            .collect();
        let mut kept = self.0.lock().expect("a lock");
        Arc::clone(kept.entry(format!("{}{labels}", key.name())).or_default())
    }

    fn counter(&self, name: &str) -> Option<u64> {
        let kept = self.0.lock().expect("a lock");
        kept.get(name).map(|cell| cell.load(Ordering::Relaxed))
    }

    fn gauge(&self, name: &str) -> Option<f64> {
        self.counter(name).map(f64::from_bits)
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn statistics_reach_the_metrics_facade() {
    let pool = PoolOptions::new(8)
        .background(false)
        .dirty_budget(1.0, Duration::ZERO)
        .open(storage(20))
        .expect("a pool");
    (0..12).for_each(|page| change(&pool, page));
    pool.checkpoint().expect("a checkpoint");
    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || pool.stats().publish());
    let bytes = |pages: u64| Some(pages * PAGE_SIZE as u64);
    assert_eq!(kept.counter("ebbpool_misses_total"), Some(12));
    assert_eq!(kept.counter("ebbpool_read_bytes_total miss"), bytes(12));
    assert_eq!(
        kept.counter("ebbpool_written_bytes_total eviction"),
        bytes(4)
    );
    assert_eq!(
        kept.counter("ebbpool_written_bytes_total checkpoint"),
        bytes(8)
    );
    assert_eq!(kept.counter("ebbpool_syncs_total"), Some(1));
    assert_eq!(kept.gauge("ebbpool_dirty_pages"), Some(0.0));
    assert_eq!(kept.gauge("ebbpool_frames"), Some(8.0));
    assert_eq!(kept.gauge("ebbpool_hit_ratio"), Some(0.0));
}
