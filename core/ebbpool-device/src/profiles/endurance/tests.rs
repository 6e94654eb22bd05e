use super::super::tests::{from_toml, profile, user_profile};
use super::*;

fn endurance(figures: &str) -> Endurance {
    let figures = format!("read_us = 1\nwrite_us = 2\n{figures}");
    let profile = from_toml(&user_profile(&figures)).expect("a profile");
    profile.endurance().expect("its figures are known")
}

const CAPACITY: &str = "capacity_bytes = 32e9\n";

#[test]
fn rated_writes_are_terabytes() {
    let rated = endurance("tbw = { value = 600, basis = \"datasheet\", source = \"x\" }\n");
    assert_eq!((rated.host_bytes, rated.range), (600e12, None));
    assert_eq!(rated.basis, Basis::Datasheet);
    assert_eq!(rated.assumption, "The device is rated for 600 TB of writes.");
    let rated = endurance("tbw = { value = 75, range = [75, 150] }\n");
    assert_eq!(rated.range, Some([75e12, 150e12]));
    assert_eq!(rated.text(), "75 TB (75 to 150)");
}

/// 3 x 32 GB x 365 x 5 = 175.2 TB.
#[test]
fn drive_writes_a_day_last_for_the_warranty() {
    let figures = format!("{CAPACITY}dwpd = {{ value = 3, range = [1, 3] }}\nwarranty_years = 5\n");
    let rated = endurance(&figures);
    assert_eq!(rated.host_bytes, 3.0 * 32e9 * 365.0 * 5.0);
    assert_eq!(rated.range, Some([58.4e12, 175.2e12]));
    assert_eq!(rated.text(), "175 TB (58.4 to 175)");
    assert_eq!(rated.assumption, "The device is rated for 3 (1 to 3) drive writes a day of its 32 GB for 5 years.");
}

/// 32 GB x 1,000 erases over an amplification of 8.
#[test]
fn flash_takes_its_erases_over_the_amplification() {
    let figures = "endurance_cycles = { value = 1000, range = [300, 3000], basis = \"typical\" }
write_amplification = { value = 8, range = [2, 30], basis = \"typical\" }
capacity_bytes = { value = 32e9, basis = \"datasheet\" }\n";
    let computed = endurance(figures);
    assert_eq!(computed.host_bytes, 4e12);
    assert_eq!(computed.range, Some([0.32e12, 48e12]));
    assert_eq!(computed.text(), "4 TB (0.32 to 48)");
    assert_eq!(computed.basis, Basis::Typical);
    assert_eq!(
        computed.assumption,
        "Each block survives 1000 (300 to 3000) erases, wear spreads evenly over 32 GB, and the device writes 8 (2 to 30) bytes of flash for each byte of the host."
    );
}

#[test]
fn an_amplification_that_is_not_stated_is_assumed_with_its_range() {
    let computed = endurance(&format!("{CAPACITY}endurance_cycles = 3000\n"));
    assert_eq!(computed.host_bytes, 32e12);
    assert_eq!(computed.range, Some([9.6e12, 64e12]));
    assert_eq!(computed.basis, Basis::Given);
    let words = "writes 3 (1.5 to 10) bytes of flash for each byte of the host, which is assumed for devices of its kind.";
    assert!(computed.assumption.ends_with(words), "{computed:?}");
}

#[test]
fn rated_writes_come_before_drive_writes_and_these_before_erases() {
    let erases = "endurance_cycles = 3000\nwrite_amplification = 3\n";
    let drive_writes = "dwpd = 1\nwarranty_years = 1\n";
    let both = format!("{CAPACITY}{erases}{drive_writes}");
    let rated = endurance(&both);
    assert_eq!(rated.host_bytes, 32e9 * 365.0);
    assert!(rated.assumption.ends_with("for 1 year."), "{rated:?}");
    assert_eq!(endurance(&format!("{both}tbw = 1\n")).host_bytes, 1e12);
    // Without a warranty, drive writes a day say nothing.
    let no_warranty = endurance(&format!("{CAPACITY}{erases}dwpd = 1\n"));
    assert_eq!(no_warranty.host_bytes, 32e12);
}

#[test]
fn every_medium_that_wears_has_an_endurance_and_the_others_a_reason() {
    for profile in DeviceProfile::all().expect("the list is sound") {
        let wears = match profile.medium {
            Medium::Ssd | Medium::Card | Medium::Emmc | Medium::Chip => true,
            Medium::Hdd | Medium::CloudDisk | Medium::ObjectStore => false,
        };
        let endurance = profile.endurance();
        assert_eq!(endurance.is_some(), wears, "{}", profile.name);
        if let Some(endurance) = endurance {
            let [low, high] = endurance.range.unwrap_or([endurance.host_bytes; 2]);
            let name = &profile.name;
            assert!(low <= endurance.host_bytes && endurance.host_bytes <= high, "{name}");
            assert!(endurance.assumption.ends_with('.'), "{name}");
        }
    }
    assert!(profile("hdd1").no_endurance().contains("magnetic"));
    assert!(profile("s3").no_endurance().contains("provider"));
    let without = from_toml(&user_profile("read_us = 1\nwrite_us = 2\ndwpd = 1\n"));
    let without = without.expect("a profile");
    assert_eq!(without.endurance(), None);
    assert!(without.no_endurance().contains("tbw"));
}

/// 512 MiB of blocks that survive 100,000 erases, without cleaning.
#[test]
fn a_chip_takes_its_erases() {
    let chip = profile("slc-mt29f4g08aaa").endurance().expect("it wears");
    assert_eq!(chip.host_bytes, 1e5 * f64::from(512 << 20));
    assert_eq!((chip.range, chip.basis), (None, Basis::Derived));
    let words = "over 537 MB, and the device writes only what the host writes.";
    assert!(chip.assumption.ends_with(words), "{chip:?}");
}
