use super::super::tests::{from_toml, profile, user_profile};
use super::super::{AsymmetryKind, Quantity};
use crate::changing::AsymmetrySpec;
use crate::device::{AnyDevice, ChangingDevice, Device};
use crate::flash::FlashConfig;
use crate::flash_device::FlashDevice;

use super::*;

fn mine(figures: &str) -> DeviceProfile {
    from_toml(&user_profile(figures)).expect("a profile")
}

fn costs(profile: &DeviceProfile, page_bytes: u64) -> (f64, f64) {
    let costs = profile.for_pages(Some(page_bytes)).operation_costs();
    (costs.read, costs.write)
}

#[test]
fn pages_are_counted_up() {
    let device_pages = |name: &str, bytes| profile(name).for_pages(bytes).device_pages();
    for (bytes, pages) in [(1, 1), (4096, 1), (4097, 2), (8192, 2), (16384, 4), (0, 1)] {
        assert_eq!(device_pages("sd-a1", Some(bytes)), pages, "{bytes}");
    }
    assert_eq!(device_pages("sd-a1", None), 1);
    assert_eq!(device_pages("s3-standard", Some(1 << 20)), 1);
    assert_eq!(device_pages("slc-mt29f4g08aaa", Some(8192)), 4);
    assert_eq!(device_pages("sd-a1", Some(u64::MAX)), 1 << 52);
}

/// At queue depth 1: the first page's time, and the transfer of the others.
#[test]
fn further_pages_of_a_request_take_their_transfer() {
    let known = mine("read_us = 100\nwrite_us = 300\ntransfer_read_us = 10\ntransfer_write_us = 20\n");
    assert_eq!(costs(&known, 4096), (100.0, 300.0));
    assert_eq!(costs(&known, 8192), (110.0, 320.0));
    assert_eq!(costs(&known, 16384), (130.0, 360.0));
    assert_eq!(costs(&known, 512), (100.0, 300.0));
    // The asymmetry that policies see follows.
    let asymmetry = known.for_pages(Some(16384)).policy_asymmetry();
    assert_eq!(asymmetry.ratio(), 360.0 / 130.0);
    let unknown = mine("read_us = 100\nwrite_us = 300\n");
    assert_eq!(costs(&unknown, 16384), (400.0, 1200.0));
}

#[test]
fn many_in_flight_and_prices_are_per_page() {
    let dc = profile("nvme-dc-9200");
    assert_eq!(costs(dc, 8192), (2e6 / 840e3, 2e6 / 285e3));
    let s3 = profile("s3-standard");
    assert_eq!(costs(s3, 1 << 20), (4e-7, 5e-6));
}

/// Both models count the same times for a fresh chip: with the bus left out, as `chip` figures are, and
/// with it, as those at queue depth 1 are.
#[test]
fn a_chip_and_the_flash_model_agree_on_large_pages() {
    let chip = profile("slc-mt29f4g08aaa");
    let of_model = |keys: &str| {
        let config = format!("flash:slc-mt29f4g08aaa,blocks=64{keys}");
        let config: FlashConfig = config.parse().expect("a device");
        let mut flash = FlashDevice::new(&config, Some(8192), None).expect("it can be made");
        let write = flash.write(3).expect("written");
        (flash.read(3).expect("read"), write)
    };
    let near = |a: (f64, f64), b: (f64, f64)| {
        let off = (a.0 - b.0).abs().max((a.1 - b.1).abs());
        // The flash model counts whole nanoseconds.
        assert!(off < 1e-2, "{a:?} and {b:?}");
    };
    assert_eq!(of_model(""), (100.0, 880.0));
    near(costs(chip, 8192), of_model(""));
    let with_bus = operation_costs(&chip.figures, AsymmetryKind::Qd1, 4).expect("its bus is known");
    near((with_bus.read, with_bus.write), of_model(",bus=include"));
}

