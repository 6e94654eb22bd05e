//! Profiles from TOML, and the checks that they must pass.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;

use ebbpool_cost::{Asymmetry, OperationCosts};
use serde::Deserialize;
use toml::Spanned;

use super::{AsymmetryKind, DeviceProfile, Medium, ProfileFigure, Quantity, of_chip, operation_costs, problem_with};

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No profile of this name comes with Ebbpool.
    #[error(
        "'{name}' is no device{nearest}; `ebbpool devices` lists them, and a profile of your own is named by its path, such as ./my.toml"
    )]
    Unknown {
        /// The name as given.
        name: String,
        /// " (did you mean 'flash-136'?)", or an empty text.
        nearest: String,
    },
    /// Writes do not wear the device out.
    #[error("{name} has no end of life: {reason}")]
    NoEndurance {
        /// The name of its profile.
        name: String,
        /// Why it has none.
        reason: &'static str,
    },
    /// The operating system reported an error.
    #[error("{file}: cannot read: {error}")]
    Io {
        /// The file as the user named it.
        file: String,
        /// The system's message.
        error: String,
    },
    /// The file is not a profile.
    #[error("{location}: {problem}")]
    Invalid {
        /// The file, and the line if it is known.
        location: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

impl ProfileError {
    /// True if the command line is at fault, and not a file.
    pub fn is_usage(&self) -> bool {
        matches!(self, ProfileError::Unknown { .. } | ProfileError::NoEndurance { .. })
    }
}

/// A profile before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedProfile {
    name: Spanned<String>,
    #[serde(default)]
    aliases: Vec<String>,
    about: String,
    medium: Medium,
    page_size: Option<Spanned<u64>>,
    asymmetry: Spanned<AsymmetryKind>,
    caveat: Option<String>,
    figures: BTreeMap<Quantity, Spanned<ProfileFigure>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileList {
    profile: Vec<UncheckedProfile>,
}

/// A TOML document with its name for messages.
struct TomlDocument<'a> {
    file: &'a str,
    text: &'a str,
}

impl TomlDocument<'_> {
    fn invalid(&self, span: Option<Range<usize>>, problem: String) -> ProfileError {
        let before = span.and_then(|span| self.text.get(..span.start));
        let location = match before {
            Some(before) => format!("{}, line {}", self.file, before.matches('\n').count() + 1),
            None => self.file.into(),
        };
        ProfileError::Invalid { location, problem }
    }

    fn parse<T: for<'de> Deserialize<'de>>(&self) -> Result<T, ProfileError> {
        toml::from_str(self.text).map_err(|error| {
            let problem = error.message().replace(['\n', '\r'], " ");
            self.invalid(error.span(), problem)
        })
    }

    fn check(&self, unchecked: UncheckedProfile) -> Result<DeviceProfile, ProfileError> {
        self.check_name(&unchecked.name)?;
        if let Some(size) = &unchecked.page_size
            && *size.get_ref() == 0
        {
            return Err(self.invalid(Some(size.span()), "page_size must be above 0".into()));
        }
        let spans: BTreeMap<Quantity, Range<usize>> =
            unchecked.figures.iter().map(|(&quantity, figure)| (quantity, figure.span())).collect();
        let figures: BTreeMap<Quantity, ProfileFigure> =
            unchecked.figures.into_iter().map(|(quantity, figure)| (quantity, figure.into_inner())).collect();
        check_figures(&figures).map_err(|(quantity, problem)| self.invalid(spans.get(&quantity).cloned(), problem))?;
        let costs = self.costs(&figures, &unchecked.asymmetry)?;
        Ok(DeviceProfile {
            name: unchecked.name.into_inner(),
            aliases: unchecked.aliases,
            about: unchecked.about,
            medium: unchecked.medium,
            page_size: unchecked.page_size.map(Spanned::into_inner),
            asymmetry: unchecked.asymmetry.into_inner(),
            caveat: unchecked.caveat,
            figures,
            costs,
        })
    }

    fn check_name(&self, name: &Spanned<String>) -> Result<(), ProfileError> {
        let text = name.get_ref();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        if text.is_empty() || !text.chars().all(plain) {
            return Err(self
                .invalid(Some(name.span()), format!("'{text}' is no name; use lower-case letters, digits, hyphens and dots")));
        }
        Ok(())
    }

    /// The costs by the profile's kind of asymmetry.
    fn costs(
        &self,
        figures: &BTreeMap<Quantity, ProfileFigure>,
        asymmetry: &Spanned<AsymmetryKind>,
    ) -> Result<OperationCosts, ProfileError> {
        let kind = *asymmetry.get_ref();
        let Some(costs) = operation_costs(figures, kind, 1) else {
            let (read, write) = kind.figures();
            let problem = format!("asymmetry = \"{kind}\" needs the figures {} and {}", read.key(), write.key());
            return Err(self.invalid(Some(asymmetry.span()), problem));
        };
        let is_asymmetry = Asymmetry::new(costs.ratio()).is_ok();
        if !is_asymmetry || !costs.read.is_finite() || !costs.write.is_finite() {
            let problem = "the figures of reads and writes are too far apart".into();
            return Err(self.invalid(Some(asymmetry.span()), problem));
        }
        Ok(costs)
    }
}

/// A quantity whose figure cannot be used, and why.
type FigureProblem = (Quantity, String);

/// Refuses figures that make no sense, each by itself or beside the others.
fn check_figures(figures: &BTreeMap<Quantity, ProfileFigure>) -> Result<(), FigureProblem> {
    for (&quantity, figure) in figures {
        if let Some(problem) = problem_with(quantity, figure) {
            return Err((quantity, format!("{} {problem}", quantity.key())));
        }
    }
    check_powers(figures)?;
    check_transfers(figures)?;
    check_companions(figures)
}

