//! fd-static ("Adaptive").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::pools::{Pool, pool};
use crate::spec::Fraction;

/// A clean and a dirty pool.
pub(crate) struct FdStatic {
    m: usize,
    /// Mc, the target number of clean pages; that of dirty pages is m - Mc.
    pub(crate) mc: usize,
    clean: Box<dyn Pool>,
    dirty: Box<dyn Pool>,
}

impl FdStatic {
    /// `clean` is a fraction with a per cent sign or a decimal point, else a page count.
    pub(crate) fn new(clean: &str, m: usize) -> FdStatic {
        let mc = if clean.contains(['%', '.']) {
            Fraction::parse(clean).of(m)
        } else {
            clean.parse().expect("`clean` is a number of pages")
        };
        FdStatic::with(mc, m, "lru")
    }

    pub(crate) fn with(mc: usize, m: usize, pools: &str) -> FdStatic {
        FdStatic { m, mc: mc.clamp(1, m), clean: pool(pools), dirty: pool(pools) }
    }

    fn md(&self) -> usize {
        self.m - self.mc
    }

    pub(crate) fn is_clean(&self, page: u64) -> bool {
        self.clean.pages().contains(&page)
    }
}

impl Policy for FdStatic {
    fn hit(&mut self, page: u64, write: bool) {
        match (self.is_clean(page), write) {
            (true, false) => self.clean.hit(page),
            (false, _) => self.dirty.hit(page),
            (true, true) => {
                self.clean.leave_for_other(page);
                self.dirty.enter(page);
            }
        }
    }

    fn victim(&mut self, write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let c = self.clean.pages();
        let d = self.dirty.pages();
        // A pool without an unpinned page counts as empty.
        let c_is_empty = c.iter().all(|page| pinned.contains(page));
        let d_is_empty = d.iter().all(|page| pinned.contains(page));
        let from_clean = if c_is_empty {
            false
        } else if d_is_empty {
            true
        } else if write {
            c.len() > self.mc
        } else {
            // From D if |D| > Md.
            d.len() <= self.md()
        };
        if from_clean { self.clean.victim(self.mc, pinned) } else { self.dirty.victim(self.md(), pinned) }
    }

    fn admit(&mut self, page: u64, write: bool) {
        if write {
            self.dirty.enter(page);
        } else {
            self.clean.enter(page);
        }
    }

    fn evict(&mut self, page: u64) {
        if self.is_clean(page) {
            self.clean.leave_buffer(page, self.mc);
        } else {
            self.dirty.leave_buffer(page, self.md());
        }
    }

    fn clean(&mut self, page: u64) {
        self.dirty.leave_for_other(page);
        self.clean.enter(page);
    }

    fn target(&self) -> Option<f64> {
        Some(self.mc as f64)
    }
}

#[cfg(test)]
mod tests {
    use crate::model;

    #[test]
    fn clean_is_a_fraction_or_a_count() {
        let mc = |spec: &str, m: usize| model(spec, m).target();
        assert_eq!(mc("fd-static", 7), Some(3.0));
        assert_eq!(mc("fd-static:clean=29%", 100), Some(29.0));
        assert_eq!(mc("fd-static:clean=1", 100), Some(1.0));
        assert_eq!(mc("fd-static:clean=1.0", 100), Some(100.0));
        assert_eq!(mc("fd-static:clean=0", 100), Some(1.0));
        assert_eq!(mc("fd-static:clean=0%", 100), Some(1.0));
        assert_eq!(mc("fd-static:clean=1000", 100), Some(100.0));
        assert_eq!(mc("fd-static:clean=30%", 1), Some(1.0));
    }
}
