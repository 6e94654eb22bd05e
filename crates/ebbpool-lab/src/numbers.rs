//! Formats for numbers.

use serde::Serialize;

/// A double that serializes without a fraction if it is whole: `32`, not `32.0`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number(pub f64);

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 && self.0 < 1e15 {
            serializer.serialize_u64(self.0 as u64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

/// A number to three decimals, without trailing zeros. A number that would become 0 or have more than 15
/// digits has an exponent.
pub fn rounded(number: f64) -> String {
    let rounded = (number * 1e3).round() / 1e3;
    if (rounded == 0.0 && number != 0.0) || number.abs() >= 1e15 {
        scientific(number)
    } else {
        rounded.to_string()
    }
}

/// A number with four significant digits and an exponent, such as `1e300`.
fn scientific(number: f64) -> String {
    let text = format!("{number:.3e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => {
            let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
            format!("{mantissa}e{exponent}")
        }
        _ => text,
    }
}

/// A bill per reference, with four decimals below 10 and two from there on, and with an exponent from a
/// thousand million on.
pub fn digits(bill: f64) -> String {
    decimals(bill, if bill < 10.0 { 4 } else { 2 })
}

/// A number with this many decimals, and with an exponent from a thousand million on.
pub fn decimals(number: f64, places: usize) -> String {
    match number.abs() >= 1e9 {
        true => scientific(number),
        false => format!("{number:.places$}"),
    }
}

/// A share in per cent, with two significant digits even if it is small.
pub fn share(part: u64, whole: u64) -> String {
    let percent = 100.0 * part as f64 / whole as f64;
    let places = (1.0 - percent.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{percent:.places$}%")
}

/// The saving of a bill against the baseline's, in per cent.
pub fn saving(bill: f64, baseline: f64) -> Option<f64> {
    (baseline > 0.0).then(|| 100.0 * (1.0 - bill / baseline))
}

/// `21 % less`, `3 % more` or `no less`.
pub fn less_or_more(value: f64, baseline: f64) -> String {
    match saving(value, baseline).map(|saved| saved.round()) {
        Some(saved) if saved > 0.0 => format!("{saved} % less"),
        Some(saved) if saved < 0.0 => format!("{} % more", -saved),
        _ => "no less".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extreme_numbers_have_an_exponent() {
        for (number, text) in [
            (0.0, "0"),
            (32.0, "32"),
            (0.2, "0.2"),
            (0.0006, "0.001"),
            (1e-9, "1e-9"),
            (1.234_56e-7, "1.235e-7"),
            (1e14, "100000000000000"),
            (1e300, "1e300"),
        ] {
            assert_eq!(rounded(number), text);
        }
        for (bill, text) in [
            (0.0, "0.0000"),
            (12.3, "12.30"),
            (999_999_999.0, "999999999.00"),
            (9.13e298, "9.13e298"),
        ] {
            assert_eq!(digits(bill), text);
        }
    }
}
