//! The frames that are likely to be evicted next.

use crate::policy::Frame;

/// The most candidates there can be.
pub(super) const MOST: usize = 64;

/// The value of keeping a page, compared as a whole number. Of pages of equal value the one
/// referenced last has the higher one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PageValue(u64);

impl PageValue {
    /// Above the value of any page.
    const ANY: PageValue = PageValue((f32::INFINITY.to_bits() as u64) << 32 | u32::MAX as u64);

    /// `value` is 0 or more.
    #[inline]
    pub(super) fn new(value: f32, referenced_at: u32) -> Self {
        PageValue(u64::from(value.to_bits()) << 32 | u64::from(referenced_at))
    }

    /// The value without the position of the last reference.
    #[inline]
    pub(super) fn alone(self) -> f32 {
        f32::from_bits((self.0 >> 32) as u32)
    }
}

/// A few frames and the values of their pages, in no order.
pub(super) struct Candidates {
    values: [PageValue; MOST],
    frames: [Frame; MOST],
    len: usize,
    size: usize,
}

impl Candidates {
    /// At most `size` candidates, which is from 1 to [`MOST`].
    pub(super) fn new(size: usize) -> Self {
        Candidates { values: [PageValue(0); MOST], frames: [0; MOST], len: 0, size: size.clamp(1, MOST) }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The candidate at an index below `len`.
    #[inline]
    pub(super) fn frame(&self, at: usize) -> Frame {
        self.frames[at]
    }

    /// Sets the value of the candidate at an index.
    #[inline]
    pub(super) fn revalue(&mut self, at: usize, value: PageValue) {
        self.values[at] = value;
    }

    /// Sets the value of the candidate in a frame.
    #[inline]
    pub(super) fn revalue_frame(&mut self, frame: Frame, value: PageValue) {
        let found = self.frames[..self.len].iter().position(|&it| it == frame);
        if let Some(at) = found {
            self.values[at] = value;
        }
    }

    /// Removes the candidate at an index; the last one moves to that index.
    #[inline]
    pub(super) fn remove(&mut self, at: usize) {
        self.len -= 1;
        self.frames.swap(at, self.len);
        self.values.swap(at, self.len);
    }

    /// Restores the first `len` candidates, which were removed, if none was added since.
    pub(super) fn resume(&mut self, len: usize) {
        self.len = len;
    }

    /// The candidate that the next one replaces.
    #[inline]
    pub(super) fn weakest(&self) -> WeakestCandidate {
        if self.len < self.size {
            return WeakestCandidate { at: self.len, value: PageValue::ANY };
        }
        let mut weakest = WeakestCandidate { at: 0, value: self.values[0] };
        for (at, &value) in self.values[..self.len].iter().enumerate().skip(1) {
            if value > weakest.value {
                weakest = WeakestCandidate { at, value };
            }
        }
        weakest
    }

    /// Adds a frame that is not a candidate at an index. Returns the candidate that it replaces, if
    /// there is one.
    #[inline]
    pub(super) fn insert(&mut self, at: usize, frame: Frame, value: PageValue) -> Option<Frame> {
        let other = (at < self.len).then(|| self.frames[at]);
        self.len = self.len.max(at + 1);
        self.frames[at] = frame;
        self.values[at] = value;
        other
    }

    /// The index, the frame and the value of the candidate of least value.
    #[inline]
    pub(super) fn least(&self) -> Option<(usize, Frame, PageValue)> {
        let values = self.values[..self.len].iter().enumerate();
        let (at, &value) = values.min_by_key(|&(_, value)| value)?;
        Some((at, self.frames[at], value))
    }
}

/// An index for a candidate whose value is below `value`.
#[derive(Clone, Copy)]
pub(super) struct WeakestCandidate {
    pub(super) at: usize,
    pub(super) value: PageValue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_valuable_stay() {
        let mut candidates = Candidates::new(2);
        let least = |candidates: &Candidates| candidates.least().map(|(_, frame, _)| frame);
        let consider = |candidates: &mut Candidates, frame, value| {
            let (weakest, value) = (candidates.weakest(), PageValue::new(value, 0));
            let is_inserted = value < weakest.value;
            is_inserted.then(|| candidates.insert(weakest.at, frame, value))
        };
        assert_eq!(consider(&mut candidates, 7, 3.0), Some(None));
        assert_eq!(consider(&mut candidates, 8, 2.0), Some(None));
        assert_eq!(consider(&mut candidates, 9, 3.0), None);
        assert_eq!(consider(&mut candidates, 9, 2.5), Some(Some(7)));
        assert_eq!(least(&candidates), Some(8));

        candidates.remove(0);
        candidates.remove(0);
        assert_eq!(least(&candidates), None);
        candidates.resume(2);
        assert_eq!(least(&candidates), Some(8));
        candidates.remove(1);
        assert_eq!((candidates.len(), least(&candidates)), (1, Some(8)));
    }

    #[test]
    fn of_equals_the_one_referenced_first_is_chosen() {
        assert!(PageValue::new(1.0, 5) < PageValue::new(1.0, 6));
        assert!(PageValue::new(1.0, 6) < PageValue::new(1.5, 5));
        assert!(PageValue::new(0.0, 6) < PageValue::new(1e-30, 5));
        assert!(PageValue::new(f32::INFINITY, 6) < PageValue::ANY);
        assert_eq!(PageValue::new(1.5, 6).alone(), 1.5);
    }
}
