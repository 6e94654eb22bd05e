//! What a pool cannot do without, and no more: finding the frame, and pinning it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashMap;

use super::{Rival, frames, sum, touch};

pub(super) fn all(pages: u32, memory: &Arc<[u8]>) -> Vec<Box<dyn Rival>> {
    let frames = frames(pages);
    let map: HashMap<u64, u32> = (0..).zip(frames.iter().copied()).collect();
    let array = Array { frames, memory: Arc::clone(memory) };
    let bare = Map { frames: map.clone(), memory: Arc::clone(memory) };
    let pinned = PinnedMap { frames: map, pins: (0..pages).map(|_| AtomicU32::new(0)).collect(), memory: Arc::clone(memory) };
    vec![Box::new(array), Box::new(bare), Box::new(pinned)]
}

struct Array {
    frames: Vec<u32>,
    memory: Arc<[u8]>,
}

impl Rival for Array {
    fn name(&self) -> String {
        "array".into()
    }
    fn promises(&self) -> &'static str {
        "nothing"
    }
    fn serve(&self, references: &[u32]) -> u64 {
        sum(references, |page| touch(&self.memory, self.frames[page as usize], page))
    }
}

struct Map {
    frames: HashMap<u64, u32>,
    memory: Arc<[u8]>,
}

impl Rival for Map {
    fn name(&self) -> String {
        "hashbrown".into()
    }
    fn promises(&self) -> &'static str {
        "nothing"
    }
    fn serve(&self, references: &[u32]) -> u64 {
        sum(references, |page| self.frames.get(&u64::from(page)).map_or(0, |&frame| touch(&self.memory, frame, page)))
    }
}

/// Pins in the low bits, and a reference bit that a second-chance policy would look at.
struct PinnedMap {
    frames: HashMap<u64, u32>,
    pins: Box<[AtomicU32]>,
    memory: Arc<[u8]>,
}

const REFERENCED: u32 = 1 << 31;

impl Rival for PinnedMap {
    fn name(&self) -> String {
        "hashbrown, pinned".into()
    }
    fn promises(&self) -> &'static str {
        "pin, reference bit; no inserts"
    }
    fn serve(&self, references: &[u32]) -> u64 {
        sum(references, |page| {
            let Some(&frame) = self.frames.get(&u64::from(page)) else {
                return 0;
            };
            let pins = &self.pins[frame as usize];
            if pins.fetch_add(1, Ordering::Acquire) & REFERENCED == 0 {
                pins.fetch_or(REFERENCED, Ordering::Relaxed);
            }
            let word = touch(&self.memory, frame, page);
            pins.fetch_sub(1, Ordering::Release);
            word
        })
    }
}
