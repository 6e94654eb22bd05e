//! The frames in their order, as PostgreSQL has them.

use prefetch_index::prefetch_index;

use crate::lists::fewest_chances;
use crate::policy::Frame;

/// The most that a usage count counts (`BM_MAX_USAGE_COUNT`).
const MOST_USAGE: u8 = 5;

const USAGE: u8 = 7;
const DIRTY: u8 = 1 << 3;
const CHECKPOINT: u8 = 1 << 4;
const OCCUPIED: u8 = 1 << 5;

/// Usage counts and flags by frame, and the clock's hand.
pub(super) struct Frames {
    states: Vec<u8>,
    hand: u32,
    /// The steps of the hand so far.
    steps: u64,
    occupied: u32,
}

impl Frames {
    pub(super) fn new(frames: u32) -> Self {
        Frames { states: vec![0; frames as usize], hand: 0, steps: 0, occupied: 0 }
    }

    /// The number of frames.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.states.len() as u32
    }

    /// True if no frame is empty.
    #[inline]
    pub(super) fn are_full(&self) -> bool {
        self.occupied >= self.count()
    }

    /// The steps of the hand so far, from frame 0 on.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Counts a hit, in a ring only up to 1 (`PinBuffer`), and marks the page dirty if it is written.
    #[inline]
    pub(super) fn hit(&mut self, frame: Frame, through_ring: bool, write: bool) {
        let state = &mut self.states[frame as usize];
        let most = if through_ring { 1 } else { MOST_USAGE };
        *state += u8::from(*state & USAGE < most);
        *state |= DIRTY * u8::from(write);
    }

    /// A page is in the frame now.
    #[inline]
    pub(super) fn admit(&mut self, frame: Frame, write: bool) {
        self.states[frame as usize] = OCCUPIED | 1 | (DIRTY * u8::from(write));
        self.occupied += 1;
    }

    /// The frame is empty.
    #[inline]
    pub(super) fn evicted(&mut self, frame: Frame) {
        self.states[frame as usize] = 0;
        self.occupied = self.occupied.saturating_sub(1);
    }

    /// The page in the frame is written.
    #[inline]
    pub(super) fn cleaned(&mut self, frame: Frame) {
        self.states[frame as usize] &= !(DIRTY | CHECKPOINT);
    }

    /// True if the frame has a page that no other than its ring has used lately.
    #[inline]
    pub(super) fn is_reusable_by_ring(&self, frame: Frame) -> bool {
        let state = self.states[frame as usize];
        state & OCCUPIED != 0 && state & USAGE <= 1
    }

    /// True if the hand would take the frame: it is empty, or its count is 0.
    #[inline]
    pub(super) fn is_reusable(&self, frame: Frame) -> bool {
        self.states[frame as usize] & USAGE == 0
    }

    #[inline]
    pub(super) fn is_dirty(&self, frame: Frame) -> bool {
        self.states[frame as usize] & DIRTY != 0
    }

    /// The next checkpoint writes the page in the frame, unless it is written before.
    pub(super) fn mark_for_checkpoint(&mut self, frame: Frame) {
        self.states[frame as usize] |= CHECKPOINT;
    }

    pub(super) fn is_marked_for_checkpoint(&self, frame: Frame) -> bool {
        self.states[frame as usize] & CHECKPOINT != 0
    }

    /// Moves the hand to the next frame with a count of 0, and lowers the counts that it passes (`StrategyGetBuffer`).
    /// `None` if every page is pinned.
    #[inline]
    pub(super) fn sweep(&mut self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let frames = self.count();
        let mut pinned = 0;
        while pinned < frames {
            let frame = self.hand;
            self.steps += 1;
            self.hand += 1;
            if self.hand == frames {
                self.hand = 0;
            }
            let state = &mut self.states[frame as usize];
            if *state & OCCUPIED == 0 || !may_evict(frame) {
                pinned += 1;
            } else if *state & USAGE == 0 {
                return Some(frame);
            } else {
                *state -= 1;
                pinned = 0;
            }
        }
        // The hand stands where it stood, and has not made a turn that the background writer should know of.
        self.steps -= u64::from(pinned);
        None
    }

    /// The frame that [`sweep`](Self::sweep) would return. The hand stays, and no count is lowered: of the frames that may
    /// be evicted, the first from the hand on of those with the lowest count.
    pub(super) fn next(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let in_turn = (self.hand..self.count()).chain(0..self.hand);
        let occupied = in_turn.filter(|&frame| self.states[frame as usize] & OCCUPIED != 0);
        fewest_chances(occupied, may_evict, |frame| self.states[frame as usize] & USAGE)
    }

    #[inline]
    pub(super) fn prefetch(&self, frame: Frame) {
        prefetch_index(&self.states, frame as usize);
    }
}
