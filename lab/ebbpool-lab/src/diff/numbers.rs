//! Values and differences in words.

use serde_json::Value;

use super::file::plain_text;
use crate::numbers::{digits, rounded};

/// The most characters of a text or a list in a table.
const LONGEST: usize = 28;

/// A value for a table: whole numbers exactly, fractions with four decimals, long texts cut short.
pub fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "-".into(),
        Value::Number(number) => match number.as_f64() {
            Some(fraction) if number.is_f64() && fraction.abs() < 1e-3 => rounded(fraction),
            Some(fraction) if number.is_f64() => digits(fraction),
            _ => number.to_string(),
        },
        Value::Array(items) => format!("{} values", items.len()),
        Value::Object(_) => "present".into(),
        other => plain_text(other),
    };
    match text.chars().count() > LONGEST {
        true => text.chars().take(LONGEST - 1).chain(['…']).collect(),
        false => text,
    }
}

/// A relative difference in per cent, with its sign: `-9.7 %`, `+0.009 %`; `x12.3` if it is a multiple.
pub fn percent(relative: f64) -> String {
    let sign = if relative < 0.0 { '-' } else { '+' };
    match relative {
        _ if relative.abs() < 5e-4 => format!("{sign}{} %", rounded(100.0 * relative.abs())),
        _ if relative >= 9.0 => format!("x{}", rounded(((1.0 + relative) * 10.0).round() / 10.0)),
        _ => format!("{:+.1} %", 100.0 * relative),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_in_per_cent_or_multiples() {
        for (relative, expected) in
            [(-0.0974, "-9.7 %"), (0.2, "+20.0 %"), (9e-5, "+0.009 %"), (-1e-7, "-1e-5 %"), (11.34, "x12.3")]
        {
            assert_eq!(percent(relative), expected);
        }
    }

    #[test]
    fn long_texts_are_cut_and_lists_counted() {
        let texts = [
            (Value::Null, "-"),
            (serde_json::json!([1, 2]), "2 values"),
            (serde_json::json!(12_345_678), "12345678"),
            (serde_json::json!(2.25), "2.2500"),
        ];
        for (value, expected) in texts {
            assert_eq!(shown(&value), expected);
        }
        assert_eq!(shown(&"x".repeat(40).into()).chars().count(), LONGEST);
    }
}
