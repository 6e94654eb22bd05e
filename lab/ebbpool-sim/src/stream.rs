//! Any number of simulations in one pass of a trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use ebbpool_device::AnyDevice;
use ebbpool_device::arrivals::Rate;
use ebbpool_policy::{Capabilities, Foresight, PageClass, PageProbabilities, Policy, RecordedRequest, registry};
use ebbpool_trace::{Batch, Ids, OptionalColumns, Reader, RequestDetail, Source, Trim};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::bound::{self, BoundQuestion, RecordedTrace};
use crate::checkpoints::{CheckpointClock, CheckpointIntervals};
use crate::engine::{AtEnd, Chunk, Counts, Engine, RunParameters, RunningEngine};
use crate::error::SimError;
use crate::future::{Future, MOST_REFERENCES};
use crate::guest::{SimPolicy, engine_of_guest};
use crate::listener::{DynObserver, observed};
use crate::observer::{NoObserver, Observer};
use crate::on_device::{DeviceObserver, DeviceOutcome};
use crate::probabilities;
use crate::time_line::TimeLine;

/// References decoded at a time: large enough to keep all cores busy between two chunks, small
/// enough to stay in the cache.
const CHUNK: usize = 1 << 18;

/// The most distinct pages: a number and a write flag share 32 bits.
pub(crate) const MOST_PAGES: u64 = (1 << 31) - 2;

/// More frames than this are allocated only after a scan has shown that the trace has as many
/// pages.
const FRAMES_WITHOUT_SCAN: u64 = 1 << 20;

/// A policy over a number of frames, with one asymmetry.
#[derive(Clone, Debug)]
pub struct SimCell {
    /// The policy.
    pub policy: SimPolicy,
    /// Frames, at least 1.
    pub frames: u64,
    /// Cost of a page write in page reads.
    pub asymmetry: f64,
}

impl SimCell {
    /// The engine, without an observer or with one.
    pub(crate) fn engine<'o>(
        &self,
        setup: RunParameters,
        observer: Option<&'o mut dyn DynObserver>,
    ) -> Result<Box<dyn RunningEngine + 'o>, SimError> {
        let frames = setup.frames;
        match (&self.policy, observer) {
            (SimPolicy::Guest(guest), observer) => engine_of_guest(guest, setup, observer),
            (SimPolicy::Registered(policy), None) => Ok(registry::visit(policy, frames, EngineVisitor(setup))),
            (SimPolicy::Registered(policy), Some(observer)) => Ok(observed(registry::boxed(policy, frames), setup, observer)),
        }
    }
}

/// The options of all cells of a simulation.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// References at the start that are not counted.
    pub warmup: u64,
    /// The treatment of dirty pages at the end.
    pub at_end: AtEnd,
    /// Pages per cluster when cluster switches are counted (PPE: 16).
    pub cluster_size: u64,
    /// Worker threads; the results do not depend on it.
    pub threads: usize,
    /// The rate at which references arrive at a device; `None` where each waits for the one before.
    pub rate: Option<Rate>,
    /// When all dirty pages are written, except for policies with checkpoints of their own; `None` for never.
    pub checkpoints: Option<CheckpointIntervals>,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions { warmup: 0, at_end: AtEnd::default(), cluster_size: 16, threads: 1, rate: None, checkpoints: None }
    }
}

/// Reports a simulation's progress to the caller, and the caller's request to stop to the
/// simulation.
pub struct PassControl<'a> {
    /// Called with the share of the trace done, from 0 to 1.
    pub report: &'a (dyn Fn(f64) + Sync),
    /// The caller sets it to stop the work; it stops within 100 ms.
    pub stop: &'a AtomicBool,
}

impl PassControl<'_> {
    /// True if the caller wants the work to stop.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn check(&self) -> Result<(), SimError> {
        if self.stopped() {
            return Err(SimError::Interrupted);
        }
        Ok(())
    }
}

/// The facts of a trace that a pass over it yields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceFacts {
    /// References, warm-up included.
    pub references: u64,
    /// Distinct pages, warm-up included.
    pub distinct_pages: u64,
    /// Counted references to another cluster than the one before, the first included (PPE).
    pub cluster_switches: u64,
}

