//! Names of simulated devices: `flash:PROFILE[,key=value…]`.

use std::fmt;
use std::str::FromStr;

use ebbpool_cost::ByteSize;
use ebbpool_cost::spec::{self, Parameter, ParameterError, Whole};

use super::chips::{Chip, Timing};
use super::cleaning::CleaningKind;
use super::ftl::{LayerKind, dftl_entries_per_page};
use super::geometry::{Geometry, MAX_PHYSICAL};
use super::wear::WearLevelling;

/// What is wrong with a device's name or settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The name does not begin with `flash:`.
    #[error("'{0}' is not a simulated device; write flash:PROFILE[,key=value…], such as flash:slc-mt29f4g08aaa,rho=0.8")]
    NotFlash(String),
    /// No chip of this name is known.
    #[error("there is no chip '{profile}'{hint}; known are {available}, or the path of a file that ends in .toml")]
    UnknownProfile {
        /// The name of the chip as given.
        profile: String,
        /// A similar name, or nothing.
        hint: String,
        /// The chips that exist.
        available: String,
    },
    /// A chip file cannot be read, or makes no sense.
    #[error("{path}: {problem}; the fields are those of chips.toml, see docs/flash-model.md")]
    ChipFile {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Its parameters are refused.
    #[error("a flash device: {0}")]
    Parameter(#[from] ParameterError),
    /// Settings that cannot go together, or a chip that cannot work.
    #[error("{0}")]
    Impossible(String),
}

/// How a device is prepared before it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing: all pages are unmapped.
    None,
    /// Every logical page was written once, in order.
    Full,
    /// Every logical page was written once, in order, then random pages until write amplification settled.
    Steady,
}

/// A simulated device.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashConfig {
    profile: String,
    chip: Box<Chip>,
    /// Erase blocks.
    pub blocks: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Bytes of data in a page.
    pub page_bytes: u32,
    /// Logical pages over physical pages in rotation. Open blocks, log blocks and the reserve do not
    /// count.
    pub rho: f64,
    /// The translation layer.
    pub layer: LayerKind,
    /// How victims are chosen (page map, DFTL).
    pub cleaning: CleaningKind,
    /// Blocks drawn by `d-choices`.
    pub choices: u32,
    /// Open blocks for data (page map, DFTL): with 2, cleaned data have one of their own.
    pub frontiers: u32,
    /// How erases are spread.
    pub wear: WearLevelling,
    /// Log blocks (BAST, FAST).
    pub log_blocks: u32,
    /// Mapping entries in memory (DFTL); `None` is all of them.
    pub cached_entries: Option<u32>,
    /// True if the bus counts: one transfer a host read or write, two a copy.
    pub bus: bool,
    /// How the device is prepared.
    pub precondition: Precondition,
    /// Dies; block n lies on die n modulo this.
    pub dies: u32,
    /// Channels; die d is attached to channel d modulo this.
    pub channels: u32,
}

/// The values that a parameter of a device takes.
#[derive(Clone, Copy, Debug)]
enum SettingKind {
    Whole(Whole),
    Word(&'static [&'static str]),
    /// What [`FlashConfig::set`] reads, in words.
    Other(&'static str),
}

impl fmt::Display for SettingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingKind::Whole(whole) => whole.fmt(f),
            SettingKind::Word(words) => f.write_str(&spec::alternatives(words)),
            SettingKind::Other(range) => f.write_str(range),
        }
    }
}

const fn parameter(
    name: &'static str,
    kind: SettingKind,
    default: &'static str,
    about: &'static str,
) -> Parameter<SettingKind> {
    Parameter { name, kind, default, about }
}

const fn whole(min: u64, max: u64) -> SettingKind {
    SettingKind::Whole(Whole::new(min, max))
}

/// What `log_blocks` takes; `fast` needs two.
const LOG_BLOCKS: Whole = Whole::new(1, u32::MAX as u64);
/// What `wl=static` takes.
const GAP: Whole = Whole::new(0, u32::MAX as u64);

const OF_THE_CHIP: &str = "the chip's";
const RHO: &str = "a number above 0 and below 1 (or 1 for block, bast and fast)";

