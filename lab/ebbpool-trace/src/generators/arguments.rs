//! Parameters of generators, and parsing of arguments.

use std::fmt;

use ebbpool_cost::spec::{self, Parameter, ParameterError, Whole};
use ebbpool_cost::{ByteSize, Decimal, one_line};

use super::GeneratorInfo;
use super::random::Chance;
use crate::error::TraceError;
use crate::source::ReadOptions;
use crate::source::Source;
use crate::workload::WorkloadError;

/// Any whole number.
pub(super) const WORD: ArgumentKind = whole(0, u64::MAX);
/// `true` or `false`.
pub(super) const BOOLEAN: ArgumentKind = ArgumentKind::Word(&["true", "false"]);

/// Whole numbers from `min` to `max`.
pub(super) const fn whole(min: u64, max: u64) -> ArgumentKind {
    ArgumentKind::Whole(Whole::new(min, max))
}

/// Most generators' share of writes.
pub(super) const WRITE: GeneratorParameter = GeneratorParameter {
    name: "write",
    kind: ArgumentKind::Decimal { max: 1 },
    default: "0.3",
    about: "share of references that write",
};

/// Every generator's seed.
pub(super) const SEED: GeneratorParameter =
    GeneratorParameter { name: "seed", kind: WORD, default: "1", about: "another seed, another trace of the same kind" };

/// A parameter of a generator.
pub type GeneratorParameter = Parameter<ArgumentKind>;

