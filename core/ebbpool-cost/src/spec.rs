//! The grammar of specifications: `name:key=value,key=value`, where a value may be a specification or a list of
//! them in parentheses.
//!
//! Policies, generators, simulated devices and asymmetries that change declare their parameters by [`Parameter`] and read
//! them by [`assignments`], so that all refuse a wrong text in the same words.

use std::fmt;

use crate::{did_you_mean, one_line};

/// How deep parentheses may be nested: a parser may recurse once per level.
pub const DEEPEST: u32 = 8;

/// The default of a parameter that has none.
pub const REQUIRED: &str = "none: it must be given";

/// A parameter of a specification.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<K> {
    /// The word before the equals sign.
    pub name: &'static str,
    /// The values it takes, which `K` displays as a range in words.
    pub kind: K,
    /// The value where none is given, or words where that depends on something else.
    pub default: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
}

impl<K> Parameter<K> {
    /// True if there is no default.
    pub fn is_required(&self) -> bool {
        self.default == REQUIRED
    }
}

impl<K: fmt::Display> Parameter<K> {
    /// The error of a value that the parameter does not take.
    pub fn refuse(&self, value: &str) -> ParameterError {
        ParameterError::Value { name: self.name, value: one_line(value), range: self.kind.to_string() }
    }
}

/// Whole numbers from `min` to `max`, or a word in place of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The least number.
    pub min: u64,
    /// The greatest number.
    pub max: u64,
    /// The word, if there is one.
    pub or: Option<&'static str>,
}

/// A value that [`Whole`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeOrWord {
    /// A number.
    Number(u64),
    /// The word.
    Word(&'static str),
}

impl Whole {
    /// Numbers only.
    pub const fn new(min: u64, max: u64) -> Self {
        Whole { min, max, or: None }
    }

    /// Accepts `word` too, such as `auto`.
    pub const fn or(self, word: &'static str) -> Self {
        Whole { or: Some(word), ..self }
    }

    /// Reads a value: digits, or the word.
    pub fn read(self, text: &str) -> Option<WholeOrWord> {
        if let Some(word) = self.or.filter(|&word| word == text) {
            return Some(WholeOrWord::Word(word));
        }
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.then(|| text.parse().ok()).flatten();
        number.filter(|number| (self.min..=self.max).contains(number)).map(WholeOrWord::Number)
    }

    /// Reads a number.
    pub fn number(self, text: &str) -> Option<u64> {
        match self.read(text)? {
            WholeOrWord::Number(number) => Some(number),
            WholeOrWord::Word(_) => None,
        }
    }
}

impl fmt::Display for Whole {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Whole { min, max, .. } if min.checked_add(1) == Some(max) => {
                write!(formatter, "{min} or {max}")?;
            }
            Whole { min, max: u64::MAX, .. } => write!(formatter, "a whole number from {min} to 2^64-1")?,
            Whole { min, max, .. } => write!(formatter, "a whole number from {min} to {max}")?,
        }
        match self.or {
            Some(word) => write!(formatter, ", or {word}"),
            None => Ok(()),
        }
    }
}

