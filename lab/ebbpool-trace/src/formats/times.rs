//! Times in traces of lines.

use super::lines::decimal;

/// The unit of a number that is a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl TimeUnit {
    const ALL: [TimeUnit; 4] = [TimeUnit::Seconds, TimeUnit::Milliseconds, TimeUnit::Microseconds, TimeUnit::Nanoseconds];

    /// The abbreviation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "s",
            TimeUnit::Milliseconds => "ms",
            TimeUnit::Microseconds => "us",
            TimeUnit::Nanoseconds => "ns",
        }
    }

    /// The unit with this abbreviation.
    pub(crate) fn of_name(name: &str) -> Option<TimeUnit> {
        TimeUnit::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// The name in a sentence.
    pub(super) fn words(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "seconds",
            TimeUnit::Milliseconds => "milliseconds",
            TimeUnit::Microseconds => "microseconds",
            TimeUnit::Nanoseconds => "nanoseconds",
        }
    }

    fn nanoseconds(self) -> u128 {
        match self {
            TimeUnit::Seconds => 1_000_000_000,
            TimeUnit::Milliseconds => 1_000_000,
            TimeUnit::Microseconds => 1_000,
            TimeUnit::Nanoseconds => 1,
        }
    }

    /// A number of this unit as whole µs, rounded down: decimal digits, and digits behind a point. `None` if it is no such
    /// number, or 2^64 µs or more.
    pub(super) fn microseconds(self, text: &[u8]) -> Option<u64> {
        /// Digits behind the point that can change the result.
        const DIGITS: usize = 9;
        let point = text.iter().position(|&byte| byte == b'.');
        let (whole, fraction) = match point {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, &b"0"[..]),
        };
        if !fraction.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let fraction = &fraction[..fraction.len().min(DIGITS)];
        let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
        let unit = self.nanoseconds();
        let behind = u128::from(decimal(fraction)?) * unit / scale;
        let all = u128::from(decimal(whole)?) * unit + behind;
        u64::try_from(all / 1_000).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_whole_microseconds() {
        use TimeUnit::{Microseconds, Milliseconds, Nanoseconds, Seconds};
        for (unit, text, expected) in [
            (Seconds, "0.000001200", Some(1)),
            (Seconds, "12", Some(12_000_000)),
            (Seconds, "1700000000.25", Some(1_700_000_000_250_000)),
            (Seconds, "1.9999999999999999999999", Some(1_999_999)),
            (Milliseconds, "1.5", Some(1500)),
            (Microseconds, "7.9", Some(7)),
            (Nanoseconds, "1999", Some(1)),
            (Microseconds, "18446744073709551615", Some(u64::MAX)),
            (Seconds, "18446744073709551615", None),
            (Seconds, "18446744073709551616", None),
            (Seconds, "", None),
            (Seconds, ".5", None),
            (Seconds, "5.", None),
            (Seconds, "0.5.5", None),
            (Seconds, "-1", None),
            (Seconds, "1e3", None),
            (Seconds, "2024-01-01 00:00:00", None),
        ] {
            assert_eq!(unit.microseconds(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn units_have_names() {
        for unit in TimeUnit::ALL {
            assert_eq!(TimeUnit::of_name(unit.name()), Some(unit));
        }
        assert_eq!(TimeUnit::of_name("min"), None);
    }
}
