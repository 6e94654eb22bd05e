//! A program that drives a policy through the functions of C counts what the simulator counts.

use std::collections::HashMap;
use std::ffi::CString;
use std::ptr;
use std::sync::atomic::AtomicBool;

use ebbpool_capi::error::{EBBPOOL_ALL_FIXED, EBBPOOL_INVALID, EBBPOOL_OK, StatusCode};
use ebbpool_capi::policy::*;
use ebbpool_policy::{PolicySpec, registry};
use ebbpool_sim::{AtEnd, NoObserver, PassControl, SimCell, SimOptions, simulate_one};
use ebbpool_trace::{Batch, Source};

const ASYMMETRY: f64 = 8.0;

/// What a page read costs in the simulator, in µs, where costs are not times.
const READ_US: f64 = 176.0;

#[derive(Debug, Default, PartialEq, Eq)]
struct Run {
    misses: u64,
    writes: u64,
    dirty_left: u64,
}

fn trace() -> Source {
    let spec = "scan-mix:pages=600,refs=8000,scans=4,scan-length=100,write=0.3,read-alpha=0.9,seed=5";
    Source::parse(spec, None).expect("a trace")
}

fn references() -> Vec<(u64, bool)> {
    let mut reader = trace().open().expect("a reader");
    let mut batch = Batch::with_capacity(1000);
    let mut references = Vec::new();
    while reader.next_batch(&mut batch, 1000).expect("references") {
        let writes = batch.writes.iter().copied();
        references.extend(batch.pages.iter().copied().zip(writes));
    }
    references
}

fn simulated(policy: &PolicySpec, frames: u32) -> Run {
    let stop = AtomicBool::new(false);
    let progress = PassControl { report: &|_| {}, stop: &stop };
    let cell = SimCell { policy: policy.clone().into(), frames: frames.into(), asymmetry: ASYMMETRY };
    let options = SimOptions { at_end: AtEnd::Free, ..SimOptions::default() };
    let run = simulate_one(&trace(), &cell, &options, &progress, NoObserver);
    let (counts, ..) = run.expect("a simulation");
    Run { misses: counts.misses, writes: counts.writes, dirty_left: counts.dirty_left }
}

#[track_caller]
fn ok(status: StatusCode) {
    assert_eq!(status, EBBPOOL_OK);
}

/// A buffer manager of a program in C.
struct Buffer {
    policy: *mut PolicyHandle,
    frame_of: HashMap<u64, u32>,
    /// The page of each frame, and whether it is dirty.
    pages: Vec<Option<(u64, bool)>>,
    empty: Vec<u32>,
    run: Run,
}

#[allow(unsafe_code)]
impl Buffer {
    fn new(policy: &PolicySpec, frames: u32) -> Self {
        let mut made = ptr::null_mut();
        let spec = CString::new(policy.to_string()).expect("text");
        // SAFETY: all pointers are those of live objects.
        unsafe {
            ok(ebbpool_policy_new(spec.as_ptr(), frames, &raw mut made));
            ok(ebbpool_policy_costs(made, READ_US, ASYMMETRY * READ_US));
        }
        Buffer {
            policy: made,
            frame_of: HashMap::new(),
            pages: vec![None; frames as usize],
            empty: (0..frames).rev().collect(),
            run: Run::default(),
        }
    }

    fn reference(&mut self, page: u64, write: bool) {
        let access = u32::from(write);
        if let Some(&frame) = self.frame_of.get(&page) {
            if let Some((_, dirty)) = &mut self.pages[frame as usize] {
                *dirty |= write;
            }
            // SAFETY: the policy is not destroyed yet.
            return ok(unsafe { ebbpool_policy_hit(self.policy, frame, access) });
        }
        self.run.misses += 1;
        let mut evict_first = 0;
        // SAFETY: all pointers are those of live objects.
        ok(unsafe { ebbpool_policy_miss(self.policy, page, 0, access, &raw mut evict_first) });
        let frame = match evict_first {
            0 => self.empty.pop(),
            _ => self.evict().or_else(|| self.empty.pop()),
        };
        let frame = frame.expect("no page is fixed");
        self.pages[frame as usize] = Some((page, write));
        self.frame_of.insert(page, frame);
        // SAFETY: the policy is not destroyed yet.
        ok(unsafe { ebbpool_policy_admit(self.policy, frame) });
    }

