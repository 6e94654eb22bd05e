//! No order of calls, and no argument, makes the library panic.

#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Mutex;

use ebbpool_capi::batches::*;
use ebbpool_capi::error::{EBBPOOL_OK, EBBPOOL_PANIC, StatusCode, ebbpool_error_message};
use ebbpool_capi::handle::PoolHandle;
use ebbpool_capi::log::LogCallbacks;
use ebbpool_capi::options::*;
use ebbpool_capi::pages::*;
use ebbpool_capi::policy::*;
use ebbpool_capi::pool::*;
use ebbpool_capi::reading::*;
use ebbpool_capi::region::*;
use ebbpool_capi::stats::{PoolFigures, ebbpool_pool_stats};
use ebbpool_capi::storage::StorageCallbacks;
use proptest::prelude::*;

/// A call for a pool; numbers stand for arguments, and `token` for one of the tokens so far, changed by `spoil`.
#[derive(Clone, Debug)]
enum PoolCall {
    Fix { number: u64, mode: u32, class: u32 },
    FixWithin { number: u64, mode: u32 },
    TryFix { number: u64, mode: u32 },
    FixScan { number: u64 },
    Read { number: u64, offset: usize, length: usize, moment: u64 },
    Prefetch { number: u64, offset: usize },
    Upgrade { token: usize, spoil: u64 },
    Allocate,
    Unfix { token: usize, spoil: u64, lsn: u64 },
    SetLsn { token: usize, spoil: u64, lsn: u64 },
    Redone { token: usize, spoil: u64 },
    Downgrade { token: usize, spoil: u64 },
    Free(u64),
    Discard(u64),
    Flush(u64),
    Checkpoint,
    Grow(u64),
    Resize(u64),
    Describe(usize),
    Stats(usize),
    Close,
    Fail { reads: i32, writes: i32, log: i32 },
}

fn page_number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0u64..12, 1 => 0u64..200, 1 => any::<u64>()]
}

fn pool_call() -> impl Strategy<Value = PoolCall> {
    let spoil = || prop_oneof![9 => Just(0u64), 1 => any::<u64>()];
    let lsn = || prop_oneof![5 => Just(0u64), 4 => 1u64..100, 1 => any::<u64>()];
    let token = || 0usize..8;
    let code = || prop_oneof![6 => Just(0), 1 => Just(5), 1 => any::<i32>()];
    prop_oneof![
        8 => (page_number(), 0u32..4, 0u32..3)
            .prop_map(|(number, mode, class)| PoolCall::Fix { number, mode, class }),
        2 => (page_number(), 0u32..4).prop_map(|(number, mode)| PoolCall::FixWithin { number, mode }),
        2 => (page_number(), 0u32..4).prop_map(|(number, mode)| PoolCall::TryFix { number, mode }),
        2 => page_number().prop_map(|number| PoolCall::FixScan { number }),
        2 => (page_number(), 0usize..40, 0usize..40, prop_oneof![Just(0u64), any::<u64>()])
            .prop_map(|(number, offset, length, moment)| PoolCall::Read { number, offset, length, moment }),
        1 => (page_number(), any::<usize>()).prop_map(|(number, offset)| PoolCall::Prefetch { number, offset }),
        2 => (token(), spoil()).prop_map(|(token, spoil)| PoolCall::Upgrade { token, spoil }),
        3 => Just(PoolCall::Allocate),
        9 => (token(), spoil(), lsn()).prop_map(|(token, spoil, lsn)| PoolCall::Unfix { token, spoil, lsn }),
        1 => (token(), spoil(), lsn()).prop_map(|(token, spoil, lsn)| PoolCall::SetLsn { token, spoil, lsn }),
        1 => (token(), spoil()).prop_map(|(token, spoil)| PoolCall::Redone { token, spoil }),
        1 => (token(), spoil()).prop_map(|(token, spoil)| PoolCall::Downgrade { token, spoil }),
        1 => page_number().prop_map(PoolCall::Free),
        1 => page_number().prop_map(PoolCall::Discard),
        1 => page_number().prop_map(PoolCall::Flush),
        1 => Just(PoolCall::Checkpoint),
        1 => (0u64..300).prop_map(PoolCall::Grow),
        1 => (0u64..40).prop_map(PoolCall::Resize),
        1 => (0usize..3000).prop_map(PoolCall::Describe),
        1 => any::<usize>().prop_map(PoolCall::Stats),
        1 => Just(PoolCall::Close),
        2 => (code(), code(), code())
            .prop_map(|(reads, writes, log)| PoolCall::Fail { reads, writes, log }),
    ]
}

