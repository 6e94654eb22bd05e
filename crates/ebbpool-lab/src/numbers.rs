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

/// A number to three decimals, without trailing zeros.
pub fn rounded(number: f64) -> String {
    ((number * 1e3).round() / 1e3).to_string()
}

/// A bill per reference, with four decimals below 10 and two from there on.
pub fn digits(bill: f64) -> String {
    if bill < 10.0 {
        format!("{bill:.4}")
    } else {
        format!("{bill:.2}")
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
