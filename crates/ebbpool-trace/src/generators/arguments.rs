//! Parameters of generators: what there is, and reading what was given.

use std::fmt;

use super::GeneratorInfo;
use super::random::Chance;
use crate::error::{TraceError, one_line};
use crate::nearest::did_you_mean;

/// A parameter of a generator.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// The word before the equals sign.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// The value if it is left out, or in words where that depends on others.
    pub default: &'static str,
    /// What it means, in a few words.
    pub description: &'static str,
}

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number, both ends included.
    Integer {
        /// The lowest.
        min: u64,
        /// The highest.
        max: u64,
    },
    /// A decimal number such as `0.4` with up to 15 digits, both ends included,
    /// from 0.
    Decimal {
        /// The highest.
        max: u32,
    },
    /// `true` or `false`.
    Boolean,
}

impl fmt::Display for Kind {
    /// The range in words, as in "a whole number from 1 to 9".
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Integer { min, max: u64::MAX } => {
                write!(formatter, "a whole number from {min} to 2^64-1")
            }
            Kind::Integer { min, max } => write!(formatter, "a whole number from {min} to {max}"),
            Kind::Decimal { max } => write!(formatter, "a decimal number from 0 to {max}"),
            Kind::Boolean => formatter.write_str("true or false"),
        }
    }
}

/// What was given for a generator, names checked, values not yet.
pub(super) struct Arguments<'a> {
    spec: String,
    info: &'static GeneratorInfo,
    given: Vec<(&'static Parameter, &'a str)>,
}

impl<'a> Arguments<'a> {
    /// Reads `name=value,name=value`; `spec` is the whole argument for messages.
    pub(super) fn parse(
        spec: &str,
        info: &'static GeneratorInfo,
        text: &'a str,
    ) -> Result<Arguments<'a>, TraceError> {
        let spec = one_line(spec);
        let mut given: Vec<(&'static Parameter, &'a str)> = Vec::new();
        let refuse = |problem: String| TraceError::Parameter {
            spec: spec.clone(),
            problem: one_line(&problem),
            generator: info.name,
            parameters: describe(info),
        };
        for item in text.split(',').map(str::trim) {
            if item.is_empty() {
                continue;
            }
            let Some((name, value)) = item.split_once('=') else {
                return Err(refuse(format!("'{item}' is not of the form name=value")));
            };
            let (name, value) = (name.trim(), value.trim());
            let parameters = info.parameters;
            let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else {
                let nearest = did_you_mean(name, parameters.iter().map(|known| known.name));
                return Err(refuse(format!("unknown parameter '{name}'{nearest}")));
            };
            if given.iter().any(|(earlier, _)| earlier.name == name) {
                return Err(refuse(format!("'{name}' is given twice")));
            }
            given.push((parameter, value));
        }
        Ok(Arguments { spec, info, given })
    }

    /// The value of an integer parameter or its default.
    pub(super) fn integer(&self, name: &str) -> Result<u64, TraceError> {
        self.read(name, |text, kind| {
            let Kind::Integer { min, max } = kind else {
                return None;
            };
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let value: u64 = digits.then(|| text.parse().ok())??;
            (min..=max).contains(&value).then_some(value)
        })
    }

    /// The value of a decimal parameter or its default.
    pub(super) fn decimal(&self, name: &str) -> Result<Decimal, TraceError> {
        self.read(name, |text, kind| {
            let Kind::Decimal { max } = kind else {
                return None;
            };
            Decimal::parse(text).filter(|value| value.at_most(max))
        })
    }

    /// The value of a boolean parameter or its default.
    pub(super) fn boolean(&self, name: &str) -> Result<bool, TraceError> {
        self.read(name, |text, _| text.parse().ok())
    }

    /// True if the user gave this parameter.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given
            .iter()
            .any(|(parameter, _)| parameter.name == name)
    }

    fn read<T>(&self, name: &str, read: impl Fn(&str, Kind) -> Option<T>) -> Result<T, TraceError> {
        let given = self
            .given
            .iter()
            .find(|(parameter, _)| parameter.name == name);
        let (parameter, text) = match given {
            Some(&(parameter, text)) => (parameter, text),
            None => {
                let parameter = self
                    .info
                    .parameters
                    .iter()
                    .find(|parameter| parameter.name == name)
                    .unwrap_or_else(|| unreachable!("{} asks for its own parameters", name));
                (parameter, parameter.default)
            }
        };
        read(text, parameter.kind).ok_or_else(|| TraceError::Value {
            spec: self.spec.clone(),
            parameter: parameter.name,
            value: one_line(text),
            expected: parameter.kind.to_string(),
        })
    }
}