/// A disk of 64-byte pages and a log, which fail with these numbers.
#[derive(Default)]
struct Outside {
    bytes: Mutex<Vec<u8>>,
    fail: Mutex<[i32; 3]>,
    log: Mutex<u64>,
}

fn outside<'a>(context: *mut c_void) -> &'a Outside {
    // SAFETY: each context of this test is that of an `Outside` that lives longer than the pool.
    unsafe { &*context.cast::<Outside>() }
}

impl Outside {
    fn failure(&self, at: usize) -> i32 {
        self.fail.lock().expect("a lock")[at]
    }
}

unsafe extern "C" fn read_at(context: *mut c_void, to: *mut c_void, length: usize, at: u64) -> i32 {
    let bytes = outside(context).bytes.lock().expect("a lock");
    let stored = &bytes[at as usize..at as usize + length];
    // SAFETY: the pool passes a buffer of this length.
    unsafe { ptr::copy_nonoverlapping(stored.as_ptr(), to.cast(), length) };
    outside(context).failure(0)
}

unsafe extern "C" fn write_at(context: *mut c_void, from: *const c_void, length: usize, at: u64) -> i32 {
    let mut bytes = outside(context).bytes.lock().expect("a lock");
    let stored = &mut bytes[at as usize..at as usize + length];
    // SAFETY: the pool passes a buffer of this length.
    unsafe { ptr::copy_nonoverlapping(from.cast(), stored.as_mut_ptr(), length) };
    outside(context).failure(1)
}

unsafe extern "C" fn sync(_: *mut c_void) -> i32 {
    0
}

unsafe extern "C" fn length(_: *mut c_void, bytes: *mut u64) -> i32 {
    // SAFETY: the pool passes a pointer to a number.
    unsafe { bytes.write(0) };
    0
}

unsafe extern "C" fn set_length(context: *mut c_void, bytes: u64) -> i32 {
    if bytes > 1 << 16 {
        return 28;
    }
    let mut stored = outside(context).bytes.lock().expect("a lock");
    stored.resize(bytes as usize, 0);
    0
}

unsafe extern "C" fn log_lsn(context: *mut c_void) -> u64 {
    *outside(context).log.lock().expect("a lock")
}

unsafe extern "C" fn flush_to(context: *mut c_void, lsn: u64) -> i32 {
    let failure = outside(context).failure(2);
    if failure == 0 {
        let mut log = outside(context).log.lock().expect("a lock");
        *log = lsn.max(*log);
    }
    failure
}

#[track_caller]
fn no_panic(status: StatusCode, call: &impl std::fmt::Debug) -> bool {
    if !(EBBPOOL_OK..EBBPOOL_PANIC).contains(&status) {
        // SAFETY: the text is valid until the next failure of this thread.
        let text = unsafe { std::ffi::CStr::from_ptr(ebbpool_error_message()) };
        panic!("{call:?}: {status}, {}", text.to_string_lossy());
    }
    status == EBBPOOL_OK
}

fn open_pool(world: &Outside, frames: u64, policy: &str, flags: u64) -> *mut PoolHandle {
    let context = ptr::from_ref(world).cast_mut().cast();
    let policy = CString::new(policy).expect("text");
    let log = LogCallbacks {
        struct_size: size_of::<LogCallbacks>(),
        context,
        durable_lsn: Some(log_lsn),
        flush_to: Some(flush_to),
        end_lsn: Some(log_lsn),
        release: None,
    };
    let storage = StorageCallbacks {
        struct_size: size_of::<StorageCallbacks>(),
        context,
        page_size: 64,
        read_at: Some(read_at),
        write_at: Some(write_at),
        sync: Some(sync),
        length: Some(length),
        set_length: Some(set_length),
        release: None,
    };
    // SAFETY: all fields may be 0.
    let mut options: PoolSettings = unsafe { std::mem::zeroed() };
    options.struct_size = size_of::<PoolSettings>();
    options.flags = flags;
    options.frames = frames;
    options.policy = policy.as_ptr();
    options.patience_ms = 1;
    options.log = &raw const log;
    let mut pool = ptr::null_mut();
    // SAFETY: all pointers are those of live objects, and `world` lives longer than the pool.
    let status = unsafe { ebbpool_pool_open_callbacks(&raw const storage, &raw const options, &raw mut pool) };
    assert_eq!(status, EBBPOOL_OK);
    pool
}

