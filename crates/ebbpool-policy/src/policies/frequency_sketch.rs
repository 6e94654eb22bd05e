//! How often pages were referenced lately, estimated (TinyLFU, Einziger et al. 2017).

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
/// The counters of a page lie in one block of a cache line, so that counting looks at one line.
/// There is a word of 16 counters for each frame.
pub(super) struct FrequencySketch {
    words: Vec<u64>,
    blocks: u64,
    references: u64,
    sample: u64,
}

/// A page number with its bits mixed, which says where the page's counters are.
#[derive(Clone, Copy, Default)]
pub(super) struct Key(u64);

impl Key {
    /// The last step of SplitMix64: different pages have different keys.
    #[inline]
    pub(super) fn of(page: Page) -> Self {
        let mixed = (page ^ (page >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Key(mixed ^ (mixed >> 31))
    }
}

/// A counter: its word, and by how many bits the word is to be shifted.
#[derive(Clone, Copy)]
struct Place {
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

    /// References to the page in the current sample, and half of those before it, at most 15.
    #[inline]
    pub(super) fn frequency(&self, key: Key) -> u8 {
        let counts = self.places(key).map(|place| self.counter(place));
        counts.into_iter().fold(MOST, u8::min)
    }

    /// Counts a reference. Only the lowest of the page's counters are raised: the others count
    /// too much already.
    #[inline]
    pub(super) fn count(&mut self, key: Key) {
        let frequency = self.frequency(key);
        if frequency < MOST {
            for place in self.places(key) {
                if self.counter(place) == frequency {
                    self.words[place.word] += 1 << place.shift;
                }
            }
        }
        self.references += 1;
        if self.references == self.sample {
            self.age();
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, key: Key) {
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
    fn block(&self, key: Key) -> usize {
        (((key.0 >> 32) * self.blocks) >> 32) as usize * WORDS_OF_BLOCK as usize
    }

    #[inline]
    fn places(&self, key: Key) -> [Place; ROWS as usize] {
        let block = self.block(key);
        [0, 1, 2, 3].map(|row| {
            let place = (key.0 >> (5 * row)) as u32 % 32;
            Place {
                word: block + (WORDS_OF_ROW * row + place / 16) as usize,
                shift: place % 16 * BITS_OF_COUNTER,
            }
        })
    }

    #[inline]
    fn counter(&self, place: Place) -> u8 {
        (self.words[place.word] >> place.shift) as u8 & MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stop_and_are_halved() {
        let mut sketch = FrequencySketch::new(2);
        let key = Key::of(u64::MAX);
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
            (0..20).for_each(|_| sketch.count(Key::of(page)));
        }
        assert!(sketch.words.iter().all(|&word| word == u64::MAX));
        sketch.age();
        assert!(sketch.words.iter().all(|&word| word == LOWER_BITS));
    }
}
