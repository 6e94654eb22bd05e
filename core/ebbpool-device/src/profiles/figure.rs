//! The figures of a device, and how reliable each one is.

use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// How reliable a figure is, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Measured by the author of the profile.
    Measured,
    /// Printed in a research paper.
    Paper,
    /// Stated by the manufacturer, or by the provider of the service.
    Datasheet,
    /// Measured or reported by a third party.
    Review,
    /// Computed from other figures, as the source says.
    Derived,
    /// Usual for devices of its class; not measured on this device.
    Typical,
    /// Written down from memory and not looked up, so override it rather than cite it.
    Memory,
    /// Given in a user's profile without a source.
    Given,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Basis::Measured => "measured",
            Basis::Paper => "paper",
            Basis::Datasheet => "datasheet",
            Basis::Review => "review",
            Basis::Derived => "derived",
            Basis::Typical => "typical",
            Basis::Memory => "from memory",
            Basis::Given => "given",
        })
    }
}

/// One figure of a profile, in the unit of its [`Quantity`], with its source.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileFigure {
    /// The value used in computations.
    pub value: f64,
    /// The range of values that the source gives, lowest and highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// How reliable it is.
    pub basis: Basis,
    /// Its source.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
}

impl ProfileFigure {
    /// A bare number.
    pub(super) fn given(value: f64) -> Self {
        ProfileFigure { value, range: None, basis: Basis::Given, source: String::new() }
    }

    /// True for a range, and for a typical figure or one from memory: these say what to expect, and
    /// are not findings.
    pub fn is_rough(&self) -> bool {
        self.range.is_some() || matches!(self.basis, Basis::Typical | Basis::Memory)
    }
}

