//! The frames that are likely to go next.

use crate::policy::Frame;

/// The most candidates there can be.
pub(super) const MOST: usize = 64;

/// What keeping a page is worth, so that worths are compared as whole numbers. Of pages worth the
/// same the one referenced last is worth more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Worth(u64);

impl Worth {
    /// More than any page is worth.
    const ANY: Worth = Worth((f32::INFINITY.to_bits() as u64) << 32 | u32::MAX as u64);

    /// `worth` is 0 or more.
    #[inline]
    pub(super) fn new(worth: f32, referenced_at: u64) -> Self {
        Worth(u64::from(worth.to_bits()) << 32 | u64::from(referenced_at as u32))
    }

    /// Without regard to references.
    #[inline]
    pub(super) fn alone(self) -> f32 {
        f32::from_bits((self.0 >> 32) as u32)
    }
}

/// A few frames and what their pages are worth, in no order.
pub(super) struct Candidates {
    worths: [Worth; MOST],
    frames: [Frame; MOST],
    len: usize,
    size: usize,
}

impl Candidates {
    /// At most `size` candidates, which is from 1 to [`MOST`].
    pub(super) fn new(size: usize) -> Self {
        Candidates {
            worths: [Worth(0); MOST],
            frames: [0; MOST],
            len: 0,
            size: size.clamp(1, MOST),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The candidate at a place below `len`.
    #[inline]
    pub(super) fn frame(&self, at: usize) -> Frame {
        self.frames[at]
    }

    /// The candidate at a place is worth so much now.
    #[inline]
    pub(super) fn revalue(&mut self, at: usize, worth: Worth) {
        self.worths[at] = worth;
    }

    /// Gives up the candidate at a place; the last one takes that place.
    #[inline]
    pub(super) fn give_up(&mut self, at: usize) {
        self.len -= 1;
        self.frames.swap(at, self.len);
        self.worths.swap(at, self.len);
    }

    /// Has the first `len` candidates again, which were given up, if none was taken since.
    pub(super) fn resume(&mut self, len: usize) {
        self.len = len;
    }

    /// Which candidate the next goes in place of.
    #[inline]
    pub(super) fn weakest(&self) -> Weakest {
        if self.len < self.size {
            return Weakest {
                at: self.len,
                worth: Worth::ANY,
                next: Worth::ANY,
            };
        }
        let mut weakest = Weakest {
            at: 0,
            worth: self.worths[0],
            next: Worth(0),
        };
        for (at, &worth) in self.worths[..self.len].iter().enumerate().skip(1) {
            if worth > weakest.worth {
                weakest.next = weakest.worth;
                (weakest.at, weakest.worth) = (at, worth);
            } else {
                weakest.next = weakest.next.max(worth);
            }
        }
        weakest
    }

    /// Takes a frame that is not a candidate, for the one at that place if there is one.
    #[inline]
    pub(super) fn take(&mut self, at: usize, frame: Frame, worth: Worth) -> Option<Frame> {
        let other = (at < self.len).then(|| self.frames[at]);
        self.len = self.len.max(at + 1);
        self.frames[at] = frame;
        self.worths[at] = worth;
        other
    }

    /// The frame whose page is worth least.
    #[inline]
    pub(super) fn least(&self) -> Option<Frame> {
        let worths = self.worths[..self.len].iter().zip(&self.frames);
        worths
            .min_by_key(|&(worth, _)| worth)
            .map(|(_, &frame)| frame)
    }
}

/// A place for a candidate worth less than `worth`.
#[derive(Clone, Copy)]
pub(super) struct Weakest {
    pub(super) at: usize,
    pub(super) worth: Worth,
    /// Of the others the most that any is worth.
    pub(super) next: Worth,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_stay() {
        let mut candidates = Candidates::new(2);
        let consider = |candidates: &mut Candidates, frame, worth| {
            let (weakest, worth) = (candidates.weakest(), Worth::new(worth, 0));
            let taken = worth < weakest.worth;
            taken.then(|| candidates.take(weakest.at, frame, worth))
        };
        assert_eq!(consider(&mut candidates, 7, 3.0), Some(None));
        assert_eq!(consider(&mut candidates, 8, 2.0), Some(None));
        assert_eq!(consider(&mut candidates, 9, 3.0), None);
        assert_eq!(consider(&mut candidates, 9, 2.5), Some(Some(7)));
        assert_eq!(candidates.least(), Some(8));

        candidates.give_up(0);
        candidates.give_up(0);
        assert_eq!(candidates.least(), None);
        candidates.resume(2);
        assert_eq!(candidates.least(), Some(8));
        candidates.give_up(1);
        assert_eq!((candidates.len(), candidates.frame(0)), (1, 8));
    }

    #[test]
    fn of_equals_the_one_referenced_first_goes() {
        assert!(Worth::new(1.0, 5) < Worth::new(1.0, 6));
        assert!(Worth::new(1.0, 6) < Worth::new(1.5, 5));
        assert!(Worth::new(0.0, 6) < Worth::new(1e-30, 5));
        assert!(Worth::new(f32::INFINITY, 6) < Worth::ANY);
        assert_eq!(Worth::new(1.5, 6).alone(), 1.5);
    }
}
