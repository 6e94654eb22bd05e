use ebbpool_device::DeviceReport;
use ebbpool_device::profiles::Basis;

use super::*;
use crate::pricing::PricingRequest;

fn endurance(range: Option<[f64; 2]>) -> Endurance {
    Endurance { host_bytes: 4e12, range, basis: Basis::Typical, assumption: String::new() }
}

fn pricing(device: &str, page_size: Option<u64>) -> Pricing {
    let request = PricingRequest::new(None, Some(device)).expect("a request");
    let metadata = ebbpool_trace::Metadata { page_size, ..Default::default() };
    Pricing::new(&request, &metadata).expect("prices")
}

/// A day of 86,400 s, in which the device works for the given seconds.
fn day(writes: u64, busy_seconds: f64, failed: Option<&str>) -> DeviceOutcome {
    DeviceOutcome {
        report: DeviceReport { unit: Unit::Microseconds, reads: 1, writes, read_cost: 0.0, write_cost: busy_seconds * 1e6 },
        idle_us: Some((86_400.0 - busy_seconds) * 1e6),
        arrival_us: Some(86_400e6),
        energy: None,
        flash: None,
        cost_otherwise: None,
        failed: failed.map(String::from),
    }
}

/// 4 TB at 10 GB a day last 400 days.
#[test]
fn years_are_endurance_over_bytes_a_day() {
    let life = on_profile(10e9, &endurance(None)).expect("something is written");
    assert_eq!(life.years, 400.0 / 365.0);
    assert_eq!(life.range, None);
    assert_eq!(life.to_string(), "1.1 years");
    let life = on_profile(100e9, &endurance(Some([1e12, 40e12]))).expect("written");
    assert_eq!(life.range, Some([10.0 / 365.0, 400.0 / 365.0]));
    assert_eq!(life.to_string(), "40 days (10 to 400)");
    let life = on_profile(40e12, &endurance(None)).expect("written");
    assert_eq!(life.to_string(), "2.4 hours");
    for nothing in [0.0, -1.0, f64::NAN] {
        assert_eq!(on_profile(nothing, &endurance(None)), None);
    }
}

/// 1,000,000 pages of 8 KiB a day on a device rated for 600 TB.
#[test]
fn a_run_wears_the_device_as_long_as_it_lasts() {
    let pricing = pricing("nvme-970evoplus-1t", Some(8192));
    let load = under_load(&pricing, &day(1_000_000, 3600.0, None), false).expect("rated");
    assert!(load.paced);
    let years = load.life.as_ref().expect("written").years;
    assert!((years - 600e12 / 8192e6 / 365.0).abs() < 1e-9, "{years}");
    // The writes of the end come after the last arrival, and take none of the time in which others arrive.
    let flushed = DeviceOutcome { idle_us: Some(100_000e6), ..day(1_000_000, 3600.0, None) };
    assert_eq!(under_load(&pricing, &flushed, false), Some(load));
    let owing = under_load(&pricing, &flushed, true).expect("rated");
    assert_eq!(owing.life, None);
    let busy = DeviceOutcome { arrival_us: None, ..day(1_000_000, 86_400.0, None) };
    let load = under_load(&pricing, &busy, false).expect("rated");
    assert_eq!((load.paced, load.load()), (false, "without a pause"));
    // A device that takes longer than the references has the life that goes with their rate.
    let late = DeviceOutcome { arrival_us: Some(43_200e6), ..busy };
    let load = under_load(&pricing, &late, false).expect("rated");
    assert_eq!(load.load(), "at this rate");
    assert!((load.life.expect("written").years - years / 2.0).abs() < 1e-9);
    assert_eq!(under_load(&pricing, &day(1, 1.0, Some("worn out")), false), None);
    let read_only = under_load(&pricing, &day(0, 3600.0, None), false).expect("rated");
    assert_eq!(read_only.life, None);
}

#[test]
fn only_devices_with_an_endurance_have_a_life() {
    for device in ["hdd1", "ebs-gp3", "s3-standard"] {
        let pricing = pricing(device, Some(8192));
        assert_eq!(under_load(&pricing, &day(9, 9.0, None), false), None, "{device}");
    }
}

/// A page of 512 bytes takes a whole page of a device with pages of 4 KiB.
#[test]
fn small_pages_wear_whole_pages_of_the_device() {
    assert_eq!(pricing("sd-a1", Some(512)).written_bytes, Some(4096));
    assert_eq!(pricing("sd-a1", Some(8192)).written_bytes, Some(8192));
    assert_eq!(pricing("sd-a1", Some(6000)).written_bytes, Some(8192));
    assert_eq!(pricing("sd-a1", None).written_bytes, Some(4096));
    assert_eq!(pricing("s3-standard", Some(512)).written_bytes, Some(512));
}

#[test]
fn pricing_says_how_pages_are_charged() {
    let note = |device, page_size| pricing(device, page_size).notes.join("");
    assert_eq!(note("nvme-970evoplus-1t", Some(4096)), "");
    assert_eq!(
        note("nvme-970evoplus-1t", Some(8192)),
        "a page of this trace has 8 KiB, which is 2 pages of nvme-970evoplus-1t: each read and write is charged for both"
    );
    assert!(note("nvme-970evoplus-1t", None).contains("states no page size"));
    let one = pricing("nvme-970evoplus-1t", Some(4096));
    let two = pricing("nvme-970evoplus-1t", Some(8192));
    assert_eq!(two.bill_unit().factor, 2.0 * one.bill_unit().factor);
}
