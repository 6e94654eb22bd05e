//! Policies in regions of the program decide as others do, and allocate nothing.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use ebbpool_capi::error::*;
use ebbpool_capi::pages::{EBBPOOL_READ, EBBPOOL_WRITE};
use ebbpool_capi::policy::*;
use ebbpool_capi::{batches::*, region::*};
use ebbpool_policy::registry;

/// Specifications with parameters that bring other parts of policies into play.
const WITH_PARAMETERS: [&str; 14] = [
    "lru:cluster=4",
    "lru:cluster=4,keys=entry",
    "cfdc:cluster=16,window=0.8",
    "cfdc:cluster=16,window=0.8,keys=entry",
    "fab:block=4",
    "bplru:block=4,padding=true",
    "ref:block=4,victims=3",
    "fd-buffer:interval=20",
    "ace:policy=ebb",
    "ace:policy=lru,batch=8",
    "ebb:ghosts=0",
    "ebb:begin=lru,classes=0",
    "lru-k:k=3",
    "innodb:max_dirty_pages_pct=100",
];

/// Policies that [`ebbpool_policy_new_in`] refuses, since they allocate when they are used.
const REFUSED: [&str; 1] = ["auto"];

fn text(text: &str) -> CString {
    CString::new(text).expect("no NUL")
}

fn last_error() -> String {
    // SAFETY: the text is valid until the next failure of this thread.
    let text = unsafe { CStr::from_ptr(ebbpool_error_message()) };
    text.to_string_lossy().into_owned()
}

fn bytes(spec: &str, frames: u32) -> Result<usize, StatusCode> {
    let mut bytes = 7;
    // SAFETY: all pointers are those of live objects.
    match unsafe { ebbpool_policy_bytes(text(spec).as_ptr(), frames, &raw mut bytes) } {
        EBBPOOL_OK => Ok(bytes),
        status => Err(status),
    }
}

/// A region, whose content is of no meaning to begin with.
struct Region(Vec<u8>);

impl Region {
    fn new(size: usize) -> Self {
        Region(vec![0xa5; size])
    }

    /// A policy in the region from the byte `skipped` on.
    fn policy(&mut self, spec: &str, frames: u32, skipped: usize) -> *mut PolicyHandle {
        let mut policy = ptr::null_mut();
        let region = self.0[skipped..].as_mut_ptr().cast();
        let size = self.0.len() - skipped;
        // SAFETY: all pointers are those of live objects, and the region has this size.
        let status = unsafe {
            ebbpool_policy_new_in(text(spec).as_ptr(), frames, region, size, &raw mut policy)
        };
        assert_eq!(status, EBBPOOL_OK, "{spec}: {}", last_error());
        policy
    }
}

fn on_the_heap(spec: &str, frames: u32) -> *mut PolicyHandle {
    let mut policy = ptr::null_mut();
    // SAFETY: all pointers are those of live objects.
    let status = unsafe { ebbpool_policy_new(text(spec).as_ptr(), frames, &raw mut policy) };
    assert_eq!(status, EBBPOOL_OK, "{spec}: {}", last_error());
    policy
}

fn destroy(policy: *mut PolicyHandle) {
    // SAFETY: it is not used again.
    assert_eq!(unsafe { ebbpool_policy_destroy(policy) }, EBBPOOL_OK);
}

/// The specifications of all policies that a program can use, and some with parameters.
fn specs() -> Vec<&'static str> {
    let entries = registry::entries().iter();
    let usable = entries.filter(|it| {
        let erases = ebbpool_policy::Capabilities::ERASE_COUNTS;
        it.online() && !it.capabilities.contains(erases)
    });
    usable.map(|it| it.name).chain(WITH_PARAMETERS).collect()
}

/// Frames that are pinned: every third one, from this on.
unsafe extern "C" fn may_evict(context: *mut c_void, frame: u32) -> i32 {
    match context as usize as u32 {
        0 => 1,
        7 => 0,
        pinned => (frame % 3 != pinned % 3).into(),
    }
}

