//! The Two-Stack estimator of fd-buffer ("Adaptive", fd-buffer, "Two-Stack").

/// One stack entry. The page is in the pool iff the pool's size is at least `threshold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) page: u64,
    /// The page has ended: its place stays until it falls off the stack.
    pub(crate) ended: bool,
    pub(crate) threshold: usize,
}

/// The stacks and the counters of one window.
pub(crate) struct TwoStack {
    m: usize,
    group: usize,
    /// The first entry is the top. At most m entries.
    pub(crate) clru: Vec<Entry>,
    pub(crate) dlru: Vec<Entry>,
    /// Cells 1 to m, and at m + 1 infinity. Cell 0 is not used.
    pub(crate) c: Vec<u64>,
    pub(crate) d: Vec<u64>,
    /// Writes alone.
    pub(crate) dw: Vec<u64>,
    /// References and writes of this window.
    pub(crate) n: u64,
    pub(crate) writes: u64,
}

fn find(stack: &[Entry], page: u64) -> Option<usize> {
    stack.iter().position(|entry| entry.page == page && !entry.ended)
}

impl TwoStack {
    pub(crate) fn new(m: usize, group: usize) -> TwoStack {
        TwoStack {
            m,
            group,
            clru: Vec::new(),
            dlru: Vec::new(),
            c: vec![0; m + 2],
            d: vec![0; m + 2],
            dw: vec![0; m + 2],
            n: 0,
            writes: 0,
        }
    }

    /// The distance of the entry at this index, rounded to its group.
    fn distance(&self, index: usize) -> usize {
        let exact = index + 1;
        1 + self.group * ((exact - 1) / self.group)
    }

    pub(crate) fn observe(&mut self, page: u64, write: bool) {
        let infinity = self.m + 1;
        // Distances and thresholds before any move.
        let in_c = find(&self.clru, page);
        let in_d = find(&self.dlru, page);
        let c_before = in_c.map(|index| (self.distance(index), self.clru[index].threshold));
        let d_before = in_d.map(|index| (self.distance(index), self.dlru[index].threshold));

        let i = c_before.map_or(infinity, |(dc, a)| dc.max(a));
        let j = d_before.map_or(infinity, |(dd, b)| dd.max(b));
        self.c[i] += 1;
        self.d[j] += 1;
        self.n += 1;
        if write {
            self.dw[j] += 1;
            self.writes += 1;
        }

        // The page's new entries, on top of the stacks.
        let (new_a, new_b) = if write {
            (None, Some(1))
        } else {
            match (c_before, d_before) {
                (None, None) => (Some(1), None),
                (Some(_), None) => (Some(1), None),
                (None, Some((dd, b))) => (Some(self.m - dd + 1), Some(b.max(dd))),
                (Some((_, a)), Some((dd, b))) => (Some(a.min(self.m - dd + 1)), Some(b.max(dd))),
            }
        };
        self.clru.retain(|entry| entry.page != page || entry.ended);
        self.dlru.retain(|entry| entry.page != page || entry.ended);
        if let Some(threshold) = new_a {
            self.clru.insert(0, Entry { page, threshold, ended: false });
            self.clru.truncate(self.m);
        }
        if let Some(threshold) = new_b {
            self.dlru.insert(0, Entry { page, threshold, ended: false });
            self.dlru.truncate(self.m);
        }
    }

    /// The page ends.
    pub(crate) fn end(&mut self, page: u64) {
        for entry in self.clru.iter_mut().chain(&mut self.dlru) {
            entry.ended |= entry.page == page;
        }
    }

    /// Pc, Pd and Pdw for each Mc from 1 to m - 1 (at index Mc - 1).
    pub(crate) fn estimates(&self) -> Vec<[f64; 3]> {
        // The number of counts in cells 1 to k, for each k.
        let up_to = |counters: &[u64]| -> Vec<u64> {
            let mut sum = 0;
            let mut sums = vec![0];
            for count in &counters[1..=self.m] {
                sum += count;
                sums.push(sum);
            }
            sums
        };
        let (c, d, dw) = (up_to(&self.c), up_to(&self.d), up_to(&self.dw));
        let estimates = (1..self.m).map(|mc| {
            let md = self.m - mc;
            let pc = 1.0 - c[mc] as f64 / self.n as f64;
            let pd = 1.0 - d[md] as f64 / self.n as f64;
            let pdw = if self.writes == 0 { 0.0 } else { 1.0 - dw[md] as f64 / self.writes as f64 };
            [pc, pd, pdw]
        });
        estimates.collect()
    }

