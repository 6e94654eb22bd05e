//! Deterministic random traces on which different policies behave differently.

/// A small generator of pseudo-random numbers (Steele, Lea and Flood's SplitMix64).
#[derive(Clone, Debug)]
pub struct RandomWorkload {
    state: u64,
}

impl RandomWorkload {
    /// The generator of that seed.
    pub fn new(seed: u64) -> RandomWorkload {
        RandomWorkload { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `end` - 1; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.bits() % end }
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A number from 0 to `end` - 1, all orders of magnitude equally likely.
    pub fn below_skewed(&mut self, end: u64) -> u64 {
        let bits = u64::from(64 - end.leading_zeros()); // enough to write `end`
        let width = self.below(bits + 1);
        self.below((1u64 << width.min(63)).min(end))
    }
}

/// The kind of a phase of the workload.
#[derive(Clone, Copy)]
enum PhaseKind {
    /// A few pages of a working set repeatedly, the first ones most often.
    Skewed,
    /// One range of pages repeatedly in order.
    Loop,
    /// A range of pages once, with references to hot pages in between.
    Scan,
    /// Short runs of neighbouring pages at random positions.
    Runs,
    /// A page referenced some references ago.
    Again,
    /// Any page.
    Uniform,
}

/// Makes `references` references to about `pages` pages, the same ones for the same arguments.
///
/// Phases of skewed working sets, loops, scans, runs of neighbours, re-references at all
/// distances and uniform references follow each other, each with its own share of writes, which
/// may depend on the page. The seed modulo 4 chooses the page numbers: 0 and 1 count from 0, 2
/// leaves gaps after every 16 pages, 3 counts down from `u64::MAX`.
pub fn workload(seed: u64, references: usize, pages: u64) -> Vec<(u64, bool)> {
    let pages = pages.max(1);
    let random = &mut RandomWorkload::new(seed);
    let mut trace: Vec<(u64, bool)> = Vec::new();
    while trace.len() < references {
        let mut phase = Phase::draw(random, references, pages);
        let end = (trace.len() + phase.length).min(references);
        while trace.len() < end {
            let page = phase.page(random, &trace, pages) % pages;
            let write = phase.is_write(random, page, pages);
            trace.push((page, write));
        }
    }
    let name = |page: u64| match seed % 4 {
        0 | 1 => page,
        2 => page / 16 * 1_000_003 + page % 16,
        _ => u64::MAX - page,
    };
    let named = trace.into_iter().map(|(page, write)| (name(page), write));
    named.collect()
}

/// A part of the workload whose references are drawn alike.
struct Phase {
    kind: PhaseKind,
    /// References, unless the workload ends before.
    length: usize,
    /// Per cent of the references, or of the pages, that are writes.
    write_share: u64,
    /// Some pages are written and the others read.
    writes_by_page: bool,
    salt: u64,
    /// Per cent of the references that repeat the last one.
    repeat_share: u64,
    /// Pages that the phase references, and the first of them.
    size: u64,
    start: u64,
    run_at: u64,
    run_left: u64,
    step: u64,
}

impl Phase {
    fn draw(random: &mut RandomWorkload, references: usize, pages: u64) -> Phase {
        let kind = match random.below(8) {
            0 | 1 => PhaseKind::Skewed,
            2 => PhaseKind::Loop,
            3 => PhaseKind::Scan,
            4 => PhaseKind::Runs,
            5 | 6 => PhaseKind::Again,
            _ => PhaseKind::Uniform,
        };
        // Some phases reference all pages more than once; there are always a dozen phases or more.
        let length = 8 + random.below(2 * pages) + random.below(2) * random.below(4 * pages);
        let length = (length as usize).min(8 + references / 16);
        let write_share = [0, 5, 20, 50, 80, 100][random.below(6) as usize];
        // In half of the phases some pages are written and the others read.
        let writes_by_page = random.chance(50);
        let salt = random.below(4) << 32;
        let repeat_share = [0, 10, 40][random.below(3) as usize];
        // A part of the pages, in half of the phases all of them.
        let size = if random.chance(50) { pages } else { 1 + random.below(pages) };
        let start = random.below(pages);
        Phase {
            kind,
            length,
            write_share,
            writes_by_page,
            salt,
            repeat_share,
            size,
            start,
            run_at: start,
            run_left: 0,
            step: 0,
        }
    }

