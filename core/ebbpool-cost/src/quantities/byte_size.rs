//! A number of bytes.

use std::fmt;
use std::str::FromStr;

use super::number::{Product, Quantity};
use crate::one_line;

/// A number of bytes, such as the size of a memory, a file or a page.
///
/// Without a unit a number is bytes. `k`, `M`, `G`, `T`, `P` and `E` are powers of 1024, also with `i` or `iB`
/// behind them; with a `B` alone, as in `kB` or `GB`, they are powers of 1000. Letters may be small or capital.
///
/// ```
/// # use ebbpool_cost::ByteSize;
/// let bytes = |text: &str| text.parse().map(ByteSize::bytes);
/// assert_eq!(bytes("8k")?, 8192);
/// assert_eq!(bytes("10kB")?, 10_000);
/// assert_eq!(bytes("1.5 GiB")?, 3 << 29);
/// assert_eq!(ByteSize::new(128 << 20).to_string(), "128 MiB");
/// # Ok::<(), ebbpool_cost::ByteSizeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

/// The error for a text that is not a number of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' {problem}", one_line(.text))]
pub struct ByteSizeError {
    text: String,
    problem: &'static str,
}

const MALFORMED: &str = "is not a size in bytes; give a number and a unit, such as 128MiB, 8k or 10GB";
const TOO_LARGE: &str = "is too large; give less than 16 EiB, such as 128MiB";
const TOO_SMALL: &str = "is less than a byte; give at least 1, such as 8k";

