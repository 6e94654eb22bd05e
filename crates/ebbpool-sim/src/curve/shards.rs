//! Spatially hashed samples of a trace (SHARDS: Waldspurger et al. 2015).

use serde::{Deserialize, Serialize};

use super::lru::Traffic;
use crate::engine::Chunk;

/// Which pages stand for all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageSample {
    /// The share of the pages, above 0; 1 is all of them.
    pub rate: f64,
    /// So many neighbouring pages are in it together or not at all: the clusters or erase blocks
    /// of a policy that has such.
    pub grain: u64,
}

impl PageSample {
    /// Every page.
    pub const ALL: PageSample = PageSample {
        rate: 1.0,
        grain: 1,
    };

    /// True if every page is in it.
    pub fn is_all(&self) -> bool {
        self.rate >= 1.0
    }

    /// True if the page is in it.
    fn has(&self, page: u64) -> bool {
        const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
        // The conversion saturates, so that all pages are in a sample of all but one in 2^64.
        self.is_all() || mixed(page / self.grain) < (self.rate * TWO_TO_64) as u64
    }
}

impl Traffic {
    /// What was counted over a sample, as what it stands for of the whole. Dividing by the rate asked
    /// for, and not by the share of the references that the sample came to have, puts the
    /// difference among the hits, where it belongs: it is the hottest pages' (SHARDS-adj).
    pub(crate) fn scaled_up(self, sample: &PageSample) -> Traffic {
        if sample.is_all() {
            return self;
        }
        let scaled = |count: u64| (count as f64 / sample.rate).round() as u64;
        Traffic {
            reads: scaled(self.reads),
            writes: scaled(self.writes),
            dirty_left: scaled(self.dirty_left),
        }
    }
}

/// A bijection of 64 bits in which each bit of the result depends on all of the number's, the same
/// on every machine (the finaliser of SplitMix64; Steele et al. 2014).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Takes a sample out of a stream of references.
pub(crate) struct Sampler {
    sample: PageSample,
    /// The sample's own number of each page; [`OUTSIDE`] for those not in it.
    numbers: Vec<u32>,
    pages: Vec<u64>,
    references: Vec<u32>,
    next: Vec<u32>,
}

const OUTSIDE: u32 = u32::MAX;

impl Sampler {
    pub(crate) fn new(sample: PageSample) -> Self {
        Sampler {
            sample,
            numbers: Vec::new(),
            pages: Vec::new(),
            references: Vec::new(),
            next: Vec::new(),
        }
    }

    pub(crate) fn sample(&self) -> PageSample {
        self.sample
    }

    /// Takes the references of a chunk that are in the sample.
    pub(crate) fn take(&mut self, chunk: &Chunk) {
        self.references.clear();
        self.next.clear();
        for &page in &chunk.pages[self.numbers.len()..] {
            if self.sample.has(page) {
                self.numbers.push(self.pages.len() as u32);
                self.pages.push(page);
            } else {
                self.numbers.push(OUTSIDE);
            }
        }
        for (at, &reference) in chunk.references.iter().enumerate() {
            let number = self.numbers[(reference >> 1) as usize];
            if number != OUTSIDE {
                self.references.push(number << 1 | reference & 1);
                self.next.extend(chunk.next.get(at));
            }
        }
    }

    /// What was taken last.
    pub(crate) fn taken(&self) -> Chunk<'_> {
        Chunk {
            references: &self.references,
            next: &self.next,
            pages: &self.pages,
        }
    }

    /// Every page of the sample.
    pub(crate) fn pages(&self) -> &[u64] {
        &self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(sample: PageSample, pages: impl Iterator<Item = u64>) -> f64 {
        let (mut all, mut inside) = (0, 0);
        for page in pages {
            all += 1;
            inside += u32::from(sample.has(page));
        }
        f64::from(inside) / f64::from(all)
    }

    #[test]
    fn a_sample_has_its_share_of_neighbours_and_of_strided_pages() {
        for rate in [0.01, 0.08, 0.5] {
            let sample = PageSample { rate, grain: 1 };
            for stride in [1, 64, 1 << 20] {
                let share = share(sample, (0..200_000).map(|at| at * stride));
                assert!((share / rate - 1.0).abs() < 0.06, "{rate} {stride}: {share}");
            }
        }
    }

    #[test]
    fn a_larger_sample_has_all_of_a_smaller_one() {
        let (small, large) = (
            PageSample { rate: 0.02, grain: 1 },
            PageSample { rate: 0.04, grain: 1 },
        );
        assert!((0..100_000).filter(|&page| small.has(page)).all(|page| large.has(page)));
    }

    #[test]
    fn the_pages_of_a_grain_stay_together() {
        let sample = PageSample {
            rate: 0.25,
            grain: 16,
        };
        for block in 0..5000 {
            let pages = 16 * block..16 * (block + 1);
            let inside = pages.filter(|&page| sample.has(page)).count();
            assert!(inside == 0 || inside == 16, "{inside} of block {block}");
        }
        assert!((share(sample, 0..80_000) / 0.25 - 1.0).abs() < 0.06);
    }

    #[test]
    fn a_sampled_chunk_is_the_chunk_without_the_other_pages() {
        let sample = PageSample {
            rate: 0.3,
            grain: 1,
        };
        let pages: Vec<u64> = (0..60).map(|page| page * 1000).collect();
        let references: Vec<u32> = (0..400u32).map(|at| (at * at % 60) << 1 | at % 2).collect();
        let next: Vec<u32> = (1000..1400).collect();
        let mut sampler = Sampler::new(sample);
        let mut taken = Vec::new();
        // The second chunk knows pages that the first one did not.
        for (range, known) in [(0..150, 40), (150..400, 60)] {
            let references: Vec<u32> = references[range.clone()]
                .iter()
                .map(|reference| reference % (2 * known))
                .collect();
            sampler.take(&Chunk {
                references: &references,
                next: &next[range],
                pages: &pages[..known as usize],
            });
            let chunk = sampler.taken();
            assert_eq!(chunk.references.len(), chunk.next.len());
            taken.extend(chunk.references.iter().zip(chunk.next).map(|(reference, next)| {
                (chunk.pages[(reference >> 1) as usize], reference & 1, *next)
            }));
        }
        let expected: Vec<(u64, u32, u32)> = references
            .iter()
            .zip(&next)
            .enumerate()
            .map(|(at, (reference, next))| {
                let known = if at < 150 { 40 } else { 60 };
                let reference = reference % (2 * known);
                (pages[(reference >> 1) as usize], reference & 1, *next)
            })
            .filter(|(page, ..)| sample.has(*page))
            .collect();
        assert!(expected.len() > 50);
        assert_eq!(taken, expected);
    }
}
