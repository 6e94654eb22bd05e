use std::collections::BTreeSet;
use std::io::Write;

use proptest::prelude::*;

use super::*;

pub(super) fn profile(name: &str) -> &'static DeviceProfile {
    DeviceProfile::named(name).expect("a profile")
}

fn ratio(name: &str, kind: AsymmetryKind) -> f64 {
    profile(name).asymmetry(kind).expect("known").ratio()
}

pub(super) fn from_toml(text: &str) -> Result<DeviceProfile, String> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    DeviceProfile::from_file(file.path()).map_err(|error| {
        let path = file.path().display().to_string();
        error.to_string().replace(&path, "FILE")
    })
}

/// A user's profile with these figures.
pub(super) fn user_profile(figures: &str) -> String {
    format!(
        "name = \"mine\"\nabout = \"my disk\"\nmedium = \"ssd\"\npage_size = 4096\nasymmetry = \"qd1\"\n[figures]\n{figures}"
    )
}

#[test]
fn the_devices_of_the_papers_have_their_asymmetries() {
    use AsymmetryKind::*;
    for (name, kind, expected, within) in [
        ("flash-136", Qd1, 136.2, 0.05),
        ("flash-475", Qd1, 475.7, 0.05),
        ("flash-25", Qd1, 25.0, 1e-9),
        ("mtron-3035", Qd1, 39.6, 1e-9),
        ("intel-x25m", Qd1, 5.8, 1e-9),
        ("sd-kingston", Qd1, 121.3, 1e-9),
        ("hdd-cikm", Qd1, 1.1, 0.05),
        ("slc-mt29f4g08aaa", Chip, 8.8, 1e-9),
        ("slc-mt29f4g08aaa", Qd1, 3.5, 0.05),
        ("nvme-dc-9200", Steady, 2.9, 0.05),
        ("nvme-dc-9200", Qd1, 0.2, 0.05),
        ("s3-standard", Price, 12.5, 1e-9),
        ("s3-express-1z", Price, 37.7, 0.05),
        ("sd-a1", Qd1, 3.0, 0.01),
    ] {
        let found = ratio(name, kind);
        assert!((found - expected).abs() <= within, "{name} {kind}: {found}");
    }
    // Writes a second as the papers print them, with their rounding.
    let write = profile("flash-136").operation_costs().write;
    assert_eq!((1e6 / write * 10.0).round(), 50.0);
    let write = profile("flash-475").operation_costs().write;
    assert_eq!((1e6 / write * 10.0).round(), 14.0);
}

#[test]
fn the_kinds_of_asymmetry_of_a_device_are_separate() {
    let dc = profile("nvme-dc-9200");
    assert_eq!(dc.asymmetry, AsymmetryKind::Steady);
    assert_eq!(dc.policy_asymmetry().ratio(), 840.0 / 285.0);
    assert_eq!(dc.asymmetry(AsymmetryKind::Chip), None);
    assert_eq!(dc.cost(840_000, 0), Bill { amount: 1e6, unit: Unit::Microseconds });
    let s3 = profile("s3-standard");
    let bill = s3.cost(1_000_000, 1_000_000);
    assert_eq!(bill.unit, Unit::Dollars);
    assert!((bill.amount - 5.4).abs() < 1e-9, "{bill}");
    assert_eq!(s3.costs_by(AsymmetryKind::Qd1).map(|costs| costs.unit), Some(Unit::Microseconds));
    let evo = profile("nvme-970evoplus-1t");
    assert!(evo.asymmetry_in_cache().expect("a cache").ratio() > 1.0);
    assert!(evo.asymmetry_after_cache() > evo.asymmetry_in_cache());
    assert_eq!(evo.asymmetry_after_cache(), evo.asymmetry(AsymmetryKind::Steady));
    assert_eq!(dc.asymmetry_after_cache(), None);
}

#[test]
fn every_figure_has_a_source_and_every_name_is_taken_once() {
    let mut names = BTreeSet::new();
    let profiles = DeviceProfile::all().expect("the list is sound");
    assert_eq!(profiles.len(), 46);
    for profile in profiles {
        for name in std::iter::once(&profile.name).chain(&profile.aliases) {
            assert!(names.insert(name.clone()), "{name} is taken twice");
            assert_eq!(DeviceProfile::named(name), Ok(profile));
        }
        for (quantity, figure) in &profile.figures {
            let what = format!("{} of {}", quantity.key(), profile.name);
            assert!(!figure.source.is_empty(), "{what} has no source");
            assert!(figure.basis != Basis::Given, "{what} says nothing of its basis");
        }
    }
}

