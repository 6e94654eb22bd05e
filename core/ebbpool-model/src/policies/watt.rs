//! watt (Vöhringer and Leis, PVLDB 16, 2023), as the `how` of its entry in the registry describes it.

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::sampler::{Sampler, Slots};

struct Page {
    /// Epochs of all accesses and writes since its admission, oldest first, each epoch once.
    accesses: Vec<u64>,
    writes: Vec<u64>,
}

pub(crate) struct Watt {
    pages: Slots<Page>,
    sampler: Sampler,
    sample: usize,
    first: f64,
    misses_per_epoch: u64,
    misses: u64,
    asymmetry: f64,
}

fn note(epochs: &mut Vec<u64>, epoch: u64) {
    if epochs.last() != Some(&epoch) {
        epochs.push(epoch);
    }
}

/// The highest rate of the latest 1, 2, ... `most` accesses.
fn rate(epochs: &[u64], most: usize, now: u64, first: f64) -> f64 {
    let latest = epochs.iter().rev().take(most).enumerate();
    let rates = latest.map(|(at, epoch)| {
        let accesses = if at == 0 { first } else { at as f64 + 1.0 };
        let rate = accesses / ((now - epoch) as f64 + 1.0);
        rate.min(1.0)
    });
    rates.fold(0.0, f64::max)
}

impl Watt {
    pub(crate) fn new(m: usize, sample: u64, epochs: u64, first: f64) -> Watt {
        Watt {
            pages: Slots::new(m),
            sampler: Sampler::new(),
            sample: (sample as usize).min(m / 2).max(1),
            first,
            misses_per_epoch: (m as u64 / epochs).max(1),
            misses: 0,
            asymmetry: 1.0,
        }
    }

    fn epoch(&self) -> u64 {
        self.misses / self.misses_per_epoch
    }
}

impl Policy for Watt {
    fn hit(&mut self, page: u64, write: bool) {
        let epoch = self.epoch();
        let state = self.pages.of(page);
        note(&mut state.accesses, epoch);
        if write {
            note(&mut state.writes, epoch);
        }
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let now = self.epoch();
        let drawn = self.sampler.slots(&self.pages.evictable(pinned), self.sample);
        let value = |slot: usize| {
            let (_, page) = self.pages.at(slot);
            let writes = rate(&page.writes, 4, now, self.first);
            rate(&page.accesses, 8, now, self.first) + self.asymmetry * writes
        };
        let least = drawn.into_iter().min_by(|a, b| value(*a).total_cmp(&value(*b)));
        self.pages.at(least.expect("an unpinned page")).0
    }

    fn admit(&mut self, page: u64, write: bool) {
        let epoch = self.epoch();
        let state = Page { accesses: vec![epoch], writes: if write { vec![epoch] } else { Vec::new() } };
        self.pages.admit(page, state);
        self.misses += 1;
    }

    fn evict(&mut self, page: u64) {
        self.pages.remove(page);
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
    }
}

#[cfg(test)]
mod tests {
    use super::rate;

    /// The example of the authors' talk: accesses at 0 and 8, now 10.
    #[test]
    fn subfrequencies() {
        assert_eq!(rate(&[0, 8], 8, 10, 1.0), 1.0 / 3.0);
        assert_eq!(rate(&[0, 8], 8, 10, 0.1), 2.0 / 11.0);
        assert_eq!(rate(&[0, 8], 1, 10, 0.1), 0.1 / 3.0);
        assert_eq!(rate(&[9, 10], 8, 10, 0.1), 1.0);
        assert_eq!(rate(&[], 8, 10, 0.1), 0.0);
    }
}