/// A figure is a number, or a table with the number, its range, basis and source.
impl<'de> Deserialize<'de> for ProfileFigure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            value: f64,
            range: Option<[f64; 2]>,
            basis: Option<Basis>,
            source: Option<String>,
        }

        struct NumberOrTable;

        impl<'de> Visitor<'de> for NumberOrTable {
            type Value = ProfileFigure;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a table with value, range, basis and source")
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<ProfileFigure, E> {
                Ok(ProfileFigure::given(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<ProfileFigure, E> {
                self.visit_f64(value as f64)
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<ProfileFigure, E> {
                self.visit_f64(value as f64)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ProfileFigure, A::Error> {
                let table = Table::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(ProfileFigure {
                    value: table.value,
                    range: table.range,
                    basis: table.basis.unwrap_or(Basis::Given),
                    source: table.source.unwrap_or_default(),
                })
            }
        }

        deserializer.deserialize_any(NumberOrTable)
    }
}

/// The quantity that a figure measures; the unit is part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Time of one page read with nothing else in flight (queue depth 1), µs.
    ReadUs,
    /// Time of one page write with nothing else in flight (queue depth 1), µs.
    WriteUs,
    /// Time of each further page of the same read, µs.
    TransferReadUs,
    /// Time of each further page of the same write, µs.
    TransferWriteUs,
    /// Page writes that a consumer SSD's SLC cache takes before it is full.
    SlcCachePages,
    /// `WriteUs` once the SLC cache is full, µs.
    WriteUsAfter,
    /// Time in which an idle device moves a page out of its SLC cache, µs.
    SlcDrainUs,
    /// Page reads a second when many are in flight and the device has settled.
    ReadIopsSs,
    /// Page writes a second when many are in flight and the device has settled.
    WriteIopsSs,
    /// Page writes a second when many are in flight and the SLC cache takes them.
    WriteIopsCached,
    /// Time in which the chip reads a page into its register (t_R), µs.
    ChipReadUs,
    /// Time in which the chip programs a page (t_PROG), µs.
    ChipProgramUs,
    /// Price of reading one page or object, $.
    ReadUsd,
    /// Price of writing one page or object, $.
    WriteUsd,
    /// Price of reading a GiB, beside that of the request, $.
    ReadGibUsd,
    /// Price of writing a GiB, beside that of the request, $.
    WrittenGibUsd,
    /// Price of a GiB stored for a month, $.
    StoredUsd,
    /// Operations a second that come with the volume.
    FreeIops,
    /// Price of a further operation a second, provisioned for a month, $.
    IopsUsd,
    /// MiB a second that come with the volume.
    FreeThroughput,
    /// Price of a further MiB a second, provisioned for a month, $.
    ThroughputUsd,
    /// The asymmetry of the parametric I/O model (Papon & Athanassoulis): write over read time.
    Alpha,
    /// Reads that the device serves at once (k_r of the parametric I/O model).
    KR,
    /// Writes that the device serves at once (k_w of the parametric I/O model).
    KW,
    /// Time of erasing a block (t_BERS), µs.
    EraseUs,
    /// Size of an erase block, bytes.
    EraseBlockBytes,
    /// Bytes that the device offers to its host.
    CapacityBytes,
    /// Erases that a block is specified to survive.
    EnduranceCycles,
    /// Bytes of flash that the device writes for each byte that the host writes at random.
    WriteAmplification,
    /// Bytes that the device is warranted to take in its life, TB (10^12 bytes).
    Tbw,
    /// How many times a day the device may be written in full during its warranty.
    Dwpd,
    /// Years of the warranty.
    WarrantyYears,
    /// Power of the device while it waits for requests, W.
    IdleW,
    /// Power of the device while it serves requests, W.
    ActiveW,
    /// `ActiveW` while reading, where it differs, W.
    ActiveReadW,
    /// `ActiveW` while writing, where it differs, W.
    ActiveWriteW,
    /// Power of the rest of the computer while it waits, W.
    HostIdleW,
    /// Power of the rest of the computer while the workload runs, W.
    HostActiveW,
}

impl Quantity {
    /// All quantities, in the order in which tables list them.
    pub const ALL: [Quantity; 38] = [
        Quantity::ReadUs,
        Quantity::WriteUs,
        Quantity::TransferReadUs,
        Quantity::TransferWriteUs,
        Quantity::SlcCachePages,
        Quantity::WriteUsAfter,
        Quantity::SlcDrainUs,
        Quantity::ReadIopsSs,
        Quantity::WriteIopsSs,
        Quantity::WriteIopsCached,
        Quantity::ChipReadUs,
        Quantity::ChipProgramUs,
        Quantity::ReadUsd,
        Quantity::WriteUsd,
        Quantity::ReadGibUsd,
        Quantity::WrittenGibUsd,
        Quantity::StoredUsd,
        Quantity::FreeIops,
        Quantity::IopsUsd,
        Quantity::FreeThroughput,
        Quantity::ThroughputUsd,
        Quantity::Alpha,
        Quantity::KR,
        Quantity::KW,
        Quantity::EraseUs,
        Quantity::EraseBlockBytes,
        Quantity::CapacityBytes,
        Quantity::EnduranceCycles,
        Quantity::WriteAmplification,
        Quantity::Tbw,
        Quantity::Dwpd,
        Quantity::WarrantyYears,
        Quantity::IdleW,
        Quantity::ActiveW,
        Quantity::ActiveReadW,
        Quantity::ActiveWriteW,
        Quantity::HostIdleW,
        Quantity::HostActiveW,
    ];

    /// The key in a profile's TOML.
    pub fn key(self) -> &'static str {
        self.texts().0
    }

    /// A description of a few words.
    pub fn label(self) -> &'static str {
        self.texts().1
    }

    /// The unit, empty for a plain number.
    pub fn unit(self) -> &'static str {
        self.texts().2
    }

    fn texts(self) -> (&'static str, &'static str, &'static str) {
        use Quantity::*;
        match self {
            ReadUs => ("read_us", "page read at queue depth 1", "µs"),
            WriteUs => ("write_us", "page write at queue depth 1", "µs"),
            TransferReadUs => ("transfer_read_us", "further page of a read", "µs"),
            TransferWriteUs => ("transfer_write_us", "further page of a write", "µs"),
            SlcCachePages => ("slc_cache_pages", "page writes until the SLC cache is full", ""),
            WriteUsAfter => ("write_us_after", "page write once the SLC cache is full", "µs"),
            SlcDrainUs => ("slc_drain_us", "page out of an idle SLC cache", "µs"),
            ReadIopsSs => ("read_iops_ss", "page reads a second, steady state", "1/s"),
            WriteIopsSs => ("write_iops_ss", "page writes a second, steady state", "1/s"),
            WriteIopsCached => ("write_iops_cached", "page writes a second, SLC cache", "1/s"),
            ChipReadUs => ("chip_read_us", "page read in the chip, t_R", "µs"),
            ChipProgramUs => ("chip_program_us", "page program in the chip, t_PROG", "µs"),
            ReadUsd => ("read_usd", "price of a read", "$"),
            WriteUsd => ("write_usd", "price of a write", "$"),
            ReadGibUsd => ("read_gib_usd", "price of a GiB read", "$"),
            WrittenGibUsd => ("written_gib_usd", "price of a GiB written", "$"),
            StoredUsd => ("stored_usd", "price of a GiB stored for a month", "$"),
            FreeIops => ("free_iops", "operations a second that come free", "1/s"),
            IopsUsd => ("iops_usd", "price of a further operation a second for a month", "$"),
            FreeThroughput => ("free_throughput", "MiB a second that come free", "MiB/s"),
            ThroughputUsd => ("throughput_usd", "price of a further MiB a second for a month", "$"),
            Alpha => ("alpha", "asymmetry alpha of the parametric I/O model", ""),
            KR => ("k_r", "concurrent reads k_r", ""),
            KW => ("k_w", "concurrent writes k_w", ""),
            EraseUs => ("erase_us", "block erase, t_BERS", "µs"),
            EraseBlockBytes => ("erase_block_bytes", "erase block", "bytes"),
            CapacityBytes => ("capacity_bytes", "capacity", "bytes"),
            EnduranceCycles => ("endurance_cycles", "erases that a block survives", ""),
            WriteAmplification => ("write_amplification", "flash written per byte of the host", ""),
            Tbw => ("tbw", "warranted writes", "TB"),
            Dwpd => ("dwpd", "warranted drive writes a day", ""),
            WarrantyYears => ("warranty_years", "warranty", "years"),
            IdleW => ("idle_w", "power, idle", "W"),
            ActiveW => ("active_w", "power, active", "W"),
            ActiveReadW => ("active_read_w", "power, reading", "W"),
            ActiveWriteW => ("active_write_w", "power, writing", "W"),
            HostIdleW => ("host_idle_w", "power of the host, idle", "W"),
            HostActiveW => ("host_active_w", "power of the host, working", "W"),
        }
    }

    /// Why `value` makes no sense for this quantity; `None` if it does.
    pub(super) fn refuses(self, value: f64) -> Option<&'static str> {
        let power = matches!(
            self,
            Quantity::IdleW
                | Quantity::ActiveW
                | Quantity::ActiveReadW
                | Quantity::ActiveWriteW
                | Quantity::HostIdleW
                | Quantity::HostActiveW
        );
        let whole = matches!(self, Quantity::SlcCachePages | Quantity::EraseBlockBytes | Quantity::CapacityBytes);
        let rating = matches!(self, Quantity::EnduranceCycles | Quantity::Tbw | Quantity::Dwpd | Quantity::WarrantyYears);
        /// Above it, doubles no longer represent every whole number.
        const MOST: f64 = 9_007_199_254_740_992.0;
        // Wider limits would let products of these figures overflow.
        const AMPLIFICATIONS: std::ops::RangeInclusive<f64> = 0.01..=1e6;
        const MOST_OF_A_RATING: f64 = 1e12;
        if !value.is_finite() {
            Some("must be a finite number")
        } else if power && value < 0.0 {
            Some("must not be below 0")
        } else if !power && value <= 0.0 {
            Some("must be above 0")
        } else if whole && (value.fract() != 0.0 || value > MOST) {
            Some("must be a whole number of at most 2^53")
        } else if rating && value > MOST_OF_A_RATING {
            Some("must be at most 10^12")
        } else if self == Quantity::WriteAmplification && !AMPLIFICATIONS.contains(&value) {
            Some("must be from 0.01 to 1000000")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_names_that_serde_reads() {
        for quantity in Quantity::ALL {
            let key = serde_json::to_value(quantity).expect("a key");
            assert_eq!(key, quantity.key());
        }
        assert!(Quantity::ALL.is_sorted());
    }
}
