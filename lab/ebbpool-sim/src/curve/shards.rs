//! Spatially hashed samples of a trace (SHARDS: Waldspurger et al. 2015).

use ebbpool_policy::{PageClass, RecordedRequest};

use crate::engine::Chunk;

/// The number of parts of a sample, each with a buffer of its own: their differences show how far
/// their mean may be off.
pub(super) const PARTS: u64 = 4;

/// The sample of pages that stands for all pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageSample {
    /// The share of the pages, above 0; 1 is all of them.
    pub rate: f64,
    /// The number of neighbouring pages that are in the sample together or not at all: the clusters
    /// or erase blocks of a policy that has such.
    pub grain: u64,
}

impl PageSample {
    /// Every page.
    pub const ALL: PageSample = PageSample { rate: 1.0, grain: 1 };

    /// True if every page is in the sample.
    pub fn is_all(&self) -> bool {
        self.rate >= 1.0
    }

    /// True if the page is in the sample.
    pub fn contains(&self, page: u64) -> bool {
        self.part_of(page).is_some()
    }

    /// The number of disjoint samples that it consists of, each with the same share of the pages.
    pub fn parts(&self) -> u64 {
        if self.is_all() { 1 } else { PARTS }
    }

    /// The share of the pages in each part.
    pub(crate) fn part_rate(&self) -> f64 {
        self.rate / self.parts() as f64
    }

    /// The part that a page belongs to.
    fn part_of(&self, page: u64) -> Option<u64> {
        const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
        if self.is_all() {
            return Some(0);
        }
        let width = ((self.part_rate() * TWO_TO_64) as u64).max(1);
        let part = mixed(page / self.grain) / width;
        (part < PARTS).then_some(part)
    }
}

