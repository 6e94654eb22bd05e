//! Words for error messages.

/// Names as `a, b and c`.
pub(super) fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).into(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// ` (did you mean 'x'?)` for the known name that is most like `word`, or nothing.
pub(super) fn nearest(word: &str, known: &[&str]) -> String {
    known
        .iter()
        .map(|name| (strsim::jaro_winkler(word, name), name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| format!(" (did you mean '{name}'?)"))
        .unwrap_or_default()
}
