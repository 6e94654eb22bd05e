//! A target is not held up by a capture that does not read its events.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use ebbpool_capture::Limits;
use ebbpool_capture::sources::system_calls::ProcessSource;

use common::{FOLDER, OwnedChild, capture_rounds, cost};

const READS: u64 = 50_000;

#[test]
fn child_that_reads() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let file = File::open(folder.join("data")).expect("a file");
    common::wait_for_start();
    let mut bytes = [0; 100];
    for read in 0..READS {
        let position = read % 1000 * 4096;
        assert_eq!(file.read_at(&mut bytes, position).expect("read"), 100);
    }
    fs::create_dir(folder.join("done")).expect("a folder");
    common::wait_for_line();
}

#[test]
fn a_full_ring_drops_and_counts_events_and_the_target_runs_on() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("data"), vec![1; 4 << 20]).expect("written");
    let mut child = OwnedChild::of_test("child_that_reads", folder.path());
    child.wait_for("ready");
    let mut source = ProcessSource::open(child.pid(), 4096, false).expect("a source");
    let done = folder.path().join("done");
    let limits = Limits { ring_bytes: 1 << 16, overhead: f64::INFINITY, ..Limits::default() };
    let (recorder, report) = capture_rounds(&mut source, limits, cost, 3, || {
        child.send("start");
        // Nothing is read from the ring while this function runs.
        let started = Instant::now();
        while !done.exists() {
            assert!(started.elapsed() < Duration::from_secs(60), "the target waits");
            thread::sleep(Duration::from_millis(5));
        }
    });
    println!("{} events, {} lost", report.events, report.lost);
    assert!(report.lost > 0 && report.events > 0);
    assert_eq!(source.counts().reads, recorder.len() as u64);
    assert_eq!(report.events + report.lost, READS);
    assert!(report.fill > 0.9, "{}", report.fill);
    child.end();
}