/// The first number of SplitMix64 with this seed.
fn mixed(number: u64) -> u64 {
    ebbpool_cost::mixed(number.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// Takes a sample from a stream of references.
pub(crate) struct Sampler {
    sample: PageSample,
    /// By page, its number within its part, times the parts, plus the part; [`OUTSIDE`] for pages
    /// not in the sample.
    numbers: Vec<u32>,
    parts: Vec<SampledPart>,
}

const OUTSIDE: u32 = u32::MAX;

/// References to the pages of one part of a sample, which are numbered anew.
#[derive(Default)]
struct SampledPart {
    pages: Vec<u64>,
    /// The classes of the pages; empty if the chunks have none.
    classes: Vec<PageClass>,
    references: Vec<u32>,
    /// The times and rings of the references; empty if the chunks have none.
    requests: Vec<RecordedRequest>,
    /// The positions, among the references of the part, before which there is a checkpoint.
    checkpoints: Vec<usize>,
    /// Which references write all of their page; empty if the chunks do not say it.
    whole: Vec<bool>,
    /// The numbers that end, with their positions.
    ends: Vec<(usize, u32)>,
    /// References taken earlier.
    start: usize,
}

impl Sampler {
    pub(crate) fn new(sample: PageSample) -> Self {
        Sampler { sample, numbers: Vec::new(), parts: (0..sample.parts()).map(|_| SampledPart::default()).collect() }
    }

    pub(crate) fn sample(&self) -> PageSample {
        self.sample
    }

    /// Takes the references of a chunk that are in the sample.
    pub(crate) fn take(&mut self, chunk: &Chunk) {
        let parts = self.parts.len() as u32;
        for part in &mut self.parts {
            part.start += part.references.len();
            part.references.clear();
            part.requests.clear();
            part.checkpoints.clear();
            part.whole.clear();
            part.ends.clear();
        }
        let known = self.numbers.len();
        for (at, &page) in (known..).zip(&chunk.pages[known..]) {
            let number = self.sample.part_of(page).map(|part| {
                let SampledPart { pages, classes, .. } = &mut self.parts[part as usize];
                pages.push(page);
                classes.extend(chunk.classes.get(at));
                (pages.len() as u32 - 1) * parts + part as u32
            });
            self.numbers.push(number.unwrap_or(OUTSIDE));
        }
        let mut checkpoints = chunk.checkpoints.iter().peekable();
        let mut ends = chunk.ends.iter().peekable();
        for at in 0..=chunk.references.len() {
            while let Some(&(_, ended)) = ends.next_if(|(position, _)| *position == chunk.start + at) {
                let number = self.numbers[ended as usize];
                if number != OUTSIDE {
                    let part = &mut self.parts[(number % parts) as usize];
                    part.ends.push((part.start + part.references.len(), number / parts));
                }
            }
            let Some(&reference) = chunk.references.get(at) else {
                break;
            };
            while checkpoints.next_if(|&&it| it == chunk.start + at).is_some() {
                for part in &mut self.parts {
                    part.checkpoints.push(part.start + part.references.len());
                }
            }
            let number = self.numbers[(reference >> 1) as usize];
            if number != OUTSIDE {
                let part = &mut self.parts[(number % parts) as usize];
                part.references.push((number / parts) << 1 | reference & 1);
                part.requests.extend(chunk.requests.get(at));
                part.whole.extend(chunk.whole.get(at));
            }
        }
    }

    /// The references of a part that were taken last, as a chunk without the future.
    pub(crate) fn part_chunk(&self, part: usize) -> Chunk<'_> {
        let part = &self.parts[part];
        Chunk {
            references: &part.references,
            start: part.start,
            future: None,
            pages: &part.pages,
            classes: &part.classes,
            requests: &part.requests,
            checkpoints: &part.checkpoints,
            whole: &part.whole,
            ends: &part.ends,
            trims: &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(sample: PageSample, pages: impl Iterator<Item = u64>) -> f64 {
        let (mut all, mut inside) = (0, 0);
        for page in pages {
            all += 1;
            inside += u32::from(sample.part_of(page).is_some());
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
    fn the_parts_are_of_one_size() {
        let sample = PageSample { rate: 0.4, grain: 1 };
        let mut pages = [0u32; 4];
        for part in (0..100_000).filter_map(|page| sample.part_of(page)) {
            pages[part as usize] += 1;
        }
        assert!(pages.iter().all(|pages| pages.abs_diff(10_000) < 500), "{pages:?}");
        assert_eq!(PageSample::ALL.part_of(7), Some(0));
    }

    #[test]
    fn the_pages_of_a_grain_stay_together() {
        let sample = PageSample { rate: 0.25, grain: 16 };
        for block in 0..5000 {
            let pages = 16 * block..16 * (block + 1);
            let parts: Vec<_> = pages.map(|page| sample.part_of(page)).collect();
            assert!(parts.windows(2).all(|pair| pair[0] == pair[1]), "block {block}");
        }
        assert!((share(sample, 0..80_000) / 0.25 - 1.0).abs() < 0.06);
    }

    #[test]
    fn a_sampled_chunk_is_the_chunk_without_the_other_pages() {
        let sample = PageSample { rate: 0.3, grain: 1 };
        let pages: Vec<u64> = (0..60).map(|page| page * 1000).collect();
        let references: Vec<u32> = (0..400u32).map(|at| ((at * at % 60) << 1) | (at % 2)).collect();
        let classes: Vec<PageClass> = pages.iter().map(|page| *page as u32 + 7).collect();
        let request = |at: usize| RecordedRequest { time_us: at as u64, bypass: 5 };
        let mut sampler = Sampler::new(sample);
        let checkpoints = [0, 70, 149];
        let mut part_chunk = vec![Vec::new(); 4];
        // The second chunk has pages that the first one did not have.
        for (range, count) in [(0..150, 40), (150..400, 60)] {
            let requests: Vec<RecordedRequest> = range.clone().map(request).collect();
            let references: Vec<u32> = references[range.clone()].iter().map(|reference| reference % (2 * count)).collect();
            let checkpoints = checkpoints.map(|position| range.start + position);
            sampler.take(&Chunk {
                references: &references,
                start: range.start,
                future: None,
                pages: &pages[..count as usize],
                classes: &classes[..count as usize],
                requests: &requests,
                checkpoints: &checkpoints,
                whole: &[],
                ends: &[],
                trims: &[],
            });
            for (part, part_chunk) in part_chunk.iter_mut().enumerate() {
                let chunk = sampler.part_chunk(part);
                assert_eq!(chunk.start, part_chunk.len());
                // Each checkpoint is before the same reference as in the whole trace, or at the end.
                for (&found, position) in chunk.checkpoints.iter().zip(checkpoints) {
                    let times = chunk.requests.iter().map(|request| request.time_us as usize);
                    let before = times.filter(|&time| time < position).count();
                    assert_eq!(found, chunk.start + before);
                }
                assert_eq!(chunk.checkpoints.len(), checkpoints.len());
                let expected = chunk.pages.iter().map(|page| *page as u32 + 7);
                assert!(expected.eq(chunk.classes.iter().copied()));
                assert_eq!(chunk.references.len(), chunk.requests.len());
                let references = chunk.references.iter().zip(chunk.requests);
                part_chunk.extend(references.map(|(reference, request)| {
                    let page = chunk.pages[(reference >> 1) as usize];
                    (page, reference & 1, request.time_us)
                }));
            }
        }
        let mut expected = vec![Vec::new(); 4];
        for (at, reference) in references.iter().enumerate() {
            let count = if at < 150 { 40 } else { 60 };
            let reference = reference % (2 * count);
            let page = pages[(reference >> 1) as usize];
            if let Some(part) = sample.part_of(page) {
                expected[part as usize].push((page, reference & 1, at as u64));
            }
        }
        assert!(expected.iter().map(Vec::len).sum::<usize>() > 50);
        assert_eq!(part_chunk, expected);
    }
}
