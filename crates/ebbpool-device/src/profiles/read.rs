//! Profiles out of TOML, and what may be wrong with them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;
use toml::Spanned;

use super::{
    AsymmetryKind, DeviceProfile, Figure, Medium, Quantity, of_chip, operation_costs, wrong,
};

/// Why there is no such profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No profile of this name comes with Ebbpool.
    #[error(
        "'{name}' is no device{nearest}; `ebbpool devices` lists them, and a profile of your own is named by its path, such as ./my.toml"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// " (did you mean 'flash-136'?)" or nothing.
        nearest: String,
    },
    /// The operating system refused.
    #[error("{file}: cannot read: {error}")]
    Io {
        /// The file as the user named it.
        file: String,
        /// What the system said.
        error: String,
    },
    /// Not a profile.
    #[error("{place}: {problem}")]
    Invalid {
        /// The file, and the line where it is known.
        place: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

impl ProfileError {
    /// True where the command line is wrong, and not a file.
    pub fn is_usage(&self) -> bool {
        matches!(self, ProfileError::Unknown { .. })
    }
}

/// A profile before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    name: Spanned<String>,
    #[serde(default)]
    aliases: Vec<String>,
    about: String,
    medium: Medium,
    page_size: Option<Spanned<u64>>,
    asymmetry: Spanned<AsymmetryKind>,
    caveat: Option<String>,
    figures: BTreeMap<Quantity, Spanned<Figure>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    profile: Vec<Unchecked>,
}

/// A TOML document and what it is called, for messages.
struct Document<'a> {
    file: &'a str,
    text: &'a str,
}

impl Document<'_> {
    fn invalid(&self, span: Option<Range<usize>>, problem: String) -> ProfileError {
        let before = span.and_then(|span| self.text.get(..span.start));
        let place = match before {
            Some(before) => format!("{}, line {}", self.file, before.matches('\n').count() + 1),
            None => self.file.into(),
        };
        ProfileError::Invalid { place, problem }
    }

    fn parse<T: for<'de> Deserialize<'de>>(&self) -> Result<T, ProfileError> {
        toml::from_str(self.text).map_err(|error| {
            let problem = error.message().replace(['\n', '\r'], " ");
            self.invalid(error.span(), problem)
        })
    }

    fn check(&self, unchecked: Unchecked) -> Result<DeviceProfile, ProfileError> {
        let name = unchecked.name.get_ref();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            return Err(self.invalid(
                Some(unchecked.name.span()),
                format!("'{name}' is no name; use lower-case letters, digits, hyphens and dots"),
            ));
        }
        if let Some(size) = &unchecked.page_size
            && *size.get_ref() == 0
        {
            return Err(self.invalid(Some(size.span()), "page_size must be above 0".into()));
        }
        let spans: BTreeMap<Quantity, Range<usize>> = unchecked
            .figures
            .iter()
            .map(|(&quantity, figure)| (quantity, figure.span()))
            .collect();
        let span = |quantity: Quantity| spans.get(&quantity).cloned();
        let figures: BTreeMap<Quantity, Figure> = unchecked
            .figures
            .into_iter()
            .map(|(quantity, figure)| (quantity, figure.into_inner()))
            .collect();
        for (&quantity, figure) in &figures {
            if let Some(problem) = wrong(quantity, figure) {
                return Err(self.invalid(span(quantity), format!("{} {problem}", quantity.key())));
            }
        }
        for (lower, upper) in [
            (Quantity::IdleW, Quantity::ActiveW),
            (Quantity::IdleW, Quantity::ActiveReadW),
            (Quantity::IdleW, Quantity::ActiveWriteW),
            (Quantity::HostIdleW, Quantity::HostActiveW),
        ] {
            if let (Some(idle), Some(active)) = (figures.get(&lower), figures.get(&upper))
                && active.value < idle.value
            {
                let problem = format!(
                    "{} is {}, less than {}, which is {}",
                    upper.key(),
                    active.value,
                    lower.key(),
                    idle.value
                );
                return Err(self.invalid(span(upper), problem));
            }
        }
        for (given, needed) in [
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
                return Err(self.invalid(span(given), problem));
            }
        }
        let [after, cached] = [Quantity::WriteUsAfter, Quantity::WriteIopsCached];
        if figures.contains_key(&Quantity::SlcCachePages)
            && !figures.contains_key(&after)
            && !figures.contains_key(&cached)
        {
            let problem = format!(
                "slc_cache_pages needs {} or {} beside it",
                after.key(),
                cached.key()
            );
            return Err(self.invalid(span(Quantity::SlcCachePages), problem));
        }
        let kind = *unchecked.asymmetry.get_ref();
        let Some(costs) = operation_costs(&figures, kind) else {
            let (read, write) = kind.figures();
            let problem = format!(
                "asymmetry = \"{kind}\" needs the figures {} and {}",
                read.key(),
                write.key()
            );
            return Err(self.invalid(Some(unchecked.asymmetry.span()), problem));
        };
        if !costs.ratio().is_finite() || !costs.read.is_finite() || !costs.write.is_finite() {
            let problem = "the figures of reads and writes are too far apart".into();
            return Err(self.invalid(Some(unchecked.asymmetry.span()), problem));
        }
        Ok(DeviceProfile {
            name: unchecked.name.into_inner(),
            aliases: unchecked.aliases,
            about: unchecked.about,
            medium: unchecked.medium,
            page_size: unchecked.page_size.map(Spanned::into_inner),
            asymmetry: kind,
            caveat: unchecked.caveat,
            figures,
            costs,
        })
    }
}

/// Larger files are no profiles; without a limit a device such as /dev/zero would fill the memory.
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
    let document = Document {
        file: &file,
        text: &text,
    };
    if text.len() as u64 > LONGEST_FILE {
        let problem = format!("is longer than {LONGEST_FILE} bytes, and so no device profile");
        return Err(document.invalid(None, problem));
    }
    document.parse().and_then(|profile| document.check(profile))
}

static BUILT_IN: LazyLock<Result<Vec<DeviceProfile>, ProfileError>> = LazyLock::new(|| {
    let document = Document {
        file: "the built-in profiles.toml",
        text: include_str!("profiles.toml"),
    };
    let list: List = document.parse()?;
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
    let wanted = name.trim();
    let profiles = built_in()?;
    profiles
        .iter()
        .find(|profile| names(profile).any(|name| name.eq_ignore_ascii_case(wanted)))
        .ok_or_else(|| ProfileError::Unknown {
            name: name.into(),
            nearest: ebbpool_cost::did_you_mean(wanted, profiles.iter().flat_map(names)),
        })
}
