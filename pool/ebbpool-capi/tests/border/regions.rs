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
const WITH_PARAMETERS: [&str; 15] = [
    "lru:cluster=4", "lru:cluster=4,keys=entry", "cfdc:cluster=16,window=0.8", "cfdc:cluster=16,window=0.8,keys=entry",
    "fab:block=4", "bplru:block=4,padding=true", "ref:block=4,victims=3", "fd-buffer:interval=20",
    "auto:experts=(ebb,arc,cfdc:cluster=4),fewest=8", "ace:policy=ebb", "ace:policy=lru,batch=8", "ebb:ghosts=0",
    "ebb:begin=ebb,classes=0", "lru-k:k=3", "innodb:max_dirty_pages_pct=100",
];

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
        let status = unsafe { ebbpool_policy_new_in(text(spec).as_ptr(), frames, region, size, &raw mut policy) };
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

fn leader(policy: *const PolicyHandle) -> String {
    let mut name = [7; 8];
    // SAFETY: all pointers are those of live objects.
    assert_eq!(unsafe { ebbpool_policy_leader(policy, name.as_mut_ptr(), name.len()) }, EBBPOOL_OK);
    // SAFETY: the library has written a NUL.
    unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
}

#[test]
fn the_leader_is_that_of_policies_that_compete() {
    for (spec, name) in [("ebb", "lru"), ("ebb:begin=ebb", "ebb"), ("cflru", ""), ("fd-buffer", "")] {
        let policy = on_the_heap(spec, 100);
        assert_eq!(leader(policy), name, "{spec}");
        destroy(policy);
    }
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
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
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
        if self.random.below(3) == 0 { EBBPOOL_WRITE } else { EBBPOOL_READ }
    }

    fn frame(&mut self) -> u32 {
        let frames = self.pages.len() as u64;
        self.random.below(frames) as u32
    }

    /// The frames of a list that a function has stored.
    fn frames(&mut self, count: usize, call: impl Fn(*mut u32, *mut usize) -> StatusCode) -> Vec<u32> {
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
        let status = unsafe { ebbpool_policy_victim(self.policy, Some(may_evict), pins, most, &raw mut plan) };
        let lists = [plan.together_count, plan.also_evicted_count, plan.block_pages];
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
        let status = unsafe { ebbpool_policy_miss(self.policy, page, class, access, &raw mut evict_first) };
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
        let page = if page.is_multiple_of(13) { u64::MAX - page } else { page * 3 };
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
            unsafe { ebbpool_policy_dirty_ranking(policy, Some(may_evict), pins, count, frames, named) }
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
    for spec in specs() {
        for frames in [1, 2, 13, 150] {
            let size = bytes(spec, frames).expect("a size");
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
}

#[test]
fn asking_what_would_be_written_next_changes_no_victim() {
    for spec in specs() {
        for frames in [2, 60, 200] {
            let run = |asks: bool| {
                let policy = on_the_heap(spec, frames);
                let mut caller = Caller::new(policy, frames);
                caller.asks = asks;
                let answers = caller.run(2_000);
                destroy(policy);
                answers
            };
            assert!(run(true) == run(false), "{spec} with {frames} frames");
        }
    }
}

/// Fills a policy with pages 0 to `frames` - 1, each in the frame of its number.
fn fill(policy: *mut PolicyHandle, frames: u32, access: impl Fn(u32) -> u32) {
    for frame in 0..frames {
        let mut evict_first = 0;
        // SAFETY: all pointers are those of live objects.
        unsafe {
            let status = ebbpool_policy_miss(policy, frame.into(), 0, access(frame), &raw mut evict_first);
            assert_eq!((status, evict_first), (EBBPOOL_OK, 0));
            assert_eq!(ebbpool_policy_admit(policy, frame), EBBPOOL_OK);
        }
    }
}

/// The frames that a function stores, and its status.
fn named(
    function: unsafe extern "C" fn(
        *mut PolicyHandle,
        Option<unsafe extern "C" fn(*mut c_void, u32) -> i32>,
        *mut c_void,
        usize,
        *mut u32,
        *mut usize,
    ) -> StatusCode,
    policy: *mut PolicyHandle,
    pins: usize,
    count: usize,
) -> (StatusCode, Vec<u32>) {
    let mut frames = vec![u32::MAX; count.min(1000)];
    let mut found = 99;
    let context = pins as *mut c_void;
    // SAFETY: all pointers are those of live objects; the policy has fewer than 1000 frames, and the context is a number.
    let status = unsafe { function(policy, Some(may_evict), context, count, frames.as_mut_ptr(), &raw mut found) };
    frames.truncate(found);
    (status, frames)
}

#[test]
fn the_next_victims_and_those_of_them_that_are_dirty_are_named_in_order() {
    let policy = on_the_heap("lru", 9);
    let nothing = (EBBPOOL_INVALID, vec![]);
    assert_eq!(named(ebbpool_policy_victims, policy, 0, 3), nothing);
    assert_eq!(named(ebbpool_policy_victims, policy, 0, 0), (EBBPOOL_OK, vec![]));
    fill(policy, 9, |frame| u32::from(frame % 2 == 0));
    assert_eq!(named(ebbpool_policy_victims, policy, 0, 4), (EBBPOOL_OK, vec![0, 1, 2, 3]));
    // Those that wait for their eviction are pinned.
    assert_eq!(named(ebbpool_policy_victims, policy, 3, 4), (EBBPOOL_OK, vec![1, 2, 4, 5]));
    assert_eq!(named(ebbpool_policy_victims, policy, 7, 4), (EBBPOOL_ALL_FIXED, vec![]));
    let all = (EBBPOOL_OK, (0..9).collect::<Vec<_>>());
    assert_eq!(named(ebbpool_policy_victims, policy, 0, usize::MAX), all);
    assert_eq!(named(ebbpool_policy_dirty_ranking, policy, 0, 5), (EBBPOOL_OK, vec![0, 2, 4]));
    assert_eq!(named(ebbpool_policy_dirty_ranking, policy, 3, 5), (EBBPOOL_OK, vec![2, 4]));
    assert_eq!(named(ebbpool_policy_dirty_ranking, policy, 7, 5), (EBBPOOL_OK, vec![]));
    // SAFETY: the policy is live.
    unsafe {
        assert_eq!(ebbpool_policy_cleaned(policy, 2), EBBPOOL_OK);
        assert_eq!(ebbpool_policy_wrote(policy, 1), EBBPOOL_OK);
    }
    let ranking = named(ebbpool_policy_dirty_ranking, policy, 0, usize::MAX);
    assert_eq!(ranking, (EBBPOOL_OK, vec![0, 1, 4, 6, 8]));
    destroy(policy);

    let policy = on_the_heap("watt", 9);
    fill(policy, 9, |_| EBBPOOL_WRITE);
    assert_eq!(named(ebbpool_policy_dirty_ranking, policy, 0, 5), nothing);
    destroy(policy);
}

/// What `ebb` foresees is mostly what it then evicts.
#[test]
fn most_of_the_dirty_pages_that_ebb_names_are_evicted_next() {
    let frames = 400;
    let policy = on_the_heap("ebb", frames);
    let mut caller = Caller::new(policy, frames);
    caller.single = true;
    let (mut foreseen, mut evicted) = (0, 0);
    for round in 0..60 {
        for _ in 0..400 {
            caller.reference();
        }
        if round < 10 {
            continue;
        }
        let (status, ranking) = named(ebbpool_policy_dirty_ranking, policy, 0, 20);
        let (next, victims) = named(ebbpool_policy_victims, policy, 0, 20);
        assert_eq!((status, next), (EBBPOOL_OK, EBBPOOL_OK));
        foreseen += ranking.len();
        evicted += ranking.iter().filter(|it| victims.contains(it)).count();
    }
    assert!(foreseen > 100, "{foreseen}");
    assert!(evicted * 2 > foreseen, "{evicted} of {foreseen}");
    destroy(policy);
}

#[test]
fn a_region_that_is_too_small_is_refused_with_both_sizes_and_can_be_used_again() {
    for spec in ["ebb", "lru", "cfdc:cluster=8", "s3-fifo"] {
        let frames = 77;
        let size = bytes(spec, frames).expect("a size");
        let mut region = Region::new(size);
        for smaller in [0, 1, 100, size / 2, size - 1] {
            let mut policy = ptr::dangling_mut();
            let start = region.0.as_mut_ptr().cast();
            // SAFETY: all pointers are those of live objects, and the region has more bytes than this.
            let status = unsafe { ebbpool_policy_new_in(text(spec).as_ptr(), frames, start, smaller, &raw mut policy) };
            assert_eq!(status, EBBPOOL_INVALID);
            assert!(policy.is_null());
            let expected = format!("the region has {smaller} bytes, and {spec} takes {size} for 77 frames");
            assert_eq!(last_error(), expected);
        }
        let expected = Caller::new(on_the_heap(spec, frames), frames).run(500);
        for _ in 0..2 {
            let policy = region.policy(spec, frames, 0);
            assert_eq!(Caller::new(policy, frames).run(500), expected);
            destroy(policy);
            destroy(policy);
            // It is as it was.
            // SAFETY: the region is.
            let status = unsafe { ebbpool_policy_costs(policy, 1.0, 2.0) };
            assert_eq!(status, EBBPOOL_OK);
        }
    }
}

#[test]
fn no_byte_outside_of_the_region_is_written() {
    let frames = 130;
    for spec in ["ebb", "arc", "w-tinylfu", "lru:cluster=4"] {
        let size = bytes(spec, frames).expect("a size");
        for skipped in [0, 1, 64, 127] {
            let mut region = Region::new(size + 256);
            let policy = {
                let mut policy = ptr::null_mut();
                let start = region.0[skipped..].as_mut_ptr().cast();
                // SAFETY: all pointers are those of live objects, and the region has this size.
                let status = unsafe { ebbpool_policy_new_in(text(spec).as_ptr(), frames, start, size, &raw mut policy) };
                assert_eq!(status, EBBPOOL_OK, "{spec}: {}", last_error());
                policy
            };
            Caller::new(policy, frames).run(2_000);
            let is_same = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0xa5);
            assert!(is_same(&region.0[..skipped]) && is_same(&region.0[skipped + size..]));
        }
    }
}

#[test]
fn a_write_is_no_reference() {
    // The page in frame 0 was admitted first, and is written last.
    for (spec, first) in [("lru", 0), ("ebb", 0), ("arc", 0), ("2q", 0), ("lru-wsr", 1), ("cflru:window=1", 1)] {
        let policy = on_the_heap(spec, 4);
        fill(policy, 4, |_| EBBPOOL_READ);
        // SAFETY: the policy is live.
        unsafe {
            assert_eq!(ebbpool_policy_costs(policy, 100.0, 0.0), EBBPOOL_OK);
            assert_eq!(ebbpool_policy_wrote(policy, 0), EBBPOOL_OK);
            assert_eq!(ebbpool_policy_wrote(policy, 4), EBBPOOL_INVALID);
        }
        assert_eq!(last_error(), "there is no frame 4: they are 0 to 3");
        assert_eq!(named(ebbpool_policy_victims, policy, 0, 1).1, [first], "{spec}");
        destroy(policy);
    }
    // To a policy that does not distinguish it is a hit.
    let policy = on_the_heap("hyperbolic", 4);
    fill(policy, 4, |_| EBBPOOL_READ);
    // SAFETY: the policy is live.
    assert_eq!(unsafe { ebbpool_policy_wrote(policy, 0) }, EBBPOOL_OK);
    assert_ne!(named(ebbpool_policy_victims, policy, 0, 1).1, [0]);
    destroy(policy);
}

#[test]
fn hits_are_all_noted_or_none() {
    let policy = on_the_heap("lru", 3);
    fill(policy, 2, |_| EBBPOOL_READ);
    let hits = |frames: &[u32], accesses: Option<&[u32]>| {
        let accesses = accesses.map_or(ptr::null(), <[u32]>::as_ptr);
        // SAFETY: the lists have this length.
        unsafe { ebbpool_policy_hits(policy, frames.as_ptr(), accesses, frames.len()) }
    };
    let next = || named(ebbpool_policy_victims, policy, 0, 2).1;
    for frames in [[0, 2], [0, 3], [0, u32::MAX]] {
        assert_eq!(hits(&frames, None), EBBPOOL_INVALID);
        assert_eq!(next(), [0, 1]);
    }
    assert_eq!(hits(&[0, 0], Some(&[1, 2])), EBBPOOL_INVALID);
    assert_eq!(last_error(), "2 is neither EBBPOOL_READ nor EBBPOOL_WRITE");
    assert_eq!(next(), [0, 1]);
    assert_eq!(hits(&[0, 1, 0], Some(&[1, 0, 0])), EBBPOOL_OK);
    assert_eq!(next(), [1, 0]);
    assert_eq!(named(ebbpool_policy_dirty_ranking, policy, 0, 9).1, [0]);
    assert_eq!(hits(&[], None), EBBPOOL_OK);
    // SAFETY: null is refused.
    unsafe {
        let status = ebbpool_policy_hits(policy, ptr::null(), ptr::null(), 1);
        assert_eq!(status, EBBPOOL_INVALID);
        let frames = [0_u32; 2];
        let misaligned = frames.as_ptr().cast::<u8>().wrapping_add(1).cast();
        let status = ebbpool_policy_hits(policy, misaligned, ptr::null(), 1);
        assert_eq!(status, EBBPOOL_INVALID);
    }
    destroy(policy);
}

#[test]
fn ebb_takes_80_bytes_a_frame_from_16_384_on() {
    for (frames, each) in [(16_384, 80.0), (131_072, 70.0)] {
        let size = bytes("ebb", frames).expect("a size");
        assert!((size as f64) < each * f64::from(frames), "{size}");
    }
}

/// Prints what `docs/c.md` and reports say of memory: `cargo test --release … -- --ignored bytes_for_a_frame --nocapture`.
#[test]
#[ignore = "it prints figures"]
fn bytes_for_a_frame() {
    for spec in [
        "ebb", "ebb:classes=3", "auto", "lru", "clock", "ccf-lru", "cflru", "lru-wsr", "arc", "ad-lru", "cfdc", "s3-fifo",
        "w-tinylfu",
    ] {
        let sizes = [4_096, 16_384, 131_072, 1_048_576];
        let bytes = sizes.map(|frames| bytes(spec, frames).expect("a size") as f64 / f64::from(frames));
        println!("{spec:12} {bytes:8.1?}");
    }
}
