//! Durations, and the periods of rates.

use std::time::Duration;

use super::number::{Product, Quantity};
use crate::one_line;

/// The error for a text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' {problem}", one_line(.text))]
pub struct DurationError {
    text: String,
    problem: &'static str,
}

const MALFORMED: &str = "is not a time; give a number above 0 and a unit, one of ms, s, min, h, d and y, such as 10min";
const TOO_LARGE: &str = "is too long a time; give at most 500 thousand million years, such as 5y";

const NANOS_PER_SECOND: u128 = 1_000_000_000;
const SECONDS_PER_DAY: u128 = 86_400;

/// The nanoseconds in a unit of time. A year has 365 days, as in the warranties of devices.
fn unit_nanos(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "min" => 60 * NANOS_PER_SECOND,
        "h" => 3600 * NANOS_PER_SECOND,
        "d" | "day" => SECONDS_PER_DAY * NANOS_PER_SECOND,
        "w" => 7 * SECONDS_PER_DAY * NANOS_PER_SECOND,
        "y" | "year" => 365 * SECONDS_PER_DAY * NANOS_PER_SECOND,
        _ => return None,
    })
}

/// Reads a duration above 0: a number and one of the units `ns`, `us`, `ms`, `s`, `min`, `h`, `d` (or `day`), `w`
/// and `y` (or `year`, 365 days).
///
/// ```
/// # use ebbpool_cost::parse_duration;
/// assert_eq!(parse_duration("10min")?.as_secs(), 600);
/// assert_eq!(parse_duration("1.5h")?.as_secs(), 5400);
/// # Ok::<(), ebbpool_cost::DurationError>(())
/// ```
///
/// # Errors
///
/// [`DurationError`] for any other text, 0 and more than 64 bits of seconds.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let wrong = |problem| DurationError { text: text.into(), problem };
    let quantity = Quantity::from_text(text);
    let unit = unit_nanos(quantity.unit).filter(|_| !quantity.has_exponent());
    match quantity.times(unit.ok_or_else(|| wrong(MALFORMED))?) {
        Product::Whole(0) | Product::Malformed | Product::TooSmall => Err(wrong(MALFORMED)),
        Product::Whole(nanos) => {
            let seconds = u64::try_from(nanos / NANOS_PER_SECOND).map_err(|_| wrong(TOO_LARGE))?;
            Ok(Duration::new(seconds, (nanos % NANOS_PER_SECOND) as u32))
        }
        Product::TooLarge => Err(wrong(TOO_LARGE)),
    }
}

/// The text before the slash of a rate such as `5000/s`, and the seconds of the period behind it; no seconds if
/// there is no slash. `None` if the period is not a unit of [`parse_duration`].
///
/// ```
/// # use ebbpool_cost::split_period;
/// assert_eq!(split_period("300 / min"), Some(("300", Some(60.0))));
/// assert_eq!(split_period("5000"), Some(("5000", None)));
/// assert_eq!(split_period("1/fortnight"), None);
/// ```
pub fn split_period(text: &str) -> Option<(&str, Option<f64>)> {
    match text.split_once('/') {
        None => Some((text.trim(), None)),
        Some((quantity, period)) => {
            let nanos = unit_nanos(period.trim())?;
            Some((quantity.trim(), Some(nanos as f64 / NANOS_PER_SECOND as f64)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        for (text, millis) in [
            ("250ms", 250),
            ("90s", 90_000),
            ("0.5s", 500),
            ("10min", 600_000),
            (" 10 min ", 600_000),
            ("2h", 7_200_000),
            ("30d", 2_592_000_000),
            ("1day", 86_400_000),
            ("1w", 604_800_000),
            ("5y", 157_680_000_000),
            ("1year", 31_536_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_duration("1us"), parse_duration("1µs"));
        assert_eq!(parse_duration("500ns"), Ok(Duration::from_nanos(500)));
        let longest = parse_duration("18446744073709551615s");
        assert_eq!(longest, Ok(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn other_texts_are_refused_with_the_text_and_an_example() {
        for text in [
            "", "10", "min", "-5min", "+5s", "nan", "NaNs", "infs", "0s", "0", "0.1ns", "10 m", "10M", "1e3s", "1:30",
            "10min 5s", "1h30min", "18446744073709551616s", "999999999999999y", "1s/s",
        ] {
            let error = parse_duration(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("'{text}' is ")), "{error}");
            assert!(error.contains("such as"), "{error}");
        }
    }

    #[test]
    fn a_rate_has_at_most_one_period() {
        assert_eq!(split_period("10GB/day"), Some(("10GB", Some(86_400.0))));
        assert_eq!(split_period("5/ms"), Some(("5", Some(0.001))));
        for bad in ["5/", "5/s/s", "5/2s", "5/S"] {
            assert_eq!(split_period(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn whole_milliseconds_are_read(millis in 1..u64::MAX) {
            prop_assert_eq!(parse_duration(&format!("{millis}ms")), Ok(Duration::from_millis(millis)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,12}|[0-9.]{0,24}(ns|ms|s|min|h|d|w|y|e9s)") {
            if let Ok(duration) = parse_duration(&text) {
                prop_assert!(duration > Duration::ZERO);
            }
            let _ = split_period(&text);
        }
    }
}
