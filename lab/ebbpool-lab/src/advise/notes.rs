//! What an advice assumes, and what limits it.

use serde::{Serialize, Serializer};

use super::load::SystemLoad;
use crate::events::BELOW_CACHE;
use crate::numbers::{decimals, grouped};

/// The subject of a note, by which a front end finds the argument that settles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoteKind {
    /// The present policy is assumed.
    Policy,
    /// The present size of the buffer is assumed.
    Frames,
    /// R is assumed.
    Asymmetry,
    /// The buffer holds all pages of the trace.
    HoldsAllPages,
    /// Too few misses or writes are counted.
    FewEvents,
    /// The references replace too little of the buffer.
    ShortTrace,
    /// The first misses, which fill the empty buffer, are a large part of all.
    ColdStart,
    /// Hardly any page is requested again.
    OnePass,
    /// The arrival of references is not known.
    NoClock,
    /// The size of a page is not known.
    NoPageSize,
    /// Most writes are put off beyond the end of the trace.
    Owed,
    /// The device is busy, or does not keep up.
    Busy,
    /// The device does not live as long as it should.
    ShortLife,
    /// The budget is less than the present memory.
    LessMemory,
    /// The device failed in a run.
    DeviceFailed,
    /// The trace was captured below a cache.
    BelowCache,
    /// Checkpoints at an interval of time have no place in the trace.
    Checkpoints,
    /// The capture lost events.
    LostEvents,
    /// The kernel's cache answered reads of the server.
    CachedReads,
    /// The server counted other reads or writes than the simulation of it has.
    Counted,
    /// The server ended during the capture.
    TargetEnded,
}

/// A note on an advice. It serializes as its text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdviceNote {
    /// The subject.
    pub kind: NoteKind,
    /// The note in a sentence.
    pub text: String,
}

impl Serialize for AdviceNote {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl AdviceNote {
    pub(super) fn new(kind: NoteKind, text: impl Into<String>) -> Self {
        AdviceNote { kind, text: text.into() }
    }
}

/// Fewer counted misses than this make a figure of more than 3 % error (one over the root).
const FEWEST_EVENTS: u64 = 1000;

/// References per distinct page below which a trace is a single pass over its pages.
const ONE_PASS: f64 = 1.5;

/// A buffer that is replaced less often than this has not shown what its policy does.
const LEAST_TURNOVERS: f64 = 2.0;

/// The share of the misses that may fill the empty buffer without a warning.
const MOST_COLD: f64 = 0.2;

/// A device that is busy for this share of the time answers late.
const BUSY: f64 = 0.7;

/// The facts that warnings are about.
pub(super) struct WarningFacts<'a> {
    pub(super) references: u64,
    pub(super) warmup: u64,
    pub(super) distinct_pages: u64,
    pub(super) references_per_second: Option<f64>,
    pub(super) page_size: Option<u64>,
    pub(super) below_cache: bool,
    /// What the present system writes was measured.
    pub(super) is_measured: bool,
    pub(super) now: &'a SystemLoad,
    pub(super) then: &'a SystemLoad,
}

