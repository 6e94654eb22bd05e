//! Finds the cheapest schedule of a very short trace by trying all schedules.

use std::collections::BTreeMap;

/// The longest trace, in references; longer traces have too many schedules to try.
pub(crate) const MOST_REFERENCES: usize = 200;

/// The most states of the search; with more states it gives up.
const MOST_STATES: usize = 200_000;

/// The reads and writes of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bill {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

impl Bill {
    fn cost(self, asymmetry: f64) -> f64 {
        self.reads as f64 + asymmetry * self.writes as f64
    }
}

/// The resident pages and their dirty flags, in the order of page numbers.
type Buffer = Vec<(u64, bool)>;

/// The bill of the cheapest schedule. A reference is a page and a flag for a write. The first `warmup`
/// references and the dirty pages at the end are free. `None` if there are too many schedules.
pub(crate) fn cheapest(references: &[(u64, bool)], frames: usize, asymmetry: f64, warmup: usize) -> Option<Bill> {
    if references.len() > MOST_REFERENCES {
        return None;
    }
    let mut states: BTreeMap<Buffer, Bill> = BTreeMap::from([(Vec::new(), Bill::default())]);
    for (at, &(page, write)) in references.iter().enumerate() {
        let counts = u64::from(at >= warmup);
        let mut next: BTreeMap<Buffer, Bill> = BTreeMap::new();
        for (buffer, bill) in &states {
            for (buffer, step) in after(buffer, page, write, frames) {
                let bill = Bill { reads: bill.reads + counts * step.reads, writes: bill.writes + counts * step.writes };
                let best = next.entry(buffer).or_insert(bill);
                if bill.cost(asymmetry) < best.cost(asymmetry) {
                    *best = bill;
                }
            }
        }
        if next.len() > MOST_STATES {
            return None;
        }
        states = next;
    }
    let cost = |bill: &Bill| bill.cost(asymmetry);
    states.into_values().min_by(|a, b| cost(a).total_cmp(&cost(b)))
}

/// All buffers that are possible after a reference, with the bill of the step to each.
fn after(buffer: &Buffer, page: u64, write: bool, frames: usize) -> Vec<(Buffer, Bill)> {
    let mut with = buffer.clone();
    match buffer.binary_search_by_key(&page, |&(page, _)| page) {
        Ok(at) => {
            with[at].1 |= write;
            vec![(with, Bill::default())]
        }
        Err(at) if buffer.len() < frames => {
            with.insert(at, (page, write));
            vec![(with, Bill { reads: 1, writes: 0 })]
        }
        Err(_) => (0..buffer.len())
            .map(|victim| {
                let mut next = buffer.clone();
                let (_, dirty) = next.remove(victim);
                let at = next.partition_point(|&(other, _)| other < page);
                next.insert(at, (page, write));
                let bill = Bill { reads: 1, writes: u64::from(dirty) };
                (next, bill)
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The string of CIKM table 2: Y and X resident and clean, then nine references.
    fn of_the_paper() -> Vec<(u64, bool)> {
        let [a, b, c, d, x, y] = [0, 1, 2, 3, 23, 24];
        vec![
            (y, false),
            (x, false),
            (a, true),
            (b, true),
            (c, false),
            (d, false),
            (c, false),
            (d, false),
            (c, false),
            (b, true),
            (a, false),
        ]
    }

    #[test]
    fn table_2_of_the_paper() {
        let bill = |asymmetry| cheapest(&of_the_paper(), 2, asymmetry, 2);
        let few_reads = Bill { reads: 6, writes: 2 };
        let few_writes = Bill { reads: 8, writes: 1 };
        assert_eq!(bill(1.0), Some(few_reads));
        assert_eq!(bill(1.9), Some(few_reads));
        assert_eq!(bill(2.1), Some(few_writes));
        assert_eq!(bill(32.0), Some(few_writes));
    }

    #[test]
    fn a_long_trace_is_refused() {
        let long = vec![(1, false); MOST_REFERENCES + 1];
        assert_eq!(cheapest(&long, 2, 1.0, 0), None);
    }
}