#[test]
fn erase_blocks_hold_whole_pages() {
    assert_eq!(profile("slc-mt29f4g08aaa").erase_block_pages(), Some(64));
    assert_eq!(profile("ssd1").erase_block_pages(), None);
    let small = user_profile("read_us = 1\nwrite_us = 2\nerase_block_bytes = 2048\n");
    let small = from_toml(&small).expect("a profile");
    assert_eq!(small.erase_block_pages(), None);
}

#[test]
fn names_are_found_in_any_case_and_suggested_when_close() {
    assert_eq!(profile("FLASH-136").name, "flash-136");
    assert_eq!(profile("s3").name, "s3-standard");
    let error = DeviceProfile::named("flsh-136").expect_err("no device");
    assert!(error.is_usage());
    assert!(error.to_string().contains("did you mean 'flash-136'?"), "{error}");
    let error = DeviceProfile::find("zzzzzzzz").expect_err("no device");
    assert!(!error.to_string().contains("did you mean"), "{error}");
    assert!(error.to_string().contains("`ebbpool devices`"), "{error}");
    let error = DeviceProfile::find("./missing.toml").expect_err("no file");
    assert!(!error.is_usage());
    assert!(error.to_string().starts_with("./missing.toml: cannot read: "), "{error}");
}

#[test]
fn a_users_profile_needs_few_lines() {
    let mine = from_toml(&user_profile("read_us = 100\nwrite_us = 1e3\n")).expect("a profile");
    assert_eq!(mine.cost(3, 2).amount, 2300.0);
    assert_eq!(mine.figures[&Quantity::ReadUs].basis, Basis::Given);
    assert_eq!(mine.power(), None);
    assert_eq!(mine.write_cache(), None);
}

#[test]
fn a_cache_at_queue_depth_1_has_the_times_of_the_profile() {
    let cache = "slc_cache_pages = 10\nwrite_us_after = 500\n";
    let mine = from_toml(&user_profile(&format!("read_us = 100\nwrite_us = 50\n{cache}")));
    let mine = mine.expect("a profile");
    assert_eq!(mine.cost(0, 12).amount, 10.0 * 50.0 + 2.0 * 500.0);
    assert_eq!(mine.asymmetry_in_cache(), "0.5".parse().ok());
    assert_eq!(mine.asymmetry_after_cache(), "5".parse().ok());
    assert_eq!(mine.write_cache().and_then(|cache| cache.drain_us), None);
}

