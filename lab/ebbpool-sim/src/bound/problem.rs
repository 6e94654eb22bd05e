//! The caching problem as intervals between references, and the savings of holding them.

use super::RecordedTrace;
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
/// positions between the two; holding the page saves the read, unless the next one writes all of the page. The intervals from one write of a
/// page to its next form a run that saves a write when all of them are held. Where dirty pages are
/// left at the end for free, the last write's run ends with an interval up to the end that saves no
/// read; and likewise with one up to the trim that ends the page.
pub(super) struct Problem {
    /// Positions of the references that begin the intervals, page by page in order.
    starts: Vec<u32>,
    /// Positions of the references that end them; the position of its trim or the trace's length for the end.
    ends: Vec<u32>,
    /// True for intervals that save a read.
    saves_reads: Vec<bool>,
    runs: Vec<IntervalRun>,
    /// The number of positions.
    pub(super) length: usize,
    /// Writes among the references.
    pub(super) writes: u64,
    /// References that read where they miss.
    reads: u64,
    /// Frames besides the one that the referenced page occupies.
    pub(super) spare_frames: f64,
    /// The asymmetry R.
    pub(super) asymmetry: f64,
}

impl Problem {
    /// The problem of a trace.
    pub(super) fn new(trace: &RecordedTrace, frames: u64, asymmetry: f64, at_end: AtEnd) -> Self {
        let (references, pages) = (trace.references.as_slice(), trace.pages.len());
        let whole = trace.whole.iter().filter(|&&whole| whole).count();
        let mut problem = Problem {
            starts: Vec::with_capacity(references.len()),
            ends: Vec::with_capacity(references.len()),
            saves_reads: Vec::with_capacity(references.len()),
            runs: Vec::new(),
            length: references.len(),
            writes: 0,
            reads: (references.len() - whole) as u64,
            spare_frames: frames.saturating_sub(1) as f64,
            asymmetry,
        };
        let by_page = Occurrences::new(references, pages);
        let ends = trace.ends_by_page();
        let mut ends = ends.as_slice();
        // A page that is dirty at the end is not written, either.
        let at_end = (at_end == AtEnd::Free).then_some(references.len() as u32);
        for page in 0..pages {
            let mut positions = by_page.of_page(page);
            while let Some((&(_, end), rest)) = ends.split_first().filter(|((it, _), _)| *it as usize == page) {
                let before = positions.partition_point(|&position| position < end);
                problem.add(&positions[..before], trace, Some(end));
                (positions, ends) = (&positions[before..], rest);
            }
            problem.add(positions, trace, at_end);
        }
        problem
    }

    /// Adds a page and the positions of its references. Where it waits for `unwritten_at` it is never written.
    fn add(&mut self, positions: &[u32], trace: &RecordedTrace, unwritten_at: Option<u32>) {
        let references = &trace.references;
        let mut written = false;
        for (index, &position) in positions.iter().enumerate() {
            if references[position as usize] & 1 == 1 {
                self.end_run(written);
                self.writes += 1;
                written = true;
            }
            let (end, saves_read) = match (positions.get(index + 1), unwritten_at) {
                (Some(&next), _) => (next, !trace.is_whole(next as usize)),
                (None, Some(end)) if written => (end, false),
                (None, _) => break,
            };
            self.starts.push(position);
            self.ends.push(end);
            self.saves_reads.push(saves_read);
        }
        self.end_run(written && unwritten_at.is_some());
    }

    fn end_run(&mut self, saves_write: bool) {
        let end = self.starts.len() as u32;
        if self.runs.last().map_or(0, |run| run.end) < end {
            self.runs.push(IntervalRun { end, saves_write });
        }
    }

    /// Calls `each` with the intervals of every run, as (position of the beginning, of the end, the reads saved), and
    /// whether the run saves a write.
    #[inline]
    pub(super) fn for_each_run<'a>(&'a self, mut each: impl FnMut(Intervals<'a>, bool)) {
        let mut start = 0;
        for run in &self.runs {
            let range = start..run.end as usize;
            start = range.end;
            let intervals = Intervals {
                starts: &self.starts[range.clone()],
                ends: &self.ends[range.clone()],
                saves_reads: &self.saves_reads[range],
            };
            each(intervals, run.saves_write);
        }
    }

    /// The bill of all references missing and all writes written back.
    pub(super) fn dearest(&self) -> f64 {
        self.reads as f64 + self.asymmetry * self.writes as f64
    }
}

/// An interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    /// The position of the reference that begins it.
    pub(super) start: u32,
    /// The position of the reference that ends it, or of the end.
    pub(super) end: u32,
    /// The reads that holding it saves.
    pub(super) saved: f64,
}

impl Interval {
    /// Its price: `price(u)` is that of a frame at all positions before u.
    #[inline]
    pub(super) fn price(self, price: &impl Fn(u32) -> f64) -> f64 {
        price(self.end) - price(self.start + 1)
    }

    /// The saving of holding it, less its price.
    #[inline]
    pub(super) fn gain(self, price: &impl Fn(u32) -> f64) -> f64 {
        self.saved - self.price(price)
    }
}

/// The intervals of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intervals<'a> {
    starts: &'a [u32],
    ends: &'a [u32],
    saves_reads: &'a [bool],
}

impl Intervals<'_> {
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = Interval> + '_ {
        let all = self.starts.iter().zip(self.ends).zip(self.saves_reads);
        all.map(|((&start, &end), &saves_read)| Interval { start, end, saved: f64::from(u8::from(saves_read)) })
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
        let trace = RecordedTrace { references: references.to_vec(), pages: vec![0, 1, 2], ..RecordedTrace::default() };
        let problem = Problem::new(&trace, 2, 8.0, at_end);
        assert_eq!((problem.length, problem.writes), (8, 3));
        assert_eq!((problem.spare_frames, problem.dearest()), (1.0, 32.0));
        let mut runs = Vec::new();
        problem.for_each_run(|intervals, saves| {
            runs.push((intervals.starts.to_vec(), intervals.ends.to_vec(), saves));
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
    fn trims_end_runs_and_whole_writes_save_no_read() {
        // Page 0 is written twice, the second time as a whole, and read; then it ends, and comes back. Page 1 is read.
        let trace = RecordedTrace {
            references: vec![1, 2, 1, 0, 2, 0, 0],
            pages: vec![0, 1],
            whole: vec![false, false, true],
            ends: vec![(4, 0)],
        };
        let problem = Problem::new(&trace, 2, 8.0, AtEnd::Flush);
        assert_eq!(problem.dearest(), 6.0 + 16.0);
        let mut runs = Vec::new();
        problem.for_each_run(|intervals, saves| {
            runs.push((intervals.iter().map(|it| (it.start, it.end, it.saved)).collect::<Vec<_>>(), saves));
        });
        let expected = [
            (vec![(0, 2, 0.0)], true),
            (vec![(2, 3, 1.0), (3, 4, 0.0)], true),
            (vec![(5, 6, 1.0)], false),
            (vec![(1, 4, 1.0)], false),
        ];
        assert_eq!(runs, expected);
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
