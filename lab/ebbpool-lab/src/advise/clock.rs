//! How fast references arrive.

use ebbpool_trace::RecordedArrivals;
use schemars::JsonSchema;
use serde::Serialize;

use super::request::{AdviceClock, DailyWrites};
use crate::error::AdviseError;

pub(super) const SECONDS_PER_DAY: f64 = 86_400.0;

/// Days in a year, as in the warranties of devices.
pub(super) const DAYS_PER_YEAR: f64 = 365.0;

/// From which figure the arrival of references is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClockSource {
    /// A rate in the request.
    Rate,
    /// A duration in the request.
    Duration,
    /// The times in the trace.
    TraceTimes,
    /// Writes per day in the request.
    DailyWrites,
}

/// References per second, and from which figure they follow.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct ArrivalRate {
    /// References per second.
    pub references_per_second: f64,
    /// The seconds in which the references of the trace arrived; by the times in the trace, those after the start.
    pub seconds: f64,
    /// From which figure they follow.
    pub source: ClockSource,
}

impl ArrivalRate {
    /// The rate that the request or the trace states, without the counts of a run. `references` are all references of
    /// the trace; `trace` are those that arrived by its times.
    pub(super) fn stated(clock: Option<AdviceClock>, trace: Option<RecordedArrivals>, references: u64) -> Option<Self> {
        match (clock, trace) {
            (Some(AdviceClock::Rate(rate)), _) => Self::of_rate(rate.per_second(), references, ClockSource::Rate),
            (Some(AdviceClock::Duration(duration)), _) => {
                let rate = references as f64 / duration.as_secs_f64();
                Self::of_rate(rate, references, ClockSource::Duration)
            }
            (Some(AdviceClock::DailyWrites(_)), _) | (None, None) => None,
            (None, Some(arrivals)) => {
                let rate = arrivals.references as f64 / arrivals.time.as_secs_f64();
                Self::of_rate(rate, arrivals.references, ClockSource::TraceTimes)
            }
        }
    }

    /// The rate at which this number of references arrived; `None` if there is none.
    fn of_rate(references_per_second: f64, references: u64, source: ClockSource) -> Option<Self> {
        let rate = ArrivalRate { references_per_second, seconds: references as f64 / references_per_second, source };
        let is_known = references_per_second.is_finite() && references_per_second > 0.0;
        is_known.then_some(rate)
    }

    /// The rate at which a system with this number of page writes per reference writes as much in a day as the request
    /// says. `None` if the request does not say it, or if the system writes nothing.
    pub(super) fn of_daily_writes(
        clock: Option<AdviceClock>,
        writes_per_reference: f64,
        (page_size, references): (Option<u64>, u64),
    ) -> Result<Option<Self>, AdviseError> {
        let Some(AdviceClock::DailyWrites(daily)) = clock else {
            return Ok(None);
        };
        let pages = match (daily, page_size) {
            (DailyWrites::Pages(pages), _) => pages,
            (DailyWrites::Bytes(bytes), Some(size)) => bytes.bytes() / size as f64,
            (DailyWrites::Bytes(_), None) => return Err(AdviseError::DailyBytesWithoutPageSize),
        };
        let references_per_second = pages / SECONDS_PER_DAY / writes_per_reference;
        Ok(Self::of_rate(references_per_second, references, ClockSource::DailyWrites))
    }

    /// The rate as `--rate` takes it: as it was given, or with seven digits if it follows from times.
    pub(super) fn as_option(&self) -> String {
        let rate = self.references_per_second;
        match self.source {
            ClockSource::Rate => rate.to_string(),
            _ => format!("{rate:.6e}").parse().unwrap_or(rate).to_string(),
        }
    }

    /// Events per second, of this number per reference.
    pub(super) fn per_second(&self, per_reference: f64) -> f64 {
        self.references_per_second * per_reference
    }

    /// Events per day, of this number per reference.
    pub(super) fn per_day(&self, per_reference: f64) -> f64 {
        SECONDS_PER_DAY * self.per_second(per_reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_follows_from_times_has_few_digits() {
        let minute = AdviceClock::Duration(std::time::Duration::from_secs(61));
        let option = |clock| ArrivalRate::stated(Some(clock), None, 100_000).map(|rate| rate.as_option());
        assert_eq!(option(minute).as_deref(), Some("1639.344"));
        let given = "1639.34426229508".parse().expect("a rate");
        assert_eq!(option(AdviceClock::Rate(given)).as_deref(), Some("1639.34426229508"));
    }
}
