//! Policy names with parameters, and fractions as exact decimals ("Numbers").

use std::collections::BTreeMap;

/// A parsed specification, from which the policy takes its parameters one by one.
pub(crate) struct Spec {
    text: String,
    pub(crate) name: String,
    parameters: BTreeMap<String, String>,
}

impl Spec {
    pub(crate) fn parse(text: &str) -> Spec {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut parameters = BTreeMap::new();
        for item in items(rest) {
            let (key, value) = item.split_once('=').unwrap_or_else(|| panic!("no `=` in `{item}` of `{text}`"));
            let before = parameters.insert(key.to_string(), value.to_string());
            assert!(before.is_none(), "`{key}` twice in `{text}`");
        }
        Spec { text: text.to_string(), name: name.to_string(), parameters }
    }

    /// The parameter as text, or its default.
    pub(crate) fn text(&mut self, key: &str, default: &str) -> String {
        self.parameters.remove(key).unwrap_or_else(|| default.to_string())
    }

    /// The parameter as a whole number, or its default.
    pub(crate) fn number(&mut self, key: &str, default: u64) -> u64 {
        let value = self.text(key, &default.to_string());
        value.parse().unwrap_or_else(|_| panic!("`{key}={value}` is not a whole number"))
    }

    /// The parameter as a fraction, or its default.
    pub(crate) fn fraction(&mut self, key: &str, default: &str) -> Fraction {
        Fraction::parse(&self.text(key, default))
    }

    /// The parameter as a number of pages, given as a share of `m` (a per cent sign or a decimal
    /// point) or as it is.
    pub(crate) fn pages(&mut self, key: &str, default: &str, m: usize) -> usize {
        let text = self.text(key, default);
        if text.contains(['%', '.']) {
            return Fraction::parse(&text).of(m);
        }
        text.parse().expect("a number of pages")
    }

    /// Panics if there are parameters that the policy did not take.
    pub(crate) fn finish(self) {
        if let Some(key) = self.parameters.keys().next() {
            panic!("`{}` has no parameter `{key}`: `{}`", self.name, self.text);
        }
    }
}

/// The items between the commas that stand in no parentheses.
pub(crate) fn items(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let at_comma = |letter: char| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == ',' && depth == 0
    };
    let items = text.split(at_comma);
    items.filter(|item| !item.is_empty()).collect()
}

/// An exact decimal between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fraction {
    numerator: u128,
    denominator: u128,
}

impl Fraction {
    /// `0.29`, `29%`, `2.5%`, `0`, `1`.
    pub(crate) fn parse(text: &str) -> Fraction {
        let (decimal, percent) = match text.strip_suffix('%') {
            Some(decimal) => (decimal, 100),
            None => (text, 1),
        };
        let (whole, places) = decimal.split_once('.').unwrap_or((decimal, ""));
        let digits = format!("{whole}{places}");
        assert!(!digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()), "`{text}` is not a decimal");
        let numerator: u128 = digits.parse().expect("few digits");
        let denominator = 10u128.pow(places.len() as u32) * percent;
        assert!(numerator <= denominator, "`{text}` is more than 1");
        Fraction { numerator, denominator }
    }

    /// floor(f * m).
    pub(crate) fn of(self, m: usize) -> usize {
        (self.numerator * m as u128 / self.denominator) as usize
    }

    /// The nearest double.
    pub(crate) fn value(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact() {
        assert_eq!(Fraction::parse("29%").of(100), 29);
        assert_eq!(Fraction::parse("0.29").of(100), 29);
        assert_eq!(Fraction::parse("0.57").of(100), 57);
        assert_eq!(Fraction::parse("2.5%").of(1000), 25);
        assert_eq!(Fraction::parse("0.5").of(7), 3);
        assert_eq!(Fraction::parse("0").of(7), 0);
        assert_eq!(Fraction::parse("1").of(7), 7);
        assert_eq!(Fraction::parse("100%").of(7), 7);
        assert_eq!(Fraction::parse("1%").value(), 0.01);
    }

    #[test]
    #[should_panic(expected = "more than 1")]
    fn fractions_end_at_one() {
        Fraction::parse("1.01");
    }

    #[test]
    #[should_panic(expected = "no parameter")]
    fn unknown_parameters_are_refused() {
        crate::model("lru:window=0.5", 4);
    }

    #[test]
    #[should_panic(expected = "unknown policy")]
    fn unknown_policies_are_refused() {
        crate::model("mru", 4);
    }
}