/// The one of these words that the text is.
pub fn word(words: &[&'static str], text: &str) -> Option<&'static str> {
    words.iter().copied().find(|&word| word == text)
}

/// Words as `a, b or c`.
pub fn alternatives(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).into(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Why the parameters of a specification were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// A part is not `name=value`.
    #[error("'{part}' is not of the form NAME=VALUE; {takes}")]
    NotAPair {
        /// The part.
        part: String,
        /// All parameters with their ranges.
        takes: String,
    },
    /// There is no such parameter.
    #[error("unknown parameter '{name}'{suggestion}; {takes}")]
    Unknown {
        /// Its name as given.
        name: String,
        /// "did you mean" the most similar one, if one is similar.
        suggestion: String,
        /// All parameters with their ranges.
        takes: String,
    },
    /// A parameter without a default is not given.
    #[error("{name} is missing; {takes}")]
    Missing {
        /// The parameter.
        name: &'static str,
        /// All parameters with their ranges.
        takes: String,
    },
    /// A parameter is given twice.
    #[error("'{name}' is given twice")]
    Twice {
        /// The parameter.
        name: &'static str,
    },
    /// A value is out of range or not of the parameter's kind.
    #[error("{name}={value}: expected {range}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// The value as given.
        value: String,
        /// The values that the parameter takes.
        range: String,
    },
    /// Parentheses do not match, or are nested deeper than [`DEEPEST`].
    #[error("'{text}': {ParenthesesError}")]
    Parentheses {
        /// The parameters as given.
        text: String,
    },
}

/// Parentheses that do not match, or are nested deeper than [`DEEPEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the parentheses do not match, or are nested more than {DEEPEST} deep")]
pub struct ParenthesesError;

/// The values that a text such as `key=value,key=value` assigns to parameters, each with the parameter's number among
/// `parameters`, in the order of the text. Empty parts are skipped.
///
/// # Errors
///
/// [`ParameterError`], but not [`ParameterError::Value`] and [`ParameterError::Missing`]: the caller reads the values.
///
/// ```
/// use ebbpool_cost::spec::{Parameter, Whole, assignments};
/// let parameters = [Parameter { name: "pages", kind: Whole::new(1, 9), default: "1", about: "pages" }];
/// assert_eq!(assignments("pages=7", &parameters), Ok(vec![(0, "7")]));
/// let error = assignments("page=7", &parameters).unwrap_err().to_string();
/// assert!(error.ends_with("(did you mean 'pages'?); it takes pages"));
/// ```
pub fn assignments<'a, K: fmt::Display>(
    text: &'a str,
    parameters: &[Parameter<K>],
) -> Result<Vec<(usize, &'a str)>, ParameterError> {
    let mut given: Vec<(usize, &'a str)> = Vec::new();
    let parts = parts(text).map_err(|_| ParameterError::Parentheses { text: one_line(text) })?;
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let Some((name, value)) = part.split_once('=') else {
            return Err(ParameterError::NotAPair { part: one_line(part), takes: takes(parameters) });
        };
        let name = name.trim();
        let Some(at) = parameters.iter().position(|known| known.name == name) else {
            let suggestion = did_you_mean(name, parameters.iter().map(|known| known.name));
            return Err(ParameterError::Unknown {
                name: one_line(name),
                takes: match suggestion.is_empty() {
                    true => takes(parameters),
                    false => takes_names(parameters),
                },
                suggestion,
            });
        };
        if given.iter().any(|&(earlier, _)| earlier == at) {
            return Err(ParameterError::Twice { name: parameters[at].name });
        }
        given.push((at, value.trim()));
    }
    Ok(given)
}

/// The names of all parameters on one line.
fn takes_names<K>(parameters: &[Parameter<K>]) -> String {
    let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
    format!("it takes {}", names.join(", "))
}

/// All parameters, each on two lines: what it does, then its range and its default.
pub fn describe<K: fmt::Display>(parameters: &[Parameter<K>]) -> String {
    let longest = parameters.iter().map(|parameter| parameter.name.len()).max();
    let width = longest.unwrap_or(0).max(11) + 2;
    let lines = parameters.iter().map(|parameter| {
        let Parameter { name, kind, about, .. } = parameter;
        let default = match parameter.is_required() {
            true => "must be given".to_string(),
            false => format!("default: {}", parameter.default),
        };
        format!("    {name:<width$}{about}\n    {:width$}{kind} [{default}]\n", "")
    });
    lines.collect()
}

/// All parameters on one line, with ranges and defaults.
pub fn takes<K: fmt::Display>(parameters: &[Parameter<K>]) -> String {
    if parameters.is_empty() {
        return "it takes no parameters".into();
    }
    let each = parameters.iter().map(|parameter| {
        let Parameter { name, kind, default, .. } = parameter;
        format!("{name} ({kind}; default {default})")
    });
    format!("it takes {}", each.collect::<Vec<_>>().join(", "))
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
/// [`ParenthesesError`].
pub fn parts(text: &str) -> Result<Vec<&str>, ParenthesesError> {
    let mut depth = 0u32;
    let mut start = 0;
    let mut parts = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' if depth == DEEPEST => return Err(ParenthesesError),
            b'(' => depth += 1,
            b')' => depth = depth.checked_sub(1).ok_or(ParenthesesError)?,
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
        _ => Err(ParenthesesError),
    }
}