impl WarningFacts<'_> {
    /// A number of references, and how long they take.
    fn recording(&self, references: f64) -> String {
        // Two digits are what such a figure is good for.
        let digits = references.max(1.0).log10().floor() as i32;
        let unit = 10f64.powi((digits - 1).max(0));
        let references = (references / unit).ceil() * unit;
        let count = grouped(references as u64);
        match self.references_per_second {
            Some(rate) => format!("{count} references ({})", duration(references / rate)),
            None => format!("{count} references"),
        }
    }

    /// All warnings that follow from counts and loads.
    pub(super) fn warnings(&self) -> Vec<AdviceNote> {
        let mut notes = Vec::new();
        let all = self.references + self.warmup;
        let largest = self.now.frames.max(self.then.frames);
        if largest >= self.distinct_pages {
            notes.push(AdviceNote::new(
                NoteKind::HoldsAllPages,
                format!(
                    "a buffer of {} frames holds all {} distinct pages of the trace, so that no policy can matter; record at least {}, or ask for a smaller buffer",
                    grouped(largest),
                    grouped(self.distinct_pages),
                    self.recording(10.0 * all as f64 * largest as f64 / self.distinct_pages.max(1) as f64)
                ),
            ));
        } else {
            notes.extend(self.too_short());
        }
        if (self.references + self.warmup) as f64 <= ONE_PASS * self.distinct_pages as f64 {
            notes.push(AdviceNote::new(
                NoteKind::OnePass,
                "hardly any page is requested again, as in a backup or a load; no policy saves anything then: record the usual work",
            ));
        }
        if self.below_cache {
            notes.push(AdviceNote::new(NoteKind::BelowCache, BELOW_CACHE));
        }
        if self.references_per_second.is_none() {
            notes.push(AdviceNote::new(
                NoteKind::NoClock,
                "the time in which the references arrived is not known, so that there are figures per reference only",
            ));
        }
        if self.page_size.is_none() {
            notes.push(AdviceNote::new(
                NoteKind::NoPageSize,
                "the trace does not state the size of a page, so that there are no bytes and no life of the device",
            ));
        }
        if !self.is_measured {
            notes.extend(self.owed("now", self.now));
        }
        // Where nothing changes one sentence is enough.
        let is_other = self.then.policy != self.now.policy || self.then.frames != self.now.frames;
        if is_other || self.is_measured {
            notes.extend(self.owed("with the recommendation", self.then));
        }
        notes.extend(self.busy("now", self.now));
        if is_other {
            notes.extend(self.busy("with the recommendation", self.then));
        }
        notes
    }

    /// The system whose counts show what the trace is worth: where no buffer is there now, that of the recommendation.
    fn buffered(&self) -> &SystemLoad {
        match self.now.frames {
            0 => self.then,
            _ => self.now,
        }
    }

    fn too_short(&self) -> Option<AdviceNote> {
        let now = self.buffered();
        let counted = self.references as f64;
        let misses = now.misses();
        if misses < FEWEST_EVENTS {
            let needed = counted * FEWEST_EVENTS as f64 / misses.max(1) as f64;
            return Some(AdviceNote::new(
                NoteKind::FewEvents,
                format!(
                    "only {} misses are counted, too few for figures of 3 % error; record at least {}",
                    grouped(misses),
                    self.recording(needed)
                ),
            ));
        }
        let frames = now.frames.max(self.then.frames) as f64;
        let turnovers = misses.min(self.then.misses()) as f64 / frames;
        if turnovers < LEAST_TURNOVERS {
            return Some(AdviceNote::new(
                NoteKind::ShortTrace,
                format!(
                    "the trace replaces the buffer's pages {turnovers:.1} times, too seldom to judge a policy; record at least {}",
                    self.recording(counted * LEAST_TURNOVERS / turnovers)
                ),
            ));
        }
        let cold = now.frames as f64 / misses as f64;
        if self.warmup == 0 && cold > MOST_COLD {
            return Some(AdviceNote::new(
                NoteKind::ColdStart,
                format!(
                    "{:.0} % of the misses fill the buffer, which a running server has filled already; leave them out by a warm-up",
                    100.0 * cold
                ),
            ));
        }
        if now.writes > 0 && now.writes < FEWEST_EVENTS {
            return Some(AdviceNote::new(
                NoteKind::FewEvents,
                format!(
                    "only {} page writes are counted, too few for figures of 3 % error; record at least {}",
                    grouped(now.writes),
                    self.recording(counted * FEWEST_EVENTS as f64 / now.writes as f64)
                ),
            ));
        }
        None
    }

    fn owed(&self, when: &str, load: &SystemLoad) -> Option<AdviceNote> {
        let owed = load.owed_writes();
        owed.are_most().then(|| {
            AdviceNote::new(
                NoteKind::Owed,
                format!(
                    "{when} most writes are put off beyond the end of the trace, which has {} more dirty pages than its start, while {} were written: the trace is too short to say how long the device lives",
                    grouped(owed.owed),
                    grouped(owed.until_end)
                ),
            )
        })
    }

    fn busy(&self, when: &str, load: &SystemLoad) -> Option<AdviceNote> {
        let busy = load.busy_share.filter(|busy| *busy > BUSY)?;
        let percent = 100.0 * busy;
        let text = match busy > 1.0 {
            true => format!(
                "{when} the reads and writes of a second take the device {} seconds, one at a time: it keeps up only if it serves several \
                 at once",
                decimals(busy, 2)
            ),
            false => {
                format!("{when} the device is busy for {percent:.0} % of the time, one request at a time, so that others wait")
            }
        };
        Some(AdviceNote::new(NoteKind::Busy, text))
    }
}

/// Seconds in words, with the unit that has one or two digits.
pub(super) fn duration(seconds: f64) -> String {
    let units = [(86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")];
    let unit = units.into_iter().find(|(length, _)| seconds >= 2.0 * length);
    let (length, name) = unit.unwrap_or((1.0, "seconds"));
    let number = seconds / length;
    if number > 0.0 && number < 0.1 {
        return format!("{number:.1e} {name}");
    }
    format!("{} {name}", decimals(number, usize::from(number < 10.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_the_unit_that_fits() {
        for (seconds, text) in [
            (3e-7, "3.0e-7 seconds"),
            (0.0, "0.0 seconds"),
            (0.5, "0.5 seconds"),
            (90.0, "90 seconds"),
            (600.0, "10 minutes"),
            (9000.0, "2.5 hours"),
            (864_000.0, "10 days"),
            (86_400e300, "1e300 days"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
