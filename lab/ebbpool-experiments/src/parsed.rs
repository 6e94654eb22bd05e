//! Values that are parsed once, when an experiment is planned.

use std::hash::{Hash, Hasher};

/// A value with the text from which it is parsed. Two values are equal if their texts are, so that a value
/// without a hash, such as a number with decimals, can be part of a key.
#[derive(Clone, Debug)]
pub(crate) struct Parsed<T> {
    text: String,
    value: T,
}

impl<T> Parsed<T> {
    /// Parses a text.
    pub(crate) fn new<E>(text: &str, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<Self, E> {
        Ok(Parsed { value: parse(text)?, text: text.into() })
    }

    /// The value.
    pub(crate) fn get(&self) -> &T {
        &self.value
    }
}

impl<T: ToString> From<T> for Parsed<T> {
    /// A value with its canonical spelling.
    fn from(value: T) -> Self {
        Parsed { text: value.to_string(), value }
    }
}

impl<T> PartialEq for Parsed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<T> Eq for Parsed<T> {}

impl<T> Hash for Parsed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}
