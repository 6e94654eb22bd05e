//! The caching problem as intervals between references, and the savings of holding them.

use crate::engine::AtEnd;

/// Intervals of one page that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IntervalRun {
    /// The first interval after it.
    end: u32,
    /// Holding all of them saves a write.
    saves_write: bool,
}

/// The possible savings on a bill in which all references miss and all writes are written back.
///
/// An interval lies between a reference and the next one to the same page, and takes a frame at all
/// positions between the two; holding the page saves the read. The intervals from one write of a
/// page to its next form a run that saves a write when all of them are held. Where dirty pages are
/// left at the end for free, the last write's run ends with an interval up to the end that saves no
/// read.
pub(super) struct Problem {
    /// Positions of the references that begin the intervals, page by page in order.
    starts: Vec<u32>,
    /// Positions of the references that end them; the trace's length for the end.
    ends: Vec<u32>,
    runs: Vec<IntervalRun>,
    /// The number of positions.
    pub(super) length: usize,
    /// Writes among the references.
    pub(super) writes: u64,
    /// Frames besides the one that the referenced page occupies.
    pub(super) spare_frames: f64,
    /// The asymmetry R.
    pub(super) asymmetry: f64,
}

impl Problem {
    /// References are page << 1 | write with pages numbered below `pages`.
    pub(super) fn new(references: &[u32], pages: usize, frames: u64, asymmetry: f64, at_end: AtEnd) -> Self {
        let mut problem = Problem {
            starts: Vec::with_capacity(references.len()),
            ends: Vec::with_capacity(references.len()),
            runs: Vec::new(),
            length: references.len(),
            writes: 0,
            spare_frames: frames.saturating_sub(1) as f64,
            asymmetry,
        };
        let by_page = Occurrences::new(references, pages);
        for page in 0..pages {
            problem.add(by_page.of_page(page), references, at_end);
        }
        problem
    }

    /// Adds a page and the positions of its references.
    fn add(&mut self, positions: &[u32], references: &[u32], at_end: AtEnd) {
        let mut written = false;
        for (index, &position) in positions.iter().enumerate() {
            if references[position as usize] & 1 == 1 {
                self.end_run(written);
                self.writes += 1;
                written = true;
            }
            let end = match positions.get(index + 1) {
                Some(&next) => next,
                None if written && at_end == AtEnd::Free => references.len() as u32,
                None => break,
            };
            self.starts.push(position);
            self.ends.push(end);
        }
        self.end_run(written && at_end == AtEnd::Free);
    }

    fn end_run(&mut self, saves_write: bool) {
        let end = self.starts.len() as u32;
        if self.runs.last().map_or(0, |run| run.end) < end {
            self.runs.push(IntervalRun { end, saves_write });
        }
    }

    /// Calls `each` with the intervals of every run, as (positions of beginnings, of ends), and
    /// whether the run saves a write.
    #[inline]
    pub(super) fn for_each_run(&self, mut each: impl FnMut(&[u32], &[u32], bool)) {
        let mut start = 0;
        for run in &self.runs {
            let range = start..run.end as usize;
            start = range.end;
            each(&self.starts[range.clone()], &self.ends[range], run.saves_write);
        }
    }

    /// The reads that holding the interval saves: none if it goes to the end of the trace.
    #[inline]
    pub(super) fn saved(&self, end: u32) -> f64 {
        f64::from(u8::from(end as usize != self.length))
    }

    /// The saving of holding the interval, less its price: `price(u)` is the price of a frame at all
    /// positions before u.
    #[inline]
    pub(super) fn gain(&self, start: u32, end: u32, price: &impl Fn(u32) -> f64) -> f64 {
        self.saved(end) - (price(end) - price(start + 1))
    }

    /// The bill of all references missing and all writes written back.
    pub(super) fn dearest(&self) -> f64 {
        self.length as f64 + self.asymmetry * self.writes as f64
    }
}

/// The positions of each page's references.
struct Occurrences {
    positions: Vec<u32>,
    /// The index of each page's first position, and the end of the last page's.
    firsts: Vec<u32>,
}

impl Occurrences {
    fn new(references: &[u32], pages: usize) -> Self {
        let mut firsts = vec![0; pages + 1];
        for reference in references {
            firsts[(reference >> 1) as usize + 1] += 1;
        }
        for page in 0..pages {
            firsts[page + 1] += firsts[page];
        }
        let mut next_index = firsts.clone();
        let mut positions = vec![0; references.len()];
        for (position, reference) in (0..).zip(references) {
            let index = &mut next_index[(reference >> 1) as usize];
            positions[*index as usize] = position;
            *index += 1;
        }
        Occurrences { positions, firsts }
    }

    fn of_page(&self, page: usize) -> &[u32] {
        &self.positions[self.firsts[page] as usize..self.firsts[page + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(at_end: AtEnd) -> Vec<(Vec<u32>, Vec<u32>, bool)> {
        // Page 0 is read, written, read, written, read; page 1 is read twice; page 2 is written.
        let references = [0, 2, 1, 0, 2, 1, 5, 0];
        let problem = Problem::new(&references, 3, 2, 8.0, at_end);
        assert_eq!((problem.length, problem.writes), (8, 3));
        assert_eq!((problem.spare_frames, problem.dearest()), (1.0, 32.0));
        let mut runs = Vec::new();
        problem.for_each_run(|starts, ends, saves| {
            runs.push((starts.to_vec(), ends.to_vec(), saves));
        });
        runs
    }

    #[test]
    fn runs_extend_from_write_to_write() {
        assert_eq!(
            runs(AtEnd::Flush),
            [(vec![0], vec![2], false), (vec![2, 3], vec![3, 5], true), (vec![5], vec![7], false), (vec![1], vec![4], false),]
        );
    }

    #[test]
    fn staying_saves_the_last_write_where_dirty_pages_are_left_for_free() {
        assert_eq!(
            runs(AtEnd::Free),
            [
                (vec![0], vec![2], false),
                (vec![2, 3], vec![3, 5], true),
                (vec![5, 7], vec![7, 8], true),
                (vec![1], vec![4], false),
                (vec![6], vec![8], true),
            ]
        );
    }
}