/// Random numbers (Knuth's generator of 64 bits).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A buffer manager that makes random calls, whose answers it notes.
struct Caller {
    policy: *mut PolicyHandle,
    /// The page of each frame.
    pages: Vec<Option<u64>>,
    random: Random,
    answers: Vec<u64>,
    /// Asks for the next dirty victims between all calls.
    asks: bool,
    /// Makes no calls that name more than one victim.
    single: bool,
}

impl Caller {
    fn new(policy: *mut PolicyHandle, frames: u32) -> Self {
        Caller {
            policy,
            pages: vec![None; frames as usize],
            random: Random(u64::from(frames) + 11),
            answers: Vec::new(),
            asks: false,
            single: false,
        }
    }

    fn note(&mut self, status: StatusCode) -> bool {
        assert_ne!(status, EBBPOOL_PANIC, "{}", last_error());
        self.answers.push(status as u64);
        status == EBBPOOL_OK
    }

    fn pins(&mut self) -> *mut c_void {
        self.random.below(9) as usize as *mut c_void
    }

    fn access(&mut self) -> u32 {
        if self.random.below(3) == 0 {
            EBBPOOL_WRITE
        } else {
            EBBPOOL_READ
        }
    }

    fn frame(&mut self) -> u32 {
        let frames = self.pages.len() as u64;
        self.random.below(frames) as u32
    }

    /// The frames of a list that a function has stored.
    fn frames(
        &mut self,
        count: usize,
        call: impl Fn(*mut u32, *mut usize) -> StatusCode,
    ) -> Vec<u32> {
        let mut frames = vec![u32::MAX; count];
        let mut named = 99;
        let status = call(frames.as_mut_ptr(), &raw mut named);
        assert!(status == EBBPOOL_OK || named == 0);
        frames.truncate(named);
        self.note(status);
        frames
    }

