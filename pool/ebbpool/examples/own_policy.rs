//! A policy of your own, run in the pool and compared with Ebbpool's online policies. This needs only the crate
//! `ebbpool`.

use ebbpool::policy::{Access, Capabilities, Frame, FrameLists, Page, Policy, names};
use ebbpool::storage::{MemoryStorage, Storage};
use ebbpool::{Asymmetry, OperationCosts, OptionsError, PoolError, PoolOptions};

const PAGES: u64 = 2_000;
const FRAMES: u32 = 200;
const REFERENCES: u64 = 40_000;

/// A page write costs as much as this many page reads.
const R: f64 = 8.0;

/// Least recently used, but a dirty page is passed over once before it is evicted.
struct SecondThoughts {
    order: FrameLists<1>,
    dirty: Vec<bool>,
    passed_over: Vec<bool>,
}

impl SecondThoughts {
    fn new(frames: u32) -> Self {
        SecondThoughts {
            order: FrameLists::new(frames),
            dirty: vec![false; frames as usize],
            passed_over: vec![false; frames as usize],
        }
    }
}

impl Policy for SecondThoughts {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn hit(&mut self, frame: Frame, access: Access) {
        self.order.move_to_mru(0, frame);
        self.dirty[frame as usize] |= access.is_write();
        self.passed_over[frame as usize] = false;
    }

    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        loop {
            let frame = self.order.find_from_lru(0, &may_evict)?;
            let at = frame as usize;
            if !self.dirty[at] || self.passed_over[at] {
                return Some(frame);
            }
            self.passed_over[at] = true;
            self.order.move_to_mru(0, frame);
        }
    }

    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.order.push_mru(0, frame);
        self.dirty[frame as usize] = access.is_write();
        self.passed_over[frame as usize] = false;
    }

    fn evicted(&mut self, frame: Frame) {
        self.order.remove(0, frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.dirty[frame as usize] = false;
    }
}

/// Page reads and writes of a workload in which a few pages get most of the reads, and others most of the writes.
fn reads_and_writes(options: PoolOptions) -> Result<(u64, u64), PoolError> {
    let storage = MemoryStorage::new(4096);
    storage.grow(PAGES).map_err(|source| PoolError::Grow { pages: PAGES, source })?;
    // With fixed costs, and no background threads, the pool does the same each time.
    let pool = options.fixed_costs(OperationCosts::from(Asymmetry::saturating(R))).background(false).open(storage)?;
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 33) % below
    };
    for _ in 0..REFERENCES {
        let page = (0..3).fold(PAGES, |below, _| random(below) + 1) - 1;
        match random(10) {
            0 | 1 => pool.fix_write(PAGES - 1 - page)?[0] ^= 1,
            _ => _ = pool.fix_read(page)?[0],
        }
    }
    let stats = pool.stats();
    Ok((stats.reads(), stats.writes()))
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let new = || PoolOptions::new(FRAMES);
    let own = reads_and_writes(new().own_policy(SecondThoughts::new(FRAMES)))?;
    let mut results = vec![("own", own)];
    for name in names() {
        match reads_and_writes(new().policy(name)?) {
            Ok(result) => results.push((name, result)),
            // It asks how often blocks were erased, and memory has no blocks.
            Err(PoolError::Options(OptionsError::EraseCounts { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let bill = |(reads, writes): (u64, u64)| reads as f64 + R * writes as f64;
    results.sort_by(|(_, one), (_, other)| bill(*one).total_cmp(&bill(*other)));
    for &(name, result) in &results {
        let (reads, writes) = result;
        println!("{name:<12} {reads:>6} reads {writes:>6} writes, bill at R = {R}: {}", bill(result));
    }
    let lru = results.iter().find(|(name, _)| *name == "lru");
    assert!(lru.is_some_and(|(_, lru)| own.1 < lru.1), "the own policy spares dirty pages");
    Ok(())
}
