//! The time of a server whose reference string is simulated.

use crate::policy::RecordedRequest;

const US_PER_SECOND: u64 = 1_000_000;

/// The time since the first request: that of the trace, or, with a rate, that at which references arrive evenly.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestClock {
    /// References a second, in place of the times of the trace; 0 to use those.
    rate: u64,
    references: u64,
    /// The time of the first request, in µs.
    start: Option<u64>,
    /// The latest time since then, in µs.
    elapsed: u64,
}

impl RequestClock {
    pub(super) fn new(rate: u64) -> Self {
        RequestClock { rate, ..RequestClock::default() }
    }

    /// True if time passes without times of the trace.
    pub(super) fn has_rate(&self) -> bool {
        self.rate > 0
    }

    /// The next request has the time of the trace. Requests of several processors may be a little out of order; the
    /// clock does not go back.
    #[inline]
    pub(super) fn request(&mut self, request: RecordedRequest) {
        let start = *self.start.get_or_insert(request.time_us);
        self.elapsed = self.elapsed.max(request.time_us.saturating_sub(start));
    }

    /// A reference is served.
    #[inline]
    pub(super) fn serve(&mut self) {
        self.references += 1;
    }

    /// The time in µs; 0 where it is not known.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        match self.rate {
            0 => self.elapsed,
            rate => self.references.saturating_mul(US_PER_SECOND) / rate,
        }
    }
}
