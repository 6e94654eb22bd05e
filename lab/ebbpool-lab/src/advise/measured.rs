//! What a server and its device wrote while the trace was captured.

use ebbpool_trace::ReadOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clock::SECONDS_PER_DAY;
use super::notes::{AdviceNote, NoteKind};
use crate::error::AdviseError;

/// Bytes that were written in the seconds of a capture, as the kernel and the server count them: the object `written` of a
/// capture's file of facts. What was not counted is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MeasuredWrites {
    /// The seconds of the capture.
    pub seconds: f64,
    /// Bytes of the pages that the server wrote.
    pub page_bytes: Option<u64>,
    /// Bytes by which the log grew.
    pub log_bytes: Option<u64>,
    /// Bytes that the server's processes sent to files, as the kernel counts them (`write_bytes` of `/proc/PID/io`).
    pub process_bytes: Option<u64>,
    /// What the block device below the server's files took, from all programs.
    pub device: Option<MeasuredDevice>,
    /// References of the captured trace, where the facts say it: the bytes say nothing of another trace.
    #[serde(skip)]
    pub references: Option<u64>,
    /// The share of the capture's events that found no room, which the trace lacks.
    #[serde(skip)]
    pub lost: f64,
    /// What was read meanwhile: the object `read` of the facts.
    #[serde(skip)]
    pub read: MeasuredReads,
    /// True if the server ended during the capture.
    #[serde(skip)]
    pub target_ended: bool,
}

/// Bytes that were read in the seconds of a capture; `None` where they were not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct MeasuredReads {
    /// Bytes of the pages that the server read, by its own count.
    pub page_bytes: Option<u64>,
    /// Bytes that devices read for its processes, as the kernel counts them (`read_bytes` of `/proc/PID/io`). What the kernel's cache
    /// answered is not among them.
    pub process_bytes: Option<u64>,
}

impl MeasuredReads {
    /// Bytes of pages by the server's count, and of its processes by the kernel's.
    pub fn new(page_bytes: Option<u64>, process_bytes: Option<u64>) -> Self {
        MeasuredReads { page_bytes, process_bytes }
    }
}

/// Seconds that a capture may take: shorter ones, and longer ones than a century, are no measurement.
const CAPTURE_SECONDS: std::ops::RangeInclusive<f64> = 1e-3..=3.2e9;

/// A block device in the seconds of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MeasuredDevice {
    /// The kernel's name of the device.
    pub name: String,
    /// Bytes that it took.
    pub bytes: u64,
}

impl MeasuredDevice {
    /// The device of that name, which took these bytes.
    pub fn new(name: impl Into<String>, bytes: u64) -> Self {
        MeasuredDevice { name: name.into(), bytes }
    }
}

/// What a server wrote, in bytes per day.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct MeasuredDay {
    /// The seconds in which it was measured.
    pub seconds: f64,
    /// What the server wrote by its own counters, pages and log; where neither is known, `most`.
    pub total: f64,
    /// The most that it can have written: the smaller one of `processes` and `device`, but at least `total`. More than `total` it is by
    /// parts of the log that were written again, by other files, and by other programs. `None` where neither is known.
    pub most: Option<f64>,
    /// Pages.
    pub pages: Option<f64>,
    /// The log.
    pub log: Option<f64>,
    /// What the server's processes sent to files by the kernel's count, which may be far too high where the kernel's page cache
    /// has units larger than a page.
    pub processes: Option<f64>,
    /// What the device took, from all programs.
    pub device: Option<f64>,
    /// The kernel's name of the device.
    pub device_name: Option<String>,
}

impl MeasuredDay {
    /// The bytes of a day with this many times as many references.
    pub(super) fn times(&self, times: f64) -> Self {
        let of = |bytes: Option<f64>| bytes.map(|bytes| bytes * times);
        MeasuredDay {
            total: self.total * times,
            most: of(self.most),
            pages: of(self.pages),
            log: of(self.log),
            processes: of(self.processes),
            device: of(self.device),
            ..self.clone()
        }
    }
}

impl MeasuredWrites {
    /// The writes of a capture of this many seconds, of which nothing was counted.
    pub fn new(seconds: f64) -> Self {
        MeasuredWrites {
            seconds,
            page_bytes: None,
            log_bytes: None,
            process_bytes: None,
            device: None,
            references: None,
            lost: 0.0,
            read: MeasuredReads::default(),
            target_ended: false,
        }
    }