fn call_pool(world: &Outside, pool: *mut PoolHandle, call: &PoolCall, tokens: &mut [u64; 8]) {
    // SAFETY: all fields may be 0.
    let mut page: FixedPage = unsafe { std::mem::zeroed() };
    let out = &raw mut page;
    let token = |at: usize, spoil: u64| tokens[at] ^ spoil;
    // SAFETY: all pointers are null or those of live objects.
    let status = unsafe {
        match *call {
            PoolCall::Fix { number, mode, class } => ebbpool_pool_fix(pool, number, mode, class, out),
            PoolCall::FixWithin { number, mode } => ebbpool_pool_fix_within(pool, number, mode, 0, 0, out),
            PoolCall::TryFix { number, mode } => ebbpool_pool_try_fix(pool, number, mode, out),
            PoolCall::FixScan { number } => {
                let mut scan = ptr::null_mut();
                assert_eq!(ebbpool_scan_new(&raw mut scan), EBBPOOL_OK);
                let status = ebbpool_pool_fix_scan(pool, scan, number, 0, out);
                assert_eq!(ebbpool_scan_destroy(scan), EBBPOOL_OK);
                status
            }
            PoolCall::Read { number, offset, length, mut moment } => {
                let mut bytes = [0u8; 40];
                ebbpool_pool_read(pool, number, offset, bytes.as_mut_ptr().cast(), length, &raw mut moment)
            }
            PoolCall::Prefetch { number, offset } => ebbpool_pool_prefetch(pool, number, offset),
            PoolCall::Upgrade { token: at, spoil } => ebbpool_pool_upgrade(pool, token(at, spoil)),
            PoolCall::Allocate => ebbpool_pool_allocate(pool, 0, out),
            PoolCall::Unfix { token: at, spoil, lsn } => ebbpool_pool_unfix(pool, token(at, spoil), lsn),
            PoolCall::SetLsn { token: at, spoil, lsn } => ebbpool_pool_set_lsn(pool, token(at, spoil), lsn),
            PoolCall::Redone { token: at, spoil } => ebbpool_pool_redone(pool, token(at, spoil)),
            PoolCall::Downgrade { token: at, spoil } => ebbpool_pool_downgrade(pool, token(at, spoil)),
            PoolCall::Free(number) => ebbpool_pool_free(pool, number),
            PoolCall::Discard(number) => ebbpool_pool_discard(pool, number),
            PoolCall::Flush(number) => ebbpool_pool_flush(pool, number),
            PoolCall::Checkpoint => ebbpool_pool_checkpoint(pool, ptr::null_mut()),
            PoolCall::Grow(pages) => ebbpool_pool_grow(pool, pages),
            PoolCall::Resize(frames) => ebbpool_pool_resize(pool, frames),
            PoolCall::Describe(capacity) => {
                let mut buffer = vec![0; capacity];
                ebbpool_pool_describe(pool, buffer.as_mut_ptr(), capacity, ptr::null_mut())
            }
            PoolCall::Stats(size) => {
                let mut stats: PoolFigures = std::mem::zeroed();
                // A size beyond the struct would be a lie that C could not write either.
                stats.struct_size = size.min(size_of::<PoolFigures>());
                ebbpool_pool_stats(pool, &raw mut stats)
            }
            PoolCall::Close => ebbpool_pool_close(pool),
            PoolCall::Fail { reads, writes, log } => {
                *world.fail.lock().expect("a lock") = [reads, writes, log];
                EBBPOOL_OK
            }
        }
    };
    if no_panic(status, call) && page.token != 0 {
        if matches!(
            call,
            PoolCall::Allocate
                | PoolCall::Fix { mode: 1.., .. }
                | PoolCall::FixWithin { mode: 1.., .. }
                | PoolCall::TryFix { mode: 1.., .. }
        ) {
            // SAFETY: the page is fixed for writing, and has this number of bytes.
            unsafe { page.data.write_bytes(page.number as u8, page.length) };
        }
        tokens.rotate_right(1);
        tokens[0] = page.token;
    }
}

