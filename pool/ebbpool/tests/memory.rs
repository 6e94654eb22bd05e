//! A pool for which the system has no memory is refused. This is the only test of its program, since it limits the memory of all
//! threads.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use ebbpool::policy::{Access, Capabilities, Frame, Page, Policy};
use ebbpool::storage::MemoryStorage;
use ebbpool::{PoolError, PoolOptions};

const FRAMES: u32 = 1 << 20;
const PAGE_SIZE: usize = 64;
const MIB: u64 = 1 << 20;

/// A policy without memory for frames, which no pool of this test asks for a victim.
struct HoldsNothing;

impl Policy for HoldsNothing {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn hit(&mut self, _: Frame, _: Access) {}
    fn admit(&mut self, _: Frame, _: Page, _: Access) {}
    fn evicted(&mut self, _: Frame) {}
    fn cleaned(&mut self, _: Frame) {}
    fn victim<F: Fn(Frame) -> bool>(&mut self, _: Option<(Page, Access)>, _: F) -> Option<Frame> {
        None
    }
}

/// The bytes of addresses that this process uses.
fn used() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("it can be read");
    let pages = pages.split(' ').next().and_then(|it| it.parse::<u64>().ok());
    pages.expect("a number of pages") * 4096
}

fn limit(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is valid for reads.
    let outcome = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(outcome, 0);
}

#[test]
fn a_pool_without_memory_for_any_of_its_tables_is_refused() {
    let (mut refused, mut opened) = (0, 0);
    // The frames and their tables take about 130 MiB.
    for more in (48..200).step_by(4) {
        let storage = MemoryStorage::new(PAGE_SIZE);
        let options = PoolOptions::new(FRAMES).own_policy(HoldsNothing).background(false);
        limit(used() + more * MIB);
        let pool = options.open(storage);
        limit(libc::RLIM_INFINITY);
        match pool {
            Ok(_) => opened += 1,
            Err(PoolError::Memory { frames: FRAMES, .. }) => refused += 1,
            Err(error) => panic!("{more} MiB: {error}"),
        }
    }
    assert!(refused > 10 && opened > 0, "{refused} refused, {opened} opened");
}
