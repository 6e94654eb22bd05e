//! Formats for numbers.

use ebbpool_cost::ByteSize;
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
    if (rounded == 0.0 && number != 0.0) || number.abs() >= 1e15 { scientific(number) } else { rounded.to_string() }
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

/// A number of events a second, with two decimals below 10.
pub(crate) fn pace(per_second: f64) -> String {
    decimals(per_second, if per_second < 10.0 { 2 } else { 0 })
}

/// A share in per cent, with two significant digits even if it is small.
pub(crate) fn share(part: u64, whole: u64) -> String {
    let percent = 100.0 * part as f64 / whole as f64;
    let places = (1.0 - percent.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{percent:.places$}%")
}

/// A count with commas between its thousands, such as `1,234`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The bytes of that many pages, if the page size is known.
pub fn bytes(pages: u64, page_size: Option<u64>) -> Option<ByteSize> {
    page_size.map(|page_size| ByteSize::new(pages.saturating_mul(page_size)))
}

/// A number of frames in words, such as `1,234 frames`.
pub(crate) fn frames(frames: u64) -> String {
    match frames {
        1 => "1 frame".into(),
        frames => format!("{} frames", grouped(frames)),
    }
}

/// A number of frames in words, and their bytes if the page size is known: `1,234 frames, 9.64 MiB`.
pub fn frames_and_bytes(count: u64, page_size: Option<u64>) -> String {
    match bytes(count, page_size) {
        Some(bytes) => format!("{}, {bytes}", frames(count)),
        None => frames(count),
    }
}

/// A number of pages for a column of figures, and their bytes if the page size is known: `1234 (9.64 MiB)`.
pub fn pages_and_bytes(pages: u64, page_size: Option<u64>) -> String {
    match bytes(pages, page_size) {
        Some(bytes) => format!("{pages} ({bytes})"),
        None => pages.to_string(),
    }
}

/// The saving of a bill against the baseline's, in per cent.
pub fn saving(bill: f64, baseline: f64) -> Option<f64> {
    (baseline > 0.0).then(|| 100.0 * (1.0 - bill / baseline))
}

/// `21 % less`, `3 % more` or `no less`.
pub(crate) fn less_or_more(value: f64, baseline: f64) -> String {
    match saving(value, baseline).map(|saved| saved.round()) {
        Some(saved) if saved > 0.0 => format!("{saved} % less"),
        Some(saved) if saved < 0.0 => format!("{} % more", -saved),
        _ => "no less".into(),
    }
}

/// What is that much less or more, as a bill that `than` follows: "15 % cheaper", "3 % dearer", "no cheaper".
pub(crate) fn cheaper_or_dearer(change: &str) -> String {
    change.replace(" less", " cheaper").replace(" more", " dearer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_printed_in_frames_and_bytes() {
        for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(count), text);
        }
        assert_eq!(frames_and_bytes(1234, Some(8192)), "1,234 frames, 9.64 MiB");
        assert_eq!(frames_and_bytes(1, None), "1 frame");
        assert_eq!(pages_and_bytes(1234, Some(8192)), "1234 (9.64 MiB)");
        assert_eq!(pages_and_bytes(1234, None), "1234");
        assert_eq!(bytes(u64::MAX, Some(2)), Some(ByteSize::new(u64::MAX)));
    }

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
        for (bill, text) in [(0.0, "0.0000"), (12.3, "12.30"), (999_999_999.0, "999999999.00"), (9.13e298, "9.13e298")] {
            assert_eq!(digits(bill), text);
        }
    }
}
