//! Devices by name, with their figures and the sources of these.

mod endurance;
mod figure;
mod of_chip;
mod paged;
mod read;
mod wear;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use ebbpool_cost::Asymmetry;
use ebbpool_cost::{Bill, OperationCosts, Unit};
use serde::{Deserialize, Serialize};

use crate::device::PlainDevice;
use crate::energy::Power;

pub use endurance::Endurance;
pub use figure::{Basis, ProfileFigure, Quantity};
pub use paged::PagedProfile;
pub use read::ProfileError;
pub use wear::WearingDevice;

/// The kinds of asymmetry. For the same device they differ up to fortyfold; Ebbpool never mixes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AsymmetryKind {
    /// Time of one write over one read with nothing else in flight.
    Qd1,
    /// Reads over writes a second when many are in flight and the device has settled.
    Steady,
    /// Program over read time of the flash chip, without bus and controller.
    Chip,
    /// Price of one write over one read.
    Price,
}

impl AsymmetryKind {
    /// All kinds, in the order in which tables list them.
    pub const ALL: [AsymmetryKind; 4] = [AsymmetryKind::Qd1, AsymmetryKind::Steady, AsymmetryKind::Chip, AsymmetryKind::Price];

    /// The figures of a read and of a write that it is computed from.
    pub fn figures(self) -> (Quantity, Quantity) {
        match self {
            AsymmetryKind::Qd1 => (Quantity::ReadUs, Quantity::WriteUs),
            AsymmetryKind::Steady => (Quantity::ReadIopsSs, Quantity::WriteIopsSs),
            AsymmetryKind::Chip => (Quantity::ChipReadUs, Quantity::ChipProgramUs),
            AsymmetryKind::Price => (Quantity::ReadUsd, Quantity::WriteUsd),
        }
    }
}

impl fmt::Display for AsymmetryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            AsymmetryKind::Qd1 => "qd1",
            AsymmetryKind::Steady => "steady",
            AsymmetryKind::Chip => "chip",
            AsymmetryKind::Price => "price",
        })
    }
}

/// The rough kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// A magnetic disk.
    Hdd,
    /// A solid-state drive.
    Ssd,
    /// A memory card, or a USB stick.
    Card,
    /// Flash soldered to a board, behind an eMMC controller.
    Emmc,
    /// A bare flash chip.
    Chip,
    /// Block storage over a network.
    CloudDisk,
    /// An object store, whose unit of reading and writing is an object.
    ObjectStore,
}

/// The SLC cache of a consumer SSD: writes are cheap until it is full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteCache {
    /// Page writes that it holds.
    pub pages: u64,
    /// Time of a page write that goes to the cache, in µs.
    pub write_us: f64,
    /// Time of a page write once it is full, in µs.
    pub write_us_after: f64,
    /// Idle time in which the device moves a page out of it, in µs; where this is `None` the cache
    /// stays full.
    pub drain_us: Option<f64>,
}

/// A device and its figures. Read from TOML; the keys of its figures are those of [`Quantity`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceProfile {
    /// Its name.
    #[cfg_attr(feature = "schema", schemars(extend("x-role" = "key")))]
    pub name: String,
    /// Other names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// A description of one sentence.
    pub about: String,
    /// Its rough kind.
    pub medium: Medium,
    /// Bytes that one read or write moves; `None` where it moves an object of any size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u64>,
    /// The kind of asymmetry that policies see and from which costs are computed.
    pub asymmetry: AsymmetryKind,
    /// What to know before relying on the figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// All known figures by quantity.
    pub figures: BTreeMap<Quantity, ProfileFigure>,
    // Computed once, when the profile is checked, so that a profile always has costs.
    #[serde(skip)]
    pub(crate) costs: OperationCosts,
}

