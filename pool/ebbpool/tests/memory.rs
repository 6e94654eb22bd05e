//! The memory of a process with a pool. This is the only test of its program, since it limits the memory of all threads, and
//! measures that of all.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::io;

use ebbpool::policy::{Access, Capabilities, Frame, Page, Policy};
use ebbpool::storage::{MemoryStorage, Read, Storage, Write};
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

/// In KiB.
fn resident_set() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its resident set");
    line.trim_end_matches("kB").trim().parse().expect("a number")
}

/// A smaller pool gives memory back to the system.
fn memory_is_given_back() {
    struct Zeros;
    impl Storage for Zeros {
        fn page_size(&self) -> usize {
            65_536
        }
        fn pages(&self) -> io::Result<u64> {
            Ok(1 << 20)
        }
        fn grow(&self, _pages: u64) -> io::Result<()> {
            Ok(())
        }
        fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
            for read in reads {
                read.buffer.fill(0);
                read.outcome = Ok(());
            }
            None
        }
        fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
            writes.iter_mut().for_each(|write| write.outcome = Ok(()));
            None
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn describe(&self) -> String {
            "zeros".into()
        }
    }
    let pool = PoolOptions::new(16).most_frames(1 << 14).open(Zeros).expect("a pool");
    let before = resident_set();
    pool.resize(2048).expect("128 MiB");
    for page in 0..2048 {
        pool.fix_write(page).expect("a page")[0] = 1;
    }
    let with_all = resident_set();
    pool.resize(16).expect("1 MiB");
    let after = resident_set();
    assert!(with_all >= before + (120 << 10), "{before} KiB, then {with_all}");
    assert!(after <= before + (8 << 10), "{before} KiB, {with_all}, and at last {after}");
}

#[test]
fn memory_is_refused_and_given_back() {
    a_pool_without_memory_for_any_of_its_tables_is_refused();
    memory_is_given_back();
}
