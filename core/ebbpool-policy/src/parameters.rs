//! The parameters of policies as types: a policy with parameters has a struct of them, which
//! `parameters!` declares together with the parameters of a specification that are read into it.

use std::fmt::Debug;

use ebbpool_cost::Decimal;
use ebbpool_cost::spec::Whole;

use crate::spec::{ParameterKind, PolicySpec, Value};

/// The parameters of a policy, each in a field of its own type; `()` for a policy without any.
///
/// `Default` has the default of each parameter.
///
/// Only a specification makes one outside this crate, because only that checks the ranges.
pub trait PolicyConfig: Clone + Debug + Default + PartialEq {
    /// The config whose parameter `name` has the value `value(name)`.
    fn from_values(value: impl Fn(&'static str) -> Option<Value>) -> Self;

    /// The config of `spec`, whose policy takes these parameters.
    fn from_spec(spec: &PolicySpec) -> Self {
        Self::from_values(|name| spec.value(name))
    }
}

impl PolicyConfig for () {
    fn from_values(_value: impl Fn(&'static str) -> Option<Value>) -> Self {}
}

/// Declares a policy's config: a struct with a field for each parameter, and `PARAMS`, the
/// parameters in canonical order, for the policy's entry.
///
/// A field is followed by its kind, default and description, or by a `PolicyParameter` that several
/// policies share. Its name is that of the parameter. `..PARAM` adds to `PARAMS` a parameter that
/// has no field, because it is not the policy that takes it.
macro_rules! parameters {
    (
        $(#[$attribute:meta])*
        pub struct $config:ident {
            $($field:ident: $type:ty = $param:tt, $(..$other:ident,)*)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $config {
            $(#[doc = $crate::parameters::parameters!(@about $param)] pub $field: $type,)+
        }

        impl $config {
            pub(crate) const PARAMS: &'static [$crate::spec::PolicyParameter] = &[$(
                $crate::parameters::parameters!(@param $field $param),
                $($other,)*
            )+];
        }

        impl Default for $config {
            fn default() -> Self {
                $crate::parameters::PolicyConfig::from_values(|name| {
                    let param = Self::PARAMS.iter().find(|param| param.name == name)?;
                    $crate::spec::default_value(param)
                })
            }
        }

        impl $crate::parameters::PolicyConfig for $config {
            fn from_values(
                value: impl Fn(&'static str) -> Option<$crate::spec::Value>,
            ) -> Self {
                let value = |name| (name, value(name));
                $config {
                    $($field: $crate::parameters::typed(value(stringify!($field))),)+
                }
            }
        }
    };
    (@param $field:ident { kind: $kind:expr, default: $default:literal, about: $about:literal $(,)? }) => {
        $crate::spec::PolicyParameter {
            name: stringify!($field),
            kind: $kind,
            default: $default,
            about: $about,
        }
    };
    (@param $field:ident $shared:ident) => {
        $crate::spec::PolicyParameter {
            name: stringify!($field),
            ..$shared
        }
    };
    (@about { kind: $kind:expr, default: $default:literal, about: $about:literal $(,)? }) => {
        $about
    };
    (@about $shared:ident) => {
        concat!("The parameter `", stringify!($shared), "`, which several policies share.")
    };
}
pub(crate) use parameters;

/// A type of a config's field.
pub(crate) trait ParameterValue: Sized {
    /// `None` if a value of this kind or size has no equivalent.
    fn from_value(value: Value) -> Option<Self>;
}

/// The field for a parameter's name and value.
pub(crate) fn typed<T: ParameterValue>((name, value): (&str, Option<Value>)) -> T {
    match value.and_then(T::from_value) {
        Some(value) => value,
        None => unreachable!("the values that {name} takes fit the type of its field"),
    }
}

macro_rules! whole_numbers {
    ($($number:ty),+) => {
        $(impl ParameterValue for $number {
            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::Whole(number) => number.try_into().ok(),
                    _ => None,
                }
            }
        })+
    };
}

whole_numbers!(u8, u32, u64, usize);

/// A whole number, or `None` for the word that may stand in its place.
impl ParameterValue for Option<u64> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Word(_) => Some(None),
            number => u64::from_value(number).map(Some),
        }
    }
}

impl ParameterValue for Decimal {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Decimal(number) => Some(number),
            _ => None,
        }
    }
}

impl ParameterValue for PolicySpec {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Policy(spec) => Some(*spec),
            _ => None,
        }
    }
}

impl ParameterValue for Vec<PolicySpec> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Policies(specs) => Some(specs),
            _ => None,
        }
    }
}

/// A share of the frames, or a number of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareOrPages {
    /// A share of the frames.
    Share(Decimal),
    /// A number of pages.
    Pages(u64),
}

impl ShareOrPages {
    /// The number of pages where there are `frames` frames.
    pub(crate) fn of(self, frames: u32) -> u32 {
        match self {
            ShareOrPages::Share(share) => share_of(share, frames),
            ShareOrPages::Pages(pages) => u32::try_from(pages).unwrap_or(u32::MAX),
        }
    }
}

impl ParameterValue for ShareOrPages {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Decimal(share) => Some(ShareOrPages::Share(share)),
            Value::Whole(pages) => Some(ShareOrPages::Pages(pages)),
            _ => None,
        }
    }
}

/// The exact share of `frames`, rounded down.
pub(crate) fn share_of(share: Decimal, frames: u32) -> u32 {
    u32::try_from(share.floor_times(u64::from(frames))).unwrap_or(u32::MAX)
}

/// A type whose values have words, with which a specification names them.
pub(crate) trait Words: Sized {
    /// The words, in the order in which messages list them.
    const WORDS: &'static [&'static str];
}

/// Gives the values of a type their words.
macro_rules! words {
    ($type:ty { $($word:literal => $value:expr),+ $(,)? }) => {
        impl $crate::parameters::Words for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl $crate::parameters::ParameterValue for $type {
            fn from_value(value: $crate::spec::Value) -> Option<Self> {
                match value {
                    $($crate::spec::Value::Word($word) => Some($value),)+
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use words;

words!(bool { "false" => false, "true" => true });

/// The kind of a parameter that takes the words of `T`.
pub(crate) const fn one_of<T: Words>() -> ParameterKind {
    ParameterKind::Word(T::WORDS)
}

/// The kind of a parameter that takes whole numbers from `min` to `max`.
pub(crate) const fn whole(min: u64, max: u64) -> ParameterKind {
    ParameterKind::Whole(Whole::new(min, max))
}
