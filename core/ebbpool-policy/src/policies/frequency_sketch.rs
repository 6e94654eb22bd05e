//! Estimates how often pages were referenced recently (TinyLFU, Einziger et al. 2017).

use std::hint::black_box;

use crate::policy::Page;

const ROWS: u32 = 4;
/// A row of a block is two words of 16 counters.
const WORDS_OF_ROW: u32 = 2;
const WORDS_OF_BLOCK: u32 = ROWS * WORDS_OF_ROW;
const BITS_OF_COUNTER: u32 = 4;
const MOST: u8 = 15;
/// All bits but the highest of each counter.
const LOWER_BITS: u64 = 0x7777_7777_7777_7777;
/// References of the sample, per frame.
const SAMPLE: u64 = 10;

/// A count-min sketch with four rows of 4-bit counters, which are halved at the end of each
/// sample.
///
/// The counters of a page are in one block of the size of a cache line, so that counting touches
/// one line. There is one word of 16 counters per frame.
pub(super) struct FrequencySketch {
    words: Vec<u64>,
    blocks: u64,
    references: u64,
    sample: u64,
}

/// A page number with its bits mixed, from which the positions of the page's counters follow.
#[derive(Clone, Copy, Default)]
pub(super) struct SketchKey(u64);

impl SketchKey {
    /// The last step of SplitMix64: different pages have different keys.
    #[inline]
    pub(super) fn for_page(page: Page) -> Self {
        SketchKey(ebbpool_cost::mixed(page))
    }
}

/// The position of a counter: its word, and its lowest bit in the word.
#[derive(Clone, Copy)]
struct CounterPosition {
    word: usize,
    shift: u32,
}

impl FrequencySketch {
    pub(super) fn new(frames: u32) -> Self {
        let blocks = u64::from(frames.div_ceil(WORDS_OF_BLOCK));
        FrequencySketch {
            words: vec![0; blocks as usize * WORDS_OF_BLOCK as usize],
            blocks,
            references: 0,
            sample: SAMPLE * u64::from(frames),
        }
    }

    /// References to the page in the current sample, and half of those before, at most 15.
    #[inline]
    pub(super) fn frequency(&self, key: SketchKey) -> u8 {
        let counts = self.counters_of(key).map(|position| self.counter(position));
        counts.into_iter().fold(MOST, u8::min)
    }

    /// Counts a reference. Only the lowest of the page's counters are raised: the others already
    /// count too many references.
    #[inline]
    pub(super) fn count(&mut self, key: SketchKey) {
        let frequency = self.frequency(key);
        if frequency < MOST {
            for position in self.counters_of(key) {
                if self.counter(position) == frequency {
                    self.words[position.word] += 1 << position.shift;
                }
            }
        }
        self.references += 1;
        if self.references == self.sample {
            self.age();
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, key: SketchKey) {
        black_box(self.words[self.block(key)]);
    }

    #[cold]
    fn age(&mut self) {
        self.references /= 2;
        for word in &mut self.words {
            *word = (*word >> 1) & LOWER_BITS;
        }
    }

    /// The first word of the page's block.
    #[inline]
    fn block(&self, key: SketchKey) -> usize {
        (((key.0 >> 32) * self.blocks) >> 32) as usize * WORDS_OF_BLOCK as usize
    }

    #[inline]
    fn counters_of(&self, key: SketchKey) -> [CounterPosition; ROWS as usize] {
        let block = self.block(key);
        [0, 1, 2, 3].map(|row| {
            let position = (key.0 >> (5 * row)) as u32 % 32;
            CounterPosition {
                word: block + (WORDS_OF_ROW * row + position / 16) as usize,
                shift: position % 16 * BITS_OF_COUNTER,
            }
        })
    }

    #[inline]
    fn counter(&self, position: CounterPosition) -> u8 {
        (self.words[position.word] >> position.shift) as u8 & MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stop_and_are_halved() {
        let mut sketch = FrequencySketch::new(2);
        let key = SketchKey::for_page(u64::MAX);
        for count in 1..20 {
            sketch.count(key);
            assert_eq!(sketch.frequency(key), MOST.min(count));
        }
        sketch.count(key);
        assert_eq!((sketch.frequency(key), sketch.references), (7, 10));
    }

    #[test]
    fn no_counter_spills_into_its_neighbour() {
        let mut sketch = FrequencySketch::new(1);
        sketch.sample = u64::MAX;
        for page in 0..2000 {
            (0..20).for_each(|_| sketch.count(SketchKey::for_page(page)));
        }
        assert!(sketch.words.iter().all(|&word| word == u64::MAX));
        sketch.age();
        assert!(sketch.words.iter().all(|&word| word == LOWER_BITS));
    }
}
