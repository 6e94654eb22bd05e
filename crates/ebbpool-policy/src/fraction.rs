//! Exact decimal fractions, so that 29 % of 100 frames is 29.

use std::fmt;
use std::str::FromStr;

/// A non-negative decimal number, exact: `numerator / 10^places`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    numerator: u64,
    places: u32,
}

/// At most this many digits before the decimal point, and after it in per cent.
const MAX_DIGITS: usize = 9;

/// A per cent sign stands for so many more places: what is read in per cent can be read as a
/// decimal as well.
const PERCENT_PLACES: usize = 2;

impl Fraction {
    /// floor(self * whole), computed exactly.
    pub fn floor_of(self, whole: u64) -> u64 {
        let product = u128::from(self.numerator) * u128::from(whole);
        u64::try_from(product / self.denominator()).unwrap_or(u64::MAX)
    }

    /// True if the number is more than 1.
    pub fn exceeds_one(self) -> bool {
        u128::from(self.numerator) > self.denominator()
    }

    /// True if the number is 0.
    pub fn is_zero(self) -> bool {
        self.numerator == 0
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator() as f64
    }

    /// The number times 100 with a per cent sign, `0.25` as `25%`.
    pub fn percent(self) -> String {
        let places = self.places.saturating_sub(2);
        let scale = 10u64.pow(2u32.saturating_sub(self.places));
        let percent = Fraction {
            numerator: self.numerator * scale,
            places,
        };
        format!("{percent}%")
    }

    fn denominator(self) -> u128 {
        10u128.pow(self.places)
    }

    fn reduced(mut self) -> Self {
        while self.places > 0 && self.numerator.is_multiple_of(10) {
            self.numerator /= 10;
            self.places -= 1;
        }
        self
    }
}

/// Not a plain decimal number such as `0.25` or `25%`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a plain decimal number such as 0.25 or 25%")]
pub struct NotAFraction;

impl FromStr for Fraction {
    type Err = NotAFraction;

    fn from_str(text: &str) -> Result<Self, NotAFraction> {
        let (digits, percent) = match text.strip_suffix('%') {
            Some(digits) => (digits.trim_end(), PERCENT_PLACES),
            None => (text, 0),
        };
        let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let places = decimals.len() + percent;
        let too_long = whole.len() > MAX_DIGITS || places > MAX_DIGITS + PERCENT_PLACES;
        if (whole.is_empty() && decimals.is_empty())
            || too_long
            || !all_digits(whole)
            || !all_digits(decimals)
        {
            return Err(NotAFraction);
        }
        let numerator = format!("{whole}{decimals}")
            .parse()
            .map_err(|_| NotAFraction)?;
        Ok(Fraction {
            numerator,
            places: places as u32,
        }
        .reduced())
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10u64.pow(self.places);
        write!(f, "{}", self.numerator / one)?;
        if self.places > 0 {
            let places = self.places as usize;
            write!(f, ".{:0places$}", self.numerator % one)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(text: &str) -> Fraction {
        text.parse().expect("a valid fraction")
    }

    #[test]
    fn floors_are_exact() {
        assert_eq!(fraction("29%").floor_of(100), 29);
        assert_eq!(fraction("0.29").floor_of(100), 29);
        assert_eq!(fraction("0.75%").floor_of(270_258), 2026);
        assert_eq!(fraction("1").floor_of(u64::MAX), u64::MAX);
    }

    #[test]
    fn equal_numbers_are_equal_and_print_alike() {
        for (text, decimal, percent) in [
            ("50%", "0.5", "50%"),
            (".50", "0.5", "50%"),
            ("0.125", "0.125", "12.5%"),
            ("1", "1", "100%"),
            ("0", "0", "0%"),
            ("3.10%", "0.031", "3.1%"),
            ("0.000000001%", "0.00000000001", "0.000000001%"),
        ] {
            assert_eq!(fraction(text).to_string(), decimal);
            assert_eq!(fraction(text).percent(), percent);
            assert_eq!(fraction(percent), fraction(decimal));
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in [
            "",
            "%",
            ".",
            "-1",
            "1e3",
            "0.5.5",
            "x",
            "1%%",
            "12345678901",
        ] {
            assert_eq!(text.parse::<Fraction>(), Err(NotAFraction), "{text}");
        }
    }
}
