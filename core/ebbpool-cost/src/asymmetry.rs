//! R, the cost of a page write in page reads.

use std::fmt;
use std::str::FromStr;

/// The papers' plain model (FD-Buffer, section 3): R page reads cost as much as one page write.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Asymmetry(f64);

/// R0 of the papers, for models that name no device (FD-Buffer CIKM, section 5.1).
pub const PAPERS_BASE: Asymmetry = Asymmetry(32.0);

/// The largest R that is read. Bills of far larger ones would not be finite, or would differ by less than they are rounded.
const LARGEST: f64 = 1e15;

/// The error of a text or number that is not a number from 0 to 10^15.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsymmetryError(String);

impl fmt::Display for AsymmetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not an asymmetry; give the cost of a page write in page reads, a number from 0 to 1e15, such as 32",
            self.0
        )
    }
}

impl std::error::Error for AsymmetryError {}

impl Asymmetry {
    /// A write costs as much as `ratio` reads.
    ///
    /// # Errors
    ///
    /// [`AsymmetryError`] if it is negative, above 10^15, or no number.
    pub fn new(ratio: f64) -> Result<Self, AsymmetryError> {
        match (0.0..=LARGEST).contains(&ratio) {
            true => Ok(Asymmetry(ratio.abs())),
            false => Err(AsymmetryError(ratio.to_string())),
        }
    }

    /// The asymmetry nearest to `ratio`: 0 for negative numbers and NaN, 10^15 for larger ones.
    pub const fn saturating(ratio: f64) -> Self {
        Asymmetry(if ratio > 0.0 { if ratio > LARGEST { LARGEST } else { ratio } } else { 0.0 })
    }

    /// R, the cost of a page write in units of one page read.
    pub fn ratio(self) -> f64 {
        self.0
    }

    /// The bill of `reads` page reads and `writes` page writes, in units of one page read.
    pub fn bill(self, reads: u64, writes: u64) -> f64 {
        reads as f64 + writes as f64 * self.0
    }
}

impl FromStr for Asymmetry {
    type Err = AsymmetryError;

    fn from_str(text: &str) -> Result<Self, AsymmetryError> {
        let wrong = || AsymmetryError(text.into());
        let ratio = text.trim().parse().map_err(|_| wrong())?;
        Asymmetry::new(ratio).map_err(|_| wrong())
    }
}

/// With an exponent below 0.0001 and at 10^15, so that no number fills a line with zeros.
impl fmt::Display for Asymmetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 == 0.0 || (1e-4..1e15).contains(&self.0) {
            true => fmt::Display::fmt(&self.0, f),
            false => fmt::LowerExp::fmt(&self.0, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_weighs_writes() {
        let asymmetry: Asymmetry = "32".parse().expect("a number");
        assert_eq!(asymmetry.bill(8, 1), 40.0);
        assert_eq!(asymmetry.to_string(), "32");
    }

    #[test]
    fn extreme_numbers_are_printed_with_an_exponent_and_read_again() {
        for (text, printed) in [
            ("0", "0"),
            ("0.0001", "0.0001"),
            ("0.000000001", "1e-9"),
            ("2.5e-300", "2.5e-300"),
            ("1e14", "100000000000000"),
            ("1e15", "1e15"),
        ] {
            let asymmetry: Asymmetry = text.parse().expect("a number");
            assert_eq!(asymmetry.to_string(), printed);
            assert_eq!(printed.parse(), Ok(asymmetry));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["-1", "NaN", "inf", "", "x", "1.001e15", "1e308"] {
            assert!(text.parse::<Asymmetry>().is_err(), "{text}");
        }
    }
}
