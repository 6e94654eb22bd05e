//! A loop device, captured while `dd` reads and writes it.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod common;

use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ebbpool_capture::CaptureBuffer;
use ebbpool_capture::sources::device::DeviceSource;

use common::{PageReference, capture_work, cost, written};

const BYTES: u64 = 64 << 20;

/// A loop device over a file, which vanishes with the value.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn new(file: &Path) -> Option<LoopDevice> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        match output {
            Ok(output) if output.status.success() => {
                let name = String::from_utf8_lossy(&output.stdout);
                Some(LoopDevice(name.trim().into()))
            }
            other => {
                let _ = writeln!(std::io::stderr(), "skipped: losetup: {other:?}");
                None
            }
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Partitions would outlive the device.
        for number in ["1", "2"] {
            let _ = Command::new("delpart").arg(&self.0).arg(number).stderr(Stdio::null()).status();
        }
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

fn dd(arguments: &[String]) {
    let status = Command::new("dd").args(arguments).arg("status=none").status();
    assert!(status.expect("dd").success());
}

/// Reads 1,000 pages from page 1000 on and writes 500 blocks of two pages from page 4000 on.
fn work(device: &Path) {
    let device = device.display();
    dd(&[
        format!("if={device}"),
        "of=/dev/null".into(),
        "bs=4k".into(),
        "skip=1000".into(),
        "count=1000".into(),
        "iflag=direct".into(),
    ]);
    dd(&[
        "if=/dev/zero".into(),
        format!("of={device}"),
        "bs=8k".into(),
        "seek=2000".into(),
        "count=500".into(),
        "oflag=direct".into(),
        "conv=notrunc".into(),
    ]);
}

fn expected(shift: u64) -> Vec<PageReference> {
    let reads = (1000..2000).map(|page| (page + shift, false));
    reads.chain((4000..5000).map(|page| (page + shift, true))).collect()
}

/// What the capture of `captured` has while `used` is worked on. Programs of the system may look at the first and last pages.
fn references(captured: &Path, used: &Path) -> Option<(DeviceSource, Vec<PageReference>)> {
    let cost = cost()?;
    let mut source = DeviceSource::open(captured, 4096).expect("a source");
    let done = Cell::new(false);
    let (recorder, report): (CaptureBuffer, _) = capture_work(
        &mut source,
        cost,
        16 << 20,
        &mut || {
            work(used);
            done.set(true);
        },
        &|| done.get(),
    );
    assert_eq!(report.lost, 0);
    let trace = source.trace(recorder);
    assert!(trace.below_cache);
    let (mut found, facts) = written(&trace, &captured.display().to_string());
    found.retain(|(page, _)| (900..7000).contains(page));
    assert_eq!(facts["page_size"], 4096);
    Some((source, found))
}

#[test]
fn requests_of_dd_are_captured() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(BYTES).expect("a size");
    if cost().is_none() {
        return;
    }
    let Some(device) = LoopDevice::new(file.path()) else {
        return;
    };
    let Some((source, found)) = references(&device.0, &device.0) else {
        return;
    };
    assert!(found == expected(0), "{} references", found.len());
    let counts = source.counts();
    assert!(counts.reads >= 1000 && counts.read_bytes >= 1000 * 4096);
    assert!(counts.writes >= 500 && counts.written_bytes >= 500 * 8192);
    println!("{counts:?}");
    assert!(source.description().starts_with("device "));
}

#[test]
fn partitions_count_their_own_requests_from_their_start() {
    const START: u64 = 4 << 20;
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(BYTES).expect("a size");
    if cost().is_none() {
        return;
    }
    let Some(disk) = LoopDevice::new(file.path()) else {
        return;
    };
    let mut partitions = Vec::new();
    for (number, start) in [("1", START), ("2", START + (28 << 20))] {
        let (start, length) = ((start / 512).to_string(), ((28 << 20) / 512).to_string());
        let status = Command::new("addpart").arg(&disk.0).args([number, &start, &length]).status();
        let partition = PathBuf::from(format!("{}p{number}", disk.0.display()));
        if !status.is_ok_and(|status| status.success()) || !partition.exists() {
            let _ = writeln!(std::io::stderr(), "skipped: addpart cannot make {}", partition.display());
            return;
        }
        partitions.push(partition);
    }
    let Some((source, found)) = references(&partitions[0], &partitions[0]) else {
        return;
    };
    assert!(found == expected(0), "{} references", found.len());
    assert!(source.description().starts_with("partition "));
    let Some((_, found)) = references(&partitions[1], &partitions[0]) else {
        return;
    };
    assert_eq!(found, []);
    let Some((_, found)) = references(&disk.0, &partitions[0]) else {
        return;
    };
    assert!(found == expected(START / 4096), "{} references", found.len());
}
