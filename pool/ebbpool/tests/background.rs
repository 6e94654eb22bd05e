//! What a pool does in the background: it writes pages before threads have to wait for that, reads ahead, and slows
//! down threads that make too many pages dirty.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ebbpool::storage::{FaultyDisk, MemoryStorage, Read, Storage, Write};
use ebbpool::{Pool, PoolOptions, PoolScan, ReadCause, Stats, WriteCause};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

const PAGE_SIZE: usize = 512;

fn storage(pages: u64) -> Arc<MemoryStorage> {
    let storage = MemoryStorage::new(PAGE_SIZE);
    storage.grow(pages).expect("room");
    Arc::new(storage)
}

/// Blocks writes until it is opened, or dropped: a test that fails must not wait for its pool.
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

/// A storage that takes a while for each write, and counts those of page 0.
struct WritesOfPage0 {
    memory: Arc<MemoryStorage>,
    writes: AtomicU64,
}

impl Storage for WritesOfPage0 {
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
        sleep(Duration::from_micros(500));
        let of_page_0 = writes.iter().filter(|it| it.page == 0).count();
        self.writes.fetch_add(of_page_0 as u64, Ordering::Relaxed);
        self.memory.write(writes)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.memory.sync()
    }
    fn describe(&self) -> String {
        "memory that takes a while".into()
    }
}