/// A call for a policy.
#[derive(Clone, Debug)]
enum PolicyCall {
    Hit { frame: u32, access: u32 },
    Miss { number: u64, class: u32, access: u32 },
    Victim { modulus: u32, most: u32 },
    EvictVictim { modulus: u32 },
    Evicted(u32),
    Dropped(u32),
    Cleaned(u32),
    Admit(u32),
    AdmitAnywhere,
    Refuse,
    LeftOut(u64),
    Costs(f64, f64),
    Wrote(u32),
    Hits { frames: [u32; 3], access: u32 },
    Victims { modulus: u32, count: usize },
    EvictVictims { modulus: u32 },
    DirtyRanking { modulus: u32, count: usize },
}

fn policy_call() -> impl Strategy<Value = PolicyCall> {
    let frame = || prop_oneof![20 => 0u32..8, 1 => any::<u32>()];
    let number = || prop_oneof![9 => 0u64..30, 1 => any::<u64>()];
    let count = || prop_oneof![9 => 0usize..10, 1 => any::<usize>()];
    prop_oneof![
        2 => frame().prop_map(PolicyCall::Wrote),
        2 => ([frame(), frame(), frame()], 0u32..3)
            .prop_map(|(frames, access)| PolicyCall::Hits { frames, access }),
        2 => (0u32..4, count()).prop_map(|(modulus, count)| PolicyCall::Victims { modulus, count }),
        4 => (0u32..4).prop_map(|modulus| PolicyCall::EvictVictims { modulus }),
        2 => (0u32..4, count())
            .prop_map(|(modulus, count)| PolicyCall::DirtyRanking { modulus, count }),
        6 => (frame(), 0u32..3).prop_map(|(frame, access)| PolicyCall::Hit { frame, access }),
        12 => (number(), 0u32..3, 0u32..2)
            .prop_map(|(number, class, access)| PolicyCall::Miss { number, class, access }),
        2 => (0u32..4, 0u32..9).prop_map(|(modulus, most)| PolicyCall::Victim { modulus, most }),
        12 => (0u32..4).prop_map(|modulus| PolicyCall::EvictVictim { modulus }),
        1 => frame().prop_map(PolicyCall::Evicted),
        1 => frame().prop_map(PolicyCall::Dropped),
        2 => frame().prop_map(PolicyCall::Cleaned),
        2 => frame().prop_map(PolicyCall::Admit),
        12 => Just(PolicyCall::AdmitAnywhere),
        2 => Just(PolicyCall::Refuse),
        1 => any::<u64>().prop_map(PolicyCall::LeftOut),
        1 => (any::<f64>(), any::<f64>()).prop_map(|(read, write)| PolicyCall::Costs(read, write)),
    ]
}

/// Frames that are multiples of the context are fixed; 0 stands for none.
unsafe extern "C" fn may_evict(context: *mut c_void, frame: u32) -> i32 {
    match context as usize as u32 {
        0 => 1,
        modulus => (!frame.is_multiple_of(modulus)).into(),
    }
}

