//! Chips of the flash model as devices without cleaning.

use std::collections::BTreeMap;

use super::{AsymmetryKind, Basis, DeviceProfile, Medium, ProfileError, ProfileFigure, Quantity};
use super::{operation_costs, problem_with};
use crate::flash::{Chip, chips};

/// Every built-in chip as a profile.
pub(super) fn all() -> Result<Vec<DeviceProfile>, ProfileError> {
    let chips = chips().map_err(|error| damaged(error.to_string()))?;
    chips.iter().map(profile).collect()
}

fn damaged(problem: String) -> ProfileError {
    ProfileError::Invalid { location: "the built-in chips.toml".into(), problem }
}

fn profile(chip: &Chip) -> Result<DeviceProfile, ProfileError> {
    let figures = figures(chip);
    for (&quantity, figure) in &figures {
        if let Some(problem) = problem_with(quantity, figure) {
            return Err(damaged(format!("{} of {} {problem}", quantity.key(), chip.name)));
        }
    }
    let asymmetry = AsymmetryKind::Chip;
    let costs = operation_costs(&figures, asymmetry, 1).ok_or_else(|| damaged(format!("{} has no times", chip.name)))?;
    let assumed = chip.note.as_ref().map_or(String::new(), |note| format!(" Of the chip, {note}."));
    Ok(DeviceProfile {
        name: chip.name.clone(),
        aliases: Vec::new(),
        about: chip.about.clone(),
        medium: Medium::Chip,
        page_size: Some(chip.page_bytes.into()),
        asymmetry,
        caveat: Some(format!("Erases and cleaning cost nothing here; flash:{} simulates them.{assumed}", chip.name)),
        figures,
        costs,
    })
}

/// The mean of a list of times, whose entries hold for the pages of a block in turn.
fn mean(chip: &Chip, times: &[f64]) -> ProfileFigure {
    let value = times.iter().sum::<f64>() / times.len().max(1) as f64;
    match times {
        [_] => with_source(chip, &ProfileFigure::given(value)),
        _ => {
            let times: Vec<String> = times.iter().map(f64::to_string).collect();
            ProfileFigure {
                value,
                range: None,
                basis: Basis::Derived,
                source: format!("mean of {}; {}", times.join(", "), chip.source),
            }
        }
    }
}

/// The figure, with the chip's basis and source where it has no source of its own.
fn with_source(chip: &Chip, figure: &ProfileFigure) -> ProfileFigure {
    match figure.source.is_empty() {
        true => ProfileFigure { basis: chip.basis, source: chip.source.clone(), ..figure.clone() },
        false => figure.clone(),
    }
}

fn figures(chip: &Chip) -> BTreeMap<Quantity, ProfileFigure> {
    let derived = |value: f64, source: String| ProfileFigure { value, range: None, basis: Basis::Derived, source };
    let read = mean(chip, &chip.read_us);
    let program = mean(chip, &chip.program_us);
    let block_bytes = u64::from(chip.pages_per_block) * u64::from(chip.page_bytes);
    let mut figures = BTreeMap::from([
        (
            Quantity::EraseBlockBytes,
            derived(block_bytes as f64, format!("{} pages of {} bytes", chip.pages_per_block, chip.page_bytes)),
        ),
        (Quantity::EraseUs, with_source(chip, &chip.erase_us)),
        (
            Quantity::CapacityBytes,
            derived(
                u64::from(chip.blocks) as f64 * block_bytes as f64,
                format!("{} blocks of {block_bytes} bytes", chip.blocks),
            ),
        ),
        (Quantity::EnduranceCycles, with_source(chip, &chip.endurance)),
    ]);
    if let Some(per_byte) = chip.transfer_ns_per_byte {
        let bytes = u64::from(chip.page_bytes) + u64::from(chip.spare_bytes);
        let transfer_us = bytes as f64 * per_byte / 1000.0;
        let over_bus = |time: &ProfileFigure, name: &str| {
            derived(time.value + transfer_us, format!("{name} + {bytes} bytes x {per_byte} ns over the bus"))
        };
        figures.insert(Quantity::ReadUs, over_bus(&read, "t_R"));
        figures.insert(Quantity::WriteUs, over_bus(&program, "t_PROG"));
    }
    figures.insert(Quantity::ChipReadUs, read);
    figures.insert(Quantity::ChipProgramUs, program);
    for (quantity, figure) in [
        (Quantity::IdleW, &chip.idle_w),
        (Quantity::ActiveW, &chip.active_w),
        (Quantity::ActiveReadW, &chip.read_w),
        (Quantity::ActiveWriteW, &chip.program_w),
    ] {
        if let Some(figure) = figure {
            figures.insert(quantity, with_source(chip, figure));
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chip_and_its_device_have_the_same_figures() {
        for chip in chips().expect("chips.toml is sound") {
            let device = DeviceProfile::named(&chip.name).expect("a device of the name");
            let read: f64 = chip.read_us.iter().sum();
            let read = read / chip.read_us.len() as f64;
            assert_eq!(device.operation_costs().read, read, "{}", chip.name);
            assert_eq!(device.value(Quantity::EraseUs), Some(chip.erase_us.value));
            assert_eq!(device.erase_block_pages(), Some(u64::from(chip.pages_per_block)));
            assert_eq!(device.power().is_some(), chip.power().is_some());
        }
    }

    #[test]
    fn lower_and_upper_pages_are_averaged() {
        let l95b = DeviceProfile::named("mlc-l95b").expect("a device");
        let read = &l95b.figures[&Quantity::ChipReadUs];
        assert_eq!((read.value, read.basis), (56.0, Basis::Derived));
        assert!(read.source.starts_with("mean of 48, 64; FEMU"), "{read:?}");
        // 16 KiB at 3.198 ns a byte.
        let qd1 = l95b.value(Quantity::ReadUs).expect("its bus is known");
        assert!((qd1 - (56.0 + 52.4)).abs() < 0.01, "{qd1}");
    }
}
