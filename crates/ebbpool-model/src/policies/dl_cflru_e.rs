//! dl-cflru-e ("Clean first").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// A clean and a dirty LRU list; with each page the erases of its block.
pub(crate) struct DlCflruE {
    clean: List<u32>,
    dirty: List<u32>,
}

impl DlCflruE {
    pub(crate) fn new() -> DlCflruE {
        DlCflruE {
            clean: List::new(),
            dirty: List::new(),
        }
    }

    fn take(&mut self, page: u64) -> u32 {
        if self.clean.contains(page) {
            self.clean.take(page)
        } else {
            self.dirty.take(page)
        }
    }
}

impl Policy for DlCflruE {
    fn hit(&mut self, page: u64, write: bool) {
        let stays_clean = self.clean.contains(page) && !write;
        let erases = self.take(page);
        if stays_clean {
            self.clean.push(page, erases);
        } else {
            self.dirty.push(page, erases);
        }
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        if let Some(page) = self.clean.lru(pinned) {
            return page;
        }
        let half = (self.dirty.len() / 2).max(1);
        let old = self.dirty.items.iter().take(half);
        let unpinned = old.filter(|(page, _)| !pinned.contains(page));
        if let Some((page, _)) = unpinned.min_by_key(|(_, erases)| *erases) {
            return *page;
        }
        self.dirty.lru(pinned).expect("an unpinned page")
    }

    fn erases(&mut self, page: u64, erases: u32) {
        if self.clean.contains(page) {
            *self.clean.state(page) = erases;
        } else {
            *self.dirty.state(page) = erases;
        }
    }

    fn admit(&mut self, page: u64, write: bool) {
        if write {
            self.dirty.push(page, 0);
        } else {
            self.clean.push(page, 0);
        }
    }

    fn evict(&mut self, page: u64) {
        self.take(page);
    }

    fn clean(&mut self, page: u64) {
        let erases = self.dirty.take(page);
        self.clean.push(page, erases);
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        let clean = self.clean.pages().map(|page| (page, false));
        clean
            .chain(self.dirty.pages().map(|page| (page, true)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    #[test]
    fn clean_pages_then_the_least_worn_of_the_older_half() {
        // Clean 2 is evicted though 1 is older. Then 1 3 4 5 are dirty, the half is 1 3: 3 has fewer
        // erases. Then 1 4 | 5 6: 4 has none.
        assert_eq!(
            victims("dl-cflru-e", 4, "W1 R2 W3 W4 E1=2 E3=1 W5 W6 W7"),
            [2, 3, 4]
        );
        // Of three dirty pages the half is one.
        assert_eq!(victims("dl-cflru-e", 3, "W1 W2 W3 E1=9 W4"), [1]);
        // A hit for reading keeps a page dirty and makes it the most recent.
        assert_eq!(victims("dl-cflru-e", 3, "W1 W2 W3 R1 W4"), [2]);
        // All of the half is pinned.
        assert_eq!(victims("dl-cflru-e", 3, "W1 W2 W3 +1 W4"), [2]);
    }
}
