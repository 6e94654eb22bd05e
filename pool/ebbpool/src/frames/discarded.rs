//! Changes that were discarded and have to be redone.

use std::collections::BTreeMap;

use crate::log::Lsn;
use crate::sync::Mutex;

/// Pages that were discarded with changes that storage does not have, and the LSN of the first of these changes:
/// until the caller has redone them, recovery needs the log from there.
#[derive(Debug, Default)]
pub(crate) struct DiscardedPages(Mutex<BTreeMap<u64, Lsn>>);

impl DiscardedPages {
    pub(crate) fn note(&self, page: u64, first: Lsn) {
        if first != 0 {
            let mut discarded = self.0.lock();
            let noted = discarded.entry(page).or_insert(first);
            *noted = first.min(*noted);
        }
    }

    pub(crate) fn first_of(&self, page: u64) -> Option<Lsn> {
        self.0.lock().get(&page).copied()
    }

    pub(crate) fn pages(&self) -> Vec<u64> {
        self.0.lock().keys().copied().collect()
    }

    pub(crate) fn forget(&self, page: u64) {
        self.0.lock().remove(&page);
    }

    /// The smallest LSN of the discarded pages and of what `found` returns. No page is noted or forgotten meanwhile.
    pub(crate) fn first_beside(&self, found: impl FnOnce() -> Option<Lsn>) -> Option<Lsn> {
        let discarded = self.0.lock();
        discarded.values().copied().chain(found()).min()
    }
}