    /// Evicts the victim and those with it; returns its frame.
    fn evict(&mut self) -> Option<u32> {
        let mut plan = EvictionPlan {
            frame: 0,
            together_count: 0,
            also_evicted_count: 0,
            block_pages: 0,
            together: ptr::null(),
            also_evicted: ptr::null(),
        };
        let most = self.pages.len() as u32;
        // SAFETY: all pointers are those of live objects.
        let status = unsafe { ebbpool_policy_victim(self.policy, None, ptr::null_mut(), most, &raw mut plan) };
        if status == EBBPOOL_ALL_FIXED {
            return None;
        }
        ok(status);
        // SAFETY: the lists have these lengths, and are valid until the next call.
        let list = |start: *const u32, count: u32| unsafe { std::slice::from_raw_parts(start, count as usize).to_vec() };
        let together = list(plan.together, plan.together_count);
        let also = list(plan.also_evicted, plan.also_evicted_count);
        if !together.is_empty() {
            self.write(plan.frame);
        }
        for frame in together {
            self.write(frame);
            // SAFETY: the policy is not destroyed yet.
            ok(unsafe { ebbpool_policy_cleaned(self.policy, frame) });
        }
        for &frame in [plan.frame].iter().chain(&also) {
            self.write(frame);
            let (page, _) = self.pages[frame as usize].take().expect("a page");
            self.frame_of.remove(&page);
            // SAFETY: the policy is not destroyed yet.
            ok(unsafe { ebbpool_policy_evicted(self.policy, frame) });
        }
        self.empty.extend(also);
        Some(plan.frame)
    }

    fn write(&mut self, frame: u32) {
        if let Some((_, dirty)) = &mut self.pages[frame as usize] {
            self.run.writes += u64::from(*dirty);
            *dirty = false;
        }
    }

    fn finish(mut self) -> Run {
        let dirty = self.pages.iter().flatten().filter(|(_, dirty)| *dirty);
        self.run.dirty_left = dirty.count() as u64;
        // SAFETY: it is destroyed once.
        ok(unsafe { ebbpool_policy_destroy(self.policy) });
        self.run
    }
}

#[test]
fn every_policy_counts_what_the_simulator_counts() {
    let online = registry::entries().iter().filter(|entry| entry.online());
    let mut specs: Vec<PolicySpec> = online.map(PolicySpec::from_entry).collect();
    // A program writes in the background what it likes, and not what the policy of a server writes.
    specs.retain(|spec| !spec.asks_erase_counts() && spec.entry().name != "innodb");
    let others = [
        "innodb:max_dirty_pages_pct=100", "lru:cluster=16", "cfdc:cluster=32", "fab:block=16", "bplru:block=16", "2q:kin=0.5",
        "ace:policy=lru",
    ];
    specs.extend(others.map(|spec| spec.parse().expect("a policy")));
    let references = references();
    for spec in &specs {
        for frames in [7, 60] {
            let mut buffer = Buffer::new(spec, frames);
            for &(page, write) in &references {
                buffer.reference(page, write);
            }
            assert_eq!(buffer.finish(), simulated(spec, frames), "{spec}, {frames} frames");
        }
    }
    assert!(specs.len() > 40);
}

#[test]
#[allow(unsafe_code)]
fn a_policy_that_would_write_at_checkpoints_is_refused() {
    for spec in ["sqlite:commit=90", "postgres:rate=1000,checkpoint_timeout=1"] {
        let name = CString::new(spec).expect("no NUL");
        let mut policy = ptr::null_mut();
        // SAFETY: the pointers are valid.
        let status = unsafe { ebbpool_policy_new(name.as_ptr(), 10, &mut policy) };
        assert_eq!(status, EBBPOOL_INVALID, "{spec}");
        assert!(policy.is_null());
    }
}
