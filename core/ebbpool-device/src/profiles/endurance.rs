//! How much the host may write to a device in the device's life.

use serde::Serialize;

use super::{Basis, DeviceProfile, Medium, ProfileFigure, Quantity};

const TERABYTE: f64 = 1e12;
const DAYS_PER_YEAR: f64 = 365.0;

/// The bytes that a host may write to a device in the device's life.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Endurance {
    /// Bytes that the host may write.
    pub host_bytes: f64,
    /// The lowest and the highest value, where one of the figures has a range.
    pub range: Option<[f64; 2]>,
    /// How reliable it is: no better than the least reliable of its figures.
    pub basis: Basis,
    /// The figures that it rests on, as a sentence.
    pub assumption: String,
}

/// A figure, or an assumption in its place.
struct Term {
    value: f64,
    low: f64,
    high: f64,
    basis: Basis,
}

impl Term {
    fn from_figure(figure: &ProfileFigure) -> Self {
        let [low, high] = figure.range.unwrap_or([figure.value; 2]);
        Term { value: figure.value, low, high, basis: figure.basis }
    }

    /// The value, in thousands, millions and so on where a unit is given, and its range.
    fn text(&self, scale: f64, unit: &str) -> String {
        let number = |value: f64| short(value / scale);
        match self.low < self.high {
            true => format!("{}{unit} ({} to {})", number(self.value), number(self.low), number(self.high)),
            false => format!("{}{unit}", number(self.value)),
        }
    }
}

/// The number with at most three significant digits behind the point, without trailing zeros.
fn short(value: f64) -> String {
    let places = (2.0 - value.abs().log10().floor()).clamp(0.0, 12.0);
    let text = format!("{value:.*}", places as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

/// A number of bytes in decimal units, as data sheets state sizes.
fn decimal(bytes: f64) -> (f64, &'static str) {
    match bytes {
        bytes if bytes >= 1e15 => (1e15, " PB"),
        bytes if bytes >= TERABYTE => (TERABYTE, " TB"),
        bytes if bytes >= 1e9 => (1e9, " GB"),
        _ => (1e6, " MB"),
    }
}

/// What a device writes per byte of its host where its profile does not say: usual values of page writes
/// at random places, with their range.
fn assumed_amplification(medium: Medium) -> Term {
    let (value, low, high, basis) = match medium {
        // A chip as a device has no cleaning.
        Medium::Chip => (1.0, 1.0, 1.0, Basis::Derived),
        Medium::Card => (10.0, 2.0, 40.0, Basis::Typical),
        Medium::Emmc => (4.0, 2.0, 10.0, Basis::Typical),
        Medium::Ssd | Medium::Hdd | Medium::CloudDisk | Medium::ObjectStore => (3.0, 1.5, 10.0, Basis::Typical),
    };
    Term { value, low, high, basis }
}

impl Endurance {
    fn new(host_bytes: [f64; 3], terms: &[&Term], assumption: String) -> Self {
        let [value, low, high] = host_bytes;
        let computed = (terms.len() > 1).then_some(Basis::Derived);
        let bases = terms.iter().map(|term| term.basis).chain(computed);
        Endurance {
            host_bytes: value,
            range: (low < high).then_some([low, high]),
            basis: bases.max().unwrap_or(Basis::Given),
            assumption,
        }
    }

    /// The bytes with their range, in decimal units, such as `4 TB (0.32 to 48)`.
    pub fn text(&self) -> String {
        let [low, high] = self.range.unwrap_or([self.host_bytes; 2]);
        let (scale, unit) = decimal(self.host_bytes);
        let term = Term { value: self.host_bytes, low, high, basis: self.basis };
        term.text(scale, unit)
    }
}

impl DeviceProfile {
    /// How much the host may write in the device's life: the rated writes (`tbw`), else the rated drive
    /// writes a day over the warranty (`dwpd`, `capacity_bytes`, `warranty_years`), else what the flash
    /// survives (`endurance_cycles`, `capacity_bytes`) over its write amplification, which is assumed
    /// where the profile does not state it. `None` without these figures.
    pub fn endurance(&self) -> Option<Endurance> {
        self.rated_writes().or_else(|| self.rated_drive_writes()).or_else(|| self.survived_writes())
    }

    /// Why a device has no [`DeviceProfile::endurance`], as a sentence without a full stop.
    pub fn no_endurance(&self) -> &'static str {
        match self.medium {
            Medium::Hdd => "writes do not wear a magnetic disk out",
            Medium::CloudDisk | Medium::ObjectStore => "the provider replaces worn media at its own cost",
            Medium::Ssd | Medium::Card | Medium::Emmc | Medium::Chip => {
                "the profile has neither tbw, nor dwpd with capacity_bytes and warranty_years, nor endurance_cycles with capacity_bytes"
            }
        }
    }

    fn term(&self, quantity: Quantity) -> Option<Term> {
        self.figures.get(&quantity).map(Term::from_figure)
    }

    fn rated_writes(&self) -> Option<Endurance> {
        let tbw = self.term(Quantity::Tbw)?;
        let bytes = [tbw.value, tbw.low, tbw.high].map(|terabytes| TERABYTE * terabytes);
        let assumption = format!("The device is rated for {} of writes.", tbw.text(1.0, " TB"));
        Some(Endurance::new(bytes, &[&tbw], assumption))
    }

    fn rated_drive_writes(&self) -> Option<Endurance> {
        let writes = self.term(Quantity::Dwpd)?;
        let capacity = self.term(Quantity::CapacityBytes)?;
        let years = self.term(Quantity::WarrantyYears)?;
        let bytes = |writes: f64, capacity: f64, years: f64| writes * capacity * years * DAYS_PER_YEAR;
        let (scale, unit) = decimal(capacity.value);
        let assumption = format!(
            "The device is rated for {} drive writes a day of its {} for {}.",
            writes.text(1.0, ""),
            capacity.text(scale, unit),
            years.text(1.0, if years.value == 1.0 { " year" } else { " years" })
        );
        let bytes = [
            bytes(writes.value, capacity.value, years.value),
            bytes(writes.low, capacity.low, years.low),
            bytes(writes.high, capacity.high, years.high),
        ];
        Some(Endurance::new(bytes, &[&writes, &capacity, &years], assumption))
    }

    fn survived_writes(&self) -> Option<Endurance> {
        let cycles = self.term(Quantity::EnduranceCycles)?;
        let capacity = self.term(Quantity::CapacityBytes)?;
        let stated = self.term(Quantity::WriteAmplification);
        let source = match stated {
            Some(_) => "",
            None => ", which is assumed for devices of its kind",
        };
        let amplification = stated.unwrap_or_else(|| assumed_amplification(self.medium));
        let written = match [amplification.low, amplification.high] == [1.0; 2] {
            true => "only what the host writes".into(),
            false => format!("{} bytes of flash for each byte of the host{source}", amplification.text(1.0, "")),
        };
        let (scale, unit) = decimal(capacity.value);
        let assumption = format!(
            "Each block survives {} erases, wear spreads evenly over {}, and the device writes {written}.",
            cycles.text(1.0, ""),
            capacity.text(scale, unit)
        );
        let bytes = [
            cycles.value * capacity.value / amplification.value,
            cycles.low * capacity.low / amplification.high,
            cycles.high * capacity.high / amplification.low,
        ];
        let terms = [&cycles, &capacity, &amplification];
        Some(Endurance::new(bytes, &terms, assumption))
    }
}

#[cfg(test)]
mod tests;
