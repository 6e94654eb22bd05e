//! When requests reach a device: back to back, or at a rate.

use std::fmt;
use std::str::FromStr;

use ebbpool_cost::split_period;

/// References a second, above 0.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(f64);

/// The error of a text that is not a finite number above 0, with a period or without.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a rate; give references a second, a number above 0, such as 5000, or with another period, such as 300/min"
)]
pub struct RateError(String);

impl Rate {
    /// References a second.
    pub fn per_second(self) -> f64 {
        self.0
    }
}

/// Reads references a second, such as `5000`, or per period, such as `5000/s` or `300/min`.
impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let wrong = || RateError(text.into());
        let (number, seconds) = split_period(text).ok_or_else(wrong)?;
        let number = number.parse::<f64>();
        match number.map(|number| number / seconds.unwrap_or(1.0)) {
            Ok(rate) if rate.is_finite() && (1e6 / rate).is_finite() && rate > 0.0 => Ok(Rate(rate)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The clock of a device to which references arrive at a rate: the device serves them one after the
/// other, and waits for the next one where it is faster than they arrive. All times are in µs.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals {
    interval_us: f64,
    now_us: f64,
    idle_us: f64,
}

impl Arrivals {
    /// References arrive at `rate`, the first one interval after the start.
    pub fn with_rate(rate: Rate) -> Self {
        Arrivals { interval_us: 1e6 / rate.per_second(), now_us: 0.0, idle_us: 0.0 }
    }

    /// Waits for a reference, numbered from 0, if it has not arrived yet; returns for how long, in µs.
    #[inline]
    pub fn wait_for(&mut self, reference: u64) -> f64 {
        let arrival_us = (reference as f64 + 1.0) * self.interval_us;
        let idle_us = (arrival_us - self.now_us).max(0.0);
        self.now_us += idle_us;
        self.idle_us += idle_us;
        idle_us
    }

    /// Records that the device served requests for `micros` µs.
    #[inline]
    pub fn serve(&mut self, micros: f64) {
        self.now_us += micros;
    }

    /// The time in which this number of references arrives.
    pub fn time_of(&self, references: u64) -> f64 {
        references as f64 * self.interval_us
    }

    /// For how long the device has waited since the counters were last reset.
    pub fn idle_us(&self) -> f64 {
        self.idle_us
    }

    /// Sets the counters to zero.
    pub fn reset_counters(&mut self) {
        self.idle_us = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(rate: &str) -> Arrivals {
        Arrivals::with_rate(rate.parse().expect("a rate"))
    }

    #[test]
    fn a_fast_device_waits_and_a_slow_one_never() {
        let mut arrivals = at("1000");
        assert_eq!(arrivals.wait_for(0), 1000.0);
        arrivals.serve(300.0);
        assert_eq!(arrivals.wait_for(1), 700.0);
        // Two references arrived meanwhile.
        arrivals.serve(2500.0);
        assert_eq!((arrivals.wait_for(2), arrivals.wait_for(3)), (0.0, 0.0));
        assert_eq!(arrivals.wait_for(4), 500.0);
        assert_eq!(arrivals.idle_us(), 2200.0);
        arrivals.reset_counters();
        assert_eq!(arrivals.idle_us(), 0.0);
    }

    #[test]
    fn a_rate_is_per_second_unless_it_names_another_period() {
        for (text, expected) in [
            ("5000", 5000.0),
            ("5e3", 5000.0),
            ("5000/s", 5000.0),
            (" 300 / min ", 5.0),
            ("7200/h", 2.0),
            ("86400/day", 1.0),
            ("5/ms", 5000.0),
        ] {
            let rate = text.parse().map(Rate::per_second);
            assert_eq!(rate, Ok(expected), "{text}");
        }
    }

    #[test]
    fn texts_that_are_not_rates_are_refused() {
        for text in ["0", "-1", "NaN", "inf", "1e-320", "", "x", "/s", "5/", "5/fortnight", "0/min", "nan/s", "5/s/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    proptest! {
        /// Idle and busy time add up to the time of the last arrival, or of the end if that is later.
        #[test]
        fn time_is_idle_or_busy(work in proptest::collection::vec(0.0..5000.0f64, 1..200)) {
            let mut arrivals = at("1000");
            for (reference, &micros) in work.iter().enumerate() {
                arrivals.wait_for(reference as u64);
                prop_assert!(arrivals.now_us >= (reference as f64 + 1.0) * 1000.0);
                arrivals.serve(micros);
            }
            let busy: f64 = work.iter().sum();
            prop_assert!((arrivals.idle_us() + busy - arrivals.now_us).abs() < 1e-6);
        }
    }
}