static PARAMETERS: [Parameter<SettingKind>; 15] = [
    parameter("blocks", whole(1, MAX_PHYSICAL), OF_THE_CHIP, "erase blocks"),
    parameter("pages_per_block", whole(1, MAX_PHYSICAL), OF_THE_CHIP, "pages of an erase block"),
    parameter(
        "page_size",
        SettingKind::Other("1 to 4294967295 bytes, with or without a unit, as in 2k"),
        OF_THE_CHIP,
        "bytes of a page",
    ),
    parameter("rho", SettingKind::Other(RHO), "0.8", "logical pages over physical pages in rotation"),
    parameter("ftl", SettingKind::Word(&LAYER_NAMES), "page", "translation layer"),
    parameter("gc", SettingKind::Word(&CLEANING_NAMES), "greedy", "how the block to clean is chosen, for ftl=page and dftl"),
    parameter("d", whole(1, 1_000_000), "10", "blocks that gc=d-choices draws"),
    parameter("frontiers", whole(1, 2), "1", "open blocks, for ftl=page and dftl; with 2, cleaned data have their own"),
    parameter(
        "wl",
        SettingKind::Other("none, dynamic or static:N, N the difference in erases tolerated"),
        "none",
        "how erases are spread",
    ),
    parameter(
        "log_blocks",
        SettingKind::Other("a whole number from 1, for fast from 2, to 4294967295"),
        "32",
        "log blocks of bast and fast",
    ),
    parameter(
        "cmt",
        SettingKind::Whole(Whole::new(1, u32::MAX as u64).or("all")),
        "32768",
        "mapping entries that dftl holds in memory",
    ),
    parameter("bus", SettingKind::Word(&BUS_NAMES), "ignore", "whether transfers over the bus take time"),
    parameter(
        "precondition",
        SettingKind::Word(&PRECONDITION_NAMES),
        "none",
        "pages at first: unmapped, written once, or until write amplification settled",
    ),
    parameter("dies", whole(1, 4096), "1", "dies that work at a time"),
    parameter("channels", whole(1, 4096), "1", "channels to which dies are attached in turn"),
];

/// The parameters of a device, each on two lines: what it does, then its range and its default.
pub fn describe_parameters() -> String {
    spec::describe(&PARAMETERS)
}

/// Each layer with its spelling in a name.
const LAYERS: [(&str, LayerKind); 5] = [
    ("page", LayerKind::PageMap),
    ("dftl", LayerKind::Dftl),
    ("block", LayerKind::BlockMap),
    ("bast", LayerKind::Bast),
    ("fast", LayerKind::Fast),
];

/// Each cleaning policy with its spelling in a name.
const CLEANING: [(&str, CleaningKind); 6] = [
    ("greedy", CleaningKind::Greedy),
    ("fifo", CleaningKind::Fifo),
    ("random", CleaningKind::Random),
    ("d-choices", CleaningKind::DChoices),
    ("cost-benefit", CleaningKind::CostBenefit),
    ("ee-greedy", CleaningKind::EeGreedy),
];

/// Each precondition with its spelling in a name.
const PRECONDITIONS: [(&str, Precondition); 3] =
    [("none", Precondition::None), ("full", Precondition::Full), ("steady", Precondition::Steady)];

/// Whether the bus counts, with its spelling in a name.
const BUS: [(&str, bool); 2] = [("include", true), ("ignore", false)];

static LAYER_NAMES: [&str; 5] = names(&LAYERS);
static CLEANING_NAMES: [&str; 6] = names(&CLEANING);
static PRECONDITION_NAMES: [&str; 3] = names(&PRECONDITIONS);
static BUS_NAMES: [&str; 2] = names(&BUS);

const fn names<T, const N: usize>(table: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = table[at].0;
        at += 1;
    }
    names
}

/// Erased blocks that a page-mapped layer reserves for cleaning, so that it always has a block to copy to.
const RESERVE: u32 = 2;
/// Erased blocks that a layer reserves if it rewrites pages of the mapping table while it cleans a block.
const RESERVE_WITH_MAP: u32 = 4;
/// Mapping entries that DFTL holds in memory by default: 128 KiB of them.
const CACHED_ENTRIES: u32 = 32 * 1024;

fn named<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    let found = table.iter().find(|(name, _)| *name == word);
    found.map(|&(_, value)| value)
}

fn word_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    let found = table.iter().find(|(_, entry)| entry == value);
    found.map_or("", |&(name, _)| name)
}

fn number(text: &str, range: Whole) -> Option<u32> {
    range.number(text)?.try_into().ok()
}

impl FlashConfig {
    /// A device made of a chip, with every setting at its default.
    pub fn from_chip(profile: &str) -> Result<Self, ConfigError> {
        Ok(Self::with_defaults(profile, Chip::from_profile(profile)?))
    }

