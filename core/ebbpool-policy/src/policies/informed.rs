//! The policy that knows how probable each reference is.

use std::sync::Arc;

use prefetch_index::prefetch_index;

use crate::heap::IndexedHeap;
use crate::policy::{Access, Capabilities, Costs, Frame, Page, PageProbabilities, PageProbability, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry};

/// Evicts the page whose next references are expected to cost least without it. It knows the probability of a read and
/// of a write of each page, and nothing of the references themselves.
pub struct Informed {
    asymmetry: f64,
    probabilities: Arc<PageProbabilities>,
    /// Of the page in each frame.
    of_frame: Vec<PageProbability>,
    dirty: Vec<bool>,
    /// The resident pages by value, then by number.
    by_value: IndexedHeap<(f64, Page)>,
}

impl RegisteredPolicy for Informed {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "informed",
        aliases: &[],
        params: &[],
        summary: "Evicts the page whose expected cost per reference is least, from the true probabilities of reads and writes (offline).",
        how: "It knows p, the probability that the next reference is to a page, and w, the probability that it writes the page. A dirty page that stays saves p + R w page reads per reference: its reads, and the write-backs of its writes. A clean page that stays saves its reads, p, and no more, since its next write makes it dirty whether it stayed or not. These are the values of pages; the page of least value is evicted; among equals the one with the lowest number. Where references are independent of each other, their past says no more of the future than these probabilities do.",
        when: "A yardstick, not a choice: only generators of independent references (zipf, self-similar, uniform) know their probabilities, and other traces are refused. Once warm it costs, per reference, at most the value of one page more than the least that a policy can cost which does not know the references to come (docs/bounds.md has the argument), so its distance to another policy is what that policy could still learn. The simulator stores 16 bytes per page of the database for it.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(41),
        source: "this project; for reads alone A0 of Aho, Denning and Ullman 1971; an index policy after Whittle 1988",
    };

    fn new(_config: (), frames: u32) -> Self {
        let count = frames as usize;
        Informed {
            asymmetry: Costs::default().asymmetry(),
            probabilities: Arc::default(),
            of_frame: vec![PageProbability::default(); count],
            dirty: vec![false; count],
            by_value: IndexedHeap::new(frames, frames),
        }
    }
}

impl Informed {
    /// The expected cost per reference, in page reads, that the page in `frame` saves by staying.
    #[inline]
    fn value(&self, frame: Frame) -> f64 {
        let PageProbability { reference, write } = self.of_frame[frame as usize];
        match self.dirty[frame as usize] {
            true => reference + self.asymmetry * write,
            false => reference,
        }
    }

    /// Gives the page in `frame`, which is resident, its present value.
    fn update(&mut self, frame: Frame) {
        if let Some((_, page)) = self.by_value.key(frame) {
            self.by_value.set(frame, (self.value(frame), page));
        }
    }
}

impl Policy for Informed {
    const CAPABILITIES: Capabilities =
        Capabilities::LEAVES_HITS_OUT.union(Capabilities::COSTS).union(Capabilities::PROBABILITIES);

    /// A hit changes nothing, except where it makes a clean page dirty.
    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        if access.is_write() && !std::mem::replace(&mut self.dirty[frame as usize], true) {
            self.update(frame);
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        prefetch_index(&self.dirty, frame as usize);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.by_value.least_where(may_evict)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.of_frame[frame as usize] = self.probabilities.for_page(page);
        self.dirty[frame as usize] = access.is_write();
        self.by_value.set(frame, (self.value(frame), page));
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.by_value.remove(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.dirty[frame as usize] = false;
        self.update(frame);
    }

    fn costs(&mut self, costs: Costs) {
        let asymmetry = costs.asymmetry();
        if asymmetry != self.asymmetry {
            self.asymmetry = asymmetry;
            (0..self.dirty.len() as Frame).for_each(|frame| self.update(frame));
        }
    }

    fn probabilities(&mut self, probabilities: Arc<PageProbabilities>) {
        self.probabilities = probabilities;
    }
}