#[test]
fn wrong_profiles_are_refused_with_their_line() {
    let two = "read_us = 1\nwrite_us = 2\n";
    for (text, message) in [
        (user_profile("read_us = 1\n"), "FILE, line 5: asymmetry = \"qd1\" needs the figures read_us and write_us"),
        (user_profile(&format!("{two}reed_us = 3\n")), "FILE, line 9: unknown variant `reed_us`"),
        (user_profile(&format!("{two}idle_w = {{ value = 1, sauce = \"x\" }}\n")), "FILE, line 9: unknown field `sauce`"),
        (user_profile(&format!("{two}idle_w = {{ source = \"x\" }}\n")), "FILE, line 9: missing field `value`"),
        (user_profile("read_us = 0\nwrite_us = 2\n"), "FILE, line 7: read_us must be above 0, and is 0"),
        (user_profile("read_us = nan\nwrite_us = 2\n"), "FILE, line 7: read_us must be a finite number"),
        (
            user_profile("read_us = 1e-300\nwrite_us = 1e300\n"),
            "FILE, line 5: the figures of reads and writes are too far apart",
        ),
        (user_profile("read_us = 1\nwrite_us = 1e16\n"), "FILE, line 5: the figures of reads and writes are too far apart"),
        (user_profile("read_us = 1\nwrite_us = \"2\"\n"), "FILE, line 8: invalid type: string \"2\", expected a number"),
        (
            user_profile(&format!("{two}erase_us = {{ value = 5, range = [6, 7] }}\n")),
            "FILE, line 9: erase_us is 5, outside of its range [6, 7]",
        ),
        (
            user_profile(&format!("{two}transfer_read_us = 1.5\n")),
            "FILE, line 9: transfer_read_us is 1.5, more than read_us, which is 1",
        ),
        (user_profile(&format!("{two}transfer_write_us = 0\n")), "FILE, line 9: transfer_write_us must be above 0"),
        (
            user_profile(two).replace("qd1", "price") + "read_usd = 1\nwrite_usd = 2\ntransfer_read_us = 2\n",
            "FILE, line 11: transfer_read_us is 2, more than read_us",
        ),
        (user_profile(&format!("{two}capacity_bytes = 1.5\n")), "FILE, line 9: capacity_bytes must be a whole number"),
        (user_profile(&format!("{two}warranty_years = -5\n")), "FILE, line 9: warranty_years must be above 0, and is -5"),
        (user_profile(&format!("{two}tbw = 1e13\n")), "FILE, line 9: tbw must be at most 10^12"),
        (
            user_profile(&format!("{two}tbw = {{ value = 75, range = [80, 150] }}\n")),
            "FILE, line 9: tbw is 75, outside of its range [80, 150]",
        ),
        (
            user_profile(&format!("{two}endurance_cycles = 3000\nwrite_amplification = 0.001\n")),
            "FILE, line 10: write_amplification must be from 0.01 to 1000000, and is 0.001",
        ),
        (
            user_profile(&format!("{two}write_amplification = 4\n")),
            "FILE, line 9: write_amplification needs endurance_cycles beside it",
        ),
        (
            user_profile(&format!("{two}slc_cache_pages = 5\n")),
            "FILE, line 9: slc_cache_pages needs write_us_after or write_iops_cached beside it",
        ),
        (user_profile(&format!("{two}slc_drain_us = 5\n")), "FILE, line 9: slc_drain_us needs slc_cache_pages beside it"),
        (user_profile(&format!("{two}erase_block_bytes = 1.5\n")), "FILE, line 9: erase_block_bytes must be a whole number"),
        (
            user_profile(&format!("{two}idle_w = 5\nactive_w = 4\n")),
            "FILE, line 10: active_w is 4, less than idle_w, which is 5",
        ),
        (user_profile(two).replace("4096", "0"), "FILE, line 4: page_size must be above 0"),
        (user_profile(two).replace("4096", "-1"), "FILE, line 4: "),
        (user_profile(two).replace("mine", "My disk"), "FILE, line 1: 'My disk' is no name"),
        (user_profile(two).replace("medium", "media"), "FILE, line 3: unknown field `media`"),
        (user_profile(two).replace("qd1", "fast"), "FILE, line 5: unknown variant `fast`"),
        (user_profile(two).replace("[figures]", "[figures"), "FILE, line 6: "),
        (String::new(), "FILE, line 1: missing field `name`"),
        ("x".repeat(2 << 20), "FILE: is longer than 1048576 bytes"),
    ] {
        let error = from_toml(&text).expect_err(message);
        assert!(error.starts_with(message), "{error}\ninstead of\n{message}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn profiles_are_read_back_as_written() {
    for profile in DeviceProfile::all().expect("the list is sound") {
        let text = profile.to_toml().expect("TOML");
        assert_eq!(from_toml(&text).as_ref(), Ok(profile), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_profile_or_refused(text in "[a-z_\\[\\]={}\"0-9.\n -]{0,200}") {
        prop_assert!(from_toml(&text).is_err());
        if let Ok(mine) = from_toml(&user_profile(&format!("read_us = 1\nwrite_us = 2\n{text}"))) {
            prop_assert_eq!(from_toml(&mine.to_toml().expect("TOML")), Ok(mine));
        }
    }

    #[test]
    fn writes_never_make_a_bill_smaller(
        reads in 0..1u64 << 40,
        writes in 0..1u64 << 40,
        profile in proptest::sample::select(DeviceProfile::all().expect("the list is sound")),
    ) {
        let bill = profile.cost(reads, writes).amount;
        prop_assert!(bill.is_finite());
        prop_assert!(bill >= profile.cost(reads, writes / 2).amount);
        prop_assert!(profile.policy_asymmetry().ratio() > 0.0);
    }
}