/// Makes a call that stores frames into a list.
fn name_frames(policy: *mut PolicyHandle, call: &PolicyCall) -> StatusCode {
    let (function, modulus, count) = match *call {
        PolicyCall::Victims { modulus, count } => (ebbpool_policy_victims as ListCall, modulus, count),
        PolicyCall::EvictVictims { modulus } => (ebbpool_policy_victims as ListCall, modulus, 3),
        PolicyCall::DirtyRanking { modulus, count } => (ebbpool_policy_dirty_ranking as ListCall, modulus, count),
        _ => return EBBPOOL_OK,
    };
    let context = modulus as usize as *mut c_void;
    // There are fewer than 9 frames, whatever number of them is asked for.
    let (mut list, mut named) = ([u32::MAX; 8], 0);
    let start = list.as_mut_ptr();
    // SAFETY: all pointers are those of live objects; the context is a number.
    let status = unsafe { function(policy, Some(may_evict), context, count, start, &raw mut named) };
    if matches!(call, PolicyCall::EvictVictims { .. }) {
        for &frame in &list[..named] {
            // SAFETY: the policy is live.
            assert_eq!(unsafe { ebbpool_policy_evicted(policy, frame) }, EBBPOOL_OK);
        }
    }
    status
}

/// A function that stores frames into a list.
type ListCall = unsafe extern "C" fn(
    *mut PolicyHandle,
    Option<unsafe extern "C" fn(*mut c_void, u32) -> i32>,
    *mut c_void,
    usize,
    *mut u32,
    *mut usize,
) -> StatusCode;

fn call_policy(policy: *mut PolicyHandle, call: &PolicyCall) {
    let mut evict_first = 0;
    // SAFETY: all fields may be 0.
    let mut plan: EvictionPlan = unsafe { std::mem::zeroed() };
    let mut victim = |modulus: u32, most: u32| {
        let context = modulus as usize as *mut c_void;
        // SAFETY: all pointers are those of live objects; the context is a number.
        unsafe { ebbpool_policy_victim(policy, Some(may_evict), context, most, &raw mut plan) }
    };
    // SAFETY: all pointers are those of live objects.
    let status = unsafe {
        match *call {
            PolicyCall::Wrote(frame) => ebbpool_policy_wrote(policy, frame),
            PolicyCall::Hits { frames, access } => {
                let accesses = [access; 3];
                ebbpool_policy_hits(policy, frames.as_ptr(), accesses.as_ptr(), 3)
            }
            PolicyCall::Victims { .. } | PolicyCall::EvictVictims { .. } | PolicyCall::DirtyRanking { .. } => {
                name_frames(policy, call)
            }
            PolicyCall::Hit { frame, access } => ebbpool_policy_hit(policy, frame, access),
            PolicyCall::Miss { number, class, access } => {
                ebbpool_policy_miss(policy, number, class, access, &raw mut evict_first)
            }
            PolicyCall::Victim { modulus, most } => victim(modulus, most),
            PolicyCall::EvictVictim { modulus } => match victim(modulus, 4) {
                EBBPOOL_OK => ebbpool_policy_evicted(policy, plan.frame),
                status => status,
            },
            PolicyCall::Evicted(frame) => ebbpool_policy_evicted(policy, frame),
            PolicyCall::Dropped(frame) => ebbpool_policy_dropped(policy, frame),
            PolicyCall::Cleaned(frame) => ebbpool_policy_cleaned(policy, frame),
            PolicyCall::Admit(frame) => ebbpool_policy_admit(policy, frame),
            PolicyCall::AdmitAnywhere => {
                let admitted = (0..8).map(|frame| ebbpool_policy_admit(policy, frame));
                let mut statuses = admitted.inspect(|&status| {
                    no_panic(status, call);
                });
                statuses.find(|&status| status == EBBPOOL_OK).unwrap_or(EBBPOOL_OK)
            }
            PolicyCall::Refuse => ebbpool_policy_refuse(policy),
            PolicyCall::LeftOut(hits) => ebbpool_policy_hits_left_out(policy, hits),
            PolicyCall::Costs(read, write) => ebbpool_policy_costs(policy, read, write),
        }
    };
    no_panic(status, call);
}

/// A policy of a pool without a double-write area, which refuses to pad.
fn some_policy_of_a_pool() -> impl Strategy<Value = &'static str> {
    some_policy().prop_filter("it pads", |name| !name.contains("padding=true"))
}

