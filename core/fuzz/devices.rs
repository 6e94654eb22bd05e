//! Descriptions of devices: names of simulated ones, profiles, chips, and changing asymmetries.

use std::fs;

use ebbpool_cost::PAPERS_BASE;
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_device::flash::{Flash, FlashConfig};
use ebbpool_device::{Device, DeviceProfile};
use tempfile::TempDir;

/// Devices with more pages than this are configured, but not constructed.
const MOST_PAGES: u64 = 100_000;

fn file(name: &str, content: &[u8]) -> (TempDir, String) {
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().join(name);
    fs::write(&path, content).expect("a temporary file");
    let path = path.to_str().expect("a temporary path in UTF-8").into();
    (directory, path)
}

/// A file of changes: it defines R at every reference, epoch after epoch.
pub(crate) fn changes(input: &[u8]) {
    let (_directory, path) = file("changes.csv", input);
    let spec: AsymmetrySpec = format!("file:{path}").parse().expect("a file's name");
    match spec.load(PAPERS_BASE) {
        Ok(changing) => {
            let mut last = None;
            for epoch in changing.epochs().take(1000) {
                assert!(epoch.ratio >= 0.0 && epoch.ratio.is_finite());
                assert!(last.is_none_or(|last| last < epoch.start) && epoch.contains(epoch.start));
                assert_eq!(changing.ratio_at(epoch.start), epoch.ratio);
                last = Some(epoch.start);
            }
            assert!(last.is_some(), "there is an epoch");
        }
        Err(error) => assert!(error.to_string().contains("changes.csv"), "{error}"),
    }
}

/// The name of a simulated device: a parsed name prints as a text that parses to the same, and a
/// device that can be constructed serves its first and its last page.
pub(crate) fn flash_config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    // A profile may be a file, which another target tests.
    if text.contains(".toml") {
        return;
    }
    match text.parse::<FlashConfig>() {
        Ok(config) => {
            let printed = config.to_string();
            let again = printed.parse::<FlashConfig>();
            assert_eq!(again.ok().as_ref(), Some(&config), "'{text}' as '{printed}'");
            serve(&config);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn serve(config: &FlashConfig) {
    let pages = config.geometry().map_or(0, |geometry| geometry.pages());
    if pages > MOST_PAGES {
        return;
    }
    if let Ok(mut flash) = Flash::new(config) {
        let last = flash.logical_pages().saturating_sub(1);
        for page in [0, last, 0] {
            // A device may be worn out immediately; it must return an error and not panic.
            let _ = flash.write(page);
            flash.read(page).expect("a written page can be read");
        }
        assert!(flash.read(last + 1).is_err());
        flash.report();
    }
}

/// A chip defined in a file.
pub(crate) fn chip(input: &[u8]) {
    let (_directory, path) = file("chip.toml", input);
    match format!("flash:{path}").parse::<FlashConfig>() {
        Ok(config) => serve(&config),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A profile defined in a file: it prints as a text that parses to the same, and it serves reads.
pub(crate) fn device_profile(input: &[u8]) {
    let (_directory, path) = file("device.toml", input);
    match DeviceProfile::find(&path) {
        Ok(profile) => {
            let printed = profile.to_toml().expect("a profile prints");
            let (_again, path) = file("device.toml", printed.as_bytes());
            let again = DeviceProfile::find(&path).ok();
            let again = again.and_then(|again| again.to_toml().ok());
            assert_eq!(again.as_ref(), Some(&printed));
            let mut device = profile.device();
            let cost = device.read(0).expect("no failure");
            assert!(cost >= 0.0 && device.write(0).expect("no failure") >= 0.0);
        }
        Err(error) => assert!(error.to_string().contains("device.toml"), "{error}"),
    }
}
