//! Parameters of generators, and parsing of arguments.

use std::fmt;

use ebbpool_cost::{ByteSize, Decimal, did_you_mean, one_line, spec};

use super::GeneratorInfo;
use super::random::Chance;
use crate::error::TraceError;
use crate::read_options::ReadOptions;
use crate::source::Source;
use crate::workload::WorkloadError;

/// The default of a parameter that has none.
pub(super) const REQUIRED: &str = "none: it must be given";

/// Any whole number.
pub(super) const WORD: ArgumentKind = ArgumentKind::Integer {
    min: 0,
    max: u64::MAX,
};

/// Most generators' share of writes.
pub(super) const WRITE: GeneratorParameter = GeneratorParameter {
    name: "write",
    kind: ArgumentKind::Decimal { max: 1 },
    default: "0.3",
    description: "share of references that write",
};

/// Every generator's seed.
pub(super) const SEED: GeneratorParameter = GeneratorParameter {
    name: "seed",
    kind: WORD,
    default: "1",
    description: "another seed, another trace of the same kind",
};

/// A parameter of a generator.
#[derive(Debug, Clone, Copy)]
pub struct GeneratorParameter {
    /// The word before the equals sign.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: ArgumentKind,
    /// The value if it is left out, or a description where that depends on other parameters.
    pub default: &'static str,
    /// A description of a few words.
    pub description: &'static str,
}

impl GeneratorParameter {
    /// True if there is no default.
    pub fn is_required(&self) -> bool {
        self.default == REQUIRED
    }
}

/// The values that a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentKind {
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
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of these numbers of bytes, with or without a unit, such as `8192` or `8k`.
    PageSize(&'static [u64]),
    /// Two decimal numbers `A/B`: a share A of the references is to a share B of the pages.
    Skew,
    /// A trace: a file or a generator, in parentheses if it has parameters.
    Trace,
}

impl fmt::Display for ArgumentKind {
    /// The range in words, as in "a whole number from 1 to 9".
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentKind::Integer { min, max: u64::MAX } => {
                write!(formatter, "a whole number from {min} to 2^64-1")
            }
            ArgumentKind::Integer { min, max } => write!(formatter, "a whole number from {min} to {max}"),
            ArgumentKind::Decimal { max } => write!(formatter, "a decimal number from 0 to {max}"),
            ArgumentKind::Boolean => formatter.write_str("true or false"),
            ArgumentKind::Choice(words) => formatter.write_str(&words.join(" or ")),
            ArgumentKind::PageSize(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
                write!(formatter, "{} bytes, or with a unit, as in 8k", sizes.join(" or "))
            }
            ArgumentKind::Skew => formatter.write_str(
                "two decimal numbers between 0 and 1, the first not below the second, as in 0.8/0.2",
            ),
            ArgumentKind::Trace => {
                formatter.write_str("a file or a generator, in parentheses if it has parameters")
            }
        }
    }
}

/// The arguments of a generator: names are checked, values are not yet.
pub(super) struct Arguments<'a> {
    spec: String,
    info: &'static GeneratorInfo,
    given: Vec<(&'static GeneratorParameter, &'a str)>,
    reading: &'a ReadOptions,
}

