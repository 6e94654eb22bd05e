//! The checkpoints of a request.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use ebbpool_cost::parse_duration;
use ebbpool_sim::CheckpointIntervals;
use ebbpool_trace::{Batch, OptionalColumns, Source, TraceError};

use crate::error::{LabError, RequestError};
use crate::numbers::grouped;

/// References read at a time in search of a time.
const BATCH: usize = 1 << 16;

/// Units of a duration, from the longest on.
const UNITS: [(u128, &str); 6] =
    [(3_600_000_000_000, "h"), (60_000_000_000, "min"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];

/// When all dirty pages are written: as soon as one of the intervals has passed since the last checkpoint. Spelled as
/// `5min`, as a number of references, as a number of references that write, `writes=100000`, or as several of these with
/// commas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointSchedule {
    /// An interval of time.
    pub time: Option<Duration>,
    /// References.
    pub references: Option<NonZeroU64>,
    /// References that write.
    pub writes: Option<NonZeroU64>,
}

/// The error for a text that is no schedule of checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no interval between checkpoints; give a time such as 5min, a number of references such as 20000, or of references that write, writes=20000"
)]
pub struct CheckpointScheduleError(String);

impl FromStr for CheckpointSchedule {
    type Err = CheckpointScheduleError;

    fn from_str(text: &str) -> Result<Self, CheckpointScheduleError> {
        let wrong = || CheckpointScheduleError(ebbpool_cost::one_line(text).to_string());
        let mut schedule = CheckpointSchedule::default();
        for part in text.split(',').map(str::trim) {
            let number = |digits: &str| digits.parse::<NonZeroU64>().map_err(|_| wrong());
            let is_given_twice = if let Some(writes) = part.strip_prefix("writes=") {
                schedule.writes.replace(number(writes)?).is_some()
            } else if part.bytes().all(|byte| byte.is_ascii_digit()) {
                schedule.references.replace(number(part)?).is_some()
            } else {
                let time = parse_duration(part).map_err(|_| wrong())?;
                schedule.time.replace(time).is_some()
            };
            if is_given_twice {
                return Err(wrong());
            }
        }
        Ok(schedule)
    }
}

impl fmt::Display for CheckpointSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.time.map(spelled),
            self.references.map(|references| references.to_string()),
            self.writes.map(|writes| format!("writes={writes}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(","))
    }
}

/// A duration with the longest unit of which it is a whole number.
fn spelled(time: Duration) -> String {
    let nanos = time.as_nanos();
    let unit = UNITS.iter().find(|(unit, _)| nanos.is_multiple_of(*unit));
    let (unit, name) = unit.copied().unwrap_or((1, "ns"));
    format!("{}{name}", nanos / unit)
}

impl CheckpointSchedule {
    /// Checkpoints at this interval of time.
    pub fn every(time: Duration) -> Self {
        CheckpointSchedule { time: Some(time), ..CheckpointSchedule::default() }
    }

    /// The intervals in words, behind "every".
    pub(crate) fn in_words(&self) -> String {
        let parts = [
            self.time.map(spelled),
            self.references.map(|it| format!("{} references", grouped(it.get()))),
            self.writes.map(|it| format!("{} references that write", grouped(it.get()))),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(" or ")
    }

    /// Turns the interval of time into one of references that arrive at this rate, at least 1; of two such intervals the
    /// shorter holds.
    #[must_use]
    pub(crate) fn at_rate(self, references_per_second: f64) -> Self {
        let Some(time) = self.time else {
            return self;
        };
        let references = (references_per_second * time.as_secs_f64()).round() as u64;
        let references = NonZeroU64::new(references).unwrap_or(NonZeroU64::MIN);
        CheckpointSchedule { time: None, references: Some(self.references.map_or(references, |it| it.min(references))), ..self }
    }

    /// The intervals of a simulation of this trace. An interval of time is one of the trace's times, or, in a trace without
    /// times, one in which references arrive at the rate.
    ///
    /// # Errors
    ///
    /// [`RequestError::CheckpointsWithoutTimes`] if there is neither; the errors of reading the trace.
    pub(crate) fn intervals(
        &self,
        source: &Source,
        references_per_second: Option<f64>,
    ) -> Result<CheckpointIntervals, LabError> {
        let resolved = match (self.time, references_per_second) {
            (None, _) => *self,
            (Some(_), _) if has_times(source)? => *self,
            (Some(_), Some(rate)) => self.at_rate(rate),
            (Some(_), None) => {
                return Err(RequestError::CheckpointsWithoutTimes(source.label().into()).into());
            }
        };
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        Ok(CheckpointIntervals {
            references: resolved.references,
            writes: resolved.writes,
            micros: resolved.time.map(micros).and_then(NonZeroU64::new),
        })
    }
}

/// True if the references of the trace have times.
fn has_times(source: &Source) -> Result<bool, TraceError> {
    let columns = OptionalColumns { requests: true, ..OptionalColumns::default() };
    let mut reader = source.open_with(columns)?;
    let mut batch = Batch::new();
    while reader.next_batch(&mut batch, BATCH)? {
        if batch.requests.len() < batch.len() {
            return Ok(false);
        }
        if batch.requests.iter().any(|request| request.time_us > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_schedules_and_back() {
        for (text, spelled) in [
            ("5min", "5min"),
            ("90s", "90s"),
            ("0.5s", "500ms"),
            ("20000", "20000"),
            ("writes=7", "writes=7"),
            (" 7200s , 9,writes=100 ", "2h,9,writes=100"),
        ] {
            let schedule: CheckpointSchedule = text.parse().expect("a schedule");
            assert_eq!(schedule.to_string(), spelled);
            assert_eq!(spelled.parse(), Ok(schedule));
        }
        let all: CheckpointSchedule = "5min,20000,writes=7".parse().expect("a schedule");
        assert_eq!(all.in_words(), "5min or 20,000 references or 7 references that write");
        for text in ["", "0", "0s", "-1", "5 minutes", "writes=0", "writes=", "1,2", "5min,1h", "x"] {
            let found: Result<CheckpointSchedule, _> = text.parse();
            let error = found.expect_err(text).to_string();
            assert!(error.starts_with(&format!("'{text}' is no interval")), "{error}");
        }
    }

    #[test]
    fn time_is_references_where_the_trace_has_no_times() {
        let source = Source::parse("zipf:pages=10,refs=20", None).expect("a trace");
        let minute: CheckpointSchedule = "1min".parse().expect("a schedule");
        let found = minute.intervals(&source, Some(2.5)).expect("intervals");
        assert_eq!((found.references, found.micros), (NonZeroU64::new(150), None));
        let seldom = minute.intervals(&source, Some(1e-9)).expect("intervals");
        assert_eq!(seldom.references, NonZeroU64::new(1));
        let both: CheckpointSchedule = "1min,100".parse().expect("a schedule");
        assert_eq!(both.at_rate(2.5).to_string(), "100");
        assert_eq!(both.at_rate(0.5).to_string(), "30");
        let refused = minute.intervals(&source, None).expect_err("no times");
        let expected = RequestError::CheckpointsWithoutTimes(source.label().into());
        assert!(matches!(refused, LabError::Request(error) if error == expected));
    }
}