/// The values that a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentKind {
    /// Whole numbers.
    Whole(Whole),
    /// A decimal number such as `0.4` with up to 15 digits, both ends included,
    /// from 0.
    Decimal {
        /// The highest.
        max: u32,
    },
    /// One of these words.
    Word(&'static [&'static str]),
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
            ArgumentKind::Whole(whole) => whole.fmt(formatter),
            ArgumentKind::Decimal { max } => write!(formatter, "a decimal number from 0 to {max}"),
            ArgumentKind::Word(words) => formatter.write_str(&spec::alternatives(words)),
            ArgumentKind::PageSize(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
                let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
                write!(formatter, "{} bytes, or with a unit, as in 8k", spec::alternatives(&sizes))
            }
            ArgumentKind::Skew => {
                formatter.write_str("two decimal numbers between 0 and 1, the first not below the second, as in 0.8/0.2")
            }
            ArgumentKind::Trace => formatter.write_str("a file or a generator, in parentheses if it has parameters"),
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
        let given = match spec::assignments(text, info.parameters) {
            Ok(given) => given.into_iter(),
            Err(error) => return Err(TraceError::Parameter { spec, error }),
        };
        let given = given.map(|(at, value)| (&info.parameters[at], value));
        Ok(Arguments { spec, info, given: given.collect(), reading })
    }

    /// The generator with all its parameters except traces, in canonical spelling: equal for
    /// arguments that mean the same.
    pub(super) fn canonical(&self) -> String {
        let each = self.info.parameters.iter().map(|parameter| {
            let given = self.given.iter().find(|(other, _)| other.name == parameter.name);
            let text = given.map_or(parameter.default, |&(_, text)| text);
            let value = match parameter.kind {
                ArgumentKind::Whole(whole) => whole.number(text).map(|value| value.to_string()),
                ArgumentKind::Decimal { .. } => Decimal::plain(text).ok().map(canonical_decimal),
                ArgumentKind::Skew => skew(text).map(|(a, b)| format!("{a}/{b}")),
                ArgumentKind::PageSize(sizes) => page_size(text, sizes).map(|size| size.to_string()),
                ArgumentKind::Word(_) => None,
                ArgumentKind::Trace => Some("trace".to_owned()),
            };
            format!("{}={}", parameter.name, value.unwrap_or_else(|| text.to_owned()))
        });
        format!("{}:{}", self.info.name, each.collect::<Vec<_>>().join(","))
    }

    /// The generator as it is given, with each of this many seeds, from its own on. So are generators among its arguments.
    pub(super) fn with_seeds(&self, count: u64) -> Result<Vec<String>, TraceError> {
        let first = self.integer(SEED.name)?;
        let last = first.checked_add(count.saturating_sub(1));
        let last = last.ok_or_else(|| TraceError::Seeds { spec: self.spec.clone(), first, count })?;
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
        Ok(seeds.map(|(seed, spec)| format!("{spec}{}={seed}", SEED.name)).collect())
    }

    /// A trace among the arguments with each of this many seeds, in parentheses; `None` if it is no generator.
    fn seeds_of_trace(&self, text: &str, count: u64) -> Result<Option<Vec<String>>, TraceError> {
        let inner = inside_parentheses(text).unwrap_or(text);
        if !Source::parse_with(inner, self.reading)?.is_generator() {
            return Ok(None);
        }
        let specs = super::seeded(inner, self.reading, count)?;
        let specs = specs.iter().map(|spec| format!("({spec})"));
        Ok(Some(specs.collect()))
    }

    /// The value of a whole number or its default.
    pub(super) fn integer(&self, name: &str) -> Result<u64, TraceError> {
        self.read(name, |text, kind| match kind {
            ArgumentKind::Whole(whole) => whole.number(text),
            _ => None,
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

    /// The value of [`BOOLEAN`] or its default.
    pub(super) fn boolean(&self, name: &str) -> Result<bool, TraceError> {
        Ok(self.choice(name)? == "true")
    }

    /// The value of a parameter that takes one of some words, or its default.
    pub(super) fn choice(&self, name: &str) -> Result<&'static str, TraceError> {
        self.read(name, |text, kind| match kind {
            ArgumentKind::Word(words) => spec::word(words, text),
            _ => None,
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
        let given = self.given.iter().find(|(parameter, _)| parameter.name == name);
        let Some(&(parameter, text)) = given else {
            return Err(self.refuse(ParameterError::Missing {
                name: self.parameter(name).name,
                takes: spec::takes(self.info.parameters),
            }));
        };
        let inner = match inside_parentheses(text) {
            Some(inner) => inner,
            _ if text.contains(':') && text.contains('=') => {
                let range = format!("parentheses around it, as in {name}=({})", one_line(text));
                return Err(self.refuse_value(parameter.name, text, range));
            }
            _ => text,
        };
        let reading = ReadOptions { skip: 0, limit: None, whole_writes: false, ..self.reading.clone() };
        Source::parse_with(inner, &reading)
    }

    /// The error of an impossible workload.
    pub(super) fn refuse_workload(&self, source: WorkloadError) -> TraceError {
        TraceError::Workload { spec: self.spec.clone(), source }
    }

    /// The error of a value that does not suit the other values.
    pub(super) fn refuse_value(&self, name: &'static str, value: &str, range: String) -> TraceError {
        self.refuse(ParameterError::Value { name, value: one_line(value), range })
    }

    fn refuse(&self, error: ParameterError) -> TraceError {
        TraceError::Parameter { spec: self.spec.clone(), error }
    }

    /// The generator's parameter of that name.
    fn parameter(&self, name: &str) -> &'static GeneratorParameter {
        let mut parameters = self.info.parameters.iter();
        let named = parameters.find(|parameter| parameter.name == name);
        named.unwrap_or_else(|| unreachable!("{name} is a parameter of {}", self.info.name))
    }

    /// True if the user gave this parameter.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|(parameter, _)| parameter.name == name)
    }

    fn read<T>(&self, name: &str, read: impl Fn(&str, ArgumentKind) -> Option<T>) -> Result<T, TraceError> {
        let given = self.given.iter().find(|(parameter, _)| parameter.name == name);
        let (parameter, text) = match given {
            Some(&(parameter, text)) => (parameter, text),
            None => {
                let parameter = self.parameter(name);
                (parameter, parameter.default)
            }
        };
        read(text, parameter.kind).ok_or_else(|| self.refuse(parameter.refuse(text)))
    }
}

/// The text inside the parentheses around a trace, with its spaces, since a file's name may begin or end with one.
fn inside_parentheses(text: &str) -> Option<&str> {
    text.strip_prefix('(').and_then(|it| it.strip_suffix(')'))
}

/// The bytes that `text` states, if they are one of `sizes`.
fn page_size(text: &str, sizes: &[u64]) -> Option<u64> {
    let size = text.parse().map(ByteSize::bytes).ok()?;
    sizes.contains(&size).then_some(size)
}

pub(crate) fn skew(text: &str) -> Option<(Decimal, Decimal)> {
    let (references, pages) = text.split_once('/')?;
    let (references, pages) = (Decimal::plain(references).ok()?, Decimal::plain(pages).ok()?);
    let [(share, whole), (part, unit)] = [references, pages].map(Decimal::parts);
    let ordered = part > 0 && u128::from(part) * u128::from(whole) <= u128::from(share) * u128::from(unit) && share < whole;
    ordered.then_some((references, pages))
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
        for bad in ["0.8", "0.8/", "/0.2", "0.2/0.8", "1/0.2", "0.8/0", "1.5/0.2", "-1/0.2"] {
            assert_eq!(shown(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_name_of_a_trace_in_parentheses_keeps_its_spaces() {
        assert_eq!(inside_parentheses("( a.txt )"), Some(" a.txt "));
        assert_eq!(inside_parentheses("((a))"), Some("(a)"));
        assert_eq!(inside_parentheses("(a"), None);
    }

    #[test]
    fn canonical_spellings() {
        let reading = ReadOptions::default();
        let canonical = |text: &str| {
            let info = super::super::generators().find(|info| info.name == "uniform").unwrap();
            Arguments::parse(text, info, text, &reading).unwrap().canonical()
        };
        assert_eq!(canonical("write=0.30, pages=010000"), canonical(""));
        assert_ne!(canonical("write=0.31"), canonical(""));
        assert_eq!(canonical(""), "uniform:pages=10000,refs=1000000,write=3e-1,seed=1");
    }

    #[test]
    fn a_page_size_has_a_unit_or_none() {
        let reading = ReadOptions::default();
        let info = super::super::generators().find(|info| info.name == "tpcb").unwrap();
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
                    ArgumentKind::Whole(_) => arguments.integer(name).is_ok(),
                    ArgumentKind::Decimal { .. } => arguments.decimal(name).is_ok(),
                    ArgumentKind::Word(_) => arguments.choice(name).is_ok(),
                    ArgumentKind::PageSize(_) => arguments.page_size(name).is_ok(),
                    ArgumentKind::Skew => arguments.skew(name).is_ok(),
                    ArgumentKind::Trace => arguments.trace(name).is_ok(),
                };
                assert!(valid, "{name} of {}", info.name);
            }
        }
    }
}
