//! dulo (Jiang et al. 2005), as the `how` of its entry in the registry describes it.

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// A sequence has at most this many pages.
const LONGEST: usize = 64;

/// A page of the evicting section.
#[derive(Clone, Copy)]
struct Sequenced {
    /// H of its sequence.
    value: f64,
    /// Pages in its sequence when that was formed.
    size: usize,
}

pub(crate) struct Dulo {
    correlation_size: usize,
    bank_size: usize,
    correlation: List<()>,
    bank: List<()>,
    /// In the order in which sequences were formed, and of page numbers within each.
    evicting: List<Sequenced>,
    /// L.
    inflation: f64,
}

impl Dulo {
    pub(crate) fn new(correlation_size: usize, bank_size: usize) -> Dulo {
        Dulo {
            correlation_size,
            bank_size: bank_size.max(1),
            correlation: List::new(),
            bank: List::new(),
            evicting: List::new(),
            inflation: 0.0,
        }
    }

    fn take(&mut self, page: u64) {
        if self.correlation.contains(page) {
            self.correlation.take(page);
        } else if self.bank.contains(page) {
            self.bank.take(page);
        } else {
            self.evicting.take(page);
        }
    }

    fn enter(&mut self, page: u64) {
        self.correlation.push(page, ());
        if self.correlation.len() > self.correlation_size {
            let (oldest, ()) = self.correlation.items.remove(0);
            self.bank.push(oldest, ());
        }
        if self.bank.len() == self.bank_size {
            self.form_sequences();
        }
    }

    fn form_sequences(&mut self) {
        let mut pages: Vec<u64> = self.bank.pages().collect();
        self.bank.items.clear();
        pages.sort_unstable();
        let mut sequences: Vec<Vec<u64>> = Vec::new();
        for page in pages {
            match sequences.last_mut() {
                Some(last) if last[last.len() - 1] == page - 1 && last.len() < LONGEST => {
                    last.push(page);
                }
                _ => sequences.push(vec![page]),
            }
        }
        for sequence in sequences {
            let size = sequence.len();
            let value = self.inflation + 1.0 / size as f64;
            for page in sequence {
                self.evicting.push(page, Sequenced { value, size });
            }
        }
    }
}

impl Policy for Dulo {
    fn hit(&mut self, page: u64, _write: bool) {
        self.take(page);
        self.enter(page);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let mut best: Option<(u64, Sequenced)> = None;
        for (page, new) in &self.evicting.items {
            let less = best.is_none_or(|(_, best)| new.value < best.value || (new.value == best.value && new.size > best.size));
            if !pinned.contains(page) && less {
                best = Some((*page, *new));
            }
        }
        let sequenced = best.map(|(page, _)| page);
        let bank = self.bank.lru(pinned);
        let correlation = self.correlation.lru(pinned);
        let victim = sequenced.or(bank).or(correlation);
        victim.expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, _write: bool) {
        self.enter(page);
    }

    fn evict(&mut self, page: u64) {
        if self.evicting.contains(page) {
            self.inflation = self.inflation.max(self.evicting.state(page).value);
        }
        self.take(page);
    }
}