/// All parameters on one line, with ranges and defaults.
fn describe(info: &GeneratorInfo) -> String {
    let each: Vec<String> = info
        .parameters
        .iter()
        .map(
            |Parameter {
                 name,
                 kind,
                 default,
                 ..
             }| format!("{name} ({kind}; default {default})"),
        )
        .collect();
    each.join(", ")
}

/// A decimal number exactly as written: `digits / 10^scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: u64,
    scale: u32,
}

impl Decimal {
    /// Fewer than 2^53, so that the digits are exact in floating point too.
    const MOST_DIGITS: usize = 15;

    fn parse(text: &str) -> Option<Decimal> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let fraction = fraction.trim_end_matches('0');
        let plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        // "." and "" have no digit at all.
        let any = text.bytes().any(|byte| byte.is_ascii_digit());
        if !any || !plain(whole) || !plain(fraction) {
            return None;
        }
        let whole = whole.trim_start_matches('0');
        if whole.len() + fraction.len() > Decimal::MOST_DIGITS {
            return None;
        }
        let digits = format!("0{whole}{fraction}").parse().ok()?;
        Some(Decimal {
            digits,
            scale: fraction.len() as u32,
        })
    }

    fn unit(self) -> u64 {
        10u64.pow(self.scale)
    }

    fn at_most(self, max: u32) -> bool {
        u128::from(self.digits) <= u128::from(max) * u128::from(self.unit())
    }

    /// The nearest floating-point number: one division of two exact numbers.
    pub(super) fn value(self) -> f64 {
        self.digits as f64 / self.unit() as f64
    }

    /// The number as a probability; it must be at most 1.
    pub(super) fn chance(self) -> Chance {
        Chance::new(self.digits, self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        let some = |digits, scale| Some(Decimal { digits, scale });
        assert_eq!(Decimal::parse("0.40"), some(4, 1));
        assert_eq!(Decimal::parse("1"), some(1, 0));
        assert_eq!(Decimal::parse("1."), some(1, 0));
        assert_eq!(Decimal::parse(".5"), some(5, 1));
        assert_eq!(Decimal::parse("000.000"), some(0, 0));
        assert_eq!(Decimal::parse("0.00012"), some(12, 5));
        for bad in [
            "",
            ".",
            "-1",
            "+1",
            "1e3",
            "0.1.2",
            "½",
            " 1",
            "nan",
            "0.1234567890123456",
        ] {
            assert_eq!(Decimal::parse(bad), None, "{bad}");
        }
        let value = |text| Decimal::parse(text).unwrap().value();
        assert_eq!(value("0.1").to_bits(), 0.1f64.to_bits());
        assert_eq!(value("1.2").to_bits(), 1.2f64.to_bits());
        assert_eq!(value("0.333333333333333"), 0.333333333333333);
    }

    #[test]
    fn every_default_is_within_its_range() {
        for info in super::super::generators() {
            let arguments = Arguments::parse(info.name, info, "").unwrap();
            for parameter in info.parameters {
                // Defaults in words are resolved by their generator.
                if parameter.default.contains(' ') || parameter.default.contains("alpha") {
                    continue;
                }
                match parameter.kind {
                    Kind::Integer { .. } => drop(arguments.integer(parameter.name).unwrap()),
                    Kind::Decimal { .. } => drop(arguments.decimal(parameter.name).unwrap()),
                    Kind::Boolean => drop(arguments.boolean(parameter.name).unwrap()),
                }
            }
        }
    }
}
