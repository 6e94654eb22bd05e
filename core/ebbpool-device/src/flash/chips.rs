//! Chips: built-in profiles, and profiles from a user's file.

use ebbpool_cost::did_you_mean;
use serde::Deserialize;

use super::config::ConfigError;
use crate::energy::ChipPower;
use crate::profiles::{Basis, ProfileFigure};
use crate::text::list;

const PROFILES: &str = include_str!("chips.toml");

/// More than any chip draws, in W; keeps sums of energy finite.
const MOST_WATTS: f64 = 1e3;

/// A NAND chip as its data sheet describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chip {
    /// The profile's name.
    pub name: String,
    /// A description of a few words.
    #[serde(default)]
    pub about: String,
    /// Bytes of data in a page.
    pub page_bytes: u32,
    /// Bytes of the spare area of a page, which cross the bus too.
    #[serde(default)]
    pub spare_bytes: u32,
    /// Pages in an erase block.
    pub pages_per_block: u32,
    /// Erase blocks.
    pub blocks: u32,
    /// Array time of a page read in microseconds; page i of a block takes entry i modulo the length.
    pub read_us: Vec<f64>,
    /// Array time of a page program in microseconds; entries as for `read_us`.
    pub program_us: Vec<f64>,
    /// Time of a block erase in microseconds.
    pub erase_us: ProfileFigure,
    /// Bus time per byte in nanoseconds; `None` where it is not known.
    pub transfer_ns_per_byte: Option<f64>,
    /// Erases that a block survives.
    pub endurance: ProfileFigure,
    /// Power of a die while it waits, in W.
    pub idle_w: Option<ProfileFigure>,
    /// Power of a die while it reads, programs or erases, transfers included, in W.
    pub active_w: Option<ProfileFigure>,
    /// `active_w` while reading, where it differs, in W.
    pub read_w: Option<ProfileFigure>,
    /// `active_w` while programming, where it differs, in W.
    pub program_w: Option<ProfileFigure>,
    /// `active_w` while erasing, where it differs, in W.
    pub erase_w: Option<ProfileFigure>,
    /// The basis of all figures that state none.
    #[serde(default = "given")]
    pub basis: Basis,
    /// The source of all figures that state none.
    pub source: String,
    /// Which figures are assumed or derived.
    pub note: Option<String>,
}

fn given() -> Basis {
    Basis::Given
}

#[derive(Deserialize)]
struct ChipList {
    chip: Vec<Chip>,
}

/// The built-in chips.
pub fn chips() -> Result<Vec<Chip>, ConfigError> {
    let list: ChipList = toml::from_str(PROFILES)
        .map_err(|error| ConfigError::ChipFile { path: "chips.toml".into(), problem: error.to_string() })?;
    Ok(list.chip)
}

impl Chip {
    /// The chip of a profile: a name, or the path of a TOML file (it ends in `.toml`).
    pub fn from_profile(profile: &str) -> Result<Self, ConfigError> {
        if profile.ends_with(".toml") {
            return Self::from_file(profile);
        }
        let mut chips = chips()?;
        match chips.iter().position(|chip| chip.name == profile) {
            Some(at) => Ok(chips.swap_remove(at)),
            None => {
                let names: Vec<&str> = chips.iter().map(|chip| chip.name.as_str()).collect();
                Err(ConfigError::UnknownProfile {
                    profile: profile.into(),
                    hint: did_you_mean(profile, names.iter().copied()),
                    available: list(&names),
                })
            }
        }
    }

    fn from_file(path: &str) -> Result<Self, ConfigError> {
        let failed = |problem: String| ConfigError::ChipFile { path: path.into(), problem };
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let chip: Self = toml::from_str(&text).map_err(|error| failed(error.to_string().trim_end().into()))?;
        chip.check().map_err(failed)?;
        Ok(chip)
    }

    /// The power of a die; `None` unless it is known for waiting and for every operation.
    pub fn power(&self) -> Option<ChipPower> {
        let value = |own: &Option<ProfileFigure>| {
            let figure = own.as_ref().or(self.active_w.as_ref())?;
            Some(figure.value)
        };
        Some(ChipPower {
            idle_w: self.idle_w.as_ref()?.value,
            read_w: value(&self.read_w)?,
            program_w: value(&self.program_w)?,
            erase_w: value(&self.erase_w)?,
        })
    }

