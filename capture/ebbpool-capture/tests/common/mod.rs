//! What tests of captures share. They attach probes, so that they run only where the kernel and the rights allow it.

#![allow(dead_code)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ebbpool_capture::{
    CaptureBuffer, CaptureError, CaptureSource, CapturedTrace, EventCost, Limits, SessionReport, calibrate, capture,
};
use ebbpool_trace::{Batch, Source};
use serde_json::{Map, Value};

/// Set for a process that runs a test's other part: the folder that both share.
pub const FOLDER: &str = "EBBPOOL_CAPTURE_TEST_FOLDER";

/// The cost of an event; `None`, with a line that says why, where nothing can be attached.
pub fn cost() -> Option<EventCost> {
    match calibrate() {
        Ok(cost) => Some(cost),
        Err(error @ (CaptureError::Privilege { .. } | CaptureError::Kernel { .. })) => {
            let _ = writeln!(std::io::stderr(), "skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// True if a program is installed; else a line says that the test is skipped.
pub fn is_installed(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        let _ = writeln!(std::io::stderr(), "skipped: {program} is not installed");
    }
    found
}

/// A process that is ended with the value.
pub struct OwnedChild(pub Child);

impl OwnedChild {
    /// Starts the test `name` of this file in a process of its own, which finds the folder in [`FOLDER`].
    pub fn of_test(name: &str, folder: &Path) -> OwnedChild {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .args(["--exact", name, "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        OwnedChild(child.expect("a process"))
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// Waits until the process prints a line that ends so.
    pub fn wait_for(&mut self, end: &str) {
        let output = self.0.stdout.as_mut().expect("its output");
        let found = BufReader::new(output).lines().any(|line| line.expect("a line").ends_with(end));
        assert!(found, "the process ended before '{end}'");
    }

    /// The numbers in the line before one that ends with `done`.
    pub fn numbers(&mut self) -> Vec<u64> {
        let output = self.0.stdout.as_mut().expect("its output");
        let mut before = String::new();
        for line in BufReader::new(output).lines() {
            let line = line.expect("a line");
            if line == "done" {
                break;
            }
            before = line;
        }
        let numbers = before.split(' ').map(|number| number.parse().expect("a number"));
        numbers.collect()
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) {
        let input = self.0.stdin.as_mut().expect("its input");
        writeln!(input, "{line}").expect("sent");
        input.flush().expect("sent");
    }

    /// Waits for the end.
    pub fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().expect("its end").success());
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The other side of [`OwnedChild`]: says that it is ready, and waits for a line.
pub fn wait_for_start() {
    println!("ready");
    wait_for_line();
}

/// Waits for a line.
pub fn wait_for_line() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a line");
}

/// How long a test waits for another process.
const PATIENCE: Duration = Duration::from_secs(60);

/// Captures while `child` works: sends it a line, and stops when it has made the file `done`.
pub fn capture_work(
    source: &mut dyn CaptureSource,
    cost: EventCost,
    ring_bytes: u32,
    start: &mut dyn FnMut(),
    is_done: &dyn Fn() -> bool,
) -> (CaptureBuffer, SessionReport) {
    let limits = Limits { time: PATIENCE, overhead: f64::INFINITY, ring_bytes, ..Limits::default() };
    let cost = source.event_cost().unwrap_or(cost);
    let (mut started, mut rounds_after) = (None, 0);
    let captured = capture(source, limits, cost, |_| {
        let started = started.get_or_insert_with(|| {
            start();
            Instant::now()
        });
        assert!(started.elapsed() < PATIENCE, "the work does not end");
        rounds_after += usize::from(is_done());
        // What happened before the work was done is read in the round behind it.
        rounds_after < 3
    });
    captured.expect("a capture")
}

/// Captures for some rounds, in the first of which the caller starts what is captured.
pub fn capture_rounds(
    source: &mut dyn CaptureSource,
    limits: Limits,
    cost: EventCost,
    rounds: usize,
    mut start: impl FnMut(),
) -> (CaptureBuffer, SessionReport) {
    let mut round = 0;
    let captured = capture(source, limits, cost, |_| {
        round += 1;
        if round == 1 {
            start();
        }
        round < rounds
    });
    captured.expect("a capture")
}

/// A reference: the page in its object, and whether it is written.
pub type PageReference = (u64, bool);

/// The references to the object whose name ends so, as a reader of the written trace has them, and the file of facts.
pub fn written(trace: &CapturedTrace, object: &str) -> (Vec<PageReference>, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("captured.parquet");
    let files = trace.write(&path, Map::new()).expect("written");
    let facts = files.facts.expect("a file of facts");
    let facts = fs::read_to_string(facts).expect("facts");
    let facts: Value = serde_json::from_str(&facts).expect("JSON");
    let objects = facts["objects"].as_array().expect("objects");
    let found = objects.iter().find(|row| {
        let name = row["name"].as_str().expect("a name");
        name.ends_with(object)
    });
    let Some(row) = found else {
        return (Vec::new(), facts);
    };
    let number = |name: &str| row[name].as_u64().expect("a number");
    let pages = number("first_page")..number("first_page") + number("pages");
    let source = Source::parse(path.to_str().expect("a path"), None).expect("a trace");
    let mut reader = source.open().expect("a reader");
    let (mut batch, mut found) = (Batch::new(), Vec::new());
    while reader.next_batch(&mut batch, 1 << 16).expect("references") {
        for (page, write) in batch.pages.iter().zip(&batch.writes) {
            if pages.contains(page) {
                found.push((page - pages.start, *write));
            }
        }
    }
    assert_eq!(found.len() as u64, number("references"));
    (found, facts)
}

/// Pseudo-random numbers, the same in every run (splitmix64).
pub struct TestRandom(pub u64);

impl TestRandom {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }
}
