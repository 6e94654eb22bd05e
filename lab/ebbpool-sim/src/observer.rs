//! Outputs of a run besides its counts: events and time series.

use std::io::{self, Write};

use ebbpool_policy::{Costs, Gauges};

/// The number of references between two samples.
pub(crate) const SAMPLE_EVERY: u64 = 1000;

/// The state of a simulation at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// References served since the trace began, warm-up included.
    pub references: u64,
    /// Page reads since counting began.
    pub reads: u64,
    /// Page writes since counting began.
    pub writes: u64,
    /// Clean pages in the buffer.
    pub clean: u64,
    /// Dirty pages in the buffer.
    pub dirty: u64,
    /// Hits of pages that were clean, since counting began.
    pub clean_hits: u64,
    /// The device's bill since counting began, in its unit.
    pub bill: Option<f64>,
    /// Cost of a page write in page reads, as reported to the policy.
    pub asymmetry: f64,
    /// The policy's readings.
    pub gauges: Gauges,
}

/// Observes the operations of a simulation, or serves them as its device.
pub trait Observer: Send {
    /// False if the observer ignores all calls, so that they cost nothing.
    const LISTENS: bool;
    /// Counting begins.
    fn counting(&mut self);
    /// The page is dirty when counting begins; called after `counting`, once for each such page.
    fn dirty_before(&mut self, _page: u64) {}
    /// The trace has ended, and the pages that are dirty are written next.
    fn ending(&mut self) {}
    /// The costs from this reference on, where the first is 0, if they have changed.
    fn costs(&mut self, _reference: u64) -> Option<Costs> {
        None
    }
    /// True if the simulation cannot continue; called before each reference.
    fn stopped(&self) -> bool {
        false
    }
    /// The number of pages that the device has; others cannot be read.
    fn pages(&self) -> u64 {
        u64::MAX
    }
    /// True if it knows how often blocks were erased.
    fn counts_erases(&self) -> bool {
        false
    }
    /// How often the erase block that holds the page was erased; 0 if no block holds it.
    fn erases_of(&self, _page: u64) -> u32 {
        0
    }
    /// Records the pages that the device moves from now on.
    fn note_moves(&mut self) {}
    /// Appends the pages moved since the last call, some of them more than once.
    fn take_moved(&mut self, _moved: &mut Vec<u64>) {}
    /// A page was read because of a miss, or to write its block whole.
    fn read(&mut self, _page: u64) {}
    /// A dirty page was written back.
    fn write(&mut self, page: u64);
    /// These pages have ended, from the first to the last; those that were in frames are no longer.
    fn trim(&mut self, _first: u64, _last: u64) {}
    /// A page was evicted.
    fn evict(&mut self, page: u64);
    /// The state after another 1,000 references.
    fn sample(&mut self, sample: &Sample);
}

/// An observer that ignores everything.
pub struct NoObserver;

impl Observer for NoObserver {
    const LISTENS: bool = false;
    fn counting(&mut self) {}
    fn write(&mut self, _page: u64) {}
    fn evict(&mut self, _page: u64) {}
    fn sample(&mut self, _sample: &Sample) {}
}

/// Write-backs and evictions in order, one per line: `write 12`, `evict 12`.
pub struct EventLog<W>(pub W);

/// A CSV file with a row every 1,000 references.
pub struct Series<W>(W);

impl<W: Write> Series<W> {
    /// Writes the header.
    pub fn new(mut out: W) -> io::Result<Self> {
        writeln!(out, "reference,clean,dirty,target,asymmetry,pc,pd,pdw")?;
        Ok(Series(out))
    }

    /// The writer.
    pub fn into_inner(self) -> W {
        self.0
    }
}

/// The trace of what lies below the buffer, as text: a line for each page that is read or written back, and for trims, from the
/// first reference on. A page that is written back replaces the one below as a whole.
pub struct MissLog<W>(W);

impl<W: Write> MissLog<W> {
    /// Writes the metadata: the pages have this many bytes, if it is known.
    pub fn new(mut out: W, page_size: Option<u64>) -> io::Result<Self> {
        writeln!(out, "# ebbpool.below_cache=true\n# ebbpool.operations=true")?;
        if let Some(page_size) = page_size {
            writeln!(out, "# ebbpool.page_size={page_size}")?;
        }
        Ok(MissLog(out))
    }

    /// The writer.
    pub fn into_inner(self) -> W {
        self.0
    }
}

/// Writes events, a series, or both. It stores the first failure, which ends the writing.
pub struct EventWriter<W> {
    /// The output of events.
    pub events: Option<EventLog<W>>,
    /// The output of the series.
    pub series: Option<Series<W>>,
    /// The output of what lies below.
    pub misses: Option<MissLog<W>>,
    /// The first failed output, and its error.
    pub failure: Option<(&'static str, io::Error)>,
}

impl<W: Write + Send> EventWriter<W> {
    fn event(&mut self, text: std::fmt::Arguments<'_>) {
        if self.failure.is_none()
            && let Some(EventLog(out)) = &mut self.events
            && let Err(error) = writeln!(out, "{text}")
        {
            self.failure = Some(("the events", error));
        }
    }

    fn miss(&mut self, letter: char, page: u64) {
        self.line_below(format_args!("{letter} {page}"));
    }

    fn line_below(&mut self, line: std::fmt::Arguments<'_>) {
        if self.failure.is_none()
            && let Some(MissLog(out)) = &mut self.misses
            && let Err(error) = writeln!(out, "{line}")
        {
            self.failure = Some(("the misses", error));
        }
    }
}

impl<W: Write + Send> Observer for EventWriter<W> {
    const LISTENS: bool = true;

    fn counting(&mut self) {
        self.event(format_args!("# counted from here"));
    }

    fn read(&mut self, page: u64) {
        self.miss('R', page);
    }

    fn write(&mut self, page: u64) {
        self.event(format_args!("write {page}"));
        self.miss('O', page);
    }

    fn trim(&mut self, first: u64, last: u64) {
        let pages = (last - first).saturating_add(1);
        self.event(format_args!("trim {first} {pages}"));
        self.line_below(format_args!("T {first} {pages}"));
    }

    fn evict(&mut self, page: u64) {
        self.event(format_args!("evict {page}"));
    }

    fn sample(&mut self, sample: &Sample) {
        let Some(Series(out)) = &mut self.series else {
            return;
        };
        if self.failure.is_some() {
            return;
        }
        let Sample { references, clean, dirty, asymmetry, gauges, .. } = sample;
        let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
        let [pc, pd, pdw] = [0, 1, 2].map(|at| number(gauges.estimates.map(|all| all[at])));
        let target = number(gauges.target);
        let row = writeln!(out, "{references},{clean},{dirty},{target},{asymmetry},{pc},{pd},{pdw}");
        if let Err(error) = row {
            self.failure = Some(("the series", error));
        }
    }
}
