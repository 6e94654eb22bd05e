//! "Did you mean …?" for names typed by people.

/// The candidate that resembles `typed` most, unless none does.
pub(crate) fn nearest<'a>(
    typed: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let typed = typed.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (distance(&typed, candidate), candidate))
        .min_by_key(|&(distance, _)| distance)
        // Beyond half of the letters a suggestion only confuses.
        .filter(|&(distance, candidate)| distance * 2 <= candidate.chars().count().max(2))
        .map(|(_, candidate)| candidate)
}

/// [`nearest`] as the parenthesis of a message, or nothing.
pub(crate) fn did_you_mean<'a>(
    typed: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    match nearest(typed, candidates) {
        Some(candidate) => format!(" (did you mean '{candidate}'?)"),
        None => String::new(),
    }
}

/// Levenshtein distance in letters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("zipf", "zipf"), 0);
    }

    #[test]
    fn suggestions() {
        assert_eq!(nearest("zpif", ["zipf", "uniform"]), Some("zipf"));
        assert_eq!(nearest("Uniform", ["zipf", "uniform"]), Some("uniform"));
        assert_eq!(nearest("qqqqqqqq", ["zipf", "uniform"]), None);
    }
}