    /// The next page, modulo `pages`.
    fn page(&mut self, random: &mut RandomWorkload, trace: &[(u64, bool)], pages: u64) -> u64 {
        if let Some((last, _)) = trace.last()
            && random.chance(self.repeat_share)
        {
            return *last;
        }
        match self.kind {
            PhaseKind::Skewed => self.start + random.below_skewed(self.size),
            PhaseKind::Loop => {
                self.step += 1;
                self.start + self.step % self.size
            }
            PhaseKind::Scan => {
                if random.chance(30) {
                    random.below_skewed(1 + pages / 4)
                } else {
                    self.step += 1;
                    self.start + self.step
                }
            }
            PhaseKind::Runs => {
                if self.run_left == 0 {
                    self.run_at = random.below(self.size);
                    self.run_left = 1 + random.below(12);
                }
                self.run_left -= 1;
                self.run_at += 1;
                self.start + self.run_at
            }
            PhaseKind::Again => {
                let longest = (trace.len() as u64).min(2 * pages);
                let back = if random.chance(50) { random.below(longest) } else { random.below_skewed(longest) };
                match trace.len() {
                    0 => self.start,
                    len => trace[len - 1 - back as usize].0,
                }
            }
            PhaseKind::Uniform => random.below(pages),
        }
    }

    fn is_write(&self, random: &mut RandomWorkload, page: u64, pages: u64) -> bool {
        if !self.writes_by_page {
            return random.chance(self.write_share);
        }
        // Neighbours are of the same kind, with few exceptions.
        let group = page / 4.min(1 + pages / 16);
        let written = RandomWorkload::new(self.salt + group).below(100) < self.write_share;
        written != random.chance(3)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::count;

    #[test]
    fn deterministic_and_of_the_requested_length() {
        for seed in 0..8 {
            let trace = workload(seed, 1000, 20);
            assert_eq!(trace.len(), 1000);
            assert_eq!(trace, workload(seed, 1000, 20));
            let pages: BTreeSet<u64> = trace.iter().map(|(page, _)| *page).collect();
            assert_eq!(pages.len(), 20);
            assert_eq!(pages.contains(&u64::MAX), seed % 4 == 3);
        }
        assert!(workload(1, 0, 5).is_empty());
        assert_eq!(workload(1, 7, 1).len(), 7);
    }

    #[test]
    fn hits_and_misses_reads_and_writes_at_all_sizes() {
        for (frames, pages, references) in [(1, 2, 500), (2, 4, 500), (7, 14, 2000), (64, 160, 10_000), (1000, 2000, 20_000)] {
            for seed in 0..4 {
                let trace = workload(seed, references, pages);
                let counts = count("lru", frames, &trace, 1.0, 0, false, 16);
                let context = format!("{frames} frames, seed {seed}: {counts:?}");
                assert!(counts.hits * 10 > counts.references, "{context}");
                assert!(counts.misses * 20 > counts.references, "{context}");
                assert!(counts.writes * 50 > counts.references, "{context}");
                assert!(counts.writes * 10 < counts.reads * 9, "{context}");
            }
        }
    }

    #[test]
    fn policies_differ() {
        let specs = [
            "fifo", "lru", "clock", "lirs", "s3-fifo", "sieve", "w-tinylfu", "belady", "cflru", "cflru-c", "lru-wsr",
            "lirs-wsr", "ccf-lru", "ad-lru", "casa", "ref:block=8,victims=2", "cfdc", "cfdc:cluster=16", "fd-static",
            "fd-buffer:interval=300",
        ];
        let trace = workload(1, 5000, 160);
        let mut seen = BTreeSet::new();
        for spec in specs {
            let counts = count(spec, 64, &trace, 8.0, 0, false, 16);
            let row = (counts.reads, counts.writes, counts.cluster_switches);
            assert!(seen.insert(row), "{spec} behaves as another policy: {row:?}");
        }
    }
}
