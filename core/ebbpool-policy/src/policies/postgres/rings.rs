//! The private rings of frames through which large scans go (`freelist.c`: `GetBufferFromRing`, `AddBufferToRing`).

use crate::policy::Frame;

/// The most rings at a time. A scan that has made no request for longest gives up its ring; a server has a ring for
/// each scan, which ends with it.
const MOST_RINGS: usize = 64;

/// A slot that has not been filled.
const EMPTY: Frame = Frame::MAX;

/// The rings of the scans that made requests lately.
pub(super) struct ScanRings {
    rings: Vec<ScanRing>,
    /// Frames of a ring by the kind of its scan, from 1 to 3; 0 where such scans have none.
    sizes: [u32; 4],
    /// Requests so far, by which the rings' last uses are ordered.
    requests: u64,
    /// The ring of the last request.
    latest: usize,
}

struct ScanRing {
    /// The number and the kind of the scan.
    scan: (u32, u32),
    slots: Vec<Frame>,
    /// The slot used last.
    current: usize,
    last_use: u64,
}

impl ScanRings {
    /// No rings; `sizes` are those of scans that read, that fill a relation and of vacuums. A ring has at most an
    /// eighth of the frames, and at least one.
    pub(super) fn new(sizes: [u32; 3], frames: u32) -> Self {
        let [read, write, vacuum] = sizes.map(|size| size.min((frames / 8).max(1)));
        ScanRings { rings: Vec::new(), sizes: [0, read, write, vacuum], requests: 0, latest: 0 }
    }

    /// The ring of a scan, which is made if it has none; `None` if such scans have none.
    #[inline]
    pub(super) fn of(&mut self, scan: (u32, u32)) -> Option<usize> {
        let size = self.sizes[scan.1 as usize & 3];
        if size == 0 {
            return None;
        }
        self.requests += 1;
        let is_its = |ring: &ScanRing| ring.scan == scan;
        if !self.rings.get(self.latest).is_some_and(is_its) {
            let found = self.rings.iter().position(is_its);
            self.latest = found.unwrap_or_else(|| self.add(scan, size as usize));
        }
        self.rings[self.latest].last_use = self.requests;
        Some(self.latest)
    }

    #[cold]
    fn add(&mut self, scan: (u32, u32), size: usize) -> usize {
        let oldest = || (0..self.rings.len()).min_by_key(|&ring| self.rings[ring].last_use);
        let at = match oldest() {
            Some(oldest) if self.rings.len() >= MOST_RINGS => oldest,
            _ => {
                self.rings.push(ScanRing { scan, slots: Vec::new(), current: 0, last_use: 0 });
                self.rings.len() - 1
            }
        };
        let ring = &mut self.rings[at];
        ring.scan = scan;
        ring.slots.clear();
        ring.slots.resize(size, EMPTY);
        ring.current = 0;
        at
    }

    /// Goes on to the ring's next slot, and returns its frame if it has one.
    #[inline]
    pub(super) fn advance(&mut self, ring: usize) -> Option<Frame> {
        let ring = self.rings.get_mut(ring)?;
        ring.current += 1;
        if ring.current >= ring.slots.len() {
            ring.current = 0;
        }
        let frame = ring.slots[ring.current];
        (frame != EMPTY).then_some(frame)
    }

    /// The ring gives up the frame in its current slot.
    pub(super) fn empty(&mut self, ring: usize) {
        self.fill(ring, EMPTY);
    }

    /// The ring's current slot gets the frame.
    #[inline]
    pub(super) fn fill(&mut self, ring: usize, frame: Frame) {
        if let Some(ring) = self.rings.get_mut(ring) {
            ring.slots[ring.current] = frame;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_at_most_an_eighth_of_the_frames_and_at_least_one() {
        assert_eq!(ScanRings::new([32, 2048, 256], 1024).sizes, [0, 32, 128, 128]);
        assert_eq!(ScanRings::new([32, 0, 32], 7).sizes, [0, 1, 0, 1]);
    }

    #[test]
    fn slots_are_filled_in_turn_and_used_again() {
        let mut rings = ScanRings::new([2, 2, 2], 64);
        let ring = rings.of((5, 1)).expect("a ring");
        for (frame, before) in [(10, None), (11, None), (12, Some(10)), (13, Some(11))] {
            assert_eq!(rings.advance(ring), before);
            rings.fill(ring, frame);
        }
        assert_eq!(rings.of((5, 1)), Some(ring));
        assert_ne!(rings.of((5, 2)), Some(ring));
        assert_eq!(rings.of((5, 1)), Some(ring));
        assert_eq!(rings.advance(ring), Some(12));
    }

    #[test]
    fn a_slot_that_was_given_up_is_empty() {
        let mut rings = ScanRings::new([2, 2, 2], 64);
        let ring = rings.of((5, 1)).expect("a ring");
        for frame in [10, 11] {
            rings.advance(ring);
            rings.fill(ring, frame);
        }
        assert_eq!(rings.advance(ring), Some(10));
        rings.empty(ring);
        assert_eq!(rings.advance(ring), Some(11));
        assert_eq!(rings.advance(ring), None);
    }

    #[test]
    fn the_ring_not_used_for_longest_is_given_up() {
        let mut rings = ScanRings::new([1, 1, 1], 8);
        for number in 0..MOST_RINGS as u32 {
            let ring = rings.of((number, 1)).expect("a ring");
            rings.advance(ring);
            rings.fill(ring, number);
        }
        rings.of((0, 1));
        let another = rings.of((1000, 1)).expect("a ring");
        assert_eq!(rings.advance(another), None);
        let first = rings.of((0, 1)).expect("a ring");
        assert_eq!(rings.advance(first), Some(0));
        let second = rings.of((1, 1)).expect("a ring");
        assert_eq!(rings.advance(second), None);
    }
}