/// Refuses an active power below the idle power.
fn check_powers(figures: &BTreeMap<Quantity, ProfileFigure>) -> Result<(), FigureProblem> {
    for (lower, upper) in [
        (Quantity::IdleW, Quantity::ActiveW),
        (Quantity::IdleW, Quantity::ActiveReadW),
        (Quantity::IdleW, Quantity::ActiveWriteW),
        (Quantity::HostIdleW, Quantity::HostActiveW),
    ] {
        if let (Some(idle), Some(active)) = (figures.get(&lower), figures.get(&upper))
            && active.value < idle.value
        {
            let problem = format!("{} is {}, less than {}, which is {}", upper.key(), active.value, lower.key(), idle.value);
            return Err((upper, problem));
        }
    }
    Ok(())
}

/// Refuses a further page of a request that takes longer than a request of its own.
fn check_transfers(figures: &BTreeMap<Quantity, ProfileFigure>) -> Result<(), FigureProblem> {
    for (transfer, request) in [(Quantity::TransferReadUs, Quantity::ReadUs), (Quantity::TransferWriteUs, Quantity::WriteUs)] {
        if let (Some(further), Some(first)) = (figures.get(&transfer), figures.get(&request))
            && further.value > first.value
        {
            let problem =
                format!("{} is {}, more than {}, which is {}", transfer.key(), further.value, request.key(), first.value);
            return Err((transfer, problem));
        }
    }
    Ok(())
}

/// Refuses a figure that means nothing without another one that is missing.
fn check_companions(figures: &BTreeMap<Quantity, ProfileFigure>) -> Result<(), FigureProblem> {
    for (given, needed) in [
        (Quantity::TransferReadUs, Quantity::ReadUs),
        (Quantity::TransferWriteUs, Quantity::WriteUs),
        (Quantity::WriteAmplification, Quantity::EnduranceCycles),
        (Quantity::WriteUsAfter, Quantity::SlcCachePages),
        (Quantity::WriteUsAfter, Quantity::WriteUs),
        (Quantity::WriteIopsCached, Quantity::SlcCachePages),
        (Quantity::WriteIopsCached, Quantity::WriteIopsSs),
        (Quantity::SlcDrainUs, Quantity::SlcCachePages),
        (Quantity::ActiveW, Quantity::IdleW),
        (Quantity::ActiveReadW, Quantity::ActiveWriteW),
        (Quantity::ActiveWriteW, Quantity::ActiveReadW),
        (Quantity::ActiveReadW, Quantity::IdleW),
        (Quantity::HostActiveW, Quantity::HostIdleW),
    ] {
        if figures.contains_key(&given) && !figures.contains_key(&needed) {
            let problem = format!("{} needs {} beside it", given.key(), needed.key());
            return Err((given, problem));
        }
    }
    let [after, cached] = [Quantity::WriteUsAfter, Quantity::WriteIopsCached];
    if figures.contains_key(&Quantity::SlcCachePages) && !figures.contains_key(&after) && !figures.contains_key(&cached) {
        let problem = format!("slc_cache_pages needs {} or {} beside it", after.key(), cached.key());
        return Err((Quantity::SlcCachePages, problem));
    }
    Ok(())
}

/// Larger files are refused; without a limit a device such as /dev/zero would fill the memory.
const LONGEST_FILE: u64 = 1 << 20;

pub(super) fn from_file(path: &Path) -> Result<DeviceProfile, ProfileError> {
    let file = path.display().to_string();
    let mut text = String::new();
    let read = File::open(path).and_then(|opened| {
        let mut limited = opened.take(LONGEST_FILE + 1);
        limited.read_to_string(&mut text)
    });
    if let Err(error) = read {
        let error = error.to_string();
        return Err(ProfileError::Io { file, error });
    }
    let document = TomlDocument { file: &file, text: &text };
    if text.len() as u64 > LONGEST_FILE {
        let problem = format!("is longer than {LONGEST_FILE} bytes, and so no device profile");
        return Err(document.invalid(None, problem));
    }
    document.parse().and_then(|profile| document.check(profile))
}

static BUILT_IN: LazyLock<Result<Vec<DeviceProfile>, ProfileError>> = LazyLock::new(|| {
    let document = TomlDocument { file: "the built-in profiles.toml", text: include_str!("profiles.toml") };
    let list: ProfileList = document.parse()?;
    let profiles = list.profile.into_iter();
    let profiles = profiles.map(|profile| document.check(profile));
    let mut profiles: Vec<DeviceProfile> = profiles.collect::<Result<_, _>>()?;
    profiles.extend(of_chip::all()?);
    Ok(profiles)
});

pub(super) fn built_in() -> Result<&'static [DeviceProfile], ProfileError> {
    BUILT_IN.as_deref().map_err(Clone::clone)
}

fn names(profile: &DeviceProfile) -> impl Iterator<Item = &str> {
    std::iter::once(profile.name.as_str()).chain(profile.aliases.iter().map(String::as_str))
}

pub(super) fn named(name: &str) -> Result<&'static DeviceProfile, ProfileError> {
    let requested = name.trim();
    let profiles = built_in()?;
    profiles.iter().find(|profile| names(profile).any(|name| name.eq_ignore_ascii_case(requested))).ok_or_else(|| {
        ProfileError::Unknown {
            name: name.into(),
            nearest: ebbpool_cost::did_you_mean(requested, profiles.iter().flat_map(names)),
        }
    })
}