    /// Refuses fields that make no sense; the error names the field.
    fn check(&self) -> Result<(), String> {
        let counts = [("page_bytes", self.page_bytes), ("pages_per_block", self.pages_per_block), ("blocks", self.blocks)];
        if let Some((field, _)) = counts.into_iter().find(|&(_, count)| count == 0) {
            return Err(format!("{field} = 0; give a whole number from 1 up"));
        }
        let times = [
            ("read_us", self.read_us.as_slice()),
            ("program_us", &self.program_us),
            ("erase_us", std::slice::from_ref(&self.erase_us.value)),
            ("transfer_ns_per_byte", self.transfer_ns_per_byte.as_slice()),
        ];
        for (field, values) in times {
            if values.is_empty() && field != "transfer_ns_per_byte" {
                return Err(format!("{field} is an empty list; give at least one time"));
            }
            if let Some(value) = values.iter().find(|time| !(0.0..=1e9).contains(*time)) {
                return Err(format!("{field} = {value} is not a time from 0 to 1e9"));
            }
        }
        let endurance = self.endurance.value;
        if endurance.fract() != 0.0 || !(1.0..=f64::from(u32::MAX)).contains(&endurance) {
            return Err(format!(
                "endurance = {endurance}; give the erases a block survives, a whole number from 1 to {}",
                u32::MAX
            ));
        }
        self.check_power()
    }

    fn check_power(&self) -> Result<(), String> {
        let busy = [
            ("active_w", &self.active_w),
            ("read_w", &self.read_w),
            ("program_w", &self.program_w),
            ("erase_w", &self.erase_w),
        ];
        let idle_w = self.idle_w.as_ref().map(|idle| idle.value);
        if let Some(idle_w) = idle_w.filter(|watts| !(0.0..=MOST_WATTS).contains(watts)) {
            return Err(format!("idle_w = {idle_w} is not a power from 0 to {MOST_WATTS}"));
        }
        for (field, figure) in busy {
            let Some(watts) = figure.as_ref().map(|figure| figure.value) else {
                continue;
            };
            let Some(idle_w) = idle_w else {
                return Err(format!("{field} needs idle_w beside it"));
            };
            if !(idle_w..=MOST_WATTS).contains(&watts) {
                return Err(format!("{field} = {watts} is not a power from idle_w, which is {idle_w}, to {MOST_WATTS}"));
            }
        }
        if idle_w.is_some() && self.power().is_none() {
            return Err("idle_w needs active_w beside it, or read_w, program_w and erase_w".into());
        }
        Ok(())
    }
}

/// Times of operations in nanoseconds, and how often a block may be erased.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    /// By slot of a block.
    read: Vec<u64>,
    /// By slot of a block.
    program: Vec<u64>,
    erase: u64,
    transfer: u64,
    endurance: u32,
}

fn nanos(micros: f64) -> u64 {
    (micros * 1000.0).round() as u64
}

impl Timing {
    /// The times of a chip with `pages_per_block` pages in a block; `transfer_bytes` cross the bus for
    /// each page read or programmed, 0 if the bus does not count.
    pub(super) fn new(chip: &Chip, pages_per_block: u32, transfer_bytes: u64) -> Self {
        let by_slot = |times: &[f64]| {
            let cycle = times.iter().copied().cycle();
            cycle.take(pages_per_block as usize).map(nanos).collect()
        };
        let per_byte = chip.transfer_ns_per_byte.unwrap_or(0.0);
        Self {
            read: by_slot(&chip.read_us),
            program: by_slot(&chip.program_us),
            erase: nanos(chip.erase_us.value),
            transfer: (per_byte * transfer_bytes as f64).round() as u64,
            endurance: chip.endurance.value as u32,
        }
    }

    #[inline]
    pub(super) fn read(&self, slot: u32) -> u64 {
        self.read[slot as usize]
    }

    #[inline]
    pub(super) fn program(&self, slot: u32) -> u64 {
        self.program[slot as usize]
    }

    pub(super) fn erase(&self) -> u64 {
        self.erase
    }

    #[inline]
    pub(super) fn transfer(&self) -> u64 {
        self.transfer
    }

    pub(super) fn endurance(&self) -> u32 {
        self.endurance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_makes_sense() {
        let chips = chips().expect("chips.toml is well-formed");
        assert_eq!(chips[0].name, "slc-mt29f4g08aaa");
        for chip in chips {
            chip.check().expect("sensible");
            assert!(!chip.source.is_empty(), "{}", chip.name);
        }
    }

    #[test]
    fn lower_and_upper_pages_alternate() {
        let chip = Chip::from_profile("mlc-l95b").expect("compiled in");
        let timing = Timing::new(&chip, 4, 0);
        assert_eq!(timing.program, [850_000, 2_300_000, 850_000, 2_300_000]);
        assert_eq!(timing.transfer(), 0);
    }
}