    /// Reads the object `written` of a file of facts.
    ///
    /// # Errors
    ///
    /// [`AdviseError::NoMeasuredWrites`] if the text is no JSON object with such an object, or if no capture takes its seconds.
    pub fn from_facts(facts: &str) -> Result<Self, AdviseError> {
        #[derive(Deserialize)]
        struct Facts {
            written: MeasuredWrites,
            #[serde(default)]
            read: MeasuredReads,
            references: Option<u64>,
            #[serde(default)]
            resident_references: u64,
            #[serde(default)]
            events: u64,
            #[serde(default)]
            lost: u64,
            #[serde(default)]
            target_ended: bool,
        }
        let wrong = |why: String| AdviseError::NoMeasuredWrites(why);
        let facts: Facts = serde_json::from_str(facts).map_err(|error| wrong(error.to_string()))?;
        let seconds = facts.written.seconds;
        if !CAPTURE_SECONDS.contains(&seconds) {
            return Err(wrong(format!("no capture takes {seconds:?} seconds")));
        }
        let references = facts.references;
        let met = facts.events.saturating_add(facts.lost).max(1);
        Ok(MeasuredWrites {
            lost: facts.lost as f64 / met as f64,
            read: facts.read,
            target_ended: facts.target_ended,
            references: references.map(|it| it.saturating_add(facts.resident_references)),
            ..facts.written
        })
    }

    /// Bytes of the pages that the server read, where these are enough to say anything.
    pub(super) fn counted_reads(&self, page_size: u64) -> Option<u64> {
        const FEWEST_PAGES: u64 = 100;
        self.read.page_bytes.filter(|bytes| *bytes >= FEWEST_PAGES * page_size)
    }

    /// True if anything was counted.
    pub(super) fn is_counted(&self) -> bool {
        let bytes = [self.page_bytes, self.log_bytes, self.process_bytes];
        self.device.is_some() || bytes.iter().any(Option::is_some)
    }

    /// Refuses the bytes of a capture of another trace. A piece of the captured trace has fewer references, and one with smaller
    /// pages has a multiple of them.
    pub(super) fn check(&self, trace: u64, options: &ReadOptions) -> Result<(), AdviseError> {
        let Some(captured) = self.references else {
            return Ok(());
        };
        let is_piece = options.skip > 0 || options.limit.is_some();
        let is_folded = options.page_size.is_some();
        let fits = match (is_folded, is_piece) {
            (true, true) => true,
            (true, false) => trace.is_multiple_of(captured),
            (false, true) => trace <= captured,
            (false, false) => trace == captured,
        };
        match fits {
            true => Ok(()),
            false => Err(AdviseError::FactsOfAnotherTrace { captured, trace }),
        }
    }

    /// What the trace lacks, if it is more than figures bear.
    pub(super) fn lost_events(&self) -> Option<AdviceNote> {
        /// A capture refuses to write a trace if a larger share was lost, unless it is forced to.
        const MOST_LOST: f64 = 0.01;
        let lost = Some(100.0 * self.lost).filter(|_| self.lost > MOST_LOST)?;
        Some(AdviceNote::new(
            NoteKind::LostEvents,
            format!(
                "{lost:.0} % of the capture's events were lost, so that the trace has gaps, rates are too low, and every figure may be far off: capture again with a larger --ring"
            ),
        ))
    }

    /// What an operator must know of a capture during which the server ended.
    pub(super) fn ended(&self) -> Option<AdviceNote> {
        self.target_ended.then(|| {
            AdviceNote::new(
                NoteKind::TargetEnded,
                "the server ended during the capture: what it wrote to end is in what was measured, and figures in time are of its last seconds",
            )
        })
    }

    /// What the server wrote, in bytes per day.
    pub(super) fn per_day(&self) -> MeasuredDay {
        let daily = |bytes: u64| bytes as f64 * (SECONDS_PER_DAY / self.seconds);
        let device = self.device.as_ref().map(|device| device.bytes);
        let limit = self.process_bytes.into_iter().chain(device).min();
        let parts = self.page_bytes.into_iter().chain(self.log_bytes);
        let total = parts.reduce(|sum, part| sum.saturating_add(part));
        let total = total.or(limit).unwrap_or(0);
        MeasuredDay {
            seconds: self.seconds,
            total: daily(total),
            most: limit.map(|limit| daily(limit.max(total))),
            pages: self.page_bytes.map(daily),
            log: self.log_bytes.map(daily),
            processes: self.process_bytes.map(daily),
            device: device.map(daily),
            device_name: self.device.as_ref().map(|device| device.name.clone()),
        }
    }