fn some_policy() -> impl Strategy<Value = &'static str> {
    let entries = ebbpool_policy::registry::entries().iter();
    let usable = entries.filter(|it| it.online() && !it.capabilities.contains(ebbpool_policy::Capabilities::ERASE_COUNTS));
    let mut names: Vec<&str> = usable.map(|it| it.name).collect();
    names.extend(["lru:cluster=4", "bplru:padding=true,block=4", "fab:block=4"]);
    prop::sample::select(names)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_order_of_calls_makes_a_pool_panic(
        calls in prop::collection::vec(pool_call(), 0..60),
        frames in 1u64..8,
        policy in some_policy_of_a_pool(),
        flags in 0u64..32,
    ) {
        let world = Outside::default();
        let pool = open_pool(&world, frames, policy, flags);
        let mut tokens = [0; 8];
        for call in &calls {
            call_pool(&world, pool, call, &mut tokens);
        }
        // SAFETY: it is destroyed once.
        prop_assert_eq!(unsafe { ebbpool_pool_destroy(pool) }, EBBPOOL_OK);
    }

    #[test]
    fn no_order_of_calls_makes_a_policy_panic(
        calls in prop::collection::vec(policy_call(), 0..200),
        frames in 1u32..9,
        spec in some_policy(),
        in_region in any::<bool>(),
    ) {
        let mut policy = ptr::null_mut();
        let spec = CString::new(spec).expect("text");
        let spec = spec.as_ptr();
        let mut size = 0;
        // SAFETY: all pointers are those of live objects.
        prop_assert_eq!(unsafe { ebbpool_policy_bytes(spec, frames, &raw mut size) }, EBBPOOL_OK);
        let mut region = vec![0xff_u8; size];
        // SAFETY: all pointers are those of live objects, and the region lives longer than the policy.
        let status = unsafe {
            match in_region {
                true => ebbpool_policy_new_in(spec, frames, region.as_mut_ptr().cast(), size, &raw mut policy),
                false => ebbpool_policy_new(spec, frames, &raw mut policy),
            }
        };
        prop_assert_eq!(status, EBBPOOL_OK);
        for call in &calls {
            call_policy(policy, call);
        }
        // SAFETY: it is destroyed once.
        prop_assert_eq!(unsafe { ebbpool_policy_destroy(policy) }, EBBPOOL_OK);
    }

    /// Any bytes as options are refused or accepted.
    #[test]
    fn no_options_make_opening_panic(
        flags in prop_oneof![0u64..64, any::<u64>()],
        frames in prop_oneof![3 => 0u64..100, 1 => (1u64 << 31)..=u64::MAX],
        memory in prop_oneof![3 => Just(0u64), 1 => 0u64..100_000],
        costs in any::<(f64, f64)>(),
        budget in any::<f64>(),
        times in any::<[u64; 3]>(),
        reserve in any::<u64>(),
        batch in prop_oneof![0u64..100, (1u64 << 32)..=u64::MAX],
        page_size in prop_oneof![3 => Just(512u64), 1 => 0u64..5000],
        policy in "[a-z0-9:=,.()-]{0,20}",
    ) {
        let policy = CString::new(policy).expect("text");
        let options = PoolSettings {
            struct_size: size_of::<PoolSettings>(),
            flags,
            frames,
            memory_bytes: memory,
            policy: if times[0].is_multiple_of(2) { ptr::null() } else { policy.as_ptr() },
            read_cost: costs.0,
            write_cost: costs.1,
            log: ptr::null(),
            double_write_path: ptr::null(),
            identity: times[1],
            patience_ms: times[0],
            max_dirty_age_ms: times[1],
            dirty_budget: budget,
            most_delay_us: times[2],
            clean_reserve: reserve,
            batch,
            dense_pages: batch,
            most_pages: times[2],
            on_fix: None,
            on_fix_context: ptr::null_mut(),
            most_frames: frames.saturating_add(times[0] % 9),
        };
        let mut pool = ptr::null_mut();
        // SAFETY: all pointers are those of live objects.
        let status = unsafe { ebbpool_pool_open_memory(page_size, &raw const options, &raw mut pool) };
        no_panic(status, &policy);
        prop_assert_eq!(status == EBBPOOL_OK, !pool.is_null());
        // SAFETY: it is destroyed once.
        prop_assert_eq!(unsafe { ebbpool_pool_destroy(pool) }, EBBPOOL_OK);
    }
}