/// The result of a simulation: the counts of each cell, in the order given.
#[derive(Debug)]
pub struct SimOutcome {
    /// One entry per cell.
    pub counts: Vec<Counts>,
    /// The facts of the trace.
    pub facts: TraceFacts,
}

/// The result of a first pass over a trace, which some simulations need before they start.
#[derive(Debug, Default)]
pub struct TraceScan {
    /// References.
    pub references: u64,
    /// Distinct pages.
    pub distinct_pages: u64,
    /// Pages of the database, as far as the trace states them.
    pub(crate) database_pages: Option<u64>,
    /// The future, for offline policies.
    pub(crate) future: Option<Future>,
    /// The whole trace, for policies that are guided by prices.
    pub(crate) recorded: Option<RecordedTrace>,
    /// The probabilities of references, for policies that know them.
    pub(crate) probabilities: Option<Arc<PageProbabilities>>,
}

struct DecodedChunk {
    references: Vec<u32>,
    new_pages: Vec<u64>,
    /// The classes of the new pages; none if the trace has none, or they are not asked for.
    new_classes: Vec<PageClass>,
    /// The time and ring of each reference; none if the trace has none, or they are not asked for.
    requests: Vec<RecordedRequest>,
    /// The positions before which there is a checkpoint.
    checkpoints: Vec<usize>,
    /// Which references write all of their page.
    whole: Vec<bool>,
    /// The numbers of pages that end, and the trims that end them, each with the position that follows.
    ends: Vec<(usize, u32)>,
    trims: Vec<(usize, u64, u64)>,
    /// Cluster switches among the counted references of this chunk.
    cluster_switches: u64,
    progress: f64,
}

impl DecodedChunk {
    /// The chunk, which begins at a position, without the future and without pages.
    fn as_chunk(&self, start: usize) -> Chunk<'_> {
        Chunk {
            references: &self.references,
            start,
            future: None,
            pages: &[],
            classes: &[],
            requests: &self.requests,
            checkpoints: &self.checkpoints,
            whole: &self.whole,
            ends: &self.ends,
            trims: &self.trims,
        }
    }
}

/// Decodes a trace, numbers its pages, and hands it on chunk by chunk.
struct Decoder {
    reader: Reader,
    label: String,
    ids: Ids,
    batch: Batch,
    served: u64,
    warmup: u64,
    cluster_size: u64,
    last_cluster: Option<u64>,
    checkpoints: Option<CheckpointClock>,
}

impl Decoder {
    /// Before the first reference.
    fn open(source: &Source, options: &SimOptions, columns: OptionalColumns) -> Result<Self, SimError> {
        let asks_times = options.checkpoints.is_some_and(|it| it.asks_times());
        let columns = OptionalColumns { requests: columns.requests || asks_times, operations: true, ..columns };
        Ok(Decoder {
            reader: source.open_with(columns)?,
            label: source.label().into(),
            ids: Ids::default(),
            batch: Batch::with_capacity(CHUNK),
            served: 0,
            warmup: options.warmup,
            cluster_size: options.cluster_size,
            last_cluster: None,
            checkpoints: options.checkpoints.map(CheckpointClock::new),
        })
    }

