//! Times in traces of lines.

use chrono::{DateTime, NaiveDateTime};

use super::lines::decimal;

/// The unit of a number that is a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
    /// Windows' 100 ns since 1601.
    Filetime,
    /// A date and a time of day, ISO 8601.
    Date,
}

/// Seconds from 1601 to 1970.
const SINCE_1601: u64 = 11_644_473_600;

impl TimeUnit {
    const ALL: [TimeUnit; 6] = [
        TimeUnit::Seconds,
        TimeUnit::Milliseconds,
        TimeUnit::Microseconds,
        TimeUnit::Nanoseconds,
        TimeUnit::Filetime,
        TimeUnit::Date,
    ];

    /// The abbreviation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "s",
            TimeUnit::Milliseconds => "ms",
            TimeUnit::Microseconds => "us",
            TimeUnit::Nanoseconds => "ns",
            TimeUnit::Filetime => "filetime",
            TimeUnit::Date => "date",
        }
    }

    /// The unit with this abbreviation.
    pub(crate) fn of_name(name: &str) -> Option<TimeUnit> {
        TimeUnit::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// What is expected, in a sentence.
    pub(super) fn words(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "a number of seconds such as 12.5, less than 230 years",
            TimeUnit::Milliseconds => "a number of milliseconds such as 12.5, less than 230 years",
            TimeUnit::Microseconds => "a number of microseconds such as 12.5, less than 230 years",
            TimeUnit::Nanoseconds => "a number of nanoseconds such as 12.5, less than 230 years",
            TimeUnit::Filetime => "a number of 100 ns from 1601 on, before 2200",
            TimeUnit::Date => "a date and a time of day such as 2024-02-29 23:59:59.5, from 1970 on",
        }
    }

    fn nanoseconds(self) -> u128 {
        match self {
            TimeUnit::Seconds => 1_000_000_000,
            TimeUnit::Milliseconds => 1_000_000,
            TimeUnit::Microseconds => 1_000,
            TimeUnit::Nanoseconds => 1,
            TimeUnit::Filetime => 100,
            TimeUnit::Date => 0,
        }
    }

    /// A number of this unit as whole µs, rounded down: decimal digits, and digits behind a point. `None` if it is no such
    /// number, or 2^64 µs or more.
    pub(super) fn microseconds(self, text: &[u8]) -> Option<u64> {
        /// Digits behind the point that can change the result.
        const DIGITS: usize = 9;
        if self == TimeUnit::Date {
            return date(text);
        }
        // As programs write small numbers of floating point, and a zero below which it was rounded.
        let is_floating = text.iter().any(|byte| b"eE".contains(byte)) || text.starts_with(b"-0");
        if is_floating && self != TimeUnit::Filetime {
            let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
            let microseconds = number * self.nanoseconds() as f64 / 1e3;
            return (number >= 0.0 && microseconds < u64::MAX as f64).then_some(microseconds as u64);
        }
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
        let all = match self {
            // Smaller numbers count from the beginning of the trace.
            TimeUnit::Filetime => {
                let since = u128::from(SINCE_1601) * 1_000_000_000;
                all.checked_sub(since).unwrap_or(all)
            }
            _ => all,
        };
        u64::try_from(all / 1_000).ok()
    }
}

/// A date and a time of day as µs since 1970, rounded down, such as `2024-02-29T23:59:59.5+01:00`.
fn date(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.replace('/', "-").replace(',', ".").replacen(['T', 't'], " ", 1);
    let zoned = DateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S%.f%#z").map(|date| date.timestamp_micros());
    let local = |format| NaiveDateTime::parse_from_str(&text, format).map(|date| date.and_utc().timestamp_micros());
    let since = zoned.or_else(|_| local("%Y-%m-%d %H:%M:%S%.f")).or_else(|_| local("%Y-%m-%d %H:%M"));
    u64::try_from(since.ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_whole_microseconds() {
        use TimeUnit::{Date, Filetime, Microseconds, Milliseconds, Nanoseconds, Seconds};
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
            (Seconds, "1e3", Some(1_000_000_000)),
            (Seconds, "4.001e-06", Some(4)),
            (Seconds, "-0.0", Some(0)),
            (Seconds, "-1e-9", None),
            (Milliseconds, "1e999", None),
            (Seconds, "2024-01-01 00:00:00", None),
            (Filetime, "128166372003061629", Some(1_172_163_600_306_162)),
            (Filetime, "25", Some(2)),
            (Date, "1970-01-01 00:00:00", Some(0)),
            (Date, "2024-02-29T23:59:59.5Z", Some(1_709_251_199_500_000)),
            (Date, "2024/03/01 00:59:59,25 +0100", Some(1_709_251_199_250_000)),
            (Date, "2000-12-31 12:00", Some(978_264_000_000_000)),
            (Date, "2100-03-01T00:00:00-02:30", Some(4_107_551_400_000_000)),
            (Date, "2023-02-29 00:00:00", None),
            (Date, "2024-01-01 24:00:00", None),
            (Date, "2024-01-01", None),
            (Date, "12:00:00", None),
            (Date, "01/02/2024 00:00:00", None),
            (Date, "2024-01-01 00:00:00+1", None),
            (Date, "2024-01-01 00:00:00 CET", None),
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