    fn with_defaults(profile: &str, chip: Chip) -> Self {
        Self {
            profile: profile.into(),
            blocks: chip.blocks,
            pages_per_block: chip.pages_per_block,
            page_bytes: chip.page_bytes,
            chip: Box::new(chip),
            rho: 0.8,
            layer: LayerKind::PageMap,
            cleaning: CleaningKind::Greedy,
            choices: 10,
            frontiers: 1,
            wear: WearLevelling::None,
            log_blocks: 32,
            cached_entries: Some(CACHED_ENTRIES),
            bus: false,
            precondition: Precondition::None,
            dies: 1,
            channels: 1,
        }
    }

    /// The chip.
    pub fn chip(&self) -> &Chip {
        &self.chip
    }

    fn set(&mut self, parameter: &Parameter<SettingKind>, text: &str) -> Result<(), ConfigError> {
        let whole = || match parameter.kind {
            SettingKind::Whole(whole) => number(text, whole),
            _ => None,
        };
        let set = match parameter.name {
            "blocks" => whole().map(|n| self.blocks = n),
            "pages_per_block" => whole().map(|n| self.pages_per_block = n),
            "page_size" => {
                let size = text.parse().map(ByteSize::bytes).ok();
                let size = size.and_then(|size| u32::try_from(size).ok());
                size.filter(|&size| size > 0).map(|size| self.page_bytes = size)
            }
            "rho" => {
                let rho = text.parse::<f64>().ok();
                let rho = rho.filter(|rho| *rho > 0.0 && *rho <= 1.0);
                rho.map(|rho| self.rho = rho)
            }
            "ftl" => named(&LAYERS, text).map(|layer| self.layer = layer),
            "gc" => named(&CLEANING, text).map(|cleaning| self.cleaning = cleaning),
            "d" => whole().map(|n| self.choices = n),
            "frontiers" => whole().map(|n| self.frontiers = n),
            "wl" => match (text, text.strip_prefix("static:")) {
                ("none", _) => Some(WearLevelling::None),
                ("dynamic", _) => Some(WearLevelling::Dynamic),
                (_, Some(gap)) => number(gap, GAP).map(WearLevelling::Static),
                _ => None,
            }
            .map(|wear| self.wear = wear),
            "log_blocks" => number(text, LOG_BLOCKS).map(|n| self.log_blocks = n),
            "cmt" => match text {
                "all" => Some(None),
                _ => whole().map(Some),
            }
            .map(|entries| self.cached_entries = entries),
            "bus" => named(&BUS, text).map(|bus| self.bus = bus),
            "precondition" => named(&PRECONDITIONS, text).map(|state| self.precondition = state),
            "dies" => whole().map(|n| self.dies = n),
            "channels" => whole().map(|n| self.channels = n),
            _ => None,
        };
        set.ok_or_else(|| parameter.refuse(text).into())
    }

