//! The memory that a simulated device takes.

use allocation_counter::measure;
use ebbpool_device::flash::{Flash, FlashConfig};

/// Bytes for each physical page that docs/flash-model.md promises.
const PROMISED: f64 = 10.0;

/// Bytes that a device takes for each physical page, after every page was written and some blocks cleaned.
fn bytes_per_page(settings: &str) -> f64 {
    let name = format!("flash:slc-mt29f4g08aaa,blocks=4096,precondition=full{settings}");
    let config: FlashConfig = name.parse().expect("a device");
    let pages = config.geometry().expect("a shape").pages();
    let mut written = None;
    let taken = measure(|| {
        let mut flash = Flash::new(&config).expect("it can be made");
        for page in 0..pages / 2 {
            flash.write(page * 7919 % flash.logical_pages()).expect("room");
        }
        written = Some(flash);
    });
    assert!(written.is_some_and(|mut flash| flash.report().erases > 0));
    taken.bytes_current as f64 / pages as f64
}

#[test]
fn a_physical_page_takes_at_most_ten_bytes() {
    for settings in ["", ",gc=cost-benefit,frontiers=2", ",ftl=bast", ",ftl=fast", ",ftl=block"] {
        let bytes = bytes_per_page(settings);
        println!("{settings}: {bytes:.2} bytes a physical page");
        // Each page needs at least the number of its owner.
        assert!((4.0..=PROMISED).contains(&bytes), "{settings}: {bytes}");
    }
}