    fn next(&mut self) -> Result<Option<DecodedChunk>, SimError> {
        // A chunk without references lets the receiver stop while many are skipped.
        let skips = self.reader.skip_some(&mut self.batch)?;
        if !skips && !self.reader.next_batch(&mut self.batch, CHUNK)? {
            return Ok(None);
        }
        let mut new_pages = Vec::new();
        let pages_before = self.ids.count();
        let mut references = Vec::with_capacity(self.batch.len());
        let mut writes = self.batch.writes.iter();
        let (mut ends, mut trims) = (Vec::new(), Vec::new());
        let mut numbered = 0;
        let mut number = |ids: &mut Ids, to: usize| {
            ids.ids(
                &self.batch.pages[numbered..to],
                |page| new_pages.push(page),
                |id| {
                    let write = writes.next().is_some_and(|&write| write);
                    references.push(id << 1 | u32::from(write));
                },
            );
            numbered = to;
        };
        for &Trim { before, first, last, .. } in &self.batch.trims {
            number(&mut self.ids, before);
            let position = self.served as usize + before;
            self.ids.within(first, last, |id| ends.push((position, id)));
            trims.push((position, first, last));
        }
        number(&mut self.ids, self.batch.len());
        if self.ids.count() > MOST_PAGES {
            return Err(SimError::TooLarge { trace: self.label.clone(), what: "distinct pages", limit: MOST_PAGES });
        }
        let checkpoints = match &mut self.checkpoints {
            Some(clock) => clock.positions(&self.batch, self.served as usize, &self.label)?,
            None => Vec::new(),
        };
        let warm = self.warmup.saturating_sub(self.served) as usize;
        self.served += references.len() as u64;
        let mut cluster_switches = 0;
        for page in self.batch.pages.iter().skip(warm) {
            let cluster = page / self.cluster_size;
            cluster_switches += u64::from(self.last_cluster != Some(cluster));
            self.last_cluster = Some(cluster);
        }
        let new_classes = classes_of_new(pages_before, &references, &self.batch.classes);
        Ok(Some(DecodedChunk {
            references,
            new_pages,
            new_classes,
            requests: self.batch.requests.iter().map(request).collect(),
            whole: self.batch.whole.clone(),
            ends,
            trims,
            checkpoints,
            cluster_switches,
            progress: self.reader.progress(),
        }))
    }

    fn send_all(mut self, chunks: SyncSender<Result<DecodedChunk, SimError>>) {
        loop {
            let chunk = self.next().transpose();
            let Some(chunk) = chunk else { return };
            let failed = chunk.is_err();
            // The receiver hangs up when it stops.
            if chunks.send(chunk).is_err() || failed {
                return;
            }
        }
    }
}

/// A request as policies take it.
fn request(detail: &RequestDetail) -> RecordedRequest {
    let &RequestDetail { time_us, bypass } = detail;
    RecordedRequest { time_us, bypass }
}

/// The columns that some of these engines ask for.
pub(crate) fn columns_of<'e, 'o: 'e>(engines: impl IntoIterator<Item = &'e Box<dyn RunningEngine + 'o>>) -> OptionalColumns {
    let none = OptionalColumns::default();
    let engines = engines.into_iter();
    engines.fold(none, |columns, engine| OptionalColumns {
        classes: columns.classes || engine.columns().classes,
        requests: columns.requests || engine.columns().requests,
        operations: true,
    })
}

/// The classes of the pages that first appear among `references`, in order. `classes` are those of the references, or
/// empty, and there were `pages_before` pages before them.
fn classes_of_new(pages_before: u64, references: &[u32], classes: &[PageClass]) -> Vec<PageClass> {
    let mut next = pages_before;
    let mut new = Vec::new();
    for (reference, &class) in references.iter().zip(classes) {
        if u64::from(reference >> 1) == next {
            new.push(class);
            next += 1;
        }
    }
    new
}

/// The pages of a trace by dense number, as far as it is decoded.
#[derive(Debug, Default)]
pub(crate) struct DistinctPages {
    pub(crate) pages: Vec<u64>,
    /// The class that each page had when it first appeared; empty unless the [`columns`](Self::columns) have classes, and
    /// if the trace has none.
    classes: Vec<PageClass>,
    /// The columns that some policy asks for.
    columns: OptionalColumns,
}

impl DistinctPages {
    /// Before the first page.
    pub(crate) fn new(columns: OptionalColumns) -> Self {
        DistinctPages { columns, ..DistinctPages::default() }
    }
}

/// Collects the future, as far as a foresight requires.
pub(crate) struct FutureNotes {
    foresight: Foresight,
    future: Future,
    recorded: RecordedTrace,
}

impl FutureNotes {
    pub(crate) fn new(foresight: Foresight) -> Self {
        FutureNotes { foresight, future: Future::default(), recorded: RecordedTrace::default() }
    }

    /// The number of pages so far.
    pub(crate) fn pages(&self) -> usize {
        self.recorded.pages.len()
    }