    /// A new window: all counters restart at zero, the stacks stay.
    pub(crate) fn restart(&mut self) {
        self.c.fill(0);
        self.d.fill(0);
        self.dw.fill(0);
        self.n = 0;
        self.writes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(stack: &[Entry]) -> Vec<(u64, usize)> {
        let entries = stack.iter();
        entries.map(|entry| (entry.page, entry.threshold)).collect()
    }

    #[test]
    fn thresholds() {
        let mut two = TwoStack::new(4, 1);
        two.observe(1, true);
        two.observe(2, true);
        assert_eq!(entries(&two.dlru), [(2, 1), (1, 1)]);
        // In DLRU only, at distance 2: b = 2, and onto CLRU with a = 4 - 2 + 1.
        two.observe(1, false);
        assert_eq!(entries(&two.dlru), [(1, 2), (2, 1)]);
        assert_eq!(entries(&two.clru), [(1, 3)]);
        // In both, each at distance 1: i = max(1, 3), j = max(1, 2);
        // a = min(3, 4 - 1 + 1), b = max(2, 1).
        two.observe(1, false);
        assert_eq!(entries(&two.dlru), [(1, 2), (2, 1)]);
        assert_eq!(entries(&two.clru), [(1, 3)]);
        // Written: i = 3, j = 2; it leaves CLRU.
        two.observe(1, true);
        assert_eq!(entries(&two.dlru), [(1, 1), (2, 1)]);
        assert_eq!(entries(&two.clru), []);
        // Written: i = infinity, j = 1.
        two.observe(1, true);
        // Cells 0, 1, 2, 3, 4, infinity.
        assert_eq!(two.c, [0, 0, 0, 2, 0, 4]);
        assert_eq!(two.d, [0, 1, 3, 0, 0, 2]);
        assert_eq!(two.dw, [0, 1, 1, 0, 0, 2]);
        assert_eq!(
            two.estimates(),
            [[1.0, 1.0 - 4.0 / 6.0, 0.5], [1.0, 1.0 - 4.0 / 6.0, 0.5], [1.0 - 2.0 / 6.0, 1.0 - 1.0 / 6.0, 0.75],]
        );
    }

    #[test]
    fn reads_alone() {
        let mut two = TwoStack::new(3, 1);
        for page in [1, 2, 3, 1, 4, 2] {
            two.observe(page, false);
        }
        // 1 at distance 3; then 4 drops 2, which is at infinity again and drops 3.
        assert_eq!(two.c, [0, 0, 0, 1, 5]);
        assert_eq!(two.d, [0, 0, 0, 0, 6]);
        assert_eq!(entries(&two.clru), [(2, 1), (4, 1), (1, 1)]);
        assert_eq!(two.estimates()[0], [1.0, 1.0, 0.0]);
    }

    #[test]
    fn both_stacks_at_a_larger_distance() {
        let mut two = TwoStack::new(4, 1);
        two.observe(1, true);
        two.observe(1, false); // a = 4, b = 1
        two.observe(2, true);
        two.observe(3, true);
        two.observe(4, false);
        assert_eq!(entries(&two.clru), [(4, 1), (1, 4)]);
        assert_eq!(entries(&two.dlru), [(3, 1), (2, 1), (1, 1)]);
        // dc = 2, dd = 3: a = min(4, 4 - 3 + 1) = 2, b = 3.
        two.observe(1, false);
        assert_eq!(entries(&two.clru), [(1, 2), (4, 1)]);
        assert_eq!(entries(&two.dlru), [(1, 3), (3, 1), (2, 1)]);
        // CLRU only: a = 1 again.
        two.observe(4, false);
        assert_eq!(entries(&two.clru), [(4, 1), (1, 2)]);
    }

    #[test]
    fn groups() {
        let mut two = TwoStack::new(4, 2);
        for page in [1, 2, 3] {
            two.observe(page, true);
        }
        two.observe(1, true); // distance 3 is 3
        two.observe(3, true); // distance 2 is 1
        assert_eq!(two.dw, [0, 1, 0, 1, 0, 3]);
        // 2 is at distance 3 -> a = 4 - 3 + 1; then 1, at distance 3 -> the same.
        two.observe(2, false);
        assert_eq!(entries(&two.clru), [(2, 2)]);
        // 3 is at distance 2, which is 1 -> a = 4.
        two.observe(3, false);
        assert_eq!(entries(&two.clru), [(3, 4), (2, 2)]);
    }
}
