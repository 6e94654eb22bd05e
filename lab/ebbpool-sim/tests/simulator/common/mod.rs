//! Helpers of the tests: traces in temporary files, and cells by name.

use std::sync::atomic::AtomicBool;

use ebbpool_model::workload::RandomWorkload;
use ebbpool_sim::{PassControl, SimCell};
use ebbpool_trace::{Batch, Format, Metadata, OptionalColumns, PageClasses, RequestDetail, Source, Trim, Writer};
use tempfile::TempDir;

static NEVER_STOP: AtomicBool = AtomicBool::new(false);

/// Progress that reports nothing and never stops.
pub const QUIET: PassControl = PassControl { report: &|_| {}, stop: &NEVER_STOP };

/// Every policy at least once, with parameters that make a difference in small buffers.
pub const SPECS: &[&str] = &[
    "fifo",
    "fifo:cluster=4",
    "lru",
    "lru:cluster=8",
    "lru:cluster=4,keys=entry",
    "clock",
    "gclock",
    "postgres",
    "postgres:checkpoint_timeout=2,bgwriter_lru_maxpages=3,bulkread=2",
    "innodb:max_dirty_pages_pct=20",
    "innodb:old_blocks_min=10,lru_scan_depth=4",
    "sqlite:commit=100",
    "lru-k",
    "2q",
    "lrfu",
    "fbr:cmax=3",
    "arc",
    "car",
    "lirs",
    "s3-fifo",
    "sieve",
    "w-tinylfu",
    "belady",
    "cost-belady",
    "cflru",
    "cflru:window=0.29,cluster=16",
    "cflru-c",
    "cflru-e",
    "dl-cflru-e",
    "fab:block=8",
    "bplru:block=4",
    "bplru:block=4,padding=true",
    "lru-wsr",
    "lru-wsr:cluster=4",
    "lirs-wsr",
    "ccf-lru",
    "ad-lru",
    "ad-lru:min_lc=0.5,cluster=4",
    "casa",
    "casa:cluster=8",
    "ref:block=8,victims=2",
    "cfdc",
    "cfdc:cluster=4,keys=entry",
    "cfdc:cluster=0",
    "fd-static",
    "fd-static:clean=3,cluster=4",
    "fd-buffer:interval=300",
    "fd-buffer:interval=250,group=4",
    "fd-buffer:interval=100,cluster=4",
    "fd-exact:interval=200",
    "fd-exact:interval=500,group=16,cluster=8",
    "acr",
    "acr:cost=logical",
    "dulo:correlation=2,bank=20",
    "for",
    "wa-landlord",
    "h-arc",
    "hyperbolic",
    "lhd",
    "lecar",
    "cacheus",
    "watt",
    "lru-c:batch=8",
    "ebb",
    "auto:experts=(lru,casa,w-tinylfu),lead=20,patience=1",
    "ace:batch=4",
    "ace:policy=(cflru:window=0.75),batch=8",
    "ace:policy=belady,batch=3",
    "ace:policy=cost-belady,batch=3",
    "ace:policy=(fd-exact:interval=200),batch=8",
];

/// The class of a page in traces in the native format; some pages are of no known class.
pub fn class_of(page: u64) -> u32 {
    (page % 5) as u32
}

/// The request at a position of traces in the native format: about 700 a second, some of them through rings.
pub fn request_of(position: usize) -> RequestDetail {
    let scan = 1 + (position / 40 % 5) as u32;
    RequestDetail { time_us: position as u64 * 1400 + 5, bypass: if position % 80 < 25 { scan * 4 + scan % 3 + 1 } else { 0 } }
}

/// What some references of a trace do besides reading and writing.
#[derive(Default)]
pub struct Operations {
    /// Which references write all of their page; none behind the end.
    pub whole: Vec<bool>,
    /// Positions before which pages end, the first and the last of them.
    pub trims: Vec<(usize, u64, u64)>,
}

/// Trims of pages that the trace has and of others, some of them at the same position, at the first one and behind the last, and
/// writes of which about half replace their page.
pub fn operations(trace: &[(u64, bool)], seed: u64) -> Operations {
    let mut random = RandomWorkload::new(seed);
    let mut operations = Operations::default();
    for position in 0..=trace.len() {
        for _ in 0..random.below(20).saturating_sub(17) {
            let page = trace[random.below(trace.len() as u64) as usize].0;
            operations.trims.push((position, page.saturating_sub(random.below(2)), page.saturating_add(random.below(4) / 3)));
        }
        if let Some((_, write)) = trace.get(position) {
            operations.whole.push(*write && random.below(2) == 0);
        }
    }
    operations.trims.push((trace.len() / 2, 0, u64::MAX));
    operations.trims.sort_unstable();
    operations
}

/// The trace as a file, which exists as long as the directory. In the native format it has classes, times and rings.
pub fn file(trace: &[(u64, bool)], name: &str) -> (TempDir, Source) {
    file_with(trace, &Operations::default(), name)
}

/// The trace as a file with operations.
pub fn file_with(trace: &[(u64, bool)], operations: &Operations, name: &str) -> (TempDir, Source) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join(name);
    let format = Format::of_name(&path).expect("a name with a format");
    let classes = (format == Format::Native).then(PageClasses::default);
    let (metadata, classes) = (Metadata::default(), classes.as_ref());
    let writer = Writer::create_with_classes(&path, format, &metadata, classes, None);
    let mut writer = writer.expect("a trace file");
    let mut batch: Batch = trace.iter().copied().collect();
    if classes.is_some() {
        batch.classes = batch.pages.iter().copied().map(class_of).collect();
        batch.requests = (0..batch.len()).map(request_of).collect();
    }
    let Operations { whole, trims } = operations;
    if !(whole.is_empty() && trims.is_empty()) {
        writer.expect(OptionalColumns::OPERATIONS);
    }
    batch.whole.clone_from(whole);
    batch.trims = trims.iter().map(|&(before, first, last)| Trim { before, first, last, time_us: 0 }).collect();
    writer.write(&batch).and_then(|()| writer.finish()).expect("room for a trace");
    let source = Source::parse(path.to_str().expect("a plain path"), None).expect("a trace");
    (directory, source)
}

/// The policy of `spec` over `frames` frames.
pub fn cell(spec: &str, frames: u64, asymmetry: f64) -> SimCell {
    SimCell { policy: spec.parse().expect("a policy"), frames, asymmetry }
}