    /// FutureAppends the next references, and their new pages.
    pub(crate) fn push(&mut self, chunk: &Chunk, new_pages: &[u64]) {
        if self.foresight > Foresight::Nothing {
            self.future.extend(chunk.references, chunk.ends);
            self.recorded.pages.extend_from_slice(new_pages);
        }
        if self.foresight >= Foresight::Writes {
            self.recorded.push(chunk.references, chunk.whole, chunk.ends);
        }
    }

    /// The future, and the trace where prices have to be computed from it.
    pub(crate) fn finish(mut self) -> (Option<Future>, Option<RecordedTrace>) {
        if self.foresight >= Foresight::Writes {
            self.future.look_for_writes(&self.recorded.references);
        }
        let future = (self.foresight > Foresight::Nothing).then_some(self.future);
        let recorded = (self.foresight >= Foresight::Prices).then_some(self.recorded);
        (future, recorded)
    }
}

/// An error if there are too many references for a policy that looks ahead.
pub(crate) fn check_references(source: &Source, references: u64) -> Result<(), SimError> {
    match references > MOST_REFERENCES {
        true => Err(SimError::TooLarge {
            trace: source.label().into(),
            what: "references for an offline policy",
            limit: MOST_REFERENCES,
        }),
        false => Ok(()),
    }
}

/// Reads the whole trace once, and stores the future as far as `foresight` requires: 4 bytes per
/// reference for references, 16 for writes and prices.
pub fn scan(source: &Source, foresight: Foresight, progress: &PassControl) -> Result<TraceScan, SimError> {
    let mut decoder = Decoder::open(source, &SimOptions::default(), OptionalColumns::default())?;
    let database_pages = decoder.reader.metadata().database_pages;
    let mut notes = FutureNotes::new(foresight);
    let mut references = 0;
    while let Some(chunk) = decoder.next()? {
        progress.check()?;
        references += chunk.references.len() as u64;
        if foresight > Foresight::Nothing {
            check_references(source, references)?;
        }
        notes.push(&chunk.as_chunk(references as usize - chunk.references.len()), &chunk.new_pages);
        (progress.report)(chunk.progress);
    }
    let (future, recorded) = notes.finish();
    Ok(TraceScan { references, distinct_pages: decoder.ids.count(), database_pages, future, recorded, probabilities: None })
}

/// Reads a trace into memory, with the same limits as for an offline policy.
pub(crate) fn record(source: &Source, progress: &PassControl) -> Result<RecordedTrace, SimError> {
    let mut decoder = Decoder::open(source, &SimOptions::default(), OptionalColumns::default())?;
    let mut recorded = RecordedTrace::default();
    while let Some(chunk) = decoder.next()? {
        progress.check()?;
        recorded.push(&chunk.references, &chunk.whole, &chunk.ends);
        recorded.pages.extend_from_slice(&chunk.new_pages);
        if recorded.references.len() as u64 > MOST_REFERENCES {
            return Err(SimError::TooLarge {
                trace: source.label().into(),
                what: "references for an offline bound",
                limit: MOST_REFERENCES,
            });
        }
        (progress.report)(chunk.progress);
    }
    if recorded.references.is_empty() {
        return Err(SimError::Empty { trace: source.label().into() });
    }
    Ok(recorded)
}

/// Runs all `cells` through one pass of the trace.
///
/// Frames beyond the trace's pages are not used, so that a cell may have more frames than memory
/// could hold. Policies that need the future take a first pass and 4 bytes per reference.
///
/// ```
/// use ebbpool_sim::{PassControl, SimCell, SimOptions, simulate};
/// let source = ebbpool_trace::Source::parse("zipf:pages=100,refs=1000", None)?;
/// let lru = SimCell { policy: "lru".parse::<ebbpool_policy::PolicySpec>()?.into(), frames: 10, asymmetry: 8.0 };
/// let control = PassControl { report: &|_| {}, stop: &false.into() };
/// let counts = &simulate(&source, &[lru], &SimOptions::default(), &control)?.counts[0];
/// assert!(counts.misses > 10 && counts.misses < 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the trace cannot be read or is too large for a policy. [`SimError::Guest`] if a policy from outside the registry cannot
/// be made or fails, unless the caller has stopped the pass: such a policy may end a call because of that, and then the error
/// is [`SimError::Interrupted`].
pub fn simulate(
    source: &Source,
    cells: &[SimCell],
    options: &SimOptions,
    progress: &PassControl,
) -> Result<SimOutcome, SimError> {
    let engines = |setups: Vec<RunParameters>| {
        let engines = cells.iter().zip(setups);
        engines.map(|(cell, setup)| cell.engine(setup, None)).collect()
    };
    pass(source, cells, options, progress, engines)
}