    fn victims(&mut self, count: usize) -> Vec<u32> {
        let (policy, pins) = (self.policy, self.pins());
        let found = self.frames(count, |frames, named| {
            // SAFETY: all pointers are those of live objects; the context is a number.
            unsafe { ebbpool_policy_victims(policy, Some(may_evict), pins, count, frames, named) }
        });
        let mut sorted = found.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), found.len(), "each frame is named once");
        let resident = |&frame: &u32| self.pages[frame as usize].is_some();
        // SAFETY: the context is a number.
        let evictable = |&frame: &u32| unsafe { may_evict(pins, frame) } != 0;
        assert!(found.iter().all(|it| resident(it) && evictable(it)));
        self.answers.extend(found.iter().map(|&it| u64::from(it)));
        found
    }

    fn victim(&mut self) -> Option<u32> {
        // SAFETY: all fields may be 0.
        let mut plan: EvictionPlan = unsafe { std::mem::zeroed() };
        let (pins, most) = (self.pins(), self.random.below(5) as u32);
        // SAFETY: all pointers are those of live objects; the context is a number.
        let status = unsafe {
            ebbpool_policy_victim(self.policy, Some(may_evict), pins, most, &raw mut plan)
        };
        let lists = [
            plan.together_count,
            plan.also_evicted_count,
            plan.block_pages,
        ];
        self.answers.extend(lists.map(u64::from));
        self.answers.push(plan.frame.into());
        self.note(status).then_some(plan.frame)
    }

    fn evict(&mut self, frame: u32) {
        // SAFETY: the policy is live.
        let status = unsafe { ebbpool_policy_evicted(self.policy, frame) };
        self.note(status);
        self.pages[frame as usize] = None;
    }

    fn miss(&mut self, page: u64) {
        let mut evict_first = 0;
        let (class, access) = (self.random.below(5) as u32, self.access());
        // SAFETY: all pointers are those of live objects.
        let status =
            unsafe { ebbpool_policy_miss(self.policy, page, class, access, &raw mut evict_first) };
        self.note(status);
        self.answers.push(evict_first as u64);
        let victim = match evict_first {
            0 => None,
            _ => self.victim(),
        };
        if let Some(frame) = victim {
            self.evict(frame);
        }
        let empty = self.pages.iter().position(Option::is_none);
        match empty {
            Some(frame) => {
                // SAFETY: the policy is live.
                let status = unsafe { ebbpool_policy_admit(self.policy, frame as u32) };
                self.note(status);
                self.pages[frame] = Some(page);
            }
            None => {
                // SAFETY: the policy is live.
                let status = unsafe { ebbpool_policy_refuse(self.policy) };
                self.note(status);
            }
        }
    }

    fn reference(&mut self) {
        let pages = self.pages.len() as u64 * 3 + 2;
        let page = self.random.below(pages) * self.random.below(pages) / pages;
        let page = if page % 13 == 0 {
            u64::MAX - page
        } else {
            page * 3
        };
        match self.pages.iter().position(|&it| it == Some(page)) {
            Some(frame) => {
                let access = self.access();
                // SAFETY: the policy is live.
                let status = unsafe { ebbpool_policy_hit(self.policy, frame as u32, access) };
                self.note(status);
            }
            None => self.miss(page),
        }
    }

    /// Makes a call that is not a reference, and may be refused.
    fn other(&mut self) {
        let (policy, frame) = (self.policy, self.frame());
        let kind = self.random.below(10);
        // SAFETY: the policy is live, and lists have the lengths that are passed.
        let status = unsafe {
            match kind {
                0 | 1 => ebbpool_policy_wrote(policy, frame),
                2 => ebbpool_policy_cleaned(policy, frame),
                3 => {
                    let status = ebbpool_policy_dropped(policy, frame);
                    self.pages[frame as usize] = None;
                    status
                }
                4 => {
                    let hits = [frame, self.frame(), frame];
                    let accesses = [0, 0, 0].map(|_| self.access());
                    let accesses = match self.random.below(2) {
                        0 => ptr::null(),
                        _ => accesses.as_ptr(),
                    };
                    ebbpool_policy_hits(policy, hits.as_ptr(), accesses, 3)
                }
                5 => ebbpool_policy_hits_left_out(policy, self.random.below(50)),
                6 => ebbpool_policy_costs(policy, 100.0, self.random.below(3000) as f64),
                7 if !self.single => {
                    let count = 1 + self.random.below(4) as usize;
                    let victims = self.victims(count);
                    if let Some(&first) = victims.first() {
                        self.evict(first);
                    }
                    EBBPOOL_OK
                }
                8 => {
                    self.victim();
                    EBBPOOL_OK
                }
                _ => ebbpool_policy_admit(policy, u32::MAX),
            }
        };
        self.note(status);
    }

    fn ask(&mut self) {
        let (policy, count) = (self.policy, self.random.0 as usize % 9);
        let answers = self.answers.len();
        self.frames(count, |frames, named| {
            let pins = ptr::null_mut();
            // SAFETY: all pointers are those of live objects; the context is a number.
            unsafe {
                ebbpool_policy_dirty_ranking(policy, Some(may_evict), pins, count, frames, named)
            }
        });
        self.answers.truncate(answers);
    }

    fn run(mut self, calls: usize) -> Vec<u64> {
        for _ in 0..calls {
            match self.random.below(4) {
                0 => self.other(),
                _ => self.reference(),
            }
            if self.asks {
                self.ask();
            }
        }
        self.answers
    }
}

#[test]
fn a_policy_in_a_region_decides_as_one_on_the_heap() {
    let mut refused = Vec::new();
    for spec in specs() {
        for frames in [1, 2, 13, 150] {
            let size = match bytes(spec, frames) {
                Ok(size) => size,
                Err(status) => {
                    assert_eq!(status, EBBPOOL_INVALID);
                    assert!(
                        last_error().contains("these can: fifo, lru, clock"),
                        "{}",
                        last_error()
                    );
                    refused.push(spec);
                    break;
                }
            };
            let mut region = Region::new(size + 1);
            let in_region = region.policy(spec, frames, 1);
            let heap = on_the_heap(spec, frames);
            let calls = if frames > 100 { 6_000 } else { 2_000 };
            let expected = Caller::new(heap, frames).run(calls);
            let found = Caller::new(in_region, frames).run(calls);
            let differs = expected.iter().zip(&found).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{spec} with {frames} frames");
            assert_eq!(expected.len(), found.len());
            destroy(heap);
            destroy(in_region);
        }
    }
    assert_eq!(refused, REFUSED);
}
