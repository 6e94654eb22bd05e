//! The run's clock.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::sync::OnceLock;
use std::time::Duration;

use crate::world;

/// A moment by the clock of the run, or, outside a run, of the system. The two must not be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// This moment.
    pub fn now() -> Self {
        static BEGIN: OnceLock<std::time::Instant> = OnceLock::new();
        match world::blocking() {
            Some(run) => Instant(run.now()),
            None => Instant(BEGIN.get_or_init(std::time::Instant::now).elapsed()),
        }
    }

    pub(crate) fn since_begin(self) -> Duration {
        self.0
    }

    /// The time since this moment.
    pub fn elapsed(&self) -> Duration {
        Instant::now().duration_since(*self)
    }

    /// The time from an earlier moment to this one; zero from a later one.
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The time from an earlier moment to this one; zero from a later one.
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }

    /// The time from an earlier moment to this one; `None` from a later one.
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.0.checked_sub(earlier.0)
    }

    /// A later moment; `None` if the clock cannot represent it.
    pub fn checked_add(&self, time: Duration) -> Option<Self> {
        let sum = self.0.checked_add(time)?;
        (sum.as_secs() <= i64::MAX as u64).then_some(Instant(sum))
    }

    /// An earlier moment; `None` before the clock's begin.
    pub fn checked_sub(&self, time: Duration) -> Option<Self> {
        self.0.checked_sub(time).map(Instant)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, time: Duration) -> Instant {
        self.checked_add(time).expect("overflow when adding duration to instant")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, time: Duration) -> Instant {
        self.checked_sub(time).expect("overflow when subtracting duration from instant")
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, time: Duration) {
        *self = *self - time;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}
