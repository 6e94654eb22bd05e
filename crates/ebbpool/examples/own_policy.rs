//! A policy of one's own, run in the pool and compared with one that Ebbpool has.

use ebbpool::PoolOptions;
use ebbpool::storage::{MemoryStorage, Storage};
use ebbpool_policy::{Access, Frame, Lists, Page, Policy};

const PAGES: u64 = 2_000;
const FRAMES: u32 = 200;
const REFERENCES: u64 = 40_000;

/// Least recently used, but a dirty page is passed over once before it goes.
struct SecondThoughts {
    order: Lists<1>,
    dirty: Vec<bool>,
    passed_over: Vec<bool>,
}

impl SecondThoughts {
    fn new(frames: u32) -> Self {
        SecondThoughts {
            order: Lists::new(frames),
            dirty: vec![false; frames as usize],
            passed_over: vec![false; frames as usize],
        }
    }
}

impl Policy for SecondThoughts {
    fn hit(&mut self, frame: Frame, access: Access) {
        self.order.move_to_mru(0, frame);
        self.dirty[frame as usize] |= access.is_write();
        self.passed_over[frame as usize] = false;
    }

    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        _incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        loop {
            let frame = self.order.find_from_lru(0, &may_go)?;
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

/// Page reads and writes of a workload in which few pages get most of the reads, and others most of the
/// writes.
fn reads_and_writes(options: PoolOptions) -> Result<(u64, u64), ebbpool::Error> {
    let storage = MemoryStorage::new(4096);
    storage.grow(PAGES).map_err(|source| ebbpool::Error::Grow {
        pages: PAGES,
        source,
    })?;
    // Alone, the pool does the same each time.
    let pool = options.background(false).open(storage)?;
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
    let lru = reads_and_writes(new().policy("lru")?)?;
    let cflru = reads_and_writes(new().policy("cflru")?)?;
    for (name, (reads, writes)) in [("own", own), ("lru", lru), ("cflru", cflru)] {
        println!(
            "{name:<6} {reads:>6} reads {writes:>6} writes, bill at R = 8: {}",
            reads + 8 * writes
        );
    }
    assert!(own.1 < lru.1, "the own policy spares dirty pages");
    Ok(())
}