/// Waits until the statistics meet a condition, at most for a time that is long enough on any machine: then the
/// test's assertion fails.
fn wait_for(pool: &Pool, condition: impl Fn(&Stats) -> bool) -> Stats {
    let begin = Instant::now();
    loop {
        let stats = pool.stats();
        if condition(&stats) || begin.elapsed() > Duration::from_secs(60) {
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
    storage.read(&mut [Read::new(page, &mut buffer)]);
    buffer.iter().any(|&byte| byte != 0)
}

#[test]
fn the_next_victims_are_written_in_advance() {
    let pool = PoolOptions::new(32)
        .policy("lru")
        .expect("a policy")
        .clean_reserve(4)
        .read_ahead(0)
        .dirty_budget(1.0, Duration::ZERO)
        .open(storage(100))
        .expect("a pool");
    (0..32).for_each(|page| change(&pool, page));
    let stats = wait_for(&pool, |stats| stats.written_for(WriteCause::Background) >= 4);
    assert_eq!(stats.written_for(WriteCause::Background), 4);
    assert_eq!(stats.dirty, 28);
    // So these fixes need not wait for a write.
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

/// Changes a page all the time, holding it for most of the time, until `over`.
fn change_without_a_break(pool: &Pool, page: u64, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let mut held = pool.fix_write(page).expect("a page");
        held[0] = held[0].wrapping_add(1);
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_page_that_is_changed_all_the_time_is_written_within_the_window_though_other_pages_have_to_be_written() {
    const WINDOWS: u32 = 20;
    let window = Duration::from_millis(100);
    let storage = storage(1);
    let disk = Arc::new(WritesOfPage0 { memory: Arc::clone(&storage), writes: AtomicU64::new(0) });
    let pool =
        PoolOptions::new(64).policy("lru").expect("a policy").max_dirty_age(window).open(Arc::clone(&disk)).expect("a pool");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| change_without_a_break(&pool, 0, &over));
        // Each of these fixes evicts a dirty page, and wakes the writer.
        scope.spawn(|| {
            let mut pages = (1..1000).cycle();
            while !over.load(Ordering::Relaxed) {
                drop(pool.fix_write(pages.next().unwrap_or(1)).expect("a page"));
            }
        });
        sleep(window * WINDOWS);
        over.store(true, Ordering::Relaxed);
    });
    // The machine may be slow; without the turn it is written a few times by chance.
    let written = disk.writes.load(Ordering::Relaxed);
    assert!(written >= u64::from(WINDOWS) / 2, "{written} writes");
}

#[test]
fn changes_of_a_page_that_was_evicted_survive_a_crash_after_the_loss_window() {
    let disk = FaultyDisk::new(1);
    let pool = PoolOptions::new(4)
        .policy("lru")
        .expect("a policy")
        .clean_reserve(0)
        .read_ahead(0)
        .max_dirty_age(Duration::from_secs(1))
        .open(disk.pages("data", PAGE_SIZE))
        .expect("a pool");
    change(&pool, 1);
    for page in 100..108 {
        drop(pool.fix_read(page).expect("a page"));
    }
    let stats = wait_for(&pool, |stats| stats.syncs > 0);
    assert_eq!((stats.dirty, stats.syncs), (0, 1));
    for seed in 0..20 {
        let copy = disk.fork(seed);
        copy.crash(seed);
        copy.restart();
        let pool = PoolOptions::new(4).open(copy.pages("data", PAGE_SIZE));
        let pool = pool.expect("a pool");
        assert_eq!(pool.fix_read(1).expect("a page")[0], 1, "seed {seed}");
    }
}

#[test]
fn beyond_the_budget_dirty_pages_are_written_and_writers_are_slowed_down() {
    let gate = Arc::default();
    let pool = PoolOptions::new(100)
        .policy("lru")
        .expect("a policy")
        .clean_reserve(0)
        .read_ahead(0)
        .dirty_budget(0.2, Duration::from_millis(4))
        .open(Gated { memory: storage(100), gate: Arc::clone(&gate) })
        .expect("a pool");
    let gate = Gate(gate);
    // Nothing is written yet, and half of the frames beyond the budget of 20 are dirty. No thread waits until the
    // writer's batch has taken longer than a few fast writes.
    (0..60).for_each(|page| change(&pool, page));
    assert_eq!(pool.stats().dirty, 60);
    let stats = wait_for(&pool, |stats| {
        pool.throttle();
        stats.delays > 0
    });
    assert!(stats.delays > 0);
    let delays = stats.delays as u32;
    assert!(stats.delayed <= delays * Duration::from_millis(1), "the square of a half of 4 ms");
    // Pages that the writer is writing become dirty again. From then on all are dirty, and a fix makes none more.
    (0..60).for_each(|page| change(&pool, page));
    let delays = pool.stats().delays;
    (0..60).for_each(|page| change(&pool, page));
    assert_eq!(pool.stats().delays, delays);
    gate.open();
    let stats = wait_for(&pool, |stats| stats.dirty <= 20);
    assert!(stats.dirty <= 20, "{} dirty", stats.dirty);
}

/// The storage is memory, where a write is no stall.
#[test]
fn beyond_the_budget_no_writer_is_slowed_down_by_fast_writes() {
    let pool = PoolOptions::new(100)
        .policy("lru")
        .expect("a policy")
        .dirty_budget(0.2, Duration::from_secs(100))
        .open(storage(1000))
        .expect("a pool");
    (0..20_000).for_each(|step| change(&pool, step % 1000));
    let stats = wait_for(&pool, |stats| stats.dirty <= 20);
    assert!(stats.dirty <= 20, "{} dirty", stats.dirty);
    assert!(stats.delayed < Duration::from_secs(10), "{:?}", stats.delayed);
}

#[test]
fn a_caller_may_choose_where_it_is_slowed_down() {
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
fn pages_of_a_sequence_are_read_ahead() {
    let pool = PoolOptions::new(64).read_ahead(16).open(storage(1000)).expect("a pool");
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
fn nothing_is_read_ahead_of_random_fixes_and_at_the_end_of_the_storage() {
    let storage = storage(300);
    let pool = PoolOptions::new(256).open(Arc::clone(&storage)).expect("a pool");
    for step in 0..60 {
        drop(pool.fix_read(step * 37 % 200).expect("a page"));
    }
    for page in 290..300 {
        drop(pool.fix_read(page).expect("a page"));
    }
    // Ranges are read in the order in which they were ordered: once this sequence was read ahead, no other range
    // waits.
    for page in 210..213 {
        drop(pool.fix_read(page).expect("a page"));
    }
    let stats = wait_for(&pool, |_| (213..217).all(|page| pool.read_optimistically(page).is_some()));
    assert_eq!(stats.resident, 60 + 10 + 3 + 4);
    assert_eq!(stats.failed_reads, 0);
    assert_eq!(storage.pages().expect("its length"), 300);
}

fn misses_of_the_working_set_after_a_scan(scan: bool) -> u64 {
    let pool = PoolOptions::new(64).policy("lru").expect("a policy").background(false).open(storage(2000)).expect("a pool");
    let fix_working_set = || (0..40).for_each(|page| drop(pool.fix_read(page).expect("a page")));
    fix_working_set();
    fix_working_set();
    let mut hint = PoolScan::new();
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
fn a_scan_with_a_hint_leaves_the_working_set_resident() {
    assert_eq!(misses_of_the_working_set_after_a_scan(false), 40);
    assert_eq!(misses_of_the_working_set_after_a_scan(true), 0);
}

/// Records metrics by name and labels.
#[derive(Default)]
struct RecordedMetrics(Mutex<HashMap<String, Arc<AtomicU64>>>);

impl RecordedMetrics {
    fn cell(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: String = key.labels().map(|label| format!(" {}", label.value())).collect();
        let mut recorded = self.0.lock().expect("a lock");
        Arc::clone(recorded.entry(format!("{}{labels}", key.name())).or_default())
    }

    fn counter(&self, name: &str) -> Option<u64> {
        let recorded = self.0.lock().expect("a lock");
        recorded.get(name).map(|cell| cell.load(Ordering::Relaxed))
    }

    fn gauge(&self, name: &str) -> Option<f64> {
        self.counter(name).map(f64::from_bits)
    }
}

impl Recorder for RecordedMetrics {
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
    let pool = PoolOptions::new(8).background(false).dirty_budget(1.0, Duration::ZERO).open(storage(20)).expect("a pool");
    (0..12).for_each(|page| change(&pool, page));
    pool.checkpoint().expect("a checkpoint");
    let recorded = RecordedMetrics::default();
    metrics::with_local_recorder(&recorded, || pool.stats().publish());
    let bytes = |pages: u64| Some(pages * PAGE_SIZE as u64);
    assert_eq!(recorded.counter("ebbpool_misses_total"), Some(12));
    assert_eq!(recorded.counter("ebbpool_read_bytes_total miss"), bytes(12));
    assert_eq!(recorded.counter("ebbpool_written_bytes_total eviction"), bytes(4));
    assert_eq!(recorded.counter("ebbpool_written_bytes_total checkpoint"), bytes(8));
    assert_eq!(recorded.counter("ebbpool_syncs_total"), Some(1));
    assert_eq!(recorded.gauge("ebbpool_dirty_pages"), Some(0.0));
    assert_eq!(recorded.gauge("ebbpool_frames"), Some(8.0));
    assert_eq!(recorded.gauge("ebbpool_hit_ratio"), Some(0.0));
}

#[test]
fn statistics_print_with_labels_and_units() {
    let pool = PoolOptions::new(8).background(false).dirty_budget(1.0, Duration::ZERO).open(storage(20)).expect("a pool");
    (0..12).for_each(|page| change(&pool, page));
    change(&pool, 11);
    pool.checkpoint().expect("a checkpoint");
    let printed = pool.stats().to_string();
    let line = |label: &str| {
        let line = printed.lines().find(|line| line.starts_with(label));
        let (_, rest) = line.expect("a line").split_at(label.len());
        rest.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("frames"), "8 of 512 bytes");
    assert_eq!(line("dirty"), "0 pages");
    assert_eq!(line("hits"), "1 fixes");
    assert_eq!(line("misses"), "12 fixes");
    assert_eq!(line("hit ratio"), "7.69 %");
    assert_eq!(line("written"), "12 pages, 0.0 MiB");
    assert_eq!(line("  evicted"), "4 pages");
    assert_eq!(line("  by checkpoints"), "8 pages");
    assert_eq!(line("syncs"), "1 calls");
    let columns: Vec<usize> = printed.lines().filter_map(|line| line.find(" pages")).collect();
    assert!(columns.iter().all(|&at| at == columns[0]), "{printed}");
}
