//! A rate of writes.

use std::fmt;
use std::str::FromStr;

use super::byte_size::ByteSize;
use super::time::split_period;
use crate::one_line;

/// Bytes per day, above 0.
///
/// Reads a [`ByteSize`], which is per day, or one with another period, such as `2MB/s`.
///
/// ```
/// # use ebbpool_cost::BytesPerDay;
/// let per_day = |text: &str| text.parse().map(BytesPerDay::bytes);
/// assert_eq!(per_day("10GB")?, 1e10);
/// assert_eq!(per_day("10GB/day")?, 1e10);
/// assert_eq!(per_day("1MB/s")?, 8.64e10);
/// # Ok::<(), ebbpool_cost::BytesPerDayError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct BytesPerDay(f64);

/// The error for a text that is not a number of bytes per day above 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a rate of bytes; give the bytes per day, above 0, such as 10GB, or per second, such as 2MB/s", one_line(.0))]
pub struct BytesPerDayError(String);

const SECONDS_PER_DAY: f64 = 86_400.0;

impl BytesPerDay {
    /// The bytes per day.
    pub fn bytes(self) -> f64 {
        self.0
    }
}

impl FromStr for BytesPerDay {
    type Err = BytesPerDayError;

    fn from_str(text: &str) -> Result<Self, BytesPerDayError> {
        let wrong = || BytesPerDayError(text.into());
        let (size, seconds) = split_period(text).ok_or_else(wrong)?;
        let size: ByteSize = size.parse().map_err(|_| wrong())?;
        if size.bytes() == 0 {
            return Err(wrong());
        }
        let bytes = size.bytes() as f64;
        Ok(BytesPerDay(seconds.map_or(bytes, |seconds| bytes * SECONDS_PER_DAY / seconds)))
    }
}

/// As a binary size, such as `9.31 GiB/day`.
impl fmt::Display for BytesPerDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/day", ByteSize::new(self.0.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_without_a_period_is_per_day() {
        for (text, expected) in [
            ("1e9", 1e9),
            ("10GB", 1e10),
            ("10 GB / day", 1e10),
            ("10GiB/d", 10.0 * f64::from(1 << 30)),
            ("1kB/s", 8.64e7),
            ("365GB/y", 1e9),
        ] {
            let rate: BytesPerDay = text.parse().expect(text);
            assert_eq!(rate.bytes(), expected, "{text}");
        }
        let rate: BytesPerDay = "10GiB".parse().expect("a rate");
        assert_eq!(rate.to_string(), "10 GiB/day");
    }

    #[test]
    fn other_texts_are_refused_with_the_text_and_an_example() {
        for text in ["", "0", "0GB", "-5", "nan", "inf", "10GB/", "10GB/x", "/day", "1e300", "10GB/day/day", "many"] {
            let error = text.parse::<BytesPerDay>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("'{text}' is ")), "{error}");
            assert!(error.contains("such as 10GB"), "{error}");
        }
    }
}