impl DeviceProfile {
    /// All profiles that come with Ebbpool, in the order of the documentation; the chips of the flash
    /// model come last.
    ///
    /// # Errors
    ///
    /// Only if Ebbpool was built with a damaged list.
    pub fn all() -> Result<&'static [DeviceProfile], ProfileError> {
        read::built_in()
    }

    /// The profile that comes with Ebbpool under this name or alias, in any case.
    ///
    /// # Errors
    ///
    /// If there is none; the error names the most similar name.
    pub fn named(name: &str) -> Result<&'static DeviceProfile, ProfileError> {
        read::named(name)
    }

    /// A profile from a user's TOML file.
    ///
    /// # Errors
    ///
    /// If it cannot be read or understood; the error names the file and the line.
    pub fn from_file(path: &Path) -> Result<DeviceProfile, ProfileError> {
        read::from_file(path)
    }

    /// The profile that `text` names: by its name, or by the path of a TOML file.
    ///
    /// # Errors
    ///
    /// As [`DeviceProfile::named`] and [`DeviceProfile::from_file`].
    pub fn find(text: &str) -> Result<DeviceProfile, ProfileError> {
        if text.ends_with(".toml") || text.contains(['/', '\\']) {
            return Self::from_file(Path::new(text));
        }
        Self::named(text).cloned()
    }

    /// The profile as TOML that [`DeviceProfile::from_file`] reads.
    ///
    /// # Errors
    ///
    /// If TOML has no spelling for one of its values.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// The value of a figure; `None` where it is not known.
    pub fn value(&self, quantity: Quantity) -> Option<f64> {
        self.figures.get(&quantity).map(|figure| figure.value)
    }

    /// R of this kind; `None` where it is not known. With an SLC cache, `qd1` is the R of the empty cache
    /// and `steady` that of the full one.
    pub fn asymmetry(&self, kind: AsymmetryKind) -> Option<Asymmetry> {
        self.costs_by(kind).map(|costs| Asymmetry::saturating(costs.ratio()))
    }

    /// The R that a policy sees, of the kind `self.asymmetry`.
    pub fn policy_asymmetry(&self) -> Asymmetry {
        Asymmetry::saturating(self.costs.ratio())
    }

    /// The R that a policy sees while the SLC cache takes writes; `None` without a cache.
    pub fn asymmetry_in_cache(&self) -> Option<Asymmetry> {
        let cache = self.write_cache()?;
        Some(Asymmetry::saturating(cache.write_us / self.costs.read))
    }

    /// The R that a policy sees once the SLC cache is full; `None` without a cache.
    pub fn asymmetry_after_cache(&self) -> Option<Asymmetry> {
        let cache = self.write_cache()?;
        Some(Asymmetry::saturating(cache.write_us_after / self.costs.read))
    }

    /// True where R of this kind rests on a figure that is typical, from memory or a range. A write
    /// time that is derived from a read time and a known R is not rough: the read time cancels out.
    pub fn is_rough(&self, kind: AsymmetryKind) -> bool {
        let (read, write) = kind.figures();
        let (Some(read), Some(write)) = (self.figures.get(&read), self.figures.get(&write)) else {
            return false;
        };
        let derived = write.basis == Basis::Derived && write.range.is_none();
        !derived && (read.is_rough() || write.is_rough())
    }

    /// The costs of one page read and one page write by this kind of asymmetry: µs of latency (`qd1`,
    /// `chip`), µs by throughput (`steady`), or $ (`price`). `None` where they are not known.
    pub fn costs_by(&self, kind: AsymmetryKind) -> Option<OperationCosts> {
        operation_costs(&self.figures, kind, 1)
    }

    /// The costs of one page read and one page write by the asymmetry that a policy sees.
    pub fn operation_costs(&self) -> OperationCosts {
        self.costs
    }

    /// What `reads` page reads and `writes` page writes cost, in µs or $, by the asymmetry that a
    /// policy sees; the SLC cache, where there is one, is empty at the start.
    pub fn cost(&self, reads: u64, writes: u64) -> Bill {
        let mut bill = self.costs.bill(reads, writes);
        if let Some(cache) = self.write_cache() {
            let cached = writes.min(cache.pages);
            bill.amount = reads as f64 * self.costs.read
                + cached as f64 * cache.write_us
                + (writes - cached) as f64 * cache.write_us_after;
        }
        bill
    }

    /// The SLC cache; `None` where there is none, or where its times of the kind that a policy sees are
    /// not known.
    pub fn write_cache(&self) -> Option<WriteCache> {
        self.write_cache_of(1)
    }

    /// The SLC cache for writes of `pages` consecutive pages each, and in units of such writes.
    fn write_cache_of(&self, pages: u64) -> Option<WriteCache> {
        let all = |micros: f64| pages as f64 * micros;
        let us_of = |a_second: Quantity| self.value(a_second).map(|rate| all(1e6 / rate));
        let (write_us, write_us_after) = match self.asymmetry {
            AsymmetryKind::Qd1 => (
                request_us(&self.figures, Quantity::WriteUs, pages)?,
                // The transfer time is that of a device whose cache takes the pages.
                all(self.value(Quantity::WriteUsAfter)?),
            ),
            AsymmetryKind::Steady => (us_of(Quantity::WriteIopsCached)?, us_of(Quantity::WriteIopsSs)?),
            AsymmetryKind::Chip | AsymmetryKind::Price => return None,
        };
        Some(WriteCache {
            pages: self.value(Quantity::SlcCachePages)? as u64 / pages,
            write_us,
            write_us_after,
            drain_us: self.value(Quantity::SlcDrainUs).map(all),
        })
    }

    /// Whole pages in an erase block, where both sizes are known; the value of `cluster=auto` of a
    /// policy.
    pub fn erase_block_pages(&self) -> Option<u64> {
        let pages = self.erase_block_bytes()?.checked_div(self.page_size?)?;
        (pages > 0).then_some(pages)
    }

    fn erase_block_bytes(&self) -> Option<u64> {
        Some(self.value(Quantity::EraseBlockBytes)? as u64)
    }

    /// The power of the device and its host; `None` where it is not known.
    pub fn power(&self) -> Option<Power> {
        Power::from_profile(self)
    }

    /// A new device for a simulator to drive that reads and writes pages of the device's own size: no
    /// operation done, its SLC cache empty. [`DeviceProfile::for_pages`] is for pages of a trace.
    pub fn device(&self) -> PlainDevice {
        self.for_pages(self.page_size).device()
    }

    /// The profile for the pages of a trace; `page_bytes` is their size, `None` where it is not known.
    pub fn for_pages(&self, page_bytes: Option<u64>) -> PagedProfile<'_> {
        PagedProfile::new(self, page_bytes)
    }
}

