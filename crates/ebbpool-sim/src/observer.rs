//! What a run writes down besides its counts: events and time series.

use std::io::{self, Write};

use ebbpool_policy::Gauges;

/// Hears of what a simulation does.
pub trait Observer: Send {
    /// False if nothing is to be heard, so that the calls cost nothing.
    const LISTENS: bool;
    /// Counting begins.
    fn counting(&mut self);
    /// A dirty page was written back.
    fn write(&mut self, page: u64);
    /// A page left the buffer.
    fn evict(&mut self, page: u64);
    /// `references` have been served since the trace began; asked every 1,000.
    fn sample(&mut self, references: u64, clean: u64, dirty: u64, asymmetry: f64, gauges: Gauges);
}

/// Hears nothing.
pub struct NoObserver;

impl Observer for NoObserver {
    const LISTENS: bool = false;
    fn counting(&mut self) {}
    fn write(&mut self, _page: u64) {}
    fn evict(&mut self, _page: u64) {}
    fn sample(&mut self, _: u64, _: u64, _: u64, _: f64, _: Gauges) {}
}

/// Write-backs and evictions in order, one a line: `write 12`, `evict 12`.
pub struct Events<W>(pub W);

/// A CSV with a row every 1,000 references.
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

/// Writes events, a series, or both. The first failure is kept and ends the writing.
pub struct Recorder<W> {
    /// Where events go.
    pub events: Option<Events<W>>,
    /// Where the series goes.
    pub series: Option<Series<W>>,
    /// The first failure to write, and of what.
    pub failure: Option<(&'static str, io::Error)>,
}

impl<W: Write + Send> Recorder<W> {
    fn event(&mut self, text: std::fmt::Arguments<'_>) {
        if self.failure.is_none()
            && let Some(Events(out)) = &mut self.events
            && let Err(error) = writeln!(out, "{text}")
        {
            self.failure = Some(("the events", error));
        }
    }
}

impl<W: Write + Send> Observer for Recorder<W> {
    const LISTENS: bool = true;

    fn counting(&mut self) {
        self.event(format_args!("# counted from here"));
    }

    fn write(&mut self, page: u64) {
        self.event(format_args!("write {page}"));
    }

    fn evict(&mut self, page: u64) {
        self.event(format_args!("evict {page}"));
    }

    fn sample(&mut self, references: u64, clean: u64, dirty: u64, asymmetry: f64, gauges: Gauges) {
        let Some(Series(out)) = &mut self.series else {
            return;
        };
        if self.failure.is_some() {
            return;
        }
        let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
        let [pc, pd, pdw] = [0, 1, 2].map(|at| number(gauges.estimates.map(|all| all[at])));
        let target = number(gauges.target);
        let row = writeln!(
            out,
            "{references},{clean},{dirty},{target},{asymmetry},{pc},{pd},{pdw}"
        );
        if let Err(error) = row {
            self.failure = Some(("the series", error));
        }
    }
}