/// The text inside the parentheses around a value; `None` where the value has none.
///
/// # Errors
///
/// [`ParenthesesError`] if the first parenthesis is not closed.
pub fn inside_parentheses(value: &str) -> Result<Option<&str>, ParenthesesError> {
    match value.strip_prefix('(') {
        None => Ok(None),
        Some(rest) => match rest.strip_suffix(')') {
            Some(inside) => Ok(Some(inside.trim())),
            None => Err(ParenthesesError),
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
            assert_eq!(parts(bad), Err(ParenthesesError));
        }
        assert!(parts(&("(".repeat(8) + &")".repeat(8))).is_ok());
    }

    const PARAMETERS: [Parameter<Whole>; 2] = [
        Parameter { name: "pages", kind: Whole::new(1, 9).or("all"), default: "1", about: "pages" },
        Parameter { name: "seed", kind: Whole::new(0, u64::MAX), default: REQUIRED, about: "a seed" },
    ];

    #[test]
    fn parameters_are_assigned_at_most_once() {
        let given = assignments(" seed = (a=b) ,,pages=", &PARAMETERS);
        assert_eq!(given, Ok(vec![(1, "(a=b)"), (0, "")]));
        assert_eq!(assignments("", &PARAMETERS), Ok(vec![]));
        let takes = "it takes pages (a whole number from 1 to 9, or all; default 1), seed (a whole number from 0 to 2^64-1; default none: it must be given)";
        for (text, message) in [
            ("pages", format!("'pages' is not of the form NAME=VALUE; {takes}")),
            ("page=1", "unknown parameter 'page' (did you mean 'pages'?); it takes pages, seed".into()),
            ("seed=1,seed=1", "'seed' is given twice".into()),
            ("=", format!("unknown parameter ''; {takes}")),
            ("pages=(", "'pages=(': the parentheses do not match, or are nested more than 8 deep".into()),
        ] {
            let error = assignments(text, &PARAMETERS).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let none: [Parameter<Whole>; 0] = [];
        let error = assignments("a=1", &none).unwrap_err().to_string();
        assert_eq!(error, "unknown parameter 'a'; it takes no parameters");
        assert!(PARAMETERS[1].is_required() && !PARAMETERS[0].is_required());
    }

    #[test]
    fn whole_numbers_are_digits_within_the_range() {
        let [pages, seed] = PARAMETERS.map(|parameter| parameter.kind);
        assert_eq!(pages.read("all"), Some(WholeOrWord::Word("all")));
        assert_eq!(pages.number("all"), None);
        assert_eq!(pages.number("009"), Some(9));
        assert_eq!(seed.number("18446744073709551615"), Some(u64::MAX));
        for bad in ["", "0", "10", "+1", "-1", "1.0", " 1", "All"] {
            assert_eq!(pages.read(bad), None, "{bad}");
        }
        assert_eq!(seed.number("18446744073709551616"), None);
        assert_eq!(Whole::new(1, 2).to_string(), "1 or 2");
        assert_eq!(
            PARAMETERS[0].refuse("a\nb").to_string(),
            format!("pages={}: expected a whole number from 1 to 9, or all", one_line("a\nb"))
        );
    }

    #[test]
    fn words_are_one_of_a_list() {
        assert_eq!(word(&["page", "block"], "block"), Some("block"));
        assert_eq!(word(&["page", "block"], "bloc"), None);
        assert_eq!(alternatives(&["a", "b", "c"]), "a, b or c");
        assert_eq!(alternatives(&["a"]), "a");
    }

    #[test]
    fn one_pair_of_parentheses_is_removed() {
        assert_eq!(inside_parentheses("( (a) )"), Ok(Some("(a)")));
        assert_eq!(inside_parentheses("a"), Ok(None));
        assert_eq!(inside_parentheses("(a"), Err(ParenthesesError));
    }
}