    /// Settings in canonical spelling.
    fn settings(&self) -> [(&'static str, String); 15] {
        let cached = match self.cached_entries {
            Some(entries) => entries.to_string(),
            None => "all".into(),
        };
        [
            ("blocks", self.blocks.to_string()),
            ("pages_per_block", self.pages_per_block.to_string()),
            ("page_size", self.page_bytes.to_string()),
            ("rho", self.rho.to_string()),
            ("ftl", word_of(&LAYERS, &self.layer).into()),
            ("gc", word_of(&CLEANING, &self.cleaning).into()),
            ("d", self.choices.to_string()),
            ("frontiers", self.frontiers.to_string()),
            ("wl", self.wear.to_string()),
            ("log_blocks", self.log_blocks.to_string()),
            ("cmt", cached),
            ("bus", word_of(&BUS, &self.bus).into()),
            ("precondition", word_of(&PRECONDITIONS, &self.precondition).into()),
            ("dies", self.dies.to_string()),
            ("channels", self.channels.to_string()),
        ]
    }

    /// The settings that differ from the chip's defaults.
    fn changed_settings(&self) -> Vec<(&'static str, String)> {
        let defaults = Self::with_defaults(&self.profile, self.chip().clone());
        let pairs = self.settings().into_iter().zip(defaults.settings());
        pairs.filter(|(own, default)| own != default).map(|(own, _)| own).collect()
    }

    /// True if the layer maps single pages.
    pub(super) fn is_page_mapped(&self) -> bool {
        matches!(self.layer, LayerKind::PageMap | LayerKind::Dftl)
    }

    /// True if mapping entries can be on flash only.
    pub(super) fn has_map_on_flash(&self) -> bool {
        self.layer == LayerKind::Dftl && self.cached_entries.is_some()
    }

    /// The settings given that have no effect, each as a sentence for the user.
    pub fn notes(&self) -> Vec<String> {
        let layer = word_of(&LAYERS, &self.layer);
        let has_logs = matches!(self.layer, LayerKind::Bast | LayerKind::Fast);
        let no_effect = |key: &str| match key {
            "gc" | "frontiers" => !self.is_page_mapped(),
            "d" => !self.is_page_mapped() || self.cleaning != CleaningKind::DChoices,
            "log_blocks" => !has_logs,
            "cmt" => self.layer != LayerKind::Dftl,
            "channels" => self.dies == 1,
            _ => false,
        };
        let changed = self.changed_settings();
        let ignored = changed.iter().filter(|(key, _)| no_effect(key));
        ignored
            .map(|(key, value)| match *key {
                "d" => format!("{key}={value} changes nothing: it belongs to gc=d-choices"),
                "channels" => format!("{key}={value} changes nothing with one die; set dies too"),
                _ => format!("{key}={value} changes nothing with ftl={layer}"),
            })
            .collect()
    }

    /// Erased blocks reserved for cleaning (page map, DFTL).
    pub(super) fn reserve(&self) -> u32 {
        if self.has_map_on_flash() { RESERVE_WITH_MAP } else { RESERVE }
    }

    /// Blocks that are not in rotation: open blocks, log blocks and the reserve.
    pub fn blocks_outside_rotation(&self) -> u32 {
        match self.layer {
            LayerKind::PageMap | LayerKind::Dftl => {
                let moved = matches!(self.wear, WearLevelling::Static(_));
                self.frontiers + u32::from(self.has_map_on_flash()) + u32::from(moved) + self.reserve()
            }
            LayerKind::BlockMap => 1 + RESERVE,
            LayerKind::Bast | LayerKind::Fast => self.log_blocks.saturating_add(RESERVE),
        }
    }

    /// Physical pages in rotation on a device of `blocks` blocks.
    fn rotation_pages(&self, blocks: u64) -> u64 {
        blocks.saturating_sub(self.blocks_outside_rotation().into()) * u64::from(self.pages_per_block)
    }

    fn logical_pages_with(&self, blocks: u64) -> u64 {
        // The addend makes 0.8 of 100 pages 80 where the product is rounded to slightly less.
        (self.rho * self.rotation_pages(blocks) as f64 + 1e-6) as u64
    }

    /// Logical pages that the device offers.
    pub fn logical_pages(&self) -> u64 {
        self.logical_pages_with(self.blocks.into())
    }

    /// Pages of the mapping table on flash.
    pub(super) fn map_pages(&self, logical_pages: u64) -> u64 {
        if self.has_map_on_flash() { logical_pages.div_ceil(dftl_entries_per_page(self.page_bytes).into()) } else { 0 }
    }

    /// True if `blocks` blocks are enough for the layer to offer `pages` logical pages.
    fn suffices(&self, blocks: u64, pages: u64) -> bool {
        let logical = self.logical_pages_with(blocks);
        // Twice the table's pages, so that it can be rewritten while data blocks are cleaned.
        let used = logical + 2 * self.map_pages(logical);
        let full_is_allowed = u64::from(!self.is_page_mapped());
        logical >= pages.max(1) && used < self.rotation_pages(blocks) + full_is_allowed
    }

    /// The least number of blocks, all else equal, that offers `pages` logical pages.
    fn smallest(&self, pages: u64) -> Option<u64> {
        let most = MAX_PHYSICAL / u64::from(self.pages_per_block).checked_next_power_of_two()?;
        if !self.suffices(most, pages) {
            return None;
        }
        let (mut short, mut enough) = (0, most);
        while enough - short > 1 {
            let middle = short + (enough - short) / 2;
            if self.suffices(middle, pages) {
                enough = middle;
            } else {
                short = middle;
            }
        }
        Some(enough)
    }

    /// How to offer `pages` logical pages, as part of a message.
    pub(super) fn remedy(&self, pages: u64) -> String {
        match self.smallest(pages) {
            Some(blocks) => format!("blocks={blocks} is the least that would do"),
            None => "no number of blocks would do; lower rho or take larger blocks".into(),
        }
    }

    fn too_small(&self, problem: String, pages: u64) -> ConfigError {
        ConfigError::Impossible(format!("{problem}; {}", self.remedy(pages)))
    }

    /// Refuses settings that cannot work; the error names the smallest geometry that would.
    pub fn check(&self) -> Result<(), ConfigError> {
        let impossible = |problem: String| Err(ConfigError::Impossible(problem));
        if self.geometry().is_none() {
            return impossible(format!(
                "{} blocks of {} pages are more than the {MAX_PHYSICAL} page numbers that can be simulated (pages_per_block counts as the next power of two), or none; give fewer",
                self.blocks, self.pages_per_block
            ));
        }
        if self.rho.is_nan() || self.rho <= 0.0 || self.rho > 1.0 {
            return impossible(format!("rho={}: expected {RHO}", self.rho));
        }
        if self.is_page_mapped() && self.rho >= 1.0 {
            return impossible("rho=1 leaves a page-mapped layer nothing to clean; give less than 1, such as 0.93".into());
        }
        if self.layer == LayerKind::Fast && self.log_blocks < 2 {
            return impossible(
                "ftl=fast needs log_blocks=2 or more: one for sequential writes, the rest for all others".into(),
            );
        }
        if self.bus && self.chip.transfer_ns_per_byte.is_none() {
            return impossible(format!(
                "bus=include: the profile '{}' does not say how fast its bus is; use bus=ignore, or a chip file with transfer_ns_per_byte",
                self.profile
            ));
        }
        if !self.suffices(self.blocks.into(), 1) {
            let problem = format!(
                "{} blocks of {} pages are too few for ftl={} with rho={}: {} blocks are open, log blocks or reserve",
                self.blocks,
                self.pages_per_block,
                word_of(&LAYERS, &self.layer),
                self.rho,
                self.blocks_outside_rotation()
            );
            return Err(self.too_small(problem, 1));
        }
        Ok(())
    }

    /// Refuses a database with more pages than the device offers; the error names the smallest device
    /// that would hold it.
    pub fn check_fits(&self, pages: u64) -> Result<(), ConfigError> {
        let offered = self.logical_pages();
        if pages <= offered {
            return Ok(());
        }
        let problem = format!("the database has {pages} pages, the device offers {offered}");
        Err(self.too_small(problem, pages))
    }

    /// Refuses a trace whose pages are numbered up to `page`, of which the device must offer the first `pages` pages of its
    /// own; the error names the smallest device that would do.
    pub(crate) fn check_numbers(&self, page: u64, pages: u64) -> Result<(), ConfigError> {
        let offered = self.logical_pages();
        if pages <= offered {
            return Ok(());
        }
        let problem = format!(
            "the trace's pages are numbered up to {page}, which needs a device of {pages} pages, and this one offers {offered}"
        );
        Err(self.too_small(problem, pages))
    }

    /// The shape; `None` if it cannot be simulated.
    pub fn geometry(&self) -> Option<Geometry> {
        Geometry::new(self.blocks, self.pages_per_block, self.page_bytes)
    }

    pub(super) fn timing(&self) -> Timing {
        let transfer = match self.bus {
            true => u64::from(self.page_bytes) + u64::from(self.chip.spare_bytes),
            false => 0,
        };
        Timing::new(&self.chip, self.pages_per_block, transfer)
    }
}

impl FromStr for FlashConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let text = text.trim();
        let rest = text.strip_prefix("flash:").ok_or_else(|| ConfigError::NotFlash(text.into()))?;
        let (profile, assignments) = rest.split_once(',').unwrap_or((rest, ""));
        let mut config = Self::from_chip(profile.trim())?;
        for (at, value) in spec::assignments(assignments, &PARAMETERS)? {
            config.set(&PARAMETERS[at], value)?;
        }
        config.check()?;
        Ok(config)
    }
}

/// Canonical: the profile and the settings that differ from its defaults.
impl fmt::Display for FlashConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flash:{}", self.profile)?;
        let mut changed = self.changed_settings().into_iter();
        changed.try_for_each(|(key, value)| write!(f, ",{key}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_at_its_default_changes_nothing() {
        let config = FlashConfig::from_chip("slc-mt29f4g08aaa").unwrap();
        for parameter in &PARAMETERS {
            if parameter.default == OF_THE_CHIP {
                continue;
            }
            let mut same = config.clone();
            same.set(parameter, parameter.default).unwrap();
            assert_eq!(same, config, "{}", parameter.name);
        }
    }
}