/// Why a figure makes no sense; `None` if it does.
fn problem_with(quantity: Quantity, figure: &ProfileFigure) -> Option<String> {
    if let Some(problem) = quantity.refuses(figure.value) {
        return Some(format!("{problem}, and is {}", figure.value));
    }
    let [low, high] = figure.range?;
    if let Some(problem) = quantity.refuses(low).or(quantity.refuses(high)) {
        return Some(format!("has a range that {problem}"));
    }
    (!(low..=high).contains(&figure.value)).then(|| format!("is {}, outside of its range [{low}, {high}]", figure.value))
}

/// The costs of reading and of writing `pages` consecutive pages at once.
fn operation_costs(figures: &BTreeMap<Quantity, ProfileFigure>, kind: AsymmetryKind, pages: u64) -> Option<OperationCosts> {
    let (read, write) = kind.figures();
    let all = |cost: f64| pages as f64 * cost;
    let value = |quantity: Quantity| Some(figures.get(&quantity)?.value);
    Some(match kind {
        AsymmetryKind::Qd1 => OperationCosts {
            read: request_us(figures, read, pages)?,
            write: request_us(figures, write, pages)?,
            unit: Unit::Microseconds,
        },
        AsymmetryKind::Chip => OperationCosts { read: all(value(read)?), write: all(value(write)?), unit: Unit::Microseconds },
        AsymmetryKind::Steady => {
            OperationCosts { read: all(1e6 / value(read)?), write: all(1e6 / value(write)?), unit: Unit::Microseconds }
        }
        AsymmetryKind::Price => OperationCosts { read: all(value(read)?), write: all(value(write)?), unit: Unit::Dollars },
    })
}

/// The time of a request of `pages` consecutive pages at queue depth 1, in µs: the time of the first page,
/// and the transfer of each further one. Where the profile has no transfer time, each page takes as long
/// as the first.
fn request_us(figures: &BTreeMap<Quantity, ProfileFigure>, first: Quantity, pages: u64) -> Option<f64> {
    let first_us = figures.get(&first)?.value;
    let transfer = match first {
        Quantity::WriteUs => Quantity::TransferWriteUs,
        _ => Quantity::TransferReadUs,
    };
    let further_us = figures.get(&transfer).map_or(first_us, |figure| figure.value);
    Some(first_us + pages.saturating_sub(1) as f64 * further_us)
}

#[cfg(test)]
mod tests;
