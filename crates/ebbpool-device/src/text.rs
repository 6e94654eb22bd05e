//! Words for error messages.

/// Names as `a, b and c`.
pub(crate) fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).into(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// How alike two names must be to be suggested, from 0 to 1: one slip in three letters.
const CLOSE: f64 = 0.6;

/// ` (did you mean 'x'?)` for the name that is most like `typed`, or nothing.
pub(crate) fn did_you_mean<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> String {
    let typed = typed.to_lowercase();
    names
        .map(|name| (strsim::normalized_damerau_levenshtein(&typed, name), name))
        .filter(|&(alike, _)| alike >= CLOSE)
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map_or(String::new(), |(_, name)| {
            format!(" (did you mean '{name}'?)")
        })
}
