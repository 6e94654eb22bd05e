//! Exact decimal numbers, so that 29 % of 100 frames is 29.

use std::fmt;
use std::str::FromStr;

/// A non-negative decimal number, exact: `digits / 10^places`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    digits: u64,
    places: u32,
}

/// The most digits of a number, without leading zeros before the point and trailing zeros after it. Numbers of
/// 15 digits are below 2^53, so that they are exact in floating point too.
const MOST_DIGITS: usize = 15;

/// A per cent sign stands for this many more places. A number that can be read in per cent can
/// therefore be read as a decimal as well.
const PERCENT_PLACES: usize = 2;

impl Decimal {
    /// `digits / 10^places`; at most 15 places.
    pub const fn new(digits: u64, places: u32) -> Self {
        Decimal { digits, places }
    }

    /// Reads a number such as `0.25`, without a per cent sign.
    ///
    /// # Errors
    ///
    /// [`DecimalError`] for another spelling or more than 15 digits.
    pub fn plain(text: &str) -> Result<Self, DecimalError> {
        Self::scaled(text, 0)
    }

    /// A number divided by `10^more`.
    fn scaled(text: &str, more: usize) -> Result<Self, DecimalError> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let any = !whole.is_empty() || !decimals.is_empty();
        if !any || !all_digits(whole) || !all_digits(decimals) {
            return Err(DecimalError);
        }
        let (whole, decimals) = (whole.trim_start_matches('0'), decimals.trim_end_matches('0'));
        let places = decimals.len() + more;
        if whole.len() + decimals.len() > MOST_DIGITS || places > MOST_DIGITS {
            return Err(DecimalError);
        }
        let digits = format!("0{whole}{decimals}").parse();
        let digits = digits.map_err(|_| DecimalError)?;
        Ok(Decimal::new(digits, places as u32).reduced())
    }

    /// The digits without a point, and the power of ten by which to divide them.
    pub fn parts(self) -> (u64, u64) {
        (self.digits, 10u64.pow(self.places))
    }

    /// The digits without a point, and how many of them stand after the point.
    pub fn digits_and_places(self) -> (u64, u32) {
        (self.digits, self.places)
    }

    /// True if the number is at most `whole`.
    pub fn at_most(self, whole: u32) -> bool {
        u128::from(self.digits) <= u128::from(whole) * self.denominator()
    }

    /// floor(self * whole), computed exactly.
    pub fn floor_times(self, whole: u64) -> u64 {
        let product = u128::from(self.digits) * u128::from(whole);
        u64::try_from(product / self.denominator()).unwrap_or(u64::MAX)
    }

    /// True if the number is more than 1.
    pub fn exceeds_one(self) -> bool {
        u128::from(self.digits) > self.denominator()
    }

    /// True if the number is 0.
    pub fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        self.digits as f64 / self.denominator() as f64
    }

    /// The number times 100 with a per cent sign, `0.25` as `25%`.
    pub fn percent(self) -> String {
        let places = self.places.saturating_sub(2);
        let scale = 10u64.pow(2u32.saturating_sub(self.places));
        let percent = Decimal { digits: self.digits * scale, places };
        format!("{percent}%")
    }

    fn denominator(self) -> u128 {
        10u128.pow(self.places)
    }

    fn reduced(mut self) -> Self {
        while self.places > 0 && self.digits.is_multiple_of(10) {
            self.digits /= 10;
            self.places -= 1;
        }
        self
    }
}

/// Not a plain decimal number such as `0.25` or `25%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a plain decimal number such as 0.25 or 25%")]
pub struct DecimalError;

/// Reads a number such as `0.25` or `25%`.
impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, DecimalError> {
        match text.strip_suffix('%') {
            Some(digits) => Self::scaled(digits.trim_end(), PERCENT_PLACES),
            None => Self::plain(text),
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10u64.pow(self.places);
        write!(f, "{}", self.digits / one)?;
        if self.places > 0 {
            let places = self.places as usize;
            write!(f, ".{:0places$}", self.digits % one)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::TestCaseError;

    fn decimal(text: &str) -> Decimal {
        text.parse().expect("a valid fraction")
    }

    #[test]
    fn floors_are_exact() {
        assert_eq!(decimal("29%").floor_times(100), 29);
        assert_eq!(decimal("0.29").floor_times(100), 29);
        assert_eq!(decimal("0.75%").floor_times(270_258), 2026);
        assert_eq!(decimal("1").floor_times(u64::MAX), u64::MAX);
    }

    #[test]
    fn equal_numbers_are_equal_and_print_alike() {
        for (text, plain, percent) in [
            ("50%", "0.5", "50%"),
            (".50", "0.5", "50%"),
            ("0.125", "0.125", "12.5%"),
            ("1", "1", "100%"),
            ("0", "0", "0%"),
            ("3.10%", "0.031", "3.1%"),
            ("0.000000001%", "0.00000000001", "0.000000001%"),
            (".99999999999999", "0.99999999999999", "99.999999999999%"),
            ("99.9999999999999%", "0.999999999999999", "99.9999999999999%"),
        ] {
            assert_eq!(decimal(text).to_string(), plain);
            assert_eq!(decimal(text).percent(), percent);
            assert_eq!(decimal(percent), decimal(plain));
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in [
            "", "%", ".", "-1", "1e3", "0.5.5", "x", "1%%", "1234567890123456", "0.1234567890123456", "0.12345678901234%",
            " 1", "½", "nan",
        ] {
            assert_eq!(text.parse::<Decimal>(), Err(DecimalError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn shares_are_read_as_they_are_printed(digits in 0..1_000_000_000_000_000u64, places in 0..16usize) {
            let padded = format!("{digits:016}");
            let (whole, decimals) = padded.split_at(16 - places);
            let Ok(share) = format!("{whole}.{decimals}").parse::<Decimal>() else {
                return Err(TestCaseError::fail("15 digits are read"));
            };
            if !share.exceeds_one() {
                prop_assert_eq!(share.to_string().parse(), Ok(share));
                prop_assert_eq!(share.percent().parse(), Ok(share));
            }
        }
    }
}