/// Runs all `cells` through one pass of the trace, and returns each cell's time line, in the order given. Errors are those of
/// [`simulate`].
pub fn simulate_with_time_lines(
    source: &Source,
    cells: &[SimCell],
    options: &SimOptions,
    progress: &PassControl,
) -> Result<(SimOutcome, Vec<TimeLine>), SimError> {
    let mut lines: Vec<TimeLine> = cells.iter().map(|_| TimeLine::default()).collect();
    if options.warmup == 0 {
        lines.iter_mut().for_each(Observer::counting);
    }
    let sampled = &mut lines;
    let engines = move |setups: Vec<RunParameters>| {
        let engines = cells.iter().zip(setups).zip(sampled);
        let sampled = engines.map(|((cell, setup), line)| {
            let engine = cell.engine(setup, None)?;
            Ok(Box::new(Sampled { engine, line }) as Box<dyn RunningEngine + '_>)
        });
        sampled.collect()
    };
    let outcome = pass(source, cells, options, progress, engines)?;
    Ok((outcome, lines))
}

/// An engine whose state goes to a time line every 1,000 references. It takes no longer than without one, while
/// an observer sees each reference.
struct Sampled<'l> {
    engine: Box<dyn RunningEngine + 'l>,
    line: &'l mut TimeLine,
}

impl RunningEngine for Sampled<'_> {
    fn advance(&mut self, chunk: &Chunk) {
        self.engine.advance_sampled(chunk, self.line);
    }

    fn advance_sampled(&mut self, chunk: &Chunk, line: &mut TimeLine) {
        self.engine.advance_sampled(chunk, line);
    }

    fn columns(&self) -> OptionalColumns {
        self.engine.columns()
    }

    fn start_counting(&mut self, pages: &[u64]) {
        self.engine.start_counting(pages);
        Observer::counting(self.line);
    }

    fn finish(&mut self, pages: &[u64]) -> Counts {
        self.engine.finish(pages)
    }
}

/// Runs all `cells` through one pass of the trace, each on a device of its own, which begins as a copy of `device`, and
/// returns time lines and the outcomes of the devices. The device's costs overrule the cells' asymmetries. Errors are those of
/// [`simulate`].
pub fn simulate_on_device(
    source: &Source,
    cells: &[SimCell],
    device: &AnyDevice,
    options: &SimOptions,
    progress: &PassControl,
) -> Result<(SimOutcome, Vec<(TimeLine, DeviceOutcome)>), SimError> {
    let served = |_| DeviceObserver::new(device.clone(), options.rate, TimeLine::default());
    let mut served: Vec<DeviceObserver<TimeLine>> = cells.iter().map(served).collect();
    let outcome = pass_observed(source, cells, options, progress, &mut served)?;
    let results = served.into_iter().zip(&outcome.counts);
    let results = results.map(|(served, counts)| {
        let (of_device, line) = served.finish(counts, options.at_end);
        (line, of_device)
    });
    let results = results.collect();
    Ok((outcome, results))
}

/// Drives an engine per cell, each with an observer of its own, through the trace.
fn pass_observed<O: Observer>(
    source: &Source,
    cells: &[SimCell],
    options: &SimOptions,
    progress: &PassControl,
    observers: &mut [O],
) -> Result<SimOutcome, SimError> {
    let engines = |setups: Vec<RunParameters>| {
        let engines = cells.iter().zip(setups).zip(observers);
        engines.map(|((cell, setup), observer)| cell.engine(setup, Some(observer))).collect()
    };
    pass(source, cells, options, progress, engines)
}

