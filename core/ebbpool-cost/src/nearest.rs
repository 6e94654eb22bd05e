//! "Did you mean …?" for names typed by people.

use crate::one_line::one_line;

/// How similar two names must be, from 0 (nothing in common) to 1 (the same), for
/// one to be suggested in place of the other. One wrong letter in three is close enough.
const CLOSE: f64 = 0.6;

/// The candidate most similar to `typed`; `None` if none is similar enough.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.trim().to_lowercase();
    let length = typed.chars().count();
    candidates
        .into_iter()
        .map(|candidate| {
            let lower = candidate.to_lowercase();
            let (less, more) = match lower.chars().count() {
                other if other < length => (other, length),
                other => (length, other),
            };
            // Comparing each letter with each takes seconds for a text that is no name, and too few can be the same.
            let alike = match (less as f64) < CLOSE * more as f64 {
                true => 0.0,
                false => strsim::normalized_damerau_levenshtein(&typed, &lower),
            };
            // A name that was cut short is closer than its letters alone suggest.
            let begins = typed.len() >= 3 && lower.starts_with(&typed);
            (if begins { alike.max(CLOSE) } else { alike }, candidate)
        })
        .filter(|&(alike, _)| !typed.is_empty() && alike >= CLOSE)
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, candidate)| candidate)
}

/// [`nearest`] as a parenthesis for a message, or an empty text.
pub fn did_you_mean<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(typed, candidates) {
        Some(candidate) => format!(" (did you mean '{}'?)", one_line(candidate)),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions() {
        let names = ["zipf", "uniform", "self-similar"];
        assert_eq!(nearest("zpif", names), Some("zipf"));
        assert_eq!(nearest("Uniform", names), Some("uniform"));
        assert_eq!(nearest("self", names), Some("self-similar"));
        assert_eq!(nearest("selfsimilar", names), Some("self-similar"));
        for far in ["", "  ", "qqqqqqqq", "z", "fzup", "form"] {
            assert_eq!(nearest(far, names), None, "{far}");
        }
        let long = "zipf".repeat(250_000);
        assert_eq!(nearest(&long, std::iter::repeat_n("zipf", 1000)), None);
        assert_eq!(did_you_mean("", names), "");
        assert_eq!(did_you_mean("zip", names), " (did you mean 'zipf'?)");
    }
}
