//! The grammar of specifications: `name:key=value,key=value`, where a value may be a specification or a list of
//! them in parentheses.

/// How deep parentheses may be nested: a parser may recurse once per level.
pub const DEEPEST: u32 = 8;

/// What is wrong with a part of a specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed<'a> {
    /// This part is not `key=value`.
    NotAPair(&'a str),
    /// Parentheses do not match, or are nested deeper than [`DEEPEST`].
    Parentheses,
}

/// The name before the first colon, and what stands after it, if there is a colon.
///
/// ```
/// use ebbpool_cost::spec::split_name;
/// assert_eq!(split_name(" lru "), ("lru", None));
/// assert_eq!(split_name("cflru:window=0.5"), ("cflru", Some("window=0.5")));
/// ```
pub fn split_name(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((name, rest)) => (name.trim(), Some(rest)),
        None => (text.trim(), None),
    }
}

/// The parts of a text between the commas outside of parentheses, trimmed.
///
/// # Errors
///
/// [`Malformed::Parentheses`].
pub fn parts(text: &str) -> Result<Vec<&str>, Malformed<'_>> {
    let mut depth = 0u32;
    let mut start = 0;
    let mut parts = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' if depth == DEEPEST => return Err(Malformed::Parentheses),
            b'(' => depth += 1,
            b')' => depth = depth.checked_sub(1).ok_or(Malformed::Parentheses)?,
            b',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    match depth {
        0 => Ok(parts),
        _ => Err(Malformed::Parentheses),
    }
}

/// The key and the value of a part.
///
/// # Errors
///
/// [`Malformed::NotAPair`].
pub fn pair(part: &str) -> Result<(&str, &str), Malformed<'_>> {
    let (key, value) = part.split_once('=').ok_or(Malformed::NotAPair(part))?;
    Ok((key.trim(), value.trim()))
}

/// The text inside the parentheses around a value; `None` where the value has none.
///
/// # Errors
///
/// [`Malformed::Parentheses`] if the first parenthesis is not closed.
pub fn inside_parentheses(value: &str) -> Result<Option<&str>, Malformed<'_>> {
    match value.strip_prefix('(') {
        None => Ok(None),
        Some(rest) => match rest.strip_suffix(')') {
            Some(inside) => Ok(Some(inside.trim())),
            None => Err(Malformed::Parentheses),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_between_commas_outside_parentheses() {
        assert_eq!(
            parts("a=1, base=(zipf:pages=3,refs=(4)) ,,b=2"),
            Ok(vec!["a=1", "base=(zipf:pages=3,refs=(4))", "", "b=2"])
        );
        assert_eq!(parts(""), Ok(vec![""]));
        for bad in ["a=(", "a=)", "a=)(", &"(".repeat(100_000)] {
            assert_eq!(parts(bad), Err(Malformed::Parentheses));
        }
        assert!(parts(&("(".repeat(8) + &")".repeat(8))).is_ok());
    }

    #[test]
    fn a_pair_has_an_equals_sign() {
        assert_eq!(pair(" window = (a=b) "), Ok(("window", "(a=b)")));
        assert_eq!(pair("="), Ok(("", "")));
        assert_eq!(pair("window"), Err(Malformed::NotAPair("window")));
    }

    #[test]
    fn one_pair_of_parentheses_is_removed() {
        assert_eq!(inside_parentheses("( (a) )"), Ok(Some("(a)")));
        assert_eq!(inside_parentheses("a"), Ok(None));
        assert_eq!(inside_parentheses("(a"), Err(Malformed::Parentheses));
    }
}