/// A cache with room for 10 pages of the device takes 3 writes of 3 pages each; the next one goes past it.
#[test]
fn a_write_takes_the_room_of_its_pages() {
    let cached = mine(
        "read_us = 100\nwrite_us = 50\ntransfer_write_us = 5\nslc_cache_pages = 10\nwrite_us_after = 500\nslc_drain_us = 7\n",
    );
    let paged = cached.for_pages(Some(3 * 4096));
    let cache = paged.write_cache().expect("a cache");
    assert_eq!((cache.pages, cache.drain_us), (3, Some(21.0)));
    let mut device = paged.device();
    let costs = [(); 4].map(|()| device.write(0).expect("written"));
    assert_eq!(costs, [60.0, 60.0, 60.0, 1500.0]);
    // 21 µs move the three pages of a write out of the cache.
    device.idle(20.0);
    assert_eq!(device.write(0), Ok(1500.0));
    device.idle(1.0);
    assert_eq!(device.write(0), Ok(60.0));

    let ssd = profile("nvme-970evoplus-1t");
    let (one, two) = (ssd.write_cache(), ssd.for_pages(Some(8192)).write_cache());
    let (one, two) = (one.expect("a cache"), two.expect("a cache"));
    assert_eq!(two.pages, one.pages / 2);
    assert_eq!(two.write_us, 2.0 * one.write_us);
    assert_eq!(two.write_us_after, 2.0 * one.write_us_after);
    // A page larger than the cache is never cached.
    let huge = cached.for_pages(Some(11 * 4096)).device().write(0);
    assert_eq!(huge, Ok(11.0 * 500.0));
}

#[test]
fn a_changing_device_reads_all_pages() {
    let spec: AsymmetrySpec = "rm1:base=10".parse().expect("a model");
    let asymmetry = spec.load(Asymmetry::saturating(1.0)).expect("no file");
    let paged = profile("sata-850evo").for_pages(Some(16384));
    let read = paged.operation_costs().read;
    assert!(read > profile("sata-850evo").operation_costs().read);
    let mut device = AnyDevice::from(ChangingDevice::with_read_cost_from(&paged, asymmetry));
    assert_eq!(device.read(0), Ok(read));
    assert_eq!(device.write(0), Ok(10.0 * read));
}

#[test]
fn energy_follows_the_time_of_all_pages() {
    let joules = |page_bytes| {
        let mut device = profile("ssd2").for_pages(Some(page_bytes)).device();
        device.read(0).expect("read");
        device.energy(130.0).expect("its power is known").device_busy_j
    };
    assert!((joules(8192) - 0.8 * 130e-6).abs() < 1e-15);
    assert_eq!(joules(16384), 2.0 * joules(8192));
}

#[test]
fn erase_blocks_are_counted_in_pages_of_the_trace() {
    let chip = profile("slc-mt29f4g08aaa");
    let pages = |bytes| chip.for_pages(bytes).erase_block_pages();
    assert_eq!(pages(None), Some(64));
    assert_eq!(pages(Some(2048)), Some(64));
    assert_eq!(pages(Some(8192)), Some(16));
    assert_eq!(pages(Some(512)), Some(256));
    assert_eq!(pages(Some(1 << 20)), Some(1));
    assert_eq!(profile("ssd1").for_pages(Some(8192)).erase_block_pages(), None);
    let small = mine("read_us = 1\nwrite_us = 2\nerase_block_bytes = 2048\n");
    assert_eq!(small.for_pages(Some(1024)).erase_block_pages(), None);
}

#[test]
fn notes_say_what_is_charged() {
    let note = |name: &str, bytes| profile(name).for_pages(bytes).charging_note();
    assert_eq!(note("sd-a1", Some(4096)), None);
    assert_eq!(note("s3-standard", None), None);
    for (bytes, words) in [
        (Some(8192), "a page of this trace has 8 KiB, which is 2 pages of sd-a1: each read and write is charged for both"),
        (Some(16384), "which is 4 pages of sd-a1: each read and write is charged for all 4"),
        (Some(6000), "a page of this trace has 6000 bytes, which takes 2 pages of sd-a1"),
        (Some(512), "has 512 bytes, a page of sd-a1 4 KiB: each read and write is charged for a whole page"),
        (
            None,
            "the trace states no page size: each read and write is charged for one page of sd-a1, 4 KiB; state the page size",
        ),
    ] {
        let note = note("sd-a1", bytes).expect("a note");
        assert!(note.contains(words), "{note}");
    }
}

/// A profile's own device serves the device's own pages.
#[test]
fn pages_of_the_devices_size_cost_what_the_profile_says() {
    for profile in DeviceProfile::all().expect("the list is sound") {
        let paged = profile.for_pages(profile.page_size);
        assert_eq!(paged.operation_costs(), profile.operation_costs(), "{}", profile.name);
        assert_eq!(paged.write_cache(), profile.write_cache());
        assert_eq!(paged.erase_block_pages(), profile.erase_block_pages());
        assert_eq!(paged.charging_note(), None);
        if let Some(transfer) = profile.value(Quantity::TransferReadUs) {
            assert!(transfer > 0.0);
        }
    }
}
