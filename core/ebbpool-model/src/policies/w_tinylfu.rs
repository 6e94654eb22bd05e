//! w-tinylfu ("Classics"; Einziger et al. 2017).

use std::collections::{BTreeMap, BTreeSet};

use crate::buffer::Policy;
use crate::list::List;

/// Counters have four bits.
const MOST: u8 = 15;
/// The sample is this many references per frame.
const SAMPLE: u64 = 10;

/// A count-min sketch of how often pages were referenced recently. It has one block of four rows of
/// 32 counters for eight frames. A page has one block, and in it one counter of each row.
struct Sketch {
    blocks: u64,
    sample: u64,
    references: u64,
    /// By block, row and column; 0 where there is none.
    counters: BTreeMap<(u64, u64, u64), u8>,
}

/// The last step of SplitMix64, which spreads page numbers over 64 bits.
fn mix(page: u64) -> u64 {
    let mut z = page;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Sketch {
    fn new(m: usize) -> Sketch {
        Sketch { blocks: m.div_ceil(8) as u64, sample: SAMPLE * m as u64, references: 0, counters: BTreeMap::new() }
    }

    /// The upper half of the mixed page number chooses the block; the lowest 20 bits, five for each
    /// row, the columns.
    fn cells(&self, page: u64) -> [(u64, u64, u64); 4] {
        let mixed = mix(page);
        let block = ((mixed >> 32) * self.blocks) >> 32;
        [0, 1, 2, 3].map(|row| (block, row, (mixed >> (5 * row)) % 32))
    }

    fn estimate(&self, page: u64) -> u8 {
        let counters = self.cells(page).map(|cell| self.counters.get(&cell));
        let counts = counters.into_iter().map(|count| count.copied().unwrap_or(0));
        counts.min().expect("four rows")
    }

    /// Raises those of the page's counters that are the least. At the end of the sample all
    /// counters, and the number of references, are halved.
    fn count(&mut self, page: u64) {
        let least = self.estimate(page);
        for cell in self.cells(page) {
            let counter = self.counters.entry(cell).or_insert(0);
            if *counter == least {
                *counter = (*counter + 1).min(MOST);
            }
        }
        self.references += 1;
        if self.references == self.sample {
            self.references /= 2;
            for counter in self.counters.values_mut() {
                *counter /= 2;
            }
        }
    }
}

/// An LRU window, and behind it a segmented LRU that a page enters if it was referenced more often
/// than the page it would replace.
pub(crate) struct WTinyLfu {
    window_size: usize,
    protected_size: usize,
    window: List<()>,
    probation: List<()>,
    protected: List<()>,
    sketch: Sketch,
}

impl WTinyLfu {
    /// `window_size` is at least 1; the main part has the other frames, of which `protected_size`
    /// are protected.
    pub(crate) fn new(m: usize, window_size: usize, protected_size: usize) -> WTinyLfu {
        WTinyLfu {
            window_size,
            protected_size,
            window: List::new(),
            probation: List::new(),
            protected: List::new(),
            sketch: Sketch::new(m),
        }
    }

    fn list_of(&mut self, page: u64) -> &mut List<()> {
        let mut lists = [&mut self.window, &mut self.probation, &mut self.protected].into_iter();
        let found = lists.find(|list| list.contains(page));
        found.expect("the page is resident")
    }
}

impl Policy for WTinyLfu {
    fn hit(&mut self, page: u64, _write: bool) {
        self.sketch.count(page);
        if self.probation.contains(page) {
            self.probation.take(page);
            self.protected.push(page, ());
            if self.protected.len() > self.protected_size {
                let (oldest, ()) = self.protected.items.remove(0);
                self.probation.push(oldest, ());
            }
        } else {
            self.list_of(page).move_to_mru(page);
        }
    }

    fn miss(&mut self, page: u64, _write: bool) {
        self.sketch.count(page);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let of_main = self.probation.lru(pinned);
        let of_main = of_main.or_else(|| self.protected.lru(pinned));
        let candidate = self.window.lru(pinned);
        let (Some(candidate), Some(of_main)) = (candidate, of_main) else {
            return candidate.or(of_main).expect("an unpinned page");
        };
        if self.window.len() < self.window_size {
            // The window has room for the missed page.
            return of_main;
        }
        if self.sketch.estimate(candidate) <= self.sketch.estimate(of_main) {
            return candidate;
        }
        self.window.take(candidate);
        self.probation.push(candidate, ());
        of_main
    }

    fn admit(&mut self, page: u64, _write: bool) {
        self.window.push(page, ());
        if self.window.len() > self.window_size {
            let (oldest, ()) = self.window.items.remove(0);
            self.probation.push(oldest, ());
        }
    }

    fn evict(&mut self, page: u64) {
        self.list_of(page).take(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sketch_ages() {
        let mut sketch = Sketch::new(2);
        for _ in 0..19 {
            sketch.count(7);
        }
        assert_eq!((sketch.estimate(7), sketch.references), (15, 19));
        sketch.count(u64::MAX);
        assert_eq!((sketch.estimate(7), sketch.references), (7, 10));
        assert_eq!(sketch.estimate(u64::MAX), 0);
    }

    #[test]
    fn the_sketch_never_counts_too_little() {
        let mut sketch = Sketch::new(1000);
        let mut counts: BTreeMap<u64, u8> = BTreeMap::new();
        for (page, _) in crate::workload::workload(3, 9_999, 5000) {
            sketch.count(page);
            let count = counts.entry(page).or_insert(0);
            *count = (*count + 1).min(MOST);
        }
        let too_much = counts.iter().filter(|(page, count)| {
            let estimate = sketch.estimate(**page);
            assert!(estimate >= **count);
            estimate > **count
        });
        assert!(too_much.count() * 20 < counts.len(), "of {}", counts.len());
    }
}