/// A pool of `threads` threads.
pub(crate) fn workers(threads: usize) -> Result<rayon::ThreadPool, SimError> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.max(1))
        .build()
        .map_err(|error| SimError::Output { what: "to worker threads", source: std::io::Error::other(error) })
}

/// Drives an engine per cell through the trace, all of them chunk by chunk.
fn pass<'o>(
    source: &Source,
    cells: &[SimCell],
    options: &SimOptions,
    progress: &PassControl,
    engines: impl FnOnce(Vec<RunParameters>) -> Result<Vec<Box<dyn RunningEngine + 'o>>, SimError>,
) -> Result<SimOutcome, SimError> {
    run_engines(source, cells, options, progress, engines).map_err(|error| match error {
        SimError::Guest { .. } if progress.stopped() => SimError::Interrupted,
        error => error,
    })
}

fn run_engines<'o>(
    source: &Source,
    cells: &[SimCell],
    options: &SimOptions,
    progress: &PassControl,
    engines: impl FnOnce(Vec<RunParameters>) -> Result<Vec<Box<dyn RunningEngine + 'o>>, SimError>,
) -> Result<SimOutcome, SimError> {
    let check = || cells.iter().try_for_each(|cell| cell.policy.check());
    let scan = scan_if_needed(source, cells, progress)?;
    let workers = workers(options.threads)?;
    let setups: Result<Vec<RunParameters>, SimError> = workers.install(|| {
        let setups = cells.par_iter().with_max_len(1);
        setups.map(|cell| setup(cell, options, &scan, progress)).collect()
    });
    let mut engines = engines(setups?)?;
    let mut pages = DistinctPages::new(columns_of(&engines));
    let facts = for_each_chunk(source, options, &scan, progress, &mut pages, |chunk| {
        let advance = |engine: &mut Box<dyn RunningEngine + 'o>| {
            // Many cells take seconds for a chunk; the results of a stopped pass are not used.
            if !progress.stopped() {
                engine.advance(chunk);
            }
        };
        if engines.len() == 1 {
            engines.iter_mut().for_each(advance);
        } else {
            workers.install(|| {
                engines.par_iter_mut().with_max_len(1).for_each(advance);
            });
        }
        check()
    })?;
    progress.check()?;
    let counts = engines.iter_mut().map(|e| e.finish(&pages.pages)).collect();
    check()?;
    Ok(SimOutcome { counts, facts })
}

/// Runs one cell with `observer`.
pub fn simulate_one<O: Observer + 'static>(
    source: &Source,
    cell: &SimCell,
    options: &SimOptions,
    progress: &PassControl,
    observer: O,
) -> Result<(Counts, TraceFacts, O), SimError> {
    let scan = scan_if_needed(source, std::slice::from_ref(cell), progress)?;
    let setup = setup(cell, options, &scan, progress)?;
    let mut observer = observer;
    let listens = O::LISTENS.then_some(&mut observer as &mut dyn DynObserver);
    let mut engine = cell.engine(setup, listens)?;
    let mut pages = DistinctPages::new(engine.columns());
    let facts = for_each_chunk(source, options, &scan, progress, &mut pages, |chunk| {
        engine.advance(chunk);
        cell.policy.check()
    })?;
    let counts = engine.finish(&pages.pages);
    cell.policy.check()?;
    drop(engine);
    Ok((counts, facts, observer))
}

pub(crate) struct EngineVisitor(pub(crate) RunParameters);

impl registry::Visitor for EngineVisitor {
    type Out = Box<dyn RunningEngine>;
    fn visit<P: Policy + 'static>(self, policy: P) -> Self::Out {
        Box::new(Engine::new(policy, NoObserver, self.0))
    }
}

fn scan_if_needed(source: &Source, cells: &[SimCell], progress: &PassControl) -> Result<TraceScan, SimError> {
    let foresight = cells.iter().map(|cell| cell.policy.capabilities().foresight());
    let foresight = foresight.max().unwrap_or_default();
    let policies = cells.iter().filter_map(|cell| cell.policy.registered());
    let probabilities = probabilities::for_policies(source, policies)?;
    let frames = cells.iter().map(|cell| cell.frames).max();
    Ok(TraceScan { probabilities, ..scan_for(source, foresight, frames.unwrap_or_default(), progress)? })
}