impl<'a> Arguments<'a> {
    /// Parses `name=value,name=value`; `spec` is the whole argument for messages,
    /// `reading` says how to read traces among the values.
    pub(super) fn parse(
        spec: &str,
        info: &'static GeneratorInfo,
        text: &'a str,
        reading: &'a ReadOptions,
    ) -> Result<Arguments<'a>, TraceError> {
        let spec = one_line(spec);
        let mut given: Vec<(&'static GeneratorParameter, &'a str)> = Vec::new();
        let refuse = |problem: String| TraceError::Parameter {
            spec: spec.clone(),
            problem: one_line(&problem),
            generator: info.name,
            parameters: describe(info),
        };
        let items = spec::parts(text)
            .map_err(|_| refuse("its parentheses do not match, or stand too deep".to_owned()))?;
        for item in items {
            if item.is_empty() {
                continue;
            }
            let Some((name, value)) = item.split_once('=') else {
                return Err(refuse(format!("'{item}' is not of the form name=value")));
            };
            let (name, value) = (name.trim(), value.trim());
            let parameters = info.parameters;
            let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else {
                let nearest = did_you_mean(name, parameters.iter().map(|other| other.name));
                return Err(refuse(format!("unknown parameter '{name}'{nearest}")));
            };
            if given.iter().any(|(earlier, _)| earlier.name == name) {
                return Err(refuse(format!("'{name}' is given twice")));
            }
            given.push((parameter, value));
        }
        Ok(Arguments {
            spec,
            info,
            given,
            reading,
        })
    }

    /// The generator with all its parameters except traces, in canonical spelling: equal for
    /// arguments that mean the same.
    pub(super) fn canonical(&self) -> String {
        let each = self.info.parameters.iter().map(|parameter| {
            let given = self
                .given
                .iter()
                .find(|(other, _)| other.name == parameter.name);
            let text = given.map_or(parameter.default, |&(_, text)| text);
            let value = match parameter.kind {
                ArgumentKind::Integer { .. } => {
                    text.parse().ok().map(|value: u64| value.to_string())
                }
                ArgumentKind::Decimal { .. } => Decimal::plain(text).ok().map(canonical_decimal),
                ArgumentKind::Skew => skew(text).map(|(a, b)| format!("{a}/{b}")),
                ArgumentKind::PageSize(sizes) => {
                    page_size(text, sizes).map(|size| size.to_string())
                }
                ArgumentKind::Boolean | ArgumentKind::Choice(_) => None,
                ArgumentKind::Trace => Some("trace".to_owned()),
            };
            format!(
                "{}={}",
                parameter.name,
                value.unwrap_or_else(|| text.to_owned())
            )
        });
        format!("{}:{}", self.info.name, each.collect::<Vec<_>>().join(","))
    }

    /// The generator as it is given, with each of this many seeds, from its own on. So are generators among its arguments.
    pub(super) fn with_seeds(&self, count: u64) -> Result<Vec<String>, TraceError> {
        let first = self.integer(SEED.name)?;
        let last = first.checked_add(count.saturating_sub(1));
        let last = last.ok_or_else(|| TraceError::Seeds {
            spec: self.spec.clone(),
            first,
            count,
        })?;
        let mut specs = vec![format!("{}:", self.info.name); count as usize];
        for (parameter, value) in &self.given {
            if parameter.name == SEED.name {
                continue;
            }
            let nested = match parameter.kind {
                ArgumentKind::Trace => self.seeds_of_trace(value, count)?,
                _ => None,
            };
            for (at, spec) in specs.iter_mut().enumerate() {
                let value = nested.as_ref().map_or(*value, |specs| specs[at].as_str());
                *spec += &format!("{}={value},", parameter.name);
            }
        }
        let seeds = (first..=last).zip(specs);
        Ok(seeds
            .map(|(seed, spec)| format!("{spec}{}={seed}", SEED.name))
            .collect())
    }

    /// A trace among the arguments with each of this many seeds, in parentheses; `None` if it is no generator.
    fn seeds_of_trace(&self, text: &str, count: u64) -> Result<Option<Vec<String>>, TraceError> {
        let inner = text.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
        let inner = inner.unwrap_or(text);
        if !Source::parse_with(inner, self.reading)?.is_generator() {
            return Ok(None);
        }
        let specs = super::seeded(inner, self.reading, count)?;
        let specs = specs.iter().map(|spec| format!("({spec})"));
        Ok(Some(specs.collect()))
    }

    /// The value of an integer parameter or its default.
    pub(super) fn integer(&self, name: &str) -> Result<u64, TraceError> {
        self.read(name, |text, kind| {
            let ArgumentKind::Integer { min, max } = kind else {
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
            let ArgumentKind::Decimal { max } = kind else {
                return None;
            };
            Decimal::plain(text).ok().filter(|value| value.at_most(max))
        })
    }

    /// The value of a decimal parameter or its default, as a probability; its range ends at 1.
    pub(super) fn chance(&self, name: &str) -> Result<Chance, TraceError> {
        let (digits, unit) = self.decimal(name)?.parts();
        Ok(Chance::new(digits, unit))
    }

    /// The value of a boolean parameter or its default.
    pub(super) fn boolean(&self, name: &str) -> Result<bool, TraceError> {
        self.read(name, |text, _| text.parse().ok())
    }

    /// The value of a parameter that takes one of some words, or its default.
    pub(super) fn choice(&self, name: &str) -> Result<&'static str, TraceError> {
        self.read(name, |text, kind| {
            let ArgumentKind::Choice(words) = kind else {
                return None;
            };
            words.iter().copied().find(|&word| word == text)
        })
    }

    /// The value of a page size or its default, in bytes.
    pub(super) fn page_size(&self, name: &str) -> Result<u64, TraceError> {
        self.read(name, |text, kind| {
            let ArgumentKind::PageSize(sizes) = kind else {
                return None;
            };
            page_size(text, sizes)
        })
    }

    /// The value of a skew or its default: share of references, share of pages.
    pub(super) fn skew(&self, name: &str) -> Result<(Decimal, Decimal), TraceError> {
        self.read(name, |text, _| skew(text))
    }

    /// The trace that must be given for `name`. It is decoded by the options of the
    /// generator's user, but neither skipped into nor limited.
    pub(super) fn trace(&self, name: &str) -> Result<Source, TraceError> {
        let given = self
            .given
            .iter()
            .find(|(parameter, _)| parameter.name == name);
        let Some(&(parameter, text)) = given else {
            return Err(TraceError::Parameter {
                spec: self.spec.clone(),
                problem: format!("{name} is missing"),
                generator: self.info.name,
                parameters: describe(self.info),
            });
        };
        let inner = match text
            .strip_prefix('(')
            .and_then(|text| text.strip_suffix(')'))
        {
            Some(inner) => inner,
            None if text.contains(':') && text.contains('=') => {
                return Err(TraceError::Value {
                    spec: self.spec.clone(),
                    parameter: parameter.name,
                    value: one_line(text),
                    expected: format!("parentheses around it, as in {name}=({})", one_line(text)),
                });
            }
            None => text,
        };
        let reading = ReadOptions {
            skip: 0,
            limit: None,
            ..self.reading.clone()
        };
        Source::parse_with(inner, &reading)
    }

    /// The error of an impossible workload.
    pub(super) fn refuse_workload(&self, source: WorkloadError) -> TraceError {
        TraceError::Workload {
            spec: self.spec.clone(),
            source,
        }
    }

    /// The error of a value that does not suit the other values.
    pub(super) fn refuse_value(
        &self,
        parameter: &'static str,
        value: u64,
        expected: String,
    ) -> TraceError {
        TraceError::Value {
            spec: self.spec.clone(),
            parameter,
            value: value.to_string(),
            expected,
        }
    }

    /// True if the user gave this parameter.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given
            .iter()
            .any(|(parameter, _)| parameter.name == name)
    }

    fn read<T>(
        &self,
        name: &str,
        read: impl Fn(&str, ArgumentKind) -> Option<T>,
    ) -> Result<T, TraceError> {
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

/// The bytes that `text` states, if they are one of `sizes`.
fn page_size(text: &str, sizes: &[u64]) -> Option<u64> {
    let size = text.parse().map(ByteSize::bytes).ok()?;
    sizes.contains(&size).then_some(size)
}

pub(crate) fn skew(text: &str) -> Option<(Decimal, Decimal)> {
    let (references, pages) = text.split_once('/')?;
    let (references, pages) = (
        Decimal::plain(references).ok()?,
        Decimal::plain(pages).ok()?,
    );
    let [(share, whole), (part, unit)] = [references, pages].map(Decimal::parts);
    let ordered = part > 0
        && u128::from(part) * u128::from(whole) <= u128::from(share) * u128::from(unit)
        && share < whole;
    ordered.then_some((references, pages))
}

/// All parameters on one line, with ranges and defaults.
fn describe(info: &GeneratorInfo) -> String {
    let each: Vec<String> = info
        .parameters
        .iter()
        .map(
            |GeneratorParameter {
                 name,
                 kind,
                 default,
                 ..
             }| format!("{name} ({kind}; default {default})"),
        )
        .collect();
    each.join(", ")
}

/// The canonical spelling of a decimal number: `3e-1`.
fn canonical_decimal(number: Decimal) -> String {
    let (digits, places) = number.digits_and_places();
    format!("{digits}e-{places}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skews() {
        let shown = |text| skew(text).map(|(a, b)| (a.to_f64(), b.to_f64()));
        assert_eq!(shown("0.8/0.2"), Some((0.8, 0.2)));
        assert_eq!(shown("0.5/0.50"), Some((0.5, 0.5)));
        for bad in [
            "0.8", "0.8/", "/0.2", "0.2/0.8", "1/0.2", "0.8/0", "1.5/0.2", "-1/0.2",
        ] {
            assert_eq!(shown(bad), None, "{bad}");
        }
    }

    #[test]
    fn canonical_spellings() {
        let reading = ReadOptions::default();
        let canonical = |text: &str| {
            let info = super::super::generators()
                .find(|info| info.name == "uniform")
                .unwrap();
            Arguments::parse(text, info, text, &reading)
                .unwrap()
                .canonical()
        };
        assert_eq!(canonical("write=0.30, pages=010000"), canonical(""));
        assert_ne!(canonical("write=0.31"), canonical(""));
        assert_eq!(
            canonical(""),
            "uniform:pages=10000,refs=1000000,write=3e-1,seed=1"
        );
    }

    #[test]
    fn a_page_size_has_a_unit_or_none() {
        let reading = ReadOptions::default();
        let info = super::super::generators()
            .find(|info| info.name == "tpcb")
            .unwrap();
        let size = |text: &str| {
            let arguments = Arguments::parse(text, info, text, &reading).unwrap();
            let size = arguments.page_size("page-size");
            (size, arguments.canonical())
        };
        let (Ok(16384), plain) = size("page-size=16384") else {
            panic!("16384 bytes are a page");
        };
        for text in ["page-size=16k", "page-size=16KiB", "page-size=16384B"] {
            let (Ok(16384), canonical) = size(text) else {
                panic!("{text}");
            };
            assert_eq!(canonical, plain);
        }
        for text in ["page-size=16kB", "page-size=5000", "page-size=k"] {
            let error = size(text).0.expect_err("refused").to_string();
            assert!(error.contains("as in 8k"), "{error}");
        }
    }

    #[test]
    fn every_default_is_within_its_range() {
        let reading = ReadOptions::default();
        for info in super::super::generators() {
            let arguments = Arguments::parse(info.name, info, "", &reading).unwrap();
            for parameter in info.parameters {
                // The generator resolves defaults that are descriptions or other parameters.
                let another = |other: &GeneratorParameter| other.name == parameter.default;
                if parameter.default.contains(' ') || info.parameters.iter().any(another) {
                    continue;
                }
                let name = parameter.name;
                let valid = match parameter.kind {
                    ArgumentKind::Integer { .. } => arguments.integer(name).is_ok(),
                    ArgumentKind::Decimal { .. } => arguments.decimal(name).is_ok(),
                    ArgumentKind::Boolean => arguments.boolean(name).is_ok(),
                    ArgumentKind::Choice(_) => arguments.choice(name).is_ok(),
                    ArgumentKind::PageSize(_) => arguments.page_size(name).is_ok(),
                    ArgumentKind::Skew => arguments.skew(name).is_ok(),
                    ArgumentKind::Trace => arguments.trace(name).is_ok(),
                };
                assert!(valid, "{name} of {}", info.name);
            }
        }
    }
}
