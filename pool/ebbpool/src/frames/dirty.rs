//! The set of dirty frames, so that a checkpoint need not look at the others.

use crate::boxed::boxed;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, fence};

const BITS: usize = u64::BITS as usize;

/// One bit for each frame, and one bit for each 64 of these bits that are not all clear.
#[derive(Debug)]
pub(crate) struct DirtySet {
    frames: Box<[AtomicU64]>,
    some: Box<[AtomicU64]>,
    count: AtomicUsize,
    /// Held while frames are removed, and while they are listed.
    removal: Mutex<()>,
}

impl DirtySet {
    /// A set without a frame; `None` if there is no memory for it.
    pub(crate) fn new(frames: u32) -> Option<Self> {
        let words = (frames as usize).div_ceil(BITS);
        let clear = |count: usize| boxed(count, || AtomicU64::new(0));
        Some(DirtySet {
            frames: clear(words)?,
            some: clear(words.div_ceil(BITS))?,
            count: AtomicUsize::new(0),
            removal: Mutex::new(()),
        })
    }

    /// The number of dirty frames. For a moment it may be too large, but never too small.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn insert(&self, frame: u32) {
        let (word, bit) = word_and_bit(frame as usize);
        // Before a thread that removes the frame can count it off.
        self.count.fetch_add(1, Ordering::Relaxed);
        if self.frames[word].fetch_or(bit, Ordering::AcqRel) & bit != 0 {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        // One of two threads sees what the other has stored: this one the group's bit, which `forget_word` has cleared,
        // or that one the frame's. Without the fences in both a processor may load before it stores.
        fence(Ordering::SeqCst);
        let (group, bit) = word_and_bit(word);
        if self.some[group].load(Ordering::Acquire) & bit == 0 {
            self.some[group].fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// Removes a frame, unless it is dirty by then. A list that is made at the same time contains the frame if it is
    /// dirty: otherwise a checkpoint would overlook a page. A caller that makes the frame clean does so before the call.
    pub(crate) fn remove_unless(&self, frame: u32, is_dirty: impl FnOnce() -> bool) {
        let _removal = self.removal.lock();
        self.remove(frame);
        if is_dirty() {
            self.insert(frame);
        }
    }

    /// Under the lock: otherwise a frame that is removed between another thread's question whether it is dirty and its
    /// insertion would stay.
    fn remove(&self, frame: u32) {
        let (word, bit) = word_and_bit(frame as usize);
        if self.frames[word].fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The frames that are dirty now, ascending. A frame that becomes dirty or clean meanwhile may be among them or
    /// not.
    pub(crate) fn frames(&self) -> Vec<u32> {
        let _removal = self.removal.lock();
        let mut found = Vec::with_capacity(self.count());
        for (group, some) in self.some.iter().enumerate() {
            for word in ones(some.load(Ordering::Acquire)).map(|at| group * BITS + at) {
                let bits = self.frames[word].load(Ordering::Acquire);
                if bits == 0 {
                    self.forget_word(group, word);
                }
                found.extend(ones(bits).map(|at| (word * BITS + at) as u32));
            }
        }
        found
    }

    /// Clears the bit of a word that was all clear, and does not overlook a frame that another thread inserts
    /// meanwhile.
    fn forget_word(&self, group: usize, word: usize) {
        let (_, bit) = word_and_bit(word);
        self.some[group].fetch_and(!bit, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        if self.frames[word].load(Ordering::Acquire) != 0 {
            self.some[group].fetch_or(bit, Ordering::AcqRel);
        }
    }
}

fn word_and_bit(at: usize) -> (usize, u64) {
    (at / BITS, 1 << (at % BITS))
}

fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (word != 0).then(|| word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        at
    })
}
