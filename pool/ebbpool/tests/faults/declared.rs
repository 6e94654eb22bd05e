//! What a caller's policy declares is what the pool calls.

#[path = "../../../../core/ebbpool-policy/tests/shared/noting.rs"]
mod noting;

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use ebbpool::storage::FaultyDisk;
use ebbpool_policy::{Access, Capabilities, Frame, Page, Policy};

use noting::Noting;

use crate::{PAGE, get, options, put};

#[test]
fn a_pool_calls_what_an_own_policy_declares_and_nothing_else() {
    let called = |declares, background| {
        let called = Arc::new(Mutex::new(Capabilities::empty()));
        let policy = Noting { declares, called: Arc::clone(&called), queue: VecDeque::new() };
        let disk = FaultyDisk::new(1);
        let pool = options(8)
            .own_policy(policy)
            .background(background)
            .double_write(disk.pages("area", PAGE))
            .open(disk.pages("data", PAGE))
            .unwrap();
        for page in 0..100 {
            put(&pool, page, page as u8).unwrap();
            drop(pool.of_class(3).fix_read(page * 7 % 100).unwrap());
        }
        for page in 0..100 {
            assert_eq!(get(&pool, page).unwrap(), page as u8, "{declares:?}");
        }
        pool.close().unwrap();
        *called.lock().unwrap()
    };
    let served = Capabilities::EVICTS_EARLY
        | Capabilities::EVICTS_MORE
        | Capabilities::PADDING
        | Capabilities::WRITES_TOGETHER
        | Capabilities::COSTS
        | Capabilities::CLASSES;
    let not_served = Capabilities::SERVER - Capabilities::CHECKPOINTS;
    for background in [false, true] {
        for declares in Capabilities::all().iter() {
            if (served | not_served).contains(declares) {
                let due = declares & served;
                assert_eq!(called(declares, background), due, "{declares:?}");
            }
        }
        assert_eq!(called(Capabilities::empty(), background), Capabilities::empty());
        assert_eq!(called(served | not_served, background), served);
    }
}

/// Declares everything that a pool serves, and names any frames: pinned, clean and empty ones, the victim, and some twice.
struct Careless {
    random: u64,
    frames: u32,
    held: BTreeSet<Frame>,
}

impl Careless {
    fn below(&mut self, bound: u32) -> u32 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005) + 1;
        ((self.random >> 33) % u64::from(bound)) as u32
    }

    /// Some frames, which depend on the victim.
    fn any(&self, victim: Frame) -> impl Iterator<Item = Frame> {
        let random = self.random >> 20;
        let frames = u64::from(self.frames) + 2;
        (0..random % 6).map(move |at| (random / (at + 1) + u64::from(victim)) % frames).map(|frame| frame as Frame)
    }
}

impl Policy for Careless {
    const CAPABILITIES: Capabilities = Capabilities::all()
        .difference(Capabilities::OFFLINE)
        .difference(Capabilities::CHECKPOINTS)
        .difference(Capabilities::ERASE_COUNTS);

    fn hit(&mut self, _: Frame, _: Access) {}
    fn evicts_early(&mut self) -> bool {
        !self.held.is_empty() && self.below(3) == 0
    }
    fn victim<F: Fn(Frame) -> bool>(&mut self, _: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let start = self.below(self.frames);
        let mut in_turn = self.held.range(start..).chain(self.held.range(..start)).copied();
        in_turn.find(|&frame| may_evict(frame))
    }
    fn evicted_with(&self, victim: Frame, leaving: &mut Vec<Frame>) {
        leaving.extend(self.any(victim));
    }
    fn padded_block(&self, victim: Frame) -> Option<NonZeroU64> {
        let blocks = [0, 1, 3, 8, 1 << 40, u64::MAX];
        NonZeroU64::new(blocks[(self.random >> 40) as usize % blocks.len()].min(u64::from(victim) << 60 | 8))
    }
    fn cleaned_with(&self, victim: Frame, _: usize, together: &mut Vec<Frame>) {
        together.extend(self.any(victim).chain([victim]).chain(self.any(victim)));
    }
    fn admit(&mut self, frame: Frame, _: Page, _: Access) {
        self.held.insert(frame);
    }
    fn remember(&mut self, _: Frame) -> Option<u32> {
        let ghosts = [None, Some(0), Some(u32::MAX), Some(1 << 31), Some(self.random as u32)];
        ghosts[self.below(5) as usize]
    }
    fn not_admitted(&mut self) -> Option<u32> {
        self.remember(0)
    }
    fn evicted(&mut self, frame: Frame) {
        self.held.remove(&frame);
    }
    fn cleaned(&mut self, _: Frame) {}
}

#[test]
fn no_write_is_lost_whatever_frames_an_own_policy_names() {
    for seed in 0..40u64 {
        let frames = [2, 3, 8, 33][seed as usize % 4];
        let policy = Careless { random: seed, frames, held: BTreeSet::new() };
        let disk = FaultyDisk::new(seed);
        let pool = options(frames)
            .own_policy(policy)
            .background(seed % 3 == 0)
            .double_write(disk.pages("area", PAGE))
            .open(disk.pages("data", PAGE))
            .unwrap();
        let mut written = [0; 60];
        let mut random = seed;
        for at in 0..1500u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005) + 1;
            let page = (random >> 33) % 60;
            match random >> 60 {
                0..6 => {
                    written[page as usize] = at as u8;
                    put(&pool, page, at as u8).unwrap();
                }
                6..14 => assert_eq!(get(&pool, page).unwrap(), written[page as usize], "{seed}"),
                _ => {
                    let pinned = pool.fix_read(page).unwrap();
                    let other = (page + 1) % 60;
                    assert_eq!(get(&pool, other).unwrap(), written[other as usize], "{seed}");
                    assert_eq!(pinned[0], written[page as usize], "{seed}");
                }
            }
        }
        pool.close().unwrap();
        let pool = options(4).open(disk.pages("data", PAGE)).unwrap();
        for (page, byte) in (0..).zip(written) {
            assert_eq!(get(&pool, page).unwrap(), byte, "{seed}, page {page}");
        }
    }
}