    /// What the figures leave out.
    pub(super) fn not_counted(&self) -> Vec<String> {
        let has_limit = self.process_bytes.is_some() || self.device.is_some();
        let missing = match (self.page_bytes, self.log_bytes) {
            (Some(_), None) => Some("the log"),
            (None, Some(_)) => Some("pages"),
            (Some(_), Some(_)) if !has_limit => Some("files other than pages and log"),
            (None, None) if !has_limit => Some("pages, log and other files"),
            _ => None,
        };
        missing.into_iter().map(String::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(page: Option<u64>, log: Option<u64>, process: Option<u64>) -> MeasuredWrites {
        MeasuredWrites {
            // Half a day.
            seconds: 43_200.0,
            page_bytes: page,
            log_bytes: log,
            process_bytes: process,
            device: None,
            references: None,
            lost: 0.0,
            read: MeasuredReads::default(),
            target_ended: false,
        }
    }

    #[test]
    fn lost_events_are_noted_above_a_hundredth() {
        let note = |events: u64, lost: u64| {
            let facts = format!(
                r#"{{"events": {events}, "lost": {lost}, "written": {{"seconds": 1.0, "page_bytes": 1, "log_bytes": 1, "process_bytes": 1, "device": null}}}}"#
            );
            MeasuredWrites::from_facts(&facts).expect("facts").lost_events()
        };
        assert_eq!((note(99, 1), note(0, 0)), (None, None));
        let text = note(11, 89).expect("a note").text;
        assert!(text.starts_with("89 % of the capture's events"), "{text}");
    }

    #[test]
    fn bytes_of_a_day_are_divided() {
        let day = written(Some(100), Some(50), Some(170)).per_day();
        assert_eq!((day.total, day.most, day.pages, day.log), (300.0, Some(340.0), Some(200.0), Some(100.0)));
        // The kernel has joined several writes of a page.
        let joined = written(Some(100), Some(50), Some(120)).per_day();
        assert_eq!((joined.total, joined.most), (300.0, Some(300.0)));
        // The kernel counts large units of its cache, and the device does not.
        let with_device =
            |bytes, measured| MeasuredWrites { device: Some(MeasuredDevice { name: "vda".into(), bytes }), ..measured };
        let limited = with_device(180, written(Some(100), Some(50), Some(9000))).per_day();
        assert_eq!((limited.total, limited.most), (300.0, Some(360.0)));
        // Only sums are known.
        let of_process = written(None, None, Some(120));
        assert_eq!((of_process.per_day().total, of_process.per_day().most), (240.0, Some(240.0)));
        assert_eq!(with_device(512, written(None, None, None)).per_day().total, 1024.0);
    }

    #[test]
    fn what_is_not_counted_has_a_name() {
        let missing = |page, log, process| written(page, log, process).not_counted();
        assert!(missing(Some(1), Some(1), Some(1)).is_empty() && missing(None, None, Some(1)).is_empty());
        assert_eq!(missing(Some(1), None, Some(1)), ["the log"]);
        assert_eq!(missing(None, Some(1), Some(1)), ["pages"]);
        assert_eq!(missing(Some(1), Some(1), None), ["files other than pages and log"]);
        assert_eq!(missing(None, None, None), ["pages, log and other files"]);
        assert!(!written(None, None, None).is_counted());
        assert!(written(None, None, Some(0)).is_counted());
    }

    #[test]
    fn facts_without_measured_bytes_are_refused() {
        let text = r#"{"source": "postgresql", "written": {"seconds": 2.5, "page_bytes": 8192, "log_bytes": null,
            "process_bytes": 9000, "device": {"name": "vda", "bytes": 12288}}}"#;
        let found = MeasuredWrites::from_facts(text).expect("facts");
        assert_eq!((found.page_bytes, found.log_bytes), (Some(8192), None));
        assert_eq!(found.device.map(|device| device.bytes), Some(12288));
        for text in [
            "",
            "[]",
            "{}",
            "{\"written\": 1}",
            "{\"written\": {\"seconds\": 0.0}}",
            "{\"written\": {\"seconds\": -5, \"page_bytes\": 1}}",
            "{\"written\": {\"seconds\": 1e-300, \"page_bytes\": 18446744073709551615}}",
            "{\"written\": {\"seconds\": 1e308, \"page_bytes\": 1}}",
            "{\"written\": {\"seconds\": 60, \"page_bytes\": -1}}",
            "{\"written\": {\"seconds\": 60, \"page_bytes\": 1e30}}",
            "{\"references\": -1, \"written\": {\"seconds\": 60, \"page_bytes\": 1}}",
            "{\"written\": {\"seconds\": 60, \"page_bytes\": 1",
        ] {
            assert!(MeasuredWrites::from_facts(text).is_err(), "{text}");
        }
    }

    #[test]
    fn facts_belong_to_their_trace_and_its_pieces() {
        let text = r#"{"references": 90, "resident_references": 10, "written": {"seconds": 60}}"#;
        let facts = MeasuredWrites::from_facts(text).expect("facts");
        assert_eq!(facts.references, Some(100));
        let whole = ReadOptions::default();
        let piece = ReadOptions { skip: 1, ..whole.clone() };
        let folded = ReadOptions { page_size: std::num::NonZeroU64::new(4096), ..whole.clone() };
        for (trace, options, is_of_it) in [
            (100, &whole, true),
            (99, &whole, false),
            (200, &whole, false),
            (99, &piece, true),
            (101, &piece, false),
            (200, &folded, true),
            (150, &folded, false),
        ] {
            assert_eq!(facts.check(trace, options).is_ok(), is_of_it, "{trace}");
        }
        // Facts that a user has written by hand may leave the references out.
        assert!(written(Some(1), None, None).check(7, &whole).is_ok());
    }
}