/// Scans the trace if that foresight or the largest number of frames requires it.
fn scan_for(source: &Source, foresight: Foresight, frames: u64, progress: &PassControl) -> Result<TraceScan, SimError> {
    let many = frames > FRAMES_WITHOUT_SCAN;
    if foresight > Foresight::Nothing || many {
        scan(source, foresight, progress)
    } else {
        Ok(TraceScan {
            distinct_pages: u64::MAX,
            database_pages: source.open()?.metadata().database_pages,
            ..TraceScan::default()
        })
    }
}

/// The most frames that make a difference to a policy in a trace with that many pages. A server's policy looks at the
/// number of frames, also where it has more than it can use.
pub(crate) fn usable_frames(plays_server: bool, distinct_pages: u64) -> u64 {
    match plays_server {
        true => distinct_pages.max(FRAMES_WITHOUT_SCAN),
        false => distinct_pages,
    }
}

/// The setup of the cell's engine; computes the prices for a policy that is guided by them.
pub(crate) fn setup(
    cell: &SimCell,
    options: &SimOptions,
    scan: &TraceScan,
    progress: &PassControl,
) -> Result<RunParameters, SimError> {
    let asked = cell.policy.capabilities();
    let plays_server = asked.contains(Capabilities::BACKGROUND_WRITES);
    let usable = usable_frames(plays_server, scan.distinct_pages);
    let frames = cell.frames.min(usable).clamp(1, MOST_PAGES);
    let prices = match (asked.foresight(), &scan.recorded) {
        (Foresight::Prices, Some(trace)) => {
            let question = BoundQuestion { frames, asymmetry: cell.asymmetry, at_end: options.at_end, warmup: 0 };
            let quiet = PassControl { report: &|_| {}, ..*progress };
            let bound = bound::solve(trace, &question, &quiet);
            progress.check()?;
            Some(bound.prices)
        }
        _ => None,
    };
    let probabilities = scan.probabilities.clone();
    Ok(RunParameters {
        frames: frames as u32,
        asymmetry: cell.asymmetry,
        warmup: options.warmup,
        cluster_size: options.cluster_size,
        at_end: options.at_end,
        pages: scan.database_pages.unwrap_or(u64::MAX),
        prices,
        probabilities: probabilities.filter(|_| asked.contains(Capabilities::PROBABILITIES)),
    })
}

/// Decodes in a thread of its own while `consume` works on the chunk before. An error of `consume` ends the work.
pub(crate) fn for_each_chunk(
    source: &Source,
    options: &SimOptions,
    scan: &TraceScan,
    progress: &PassControl,
    distinct: &mut DistinctPages,
    mut consume: impl FnMut(&Chunk) -> Result<(), SimError>,
) -> Result<TraceFacts, SimError> {
    let decoder = Decoder::open(source, options, distinct.columns)?;
    let mut facts = TraceFacts::default();
    thread::scope(|scope| {
        let (sender, receiver): (_, Receiver<Result<DecodedChunk, SimError>>) = sync_channel(1);
        scope.spawn(move || decoder.send_all(sender));
        for chunk in receiver {
            progress.check()?;
            let chunk = chunk?;
            distinct.pages.extend_from_slice(&chunk.new_pages);
            distinct.classes.extend_from_slice(&chunk.new_classes);
            let start = facts.references as usize;
            let end = start + chunk.references.len();
            consume(&Chunk {
                future: scan.future.as_ref(),
                pages: &distinct.pages,
                classes: &distinct.classes,
                ..chunk.as_chunk(start)
            })?;
            facts.references = end as u64;
            facts.cluster_switches += chunk.cluster_switches;
            (progress.report)(chunk.progress);
        }
        Ok::<(), SimError>(())
    })?;
    facts.distinct_pages = distinct.pages.len() as u64;
    if facts.references == 0 {
        return Err(SimError::Empty { trace: source.label().into() });
    }
    if options.warmup >= facts.references {
        return Err(SimError::AllWarmup { trace: source.label().into(), references: facts.references, warmup: options.warmup });
    }
    Ok(facts)
}

#[cfg(test)]
mod tests;
