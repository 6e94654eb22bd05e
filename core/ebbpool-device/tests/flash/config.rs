//! Names of simulated devices: which are accepted, and the errors for all others.

use ebbpool_device::flash::{Flash, FlashConfig, LayerKind, Precondition, WearLevelling};
use proptest::prelude::*;

fn parsed(name: &str) -> FlashConfig {
    name.parse().unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn refused(name: &str) -> String {
    match name.parse::<FlashConfig>() {
        Ok(config) => panic!("{name} was understood as {config}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_name_in_the_design_is_accepted() {
    let config = parsed("flash:slc-mt29f4g08aaa,blocks=4096,rho=0.8,ftl=page,gc=greedy");
    assert_eq!((config.blocks, config.pages_per_block, config.page_bytes), (4096, 64, 2048));
    assert_eq!(config.layer, LayerKind::PageMap);
    // One open block and two in reserve.
    assert_eq!(config.logical_pages(), (4093 * 64) * 8 / 10);
    assert_eq!(config.to_string(), "flash:slc-mt29f4g08aaa");
    assert_eq!(Flash::new(&config).expect("works").logical_pages(), config.logical_pages());
}

#[test]
fn every_key_is_read_and_printed() {
    let name = "flash:slc-mt29f4g08aaa,blocks=512,pages_per_block=32,page_size=4096,rho=0.9,ftl=dftl,gc=d-choices,d=4,frontiers=2,wl=static:7,log_blocks=9,cmt=100,bus=include,precondition=steady,dies=4,channels=2";
    let config = parsed(name);
    assert_eq!(config.to_string(), name);
    assert_eq!(parsed(&config.to_string()), config);
    assert_eq!(config.wear, WearLevelling::Static(7));
    assert_eq!(config.precondition, Precondition::Steady);
    assert_eq!(config.notes(), ["log_blocks=9 changes nothing with ftl=dftl"]);
}

#[test]
fn a_page_size_has_a_unit_or_none() {
    for size in ["4096", "4k", "4KiB", "4096B"] {
        let config = parsed(&format!("flash:slc-mt29f4g08aaa,page_size={size}"));
        assert_eq!(config.page_bytes, 4096);
        assert_eq!(config.to_string(), "flash:slc-mt29f4g08aaa,page_size=4096");
    }
    for size in ["0", "4GiB", "4x", "-1", ""] {
        let error = refused(&format!("flash:slc-mt29f4g08aaa,page_size={size}"));
        assert!(error.contains("as in 2k"), "{error}");
    }
}

#[test]
fn settings_without_effect_are_reported() {
    let config = parsed("flash:slc-mt29f4g08aaa,ftl=bast,gc=fifo,frontiers=2,d=3,cmt=5,channels=2");
    let notes = config.notes().join("\n");
    for key in ["gc=fifo", "frontiers=2", "d=3", "cmt=5", "channels=2"] {
        assert!(notes.contains(&format!("{key} changes nothing")), "{notes}");
    }
}

#[test]
fn errors_name_the_remedy() {
    for (name, parts) in [
        ("ssd:x", &["flash:PROFILE"] as &[&str]),
        ("flash:slc-mt29f4g08aab", &["did you mean 'slc-mt29f4g08aaa'?", "znand", ".toml"]),
        ("flash:znand,log_block=4", &["did you mean 'log_blocks'?", "precondition"]),
        ("flash:znand,blocks", &["'blocks' is not of the form NAME=VALUE"]),
        ("flash:znand,rho=1.5", &["rho=1.5", "above 0"]),
        ("flash:znand,rho=0.8,rho=0.9", &["'rho' is given twice"]),
        ("flash:znand,gc=lru", &["d-choices", "ee-greedy"]),
        ("flash:znand,wl=static", &["static:N"]),
        ("flash:znand,pages_per_block=0", &["pages_per_block=0", "from 1 to 268435456"]),
        ("flash:znand,blocks=4294967295", &["from 1 to 268435456"]),
        ("flash:znand,rho=1", &["nothing to clean"]),
        ("flash:znand,ftl=fast,log_blocks=1", &["log_blocks=2 or more"]),
        ("flash:znand,bus=include", &["bus=ignore", "transfer_ns_per_byte"]),
        ("flash:znand,blocks=3", &["too few", "blocks=4 is the least"]),
        ("flash:znand,ftl=bast,blocks=30", &["34 blocks are open", "blocks=35 is the least"]),
        ("flash:/no/such/chip.toml", &["/no/such/chip.toml", "No such file"]),
    ] {
        let error = refused(name);
        for part in parts {
            assert!(error.contains(part), "{name}: {error}");
        }
    }
}

#[test]
fn the_error_for_too_large_a_database_names_a_device_that_fits() {
    let config = parsed("flash:slc-mt29f4g08aaa,blocks=100");
    let offered = config.logical_pages();
    assert_eq!(config.check_fits(offered), Ok(()));
    let error = config.check_fits(50_000).expect_err("too large").to_string();
    // 977 blocks in rotation of 64 pages at 0.8, and three outside rotation.
    assert!(error.contains("blocks=980 is the least"), "{error}");
    assert!(parsed("flash:slc-mt29f4g08aaa,blocks=980").check_fits(50_000).is_ok());
    assert!(parsed("flash:slc-mt29f4g08aaa,blocks=979").check_fits(50_000).is_err());
}

#[test]
fn a_users_chip_is_read_from_a_file() {
    let path = std::env::temp_dir().join(format!("ebbpool-chip-{}.toml", std::process::id()));
    let good = "name = \"mine\"\npage_bytes = 8192\npages_per_block = 96\nblocks = 128\nread_us = [10.0]\nprogram_us = [100.0, 300.0]\nerase_us = 900.0\nendurance = 500\nsource = \"measured\"\n";
    std::fs::write(&path, good).expect("written");
    let name = format!("flash:{},rho=0.7", path.display());
    let mut flash = Flash::new(&parsed(&name)).expect("works");
    assert_eq!(flash.write(0).expect("endures").micros(), 100.0);
    assert_eq!(flash.write(0).expect("endures").micros(), 300.0);
    assert_eq!(flash.config().chip().endurance.value, 500.0);
    for (from, to, part) in [
        ("endurance = 500", "endurance = 0", "endurance = 0"),
        ("[10.0]", "[]", "read_us is an empty list"),
        ("erase_us = 900.0", "erase_us = -1.0", "erase_us = -1"),
        ("erase_us", "erase", "erase"),
        ("name = \"mine\"", "name = ", "line 1"),
    ] {
        std::fs::write(&path, good.replace(from, to)).expect("written");
        let error = refused(&name);
        assert!(error.contains(part) && error.contains("ebbpool-chip-"), "{error}");
    }
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn pages_beyond_the_end_are_refused() {
    let mut flash = Flash::new(&parsed("flash:slc-mt29f4g08aaa,blocks=16")).expect("works");
    let end = flash.logical_pages();
    for page in [end, u64::from(u32::MAX), u64::MAX] {
        assert!(flash.read(page).is_err() && flash.write(page).is_err() && flash.trim(page).is_err());
        assert_eq!(flash.erase_count(page), None);
    }
    assert_eq!(flash.report().host_writes, 0);
}

proptest! {
    /// Any text is accepted or refused; an accepted one is parsed again from its printed form.
    #[test]
    fn no_name_panics(
        text in prop_oneof![
            "\\PC{0,60}",
            "flash:\\PC{0,60}",
            "flash:znand(,(blocks|pages_per_block|page_size|rho|ftl|gc|d|frontiers|wl|log_blocks|cmt|bus|precondition|dies|channels)=[-a-z0-9.:]{0,11}){0,4}",
            "flash:slc-mt29f4g08aaa(,(blocks|pages_per_block|page_size|log_blocks|cmt)=[0-9]{1,10}|,rho=0[.][0-9]{1,4}|,ftl=(page|dftl|block|bast|fast)|,frontiers=[12]){0,6}",
        ],
        pages in any::<u64>(),
    ) {
        if let Ok(config) = text.parse::<FlashConfig>() {
            prop_assert_eq!(&config.to_string().parse::<FlashConfig>(), &Ok(config.clone()));
            prop_assert!(config.logical_pages() >= 1);
            prop_assert_eq!(config.check_fits(pages).is_ok(), pages <= config.logical_pages());
        }
    }
}
