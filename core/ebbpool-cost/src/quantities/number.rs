//! A number, and the unit behind it.

use crate::decimal::Decimal;

/// A text divided into a plain decimal number and what stands behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quantity<'a> {
    /// Digits, with a point or without.
    number: &'a str,
    /// The power of ten behind the number, 9 for `1e9`.
    exponent: u32,
    /// The unit: what follows the number, trimmed; may be empty.
    pub(super) unit: &'a str,
}

impl<'a> Quantity<'a> {
    /// Divides a text. The number may be empty or malformed, which [`Quantity::times`] reports.
    pub(super) fn from_text(text: &'a str) -> Self {
        let text = text.trim();
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let length = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.');
        let (number, rest) = text.split_at(length.count());
        // In `1EiB` the letter begins the unit, so an exponent needs digits.
        let power = rest.strip_prefix(['e', 'E']).unwrap_or_default();
        let (power, unit) = match digits(power) {
            0 => ("0", rest),
            length => power.split_at(length),
        };
        Quantity { number, exponent: power.parse().unwrap_or(u32::MAX), unit: unit.trim() }
    }

    /// True if the number has an exponent.
    pub(super) fn has_exponent(self) -> bool {
        self.exponent > 0
    }

    /// The number times `unit`, rounded to the nearest whole number.
    pub(super) fn times(self, unit: u128) -> Product {
        let number = match self.number.parse::<u64>() {
            Ok(whole) => Some((whole, 1)),
            Err(_) => Decimal::plain(self.number).ok().map(Decimal::parts),
        };
        let Some((digits, denominator)) = number else {
            return Product::Malformed;
        };
        let denominator = u128::from(denominator);
        let product = 10u128
            .checked_pow(self.exponent)
            .and_then(|power| power.checked_mul(unit))
            .and_then(|factor| factor.checked_mul(u128::from(digits)))
            .and_then(|product| product.checked_add(denominator / 2));
        match product.map(|product| product / denominator) {
            Some(0) if digits > 0 => Product::TooSmall,
            Some(product) => Product::Whole(product),
            None => Product::TooLarge,
        }
    }
}

/// A number times its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Product {
    Whole(u128),
    /// The text is not a plain decimal number of at most 15 digits, or of at most 64 bits if it is whole.
    Malformed,
    /// A number above 0 that would become 0.
    TooSmall,
    /// More than 128 bits.
    TooLarge,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exponent_has_digits_and_a_unit_may_begin_with_e() {
        for (text, product, unit) in [
            ("1e9", Product::Whole(1_000_000_000), ""),
            ("1.5e3 kB", Product::Whole(1500), "kB"),
            ("1EiB", Product::Whole(1), "EiB"),
            (" 2 e ", Product::Whole(2), "e"),
            ("2e-3", Product::Whole(2), "e-3"),
            ("0.4", Product::TooSmall, ""),
            ("0.5", Product::Whole(1), ""),
            ("0e99999999999", Product::TooLarge, ""),
            ("1e39", Product::TooLarge, ""),
            ("18446744073709551615", Product::Whole(u64::MAX.into()), ""),
            ("18446744073709551616", Product::Malformed, ""),
            ("", Product::Malformed, ""),
            (".", Product::Malformed, ""),
            ("1.2.3", Product::Malformed, ""),
            ("-1", Product::Malformed, "-1"),
            ("½", Product::Malformed, "½"),
        ] {
            let quantity = Quantity::from_text(text);
            assert_eq!((quantity.times(1), quantity.unit), (product, unit), "{text}");
        }
    }
}
