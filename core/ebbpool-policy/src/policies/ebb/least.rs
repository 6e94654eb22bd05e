//! The frames of least value among those offered, in memory of the caller.

use super::candidates::PageValue;
use crate::policy::Frame;

/// A heap of the least valuable frames so far, the most valuable of them at its root. It stores frames only, and computes their
/// values anew: these do not change meanwhile.
pub(super) struct LeastFrames<'f, V> {
    frames: &'f mut [Frame],
    len: usize,
    value: V,
}

impl<'f, V: Fn(Frame) -> PageValue> LeastFrames<'f, V> {
    /// No frames yet, and at most as many as there is room for.
    pub(super) fn new(room: &'f mut [Frame], value: V) -> Self {
        LeastFrames { frames: room, len: 0, value }
    }

    /// The most frames.
    pub(super) fn most(&self) -> usize {
        self.frames.len()
    }

    /// The most valuable of the frames, if there is no room for more.
    pub(super) fn most_valuable(&self) -> Option<Frame> {
        let is_full = self.len == self.frames.len();
        self.frames.first().copied().filter(|_| is_full)
    }

    fn value(&self, at: usize) -> PageValue {
        (self.value)(self.frames[at])
    }

    /// Whether a frame that was not offered before is one of the least valuable.
    pub(super) fn would_take(&self, frame: Frame) -> bool {
        self.len < self.frames.len() || self.len > 0 && (self.value)(frame) < self.value(0)
    }

    /// Takes a frame that was not offered before, if it is one of the least valuable.
    pub(super) fn offer(&mut self, frame: Frame) {
        if !self.would_take(frame) {
            return;
        }
        if self.len < self.frames.len() {
            self.frames[self.len] = frame;
            self.len += 1;
            self.rise(self.len - 1);
        } else {
            self.frames[0] = frame;
            self.sink();
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.value(at) > self.value((at - 1) / 2) {
            self.frames.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self) {
        let mut at = 0;
        loop {
            let children = (2 * at + 1..self.len.min(2 * at + 3)).max_by_key(|&it| self.value(it));
            let Some(child) = children.filter(|&child| self.value(child) > self.value(at)) else {
                return;
            };
            self.frames.swap(at, child);
            at = child;
        }
    }

    /// Sorts the frames, the least valuable first, and returns their number.
    pub(super) fn into_sorted(self) -> usize {
        self.frames[..self.len].sort_unstable_by_key(|&frame| (self.value)(frame));
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_valuable_are_found_in_order() {
        let value = |frame: Frame| PageValue::new(((frame * 37) % 101) as f32, frame);
        for room in [0, 1, 2, 7, 100, 200] {
            let mut frames = vec![0; room];
            let mut least = LeastFrames::new(&mut frames, value);
            (0..100).for_each(|frame| least.offer(frame));
            let found = least.into_sorted();
            let mut all: Vec<Frame> = (0..100).collect();
            all.sort_by_key(|&frame| value(frame));
            assert_eq!(found, room.min(100));
            assert_eq!(frames[..found], all[..found]);
        }
    }
}