impl ByteSize {
    /// This number of bytes.
    pub const fn new(bytes: u64) -> Self {
        ByteSize(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// The letters of the units, for the powers of 1024 and 1000 from the first one on.
const LETTERS: [char; 6] = ['k', 'M', 'G', 'T', 'P', 'E'];

/// The number of bytes in a unit.
fn unit_bytes(unit: &str) -> Option<u128> {
    let mut letters = unit.chars();
    let first = letters.next();
    let first = match first.map(|letter| letter.to_ascii_lowercase()) {
        None => return Some(1),
        Some('b') if letters.as_str().is_empty() => return Some(1),
        Some(first) => first,
    };
    let power = LETTERS.iter().position(|letter| letter.to_ascii_lowercase() == first)?;
    let base: u128 = match letters.as_str().to_ascii_lowercase().as_str() {
        "" | "i" | "ib" => 1024,
        "b" => 1000,
        _ => return None,
    };
    base.checked_pow(u32::try_from(power).ok()? + 1)
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        let wrong = |problem| ByteSizeError { text: text.into(), problem };
        let quantity = Quantity::from_text(text);
        let unit = unit_bytes(quantity.unit).ok_or_else(|| wrong(MALFORMED))?;
        match quantity.times(unit) {
            Product::Whole(bytes) => u64::try_from(bytes).map(ByteSize).map_err(|_| wrong(TOO_LARGE)),
            Product::Malformed => Err(wrong(MALFORMED)),
            Product::TooSmall => Err(wrong(TOO_SMALL)),
            Product::TooLarge => Err(wrong(TOO_LARGE)),
        }
    }
}

/// In bytes below 1 KiB, else in the largest binary unit of which there is at least one, with three significant
/// digits and no trailing zeros, such as `9.64 MiB`.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl ByteSize {
    fn text(self) -> String {
        let mut power = self.0.checked_ilog2().unwrap_or(0) / 10;
        if power == 0 {
            return format!("{} B", self.0);
        }
        let (mut number, mut places) = self.rounded(power);
        // 1023.9 KiB are 1 MiB. No unit is above EiB, of which a size has less than 16.
        if number >= 1024 * 10u128.pow(places) {
            power += 1;
            (number, places) = self.rounded(power);
        }
        // 15.99 EiB would be read as more than 64 bits.
        if power == 6 && places == 1 {
            number = number.min(159);
        }
        while places > 0 && number.is_multiple_of(10) {
            number /= 10;
            places -= 1;
        }
        let one = 10u128.pow(places);
        let letter = match power {
            1 => 'K',
            _ => LETTERS[power as usize - 1],
        };
        match places as usize {
            0 => format!("{number} {letter}iB"),
            width => format!("{}.{:0width$} {letter}iB", number / one, number % one),
        }
    }

    /// The size in units of 1024^power as `digits / 10^places`, with three significant digits or all before the point.
    fn rounded(self, power: u32) -> (u128, u32) {
        let unit = 1u128 << (10 * power);
        let with = |places: u32| (u128::from(self.0) * 10u128.pow(places) + unit / 2) / unit;
        let places = (0..=2).rev().find(|&places| with(places) < 1000);
        let places = places.unwrap_or(0);
        (with(places), places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(text: &str) -> Result<u64, ByteSizeError> {
        text.parse().map(ByteSize::bytes)
    }

    #[test]
    fn units_are_binary_unless_they_end_in_b_alone() {
        for (text, expected) in [
            ("0", 0),
            ("4096", 4096),
            ("512B", 512),
            ("8k", 8192),
            ("8K", 8192),
            ("8KiB", 8192),
            ("8ki", 8192),
            ("8kib", 8192),
            ("10kB", 10_000),
            ("10KB", 10_000),
            ("128MiB", 128 << 20),
            (" 128 MiB ", 128 << 20),
            ("512M", 512 << 20),
            ("10GB", 10_000_000_000),
            ("10gb", 10_000_000_000),
            ("1.5GiB", 3 << 29),
            (".5k", 512),
            ("1e9", 1_000_000_000),
            ("2e3kB", 2_000_000),
            ("2T", 2 << 40),
            ("1PB", 1_000_000_000_000_000),
            ("15EiB", 15 << 60),
            ("0.3k", 307),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_text_and_an_example() {
        for text in [
            "", " ", "k", "MiB", "-5", "-1k", "+5", "nan", "NaN", "inf", "many", "1,000", "8 k iB", "8kb/s", "8x", "8kk",
            "8KiBB", "8ib", "1.2.3k", "1e-3", "3%", "0x10", "８k", "8µB", "1 000", "16EiB", "1e300", "1e20",
            "99999999999999999999", "0.1", "0.0001k", "20000PB",
        ] {
            let error = bytes(text).map(|_| ()).expect_err(text).to_string();
            assert!(error.starts_with(&format!("'{text}' is ")), "{error}");
            assert!(error.contains("such as"), "{error}");
        }
        let long = "9".repeat(10_000);
        let error = bytes(&long).expect_err("too large").to_string();
        assert!(error.len() < 500);
    }

    #[test]
    fn sizes_are_printed_in_binary_units_with_at_most_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (10_000, "9.77 KiB"),
            (100_000, "97.7 KiB"),
            (1_000_000, "977 KiB"),
            (1_047_552, "1023 KiB"),
            (1_048_064, "1 MiB"),
            (1_048_575, "1 MiB"),
            (10_108_928, "9.64 MiB"),
            (128 << 20, "128 MiB"),
            (1000 << 20, "1000 MiB"),
            (10_000_000_000, "9.31 GiB"),
            (u64::MAX, "15.9 EiB"),
            (1 << 63, "8 EiB"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), text, "{bytes}");
        }
        assert_eq!(format!("[{:>9}]", ByteSize(8192)), "[    8 KiB]");
    }

    proptest! {
        /// What is printed is read as a size that prints alike, and is off by at most 1 in 160.
        #[test]
        fn sizes_are_read_as_they_are_printed(bits in 0..64u32, random in any::<u64>()) {
            let size = ByteSize(random >> bits);
            let text = size.to_string();
            let read: ByteSize = text.parse()?;
            prop_assert_eq!(read.to_string(), text);
            let off = read.0.abs_diff(size.0) as f64;
            prop_assert!(off <= 0.0063 * size.0 as f64, "{} {}", size.0, read.0);
            prop_assert_eq!(size.0.to_string().parse(), Ok(size));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,12}|[0-9.eE+-]{0,24}[kKMGTPEiIbB ]{0,4}") {
            if let Ok(size) = text.parse::<ByteSize>() {
                prop_assert!(size.to_string().parse::<ByteSize>().is_ok());
            }
        }
    }
}
